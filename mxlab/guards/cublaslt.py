"""cuBLASLt's table: block-scaled FP8, VEC32_UE8M0, as NVIDIA documents it.

The library gets pointers: it answers with a status, and much that is wrong it cannot see.
"""

from dataclasses import replace

from mxlab.guards.call_rows import Library, misread, truth
from mxlab.guards.engine import Finding, Guard, Status
from mxlab.guards.facts import CallFacts, Facts
from mxlab.guards.findings import judge, modulo, multiples, passes, silent, skipped, stops

VERSION = "13.4"
SOURCE = "NVIDIA's cuBLAS documentation, CUDA 13, read 2026-11; reports of torch's users"
CUBLAS = Library("cublaslt", f"cuBLASLt {VERSION}")
MATMUL = "cublasLtMatmul"
FUNCTIONS: dict[str, tuple[str, ...]] = {MATMUL: ()}

_DOC = "cublasLtMatmul(): requirements of tensor- or block-scaled FP8 kernels"
_STATUS = "CUBLAS_STATUS_NOT_SUPPORTED"
_FP8 = ("float8_e4m3fn", "float8_e5m2")
_OUT = ("bfloat16", "float16", "float32", *_FP8)


def _no_gpu(facts: Facts) -> Finding | None:
    return None if facts.platform.cuda else skipped("an NVIDIA library")


def _version(facts: Facts, c: CallFacts) -> Finding:
    major, minor = facts.platform.toolkit
    because = f"CUDA {major}.{minor}, 12.8 needed"
    return _no_gpu(facts) or judge((major, minor) < (12, 8), because)


def _arch(facts: Facts, c: CallFacts) -> Finding:
    if facts.platform.hip:
        because = f"{facts.platform.gpu.label} is no NVIDIA GPU: hipBLASLt is AMD's"
        return Finding(Status.STOPS, because, message=None)
    capability = facts.platform.capability or 0
    because = f"compute capability {capability // 10}.{capability % 10}, 10.0 needed"
    return _no_gpu(facts) or judge(capability < 100, because)


def _tn(facts: Facts, c: CallFacts) -> Finding:
    skip = _no_gpu(facts)
    capability, toolkit = facts.platform.capability or 0, facts.platform.toolkit
    if skip or capability // 10 != 12:
        return skip or skipped("10.x takes TN, NN, NT and TT")
    order = ("T" if c.b_layout == "column" else "N") + ("N" if c.a_layout == "row" else "T")
    because = f"the operands are {order} (TN: this A row-major, this B column-major)"
    if order == "TN" or toolkit > (13, 3):
        return passes(because)
    if toolkit == (13, 3):
        return Finding(Status.UNKNOWN, f"{because}: from Update 1 on (13.6.0) it runs")
    return stops(because)


def _align(facts: Facts, c: CallFacts) -> Finding:
    skip = _no_gpu(facts)
    if skip:
        return skip
    because = (
        f"{modulo('K', c.k, 16)}, {modulo('N', c.n, 16)}; next K {multiples(c.k, 16)}, "
        f"N {multiples(c.n, 16)}"
    )
    return judge(c.k % 16 != 0 or c.n % 16 != 0, because)


def _types(facts: Facts, c: CallFacts) -> Finding:
    skip = _no_gpu(facts)
    if skip:
        return skip
    because = f"A {c.a_dtype}, B {c.b_dtype}, D {c.out_dtype}"
    pair = c.a_dtype in _FP8 and c.b_dtype in _FP8
    both = c.a_dtype == c.b_dtype == "float8_e5m2"
    return judge(not pair or both or c.out_dtype not in _OUT, because)


def _scale_type(facts: Facts, c: CallFacts) -> Finding:
    skip = _no_gpu(facts)
    if skip:
        return skip
    given = c.scale_dtype or "float8_e8m0fnu"
    if given in ("float8_e8m0fnu", "uint8"):
        return passes("the pointers lead to E8M0 bytes")
    return silent(f"the pointers lead to {given}, and every byte is read as an exponent")


def _layout(facts: Facts, c: CallFacts) -> Finding:
    skip = _no_gpu(facts)
    if skip:
        return skip
    true = truth(c)
    if true == "tile_128x4":
        return passes("128x4 tiles, which is what is read")
    read = replace(c, declared_layout="tile_128x4", scale_layout=true)
    same = misread(read, {"A": c.m, "B": c.n})
    if same:
        return silent(f"written as {true}, read as tile_128x4. {same}")
    return silent(
        f"written as {true}, read as tile_128x4: the buffer has another length, so the kernel also "
        "reads beyond its end"
    )


def _vendor(facts: Facts, c: CallFacts) -> Finding:
    gpu = facts.platform.gpu
    return judge(not facts.platform.cuda, f"{gpu.label} is {gpu.arch or 'no GPU'}")


GUARDS: tuple[Guard, ...] = (
    CUBLAS.row(
        "cublaslt-vendor",
        MATMUL,
        "C1",
        "status",
        "CUBLAS_STATUS_NOT_INITIALIZED",
        _vendor,
        predicate="no NVIDIA GPU",
        hardware="AMD GPUs, no GPU",
        meaning="cuBLASLt drives NVIDIA GPUs. AMD's counterpart is hipBLASLt, with other layouts "
        "and limits.",
        fixes=("on AMD, hipBLASLt through torch or Transformer Engine's fork",),
        source="cublasLtCreate()",
        related=("torch-rocm-arch", "te-rocm-k128"),
    ),
    CUBLAS.row(
        "cublaslt-version",
        MATMUL,
        "C1",
        "status",
        "CUBLAS_STATUS_INVALID_VALUE",
        _version,
        predicate="CUDA before 12.8: no CUBLASLT_MATMUL_MATRIX_SCALE_VEC32_UE8M0",
        hardware="NVIDIA GPUs",
        meaning="Block scaling came with cuBLAS 12.8. TE works round a fault of its heuristic "
        "cache up to 12.8.3, where block-scaled and plain FP8 shared a key.",
        fixes=("CUDA 12.8 or later, better 12.9",),
        source=_DOC,
        related=("torch-cuda-128", "te-cublas"),
    ),
    CUBLAS.row(
        "cublaslt-arch",
        MATMUL,
        "C2",
        "status",
        _STATUS,
        _arch,
        predicate="compute capability below 10.0, or no NVIDIA GPU",
        hardware="SM75 to SM90; AMD",
        meaning="Ada and Hopper have FP8 with one scale a tensor or a 128-wide block, not 1x32.",
        fixes=("dequantise to bfloat16", "compute capability 10.0 or more"),
        source="Scaling Mode Support Overview; an H200 answers so through torch 2.11",
        related=("torch-cublas-arch",),
    ),
    CUBLAS.row(
        "cublaslt-tn",
        MATMUL,
        "C2",
        "status",
        _STATUS,
        _tn,
        predicate="compute capability 12.x and operands that are not TN, before cuBLAS 13.6.0",
        hardware="SM120, SM121",
        meaning="A must be transposed and B not (row x column in torch's words). The documentation "
        "lists 8.9, 9.0 and 12.x; cuBLAS 13.6.0 takes every order on 12.x (measured by a user).",
        fixes=("transpose when quantising", "CUDA 13.3 Update 1 or later"),
        source=f"{_DOC}; pytorch/pytorch#198126 (2026-09)",
        related=("torch-tn-sm12x", "te-sm120"),
    ),
    CUBLAS.row(
        "cublaslt-align16",
        MATMUL,
        "C2",
        "status",
        _STATUS,
        _align,
        predicate="K % 16 != 0 or N % 16 != 0; an operand's pointer not 16-byte aligned",
        hardware="NVIDIA GPUs",
        meaning="'Pointers and matrix dimension must support 16-byte alignment.' The tokens are "
        "free: they are the columns of a column-major D. K need not be whole blocks of 32.",
        fixes=("pad N and K to 16, better to 32", "align sub-tensors to 16 bytes"),
        source=_DOC,
        related=("torch-v1-k16", "torch-v1-n16"),
    ),
    CUBLAS.row(
        "cublaslt-types",
        MATMUL,
        "C2",
        "status",
        _STATUS,
        _types,
        predicate="operands not E4M3 or E5M2, both E5M2, or D of another type",
        hardware="NVIDIA GPUs",
        meaning="E4M3 x E4M3 and mixed pairs; E5M2 x E5M2 is in no row of the table. An FP8 D "
        "wants a scale pointer for its own blocks.",
        fixes=("E4M3 for at least one operand", "D in bfloat16"),
        source=_DOC,
        related=("torch-v1-e5m2", "torch-out-fp8"),
    ),
    CUBLAS.row(
        "cublaslt-silent-layout",
        MATMUL,
        "C3",
        "",
        (),
        _layout,
        predicate="the scale bytes are not in 128x4 tiles",
        hardware="SM100 and later",
        meaning="The library gets a pointer and no length: row-major scales are permuted, padding "
        "bytes of 0xFF make NaN, and a short buffer is read past its end.",
        fallback="goes on with permuted scales",
        fixes=("mxlab.interleave(scales, 'tile_128x4')", "zero the padding, align to 16 bytes"),
        source="1D Block Scaling Factors Layout",
        related=("torch-silent-layout", "fi-scale-bytes"),
    ),
    CUBLAS.row(
        "cublaslt-silent-scale",
        MATMUL,
        "C3",
        "",
        (),
        _scale_type,
        predicate="the scale pointer leads to something other than E8M0 bytes",
        hardware="SM100 and later",
        meaning="float32 scales are four bytes each; read as exponents, three of the four are "
        "noise.",
        fallback="goes on with wrong scales",
        fixes=("convert the scales to E8M0 bytes",),
        source=_DOC,
        related=("torch-silent-recipe",),
    ),
)
