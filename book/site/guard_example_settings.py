"""Ordinary deployments for the examples on guard pages, and what is changed of them."""

from collections.abc import Mapping, Sequence
from dataclasses import fields

from book.site.guard_example_steps import STARTS as STEP_STARTS
from mxlab.explorers.guard_row_settings import Setting, Settings
from mxlab.guards import ConfigFacts, Deployment

MXFP8 = {"quant_method": "mxfp8", "activation_scheme": "dynamic", "weight_block_size": [1, 32]}
COMPRESSED = {
    "quant_method": "compressed-tensors",
    "config_groups": {"group_0": {"weights": {"block_structure": [128, 128]}}},
}
FP8_32 = {
    "quant_method": "fp8",
    "activation_scheme": "dynamic",
    "weight_block_size": [32, 32],
    "scale_fmt": "ue8m0",
}
FP8 = {"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [128, 128]}


_PLAIN: Settings = {("deployment", "gpu"): "b200", ("config", ""): MXFP8}
_LINEAR: Settings = {("linear", "name"): "down_proj", ("linear", "n"): 4096, ("linear", "k"): 4096}
_SPLIT: Settings = {("deployment", "tp"): 8, ("linear", "shard"): "column"}
_HOPPER_32: Settings = {("deployment", "gpu"): "h200", ("config", ""): FP8_32}
_AMD: Settings = {("deployment", "gpu"): "mi355x"}
_CK: Settings = {
    **_AMD,
    ("deployment", "toolkit"): "7.0",
    ("deployment", "env"): {"SGLANG_USE_AITER": "1"},
    ("config", ""): FP8,
    ("linear", "n"): 2560,
}
_A2A: Settings = {
    ("deployment", "moe_a2a_backend"): "flashinfer",
    ("deployment", "flashinfer_a2a_dispatch_type"): "nvfp4",
}
_MORI: Settings = {
    ("deployment", "moe_a2a_backend"): "mori",
    ("deployment", "env"): {"SGLANG_MORI_DISPATCH_DTYPE": "mxfp8"},
}
_GFX1250: Settings = {
    ("deployment", "gpu"): "gfx1250",
    ("deployment", "env"): {"SGLANG_USE_AITER": "1"},
}
_RANKS: Settings = {("deployment", "tp"): 8}
_EXPERTS: Settings = {
    ("experts", "hidden"): 4096,
    ("experts", "intermediate"): 1024,
    ("experts", "experts"): 64,
}
_INKLING = "InklingForConditionalGeneration"
_KV: Settings = {
    ("deployment", "kv_cache_dtype"): "mxfp8",
    ("deployment", "attention_backend"): "fa4",
    ("deployment", "page_size"): 128,
    ("deployment", "architecture"): _INKLING,
    ("kv_cache", "head_dim"): 128,
    ("kv_cache", "v_head_dim"): 128,
    ("kv_cache", "kv_heads"): 8,
}
_TILE = (2, 8, 32, 4, 4)
_PROLOGUE: Settings = {
    ("prologue", "function"): "verify",
    ("prologue", "dq"): 4096,
    ("prologue", "dkv"): 1024,
    ("prologue", "slots"): 256,
    ("prologue", "page_size"): 128,
    ("prologue", "sfk_shape"): _TILE,
    ("prologue", "sfv_shape"): _TILE,
}

Start = tuple[Settings, int]  # settings, and how many of them are changed at once


def _starts_of(subject: str) -> tuple[Start, ...]:
    """Return the starts of a step: an ordinary deployment and the step's own settings."""
    return tuple(
        ({**_PLAIN, **{(subject, name): value for name, value in own.items()}}, most)
        for own, most in STEP_STARTS[subject]
    )


#: subject -> ordinary deployments, the most ordinary first
STARTS: Mapping[str, tuple[Start, ...]] = {
    "server": (
        (_PLAIN, 2),
        ({**_PLAIN, ("deployment", "quantization"): "mxfp8"}, 2),
        ({**_PLAIN, **_RANKS, **_A2A}, 1),
        ({**_PLAIN, **_RANKS, ("deployment", "moe_a2a_backend"): "flashinfer_megamoe"}, 1),
        ({**_PLAIN, **_AMD, **_MORI}, 1),
    ),
    "config": ((_PLAIN, 2),),
    "linear": (
        ({**_PLAIN, **_LINEAR}, 2),
        ({**_PLAIN, **_LINEAR, ("config", ""): FP8}, 2),
        ({**_PLAIN, **_LINEAR, **_SPLIT, ("linear", "shard"): "row"}, 1),
        ({**_PLAIN, **_LINEAR, **_SPLIT, ("config", ""): FP8}, 1),
        ({**_PLAIN, **_LINEAR, ("config", ""): FP8_32}, 1),
        ({**_PLAIN, **_LINEAR, **_HOPPER_32}, 1),
        ({**_PLAIN, **_AMD, **_LINEAR, ("config", ""): FP8_32}, 1),
        ({**_PLAIN, **_LINEAR, **_CK}, 1),
        ({**_PLAIN, **_LINEAR, **_SPLIT, ("config", ""): COMPRESSED}, 1),
        (
            {
                ("deployment", "gpu"): "b200",
                ("deployment", "quantization"): "mxfp8",
                ("deployment", "settings"): {"diffusion": True},
                **_LINEAR,
            },
            1,
        ),
    ),
    "experts": (
        ({**_PLAIN, **_EXPERTS, ("deployment", "quantization"): "mxfp8"}, 2),
        ({**_PLAIN, **_EXPERTS, ("deployment", "moe_runner_backend"): "cutlass"}, 1),
        ({**_PLAIN, **_EXPERTS, ("deployment", "gpu"): "mi355x"}, 2),
        ({**_PLAIN, **_EXPERTS, **_GFX1250, ("config", ""): FP8}, 1),
        ({**_PLAIN, **_EXPERTS, ("deployment", "moe_a2a_backend"): "flashinfer_megamoe"}, 2),
    ),
    "kv_cache": (({**_PLAIN, **_KV}, 2),),
    "prologue": (({**_PLAIN, **_PROLOGUE}, 2),),
    **{subject: _starts_of(subject) for subject in STEP_STARTS},
}

#: setting -> what it is changed to, the most ordinary first
CHANGES: Mapping[Setting, Sequence[object]] = {
    ("deployment", "gpu"): (
        "h200",
        "rtx5090",
        "mi300x",
        "mi355x",
        "thor",
        "b300",
        "l40s",
        "a100",
        "t4",
    ),
    ("deployment", "fp8_gemm_backend"): (
        *("deep_gemm", "flashinfer_trtllm", "flashinfer_cutlass", "flashinfer_cutedsl"),
        *("triton", "cutlass", "aiter", "flashinfer_deepgemm"),
    ),
    ("deployment", "quantization"): ("mxfp8", "fp8", "awq", "nvfp4_online", "modelopt_fp4"),
    ("deployment", "tp"): (8,),
    ("deployment", "ep"): (8, 3),
    ("deployment", "dtype"): ("float16", "float32"),
    ("deployment", "packages"): (frozenset({"deep_gemm"}), frozenset({"flashinfer"}), frozenset()),
    ("deployment", "moe_runner_backend"): (
        *("cutlass", "deep_gemm", "flashinfer_trtllm", "flashinfer_trtllm_routed", "triton"),
        *("flashinfer_megamoe", "flashinfer_cutlass", "flashinfer_cutedsl", "marlin"),
    ),
    ("deployment", "moe_a2a_backend"): (
        *("flashinfer", "flashinfer_megamoe", "deepep_v2", "mori", "deepep"),
    ),
    ("deployment", "flashinfer_a2a_dispatch_type"): ("mxfp8", "bf16", "nvfp4"),
    ("deployment", "kv_cache_dtype"): ("mxfp8", "fp8_e4m3"),
    ("deployment", "page_size"): (64,),
    ("deployment", "attention_backend"): ("fa4", "fa3", "triton"),
    ("deployment", "architecture"): (
        *(_INKLING, "", "DeepseekV3ForCausalLM", "MiniMaxM3SparseForCausalLM"),
    ),
    ("deployment", "settings"): (
        {"attn-dp-size": 8},
        {"quantization-param-path": "scales.json"},
        {"torch": "2.6.0"},
        {"enable-kv-cache-sharding": True, "mtp-layers": True},
        {"external-linker": True},
        {"disaggregation-peer-attn-tp": 4},
        {"disaggregation-peer-attn-tp": 1},
        {"out-of-tree-platform": True},
        {"prefill-only-disable-kv-cache": True, "is-embedding": True, "disable-radix-cache": True},
        {"aiter-mxscale": False},
        {"aiter-per-1x32-scale-type": False},
        {"diffusion": True},
    ),
    ("deployment", "env"): (
        {"SGLANG_FORCE_MXFP8_BLOCK_CONVERT": "1"},
        {"SGLANG_USE_HND_KVCACHE": "1"},
        {"SGLANG_FLASHINFER_MEGAMOE_COMBINE_DTYPE": "fp8"},
        {"SGLANG_USE_AITER": "1"},
        {"SGLANG_FORCE_FP8_MARLIN": "1"},
        {"SGLANG_DSV4_DENSE_MXSCALE": "1"},
        {"SGLANG_MORI_DISPATCH_DTYPE": "mxfp8"},
        {"SGLANG_MOE_NVFP4_DISPATCH": "1"},
        {"SGLANG_FLASHINFER_CUTEDSL_NVFP4_W4A16": "1"},
        {
            "SGLANG_FLASHINFER_CUTEDSL_NVFP4_W4A16": "1",
            "SGLANG_FLASHINFER_MEGAMOE_COMBINE_DTYPE": "mxfp8",
        },
    ),
    ("config", ""): (
        FP8,
        None,
        {"quant_method": "mxfp8", "weight_block_size": [1, 32]},
        {**MXFP8, "activation_scheme": "static"},
        {**MXFP8, "activation_scheme": "per_token"},
        {**MXFP8, "weight_block_size": [1, 128]},
        {**FP8, "weight_block_size": [128]},
        {**FP8, "weight_block_size": [32, 32]},
        {**MXFP8, "quant_method": "mx_fp8"},
        {**MXFP8, "quant_method": "awq"},
        {**MXFP8, "quant_method": "int4"},
        FP8_32,
        {"quant_method": "minimax_m3_nvfp4"},
        {"quant_method": "minimax_m3_nvfp4", "weight_block_size": [128, 128]},
        {"quant_method": "minimax_m3_nvfp4", "group_size": 32},
        {"quant_method": "modelopt_fp8", "quant_algo": "MXFP8"},
        {"quant_method": "modelopt_fp8", "quant_algo": "FP8"},
        ConfigFacts({"use_mxfp8": True, "weight_block_size": [1, 32]}, constructor=True),
        ConfigFacts(
            {
                "use_mxfp8": True,
                "is_checkpoint_fp8_serialized": True,
                "weight_block_size": [1, 64],
            },
            constructor=True,
        ),
        ConfigFacts({"is_checkpoint_fp8_serialized": True}, constructor=True),
        ConfigFacts({"activation_scheme": "static"}, constructor=True),
    ),
    ("linear", "k"): (2880, 1360, 576, 1000),
    ("linear", "n"): (2880, 96, 4104, 1000),
    ("linear", "shard"): ("row", "column"),
    ("linear", "skip_block_quant_check"): (True,),
    ("linear", "indivisible"): (
        "intermediate_size=11008 not divisible by 3",
        "num_attention_heads=14 not divisible by 4",
    ),
    ("experts", "indivisible"): ("moe_intermediate_size=1408 not divisible by 3",),
    ("linear", "mixed_shards"): ("model.layers.0.self_attn.qkv_proj",),
    ("experts", "hidden"): (2880, 8448, 1000),
    ("experts", "intermediate"): (960, 1008, 1000),
    ("experts", "moe_tp"): (8,),
    ("experts", "activation"): ("gelu",),
    ("experts", "gated"): (False,),
    ("experts", "experts"): (60,),
    ("kv_cache", "head_dim"): (80, 64, 192, 256),
    ("kv_cache", "v_head_dim"): (80, 64, 192, 256),
    ("kv_cache", "size"): (1000,),
    ("kv_cache", "mla"): (True,),
    ("kv_cache", "k_scale"): (0.5, -1.0),
    ("kv_cache", "v_scale"): (0.5,),
    ("prologue", "function"): ("decode", "extend"),
    ("prologue", "dq"): (4160, 8192, 4100),
    ("prologue", "dkv"): (960,),
    ("prologue", "page_size"): (48,),
    ("prologue", "sfk_shape"): (None, (2, 8, 32, 2, 4), (256, 8, 4)),
    ("prologue", "sfk_contiguous"): (False,),
    ("prologue", "mxfp8"): (False,),
    ("prologue", "tokens"): (3,),
    ("prologue", "row_stride"): (6145,),
    ("prologue", "offsets"): ((0, 4100, 5120),),
    ("prologue", "k_stride"): (1028, 1016),
    ("prologue", "conv_last_stride"): (2,),
    ("prologue", "inter_strides_equal"): (False,),
    ("prologue", "conv_strides_equal"): (False,),
    ("prologue", "si_size"): (0,),
    ("prologue", "cu_size"): (1,),
    ("prologue", "seq_size"): (2,),
    ("prologue", "track_rows"): (0,),
    ("prologue", "do_store"): (False,),
    ("prologue", "q_out_dtype"): ("float16",),
    ("prologue", "kv_dtype"): ("bfloat16",),
    ("prologue", "sf_dtype"): ("float8_e8m0fnu",),
    ("prologue", "q_out_contiguous"): (False,),
    ("prologue", "sfq_contiguous"): (False,),
    ("prologue", "tau_dtype"): ("bfloat16",),
}
_MOE_FLAGS = ("moe_runner_backend", "moe_a2a_backend", "flashinfer_a2a_dispatch_type", "ep")
_KV_FLAGS = ("kv_cache_dtype", "page_size", "attention_backend")
#: subject -> what its guards do not look at of the deployment
IDLE: Mapping[str, Sequence[str]] = {
    "server": ("fp8_gemm_backend",),
    "config": ("fp8_gemm_backend", *_MOE_FLAGS, *_KV_FLAGS),
    "linear": (*_MOE_FLAGS, *_KV_FLAGS),
    "experts": ("fp8_gemm_backend", *_KV_FLAGS),
    "kv_cache": ("fp8_gemm_backend", *_MOE_FLAGS),
    "prologue": tuple(field.name for field in fields(Deployment)),
}
#: what a step's guards look at of the deployment
STEP_DEPLOYMENT: Mapping[Setting, Sequence[object]] = {
    ("deployment", "gpu"): ("rtx5090", "h200", "mi355x"),
    ("deployment", "tp"): (2,),
    ("deployment", "packages"): (frozenset({"flashinfer"}),),
    ("deployment", "moe_runner_backend"): ("triton",),
    ("deployment", "settings"): ({"foreign-triton-kernels": True}, {"torch-npu": "2.7.1"}),
    ("deployment", "env"): ({"SGLANG_NPU_ARCH35_REQUANT_BLOCK_FP8": "1"},),
}
