"""SGLang's checks of an activation handed to a dense FP8 or MXFP8 linear (S8), NVIDIA GPUs."""

from mxlab.guards.engine import Finding, Guard, Status
from mxlab.guards.facts import Facts
from mxlab.guards.facts_steps import GemmInputFacts
from mxlab.guards.findings import judge, modulo, pad, passes, skipped, stops
from mxlab.guards.linear import deep_gemm_shape, flashinfer_takes, prepares_deep_gemm_input
from mxlab.guards.rows import FP8, FP8_UTILS, row

_KERNEL = "kernels/ops/gemm/fp8_kernel.py"


def input_of(facts: Facts) -> GemmInputFacts:
    """Return the activation; the engine asks these guards only where there is one."""
    assert isinstance(facts.step, GemmInputFacts)
    return facts.step


def not_route(facts: Facts, *routes: str) -> Finding | None:
    """Return not-reached unless the activation goes one of these ways."""
    route = input_of(facts).route
    return None if route in routes else skipped(f"the route is {route}, not {' or '.join(routes)}")


def input_k(step: GemmInputFacts) -> int:
    """Return K of the activation."""
    return step.k if step.input_k is None else step.input_k


def _swizzled(facts: Facts) -> Finding:
    dense = facts.dense
    if not input_of(facts).swizzled_input:
        return skipped("the input is an ordinary tensor, not the swizzled marker")
    because = f"dense linears: {dense.kind} on {dense.backend}"
    bad = dense.backend not in ("flashinfer_cutlass", "flashinfer_cutedsl")
    return judge(bad, because)


def _flashinfer(facts: Facts, id: str) -> Finding:
    skip = not_route(facts, "flashinfer")
    if skip:
        return skip
    step = input_of(facts)
    first, found = flashinfer_takes(step.k, input_k(step), step.weight_dtype)
    if first in ("", id):
        return found
    order = ("fwd-fi-k-match", "fwd-fi-k32", "fwd-fi-dtype")
    if order.index(first) < order.index(id):
        return skipped(f"{first} comes first: {found.because}")
    return passes(f"K of the input {input_k(step)}, of the weight {step.k}")


def _dgin(facts: Facts) -> Finding:
    skip = not_route(facts, "flashinfer")
    if skip:
        return skip
    s = input_of(facts)
    if s.scale_dtype != "int32":
        return skipped(f"the input's scale is {s.scale_dtype}, not packed into int32")
    fits, because = prepares_deep_gemm_input(facts, s.n, s.k)
    if fits:
        return passes(f"{because}: DeepGEMM multiplies with the copy that the layer keeps")
    text = f"{because}: the producer is told no and hands over 16 bits"
    return Finding(Status.FALLS_BACK, text, message=None)


def _prequantized(facts: Facts) -> Finding | None:
    skip = not_route(facts, "deep_gemm")
    if skip:
        return skip
    if input_of(facts).scale_dtype is None:
        return skipped("the activation comes in 16 bits and is quantised here")
    return None


def _dg_shape(facts: Facts) -> Finding:
    step = input_of(facts)
    because = f"{modulo('N', step.n, 64)}, {modulo('K', step.k, 128)}"
    bad = not deep_gemm_shape(step.n, step.k)
    return _prequantized(facts) or judge(bad, because)


def _dg_layout(facts: Facts) -> Finding:
    skip = _prequantized(facts)
    if skip:
        return skip
    s = input_of(facts)
    if not deep_gemm_shape(s.n, s.k):
        return skipped("fwd-dg-prequant-shape comes first")
    k, stride = input_k(s), (1, pad(s.m, 4))
    wrong = [
        text
        for holds, text in (
            (facts.platform.ue8m0, "DeepGEMM has no UE8M0 scales here"),
            (s.ndim == 2, f"{s.ndim} axes"),
            (s.contiguous, "not contiguous"),
            (s.dtype == "float8_e4m3fn", f"input {s.dtype}"),
            (s.scale_dtype == "int32", f"scale {s.scale_dtype}, wanted int32"),
            (
                s.scale_shape in (None, (s.m, k // 128)),
                f"scale shape {s.scale_shape}, wanted {(s.m, k // 128)}",
            ),
            (
                s.scale_stride in (None, stride),
                f"scale stride {s.scale_stride}, wanted (1, M to a multiple of 4) = {stride}",
            ),
            (k == s.k, f"K of the input {k}, of the weight {s.k}"),
        )
        if not holds
    ]
    return stops("; ".join(wrong)) if wrong else passes("packed, MN-major, TMA-aligned")


def _dg_contig(facts: Facts) -> Finding:
    skip = not_route(facts, "deep_gemm")
    if skip:
        return skip
    s, enabled = input_of(facts), facts.platform.deep_gemm
    memory = f"contiguous: input {s.contiguous}, weight {s.weight_contiguous}"
    because = f"{memory}; DeepGEMM enabled {enabled}"
    bad = not (s.weight_contiguous and enabled and s.contiguous)
    return Finding(Status.STOPS, because, message=None) if bad else passes(because)


def _blk_packed(facts: Facts) -> Finding:
    skip = not_route(facts, "block_deep_gemm")
    if skip:
        return skip
    s = input_of(facts)
    if s.scale_dtype != "int32":
        return skipped(f"the input's scale is {s.scale_dtype}, not int32")
    k, groups = input_k(s), -(-(input_k(s) // 128) // 4)
    stride = (1, pad(s.m, 4))
    because = (
        f"{modulo('N', s.n, 64)}, {modulo('K', s.k, 128)}, block [{s.block_n}, {s.block_k}], "
        f"UE8M0 in DeepGEMM {facts.platform.ue8m0}, scale {s.scale_shape} with stride "
        f"{s.scale_stride}, wanted {(s.m, groups)} with {stride}"
    )
    fits = (
        deep_gemm_shape(s.n, s.k)
        and facts.platform.ue8m0
        and (s.block_n, s.block_k) == (128, 128)
        and s.ndim == 2
        and s.contiguous
        and k == s.k
        and s.scale_shape in (None, (s.m, groups))
        and s.scale_stride in (None, stride)
    )
    return judge(not fits, because)


def _blk_cutlass(facts: Facts) -> Finding:
    skip = not_route(facts, "block_cutlass")
    if skip:
        return skip
    s = input_of(facts)
    if s.scale_dtype is None:
        return skipped("the activation comes in 16 bits: blk-fallback decides")
    because = f"{modulo('N', s.n, 128)}, {modulo('K', s.k, 128)}"
    return judge(s.n % 128 != 0 or s.k % 128 != 0, because, shape=(s.n, s.k))


def _blk_unpack(facts: Facts) -> Finding:
    skip = not_route(facts, "block_triton")
    if skip:
        return skip
    s = input_of(facts)
    if s.weight_scale_dtype != "int32":
        return skipped(f"the weight's scale is {s.weight_scale_dtype}, not packed into int32")
    groups = -(-s.n // max(s.block_n, 1))
    shape = (s.n, -(-s.k // (4 * max(s.block_k, 1))))
    got = shape if s.weight_scale_shape is None else s.weight_scale_shape
    because = f"packed scale {got}: wanted N = {s.n} or ceil(N / {s.block_n}) = {groups} rows"
    bad = len(got) != 2 or got[0] not in (s.n, groups)
    block = [s.block_n, s.block_k]
    return judge(bad, because, s=list(got), w=(s.n, s.k), b=block)


def _blk_triton(facts: Facts) -> Finding:
    skip = not_route(facts, "block_triton", "block_deep_gemm")
    if skip:
        return skip
    s = input_of(facts)
    groups = -(-input_k(s) // max(s.block_k, 1))
    wrong = []
    if input_k(s) != s.k:
        wrong.append(f"K of the input {input_k(s)}, of the weight {s.k}")
    if not (s.contiguous and s.weight_contiguous):
        wrong.append("input or weight not contiguous")
    if s.scale_dtype in ("float32", "int32"):
        width = groups if s.scale_dtype == "float32" else -(-groups // 4)
        if s.scale_shape is not None and s.scale_shape[-1:] != (width,):
            wrong.append(f"input scale {s.scale_shape}, wanted {width} columns")
    elif s.scale_dtype is not None:
        text = f"input scale {s.scale_dtype}: NotImplementedError"
        wrong.append(text)
    if not wrong:
        return passes("shapes, strides and dtypes of input, weight and scales agree")
    return Finding(Status.STOPS, "; ".join(wrong), message=None)


_FLASHINFER = "SM100 to SM121 with FlashInfer"
_PRODUCER = "give the layer 16-bit activations, so that it quantises itself"

GUARDS: tuple[Guard, ...] = (
    row(
        "fwd-swizzled-input",
        "gemm_input",
        "S8",
        "ValueError",
        "Mxfp8SwizzledInput needs a layer with an MXFP8 view on a FlashInfer CUTLASS / CuTe-DSL "
        "backend",
        _swizzled,
        predicate="the input is the swizzled marker of a fused producer, and the layer is not "
        "MXFP8 on flashinfer_cutlass or flashinfer_cutedsl",
        meaning="A fused kernel (RMSNorm, SwiGLU) quantised the activation for FlashInfer, and "
        "this layer runs elsewhere.",
        fixes=("--fp8-gemm-backend flashinfer_cutlass or flashinfer_cutedsl", _PRODUCER),
        source=f"{FP8}:1335",
        related=("fwd-fi-k32", "fwd-dg-prequant-layout"),
    ),
    row(
        "fwd-fi-k-match",
        "gemm_input",
        "S8",
        "ValueError",
        "Input K={k} does not match weight K={k_w}.",
        lambda facts: _flashinfer(facts, "fwd-fi-k-match"),
        predicate="a FlashInfer kernel, and the activation's last axis is not the weight's K",
        hardware=_FLASHINFER,
        meaning="The layer before has another width than this weight.",
        fixes=("compare the layers' sizes with config.json",),
        source=f"{FP8_UTILS}:1892",
        related=("fwd-fi-k32", "fwd-fi-dtype"),
    ),
    row(
        "fwd-fi-dtype",
        "gemm_input",
        "S8",
        "TypeError",
        "MXFP8 weight must be FP8 E4M3.",
        lambda facts: _flashinfer(facts, "fwd-fi-dtype"),
        predicate="a FlashInfer kernel and a weight that is not float8_e4m3fn",
        hardware=_FLASHINFER,
        meaning="The weight was replaced after loading, or was never quantised.",
        fixes=("load the layer through SGLang's own loader",),
        source=f"{FP8_UTILS}:1896",
        related=("fwd-fi-k-match",),
    ),
    row(
        "dgin-skip",
        "gemm_input",
        "S8",
        "",
        (),
        _dgin,
        predicate="packed scales for a layer on flashinfer_cutedsl or flashinfer_cutlass, without "
        "DeepGEMM and UE8M0, or N % 64 != 0, or K % 128 != 0",
        hardware=_FLASHINFER,
        meaning="A fused producer asks each layer at load whether it keeps DeepGEMM's copy of the "
        "scale; this one does not.",
        fallback="16-bit activations, quantised in the layer",
        fixes=("install DeepGEMM", "a --tp-size that mends the shape"),
        source=f"{FP8}:995",
        related=("fwd-dg-prequant-layout",),
    ),
    row(
        "fwd-dg-prequant-shape",
        "gemm_input",
        "S8",
        "ValueError",
        "Pre-quantized DeepGEMM input requires N % 64 == 0 and K % 128 == 0; its packed scales "
        "cannot be used by the FlashInfer fallback.",
        _dg_shape,
        predicate="backend deep_gemm, the activation is quantised already, and N % 64 != 0 or "
        "K % 128 != 0",
        hardware="Blackwell with DeepGEMM",
        meaning="DeepGEMM's packed scales fit no other kernel, so there is nothing to fall back "
        "to for a shape that DeepGEMM refuses.",
        fixes=(_PRODUCER, "--fp8-gemm-backend flashinfer_cutlass"),
        source=f"{FP8_UTILS}:1049",
        related=("fwd-dg-noswz", "fwd-dg-prequant-layout"),
    ),
    row(
        "fwd-dg-prequant-layout",
        "gemm_input",
        "S8",
        "ValueError",
        "Expected 2D contiguous FP8 input with packed, MN-major, TMA-aligned UE8M0 scales for "
        "DeepGEMM MXFP8.",
        _dg_layout,
        predicate="backend deep_gemm, the activation is quantised already, and not: UE8M0 in "
        "DeepGEMM, 2-D contiguous E4M3, int32 scale (M, K / 128) with stride (1, M to a multiple "
        "of 4), K of the weight",
        hardware="everything but SM100, SM103, SM120 and SM121 with DeepGEMM, whatever the layout",
        meaning="Four exponents to an int32, columns contiguous, each column padded to 4 tokens: "
        "that is how DeepGEMM reads scales.",
        fixes=(_PRODUCER,),
        source=f"{FP8_UTILS}:1083",
        related=("fwd-dg-prequant-shape", "dgin-skip"),
    ),
    row(
        "fwd-dg-contig",
        "gemm_input",
        "S8",
        "AssertionError",
        (),
        _dg_contig,
        predicate="backend deep_gemm, and the input or the weight is not contiguous, the output is "
        "not bfloat16, or DeepGEMM is switched off",
        hardware="NVIDIA GPUs with DeepGEMM",
        meaning="DeepGEMM reads rows that follow each other. The assertion has no text.",
        fixes=("hand over contiguous tensors",),
        source=f"{_KERNEL}:764",
        related=("fwd-dg-noswz",),
    ),
    row(
        "blk-packed-input",
        "gemm_input",
        "S8",
        "ValueError",
        "Pre-quantized DeepGEMM block-FP8 input requires supported [128, 128] weights and "
        "TMA-aligned, column-major packed UE8M0 scales",
        _blk_packed,
        predicate="block FP8 on DeepGEMM with an int32 input scale, and not: [128, 128] weights "
        "with N % 64 == 0 and K % 128 == 0, UE8M0, scale (M, ceil(K / 128 / 4)) of stride (1, M to "
        "a multiple of 4)",
        hardware="NVIDIA GPUs with DeepGEMM",
        meaning="Packed scales fit DeepGEMM only, so a layer that Triton would multiply stops.",
        fixes=(_PRODUCER,),
        source=f"{FP8_UTILS}:1506",
        related=("fwd-dg-prequant-layout", "blk-fallback"),
    ),
    row(
        "blk-cutlass-prequant",
        "gemm_input",
        "S8",
        "AssertionError",
        "pre-quantized fp8 input requires cutlass-supported weight shapes (got {shape})",
        _blk_cutlass,
        predicate="block FP8 on CUTLASS, the activation is quantised already, and N % 128 != 0 or "
        "K % 128 != 0",
        hardware="SM120, SM121",
        meaning="With 16-bit activations such a layer would go to Triton (blk-fallback); with "
        "quantised ones it stops.",
        fixes=(_PRODUCER, "SGLANG_OPT_MOE_QUANT_ONCE=0"),
        source=f"{FP8_UTILS}:1397",
        related=("blk-fallback",),
    ),
    row(
        "blk-unpack-shape",
        "gemm_input",
        "S8",
        "ValueError",
        "Unexpected scale shape: sf_packed.shape=torch.Size({s}), weight_shape={w}, block_size={b}",
        _blk_unpack,
        predicate="the weight's scale is packed into int32, Triton multiplies, and its rows are "
        "neither N nor ceil(N / block_n)",
        hardware="NVIDIA GPUs with DeepGEMM",
        meaning="Triton takes scales packed for DeepGEMM apart again, and cannot tell how these "
        "were packed.",
        fixes=("load the scales through SGLang's own loader",),
        source=f"{FP8_UTILS}:1637",
        related=("blk-triton-inputs",),
    ),
    row(
        "blk-triton-inputs",
        "gemm_input",
        "S8",
        "AssertionError",
        (),
        _blk_triton,
        predicate="block FP8 on Triton or DeepGEMM: K differs, a tensor is not contiguous, a scale "
        "has not ceil(K / block_k) columns, or is neither float32 nor int32 (NotImplementedError)",
        meaning="The kernel computes addresses itself. The assertions have no text.",
        fixes=("hand over contiguous tensors with one scale for block_k values",),
        source=f"{_KERNEL}:691",
        related=("blk-unpack-shape",),
    ),
)
