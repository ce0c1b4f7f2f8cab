"""Exercises of the book: an answer is compared with what the specification computes.

A notebook calls ``check("5.1", answer)``. The first difference is named as yours / expected, a
classic mistake is called by its name, and a hint comes after two tries. What is right is computed
when it is asked for, and is never shown before the answer is right.

>>> check("5.1", 1045)
Not yet.
  yours: 1045
  That is row-major: 130 * 8 + 5.
>>> check("5.1", ...)
Nothing to check yet: put your answer in, and run the cell again.
"""

from importlib import import_module

from mxlab.errors import choose
from mxlab.exercises.checker import Exercise, Mistake, Verdict, judge

__all__ = ["CHAPTERS", "Exercise", "Mistake", "Verdict", "check", "exercise", "exercises"]

#: the part of a name before its dot -> the module with those exercises
CHAPTERS = {
    "0": "why_blocks",
    "1": "one_byte",
    "2": "one_block",
    "3": "which_scale",
    "4": "two_axes",
    "5": "scale_layout",
    "6": "gemm",
    "7": "will_my_model_run",
    "8": "attention",
    "9": "cost",
    "p": "puzzles",
}

_tries: dict[str, int] = {}


def exercises(chapter: str) -> dict[str, Exercise]:
    """Return the exercises of one chapter by name, or raise InputError with the known chapters.

    >>> list(exercises("5"))[:2]
    ['5.1', '5.2']
    """
    module = import_module(f"mxlab.exercises.{choose('chapter', chapter, CHAPTERS)}")
    return {row.name: row for row in module.EXERCISES}


def exercise(name: str) -> Exercise:
    """Return the exercise called ``name``, or raise InputError with the names near it.

    >>> exercise("5.1").asks[:35]
    'The scale matrix has 256 rows and 8'
    """
    chapter = name.partition(".")[0] if isinstance(name, str) else ""
    return choose("exercise", name, exercises(chapter))


def check(name: str, yours: object) -> Verdict:
    """Compare an answer with the specification; the verdict's text is what a notebook shows.

    ``yours`` is a value, or a function where the exercise asks for one. ``None``, ``...`` and a
    function that returns them are no try. Raises InputError for an unknown exercise only: what
    your own function raises is part of the verdict.
    """
    row = exercise(name)
    verdict = judge(row, yours, _tries.get(name, 0))
    if verdict.counts:
        _tries[name] = 0 if verdict.right else _tries.get(name, 0) + 1
    return verdict
