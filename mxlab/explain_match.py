"""Compare one message with the text around one of its pieces, and read the values between."""

import re
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate

from mxlab.explain_index import GRAM, Place, Template
from mxlab.explain_text import View, balanced, flatten, unwrap

_BLOCK = 1 << 11
_LEFT, _RIGHT = 1 << 10, 3 << 10  # what belongs to a message lies within these of its anchor
_FIELD = 300  # flat characters of a value
_TRIES = 16  # a value may hold the literal behind it, as (2, 128) holds a comma
WORDS = 4  # words that a part of a message must have: a flag or a variable alone is none
_PARTIAL = 20  # literal characters that must be there where a message is incomplete
_SHOWN = 400  # characters of the text of a hit
_PREFIX = 500  # bytes of a line before a message in which its rank is sought
_LOOK_BACK = 1 << 14  # bytes of a traceback above its last line

_SOURCE = re.compile(rb"\{[A-Za-z_][^{}'\",]{0,80}\}")  # the f-string in the code, not its text
_PUNCTUATION = re.compile(rb"[.,;:!]*")
_RANK = re.compile(
    rb"\b((?:DP|TP|PP|EP)\d{1,4}(?:[ _](?:DP|TP|PP|EP)\d{1,4}){0,3}|[Rr]ank ?\d{1,5})\b"
)
_TRACEBACK = b"Traceback (most recent call last)"
_ESCAPED_QUOTE = re.compile(rb"\\+(?=[\"'])")
# What stands around a message that has its place for itself: \x82, \xe2 are those of a box frame.
_ALONE_LEFT = re.compile(
    rb"(?:^|[\n\r\v>\"'`\x82\x83]|[:\]] ?|(?::\d{1,6}|ERROR|WARNING|INFO|CRITICAL) - )[ \t]*$"
)
_ALONE = 32  # bytes before a message in which a log's own words stand
_ALONE_RIGHT = re.compile(rb"[ \t.]*(?:$|[\r\n\v\"'`\\|\xe2])")


@dataclass(frozen=True, slots=True)
class Hit:
    """One message found: its values, where it stands, and how much of it is there."""

    template: Template
    values: tuple[tuple[str, str], ...]
    complete: bool
    matched: int  # literal characters
    start: int  # flat positions in the log
    end: int
    text: str
    line: int
    rank: str


@dataclass(frozen=True, slots=True)
class _Aligned:
    start: int
    end: int
    matched: int
    complete: bool
    values: dict[str, str]


def align(view: View, found: Template, piece: int, low: int, high: int) -> _Aligned | None:
    """Compare a message outwards from a piece, or a part of it, that stands at ``low:high``.

    Goes on past an end of the piece only where that end is there. Returns None where the text is
    the source code of the message: ``got {self.head_dim}`` is not a value.
    """
    values: dict[str, str] = {}
    pieces, last = found.pieces, len(found.pieces) - 1
    whole, there = pieces[piece], view.flat[low:high]
    up = piece if whole.endswith(there) else last + 1
    down = piece if whole.startswith(there) else -1
    start, end, matched = low, high, high - low
    while up < last:
        literal = pieces[up + 1]
        if up + 1 == last and found.on_a_line:
            raw, end = view.line(end)
        elif up + 1 == last and _PUNCTUATION.fullmatch(literal):
            raw, end = view.after(end)
            raw = raw.rstrip(b".,;:!\\")
        else:
            at, length = _next(view, found, up + 1, end)
            if at < 0:
                break
            raw, end = view.between(end, at), at + length
            if length < len(literal):  # cut off behind the value
                _read(values, found, up, raw)
                matched += length
                break
        if not _read(values, found, up, raw):
            return None
        matched += len(literal)
        up += 1
    while down > 0:
        literal = pieces[down - 1]
        if down == 1 and not literal:
            raw, start = view.before(start)
        else:
            at, length = _previous(view, found, down - 1, start)
            if at < 0:
                break
            raw, start = view.between(at + length, start), at
            if length < len(literal):
                _read(values, found, down - 1, raw)
                matched += length
                break
        if not _read(values, found, down - 1, raw):
            return None
        matched += len(literal)
        down -= 1
    ordered = {name: values[name] for name in found.fields if name in values}
    return _Aligned(start, end, matched, up == last and down == 0, ordered)


def _read(values: dict[str, str], found: Template, number: int, raw: bytes) -> bool:
    if _SOURCE.search(raw):
        return False
    raw = _ESCAPED_QUOTE.sub(b"", raw).strip()
    raw = raw.strip(b"'\"`\\") if found.quoted[number] else raw.strip(b"`")
    values[found.fields[number]] = unwrap(raw, value=True)
    return True


def _next(view: View, found: Template, piece: int, low: int) -> tuple[int, int]:
    """Return where a piece follows a value, and how much of it stands there: at least a gram."""
    literal = found.pieces[piece]
    head, at = literal[:GRAM], low - 1
    cut = (-1, 0)
    for _ in range(_TRIES):
        at = view.flat.find(head, at + 1, low + _FIELD + len(head))
        if at < 0:
            break
        if balanced(view.between(low, at)):
            length = _common(literal, view.flat[at : at + len(literal)])
            if length == len(literal):
                if _is_word(view, found, piece, at):
                    return at, length
                continue
            cut = cut if cut[1] else (at, length)
    return cut


def _previous(view: View, found: Template, piece: int, high: int) -> tuple[int, int]:
    """Return where a piece, or at least a gram at its end, stands before a value."""
    literal = found.pieces[piece]
    tail, end = literal[-GRAM:], high
    cut = (-1, 0)
    for _ in range(_TRIES):
        at = view.flat.rfind(tail, max(0, high - _FIELD - len(tail)), end)
        if at < 0:
            break
        end = at + len(tail) - 1
        if balanced(view.between(at + len(tail), high)):
            there = view.flat[max(0, at + len(tail) - len(literal)) : at + len(tail)]
            length = _common(literal[::-1], there[::-1])
            if length == len(literal):
                if _is_word(view, found, piece, at + len(tail) - length):
                    return at + len(tail) - length, length
                continue
            cut = cut if cut[1] else (at + len(tail) - length, length)
    return cut


def _is_word(view: View, found: Template, piece: int, at: int) -> bool:
    """Tell whether a short piece stands apart where its message has white space or an end.

    The ``on`` of ``got {dtype} on {gpu}`` is not that of None.
    """
    literal = found.pieces[piece]
    if len(literal) >= GRAM:
        return True
    start, end = view.at[at], view.at[at + len(literal) - 1] + 1
    apart_before, apart_after = found.spaced[piece]
    apart_after = apart_after or piece == len(found.pieces) - 1
    before, first = view.raw[max(0, start - 1) : start], view.raw[start : start + 1]
    last, after = view.raw[end - 1 : end], view.raw[end : end + 1]
    if apart_before and _wordy(before) and _wordy(first):
        return False
    return not (apart_after and _wordy(last) and _wordy(after))


def _common(one: bytes, other: bytes) -> int:
    """Return how many bytes two texts have in common at their beginnings."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))


def _stands_alone(view: View, found: Template, start: int, end: int) -> bool:
    """Tell whether a match has word boundaries at both ends, and for a short one more than that."""
    if start >= end:
        return False
    raw_start, raw_end = view.at[start], view.at[end - 1] + 1
    left, right = view.raw[max(0, raw_start - 4) : raw_start], view.raw[raw_end : raw_end + 4]
    if found.pieces[0] and _wordy(left[-1:]) and _wordy(view.raw[raw_start : raw_start + 1]):
        return False
    if found.pieces[-1] and _wordy(right[:1]) and _wordy(view.raw[raw_end - 1 : raw_end]):
        return False
    if not found.short:
        return True
    left = view.raw[max(0, raw_start - _ALONE) : raw_start]
    return bool(_ALONE_LEFT.search(left)) and bool(_ALONE_RIGHT.match(right))


def _wordy(byte: bytes) -> bool:
    return byte.isalnum() or byte == b"_"


class Window:
    """A chunk of a log cut into blocks, so that flat positions lead to places, lines and ranks."""

    def __init__(self, raw: bytes, flat_base: int = 0, line: int = 1) -> None:
        self.raw, self.flat_base = raw, flat_base
        blocks = [raw[at : at + _BLOCK] for at in range(0, len(raw), _BLOCK)]
        self._flat = list(accumulate((len(flatten(b)) for b in blocks), initial=0))
        self._lines = list(accumulate((b.count(b"\n") for b in blocks), initial=line))
        self._view: tuple[int, View] = (-1, View.of(b""))

    def read(self, place: Place, at: int) -> Hit | None:
        """Return the message of which a piece stands around flat position ``at`` of the chunk."""
        found, piece, offset = place
        view = self._around(at)
        low = at - offset - view.flat_start
        if low < 0:
            return None
        return self.hit(view, found, piece, low, low + len(found.pieces[piece]), _PARTIAL)

    def hit(
        self, view: View, found: Template, piece: int, low: int, high: int, least: int
    ) -> Hit | None:
        """Compare the message from ``low:high`` of the view on; None where it does not convince."""
        got = align(view, found, piece, low, high)
        if got is None or not _stands_alone(view, found, got.start, got.end):
            return None
        raw_start = view.raw_start + view.at[got.start]
        raw_end = view.raw_start + view.at[got.end - 1] + 1
        text = unwrap(self.raw[raw_start:raw_end])
        words = len(text.split(maxsplit=WORDS))
        if not got.complete and (got.matched < least or found.short or words < WORDS):
            return None
        block = raw_start // _BLOCK
        return Hit(
            template=found,
            values=tuple(got.values.items()),
            complete=got.complete,
            matched=got.matched,
            start=self.flat_base + view.flat_start + got.start,
            end=self.flat_base + view.flat_start + got.end,
            text=text[:_SHOWN],
            line=self._lines[block] + self.raw.count(b"\n", block * _BLOCK, raw_start),
            rank=self._rank(raw_start),
        )

    def _around(self, at: int) -> View:
        block = bisect_right(self._flat, at) - 1
        if self._view[0] != block:
            low, high = max(0, block * _BLOCK - _LEFT), (block + 1) * _BLOCK + _RIGHT
            flat_start = self._flat[block] - len(flatten(self.raw[low : block * _BLOCK]))
            self._view = (block, View.of(self.raw[low:high], low, flat_start))
        return self._view[1]

    def _rank(self, raw: int) -> str:
        found = self._rank_of_line(raw)
        if not found:  # the lines of a traceback carry no tag of their own
            trace = self.raw.rfind(_TRACEBACK, max(0, raw - _LOOK_BACK), raw)
            found = self._rank_of_line(trace) if trace >= 0 else None
        return found[1].decode() if found else ""

    def _rank_of_line(self, raw: int) -> re.Match[bytes] | None:
        low = max(0, raw - _PREFIX)
        return _RANK.search(self.raw, max(low, self.raw.rfind(b"\n", low, raw) + 1), raw)


def strongest(hits: Iterable[Hit]) -> list[Hit]:
    """Of messages that overlap, keep the one of which most is there; equal ones stay together."""
    kept: list[Hit] = []
    group: list[Hit] = []
    end = -1
    for hit in sorted(hits, key=lambda hit: hit.start):
        if hit.start >= end:
            kept += _winners(group)
            group = []
        group.append(hit)
        end = max(end, hit.end)
    return kept + _winners(group)


def _winners(group: list[Hit]) -> list[Hit]:
    kept: dict[tuple[int, int], Hit] = {}
    for hit in sorted(group, key=lambda hit: (-hit.matched, not hit.complete)):
        rivals = [one for one in kept.values() if one.start < hit.end and hit.start < one.end]
        if all((r.matched, r.complete) == (hit.matched, hit.complete) for r in rivals):
            kept.setdefault((id(hit.template), hit.start), hit)
    return sorted(kept.values(), key=lambda hit: hit.start)
