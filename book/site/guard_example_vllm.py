"""Ordinary deployments of vLLM for the examples on guard pages: what its own checks look at."""

from collections.abc import Mapping

from book.site.guard_example_steps import Own

_B200 = {"gpu": "b200"}
_FP8 = {"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [128, 128]}
_MODELOPT = {"quant_method": "modelopt_mxfp8", "quant_algo": "MXFP8"}
_WHOLE: Mapping[str, object] = {
    "quant_algo": "MXFP8",
    "kv_cache_quant_algo": None,
    "exclude_modules": [],
}
_LACKS = {"quant_algo": "MXFP8"}
_LINEAR = {"name": "down_proj", "n": 4096, "k": 4096}
_EXPERTS = {"hidden": 4096, "intermediate": 1024, "experts": 64}
_KV = {"head_dim": 128, "v_head_dim": 128, "kv_heads": 8}
_CACHE = {**_B200, "kv_cache_dtype": "fp8_e4m3"}

Start = tuple[Mapping[str, object], object, Own, int]

#: subject -> (deployment, config, the subject's own facts, how many settings are changed at once)
STARTS: Mapping[str, tuple[Start, ...]] = {
    "config": (
        (_B200, _MODELOPT, {}, 2),
        (_B200, {**_MODELOPT, "quantization": _WHOLE}, {}, 0),
        (_B200, {**_MODELOPT, "quantization": _LACKS}, {}, 0),
        ({"gpu": "t4"}, _MODELOPT, {}, 1),
    ),
    "linear": (
        ({**_B200, "tp": 8}, _FP8, {**_LINEAR, "shard": "row"}, 1),
        ({**_B200, "tp": 8}, _FP8, {**_LINEAR, "shard": "column"}, 1),
    ),
    "experts": (
        ({**_B200, "quantization": "mxfp8"}, None, _EXPERTS, 1),
        ({**_B200, "tp": 8}, _FP8, {**_EXPERTS, "moe_tp": 8}, 1),
        (_B200, _MODELOPT, _EXPERTS, 1),
        (_B200, None, {**_EXPERTS, "quantized": False}, 1),
    ),
    "kv_cache": (
        (_CACHE, _FP8, _KV, 1),
        (_CACHE, _FP8, {**_KV, "k_scale": 0.5, "v_scale": 0.5}, 1),
        (_CACHE, _FP8, {**_KV, "v_scale": 0.5}, 0),
        (_CACHE, _FP8, {**_KV, "k_scale": float("inf"), "v_scale": 0.5}, 0),
    ),
}
