"""What the GPU behind torch's scaled_mm can do: cuBLASLt and silent errors."""

from collections.abc import Callable
from dataclasses import replace
from math import prod

from mxlab.guards.call_rows import misread
from mxlab.guards.engine import Finding, Guard, Status
from mxlab.guards.facts import CallFacts, Facts
from mxlab.guards.findings import judge, passes, silent, skipped, stops
from mxlab.guards.torch_eager import CUDA_CPP
from mxlab.guards.torch_facts import (
    BOTH,
    FNUZ,
    TORCH,
    V1,
    V2,
    empty,
    flagged,
    recipe,
    shapes,
    tiled,
)

TILES = "tile_128x4"
Check = Callable[[Facts, CallFacts], Finding]

_BLAS = "aten/src/ATen/cuda/CUDABlas.cpp (main, 2026-08)"
NOT_SUPPORTED = (
    "CUDA error: {status} when calling `cublasLtMatmulAlgoGetHeuristic( ltHandle, "
    "computeDesc.descriptor(), Adesc.descriptor(), Bdesc.descriptor(), Cdesc.descriptor(), "
    "Ddesc.descriptor(), preference.descriptor(), 1, &heuristicResult, &returnedResult)`"
)
_TN_FIX = (
    "pass A row-major (M, K) and B as weight.t() of a contiguous (N, K) weight",
    "for training, quantise a transposed copy for the gradients",
)


def not_mx(facts: Facts, c: CallFacts) -> Finding | None:
    """Say why the call never reaches MXFP8's kernel."""
    if facts.platform.gpu.vendor == "none":
        return skipped("a CPU call")
    if empty(c):
        return skipped("M, N or K is 0: nothing is launched")
    if c.function == V1 and not facts.platform.hip and recipe(c) not in ("", "BlockWise1x32"):
        return skipped(f"read as {recipe(c)}, not as MXFP8")
    return None


def _tn(c: CallFacts) -> tuple[bool, str]:
    """Tell whether A is row-major and B column-major: cuBLAS's TN, which computes D's transpose.

    One row of A has the strides of both orders.
    """
    row = c.a_layout == "row" or c.m == 1
    name = ("T" if c.b_layout == "column" else "N") + ("N" if row else "T")
    a = "row" if row else c.a_layout
    return name == "TN", f"A {a}-major, B {c.b_layout}-major: {name} in cuBLAS's words"


def _tn_hopper(facts: Facts, c: CallFacts) -> Finding:
    if not facts.platform.cuda or (facts.platform.capability or 0) // 10 != 9:
        return skipped("a check of Hopper")
    if empty(c):
        return skipped("M, N or K is 0: nothing is launched")
    good, because = _tn(c)
    return judge(not good, because)


def _cuda_128(facts: Facts, c: CallFacts) -> Finding:
    if not facts.platform.cuda:
        return skipped("a check of CUDA")
    version = facts.platform.toolkit
    because = f"CUDA {version[0]}.{version[1]}, 12.8 needed"
    return not_mx(facts, c) or judge(version < (12, 8), because)


def _fnuz(facts: Facts, c: CallFacts) -> Finding:
    if not facts.platform.cuda or c.function != V1:
        return skipped("a check of CUDA's v1")
    bad = [dtype for dtype in (c.a_dtype, c.b_dtype) if dtype in FNUZ]
    name = bad[0].replace("float8", "Float8") if bad else ""
    return not_mx(facts, c) or judge(bool(bad), f"A {c.a_dtype}, B {c.b_dtype}", dtype=name)


def _cublas_arch(facts: Facts, c: CallFacts) -> Finding:
    if not facts.platform.cuda:
        return skipped("a check of CUDA")
    capability = facts.platform.capability or 0
    because = f"compute capability {capability // 10}.{capability % 10}, 10.0 needed"
    return not_mx(facts, c) or judge(
        capability < 100, because, status="CUBLAS_STATUS_NOT_SUPPORTED"
    )


def _tn_sm12x(facts: Facts, c: CallFacts) -> Finding:
    p = facts.platform
    if not p.cuda or (p.capability or 0) // 10 != 12:
        return skipped("a limit of compute capability 12.x")
    skip = not_mx(facts, c)
    if skip:
        return skip
    good, order = _tn(c)
    because = f"{order}, CUDA {p.toolkit[0]}.{p.toolkit[1]}"
    if good or p.toolkit > (13, 3):
        return passes(because)
    if p.toolkit == (13, 3):
        return Finding(Status.UNKNOWN, f"{because}: from Update 1 on (cuBLAS 13.6.0) it runs")
    return stops(because, status="CUBLAS_STATUS_NOT_SUPPORTED")


def _fp8_out(facts: Facts, c: CallFacts) -> Finding:
    if not facts.platform.cuda:
        return skipped("a check of CUDA")
    bad = c.out_dtype not in ("bfloat16", "float16", "float32")
    because = f"out_dtype is {c.out_dtype}"
    return not_mx(facts, c) or judge(bad, because, status="CUBLAS_STATUS_INVALID_VALUE")


def _silent_layout(facts: Facts, c: CallFacts) -> Finding:
    if not facts.platform.cuda:
        return skipped("a trap of 128x4 tiles")
    skip = not_mx(facts, c)
    if skip:
        return skip
    lengths = tuple(prod(shape) for shape in shapes(c))
    if lengths != (tiled(c.m, c.k), tiled(c.n, c.k)):
        return passes(f"scales of {lengths} elements are refused aloud")
    if c.function == V2 and flagged(c) != "SWIZZLE_32_4_4":
        return passes("v2 is told that the scales are linear, and refuses them aloud")
    read = replace(c, declared_layout=TILES, scale_layout=c.scale_layout or TILES)
    shown = misread(read, {"A": c.m, "B": c.n})
    if not shown:
        return passes("the bytes are in the layout that the kernel reads")
    return silent(f"written as {c.scale_layout}, read as {TILES}. {shown}")


def _silent_recipe(facts: Facts, c: CallFacts) -> Finding:
    if facts.platform.gpu.vendor == "none" or c.function != V1:
        return skipped("a trap of v1 on a GPU")
    found = recipe(c)
    if found in ("", "BlockWise1x32"):
        return passes(f"read as {found or 'nothing'}")
    a, b = shapes(c)
    return silent(f"float32 scales {a} and {b} are {found} scaling: no block of 32 is scaled")


def device_row(
    id: str,
    stage: str,
    error: str,
    message: str | tuple[str, ...],
    check: Check,
    *,
    predicate: str,
    hardware: str,
    meaning: str,
    fixes: tuple[str, ...],
    source: str,
    related: tuple[str, ...] = (),
    fallback: str = "none",
) -> Guard:
    """Return a row about the device behind both versions."""
    return TORCH.row(
        f"torch-{id}",
        BOTH,
        stage,
        error,
        message,
        check,
        predicate=predicate,
        hardware=hardware,
        meaning=meaning,
        fallback=fallback,
        fixes=fixes,
        source=source,
        related=related,
    )


GUARDS: tuple[Guard, ...] = (
    device_row(
        "tn-hopper",
        "C2",
        "RuntimeError",
        "Only multiplication of row-major and column-major matrices is supported by cuBLASLt",
        _tn_hopper,
        predicate="compute capability 9.x and operands that are not row x column",
        hardware="SM90",
        meaning="Hopper's FP8 kernels take row x column (TN) only. With MXFP8 the next stop is "
        "torch-cublas-arch anyway.",
        fixes=_TN_FIX,
        source=f"{CUDA_CPP}, _scaled_gemm",
        related=("torch-tn-sm12x", "torch-meta-col-major", "cublaslt-tn"),
    ),
    device_row(
        "cuda-128",
        "C2",
        "RuntimeError",
        "scaled_gemm with `torch.float8_e8m0fnu` scales of 1x32 blocks is only supported for CUDA "
        "12.8 and above",
        _cuda_128,
        predicate="torch built with CUDA before 12.8",
        hardware="NVIDIA GPUs",
        meaning="cuBLASLt's block scaling came with CUDA 12.8.",
        fixes=("use a torch built with CUDA 12.8 or later",),
        source=f"{_BLAS}, get_scale_mode",
        related=("cublaslt-version", "te-cublas"),
    ),
    device_row(
        "fnuz",
        "C2",
        "RuntimeError",
        'false INTERNAL ASSERT FAILED at "/pytorch/aten/src/ATen/cuda/CUDADataType.h":98, please '
        "report a bug to PyTorch. Cannot convert ScalarType {dtype} to cudaDataType.",
        _fnuz,
        predicate="v1 on CUDA with an operand of AMD's fnuz formats",
        hardware="NVIDIA GPUs",
        meaning="float8_e4m3fnuz has another bias than E4M3 and no NVIDIA kernel; v1's checks let "
        "it through.",
        fixes=("convert to float8_e4m3fn: the same bits mean half the value in fnuz",),
        source="2.11.0, run on an H200",
        related=("torch-v2-config",),
    ),
    device_row(
        "cublas-arch",
        "C3",
        "RuntimeError",
        NOT_SUPPORTED,
        _cublas_arch,
        predicate="MXFP8 on compute capability below 10.0: torch's gate (8.9) let it through",
        hardware="SM89, SM90",
        meaning="Ada and Hopper have FP8 but no block-scaled MMA. torch does not check, so "
        "cuBLASLt finds no kernel and the text does not say why.",
        fixes=(
            "dequantise to bfloat16 and use torch.mm: on Hopper faster than any emulation",
            "use a GPU of compute capability 10.0 or more",
        ),
        source="2.11.0 (CUDA 13.0), run on an H200",
        related=("torch-v1-arch", "cublaslt-arch", "cfg-min-capability"),
    ),
    device_row(
        "tn-sm12x",
        "C3",
        "RuntimeError",
        NOT_SUPPORTED,
        _tn_sm12x,
        predicate="compute capability 12.x, operands not row x column, cuBLAS before 13.6.0",
        hardware="SM120, SM121",
        meaning="Until CUDA 13.3 Update 1, cuBLAS has MXFP8 kernels for row x column (TN) only on "
        "GeForce Blackwell and GB10; 10.x takes every order. Inference is TN; the gradients of "
        "training are not.",
        fixes=(*_TN_FIX, "a torch built with CUDA 13.3 Update 1 or later"),
        source="pytorch/pytorch#198126 and #198188 (2026-09, torch 2.14, RTX 5060 Ti and 5080)",
        related=("torch-tn-hopper", "torch-meta-col-major", "cublaslt-tn", "te-sm120"),
    ),
    device_row(
        "out-fp8",
        "C3",
        "RuntimeError",
        NOT_SUPPORTED,
        _fp8_out,
        predicate="MXFP8 with an FP8 out_dtype, which is what v1 takes where none is given",
        hardware="NVIDIA GPUs",
        meaning="v1's default out_dtype is the operands': E4M3. torch hands cuBLASLt no scales for "
        "an MXFP8 result, and it answers with a status.",
        fixes=("out_dtype=torch.bfloat16",),
        source="pytorch/pytorch#170719 (2025-12), #160816",
        related=("torch-rocm-out",),
    ),
    device_row(
        "silent-layout",
        "C3",
        "",
        (),
        _silent_layout,
        predicate="row-major (or otherwise tiled) scale bytes of the length of 128x4 tiles",
        hardware="NVIDIA GPUs",
        meaning="For M, N % 128 = 0 and K % 128 = 0 row-major and tiled scales have one length and "
        "dtype. v1 never asks, v2 believes the flag: the result is garbage without a word. "
        "Tests with near-equal scales do not see it.",
        fallback="goes on with permuted scales",
        fixes=(
            "mxlab.interleave(scales, 'tile_128x4')",
            "let the layout travel with the buffer; test with distinct scales",
        ),
        source=CUDA_CPP,
        related=("torch-v2-swizzle", "fi-scale-bytes", "cublaslt-silent-layout"),
    ),
    device_row(
        "silent-recipe",
        "C3",
        "",
        (),
        _silent_recipe,
        predicate="v1 with float32 scales of a shape that another recipe has",
        meaning="v1 picks the recipe from the scales' dtype and shape. float32 scales (m, 1) and "
        "(1, n) are row-wise scaling: a number comes out, and it is not MXFP8's.",
        hardware="every GPU",
        fallback="another scaling recipe",
        fixes=("pass E8M0 scales", "use torch.nn.functional.scaled_mm, which is told the recipe"),
        source=CUDA_CPP,
        related=("torch-v1-config",),
    ),
)
