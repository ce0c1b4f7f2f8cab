"""Places where SGLang has no check, and the result is slow, wrong or not what was asked for."""

from mxlab.guards.backend import MXFP8_FLAGS, effective_flag
from mxlab.guards.engine import Finding, Guard
from mxlab.guards.facts import Facts
from mxlab.guards.findings import passes, silent, skipped
from mxlab.guards.linear import not_mxfp8
from mxlab.guards.platform import env_flag
from mxlab.guards.quant import min_capability
from mxlab.guards.rows import FP8, FP8_UTILS, row


def _gemm_flag(facts: Facts) -> Finding:
    skip = not_mxfp8(facts)
    if skip:
        return skip
    asked, got = facts.deployment.fp8_gemm_backend, facts.dense.backend
    if asked == "auto":
        return passes(f"auto asks for nothing and gets {got}")
    if facts.dense.kind == "block-as-mxfp8":
        return passes(f"{asked} gives {got} for block FP8 served as MXFP8")
    if effective_flag(facts.platform, asked) in MXFP8_FLAGS:
        return passes(f"{asked} owns an MXFP8 kernel")
    return silent(f"{asked} owns no MXFP8 dense kernel: the layer runs on {got}")


def _hopper_gate(facts: Facts) -> Finding:
    if not facts.quant.mxfp8:
        return skipped(facts.quant.why)
    p = facts.platform
    if not p.cuda or p.capability is None or p.capability // 10 != 9:
        return skipped(f"{p.gpu.label} is not a Hopper GPU")
    least = min_capability(p, mxfp8=True)
    return silent(
        f"capability {p.capability} < {least}, so the checkpoint is refused, although DeepGEMM "
        f"would serve it ({'present' if p.deep_gemm else 'absent'} here)"
    )


def _marlin(facts: Facts) -> Finding:
    skip = not_mxfp8(facts)
    if skip:
        return skip
    if not facts.platform.cuda:
        return skipped("Marlin is for CUDA")
    if not env_flag(facts.deployment.env, "SGLANG_FORCE_FP8_MARLIN", new=False):
        return passes("SGLANG_FORCE_FP8_MARLIN is not set")
    return silent("SGLANG_FORCE_FP8_MARLIN is set: exponent bytes are converted as if scales")


def _hopper_activation(facts: Facts) -> Finding:
    skip = not_mxfp8(facts, "deep_gemm")
    if skip:
        return skip
    if facts.platform.ue8m0:
        return passes("activations get power-of-two scales")
    return silent("activations are quantised per 32 with a float32 scale amax / 448")


GUARDS: tuple[Guard, ...] = (
    row(
        "silent-hopper-gate",
        "config",
        "S3",
        "",
        (),
        _hopper_gate,
        predicate="SM90 and an mxfp8 method: the gate wants 100, the kernels and texts name Hopper",
        hardware="SM90",
        meaning="Error texts and the backend rules speak of Hopper with DeepGEMM, but the "
        "capability gate of ordinary MXFP8 checkpoints is 100. Only modelopt_mixed, MiniMax M3.1 "
        "NVFP4 and the diffusion loader get through with 90.",
        fallback="none: cfg-min-capability stops",
        fixes=("on Hopper, serve a block-FP8 [128, 128] checkpoint",),
        source=f"{FP8}:329",
        related=("cfg-min-capability", "fwd-unsupported"),
    ),
    row(
        "silent-gemm-flag",
        "linear",
        "S4",
        "",
        (),
        _gemm_flag,
        predicate="--fp8-gemm-backend is triton, cutlass, aiter or flashinfer_deepgemm",
        meaning="These values choose a block-FP8 kernel. For MXFP8 they are ignored without a word "
        "and the automatic rules decide.",
        fallback="the backend that auto would give",
        fixes=("--fp8-gemm-backend auto says what you get", "name a backend that has MXFP8"),
        source=f"{FP8_UTILS}:834",
        related=("res-deepgemm", "res-cutlass"),
    ),
    row(
        "silent-marlin",
        "linear",
        "S6",
        "",
        (),
        _marlin,
        predicate="SGLANG_FORCE_FP8_MARLIN is set for MXFP8 weights",
        hardware="NVIDIA GPUs",
        meaning="The Marlin preparation turns the uint8 exponents into floats by value: byte 120 "
        "becomes 120.0, not 2^-7. Read from the source, not run.",
        fallback="goes on with wrong scales",
        fixes=("unset SGLANG_FORCE_FP8_MARLIN",),
        source=f"{FP8}:516,1303",
        related=("silent-gemm-flag",),
    ),
    row(
        "silent-hopper-activation",
        "linear",
        "S8",
        "",
        (),
        _hopper_activation,
        predicate="backend deep_gemm without UE8M0 scales (SM90, Blackwell with CUDA < 12.8)",
        hardware="SM90",
        meaning="Only the weights are MXFP8 there: results differ a little from Blackwell's.",
        fallback="goes on with other numerics",
        fixes=("do not compare bits across GPU generations",),
        source=f"{FP8_UTILS}:1089",
        related=("wsp-deepgemm",),
    ),
)
