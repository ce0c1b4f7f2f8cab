"""FP8 checkpoints on GPUs without FP8 arithmetic, SM80 to SM88 (S6, S8)."""

from mxlab.guards.engine import Finding, Guard, Status
from mxlab.guards.experts import experts_of
from mxlab.guards.facts import Facts
from mxlab.guards.findings import passes, skipped, stops
from mxlab.guards.linear import not_quantized
from mxlab.guards.platform import env_flag
from mxlab.guards.rows import FP8, row
from mxlab.guards.runner import executes

FIRST_FP8 = 89  # capability of the first NVIDIA GPUs that multiply E4M3


def _reach(facts: Facts) -> Finding | None:
    """The weights are FP8 (not MXFP8, which the capability gate stops) and the GPU is NVIDIA's."""
    p = facts.platform
    if not facts.quant.fp8_config or facts.quant.mxfp8:
        return skipped(facts.quant.why)
    if not p.cuda or p.capability is None or p.capability < 80:
        return skipped(f"{p.gpu.label}: capability {p.capability}, not an NVIDIA GPU from 80 on")
    return None


def _marlin(facts: Facts) -> Finding:
    skip = not_quantized(facts) or _reach(facts)
    if skip:
        return skip
    cap = facts.platform.capability or 0
    if cap < FIRST_FP8:
        return Finding(Status.FALLS_BACK, f"capability {cap} < {FIRST_FP8}: no FP8 arithmetic")
    if env_flag(facts.deployment.env, "SGLANG_FORCE_FP8_MARLIN", new=False):
        return Finding(Status.FALLS_BACK, "SGLANG_FORCE_FP8_MARLIN is set")
    return passes(f"capability {cap} >= {FIRST_FP8}: FP8 arithmetic")


def _triton(facts: Facts) -> Finding:
    experts = experts_of(facts)
    if not experts.quantized:
        return skipped(experts.why_not or "the experts are not quantised")
    skip = _reach(facts)
    if skip:
        return skip
    name = executes(facts.runner.name, facts.platform, facts.deployment.moe_a2a_backend)
    if name != "triton":
        return skipped(f"the MoE runner is {name}, not triton")
    cap = facts.platform.capability or 0
    if cap < FIRST_FP8:
        return stops(f"capability {cap} < {FIRST_FP8}: Triton has no E4M3 there")
    return passes(f"capability {cap} >= {FIRST_FP8}: Triton has E4M3")


GUARDS: tuple[Guard, ...] = (
    row(
        "lin-fp8-marlin",
        "linear",
        "S6",
        "warning",
        "Your GPU does not have native support for FP8 computation but FP8 quantization is being "
        "used. Weight-only FP8 compression will be used leveraging the Marlin kernel. This may "
        "degrade performance for compute-heavy workloads.",
        _marlin,
        predicate="FP8 weights (not MXFP8) on capability 80 to 88, or SGLANG_FORCE_FP8_MARLIN",
        hardware="A100, A10 and other SM80 to SM88",
        meaning="The weights stay FP8 in memory and are widened inside the kernel; activations "
        "stay in 16 bit. Memory is saved, no FP8 speed is gained.",
        fallback="the Marlin kernel: 8-bit weights, 16-bit activations (W8A16)",
        fixes=("nothing, if memory is what you want to save", "an L4, L40S, H100 or newer"),
        source=f"{FP8}:516, srt/layers/quantization/marlin_utils_fp8.py:105",
        related=("moe-fp8-triton", "silent-marlin"),
    ),
    row(
        "moe-fp8-triton",
        "experts",
        "S8",
        "ValueError",
        "type fp8e4nv not supported in this architecture. The supported fp8 dtypes are "
        "('fp8e4b15', 'fp8e5')",
        _triton,
        predicate="FP8 experts (not MXFP8) on the Triton runner, capability 80 to 88",
        hardware="A100, A10 and other SM80 to SM88",
        meaning="fp8e4nv is Triton's name of E4M3, which it compiles from capability 8.9 on. The "
        "dense layers of the same model run (lin-fp8-marlin); the experts do not.",
        fixes=("a 16-bit checkpoint of the model", "an L4, L40S, H100 or newer"),
        source="srt/layers/moe/moe_runner/triton.py (the text is Triton's, seen with 3.9.0)",
        related=("lin-fp8-marlin", "cfg-min-capability"),
    ),
)
