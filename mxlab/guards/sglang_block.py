"""Block-FP8 kernels, also of MXFP8 weights converted at load, and that conversion (S4, S6)."""

from mxlab.guards.backend import (
    BLOCK_REQUESTED,
    BlockChoice,
    deepgemm_block_fp8_supported,
    dispatch_block_fp8,
)
from mxlab.guards.engine import Finding, Guard, Status
from mxlab.guards.facts import Facts
from mxlab.guards.findings import judge, modulo, pad, passes, skipped, stops
from mxlab.guards.linear import activation_dtype, block_sizes, linear_of, not_quantized
from mxlab.guards.rows import FP8, FP8_UTILS, row


def _choice(facts: Facts) -> tuple[Finding | None, BlockChoice]:
    """Return (not-reached or None, the block-FP8 kernel of this layer)."""
    nothing = BlockChoice("")
    skip = not_quantized(facts)
    if skip:
        return skip, nothing
    dense, quant = facts.dense, facts.quant
    if dense.kind == "unknown":
        return Finding(Status.UNKNOWN, dense.why), nothing
    if dense.kind in ("mxfp8", "none"):
        return skipped(dense.why), nothing
    block = [128, 128] if dense.kind == "converted" else quant.block
    flag = facts.deployment.fp8_gemm_backend
    return None, dispatch_block_fp8(facts.platform, flag, block, quant.scale_fmt == "ue8m0")


def _requested(flag: str, id: str, text: str, line: int, meaning: str) -> Guard:
    wanted = BLOCK_REQUESTED[flag]

    def check(facts: Facts) -> Finding:
        skip, choice = _choice(facts)
        if skip:
            return skip
        if choice.guard == id:
            backend = f"Fp8GemmRunnerBackend.{flag.upper()}"
            return stops(choice.because, backend=backend)
        if facts.deployment.fp8_gemm_backend != flag:
            return skipped(f"--fp8-gemm-backend is {facts.deployment.fp8_gemm_backend}, not {flag}")
        return passes(choice.because or f"the kernel is {choice.kernel}")

    return row(
        id,
        "linear",
        "S4",
        "ValueError" if id == "disp-unknown" else "RuntimeError",
        text,
        check,
        predicate=f"--fp8-gemm-backend={flag} for block FP8 (also MXFP8 converted at load) without "
        f"{wanted.needs}",
        meaning=meaning,
        fixes=("--fp8-gemm-backend auto",),
        source=f"{FP8_UTILS}:{line}",
        related=("silent-gemm-flag",),
    )


def _non_128(facts: Facts) -> Finding:
    skip, choice = _choice(facts)
    if skip:
        return skip
    block = facts.quant.block
    if choice.warns:
        return Finding(Status.WARNS, choice.because, {"block": block})
    return passes(choice.because or f"block size {block}, kernel {choice.kernel or 'none'}")


def _converted(facts: Facts) -> Finding | None:
    skip = not_quantized(facts)
    if skip:
        return skip
    return None if facts.dense.kind == "converted" else skipped(facts.dense.why)


def _cvt_online(facts: Facts) -> Finding:
    skip = _converted(facts)
    if skip:
        return skip
    online = not facts.quant.serialized
    because = f"scales in the checkpoint: {not online}; {facts.dense.why}"
    return judge(online, because, layer="layer")


def _cvt_k32(facts: Facts) -> Finding:
    skip = _converted(facts)
    if skip:
        return skip
    if not facts.quant.serialized:
        return skipped("cvt-online stops first")
    lin = linear_of(facts)
    shape, size = f"[{lin.n}, {lin.k // 32}, 32]", lin.n * lin.k
    return judge(lin.k % 32 != 0, modulo("K", lin.k, 32), shape=shape, size=size)


def _sizes(facts: Facts) -> tuple[int, int] | None:
    """Return the block size that the weights have after loading."""
    return (128, 128) if facts.dense.kind == "converted" else block_sizes(facts)


def _groupwise_cutlass(facts: Facts) -> bool:
    """FlashInfer's own choice behind its block-FP8 kernel (fp8_utils.py:595)."""
    flag, cap = facts.deployment.fp8_gemm_backend, facts.platform.capability or 0
    return flag == "flashinfer_cutlass" or (flag != "flashinfer_trtllm" and cap >= 120)


def _fallback(facts: Facts) -> Finding:
    skip, choice = _choice(facts)
    sizes, lin, dtype = _sizes(facts), linear_of(facts), activation_dtype(facts)
    if skip:
        return skip
    if sizes is None or choice.guard:
        return skipped(choice.because or f"no block quantisation: {facts.quant.why}")
    tiles = f"{modulo('N', lin.n, 128)}, {modulo('K', lin.k, 128)}"
    if choice.kernel.startswith("deepgemm"):
        served = deepgemm_block_fp8_supported(facts.platform, lin.n, lin.k, list(sizes), dtype)
        small = sizes == (32, 32)
        shape = f"{modulo('N', lin.n, 8 if small else 64)}, {modulo('K', lin.k, sizes[1])}"
        because = f"DeepGEMM, block {list(sizes)}: {shape}, output {dtype}"
    elif choice.kernel.startswith("cutlass"):
        served, because = lin.n % 128 == 0 and lin.k % 128 == 0, f"CUTLASS: {tiles}"
    elif choice.kernel.startswith("flashinfer_gemm") and not _groupwise_cutlass(facts):
        served = lin.k >= 256 and dtype == "bfloat16"
        because = f"FlashInfer TRT-LLM: K = {lin.k} against 256, input {dtype}"
    else:
        return skipped(f"the kernel is {choice.kernel}")
    if served:
        return passes(because)
    return Finding(Status.FALLS_BACK, f"{because}: Triton multiplies this layer", message=None)


def _layout(facts: Facts) -> Finding:
    skip, choice = _choice(facts)
    sizes, lin = _sizes(facts), linear_of(facts)
    if skip:
        return skip
    if not choice.kernel.startswith("flashinfer_gemm") or not _groupwise_cutlass(facts):
        return skipped(f"the kernel is {choice.kernel or 'none'}, not FlashInfer's CUTLASS")
    if sizes is None:
        return skipped(f"no block quantisation: {facts.quant.why}")
    bn, bk = sizes
    because = f"{modulo('N', lin.n, bn)}, {modulo('K', lin.k, bk)}"
    if lin.k % bk:
        text = f"{because}: the activation quantiser stops before"
        return stops(text, 1)
    got, wanted = (pad(lin.n, bn) // bn, lin.k // bk), (lin.k // bk, lin.n // bn)
    if lin.n % bn == 0:
        return passes(because)
    values = {"got": got, "wanted": wanted, "strides": (got[1], 1), "contiguous": True, "m": "M"}
    return stops(because, 0, **values, n=lin.n, k=lin.k, block=list(sizes))


_NAMED = "You named a kernel for block FP8 that this machine lacks. "

GUARDS: tuple[Guard, ...] = (
    _requested(
        "flashinfer_trtllm",
        "disp-trtllm",
        "FlashInfer FP8 GEMM requested via --fp8-gemm-backend=flashinfer_trtllm, but FlashInfer is "
        "not available or not supported on this hardware. FlashInfer TRTLLM FP8 GEMM requires "
        "SM100/SM103 GPUs and FlashInfer.",
        1112,
        _NAMED,
    ),
    _requested(
        "flashinfer_cutlass",
        "disp-cutlass-fi",
        "FlashInfer FP8 GEMM requested via --fp8-gemm-backend=flashinfer_cutlass, but FlashInfer "
        "is not available or not supported on this hardware. FlashInfer CUTLASS FP8 GEMM requires "
        "Blackwell GPUs and FlashInfer.",
        1121,
        _NAMED,
    ),
    _requested(
        "flashinfer_deepgemm",
        "disp-fi-deepgemm",
        "FlashInfer DeepGEMM with swapAB requested via --fp8-gemm-backend=flashinfer_deepgemm, but "
        "it's not available. This backend requires Hopper (SM90) GPUs and FlashInfer to be "
        "installed.",
        1130,
        _NAMED,
    ),
    _requested(
        "cutlass",
        "disp-cutlass",
        "--fp8-gemm-backend=cutlass is deprecated on this hardware. Please switch to DeepGEMM or "
        "FlashInfer TRTLLM on SM90/SM100.",
        1139,
        "The CUTLASS block-FP8 kernel is kept for SM120 and SM121 only.",
    ),
    _requested(
        "aiter",
        "disp-aiter",
        "AITER backend requested via --fp8-gemm-backend=aiter, but AITER is not available. AITER "
        "requires AMD GPUs with SGLANG_USE_AITER=1 environment variable set.",
        1147,
        "AITER is AMD's kernel library, and SGLang uses it only when the environment says so.",
    ),
    _requested(
        "deep_gemm",
        "disp-deepgemm",
        "DeepGEMM backend requested via --fp8-gemm-backend=deep_gemm, but DeepGEMM is not "
        "available. This usually means the deep_gemm package is not installed or has been disabled "
        "via SGLANG_ENABLE_JIT_DEEPGEMM=0.",
        1156,
        _NAMED,
    ),
    _requested(
        "flashinfer_cutedsl",
        "disp-unknown",
        "Unknown FP8 GEMM backend: {backend}",
        1167,
        "CuTe-DSL multiplies MXFP8 only. With it, a block-FP8 or per-tensor FP8 layer in the same "
        "model stops the start.",
    ),
    row(
        "disp-nonblk128",
        "linear",
        "S4",
        "warning",
        "--fp8-gemm-backend=deep_gemm cannot serve {block} block FP8 weights on this setup; using "
        "Triton. DeepGEMM takes [32, 32] blocks on SM90, and on SM100 with UE8M0 scales.",
        _non_128,
        predicate="flag deep_gemm, block FP8 with a K block other than 128, and not [32, 32] where "
        "DeepGEMM takes it",
        meaning="The layer runs, on a slower kernel than the one you named.",
        fallback="Triton's block-FP8 kernel",
        fixes=("--fp8-gemm-backend auto", "a [128, 128] checkpoint"),
        source=f"{FP8_UTILS}:734",
        related=("disp-deepgemm",),
    ),
    row(
        "blk-fallback",
        "linear",
        "S8",
        "",
        (),
        _fallback,
        predicate="block FP8 on DeepGEMM: N % 64, K % 128 ([32, 32]: N % 8, K % 32) or output not "
        "bfloat16; on CUTLASS: N % 128 or K % 128; on FlashInfer TRT-LLM: K < 256 or not bfloat16",
        hardware="NVIDIA GPUs",
        meaning="The layer runs on a slower kernel than its neighbours, and nothing says so.",
        fallback="Triton's block-FP8 kernel",
        fixes=("a --tp-size that mends the shape", "--dtype bfloat16"),
        source=f"{FP8_UTILS}:1449,1389,1255",
        related=("disp-nonblk128", "wsp-deepgemm"),
    ),
    row(
        "blk-fi-layout",
        "linear",
        "S8",
        "AssertionError",
        (
            "FlashInfer CUTLASS groupwise FP8 expects B scale layout (k//block_k, n//block_n) for "
            "scale_major_mode='MN', got {got}; expected {wanted}. strides={strides} "
            "is_contiguous={contiguous} m={m} n={n} k={k} block_size={block}",
            "the last dimension of `x` cannot be divisible by `group_size`",
        ),
        _layout,
        predicate="block FP8 on FlashInfer's CUTLASS kernel, and N % block_n != 0 (K % block_k "
        "stops in the activation quantiser)",
        hardware="SM120, SM121; Blackwell with --fp8-gemm-backend flashinfer_cutlass",
        meaning="The scale has one row more than the kernel expects, for the block that is cut.",
        fixes=("--fp8-gemm-backend triton", "a --tp-size that leaves N a multiple of the block"),
        source=f"{FP8_UTILS}:1269, kernels/ops/quantization/fp8_kernel.py:499",
        related=("blk-fallback", "lin-tp-col"),
    ),
    row(
        "cvt-online",
        "linear",
        "S6",
        "AttributeError",
        "'{layer}' object has no attribute 'weight_scale_inv'",
        _cvt_online,
        predicate="MXFP8 is converted to block FP8 at load, and the checkpoint has no scales "
        "(--quantization mxfp8 on 16-bit weights)",
        hardware="MI300X, MI325X; any GPU with SGLANG_FORCE_MXFP8_BLOCK_CONVERT=1",
        meaning="The conversion reads the checkpoint's scales. Weights that are quantised at load "
        "have none yet.",
        fixes=("--quantization fp8 quantises at load without MXFP8", "a serialised checkpoint"),
        source=f"{FP8}:754",
        related=("cvt-k32",),
    ),
    row(
        "cvt-k32",
        "linear",
        "S6",
        "RuntimeError",
        "shape '{shape}' is invalid for input of size {size}",
        _cvt_k32,
        predicate="MXFP8 is converted to block FP8 at load and K % 32 != 0",
        hardware="MI300X, MI325X; any GPU with SGLANG_FORCE_MXFP8_BLOCK_CONVERT=1",
        meaning="The weight cannot be viewed as blocks of 32 along K.",
        fixes=("leave the layer unquantised", "a --tp-size that leaves K a multiple of 32"),
        source="srt/layers/quantization/mxfp8_block_convert.py:36",
        related=("cvt-online", "lin-tp-row"),
    ),
)
