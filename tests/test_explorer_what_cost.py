"""What does it cost?: the figures are the committed ones, the bytes those of real buffers."""

import json
import random
import shlex
import sys
import time
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import mxlab
from mxlab.cli import main
from mxlab.explorers import answer, drawn, explorer, what_cost, what_cost_here
from mxlab.explorers.what_cost_bytes import mxfp8_bytes
from mxlab.explorers.what_cost_data import run
from mxlab.layout import LAYOUTS
from tools.bench_rows import MEASURED, ROWS, text

RECORD = explorer("what_cost")
RUN: dict[str, Any] = json.loads(MEASURED.read_text())
GEMMS = [found for name, found in RUN["reports"].items() if name.startswith("gemm ")]


def view(**state: object) -> dict[str, Any]:
    result = json.loads(answer("what_cost", json.dumps(state)))
    assert "error" not in result, result
    found: dict[str, Any] = result["view"]
    return found


def panels(shown: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {found["id"]: found for found in shown["panels"]}


def test_the_rows_are_those_of_the_committed_run() -> None:
    assert ROWS.read_text() == text(), "python -m tools.bench_rows makes them anew"


@pytest.mark.parametrize("number", range(len(GEMMS)))
def test_every_product_is_shown_as_it_was_measured(number: int) -> None:
    report = GEMMS[number]
    m, n, k = (report["parameters"][name] for name in "mnk")
    shown = view(weights=f"{n}x{k}", m=m)
    grid = panels(shown)["times"]
    rows = {row["name"]: row for row in report["rows"]}
    assert sorted(grid["rows"]) == sorted(rows) and len(rows) > 4
    spent = [rows[name]["seconds"]["median"] for name in grid["rows"]]
    assert spent == sorted(spent)
    bf16 = rows["cuBLAS bf16"]["seconds"]["median"]
    for name, texts, tone in zip(grid["rows"], grid["text"], grid["tone"], strict=True):
        row, median = rows[name], rows[name]["seconds"]["median"]
        value, unit = texts[0].split(" ")
        assert float(value) * {"us": 1e-6, "ms": 1e-3}[unit] == pytest.approx(median, rel=0.01)
        assert float(texts[1]) == pytest.approx(row["rate"], rel=2e-3)
        assert float(texts[2].replace(",", "")) == pytest.approx(row["gb_per_s"], rel=0.01, abs=1)
        assert float(texts[3].split(" ")[0]) == pytest.approx(100 * row["of_ceiling"], abs=0.6)
        assert float(texts[4]) == pytest.approx(bf16 / median, abs=0.006)
        assert row["checked"].endswith(texts[5]) and texts[5]
        other = name in ("cuBLAS bf16", "torch fp8")
        assert set(tone) == {int(other)} and (texts[6] == "MXFP8, emulated") != other
    mine = min((name for name in rows if name not in ("cuBLAS bf16", "torch fp8")),
               key=lambda name: float(rows[name]["seconds"]["median"]))  # fmt: skip
    ratio = bf16 / rows[mine]["seconds"]["median"]
    assert f"M = {m}, (N, K) = ({n:,}, {k:,}): {mine} takes " in shown["answer"]
    assert f"{ratio:.2f} times as fast" in shown["answer"] and "emulated MXFP8" in shown["answer"]
    assert shown["status"] == ("passes" if ratio >= 1 else "warns")
    said = panels(shown)["chart"]["alt"].split(f"{mine} ")[1].split("; ")[0]
    assert float(said) == pytest.approx(rows[mine]["rate"], rel=1e-3)


def test_an_m_that_was_not_measured_is_the_nearest_and_says_so() -> None:
    assert "was not measured" not in view(m=16)["answer"]
    for m, near in ((20, 16), (2, 1), (60_000, 8192), (40, 48)):
        shown = view(m=m)
        assert f"M = {m} was not measured, {near} is the nearest. " in shown["answer"]
        assert panels(shown)["times"]["title"].startswith(f"M = {near},")


def test_the_chart_has_a_point_for_every_figure_and_a_roof() -> None:
    for axis in ("m", "intensity"):
        chart = panels(view(axis=axis))["chart"]
        dots = [shape for shape in chart["shapes"] if shape[0] == "dot"]
        products = [
            g for g in GEMMS if (g["parameters"]["n"], g["parameters"]["k"]) == (8192, 8192)
        ]
        assert len(dots) == sum(len(report["rows"]) for report in products) > 70
        assert all(0 <= x <= chart["width"] and 0 <= y <= chart["height"] for _, (x, y, *_), *_
                   in chart["shapes"])  # fmt: skip
        names = [shape[3] for shape in chart["shapes"] if shape[0] == "text"]
        assert {"mxlab triton-skinny", "cuBLAS bf16", "roof, MXFP8 bytes"} <= set(names)
        ends = sorted(s[1][1] for s in chart["shapes"] if s[0] == "text" and s[1][0] == 573)
        assert all(b - a >= 14.9 for a, b in pairwise(ends)), "labels overlap"
    only = {s[3] for s in panels(view(lines="mxfp8"))["chart"]["shapes"] if s[0] == "text"}
    assert "cuBLAS bf16" not in only and "mxlab triton" in only
    best = {s[3] for s in panels(view(lines="best"))["chart"]["shapes"] if s[0] == "text"}
    assert {"cuBLAS bf16", "mxlab triton-skinny"} <= best and "tl.dot_scaled" not in best


def test_a_dot_stands_where_its_numbers_say() -> None:
    chart = panels(view())["chart"]
    dots = [(s[1][0], s[1][1], s[8]) for s in chart["shapes"] if s[0] == "dot"]
    said = [(x, y, *map(float, s.rsplit(": ", 1)[1].replace(",", "").split(" at ")))
            for x, y, s in dots]  # fmt: skip
    right = sorted(said, key=lambda dot: dot[3])
    assert [x for x, *_ in right] == sorted(x for x, *_ in right)
    up = sorted(said, key=lambda dot: -dot[2])
    assert all(a[1] <= b[1] + 0.2 for a, b in pairwise(up))


@pytest.mark.parametrize("what", ["quantize", "dequantize", "interleave", "grouped"])
def test_other_work_is_shown_as_it_was_measured(what: str) -> None:
    shown = view(what=what)
    grid, chart = panels(shown)["times"], panels(shown)["chart"]
    expected = [
        (row["gb_per_s"] if report["unit"] == "GB/s" else row["rate"], row["checked"])
        for name, report in RUN["reports"].items()
        if name.startswith(f"{what} ")
        for row in report["rows"]
    ]
    assert len(grid["text"]) == len(expected) >= 2
    for texts, (rate, checked) in zip(grid["text"], expected, strict=True):
        assert float(texts[1].replace(",", "")) == pytest.approx(rate, rel=0.01, abs=1)
        assert texts[3] == checked
    boxes = [shape for shape in chart["shapes"] if shape[0] == "box"]
    wide = [shape[1][2] for shape in boxes]
    largest = max(range(len(wide)), key=wide.__getitem__)
    assert len(boxes) == len(expected)
    assert largest == max(range(len(wide)), key=lambda i: expected[i][0])
    assert "ceiling is" in shown["answer"]


@pytest.mark.parametrize("name", ["linear", "tile_128x4", "tile_8x4", "te_columnwise"])
def test_the_bytes_are_those_of_real_buffers(name: str) -> None:
    chance = random.Random(name)
    for _ in range(12):
        rows, k = chance.randrange(1, 12) * 32, chance.randrange(1, 30) * 32
        axis = -2 if name == "te_columnwise" else -1
        made = mxlab.quantize(
            np.ones((rows, k), np.float32), "e4m3", rule="rceil", axis=axis, layout=name
        )
        whole = made.codes.nbytes + made.scales.nbytes
        assert mxfp8_bytes(rows, k, name) == whole
        facts = {row[0]: row for row in panels(view(rows=rows, k=k, layout=name))["bytes"]["rows"]}
        wide = np.zeros((rows, k), ml_dtypes.bfloat16).nbytes
        number = {key: int(row[1].split(" ")[0].replace(",", "")) for key, row in facts.items()
                  if row[1][0].isdigit() and "us" not in row[1]}  # fmt: skip
        assert number["MXFP8 together"] == whole and number["bf16"] == wide
        assert number["values"] == made.codes.nbytes
        assert number["scales"] == rows * k // 32
        assert number["padding"] == made.scales.nbytes - rows * k // 32
        assert facts["MXFP8 together"][2] == f"{100 * whole / wide:.4g} % of bf16"
        assert "last block" not in facts


def test_a_ragged_last_block_and_larger_blocks_of_fp8() -> None:
    shown = panels(view(rows=300, k=2900))["bytes"]
    facts = {row[0]: row for row in shown["rows"]}
    assert facts["last block"][1] == "20 of 32" and "K = 2900 % 32 = 20" in facts["last block"][2]
    assert facts["scales"][1] == "27,300 (27.3 kB)" and "300 x 91" in facts["scales"][2]
    assert facts["FP8, blocks of 128 x 128"][1].startswith(f"{300 * 2900 + 4 * 3 * 23:,} ")
    assert facts["FP8, groups of 1 x 128"][1].startswith(f"{300 * 2900 + 4 * 300 * 23:,} ")
    assert f"takes {300 * 2900 + 384 * 92:,} bytes in MXFP8" in shown["alt"]
    turned = panels(view(rows=300, k=64, layout="te_columnwise"))["bytes"]
    assert ["last block", "12 of 32"] in [row[:2] for row in turned["rows"]]


def test_the_least_time_is_that_of_the_measured_bandwidth() -> None:
    facts = {row[0]: row for row in panels(view())["bytes"]["rows"]}
    whole = mxfp8_bytes(8192, 8192, "tile_128x4")
    least = whole / RUN["ceilings"]["GB/s"] / 1e3
    assert float(facts["read once"][1].split(" ")[0]) == pytest.approx(least, rel=0.01)


def test_where_the_figures_come_from_is_said() -> None:
    rows = {row[0]: row for row in panels(view())["origin"]["rows"]}
    where = RUN["provenance"]
    assert rows["GPU"][1] == where["gpu"] and where["driver"] in rows["GPU"][2]
    assert where["commit"] in rows["when"][2] and rows["when"][1] == where["date"]
    assert rows["MXFP8"][1] == "emulated"


def test_without_a_committed_run_there_are_bytes_and_an_honest_sentence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(what_cost, "run", lambda: None)
    shown = view(rows=300, k=320)
    assert shown["status"] == "unknown" and "No measurement is committed" in shown["answer"]
    assert [p["id"] for p in shown["panels"]] == ["bytes"]
    assert "read once" not in json.dumps(shown["panels"])


def test_without_the_file_nothing_was_measured(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("mxlab.explorers.what_cost_data.files", lambda _: tmp_path)
    assert run.__wrapped__() is None


def test_timing_here_says_why_there_is_none(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(what_cost_here, "_DEVICE", tmp_path / "none")
    assert panels(view(here="yes"))["here"]["rows"] == [
        ["none", "", "Python has no CUDA GPU here: nothing was timed"]
    ]
    assert "here" not in panels(view())
    assert "run mxlab bench gemm" in what_cost_here.timed_here(1, 1 << 20, 1 << 20).rows[0][2]
    monkeypatch.setattr(what_cost_here, "_DEVICE", tmp_path)  # a device, and no torch
    monkeypatch.setitem(sys.modules, "mxlab.bench.gpu_gemm", None)
    shown = panels(view(here="yes"))["here"]
    assert shown["rows"][0][2].startswith("nothing was timed: ") and shown["alt"].endswith(".")


def test_timing_here_shows_what_the_bench_says(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    rows = [
        {"name": "slow", "seconds": {"median": 2e-5}, "rate": 1.0},
        {"name": "fast", "seconds": {"median": 1e-5}, "rate": 2.0},
    ]
    found = {"rows": rows, "provenance": {"device": "a GPU"}}
    asked: list[dict[str, int]] = []

    def bench(**given: int) -> SimpleNamespace:
        asked.append(given)
        return SimpleNamespace(to_json=lambda: found)

    fake = SimpleNamespace(bench_gemm_gpu=bench)
    monkeypatch.setitem(sys.modules, "mxlab.bench.gpu_gemm", fake)
    monkeypatch.setattr(what_cost_here, "_DEVICE", tmp_path)
    shown = panels(view(here="yes", weights="2880x2880", m=8))["here"]
    assert [row[:2] for row in shown["rows"]] == [["fast", "10.0 us"], ["slow", "20.0 us"]]
    assert asked == [{"m": 8, "n": 2880, "k": 2880, "replays": 3}]
    assert "a GPU" in shown["title"] and "fast 10.0 us" in shown["alt"]


def test_the_command_and_the_python_say_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    chance = random.Random(1)
    for name in LAYOUTS:
        state = {"rows": chance.randrange(1, 9000), "k": chance.randrange(1, 9000), "layout": name}
        shown = view(**state, what=chance.choice(("gemm", "quantize")), m=8)
        assert main([*shlex.split(shown["cli"])[1:], "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["view"] == shown
        exec(compile(shown["python"], "snippet", "exec"), {})
        printed = capsys.readouterr().out.split(" ")
        assert f"takes {int(printed[0]):,} bytes in MXFP8" in panels(shown)["bytes"]["alt"]
        assert f"and {int(printed[4]):,} in bf16" in panels(shown)["bytes"]["alt"]


def test_a_view_is_quick_says_its_numbers_and_is_drawn() -> None:
    took = []
    for m in (1, 8, 16, 32, 48):
        state = RECORD.clean({"m": m})
        start = time.process_time()
        RECORD.view(state)
        took.append(time.process_time() - start)
    assert min(took) < 0.03
    for found in view()["panels"]:
        assert found["title"] and found["alt"].endswith(".")
    svg = drawn("what_cost", "{}")
    assert ">cuBLAS bf16</text>" in svg and "TFLOP/s" in svg
    assert "triton, along rows, tile_128x4" in drawn("what_cost", '{"what": "quantize"}')
