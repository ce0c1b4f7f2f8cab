"""Log text as messages are sought in it: noise gone, and *flat*, that is without any white space.

A terminal, a pager or a box-drawing traceback breaks a message anywhere, JSON and ``repr`` put
quotes and backslashes into it. None of that survives in the flat text, so a literal part of a
message is found by one plain search; ``View.at`` leads back to the text as it was, where the values
between the literal parts are read.
"""

import re
from bisect import bisect_right
from dataclasses import dataclass
from itertools import compress

from mxlab.explain_prefix import strip_prefixes

JsonValue = None | bool | int | float | str | list["JsonValue"]

_QUOTES = b"\"'`\\|"  # quotes of logs, escapes, and the frame of a boxed traceback
_DROPPED = bytes(c for c in range(256) if c <= 32 or c >= 127 or c in _QUOTES)
_KEPT = bytes(c not in _DROPPED for c in range(256))

# ESC [ ... m, as the byte itself or as JSON, repr, shell and caret notation write it.
_ANSI = re.compile(rb"(?:\x1b|\\u001[bB]|\\x1[bB]|\\033|\^\[)\[[0-9;:?]{0,24}[A-Za-z]")
_ANSI_SIGNS = (b"\x1b[", b"^[[", b"\\u001", b"\\x1", b"\\033")
# Signs that JSON encoders of some languages write as escapes: Docker's logs hold them.
_JSON_SIGNS = {b"\\u003c": b"<", b"\\u003e": b">", b"\\u0026": b"&", b"\\u0027": b"'"}
# Pages and their copies; an ampersand only where no other sign appears in its place.
_AMPERSAND = re.compile(rb"&amp;(?!#|amp|lt|gt|quot|nbsp)")
_HTML_SIGNS = {
    b"&lt;": b"<",
    b"&gt;": b">",
    b"&quot;": b'"',
    b"&#x27;": b"'",
    b"&#39;": b"'",
    b"&nbsp;": b" ",
}
# The column at the right edge that says who logged the line; the message goes on below it.
_SOURCE_COLUMN = re.compile(rb"[ \t]{2}[A-Za-z_]\w{0,60}\.py:\d{1,6}[ \t]{0,200}(?=\r?\n)")
_SOURCE_AT_END = re.compile(rb"\.py:\d{1,6}[ \t]{0,200}\r?\n")  # quick: it starts with plain text

# A value that a line break cut off from its message has its line for itself.
_ALONE = re.compile(rb"[^\s]{1,200}[^\n\w]{0,200}(?:\n|$)")

_VALUE = 300  # characters of one value; a list at the end of a message may take the window's rest
_LINE_ENDS = (b"\n", b"\v", b'"')
_FRAME = " \t\r\0|\u2502\u2503"
_OPEN, _CLOSE = b"([{", b")]}"
_BRACKETS = tuple(zip(_OPEN, _CLOSE, strict=True))
_INTEGER = re.compile(r"[+-]?\d{1,40}")
_DECIMAL = re.compile(r"[+-]?\d{1,20}\.\d{1,20}")
_INTEGERS = re.compile(r"[+-]?\d{1,40}(?:, ?[+-]?\d{1,40}){1,40}")
_WORDS: dict[str, JsonValue] = {"None": None, "True": True, "False": False}


def flatten(raw: bytes) -> bytes:
    r"""Return the bytes without white space, control and non-ASCII bytes, quotes and backslashes.

    >>> flatten(b"got 80\n\x00 of 'x'")
    b'got80ofx'
    """
    return raw.translate(None, _DROPPED)


def strip_noise(raw: bytes) -> bytes:
    r"""Return the bytes without colour codes and log columns; escaped line breaks become ``\v``.

    The number of ``\n`` stays the same, so that line numbers do.

    >>> strip_noise(b"got \x1b[1;36m80\x1b[0m")
    b'got 80'
    """
    escaped = b"\\" in raw  # most chunks of a log hold none: seven searches less
    if any(sign in raw for sign in (_ANSI_SIGNS if escaped else _ANSI_SIGNS[:2])):
        raw = _ANSI.sub(b"", raw)
    if _SOURCE_AT_END.search(raw):
        raw = _SOURCE_COLUMN.sub(b"", raw)
    raw = strip_prefixes(raw)
    if b"&" in raw:
        for escape, mark in _HTML_SIGNS.items():
            raw = raw.replace(escape, mark)
        raw = _AMPERSAND.sub(b"&", raw)
    if not escaped:
        return raw
    if b"\\u00" in raw:
        for escape, sign in _JSON_SIGNS.items():
            raw = raw.replace(escape, sign)
    for escape in (b"\\n", b"\\r", b"\\t"):
        if escape in raw:
            raw = raw.replace(escape, b"\v")
    return raw


def unwrap(raw: bytes, *, value: bool = False) -> str:
    r"""Return bytes as one line of printable text, without the frame of a box at line breaks.

    A ``value`` that holds no white space but line breaks, or that is a shape or a list, was broken
    for lack of room, and is put together.

    >>> unwrap("a b │\n│ c".encode()), unwrap(b"(2, 1\n28)", value=True), unwrap(b"\0 80\xff")
    ('a b c', '(2, 128)', '80\ufffd')
    """
    text = raw.decode("utf-8", "replace").replace("\v", "\n")
    lines = [line.strip(_FRAME) for line in text.split("\n")]
    text = "".join(lines)
    glue = value and (text.startswith(("(", "[", "torch.Size(")) or not any(map(str.isspace, text)))
    joined = text if glue else " ".join(lines)
    return "".join(c for c in " ".join(joined.split()) if c.isprintable())


@dataclass(frozen=True, slots=True)
class View:
    """A part of a log: ``raw`` bytes, their ``flat`` form, and for each flat byte its place.

    ``raw_start`` and ``flat_start`` say where the part begins in the log, both ways of counting.
    """

    raw: bytes
    flat: bytes
    at: list[int]
    raw_start: int = 0
    flat_start: int = 0

    @classmethod
    def of(cls, raw: bytes, raw_start: int = 0, flat_start: int = 0) -> "View":
        """Build the view of bytes whose noise is stripped."""
        at = list(compress(range(len(raw)), raw.translate(_KEPT)))
        return cls(raw, flatten(raw), at, raw_start, flat_start)

    def between(self, low: int, high: int) -> bytes:
        """Return what lies between flat positions: after the byte before ``low``, up to ``high``.

        White space and quotes at both ends belong to it.
        """
        start = self.at[low - 1] + 1 if low else 0
        return self.raw[start : self.at[high] if high < len(self.at) else len(self.raw)]

    def after(self, low: int) -> tuple[bytes, int]:
        """Return the value that starts at flat position ``low``, and the flat position behind it.

        A value ends at white space, at the end of its quotes, or where a bracket closes that it
        did not open.
        """
        if low >= len(self.at):
            return b"", low
        start = self.at[low]
        gap = self.raw[self.at[low - 1] + 1 : start] if low else b""
        if b"\n" in gap and not _ALONE.match(self.raw, start):
            return b"", low  # the next line goes on with something else: the value is empty
        before = gap[-1:]
        if before in (b"'", b'"'):
            end = self.raw.find(before, start, start + _VALUE)
            if end > 0:
                return self.raw[start:end], bisect_right(self.at, end - 1)
        depth, end = 0, start
        for end in range(start, len(self.raw)):
            c = self.raw[end]
            if c in _OPEN:
                depth += 1
            elif c in _CLOSE:
                depth -= 1
            if depth < 0 or (depth == 0 and c in b" \t\r\n\v\"'`"):
                break
            if end - start > (4 * _VALUE if depth else _VALUE):
                break
        else:
            end = len(self.raw)
        return self.raw[start:end], bisect_right(self.at, end - 1)

    def line(self, low: int) -> tuple[bytes, int]:
        """Return the rest of the line at flat position ``low``, and the flat position behind it.

        Quotes end it too, and a bracket that was opened before it.
        """
        if low >= len(self.at):
            return b"", low
        start = self.at[low]
        ends = [self.raw.find(sign, start, start + 4 * _VALUE) for sign in _LINE_ENDS]
        end = min((one for one in ends if one >= 0), default=min(len(self.raw), start + 4 * _VALUE))
        raw = self.raw[start:end].rstrip()
        raw = raw if balanced(raw) else raw.rstrip(b"')")
        return raw, bisect_right(self.at, start + len(raw) - 1)

    def before(self, high: int) -> tuple[bytes, int]:
        """Return the value that ends before flat position ``high``, and where it starts."""
        if not high:
            return b"", 0
        end = self.at[high - 1] + 1
        depth, start = 0, end
        for start in range(end - 1, max(-1, end - 1 - _VALUE), -1):
            c = self.raw[start]
            if c in _CLOSE:
                depth += 1
            elif c in _OPEN:
                depth -= 1
            if depth < 0 or (depth == 0 and c in b" \t\r\n\v\"'`"):
                start += 1
                break
        return self.raw[start:end], bisect_right(self.at, start - 1)


def balanced(value: bytes) -> bool:
    """Tell whether a value may stand where a message has a field: short, with closed brackets.

    >>> balanced(b"(2, 128)"), balanced(b"(2"), balanced(b"{self.head_dim}")
    (True, False, True)
    """
    if len(value) > _VALUE or value.count(b"\n") > 2:
        return False
    return all(value.count(b"%c" % o) == value.count(b"%c" % c) for o, c in _BRACKETS)


def typed(text: str, depth: int = 0) -> JsonValue:
    """Return a value read out of a message as an int, a list, a boolean, None, or as it stands.

    >>> typed("80"), typed("torch.Size([2, 128])"), typed("'mxfp8'"), typed("bfloat16")
    (80, [2, 128], 'mxfp8', 'bfloat16')
    """
    text = text.strip()
    if text.startswith("torch.Size(") and text.endswith(")"):
        text = text[len("torch.Size(") : -1].strip()
    if _INTEGER.fullmatch(text):
        return int(text)
    if _DECIMAL.fullmatch(text):
        return float(text)
    if _INTEGERS.fullmatch(text):
        return [int(item) for item in text.split(",")]
    if text in _WORDS:
        return _WORDS[text]
    if len(text) > 1 and text[0] in "'\"" and text[-1] == text[0]:
        return text[1:-1]
    if len(text) > 1 and (text[0], text[-1]) in {("[", "]"), ("(", ")")} and depth < 8:
        items = _split(text[1:-1])
        return [typed(item, depth + 1) for item in items] if items is not None else text
    return text


def _split(text: str) -> list[str] | None:
    """Split at the commas that stand in no bracket and no quotes; None where brackets differ."""
    items, depth, quote, item = [], 0, "", ""
    for c in text:
        if quote:
            quote = "" if c == quote else quote
        elif c in "'\"":
            quote = c
        elif c in "([{":
            depth += 1
        elif c in ")]}":
            depth -= 1
            if depth < 0:
                return None
        if c == "," and not depth and not quote:
            items.append(item)
            item = ""
        else:
            item += c
    if depth or quote:
        return None
    return [*items, item] if item.strip() else items
