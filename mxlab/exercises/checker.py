"""The checker: compare values of any kind, name the first difference and the classic mistake."""

import inspect
import math
import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from mxlab.errors import quote

HINT_AFTER = 2  # wrong tries
_MOST = 100  # cases that a mistake is compared on
_UNANSWERED = "Nothing to check yet: put your answer in, and run the cell again."
_CALL = re.compile(r"\b([A-Za-z_]\w*)\([\w, ]*\)")
#: what a reader's function may raise; an interrupt stays one
_RAISED = (Exception, SystemExit, GeneratorExit)
#: a truth value is an int, so that it comes first
_KINDS: tuple[tuple[type | tuple[type, ...], str], ...] = (
    (bool, "True or False"),
    ((int, float), "a number"),
    (str, "a text"),
    ((list, tuple), "several values"),
)


Cases = Callable[[], Iterable[tuple[Any, ...]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mistake:
    """A classic mistake: what it computes instead, and the sentence that names it."""

    spec: Callable[..., Any]
    says: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Exercise:
    """One question. ``spec`` takes a case and returns what is right.

    Without ``cases`` the answer is a value, ``spec()``; with them it is a function that is called
    with each case as ``spec`` is, and ``asks`` says its name and parameters, ``offset(row, col)``.
    ``close`` is the relative and absolute difference that is allowed to numbers. ``needs`` are the
    packages without which it cannot be solved.
    """

    name: str
    asks: str
    spec: Callable[..., Any]
    hint: str
    cases: Cases | None = None
    mistakes: tuple[Mistake, ...] = ()
    close: float = 0.0
    needs: tuple[str, ...] = ()

    def call(self) -> str:
        """Return how the function that is asked for is called, as ``asks`` writes it."""
        found = _CALL.search(self.asks)
        return (
            found[0] if found else f"answer({', '.join(inspect.signature(self.spec).parameters)})"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """``right`` or not, and the lines that say why; ``counts`` is False where nothing was tried."""

    right: bool
    lines: tuple[str, ...]
    counts: bool = True
    name: str = ""  # of the exercise

    @property
    def unanswered(self) -> bool:
        """Whether there was no answer to look at."""
        return self.lines == (_UNANSWERED,)

    def __repr__(self) -> str:
        return "\n".join(self.lines)

    def _repr_html_(self) -> str | None:
        """Return the live question, in the book and for a cell that is not answered yet."""
        if not (self.unanswered and self.name and "MXLAB_BOOK" in os.environ):
            return None
        from mxlab.explorers.question import embedded  # the explorers are not needed elsewhere

        return embedded(self.name)


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
        return _no_try(exercise, _UNANSWERED)
    if exercise.cases is None:
        return _value(exercise, yours, tries)
    if not callable(yours):
        return _no_try(exercise, "This exercise asks for a function.", yours)
    return _function(exercise, yours, tries, exercise.cases)


def _no_try(exercise: Exercise, line: str, *yours: object) -> Verdict:
    lines = (line, *(f"  yours: {_show(one)}, {kind(plain(one))}" for one in yours))
    return Verdict(right=False, lines=lines, counts=False, name=exercise.name)


def kind(value: object) -> str:
    """Return what a value is in a reader's words.

    >>> kind(True), kind(2), kind((1, 2)), kind({})
    ('True or False', 'a number', 'several values', 'a dict')
    """
    for types, name in _KINDS:
        if isinstance(value, types):
            return name
    return "a function" if callable(value) else f"a {type(value).__name__}"


def _wrong(exercise: Exercise, tries: int, lines: Sequence[str], said: Sequence[str]) -> Verdict:
    hint = [f"  Hint: {exercise.hint}"] if tries + 1 >= HINT_AFTER else []
    text = ("Not yet.", *lines, *(f"  {sentence}" for sentence in said), *hint)
    return Verdict(right=False, lines=text, name=exercise.name)


def _value(exercise: Exercise, yours: object, tries: int) -> Verdict:
    """The expected value would be the answer, so it stays unsaid."""
    expected = exercise.spec()
    found = difference(yours, expected, exercise.close)
    if found is None:
        return Verdict(right=True, lines=("Right.",), name=exercise.name)
    part = f" at {found.path}" if found.path else ""
    said = [m.says for m in exercise.mistakes if not difference(yours, m.spec(), exercise.close)]
    wanted = kind(plain(expected))
    if not said and kind(plain(yours)) != wanted:
        return _no_try(exercise, f"This exercise asks for {wanted}.", yours)
    return _wrong(exercise, tries, (f"  yours{part}: {_show(found.yours)}",), said[:1])


def _function(exercise: Exercise, yours: Callable[..., Any], tries: int, cases: Cases) -> Verdict:
    def called() -> str:
        fresh = next(islice(cases(), number, None))
        return f"  first difference: {_name(yours)}({', '.join(map(_show, fresh))})"

    number = -1
    for number, case in enumerate(cases()):
        expected = exercise.spec(*case)  # first: yours may change what it is given
        try:
            got = yours(*case)
            if number == 0 and (got is None or got is ...):
                return _no_try(exercise, _UNANSWERED)
            found = difference(got, expected, exercise.close)
        except _RAISED as error:
            text = f"  yours raises {type(error).__name__}: {_show(error)}"
            return _wrong(exercise, tries, (called(), text), ())
        if found is None:
            continue
        place = f" at {found.path}" if found.path else ""
        lines = (
            called(),
            f"  yours{place}: {_show(found.yours)}",
            f"  expected{place}: {_show(found.expected)}",
        )
        said = [m.says for m in exercise.mistakes if _makes(m, yours, exercise, cases)]
        return _wrong(exercise, tries, lines, said[:1])
    text = f"Right, in all {number + 1} cases."
    return Verdict(right=True, lines=(text,), name=exercise.name)


def _makes(mistake: Mistake, yours: Callable[..., Any], exercise: Exercise, cases: Cases) -> bool:
    try:
        pairs = ((mistake.spec(*case), yours(*case)) for case in islice(cases(), _MOST))
        return all(not difference(mine, theirs, exercise.close) for theirs, mine in pairs)
    except _RAISED:  # a function that fails on another case makes another mistake
        return False


def _name(function: Callable[..., Any]) -> str:
    return str(getattr(function, "__name__", "yours"))


def _show(value: object) -> str:
    """Return a value in one bounded line, whatever its own methods do."""
    try:
        shape = getattr(value, "shape", None)
        if shape is not None and len(shape):
            return f"<{'x'.join(map(str, shape))} of {getattr(value, 'dtype', '?')!s}>"
        return quote(str(value) if isinstance(value, BaseException) else plain(value))
    except _RAISED:
        return f"<{type(value).__name__} that cannot be written>"
