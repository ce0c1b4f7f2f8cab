"""SGLang's checks of a dense linear at construction and load (S4, S6)."""

from mxlab.guards.backend import REQUESTED, effective_flag, request
from mxlab.guards.engine import Finding, Guard, Status
from mxlab.guards.facts import Facts
from mxlab.guards.findings import judge, modulo, multiples, pad, passes, skipped, stops
from mxlab.guards.linear import (
    block_sizes,
    deep_gemm_shape,
    linear_of,
    not_mxfp8,
    not_quantized,
    tp_column,
    tp_row,
)
from mxlab.guards.rows import FP8, FP8_UTILS, row

_INSTALL = "on Blackwell, install FlashInfer"
_FI_UTILS = "flashinfer/utils.py"


def _requested(flag: str) -> "Guard":
    """Build the row of one value of --fp8-gemm-backend that insists on its kernel."""
    wanted = REQUESTED[flag]

    def check(facts: Facts) -> Finding:
        skip = not_quantized(facts)
        if skip:
            return skip
        if facts.dense.kind == "unknown":
            return Finding(Status.UNKNOWN, facts.dense.why)
        kind = facts.dense.kind
        as_block = kind == "block-as-mxfp8" and facts.platform.cuda
        if kind != "mxfp8" and not as_block:
            return skipped(facts.dense.why)
        asked = facts.deployment.fp8_gemm_backend
        if effective_flag(facts.platform, asked) != flag:
            return skipped(f"--fp8-gemm-backend is {asked}, not {flag}")
        available, because = request(facts.platform, flag)
        return judge(not available, because)

    return row(
        wanted.guard,
        "linear",
        "S4",
        "RuntimeError",
        _REQUEST_TEXT[flag],
        check,
        predicate=f"--fp8-gemm-backend={flag} without {wanted.needs}",
        hardware=_REQUEST_HARDWARE[flag],
        meaning=f"You asked for {flag} by name, so SGLang stops instead of choosing another kernel "
        "when this machine cannot run it.",
        fixes=("--fp8-gemm-backend auto", f"provide {wanted.needs}"),
        source=_REQUEST_SOURCE[flag],
        related=("silent-gemm-flag", "fwd-unsupported"),
    )


_REQUEST_TEXT = {
    "flashinfer_trtllm": "MXFP8 dense GEMM requested via --fp8-gemm-backend=flashinfer_trtllm, but "
    "that kernel requires SM100/SM103 GPUs and FlashInfer.",
    "flashinfer_cutedsl": "MXFP8 dense GEMM requested via --fp8-gemm-backend=flashinfer_cutedsl, "
    "but that kernel requires an SM100/SM103 GPU and FlashInfer.",
    "flashinfer_cutlass": "MXFP8 dense GEMM requested via --fp8-gemm-backend=flashinfer_cutlass, "
    "but that kernel requires Blackwell GPUs and FlashInfer.",
    "deep_gemm": "MXFP8 dense GEMM requested via --fp8-gemm-backend=deep_gemm, but DeepGEMM is not "
    "available (package missing or SGLANG_ENABLE_JIT_DEEPGEMM=0).",
}
_REQUEST_HARDWARE = {
    "flashinfer_trtllm": "everything but SM100 and SM103",
    "flashinfer_cutedsl": "everything but SM100 and SM103",
    "flashinfer_cutlass": "everything but Blackwell (SM100 to SM121)",
    "deep_gemm": "SM80, SM89, AMD; any GPU without the package",
}
_REQUEST_SOURCE = {
    "flashinfer_trtllm": f"{FP8_UTILS}:841",
    "flashinfer_cutedsl": f"{FP8_UTILS}:855",
    "flashinfer_cutlass": f"{FP8_UTILS}:863",
    "deep_gemm": f"{FP8_UTILS}:871",
}


def _fused_skip(facts: Facts) -> Finding:
    lin = linear_of(facts)
    if not facts.quant.fp8_config:
        return skipped(facts.quant.why)
    if lin.mixed_shards:
        return stops("the ignore list names some of its members", prefix=lin.mixed_shards)
    return passes("its members agree on being quantised")


def _tp_row(facts: Facts) -> Finding:
    skip = not_quantized(facts)
    if skip:
        return skip
    sizes, lin, tp = block_sizes(facts), linear_of(facts), facts.deployment.tp
    if sizes is None:
        return skipped(f"no block quantisation: {facts.quant.why}")
    whole = lin.input_size or (lin.k * tp if lin.shard == "row" else lin.k)
    return tp_row(whole, lin.k, tp, sizes[1], skip_check=lin.skip_block_quant_check)


def _tp_column(facts: Facts) -> Finding:
    skip = not_quantized(facts)
    if skip:
        return skip
    sizes, lin, tp = block_sizes(facts), linear_of(facts), facts.deployment.tp
    if sizes is None:
        return skipped(f"no block quantisation: {facts.quant.why}")
    split = lin.shard in ("column", "vocab")
    whole = lin.output_size or (lin.n * tp if split else lin.n)
    parts = lin.parts or (lin.n,)
    return tp_column(whole, parts, tp, sizes[0], skip_check=lin.skip_block_quant_check)


def _skip_check(facts: Facts) -> Finding:
    skip = not_quantized(facts)
    if skip:
        return skip
    if block_sizes(facts) is None:
        return skipped(f"no block quantisation: {facts.quant.why}")
    if linear_of(facts).skip_block_quant_check:
        because = "the layer was built with skip_block_quant_check=True"
        return Finding(Status.WARNS, because, notice=True)
    return passes("the layer runs the block checks")


def _scale_form(facts: Facts) -> str:
    """Say what DeepGEMM's copy of the scale is, with its shape."""
    lin = linear_of(facts)
    widened = f"each uint8 becomes a float32 by u8 << 23, ({lin.n}, {lin.k // 32})"
    if facts.platform.ue8m0:
        words = pad(lin.k, 128) // 128
        return f"scale: {widened}, then four exponents to an int32, ({lin.n}, {words}), MN-major"
    return f"scale: {widened}; byte 0 becomes 0.0 and byte 255 +Inf"


def _wsp_deep_gemm(facts: Facts) -> Finding:
    skip = not_mxfp8(facts, "deep_gemm")
    if skip:
        return skip
    lin, p = linear_of(facts), facts.platform
    because = f"{modulo('N', lin.n, 64)}, {modulo('K', lin.k, 128)}"
    if deep_gemm_shape(lin.n, lin.k):
        return passes(f"{because}; {_scale_form(facts)}")
    near = f"nearest legal N {multiples(lin.n, 64)}, K {multiples(lin.k, 128)}"
    if not (p.blackwell and p.flashinfer):
        missing = "not Blackwell" if not p.blackwell else "no FlashInfer"
        return stops(f"{because}; {missing}: no fallback; {near}", n=lin.n, k=lin.k)
    size = pad(lin.n, 128) * pad(pad(lin.k, 32) // 32, 4)
    return Finding(
        Status.FALLS_BACK,
        f"{because}; FlashInfer (CUTLASS) multiplies this layer with a second, 128x4-swizzled copy "
        f"of the scale, {size} bytes; {_scale_form(facts)}",
        message=None,
        done=(_INSTALL,),
    )


def _wsp_k32(facts: Facts) -> Finding:
    skip = not_mxfp8(facts)
    if skip:
        return skip
    lin, p = linear_of(facts), facts.platform
    because = modulo("K", lin.k, 32)
    if lin.k % 32 == 0:
        return passes(because)
    if facts.quant.origin == "online" or not facts.quant.serialized:
        return skipped(f"{because}; act-grp-k32 stops the online quantisation first")
    reads = facts.dense.backend == "flashinfer_trtllm" or (
        facts.dense.backend == "deep_gemm" and p.blackwell and p.flashinfer
    )
    if not reads:
        return skipped(f"{because}, but {facts.dense.backend} does not reshape the scale at load")
    size = lin.n * pad(lin.k, 32) // 32
    return stops(because, shape=f"[{lin.n}, {lin.k // 32}]", size=size)


def _wsp_trtllm_n32(facts: Facts) -> Finding:
    skip = not_mxfp8(facts, "flashinfer_trtllm")
    if skip:
        return skip
    n = linear_of(facts).n
    return judge(n % 32 != 0, f"{modulo('N', n, 32)}; nearest legal N {multiples(n, 32)}")


def _wsp_trtllm_cols(facts: Facts) -> Finding:
    skip = not_mxfp8(facts, "flashinfer_trtllm")
    if skip:
        return skip
    lin = linear_of(facts)
    if lin.k % 32:
        return skipped(f"{modulo('K', lin.k, 32)}: wsp-k32 comes first")
    rows, groups = pad(lin.n, 128), lin.k // 32
    return judge(
        groups % 4 != 0,
        f"K / 32 = {groups}, {groups} % 4 = {groups % 4}; nearest legal K {multiples(lin.k, 128)}",
        shape=f"[{rows}, {groups}]",
        size=rows * pad(groups, 4),
    )


def _grp_k32(facts: Facts) -> Finding:
    skip = not_quantized(facts)
    if skip:
        return skip
    if not facts.quant.mxfp8 or facts.quant.serialized:
        return skipped("only 16-bit weights quantised to MXFP8 at load run this")
    if facts.dense.kind == "converted":
        return skipped(f"cvt-online stops first: {facts.dense.why}")
    k = linear_of(facts).k
    return judge(k % 32 != 0, modulo("K", k, 32), k=k)


GUARDS: tuple[Guard, ...] = (
    row(
        "cfg-fused-skip",
        "linear",
        "S4",
        "ValueError",
        "Detected some but not all shards of {prefix} are quantized. All shards of fused layers to "
        "have the same precision.",
        _fused_skip,
        predicate="the members of a fused layer (q, k, v; gate, up) disagree on being ignored",
        meaning="Fused members share one weight, so they are quantised together or not at all.",
        fixes=("name every member in modules_to_not_convert, or none",),
        source="srt/layers/quantization/utils.py:101",
        related=("lin-tp-col",),
    ),
    *(_requested(flag) for flag in REQUESTED),
    row(
        "lin-skip-check",
        "linear",
        "S4",
        "warning",
        "Skipping block quantization checks for weight partition.",
        _skip_check,
        predicate="the layer is built with skip_block_quant_check=True",
        meaning="A few layer classes (merged-column-repeated, MiMo-V2 qkv) switch the two "
        "divisibility checks off; a bad shape then fails later or not at all.",
        fallback="goes on without the checks",
        fixes=("nothing, if the partition sizes are multiples of the block",),
        source=f"{FP8}:586",
        related=("lin-tp-row", "lin-tp-col"),
    ),
    row(
        "lin-tp-row",
        "linear",
        "S4",
        "ValueError",
        "Weight input_size_per_partition = {in_part} is not divisible by weight quantization "
        "block_k = {bk}.",
        _tp_row,
        predicate="tp > 1, K is split by it, and K of one rank % block_k != 0 (32 for MXFP8)",
        meaning="A row-parallel layer (o_proj, down_proj) is cut along K. A cut inside a block of "
        "32 would need half a scale.",
        fixes=("a smaller --tp-size that leaves K a multiple of 32", "leave the layer unquantised"),
        source=f"{FP8}:594",
        related=("lin-tp-col", "moe-inter-k"),
    ),
    row(
        "lin-tp-col",
        "linear",
        "S4",
        "ValueError",
        "Weight output_partition_size = {p} is not divisible by weight quantization block_n = "
        "{bn}.",
        _tp_column,
        predicate="N is split by tp, or the layer is merged, and some part % block_n != 0; never "
        "for MXFP8, where block_n is 1, nor where fewer KV heads than ranks are replicated (N of "
        "all ranks is then not tp times N of one)",
        meaning="A column-parallel or merged layer is cut along N inside a block. This is a "
        "block-FP8 limit: MXFP8 has one row per block.",
        fixes=("a smaller --tp-size", "mark the module as ignored in quantization_config"),
        source=f"{FP8}:605",
        related=("lin-tp-row",),
    ),
    row(
        "act-grp-k32",
        "linear",
        "S6",
        "AssertionError",
        "k={k} must be divisible by 32",
        _grp_k32,
        predicate="online quantisation (--quantization mxfp8 on 16-bit weights) and K % 32 != 0",
        meaning="The weight has no whole number of 32-blocks along K.",
        fixes=("leave the layer unquantised", "a --tp-size that leaves K a multiple of 32"),
        source=f"{FP8_UTILS}:1858",
        related=("wsp-k32", "lin-tp-row"),
    ),
    row(
        "wsp-deepgemm",
        "linear",
        "S6",
        "RuntimeError",
        "--fp8-gemm-backend=deep_gemm cannot serve MXFP8 weight shape ({n}, {k}) (needs N % 64 == "
        "0 and K % 128 == 0), and this device has no FlashInfer MXFP8 fallback kernel.",
        _wsp_deep_gemm,
        predicate="backend deep_gemm (asked for, or chosen by auto), N % 64 != 0 or K % 128 != 0, "
        "and not (Blackwell with FlashInfer)",
        hardware="SM90; Blackwell without FlashInfer",
        meaning="DeepGEMM tiles weights by 64 rows and 128 columns and takes nothing else. N and K "
        "are those of one rank, so a --tp-size can break or mend it. The whole checkpoint has been "
        "read by now.",
        fallback="Blackwell with FlashInfer: keeps a second, swizzled copy of the scale and lets "
        "FlashInfer's CUTLASS kernel multiply this layer, without a message",
        fixes=(
            "a --tp-size under which N % 64 == 0 and K % 128 == 0: it changes N of a "
            "column-parallel layer, K of a row-parallel one, and nothing else",
            "leave this layer unquantised (modules_to_not_convert)",
            _INSTALL,
        ),
        source=f"{FP8}:1101",
        related=("res-deepgemm", "fwd-dg-noswz", "fi-mm-min", "cfg-min-capability"),
    ),
    row(
        "wsp-k32",
        "linear",
        "S6",
        "RuntimeError",
        "shape '{shape}' is invalid for input of size {size}",
        _wsp_k32,
        predicate="K % 32 != 0, on trtllm, or on deep_gemm on Blackwell with FlashInfer; cutlass, "
        "cute-dsl and gfx95 get past the load and fail at the first forward",
        meaning="torch cannot reshape a scale of ceil(K / 32) columns to K // 32. The text names "
        "neither the layer nor MXFP8.",
        fixes=("leave the layer unquantised", "a --tp-size that leaves K a multiple of 32"),
        source=f"{FP8}:1044, {FP8_UTILS}:1001",
        related=("fwd-fi-k32", "lin-tp-row"),
    ),
    row(
        "wsp-trtllm-n32",
        "linear",
        "S6",
        "AssertionError",
        "input_tensor.shape[0] must be multiples of 32",
        _wsp_trtllm_n32,
        predicate="backend flashinfer_trtllm and N % 32 != 0",
        hardware="SM100, SM103",
        meaning="The TRT-LLM kernel wants weight rows shuffled in blocks of 32.",
        fixes=("--fp8-gemm-backend auto", "a --tp-size that leaves N a multiple of 32"),
        source=f"{_FI_UTILS}:1092",
        related=("wsp-trtllm-cols",),
    ),
    row(
        "wsp-trtllm-cols",
        "linear",
        "S6",
        "RuntimeError",
        "shape '{shape}' is invalid for input of size {size}",
        _wsp_trtllm_cols,
        predicate="backend flashinfer_trtllm and (K / 32) % 4 != 0, that is K % 128 != 0",
        hardware="SM100, SM103",
        meaning="The swizzle pads the scale's columns to a multiple of 4 and the result does not "
        "go back into the unpadded shape. The text names neither the layer nor MXFP8.",
        fixes=("--fp8-gemm-backend auto", "a --tp-size that leaves K a multiple of 128"),
        source=f"{FP8}:1073",
        related=("wsp-trtllm-n32", "fi-mm-size"),
    ),
)
