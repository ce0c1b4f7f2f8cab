"""Small real checkpoints for the tests, written by the safetensors library."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from mxlab.checkpoints import Finding, Report, inspect

Tensors = dict[str, torch.Tensor]

LLAMA: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 128,
    "intermediate_size": 256,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "vocab_size": 500,
    "tie_word_embeddings": False,
}
MODELOPT = {"quant_method": "modelopt", "quant_algo": "MXFP8", "ignore": ["lm_head"]}
NATIVE = {
    "quant_method": "mxfp8",
    "activation_scheme": "dynamic",
    "weight_block_size": [1, 32],
    "ignored_layers": ["lm_head"],
}
COMPRESSED = {
    "quant_method": "compressed-tensors",
    "format": "mxfp8-quantized",
    "ignore": ["lm_head"],
    "config_groups": {
        "group_0": {
            "targets": ["Linear"],
            "weights": {
                "num_bits": 8,
                "type": "float",
                "strategy": "group",
                "group_size": 32,
                "symmetric": True,
                "scale_dtype": "torch.uint8",
            },
        }
    },
}
BLOCK_FP8 = {
    "quant_method": "fp8",
    "activation_scheme": "dynamic",
    "weight_block_size": [128, 128],
}

#: module of one layer -> (N, K)
LINEARS = {
    "self_attn.q_proj": (128, 128),
    "self_attn.k_proj": (64, 128),
    "self_attn.v_proj": (64, 128),
    "self_attn.o_proj": (128, 128),
    "mlp.gate_proj": (256, 128),
    "mlp.up_proj": (256, 128),
    "mlp.down_proj": (128, 256),
}


def codes(*shape: int) -> torch.Tensor:
    """E4M3 weights, no NaN among them."""
    count = torch.Size(shape).numel()
    data = (torch.arange(count, dtype=torch.int64) * 37 % 120).to(torch.uint8)
    return data.reshape(shape).view(torch.float8_e4m3fn)


def scales(*shape: int) -> torch.Tensor:
    """Bytes from 105 to 124 that differ from row to row and from column to column."""
    rows, cols = shape[-2], shape[-1]
    grid = 105 + (torch.arange(rows)[:, None] * 7 + torch.arange(cols)[None, :] * 3) % 20
    return grid.to(torch.uint8).expand(shape).contiguous()


def floats(*shape: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    """Weights with full mantissas, below 0.1."""
    count = torch.Size(shape).numel()
    return (torch.arange(1, count + 1) / (count + 7) / 11).reshape(shape).to(dtype)


def llama(name: str = "weight_scale", *, layers: int = 3) -> Tensors:
    """An MXFP8 Llama: every linear of the decoder quantised, lm_head and embedding not."""
    tensors: Tensors = {
        "model.embed_tokens.weight": floats(500, 128),
        "lm_head.weight": floats(500, 128),
        "model.norm.weight": floats(128),
    }
    for layer in range(layers):
        tensors[f"model.layers.{layer}.input_layernorm.weight"] = floats(128)
        for module, (n, k) in LINEARS.items():
            tensors[f"model.layers.{layer}.{module}.weight"] = codes(n, k)
            tensors[f"model.layers.{layer}.{module}.{name}"] = scales(n, k // 32)
    return tensors


def plain_llama() -> Tensors:
    """The same model in bfloat16."""
    kept = {name: t for name, t in llama().items() if not name.endswith("weight_scale")}
    return {
        name: floats(*t.shape) if t.dtype == torch.float8_e4m3fn else t for name, t in kept.items()
    }


def with_config(quantization: Mapping[str, Any] | None, **changes: Any) -> dict[str, Any]:
    """The config of the Llama with a claim."""
    config = {**LLAMA, **changes}
    if quantization is not None:
        config["quantization_config"] = dict(quantization)
    return config


def write(
    folder: Path,
    tensors: Tensors,
    config: Mapping[str, Any] | None = None,
    *,
    shards: int = 1,
    index: bool = True,
) -> Path:
    """Write a folder: one file, or shards with their index."""
    folder.mkdir(parents=True, exist_ok=True)
    if config is not None:
        (folder / "config.json").write_text(json.dumps(config))
    if shards == 1:
        save_file(tensors, folder / "model.safetensors")
        return folder
    names = list(tensors)
    placed = {}
    for at in range(shards):
        file = f"model-{at + 1:05}-of-{shards:05}.safetensors"
        mine = names[at::shards]
        save_file({name: tensors[name] for name in mine}, folder / file)
        placed.update(dict.fromkeys(mine, file))
    if index:
        write_index(folder, placed)
    return folder


def write_index(folder: Path, placed: Mapping[str, Any]) -> Path:
    """Write model.safetensors.index.json."""
    path = folder / "model.safetensors.index.json"
    path.write_text(json.dumps({"metadata": {"total_size": 1}, "weight_map": placed}))
    return path


def header_file(path: Path, header: object, data: int = 0) -> Path:
    """Write a file by hand: a header that may lie, and ``data`` zero bytes."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + bytes(data))
    return path


LAYER = "model.layers.1."
DOWN = f"{LAYER}mlp.down_proj"
SCALE = f"{DOWN}.weight_scale"


def found(report: Report, name: str) -> Finding:
    """The one finding of that name."""
    (finding,) = [row for row in report.findings if row.name == name]
    return finding


def names(report: Report) -> set[str]:
    return {row.name for row in report.findings}


def broken(
    tmp_path: Path, changes: Mapping[str, torch.Tensor | None], claim: Any = MODELOPT
) -> Report:
    """A good checkpoint with some tensors replaced, added, or (None) left out."""
    tensors: dict[str, Any] = {**llama(), **changes}
    kept = {name: tensor for name, tensor in tensors.items() if tensor is not None}
    return inspect(write(tmp_path, kept, with_config(claim)), sample_bytes=True)
