"""Triton's table, 3.9 and 3.6: tl.dot_scaled, and a matrix product that is made of it.

Of ``dot_scaled`` a call's m, n and k are the tile; ``matmul_kernel`` stands for a kernel that walks
any (m, n, k) in tiles of 128 x 128 x 128 and masks the rest.
"""

from mxlab.guards.call_rows import Library
from mxlab.guards.engine import Finding, Guard, Status
from mxlab.guards.facts import CallFacts, Facts
from mxlab.guards.findings import judge, passes, silent, skipped, stops
from mxlab.guards.triton_arch import (
    DOT,
    KERNEL,
    NEW,
    TILE,
    VERSIONS,
    Release,
    arch,
    instruction,
)

FUNCTIONS: dict[str, tuple[str, ...]] = {KERNEL: (), DOT: ()}
BOTH = (KERNEL, DOT)
SOURCE = "3.9.0 and 3.6.0 compiled for each architecture without a GPU, 2026-11"

_SEMANTIC = "triton/language/semantic.py, dot_scaled"
#: torch's dtype -> Triton's name for it
NAMES = {
    "float8_e4m3fn": "fp8e4nv",
    "float8_e5m2": "fp8e5",
    "float8_e4m3fnuz": "fp8e4b8",
    "float8_e5m2fnuz": "fp8e5b16",
    "uint8": "uint8",
    "int8": "int8",
    "int16": "int16",
    "int32": "int32",
    "int64": "int64",
    "bool": "int1",
    "float16": "fp16",
    "bfloat16": "bf16",
    "float32": "fp32",
    "float64": "fp64",
    "float4_e2m1fn_x2": "uint8",
}
_LOWER = "dequantise and use tl.dot, or cuBLAS: on Hopper faster than the emulation"


def _format(dtype: str) -> str:
    """Return the format string a caller gives for a dtype: bytes are E4M3."""
    return "e5m2" if dtype == "float8_e5m2" else "e4m3"


def _operands(c: CallFacts) -> tuple[tuple[str, str], tuple[str, str]]:
    return ("lhs", c.a_dtype), ("rhs", c.b_dtype)


def _scales(c: CallFacts) -> tuple[tuple[str, int, tuple[int, ...]], ...]:
    """Return (operand, its rows, shape of its scale)."""
    usual = max(c.k // 32, 1)
    a = (c.m, usual) if c.a_scale_shape is None else c.a_scale_shape
    b = (c.n, usual) if c.b_scale_shape is None else c.b_scale_shape
    return ("lhs", c.m, a), ("rhs", c.n, b)


def _fp8_arch(facts: Facts, c: CallFacts) -> Finding:
    p = facts.platform
    if not p.cuda:
        return skipped("a check of NVIDIA GPUs")
    capability = p.capability or 0
    e4m3 = any(_format(dtype) == "e4m3" for _, dtype in _operands(c))
    because = f"compute capability {capability // 10}.{capability % 10}, E4M3 from 8.9 on"
    return judge(e4m3 and capability < 89, because)


def _e8m0(facts: Facts, c: CallFacts) -> Finding:
    dtype = c.scale_dtype or "uint8"
    return judge(dtype == "float8_e8m0fnu", f"the scale tensors are {dtype}")


def _dtype(facts: Facts, c: CallFacts) -> Finding:
    for side, dtype in _operands(c):
        form = _format(dtype)
        if dtype not in ("uint8", {"e4m3": "float8_e4m3fn", "e5m2": "float8_e5m2"}[form]):
            return stops(f"{side} is {dtype}", form=form, got=NAMES.get(dtype, dtype))
    return passes(f"lhs {c.a_dtype}, rhs {c.b_dtype}")


def _power(facts: Facts, c: CallFacts) -> Finding:
    sizes = {"M": c.m, "N": c.n, "K": c.k}
    bad = [f"{name} = {size}" for name, size in sizes.items() if size < 1 or size & (size - 1)]
    return judge(bool(bad), f"tile {c.m} x {c.n} x {c.k}{': ' + ', '.join(bad) if bad else ''}")


def _tile(c: CallFacts) -> tuple[int, int, int]:
    return (c.m, c.n, c.k) if c.function == DOT else TILE


def _block(c: CallFacts, shape: tuple[int, ...]) -> int | None:
    """Return how many values share a scale, as its shape says; None for a single scale."""
    if len(shape) < 2 or not shape[-1] or shape == (1, 1):
        return None
    return c.k // shape[-1]


def guards(release: Release) -> tuple[Guard, ...]:
    """Return the rows of one release.

    >>> len(guards(NEW)) > 8
    True
    """
    triton = Library("triton", f"triton {release.version}")

    def factor(facts: Facts, c: CallFacts) -> Finding:
        blocks = [_block(c, shape) for _, _, shape in _scales(c)]
        because = f"scales for blocks of {blocks[0]} and {blocks[1]}"
        known = [block for block in blocks if block is not None]
        for block in known:
            if block not in (16, 32):
                return stops(because, 0, factor=block)
        bad = len(set(known)) > 1
        return judge(bad, because, 1, lhs=blocks[0], rhs=blocks[1])

    def shape(facts: Facts, c: CallFacts) -> Finding:
        known = [_block(c, scale) for _, _, scale in _scales(c)]
        first = next((block for block in known if block is not None), 32)
        nvfp4 = (c.scale_dtype or "").startswith("float8_e4m3")
        if release.deduces_block:
            block = first if first in (16, 32) else 32
        else:
            block = 16 if nvfp4 else 32
        for index, (side, rows, scale) in enumerate(_scales(c)):
            want = (rows, c.k // block)
            if scale[-2:] != want:
                got = "[" + ", ".join(f"'{size}'" for size in scale) + "]"
                because = f"{side}_scale is {scale}, {want} wanted"
                return stops(because, index, rows=want[0], cols=want[1], got=got)
        return passes(", ".join(f"{side}_scale {scale}" for side, _, scale in _scales(c)))

    def lowering(facts: Facts, c: CallFacts) -> Finding:
        key = arch(facts)
        because = f"{key or 'no GPU'}, triton {release.version}"
        return judge(key in release.crashes, because)

    def emulated(facts: Facts, c: CallFacts) -> Finding:
        key = arch(facts)
        if not key or key in release.crashes:
            return skipped("no GPU" if not key else "the kernel does not compile")
        if _fp8_arch(facts, c).status is Status.STOPS:
            return skipped("triton-fp8-arch stops")
        if key in release.unknown:
            return Finding(Status.UNKNOWN, f"{facts.platform.gpu.arch} was not compiled for")
        m, n, k = _tile(c)
        native, what = instruction(release, key, m, n, k)
        because = f"{facts.platform.gpu.arch}, tile {m} x {n} x {k}: {what}"
        return passes(because) if native else silent(because)

    def block16(facts: Facts, c: CallFacts) -> Finding:
        blocks = [_block(c, scale) for _, _, scale in _scales(c)]
        if not release.deduces_block:
            return passes("a block is 32 for uint8 scales")
        if 16 not in blocks:
            return passes(f"blocks of {blocks[0]} and {blocks[1]}")
        return silent(f"K = {c.k} with {c.k // 16} scales a row: read as blocks of 16")

    def scale_type(facts: Facts, c: CallFacts) -> Finding:
        dtype = c.scale_dtype or "uint8"
        if dtype not in ("float8_e4m3fn", "float8_e5m2"):
            return passes(f"the scales are {dtype}")
        if not release.deduces_block:
            return skipped("this release takes FP8 scales for NVFP4's, in blocks of 16")
        return silent(f"the scales are {dtype}, and their bytes are read as exponents")

    def wide_scale(facts: Facts, c: CallFacts) -> Finding:
        dtype = c.scale_dtype or "uint8"
        wide = dtype in ("float32", "float16", "bfloat16", "float64", "int16", "int32", "int64")
        return judge(wide, f"the scales are {dtype}: one byte each is wanted")

    def byte_zero(facts: Facts, c: CallFacts) -> Finding:
        key = arch(facts)
        if not key or key in release.crashes:
            return skipped("the kernel does not compile")
        native, what = instruction(release, key, *_tile(c))
        if native or key in release.unknown:
            return passes(what)
        return silent(f"{what}: byte 0 is shifted into a bfloat16 and becomes 0.0")

    axes = "[..., {rows}, {cols}]" if release.deduces_block else "[{rows}, {cols}]"
    rows = [
        triton.row(
            "triton-e8m0",
            BOTH,
            "C2",
            "KeyError",
            "'float8_e8m0fnu'",
            _e8m0,
            predicate="a scale tensor of torch.float8_e8m0fnu is passed to a kernel",
            meaning="Triton has no name for torch's E8M0 dtype; scales travel as bytes.",
            fixes=("scale.view(torch.uint8)",),
            source="triton/runtime/jit.py, mangle_type; triton-lang/triton#10008",
            related=("torch-meta-float-scales",),
        ),
        triton.row(
            "triton-power-of-2",
            DOT,
            "C3",
            "ValueError",
            "arange's range must be a power of 2",
            _power,
            predicate="a side of the tile is not a power of two",
            meaning="Tiles are powers of two; sizes of the matrices are not bound: mask the rest, "
            "with scale bytes of 0, never 0xFF (NaN times 0 is NaN).",
            fixes=("take a tile of 64, 128, ... and mask",),
            source="triton/language/semantic.py, arange",
        ),
        triton.row(
            "triton-fp8-arch",
            BOTH,
            "C3",
            "ValueError",
            "type fp8e4nv not supported in this architecture. The supported fp8 dtypes are "
            "('fp8e4b15', 'fp8e5')",
            _fp8_arch,
            predicate="E4M3 operands on compute capability below 8.9",
            hardware="SM75, SM80, SM86",
            meaning="E4M3 in Triton needs Ada or later: 8.9, not 9.0. Ampere has no conversion "
            "instruction for it. An A100 must dequantise by integer arithmetic.",
            fixes=(
                "weight-only kernels that decode bytes themselves (Marlin)",
                "mxlab's own kernels take codes as uint8 and need no FP8 type",
                "compute capability 8.9 or more",
            ),
            source=_SEMANTIC,
            related=("torch-v1-arch", "vllm-min-capability", "cfg-min-capability"),
        ),
        triton.row(
            "triton-dtype",
            BOTH,
            "C3",
            "AssertionError",
            "Unexpected dtype for {form}. Got {got}",
            _dtype,
            predicate="an operand is neither uint8 nor the FP8 type of its format",
            meaning="E4M3 codes come as uint8 or fp8e4nv. AMD's fnuz type has another bias and is "
            "refused.",
            fixes=("view the codes as torch.uint8 or torch.float8_e4m3fn",),
            source=_SEMANTIC,
        ),
    ]
    if release.deduces_block:
        rows.append(
            triton.row(
                "triton-scale-factor",
                DOT,
                "C3",
                "RuntimeError",
                (
                    "scale factor must be 16 or 32. Got {factor}",
                    "Operands must have the same scale factor; (lhs: {lhs} vs rhs: {rhs})",
                ),
                factor,
                predicate="K / (columns of a scale) is neither 16 nor 32, or differs",
                meaning="The block length follows from the scale's last axis. rhs_scale is "
                "(N, K / 32), although rhs is (K, N): a transposed one ends here.",
                fixes=("pass scales (M, K // 32) and (N, K // 32)",),
                source=f"{_SEMANTIC}, deduce_scale_factor",
                related=("triton-scale-shape", "triton-block16"),
            )
        )
    rows += [
        triton.row(
            "triton-scale-shape",
            DOT,
            "C3",
            "AssertionError",
            (
                f"lhs_scale must be a tensor of shape {axes}. Got {{got}}",
                f"rhs_scale must be a tensor of shape {axes}. Got {{got}}",
            ),
            shape,
            predicate="a scale is not (rows of the tile, K // 32)",
            meaning="Scales are row-major for the tile, one row for each row of A and each column "
            "of B: do not transpose rhs_scale with rhs.",
            fixes=("pass scales (M, K // 32) and (N, K // 32)",),
            source=_SEMANTIC,
            related=("triton-scale-factor",) if release.deduces_block else (),
        ),
        triton.row(
            "triton-scale-wide",
            BOTH,
            "C3",
            "RuntimeError",
            "PassManager::run failed",
            wide_scale,
            predicate="scales wider than a byte, such as float32",
            meaning="The type of a scale is not checked in Python; the compiler fails in "
            "TritonGPUAccelerateMatmul or later, and prints the whole module.",
            fixes=("convert the scales to E8M0 bytes, as torch.uint8",),
            source="compiled with float32 scales for sm_90, sm_100, sm_120 and gfx950",
            related=("triton-e8m0", "triton-scale-type"),
        ),
        triton.row(
            "triton-no-lowering",
            BOTH,
            "C3",
            "RuntimeError",
            "PassManager::run failed",
            lowering,
            predicate=f"an architecture without lowering: {', '.join(release.crashes) or 'none'}",
            hardware="gfx942 with Triton 3.6",
            meaning="Before it, the compiler prints 'LLVM ERROR: Unsupported DotScaleOp found when "
            "converting TritonGPU to LLVM.' Triton 3.9 emulates there.",
            fixes=("a newer Triton", _LOWER),
            source="compiled for gfx942",
            related=("triton-emulated",),
        ),
        triton.row(
            "triton-emulated",
            BOTH,
            "C3",
            "",
            (),
            emulated,
            predicate="no block-scaled instruction for this GPU and this tile",
            meaning="The kernel compiles and the numbers are right, to bfloat16 inputs: operands "
            "are upcast to bfloat16 and multiplied there. Even on SM100 a tile of 64 rows is. "
            "Look at the generated code, not at success.",
            fallback="bfloat16 products",
            fixes=(
                "on SM100 take BLOCK_M 128 or more and BLOCK_N 16 or more",
                "on gfx950 take BLOCK_K 128, or 64 with BLOCK_M and BLOCK_N 32",
                _LOWER,
            ),
            source="PTX and AMDGCN of compiled kernels; triton-lang/triton#7550 (2025-07)",
            related=("ao-silent-emulated", "vllm-mx-fallback", "triton-fp8-arch"),
        ),
        triton.row(
            "triton-scale-type",
            BOTH,
            "C3",
            "",
            (),
            scale_type,
            predicate="scales in an FP8 type",
            meaning="Types of scales are not validated: an FP8 tensor passes as if it were "
            "exponents.",
            fallback="goes on with wrong scales",
            fixes=("E8M0 bytes as torch.uint8",),
            source=f"{_SEMANTIC}: 'TODO: validate types'",
            related=("triton-scale-wide", "cublaslt-silent-scale"),
        ),
        triton.row(
            "triton-block16",
            DOT,
            "C3",
            "",
            (),
            block16,
            predicate="K / 16 scales a row: the release deduces blocks of 16",
            meaning="Scales repeated for every 16 values compile without a word. MXFP8's "
            "instruction scales blocks of 32, so half of the scales are not the ones you meant.",
            fallback="goes on",
            fixes=("pass K // 32 scales a row",),
            source=f"{_SEMANTIC}, deduce_scale_factor",
            related=("triton-scale-shape",),
        ),
        triton.row(
            "triton-byte-zero",
            BOTH,
            "C3",
            "",
            (),
            byte_zero,
            predicate="the emulation up to 3.8 meets a scale byte of 0",
            meaning="2^-127 is a subnormal: the emulation shifts the byte into a bfloat16's "
            "exponent, where 0 is zero. Blocks with the smallest scale vanish.",
            fallback="0.0 for 2^-127",
            fixes=("Triton 3.9", "keep scale bytes at 1 or above"),
            source="read in the decomposition pass up to 3.8; triton-lang/triton#11624",
            related=("triton-emulated",),
        ),
    ]
    if release is NEW:  # 3.9 emulates everywhere, and decodes byte 0
        gone = ("triton-no-lowering", "triton-byte-zero")
        rows = [row for row in rows if row.id not in gone]
    return tuple(sorted(rows, key=lambda row: row.stage))


__all__ = ["FUNCTIONS", "SOURCE", "VERSIONS", "guards"]
