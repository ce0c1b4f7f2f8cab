"""SGLang's checks of the all-to-all that carries tokens to the experts (S1, S4, S8)."""

from collections.abc import Sequence

from mxlab.guards.engine import Finding, Guard, Status
from mxlab.guards.experts import experts_of
from mxlab.guards.facts import Deployment, Facts
from mxlab.guards.findings import judge, passes, shown, skipped, stops
from mxlab.guards.platform import env_flag
from mxlab.guards.rows import row
from mxlab.guards.settings import flag, number

_HOOK = "srt/arg_groups/moe_hook.py"
_W4A16 = "SGLANG_FLASHINFER_CUTEDSL_NVFP4_W4A16"
_NVFP4_DISPATCH = "SGLANG_MOE_NVFP4_DISPATCH"
_A2A_RUNNERS = (
    *("flashinfer_cutlass", "flashinfer_cutedsl", "flashinfer_trtllm"),
    *("flashinfer_trtllm_routed", "deep_gemm"),
)
#: all-to-all backends under which expert parallelism spans the TP group (overrides.py:1580)
SPANNING = (
    *("megamoe", "deepep", "deepep_v2", "mooncake", "nixl", "ascend_fuseep", "flashinfer"),
    *("flashinfer_megamoe", "mori", "pplx"),
)


def ep_size(d: Deployment) -> int:
    """Return --ep-size after SGLang's adjustment to the all-to-all backend."""
    return d.tp if d.moe_a2a_backend in SPANNING else d.ep


def attention_dp(d: Deployment) -> int:
    """Return the ranks of data-parallel attention; 1 means that it is off."""
    return number(d.settings, "attn-dp-size")


def mega_quantization(facts: Facts) -> bool:
    """Tell whether FlashInfer MegaMoE takes the experts' quantization (moe_hook.py:262)."""
    q, d = facts.runner.quantization, facts.deployment
    online = q == "nvfp4_online" and env_flag(d.env, _W4A16)
    fp4 = flag(d.settings, "fp4-experts") or flag(d.settings, "nvfp4-experts")
    return q in ("mxfp8", "modelopt_fp4") or online or fp4


def mega_architecture(architectures: Sequence[str], known: Sequence[str]) -> Finding:
    """Return SGLang's check of config.json's architectures (moe_hook.py:234)."""
    values = {"a": [name[:80] for name in architectures], "list": sorted(known)}
    bad = not any(name in known for name in architectures)
    because = f"architectures {shown(list(architectures))}"
    return Finding(Status.STOPS if bad else Status.PASSES, because, values)


def mega(facts: Facts) -> Finding | None:
    """Return not-reached unless the all-to-all backend is flashinfer_megamoe."""
    a2a = facts.deployment.moe_a2a_backend
    if a2a != "flashinfer_megamoe":
        return skipped(f"--moe-a2a-backend is {a2a}, not flashinfer_megamoe")
    return None


def mega_arch(facts: Facts, known: Sequence[str]) -> Finding:
    """Return the check for the one architecture that a deployment names."""
    skip = mega(facts)
    if skip:
        return skip
    name = facts.deployment.architecture
    if not name:
        return Finding(Status.UNKNOWN, "the architecture is not known")
    return mega_architecture([name], known)


def _mega_w4a16(facts: Facts) -> Finding:
    skip = mega(facts)
    if skip:
        return skip
    env = facts.deployment.env
    if not env_flag(env, _W4A16):
        return skipped(f"{_W4A16} is not set")
    dtype = env.get("SGLANG_FLASHINFER_MEGAMOE_COMBINE_DTYPE", "bf16").strip().lower()[:40]
    return judge(dtype != "bf16", f"combine dtype {dtype}")


def _mega_dp(facts: Facts) -> Finding:
    d = facts.deployment
    dp = attention_dp(d)
    because = f"attention DP {dp}, TP {d.tp}"
    return mega(facts) or judge(not (dp > 1 and dp == d.tp), because)


def _flashinfer(facts: Facts) -> Finding | None:
    a2a = facts.deployment.moe_a2a_backend
    return None if a2a == "flashinfer" else skipped(f"--moe-a2a-backend is {a2a}, not flashinfer")


def _topology(facts: Facts) -> Finding:
    skip = _flashinfer(facts)
    if skip:
        return skip
    d = facts.deployment
    dp, ep = attention_dp(d), ep_size(d)
    because = f"attention DP {dp}, TP {d.tp}, EP {ep}"
    muse = (
        d.architecture == "MuseSparkForConditionalGeneration"
        and flag(d.settings, "enable-layernorm-sp")
        and dp == 1
        and (d.tp, ep) in ((4, 4), (8, 8))
    )
    return judge(not muse and not (dp > 1 and dp == d.tp), because)


def _a2a_runner(facts: Facts) -> Finding:
    name = facts.runner.name
    return _flashinfer(facts) or judge(name not in _A2A_RUNNERS, f"MoE runner {name}")


def _dispatch_given(facts: Facts) -> Finding | None:
    skip = _flashinfer(facts)
    if skip:
        return skip
    if facts.deployment.flashinfer_a2a_dispatch_type is None:
        return skipped("--flashinfer-a2a-dispatch-type is not given")
    return None


def _a2a_env(facts: Facts) -> Finding:
    there = _NVFP4_DISPATCH in facts.deployment.env
    because = f"{_NVFP4_DISPATCH} is {'set' if there else 'not set'}"
    return _dispatch_given(facts) or judge(there, because)


def _a2a_nvfp4(facts: Facts) -> Finding:
    skip = _dispatch_given(facts)
    if skip:
        return skip
    d, q = facts.deployment, facts.runner.quantization
    if d.flashinfer_a2a_dispatch_type != "nvfp4":
        return skipped(f"the dispatch type is {d.flashinfer_a2a_dispatch_type}, not nvfp4")
    hybrid = flag(d.settings, "nvfp4-experts")
    return judge(q != "modelopt_fp4" and not hybrid, f"quantization {q}, NVFP4 experts {hybrid}")


def _mori(facts: Facts) -> Finding:
    d = facts.deployment
    if d.moe_a2a_backend != "mori" or d.env.get("SGLANG_MORI_DISPATCH_DTYPE") != "mxfp8":
        return skipped("--moe-a2a-backend mori with SGLANG_MORI_DISPATCH_DTYPE=mxfp8 only")
    there = flag(d.settings, "aiter-per-1x32-scale-type")
    because = f"AITER's per_1x32 takes scale_type: {there}"
    return passes(because) if there else Finding(Status.FALLS_BACK, because)


def _deepep_v2(facts: Facts) -> Finding:
    d, q, experts = facts.deployment, facts.quant, experts_of(facts)
    if d.moe_a2a_backend != "deepep_v2":
        return skipped(f"--moe-a2a-backend is {d.moe_a2a_backend}, not deepep_v2")
    if q.method is None or not experts.quantized:
        return skipped(experts.why_not or q.why)
    if not q.fp8_config:
        return stops(f"the method is {q.method}", reason=f"selected {q.method}'s own method")
    if flag(d.settings, "fp4-experts"):
        return stops("FP4 experts", reason="selected FP4 experts")
    block = [128, 128] if facts.dense.kind == "converted" else q.block
    wanted = [1, 32] if q.mxfp8 and facts.dense.kind != "converted" else [128, 128]
    because = f"weight_block_size {shown(block)}, wanted {wanted}; activation {shown(q.activation)}"
    if not isinstance(block, list | tuple) or list(block) != wanted:
        named = f"has {'MXFP8 ' if q.mxfp8 else ''}weight_block_size={shown(block)}"
        return stops(because, reason=named)
    reason = f"has activation_scheme={shown(q.activation)!r}"
    return judge(q.activation != "dynamic", because, reason=reason)


_NONE = "--moe-a2a-backend none"
_DP = "--enable-dp-attention --dp-size equal to --tp-size"

#: in SGLang's order, before its check of the runner (arg-mega-runner)
MEGA_GUARDS: tuple[Guard, ...] = (
    row(
        "arg-mega-w4a16",
        "server",
        "S1",
        "ValueError",
        "FlashInfer MegaMOE NVFP4 W4A16 requires SGLANG_FLASHINFER_MEGAMOE_COMBINE_DTYPE=bf16.",
        _mega_w4a16,
        predicate=f"--moe-a2a-backend flashinfer_megamoe, {_W4A16} on, and a combine dtype other "
        "than bf16",
        meaning="Two environment variables of FlashInfer MegaMoE contradict each other.",
        fixes=("unset SGLANG_FLASHINFER_MEGAMOE_COMBINE_DTYPE", f"unset {_W4A16}"),
        source=f"{_HOOK}:216",
        related=("arg-mega-combine",),
    ),
    row(
        "arg-mega-dp",
        "server",
        "S1",
        "AssertionError",
        "FlashInfer MegaMOE is only supported with --attn-dp-size equal to --tp-size",
        _mega_dp,
        predicate="--moe-a2a-backend flashinfer_megamoe and attention DP is off or not the TP size",
        meaning="MegaMoE expects every rank to bring its own tokens, which data-parallel attention "
        "does.",
        fixes=(_DP, _NONE),
        source=f"{_HOOK}:325",
        related=("arg-mega-runner", "arg-a2a-topology"),
    ),
)

#: in SGLang's order, before its checks of the dispatch type (arg-a2a-mxfp8-quant)
A2A_GUARDS: tuple[Guard, ...] = (
    row(
        "arg-a2a-topology",
        "server",
        "S1",
        "AssertionError",
        "Flashinfer MoE A2A requires --attn-dp-size equal to --tp-size, except for Muse Spark "
        "TP4/EP4 or TP8/EP8 prefill sequence parallelism.",
        _topology,
        predicate="--moe-a2a-backend flashinfer, and attention DP is off or not the TP size (Muse "
        "Spark with sequence-parallel norms may do without)",
        meaning="The all-to-all expects every rank to bring as many tokens of its own.",
        fixes=(_DP, _NONE),
        source=f"{_HOOK}:475",
        related=("arg-a2a-runner", "arg-mega-dp"),
    ),
    row(
        "arg-a2a-env",
        "server",
        "S1",
        "ValueError",
        "SGLANG_MOE_NVFP4_DISPATCH cannot be set together with --flashinfer-a2a-dispatch-type.",
        _a2a_env,
        predicate="--flashinfer-a2a-dispatch-type is given and SGLANG_MOE_NVFP4_DISPATCH is set",
        meaning="The variable is the older way of saying the same.",
        fixes=("unset SGLANG_MOE_NVFP4_DISPATCH",),
        source=f"{_HOOK}:172",
        related=("arg-a2a-nvfp4",),
    ),
)

GUARDS: tuple[Guard, ...] = (
    row(
        "arg-a2a-nvfp4",
        "server",
        "S1",
        "ValueError",
        "--flashinfer-a2a-dispatch-type nvfp4 requires NVFP4/modelopt-FP4 quantization or hybrid "
        "NVFP4 MoE metadata.",
        _a2a_nvfp4,
        predicate="dispatch type nvfp4 and experts that are not NVFP4",
        meaning="Tokens would travel as FP4 to experts that are not.",
        fixes=("--flashinfer-a2a-dispatch-type auto",),
        source=f"{_HOOK}:202",
        related=("arg-a2a-mxfp8-quant",),
    ),
    row(
        "arg-a2a-runner",
        "server",
        "S1",
        "AssertionError",
        "FlashInfer MoE A2A is supported with flashinfer_cutlass, flashinfer_cutedsl, "
        "flashinfer_trtllm, flashinfer_trtllm_routed, or deep_gemm.",
        _a2a_runner,
        predicate="--moe-a2a-backend flashinfer with another runner",
        meaning="Only these runners take tokens that come with their experts chosen.",
        fixes=("--moe-runner-backend flashinfer_trtllm_routed or deep_gemm", _NONE),
        source=f"{_HOOK}:531",
        related=("arg-a2a-topology", "arg-a2a-mxfp8-runner"),
    ),
    row(
        "arg-deepep-v2",
        "experts",
        "S4",
        "ValueError",
        "--moe-a2a-backend deepep_v2 requires 128x128 blockwise FP8 or 1x32 MXFP8 experts with "
        "dynamic activation scaling or unquantized BF16 experts, but this layer {reason}. Use a "
        "compatible checkpoint or --moe-a2a-backend deepep.",
        _deepep_v2,
        predicate="--moe-a2a-backend deepep_v2 and experts of another class, FP4, another block "
        "than [1, 32] (MXFP8) or [128, 128], or static activations",
        meaning="DeepEP v2 sends tokens in one of these two forms.",
        fixes=("--moe-a2a-backend deepep",),
        source="srt/layers/moe/fused_moe_triton/layer.py:299",
        related=("arg-a2a-topology",),
    ),
    row(
        "arg-mori-mxfp8",
        "server",
        "S8",
        "warning",
        "SGLANG_MORI_DISPATCH_DTYPE=mxfp8 requires an aiter build whose per_1x32 quant accepts "
        "scale_type (for the group-32 e8m0 byte layout the MoE kernels consume). This aiter does "
        "not, so the send-side quant would emit continuous fp32 scales and the MoE would read them "
        "as e8m0 bytes. Falling back to bf16 dispatch.",
        _mori,
        predicate="--moe-a2a-backend mori, SGLANG_MORI_DISPATCH_DTYPE=mxfp8, and an AITER without "
        "scale_type",
        hardware="MI350X, MI355X",
        meaning="Older AITER would send float32 scales that the experts read as bytes.",
        fallback="tokens travel in bfloat16",
        fixes=("a newer aiter", "SGLANG_MORI_DISPATCH_DTYPE=bf16"),
        source="srt/layers/moe/token_dispatcher/moriep.py:933",
        related=("g95-mxscale-missing",),
    ),
)
