"""The rule of a guard over plain numbers, found by asking the guard itself.

A page gives a check that needs no mxlab: ``assert n % 64 == 0 and k % 128 == 0``. It is not typed
and not read out of prose: each number of an example is varied, what the guard says is written as
one condition, and the conditions together must agree with the guard on random other numbers.
"""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from mxlab.explorers.guard_row_code import literal

Values = Mapping[str, object]
#: True passes, False trips, None: the guard says neither
Asked = Callable[[Values], bool | None]

SIZES = (
    *(8, 16, 24, 32, 36, 40, 48, 64, 72, 80, 96, 100, 112, 120, 128, 129, 136, 144, 160, 192, 200),
    *(208, 224, 240, 248, 256, 260, 272, 288, 320, 384, 448, 512, 520, 528, 544, 576, 640, 768),
    *(896, 960, 1000, 1008, 1016, 1024, 1032, 1040, 1056, 1088, 1152, 1280, 1360, 1536, 1792, 2048),
    *(2112, 2304, 2560, 2816, 2880, 3072, 3584, 4096, 4100, 4104, 4112, 4128, 4160, 4224, 4352),
    *(5120, 6144, 7168, 8192, 8320, 8448, 9216, 12288, 16384, 28672),
)
_SMALL = (1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 24, 32, 33, 48, 64, 66, 96, 128)
#: what a number is, where it is none of a matrix
GRIDS: Mapping[str, Sequence[int]] = {
    **dict.fromkeys(("tp", "ep", "moe_tp", "kv_heads", "top_k", "groups", "batch"), _SMALL),
    "m": (*_SMALL, *SIZES),
    "experts": (*_SMALL, 60, 160, 256, 384),
    "page_size": (*_SMALL, 80, 112, 160, 192, 256),
    "head_dim": (*_SMALL, 40, 72, 80, 88, 112, 144, 160, 192, 224, 256, 288, 512),
    "v_head_dim": (*_SMALL, 40, 72, 80, 88, 112, 144, 160, 192, 224, 256, 288, 512),
}
_MODULI = (2, 4, 8, 16, 32, 64, 128, 256, 512)
_TRIED, _FEW, _BLIND = 300, 5, 40
#: names of which one value may be the only right one; of a size that would be the example's own
_FIXED = ("page_size", "head_dim", "v_head_dim", "block_k", "ep")
_ROUND = 8  # a bound that is no multiple of this is the example's own too


@dataclass(frozen=True, slots=True)
class Rule:
    """Conditions in Python, one a name, that hold where the guard passes."""

    conditions: Mapping[str, str]

    def source(self) -> str:
        """Return them as one expression."""
        return " and ".join(self.conditions.values())


def find(asked: Asked, start: Values, choices: Mapping[str, Sequence[object]]) -> Rule | None:
    """Return the rule over ``choices`` around ``start``; None where plain conditions do not say it.

    ``start`` holds a value for each name of ``choices``; ``asked`` tells what the guard says.
    """
    draw = random.Random(repr(sorted(choices)))
    good = next((point for point in _points(draw, start, choices) if asked(point)), None)
    if good is None:
        return None
    conditions = {}
    for name, grid in choices.items():
        said = {value: asked({**good, name: value}) for value in grid}
        if False in said.values():
            text = _condition(name, said, lambda v, name=name: asked({**good, name: v}))  # type: ignore[misc]
            if text is None:
                return None
            conditions[name] = text
    rule = Rule(conditions)
    return rule if conditions and _holds(rule, asked, good, choices, draw) else None


def _points(
    draw: random.Random, start: Values, choices: Mapping[str, Sequence[object]]
) -> Iterator[Values]:
    yield start
    for name, grid in choices.items():
        for value in grid:
            yield {**start, name: value}
    for _ in range(_BLIND):
        yield {name: draw.choice(grid) for name, grid in choices.items()}


def _condition(
    name: str, said: Mapping[object, bool | None], asked: Callable[[object], bool | None]
) -> str | None:
    """Return what distinguishes the values that pass from those that trip."""
    good = [value for value, answer in said.items() if answer]
    bad = [value for value, answer in said.items() if answer is False]
    if not all(isinstance(value, int) and not isinstance(value, bool) for value in said):
        return (
            _listed(name, good, "==", "in")
            if len(good) <= len(bad)
            else _listed(name, bad, "!=", "not in")
        )
    fits, misses = [int(str(v)) for v in good], [int(str(v)) for v in bad]
    if len(fits) == 1:
        return f"{name} == {fits[0]}" if name in _FIXED else None
    for least, most in ((None, None), *_bounds(fits, misses, asked)):
        left = [v for v in misses if (least is None or v >= least) and (most is None or v <= most)]
        modulus = next((d for d in _MODULI if _divides(d, fits, left)), 0)
        if not left or modulus:
            return _said(name, least, most, modulus if left else 0)
    return None


def _listed(name: str, values: Sequence[object], one: str, several: str) -> str:
    if len(values) == 1:
        return f"{name} {one} {literal(values[0])}"
    return f"{name} {several} ({', '.join(map(literal, values))})"


def _divides(modulus: int, fits: Sequence[int], left: Sequence[int]) -> bool:
    return all(v % modulus == 0 for v in fits) and all(v % modulus for v in left)


def _bounds(
    fits: Sequence[int], misses: Sequence[int], asked: Callable[[object], bool | None]
) -> Iterator[tuple[int | None, int | None]]:
    low, high = min(fits), max(fits)
    below = max((v for v in misses if v < low), default=None)
    above = min((v for v in misses if v > high), default=None)
    least = _edge(below, low, asked) if below is not None else None
    most = _edge(above, high, asked) if above is not None else None
    if least is not None and least % _ROUND == 0:
        yield least, None
    if most is not None and most % _ROUND == 0:
        yield None, most


def _edge(bad: int, good: int, asked: Callable[[object], bool | None]) -> int:
    """Return the value nearest to ``bad`` that passes; an unclear one between counts as bad."""
    while abs(good - bad) > 1:
        middle = (good + bad) // 2
        if asked(middle):
            good = middle
        else:
            bad = middle
    return good


def _said(name: str, least: int | None, most: int | None, modulus: int) -> str:
    parts = [f"{name} >= {least}"] if least is not None else []
    parts += [f"{name} <= {most}"] if most is not None else []
    return " and ".join([*parts, *([f"{name} % {modulus} == 0"] if modulus else [])])


def _uneven(draw: random.Random, value: object) -> object:
    whole = isinstance(value, int) and not isinstance(value, bool) and value >= min(SIZES)
    return int(str(value)) + draw.choice((1, 2, 4, 10)) if whole else value


def _holds(
    rule: Rule,
    asked: Asked,
    good: Values,
    choices: Mapping[str, Sequence[object]],
    draw: random.Random,
) -> bool:
    """Tell whether the rule agrees with the guard everywhere that was tried, both ways."""
    code = compile(rule.source(), "rule", "eval")
    seen = {True: 0, False: 0}
    for number in range(_TRIED):
        point = {name: draw.choice(grid) for name, grid in choices.items()}
        if number % 3 == 0:  # sizes that are not round: where two names count together, it shows
            point = {name: _uneven(draw, value) for name, value in point.items()}
        if number % 2:  # random points rarely pass: stay near one that does
            kept = draw.choice(list(choices))
            point = {**good, kept: point[kept]}
        answer = asked(point)
        if answer is None:
            continue
        seen[answer] += 1
        if bool(eval(code, {"__builtins__": {}}, dict(point))) is not answer:
            return False
    return min(seen.values()) >= _FEW
