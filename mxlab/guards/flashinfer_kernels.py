"""FlashInfer's mm_mxfp8 behind the common checks: what each backend asks, and what nobody asks."""

from collections.abc import Callable

from mxlab.guards.call_rows import misread
from mxlab.guards.engine import Finding, Guard, Status
from mxlab.guards.facts import CallFacts, Facts
from mxlab.guards.findings import judge, modulo, multiples, pad, passes, silent, skipped, stops
from mxlab.guards.flashinfer_backends import NEEDS, Need, backend_of, first_unmet
from mxlab.guards.flashinfer_rows import (
    CSRC,
    GEMM,
    SWIZZLED_FIX,
    UTILS,
    capability,
    flag_8x4,
    k_contiguous,
    row,
    sm12x,
    where,
)

_SHUFFLE_FIX = "shuffle_matrix_a for the weight and shuffle_matrix_sf_a for its linear scales"


def _asked(call: CallFacts, backend: str) -> Finding | None:
    """Return not-reached where another backend, or auto, was asked for."""
    if call.backend == backend:
        return None
    return skipped(f"a check of backend {backend}: {call.backend} was asked for")


def _raises(backend: str, kinds: tuple[str, ...]) -> Callable[[Facts, CallFacts], Finding]:
    """Return the check of a backend's own texts; ``kinds`` name its messages by need."""

    def check(facts: Facts, call: CallFacts) -> Finding:
        skip = _asked(call, backend)
        if skip:
            return skip
        unmet = first_unmet(facts, call, backend)
        if unmet is None:
            return passes(f"{backend} takes the call on {where(facts)}")
        if unmet.quiet:
            return skipped(f"{unmet.because}: fi-mm-problem says so")
        return stops(unmet.because, _which(unmet, kinds), k=call.k, cuda=_cuda(facts))

    return check


def _which(unmet: Need, kinds: tuple[str, ...]) -> int:
    return next((i for i, kind in enumerate(kinds) if kind in unmet.because), 0)


def _cuda(facts: Facts) -> str:
    return ".".join(map(str, facts.platform.toolkit))


def _problem(facts: Facts, call: CallFacts) -> Finding:
    backend = call.backend
    if backend == "auto":
        return skipped("backend auto is chosen from those that take the call")
    unmet = first_unmet(facts, call, backend)
    if unmet is None:
        return passes(f"{backend} takes M = {call.m}, N = {call.n}, K = {call.k}")
    if not unmet.quiet:
        return skipped(f"{unmet.because}: {backend} raises its own text")
    near = ""
    if unmet.because.startswith("K"):
        near = f"; nearest legal K {multiples(call.k, 256 if backend == 'trtllm' else 32)}"
    if unmet.because.startswith("N"):
        near = f"; nearest legal N {multiples(call.n, 32)}"
    return stops(f"{backend}: {unmet.because}{near}")


def _order(facts: Facts, call: CallFacts) -> Finding:
    backend = backend_of(facts, call)
    names = {"cutlass": ("mat1", "mat2"), "trtllm": ("a", "b")}.get(backend)
    if names is None:
        return skipped(f"{backend or 'no backend'} does not check contiguity in C++")
    because = f"a is {call.a_layout}-major, b is {call.b_layout}-major"
    a, b = k_contiguous(call)
    return judge(not (a and b), because, name=names[0 if not a else 1])


def _k32n32(facts: Facts, call: CallFacts) -> Finding:
    if backend_of(facts, call) != "cutlass" or sm12x(facts):
        return skipped("a check of the cutlass kernel on SM100, SM103 and SM110")
    because = f"{modulo('N', call.n, 32)}, {modulo('K', call.k, 32)}"
    values = {"m": call.m, "n": call.n, "k": call.k}
    if call.k % 32:
        return stops(f"{because}; nearest legal K {multiples(call.k, 32)}", 0, **values)
    near = "" if call.n % 32 == 0 else f"; nearest legal N {multiples(call.n, 32)}"
    return judge(call.n % 32 != 0, because + near, 1, **values)


def _aligned(facts: Facts, call: CallFacts) -> Finding:
    if backend_of(facts, call) != "cute-dsl":
        return skipped("a rule of backend cute-dsl")
    because = f"{modulo('N', call.n, 8)}, {modulo('K', call.k, 16)}"
    if call.n % 8 == 0 and call.k % 16 == 0:
        return passes(because)
    text = f"{because}: the kernel's can_implement says no, and without the autotuner nobody asks"
    return silent(text)


def _bytes(facts: Facts, call: CallFacts) -> Finding:
    backend = backend_of(facts, call)
    if backend == "cute-dsl" and flag_8x4(call):
        text = "the scales of A are in 8x4, the flag is unused by cute-dsl, and the kernel reads"
        return silent(f"{text} 128x4: M = {call.m} rows are {pad(call.m, 8)} in 8x4")
    found = misread(call, {"a_descale": call.m} if call.m else {})
    return (
        silent(f"{call.scale_layout} bytes declared {call.declared_layout}: {found}")
        if (found)
        else passes("the scales are in the layout that the call says")
    )


def _shuffled(facts: Facts, call: CallFacts) -> Finding:
    backend = backend_of(facts, call)
    needs = backend == "trtllm"
    if call.b_shuffled is None or call.b_shuffled == needs:
        text = "shuffled, as trtllm reads it" if needs else "in its own order"
        return passes(f"the weight is {text}")
    found = "is" if call.b_shuffled else "is not"
    return silent(f"{backend or 'the kernel'} gets a weight that {found} shuffled")


def _slow(facts: Facts, call: CallFacts) -> Finding:
    if capability(facts) not in (120, 121):
        return skipped("b12x exists on SM120 and SM121 only")
    if call.backend not in ("auto", "cutlass"):
        return skipped(f"backend {call.backend} was asked for")
    backend = backend_of(facts, call)
    unmet = [need for need in NEEDS["mm_mxfp8"]["b12x"](facts, call) if not need.holds]
    if not unmet:
        return passes(f"{backend} runs; b12x takes the call too")
    if not backend:
        return skipped("no backend takes the call")
    more = ""
    if call.k % 128:
        wide = pad(call.k, 128)
        share = 100 * (wide - call.k) / call.k
        more = f"; zero-padding K to {wide} costs {share:.1f} % more bytes and FLOPs"
    missing = ", ".join(need.because for need in unmet)
    because = f"b12x does not take it ({missing}): {backend} runs{more}"
    status = Status.FALLS_BACK if call.backend == "auto" else Status.SILENT
    return Finding(status, because, message=None)


def _toolkit(facts: Facts, call: CallFacts) -> Finding:
    backend, cap, cuda = backend_of(facts, call), capability(facts), _cuda(facts)
    if backend not in ("cutlass", "trtllm"):
        return skipped(f"{backend or 'no backend'} is not compiled by nvcc at the first call")
    needed = {100: (12, 8), 103: (12, 9), 110: (13, 0), 120: (12, 8), 121: (12, 9)}.get(cap)
    if needed is None:
        return skipped(f"capability {cap} has no kernel to compile")
    because = f"CUDA {cuda} against {needed[0]}.{needed[1]} for capability {cap}"
    bad = facts.platform.toolkit < needed
    return judge(bad, because, 1 if cap // 10 == 12 else 0, cap=cap)


_K128 = ("zero-pad K of weight and activation to a multiple of 128",)

GUARDS: tuple[Guard, ...] = (
    row(
        "fi-mm-cutlass-scales",
        "mm_mxfp8",
        "C2",
        "ValueError",
        "cutlass mm_mxfp8 requires 1D 128x4-swizzled block scales; the provided scale layout (8x4 "
        "or 2D linear) is not supported. Use mxfp8_quantize(..., is_sf_swizzled_layout=True).",
        _raises("cutlass", ()),
        predicate="backend cutlass on SM100, SM103, SM110, and scales in 8x4 or 2-D",
        hardware="SM100, SM103, SM110",
        meaning="The CUTLASS kernel reads 128x4 tiles of scales and nothing else.",
        fixes=(SWIZZLED_FIX,),
        source=f"{GEMM}:6161",
        related=("fi-mm-problem", "fi-scale-bytes"),
    ),
    row(
        "fi-mm-trtllm-scales",
        "mm_mxfp8",
        "C2",
        "ValueError",
        "trtllm mm_mxfp8 requires a_descale and b_descale to be 1D swizzled buffers; 2D linear "
        "scales are not supported. Use mxfp8_quantize(..., is_sf_swizzled_layout=True).",
        _raises("trtllm", ()),
        predicate="backend trtllm, bfloat16 output, and 2-D scales",
        hardware="SM100, SM103",
        meaning="TRT-LLM's kernels read swizzled scales: 8x4 or 128x4 for the activation.",
        fixes=(SWIZZLED_FIX,),
        source=f"{GEMM}:6186",
        related=("fi-mm-shuffle",),
    ),
    row(
        "fi-mm-cutedsl-scales",
        "mm_mxfp8",
        "C2",
        "ValueError",
        "cute_dsl mm_mxfp8 requires swizzled 1D scale tensors for a_descale and b_descale.",
        _raises("cute-dsl", ()),
        predicate="backend cute-dsl and 2-D scales",
        hardware="SM100, SM103",
        meaning="The kernel reads 128x4 tiles of scales.",
        fixes=(SWIZZLED_FIX,),
        source=f"{GEMM}:6212",
        related=("fi-scale-bytes",),
    ),
    row(
        "fi-mm-low-latency",
        "mm_mxfp8",
        "C2",
        "ValueError",
        (
            "cutedsl_low_latency mm_mxfp8 requires 1D 128x4 scale tensors",
            "cutedsl_low_latency mm_mxfp8 requires a contiguous (M, K) tensor and a column-major "
            "(K, N) tensor",
            "cutedsl_low_latency mm_mxfp8 requires M <= 8 and K divisible by 128",
        ),
        _raises("cutedsl_low_latency", ("scales", "-major", "against 8")),
        predicate="backend cutedsl_low_latency, and scales not 1-D 128x4, or operands not K-major, "
        "or M > 8, or K % 128 != 0",
        hardware="SM100, SM103",
        meaning="A kernel for decoding: at most 8 tokens.",
        fixes=('backend="cutlass" or "cute-dsl" for more than 8 rows', *_K128),
        source=f"{GEMM}:6231",
    ),
    row(
        "fi-mm-b12x",
        "mm_mxfp8",
        "C2",
        "ValueError",
        (
            "b12x mm_mxfp8 requires CUDA 13 or later. Current CUDA version: {cuda}.",
            "b12x mm_mxfp8 requires 1D 128x4-swizzled block scales. Use mxfp8_quantize(..., "
            "is_sf_swizzled_layout=True).",
            "b12x mm_mxfp8 requires the contraction dim K to be a multiple of 128 (one full BK128 "
            "tile). Got K={k}.",
        ),
        _raises("b12x", ("CUDA", "scales", "K =")),
        predicate="backend b12x, and CUDA < 13, or scales not 1-D 128x4, or K % 128 != 0",
        hardware="SM120, SM121",
        meaning="The fastest kernel for small M on SM12x works on whole tiles of 128 along K.",
        fixes=(*_K128, 'backend="cutlass", which is slower', "CUDA 13"),
        source="flashinfer/gemm/gemm_mm_mxfp8_cute_dsl.py:64",
        related=("fi-mm-slow",),
    ),
    row(
        "fi-mm-problem",
        "mm_mxfp8",
        "C2",
        "ValueError",
        "Problem size is not supported for mm_mxfp8",
        _problem,
        predicate="trtllm: output not bfloat16 or K % 256 != 0; cutlass on SM12x: scales not 1-D "
        "128x4, K % 32 != 0 or N % 32 != 0; cudnn: scales not 1-D 128x4",
        hardware="SM100 to SM121",
        meaning="The chosen backend said no without saying why. The text carries no numbers.",
        fixes=('backend="auto"', SWIZZLED_FIX, "zero-pad the weight to the next legal size"),
        source=f"{UTILS}:1569",
        related=("fi-mm-size",),
    ),
    row(
        "fi-mm-toolkit",
        "mm_mxfp8",
        "C3",
        "RuntimeError",
        (
            "nvcc fatal   : Unsupported gpu architecture 'compute_{cap}a'",
            "No supported CUDA architectures found for major versions [12].",
        ),
        _toolkit,
        predicate="backends cutlass and trtllm are compiled at the first call, and nvcc is older "
        "than the GPU: SM100 and SM120 12.8, SM103 and SM121 12.9, SM110 13.0",
        hardware="SM100 to SM121 with an old CUDA",
        meaning="The first call compiles the kernel, minutes into the run. On SM12x FlashInfer "
        "drops the GPU from its list first, so the text names no version.",
        fixes=("a newer CUDA toolkit", "flashinfer-jit-cache, which ships compiled kernels"),
        source="flashinfer/compilation_context.py:104, 163",
        related=("res-cutlass",),
    ),
    row(
        "fi-mm-contiguous",
        "mm_mxfp8",
        "C3",
        "RuntimeError",
        "{name} must be contiguous",
        _order,
        predicate="cutlass, trtllm: a is not row-major, or b is not the transposed view of a "
        "contiguous (n, k) weight",
        hardware="SM100 to SM121",
        meaning="Blocks run along K, so K must be the contiguous axis of both operands.",
        fixes=("pass weight_q.t(), the view, without .contiguous()",),
        source=f"{CSRC}/mxfp8_gemm_cutlass.cu:96 and trtllm_gemm_runner.cu:370",
    ),
    row(
        "fi-mm-k32-n32",
        "mm_mxfp8",
        "C3",
        "RuntimeError",
        (
            "Expected k to be divisible by 32, but got mat1 shape: ({m}x{k}), k: {k}.",
            "Expected n to be divisible by 32, but got mat2 shape: ({n}x{k}).",
        ),
        _k32n32,
        predicate="cutlass on SM100, SM103 or SM110, and K % 32 != 0 or N % 32 != 0",
        hardware="SM100, SM103, SM110",
        meaning="The kernel loads 32 elements at a time along both sides of the weight.",
        fixes=('backend="cute-dsl" (N % 8)', "zero-pad the weight to a multiple of 32"),
        source=f"{CSRC}/mxfp8_gemm_cutlass.cu:246",
        related=("fi-mm-k32n32", "fi-mm-problem"),
    ),
    row(
        "fi-mm-cutedsl-align",
        "mm_mxfp8",
        "C3",
        "",
        (),
        _aligned,
        predicate="backend cute-dsl, and N % 8 != 0 or K % 16 != 0",
        hardware="SM100, SM103",
        meaning="Rows of the result or of the operands are not 16-byte aligned. The tuner finds no "
        "legal kernel; without the tuner the default kernel is launched unasked. What it then "
        "does was read in the source, not seen on a device.",
        fallback="launches a kernel that was not made for the size",
        fixes=("zero-pad N to a multiple of 8 and K to a multiple of 32",),
        source=f"{GEMM}:6308, 6511",
        related=("fi-mm-k32-n32",),
    ),
    row(
        "fi-mm-slow",
        "mm_mxfp8",
        "C2",
        "",
        (),
        _slow,
        predicate="SM120 or SM121, backend auto or cutlass, and b12x does not take the call: K % "
        "128 != 0, CUDA < 13 or scales not 1-D 128x4",
        hardware="SM120, SM121",
        meaning="The call is accepted and runs on a slower kernel: 3.4 times slower for N = 5120, "
        "K = 576, M = 6 on SM121 in FlashInfer's issue 5175.",
        fallback="cutlass, or cudnn where cutlass does not take it either",
        fixes=(*_K128, "CUDA 13"),
        source=f"{GEMM}:6965 and gemm_mm_mxfp8_cute_dsl.py:64",
        related=("fi-mm-b12x",),
    ),
    row(
        "fi-scale-bytes",
        "mm_mxfp8",
        "C3",
        "",
        (),
        _bytes,
        predicate="scale bytes in another layout than the call says, in a buffer of the same "
        "length; or 8x4 scales with backend cute-dsl, which ignores the flag",
        hardware="SM100 to SM121",
        meaning="Only the number of dimensions and the length are checked. Linear bytes of a shape "
        "that needs no padding pass as swizzled ones, and most rows get a neighbour's scale.",
        fallback="multiplies with the wrong scales",
        fixes=(SWIZZLED_FIX, "block_scale_interleave(linear_scales)", "mxlab detect"),
        source=f"{GEMM}:6066, 6199",
        related=("fi-mm-scale-shape",),
    ),
    row(
        "fi-mm-shuffle",
        "mm_mxfp8",
        "C3",
        "",
        (),
        _shuffled,
        predicate="trtllm with a weight in its own order, or any other backend with a shuffled one",
        hardware="SM100 to SM121",
        meaning="TRT-LLM's kernels want the rows of the weight and of its scales permuted. A "
        "permuted weight looks like any other.",
        fallback="returns columns in the wrong order, or multiplied with other rows' scales",
        fixes=(_SHUFFLE_FIX,),
        source=f"{GEMM}:7055",
        related=("wsp-trtllm-n32",),
    ),
)
