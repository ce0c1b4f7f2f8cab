"""SGLang's checks of routed experts at construction and load (S4, S6)."""

from mxlab.guards.engine import Finding, Guard, Status
from mxlab.guards.experts import (
    cutlass_supported,
    experts_of,
    intermediate_of,
    not_mxfp8_experts,
    not_processed,
    w13_rows,
)
from mxlab.guards.facts import Facts
from mxlab.guards.findings import judge, modulo, multiples, pad, passes, shown, skipped, stops
from mxlab.guards.linear import block_sizes
from mxlab.guards.rows import FP8, row
from mxlab.guards.runner import TRTLLM

_TRTLLM = "srt/layers/moe/moe_runner/flashinfer_trtllm.py"


def _fp8_experts(facts: Facts) -> Finding | None:
    """The experts are FP8 of some kind."""
    experts = experts_of(facts)
    if not experts.quantized:
        return skipped(experts.why_not or "the experts are not quantised")
    return None if facts.quant.fp8_config else skipped(facts.quant.why)


def _cutlass(facts: Facts) -> Finding | None:
    skip = _fp8_experts(facts)
    if skip:
        return skip
    if facts.runner.name != "cutlass":
        return skipped(f"the MoE runner is {facts.runner.name}, not cutlass")
    return None


def _cutlass_sup(facts: Facts) -> Finding:
    p = facts.platform
    because = f"{p.gpu.label}: capability {p.capability}, toolkit {p.toolkit[0]}.{p.toolkit[1]}"
    return _cutlass(facts) or judge(not cutlass_supported(p), because)


def _cutlass_block(facts: Facts) -> Finding:
    block = facts.quant.block
    return _cutlass(facts) or judge(block is None, f"weight_block_size = {block}")


def _cutlass_arch(facts: Facts) -> Finding:
    p = facts.platform
    because = f"{p.gpu.label}: capability {p.capability}"
    return _cutlass(facts) or judge(not (p.sm90 or p.sm100 or p.sm120), because)


def _blocks(facts: Facts) -> tuple[Finding | None, int, int]:
    skip = _fp8_experts(facts)
    if skip:
        return skip, 1, 1
    sizes = block_sizes(facts)
    if sizes is None:
        return skipped(f"no block quantisation: {facts.quant.why}"), 1, 1
    if facts.platform.aiter_moe and sizes == (128, 128):
        return skipped("AITER pads the experts to 128 instead"), 1, 1
    return None, *sizes


def _inter_n(facts: Facts) -> Finding:
    skip, bn, _ = _blocks(facts)
    inter = intermediate_of(facts)
    because = f"intermediate size of one rank {modulo('I', inter, bn)}"
    return skip or judge(inter % bn != 0, because, inter=inter, bn=bn)


def _inter_k(facts: Facts) -> Finding:
    skip, _, bk = _blocks(facts)
    if skip:
        return skip
    inter, tp = intermediate_of(facts), experts_of(facts).moe_tp
    because = f"MoE TP {tp}, intermediate size of one rank {modulo('I', inter, bk)}"
    if tp == 1:
        return passes(f"{because}: not checked without MoE TP")
    near = f"; nearest legal {multiples(inter, bk)}" if inter % bk else ""
    return judge(inter % bk != 0, because + near, inter=inter, bk=bk)


def _static_online(facts: Facts) -> Finding:
    skip = _fp8_experts(facts)
    if skip:
        return skip
    q = facts.quant
    if q.mxfp8 or q.block is not None:
        return skipped("block quantisation: cfg-act-assert looks first")
    because = f"activation_scheme = {shown(q.activation)!r}, FP8-serialised: {q.serialized}"
    return judge(q.activation == "static" and not q.serialized, because)


def _hw(facts: Facts) -> Finding:
    skip = not_mxfp8_experts(facts)
    if skip:
        return skip
    p = facts.platform
    because = f"{p.gpu.label}: SM100 family with CUDA >= 12.8: {p.sm100}, gfx95: {p.gfx95}"
    return judge(not (p.sm100 or p.gfx95), because)


def _tk_problem(facts: Facts, rows: int, k: int) -> tuple[bool, str, int]:
    """Return (cannot be viewed, the shape asked for, the elements there are)."""
    e = experts_of(facts).experts
    size = e * rows * pad(k, 32) // 32
    wanted = e * pad(rows, 128) * (k // 32)
    return size != wanted, f"[{e}, {pad(rows, 128)}, {k // 32}]", size


def _swizzles(facts: Facts) -> Finding | None:
    skip = not_processed(facts)
    if skip:
        return skip
    other: tuple[str, ...] = ("cutlass", "deep_gemm", *TRTLLM)
    if facts.quant.serialized and not facts.platform.release.cutlass_raw_scales:
        other = other[1:]
    if facts.platform.hip or facts.runner.name in other:
        return skipped(f"the MoE runner is {facts.runner.name}: no triton_kernels swizzle")
    return None


def _k32(facts: Facts) -> Finding:
    skip = not_processed(facts)
    if skip:
        return skip
    if facts.quant.serialized:
        return skipped("the checkpoint is serialised: nothing is quantised at load")
    hidden, inter = experts_of(facts).hidden, intermediate_of(facts)
    because = f"{modulo('H', hidden, 32)}, {modulo('I', inter, 32)}"
    bad = next((k for k in (hidden, inter) if k % 32), None)
    if bad is None:
        return passes(because)
    tk_first = _swizzles(facts) is None and bad == inter and hidden % 32 == 0
    if tk_first and _tk_problem(facts, w13_rows(facts), hidden)[0]:
        return skipped(f"{because}: moe-tk-rows comes first")
    return stops(because, 1 if facts.platform.hip else 0, k=bad)


def _tk_rows(facts: Facts) -> Finding:
    skip = _swizzles(facts)
    if skip:
        return skip
    hidden, inter, rows = experts_of(facts).hidden, intermediate_of(facts), w13_rows(facts)
    because = f"rows of w13 {modulo('R', rows, 128)}, of w2 {modulo('H', hidden, 128)}"
    for height, k in ((rows, hidden), (hidden, inter)):
        if not facts.quant.serialized and k % 32:
            return skipped(f"{because}: moe-k32 comes first")
        bad, shape, size = _tk_problem(facts, height, k)
        if bad:
            return stops(because, shape=shape, size=size)
    return passes(because)


def _trtllm(facts: Facts) -> Finding | None:
    skip = not_processed(facts)
    if skip:
        return skip
    if facts.runner.name not in TRTLLM:
        return skipped(f"the MoE runner is {facts.runner.name}, not flashinfer_trtllm")
    return None


def _nofi(facts: Facts) -> Finding:
    there = "flashinfer" in facts.deployment.packages and facts.platform.cuda
    because = f"FlashInfer is {'installed' if there else 'not installed'}"
    if not facts.platform.cuda:
        because = "FlashInfer is for NVIDIA GPUs"
    return _trtllm(facts) or judge(not there, because)


def _sf_rows(facts: Facts) -> Finding:
    skip = _trtllm(facts)
    if skip:
        return skip
    hidden, inter = experts_of(facts).hidden, intermediate_of(facts)
    rows = 2 * pad(inter, 16) if experts_of(facts).gated else pad(inter, 128)
    because = f"{modulo('H', hidden, 128)}, rows of w13 {modulo('R', rows, 128)}"
    if hidden % 32 or rows % 32:
        return stops(because)
    if hidden % 128 or rows % 128:
        near = f"; nearest legal H {multiples(hidden, 128)}" if hidden % 128 else ""
        return Finding(Status.STOPS, because + near, message=None)
    return passes(because)


def _cols(facts: Facts) -> Finding:
    skip = _trtllm(facts)
    if skip:
        return skip
    hidden, inter = experts_of(facts).hidden, intermediate_of(facts)
    if not experts_of(facts).gated:
        inter = pad(inter, 128)
    because = f"{modulo('H / 32', hidden // 32, 4)}, {modulo('I / 32', inter // 32, 4)}"
    if hidden % 128:
        return skipped(f"{because}: moe-trtllm-sf-rows comes first")
    shape, size = f"[{hidden}, {inter // 32}]", hidden * pad(inter // 32, 4)
    return judge(inter // 32 % 4 != 0, because, shape=shape, size=size)


_HW = "SM100, SM103"

GUARDS: tuple[Guard, ...] = (
    row(
        "moe-cutlass-sup",
        "experts",
        "S4",
        "AssertionError",
        "cutlass_fp8 MoE requires CUDA 12.0+ with SM90 or CUDA 12.4+ with SM89",
        _cutlass_sup,
        predicate="runner cutlass, and not (SM90 or newer with CUDA >= 12.0, SM89 with 12.4)",
        hardware="SM80, AMD, old toolkits",
        meaning="The CUTLASS experts need a newer GPU or toolkit.",
        fixes=("--moe-runner-backend auto",),
        source=f"{FP8}:1509",
        related=("moe-cutlass-arch",),
    ),
    row(
        "moe-cutlass-block",
        "experts",
        "S4",
        "AssertionError",
        "cutlass_fp8 MoE requires block quantization",
        _cutlass_block,
        predicate="runner cutlass and no weight_block_size (MXFP8 always has one)",
        meaning="The CUTLASS experts take block scales only.",
        fixes=("--moe-runner-backend auto",),
        source=f"{FP8}:1512",
        related=("moe-cutlass-arch",),
    ),
    row(
        "moe-cutlass-arch",
        "experts",
        "S4",
        "AssertionError",
        "cutlass_fp8 MoE requires SM90, SM100, or SM120 GPUs",
        _cutlass_arch,
        predicate="runner cutlass on another architecture (SM89, SM110)",
        hardware="SM89, SM110",
        meaning="No CUTLASS expert kernel is built for this GPU.",
        fixes=("--moe-runner-backend auto",),
        source=f"{FP8}:1513",
        related=("moe-hw",),
    ),
    row(
        "moe-inter-n",
        "experts",
        "S4",
        "ValueError",
        "The output_size of gate's and up's weight = {inter} is not divisible by weight "
        "quantization block_n = {bn}.",
        _inter_n,
        predicate="intermediate size of one rank % block_n != 0; never for MXFP8 (block_n is 1)",
        meaning="Gate and up are cut inside a block of rows: a block-FP8 limit.",
        fixes=("a smaller --tp-size, or --ep-size equal to it",),
        source=f"{FP8}:1589",
        related=("moe-inter-k",),
    ),
    row(
        "moe-inter-k",
        "experts",
        "S4",
        "ValueError",
        "The input_size of down's weight = {inter} is not divisible by weight quantization block_k "
        "= {bk}.",
        _inter_k,
        predicate="MoE TP > 1 and intermediate size of one rank % block_k != 0 (32 for MXFP8); the "
        "TRT-LLM runners round the size up to 128 before",
        meaning="The down projection is cut along K inside a block of 32. Without MoE TP nobody "
        "looks.",
        fixes=("--ep-size equal to --tp-size, which does not cut experts", "a smaller --tp-size"),
        source=f"{FP8}:1597",
        related=("lin-tp-row", "moe-inter-n"),
    ),
    row(
        "moe-static-online",
        "experts",
        "S4",
        "ValueError",
        "Found static activation scheme for checkpoint that was not serialized fp8.",
        _static_online,
        predicate="per-tensor FP8 experts, activation_scheme static, not FP8-serialised",
        meaning="Static scales come from a checkpoint; 16-bit weights quantised at load have none.",
        fixes=('set "activation_scheme": "dynamic"',),
        source=f"{FP8}:1805",
        related=("cfg-act-assert", "cfg-block-static"),
    ),
    row(
        "moe-hw",
        "experts",
        "S6",
        "RuntimeError",
        "MXFP8 MoE quantization requires SM100 or ROCm gfx95 (gfx942 converts MXFP8 to block-fp8 "
        "at load instead).",
        _hw,
        predicate="MXFP8 experts, not converted, not MegaMoE, and neither the SM100 family with "
        "CUDA >= 12.8 nor gfx95",
        hardware="SM90, SM110, SM120, SM121, gfx1250",
        meaning="There is no MXFP8 expert kernel for this GPU, though its dense layers may run. "
        "Consumer and workstation Blackwell are among them. The checkpoint has been read by now.",
        fallback="gfx942 converts the experts to block FP8 at load and does not get here",
        fixes=(
            "serve a block-FP8 [128, 128] checkpoint of the model",
            "use a B200, GB200, B300, GB300, MI350X or MI355X",
        ),
        source=f"{FP8}:2322",
        related=("arg-moe-runner-mxfp8", "cfg-min-capability"),
    ),
    row(
        "moe-k32",
        "experts",
        "S6",
        "AssertionError",
        ("k={k} must be divisible by 32 for MXFP8", "k={k} must be divisible by 32"),
        _k32,
        predicate="experts quantised at load, and the hidden or intermediate size % 32 != 0",
        hardware="SM100, SM103, MI350X, MI355X",
        meaning="The expert's weight has no whole number of 32-blocks along K.",
        fixes=("a --tp-size that leaves the intermediate size a multiple of 32",),
        source=f"{FP8}:2332,2402,2413,2430",
        related=("act-grp-k32", "moe-inter-k"),
    ),
    row(
        "moe-tk-rows",
        "experts",
        "S6",
        "RuntimeError",
        "shape '{shape}' is invalid for input of size {size}",
        _tk_rows,
        predicate="a runner other than cutlass, deep_gemm and trtllm (auto left as it is, triton), "
        "and rows of w13 or w2 % 128 != 0",
        hardware=_HW,
        meaning="The scale is viewed as if its rows were padded to 128, and they are not. Usually "
        "the runner stayed auto because the server arguments did not know about MXFP8.",
        fixes=(
            "--moe-runner-backend deep_gemm or flashinfer_trtllm",
            "--quantization mxfp8, so that the arguments know",
        ),
        source=f"{FP8}:2391",
        related=("arg-moe-runner-mxfp8", "silent-moe-triton"),
    ),
    row(
        "moe-trtllm-nofi",
        "experts",
        "S6",
        "ModuleNotFoundError",
        "No module named 'flashinfer'",
        _nofi,
        predicate="a TRT-LLM runner (the default on CUDA) without FlashInfer",
        hardware=_HW,
        meaning="The runner that the arguments chose lives in FlashInfer.",
        fixes=("install FlashInfer", "--moe-runner-backend deep_gemm"),
        source=f"{_TRTLLM}:393",
        related=("arg-moe-runner-mxfp8",),
    ),
    row(
        "moe-trtllm-sf-rows",
        "experts",
        "S6",
        "AssertionError",
        "input_tensor.shape[0] must be multiples of 32",
        _sf_rows,
        predicate="a TRT-LLM runner and the hidden size % 128 != 0 (the intermediate size was "
        "rounded up to 128 already); the text comes only where it is not a multiple of 32 either",
        hardware=_HW,
        meaning="Weight rows and scales are shuffled in tiles of 128 rows. For multiples of 32 the "
        "assertion has no text at all.",
        fixes=("--moe-runner-backend cutlass or deep_gemm",),
        source="flashinfer/utils.py:1123",
        related=("moe-trtllm-cols", "wsp-trtllm-n32"),
    ),
    row(
        "moe-trtllm-cols",
        "experts",
        "S6",
        "RuntimeError",
        "shape '{shape}' is invalid for input of size {size}",
        _cols,
        predicate="a TRT-LLM runner and (intermediate size / 32) % 4 != 0; SGLang's own layers "
        "round the size up to 128 and never get here",
        hardware=_HW,
        meaning="The swizzle pads the scale's columns to a multiple of 4.",
        fixes=("--moe-runner-backend cutlass or deep_gemm",),
        source=f"{_TRTLLM}:494",
        related=("moe-trtllm-sf-rows", "wsp-trtllm-cols"),
    ),
)
