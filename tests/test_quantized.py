"""Fused names and what the ignore list does to them, model class by model class."""

from pathlib import Path
from typing import Any

import pytest

from mxlab.doctor import Report, doctor
from mxlab.guards import Deployment, Status
from mxlab.models import read_config

MODELS = Path(__file__).parent / "data" / "models"
MXFP8 = {"quant_method": "mxfp8", "weight_block_size": [1, 32], "activation_scheme": "dynamic"}


def _report(name: str, ignored: list[str], **flags: Any) -> Report:
    config = read_config(MODELS / f"{name}.json")
    if flags.get("quantization") is None:
        config["quantization_config"] = {**MXFP8, "modules_to_not_convert": ignored}
    else:
        config.pop("quantization_config", None)
        flags["env"] = {"SGLANG_FP8_IGNORED_LAYERS": ",".join(ignored)}
    return doctor(config, Deployment(gpu="b200", tp=2, **flags), suggest=False)


CASES = [
    ("DeepSeek-V3", "fused_qkv_a_proj_with_mqa", ("q_a_proj", "kv_a_proj_with_mqa")),
    ("Kimi-K2.5", "fused_qkv_a_proj_with_mqa", ("q_a_proj", "kv_a_proj_with_mqa")),
    ("MiniMax-M3-MXFP8", "index_qkv_proj", ("index_q_proj", "index_k_proj")),
    ("Qwen3.5-27B", "linear_attn.in_proj_ba", ("in_proj_b", "in_proj_a")),
    ("Qwen3.5-27B", "linear_attn.in_proj_qkvz", ("in_proj_qkv", "in_proj_z")),
    ("Llama-3.1-8B", "qkv_proj", ("q_proj", "k_proj", "v_proj")),
]


@pytest.mark.parametrize(("model", "linear", "members"), CASES)
def test_members_on_the_ignore_list(model: str, linear: str, members: tuple[str, ...]) -> None:
    """All of them: 16 bits. One of them: SGLang stops, and names the fused layer."""
    whole = {row.linear.linear: row for row in _report(model, list(members)).layers}
    assert whole[linear].coverage.layers == 0
    assert "ignore list names it" in whole[linear].coverage.why_not
    for member in members:
        report = _report(model, [member])
        row = next(row for row in report.layers if row.linear.linear == linear)
        stop = next(v for v in row.verdicts if v.guard == "cfg-fused-skip")
        assert stop.status is Status.STOPS
        assert f".{linear.rpartition('.')[2]} are quantized" in stop.message
    fused = linear.rpartition(".")[2]
    named = _report(model, [fused])  # the fused name itself is none of the checkpoint's
    row = next(row for row in named.layers if row.linear.linear == linear)
    assert row.coverage.layers == row.linear.layers


@pytest.mark.parametrize(
    ("model", "linear", "members", "apart"),
    [
        ("DeepSeek-V3", "fused_qkv_a_proj_with_mqa", "q_a_proj,kv_a_proj_with_mqa", True),
        ("MiniMax-M3-MXFP8", "index_qkv_proj", "index_q_proj,index_k_proj", False),
        ("MiniMax-M3-MXFP8", "index_qkv_proj", "index_qkv_proj", True),
        ("Qwen3.5-27B", "linear_attn.in_proj_ba", "in_proj_b,in_proj_a", False),
    ],
)
def test_online_the_config_brings_no_mapping(
    model: str, linear: str, members: str, apart: bool
) -> None:
    """DeepSeek's class hands its own on; of the others only a checkpoint's config carries it."""
    report = _report(model, members.split(","), quantization="mxfp8")
    row = next(row for row in report.layers if row.linear.linear == linear)
    assert (row.coverage.layers == 0) is apart


def test_report_32_a_small_projection_is_not_padded() -> None:
    """sglang#19045: 64 rows over 8 ranks are below every tile; they belong in 16 bits."""
    config = read_config(MODELS / "Qwen3.5-27B.json")
    config["text_config"]["linear_num_value_heads"] = 64
    block = {"quant_method": "fp8", "weight_block_size": [128, 128]}
    config["quantization_config"] = {**block, "activation_scheme": "dynamic"}
    report = doctor(config, Deployment(gpu="h20", tp=8))
    assert report.first_stop is not None and report.first_stop[0] == "linear_attn.in_proj_ba"
    assert report.first_stop[1].message == (
        "Weight output_partition_size = 8 is not divisible by weight quantization block_n = 128."
    )
    changes = [text for row in report.suggestions for text in row["changes"]]
    assert changes and not any(text.startswith("pad ") for text in changes)
    assert any(
        "modules_to_not_convert + linear_attn.in_proj_a,linear_attn.in_proj_b" in text
        for text in changes
    )
