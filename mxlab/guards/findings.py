"""Short ways to say what a guard found."""

from mxlab.guards.engine import Finding, Status

_SHOWN = 200


def passes(because: str) -> Finding:
    """Say that the check holds."""
    return Finding(Status.PASSES, because)


def stops(because: str, message: int = 0, **values: object) -> Finding:
    """Say that SGLang raises here."""
    return Finding(Status.STOPS, because, values, message)


def skipped(because: str) -> Finding:
    """Say that this deployment never runs the check, and why."""
    return Finding(Status.NOT_REACHED, because)


def silent(because: str) -> Finding:
    """Say that the result is wrong or slow and nothing is printed."""
    return Finding(Status.SILENT, because, message=None)


def judge(bad: bool, because: str, message: int = 0, **values: object) -> Finding:
    """Stop where ``bad``, else pass, with the same predicate."""
    return stops(because, message, **values) if bad else passes(because)


def modulo(name: str, value: int, divisor: int) -> str:
    """Return ``N = 8640 % 64 = 0``.

    >>> modulo("K", 2880, 128)
    'K = 2880 % 128 = 64'
    """
    return f"{name} = {value} % {divisor} = {value % divisor}"


def multiples(value: int, divisor: int) -> str:
    """Name the legal sizes around a value.

    >>> multiples(2880, 128)
    '2816 or 2944'
    """
    below = value // divisor * divisor
    if below == value:
        return str(value)
    return f"{below} or {below + divisor}" if below else str(divisor)


def pad(value: int, multiple: int) -> int:
    """Round up to a multiple.

    >>> pad(129, 128)
    256
    """
    return -(-value // multiple) * multiple


def shown(value: object) -> str:
    """Return a hostile config's value as SGLang would print it, on one line and bounded."""
    try:
        return str(value).replace("\n", " ")[:_SHOWN]
    except (ValueError, RecursionError):  # an integer of 5,000 digits, a list nested 5,000 deep
        return "a value too large to show"
