"""The checker: compare values of any kind, name the first difference and the classic mistake."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from mxlab.errors import quote

HINT_AFTER = 2  # wrong tries
_MOST = 100  # cases that a mistake is compared on
_UNANSWERED = "Nothing to check yet: put your answer in, and run the cell again."


@dataclass(frozen=True, slots=True, kw_only=True)
class Mistake:
    """A classic mistake: what it computes instead, and the sentence that names it."""

    spec: Callable[..., Any]
    says: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Exercise:
    """One question. ``spec`` takes a case and returns what is right.

    Without ``cases`` the answer is a value, ``spec()``; with them it is a function that is called
    with each case as ``spec`` is. ``close`` is the relative and absolute difference that is
    allowed to numbers.
    """

    name: str
    asks: str
    spec: Callable[..., Any]
    hint: str
    cases: Callable[[], Iterable[tuple[Any, ...]]] | None = None
    mistakes: tuple[Mistake, ...] = ()
    close: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """``right`` or not, and the lines that say why; ``counts`` is False where nothing was tried."""

    right: bool
    lines: tuple[str, ...]
    counts: bool = True

    def __repr__(self) -> str:
        return "\n".join(self.lines)


@dataclass(frozen=True, slots=True)
class Difference:
    """The first place where two values part: its path (``[3][1]``) and both values there."""

    path: str
    yours: object
    expected: object


def plain(value: Any) -> Any:
    """Return arrays and tensors as nested lists and numbers, anything else as it is."""
    for step in ("detach", "cpu", "tolist"):
        found = getattr(value, step, None)
        if callable(found) and not isinstance(value, type):
            value = found()
    return value


def difference(yours: Any, expected: Any, close: float = 0.0) -> Difference | None:
    """Return the first difference, or None where both are the same.

    NaN equals NaN, 128.0 equals 128, and a number is no truth value. Text is compared without
    regard to case. Arrays, tensors, lists and tuples are compared by position.

    >>> difference([[1, 2], [3, 5]], [[1, 2], [3, 4]])
    Difference(path='[1][1]', yours=5, expected=4)
    """
    return _difference("", plain(yours), plain(expected), close)


def _difference(path: str, yours: Any, expected: Any, close: float) -> Difference | None:
    if isinstance(expected, list | tuple):
        if not isinstance(yours, list | tuple):
            return Difference(path, yours, f"{len(expected)} values")
        if len(yours) != len(expected):
            return Difference(f"length{path and ' of ' + path}", len(yours), len(expected))
        for i, pair in enumerate(zip(yours, expected, strict=True)):
            found = _difference(f"{path}[{i}]", plain(pair[0]), plain(pair[1]), close)
            if found:
                return found
        return None
    return None if _same(yours, expected, close) else Difference(path, yours, expected)


def _same(yours: Any, expected: Any, close: float) -> bool:
    if isinstance(expected, bool) or isinstance(yours, bool):
        return isinstance(yours, bool) and isinstance(expected, bool) and yours == expected
    if isinstance(expected, str):
        return isinstance(yours, str) and yours.strip().lower() == expected.lower()
    if isinstance(expected, int | float):
        if not isinstance(yours, int | float):
            return False
        if math.isnan(expected):
            return math.isnan(yours)
        try:
            near = math.isclose(yours, expected, rel_tol=close, abs_tol=close)
        except OverflowError:  # an int beyond every float
            near = False
        return yours == expected or (close > 0 and near)
    return bool(yours == expected)


def judge(exercise: Exercise, yours: object, tries: int) -> Verdict:
    """Return the verdict on an answer; ``tries`` wrong ones came before it."""
    if yours is None or yours is ...:
        return Verdict(right=False, lines=(_UNANSWERED,), counts=False)
    if exercise.cases is None:
        return _value(exercise, yours, tries)
    if not callable(yours):
        lines = (f"This exercise asks for a function: got {type(yours).__name__}.",)
        return Verdict(right=False, lines=lines, counts=False)
    return _function(exercise, yours, tries, list(exercise.cases()))


def _wrong(exercise: Exercise, tries: int, lines: Sequence[str], said: Sequence[str]) -> Verdict:
    hint = [f"  Hint: {exercise.hint}"] if tries + 1 >= HINT_AFTER else []
    return Verdict(right=False, lines=("Not yet.", *lines, *(f"  {s}" for s in said), *hint))


def _value(exercise: Exercise, yours: object, tries: int) -> Verdict:
    """The expected value would be the answer, so it stays unsaid."""
    found = difference(yours, exercise.spec(), exercise.close)
    if found is None:
        return Verdict(right=True, lines=("Right.",))
    part = f" at {found.path}" if found.path else ""
    said = [m.says for m in exercise.mistakes if not difference(yours, m.spec(), exercise.close)]
    return _wrong(exercise, tries, (f"  yours{part}: {_show(found.yours)}",), said[:1])


def _function(
    exercise: Exercise, yours: Callable[..., Any], tries: int, cases: list[tuple[Any, ...]]
) -> Verdict:
    for number, case in enumerate(cases):
        call = f"  first difference: {_name(yours)}({', '.join(map(_show, case))})"
        try:
            got = yours(*case)
        except Exception as error:
            text = f"  yours raises {type(error).__name__}: {_show(str(error))}"
            return _wrong(exercise, tries, (call, text), ())
        if number == 0 and (got is None or got is ...):
            return Verdict(right=False, lines=(_UNANSWERED,), counts=False)
        found = difference(got, exercise.spec(*case), exercise.close)
        if found is None:
            continue
        place = f" at {found.path}" if found.path else ""
        both = (
            f"  yours{place}: {_show(found.yours)}",
            f"  expected{place}: {_show(found.expected)}",
        )
        said = [m.says for m in exercise.mistakes if _makes(m, yours, cases[:_MOST], exercise)]
        return _wrong(exercise, tries, (call, *both), said[:1])
    return Verdict(right=True, lines=(f"Right, in all {len(cases)} cases.",))


def _makes(
    mistake: Mistake, yours: Callable[..., Any], cases: list[tuple[Any, ...]], exercise: Exercise
) -> bool:
    try:
        return all(not difference(yours(*c), mistake.spec(*c), exercise.close) for c in cases)
    except Exception:  # a function that fails on another case makes another mistake
        return False


def _name(function: Callable[..., Any]) -> str:
    return str(getattr(function, "__name__", "yours"))


def _show(value: object) -> str:
    shape = getattr(value, "shape", None)
    if shape is not None and len(shape):
        return f"<{'x'.join(map(str, shape))} of {getattr(value, 'dtype', '?')!s}>"
    return quote(plain(value))
