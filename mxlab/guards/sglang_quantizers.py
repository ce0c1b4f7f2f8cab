"""The checks of the functions that quantise to MXFP8 or to groups, SGLang's and FlashInfer's."""

from mxlab.guards.engine import Finding, Guard, Status
from mxlab.guards.facts import Facts
from mxlab.guards.facts_steps import QuantizerFacts
from mxlab.guards.findings import judge, modulo, passes, skipped, stops
from mxlab.guards.rows import FP8_UTILS, row
from mxlab.guards.settings import flag

_QUANT = "kernels/ops/quantization"
_FI_QUANT = "flashinfer/quantization"
_GROUPS = (16, 32, 64, 128, 256)


def quantizer_of(facts: Facts) -> QuantizerFacts:
    """Return the call; the engine asks these guards only where there is one."""
    assert isinstance(facts.step, QuantizerFacts)
    return facts.step


def _for(facts: Facts, *functions: str) -> Finding | None:
    name = quantizer_of(facts).function
    return None if name in functions else skipped(f"the function is {name}")


def last(step: QuantizerFacts) -> int:
    """Return the size of the last axis; a tensor without axes has one value."""
    return step.shape[-1] if step.shape else 1


def _grp_2d(facts: Facts) -> Finding:
    axes = len(quantizer_of(facts).shape)
    return _for(facts, "mxfp8_group_quantize") or judge(axes != 2, f"{axes} axes", d=axes)


def _grp_contig(facts: Facts) -> Finding:
    contiguous = quantizer_of(facts).contiguous
    return _for(facts, "mxfp8_group_quantize") or judge(not contiguous, f"contiguous: {contiguous}")


def _grp_k32(facts: Facts) -> Finding:
    k = last(quantizer_of(facts))
    return _for(facts, "mxfp8_group_quantize") or judge(k % 32 != 0, modulo("K", k, 32), k=k)


def _triton_kernels(facts: Facts) -> Finding:
    skip = _for(facts, "mxfp8_group_quantize")
    if skip:
        return skip
    if facts.platform.gfx95:
        return skipped("gfx950 has its own quantiser")
    # comes with sglang-kernel, so it is there unless another package of that name hides it
    hidden = flag(facts.deployment.settings, "foreign-triton-kernels")
    because = f"the PyPI project triton_kernels hides SGLang's own: {hidden}"
    return judge(hidden, because)


def _tk_axis(facts: Facts) -> Finding:
    skip = _for(facts, "mxfp8_group_quantize")
    if skip:
        return skip
    k = last(quantizer_of(facts))
    if k % 32:
        return skipped(f"{modulo('K', k, 32)}: act-grp-k32 looks first")
    return passes(modulo("K", k, 32))


def _to_mxfp8(facts: Facts) -> Finding:
    d = last(quantizer_of(facts))
    return _for(facts, "to_mxfp8") or judge(d % 32 != 0, modulo("last axis", d, 32), d=d)


def _swizzled(step: QuantizerFacts) -> tuple[bool, str]:
    """Tell whether the swizzling kernels take a tensor, and why."""
    k = last(step)
    because = (
        f"on a GPU {step.cuda}, {len(step.shape)} axes, {step.dtype}, last stride "
        f"{step.last_stride}, {modulo('K', k, 32)}"
    )
    row_major = len(step.shape) == 2 and step.last_stride == 1
    fits = step.cuda and row_major and step.dtype == "bfloat16" and k % 32 == 0
    return fits, because


def _swz(facts: Facts) -> Finding:
    fits, because = _swizzled(quantizer_of(facts))
    return _for(facts, "mxfp8_quantize_swizzled") or judge(not fits, because)


def _rms(facts: Facts) -> Finding:
    skip = _for(facts, "rmsnorm_mxfp8")
    if skip:
        return skip
    s = quantizer_of(facts)
    m = s.shape[0] if s.shape else 0
    stride = f"last stride {s.last_stride}"
    because = f"M = {m}, {modulo('K', last(s), 128)}, {s.dtype}, {stride}"
    fits = m > 0 and last(s) % 128 == 0 and s.dtype == "bfloat16" and s.last_stride == 1
    return passes(because) if fits else Finding(Status.STOPS, because, message=None)


def _swiglu(facts: Facts) -> Finding:
    skip = _for(facts, "swiglu_mxfp8", "swiglu_mxfp8_deepgemm")
    if skip:
        return skip
    s = quantizer_of(facts)
    fits, because = _swizzled(s)
    n = last(s) // 2
    because = f"{because}, {modulo('n', n, 32)}"
    if not fits or n % 32:
        return stops(because)
    if s.function == "swiglu_mxfp8_deepgemm":
        return judge(n % 128 != 0, modulo("n", n, 128), 1, n=n)
    return passes(because)


def _group(facts: Facts) -> Finding:
    skip = _for(facts, "per_token_group_quant_fp8")
    if skip:
        return skip
    s = quantizer_of(facts)
    size = max(s.group_size, 1)
    because = f"{modulo('K', last(s), size)}, contiguous: {s.contiguous}"
    if last(s) % size:
        return stops(because)
    return judge(not s.contiguous, because, 1)


def _group_size(facts: Facts) -> Finding:
    skip = _for(facts, "per_token_group_quant_fp8")
    if skip:
        return skip
    s = quantizer_of(facts)
    because = f"groups of {s.group_size}, the kernel has {_GROUPS}"
    plain = not (s.column_major_scales or s.scale_ue8m0)
    if s.group_size == last(s) and len(s.shape) == 2 and plain:
        return skipped(f"{because}, but one group a row goes to the per-token kernel")
    if s.group_size in _GROUPS:
        return passes(because)
    return Finding(Status.STOPS, because, message=None)


def _colmajor(facts: Facts) -> Finding:
    skip = _for(facts, "per_token_group_quant_fp8")
    if skip:
        return skip
    s = quantizer_of(facts)
    if not s.scale_ue8m0:
        return skipped("scale_ue8m0 is False")
    flags = f"column_major_scales {s.column_major_scales}, scale_tma_aligned {s.scale_tma_aligned}"
    return judge(s.column_major_scales and not s.scale_tma_aligned, flags)


def _fi_k32(facts: Facts) -> Finding:
    skip = _for(facts, "flashinfer_mxfp8_quantize")
    if skip:
        return skip
    s = quantizer_of(facts)
    because = f"{modulo('K', last(s), 32)}, {s.dtype}, on a GPU {s.cuda}"
    if last(s) % 32:
        return Finding(Status.STOPS, because, message=None)
    if not s.cutedsl:
        return skipped("act-fi-cutedsl comes first")
    if s.dtype not in ("float16", "bfloat16", "float32"):
        return stops(because, 1, d=f"torch.{s.dtype}")
    return judge(not s.cuda, because)


def _fi_cutedsl(facts: Facts) -> Finding:
    skip = _for(facts, "flashinfer_mxfp8_quantize")
    if skip:
        return skip
    s = quantizer_of(facts)
    if last(s) % 32:
        return skipped(f"{modulo('K', last(s), 32)}: act-fi-k32 comes first")
    return judge(not s.cutedsl, f"nvidia-cutlass-dsl is installed: {s.cutedsl}")


def _npu_dtype(facts: Facts) -> Finding:
    skip = _for(facts, "npu_weight")
    if skip:
        return skip
    dtype = quantizer_of(facts).dtype
    if dtype in ("float16", "bfloat16"):
        return passes(f"weight {dtype}")
    return Finding(Status.WARNS, f"weight {dtype}", {"dtype": f"torch.{dtype}"})


_BLACKWELL = "SM100 to SM121 with FlashInfer"
_PAD = "pad the last axis to a multiple of 32"

GUARDS: tuple[Guard, ...] = (
    row(
        "act-grp-2d",
        "quantizer",
        "S6",
        "AssertionError",
        "Expected 2D input, got {d}D",
        _grp_2d,
        predicate="mxfp8_group_quantize of a tensor that has not two axes",
        meaning="Weights are quantised as matrices; a stack of experts goes in one by one.",
        fixes=("flatten the tensor to two axes",),
        source=f"{FP8_UTILS}:1855",
        related=("act-grp-contig",),
    ),
    row(
        "act-grp-contig",
        "quantizer",
        "S6",
        "AssertionError",
        "MXFP8 quantization requires a contiguous 2D tensor.",
        _grp_contig,
        predicate="mxfp8_group_quantize of a tensor that is not contiguous",
        meaning="A transposed or sliced view; the kernel reads rows that follow each other.",
        fixes=("call .contiguous() first",),
        source=f"{FP8_UTILS}:1856",
        related=("act-grp-2d",),
    ),
    row(
        "act-grp-last",
        "quantizer",
        "S6",
        "AssertionError",
        "k={k} must be divisible by 32",
        _grp_k32,
        predicate="mxfp8_group_quantize and K % 32 != 0: act-grp-k32 for a call of one's own",
        meaning="The tensor has no whole number of blocks of 32 along K.",
        fixes=(_PAD,),
        source=f"{FP8_UTILS}:1858",
        related=("act-grp-k32", "act-tk-axis"),
    ),
    row(
        "act-triton-kernels",
        "quantizer",
        "S6",
        "RuntimeError",
        "MXFP8 quantization requires triton_kernels with MXFP8 support.",
        _triton_kernels,
        predicate="triton_kernels.numerics_details.mxfp cannot be imported, on a GPU other than "
        "gfx950",
        meaning="The module comes with sglang-kernel. The project of that name on PyPI (0.1.0) is "
        "another one, and where it is installed it hides SGLang's.",
        fixes=("pip uninstall triton_kernels, then reinstall sglang-kernel",),
        source=f"{FP8_UTILS}:1847",
        related=("act-grp-last",),
    ),
    row(
        "act-tk-axis",
        "quantizer",
        "S6",
        "AssertionError",
        "axis dim must be divisible by 32. Got {L}",
        _tk_axis,
        predicate="K % 32 != 0 in the kernel itself; SGLang asks act-grp-last before, so only a "
        "direct call of downcast_to_mxfp meets it",
        meaning="The kernel's own check of the same rule.",
        fixes=(_PAD,),
        source="triton_kernels of sglang-kernel 0.4.10, numerics_details/mxfp.py",
        related=("act-grp-last",),
    ),
    row(
        "act-to-mxfp8",
        "quantizer",
        "S8",
        "ValueError",
        "MXFP8 quantization requires last dim divisible by 32, got {d}.",
        _to_mxfp8,
        predicate="to_mxfp8 (Inkling's Q, K and V; gfx950) and the last axis % 32 != 0",
        meaning="The last axis, head_dim for attention, is no whole number of blocks of 32.",
        fixes=(_PAD, "--kv-cache-dtype fp8_e4m3 for such a head_dim"),
        source=f"{_QUANT}/mxfp8_quant.py:66",
        related=("kv-hd32",),
    ),
    row(
        "act-swz",
        "quantizer",
        "S8",
        "ValueError",
        "expected a row-major bf16 CUDA [rows, k] tensor, k % 32 == 0",
        _swz,
        predicate="mxfp8_quantize_swizzled of a tensor that is not on a GPU, 2-D, bfloat16, of "
        "last stride 1, with K % 32 == 0, or inside torch.compile",
        hardware="NVIDIA GPUs",
        meaning="The kernel quantises and swizzles in one pass, for this form only.",
        fixes=("convert to a contiguous bfloat16 matrix first", _PAD),
        source=f"{_QUANT}/mxfp8_swizzled_triton.py:110",
        related=("act-swiglu", "fwd-swizzled-input"),
    ),
    row(
        "act-rms",
        "quantizer",
        "S8",
        "AssertionError",
        (),
        _rms,
        predicate="rmsnorm_mxfp8 of no tokens, K % 128 != 0, not bfloat16, or last stride not 1",
        hardware="NVIDIA GPUs",
        meaning="The fused norm writes whole scale tiles of four blocks. The assertion has no "
        "text.",
        fixes=("use RMSNorm and the quantiser one after the other",),
        source="kernels/ops/layernorm/rmsnorm_mxfp8.py:48",
        related=("act-swz",),
    ),
    row(
        "act-swiglu",
        "quantizer",
        "S8",
        "ValueError",
        (
            "expected a row-major bf16 CUDA [rows, 2 * n] tensor, n % 32 == 0",
            "DeepGEMM MXFP8 scales need n % 128 == 0, got n={n}",
        ),
        _swiglu,
        predicate="the fused SwiGLU of a tensor that act-swz would refuse, or n % 32 != 0, or for "
        "DeepGEMM n % 128 != 0",
        hardware="NVIDIA GPUs",
        meaning="Half of the last axis is the output's width n; it is quantised in blocks of 32, "
        "and packed four blocks to a word for DeepGEMM.",
        fixes=("use the activation and the quantiser one after the other",),
        source="kernels/ops/activation/swiglu_mxfp8_swizzled.py:103,110",
        related=("act-swz", "moe-dg-pack4"),
    ),
    row(
        "act-group",
        "quantizer",
        "S8",
        "AssertionError",
        (
            "the last dimension of `x` cannot be divisible by `group_size`",
            "`x` is not contiguous",
        ),
        _group,
        predicate="per_token_group_quant_fp8 and K % group_size != 0, or a tensor that is not "
        "contiguous (groups of 32 for DeepGEMM's MXFP8 activations)",
        meaning="Each group gets one scale, so the width has to be a whole number of groups.",
        fixes=("a --tp-size that mends K", "call .contiguous() first"),
        source=f"{_QUANT}/fp8_kernel.py:499",
        related=("act-group-size", "blk-fi-layout"),
    ),
    row(
        "act-group-size",
        "quantizer",
        "S8",
        "AssertionError",
        (),
        _group_size,
        predicate="groups of another size than 16, 32, 64, 128 or 256",
        hardware="NVIDIA GPUs",
        meaning="The kernel is compiled for these sizes. The assertion has no text.",
        fixes=("a weight_block_size with one of these widths",),
        source=f"{_QUANT}/per_token_group_quant.py:41",
        related=("act-group",),
    ),
    row(
        "act-colmajor",
        "quantizer",
        "S8",
        "AssertionError",
        "column_major_scales requires scale_tma_aligned=True when scale_ue8m0 is enabled",
        _colmajor,
        predicate="scale_ue8m0 with column_major_scales and without scale_tma_aligned",
        hardware="NVIDIA GPUs",
        meaning="Packed exponents exist in one layout only, the one that TMA can read.",
        fixes=("pass scale_tma_aligned=True",),
        source=f"{_QUANT}/fp8_kernel.py:367",
        related=("fwd-dg-prequant-layout",),
    ),
    row(
        "act-fi-cutedsl",
        "quantizer",
        "S8",
        "RuntimeError",
        "CuTe-DSL backend requested but CuTe-DSL is not available. Please install "
        "nvidia-cutlass-dsl package.",
        _fi_cutedsl,
        predicate="nvidia-cutlass-dsl is not installed; SGLang always asks for cute-dsl",
        hardware=_BLACKWELL,
        meaning="FlashInfer has two kernels that quantise, and SGLang names the one written in "
        "CuTe-DSL.",
        fixes=("pip install nvidia-cutlass-dsl",),
        source=f"{_FI_QUANT}/fp8_quantization.py:239",
        related=("act-fi-k32",),
    ),
    row(
        "act-fi-k32",
        "quantizer",
        "S8",
        "AssertionError",
        (
            "Input must be on CUDA device",
            "Input dtype must be float16, bfloat16, or float32, got {d}",
        ),
        _fi_k32,
        predicate="FlashInfer's quantiser and K % 32 != 0 (an assertion without text), a dtype of "
        "another width, or a tensor on the CPU",
        hardware=_BLACKWELL,
        meaning="What FlashInfer asks of the activation of every dense layer and expert.",
        fixes=("leave the layer unquantised", "--dtype bfloat16"),
        source=f"{_FI_QUANT}/fp8_quantization.py:225, {_FI_QUANT}/kernels/mxfp8_quantize.py:1357",
        related=("fwd-fi-k32", "act-fi-cutedsl"),
    ),
    row(
        "npu-dtype-warn",
        "quantizer",
        "S6",
        "warning",
        "NPUMXFP8LinearMethod: weight dtype {dtype} is not float16/bfloat16; casting to bfloat16 "
        "before MXFP8 quantisation.",
        _npu_dtype,
        predicate="online quantisation on Ascend of a weight that is not 16 bits wide",
        hardware="Ascend A5",
        meaning="The vendor's quantiser takes 16-bit weights.",
        fallback="casts the weight to bfloat16 first",
        fixes=("--dtype bfloat16",),
        source="srt/hardware_backend/npu/quantization/linear_method_npu.py:228",
        related=("npu-k64",),
    ),
)
