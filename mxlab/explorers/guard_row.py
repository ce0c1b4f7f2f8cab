"""A guard's own explorer, ``guard:kv-hd32``: its check on facts that the reader changes.

It opens at settings that trip the guard. Which settings it listens to was found by asking it:
``python -m tools.guard_rows`` writes mxlab/data/guard_rows.json.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import resources
from typing import Any

from mxlab.errors import InputError, choose
from mxlab.explain import COSTS
from mxlab.explorers import guard_row_controls as controls_of
from mxlab.explorers.controls import AnyControl, State, command
from mxlab.explorers.guard_row_code import python
from mxlab.explorers.guard_row_grid import grid
from mxlab.explorers.guard_row_settings import Flat, arguments, decoded, nested
from mxlab.explorers.panels import AnyPanel, Facts, Item, Verdicts, View
from mxlab.explorers.protocol import Explorer
from mxlab.explorers.will_it_run_lines import SIGNS
from mxlab.guards import STAGES, Finding, Guard, Status, facts
from mxlab.guards.engine import fill
from mxlab.guards.systems import find_guard, system

_QUIET = (Status.PASSES, Status.NOT_REACHED, Status.UNKNOWN)
#: status -> how the answer begins, what becomes of the condition
_SAYS: Mapping[Status, tuple[str, str]] = {
    Status.STOPS: ("Stops", "met"),
    Status.WARNS: ("Warns and goes on", "met"),
    Status.SILENT: ("Wrong or slow, and nothing is printed", "met"),
    Status.FALLS_BACK: ("Falls back", "met"),
    Status.PASSES: ("Passes", "not met"),
    Status.NOT_REACHED: ("Not asked here", "not asked"),
    Status.UNKNOWN: ("Not known", "not known"),
}


@dataclass(frozen=True, slots=True)
class Row:
    """A guard with the settings of its explorer."""

    guard: Guard
    start: Flat  # paths that are not at their default
    controls: tuple[AnyControl, ...]
    paths: Mapping[str, tuple[str, Mapping[str, object]]]  # control -> its path, word -> value
    grid: tuple[tuple[object, ...], ...]  # values of the first control, and of the second

    def values(self, state: State) -> dict[str, object]:
        """Return every setting of a state by its path."""
        return {**self.start, **controls_of.read(state, self.paths)}

    def ask(self, values: Flat) -> Finding:
        """Return what the guard says; raise InputError where the settings do not go together."""
        return self.guard.check(facts(**arguments(nested(values))))


def explorer(rest: str) -> Explorer:
    """Return the explorer of the guard called ``rest``, or raise InputError with the nearest id.

    >>> print(explorer("kv-hd32").answer({"head_dim": 96})["view"]["status"])
    passes
    """
    row = _row(rest)
    return Explorer(
        name=f"guard:{rest}",
        title=f"{rest}: the check, live",
        question="Change a setting, and the guard is asked again.",
        controls=row.controls,
        view=lambda state: _view(row, state),
    )


@cache
def _table() -> Mapping[str, Any]:
    file = resources.files("mxlab") / "data" / "guard_rows.json"
    found: Mapping[str, Any] = json.loads(file.read_text(encoding="utf-8"))["guards"]
    return found


@lru_cache(maxsize=128)
def _row(id: str) -> Row:
    data = choose("guard", id, _table())
    known = system(data["system"], data.get("version", ""))
    guard = next((row for row in known.guards if row.id == id), None) or find_guard(id)
    start = {path: decoded(path, value) for path, value in data["set"].items()}
    chosen = [
        (path, [decoded(path, value) for value in values]) for path, values in data["controls"]
    ]
    names = controls_of.names([path for path, _ in chosen])
    paths: dict[str, tuple[str, Mapping[str, object]]] = {}
    controls = []
    for name, (path, values) in zip(names, chosen, strict=True):
        now = controls_of.start_of(path, start)
        paths[name] = (path, controls_of.options_of(path, values))
        controls.append(controls_of.control(path, name, values, now))
    axes = zip((path for path, _ in chosen), data["grid"], strict=False)
    return Row(
        guard,
        start,
        tuple(controls),
        paths,
        tuple(tuple(decoded(path, value) for value in values) for path, values in axes),
    )


def _view(row: Row, state: State) -> View:
    """Return the verdict on one state, and what a change of the first two settings does."""
    guard, values = row.guard, row.values(state)
    panels: list[AnyPanel] = []
    try:
        found = row.ask(values)
    except InputError as error:
        status, sign = Status.UNKNOWN, SIGNS[Status.UNKNOWN][0]
        answer = f"These settings do not go together: {error}"
    else:
        status, sign = found.status, SIGNS[found.status][0]
        answer = f"{_SAYS[status][0]}: {found.because}."
        panels += [_verdict(guard, found), _facts(guard, found)]
    if row.grid:
        panels.append(grid(row.controls, row.paths, row.grid, state, lambda s: _status(row, s)))
    return View(
        status=status,
        sign=sign,
        answer=answer,
        panels=tuple(panels),
        cli=command(f"guard:{guard.id}", row.controls, state),
        python=f"{python(nested(values))}\n"
        f'mine = next(v for v in verdicts if v.guard == "{guard.id}")\n'
        "print(mine.status, mine.because, mine.message)\n",
    )


def _status(row: Row, state: State) -> Status | None:
    try:
        return row.ask(row.values(state)).status
    except InputError:
        return None


def _verdict(guard: Guard, found: Finding) -> Verdicts:
    speaks = found.status not in _QUIET
    message = ""
    if speaks and guard.messages and found.message is not None:
        message = fill(guard.messages[found.message], found.values)
    notes = [("fix", fix) for fix in guard.fixes if fix not in found.done] if speaks else []
    item = Item(
        status=found.status,
        sign=SIGNS[found.status][0],
        name=guard.id,
        stage=guard.stage,
        because=found.because,
        message=message,
        notes=tuple(notes),
    )
    said = "with this text" if message else "without a text"
    alt = f"{guard.id} {SIGNS[found.status][1]}{f', {said}' if speaks else ''}."
    return Verdicts(id="verdict", title="Verdict", alt=alt, items=(item,))


def _facts(guard: Guard, found: Finding) -> Facts:
    word = _SAYS[found.status][1]
    rows = [("condition", word, guard.predicate)]
    if found.status not in _QUIET and guard.fallback not in ("", "none"):
        rows.append(("instead", "", guard.fallback))
    cost = f": {COSTS[guard.stage]}" if guard.stage in COSTS else ""
    rows.append(("stage", guard.stage, f"{STAGES[guard.stage]}{cost}"))
    alt = f"The condition is {word}. Stage {guard.stage}."
    return Facts(id="facts", title="The condition", alt=alt, rows=tuple(rows))
