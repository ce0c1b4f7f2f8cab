"""Where the rows of SGLang at commit 0132848349 live, and why others of 0.5.23 are not there."""

from mxlab.guards.rows import FP8, FP8_UTILS, MODEL_CONFIG, POOL
from mxlab.guards.sglang_0132848349_steps import STEP_ABSENT, STEP_SOURCES

_ARGS = "srt/server_args.py, ServerArgs"
_OVERRIDES = "srt/arg_groups/overrides.py"
_LOADER = "srt/model_loader/loader.py, _get_quantization_config"
_EXPLICIT = f"{FP8_UTILS}, _dispatch_explicit_backend"
_RESOLVE = f"{FP8_UTILS}, resolve_mxfp8_dense_gemm_backend"
_CONFIG = f"{FP8}, Fp8Config.__init__"
_VERIFY = f"{MODEL_CONFIG}, ModelConfig._verify_quantization"
_BLOCKS = f"{FP8}, Fp8LinearMethod.validate_block_quant_shapes"
_SCALES = f"{FP8}, Fp8LinearMethod._process_mxfp8_linear_weight_scale"
_EXPERTS = f"{FP8}, Fp8MoEMethod._process_mxfp8_moe_weights"
_CREATE = f"{FP8}, Fp8MoEMethod.create_fp8_moe_weight_"
_CUTLASS = "srt/layers/moe/cutlass_moe.py, cutlass_fused_experts_fp8"
_DEEP_GEMM = "srt/layers/moe/moe_runner/deep_gemm.py"
_TRTLLM = "srt/layers/moe/moe_runner/flashinfer_trtllm.py"
_FA = "srt/layers/attention/flashattention_backend.py, FlashAttentionBackend._mxfp8_sf_kwargs"
_CUTE = "kernels/ops/attention/flash_attn/cute/interface.py"
_G95 = "kernels/ops/moe/mxfp8_moe_amd_gfx95.py"
_PROLOGUE = "kernels/ops/attention/inkling_attn_prologue.py:91,208,322"
_CUDA = "kernels/jit/csrc/inkling/inkling_attn_prologue_fused.cuh"
_BUFFERS = f"{POOL}, MHATokenToKVPoolMXFP8._create_buffers"
_STORE = f"{POOL}, MHATokenToKVPoolMXFP8.set_kv_buffer"
_FLASHINFER = "flashinfer_python 0.6.17 and 0.6.18"

#: guard -> file and function, with lines where the file is the same in 0.5.18 and 0.5.19
SOURCES: dict[str, str] = {
    "kv-hw": f"{_ARGS}._handle_mxfp8_kv_cache_compatibility",
    "kv-fa4-page": f"{_OVERRIDES}, _fa4_page_constraint",
    "arg-moe-runner-mxfp8": f"{_OVERRIDES}, _moe_runner_backend_quant_constraints",
    "arg-moe-trtllm-quant": f"{_ARGS}._handle_moe_kernel_config",
    "arg-moe-trtllm-routed-quant": f"{_ARGS}._handle_moe_kernel_config",
    "arg-moe-cutlass-ep": f"{_ARGS}._handle_moe_kernel_config",
    "cfg-method-mismatch": _VERIFY,
    "cfg-method-unknown": _VERIFY,
    "cfg-rocm": _VERIFY,
    "cfg-not-optimized": _VERIFY,
    "cfg-key-missing": "srt/layers/quantization/base_config.py, QuantizationConfig.get_from_keys",
    "cfg-mxfp8-override": f"{FP8}, Fp8Config.from_config",
    "cfg-act-scheme": _CONFIG,
    "cfg-block-not-serialized": _CONFIG,
    "cfg-block-ndim": _CONFIG,
    "cfg-block-static": _CONFIG,
    "cfg-mxfp8-block": _CONFIG,
    "cfg-min-capability": f"{_LOADER}; {FP8}, Fp8Config.get_min_capability",
    "cfg-act-dtype": _LOADER,
    "silent-hopper-gate": f"{FP8}, Fp8Config.get_min_capability",
    "cfg-act-assert": f"{FP8}, Fp8LinearMethod.create_fp8_weight_; {_CREATE}",
    "cfg-fused-skip": "srt/layers/quantization/utils.py:101",
    "res-trtllm": _RESOLVE,
    "res-cutedsl": _RESOLVE,
    "res-cutlass": _RESOLVE,
    "res-deepgemm": _RESOLVE,
    "lin-skip-check": _BLOCKS,
    "lin-tp-row": _BLOCKS,
    "lin-tp-col": _BLOCKS,
    "disp-trtllm": _EXPLICIT,
    "disp-cutlass-fi": _EXPLICIT,
    "disp-fi-deepgemm": _EXPLICIT,
    "disp-cutlass": _EXPLICIT,
    "disp-aiter": _EXPLICIT,
    "disp-deepgemm": _EXPLICIT,
    "disp-unknown": _EXPLICIT,
    "silent-gemm-flag": _RESOLVE,
    "moe-cutlass-sup": f"{FP8}, Fp8MoEMethod.__init__",
    "moe-cutlass-block": f"{FP8}, Fp8MoEMethod.__init__",
    "moe-cutlass-arch": f"{FP8}, Fp8MoEMethod.__init__",
    "moe-inter-n": _CREATE,
    "moe-inter-k": _CREATE,
    "moe-static-online": _CREATE,
    "act-grp-k32": f"{FP8_UTILS}, mxfp8_group_quantize",
    "wsp-deepgemm": _SCALES,
    "wsp-k32": _SCALES,
    "wsp-trtllm-n32": f"{_FLASHINFER}, flashinfer/utils.py, get_shuffle_matrix_a_row_indices",
    "wsp-trtllm-cols": _SCALES,
    "cvt-online": f"{FP8}, Fp8LinearMethod.process_weights_after_loading_block_quant",
    "cvt-k32": "srt/layers/quantization/mxfp8_block_convert.py:36",
    "silent-marlin": f"{FP8}, Fp8LinearMethod.__init__, apply",
    "moe-hw": _EXPERTS,
    "moe-k32": _EXPERTS,
    "moe-tk-rows": _EXPERTS,
    "moe-trtllm-nofi": f"{_TRTLLM}, align_mxfp8_moe_weights_for_flashinfer_trtllm",
    "moe-trtllm-sf-rows": f"{_FLASHINFER}, flashinfer/utils.py, "
    "get_shuffle_matrix_sf_a_row_indices",
    "moe-trtllm-cols": f"{_TRTLLM}, align_mxfp8_moe_weights_for_flashinfer_trtllm",
    "lin-fp8-marlin": "srt/layers/quantization/marlin_utils_fp8.py:106",
    "kv-hd32": _BUFFERS,
    "kv-vhd32": _BUFFERS,
    "kv-hnd": _BUFFERS,
    "silent-kv-latent": "srt/mem_cache/kv_cache_dtype.py, configure_kv_cache_dtype",
    "fwd-unsupported": f"{FP8_UTILS}, _unsupported_mxfp8_linear",
    "fwd-dg-noswz": f"{FP8_UTILS}, _deepgemm_w8a8_mxfp8_linear_with_fallback",
    "fwd-fi-k32": f"{FP8_UTILS}, flashinfer_mxfp8_blockscaled_linear",
    "fi-mm-min": f"{_FLASHINFER}, flashinfer/gemm/gemm_base.py, _check_mm_mxfp8_problem_size",
    "fi-mm-outdtype": f"{_FLASHINFER}, flashinfer/gemm/gemm_base.py, _validate_mxfp8_output_dtype",
    "fi-mm-size": f"{_FLASHINFER}, flashinfer/gemm/gemm_base.py, the backends' requirements",
    "fi-mm-k32n32": f"{_FLASHINFER}, flashinfer/data/csrc/mxfp8_gemm_cutlass.cu",
    "g95-dot-fallback": "kernels/ops/quantization/mxfp8_amd_gfx95.py:325",
    "ink-py-dims": _PROLOGUE,
    "ink-py-sf": _PROLOGUE,
    "ink-py-shape": _PROLOGUE,
    "ink-py-contig": _PROLOGUE,
    "kv-no-scales": _STORE,
    "kv-scale-none": "srt/model_executor/model_runner_components/load_model_utils.py, "
    "load_kv_cache_scales",
    "kv-scale-pair": "srt/layers/quantization/kv_cache.py, "
    "BaseKVCacheMethod.process_weights_after_loading",
    "kv-sf-dim4": "kernels/ops/quantization/mxfp8_interleave_sf.py:76",
    "fa4-required": _FA,
    "fa4-qdescale": _FA,
    "fa4-fp8-arch": f"{_CUTE}, _flash_attn_fwd",
    "fa4-hd": f"{_CUTE}:130",
    "silent-kv-backend": "srt/layers/attention",
    "blk-fallback": f"{FP8_UTILS}, deepgemm_w8a8_block_fp8_linear_with_fallback",
    "blk-fi-layout": f"{FP8_UTILS}, flashinfer_gemm_w8a8_block_fp8_linear_with_fallback",
    "silent-hopper-activation": f"{FP8_UTILS}, _deepgemm_w8a8_mxfp8_linear_with_fallback",
    "moe-cutlass-h32": _CUTLASS,
    "moe-cutlass-i32": _CUTLASS,
    "moe-es-k128": "sgl-kernel/csrc/expert_specialization/es_sm100_mxfp8_*.cu (cf7044d2)",
    "moe-dg-ue8m0": f"{_DEEP_GEMM}, DeepGemmMoeQuantInfo.__post_init__",
    "moe-dg-pack4": "kernels/ops/quantization/minimax_quant_ue8m0.py:64",
    "moe-dg-hidden8k": "kernels/jit/csrc/minimax/per_token_quant_ue8m0.cuh",
    "moe-trtllm-act": f"{_TRTLLM}, fused_experts_none_to_flashinfer_trtllm_fp8",
    "moe-dg-act": f"{_DEEP_GEMM}, DeepGemmRunnerCore.__init__",
    "silent-moe-triton": f"{FP8}, Fp8MoEMethod.get_triton_quant_info",
    "moe-trtllm-arch": f"{_FLASHINFER}, flashinfer/jit/fused_moe.py",
    "moe-g95-act": f"{_G95}:392",
    "moe-g95-itlv": f"{_G95}:403",
    "moe-g95-k128": f"{_G95}:141",
    "moe-fp8-triton": "srt/layers/moe/moe_runner/triton.py (the text is Triton's)",
    "ink-cu-dims": f"{_CUDA}:405,809,1303",
    "ink-cu-block": f"{_CUDA}:419,822,1319",
    "ink-cu-page": f"{_CUDA}:423,827,1328",
    **STEP_SOURCES,
}

_MEGAMOE = "FlashInfer MegaMoE is not there yet"
_DISPATCH = "--flashinfer-a2a-dispatch-type is not there yet"

#: guard -> why this version has no such check
ABSENT: dict[str, str] = {
    "arg-mega-arch": _MEGAMOE,
    "arg-mega-quant": _MEGAMOE,
    "arg-mega-combine": _MEGAMOE,
    "arg-mega-runner": _MEGAMOE,
    "arg-mega-hw": _MEGAMOE,
    "moe-mega-act": _MEGAMOE,
    "moe-mega-h": _MEGAMOE,
    "moe-mega-i": _MEGAMOE,
    "moe-mega-e": _MEGAMOE,
    "arg-a2a-type": _DISPATCH,
    "arg-a2a-mxfp8-quant": _DISPATCH,
    "arg-a2a-mxfp8-runner": _DISPATCH,
    "disp-nonblk128": "the block size does not choose the block-FP8 kernel yet",
    "kv-page128": "pages other than 128 are written with flat scales",
    "silent-moe-cutlass-scale": "serialised scales are swizzled first (moe-cutlass-sshape)",
    "moe-aiter-alpha": "the aiter runner does not serve MXFP8 experts yet",
    **STEP_ABSENT,
}
