"""SGLang's checks of the server arguments that decide about MXFP8 experts (S1)."""

from mxlab.guards.engine import Finding, Guard, Status
from mxlab.guards.facts import Facts
from mxlab.guards.findings import judge, passes, skipped, stops
from mxlab.guards.rows import row
from mxlab.guards.sglang_dispatch import A2A_GUARDS, MEGA_GUARDS, mega, mega_arch, mega_quantization
from mxlab.guards.sglang_server_fp4 import RUNNER_GUARDS

_HOOK = "srt/arg_groups/moe_hook.py"
TRTLLM_QUANT = (
    *("modelopt_fp4", "nvfp4_online", "fp8", "mxfp8", "modelopt_fp8", "modelopt_mixed"),
    *("compressed-tensors", None),
)
ROUTED_QUANT = (
    *("fp8", "mxfp8", "modelopt_fp4", "modelopt_mixed", "nvfp4_online", "minimax_m3_nvfp4"),
    None,
)
MEGA_ARCHITECTURES = (
    *("BeamForCausalLM", "DeepseekV2ForCausalLM", "DeepseekV3ForCausalLM"),
    *("DeepseekV32ForCausalLM", "DeepseekV4ForCausalLM", "Glm4MoeForCausalLM"),
    *("GlmMoeDsaForCausalLM", "NemotronHForCausalLM", "NemotronHPuzzleForCausalLM"),
    *("Qwen2MoeForCausalLM", "Qwen3MoeForCausalLM", "KimiK3ForConditionalGeneration"),
    "KimiK3LinearForCausalLM",
)
_COMBINE = "SGLANG_FLASHINFER_MEGAMOE_COMBINE_DTYPE"
_REDUCE = "SGLANG_FLASHINFER_MEGAMOE_IN_KERNEL_FC2_REDUCE"


def _runner_mxfp8(facts: Facts) -> Finding:
    r = facts.runner
    if r.quantization != "mxfp8":
        known = r.quantization or "not known"
        return skipped(f"the server arguments' quantization is {known}: only mxfp8 is looked at")
    if r.overruled:
        allowed = ", ".join(r.overruled)
        because = f"--moe-runner-backend {r.asked} becomes {r.name}"
        return Finding(Status.WARNS, because, {"allowed": allowed, "runner": repr(r.asked)})
    return passes(f"--moe-runner-backend {r.asked} gives {r.name}")


def _named(facts: Facts, runners: tuple[str, ...], quants: tuple[str | None, ...]) -> Finding:
    r = facts.runner
    if r.name not in runners:
        return skipped(f"the MoE runner is {r.name}, not {' or '.join(runners)}")
    because = f"MoE runner {r.name}, the server arguments' quantization {r.quantization}"
    return judge(r.quantization not in quants, because, q=r.quantization)


def _cutlass_ep(facts: Facts) -> Finding:
    r, ep = facts.runner, facts.deployment.ep
    if r.name != "cutlass" or r.quantization not in ("fp8", "mxfp8"):
        return skipped(f"the MoE runner is {r.name}, the quantization {r.quantization}")
    return judge(ep != 1, f"--ep-size {ep}")


def _a2a_type(facts: Facts) -> Finding:
    d = facts.deployment
    if d.flashinfer_a2a_dispatch_type in (None, "auto"):
        return skipped("--flashinfer-a2a-dispatch-type is not given")
    because = f"--moe-a2a-backend {d.moe_a2a_backend}"
    return judge(d.moe_a2a_backend != "flashinfer", because)


def _dispatch(facts: Facts) -> tuple[Finding | None, str]:
    d = facts.deployment
    if d.moe_a2a_backend != "flashinfer":
        return skipped(f"--moe-a2a-backend is {d.moe_a2a_backend}, not flashinfer"), ""
    asked = d.flashinfer_a2a_dispatch_type
    if asked is None:
        return skipped("--flashinfer-a2a-dispatch-type is not given"), ""
    if asked == "auto" and facts.runner.quantization == "mxfp8":
        asked = "mxfp8"
    if asked != "mxfp8":
        return skipped(f"the dispatch type is {asked}, not mxfp8"), ""
    return None, asked


def _a2a_quant(facts: Facts) -> Finding:
    skip, _ = _dispatch(facts)
    q = facts.runner.quantization
    return skip or judge(q != "mxfp8", f"dispatch type mxfp8, quantization {q}")


def _a2a_runner(facts: Facts) -> Finding:
    skip, _ = _dispatch(facts)
    name = facts.runner.name
    because = f"dispatch type mxfp8, MoE runner {name}"
    return skip or judge(name != "flashinfer_trtllm_routed", because)


def _mega_quant(facts: Facts) -> Finding:
    q = facts.runner.quantization
    because = f"the server arguments' quantization {q}"
    return mega(facts) or judge(not mega_quantization(facts), because, q=repr(q))


def _mega_runner(facts: Facts) -> Finding:
    name = facts.runner.name
    return mega(facts) or judge(name != "flashinfer_megamoe", f"MoE runner {name}")


def _mega_hw(facts: Facts) -> Finding:
    p = facts.platform
    because = f"{p.gpu.label}: SM100 family with CUDA >= 12.8: {p.sm100}"
    return mega(facts) or judge(not p.sm100, because)


def _mega_combine(facts: Facts) -> Finding:
    env = facts.deployment.env
    dtype = env.get(_COMBINE, "bf16").strip().lower()[:40]
    reduce = env.get(_REDUCE, "0").lower() in ("1", "true", "yes", "y")
    skip = mega(facts)
    if skip:
        return skip
    because = f"combine dtype {dtype}, in-kernel reduce {'on' if reduce else 'off'}"
    if dtype not in ("bf16", "mxfp8", "nvfp4"):
        return stops(because, dtype=repr(dtype))
    return judge(dtype != "bf16" and reduce, because, 1, dtype=repr(dtype))


GUARDS: tuple[Guard, ...] = (
    row(
        "arg-moe-runner-mxfp8",
        "server",
        "S1",
        "warning",
        "mxfp8 quantization supports only {allowed} backends. Overriding {runner}.",
        _runner_mxfp8,
        predicate="the server arguments know mxfp8 (--quantization, or copied by the architecture) "
        "and --moe-runner-backend is neither auto nor one of the allowed",
        meaning="Your runner has no MXFP8 path and is replaced: by flashinfer_trtllm on every CUDA "
        "GPU, also where it cannot run (moe-hw). A checkpoint whose architecture is not on "
        "SGLang's list keeps auto instead, which is Triton (moe-tk-rows).",
        fallback="flashinfer_megamoe with that a2a backend, triton on gfx95, else "
        "flashinfer_trtllm",
        fixes=(
            "--moe-runner-backend deep_gemm or flashinfer_trtllm, by name",
            "--quantization mxfp8, so that the arguments know",
        ),
        source="srt/arg_groups/overrides.py:1484",
        related=("moe-hw", "moe-tk-rows"),
    ),
    *RUNNER_GUARDS,
    row(
        "arg-moe-trtllm-quant",
        "server",
        "S1",
        "AssertionError",
        "Invalid quantization '{q}'. \nFlashInfer TRTLLM MOE supports only: 'modelopt_fp4', "
        "'nvfp4_online', 'fp8', 'modelopt_fp8', 'modelopt_mixed', 'compressed-tensors', or "
        "bfloat16 (None).",
        lambda facts: _named(facts, ("flashinfer_trtllm", "experimental_sgl_trtllm"), TRTLLM_QUANT),
        predicate="runner flashinfer_trtllm or experimental_sgl_trtllm and another quantization "
        "(mxfp8 is allowed, though the text leaves it out)",
        meaning="The TRT-LLM experts exist for these formats only.",
        fixes=("--moe-runner-backend auto",),
        source=f"{_HOOK}:123",
        related=("arg-moe-trtllm-routed-quant",),
    ),
    row(
        "arg-moe-trtllm-routed-quant",
        "server",
        "S1",
        "AssertionError",
        "Invalid quantization '{q}'. \nFlashInfer TRTLLM routed MOE supports only: 'fp8', 'mxfp8', "
        "'modelopt_fp4', 'modelopt_mixed', 'nvfp4_online', 'minimax_m3_nvfp4', or bfloat16 (None).",
        lambda facts: _named(facts, ("flashinfer_trtllm_routed",), ROUTED_QUANT),
        predicate="runner flashinfer_trtllm_routed and another quantization",
        meaning="The routed TRT-LLM experts exist for these formats only.",
        fixes=("--moe-runner-backend auto",),
        source=f"{_HOOK}:137",
        related=("arg-moe-trtllm-quant",),
    ),
    row(
        "arg-moe-cutlass-ep",
        "server",
        "S1",
        "AssertionError",
        "FP8/MXFP8 Cutlass MoE is only supported with ep_size == 1",
        _cutlass_ep,
        predicate="runner cutlass, quantization fp8 or mxfp8, --ep-size not 1",
        meaning="The CUTLASS experts are not written for expert parallelism.",
        fixes=("--ep-size 1", "--moe-runner-backend deep_gemm or flashinfer_trtllm"),
        source=f"{_HOOK}:161",
        related=("moe-cutlass-arch",),
    ),
    row(
        "arg-a2a-type",
        "server",
        "S1",
        "ValueError",
        "--flashinfer-a2a-dispatch-type requires --moe-a2a-backend flashinfer.",
        _a2a_type,
        predicate="the dispatch type is given (not auto) with another a2a backend",
        meaning="The dispatch type belongs to FlashInfer's all-to-all.",
        fixes=("drop --flashinfer-a2a-dispatch-type", "--moe-a2a-backend flashinfer"),
        source=f"{_HOOK}:311",
        related=("arg-a2a-mxfp8-quant",),
    ),
    row(
        "arg-mega-arch",
        "server",
        "S1",
        "ValueError",
        "FlashInfer MegaMOE is not validated for model architectures {a}. Supported architectures: "
        "{list}.",
        lambda facts: mega_arch(facts, MEGA_ARCHITECTURES),
        predicate="--moe-a2a-backend flashinfer_megamoe and an architecture that is not listed",
        meaning="SGLang lets MegaMoE run for a fixed list of models.",
        fixes=("--moe-a2a-backend none",),
        source=f"{_HOOK}:255",
        related=("arg-mega-quant",),
    ),
    row(
        "arg-mega-quant",
        "server",
        "S1",
        "ValueError",
        "FlashInfer MegaMOE currently supports only MXFP8, ModelOpt NVFP4, FP4-expert, hybrid "
        "NVFP4 MoE checkpoints, or nvfp4_online with SGLANG_FLASHINFER_CUTEDSL_NVFP4_W4A16=1; got "
        "quantization={q}. Standard FP8 MoE checkpoints are not supported.",
        _mega_quant,
        predicate="--moe-a2a-backend flashinfer_megamoe and the server arguments' quantization is "
        "neither mxfp8 nor modelopt_fp4, nor the experts FP4",
        meaning="MegaMoE is written for MXFP8 and FP4 experts. A serialised MXFP8 checkpoint whose "
        "architecture does not tell the arguments needs --quantization mxfp8.",
        fixes=("--quantization mxfp8 for an MXFP8 checkpoint", "--moe-a2a-backend none"),
        source=f"{_HOOK}:275",
        related=("arg-mega-arch", "arg-moe-runner-mxfp8"),
    ),
    MEGA_GUARDS[0],
    row(
        "arg-mega-combine",
        "server",
        "S1",
        "ValueError",
        (
            f"{_COMBINE} must be one of 'bf16', 'mxfp8', or 'nvfp4', got {{dtype}}.",
            f"{_COMBINE}={{dtype}} is incompatible with {_REDUCE}=1.",
        ),
        _mega_combine,
        predicate="an unknown combine dtype, or one other than bf16 with the in-kernel reduce",
        meaning="Two environment variables of FlashInfer MegaMoE contradict each other.",
        fixes=(f"unset {_COMBINE}",),
        source=f"{_HOOK}:221",
        related=("arg-mega-hw",),
    ),
    MEGA_GUARDS[1],
    row(
        "arg-mega-runner",
        "server",
        "S1",
        "AssertionError",
        "FlashInfer MegaMOE a2a backend requires --moe-runner-backend flashinfer_megamoe",
        _mega_runner,
        predicate="--moe-a2a-backend flashinfer_megamoe with another runner",
        meaning="MegaMoE is dispatch and experts in one kernel; the two flags go together.",
        fixes=("--moe-runner-backend flashinfer_megamoe", "--moe-a2a-backend none"),
        source=f"{_HOOK}:332",
        related=("arg-mega-hw",),
    ),
    row(
        "arg-mega-hw",
        "server",
        "S1",
        "ValueError",
        "FlashInfer MegaMOE currently requires an SM100-family CUDA device for all supported "
        "quantization formats.",
        _mega_hw,
        predicate="--moe-a2a-backend flashinfer_megamoe and not the SM100 family with CUDA >= 12.8",
        hardware="everything but SM100 and SM103",
        meaning="MegaMoE is written for tensor-memory GPUs.",
        fixes=("--moe-a2a-backend none",),
        source=f"{_HOOK}:335",
        related=("arg-mega-runner",),
    ),
    *A2A_GUARDS,
    row(
        "arg-a2a-mxfp8-quant",
        "server",
        "S1",
        "ValueError",
        "--flashinfer-a2a-dispatch-type mxfp8 requires --quantization mxfp8.",
        _a2a_quant,
        predicate="dispatch type mxfp8 and the server arguments' quantization is not mxfp8",
        meaning="Tokens would travel as MXFP8 to experts that are not.",
        fixes=("--flashinfer-a2a-dispatch-type auto",),
        source=f"{_HOOK}:192",
        related=("arg-a2a-mxfp8-runner",),
    ),
    row(
        "arg-a2a-mxfp8-runner",
        "server",
        "S1",
        "ValueError",
        "--flashinfer-a2a-dispatch-type mxfp8 requires --moe-runner-backend "
        "flashinfer_trtllm_routed.",
        _a2a_runner,
        predicate="dispatch type mxfp8 (also through auto) and another runner",
        meaning="Only the routed TRT-LLM experts take tokens that are quantised already.",
        fixes=("--moe-runner-backend flashinfer_trtllm_routed", "dispatch type bf16"),
        source=f"{_HOOK}:196",
        related=("arg-a2a-mxfp8-quant",),
    ),
)
