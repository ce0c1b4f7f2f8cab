"""A grid of deployments: each cell is what one report would say, and the grid is bounded."""

import random
from pathlib import Path
from time import process_time
from typing import Any

import pytest

from mxlab.doctor import evaluate
from mxlab.errors import InputError
from mxlab.examiner import _OUTER, _before_layers
from mxlab.guards import Deployment
from mxlab.guards.systems import SYSTEMS, System
from mxlab.models import read_config
from mxlab.sweep import AXES, MAX_CELLS, Grid, deployment_at, parse_axes, sweep

MODELS = sorted((Path(__file__).parent / "data/models").glob("*.json"))
CONFIGS = {path.stem: read_config(path) for path in MODELS}
GPUS = "h100,h200,b200,rtx5090,mi300x,mi355x"
#: the grid of the issue, and axes that reach the cache, the experts and the configs' own claims
GRIDS: tuple[tuple[dict[str, Any], list[str]], ...] = (
    ({"quantization": "mxfp8"}, ["tp=1,2,4,8,16", f"gpu={GPUS}", "backend=all"]),
    ({}, ["tp=1,8", f"gpu={GPUS},cpu,t4", "moe=auto,deep_gemm,triton", "ep=1,8"]),
    (
        {"kv_cache_dtype": "mxfp8"},
        ["gpu=b200,rtx5090", "page=1,64,128", "attention=none,fa3,fa4,triton", "dtype=auto,half"],
    ),
    ({"gpu": "b200"}, ["quantization=none,mxfp8,fp8", "toolkit=12.4,12.9", "kv=auto,mxfp8"]),
)


def some(flags: dict[str, Any], texts: list[str], models: list[str]) -> Grid:
    return sweep({name: CONFIGS[name] for name in models}, Deployment(**flags), parse_axes(texts))


@pytest.mark.parametrize(("flags", "texts"), GRIDS)
def test_a_cell_is_what_a_report_of_its_own_would_say(
    flags: dict[str, Any], texts: list[str]
) -> None:
    chance = random.Random(20261130)
    models = chance.sample(sorted(CONFIGS), 6)
    grid = some(flags, texts, models)
    values = {
        name: dict(zip(map(str, axis), axis, strict=True)) for name, axis in grid.axes.items()
    }
    seen = set()
    for cell in chance.sample(grid.cells, 60):
        at = {
            name: None if shown == "none" and name != "a2a" else values[name][str(shown)]
            for name, shown in cell.at.items()
        }
        deployment = deployment_at(grid.base, at)
        try:
            report = evaluate(CONFIGS[cell.model], deployment)
        except InputError as error:
            assert cell.outcome in ("invalid", "unknown") and cell.because == str(error)
            continue
        assert cell.outcome == report.outcome
        seen.add(cell.outcome)
        if report.first_stop is None:
            heard = {v.guard for _, v in report.subjects() if v.degrades}
            assert set(cell.degrades) == heard and not cell.guard
            continue
        where, stop = report.first_stop
        assert (cell.where, cell.guard, cell.stage) == (where, stop.guard, stop.stage)
        assert (cell.because, cell.message) == (stop.because, stop.message)
    assert len(seen) >= 2  # a grid of one outcome would compare little


@pytest.mark.parametrize("asked", [row for row in SYSTEMS if row.id == "sglang"])
def test_a_brief_answer_stops_only_where_no_layer_can_be_met(asked: System) -> None:
    early = _before_layers(asked.id, asked.version)
    assert early == {"S1", "S2", "S3"}
    assert not [g.id for g in asked.guards if g.subject not in _OUTER and g.stage in early]
    assert any(g.subject in _OUTER and g.stage not in early for g in asked.guards)


def test_the_grid_of_the_issue_over_all_models_is_quick_enough() -> None:
    """A tenth of the grid: the whole is measured in docs/decisions.md, CI machines differ."""
    start = process_time()
    grid = sweep(
        CONFIGS,
        Deployment(quantization="mxfp8"),
        parse_axes(["tp=2,8", f"gpu={GPUS}", "backend=auto"]),
    )
    spent = process_time() - start
    assert len(grid.cells) == 12 * len(CONFIGS) and len(CONFIGS) >= 47
    assert spent < 10
    assert {"runs", "runs-degraded", "stops"} <= grid.counts().keys()


def test_the_order_of_cells_is_that_of_the_axes() -> None:
    grid = some({"gpu": "b200"}, ["tp=2,1", "backend=triton,auto"], ["Llama-3.1-8B", "gpt2"])
    places = [(cell.model, *cell.at.values()) for cell in grid.cells]
    assert places == [
        (model, tp, backend)
        for model in ("Llama-3.1-8B", "gpt2")
        for tp in (2, 1)
        for backend in ("triton", "auto")
    ]


def test_flags_that_no_launch_has_together_are_cells_and_not_an_error() -> None:
    grid = some({"gpu": "b200"}, ["tp=1,8", "ep=1,8"], ["Qwen3-30B-A3B"])
    invalid = [cell for cell in grid.cells if cell.outcome == "invalid"]
    assert [cell.at for cell in invalid] == [{"tp": 1, "ep": 8}]
    assert "expected a divisor of tp = 1" in invalid[0].because
    assert grid.hopeless() == []


def test_a_model_that_cannot_be_derived_does_not_cost_the_others_their_answer() -> None:
    broken = {"architectures": ["LlamaForCausalLM"], "hidden_size": 4096}
    models = {"broken": broken, "Llama-3.1-8B": CONFIGS["Llama-3.1-8B"]}
    grid = sweep(models, Deployment(gpu="b200"), parse_axes(["tp=1,2"]))
    assert [cell.outcome for cell in grid.cells] == ["unknown", "unknown", "runs", "runs"]
    assert "num_attention_heads" in grid.cells[0].because


def test_nothing_runs_is_said_by_model() -> None:
    grid = some(
        {"gpu": "h200", "quantization": "mxfp8"}, ["tp=1,2"], ["Llama-3.1-8B", "MiniMax-M3-MXFP8"]
    )
    assert grid.hopeless() == ["Llama-3.1-8B", "MiniMax-M3-MXFP8"]
    assert grid.to_json()["nothing_runs"] == grid.hopeless()
    assert grid.to_json()["counts"] == {"stops": 4}


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        (["tpp=1"], "did you mean 'tp'"),
        (["gpus=h100"], "did you mean 'gpu'"),
        (["tp"], "AXIS=VALUE"),
        (["tp="], "0 values"),
        (["tp=,"], "0 values"),
        (["tp=1", "--tp=2"], "tp twice"),
        (["page=1", "page-size=2"], "page twice"),
        (["tp=0"], "whole number from 1"),
        (["tp=eight"], "'eight'"),
        (["tp=-1"], "'-1'"),
        (["tp=1e3"], "'1e3'"),
        (["tp=" + "9" * 5000], "whole number"),
        (["gpu=h1000"], "did you mean 'h100'"),
        (["backend=deepgemm"], "did you mean 'deep_gemm'"),
        (["kv=mxfp9"], "mxfp8"),
        (["quantization=mxfp"], "mxfp8"),
        (["toolkit=new"], "such as 12.8"),
        (["toolkit=all"], "0 values"),
        (["system=sglng"], "sglang"),
        (["system=sglang@9"], "0.5.23"),
        (["tp=\x00"], "\\x00"),
    ],
)
def test_axes_that_cannot_be(texts: list[str], said: str) -> None:
    with pytest.raises(InputError) as refused:
        parse_axes(texts)
    assert said in str(refused.value) and "\n" not in str(refused.value)


def test_the_size_is_bounded_before_anything_is_asked() -> None:
    axes = parse_axes(["tp=all", "gpu=all", "backend=all", "moe=all"])
    with pytest.raises(InputError, match=r"cells a model \(5 tp x .* at most 5,000"):
        sweep(dict.fromkeys("a", object()), Deployment(), axes)
    fits = parse_axes([f"tp={','.join(map(str, range(1, 101)))}", "ep=1,2,4,8,16"])
    with pytest.raises(InputError, match="cells in all"):
        sweep({str(n): object() for n in range(51)}, Deployment(), fits)
    assert MAX_CELLS == 5_000


def test_all_stands_for_every_value_that_the_flag_takes() -> None:
    for name, axis in AXES.items():
        if axis.known:
            values = parse_axes([f"{name}=all"])[name]
            assert len(values) == len(set(axis.known)) > 1, name
    assert parse_axes(["fp8-gemm-backend=auto", "kv_cache_dtype=mxfp8"]) == {
        "backend": ("auto",),
        "kv": ("mxfp8",),
    }


def test_systems_and_their_versions_are_an_axis() -> None:
    grid = some({"gpu": "b200"}, ["system=all"], ["Llama-3.1-8B"])
    asked = {cell.at["system"] for cell in grid.cells}
    assert {"sglang@0.5.23", "sglang@0132848349"} <= asked and len(grid.cells) == len(asked)
    flags = {"gpu": "h100", "quantization": "mxfp8", "tp": 8}
    grid = some(flags, ["system=sglang,deepgemm,flashinfer"], ["Qwen2.5-72B-Instruct"])
    assert grid.cells[0].guard == "cfg-min-capability"
    for cell in grid.cells:
        id, _, version = str(cell.at["system"]).partition("@")
        base = Deployment(**{**flags, "system": id, "version": version})  # type: ignore[arg-type]
        assert evaluate(CONFIGS["Qwen2.5-72B-Instruct"], base).outcome == cell.outcome
