"""Public field reports about guards, experts, caches and configs: which test answers each of them.

The reports are numbered as they were collected; a number that is not here is about something else.
"""

import re
from pathlib import Path
from typing import Any

import pytest

from mxlab.doctor import doctor
from mxlab.guards import (
    AttentionFacts,
    Deployment,
    KvCacheFacts,
    Status,
    Verdict,
    check,
)
from mxlab.matrix import matrix
from mxlab.models import read_config

HERE = Path(__file__).parent
GUARDS, MODELS = "test_field_reports_guards.py", "test_models_families.py"
CLAIMS, SCALES = "test_checkpoints_claims.py", "test_checkpoints_scales.py"

#: number -> area, the file that answers, and how its test is found there
ANSWERED: dict[int, tuple[str, str, str]] = {
    25: ("checkpoint", "test_cli_detect.py", "def test_field_report_25_"),
    27: ("guards", GUARDS, "def test_27_"),
    28: ("guards", "test_field_reports.py", "def test_28_"),
    30: ("guards", GUARDS, "def test_30_"),
    32: ("guards", "test_quantized.py", "def test_report_32_"),
    34: ("moe", GUARDS, "def test_34_"),
    35: ("guards", GUARDS, "def test_35_"),
    37: ("moe", GUARDS, "def test_37_"),
    38: ("guards", GUARDS, "def test_38_"),
    39: ("guards", MODELS, "def test_report_39_"),
    41: ("moe", MODELS, "def test_report_41_"),
    43: ("guards", "test_field_reports.py", "def test_43_"),
    45: ("guards", GUARDS, "def test_45_"),
    46: ("gemm", GUARDS, "def test_46_"),
    48: ("guards", GUARDS, "def test_48_"),
    49: ("gemm", GUARDS, "def test_49_"),
    51: ("guards", GUARDS, "def test_51_"),
    52: ("guards", GUARDS, "def test_52_"),
    54: ("checkpoint", CLAIMS, "Field report 54:"),
    55: ("checkpoint", SCALES, "Field report 55:"),
    57: ("checkpoint", SCALES, "Field report 57:"),
    59: ("checkpoint", SCALES, "Field report 59:"),
    61: ("config", CLAIMS, "Field report 61:"),
    63: ("config", CLAIMS, "Field report 63:"),
    64: ("kv-cache", GUARDS, "def test_64_"),
    65: ("kv-cache", GUARDS, "def test_65_"),
    67: ("kv-cache", GUARDS, "def test_67_"),
    69: ("kv-cache", "test_field_reports.py", "def test_69_"),
}


@pytest.mark.parametrize("number", ANSWERED)
def test_every_report_has_its_test(number: int) -> None:
    _, file, test = ANSWERED[number]
    assert re.search(re.escape(test) + r"\w*", (HERE / file).read_text()), number


def _ask(deployment: Deployment, **subjects: Any) -> dict[str, Verdict]:
    return {verdict.guard: verdict for verdict in check(deployment, **subjects)}


def test_28_accepted_and_slow_is_a_verdict_of_its_own() -> None:
    """flashinfer#5175: K = 576 on SM121; 3,041,280 bytes at 58.00 us are 52.4 GB/s."""
    cells = {
        cell.row.backend: cell
        for cell in matrix(5120, 576, m=6, gpus=["gb10"], systems=["flashinfer"])
    }
    assert cells["b12x"].status is Status.STOPS and "576 % 128 = 64" in cells["b12x"].because
    assert cells["cutlass"].status is Status.SILENT  # it runs
    assert "zero-padding K to 640 costs 11.1 %" in cells["cutlass"].because
    assert cells["auto"].status is Status.FALLS_BACK
    nbytes = 5120 * 576 + 5120 * 576 // 32
    assert nbytes == 3_041_280 and round(nbytes / 58.00e-6 / 1e9, 1) == 52.4
    assert [576 % of for of in (32, 64, 128)] == [0, 0, 64]
    whole = matrix(5120, 640, m=6, gpus=["gb10"], systems=["flashinfer"])
    assert next(c for c in whole if c.row.backend == "b12x").status is Status.PASSES


def test_43_hopper_runs_mxfp8_by_emulation_only_and_each_system_says_how() -> None:
    """sglang#28852: refused, dequantised, weight-only, or converted: never plain 'ok'."""
    config = read_config("MiniMax-M3-MXFP8")
    flags: dict[str, Any] = {"gpu": "h200", "tp": 8}
    refused = doctor(config, Deployment(**flags), suggest=False)
    assert refused.first_stop is not None
    assert refused.first_stop[1].guard == "cfg-min-capability"
    assert "block-FP8" in refused.first_stop[1].fixes[0]
    weight_only = doctor(config, Deployment(system="vllm", **flags))
    assert weight_only.outcome == "runs-degraded"
    said = {v.because for _, v in weight_only.heard() if v.guard == "vllm-mx-fallback"}
    assert said == {
        "MarlinMxfp8LinearKernel: weights dequantised inside a 16-bit product; activations stay "
        "16-bit"
    }
    kinds = {
        (cell.row.system, cell.row.backend): cell
        for cell in matrix(6144, 6144, gpus=["h200"], systems=["vllm", "triton", "torch"])
    }
    assert "dequantised to bfloat16 at load" in kinds["vllm", "emulation"].because
    assert "bf16 mma" in kinds["triton", ""].because
    assert kinds["torch", "auto"].status is Status.STOPS
    assert not [cell for cell in kinds.values() if cell.status is Status.PASSES]
    converted = doctor(config, Deployment(gpu="mi300x", tp=8))
    assert converted.outcome == "runs-degraded"
    lossy = [v for _, v in converted.heard() if v.status is Status.SILENT]
    assert {v.guard for v in lossy} == {"cvt-required"}
    assert all("becomes block FP8 [128, 128]" in v.because for v in lossy)


@pytest.mark.parametrize(
    ("k", "v", "warns", "pair"),
    [
        (0.05, 0.08, "used all the same", Status.PASSES),
        (None, None, "k_scale = v_scale = 1.0", Status.PASSES),
        (0.05, None, "used all the same", Status.PASSES),
        (None, 0.08, "k_scale = v_scale = 1.0", Status.STOPS),
        (0.0, float("nan"), "used all the same", Status.STOPS),
        (float("nan"), 0.08, "used all the same", Status.STOPS),
        (-1.0, -1.0, "used all the same", Status.PASSES),
    ],
)
def test_64_65_sglang_states_the_scale_of_the_cache(
    k: float | None, v: float | None, warns: str, pair: Status
) -> None:
    """The line about 1.0 is printed whatever the checkpoint has; v_scale alone is an assertion."""
    deployment = Deployment(kv_cache_dtype="fp8_e4m3")
    config = {"quant_method": "fp8", "weight_block_size": [128, 128]}
    cache = KvCacheFacts(128, 128, 8, k_scale=k, v_scale=v)
    said = _ask(deployment, config=config, kv_cache=cache)
    found = said["kv-scale-none"]
    assert found.status is Status.WARNS and warns in found.because
    assert found.message.endswith("Defaulting to scaling factors of 1.0.")
    assert found.degrades is (k is None)
    assert said["kv-scale-pair"].status is pair
    assert ("to 2^-10 become 0" in found.because) is (k is None)
    file = Deployment(kv_cache_dtype="fp8_e4m3", settings={"quantization-param-path": "kv.json"})
    assert _ask(file, kv_cache=cache)["kv-scale-none"].status is Status.PASSES
    plain = _ask(Deployment(), kv_cache=cache)
    assert plain["kv-scale-none"].status is plain["kv-scale-pair"].status is Status.NOT_REACHED


@pytest.mark.parametrize("dtype", ["mxfp8", "fp8_e4m3"])
def test_69_one_row_for_fp8_and_one_for_mxfp8(dtype: str) -> None:
    """cudnn-frontend#897: head_dim 512 is taken with per-tensor scales only."""
    deployment = Deployment(
        gpu="b200", kv_cache_dtype=dtype, page_size=128, attention_backend="fa4"
    )
    said = _ask(deployment, kv_cache=KvCacheFacts(512, 512, 1))
    block_scaled = dtype == "mxfp8"
    assert (said["fa4-hd"].status is Status.STOPS) is block_scaled
    assert "(512, 512)" in said["fa4-hd"].because or not block_scaled
    assert (said["kv-scale-none"].status is Status.WARNS) is not block_scaled
    # that the pool can be laid out is no evidence of a kernel
    assert (said["kv-hd32"].status is Status.PASSES) is block_scaled
    assert (said["kv-sf-dim4"].status is Status.SILENT) is block_scaled
    call = AttentionFacts(head_dim=512, v_head_dim=512)
    assert "silent-fa4-256" in _ask(deployment, step=call)
