"""What a guard computes, said with the numbers that stand in its message."""

import re
from collections.abc import Iterator, Mapping

from mxlab.explain_text import JsonValue

_MODULO = re.compile(r"\b([A-Za-z_]\w{0,60}) % (\d{1,9}|[A-Za-z_]\w{0,60})\b")
_COMPARE = re.compile(r"\b([A-Za-z_]\w{0,60}) (<=|>=|<|>) (\d{1,9}|[A-Za-z_]\w{0,60})\b")
_DIVISIBLE = re.compile(
    r"(?P<subject>\w+|\{\w+\}) (?:must be |to be |is not |be )?divisible by "
    r"(?:(?P<number>\d{1,9})|[^{}]{0,80}?\b(?P<label>\w+) ?= ?\{(?P<name>\w+)\})"
)
_TRUE = {
    "<": lambda a, b: a < b,
    ">": lambda a, b: a > b,
    "<=": lambda a, b: a <= b,
    ">=": lambda a, b: a >= b,
}
_LARGEST = 10**15


def because(message: str, predicate: str, values: Mapping[str, JsonValue]) -> tuple[str, ...]:
    """Return each remainder and comparison of a guard that the values decide, or the bare numbers.

    ``message`` and ``predicate`` are the guard's own texts; what they call ``N`` may be ``n`` among
    the values.

    >>> because("shape ({n}, {k})", "N % 64 != 0 or K % 128 != 0", {"n": 2880, "k": 576})
    ('N = 2880 % 64 = 0', 'K = 576 % 128 = 64')
    >>> because("head_dim divisible by 32, got {hd}.", "", {"hd": 80})
    ('head_dim = 80 % 32 = 16',)
    """
    numbers = {
        name: value
        for name, value in values.items()
        if isinstance(value, int) and not isinstance(value, bool) and abs(value) < _LARGEST
    }
    said: dict[tuple[str, str], str] = {}
    for key, text in (*_divisible(message, numbers), *_rules(message, predicate, numbers)):
        said.setdefault(key, text)
    return tuple(said.values()) or tuple(f"{name} = {value}" for name, value in numbers.items())


def _divisible(message: str, numbers: Mapping[str, int]) -> Iterator[tuple[tuple[str, str], str]]:
    """Read ``{k} must be divisible by 32`` and ``x divisible by 32, got {x}``."""
    for found in _DIVISIBLE.finditer(message):
        subject = found["subject"]
        after = re.search(r"\bgot \{(\w+)\}", message[found.end() :])
        if subject.startswith("{"):
            name = subject[1:-1]
            before = re.search(r"(\w+) ?= ?$", message[: found.start()])
            label = before[1] if before else name
        elif after:
            label, name = subject, after[1]
        else:
            continue
        by = int(found["number"]) if found["number"] else numbers.get(found["name"], 0)
        if name in numbers and by > 0:
            shown = str(by) if found["number"] else f"{found['label']} = {by}"
            yield from _remainder(label, numbers[name], shown, by)


def _rules(
    message: str, predicate: str, numbers: Mapping[str, int]
) -> Iterator[tuple[tuple[str, str], str]]:
    """Read ``N % 64`` and ``n < 128`` where the values have the numbers."""
    known = {name.lower(): value for name, value in numbers.items()}
    for left, right in _MODULO.findall(f"{message} {predicate}"):
        by = int(right) if right.isdigit() else known.get(right.lower(), 0)
        if left.lower() in known and by > 0:
            shown = right if right.isdigit() else f"{right} = {by}"
            yield from _remainder(left, known[left.lower()], shown, by)
    for left, sign, right in _COMPARE.findall(predicate):  # a message says what is required
        bound = int(right) if right.isdigit() else known.get(right.lower())
        value = known.get(left.lower())
        if value is not None and bound is not None and _TRUE[sign](value, bound):
            shown = right if right.isdigit() else f"{right} = {bound}"
            yield (left.lower(), sign + right), f"{left} = {value} {sign} {shown}"


def _remainder(
    label: str, value: int, shown: str, by: int
) -> Iterator[tuple[tuple[str, str], str]]:
    by_text = shown if shown.isdigit() else f"({shown})"
    yield (label.lower(), str(by)), f"{label} = {value} % {by_text} = {value % by}"
