"""The values SGLang 0.5.23 accepts for the launch flags that decide about MXFP8."""

#: --quantization (srt/arg_groups/choices.py)
QUANTIZATION = (
    *("awq", "fp8", "mxfp8", "gptq", "gptq_marlin", "awq_marlin", "bitsandbytes", "gguf"),
    *("modelopt", "modelopt_fp8", "modelopt_fp4", "nvfp4_online", "modelopt_mixed"),
    *("petit_nvfp4", "w8a8_int8", "w8a8_fp8", "moe_wna16", "w4afp8", "mxfp4", "auto-round"),
    *("auto-round-int8", "compressed-tensors", "modelslim", "mxfp_w4a8", "quark"),
    *("quark_int4fp8_moe", "quark_mxfp4", "mlx_q4", "mlx_q8", "unquant", "humming"),
)

#: --fp8-gemm-backend
FP8_GEMM_BACKEND = (
    *("auto", "deep_gemm", "flashinfer_trtllm", "flashinfer_cutlass", "flashinfer_deepgemm"),
    *("flashinfer_cutedsl", "cutlass", "triton", "aiter"),
)

#: --moe-runner-backend
MOE_RUNNER_BACKEND = (
    *("auto", "deep_gemm", "triton", "triton_kernel", "flashinfer_trtllm"),
    *("experimental_sgl_trtllm", "flashinfer_trtllm_routed", "flashinfer_cutlass"),
    *("flashinfer_mxfp4", "flashinfer_cutedsl", "flashinfer_megamoe", "cutlass", "aiter"),
    *("marlin", "humming", "experimental_sgl_marlin", "lora_cutedsl", "lora_triton"),
    *("lora_marlin", "hpc_ops", "megamoe", "intel_xpu"),
)

#: --moe-a2a-backend
MOE_A2A_BACKEND = (
    *("none", "deepep", "mooncake", "nixl", "mori", "ascend_fuseep", "flashinfer"),
    *("megamoe", "deepep_v2", "pplx", "ascend_tp", "flashinfer_megamoe"),
)

#: --flashinfer-a2a-dispatch-type
A2A_DISPATCH = ("auto", "bf16", "nvfp4", "mxfp8")

#: --kv-cache-dtype
KV_CACHE_DTYPE = (
    *("auto", "fp8_e5m2", "fp8_e4m3", "mxfp8", "bf16", "bfloat16", "nvfp4", "fp4_mx_block16"),
)

#: --attention-backend, and the prefill and decode variants
ATTENTION_BACKEND = (
    *("triton", "torch_native", "flex_attention", "dsa", "nsa", "qsa", "dsv4", "compressed"),
    *("fa3", "fa4", "flashinfer", "llada2_cfg_flashinfer", "flashmla", "trtllm_mla"),
    *("cutedsl_mla", "tokenspeed_mla", "trtllm_mha", "hpc_ops", "minicpm_flashattn"),
    *("minicpm_flashinfer", "aiter", "wave", "intel_amx", "ascend", "intel_xpu"),
)

#: --dtype -> torch's name; auto takes the checkpoint's, bfloat16 for every model it matters for
DTYPE = {
    "auto": "bfloat16",
    "half": "float16",
    "float16": "float16",
    "bfloat16": "bfloat16",
    "float": "float32",
    "float32": "float32",
}

#: packages that decide
PACKAGES = ("flashinfer", "deep_gemm", "aiter", "triton_kernels")

#: flag -> checkpoint methods that it may overrule (srt/configs/model_config.py:2041)
COMPATIBLE_METHODS: dict[str | None, tuple[str, ...]] = {
    "modelopt_fp8": ("modelopt",),
    "modelopt_fp4": ("modelopt", "fp8"),
    "modelopt_mixed": ("modelopt",),
    "nvfp4_online": ("fp8", "modelopt_fp8"),
    "minimax_m3_nvfp4": ("mxfp8",),
    "petit_nvfp4": ("modelopt",),
    "w8a8_int8": ("compressed-tensors", "compressed_tensors"),
    "w8a8_fp8": ("compressed-tensors", "compressed_tensors"),
    "auto-round-int8": ("compressed-tensors", "compressed_tensors"),
}

#: flags that requantise whatever the checkpoint holds
REQUANTIZE = ("quark_mxfp4",)

#: ModelOpt's quant_algo -> method, under --quantization modelopt
MODELOPT_ALGOS = {
    "FP8": "modelopt_fp8",
    "MXFP8": "mxfp8",
    "FP4": "modelopt_fp4",
    "NVFP4": "modelopt_fp4",
    "NVFP4_AWQ": "modelopt_fp4",
    "W4A16_NVFP4": "modelopt_fp4",
}

#: methods that SGLang knows, in the order in which its error lists them
METHODS = (
    *("fp8", "mxfp8", "minimax_m3_nvfp4", "blockwise_int8", "modelopt", "modelopt_fp8"),
    *("modelopt_fp4", "nvfp4_online", "modelopt_mixed", "w8a8_int8", "w8a8_fp8", "awq"),
    *("awq_marlin", "bitsandbytes", "gguf", "gptq_marlin", "moe_wna16", "compressed-tensors"),
    *("w4afp8", "petit_nvfp4", "quark", "quark_mxfp4", "auto-round", "auto-round-int8"),
    *("modelslim", "quark_int4fp8_moe", "humming", "mxfp_w4a8"),
)
METHODS_CUDA_GFX95 = (*METHODS, "mxfp4")

#: methods that run on ROCm (model_config.py:2002)
METHODS_ROCM = (
    *("awq", "fp8", "compressed_tensors", "compressed-tensors", "w8a8_fp8", "petit_nvfp4"),
    *("quark", "mxfp4", "mxfp8", "auto-round", "auto-round-int8", "quark_int4fp8_moe"),
    "quark_mxfp4",
)

#: methods without the "not fully optimized" warning (model_config.py:2017)
METHODS_OPTIMIZED = (
    *("fp8", "marlin", "modelopt_fp8", "modelopt_fp4", "modelopt_mixed", "nvfp4_online"),
    *("gptq_marlin_24", "gptq_marlin", "awq_marlin", "compressed_tensors"),
    *("compressed-tensors", "experts_int8", "w8a8_int8", "w8a8_fp8", "moe_wna16", "w4afp8"),
    *("petit_nvfp4", "quark", "modelslim", "humming", "quark_mxfp4", "auto-round"),
    "minimax_m3_nvfp4",
)
