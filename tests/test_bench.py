"""``mxlab bench``: the yardstick is right and the report complete; no test of speed."""

import json
from typing import Any

import numpy as np
import pytest
from command import Capture, ask, call, refuse

from mxlab.arrays import quantize
from mxlab.bench import quantize as bench
from mxlab.bench.memory import peak_ratio
from mxlab.bench.quantize import plain
from mxlab.bench.report import Report, Row
from mxlab.bench.timing import Timing, measure


@pytest.mark.parametrize("rule", ["floor", "rceil", "ceil", "even"])
def test_the_numpy_yardstick_quantises_as_mxlab_does(rule: str) -> None:
    values = np.random.default_rng(1).standard_normal((64, 96), dtype=np.float32)
    x = values * np.exp2(np.arange(64, dtype=np.float32) - 32)[:, None]
    codes, scales = plain(x, rule)
    q = quantize(x, "e4m3", rule=rule)
    assert len(set(scales.tolist())) > 40
    assert (codes.reshape(q.codes.shape) == q.codes).all()
    assert (scales.reshape(q.scales.shape) == q.scales).all()


@pytest.fixture(autouse=True)
def nothing_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """The compiled rows are run where the compiled kernels are tested."""
    rows = {name: row for name, row in bench.VARIANTS.items() if "compiled" not in name}
    assert len(rows) == len(bench.VARIANTS) - 2
    monkeypatch.setattr(bench, "VARIANTS", rows)


def test_ratios_are_taken_against_the_fastest_peer() -> None:
    def row(name: str, peer: bool, median: float) -> Row:
        timing = Timing(first=9.0, minimum=median, median=median, maximum=median, runs=1)
        return Row(name=name, peer=peer, timing=timing, checked="")

    rows = [row("ours", False, 1.0), row("slow", True, 8.0), row("fast", True, 4.0)]
    report = Report(title="t", parameters={}, work=2.0, unit="u/s", rows=rows)
    answer = report.to_json()
    assert answer["fastest_peer"] == "fast"
    assert [r["ratio_to_fastest_peer"] for r in answer["rows"]] == [4.0, 0.5, 1.0]
    assert [r["rate"] for r in answer["rows"]] == [2.0, 0.25, 0.5]
    assert Report(title="t", parameters={}, work=1, unit="", rows=rows[:1]).fastest_peer is None


def test_variants_take_turns_and_the_first_call_is_apart() -> None:
    order: list[str] = []
    timings = measure({"a": lambda: order.append("a"), "b": lambda: order.append("b")}, runs=3)
    assert order == ["a", "b"] * 4
    assert timings["a"].runs == 3 and timings["a"].minimum <= timings["a"].median


@pytest.mark.parametrize(
    "argv",
    [
        ("quantize", "--rows", "33", "--cols", "64", "--dtype", "bfloat16", "--no-memory"),
        ("gemm", "--m", "3", "--n", "40", "--k", "96"),
    ],
)
def test_the_answer_has_provenance_and_a_checked_peer(
    capsys: Capture, argv: tuple[str, ...]
) -> None:
    answer = ask(capsys, "bench", *argv)
    where = answer["provenance"]
    assert {"device", "cores", "versions", "date", "commit", "command"} <= where.keys()
    assert any(row["peer"] for row in answer["rows"])
    assert all(row["checked"] and row["rate"] > 0 for row in answer["rows"])


def test_the_text_names_the_machine(capsys: Capture) -> None:
    code, out, _ = call(capsys, "bench", "quantize", "--rows", "32", "--cols", "32", "--no-memory")
    assert code == 0 and "cores" in out and "ratio: to the fastest peer" in out


def test_a_ratio_to_each_peer_s_fastest_row() -> None:
    def row(name: str, family: str, median: float) -> Row:
        timing = Timing(first=9.0, minimum=median, median=median, maximum=median, runs=1)
        return Row(name=name, peer=bool(family), family=family, timing=timing, checked="")

    rows = [row("ours", "", 1.0), row("a1", "a", 8.0), row("a2", "a", 4.0), row("b1", "b", 6.0)]
    answer = Report(title="t", parameters={}, work=2.0, unit="u/s", rows=rows).to_json()
    assert answer["fastest_of"] == {"a": "a2", "b": "b1"}
    assert answer["rows"][0]["ratios"] == {"a": 4.0, "b": 6.0}
    assert answer["rows"][1]["ratios"]["a"] == 0.5


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_every_rule_of_ours_and_every_mode_of_torchao(capsys: Capture, dtype: str) -> None:
    """They start from the same data, and what they return is compared before it is timed."""
    pytest.importorskip("torchao", "0.18")
    argv = ("--rows", "96", "--cols", "64", "--rule", "all", "--dtype", dtype, "--no-memory")
    answer = ask(capsys, "bench", "quantize", *argv)
    names = [row["name"] for row in answer["rows"]]
    for variant in bench.VARIANTS:
        assert [f"{variant}, {rule}" in names for rule in bench.RULES] == [True] * 4
    for row in answer["rows"]:
        assert row["checked"] == "0 codes and 0 scales differ from mxlab NumPy", row["name"]
        assert set(row["ratios"]) == {"NumPy + ml_dtypes", "torchao"}
    one = ask(capsys, "bench", "quantize", "--rows", "32", "--cols", "32", "--no-memory")
    assert sum("torchao" in row["name"] for row in one["rows"]) == 4
    assert sum(row["name"] == "mxlab NumPy, rceil" for row in one["rows"]) == 1


def test_a_peer_that_differs_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(x: Any, rule: str) -> Any:
        def once() -> Any:
            codes, scales = plain(x, rule)
            return codes ^ np.uint8(1), scales

        return once

    monkeypatch.setitem(bench.VARIANTS, "wrong", bench.Variant(make=wrong, peer="wrong"))
    report = bench.bench_quantize(rows=2, cols=32, memory=False)
    found = next(row.checked for row in report.rows if row.family == "wrong")
    assert found == "64 codes and 0 scales differ from mxlab NumPy"


def test_the_whole_grid(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "SIZES", (32, 64))
    code, out, _ = call(capsys, "bench", "quantize", "--all", "--no-memory")
    lines = out.splitlines()
    summary = lines[lines.index(next(line for line in lines if line.startswith("size"))) + 1 :]
    assert code == 0 and len(summary) == 4 * sum("mxlab" in name for name in bench.VARIANTS)
    assert {tuple(line.split()[:2]) for line in summary} == {
        (size, dtype) for size in ("32", "64") for dtype in ("float32", "bfloat16")
    }
    code, out, _ = call(capsys, "bench", "quantize", "--all", "--no-memory", "--json")
    assert [report["parameters"]["rows"] for report in json.loads(out)["reports"]] == [
        32,
        32,
        64,
        64,
    ]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", ["mxlab NumPy", "mxlab torch, eager"])
def test_peak_memory_is_bounded(name: str, dtype: str) -> None:
    """At most 2.5 times input and output together; the plain way takes far more."""
    ours = peak_ratio(name, rows=1024, cols=1024, dtype=dtype, rule="rceil")
    assert ours is not None and 0.9 < ours < 2.5
    if name == "mxlab NumPy":
        plainly = peak_ratio("NumPy + ml_dtypes", rows=1024, cols=1024, dtype=dtype, rule="rceil")
        assert plainly is not None and plainly > 2.5


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["quantise"], "quantize"),
        (["--device", "h200"], "cpu"),
        (["--cols", "33"], "multiple of 32; the nearest is 32"),
        (["--rows", "0"], "nearest is 1"),
        (["--dtype", "float16"], "bfloat16"),
        (["--rule", "rcel"], "rceil"),
        (["gemm", "--backend", "tritn"], "reference"),
        (["gemm", "--all"], "expected it with 'quantize'"),
    ],
)
def test_bad_arguments(capsys: Capture, argv: list[str], said: str) -> None:
    assert said in refuse(capsys, "bench", *argv)
