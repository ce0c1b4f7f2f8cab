"""What a config says of its experts reaches the guards: routing, experts of 4 bits, settings."""

from pathlib import Path
from typing import Any

import pytest

from mxlab.doctor import Report, doctor
from mxlab.guards import Deployment, Status
from mxlab.guards.settings import check_settings
from mxlab.models import read_config
from mxlab.moe_config import four_bit_experts, routing, settings

MODELS = Path(__file__).parent / "data" / "models"


def _report(config: dict[str, Any], **flags: Any) -> Report:
    return doctor(config, Deployment(gpu="b200", quantization="mxfp8", **flags), suggest=False)


@pytest.mark.parametrize(
    ("more", "message", "because"),
    [
        ({}, "", "E = 128, top-k 8, groups 1, E = 128 % 4 = 0"),
        (
            {"num_experts": 126},
            "expects that num_experts must be divisible by 4",
            "E = 126 % 4 = 2",
        ),
        ({"num_experts": 8}, "num_experts must be greater than top_k", "E = 8, top-k 8"),
        ({"num_experts_per_tok": 33}, "only supports top_k<=32", "top-k 33"),
        ({"num_experts_per_tok": 9, "n_group": 8, "norm_topk_prob": True}, "top_k<=8", "groups 8"),
        ({"n_group": 3, "norm_topk_prob": True}, "divisible by n_group", "groups 3"),
        ({"num_experts_per_tok": 9, "n_group": 8, "norm_topk_prob": False}, "", "top-k 9"),
        ({"num_experts_per_tok": [4, 40]}, "only supports top_k<=32", "top-k 40"),
    ],
)
def test_the_routing_of_the_config_is_asked(
    more: dict[str, Any], message: str, because: str
) -> None:
    """FlashInfer's limits, at the first token; the model is Qwen3-30B-A3B with other numbers."""
    config = {**read_config("Qwen3-30B-A3B"), **more}
    report = _report(config, moe_runner_backend="flashinfer_trtllm")
    verdict = next(v for v in report.moe if v.guard == "moe-fi-routing")
    assert because in verdict.because
    assert (verdict.status is Status.STOPS) == bool(message) and message in verdict.message
    if message:
        assert report.outcome == "stops" and report.first_stop and report.dies
        assert report.first_stop[1] is verdict or report.first_stop[1].stage < "S8"
        assert "after reading" in report.dies.when


@pytest.mark.parametrize("runner", ["deep_gemm", "cutlass", "flashinfer_trtllm_routed"])
def test_other_runners_have_no_such_limit(runner: str) -> None:
    config = {**read_config("Qwen3-30B-A3B"), "num_experts_per_tok": 33}
    said = {v.guard: v.status for v in _report(config, moe_runner_backend=runner).moe}
    assert said.get("moe-fi-routing", Status.NOT_REACHED) is Status.NOT_REACHED


@pytest.mark.parametrize(
    "value", [None, 0, -1, "8", True, 2**40, [], ["a"], {}, float("nan"), [True], [[1]]]
)
def test_a_routing_that_is_none(value: object) -> None:
    assert routing({"num_experts_per_tok": value}) is None
    config = {**read_config("Qwen3-30B-A3B"), "num_experts_per_tok": value}
    assert "moe-fi-routing" not in {v.guard for v in _report(config).moe}


def test_the_names_of_the_number_of_experts() -> None:
    names = ("num_experts_per_tok", "num_experts_per_token", "experts_per_token", "moe_topk")
    for name in names:
        found = routing({"text_config": {name: 4}})
        assert found and (found.top_k, found.groups) == (4, 1)


def test_experts_of_4_bits() -> None:
    """DeepSeek-V4-Pro: FP8 blocks, and experts of half a byte and a scale byte for 32."""
    config = read_config(MODELS / "DeepSeek-V4-Pro.json")
    assert four_bit_experts(config) == "MXFP4"
    report = doctor(config, Deployment(gpu="b200", tp=8))
    experts = [row for row in report.layers if row.linear.kind == "moe"]
    assert {row.coverage.layers for row in experts} == {0} and len(experts) == 2
    assert all("MXFP4" in row.coverage.why_not for row in experts)
    assert any("MXFP4" in text for text in report.shapes.unknown)
    assert report.weights and report.weights.bytes
    values = 384 * 3 * 7168 * 3072 * 61  # of the routed experts
    wide = doctor({**config, "expert_dtype": "fp8"}, Deployment(gpu="b200", tp=8)).weights
    assert wide and wide.bytes
    blocks = 384 * 61 * 3 * (7168 // 128) * (3072 // 128)  # bytes: scale_fmt is ue8m0
    assert wide.bytes - report.weights.bytes == values + blocks - (values // 2 + values // 32)
    mixed = {"quant_algo": "MIXED_PRECISION", "moe_quant_algo": "nvfp4", "group_size": 16}
    assert four_bit_experts({"quantization_config": mixed}) == "NVFP4"
    assert four_bit_experts({"quantization_config": {**mixed, "group_size": None}}) == ""
    assert four_bit_experts({"quantization_config": [], "expert_dtype": 4}) == ""


def test_settings_that_the_config_states() -> None:
    found = settings(read_config(MODELS / "DeepSeek-V4-Pro.json"), {"fp4-experts": False})
    assert found == {"model-type": "deepseek_v4", "fp4-experts": False}
    check_settings(found)
    assert settings({"model_type": 5}, {}) == settings({"model_type": "x" * 81}, {}) == {}


@pytest.mark.parametrize(("name", "kernel"), [("deepseek_v4", False), ("deepseek_v41", True)])
def test_the_model_type_decides_what_auto_means(name: str, kernel: bool) -> None:
    """DeepSeek-V4.1 with blocks of 32 runs on FlashInfer's CuTe-DSL kernel without a flag."""
    config = read_config(MODELS / "DeepSeek-V4-Pro.json")
    claim = {**config["quantization_config"], "weight_block_size": [32, 32]}
    config |= {"model_type": name, "quantization_config": claim, "expert_dtype": None}
    report = doctor(config, Deployment(gpu="b200", tp=8), suggest=False)
    assert report.deployment.settings == {}  # a report names the flags that were given
    said = {v.because for row in report.layers for v in row.verdicts if v.guard == "blk2mx-can"}
    assert any("MXFP8 on flashinfer_cutedsl" in because for because in said) is kernel
    assert any("keeps its block-FP8 kernel" in because for because in said) is not kernel
