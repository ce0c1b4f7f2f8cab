"""Seek the messages of the guard table in a log of any size: one pass, constant memory.

The log is read in chunks. Each is stripped of noise, flattened, and passed over once for the
anchors of ``explain_index``; only where a whole piece of a message stands around an anchor is the
rest of that message compared.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from mxlab.explain_index import Index, Place, Template
from mxlab.explain_match import Hit, Window, strongest
from mxlab.explain_prefix import strip_first
from mxlab.explain_text import flatten, strip_noise

TAIL = 1 << 16  # the end of a log, kept for fragments and for the nearest guards
_OVERLAP = 1 << 13
# Occurrences of one message that are compared in full; of one that was never found, many more.
_COMPARED, _COMPARED_IN_VAIN = 1_000, 10_000
_IDLE = 100  # stops at messages that are no more compared, after which they are only counted


@dataclass(slots=True)
class Tally:
    """Every occurrence of one message with one set of values."""

    first: Hit
    count: int = 0
    ranks: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True)
class Scan:
    """What one pass found, the size of the log, and its end."""

    index: Index
    tallies: dict[tuple[int, bool, tuple[tuple[str, str], ...]], Tally] = field(
        default_factory=dict
    )
    newlines: int = 0
    size: int = 0
    tail: bytes = b""
    blank: bool = True
    unread: int = 0  # occurrences that were not compared any more
    _compared: Counter[Place] = field(default_factory=Counter)
    _found: set[int] = field(default_factory=set)
    _pattern: re.Pattern[bytes] = field(init=False)
    _counted: dict[Place, None] = field(default_factory=dict)  # not in the pattern any more
    _done: dict[Place, None] = field(default_factory=dict)
    _idle: int = 0

    def __post_init__(self) -> None:
        self._pattern = self.index.pattern

    @property
    def lines(self) -> int:
        """The number of lines; the last one may lack its line break."""
        return self.newlines + (0 if self.tail.endswith(b"\n") or not self.tail else 1)

    @property
    def tail_line(self) -> int:
        """The number of the line in which ``tail`` starts."""
        return 1 + self.newlines - self.tail.count(b"\n")

    def add(self, hit: Hit) -> None:
        """Count one occurrence."""
        tally = self.tallies.setdefault((id(hit.template), hit.complete, hit.values), Tally(hit))
        tally.count += 1
        if hit.rank:
            tally.ranks[hit.rank] += 1

    def run(self, chunks: Iterable[bytes]) -> None:
        """Pass over the whole log."""
        kept, flat_base, done = b"", 0, 0
        pending: list[Hit] = []
        for chunk, is_last in _with_last(chunks):
            raw = strip_noise(kept + (chunk if self.size else strip_first(chunk)))
            flat = flatten(raw)
            line = 1 + self.newlines - kept.count(b"\n")
            kept = b"" if is_last else raw[-_OVERLAP:]
            ahead = len(flatten(kept))
            # What stands in the later half of the overlap is looked at with the next chunk.
            limit = flat_base + len(flat) - ahead // 2
            hits = strongest([*pending, *self._hits(raw, flat, flat_base, line, done, limit)])
            pending = [hit for hit in hits if hit.end > limit and not is_last]
            for hit in hits:
                if hit.end <= limit or is_last:
                    self.add(hit)
            done = limit
            flat_base += len(flat) - ahead
            self.size += len(chunk)
            self.newlines += chunk.count(b"\n")
            self.blank = self.blank and not chunk.strip(b" \t\r\n\v\f\0")
            self.tail = (self.tail + chunk)[-TAIL:]

    def _hits(
        self, raw: bytes, flat: bytes, flat_base: int, line: int, done: int, limit: int
    ) -> Iterator[Hit]:
        self._count(flat, done - flat_base, limit - flat_base)
        window: Window | None = None
        search = self._pattern.search
        found = search(flat, done - flat_base)
        while found and flat_base + found.start() < limit:
            at = found.start()
            for place in self.index.places(flat, at):
                if place in self._counted or self._enough(place):
                    continue
                window = window or Window(raw, flat_base, line)
                hit = window.read(place, at)
                if hit:
                    self._found.add(id(hit.template))
                    yield hit
            found = search(flat, at + 1)
        if self._idle > _IDLE:
            self._idle = 0
            self._counted = dict(self._done)
            self._pattern = self.index.without(self._counted)

    def _count(self, flat: bytes, low: int, high: int) -> None:
        """Count the messages that are not compared any more, of those whose anchors lie between."""
        for found, piece, offset in self._counted:
            whole = found.pieces[piece]
            if _is_longest(found, piece):
                start, end = max(0, low - offset), max(0, high - offset)
                self.unread += flat.count(whole, start, end + len(whole) - 1)

    def _enough(self, place: Place) -> bool:
        """Tell whether a message was compared often enough; if so, count it unread."""
        template, piece, _ = place
        self._compared[place] += 1
        most = _COMPARED if id(template) in self._found else _COMPARED_IN_VAIN
        if self._compared[place] <= most:
            return False
        self._idle += 1
        self._done[place] = None
        if _is_longest(template, piece):
            self.unread += 1  # once for each occurrence, whichever pieces it is found by
        return True


def _is_longest(template: Template, piece: int) -> bool:
    """Tell whether this is the first of the longest pieces of a message."""
    lengths = [len(one) for one in template.pieces]
    return lengths.index(max(lengths)) == piece


def _with_last(chunks: Iterable[bytes]) -> Iterator[tuple[bytes, bool]]:
    before: bytes | None = None
    for chunk in chunks:
        if before is not None:
            yield before, False
        before = chunk
    yield before or b"", True
