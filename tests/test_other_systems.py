"""A model asked of another system: each linear is a call, and says what the call says."""

from dataclasses import replace
from pathlib import Path

import pytest

from mxlab.doctor import doctor, evaluate
from mxlab.errors import InputError
from mxlab.guards import CallFacts, Deployment, Status, check
from mxlab.guards.calls import ROWS
from mxlab.guards.systems import SYSTEMS
from mxlab.models import read_config
from mxlab.sweep import sweep

MODELS = Path(__file__).parent / "data/models"
OTHERS = [(row.id, row.version) for row in SYSTEMS if row.id != "sglang"]
QWEN = "Qwen2.5-72B-Instruct"


@pytest.mark.parametrize(("id", "version"), OTHERS)
@pytest.mark.parametrize("gpu", ["h100", "b200", "mi355x"])
def test_a_linear_says_what_its_call_says(id: str, version: str, gpu: str) -> None:
    flags = Deployment(gpu=gpu, tp=8, quantization="mxfp8", system=id, version=version)
    report = doctor(QWEN, flags, suggest=False)
    asked = next(row for row in SYSTEMS if (row.id, row.version) == (id, version))
    heard = 0
    for layer in report.layers:
        row = layer.linear
        if layer.coverage.layers == 0:
            assert row.kind == "lm_head" and "16 bits" in layer.coverage.why_not
            continue
        assert row.n and row.k
        call = CallFacts(function=asked.dense, m=ROWS, n=row.n, k=row.k)
        wanted = [v for v in check(flags, call=call) if v in layer.verdicts]
        calls = [g.id for g in asked.guards if g.subject == "call"]
        assert [v.guard for v in wanted] == [v.guard for v in layer.verdicts if v.guard in calls]
        heard += len(wanted)
    assert heard >= 4  # each of four linears was asked
    stops = [v for _, v in report.subjects() if v.status is Status.STOPS]
    assert (report.outcome == "stops") == bool(stops)


@pytest.mark.parametrize(("id", "version"), OTHERS)
@pytest.mark.parametrize("model", ["DeepSeek-V3", "gpt2", "Kimi-K2.5", "MiniMax-M3-MXFP8"])
def test_every_system_answers_about_every_kind_of_model(id: str, version: str, model: str) -> None:
    flags = Deployment(gpu="b200", tp=4, system=id, version=version)
    report = doctor(MODELS / f"{model}.json", flags)
    assert report.outcome in {"stops", "runs", "runs-degraded", "unknown"}
    if any(row.linear.kind == "moe" for row in report.layers) and report.outcome != "stops":
        assert report.moe or any("experts" in text for text in report.shapes.unknown)
    for suggestion in report.suggestions:
        assert suggestion["outcome"] != "stops"
        assert not any("backend" in change for change in suggestion["changes"])  # SGLang's flags


def test_a_server_multiplies_in_mxfp8_only_where_it_is_told_to() -> None:
    flags = Deployment(gpu="b200", tp=8, system="vllm")
    plain = doctor(QWEN, flags, suggest=False)
    assert {layer.coverage.layers for layer in plain.layers} == {0}
    assert plain.outcome == "runs" and "16 bit" in plain.layers[0].coverage.why_not
    online = doctor(QWEN, replace(flags, quantization="mxfp8"), suggest=False)
    assert online.first_stop is not None and online.first_stop[0] == "down_proj"
    config = read_config(QWEN)
    config["quantization_config"] = {"quant_method": "mxfp8", "ignored_layers": ["down_proj"]}
    stored = evaluate(config, flags)
    kept = {layer.linear.linear: layer.coverage.layers for layer in stored.layers}
    assert kept == {"qkv_proj": 80, "o_proj": 80, "gate_up_proj": 80, "down_proj": 0, "lm_head": 0}


def test_a_suggestion_for_a_library_runs() -> None:
    flags = Deployment(gpu="b200", tp=8, quantization="mxfp8", system="flashinfer")
    report = doctor(QWEN, flags)
    assert report.first_stop is not None and report.dies is not None
    assert report.dies.when.startswith("dies at the call")
    texts = [row["changes"] for row in report.suggestions]
    assert ["--tp 4"] in texts and any(changes[0].startswith("pad ") for changes in texts)
    assert doctor(QWEN, replace(flags, tp=4), suggest=False).outcome != "stops"


def test_a_tp_that_does_not_divide_stops_everywhere() -> None:
    for id, version in OTHERS:
        flags = Deployment(gpu="b200", tp=3, system=id, version=version)
        report = evaluate(read_config("Llama-3.1-8B"), flags)
        assert report.first_stop is not None and report.first_stop[1].guard == "tp-divides"
        assert "not divisible by 3" in report.first_stop[1].because


@pytest.mark.parametrize(("m", "stopped"), [(16, True), (33, True), (32, False), (ROWS, False)])
def test_a_library_is_asked_about_m_rows(m: int, stopped: bool) -> None:
    """Transformer Engine takes rows in 32s; without a word whole tiles are meant."""
    flags = Deployment(gpu="b200", tp=4, system="transformer_engine")
    report = doctor("Qwen3-8B", flags, m=m)
    assert report.m == report.to_json()["m"] == m
    assert (report.outcome == "stops") is stopped
    if stopped:
        assert report.first_stop is not None and f"rows = {m}" in report.first_stop[1].because
    grid = sweep({"Qwen3-8B": read_config("Qwen3-8B")}, flags, {"tp": (4,)}, m=m)
    assert [cell.outcome for cell in grid.cells] == [report.outcome]
    assert doctor("Qwen3-8B", Deployment(gpu="b200")).to_json()["m"] is None
    with pytest.raises(InputError, match="m is 0: expected 1"):
        doctor("Qwen3-8B", flags, m=0)


def test_every_library_has_a_function_for_a_linear() -> None:
    for row in SYSTEMS:
        assert row.dense in row.functions or row.id == "sglang"
