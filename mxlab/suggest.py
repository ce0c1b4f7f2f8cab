"""The smallest changes under which a model that stops would run, each tried and not guessed."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from mxlab.changes import IGNORED, Change, Situation, apply, candidates
from mxlab.diagnosis import Report
from mxlab.errors import InputError
from mxlab.examiner import Examiner
from mxlab.guards import Status
from mxlab.padding import Padding

__all__ = ["IGNORED", "suggestions"]

WANTED = 5  # suggestions to offer
_CHANGES = 3  # at most, at once
_BUDGET = 400  # evaluations at most, unless asked for fewer

_Set = tuple[Change, ...]


@dataclass(frozen=True, slots=True)
class _Tried:
    """A set of changes and what it came to."""

    changes: _Set
    report: Report
    padding: Padding

    def price(self) -> tuple[object, ...]:
        """Return the sort key: fewest changes, then what degrades, then the dearest change."""
        return (
            len(self.changes),
            _badness(self.report),
            max(change.dear for change in self.changes),
            sum(change.dear for change in self.changes),
            sum(max(0, change.gpus) for change in self.changes),
            sum(change.bytes for change in self.changes),
            sum(abs(change.gpus) for change in self.changes),
        )

    def to_json(self) -> dict[str, Any]:
        ordered = sorted(self.changes, key=lambda change: change.text)
        return {
            "changes": [change.text for change in ordered],
            "outcome": self.report.outcome,
            "costs": [change.to_json() for change in ordered],
            "degrades": _degrades(self.report),
        }


def _badness(report: Report) -> int:
    """Return 0 where it runs, 1 where something falls back or warns, 2 where it is silent."""
    said = {verdict.status for _, verdict in report.heard()}
    if Status.SILENT in said:
        return 2
    if report.outcome == "unknown":
        return 3
    return int(report.outcome != "runs")


def _degrades(report: Report) -> list[str]:
    """Return what is still replaced, slower, wrong in silence or unknown, once a guard."""
    found: dict[str, str] = {}
    for where, verdict in report.subjects():
        if verdict.degrades or verdict.status is Status.UNKNOWN:
            found.setdefault(
                verdict.guard, f"{verdict.status} {verdict.guard} at {where}: {verdict.because}"
            )
    return [*found.values(), *(f"unknown: {text}" for text in report.shapes.unknown)]


class _Search:
    """Tries sets of changes on one model, each once, within a budget."""

    def __init__(self, examiner: Examiner, report: Report, budget: int) -> None:
        self.examiner, self.root, self.budget = examiner, report, budget
        self.tried: dict[frozenset[str], _Tried | None] = {}

    def attempt(self, changes: _Set) -> _Tried | None:
        """Return what a set of changes comes to; None where no launch could have it."""
        key = frozenset(change.text for change in changes)
        if key not in self.tried:
            self.tried[key] = self._evaluate(changes)
        return self.tried[key]

    def _evaluate(self, changes: _Set) -> _Tried | None:
        deployment = self.root.deployment
        padding: Padding = {}
        for change in changes:
            deployment = apply(deployment, change)
            padding = change.value if change.field == "padding" else padding
        try:
            return _Tried(changes, self.examiner.evaluate(deployment, padding), padding)
        except InputError:
            return None

    def further(self, node: _Tried) -> Iterator[_Tried]:
        """Yield what one change more comes to."""
        now = Situation(node.report.deployment, node.report, node.padding, self.examiner.runs)
        fields = {change.field for change in node.changes}
        fresh = not _stopping(node.report) <= _stopping(self.root)
        for change in candidates(now):
            if change.field in fields or len(self.tried) >= self.budget:
                continue
            alone = self.tried.get(frozenset({change.text}))
            # a change that moves nothing on its own helps only against a stop that is new here
            if alone and not fresh and _stopping(alone.report) == _stopping(self.root):
                continue
            if frozenset({*(c.text for c in node.changes), change.text}) in self.tried:
                continue
            after = self.attempt((*node.changes, change))
            if after is not None:
                yield after

    def minimal(self, found: _Tried) -> bool:
        """Tell whether the model stops again once any one of the changes is left out."""
        for change in found.changes:
            fewer = self.attempt(tuple(c for c in found.changes if c is not change))
            if fewer is not None and fewer.changes and fewer.report.outcome != "stops":
                return False
        return True


def suggestions(
    examiner: Examiner, report: Report, budget: int = _BUDGET
) -> tuple[dict[str, Any], ...]:
    """Return up to five smallest sets of changes after which no guard stops the model.

    Every set was evaluated with the same guards: ``outcome`` is what it came to, ``degrades`` what
    is still replaced or silent. No set can spare one of its changes. Fewest changes come first,
    then what degrades least, then what costs least; sets that change the same flags to other values
    come after sets that change others. ``budget`` is the most evaluations of a search.
    """
    search = _Search(examiner, report, budget)
    frontier = [_Tried((), report, {})]
    for _ in range(_CHANGES):
        works: list[_Tried] = []
        moved: list[_Tried] = []
        for node in frontier:
            for after in search.further(node):
                if after.report.outcome != "stops":
                    works.append(after)
                elif _stopping(after.report) != _stopping(node.report):
                    moved.append(after)
        works = [found for found in works if search.minimal(found)]
        if works:
            return tuple(found.to_json() for found in _best(works))
        frontier = sorted(moved, key=lambda node: len(_stopping(node.report)))
    return ()


def _best(works: Iterable[_Tried]) -> list[_Tried]:
    """Return the cheapest sets, first one for each combination of flags."""
    ordered = sorted(works, key=_Tried.price)
    first: dict[frozenset[str], _Tried] = {}
    for found in ordered:
        first.setdefault(frozenset(change.field for change in found.changes), found)
    others = [found for found in ordered if found not in first.values()]
    return sorted([*first.values(), *others][:WANTED], key=_Tried.price)


def _stopping(report: Report) -> frozenset[tuple[str, str]]:
    return frozenset(
        (where, verdict.guard)
        for where, verdict in report.heard()
        if verdict.status is Status.STOPS
    )
