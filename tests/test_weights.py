"""Parameters and bytes of a model, held against those that others counted."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from mxlab.models import describe_quantization, read_config, shapes
from mxlab.weights import Weights, stored_bytes, weights

MODELS = Path(__file__).parent / "data/models"
#: billions of parameters without multi-token prediction: transformers 5.24.0 on the meta device
BILLIONS = {
    "Llama-3.1-8B": 8.03,
    "Llama-3.1-70B": 70.55,
    "Llama-4-Maverick-17B-128E": 400.71,
    "Qwen3-32B-FP8": 32.76,
    "Qwen3-30B-A3B": 30.53,
    "Qwen3-235B-A22B-FP8": 235.09,
    "Qwen3-VL-8B": 8.77,
    "Qwen3.5-27B": 27.36,
    "DeepSeek-V2-Lite": 15.71,
    "DeepSeek-V3": 671.03,
    "gpt-oss-120b": 116.83,
    "Mixtral-8x7B": 46.70,
    "MiniMax-M2.7": 228.69,
    "Kimi-K2.5": 1026.88,
    "Nemotron-H-56B": 56.32,
    "Llama-2-7B": 6.74,
    "Mistral-7B-v0.3": 7.25,
    "Phi-4-mini": 3.84,
    "gemma-2-9b": 9.24,
    "gemma-3-27b-it": 27.43,
    "Qwen2.5-3B": 3.09,
    "Qwen2.5-VL-7B-Instruct": 8.29,
    "Qwen2.5-72B-Instruct": 72.71,
    "phi-4": 14.66,
    "falcon-7b": 6.92,
    "GLM-4.5-Air": 106.85,
    "MiniMax-M3-MXFP8": 427.04,
}
#: total_size of the published model.safetensors.index.json
PUBLISHED = {
    "Llama-3.1-8B": 16_060_522_496,
    "Llama-3.1-70B": 141_107_412_992,
    "Mixtral-8x7B": 93_405_585_408,
    "Qwen2.5-72B-Instruct": 145_412_407_296,
}


def found(config: dict[str, Any], tp: int = 1) -> Weights:
    known = weights(config, shapes(config), shapes(config, tp=tp))
    assert known is not None
    return known


@pytest.mark.parametrize("model", BILLIONS)
def test_parameters_are_those_that_transformers_builds(model: str) -> None:
    counted = found(read_config(MODELS / f"{model}.json")).parameters / 1e9
    assert math.isclose(counted, BILLIONS[model], rel_tol=0.005)


@pytest.mark.parametrize("model", PUBLISHED)
def test_bytes_are_those_of_the_published_checkpoint(model: str) -> None:
    held = found(read_config(MODELS / f"{model}.json")).bytes
    assert held is not None and math.isclose(held, PUBLISHED[model], rel_tol=0.001)


def test_a_rank_holds_its_share() -> None:
    config = read_config("Llama-3.1-70B")
    whole, eighth = found(config), found(config, tp=8)
    assert eighth.bytes == whole.bytes == whole.bytes_a_rank
    assert eighth.bytes_a_rank is not None and whole.bytes is not None
    assert math.isclose(eighth.bytes_a_rank * 8, whole.bytes, rel_tol=0.001)
    moe = read_config("DeepSeek-V3")
    ranks = weights(moe, shapes(moe), shapes(moe, tp=8, ep=8))
    assert ranks is not None and ranks.bytes_a_rank is not None and ranks.bytes is not None
    assert 8 * ranks.bytes_a_rank > ranks.bytes > 7.5 * ranks.bytes_a_rank  # some are replicated


def test_a_rank_that_cannot_be_built_holds_nothing_known() -> None:
    assert found(read_config("phi-4"), tp=8).bytes_a_rank is None


@pytest.mark.parametrize(
    ("claim", "n", "k", "size"),
    [
        ({"quant_method": "mxfp8"}, 100, 72, 100 * 72 + 100 * 3),
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, 300, 130, 39000 + 4 * 3 * 2),
        ({"quant_method": "fp8"}, 300, 130, 39000 + 4),
        ({"quant_method": "mxfp4"}, 64, 96, 64 * 48 + 64 * 3),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, 64, 96, 64 * 48 + 64 * 6),
        ({"quant_method": "modelopt", "quant_algo": "FP8_PER_CHANNEL_PER_TOKEN"}, 9, 8, 72 + 36),
    ],
)
def test_bytes_of_one_weight(claim: dict[str, Any], n: int, k: int, size: int) -> None:
    described = describe_quantization({"quantization_config": claim})
    assert described is not None and stored_bytes(n, k, described) == size


def test_what_the_ignore_list_names_stays_wide() -> None:
    config = read_config("Llama-3.1-8B")
    config["quantization_config"] = {"quant_method": "mxfp8"}
    every = found(config).bytes
    config["quantization_config"]["ignored_layers"] = ["model.layers.0", "down_proj"]
    some = found(config).bytes
    # 32 down_proj, and the other four members of layer 0: 2 bytes in place of 33/32
    down, rest = 4096 * 14336, 2 * 4096 * 14336 + 4096 * (4096 + 1024 + 1024 + 4096)
    assert every is not None and some is not None
    assert some - every == (32 * down + rest) * 31 // 32


def test_a_format_without_a_rule_has_parameters_and_no_bytes() -> None:
    known = found(read_config(MODELS / "MiniMax-M3-NVFP4.json"))
    assert known.parameters > 4e11 and known.bytes is None and "mixed" in known.format
    json.dumps(known.to_json(), allow_nan=False)


@pytest.mark.parametrize("path", sorted(MODELS.glob("*.json")), ids=lambda path: path.stem)
def test_every_config_has_an_answer(path: Path) -> None:
    config = read_config(path)
    known = weights(config, shapes(config), shapes(config, tp=8))
    assert known is None or known.parameters > 1_000_000
