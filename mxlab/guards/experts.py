"""What the guards of routed experts have in common."""

from mxlab.guards.engine import Finding, Status
from mxlab.guards.facts import ExpertFacts, Facts, Platform
from mxlab.guards.findings import pad, skipped
from mxlab.guards.quant import converts
from mxlab.guards.runner import TRTLLM


def experts_of(facts: Facts) -> ExpertFacts:
    """Return the experts; the engine asks these guards only where there are some."""
    assert facts.experts is not None
    return facts.experts


def intermediate_of(facts: Facts) -> int:
    """Return the intermediate size of one rank as SGLang lays it out.

    The TRT-LLM runners round it up to 128 before anything looks at it. Source: sglang 0.5.23,
    srt/layers/moe/fused_moe_triton/layer.py:515.
    """
    size = experts_of(facts).intermediate
    return pad(size, 128) if facts.runner.name in TRTLLM else size


def w13_rows(facts: Facts) -> int:
    """Return the rows of the first weight: gate and up for gated experts."""
    return intermediate_of(facts) * (2 if experts_of(facts).gated else 1)


def cutlass_supported(p: Platform) -> bool:
    """Tell whether SGLang calls CUTLASS FP8 supported (fp8_utils.py:397)."""
    if not p.cuda or p.capability is None:
        return False
    if p.capability >= 90:
        return p.toolkit >= (12, 0)
    return p.capability == 89 and p.toolkit >= (12, 4)


def not_mxfp8_experts(facts: Facts) -> Finding | None:
    """Return not-reached unless the experts are processed as MXFP8."""
    experts = experts_of(facts)
    if not experts.quantized:
        return skipped(experts.why_not or "the experts are not quantised")
    if facts.dense.kind == "unknown":
        return Finding(Status.UNKNOWN, facts.dense.why)
    if not facts.quant.mxfp8:
        return skipped(facts.quant.why)
    if converts(facts.quant, facts.platform, dense=False):
        return skipped("MXFP8 experts become block FP8 [128, 128] at load")
    if facts.runner.name == "flashinfer_megamoe":
        return skipped("FlashInfer MegaMoE prepares the weights itself")
    return None


def not_processed(facts: Facts) -> Finding | None:
    """As ``not_mxfp8_experts``, and the hardware check has let them through."""
    skip = not_mxfp8_experts(facts)
    if skip:
        return skip
    p = facts.platform
    if not (p.sm100 or p.gfx95):
        return skipped(f"moe-hw stops first on {p.gpu.label}")
    return None
