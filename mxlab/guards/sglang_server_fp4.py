"""SGLang's checks of runners and flags that are FP4's, met when MXFP8 flags are mixed up (S1)."""

from mxlab.guards.engine import Finding, Guard
from mxlab.guards.facts import Facts
from mxlab.guards.findings import judge, skipped
from mxlab.guards.platform import env_flag
from mxlab.guards.rows import row
from mxlab.guards.settings import flag
from mxlab.guards.sglang_dispatch import ep_size

_HOOK = "srt/arg_groups/moe_hook.py"
_OVERRIDES = "srt/arg_groups/overrides.py"
_W4A16 = "SGLANG_FLASHINFER_CUTEDSL_NVFP4_W4A16"
CUTLASS_QUANT = ("modelopt_fp4", "modelopt_fp8", "modelopt_mixed", None)
CUTEDSL_QUANT = ("modelopt_fp4", "modelopt_mixed", "nvfp4_online")
_ONLINE_RUNNERS = ("flashinfer_trtllm", "flashinfer_trtllm_routed", "flashinfer_cutedsl")


def _online(facts: Facts) -> Finding | None:
    q = facts.runner.quantization
    return None if q == "nvfp4_online" else skipped(f"the quantization is {q}, not nvfp4_online")


def _online_hw(facts: Facts) -> Finding:
    p = facts.platform
    because = f"{p.gpu.label}: SM100 family with CUDA >= 12.8: {p.sm100}"
    return _online(facts) or judge(not p.sm100, because)


def _online_runner(facts: Facts) -> Finding:
    skip = _online(facts)
    if skip:
        return skip
    d, asked = facts.deployment, facts.runner.asked
    mega = d.moe_a2a_backend == "flashinfer_megamoe" and env_flag(d.env, _W4A16)
    because = f"--moe-runner-backend {asked}, MegaMoE W4A16 {mega}"
    known = asked in ("auto", *_ONLINE_RUNNERS) or (asked == "flashinfer_megamoe" and mega)
    return judge(not known, because)


def _named(facts: Facts, runner: str) -> Finding | None:
    name = facts.runner.name
    return None if name == runner else skipped(f"the MoE runner is {name}, not {runner}")


def _cutlass_quant(facts: Facts) -> Finding:
    q = facts.runner.quantization
    bad = q not in CUTLASS_QUANT
    return _named(facts, "flashinfer_cutlass") or judge(bad, f"quantization {q}", q=q)


def _cutedsl_quant(facts: Facts) -> Finding:
    q, hybrid = facts.runner.quantization, flag(facts.deployment.settings, "nvfp4-experts")
    because = f"quantization {q}, hybrid with NVFP4 experts: {hybrid}"
    bad = q not in CUTEDSL_QUANT and not hybrid
    return _named(facts, "flashinfer_cutedsl") or judge(bad, because, q=q)


def _ep(facts: Facts) -> Finding:
    name, d = facts.runner.name, facts.deployment
    if name not in ("flashinfer_cutlass", "flashinfer_cutedsl"):
        return skipped(f"the MoE runner is {name}, not flashinfer_cutlass or flashinfer_cutedsl")
    # the all-to-all sets --ep-size only after this check
    return judge(d.ep not in (1, d.tp), f"EP {d.ep}, TP {d.tp}; {ep_size(d)} later")


def _cutedsl_a2a(facts: Facts) -> Finding:
    a2a = facts.deployment.moe_a2a_backend
    bad = a2a not in ("none", "deepep", "flashinfer")
    skip = _named(facts, "flashinfer_cutedsl")
    return skip or judge(bad, f"--moe-a2a-backend {a2a}", a=a2a)


_AUTO = ("--moe-runner-backend auto",)

GUARDS: tuple[Guard, ...] = (
    row(
        "arg-nvfp4-online-hw",
        "server",
        "S1",
        "ValueError",
        "--quantization nvfp4_online is supported only on NVIDIA Blackwell SM100/SM103 GPUs.",
        _online_hw,
        predicate="--quantization nvfp4_online and not the SM100 family with CUDA >= 12.8",
        hardware="everything but SM100 and SM103",
        meaning="FP4 tensor cores are needed.",
        fixes=("drop --quantization nvfp4_online",),
        source=f"{_OVERRIDES}:1458",
        related=("cfg-nvfp4-online-mxfp8",),
    ),
    row(
        "arg-nvfp4-online-runner",
        "server",
        "S1",
        "ValueError",
        "--quantization nvfp4_online supports only --moe-runner-backend flashinfer_trtllm or "
        "flashinfer_trtllm_routed, or flashinfer_cutedsl; flashinfer_megamoe requires "
        "--moe-a2a-backend flashinfer_megamoe and SGLANG_FLASHINFER_CUTEDSL_NVFP4_W4A16=1.",
        _online_runner,
        predicate="--quantization nvfp4_online and another runner",
        hardware="SM100, SM103",
        meaning="FP4 experts made at load run on these runners only.",
        fixes=_AUTO,
        source=f"{_OVERRIDES}:1471",
        related=("arg-nvfp4-online-hw",),
    ),
)

#: in SGLang's order, after its replacement of the runner (arg-moe-runner-mxfp8)
RUNNER_GUARDS: tuple[Guard, ...] = (
    row(
        "arg-moe-fi-cutlass-quant",
        "server",
        "S1",
        "AssertionError",
        "Invalid quantization '{q}'. \nFlashInfer Cutlass MOE supports only: 'modelopt_fp4', "
        "'modelopt_fp8', 'modelopt_mixed', or bfloat16 (None).",
        _cutlass_quant,
        predicate="runner flashinfer_cutlass and another quantization (mxfp8 never gets here: "
        "arg-moe-runner-mxfp8 replaces the runner)",
        meaning="FlashInfer's CUTLASS experts exist for these formats only.",
        fixes=_AUTO,
        source=f"{_HOOK}:81",
        related=("arg-moe-runner-mxfp8", "arg-moe-trtllm-quant"),
    ),
    row(
        "arg-moe-fi-cutedsl-quant",
        "server",
        "S1",
        "AssertionError",
        "Invalid quantization '{q}'. \nFlashInfer CuteDSL MOE currently supports only: "
        "'modelopt_fp4', 'modelopt_mixed' (with NVFP4 MoE layers), 'nvfp4_online', or hybrid NVFP4 "
        "models.",
        _cutedsl_quant,
        predicate="runner flashinfer_cutedsl and another quantization",
        meaning="CuTe-DSL multiplies MXFP8 in dense layers; its experts are FP4 only.",
        fixes=_AUTO,
        source=f"{_HOOK}:95",
        related=("arg-moe-runner-mxfp8", "disp-unknown"),
    ),
    row(
        "arg-moe-fi-ep",
        "server",
        "S1",
        "AssertionError",
        "The expert parallel size must be 1 or the same as the tensor parallel size",
        _ep,
        predicate="runner flashinfer_cutlass or flashinfer_cutedsl and --ep-size neither 1 nor "
        "--tp-size",
        meaning="These experts are split over all ranks or over none.",
        fixes=("--ep-size 1", "--ep-size equal to --tp-size"),
        source=f"{_HOOK}:89,103",
        related=("arg-moe-cutlass-ep",),
    ),
    row(
        "arg-moe-cutedsl-a2a",
        "server",
        "S1",
        "AssertionError",
        "flashinfer_cutedsl supports moe_a2a_backend='none', 'deepep', or 'flashinfer', got '{a}'.",
        _cutedsl_a2a,
        predicate="runner flashinfer_cutedsl with another all-to-all backend",
        meaning="The runner has adapters for these three.",
        fixes=("--moe-a2a-backend none",),
        source=f"{_HOOK}:107",
        related=("arg-a2a-runner",),
    ),
)
