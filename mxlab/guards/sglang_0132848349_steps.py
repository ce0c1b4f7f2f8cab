"""As ``sglang_0132848349_sources``, for what is asked of one step, one file or one flag."""

from mxlab.guards.rows import FP8, FP8_UTILS, POOL

_ARGS = "srt/server_args.py, ServerArgs"
_ASCEND = "srt/hardware_backend/npu/quantization"
_ATTENTION = "kernels/ops/attention/flash_attn/cute/interface.py, _flash_attn_fwd"
_SM100 = "kernels/ops/attention/flash_attn/cute/flash_fwd_sm100.py"
_BUFFERS = f"{POOL}, MHATokenToKVPoolMXFP8._create_buffers"
_STORE = f"{POOL}, MHATokenToKVPoolMXFP8.set_kv_buffer"
_CUTLASS = "srt/layers/moe/cutlass_moe.py, cutlass_fused_experts_fp8"
_DOT = "kernels/ops/quantization/mxfp8_amd_gfx95.py"
_EXPERTS = f"{FP8}, Fp8MoEMethod._process_mxfp8_moe_weights"
_FLASHINFER = "flashinfer_python 0.6.17 and 0.6.18"
_G95 = "kernels/ops/moe/mxfp8_moe_amd_gfx95.py"
_INTERLEAVE = "kernels/ops/quantization/mxfp8_interleave_sf.py"
_GROUP = f"{FP8_UTILS}, mxfp8_group_quantize"
_MX = f"{FP8_UTILS}, flashinfer_mxfp8_blockscaled_linear"
_PARAMETER = "srt/layers/parameter.py"
_TRTLLM = "srt/layers/moe/moe_runner/flashinfer_trtllm.py"
_LAUNCHER = f"{_FLASHINFER}, flashinfer/data/csrc/trtllm_fused_moe_kernel_launcher.cu"
_PROLOGUE = "kernels/jit/csrc/inkling/inkling_attn_prologue_fused.cuh"

#: the CUDA file is the same from 0.5.18 to 0.5.23, lines included
_PROLOGUE_LINES = {
    "t": "404",
    "lanes16": "406,810,1304",
    "row": "407,811,1305",
    "off": "409,813,1307",
    "kvstride": "412,823,1320",
    "conv": "413,816,1313",
    "inter": "414",
    "cwstride": "501,817,1314",
    "si": "1310",
    "cu": "1311",
    "seq": "1312",
    "track": "1323",
    "store": "421,825,1326",
    "32": "422,826,1327",
    "qdtype": "424,828,1329",
    "kvdtype": "425,829,1330",
    "sfdtype": "428,832,1333",
    "qcontig": "431,835,1336",
    "sfq": "432,836,1337",
    "5d": "437,841,1342",
    "sfshape": "438,842,1343",
    "sfstride": "443,847,1348",
    "kvalign": "449,853,1354",
    "bf16align": "451,855,1356",
    "qout": "452,856,1357",
    "tau": "457,861,1363",
}

STEP_SOURCES: dict[str, str] = {
    "kv-prefill-only": f"{_ARGS}._validate_prefill_only_disable_kv_cache_args",
    "arg-nvfp4-online-hw": "srt/arg_groups/overrides.py, _moe_runner_backend_quant_constraints",
    "arg-nvfp4-online-runner": "srt/arg_groups/overrides.py, _moe_runner_backend_quant_constraints",
    "arg-moe-fi-cutlass-quant": f"{_ARGS}._handle_moe_kernel_config",
    "arg-moe-fi-cutedsl-quant": f"{_ARGS}._handle_moe_kernel_config",
    "arg-moe-fi-ep": f"{_ARGS}._handle_moe_kernel_config",
    "arg-moe-cutedsl-a2a": f"{_ARGS}._handle_moe_kernel_config",
    "cfg-modelopt-fp8-only": "srt/layers/quantization/modelopt_quant.py, "
    "ModelOptFp8Config.from_config",
    "cfg-nvfp4-online-mxfp8": "srt/layers/quantization/nvfp4_online.py:329",
    "lin-tp-ct": f"{FP8_UTILS}, validate_fp8_block_shape",
    "tp-divides": "srt/distributed/utils.py, ensure_divisibility",
    "moe-tp-div": "srt/layers/moe/fused_moe_triton/layer.py, FusedMoE.__init__",
    "cvt-required": f"{FP8}, Fp8LinearMethod.__init__, Fp8MoEMethod.__init__",
    "lin-load-range": f"{_PARAMETER}:168,265",
    "lin-scale-shape": f"{_PARAMETER}:57,110,223,271,336",
    "lin-copy-dtype": f"{_PARAMETER}:69",
    "lin-downcast": f"{_PARAMETER}:73",
    "silent-load-width": f"{_PARAMETER}:300, srt/layers/utils/common.py:20",
    "silent-load-value": f"{_PARAMETER}:108,223,271,336",
    "act-grp-2d": _GROUP,
    "act-grp-contig": _GROUP,
    "act-grp-last": _GROUP,
    "act-triton-kernels": f"{FP8_UTILS}, _get_triton_mxfp8_downcast",
    "requant-ue8m0": f"{FP8_UTILS}, requant_block_scale_ue8m0_for_deepgemm; "
    "srt/model_loader/utils.py:264",
    "moe-trtllm-scale-dtype": f"{_TRTLLM}, align_mxfp8_moe_weights_for_flashinfer_trtllm",
    "silent-moe-cutlass-slice": _EXPERTS,
    "kv-dtype-unknown": "srt/mem_cache/kv_cache_dtype.py:81",
    "kv-hnd-page": f"{POOL}, MHATokenToKVPool.__init__",
    "kv-e8m0": _BUFFERS,
    "kv-page-div": _BUFFERS,
    "silent-ck-nan": f"{FP8_UTILS}:80",
    "g95-dot-wdtype": f"{_DOT}:285",
    "g95-dot-wrank": f"{_DOT}:287",
    "g95-dot-k": f"{_DOT}:303",
    "g95-dot-prequant": f"{_DOT}:312",
    "fwd-fi-k-match": _MX,
    "fwd-fi-dtype": _MX,
    "fwd-dg-contig": "kernels/ops/quantization/fp8_kernel.py, w8a8_mxfp8_matmul_deepgemm",
    "blk-cutlass-prequant": f"{FP8_UTILS}, cutlass_w8a8_block_fp8_linear_with_fallback",
    "blk-unpack-shape": f"{FP8_UTILS}, _unpack_ue8m0_scale_for_triton",
    "blk-triton-inputs": "kernels/ops/quantization/fp8_kernel.py, prepare_block_fp8_matmul_inputs",
    "act-to-mxfp8": "kernels/ops/quantization/mxfp8_quant.py:66",
    "act-group": "kernels/ops/quantization/fp8_kernel.py, _per_token_group_quant_8bit_raw",
    "act-group-size": "kernels/ops/quantization/per_token_group_quant.py:38",
    "act-colmajor": "kernels/ops/quantization/fp8_kernel.py, "
    "create_per_token_group_quant_fp8_output_scale",
    "act-fi-cutedsl": f"{_FLASHINFER}, flashinfer/quantization/fp8_quantization.py",
    "act-fi-k32": f"{_FLASHINFER}, flashinfer/quantization/fp8_quantization.py",
    "fa4-arch": f"{_ATTENTION}; {_SM100}:300",
    "fa4-paged-v": _ATTENTION,
    "fa4-sf-pair": _ATTENTION,
    "fa4-dtypes": _ATTENTION,
    "fa4-vec": _ATTENTION,
    "fa4-sf-tma": f"{_SM100}:267",
    "fa4-v-even": f"{_SM100}, the V dequantisation warp",
    "fa4-bwd": _ATTENTION,
    "fa4-inplace": "kernels/ops/attention/flash_attention_v4.py:264",
    "silent-fa4-256": "kernels/ops/attention/flash_attn/cute/interface.py:130",
    "kv-dcp": _STORE,
    "kv-store-scales": _STORE,
    "kv-sf-page": f"{_INTERLEAVE}:72",
    "kv-sf-scales": f"{_INTERLEAVE}:76",
    "kv-fused-dims": "kernels/ops/quantization/mxfp8_quant.py:179",
    "kv-prefix-valid": f"{POOL}, MHATokenToKVPoolMXFP8.set_kv_buffer_prefix_valid",
    "moe-dg-block": "srt/layers/moe/moe_runner/deep_gemm.py, DeepGemmMoeQuantInfo.__post_init__",
    "moe-dg-x": "kernels/ops/quantization/minimax_quant_ue8m0.py:59",
    "moe-cutlass-es": _CUTLASS,
    "moe-cutlass-sm100": _CUTLASS,
    "moe-cutlass-sdtype": _CUTLASS,
    "moe-trtllm-nocombine": f"{_TRTLLM}, fused_experts_none_to_flashinfer_trtllm_fp8",
    "moe-fi-layout": _LAUNCHER,
    "moe-fi-routing": _LAUNCHER,
    "moe-triton-cuda": "srt/layers/moe/moe_runner/triton.py:118",
    "moe-g95-bias": f"{_G95}:397",
    "moe-g95-w": f"{_G95}:399",
    "moe-runner-unsupported": f"{FP8}, Fp8MoEMethod.create_moe_runner, apply",
    "npu-moe-runner": f"{_ASCEND}/online_moe_methods.py:52",
    "npu-dtype-warn": f"{_ASCEND}/linear_method_npu.py:221",
    "npu-e8m0": f"{_ASCEND}/moe_methods.py:61",
    "npu-w2-only": f"{_ASCEND}/moe_methods.py, NPUMXFP8MoEMethod.apply",
    **{f"ink-cu-{name}": f"{_PROLOGUE}:{lines}" for name, lines in _PROLOGUE_LINES.items()},
}

_MEGAMOE = "FlashInfer MegaMoE is not there yet"
_DISPATCH = "--flashinfer-a2a-dispatch-type is not there yet"
_M31 = "MiniMax-M3.1's own method is not there yet"
_AS_MXFP8 = "32-wide block FP8 is not served as MXFP8 yet"
_NATIVE = "gfx950 has the dot_scaled path alone"
_ARCH35 = "Ascend's arch35 linear is not there yet"
_HOST = "an MXFP8 cache has no host pool yet"
_SHARDING = "KV-cache sharding and its check are not there yet"
_FUSED = "the fused MXFP8 producers are not there yet"
_PREQUANT = "DeepGEMM's MXFP8 linear takes no tokens that are quantised already"
_EITHER = "in 0.5.19 and not in 0.5.18: on which side of the commit is not known"
_OLDER = "this path was removed before the commit"

STEP_ABSENT: dict[str, str] = {
    "arg-mega-w4a16": _MEGAMOE,
    "arg-mega-dp": _MEGAMOE,
    "moe-mega-fp8": _MEGAMOE,
    "arg-a2a-env": _DISPATCH,
    "arg-a2a-nvfp4": _DISPATCH,
    "arg-a2a-topology": "the check has another text",
    "arg-a2a-runner": _EITHER,
    "arg-mori-mxfp8": _EITHER,
    "arg-deepep-v2": "in 0.5.19 with another text, and not in 0.5.18",
    "dif-method": _EITHER,
    "dif-dynamic": _EITHER,
    "dif-online": "the diffusion engine does not quantise to MXFP8 at load yet",
    "cfg-m31-block": _M31,
    "cfg-m31-nvfp4": _M31,
    "silent-gfx1250-aiter": "AITER's exception for gfx1250 is in 0.5.19 and not in 0.5.18",
    "blk2mx-can": _AS_MXFP8,
    "blk2mx-layer": _AS_MXFP8,
    "blk2mx-k": _AS_MXFP8,
    "blk2mx-shape": _AS_MXFP8,
    "blk2mx-pow2": _AS_MXFP8,
    "silent-blk2mx-inf": _AS_MXFP8,
    "blk2e8m0-128": "SGLANG_DSV4_DENSE_MXSCALE is not read yet",
    "g95-mxscale-missing": "SGLANG_DSV4_DENSE_MXSCALE is not read yet",
    "g95-e8m0-act": "SGLANG_DSV4_DENSE_MXSCALE is not read yet",
    "sm90-bf16": "SGLANG_OPT_HOPPER_BLOCK_FP8_BF16 is not read yet",
    "g95-native-skip": _NATIVE,
    "g95-native-blk": _NATIVE,
    "g95-native-steps": _NATIVE,
    "g95-scale-pow2": _NATIVE,
    "g95-gemv-m": _NATIVE,
    "g95-flydsl": _NATIVE,
    "act-tk-axis": "the kernel is in sglang-kernel 0.4.6.post1, which was not read",
    "act-swz": _FUSED,
    "act-rms": _FUSED,
    "act-swiglu": _FUSED,
    "fwd-swizzled-input": _FUSED,
    "dgin-skip": _FUSED,
    "fwd-dg-prequant-shape": _PREQUANT,
    "fwd-dg-prequant-layout": _PREQUANT,
    "blk-packed-input": "packed scales of tokens are refused by an assertion without this text",
    "npu-bk32": _ARCH35,
    "npu-k64": _ARCH35,
    "npu-scale-shape": _ARCH35,
    "npu-scale-dtype": _ARCH35,
    "npu-requant": _ARCH35,
    "npu-linear-dtype": _ARCH35,
    "npu-act-scale": _ARCH35,
    "npu-modelslim-tp": "ModelSlim's MXFP8 scheme has no such check yet",
    "kv-oot": "plugin platforms have no check here yet",
    "kv-mtp-shard": _SHARDING,
    "kv-shard": _SHARDING,
    "kv-hicache-asym": _HOST,
    "kv-hicache-layout": _HOST,
    "kv-hicache-draft": _HOST,
    "kv-hicache-il": _HOST,
    "kv-hicache-page": _HOST,
    "kv-hicache-jit": _HOST,
    "kv-hicache-io": _HOST,
    "kv-hicache-l3": _HOST,
    "kv-host-flat": _HOST,
    "kv-linker": "the direct external linker does not look at scaled caches yet",
    "kv-pd-tp": "0.5.18 refuses disaggregation with an MXFP8 cache, 0.5.19 has no such text",
    "kv-store-rows": "rows are written by indexing, without a kernel",
    "kv-store-page": "pages other than 128 are written with flat scales",
    "moe-dg-actscale": "the check has another text",
    "moe-trtllm-blockk": "the block is looked at, tokens that arrive quantised are not taken",
    "moe-trtllm-a2a-scale": "tokens that arrive quantised are not taken",
    "moe-aiter-nocombine": "the aiter runner does not serve MXFP8 experts yet",
    "old-triton-hw": _OLDER,
    "old-triton-k": _OLDER,
    "old-triton-n": _OLDER,
    "old-triton-pack": _OLDER,
    "old-triton-scale": _OLDER,
}
