"""The guards' own explorers: each opens where its guard speaks, and says what the guard says."""

import json
import random
import shlex
import time
from typing import Any

import pytest
from explorer_states import states

from book.site.guard_example_known import ALWAYS, NEVER
from mxlab.cli import main
from mxlab.errors import InputError
from mxlab.explorers import answer, drawn, explorer
from mxlab.explorers.controls import Choice, Int, State
from mxlab.explorers.guard_row import _row
from mxlab.explorers.guard_row_settings import arguments, decoded, encoded, flat, nested
from mxlab.explorers.panels import Facts, Grid, Item, Verdicts, View
from mxlab.guards import Status, check, facts
from mxlab.guards.data import every_row
from mxlab.guards.engine import Guard, fill
from tools import guard_rows

ROWS = list(every_row())
IDS = [row.id for row, _ in ROWS]
QUIET = (Status.PASSES, Status.NOT_REACHED, Status.UNKNOWN)
TABLE: dict[str, Any] = json.loads(guard_rows.FILE.read_text(encoding="utf-8"))["guards"]
STALE = "run python -m tools.guard_rows"


def line(view: View) -> Item:
    """The one verdict of a view."""
    (panel,) = [panel for panel in view.panels if isinstance(panel, Verdicts)]
    (item,) = panel.items
    return item


def changes(view: View) -> Grid | None:
    """The grid of changes, where there is one."""
    return next((panel for panel in view.panels if isinstance(panel, Grid)), None)


def ran(source: str) -> Any:
    """What the Python of a view says of its guard."""
    names: dict[str, Any] = {}
    exec(source, names)
    return names["mine"]


def test_every_row_has_one_and_only_those() -> None:
    assert list(TABLE) == IDS, STALE
    for row, version in ROWS:
        mine = TABLE[row.id]
        assert mine["system"] == row.system
        assert ("never" in mine) == (row.id in NEVER)
        assert mine.get("version", version) == version
        assert 0 < len(mine["controls"]) <= guard_rows.MOST


@pytest.mark.parametrize(("row", "version"), ROWS, ids=IDS)
def test_it_opens_where_the_guard_speaks(row: Guard, version: str) -> None:
    record = explorer(f"guard:{row.id}")
    assert record.name == f"guard:{row.id}" and row.id in record.title
    names = [control.name for control in record.controls]
    assert len(set(names)) == len(names) and all(name.isidentifier() for name in names)
    state = record.defaults()
    view = record.view(state)
    item = line(view)
    assert item.status == view.status and item.because in view.answer
    if row.id in NEVER:
        assert view.status == Status.PASSES, "the nearest that there is"
    else:
        assert view.status not in QUIET, STALE
    # the Python on the page is the real check, and it says the same
    said = ran(view.python)
    assert (said.status, said.message, said.because) == (item.status, item.message, item.because)
    assert said.version == version
    assert said.fixes == tuple(text for what, text in item.notes if what == "fix")
    if row.messages and item.message:
        values = row.check(facts(**arguments(_settings(row, state)))).values
        assert item.message in [fill(message, values) for message in row.messages]
    # one click mends it, wherever anything passes
    grid = changes(view)
    if row.id in ALWAYS or row.id in NEVER:
        return
    assert grid is not None
    good = [
        value
        for values, cells in zip(grid.values, grid.cells, strict=True)
        for value, cell in zip(values, cells, strict=True)
        if cell[0] == "✓ passes"
    ]
    assert good, f"{row.id}: no cell passes"
    for value in good[:2]:
        words = str(value).split(" ")
        clicked = record.clean({**state, **dict(zip(grid.sets.split(" "), words, strict=True))})
        assert record.view(clicked).status == Status.PASSES


def _settings(row: Guard, state: State) -> Any:
    return nested(_row(row.id).values(state))


def test_most_are_mended_by_the_first_control() -> None:
    """One change of the first setting is enough for nearly all."""
    alone = 0
    for id in IDS:
        view = explorer(f"guard:{id}").view(explorer(f"guard:{id}").defaults())
        grid = changes(view)
        if grid and grid.chosen:
            ((_, column),) = grid.chosen
            alone += any(cells[column][0] == "✓ passes" for cells in grid.cells)
    assert alone > 0.95 * len(IDS)


def test_views_are_what_the_guards_say() -> None:
    """Random states of every guard, in bounds and out: the check itself, asked by another way."""
    seen: dict[str, int] = {}
    for row, _ in ROWS:
        record = explorer(f"guard:{row.id}")
        for text in states(f"guard:{row.id}", 7):
            state = record.clean(json.loads(text))
            view = record.view(state)
            try:
                asked = arguments(_settings(row, state))
                verdicts = check(**asked)
            except InputError as error:
                assert view.answer == f"These settings do not go together: {error}"
                assert "\n" not in view.answer and view.status == Status.UNKNOWN
                seen["refused"] = seen.get("refused", 0) + 1
                continue
            (mine,) = [v for v in verdicts if v.guard == row.id]
            item = line(view)
            assert (item.status, item.message, item.because) == (
                *(mine.status, mine.message, mine.because),
            )
            fixes = tuple(text for what, text in item.notes if what == "fix")
            assert fixes == mine.fixes
            seen[mine.status] = seen.get(mine.status, 0) + 1
    assert sum(seen.values()) > 3000
    assert min(seen[status] for status in ("stops", "passes", "not-reached", "silent")) > 50
    assert seen["refused"] > 0


@pytest.mark.parametrize("id", IDS[::23])
def test_the_python_of_any_state_repeats_it(id: str) -> None:
    record = explorer(f"guard:{id}")
    for text in states(f"guard:{id}", 4):
        view = record.view(record.clean(json.loads(text)))
        if view.answer.startswith("These settings"):
            with pytest.raises(InputError):
                ran(view.python)
        else:
            said, item = ran(view.python), line(view)
            assert (said.status, said.message) == (item.status, item.message)


def test_settings_and_paths_mean_the_same() -> None:
    for id, mine in TABLE.items():
        values = {path: decoded(path, value) for path, value in mine["set"].items()}
        assert {path: encoded(path, value) for path, value in values.items()} == mine["set"], id
        if not any(path.startswith("packages.") for path in values):
            assert nested(flat(nested(values))) == nested(values)


@pytest.mark.parametrize(
    "state",
    [
        {"head_dim": 10**400, "mla": {"a": 1}},
        {"head_dim": "0" * 10_000, "evil": "<script>"},
        {"head_dim": float("1e308"), "page_size": "\ud800", "mla": ["yes"]},
        {"head_dim": -5, "kv_cache_dtype": "MXFP8 "},
        {"head_dim": True, "architecture": "none\0"},
        [],
        None,
        "x",
    ],
)
def test_any_state_gets_an_answer(state: object) -> None:
    record = explorer("guard:kv-hd32")
    tidy = record.clean(state)
    assert 1 <= int(tidy["head_dim"]) <= 2**20 and set(tidy) == {c.name for c in record.controls}
    assert record.answer(state)["view"]["status"] in ("stops", "passes")


def test_the_largest_numbers_are_quick() -> None:
    """Every number at its bounds: no loop over a size, no fault."""
    start, most = time.perf_counter(), 0.0
    for id in IDS:
        record = explorer(f"guard:{id}")
        for pick in ("low", "high"):
            state = {c.name: getattr(c, pick) for c in record.controls if isinstance(c, Int)}
            before = time.perf_counter()
            record.view(record.clean(state))
            most = max(most, time.perf_counter() - before)
    assert most < 0.25, "one view"
    assert time.perf_counter() - start < 10


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("guard:kv-hd33", "did you mean 'kv-hd32'?"),
        ("guard:", "unknown guard ''"),
        ("guard:kv-hd32:x", "unknown guard 'kv-hd32:x'"),
        ("guard:../secrets", "unknown guard '../secrets'"),
        ("guard:" + "a" * 100_000, "..."),
        ("guard:\0\ud800", "unknown guard"),
        ("guards:kv-hd32", "unknown explorer"),
    ],
)
def test_another_name_is_one_line(name: str, says: str) -> None:
    with pytest.raises(InputError) as caught:
        explorer(name)
    text = str(caught.value)
    assert says in text and "\n" not in text and len(text) < 500
    assert json.loads(answer(name, "{}"))["state"] == {}
    assert drawn(name, "{}") == ""


def test_on_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explore", "guard:kv-hd32"]) == 1
    assert "head_dim = 80 % 32 = 16" in capsys.readouterr().out
    assert main(["explore", "guard:kv-hd32", "head_dim=96", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["explorer"] == "guard:kv-hd32" and shown["view"]["status"] == "passes"
    assert shown["view"]["cli"] == "mxlab explore guard:kv-hd32 head_dim=96"
    assert main(["explore", "guard:kv-hd32", "head_dim=0"]) == 2
    assert "the nearest is 1" in capsys.readouterr().err


def test_the_command_of_a_view_repeats_it(capsys: pytest.CaptureFixture[str]) -> None:
    for id in IDS[::40]:
        record = explorer(f"guard:{id}")
        state = record.clean(json.loads(states(f"guard:{id}", 1)[0]))
        view = record.view(state)
        program, *argv = shlex.split(view.cli)
        assert program == "mxlab"
        assert main([*argv, "--json"]) == int(view.status == "stops")
        assert json.loads(capsys.readouterr().out)["view"] == view.to_json()


def test_a_view_is_quick() -> None:
    """The target is 15 ms on a slow core; this bound leaves room for a busy one."""
    for id in ("wsp-deepgemm", "ink-cu-t", "torch-v1-config", "g95-dot-prequant"):
        times = []
        for _ in range(5):
            before = time.perf_counter()
            record = explorer(f"guard:{id}")
            record.view(record.defaults())
            times.append(time.perf_counter() - before)
        assert min(times) < 0.015


def test_what_a_reader_sees() -> None:
    record = explorer("guard:wsp-deepgemm")
    by_name = {control.name: control for control in record.controls}
    assert [control.name for control in record.controls][:2] == ["k", "n"], "what mends comes first"
    gpu = by_name["gpu"]
    assert isinstance(gpu, Choice) and len(gpu.options) > 20 and ("h200", "H200") in gpu.options
    view = record.view(record.clean({"k": 2880}))
    assert "K = 2880 % 128 = 64" in view.answer and view.sign == "✕"
    grid = changes(view)
    assert grid is not None and grid.sets == "k n" and "K 2816 with N 2880" in grid.alt
    (table,) = [panel for panel in view.panels if isinstance(panel, Facts)]
    assert table.rows[0][:2] == ("condition", "met")
    fine = record.view(record.clean({"k": 2944}))
    assert fine.answer.startswith("Passes: ") and not line(fine).message and not line(fine).notes
    grid = changes(fine)
    assert grid is not None and "2944" in grid.rows, "the reader's own value has a row"
    rare = random.Random(1).choice(record.controls)
    assert rare.label and rare.group
