"""The dialects in which checkpoints claim their quantisation."""

from pathlib import Path
from typing import Any

import pytest

from mxlab.errors import InputError
from mxlab.models import describe_quantization, quantization_config, read_config

DATA = Path(__file__).parent / "data" / "models"

#: config -> dialect, weights, block, scale, where, length of the ignore list
REAL: dict[str, tuple[str, str, tuple[int, int] | None, str | None, str, int]] = {
    "DeepSeek-V3": ("FP8", "FP8 block", (128, 128), "float32", "quantization_config", 0),
    "DeepSeek-V4-Pro": ("FP8", "FP8 block", (128, 128), "ue8m0", "quantization_config", 0),
    "DeepSeek-V4.1-Flash-MXFP4-quark-quantonly": (
        "Quark",
        "mixed",
        None,
        None,
        "quantization_config",
        0,
    ),
    "Hy4-preview-FP8-modelopt": (
        "ModelOpt MXFP8, nested",
        "MXFP8",
        (1, 32),
        "ue8m0",
        "quantization_config",
        0,
    ),
    "Kimi-K2.5": (
        "compressed-tensors",
        "INT4",
        (1, 32),
        None,
        "text_config.quantization_config",
        4,
    ),
    "MiniMax-M2.7": ("FP8", "FP8 block", (128, 128), "float32", "quantization_config", 3),
    "MiniMax-M3-MXFP8": ("native MXFP8", "MXFP8", (1, 32), "ue8m0", "quantization_config", 62),
    "MiniMax-M3-NVFP4": ("ModelOpt mixed, flat", "mixed", None, None, "quantization_config", 62),
    "OpenMath2-Llama3.1-8B-MXFP8-modelopt": (
        "ModelOpt MXFP8, flat",
        "MXFP8",
        (1, 32),
        "ue8m0",
        "quantization_config",
        1,
    ),
    "Qwen3-32B-FP8-Static-PerTensor": (
        "ModelOpt FP8, flat",
        "FP8 tensor",
        None,
        "float32",
        "quantization_config",
        1,
    ),
    "Qwen3.5-4B-MXFP8-compressed-tensors": (
        "compressed-tensors",
        "MXFP8",
        (1, 32),
        "ue8m0",
        "quantization_config",
        49,
    ),
    "gpt-oss-120b": ("MXFP4", "MXFP4", (1, 32), "ue8m0", "quantization_config", 4),
}


@pytest.mark.parametrize("name", REAL)
def test_real_claims(name: str) -> None:
    found = describe_quantization(read_config(DATA / f"{name}.json"))
    assert found is not None
    shape = (found.dialect, found.weights, found.block, found.scale, found.where, len(found.ignore))
    assert shape == REAL[name]


def test_most_configs_claim_nothing_and_none_is_overlooked() -> None:
    for file in DATA.glob("*.json"):
        raw = read_config(file)
        claimed = '"quant_' in file.read_text()
        assert (quantization_config(raw) is not None) == claimed, file.stem
    assert describe_quantization(read_config(DATA / "Llama-3.1-8B.json")) is None


def claim(**keys: Any) -> dict[str, Any]:
    return {"quantization_config": keys}


def compressed(**weights: Any) -> dict[str, Any]:
    return claim(quant_method="compressed-tensors", config_groups={"group_0": {"weights": weights}})


QUARK_2D = {
    "dtype": "fp8_e4m3",
    "qscheme": "per_block",
    "block_size": [32, 32],
    "scale_type": "float8_e8m0fnu",
}
QUARK_1D = {
    "dtype": "fp8_e4m3",
    "qscheme": "per_group",
    "group_size": 32,
    "scale_format": "e8m0",
}
MX_GROUP = {
    "num_bits": 8,
    "type": "float",
    "strategy": "group",
    "group_size": 32,
    "scale_dtype": "torch.uint8",
}

DIALECTS: list[tuple[dict[str, Any], str, tuple[int, int] | None]] = [
    (claim(quant_method="mxfp8"), "MXFP8", (1, 32)),
    (claim(quant_method="mxfp8", weight_block_size=[128, 128]), "MXFP8", (1, 32)),
    (claim(quant_method="fp8", weight_block_size=[1, 32]), "FP8 block", (1, 32)),
    (claim(quant_method="fp8", weight_block_size=None), "FP8 tensor", None),
    (claim(quant_method="fp8", weight_block_size=[128, 128], moe_quant_algo="NVFP4"), "mixed",
     (128, 128)),
    (claim(quant_method="modelopt", quant_algo="NVFP4"), "NVFP4", (1, 16)),
    (claim(quant_method="modelopt", quant_algo="W9A9"), "unknown", None),
    (claim(quant_algo="MXFP8"), "MXFP8", (1, 32)),
    (compressed(**MX_GROUP), "MXFP8", (1, 32)),
    (compressed(**{**MX_GROUP, "group_size": 64}), "unknown", None),
    (compressed(**{**MX_GROUP, "num_bits": 4}), "MXFP4", (1, 32)),
    (compressed(num_bits=8, type="float", strategy="channel"), "FP8 channel", None),
    (compressed(num_bits=8, type="float", strategy="block", block_structure=[128, 128]),
     "FP8 block", (128, 128)),
    (claim(quant_method="quark", global_quant_config={"weight": QUARK_1D}), "MXFP8", (1, 32)),
    (claim(quant_method="quark", global_quant_config={"weight": QUARK_2D}), "MXFP8", (32, 32)),
    (claim(quant_method="auto-round", data_type="mx_fp", bits=8), "MXFP8", (1, 32)),
    (claim(quant_method="inc", data_type="int", bits=8), "unknown", None),
    (claim(quant_method="awq", bits=4), "unknown", None),
    (claim(), "unknown", None),
    ({"compression_config": {"quant_method": "mxfp8"}}, "MXFP8", (1, 32)),
    ({"text_config": {"quantization_config": {"quant_method": "mxfp8"}}}, "MXFP8", (1, 32)),
    ({"_hf_quant_config": {"quantization": {"quant_algo": "MXFP8"}}}, "MXFP8", (1, 32)),
]  # fmt: skip


@pytest.mark.parametrize(("raw", "weights", "block"), DIALECTS)
def test_dialects(raw: dict[str, Any], weights: str, block: tuple[int, int] | None) -> None:
    found = describe_quantization(raw)
    assert found is not None
    assert (found.weights, found.block) == (weights, block)
    assert (weights == "unknown") == any("no rule" in note for note in found.notes) or block is None


def test_a_leftover_block_size_is_said_and_not_believed() -> None:
    found = describe_quantization(claim(quant_method="mxfp8", weight_block_size=[128, 128]))
    assert found is not None
    assert found.notes == (
        "quantization_config.weight_block_size is [128, 128]: SGLang warns and uses [1, 32]",
    )


def test_formats_by_module() -> None:
    found = describe_quantization(read_config(DATA / "MiniMax-M3-NVFP4.json"))
    assert found is not None
    formats = dict(found.modules)
    assert formats["language_model.model.layers.0.mlp.down_proj"] == "MXFP8"
    assert set(formats.values()) == {"MXFP8", "NVFP4"}


@pytest.mark.parametrize(
    ("key", "entries"),
    [
        ("ignored_layers", ["lm_head"]),
        ("modules_to_not_convert", ["gate"]),
        ("ignore", ["re:.*self_attn.*"]),
        ("exclude_modules", ["mtp*"]),
    ],
)
def test_ignore_lists_in_every_spelling(key: str, entries: list[str]) -> None:
    found = describe_quantization(claim(quant_method="mxfp8", **{key: entries}))
    assert found is not None
    assert (found.ignore_key, found.ignore) == (f"quantization_config.{key}", tuple(entries))


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ({"quantization_config": []}, "quantization_config is a list: expected an object"),
        (claim(quant_method=8), "quantization_config.quant_method is 8: expected a string"),
        (claim(quant_method="fp8", weight_block_size="128"), "weight_block_size is '128' (a str"),
        (claim(quant_method="mxfp8", ignored_layers="lm_head"), "ignored_layers is 'lm_head'"),
        (claim(quant_method="mxfp8", ignored_layers=[1]), "ignored_layers[0] is 1: expected"),
        (compressed(num_bits="8"), "config_groups.group_0.weights.num_bits is '8' (a string)"),
    ],
)
def test_claims_of_the_wrong_type(raw: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as error:
        describe_quantization(raw)
    assert message in str(error.value)


def test_comments_are_ignored() -> None:
    raw = compressed(**MX_GROUP)
    raw["quantization_config"]["config_groups"]["_note"] = "one group"
    raw["quantization_config"]["_ignore"] = 7
    found = describe_quantization(raw)
    assert found is not None and found.weights == "MXFP8"
