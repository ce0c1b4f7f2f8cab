"""What the MoE runners ask of one call: scales, tokens, routing (S6, S8)."""

from mxlab.guards.engine import Finding, Guard, Status
from mxlab.guards.facts import Facts
from mxlab.guards.facts_steps import ExpertCallFacts
from mxlab.guards.findings import judge, modulo, passes, skipped, stops
from mxlab.guards.rows import row

_TRTLLM = "srt/layers/moe/moe_runner/flashinfer_trtllm.py"
_CUTLASS = "srt/layers/moe/cutlass_moe.py"
_DEEP_GEMM = "srt/layers/moe/moe_runner/deep_gemm.py"
_LAUNCHER = "flashinfer/data/csrc/trtllm_fused_moe_kernel_launcher.cu"
_HW = "SM100, SM103"
_MANY_EXPERTS = 384  # above it FlashInfer's DeepSeek-V3 routing takes 22 of them, else 8


def expert_call(facts: Facts) -> ExpertCallFacts:
    """Return the call; the engine asks these guards only where there is one."""
    assert isinstance(facts.step, ExpertCallFacts)
    return facts.step


def not_runner(facts: Facts, *runners: str) -> Finding | None:
    """Return not-reached unless the call is for one of these runners."""
    name = expert_call(facts).runner
    return None if name in runners else skipped(f"the MoE runner is {name}")


def _wordless(bad: bool, because: str) -> Finding:
    return Finding(Status.STOPS, because, message=None) if bad else passes(because)


def scale_recipes(call: ExpertCallFacts) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return DeepGEMM's recipes of the activation's and the weight's scales.

    The caller has asked moe-dg-actscale before. Source: sglang 0.5.23, deep_gemm.py:313.

    >>> scale_recipes(ExpertCallFacts(runner="deep_gemm", hidden=2880, intermediate=2880,
    ...                               experts=8, activation_block=128))
    ((1, 128), (1, 32))
    """
    rows, columns = call.block
    return (rows, call.activation_block or columns), (rows, columns)


def _dg_block(facts: Facts) -> Finding:
    skip = not_runner(facts, "deep_gemm")
    if skip:
        return skip
    c = expert_call(facts)
    block: object = list(c.block) if c.block_is_list else tuple(c.block)
    because = f"block shape {block}, a list: {c.block_is_list}; wanted the list [1, 32]"
    return judge(block != [1, 32], because, b=block)


def _dg_actscale(facts: Facts) -> Finding:
    skip = not_runner(facts, "deep_gemm")
    if skip:
        return skip
    c = expert_call(facts)
    if c.activation_scale_width is None:
        return passes("the activation's scale has the width that is wanted")
    block = c.activation_block or c.block[-1]
    wanted = -(-c.hidden // (block * 4))
    because = (
        f"ceil({c.hidden} / ({block} x 4)) = {wanted}, the scale has {c.activation_scale_width}"
    )
    values = {"b": block, "K": c.hidden, "w": c.activation_scale_width, "e": wanted}
    return judge(c.activation_scale_width != wanted, because, **values)


def _dg_x(facts: Facts) -> Finding:
    c = expert_call(facts)
    because = f"tokens {c.activation_dtype}, contiguous {c.activation_contiguous}"
    bad = c.activation_dtype != "bfloat16" or not c.activation_contiguous
    return not_runner(facts, "deep_gemm") or _wordless(bad, because)


def _cutlass_es(facts: Facts) -> Finding:
    both = expert_call(facts).expert_specialized
    because = f"expert specialisation for both GEMMs: {both}"
    return not_runner(facts, "cutlass") or judge(not both, because)


def _cutlass_sm100(facts: Facts) -> Finding:
    p = facts.platform
    because = f"{p.gpu.label}: SM100 family with CUDA >= 12.8: {p.sm100}"
    return not_runner(facts, "cutlass") or judge(not p.sm100, because)


def _cutlass_scales(facts: Facts) -> Finding:
    skip = not_runner(facts, "cutlass")
    if skip:
        return skip
    c = expert_call(facts)
    if c.scale_dtype != "uint8":
        return stops(f"scales {c.scale_dtype}")
    if c.scale_shapes is None:
        return passes("scales are uint8 and have the shapes that are wanted")
    e, hidden, inter = c.experts, c.hidden, c.intermediate
    wanted = ((e, hidden // 32, 2 * inter), (e, inter // 32, hidden))
    for which, (got, right) in enumerate(zip(c.scale_shapes, wanted, strict=True)):
        if tuple(got) != right:
            because = f"w{which + 1}_scale {tuple(got)}, wanted {right}"
            return stops(because, 1 + which, e=right, s=list(got))
    return passes(f"scales are {wanted[0]} and {wanted[1]}")


def _trtllm_dtype(facts: Facts) -> Finding:
    dtype = expert_call(facts).scale_dtype
    return not_runner(facts, "flashinfer_trtllm") or _wordless(dtype != "uint8", f"scales {dtype}")


def _trtllm_nocombine(facts: Facts) -> Finding:
    no_combine = expert_call(facts).no_combine
    return not_runner(facts, "flashinfer_trtllm") or judge(no_combine, f"no_combine {no_combine}")


def _trtllm_blockk(facts: Facts) -> Finding:
    skip = not_runner(facts, "flashinfer_trtllm")
    if skip:
        return skip
    c = expert_call(facts)
    tokens = f"tokens {c.activation_dtype} with scales" if c.dispatched_fp8 else "tokens in 16 bits"
    because = f"block K {c.block[-1]} against 32, {tokens}, width {c.activation_scale_width}"
    wrong = c.dispatched_fp8 and (
        c.activation_dtype != "float8_e4m3fn"
        or c.activation_scale_width not in (None, c.hidden // 32)
    )
    return _wordless(c.block[-1] != 32 or wrong, because)


def _trtllm_a2a(facts: Facts) -> Finding:
    skip = not_runner(facts, "flashinfer_trtllm")
    if skip:
        return skip
    c = expert_call(facts)
    if not c.dispatched_fp8:
        return skipped("the tokens arrive in 16 bits")
    return judge(not c.dispatched_scales, f"scales arrive with the tokens: {c.dispatched_scales}")


def _fi_layout(facts: Facts) -> Finding:
    skip = not_runner(facts, "flashinfer_trtllm")
    if skip:
        return skip
    c = expert_call(facts)
    because = f"weights shuffled {c.shuffled_weight}, K-major {c.major_k}, scales {c.scale_dtype}"
    if not c.shuffled_weight:
        return stops(because, 0)
    if not c.major_k:
        return stops(because, 1)
    return judge(c.scale_dtype != "uint8", because, 3)


def _fi_routing(facts: Facts) -> Finding:
    skip = not_runner(facts, "flashinfer_trtllm")
    if skip:
        return skip
    c = expert_call(facts)
    e, k, groups = c.experts, c.top_k, c.n_group
    because = f"routing {c.routing}: E = {e}, top-k {k}, groups {groups}, {modulo('E', e, 4)}"
    if c.routing == "DeepSeekV3":
        if groups and e % groups:
            return stops(because, 2)
        most = 8 if e <= _MANY_EXPERTS else 22
        if not 0 < k <= most:
            return stops(because, 3, most=most, E=e)
    elif c.routing == "Llama4":
        if k != 1:
            return stops(because, 5)
    elif not 0 < k <= 32:
        return stops(because, 4)
    if e % 4:
        return stops(because, 0)
    return judge(e <= k, because, 1)


_RUNNER = ("--moe-runner-backend deep_gemm or flashinfer_trtllm",)
_OWN = ("let SGLang's own loader and runner prepare the call",)

GUARDS: tuple[Guard, ...] = (
    row(
        "moe-trtllm-scale-dtype",
        "expert_call",
        "S6",
        "AssertionError",
        (),
        _trtllm_dtype,
        predicate="a TRT-LLM runner and expert scales that are not uint8",
        hardware=_HW,
        meaning="MXFP8 scales are exponent bytes. The assertion has no text.",
        fixes=("store the scales as uint8 exponent bytes",),
        source=f"{_TRTLLM}:409",
        related=("moe-cutlass-sdtype", "silent-load-value"),
    ),
    row(
        "moe-dg-block",
        "expert_call",
        "S8",
        "AssertionError",
        "MXFP8 requires block_shape [1, 32], got {b}",
        _dg_block,
        predicate="runner deep_gemm and block_shape is not the list [1, 32] (a tuple trips too)",
        hardware=_HW,
        meaning="DeepGEMM's grouped GEMM takes its scale recipe from the block.",
        fixes=("pass [1, 32] as a list",),
        source=f"{_DEEP_GEMM}:305",
        related=("moe-dg-ue8m0", "cfg-mxfp8-block"),
    ),
    row(
        "moe-dg-actscale",
        "expert_call",
        "S8",
        "AssertionError",
        "MXFP8 activation scale mismatch: block_size={b}, K={K}, scale_width={w}, expected {e}",
        _dg_actscale,
        predicate="runner deep_gemm and ceil(K / (4 x block)) is not the width of the tokens' "
        "scale",
        hardware=_HW,
        meaning="Four exponents are packed to a word: a token has ceil(K / 128) words with blocks "
        "of 32.",
        fixes=("quantise the tokens with blocks of 32, packed four to a word",),
        source=f"{_DEEP_GEMM}:325",
        related=("moe-dg-pack4", "moe-dg-block"),
    ),
    row(
        "moe-dg-x",
        "expert_call",
        "S8",
        "AssertionError",
        (),
        _dg_x,
        predicate="runner deep_gemm and tokens that are not a contiguous bfloat16 matrix",
        hardware=_HW,
        meaning="The kernel that quantises and scatters the tokens reads bfloat16 rows. The "
        "assertion has no text.",
        fixes=("--dtype bfloat16",),
        source="kernels/ops/moe/minimax_quant_ue8m0.py:57",
        related=("moe-dg-pack4",),
    ),
    row(
        "moe-cutlass-es",
        "expert_call",
        "S8",
        "AssertionError",
        "MXFP8 requires expert-specialization for both GEMMs",
        _cutlass_es,
        predicate="runner cutlass without expert specialisation; SGLang always asks for it",
        hardware=_HW,
        meaning="Only the expert-specialised kernels read MXFP8 scales.",
        fixes=_OWN,
        source=f"{_CUTLASS}:148",
        related=("moe-es-k128",),
    ),
    row(
        "moe-cutlass-sm100",
        "expert_call",
        "S8",
        "AssertionError",
        "MXFP8 requires SM100",
        _cutlass_sm100,
        predicate="runner cutlass and not the SM100 family with CUDA >= 12.8; moe-hw stops a model "
        "before",
        hardware="everything but SM100 and SM103",
        meaning="The expert-specialised MXFP8 kernels are built for tensor-memory GPUs.",
        fixes=("a block-FP8 checkpoint of the model",),
        source=f"{_CUTLASS}:149",
        related=("moe-hw", "moe-cutlass-arch"),
    ),
    row(
        "moe-cutlass-sdtype",
        "expert_call",
        "S8",
        "AssertionError",
        (
            "MXFP8 w1_scale must be uint8",
            "MXFP8 w1_scale must be {e}, got torch.Size({s})",
            "MXFP8 w2_scale must be {e}, got torch.Size({s})",
            "MXFP8 w2_scale must be uint8",
        ),
        _cutlass_scales,
        predicate="runner cutlass and scales that are not uint8, or not the transposed views "
        "(E, K / 32, N)",
        hardware=_HW,
        meaning="The kernel takes one byte for 32 values along K of each expert. A swizzled scale "
        "has another shape and stops here.",
        fixes=(*_RUNNER, *_OWN),
        source=f"{_CUTLASS}:152,164",
        related=("moe-es-k128", "silent-moe-cutlass-scale"),
    ),
    row(
        "moe-trtllm-nocombine",
        "expert_call",
        "S8",
        "AssertionError",
        "no_combine is not supported for flashinfer.",
        _trtllm_nocombine,
        predicate="a TRT-LLM runner and no_combine",
        hardware=_HW,
        meaning="The kernel adds up the experts of a token itself.",
        fixes=("--moe-runner-backend cutlass or deep_gemm",),
        source=f"{_TRTLLM}:879",
        related=("moe-aiter-nocombine",),
    ),
    row(
        "moe-trtllm-blockk",
        "expert_call",
        "S8",
        "AssertionError",
        (),
        _trtllm_blockk,
        predicate="a TRT-LLM runner and block K is not 32, or tokens that arrive quantised are not "
        "E4M3 with K / 32 scale bytes a token",
        hardware=_HW,
        meaning="The contract between the dispatch and the kernel. The assertions have no text.",
        fixes=("--flashinfer-a2a-dispatch-type bf16", *_OWN),
        source=f"{_TRTLLM}:925",
        related=("moe-trtllm-a2a-scale",),
    ),
    row(
        "moe-trtllm-a2a-scale",
        "expert_call",
        "S8",
        "ValueError",
        "FlashInfer A2A + TRT-LLM Gen MXFP8 MoE requires activation scales alongside the FP8 "
        "dispatch payload.",
        _trtllm_a2a,
        predicate="tokens arrive as FP8 through FlashInfer's all-to-all, without scales",
        hardware=_HW,
        meaning="FP8 tokens mean nothing without the scale of each 32 values.",
        fixes=("--flashinfer-a2a-dispatch-type mxfp8", "--flashinfer-a2a-dispatch-type bf16"),
        source=f"{_TRTLLM}:1911",
        related=("arg-a2a-mxfp8-runner", "moe-trtllm-blockk"),
    ),
    row(
        "moe-fi-layout",
        "expert_call",
        "S8",
        "RuntimeError",
        (
            "use_shuffled_weight must be true for MxFp8.",
            "weight_layout must be 0 for MxFp8.",
            "weight_layout must be MajorK for MxFp8.",
            "gemm1_weights_scale must be uint8.",
            "hidden_states must be fp8.",
        ),
        _fi_layout,
        predicate="FlashInfer's TRT-LLM experts called with weights that are not shuffled, not "
        "K-major, or scales that are not uint8",
        hardware=_HW,
        meaning="FlashInfer's own contract; SGLang prepares the weights so that it holds.",
        fixes=_OWN,
        source=f"{_LAUNCHER}:5650,4127,4156",
        related=("moe-trtllm-scale-dtype", "moe-trtllm-sf-rows"),
    ),
    row(
        "moe-fi-routing",
        "expert_call",
        "S8",
        "RuntimeError",
        (
            "Routing kernel expects that num_experts must be divisible by 4",
            "num_experts must be greater than top_k",
            "num_experts must be divisible by n_group",
            "Current routing kernel (with groups) only supports top_k<={most} && top_k>0 for "
            "num_experts={E}.",
            "Current routing kernel (no groups) only supports top_k<=32 && top_k>0.",
            "Current routing kernel (no groups, Llama4) only supports top_k=1.",
        ),
        _fi_routing,
        predicate="a TRT-LLM runner and E % 4 != 0, E <= top-k, or a top-k past the limit of the "
        "routing: 8 for DeepSeek-V3 up to 384 experts, 22 above, 1 for Llama 4, 32 otherwise",
        hardware=_HW,
        meaning="The routing kernel is compiled for these sizes; the model's number of experts or "
        "top-k does not fit.",
        fixes=("--moe-runner-backend deep_gemm or cutlass",),
        source=f"{_LAUNCHER}:4011",
        related=("moe-trtllm-act",),
    ),
)
