"""The GPU bench without a GPU: what compare finds, what the pictures hold, what is refused."""

import json
from pathlib import Path
from typing import Any

import pytest
from command import Capture, ask, call, refuse

from mxlab.bench.compare import compare, load
from mxlab.bench.plots import PLOTS, draw, fraction, roofline, throughput
from mxlab.bench.report import Report, Row
from mxlab.bench.timing import Timing

COMMITTED = Path(__file__).parents[1] / "book" / "_data" / "bench-h200.json"


def row(name: str, median: float, peer: bool = False, moved: float = 8e9) -> Row:
    timing = Timing(first=1.0, minimum=median * 0.99, median=median, maximum=median * 1.01, runs=9)
    return Row(name=name, peer=peer, timing=timing, checked="right", family="p" * peer, moved=moved)


def gemm_report(m: int, ours: float, theirs: float) -> dict[str, Any]:
    report = Report(
        title="gemm on a GPU",
        parameters={"m": m, "n": 8192, "k": 8192, "backend": "all"},
        work=4.0,
        unit="TFLOP/s",
        rows=[row("mxlab x", ours), row("peer", theirs, peer=True)],
        flops=4e12,
        ceilings={"GB/s": 4000.0, "TFLOP/s": 800.0},
        where={"gpu": "none"},
    )
    return report.to_json()


def run(ours: float = 0.01) -> dict[str, Any]:
    reports = {f"gemm {m}x8192x8192": gemm_report(m, ours * m, 0.02 * m) for m in (1, 4)}
    return {
        "suite": "h200",
        "ceilings": reports["gemm 1x8192x8192"]["ceilings"],
        "reports": reports,
    }


def test_the_ceiling_is_the_longer_of_bytes_and_operations() -> None:
    answer = gemm_report(1, 0.01, 0.02)
    # 8 GB at 4000 GB/s take 2 ms, 4 TFLOP at 800 TFLOP/s 5 ms
    assert [r["of_ceiling"] for r in answer["rows"]] == [0.5, 0.25]
    assert answer["rows"][0]["gb_per_s"] == 800 and answer["provenance"]["gpu"] == "none"
    only = Report(title="", parameters={}, work=1, unit="", rows=[row("x", 1.0)])
    assert only.of_ceiling(only.rows[0]) is None


def test_compare_says_what_became_slower(tmp_path: Path, capsys: Capture) -> None:
    before, after = tmp_path / "a.json", tmp_path / "b.json"
    before.write_text(json.dumps(run(0.01)))
    after.write_text(json.dumps(run(0.012)))
    changes = compare(load(before), load(after))
    assert {(c.row, c.verdict) for c in changes} == {("mxlab x", "slower"), ("peer", "same")}
    assert changes[0].ratio == pytest.approx(1.2)
    code, out, _ = call(capsys, "bench", "compare", str(before), str(after))
    assert code == 1 and out.startswith("2 of 4 rows are slower")
    answer = ask(capsys, "bench", "compare", str(after), str(before))
    assert answer["slower"] == 0 and sum(c["verdict"] == "faster" for c in answer["changes"]) == 2


def test_a_difference_within_the_spread_is_none() -> None:
    def noisy(median: float) -> dict[str, Any]:
        seconds = {"minimum": 0.5, "median": median, "maximum": 2.0}
        return {"r": {"rows": [{"name": "x", "seconds": seconds}]}}

    assert [c.verdict for c in compare(noisy(1.0), noisy(1.5))] == ["same"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "it is no JSON"),
        ("[" * 100_000, "it is no JSON"),
        ("[]", "holds no run"),
        ('{"reports": {}}', "holds no run"),
        ('{"reports": {"r": {"rows": [{"name": "x", "seconds": {"median": NaN}}]}}}', "no run"),
        ('{"reports": {"r": {"rows": [{"name": 1, "seconds": {}}]}}}', "holds no run"),
        ('{"reports": [1]}', "holds no run"),
    ],
)
def test_files_that_are_no_run(tmp_path: Path, capsys: Capture, text: str, said: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(text)
    assert said in refuse(capsys, "bench", "compare", str(path), str(path))
    assert said in refuse(capsys, "bench", "plot", str(path), str(tmp_path / "out"))


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("compare", "one.json"), "expected 2 (two runs)"),
        (("quantize", "one.json"), "expected 0"),
        (("compare", "no.json", "no.json"), "No such file"),
        (("interleave",), "measured with --device cuda"),
        (("--suite", "h100"), "did you mean 'h200'"),
        (("gemm", "--device", "cda"), "cuda"),
    ],
)
def test_bad_arguments(capsys: Capture, argv: tuple[str, ...], said: str) -> None:
    assert said in refuse(capsys, "bench", *argv)


def test_without_a_gpu_it_says_so(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    for argv in (("gemm", "--device", "cuda"), ("--suite", "h200"), ("--device", "cuda")):
        assert "torch finds no CUDA GPU here" in refuse(capsys, "bench", *argv)


@pytest.fixture
def on_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """The GPU's measurements on a CPU: kernels interpreted, each call made once, no clock."""
    import torch

    from mxlab.bench import gpu_gemm, gpu_memory

    def once(calls: Any, *, replays: int = 9) -> Timing:
        calls[0]()
        return Timing(first=1.0, minimum=1e-4, median=2e-4, maximum=3e-4, runs=1)

    def here(make: Any) -> Any:
        return lambda *sizes, **named: make(*sizes, **{**named, "device": "cpu"})

    for module in (gpu_memory, gpu_gemm):
        monkeypatch.setattr(module, "graph_timing", once)
        monkeypatch.setattr(module, "require_gpu", lambda: None)
        monkeypatch.setattr(module, "copies", lambda *_, **__: 2)
        monkeypatch.setattr(module, "gpu_provenance", lambda: {"gpu": "none"})
        monkeypatch.setattr(module, "ceilings", lambda: {"GB/s": 4000.0, "TFLOP/s": 800.0})
    monkeypatch.setattr(gpu_memory, "_torchao", lambda rule: None)
    for name in ("randn", "randint", "empty"):
        monkeypatch.setattr(torch, name, here(getattr(torch, name)))
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda *_: (8, 0))


@pytest.mark.parametrize(
    ("argv", "names"),
    [
        (("quantize", "--rows", "64", "--cols", "96"), {"both axes", "tile_128x4", "copy_"}),
        (("quantize", "--rows", "3", "--cols", "32", "--dtype", "float16"), {"linear"}),
        (("interleave", "--rows", "130", "--cols", "6"), {"deinterleave", "copy"}),
        (("dequantize", "--rows", "33", "--cols", "64"), {"to bfloat16", "to float32"}),
        (("gemm", "--m", "3", "--n", "40", "--k", "96"), {"torch-dequant", "triton", "cuBLAS"}),
        (("gemm", "--m", "3", "--n", "40", "--k", "96", "--backend", "triton"), {"cuBLAS"}),
    ],
)
@pytest.mark.usefixtures("on_cpu")
def test_what_is_measured_is_checked(
    capsys: Capture, argv: tuple[str, ...], names: set[str]
) -> None:
    answer = ask(capsys, "bench", *argv, "--device", "cuda")
    found = [row["name"] for row in answer["rows"]]
    assert all(any(name in row for row in found) for name in names), found
    assert all(row["checked"] for row in answer["rows"] if not row["peer"])
    assert all(0 < row["of_ceiling"] < 1 and row["bytes"] > 0 for row in answer["rows"])
    code, out, _ = call(capsys, "bench", *argv, "--device", "cuda")
    assert code == 0 and "of ceiling" in out


@pytest.mark.usefixtures("on_cpu")
def test_a_wrong_result_is_not_timed(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    from mxlab.bench import gpu_gemm, gpu_memory

    monkeypatch.setattr(gpu_gemm, "gemm", lambda a, b, **_: _double(gpu_gemm, a, b))
    said = refuse(capsys, "bench", "gemm", "--device", "cuda", "--m", "3", "--n", "40", "--k", "96")
    assert "mxlab torch-dequant is wrong: relative error 1.0e+00; it is not timed" in said
    from mxlab.kernels.interleave import interleave

    monkeypatch.setattr(gpu_memory, "interleave", lambda x: interleave(x) + 1)
    said = refuse(capsys, "bench", "interleave", "--device", "cuda", "--rows", "4", "--cols", "4")
    assert "interleave is wrong" in said


def _double(module: Any, a: Any, b: Any) -> Any:
    import torch

    return 2 * (module.dequantize(a, torch.bfloat16) @ module.dequantize(b, torch.bfloat16).T)


@pytest.mark.usefixtures("on_cpu")
def test_experts_are_measured_beside_one_matrix() -> None:
    from mxlab.bench.gpu_gemm import bench_grouped

    report = bench_grouped(experts=3, tokens=5, n=40, k=96).to_json()
    names = [row["name"] for row in report["rows"]]
    assert names == ["mxlab triton, grouped", "mxlab triton, dense", "cuBLAS bf16, dense"]
    assert "relative error" in report["rows"][0]["checked"]


def test_plots_are_their_tables(tmp_path: Path) -> None:
    data = run()
    plot = throughput(data)
    assert plot.lines == {"mxlab x": [(1, 400.0), (4, 100.0)], "peer": [(1, 200.0), (4, 50.0)]}
    assert plot.table() == (
        ["M, rows of activations", "mxlab x", "peer"],
        [["1", "400", "200"], ["4", "100", "50"]],
    )
    assert roofline(data).roof == (4000.0, 800.0)
    assert [y for _, y in fraction(data).lines["fastest of mxlab"]] == [0.5, 0.125]
    for make in PLOTS:
        path = draw(make(data), tmp_path / f"{make.__name__}.svg")
        assert path.read_text().startswith("<?xml")
        table = path.with_suffix(".md").read_text()
        assert table.count("\n") == 2 + len(make(data).table()[1])


def test_the_committed_run_is_whole() -> None:
    """What the book shows: every measurement checked, with provenance, and no plan overdue."""
    data = json.loads(COMMITTED.read_text())
    where = data["provenance"]
    assert {"gpu", "driver", "cuda", "commit", "date", "command", "versions"} <= where.keys()
    assert where["gpu"] == "NVIDIA H200" and where["commit"]
    names = set(load(COMMITTED))
    assert {"quantize 16384x16384", "gemm 1x8192x8192", "gemm 8192x8192x8192"} <= names
    for report in data["reports"].values():
        for found in report["rows"]:
            assert found["checked"] or found["peer"], (report["title"], found["name"])
            assert 0 < found["seconds"]["minimum"] <= found["seconds"]["median"]
    for make in PLOTS:
        assert make(data).lines
