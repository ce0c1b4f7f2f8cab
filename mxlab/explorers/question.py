"""An exercise of the book as a live question: an answer, Check, and what the checker says to it.

The checker is the notebooks' (mxlab.exercises). What the reader typed and the number of wrong
tries are the state; what is right is computed when it is asked for and is in no view before.
"""

import contextlib
import io
from collections import Counter
from collections.abc import Callable
from functools import cache

from mxlab.errors import InputError
from mxlab.exercises import exercise
from mxlab.exercises.checker import Exercise, Verdict, judge, kind
from mxlab.explorers import question_code, question_literal
from mxlab.explorers.controls import Answer, AnyControl, Int, State, command
from mxlab.explorers.panels import View
from mxlab.explorers.protocol import Explorer
from mxlab.explorers.still import still

_VALUES = {
    "a number": "A number: 4.5, 0x7E, 2**-9 or 3 * 16 + 2.",
    "True or False": "True or False.",
    "a text": "A word.",
    "several values": "Several values with commas between: True, 0x7E, rceil.",
}
_CODE = "Ctrl+Enter checks it. Your code runs in this page alone and is part of no link."
_TO_TYPE = "Nothing to check yet: type your answer, then press Check."
_TO_WRITE = "Nothing to check yet: write your code in place of the dots, then press Check."


def explorer(rest: str) -> Explorer:
    """Return the live question of the exercise called ``rest``, or raise InputError.

    >>> explorer("5.1").view({"yours": "1045", "tries": 0}).answer.splitlines()[0]
    'Not yet.'
    """
    row = exercise(rest)
    controls = () if row.needs else _controls(row)
    if row.needs:
        packages = " and ".join(row.needs)
        bare = (
            f"This one needs {packages}, which run in no page: solve it in a notebook (make lab)."
        )
    else:
        bare = "Without scripts, put your answer in a notebook (make lab): the cell checks it."

    def view(state: State) -> View:
        return _view(row, controls, state, bare)

    return Explorer(
        name=f"question:{row.name}",
        title=f"Exercise {row.name}",
        question=row.asks,
        controls=controls,
        view=view,
        bare=bare,
    )


_shown: Counter[str] = Counter()


def embedded(name: str) -> str:
    """Return the HTML of the question for a cell's output; a second one has an id of its own."""
    _shown[name] += 1
    times = _shown[name]
    place = f"question-{name.replace('.', '-')}"
    return still(explorer(name), {}, place if times == 1 else f"{place}-{times}")


@cache
def asked(name: str) -> str:
    """Return what kind of value an exercise asks for, such as ``a number``."""
    return kind(exercise(name).spec())


def _controls(row: Exercise) -> tuple[AnyControl, ...]:
    code = row.cases is not None
    return (
        Answer(
            name="yours",
            label="Your function" if code else "Your answer",
            default=f"def {row.call()}:\n    ..." if code else "",
            help=_CODE if code else _VALUES[asked(row.name)],
            limit=(question_code.MOST if code else question_literal.MOST) + 1,
            lines=7 if code else 1,
            counts="tries",
            private=True,
        ),
        Int(
            name="tries",
            label="Wrong tries before this one",
            default=0,
            low=0,
            high=99,
            when=("yours", ()),  # the face counts; nobody sets it
            private=True,
        ),
    )


def _view(row: Exercise, controls: tuple[AnyControl, ...], state: State, bare: str) -> View:
    if row.needs:
        verdict = Verdict(right=False, lines=(bare,), counts=False)
    else:
        with contextlib.redirect_stdout(_Nowhere()):  # a print in the reader's loop has no place
            verdict = _verdict(row, str(state["yours"]), int(state["tries"]))
    status = "passes" if verdict.right else "warns" if verdict.counts else "unknown"
    code = row.cases is not None
    yours = row.call().partition("(")[0] if code else _python(row, str(state["yours"]))
    return View(
        status=status,
        sign={"passes": "\u2713", "warns": "\u2717", "unknown": "\u2026"}[status],
        answer="\n".join(line.strip() for line in verdict.lines),
        panels=(),
        cli=command(f"question:{row.name}", () if code else controls, state),
        python=f'from mxlab.exercises import check\n\nprint(check("{row.name}", {yours}))',
    )


def _verdict(row: Exercise, text: str, tries: int) -> Verdict:
    try:
        yours = _function(row, text) if row.cases else _value(row, text)
    except InputError as error:
        return Verdict(right=False, lines=("Not checked.", f"  {error}"), counts=False)
    verdict = judge(row, yours, tries)
    if verdict.unanswered:
        line = _TO_WRITE if row.cases else _TO_TYPE
        return Verdict(right=False, lines=(line,), counts=False)
    return verdict


def _value(row: Exercise, text: str) -> object:
    """Return the answer; 4,608 is one number where one number is asked for."""
    grouped = question_literal.whole(text)
    if grouped is not None and asked(row.name) == "a number":
        return grouped
    return question_literal.literal(text)


def _function(row: Exercise, text: str) -> Callable[..., object] | None:
    if text.strip() in ("", f"def {row.call()}:\n    ..."):
        return None
    return question_code.function(text, row.call())


def _python(row: Exercise, text: str) -> str:
    try:
        value = _value(row, text)
    except InputError:
        return "..."
    return "..." if value is ... else repr(value)


class _Nowhere(io.TextIOBase):
    def write(self, text: str) -> int:
        return len(text)
