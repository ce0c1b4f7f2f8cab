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
from mxlab.models import linears_model, read_config

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


def test_expert_layers_without_their_sizes_name_the_missing_keys() -> None:
    config = read_config(Path(__file__).parent / "data/models/Nemotron-H-56B.json")
    pattern = config["hybrid_override_pattern"]
    config["hybrid_override_pattern"] = "E" + pattern[1:]
    with pytest.raises(InputError, match=r"config lacks .*n_routed_experts"):
        evaluate(config, Deployment(gpu="b200"))


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
    assert {subject[v.guard] for v in report.moe} == {"experts", "expert_call"}
    dense = [row for row in report.layers if row.linear.kind != "moe"]
    assert {subject[v.guard] for row in dense for v in row.verdicts} == {"linear"}


def test_a_stop_says_when_and_after_how_many_bytes() -> None:
    bare = frozenset({"deep_gemm"})
    late = replace(B200, tp=4, fp8_gemm_backend="deep_gemm", packages=bare)
    report = doctor("Qwen2.5-72B-Instruct", late, suggest=False)
    assert report.dies is not None and report.dies.stage == "S6"
    assert report.dies.when == (
        "dies at weight load, after reading 145 GB of weights (36.4 GB a rank)"
    )
    answer = report.to_json()["dies"]
    assert 145.3e9 < answer["bytes_read"] < 145.5e9 and answer["bytes_a_rank"] * 4 > 145e9
    early = doctor("Llama-3.1-70B", Deployment(gpu="h200", quantization="mxfp8"), suggest=False)
    assert early.to_json()["dies"] == {
        "stage": "S3",
        "when": "dies at start, before reading a weight",
        "bytes_read": 0,
        "bytes_a_rank": 0,
    }
    first = Deployment(gpu="b200", tp=8, kv_cache_dtype="mxfp8", attention_backend="fa4")
    token = doctor("Llama-3.1-70B", first, suggest=False)
    assert token.first_stop is not None and token.first_stop[1].guard == "fa4-qdescale"
    assert token.dies is not None and "at the first token" in token.dies.when
    assert "after reading 141 GB of weights (17.6 GB a rank)" in token.dies.when
    assert doctor("Llama-3.1-8B", replace(B200, tp=8)).to_json()["dies"] is None


@pytest.mark.parametrize("model", ["Qwen2.5-72B-Instruct", "GLM-4.5-Air", "phi-4"])
@pytest.mark.parametrize("gpu", ["h200", "b200", "rtx5090", "mi300x"])
def test_the_order_of_failure_holds_every_stop_once(model: str, gpu: str) -> None:
    flags = Deployment(gpu=gpu, tp=8, quantization="mxfp8", kv_cache_dtype="mxfp8")
    report = doctor(model, flags, suggest=False)
    order = report.to_json()["order_of_failure"]
    assert [STAGE.index(entry["stage"]) for entry in order] == sorted(
        STAGE.index(entry["stage"]) for entry in order
    )
    listed = {(entry["guard"], where) for entry in order for where in entry["where"]}
    stops = {(v.guard, where) for where, v in report.subjects() if v.status is Status.STOPS}
    assert listed == stops and len(order) == len({entry["guard"] for entry in order})
    assert report.first_stop is not None
    assert (order[0]["guard"], order[0]["where"][0]) == (
        report.first_stop[1].guard,
        report.first_stop[0],
    )
    for row in report.to_json()["layers"]:
        found = [v["guard"] for v in row["verdicts"] if v["status"] == "stops"]
        assert sorted([row["first_stop"] or "", *row["behind"]]) == sorted(found or [""])


INKLING = {
    "architectures": ["InklingForConditionalGeneration"],
    "text_config": {
        "num_attention_heads": 64,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "hidden_size": 4096,
        "num_hidden_layers": 16,
    },
}


def _prologue(config: dict[str, Any], *, forced: bool = False, **flags: Any) -> dict[str, Any]:
    deployment = Deployment(**{"gpu": "b200", "kv_cache_dtype": "mxfp8", **flags})
    answer = doctor(config, deployment, suggest=False, prologue=forced).to_json()["prologue"]
    assert isinstance(answer, dict)
    return answer


def test_the_prologue_is_asked_where_sglang_runs_it() -> None:
    found = _prologue(INKLING, tp=4)
    assert (found["used"], found["dq"], found["dkv"], found["page_size"]) == (True, 2048, 256, 128)
    assert found["sfk_shape"] == (64, 2, 32, 4, 4) and found["mxfp8"]
    statuses = {verdict["guard"]: verdict["status"] for verdict in found["verdicts"]}
    assert statuses["ink-py-shape"] == statuses["ink-cu-block"] == "passes"
    wide = _prologue(INKLING, tp=1)  # 64 query heads and 8 KV heads: over 64 lanes of 16
    statuses = {verdict["guard"]: verdict["status"] for verdict in wide["verdicts"]}
    assert statuses["ink-cu-block"] == "stops"
    report = doctor(INKLING, Deployment(gpu="b200", kv_cache_dtype="mxfp8"), suggest=False)
    assert report.first_stop is not None and report.first_stop[1].guard == "ink-cu-block"


@pytest.mark.parametrize(
    ("change", "flags", "said"),
    [
        ({"head_dim": 96}, {}, "head_dim = 96, not 128"),
        ({}, {"attention_backend": "triton"}, "triton, not fa4"),
        ({}, {"env": {"SGLANG_OPT_USE_INKLING_FUSED_ATTN_PROLOGUE": "0"}}, "is off"),
    ],
)
def test_the_prologue_is_not_run_and_says_why(
    change: dict[str, int], flags: dict[str, Any], said: str
) -> None:
    config = {**INKLING, "text_config": {**INKLING["text_config"], **change}}  # type: ignore[dict-item]
    found = _prologue(config, tp=4, **flags)
    assert not found["used"] and said in found["why"] and found["verdicts"] == []


def test_the_prologue_of_another_model_is_asked_on_demand() -> None:
    llama = read_config("Llama-3.1-8B")
    assert "only Inkling" in _prologue(llama)["why"]
    forced = _prologue(llama, forced=True, page_size=128, attention_backend="fa4")
    assert not forced["used"] and {v["status"] for v in forced["verdicts"]} <= {
        "passes",
        "not-reached",
        "unknown",
    }
    llama["head_dim"] = 80  # 32 heads of 80 are 20 of 128: only the KV heads give it away
    odd = _prologue(llama, forced=True, page_size=128, attention_backend="fa4", tp=8)
    stops = {v["guard"] for v in odd["verdicts"] if v["status"] == "stops"}
    assert "ink-py-dims" in stops and odd["head_dim"] == 80
    flat = _prologue(read_config("Llama-3.1-8B"), forced=True, page_size=64)
    assert "ink-py-shape" in {v["guard"] for v in flat["verdicts"] if v["status"] == "stops"}
    assert evaluate(read_config("DeepSeek-V3"), Deployment()).to_json()["prologue"] is None


def test_typed_linears_and_a_parsed_config_are_models_too() -> None:
    typed = doctor(linears_model([("down_proj", 8192, 29568)]), replace(B200, tp=8))
    assert typed.first_stop is not None and typed.first_stop[1].guard == "lin-tp-row"
    assert any("29568 -> 29696 in all" in row["changes"][0] for row in typed.suggestions)
