"""What torch checks when scaled_mm runs: the host checks of v1 and v2 on NVIDIA GPUs and CPUs."""

from collections.abc import Callable
from math import prod

from mxlab.guards.engine import Finding, Guard
from mxlab.guards.facts import CallFacts, Facts
from mxlab.guards.findings import judge, modulo, multiples, skipped, stops
from mxlab.guards.torch_facts import (
    FP8,
    MX_SCALE,
    NAMES,
    TORCH,
    V1,
    V2,
    ceil,
    contiguous,
    empty,
    flagged,
    recipe,
    scale_dtype,
    shapes,
    strides,
    tiled,
)

CUDA_CPP = "aten/src/ATen/native/cuda/ScaledBlas.cpp (main at 0174dfa, 2026-08; 2.11 ran on sm_90)"
CPU_CPP = "aten/src/ATen/native/Blas.cpp, run on a CPU"
_GPUS = "NVIDIA and AMD GPUs"
PAD = "pad N and K of the weight with zeros to a multiple of 16 (of 32 for whole blocks)"
AS_E8M0 = f"view the scale bytes as torch.{MX_SCALE}"
LENGTH = "give round_up(rows, 128) * round_up(ceil(K / 32), 4) scales, the padding included"
SWIZZLE = "swizzle the scales to 128x4 tiles and pass SWIZZLE_32_4_4"
_E4M3 = "float8_e4m3fn"

Check = Callable[[Facts, CallFacts], Finding]


def eager(
    version: str,
    id: str,
    error: str,
    message: str | tuple[str, ...],
    check: Check,
    *,
    predicate: str,
    meaning: str,
    fixes: tuple[str, ...],
    related: tuple[str, ...] = (),
    hardware: str = _GPUS,
    source: str = CUDA_CPP,
    stage: str = "C2",
    fallback: str = "none",
) -> Guard:
    """Return a row of the eager checks of ``version``: v1 or v2."""

    def asked(facts: Facts, call: CallFacts) -> Finding:
        if facts.platform.gpu.vendor == "none" and source != CPU_CPP:
            return skipped("a CPU call")
        return check(facts, call)

    return TORCH.row(
        f"torch-{version}-{id}",
        V1 if version == "v1" else V2,
        stage,
        error,
        message,
        asked,
        predicate=predicate,
        hardware=hardware,
        meaning=meaning,
        fallback=fallback,
        fixes=fixes,
        source=source,
        related=related,
    )


def allowed(facts: Facts) -> bool:
    """Tell whether torch's own gate lets the GPU in: 8.9, 9.0 and up, or MI300 and up."""
    if facts.platform.hip:
        return any(name in facts.platform.gpu.arch for name in ("gfx94", "gfx95", "gfx12"))
    return (facts.platform.capability or 0) >= 89


def _arch(facts: Facts, c: CallFacts) -> Finding:
    return judge(not allowed(facts), f"{facts.platform.gpu.label} is {facts.platform.gpu.arch}")


def nothing(c: CallFacts) -> Finding | None:
    """Say that v2 returns at once where there is nothing to multiply."""
    return skipped("M, N or K is 0: v2 returns before its checks") if empty(c) else None


def _k16(facts: Facts, c: CallFacts) -> Finding:
    skip = nothing(c) if c.function == V2 else None
    because = f"{modulo('K', c.k, 16)}, next {multiples(c.k, 16)}"
    return skip or judge(c.k % 16 != 0, because, m=c.m, k=c.k)


def _n16(facts: Facts, c: CallFacts) -> Finding:
    skip = nothing(c) if c.function == V2 else None
    because = f"{modulo('N', c.n, 16)}, {modulo('K', c.k, 16)}, next N {multiples(c.n, 16)}"
    return skip or judge(c.n % 16 != 0 or c.k % 16 != 0, because, n=c.n, k=c.k)


def _e5m2(facts: Facts, c: CallFacts) -> Finding:
    if facts.platform.hip:
        return skipped("ROCm multiplies two E5M2 matrices")
    skip = nothing(c) if c.function == V2 else None
    both = c.a_dtype == c.b_dtype == "float8_e5m2"
    return skip or judge(both, f"A is {c.a_dtype}, B is {c.b_dtype}")


def _bias(facts: Facts, c: CallFacts) -> Finding:
    skip = nothing(c) if c.function == V2 else None
    because = f"out_dtype {c.out_dtype}, {'a' if c.bias else 'no'} bias"
    return skip or judge(c.bias and c.out_dtype == "float32", because)


_ARCH = (
    "torch._scaled_mm is only supported on CUDA devices with compute capability >= 9.0 or 8.9, or "
    "ROCm MI300+"
)


def _both(version: str) -> tuple[tuple[Guard, ...], tuple[Guard, ...]]:
    """Return the checks that v1 and v2 share: the gate, and those of sizes and dtypes."""
    value = "RuntimeError" if version == "v1" else "ValueError"
    gate = eager(
        version,
        "arch",
        "RuntimeError" if version == "v1" else "NotImplementedError",
        _ARCH,
        _arch,
        predicate="compute capability below 8.9, or a GPU before MI300",
        meaning="The general FP8 gate. It lets Ada and Hopper through, which have no MXFP8: check "
        "for 10.0 or more yourself.",
        hardware="before Ada; AMD before MI300",
        fixes=("dequantise to bfloat16 and use torch.mm",),
        related=("torch-cublas-arch", "triton-fp8-arch"),
    )
    sizes = (
        eager(
            version,
            "k16",
            value,
            "Expected trailing dimension of mat1 to be divisible by 16 but got mat1 shape: "
            "({m}x{k}).",
            _k16,
            predicate="K % 16 != 0",
            meaning="The contraction length must be a multiple of 16 (16 bytes of FP8).",
            fixes=(PAD,),
            related=("torch-meta-k16", "cublaslt-align16"),
        ),
        eager(
            version,
            "n16",
            value,
            "mat2 shape ({k}x{n}) must be divisible by 16",
            _n16,
            predicate="N % 16 != 0 or K % 16 != 0",
            meaning="The output width must be a multiple of 16; M is free.",
            fixes=(PAD,),
            related=("torch-meta-n16", "cublaslt-align16"),
        ),
        eager(
            version,
            "e5m2",
            "ValueError",
            "Multiplication of two Float8_e5m2 matrices is not supported",
            _e5m2,
            predicate="both operands are E5M2",
            meaning="cuBLASLt has no E5M2 x E5M2 product; one operand must be E4M3.",
            hardware="NVIDIA GPUs",
            fixes=("keep at least one operand in E4M3",),
        ),
        eager(
            version,
            "bias-float32",
            value,
            "Bias is not supported when out_dtype is set to Float32",
            _bias,
            predicate="a bias and out_dtype float32",
            meaning="The fused bias exists for 16-bit outputs only.",
            fixes=("out_dtype bfloat16", "add the bias afterwards"),
        ),
    )
    return (gate,), sizes


_OFFER = (
    "Invalid scaling configuration.\n- For TensorWise scaling, a and b should be float8, scales "
    "should be float and singletons.\n- For RowWise scaling, a and b should be float8, scales "
    "should be float, scale_a should be ({m}, 1) and scale_b should be (1, {n}), and both should "
    "be contiguous.\n"
)
_CUDA_OFFER = (
    "- For BlockWise 1x128 scaling, a and b should be float8, scales should be float, scale_a "
    "should be ({m}, {k128}) and scale_b should be ({k128}, {n}), and both should be "
    "outer-dim-major.\n- For BlockWise 128x128 scaling, a and b should be float8, scales should be "
    "float, scale_a should be ({m128}, {k128}) and scale_b should be ({k128}, {n128}), and both "
    "should be near-inner-dim-major (with 16-byte aligned strides).\n- For Blockwise 1x32 scaling, "
    "a and b should be float8, scales should be float8_e8m0fnu, scale_a should have {a32} elements "
    "and scale_b should have {b32} elements, and both should be contiguous.\n- For Blockwise 1x16 "
    "scaling, a and b should be float4 (packed 2x), scales should be float8_e4m3fn, scale_a should "
    "have {a16} elements and scale_b should have {b16} elements, and both should be contiguous.\n"
)
_GOT = (
    "Got mat_a.dtype()={a}, scale_a{i}.dtype()={s}, scale_a{i}.size()={sa}, scale_a{i}.stride()="
    "{ta}, mat_b.dtype()={b}, scale_b{i}.dtype()={s}, scale_b{i}.size()={sb} and "
    "scale_b{i}.stride()={tb}"
)
V1_CONFIG = _OFFER + _CUDA_OFFER + _GOT.replace("mat_", "").replace("{i}", "")
V2_CONFIG = _OFFER + _CUDA_OFFER + _GOT.replace("{i}", "[0]")
CPU_CONFIG = _OFFER + _GOT.replace("{i}", "")


def offer(c: CallFacts, because: str) -> Finding:
    """Stop with the long text that lists every recipe and what was given."""
    a, b = shapes(c)
    every_second = not c.scale_contiguous

    def listed(values: tuple[int, ...]) -> str:
        return f"[{', '.join(str(value) for value in values)}]"

    return stops(
        because,
        m=c.m,
        n=c.n,
        k128=ceil(c.k, 128),
        m128=ceil(c.m, 128),
        n128=ceil(c.n, 128),
        a32=tiled(c.m, c.k),
        b32=tiled(c.n, c.k),
        a16=tiled(c.m, c.k * 2, 16),
        b16=tiled(c.n, c.k * 2, 16),
        a=NAMES[c.a_dtype],
        b=NAMES[c.b_dtype],
        s=NAMES[scale_dtype(c)],
        sa=listed(a),
        sb=listed(b),
        ta=listed(strides(a, every_second=every_second)),
        tb=listed(strides(b, every_second=every_second)),
    )


def given(c: CallFacts) -> str:
    """Say in numbers what the call hands over, and what MXFP8 wants."""
    a, b = shapes(c)
    return (
        f"A {c.a_dtype}, B {c.b_dtype}, scales {scale_dtype(c)} of {prod(a)} (MXFP8 wants "
        f"{tiled(c.m, c.k)}) and {prod(b)} ({tiled(c.n, c.k)}) elements"
        f"{'' if c.scale_contiguous else ', not contiguous'}"
    )


def _v1_config(facts: Facts, c: CallFacts) -> Finding:
    if facts.platform.hip and facts.platform.toolkit >= (7, 14):
        return skipped("ROCm 7.14 and later: torch-rocm-ext-length")
    found = recipe(c)
    return judge(False, f"read as {found}: {given(c)}") if found else offer(c, given(c))


def _v2_config(facts: Facts, c: CallFacts) -> Finding:
    good = c.a_dtype == c.b_dtype == _E4M3 and scale_dtype(c) == MX_SCALE
    because = f"A {c.a_dtype}, B {c.b_dtype}, scales {scale_dtype(c)}"
    return nothing(c) or (judge(False, because) if good else offer(c, because))


def _v2_dtype(facts: Facts, c: CallFacts) -> Finding:
    for index, dtype in enumerate((c.a_dtype, c.b_dtype)):
        if dtype not in (*FP8, MX_SCALE, "float4_e2m1fn_x2") and not empty(c):
            return stops(f"mat_{'ab'[index]} is {dtype}", index, dtype=NAMES[dtype])
    return nothing(c) or judge(False, f"A is {c.a_dtype}, B is {c.b_dtype}")


def _v2_count(facts: Facts, c: CallFacts) -> Finding:
    if facts.platform.hip and facts.platform.toolkit >= (7, 14):
        return skipped("ROCm 7.14 and later: torch-rocm-ext-length")
    hip = facts.platform.hip
    pairs = zip((c.m, c.n), shapes(c, hip), strict=True)
    for index, (rows, shape) in enumerate(pairs):
        want = ceil(rows, 32) * c.k if hip else tiled(rows, c.k)
        if prod(shape) != want and not empty(c):
            because = f"scale_{'ab'[index]} has {prod(shape)} elements of {want}"
            return stops(because, index, want=want, got=prod(shape))
    return nothing(c) or judge(False, "both scales have the wanted length")


def _v2_swizzle(facts: Facts, c: CallFacts) -> Finding:
    if facts.platform.hip:
        return skipped("NVIDIA's layout; ROCm has its own (torch-rocm-swizzle)")
    flag = flagged(c)
    return nothing(c) or judge(flag != "SWIZZLE_32_4_4", f"swizzle_a and swizzle_b are {flag}")


def _v2_contiguous(facts: Facts, c: CallFacts) -> Finding:
    good = all(contiguous(c, shape) for shape in shapes(c))
    return nothing(c) or judge(not good, f"contiguous: {good}")


_V1_GATE, _V1_SIZES = _both("v1")
_V2_GATE, _V2_SIZES = _both("v2")

GUARDS: tuple[Guard, ...] = (
    *_V1_GATE,
    eager(
        "v1",
        "config",
        "RuntimeError",
        V1_CONFIG,
        _v1_config,
        predicate="dtypes, element counts and contiguity fit no recipe",
        meaning="v1 has no recipe argument: it recognises MXFP8 by E8M0 scales of exactly the "
        "padded 128x4 length, contiguous. Anything else that no other recipe claims stops here.",
        fixes=(LENGTH, AS_E8M0, "call .contiguous() on the scales"),
        related=("torch-meta-blockwise", "torch-meta-float-scales", "torch-silent-recipe"),
    ),
    *_V1_SIZES,
    *_V2_GATE,
    *_V2_SIZES[:2],
    eager(
        "v2",
        "dtype",
        "ValueError",
        (
            "Expected mat_a to be Float8 or Float4_x2 matrix got {dtype}",
            "Expected mat_b to be Float8 or Float4_x2 matrix got {dtype}",
        ),
        _v2_dtype,
        predicate="an operand is no FP8 (or packed FP4) tensor",
        meaning="The codes must carry an FP8 dtype.",
        fixes=("view the codes as torch.float8_e4m3fn",),
        related=("torch-meta-dtype",),
    ),
    *_V2_SIZES[2:],
    eager(
        "v2",
        "config",
        "ValueError",
        V2_CONFIG,
        _v2_config,
        predicate="BlockWise1x32 without E4M3 codes on both sides and E8M0 scales",
        meaning="v2's MXFP8 recipe takes E4M3 x E4M3 alone: E5M2 operands, which v1 lets through, "
        "stop here.",
        fixes=("use E4M3 for both operands", AS_E8M0),
        related=("torch-v1-config",),
    ),
    eager(
        "v2",
        "count",
        "ValueError",
        (
            "For Blockwise scaling scale_a should have {want} elements, got: {got}",
            "For Blockwise scaling scale_b should have {want} elements, got: {got}",
        ),
        _v2_count,
        predicate="numel is not the padded 128x4 length (ROCm: ceil(rows / 32) * K)",
        meaning="The scales must have the padded length of 128x4 tiles. On ROCm before 7.14 they "
        "are row-major, and the count that is asked for equals rows * K / 32 only for M, N % 32 = "
        "0.",
        fixes=(LENGTH,),
        related=("torch-meta-mx", "torch-v1-config"),
    ),
    eager(
        "v2",
        "swizzle",
        "ValueError",
        (
            "scale_a must be swizzled to SWIZZLE_32_4_4 format",
            "scale_b must be swizzled to SWIZZLE_32_4_4 format",
        ),
        _v2_swizzle,
        predicate="the swizzle flag is not SWIZZLE_32_4_4",
        meaning="CUDA takes 128x4 tiled scales only. The flag is the caller's word: nothing looks "
        "at the bytes.",
        hardware="NVIDIA GPUs",
        fixes=(SWIZZLE, "mxlab.interleave(scales, 'tile_128x4') does it"),
        related=("torch-silent-layout", "torch-rocm-swizzle"),
    ),
    eager(
        "v2",
        "contiguous",
        "ValueError",
        "For Blockwise scaling both scales should be contiguous",
        _v2_contiguous,
        predicate="a scale is not contiguous",
        meaning="The kernel walks the scale bytes; a strided view would be read wrongly. Tracing "
        "does not look, so torch.compile passes and the run stops.",
        fixes=("call .contiguous() on the scales",),
        related=("torch-meta-contiguous",),
    ),
)
