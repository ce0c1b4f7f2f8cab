"""The plain checks on the guard pages, against the guards, over what their explorers can be set to.

The rest is as in the example that trips: that is what the page says of the check.
"""

import random
from typing import Any

import pytest

from book.site.guard_check_code import check_of
from mxlab.errors import InputError
from mxlab.explorers import explorer
from mxlab.explorers.controls import Choice, Int
from mxlab.explorers.guard_row import _row
from mxlab.guards import Status
from mxlab.guards.data import every_row
from mxlab.guards.engine import Guard

TRIPS = (Status.STOPS, Status.WARNS, Status.SILENT, Status.FALLS_BACK)
ROWS = [row for row, _ in every_row() if check_of(row).rule is not None]
STATES = 60


def drawn(control: Int | Choice, draw: random.Random) -> object:
    if isinstance(control, Choice):
        return draw.choice([value for value, _ in control.options])
    sizes = (draw.randrange(1, 20_000), 32 * draw.randrange(1, 300), 128 * draw.randrange(1, 80))
    return min(max(draw.choice((*sizes, 1, 2, 3, 8, 64)), control.low), control.high)


def test_there_are_plain_checks() -> None:
    assert len(ROWS) > 120


@pytest.mark.parametrize("row", ROWS[::4], ids=[row.id for row in ROWS[::4]])
def test_a_plain_check_says_what_the_guard_says(row: Guard) -> None:
    check, record, draw = check_of(row), explorer(f"guard:{row.id}"), random.Random(row.id)
    assert check.rule is not None and check.trips is not None
    known = {name: value for (_, name), value in check.trips.items()}
    controls = {c.name: c for c in record.controls if isinstance(c, Int | Choice)}
    own = [name for name in check.rule.conditions if name in controls]
    seen = {True: 0, False: 0}
    for number in range(STATES):
        state: dict[str, Any] = dict(record.defaults())
        changed = own if number % 3 else [draw.choice(own)] if own else []
        state.update({name: drawn(controls[name], draw) for name in changed})
        values = _row(row.id).values(state)
        try:
            status = _row(row.id).ask(values).status
        except InputError:
            continue
        if status is not Status.PASSES and status not in TRIPS:
            continue
        mine = (row.subject, "deployment")
        given = {p.rpartition(".")[2]: v for p, v in values.items() if p.split(".")[0] in mine}
        holds = bool(eval(check.rule.source(), {"__builtins__": {}}, {**known, **given}))
        assert holds is (status is Status.PASSES), (check.rule.source(), given, status)
        seen[holds] += 1
    assert seen[False], "no state trips"
