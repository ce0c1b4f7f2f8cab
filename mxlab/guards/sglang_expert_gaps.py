"""FP8 experts on runners that have no path for them, and places without a check (S6, S8)."""

from mxlab.guards.engine import Finding, Guard
from mxlab.guards.experts import experts_of, intermediate_of, not_processed, w13_rows
from mxlab.guards.facts import Facts
from mxlab.guards.findings import judge, modulo, passes, silent, skipped
from mxlab.guards.linear import block_sizes
from mxlab.guards.rows import FP8, row
from mxlab.guards.runner import TRTLLM, executes

#: runners that Fp8MoEMethod builds or calls (fp8.py:2985, 3185)
_FP8_RUNNERS = (
    *("deep_gemm", "triton", "aiter", *TRTLLM, "hpc_ops", "flashinfer_megamoe", "cutlass"),
    "intel_xpu",
)


def _fp8(facts: Facts) -> Finding | None:
    experts = experts_of(facts)
    if not experts.quantized:
        return skipped(experts.why_not or "the experts are not quantised")
    return None if facts.quant.fp8_config else skipped(facts.quant.why)


def _mega_fp8(facts: Facts) -> Finding:
    skip = _fp8(facts)
    if skip:
        return skip
    if facts.runner.name != "flashinfer_megamoe":
        return skipped(f"the MoE runner is {facts.runner.name}, not flashinfer_megamoe")
    return judge(not facts.quant.mxfp8, f"MXFP8 experts: {facts.quant.mxfp8}")


def _unsupported(facts: Facts) -> Finding:
    skip = _fp8(facts)
    if skip:
        return skip
    name = executes(facts.runner.name, facts.platform, facts.deployment.moe_a2a_backend)
    because = f"MoE runner {name}, FP8 experts"
    # no runner is built for it, so the next line asks nothing for its backend
    return judge(name not in _FP8_RUNNERS, because, 1)


def _slice(facts: Facts) -> Finding:
    skip = not_processed(facts)
    if skip:
        return skip
    if facts.runner.name != "cutlass":
        return skipped(f"the MoE runner is {facts.runner.name}, not cutlass")
    rows, hidden = w13_rows(facts), experts_of(facts).hidden
    because = f"rows of w13 {modulo('R', rows, 128)}, of w2 {modulo('H', hidden, 128)}"
    if facts.quant.serialized:
        return skipped("serialised scales are kept as they are: silent-moe-cutlass-scale")
    if rows % 128 or hidden % 128:
        return silent(f"{because}: a swizzled scale is cut as if it were row-major")
    return passes(because)


def _gfx1250(facts: Facts) -> Finding:
    skip = _fp8(facts)
    if skip:
        return skip
    p = facts.platform
    if not (p.gfx1250 and p.aiter_moe):
        return skipped("gfx1250 with SGLANG_USE_AITER=1 only")
    sizes, inter = block_sizes(facts), intermediate_of(facts)
    if sizes != (128, 128):
        return skipped(f"blocks of {sizes}, not [128, 128]")
    because = modulo("I", inter, 128)
    if inter % 128 == 0:
        return passes(because)
    return silent(f"{because}: padded to 128 and not looked at, as if AITER ran the linears too")


GUARDS: tuple[Guard, ...] = (
    row(
        "silent-gfx1250-aiter",
        "experts",
        "S4",
        "",
        (),
        _gfx1250,
        predicate="gfx1250 with SGLANG_USE_AITER=1, blocks of [128, 128], and an intermediate size "
        "that is no multiple of 128",
        hardware="gfx1250",
        meaning="The dense layers except gfx1250 from AITER and the experts do not: the experts' "
        "size is padded and its checks (moe-inter-n, moe-inter-k) are skipped.",
        fallback="experts padded to 128",
        fixes=("unset SGLANG_USE_AITER",),
        source=f"{FP8}:1580, srt/layers/quantization/fp8_utils.py:140",
        related=("moe-inter-n", "moe-inter-k"),
    ),
    row(
        "silent-moe-cutlass-slice",
        "experts",
        "S6",
        "",
        (),
        _slice,
        predicate="runner cutlass, experts quantised at load, and rows of w13 or w2 % 128 != 0",
        hardware="SM100, SM103",
        meaning="The op returns scales in the 128x4 swizzle, padded to 128 rows; cutting the first "
        "rows off a swizzled buffer gives bytes of other rows. Read from the source, not run.",
        fallback="goes on with scales of other rows",
        fixes=("--moe-runner-backend deep_gemm or flashinfer_trtllm",),
        source=f"{FP8}:2369",
        related=("silent-moe-cutlass-scale", "moe-es-k128"),
    ),
    row(
        "moe-mega-fp8",
        "experts",
        "S8",
        "ValueError",
        "FlashInfer MegaMOE does not support standard FP8 MoE weights; use MXFP8, NVFP4, or an "
        "FP4-expert checkpoint.",
        _mega_fp8,
        predicate="runner flashinfer_megamoe and FP8 experts that are not MXFP8; arg-mega-quant "
        "stops before where the all-to-all is MegaMoE's too",
        hardware="SM100, SM103",
        meaning="MegaMoE is written for MXFP8 and FP4 experts.",
        fixes=("--moe-runner-backend auto --moe-a2a-backend none",),
        source=f"{FP8}:3239",
        related=("arg-mega-quant",),
    ),
    row(
        "moe-runner-unsupported",
        "experts",
        "S8",
        "NotImplementedError",
        (
            "Unsupported runner backend: {b}",
            "'NoneType' object has no attribute 'runner_backend'",
        ),
        _unsupported,
        predicate="FP8 experts and a runner that has no FP8 path (marlin, humming, ...); no runner "
        "is built, and an AttributeError comes before the text that would say so",
        meaning="The runner that you named is for another format.",
        fixes=("--moe-runner-backend auto",),
        source=f"{FP8}:3235,3357",
        related=("arg-moe-runner-mxfp8",),
    ),
)
