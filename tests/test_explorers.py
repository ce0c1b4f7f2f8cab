"""Explorers without a browser: any state is answered, and the answer is the library's own."""

import json
import math
import random
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mxlab.cli import main
from mxlab.errors import InputError
from mxlab.explorers import EXPLORERS, answer, explorer
from mxlab.explorers.controls import Choice, Int, Text, clean
from mxlab.explorers.panels import MOST_CELLS, Grid
from mxlab.explorers.will_it_run_controls import CONTROLS
from mxlab.guards import Deployment, KvCacheFacts, LinearFacts, check
from mxlab.layout import layout

RECORD = explorer("will_it_run")


def view(**state: object) -> dict[str, Any]:
    result = json.loads(answer("will_it_run", json.dumps(state)))
    assert "error" not in result, result
    found: dict[str, Any] = result["view"]
    return found


def panel(name: str, shown: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = next(p for p in shown["panels"] if p["id"] == name)
    return found


def items(shown: dict[str, Any]) -> list[dict[str, Any]]:
    return [item for run in panel("guards", shown)["runs"] for item in run["items"]]


# ---- controls ----

INT = Int(name="n", label="N", default=4, low=-2, high=8)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        *[(3, 3), (-2, -2), (8, 8), (9, 8), (-3, -2), (10**400, 8), (-(10**400), -2)],
        *[("7", 7), (" +5 ", 5), ("99", 8), ("9" * 5000, 4), ("0x7", 4), ("", 4), ("٣", 4)],
        *[(2.6, 3), (1e300, 8), (math.nan, 4), (math.inf, 4), (-math.inf, 4)],
        *[(True, 4), (None, 4), ([], 4), ({}, 4)],
    ],
)
def test_an_int_takes_the_nearest_value_or_its_default(given: object, expected: int) -> None:
    value = INT.clean(given)
    assert value == expected and type(value) is int


def test_a_choice_takes_its_options_only() -> None:
    control = Choice(name="c", label="C", default="b", options=(("a", "A"), ("b", "B")))
    assert [control.clean(x) for x in ("a", "A", "c", 1, None, "a" * 10**6, ["a"])] == list(
        "aabbbbb"
    )


def test_a_text_is_cut_and_freed_of_what_no_page_can_hold() -> None:
    control = Text(name="t", label="T", default="d", limit=5)
    assert control.clean("a\0b\ud800c+++") == "a\ufffdb\ufffdc"
    assert control.clean(5) == "d"
    assert control.clean("😀" * 9) == "😀" * 5


def test_clean_drops_unknown_names_and_completes() -> None:
    assert clean([INT], {"n": 5, "__class__": 1}) == {"n": 5}
    others: tuple[object, ...] = (None, [], "n", 5)
    for not_a_state in others:
        assert clean([INT], not_a_state) == {"n": 4}


def test_every_control_has_a_name_a_default_and_a_slider_inside_its_bounds() -> None:
    for name in EXPLORERS:
        controls = explorer(name).controls
        assert len({control.name for control in controls}) == len(controls)
        for control in controls:
            assert control.label and control.clean(control.default) == control.default
            if isinstance(control, Int) and control.slider:
                low, high, step = control.slider
                assert control.low <= low < high <= control.high and step > 0


# ---- answer() never raises ----

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)
NAMES = st.sampled_from([control.name for control in CONTROLS])


@settings(max_examples=80, deadline=None)
@given(st.dictionaries(NAMES, JSON | st.integers(-(2**70), 2**70), max_size=14))
def test_any_state_is_answered_with_a_view(state: dict[str, object]) -> None:
    result = json.loads(answer("will_it_run", json.dumps(state)))
    assert set(result) == {"state", "view"}
    assert result["state"] == RECORD.clean(result["state"])


@pytest.mark.parametrize(
    "text",
    [
        *["", "null", "[]", "5", '"x"', "{", '{"n": NaN}', '{"n": Infinity}', "\0", "\ud800"],
        "[" * 100_000,
        '{"n":' * 50_000,
        '{"n": ' + "9" * 10_000 + "}",
        "{" + " " * 2_000_000 + "}",
    ],
)
def test_text_that_is_no_state_is_the_default_state(text: str) -> None:
    assert json.loads(answer("will_it_run", text))["state"] == RECORD.defaults()


def test_an_unknown_explorer_is_a_sentence() -> None:
    assert "did you mean 'will_it_run'" in json.loads(answer("will_it_rn", "{}"))["error"]
    assert json.loads(answer("../etc", "{}"))["state"] == {}


def test_a_fault_of_a_view_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_state: object) -> object:
        raise RuntimeError("x" * 10_000)

    monkeypatch.setattr("mxlab.explorers.will_it_run.view", broken)
    record = RECORD.__class__(
        name="b",
        title="B",
        question="?",
        controls=(INT,),
        view=broken,  # type: ignore[arg-type]
    )
    found = record.answer({})
    assert "fault in mxlab" in found["error"] and len(found["error"]) < 500


# ---- will it run? says what check() and layout() say ----


def random_state(seed: int) -> dict[str, int | str]:
    """Return a state of one layer, typed in."""
    chance = random.Random(seed)
    state: dict[str, int | str] = {}
    for control in CONTROLS:
        if control.name in ("config", "matrix"):
            continue
        if isinstance(control, Choice):
            state[control.name] = chance.choice(control.options)[0]
        elif isinstance(control, Int):
            low, high, step = control.slider or (control.low, min(control.high, 4000), 1)
            state[control.name] = chance.randrange(low, high + 1, step)
    return state


def test_the_verdicts_are_those_of_check() -> None:
    seen = set()
    for seed in range(60):
        state = {**random_state(seed), "split": "column", "model": "other", "checkpoint": "bf16"}
        if seed % 4 == 0:  # where shapes decide
            state |= {"gpu": "b200", "backend": "deep_gemm", "packages": "both"}
        tp = int(state["tp"])
        state["n"] = int(state["n"]) // tp * tp or tp
        state["kv_heads"] = int(state["kv_heads"]) // tp * tp or tp
        where = Deployment(
            gpu=str(state["gpu"]),
            tp=tp,
            quantization="mxfp8",
            fp8_gemm_backend=str(state["backend"]),
            kv_cache_dtype=str(state["kv_dtype"]),
            attention_backend=None if state["attention"] == "auto" else str(state["attention"]),
            page_size=int(state["page_size"]) or None,
            packages={
                "both": frozenset({"flashinfer", "deep_gemm"}),
                "no-flashinfer": frozenset({"deep_gemm"}),
                "no-deep-gemm": frozenset({"flashinfer"}),
                "neither": frozenset[str](),
            }[str(state["packages"])],
        )
        dim = int(state["head_dim"])
        expected = check(
            where,
            linear=LinearFacts("x", int(state["n"]) // tp, int(state["k"]), shard="column"),
            kv_cache=KvCacheFacts(dim, dim, int(state["kv_heads"]) // tp),
        )
        shown = items(view(**state))
        got = [(i["name"], i["status"], i["because"], i["message"]) for i in shown]
        assert got == [(v.guard, v.status, v.because, v.message) for v in expected]
        seen |= {verdict.status.value for verdict in expected}
    assert {"passes", "stops", "falls-back", "warns", "not-reached"} <= seen


def test_the_answer_names_the_first_stop() -> None:
    for seed in range(40):
        shown = view(**random_state(seed))
        stops = [item for item in items(shown) if item["status"] == "stops"]
        if stops:
            assert shown["answer"].startswith(f"Stops at {stops[0]['stage']} (")
            assert stops[0]["name"] in shown["answer"] and stops[0]["because"] in shown["answer"]
        else:
            assert shown["status"] != "stops"


def test_a_tp_that_does_not_divide_is_a_stop_with_the_numbers() -> None:
    shown = view(n=8640, tp=7, model="other", kv_dtype="auto")
    stops = [item for item in items(shown) if item["name"].startswith("TP does not")]
    assert [stop["because"] for stop in stops] == [
        "N=8640 not divisible by 7",
        "KV heads=8 not divisible by 7",
    ]
    assert [p["id"] for p in shown["panels"]] == ["guards", "rank"]
    stages = [item["stage"] for item in items(shown)]
    assert stages == sorted(stages) and shown["answer"].startswith("Stops at S4")
    assert "K=2880 not divisible by 7" in json.dumps(view(split="row", tp=7))
    names = {item["name"] for item in items(view(tp=7, split="replicated", kv_heads=8))}
    assert "wsp-deepgemm" in names and "kv-hd32" not in names


@pytest.mark.parametrize(
    ("split", "tp", "kv", "expected"),
    [
        ("column", 2, 8, ["2,560", "2,880", "4"]),
        ("row", 4, 8, ["5,120", "720", "2"]),
        ("replicated", 16, 8, ["5,120", "2,880", "1"]),
        ("column", 3, 8, ["none", "none", "none"]),
    ],
)
def test_one_rank_holds_its_part(split: str, tp: int, kv: int, expected: list[str]) -> None:
    rows = panel("rank", view(split=split, tp=tp, kv_heads=kv))["rows"]
    assert [value for _, value, _ in rows] == expected


@pytest.mark.parametrize(
    ("n", "k", "tile"), [(300, 320, 8), (1, 1, 0), (129, 160, 3), (128, 128, 0)]
)
def test_both_grids_are_the_layout(n: int, k: int, tile: int) -> None:
    shown = view(n=n, k=k, tile=tile, tp=1)
    rows, columns, where = n, -(-k // 32), layout("tile_128x4")
    across = -(-columns // 4)
    top, left = tile // across * 128, tile % across * 4
    logical, physical = panel("logical", shown), panel("physical", shown)
    filled = 0
    for r in range(128):
        for c in range(4):
            inside = top + r < rows and left + c < columns
            assert (logical["tone"][r][c] >= 0) == inside
            if inside:
                byte = where.offset(top + r, left + c, rows, columns)
                assert logical["text"][r][c] == str(byte)
                line, place = divmod(byte - tile * 512, 16)
                assert physical["text"][line][place] == f"{top + r},{left + c}"
                assert physical["key"][line][place] == logical["key"][r][c] == byte
                filled += 1
    assert filled > 0
    assert sum(tone >= 0 for row in physical["tone"] for tone in row) == filled


def test_a_tile_beyond_the_last_is_the_last() -> None:
    assert view(tile=10**9)["panels"] == view(tile=40 * 23 - 1)["panels"]


def test_every_panel_says_itself_in_words() -> None:
    for seed in range(20):
        for shown in view(**random_state(seed))["panels"]:
            assert shown["title"] and shown["alt"].endswith(".")
    with pytest.raises(ValueError, match="more than 1024"):
        Grid(
            id="g",
            title="t",
            alt="a",
            corner="",
            columns=("c",) * 33,
            rows=("r",) * (MOST_CELLS // 32),
            cells=(),
            legend=(),
            say="",
        )


def test_the_python_snippet_gives_the_same_verdicts(capsys: pytest.CaptureFixture[str]) -> None:
    for seed in range(8):
        state = {**random_state(seed), "tp": 1}
        shown = view(**state)
        exec(compile(shown["python"], "snippet", "exec"), {})
        lines = capsys.readouterr().out.splitlines()
        assert len(lines) > 10
        assert lines == [
            f"{i['stage']} {i['name']} {i['status']} {i['because']}" for i in items(shown)
        ]


def test_the_command_gives_the_same_view(capsys: pytest.CaptureFixture[str]) -> None:
    shown = view(gpu="h200", k=7392, tp=2)
    command = shown["cli"].split()
    assert command[:3] == ["mxlab", "explore", "will_it_run"]
    code = main([*command[1:], "--json"])
    printed = json.loads(capsys.readouterr().out)
    assert printed["view"] == shown and code == int(shown["status"] == "stops")
    assert main(command[1:]) == code
    text = capsys.readouterr().out
    for item in items(shown):
        assert item["name"] in text


@pytest.mark.parametrize("setting", ["n=0", "n=x", "gpu=h300", "zz=1", "n", "tp=1e9"])
def test_the_command_refuses_what_a_permalink_would_mend(
    setting: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explore", "will_it_run", setting]) == 2
    error = capsys.readouterr().err
    assert error.startswith("mxlab: ") and error.count("\n") == 1


def test_no_name_of_an_explorer_reaches_the_file_system() -> None:
    for name in ("os", "..", "will_it_run.py", "", "static/face"):
        with pytest.raises(InputError):
            explorer(name)


def test_explorers_need_the_standard_library_alone() -> None:
    code = (
        "import sys\n"
        "for name in ('numpy', 'torch', 'anywidget', 'traitlets', 'ipywidgets'):\n"
        "    sys.modules[name] = None\n"
        "from mxlab.explorers import answer, explorer\n"
        "from mxlab.explorers.still import still\n"
        "assert 'view' in answer('will_it_run', '{}')\n"
        "assert '<img' in still(explorer('will_it_run'), {}, 'm')\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
