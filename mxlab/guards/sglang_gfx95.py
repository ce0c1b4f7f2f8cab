"""SGLang's checks of MXFP8 experts on gfx950, at the first forward (S8), and of Triton on CUDA."""

from mxlab.guards.engine import Finding, Guard
from mxlab.guards.experts import experts_of, intermediate_of, not_processed
from mxlab.guards.facts import Facts
from mxlab.guards.findings import judge, modulo, passes, skipped, stops
from mxlab.guards.rows import FP8, row
from mxlab.guards.runner import MINIMAX_M3, executes
from mxlab.guards.sglang_expert_calls import expert_call, not_runner

#: architectures that build their experts with gate and up one after the other
SPLIT_GATE_UP = (*MINIMAX_M3, "KimiK3ForConditionalGeneration", "KimiK3LinearForCausalLM")


def _shown(architecture: str) -> str:
    return architecture[:80] or "an ordinary architecture (none was given)"


def _runner(facts: Facts, wanted: str) -> Finding | None:
    skip = not_processed(facts)
    if skip:
        return skip
    a2a = facts.deployment.moe_a2a_backend
    name = executes(facts.runner.name, facts.platform, a2a)
    if not facts.platform.gfx95 or name != wanted:
        gpu = facts.platform.gpu.label
        return skipped(f"{gpu}, MoE runner {name}: not {wanted} on gfx95")
    return None


def _g95_act(facts: Facts) -> Finding:
    e = experts_of(facts)
    because = f"activation {e.activation}, gated {e.gated}"
    bad = e.activation != "silu" or not e.gated
    return _runner(facts, "triton") or judge(bad, because, a=repr(e.activation), g=e.gated)


def _g95_interleaved(facts: Facts) -> Finding:
    skip = _runner(facts, "triton")
    if skip:
        return skip
    name = facts.deployment.architecture
    if name in SPLIT_GATE_UP:
        return passes(f"{name} builds its experts split")
    return stops(f"{_shown(name)} builds its experts interleaved, which is the default")


def _g95_k128(facts: Facts) -> Finding:
    skip = _runner(facts, "triton")
    if skip:
        return skip
    hidden, inter = experts_of(facts).hidden, intermediate_of(facts)
    because = f"{modulo('H', hidden, 128)}, {modulo('I', inter, 128)}"
    bad = next((k for k in (hidden, inter) if k % 128), None)
    return passes(because) if bad is None else stops(because, k=bad)


def _aiter_alpha(facts: Facts) -> Finding:
    skip = _runner(facts, "aiter")
    if skip:
        return skip
    name = facts.deployment.architecture
    if name in MINIMAX_M3:
        return passes(f"{name} has swiglu-oai experts")
    return stops(f"{_shown(name)} has no gemm1_alpha of 1.702", a=None)


def _triton_cuda(facts: Facts) -> Finding:
    skip = not_runner(facts, "triton")
    if skip:
        return skip
    text = "Fp8MoEMethod sets the flag that this looks at on gfx950 only: see silent-moe-triton"
    return passes(text)


def _aiter_nocombine(facts: Facts) -> Finding:
    no_combine = expert_call(facts).no_combine
    return not_runner(facts, "aiter") or judge(no_combine, f"no_combine {no_combine}", b=no_combine)


def _g95_call(facts: Facts) -> Finding | None:
    skip = not_runner(facts, "triton")
    if skip:
        return skip
    p = facts.platform
    return None if p.gfx95 else skipped(f"{p.gpu.label} is not gfx95")


def _g95_bias(facts: Facts) -> Finding:
    bias = expert_call(facts).bias
    return _g95_call(facts) or judge(bias, f"expert bias: {bias}")


def _g95_weight(facts: Facts) -> Finding:
    on = expert_call(facts).router_weight_on_input
    return _g95_call(facts) or judge(on, f"router weight on the input: {on}")


_KERNEL = "kernels/ops/moe/mxfp8_moe_amd_gfx95.py"

GUARDS: tuple[Guard, ...] = (
    row(
        "moe-g95-act",
        "experts",
        "S8",
        "NotImplementedError",
        "native MXFP8 MoE only supports gated swiglu-oai, got activation={a} is_gated={g}.",
        _g95_act,
        predicate="gfx95 with the Triton runner, and not gated SiLU",
        hardware="MI350X, MI355X",
        meaning="The kernel has one activation built in.",
        fixes=("serve a block-FP8 checkpoint of the model",),
        source="kernels/ops/moe/mxfp8_moe_amd_gfx95.py:397",
        related=("moe-g95-itlv",),
    ),
    row(
        "moe-g95-itlv",
        "experts",
        "S8",
        "NotImplementedError",
        "native MXFP8 MoE expects uninterleaved (split) gate/up layout.",
        _g95_interleaved,
        predicate="gfx95 with the Triton runner, and an architecture that builds its experts with "
        "the default interleaved gate and up (all but MiniMax-M3 and Kimi-K3)",
        hardware="MI350X, MI355X",
        meaning="The native MXFP8 experts of gfx950 were written for MiniMax-M3. Other models stop "
        "at the first token.",
        fixes=(
            "SGLANG_FORCE_MXFP8_BLOCK_CONVERT=1 converts a serialised checkpoint to block FP8",
            "serve a block-FP8 checkpoint of the model",
        ),
        source="kernels/ops/moe/mxfp8_moe_amd_gfx95.py:408, srt/layers/moe/moe_runner/base.py:70",
        related=("moe-g95-act", "moe-aiter-alpha"),
    ),
    row(
        "moe-g95-k128",
        "experts",
        "S8",
        "AssertionError",
        "MXFP8 native MoE requires K%128==0, got K={k}",
        _g95_k128,
        predicate="gfx95 with the Triton runner, and the hidden or intermediate size % 128 != 0",
        hardware="MI350X, MI355X",
        meaning="The scaled MFMA instruction works on 128 values of K.",
        fixes=("--ep-size equal to --tp-size", "a smaller --tp-size"),
        source="kernels/ops/moe/mxfp8_moe_amd_gfx95.py:141",
        related=("g95-dot-fallback",),
    ),
    row(
        "moe-aiter-alpha",
        "experts",
        "S8",
        "NotImplementedError",
        "AITER MXFP8 MoE only supports swiglu-oai alpha=1.702, got gemm1_alpha={a}.",
        _aiter_alpha,
        predicate="gfx95 with the aiter runner, and experts whose gemm1_alpha is not 1.702 (None "
        "included: plain SiLU)",
        hardware="MI350X, MI355X",
        meaning="The kernel has the activation of MiniMax-M3 built in.",
        fixes=(
            "SGLANG_FORCE_MXFP8_BLOCK_CONVERT=1 converts a serialised checkpoint to block FP8",
            "serve a block-FP8 checkpoint of the model",
        ),
        source=f"{FP8}:3429",
        related=("moe-g95-itlv",),
    ),
    row(
        "moe-triton-cuda",
        "expert_call",
        "S8",
        "NotImplementedError",
        "Triton MoE runner does not support NVIDIA MXFP8; use --moe-runner-backend deep_gemm (or "
        "flashinfer_trtllm/cutlass).",
        _triton_cuda,
        predicate="the Triton runner on CUDA with use_mxfp8 set; Fp8MoEMethod never sets it there",
        hardware="NVIDIA GPUs, for code that builds its own quant info",
        meaning="The text that would refuse MXFP8 experts on Triton. From a served model it cannot "
        "fire, and what happens instead is silent-moe-triton.",
        fixes=("--moe-runner-backend deep_gemm or flashinfer_trtllm",),
        source="srt/layers/moe/moe_runner/triton.py:121,222",
        related=("silent-moe-triton", "moe-tk-rows"),
    ),
    row(
        "moe-aiter-nocombine",
        "expert_call",
        "S8",
        "AssertionError",
        "no_combine={b} is not supported.",
        _aiter_nocombine,
        predicate="gfx95 with the aiter runner and no_combine",
        hardware="MI350X, MI355X",
        meaning="The kernel adds up the experts of a token itself.",
        fixes=("--moe-runner-backend triton",),
        source=f"{FP8}:3416",
        related=("moe-trtllm-nocombine",),
    ),
    row(
        "moe-g95-bias",
        "expert_call",
        "S8",
        "NotImplementedError",
        "native MXFP8 MoE does not support expert bias.",
        _g95_bias,
        predicate="gfx95 with the Triton runner and experts with a bias (gpt-oss)",
        hardware="MI350X, MI355X",
        meaning="The kernel was written for MiniMax-M3, whose experts have no bias.",
        fixes=("--moe-runner-backend aiter with SGLANG_USE_AITER=1", "a block-FP8 checkpoint"),
        source=f"{_KERNEL}:402",
        related=("moe-g95-w", "moe-g95-itlv"),
    ),
    row(
        "moe-g95-w",
        "expert_call",
        "S8",
        "NotImplementedError",
        "native MXFP8 MoE does not support apply_router_weight_on_input.",
        _g95_weight,
        predicate="gfx95 with the Triton runner and apply_router_weight_on_input (Llama 4)",
        hardware="MI350X, MI355X",
        meaning="The kernel multiplies by the router's weight after the experts.",
        fixes=("a block-FP8 checkpoint of the model",),
        source=f"{_KERNEL}:404",
        related=("moe-g95-bias",),
    ),
)
