"""The doctor over real configs: what stops, in which order, and whether its advice is true."""

import json
from dataclasses import replace
from pathlib import Path
from time import process_time
from typing import Any

import pytest

from mxlab.doctor import Report, doctor, evaluate
from mxlab.errors import InputError
from mxlab.guards import GUARDS, STAGES, Deployment, Status
from mxlab.models import read_config

MODELS = sorted((Path(__file__).parent / "data/models").glob("*.json"))
STAGE = list(STAGES)
B200 = Deployment(gpu="b200", quantization="mxfp8")


def layer(report: Report, name: str) -> dict[str, str]:
    """guard -> status of one linear."""
    found = next(row for row in report.layers if row.linear.linear == name)
    return {verdict.guard: verdict.status.value for verdict in found.verdicts}


def test_there_are_real_models_to_try() -> None:
    assert len(MODELS) >= 47


@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.stem)
@pytest.mark.parametrize("gpu", ["h200", "b200", "mi355x"])
def test_every_config_gets_an_answer(path: Path, gpu: str) -> None:
    flags = Deployment(gpu=gpu, tp=8, quantization="mxfp8", fp8_gemm_backend="deep_gemm")
    report = doctor(path, flags, suggest=False)
    answer = json.loads(json.dumps(report.to_json(), allow_nan=False))
    assert answer["outcome"] in {"stops", "runs", "runs-degraded", "unknown"}
    assert answer["layers"] or answer["unknown"]
    assert (answer["first_stop"] is None) == (answer["outcome"] != "stops")
    stops = [
        (STAGE.index(verdict.stage), where)
        for where, verdict in report.subjects()
        if verdict.status is Status.STOPS
    ]
    assert stops == sorted(stops, key=lambda stop: stop[0])
    if stops:
        assert answer["first_stop"]["where"] == stops[0][1]
        assert answer["first_stop"]["because"]


def test_the_command_of_the_issue() -> None:
    flags = Deployment(gpu="h200", tp=8, quantization="mxfp8", fp8_gemm_backend="deep_gemm")
    report = doctor("Llama-3.1-8B", flags)
    assert report.first_stop is not None
    assert (report.first_stop[0], report.first_stop[1].guard) == ("server", "cfg-min-capability")
    assert "Minimum capability: 100. Current capability: 90." in report.first_stop[1].message
    shapes = {row.linear.linear: (row.linear.n, row.linear.k) for row in report.layers}
    assert shapes == {
        "qkv_proj": (768, 4096),
        "o_proj": (4096, 512),
        "gate_up_proj": (3584, 4096),
        "down_proj": (4096, 1792),
        "lm_head": (16032, 4096),
    }
    assert layer(report, "down_proj")["wsp-deepgemm"] == "passes"
    assert layer(report, "lm_head")["wsp-deepgemm"] == "not-reached"


@pytest.mark.parametrize(
    ("tp", "guard", "numbers"),
    [(8, "lin-tp-row", "K = 3696 % 32 = 16"), (16, "lin-tp-row", "K = 1848 % 32 = 24")],
)
def test_a_row_parallel_layer_cut_inside_a_block(tp: int, guard: str, numbers: str) -> None:
    report = doctor("Qwen2.5-72B-Instruct", replace(B200, tp=tp), suggest=False)
    assert report.first_stop is not None
    where, stop = report.first_stop
    assert (where, stop.guard) == ("down_proj", guard)
    assert numbers in stop.because


@pytest.mark.parametrize("tp", [1, 2, 4])
def test_the_same_model_runs_where_k_divides(tp: int) -> None:
    report = doctor("Qwen2.5-72B-Instruct", replace(B200, tp=tp), suggest=False)
    assert report.first_stop is None and report.outcome == "runs"


def test_deep_gemm_without_a_fallback_names_the_shape() -> None:
    flags = replace(B200, tp=4, fp8_gemm_backend="deep_gemm", packages=frozenset({"deep_gemm"}))
    report = doctor("Qwen2.5-72B-Instruct", flags, suggest=False)
    assert report.first_stop is not None
    where, stop = report.first_stop
    assert (where, stop.guard, stop.stage) == ("down_proj", "wsp-deepgemm", "S6")
    assert "MXFP8 weight shape (8192, 7392)" in stop.message
    with_fallback = doctor("Qwen2.5-72B-Instruct", replace(flags, packages=B200.packages))
    assert with_fallback.outcome == "runs-degraded"
    assert layer(with_fallback, "down_proj")["wsp-deepgemm"] == "falls-back"
    assert layer(with_fallback, "qkv_proj")["wsp-deepgemm"] == "passes"


def test_heads_that_do_not_divide_stop_with_the_sizes_that_would() -> None:
    report = doctor("phi-4", replace(B200, tp=8), suggest=False)
    assert report.first_stop is not None
    where, stop = report.first_stop
    assert (where, stop.guard, stop.because) == (
        "qkv_proj",
        "tp-divides",
        "num_key_value_heads=10 not divisible by 8",
    )
    assert stop.fixes == ("--tp-size that divides: 1, 2, 5, 10",)


def test_a_replicated_linear_is_one_matrix_to_the_column_check() -> None:
    report = doctor("DeepSeek-V3", Deployment(gpu="b200", tp=8), suggest=False)
    assert layer(report, "fused_qkv_a_proj_with_mqa")["lin-tp-col"] != "stops"
    assert report.outcome != "stops"


def test_the_ignore_list_is_applied_layer_by_layer() -> None:
    config = read_config("Qwen2.5-72B-Instruct")
    quantized = {"quant_method": "mxfp8", "activation_scheme": "dynamic"}
    some = [f"model.layers.{index}.mlp.down_proj" for index in range(70)]
    config["quantization_config"] = {**quantized, "modules_to_not_convert": some}
    flags = Deployment(gpu="b200", tp=8)
    report = evaluate(config, flags)
    down = next(row for row in report.layers if row.linear.linear == "down_proj")
    assert (down.coverage.layers, down.linear.layers) == (10, 80)
    assert report.first_stop is not None and report.first_stop[0] == "down_proj"
    config["quantization_config"]["modules_to_not_convert"] = ["down_proj"]
    report = evaluate(config, flags)
    assert report.first_stop is None
    assert layer(report, "down_proj")["lin-tp-row"] == "not-reached"


def test_half_a_fused_layer_cannot_be_ignored() -> None:
    config = read_config("Llama-3.1-8B")
    config["quantization_config"] = {
        "quant_method": "mxfp8",
        "activation_scheme": "dynamic",
        "modules_to_not_convert": ["model.layers.3.self_attn.q_proj"],
    }
    report = evaluate(config, Deployment(gpu="b200"))
    assert report.first_stop is not None
    assert report.first_stop[1].guard == "cfg-fused-skip"
    assert "model.layers.3.self_attn.qkv_proj" in report.first_stop[1].message


def test_minimax_s_names_are_renamed_before_the_ignore_list_is_read() -> None:
    config = read_config(Path(__file__).parent / "data/models/MiniMax-M3-MXFP8.json")
    ignored = config["quantization_config"]["ignored_layers"]
    ignored.append("language_model.model.layers.7.block_sparse_moe.experts")
    report = evaluate(config, Deployment(gpu="b200", tp=8))
    experts = next(row for row in report.layers if row.linear.linear == "experts.w13")
    assert (experts.coverage.layers, experts.linear.layers) == (56, 57)


def test_an_expert_layer_without_a_rule_is_unknown_not_missing() -> None:
    config = read_config(Path(__file__).parent / "data/models/Nemotron-H-56B.json")
    pattern = config["hybrid_override_pattern"]
    config["hybrid_override_pattern"] = "E" + pattern[1:]
    report = evaluate(config, Deployment(gpu="b200"))
    assert report.outcome == "unknown"
    assert any(line.startswith("layers 0: experts") for line in report.shapes.unknown)


@pytest.mark.parametrize(
    ("model", "method"),
    [
        ("MiniMax-M3-NVFP4", "modelopt_mixed"),
        ("gpt-oss-120b", "mxfp4"),
        ("Kimi-K2.5", "compressed-tensors"),
    ],
)
def test_a_method_without_guards_is_unknown_and_not_fine(model: str, method: str) -> None:
    path = Path(__file__).parent / "data/models" / f"{model}.json"
    report = doctor(path, Deployment(gpu="b200", tp=8), suggest=False)
    assert report.outcome == "unknown"
    assert any(f"quantisation '{method}'" in line for line in report.shapes.unknown)


@pytest.mark.parametrize("block", [[0, 0], [-128, 128], ["128", "128"], [128, True], [128, 1.0]])
def test_a_block_that_no_layer_can_have_is_bad_input(block: list[Any]) -> None:
    config = read_config("Llama-3.1-8B")
    config["quantization_config"] = {
        "quant_method": "fp8",
        "activation_scheme": "dynamic",
        "weight_block_size": block,
    }
    with pytest.raises(InputError, match=r"weight_block_size is .*expected two whole numbers"):
        evaluate(config, Deployment(gpu="h200"))


def test_a_long_ignore_list_does_not_make_the_search_hang() -> None:
    config = read_config("Llama-3.1-8B")
    names = [f"model.layers.{index}.nobody" for index in range(20_000)]
    config["quantization_config"] = {
        "quant_method": "mxfp8",
        "activation_scheme": "dynamic",
        "ignored_layers": [*names, "model.layers.3.mlp.down_proj"],
    }
    start = process_time()
    report = doctor(config, Deployment(gpu="h200", tp=8))
    assert process_time() - start < 20  # compared one by one it took minutes
    down = next(row for row in report.layers if row.linear.linear == "down_proj")
    assert down.coverage.layers == 31 and report.suggestions


@pytest.mark.parametrize(
    ("model", "tp", "where"),
    [("gemma-3-27b-it", 3, "visual.qkv_proj"), ("Qwen2.5-VL-7B-Instruct", 8, "qkv_proj")],
)
def test_a_tower_stops_before_the_decoder_where_it_is_built_first(
    model: str, tp: int, where: str
) -> None:
    path = Path(__file__).parent / "data/models" / f"{model}.json"
    report = doctor(path, replace(B200, tp=tp), suggest=False)
    stopped = [row.linear.linear for row in report.layers if row.linear.invalid]
    assert any(name.startswith("visual.") for name in stopped) and "qkv_proj" in stopped
    assert report.first_stop is not None and report.first_stop[0] == where


def test_the_experts_are_an_object_like_the_cache() -> None:
    report = evaluate(read_config("Qwen3-30B-A3B"), Deployment(gpu="h200", tp=4))
    moe = report.to_json()["moe"]
    sizes = {"hidden": 2048, "intermediate": 192, "experts": 128, "gated": True, "moe_tp": 4}
    assert sizes.items() <= moe.items() and moe["verdicts"]
    assert evaluate(read_config("Llama-3.1-8B"), Deployment()).to_json()["moe"] is None


def test_every_verdict_stands_under_its_own_subject() -> None:
    flags = replace(B200, tp=2, kv_cache_dtype="mxfp8")
    report = doctor("Qwen3-30B-A3B", flags, suggest=False)
    subject = {guard.id: guard.subject for guard in GUARDS}
    assert {subject[v.guard] for v in report.server} == {"server", "config"}
    assert {subject[v.guard] for v in report.kv_cache} == {"kv_cache"}
    assert {subject[v.guard] for v in report.moe} == {"experts"}
    dense = [row for row in report.layers if row.linear.kind != "moe"]
    assert {subject[v.guard] for row in dense for v in row.verdicts} == {"linear"}
