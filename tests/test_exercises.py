"""The checker, and every exercise of the book: solutions pass, classic mistakes are named."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from notebook_solutions import solutions

from mxlab import InputError, exercises
from mxlab.exercises import CHAPTERS, Exercise, Mistake, check
from mxlab.exercises.checker import difference, judge

ALL = [row for chapter in CHAPTERS for row in exercises.exercises(chapter).values()]


@pytest.fixture(autouse=True)
def _no_tries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exercises, "_tries", {})


def _exercise(**parts: Any) -> Exercise:
    given: dict[str, Any] = {"name": "x", "asks": "?", "hint": "think", "spec": lambda: 7}
    return Exercise(**(given | parts))


def test_a_value_is_not_revealed_and_the_hint_comes_after_two_tries() -> None:
    first, second = (str(judge(_exercise(), 3, tries)) for tries in (0, 1))
    assert first == "Not yet.\n  yours: 3"
    assert second == "Not yet.\n  yours: 3\n  Hint: think"
    assert str(judge(_exercise(), 7, 5)) == "Right."


def test_a_function_names_the_first_difference() -> None:
    row = _exercise(spec=lambda n: [n, n * n], cases=lambda: ((0,), (1,), (2,), (3,)))
    assert str(judge(row, lambda n: [n, n], 0)) == (
        "Not yet.\n  first difference: <lambda>(2)\n  yours at [1]: 2\n  expected at [1]: 4"
    )
    assert str(judge(row, lambda n: [n, n**2], 0)) == "Right, in all 4 cases."
    assert "yours raises ZeroDivisionError" in str(judge(row, lambda n: n / 0, 0))
    assert "expected: '2 values'" in str(judge(row, lambda n: 5, 0))
    assert "yours at length: 3" in str(judge(row, lambda n: [1, 2, 3], 0))


def test_what_is_no_answer_is_no_try() -> None:
    for unanswered in (None, ...):
        assert check("5.1", unanswered).counts is False
    assert check("5.2", lambda *_: None).counts is False
    assert check("5.2", 3).counts is False
    assert "Hint" not in str(check("5.1", 1))
    assert "Hint" in str(check("5.1", 2))
    assert check("5.1", 1569).right
    assert "Hint" not in str(check("5.1", 2))  # a right answer starts anew


def test_mistakes_are_named_only_where_all_cases_agree() -> None:
    wrong = Mistake(spec=lambda n: n + 1, says="one too many")
    row = _exercise(spec=lambda n: n, cases=lambda: ((1,), (2,)), mistakes=(wrong,))
    assert "one too many" in str(judge(row, lambda n: n + 1, 0))
    assert "one too many" not in str(judge(row, lambda n: 2, 0))


@pytest.mark.parametrize(
    ("yours", "expected", "same"),
    [
        (128.0, 128, True),
        (float("nan"), float("nan"), True),
        (float("nan"), 1.0, False),
        (True, 1, False),
        (1, True, False),
        ("5", 5, False),
        (" RCEIL", "rceil", True),
        (np.uint8(5), 5, True),
        (np.arange(4).reshape(2, 2), [[0, 1], [2, 3]], True),
        (np.arange(4), np.arange(4).reshape(2, 2), False),
        ([1, [2, 3]], [1, (2, 3)], True),
        (10**400, 1.0, False),
        (object(), 1, False),
        (1 + 1e-9, 1.0, False),
    ],
)
def test_comparison(yours: object, expected: object, same: bool) -> None:
    assert (difference(yours, expected) is None) is same


def test_close_is_a_tolerance() -> None:
    assert difference([1.0009], [1.0], 1e-3) is None
    assert difference([1.0011], [1.0], 1e-3) is not None
    assert difference(10**400, 1.0, 1e-3) is not None


def test_unknown_names_say_what_is_known() -> None:
    with pytest.raises(InputError, match=r"unknown exercise '5\.99'.*5\.1"):
        check("5.99", 1)
    with pytest.raises(InputError, match="unknown chapter"):
        check("77.1", 1)
    with pytest.raises(InputError, match="unknown chapter"):
        check(5, 1)  # type: ignore[arg-type]


def test_names_are_unique_and_belong_to_their_chapter() -> None:
    names = [row.name for row in ALL]
    assert len(set(names)) == len(names) > 3
    for chapter in CHAPTERS:
        assert all(name.startswith(f"{chapter}.") for name in exercises.exercises(chapter))


IN_PROCESS = [row for row in ALL if not row.name.startswith("p.")]


@pytest.mark.parametrize("row", IN_PROCESS, ids=lambda row: row.name)
def test_the_solution_in_the_notebook_is_right(row: Exercise) -> None:
    solution = solutions().get(row.name)
    assert solution, f"no notebook has a solution of {row.name}"
    space: dict[str, Any] = {}
    exec(solution, space)
    made = space["answer"] if row.cases is None else list(space.values())[-1]
    verdict = judge(row, made, 0)
    assert verdict.right, str(verdict)


def test_the_puzzles_solutions_are_right(tmp_path: Path) -> None:
    """Each in a file, for Triton reads a kernel's source; in a process that interprets kernels."""
    pytest.importorskip("triton")
    names = [row.name for row in ALL if row.name.startswith("p.")]
    lines = ["from mxlab.exercises import check"]
    for name in names:
        module = name.replace(".", "_")
        (tmp_path / f"{module}.py").write_text(solutions()[name], encoding="utf-8")
        lines += [f"import {module}", f"made = list(vars({module}).values())[-1]"]
        lines += [f"print({name!r}, check({name!r}, made))"]
    quiet = {"TRITON_INTERPRET": "1", "TRITON_DEFAULT_FP_FUSION": "1"}
    ran = subprocess.run(
        [sys.executable, "-c", "\n".join(lines)],
        cwd=tmp_path,
        env={**os.environ, **quiet},
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    said = ran.stdout.splitlines()
    assert len(said) == len(names) == 4
    assert all(" Right, in all " in line for line in said), ran.stdout


@pytest.mark.parametrize("row", ALL, ids=lambda row: row.name)
def test_every_mistake_is_wrong_and_named(row: Exercise) -> None:
    cases = list(row.cases()) if row.cases else [()]
    assert len(cases) == 1 or len(cases) >= 4
    for mistake in row.mistakes:
        verdict = judge(row, mistake.spec() if row.cases is None else mistake.spec, 0)
        assert not verdict.right
        assert mistake.says in str(verdict)


@pytest.mark.parametrize("row", ALL, ids=lambda row: row.name)
def test_a_constant_does_not_pass(row: Exercise) -> None:
    if row.cases is None:
        assert not judge(row, "wrong", 0).right
        return
    first = row.spec(*next(iter(row.cases())))
    assert not judge(row, lambda *_: first, 0).right


def test_the_prologues_byte_is_the_kernels() -> None:
    """8.3 against every positive bfloat16 value, as the reference of the prologue rounds them."""
    from mxlab.attention.rounding import scale_bytes, widen

    words = np.arange(0x7F81, dtype=np.uint16)  # up to infinity, and a NaN
    blocks = np.zeros((len(words), 32), np.uint16)
    blocks[:, 0] = words
    spec = exercises.exercise("8.3").spec
    assert [spec(float(x)) for x in widen(words)] == scale_bytes(blocks).tolist()


def test_another_kind_of_answer_is_told_and_is_no_try() -> None:
    assert (
        str(check("5.1", "row 5")) == "This exercise asks for a number.\n  yours: 'row 5', a text"
    )
    assert "Hint" not in str(check("5.1", 1)), "the text was no try"
    for yours in (True, [1569], {1: 2}, print, object()):
        verdict = check("5.1", yours)
        assert not verdict.right and not verdict.counts
    wrong = Mistake(spec=lambda: (1, 2), says="one at a time")
    assert "one at a time" in str(judge(_exercise(mistakes=(wrong,)), (1, 2), 0))


def test_an_answer_that_misbehaves_gets_a_verdict() -> None:
    def leave(*_: object) -> object:
        raise SystemExit(3)

    class Silent:
        def __repr__(self) -> str:
            raise RuntimeError

    row = _exercise(spec=lambda n: n, cases=lambda: ((1,), (2,)))
    assert "yours raises SystemExit: '3'" in str(judge(row, leave, 0))
    assert "yours: <Silent that cannot be written>" in str(judge(row, lambda n: Silent(), 0))
    with pytest.raises(KeyboardInterrupt):
        judge(row, lambda n: (_ for _ in ()).throw(KeyboardInterrupt), 0)


def test_a_function_that_changes_what_it_is_given_is_judged_on_what_it_was_given() -> None:
    row = _exercise(spec=sorted, cases=lambda: (([2, 1],), ([3, 1, 2],)))
    assert judge(row, lambda values: values.sort() or values, 0).right
    said = str(judge(row, lambda values: values.reverse() or values, 0))
    assert "(([3, 1, 2])" in said.replace("<lambda>", "(") and "yours at [0]: 2" in said


def test_every_function_is_asked_for_by_its_name_and_parameters() -> None:
    for row in ALL:
        if row.cases and not row.needs:
            name, _, parameters = row.call().partition("(")
            assert name.isidentifier() and f"{name}(" in row.asks
            assert parameters.count(",") + 1 == len(next(iter(row.cases())))
    assert _exercise(spec=lambda a, b: a).call() == "answer(a, b)"
