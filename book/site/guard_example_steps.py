"""Ordinary steps of a server, and what is changed of them, for the examples on guard pages."""

from collections.abc import Mapping, Sequence

Own = Mapping[str, object]

_MX = {"n": 256, "k": 256, "block_n": 128, "block_k": 32, "shape": (2, 8)}
_BLOCK_128: Own = {"block_k": 128, "shape": (2, 2)}
_BLOCK_32: Own = {"block_n": 32, "shape": (8, 8)}
_LOAD: Own = {
    "target": "scale",
    "n": 128,
    "k": 256,
    "loaded_shape": (128, 8),
    "loaded_dtype": "uint8",
}
_WEIGHT: Own = {"target": "weight", "loaded_shape": (128, 256), "loaded_dtype": "float8_e4m3fn"}
_EXPERT = {"hidden": 4096, "intermediate": 1024, "experts": 64}
_GEMM = {"m": 16, "n": 4096, "k": 4096}

#: subject -> (settings, how many of them are changed at once), the most ordinary first
STARTS: Mapping[str, tuple[tuple[Own, int], ...]] = {
    "load": (
        ({**_LOAD, "kind": "column"}, 2),
        ({**_LOAD, "kind": "row"}, 2),
        ({**_LOAD, "kind": "column", **_WEIGHT}, 1),
    ),
    "block_scale": (
        ({**_MX, "values": (0.5,) * 16}, 2),
        (
            {**_MX, "block_k": 128, "shape": (2, 2), "values": (0.5,) * 4, "conversion": "mxscale"},
            1,
        ),
        ({**_MX, "block_n": 32, "shape": (8, 8), "values": (0.5,) * 64, "conversion": "gfx95"}, 1),
        ({**_MX, "conversion": "npu", "values": (0.5,) * 16}, 2),
    ),
    "gemm_input": tuple(
        ({"route": route, **_GEMM}, most)
        for route, most in (
            ("flashinfer", 2),
            ("deep_gemm", 2),
            ("block_deep_gemm", 2),
            ("block_cutlass", 2),
            ("block_triton", 2),
            ("gfx95_dot_scaled", 2),
            ("gfx95_native", 1),
            ("gfx95_gemv", 1),
            ("gfx95_flydsl", 1),
            ("gfx95_fp8", 2),
            ("npu", 2),
        )
    ),
    "quantizer": tuple(
        ({"function": function, "shape": (16, 4096)}, 1 + (function.startswith("per_token")))
        for function in (
            *("mxfp8_group_quantize", "to_mxfp8", "mxfp8_quantize_swizzled", "rmsnorm_mxfp8"),
            *("swiglu_mxfp8", "swiglu_mxfp8_deepgemm", "per_token_group_quant_fp8"),
            *("flashinfer_mxfp8_quantize", "npu_weight"),
        )
    ),
    "expert_call": tuple(
        ({"runner": runner, **_EXPERT}, 2)
        for runner in ("deep_gemm", "cutlass", "flashinfer_trtllm", "triton", "aiter", "npu")
    ),
    "kv_store": tuple(
        ({"function": function, "page_size": 128, "heads": 8, "head_dim": 128}, 2)
        for function in (
            *("set_kv_buffer", "quant_store_kv_mxfp8", "store_sf_interleaved"),
            "set_kv_buffer_prefix_valid",
        )
    ),
    "host_pool": (({"page_size": 128}, 1), ({"page_size": 128, "mxfp8": False}, 1)),
    "attention": (({"head_dim": 128, "v_head_dim": 128}, 2),),
}

#: subject -> setting -> what it is changed to
CHANGES: Mapping[str, Mapping[str, Sequence[object]]] = {
    "load": {
        "target": ("weight",),
        "kind": ("row", "merged", "qkv"),
        "loaded_shape": ((128, 16), (64, 8), (256, 8), (128, 256)),
        "loaded_dtype": ("float8_e8m0fnu", "bfloat16"),
        "tp_rank": (1,),
    },
    "block_scale": {
        "k": (272,),
        "block_k": (64, 48),
        "shape": ((2, 2), (1, 8)),
        "values": ((), (0.3,) * 16, (0.3,) * 64, (0.3,) * 4, (float("inf"),) * 16),
        "dtype": ("bfloat16",),
    },
    "gemm_input": {
        "m": (64,),
        "n": (4104, 4100),
        "k": (2880, 2896),
        "input_k": (2048,),
        "dtype": ("float8_e4m3fn",),
        "weight_dtype": ("bfloat16",),
        "contiguous": (False,),
        "scale_dtype": ("int32", "uint8", "float8_e8m0fnu"),
        "scale_shape": ((16, 32), (16, 128)),
        "weight_scale_dtype": ("float8_e8m0fnu", "int32"),
        "weight_scale_shape": ((64, 8), (16384,)),
        "swizzled_input": (True,),
    },
    "quantizer": {
        "shape": ((16, 1000), (2, 16, 4096), (0, 4096), (16, 4160)),
        "dtype": ("float32", "float8_e4m3fn"),
        "contiguous": (False,),
        "last_stride": (2,),
        "cuda": (False,),
        "group_size": (128, 8),
        "column_major_scales": (True,),
        "scale_ue8m0": (True,),
        "cutedsl": (False,),
    },
    "expert_call": {
        "experts": (60, 66),
        "top_k": (16,),
        "routing": ("DeepSeekV3",),
        "block": ((32, 32),),
        "scale_dtype": ("float8_e8m0fnu",),
        "scale_shapes": (((64, 128, 2048), (64, 32, 4096)), ((64, 2048, 128), (64, 4096, 32))),
        "activation_dtype": ("float16",),
        "activation_scale_width": (16, 32, 45),
        "dispatched_fp8": (True,),
        "dispatched_scales": (False,),
        "expert_specialized": (False,),
        "no_combine": (True,),
        "bias": (True,),
        "router_weight_on_input": (True,),
        "shuffled_weight": (False,),
        "weight": ("w13",),
    },
    "kv_store": {
        "page_size": (64,),
        "head_dim": (64, 80),
        "k_dtype": ("float8_e4m3fn",),
        "scales": (False,),
        "dcp_mask": (True,),
        "store_kernel": (False,),
        "inner_stride": (2,),
    },
    "host_pool": {
        "layout": ("layer_first",),
        "scales": ("token", None),
        "page_size": (64,),
        "v_head_dim": (64,),
        "draft": (True,),
        "staged_kernel": (False,),
        "io_backend": ("direct",),
        "storage": (True,),
    },
    "attention": {
        "head_dim": (256,),
        "v_head_dim": (96, 256),
        "page_size": (64, None),
        "q_dtype": ("bfloat16",),
        "sfq_dtype": (None, "uint8"),
        "sfk_dtype": (None,),
        "sfv_dtype": (None,),
        "tile_n": (64,),
        "sfq_interleaved": (True,),
        "grad": (True,),
        "v_dtype": ("bfloat16",),
        "new_kv": (True,),
    },
}
