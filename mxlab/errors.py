"""Bad input: one clear line that names the value, what was expected and the nearest valid value."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from difflib import get_close_matches
from operator import index
from typing import TypeVar

T = TypeVar("T")

_SHOWN = 80  # characters of a hostile value that a message repeats
_LISTED = 60  # names that one line lists; of a longer table it names some


class InputError(ValueError):
    """The input cannot be used. The text is one line; the command line exits with 2."""


def quote(value: object) -> str:
    """Return a bounded, single-line, printable form of any value for use in a message.

    >>> quote("a\\nb")
    "'a\\\\nb'"
    """
    try:
        text = value if isinstance(value, str) else repr(value)
    except ValueError:  # Python refuses to write integers of over 4300 digits
        text = f"<{type(value).__name__} with too many digits>"
    shown = text if len(text) <= _SHOWN else text[:_SHOWN] + "..."
    return repr(shown) if isinstance(value, str) else shown.replace("\n", " ")


def nearest(value: str, names: Iterable[str]) -> str:
    """Return ``"; did you mean 'x'?"`` for the closest valid name, or nothing.

    >>> nearest("rcel", ["floor", "rceil"])
    "; did you mean 'rceil'?"
    """
    close = get_close_matches(value[:_SHOWN].lower(), list(names), n=1, cutoff=0.5)
    return f"; did you mean {close[0]!r}?" if close else ""


def choose(kind: str, value: object, table: Mapping[str, T]) -> T:
    """Return ``table[value]``, or raise InputError naming the valid names and the nearest one.

    >>> choose("rule", "floor", {"floor": 1})
    1
    """
    if isinstance(value, str):
        if value in table:
            return table[value]
        if value.lower() in table:
            return table[value.lower()]
    names = ", ".join(table)
    if len(table) > _LISTED:
        names = f"{len(table)} names, such as {', '.join(list(table)[:3])}"
    hint = nearest(value, table) if isinstance(value, str) else ""
    raise InputError(f"unknown {kind} {quote(value)}: expected one of {names}{hint}")


def whole_number(what: str, value: object, low: int, high: int, *, multiple_of: int = 1) -> int:
    """Return ``value`` as an int in ``low..high``, or raise InputError with the nearest valid one.

    >>> whole_number("tp", 8, 1, 1024)
    8
    """
    if not isinstance(value, int) and hasattr(value, "__index__"):
        with suppress(TypeError):  # NumPy's integers; arrays and floats of other kinds refuse
            value = index(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise InputError(f"{what} is {quote(value)}: expected a whole number from {low} to {high}")
    if not low <= value <= high:
        near = min(max(value, low), high)
        shown = quote(value) if abs(value) < 10**30 else "a number of over 30 digits"
        raise InputError(f"{what} is {shown}: expected {low} to {high}; the nearest is {near}")
    if value % multiple_of:
        near = max(low, round(value / multiple_of) * multiple_of)
        raise InputError(
            f"{what} is {value}: expected a multiple of {multiple_of}; the nearest is {near}"
        )
    return value
