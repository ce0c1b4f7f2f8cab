"""Conversions between FP8 formats at load (S4, S6), and what they cost without a message."""

from mxlab.guards.backend import deepgemm_block_fp8_supported, dispatch_block_fp8
from mxlab.guards.engine import Finding, Guard, Status
from mxlab.guards.facts import Facts
from mxlab.guards.findings import modulo, passes, silent, skipped
from mxlab.guards.linear import (
    activation_dtype,
    block_sizes,
    linear_of,
    not_quantized,
)
from mxlab.guards.platform import env_flag
from mxlab.guards.rows import FP8, FP8_UTILS, row

_CONVERT = "srt/layers/quantization/mxfp8_block_convert.py"


def _required(facts: Facts) -> Finding:
    skip = not_quantized(facts)
    if skip:
        return skip
    if not facts.quant.mxfp8:
        return skipped(facts.quant.why)
    if facts.dense.kind != "converted":
        return passes(f"MXFP8 stays MXFP8: {facts.dense.why}")
    return silent(f"{facts.dense.why}: 128 x 128 scales of amax / 448 instead of 1 x 32")


def _mx_can(facts: Facts) -> Finding:
    skip = not_quantized(facts)
    if skip:
        return skip
    sizes = block_sizes(facts)
    if facts.quant.mxfp8 or sizes is None or sizes[1] != 32:
        return skipped(f"no block FP8 with 32-wide blocks: {facts.quant.why}")
    if facts.dense.kind == "block-as-mxfp8":
        return passes(f"runs as MXFP8 on {facts.dense.backend}")
    p = facts.platform
    if not (p.gfx95 or (p.blackwell and p.flashinfer)):
        return skipped(f"{p.gpu.label} has no MXFP8 kernel to serve it with")
    because = f'scale_fmt {facts.quant.scale_fmt!r} ("ue8m0" wanted)'
    if facts.quant.scale_fmt == "ue8m0":
        because = (
            f"--fp8-gemm-backend {facts.deployment.fp8_gemm_backend} on {facts.platform.gpu.label}"
        )
    return Finding(Status.FALLS_BACK, f"{because}: keeps its block-FP8 kernel", message=None)


def _mx_layer(facts: Facts) -> Finding:
    skip = not_quantized(facts)
    if skip:
        return skip
    if facts.dense.kind != "block-as-mxfp8":
        return skipped(facts.dense.why)
    k = linear_of(facts).k
    because = modulo("K", k, 32)
    if k % 32 == 0:
        return passes(because)
    return Finding(Status.FALLS_BACK, f"{because}: keeps its block-FP8 kernel", message=None)


def _requant(facts: Facts) -> Finding:
    skip = not_quantized(facts)
    if skip:
        return skip
    sizes, quant, p = block_sizes(facts), facts.quant, facts.platform
    if facts.dense.kind != "fp8" or sizes != (128, 128) or not quant.serialized:
        return skipped(f"block FP8 with [128, 128] only: {facts.dense.why}")
    flag = facts.deployment.fp8_gemm_backend
    choice = dispatch_block_fp8(p, flag, quant.block, quant.scale_fmt == "ue8m0")
    if not choice.kernel.startswith("deepgemm"):
        return skipped(f"the kernel is {choice.kernel or 'none'}, not DeepGEMM")
    lin, dtype = linear_of(facts), activation_dtype(facts)
    served = deepgemm_block_fp8_supported(p, lin.n, lin.k, [128, 128], dtype)
    because = (
        f"UE8M0 in DeepGEMM {p.ue8m0}, scale_fmt {quant.scale_fmt!r}, {modulo('N', lin.n, 64)}, "
        f"{modulo('K', lin.k, 128)}, output {dtype}, capability {p.capability}"
    )
    if not p.ue8m0 or not served or quant.scale_fmt == "ue8m0" or p.capability == 120:
        return passes(f"{because}: scales stay as they are")
    return silent(f"{because}: weights are quantised again with power-of-two scales")


def _sm90_bf16(facts: Facts) -> Finding:
    skip = not_quantized(facts)
    if skip:
        return skip
    p, d, sizes = facts.platform, facts.deployment, block_sizes(facts)
    if sizes != (32, 32) or facts.quant.scale_fmt != "ue8m0" or facts.quant.mxfp8 or not p.sm90:
        return skipped("SM90 with [32, 32] blocks of UE8M0 scales only")
    lin, dtype = linear_of(facts), activation_dtype(facts)
    on = env_flag(d.env, "SGLANG_OPT_HOPPER_BLOCK_FP8_BF16", default=True)
    kernel = dispatch_block_fp8(p, d.fp8_gemm_backend, facts.quant.block, True).kernel
    deep = kernel.startswith("deepgemm") and deepgemm_block_fp8_supported(
        p, lin.n, lin.k, [32, 32], dtype
    )
    because = f"SGLANG_OPT_HOPPER_BLOCK_FP8_BF16 {on}, DeepGEMM serves it: {deep}, {dtype}"
    if on and not deep and dtype == "bfloat16":
        text = f"{because}: a bfloat16 copy of the weight multiplies 64 tokens or more"
        return Finding(Status.FALLS_BACK, text, message=None)
    return passes(because)


GUARDS: tuple[Guard, ...] = (
    row(
        "cvt-required",
        "linear",
        "S4",
        "",
        (),
        _required,
        predicate="MXFP8 on gfx942, or with SGLANG_FORCE_MXFP8_BLOCK_CONVERT (any platform, read "
        "once at import), or dense layers on ROCm with SGLANG_FORCE_MXFP8_BLOCK_CONVERT_DENSE",
        hardware="MI300X, MI325X; any GPU with the variable set",
        meaning="The weights are decoded, rounded to bfloat16 and quantised again with one float32 "
        "scale for 128 x 128 of them: other numbers than the checkpoint's. The tensor-parallel "
        "checks still use [1, 32], so a rank's edge blocks may be cut; gfx942 then reads the bits "
        "as E4M3 FNUZ with the scale doubled, in which a NaN (0x7F) is the number 240.",
        fallback="block FP8 [128, 128]: amax clamped to 1e-4 or more, scale amax / 448, no clamp "
        "of the values",
        fixes=("serve a block-FP8 checkpoint, which says what it is", "a GPU with MX instructions"),
        source=f"{FP8}:145,525,545, {_CONVERT}:40, {FP8_UTILS}:409",
        related=("cvt-k32", "cvt-online", "lin-tp-row", "blk-fallback"),
    ),
    row(
        "blk2mx-can",
        "linear",
        "S4",
        "",
        (),
        _mx_can,
        predicate='block FP8 with 32-wide blocks along K, and scale_fmt is not "ue8m0" or no MXFP8 '
        "backend serves it (gfx95; Blackwell with flashinfer_cutedsl or flashinfer_cutlass named)",
        meaning="Such weights are MXFP8 in all but name and could run on those kernels.",
        fallback="the block-FP8 kernel of the flag, usually Triton's",
        fixes=(
            "--fp8-gemm-backend flashinfer_cutedsl or flashinfer_cutlass on Blackwell",
            '"scale_fmt": "ue8m0" in quantization_config, if the scales are powers of two',
        ),
        source=f"{FP8_UTILS}:921,900",
        related=("blk2mx-layer", "blk2mx-pow2"),
    ),
    row(
        "blk2mx-layer",
        "linear",
        "S6",
        "",
        (),
        _mx_layer,
        predicate="block FP8 served as MXFP8, and K % 32 != 0 (or the model reads the weight "
        "itself: keep_plain_weight_layout)",
        hardware="gfx950; Blackwell with flashinfer_cutedsl or flashinfer_cutlass named",
        meaning="This layer has no whole number of blocks of 32; its neighbours run as MXFP8.",
        fallback="the block-FP8 kernel",
        fixes=("a --tp-size that leaves K a multiple of 32",),
        source=f"{FP8}:975",
        related=("blk2mx-can", "blk2mx-k"),
    ),
    row(
        "requant-ue8m0",
        "linear",
        "S6",
        "",
        (),
        _requant,
        predicate="block FP8 [128, 128] with float32 scales on DeepGEMM with UE8M0, bfloat16, "
        "N % 64 == 0 and K % 128 == 0, not SM120",
        hardware="SM100, SM103, SM121 with DeepGEMM",
        meaning="DeepGEMM on Blackwell takes power-of-two scales, so the weights are quantised a "
        "second time at load: other numbers than the checkpoint's.",
        fallback="weights with power-of-two scales",
        fixes=("--fp8-gemm-backend flashinfer_trtllm keeps the checkpoint's scales",),
        source=f"{FP8_UTILS}:2147, srt/model_loader/utils.py:266",
        related=("blk-fallback", "cvt-required"),
    ),
    row(
        "sm90-bf16",
        "linear",
        "S6",
        "RuntimeError",
        "Online weight updates are not supported while Hopper FP8 BF16 weight caches are active: "
        "captured CUDA graphs retain these derived weights. Restart with "
        "SGLANG_OPT_HOPPER_BLOCK_FP8_BF16=0 to allow online updates.",
        _sm90_bf16,
        predicate="SM90, [32, 32] UE8M0 block FP8, SGLANG_OPT_HOPPER_BLOCK_FP8_BF16 not off, "
        "DeepGEMM does not serve the layer, scales from 2^-117 to 2^119",
        hardware="SM90",
        meaning="Large batches run on a bfloat16 copy of the weight, which doubles its memory. The "
        "text comes when somebody updates weights of the running server.",
        fallback="bfloat16 for 64 tokens or more, FP8 for fewer",
        fixes=("SGLANG_OPT_HOPPER_BLOCK_FP8_BF16=0",),
        source=f"{FP8}:861",
        related=("blk-fallback",),
    ),
)
