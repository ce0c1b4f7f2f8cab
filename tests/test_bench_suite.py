"""``mxlab bench --suite h200`` names every measurement of the book, and on a CPU its rows come out.

The committed runs are the oracle: their reports are what the suite's cases must ask for, and their
rows are what the same code gives at small sizes in Triton's interpreter.
"""

import inspect
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from command import Capture, refuse

from mxlab.bench import suite
from mxlab.bench.compare import load
from mxlab.bench.plots import PLOTS
from mxlab.bench.report import Report
from mxlab.bench.suite import BENCHES, H200, Case, run_suite
from mxlab.bench.timing import Timing

torch = pytest.importorskip("torch")

DATA = Path(__file__).parents[1] / "book" / "_data"
RUNS = sorted(DATA.glob("bench*.json"))
ATTENTION = DATA / "bench-prologue-h200.json"


def measured() -> dict[str, Any]:
    """Every report of the book's data, by name."""
    found: dict[str, Any] = {}
    for path in RUNS:
        found |= load(path)
    return found


def test_every_report_of_the_book_is_a_case_and_every_case_was_run() -> None:
    reports = measured()
    assert len(RUNS) == 2 and len({case.name for case in H200}) == len(H200) == len(reports)
    assert {case.name for case in H200} == set(reports)
    for case in H200:
        assert case.made(reports[case.name]), case.name
        same_kind = [one for one in H200 if one.kind == case.kind]
        assert [one.name for one in same_kind if one.made(reports[case.name])] == [case.name]


def stub(sizes: dict[str, Any]) -> Report:
    timing = Timing(first=1.0, minimum=1.0, median=1.0, maximum=1.0, runs=1)
    row = suite_row(timing)
    ceilings = {"GB/s": 4000.0, "TFLOP/s": 800.0}
    return Report(title="", parameters=sizes, work=1, unit="x", rows=[row], ceilings=ceilings)


def suite_row(timing: Timing) -> Any:
    from mxlab.bench.report import Row

    return Row(name="x", peer=False, timing=timing, checked="right", moved=1.0)


def test_the_suite_calls_each_benchmark_with_what_the_book_shows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Replaced benchmarks write down what they were asked; the signatures are the real ones."""
    from mxlab.bench import gpu_timing

    places = [place.partition(".") for place in BENCHES.values()]
    modules = [import_module(f"mxlab.bench.{name}") for name, _, _ in places]
    monkeypatch.setattr(gpu_timing, "require_gpu", lambda: None)  # the modules hold the real one
    monkeypatch.setattr(gpu_timing, "gpu_provenance", lambda: {"gpu": "none"})
    for module, (_, _, function) in zip(modules, places, strict=True):
        signature = inspect.signature(getattr(module, function))

        def replaced(_signature: Any = signature, **sizes: Any) -> Report:
            asked = _signature.bind(**sizes)
            asked.apply_defaults()
            return stub(dict(asked.arguments))

        monkeypatch.setattr(module, function, replaced)
    data, wanted = run_suite(), measured()
    assert list(data["reports"]) == [case.name for case in H200]
    assert data["ceilings"] == {"GB/s": 4000.0, "TFLOP/s": 800.0}
    for name, report in data["reports"].items():
        asked = report["parameters"]
        shown = wanted[name]["parameters"]
        assert {key: shown[key] for key in asked if key in shown} == {
            key: value for key, value in asked.items() if key in shown
        }, name
    for make in PLOTS:  # a run of everything can still be drawn
        make({**data, "reports": {**data["reports"], **wanted}})


@pytest.mark.skipif(torch.cuda.is_available(), reason="it would measure")
def test_without_a_gpu_the_suite_is_one_line(capsys: Capture) -> None:
    said = refuse(capsys, "bench", "--suite", "h200")
    assert said.count("\n") <= 1 and "torch finds no CUDA GPU here" in said
    assert "did you mean 'h200'" in refuse(capsys, "bench", "--suite", "h20")


@pytest.fixture
def on_cpu(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Attention's measurements on a CPU: kernels interpreted, each call made once, no clock."""
    from torch.overrides import TorchFunctionMode

    from mxlab.bench import decode_attention, prologue

    def once(calls: Any, *, replays: int = 9) -> Timing:
        calls[0]()
        return Timing(first=1.0, minimum=1e-4, median=2e-4, maximum=3e-4, runs=1)

    class OnCpu(TorchFunctionMode):
        def __torch_function__(self, func: Any, _types: Any, args: Any = (), kwargs: Any = None):  # type: ignore[no-untyped-def]
            kwargs = dict(kwargs or {})
            if kwargs.get("device") == "cuda":
                kwargs["device"] = "cpu"
            return func(*args, **kwargs)

    generator = torch.Generator
    monkeypatch.setattr(torch, "Generator", lambda device: generator("cpu"))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "none")
    for module in (prologue, decode_attention):
        monkeypatch.setattr(module, "graph_timing", once)
        monkeypatch.setattr(module, "require_gpu", lambda: None)
        monkeypatch.setattr(module, "copies", lambda *_, **__: 2)
        monkeypatch.setattr(module, "gpu_provenance", lambda: {"gpu": "none"})
        monkeypatch.setattr(module, "ceilings", lambda: {"GB/s": 4000.0, "TFLOP/s": 800.0})
    monkeypatch.setattr(prologue, "_empty_launch", lambda: once([lambda: None]))
    with OnCpu():
        yield


@pytest.mark.usefixtures("on_cpu")
@pytest.mark.parametrize(
    ("name", "small"),
    [
        ("prologue extend 8192, 32 + 8", {"tokens": 64, "q_heads": 2, "kv_heads": 1}),
        ("prologue verify 8192, 32 + 8", {"tokens": 8, "q_heads": 2, "kv_heads": 1}),
        ("prologue decode 64, 32 + 8", {"tokens": 8, "q_heads": 2, "kv_heads": 1}),
        ("attention 8x4096", {"sequences": 2, "length": 256}),
    ],
)
def test_rows_of_the_book_come_out_of_the_suite_s_code(name: str, small: dict[str, int]) -> None:
    case = next(case for case in H200 if case.name == name)
    wanted = load(ATTENTION)[name]
    assert small.keys() <= case.sizes.keys()
    found = Case(name="", kind=case.kind, sizes={**case.sizes, **small}).measure().to_json()
    assert [row["name"] for row in found["rows"]] == [row["name"] for row in wanted["rows"]]
    assert found["title"] == wanted["title"] and found["unit"] == wanted["unit"]
    assert found["parameters"].keys() == wanted["parameters"].keys()
    assert all(row["checked"] and row["of_ceiling"] for row in found["rows"])
    differ = [row["checked"] for row in found["rows"] if row["name"].startswith("mxlab")]
    assert all(said.startswith("0 of ") for said in differ), differ


def test_a_case_knows_its_own_report_only() -> None:
    report = {"parameters": {"mode": "extend", "tokens": 8192, "q_heads": 48, "kv_heads": 8}}
    assert [case.name for case in H200 if case.kind == "prologue" and case.made(report)] == [
        "prologue extend 8192, 48 + 8"
    ]
    assert suite.SUITES["h200"] is H200
