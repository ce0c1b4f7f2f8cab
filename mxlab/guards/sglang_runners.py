"""SGLang's checks inside the MoE runners, at the first forward (S8)."""

from mxlab.guards.engine import Finding, Guard, Status
from mxlab.guards.experts import experts_of, intermediate_of, not_mxfp8_experts, not_processed
from mxlab.guards.facts import Facts
from mxlab.guards.findings import judge, modulo, passes, silent, skipped
from mxlab.guards.rows import FP8, row
from mxlab.guards.runner import TRTLLM, executes

_RUNNER = "srt/layers/moe/moe_runner/deep_gemm.py"
_HW = "SM100, SM103"


def _dg_ue8m0(facts: Facts) -> Finding:
    skip = not_mxfp8_experts(facts)
    if skip:
        return skip
    p = facts.platform
    if executes(facts.runner.name, p, facts.deployment.moe_a2a_backend) != "deep_gemm":
        return skipped(f"the MoE runner is {facts.runner.name}, not deep_gemm")
    because = f"UE8M0 scales in DeepGEMM: {p.ue8m0} ({p.gpu.label}, DeepGEMM {p.deep_gemm})"
    return judge(not p.ue8m0, because)


def _deep_gemm(facts: Facts) -> Finding | None:
    skip = not_processed(facts)
    if skip:
        return skip
    a2a = facts.deployment.moe_a2a_backend
    if executes(facts.runner.name, facts.platform, a2a) != "deep_gemm":
        return skipped(f"the MoE runner is {facts.runner.name}, not deep_gemm")
    return None


def _dg_pack4(facts: Facts) -> Finding:
    hidden = experts_of(facts).hidden
    return _deep_gemm(facts) or judge(hidden % 128 != 0, modulo("H", hidden, 128))


def _dg_hidden8k(facts: Facts) -> Finding:
    hidden = experts_of(facts).hidden
    because = f"H = {hidden} against 8192"
    return _deep_gemm(facts) or judge(hidden > 8192, because, v=hidden // 8)


def _cutlass_es(facts: Facts) -> Finding | None:
    skip = not_processed(facts)
    if skip:
        return skip
    if facts.runner.name != "cutlass":
        return skipped(f"the MoE runner is {facts.runner.name}, not cutlass")
    return None


def _cutlass_32(facts: Facts, which: str) -> Finding:
    size = experts_of(facts).hidden if which == "H" else intermediate_of(facts)
    return _cutlass_es(facts) or judge(size % 32 != 0, modulo(which, size, 32))


def _es_k128(facts: Facts) -> Finding:
    skip = _cutlass_es(facts)
    if skip:
        return skip
    hidden, inter = experts_of(facts).hidden, intermediate_of(facts)
    because = f"{modulo('H', hidden, 128)}, {modulo('I', inter, 128)}"
    return judge(hidden % 128 != 0 or inter % 128 != 0, because)


def _cutlass_scale(facts: Facts) -> Finding:
    skip = _cutlass_es(facts)
    if skip:
        return skip
    if facts.quant.serialized:
        return silent("serialised scales stay row-major; the kernel reads the 128x4 swizzle")
    return passes("online quantisation writes the swizzle that the kernel reads")


def _trtllm_act(facts: Facts) -> Finding:
    skip = not_processed(facts)
    if skip:
        return skip
    if facts.runner.name not in TRTLLM:
        return skipped(f"the MoE runner is {facts.runner.name}, not flashinfer_trtllm")
    a = experts_of(facts).activation
    return judge(a not in ("silu", "relu2"), f"activation {a}", a=a)


def _dg_act(facts: Facts) -> Finding:
    e = experts_of(facts)
    because = f"activation {e.activation}, gated {e.gated}"
    bad = e.activation not in ("silu", "situ") or not e.gated
    return _deep_gemm(facts) or (
        Finding(Status.STOPS, because, message=None) if bad else passes(because)
    )


def _mega(facts: Facts) -> Finding | None:
    experts = experts_of(facts)
    if not experts.quantized or not facts.quant.mxfp8:
        return skipped(experts.why_not or facts.quant.why)
    if facts.runner.name != "flashinfer_megamoe":
        return skipped(f"the MoE runner is {facts.runner.name}, not flashinfer_megamoe")
    return None


def _mega_act(facts: Facts) -> Finding:
    e = experts_of(facts)
    because = f"activation {e.activation}, gated {e.gated}"
    return _mega(facts) or judge(not e.gated or e.activation != "silu", because)


def _mega_h(facts: Facts) -> Finding:
    size = experts_of(facts).hidden
    return _mega(facts) or judge(size % 128 != 0, modulo("H", size, 128), h=size)


def _mega_i(facts: Facts) -> Finding:
    size = experts_of(facts).intermediate
    return _mega(facts) or judge(size % 128 != 0, modulo("I", size, 128), inter=size)


def _mega_e(facts: Facts) -> Finding:
    ep, e = facts.deployment.ep, experts_of(facts).experts
    return _mega(facts) or judge(e % ep != 0, modulo("E", e, ep), e=e, p=ep)


def _silent_triton(facts: Facts) -> Finding:
    skip = not_processed(facts)
    if skip:
        return skip
    p = facts.platform
    name = executes(facts.runner.name, p, facts.deployment.moe_a2a_backend)
    if not p.cuda or name != "triton":
        return passes(f"MoE runner {name}")
    return silent("scales are swizzled for triton_kernels, and the runner reads them as block FP8")


def _trtllm_arch(facts: Facts) -> Finding:
    p, quant = facts.platform, facts.quant
    if facts.runner.name not in TRTLLM:
        return skipped(f"the MoE runner is {facts.runner.name}, not TRT-LLM's")
    if not p.cuda or not p.flashinfer or p.capability is None:
        return skipped(f"{p.gpu.label}: FlashInfer is not available")
    if quant.mxfp8 or not (quant.fp8_config or quant.method is None):
        return skipped(f"{quant.why}: not FP8 or 16-bit experts")
    majors = "10 or 12: what FlashInfer 0.7.2 builds these kernels for"
    return judge(p.capability // 10 not in (10, 12), f"capability {p.capability}, wanted {majors}")


GUARDS: tuple[Guard, ...] = (
    row(
        "moe-mega-act",
        "experts",
        "S6",
        "ValueError",
        "FlashInfer MXFP8 MegaMOE only supports gated SiLU.",
        _mega_act,
        predicate="MegaMoE with another activation or ungated experts",
        hardware=_HW,
        meaning="The activation is built into the kernel.",
        fixes=("--moe-a2a-backend none",),
        source="srt/layers/moe/flashinfer_megamoe.py:605",
        related=("moe-mega-h", "moe-mega-i"),
    ),
    row(
        "moe-mega-h",
        "experts",
        "S6",
        "ValueError",
        "FlashInfer MXFP8 MegaMOE requires hidden_size to be a multiple of 128, got {h}.",
        _mega_h,
        predicate="MegaMoE and hidden size % 128 != 0",
        hardware=_HW,
        meaning="The kernel works on tiles of 128.",
        fixes=("--moe-a2a-backend none",),
        source="srt/layers/moe/flashinfer_megamoe.py:613",
        related=("moe-mega-i",),
    ),
    row(
        "moe-mega-i",
        "experts",
        "S6",
        "ValueError",
        "FlashInfer MXFP8 MegaMOE requires intermediate_size_per_partition to be a multiple of "
        "128, got {inter}.",
        _mega_i,
        predicate="MegaMoE and intermediate size of one rank % 128 != 0",
        hardware=_HW,
        meaning="The kernel works on tiles of 128.",
        fixes=("--ep-size equal to --tp-size", "--moe-a2a-backend none"),
        source="srt/layers/moe/flashinfer_megamoe.py:618",
        related=("moe-mega-h",),
    ),
    row(
        "moe-mega-e",
        "experts",
        "S6",
        "ValueError",
        "FlashInfer MXFP8 MegaMOE requires num_experts to be divisible by ep_size, got "
        "layer.num_experts={e} and layer.moe_ep_size={p}.",
        _mega_e,
        predicate="MegaMoE and the number of experts % --ep-size != 0",
        hardware=_HW,
        meaning="Every rank must hold the same number of experts.",
        fixes=("an --ep-size that divides the experts",),
        source="srt/layers/moe/flashinfer_megamoe.py:623",
        related=("moe-mega-i",),
    ),
    row(
        "moe-cutlass-h32",
        "experts",
        "S8",
        "AssertionError",
        "MXFP8 requires hidden size to be divisible by 32",
        lambda facts: _cutlass_32(facts, "H"),
        predicate="runner cutlass and hidden size % 32 != 0",
        hardware=_HW,
        meaning="Activations cannot be cut into blocks of 32.",
        fixes=("--moe-runner-backend auto",),
        source="srt/layers/moe/cutlass_moe.py:150",
        related=("moe-es-k128",),
    ),
    row(
        "moe-cutlass-i32",
        "experts",
        "S8",
        "AssertionError",
        "MXFP8 requires intermediate size to be divisible by 32",
        lambda facts: _cutlass_32(facts, "I"),
        predicate="runner cutlass and intermediate size of one rank % 32 != 0",
        hardware=_HW,
        meaning="Activations of the second GEMM cannot be cut into blocks of 32.",
        fixes=("--ep-size equal to --tp-size", "--moe-runner-backend auto"),
        source="srt/layers/moe/cutlass_moe.py:151",
        related=("moe-es-k128", "moe-inter-k"),
    ),
    row(
        "moe-es-k128",
        "experts",
        "S8",
        "RuntimeError",
        ("k must align to 128", "k should align 128", "n should align 128"),
        _es_k128,
        predicate="runner cutlass and the hidden or intermediate size % 128 != 0: the Python check "
        "says 32, the kernel needs 128",
        hardware=_HW,
        meaning="The expert-specialised CUTLASS kernel is stricter than the check before it.",
        fixes=("--moe-runner-backend deep_gemm or flashinfer_trtllm",),
        source="sgl-kernel/csrc/expert_specialization/es_sm100_mxfp8_*.cu (cf7044d2)",
        related=("moe-cutlass-h32", "moe-cutlass-i32"),
    ),
    row(
        "silent-moe-cutlass-scale",
        "experts",
        "S8",
        "",
        (),
        _cutlass_scale,
        predicate="runner cutlass with a serialised MXFP8 checkpoint",
        hardware=_HW,
        meaning="The op that online quantisation feeds with swizzled scales gets raw row-major "
        "ones from a checkpoint. Read from the source, not run.",
        fallback="goes on with scales of other blocks",
        fixes=("--moe-runner-backend deep_gemm or flashinfer_trtllm",),
        source=f"{FP8}:2520",
        related=("moe-es-k128",),
    ),
    row(
        "moe-dg-ue8m0",
        "experts",
        "S8",
        "AssertionError",
        "MXFP8 requires DEEPGEMM_SCALE_UE8M0=True",
        _dg_ue8m0,
        predicate="runner deep_gemm without UE8M0 scales: DeepGEMM absent or switched off, or a "
        "GPU below SM100",
        hardware="SM90; SM100 without DeepGEMM",
        meaning="The grouped GEMM takes packed power-of-two scales only.",
        fixes=("install DeepGEMM", "--moe-runner-backend flashinfer_trtllm"),
        source=f"{_RUNNER}:309",
        related=("moe-hw", "res-deepgemm"),
    ),
    row(
        "moe-dg-pack4",
        "experts",
        "S8",
        "RuntimeError",
        "num_groups must be a multiple of 4 for int32 packing",
        _dg_pack4,
        predicate="runner deep_gemm and hidden size % 128 != 0",
        hardware=_HW,
        meaning="Four scale bytes are packed to a word, so a row needs a multiple of 4 blocks.",
        fixes=("--moe-runner-backend flashinfer_trtllm",),
        source="kernels/ops/moe/minimax_quant_ue8m0.py:64",
        related=("moe-dg-hidden8k",),
    ),
    row(
        "moe-dg-hidden8k",
        "experts",
        "S8",
        "RuntimeError",
        "hidden/8 must be <= 1024, got {v}",
        _dg_hidden8k,
        predicate="runner deep_gemm and hidden size > 8192",
        hardware=_HW,
        meaning="One thread block quantises one token, eight values a thread.",
        fixes=("--moe-runner-backend flashinfer_trtllm",),
        source="kernels/jit/csrc/minimax/per_token_quant_ue8m0.cuh:155",
        related=("moe-dg-pack4",),
    ),
    row(
        "moe-trtllm-act",
        "experts",
        "S8",
        "AssertionError",
        (
            "Only {'silu', 'relu2'} are supported for FP8 MoE, got '{a}'.",
            "Only {'relu2', 'silu'} are supported for FP8 MoE, got '{a}'.",
        ),
        _trtllm_act,
        predicate="a TRT-LLM runner and an activation other than silu and relu2",
        hardware=_HW,
        meaning="The kernel has these two activations. The order of the two names in the text "
        "changes from run to run.",
        fixes=("--moe-runner-backend cutlass",),
        source="srt/layers/moe/moe_runner/flashinfer_trtllm.py:875",
        related=("moe-dg-act",),
    ),
    row(
        "moe-dg-act",
        "experts",
        "S8",
        "AssertionError",
        (),
        _dg_act,
        predicate="runner deep_gemm, and the activation is not silu or situ, or not gated",
        hardware=_HW,
        meaning="The grouped GEMM is followed by a fused gated activation. The assertion has no "
        "text.",
        fixes=("--moe-runner-backend flashinfer_trtllm or cutlass",),
        source=f"{_RUNNER}:350",
        related=("moe-trtllm-act",),
    ),
    row(
        "silent-moe-triton",
        "experts",
        "S8",
        "",
        (),
        _silent_triton,
        predicate="the Triton runner on CUDA: auto that the server arguments did not replace",
        hardware=_HW,
        meaning="The one text that would refuse this (Triton MoE runner does not support NVIDIA "
        "MXFP8) cannot fire from this method. Read from the source, not run.",
        fallback="goes on with scales in another layout",
        fixes=("--moe-runner-backend deep_gemm or flashinfer_trtllm",),
        source=f"{FP8}:3019",
        related=("moe-tk-rows", "arg-moe-runner-mxfp8"),
    ),
    row(
        "moe-trtllm-arch",
        "experts",
        "S8",
        "RuntimeError",
        "No supported CUDA architectures found for major versions [10, 12].",
        _trtllm_arch,
        predicate="a TRT-LLM runner for FP8 or 16-bit experts, and the capability is neither 10.x "
        "nor 12.x (MXFP8 experts stop before: moe-hw)",
        hardware="SM80 to SM90, SM110",
        meaning="FlashInfer builds the kernels when they are first called, and has none for this "
        "GPU. SGLang's arguments let the runner through. The text names neither.",
        fixes=("--moe-runner-backend auto", "a B200, GB200, B300 or GB300"),
        source="flashinfer/jit/fused_moe.py:386",
        related=("moe-trtllm-nofi", "moe-hw"),
    ),
)
