"""``mxlab bench``: the yardstick is right and the report complete; no test of speed."""

import numpy as np
import pytest
from command import Capture, ask, call, refuse

from mxlab.arrays import quantize
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
        ("quantize", "--rows", "33", "--cols", "64", "--dtype", "bfloat16"),
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
    code, out, _ = call(capsys, "bench", "quantize", "--rows", "32", "--cols", "32")
    assert code == 0 and "cores" in out and "ratio: to the fastest peer" in out


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
    ],
)
def test_bad_arguments(capsys: Capture, argv: list[str], said: str) -> None:
    assert said in refuse(capsys, "bench", *argv)
