"""What collectors put before every line of a log: a wrapped message has it in its middle.

Only the forms of the tools that serving systems run under: torchrun, Ray, vLLM, Kubernetes, Docker
Compose, journald, pytest, quoted mail.
"""

import re

_FORMS = (
    rb">(?!=) ?",  # a wrapped comparison, >= 128, is no quoted mail
    rb"E {3,}",
    rb"\[rank\d{1,5}\]: ?",
    rb"\([A-Za-z_][^()\n]{0,60}pid=\d{1,8}[^()\n]{0,40}\) ?",
    rb"(?:ERROR|WARNING|INFO|DEBUG|CRITICAL) \d\d-\d\d \d\d:\d\d:\d\d \[[\w./]{1,60}:\d{1,6}\] ",
    rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[\d.]{0,12}Z (?:(?:stdout|stderr) [FP] |##\[\w{1,12}\])?",
    rb"[a-z][\w.-]{0,40}[-_]\d{1,3} {1,8}\| ",
    rb"[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d [\w.-]{1,64} [\w.@/-]{1,40}(?:\[\d{1,7}\])?: ",
)
#: a line that starts so begins a message: its tag stays, the rank stands in it
_HEAD = rb"(?![ \t]*(?:[A-Za-z_][\w.]{0,60}(?:Error|Exception|Warning)\b|Traceback))"
_ONE = rb"(?:" + rb"|".join(_FORMS) + rb")++" + _HEAD
_AFTER_BREAK, _AT_START = re.compile(rb"\n" + _ONE), re.compile(_ONE)


def strip_first(raw: bytes) -> bytes:
    """Return the beginning of a log without the tag of its first line."""
    start = _AT_START.match(raw)
    return raw[start.end() :] if start else raw


def strip_prefixes(raw: bytes) -> bytes:
    r"""Return the bytes without the tags after line breaks; twice is the same as once.

    >>> strip_prefixes(b"ValueError: K = 80 is not\n[rank3]: a multiple of 32")
    b'ValueError: K = 80 is not\na multiple of 32'
    """
    return _AFTER_BREAK.sub(b"\n", raw)
