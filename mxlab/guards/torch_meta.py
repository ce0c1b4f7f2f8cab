"""What torch checks while it traces scaled_mm: torch.compile, FakeTensor, the meta device."""

from collections.abc import Callable
from math import prod

from mxlab.guards.engine import Finding, Guard
from mxlab.guards.facts import CallFacts, Facts
from mxlab.guards.findings import judge, modulo, multiples, passes, skipped, stops
from mxlab.guards.torch_facts import (
    BOTH,
    FP8,
    MX_SCALE,
    TORCH,
    V1,
    V2,
    ceil,
    contiguous,
    flagged,
    on_gpu,
    operand_strides,
    scale_dtype,
    shapes,
    tiled,
    traced,
)

_META = "torch/_meta_registrations.py"
_FLOAT4 = "float4_e2m1fn_x2"
_NVFP4_SCALE = "float8_e4m3fn"
_PAD = "pad N and K of the weight with zeros to a multiple of 16 (of 32 for whole blocks)"


def _traced(
    id: str,
    functions: str | tuple[str, ...],
    message: str | tuple[str, ...],
    check: Callable[[Facts, CallFacts], Finding],
    *,
    predicate: str,
    meaning: str,
    fixes: tuple[str, ...],
    line: int | str,
    related: tuple[str, ...] = (),
) -> Guard:
    def asked(facts: Facts, call: CallFacts) -> Finding:
        if not traced(call):
            return skipped("backend is eager: nothing traces the call")
        if not on_gpu(facts):
            return skipped("a CPU call is traced without these checks")
        return check(facts, call)

    return TORCH.row(
        f"torch-meta-{id}",
        functions,
        "C2",
        "RuntimeError",
        message,
        asked,
        predicate=predicate,
        hardware="every GPU, and none: no device is asked",
        meaning=meaning,
        fixes=fixes,
        source=f"{_META}:{line}, run on the meta device",
        related=related,
    )


def _dtype(facts: Facts, c: CallFacts) -> Finding:
    allowed = (*FP8, _FLOAT4)
    bad = c.a_dtype not in allowed or c.b_dtype not in allowed
    return judge(
        bad, f"A is {c.a_dtype}, B is {c.b_dtype}", a=f"torch.{c.a_dtype}", b=f"torch.{c.b_dtype}"
    )


def _row_major(facts: Facts, c: CallFacts) -> Finding:
    (outer, inner), _ = operand_strides(c)
    bad = not (outer > inner and inner == 1) and 0 not in (c.m, c.k)
    return judge(bad, f"A is {c.m} x {c.k} with strides ({outer}, {inner})", stride=(outer, inner))


def _col_major(facts: Facts, c: CallFacts) -> Finding:
    _, (outer, inner) = operand_strides(c)
    bad = not (outer == 1 and inner > 1) and 0 not in (c.k, c.n)
    return judge(bad, f"B is {c.k} x {c.n} with strides ({outer}, {inner})", stride=(outer, inner))


def _k16(facts: Facts, c: CallFacts) -> Finding:
    return judge(c.k % 16 != 0, f"{modulo('K', c.k, 16)}, next {multiples(c.k, 16)}", k=c.k)


def _n16(facts: Facts, c: CallFacts) -> Finding:
    return judge(
        c.k % 16 != 0 or c.n % 16 != 0,
        f"{modulo('N', c.n, 16)}, {modulo('K', c.k, 16)}, next N {multiples(c.n, 16)}",
        k=c.k,
        n=c.n,
    )


def _counts(c: CallFacts) -> tuple[int, int, int, int]:
    """Return elements wanted and given, for the scales of A and of B, as v1 counts them."""
    nvfp4 = scale_dtype(c) == _NVFP4_SCALE
    k = c.k * 2 if nvfp4 or c.a_dtype == _FLOAT4 else c.k
    block = 16 if nvfp4 else 32
    a, b = shapes(c)
    return tiled(c.m, k, block), prod(a), tiled(c.n, k, block), prod(b)


def _single(c: CallFacts) -> bool:
    a, b = shapes(c)
    return prod(a) == prod(b) == 1


def _tensorwise(facts: Facts, c: CallFacts) -> Finding:
    if not _single(c):
        return skipped("the scales have more than one element")
    return judge(scale_dtype(c) != "float32", f"scales of one element are {scale_dtype(c)}")


def _is_blockwise(c: CallFacts) -> bool:
    return not _single(c) and scale_dtype(c) in (MX_SCALE, _NVFP4_SCALE)


def _blockwise(facts: Facts, c: CallFacts) -> Finding:
    if not _is_blockwise(c):
        return skipped(f"scales of {scale_dtype(c)} are no block scales")
    want_a, got_a, want_b, got_b = _counts(c)
    return judge(
        (want_a, want_b) != (got_a, got_b),
        f"scale_a {got_a} of {want_a}, scale_b {got_b} of {want_b} elements",
        want_a=want_a,
        got_a=got_a,
        want_b=want_b,
        got_b=got_b,
    )


def _contiguous(facts: Facts, c: CallFacts) -> Finding:
    if not _is_blockwise(c):
        return skipped(f"scales of {scale_dtype(c)} are no block scales")
    want_a, got_a, want_b, got_b = _counts(c)
    if (want_a, want_b) != (got_a, got_b):
        return skipped("torch-meta-blockwise stops before")
    for index, shape in enumerate(shapes(c)):
        if not contiguous(c, shape):
            return stops(f"scale_{'ab'[index]} is not contiguous", index)
    return passes("both scales are contiguous")


def _float_scales(facts: Facts, c: CallFacts) -> Finding:
    if _single(c) or _is_blockwise(c):
        return skipped(f"scales of {scale_dtype(c)} and {_counts(c)[1]} elements")
    return judge(scale_dtype(c) != "float32", f"the scales are {scale_dtype(c)}")


def _two_d(facts: Facts, c: CallFacts) -> Finding:
    if _single(c) or _is_blockwise(c):
        return skipped(f"scales of {scale_dtype(c)}")
    a, b = (len(shape) for shape in shapes(c))
    return judge((a, b) != (2, 2), f"scale_a is {a}-D, scale_b is {b}-D", a=a, b=b)


def _other(c: CallFacts) -> str:
    """Name the recipe that float32 scales of these shapes have, whatever their strides."""
    a, b = shapes(c)
    if len(a) != 2 or len(b) != 2:
        return ""
    if a == (c.m, 1) and b == (1, c.n):
        return "RowWise"
    cells, a_blocks, n_blocks = ceil(c.k, 128), ceil(c.m, 128), ceil(c.n, 128)
    if a[1] == b[0] == cells:
        if a[0] == c.m and b[1] in (n_blocks, c.n):
            return "BlockWise1x128"
        if a[0] == a_blocks and b[1] == c.n:
            return "BlockWise128x128"
    return ""


def _rowwise(facts: Facts, c: CallFacts) -> Finding:
    if _single(c) or _is_blockwise(c) or _other(c) != "RowWise":
        return skipped("the scales are not row-wise")
    good = all(contiguous(c, shape) for shape in shapes(c))
    return judge(not good, f"contiguous: {good}")


def _invalid(facts: Facts, c: CallFacts) -> Finding:
    a, b = shapes(c)
    if _single(c) or _is_blockwise(c) or len(a) != 2 or len(b) != 2:
        return skipped(f"scales of {scale_dtype(c)}")
    cells = ceil(c.k, 128)
    return judge(
        not _other(c),
        f"scales {a} and {b} fit no recipe; MXFP8 wants {MX_SCALE}",
        m=c.m,
        n=c.n,
        cells=cells,
        m_blocks=ceil(c.m, 128),
        n_blocks=ceil(c.n, 128),
        a0=a[0],
        a1=a[1],
        b0=b[0],
        b1=b[1],
    )


def _mx(facts: Facts, c: CallFacts) -> Finding:
    hip = facts.platform.hip
    a, b = shapes(c, hip)
    want = (ceil(c.m, 32) * c.k, ceil(c.k, 32) * c.m) if hip else (tiled(c.m, c.k), tiled(c.n, c.k))
    swizzle = "NO_SWIZZLE" if hip else "SWIZZLE_32_4_4"
    bad = (prod(a), prod(b)) != want or scale_dtype(c) != MX_SCALE or flagged(c) != swizzle
    return judge(
        bad,
        f"scale_a {prod(a)} of {want[0]}, scale_b {prod(b)} of {want[1]} elements, "
        f"{scale_dtype(c)}, {flagged(c)} (wanted {swizzle})",
        want_a=want[0],
        got_a=prod(a),
        want_b=want[1],
        got_b=prod(b),
        dtype=f"torch.{scale_dtype(c)}",
        want=f"_SwizzleType.{swizzle}",
        got=f"_SwizzleType.{flagged(c)}",
    )


_SIZES = (
    "Invalid scaling configuration. For tensorwise scaling, both scales should be scalar. For "
    "rowwise scaling, scale_a should be ({m}, 1), scale_b should be (1, {n}). For (BlockWise1x128, "
    "BlockWise128x128), scale_a should be ({m}, {cells}), scale_b should be ({cells}, {n_blocks}). "
    "For (BlockWise1x128, BlockWise1x128), scale_a should be ({m}, {cells}), scale_b should be "
    "({cells}, {n}). For (BlockWise128x128, BlockWise1x128), scale_a should be ({m_blocks}, "
    "{cells}), scale_b should be ({cells}, {n}). Got scale_a.size()=({a0}, {a1}) and "
    "scale_b.size()=({b0}, {b1})"
)
_AS_E8M0 = f"view the scale bytes as torch.{MX_SCALE}: scale.view(torch.{MX_SCALE})"
_LENGTH = (
    "give round_up(rows, 128) * round_up(ceil(K / 32), 4) scales, the padding included",
    "mxlab layout ROWS COLS --layout tile_128x4 prints the length",
)

GUARDS: tuple[Guard, ...] = (
    _traced(
        "dtype",
        BOTH,
        "Expected both inputs to be fp8 or fp4 types but got self.dtype={a} and mat2.dtype={b}",
        _dtype,
        predicate="an operand is no FP8 (or packed FP4) tensor",
        meaning="The codes must carry an FP8 dtype: bytes in a uint8 tensor are refused.",
        fixes=("view the codes as torch.float8_e4m3fn",),
        line="6965,7185",
        related=("torch-v2-dtype",),
    ),
    _traced(
        "row-major",
        BOTH,
        "self must be row_major, got stride {stride}",
        _row_major,
        predicate="A's strides are not (s, 1) with s > 1",
        meaning="A is a transposed view. Tracing wants row x column even for GPUs whose kernels "
        "take every order.",
        fixes=("make A contiguous",),
        line="6988,7230",
        related=("torch-tn-hopper", "torch-tn-sm12x"),
    ),
    _traced(
        "col-major",
        BOTH,
        "mat2 must be col_major, got stride {stride}",
        _col_major,
        predicate="B's strides are not (1, s) with s > 1",
        meaning="B must be the transposed view of a contiguous (N, K) weight. Training's other two "
        "GEMMs need a transposed copy.",
        fixes=("keep the weight as (N, K) and pass weight.t()",),
        line="6992,7234",
        related=("torch-tn-hopper", "torch-tn-sm12x"),
    ),
    _traced(
        "k16",
        BOTH,
        "Expected self.size(1) to be divisible by 16, but got self.size(1)={k}",
        _k16,
        predicate="K % 16 != 0",
        meaning="The contraction length must be a multiple of 16. It need not be one of 32: the "
        "last scale then covers half a block.",
        fixes=(_PAD,),
        line="6996,7238",
        related=("torch-v1-k16", "torch-v2-k16", "cublaslt-align16"),
    ),
    _traced(
        "n16",
        BOTH,
        "Expected both dimensions of mat2 to be divisible by 16 but got torch.Size([{k}, {n}])",
        _n16,
        predicate="N % 16 != 0 or K % 16 != 0",
        meaning="The output width must be a multiple of 16; M is free.",
        fixes=(_PAD,),
        line="7000,7242",
        related=("torch-v1-n16", "torch-v2-n16"),
    ),
    _traced(
        "tensorwise",
        V1,
        "For tensorwise scaling, both scale_a and scale_b must be float (fp32) tensors.",
        _tensorwise,
        predicate="both scales have one element and are not float32",
        meaning="Two scales of one element are read as per-tensor scaling, never as MXFP8.",
        fixes=("pass one scale for every 32 values, padded to 128x4 tiles",),
        line=7026,
    ),
    _traced(
        "blockwise",
        V1,
        "Invalid blockwise scaling configuration. For blockwise scaling, scale_a should have "
        "{want_a} elements, got {got_a}, scale_b should have {want_b} elements, got {got_b}.",
        _blockwise,
        predicate="numel != 128 * ceil(rows / 128) * 4 * ceil(ceil(K / 32) / 4), for A or B",
        meaning="The scales must have the length of the padded 128x4 layout. Row-major scales of "
        "another length stop here; those of an aligned shape do not (torch-silent-layout).",
        fixes=_LENGTH,
        line=7068,
        related=("torch-v1-config", "torch-v2-count", "torch-silent-layout", "fi-mm-scale-shape"),
    ),
    _traced(
        "contiguous",
        V1,
        ("scale_a must be contiguous", "scale_b must be contiguous"),
        _contiguous,
        predicate="an E8M0 scale of the right length is not contiguous",
        meaning="The kernel walks the scale bytes; a strided view would be read wrongly.",
        fixes=("call .contiguous() on the scales",),
        line="7059,7063",
        related=("torch-v2-contiguous",),
    ),
    _traced(
        "float-scales",
        V1,
        "For rowwise scaling, both scale_a and scale_b must be float (fp32) tensors.",
        _float_scales,
        predicate="the scales are neither E8M0, E4M3 nor float32",
        meaning="uint8 scale bytes are not recognised as MXFP8, so torch speaks of row-wise "
        "scaling: the text is misleading.",
        fixes=(_AS_E8M0,),
        line=7078,
        related=("torch-v1-config", "torch-meta-blockwise"),
    ),
    _traced(
        "two-d",
        V1,
        "For non-tensorwise scaling, scale tensors must be 2D, but got scale_a.dim()={a} and "
        "scale_b.dim()={b}",
        _two_d,
        predicate="float32 scales that are not 2-D",
        meaning="float32 scales ask for row-wise or 128-wide scaling, whose scales are matrices.",
        fixes=(_AS_E8M0,),
        line=7083,
    ),
    _traced(
        "rowwise",
        V1,
        "Both scale_a and scale_b must be contiguous for rowwise scaling.",
        _rowwise,
        predicate="float32 scales (m, 1) and (1, n) that are not contiguous",
        meaning="The shapes ask for row-wise scaling, not for MXFP8.",
        fixes=("call .contiguous() on the scales",),
        line=7095,
        related=("torch-silent-recipe",),
    ),
    _traced(
        "invalid",
        V1,
        _SIZES,
        _invalid,
        predicate="2-D scales of shapes that no recipe has",
        meaning="The list of what would be accepted leaves MXFP8 out: its scales are E8M0.",
        fixes=(_AS_E8M0, *_LENGTH),
        line=7120,
        related=("torch-v1-config",),
    ),
    _traced(
        "mx",
        V2,
        "for MX scaling scale_a must have {want_a} (got: {got_a}) and scale_b must have {want_b} "
        "(got: {got_b}). Scales must have types torch.float8_e8m0fnu (for self: {dtype}, mat_b: "
        "{dtype}) Must have swizzle type {want} (got self: {got}, mat_b: {got})",
        _mx,
        predicate="a count, the dtype E8M0 or the swizzle flag is off",
        meaning="v2 wants the padded length, E8M0 and SWIZZLE_32_4_4 on CUDA; on ROCm NO_SWIZZLE, "
        "and this release counts scale_b there from A's sizes. One text for all three.",
        fixes=(*_LENGTH, "swizzle the scales to 128x4 tiles and pass SWIZZLE_32_4_4", _AS_E8M0),
        line=7443,
        related=("torch-v2-swizzle", "torch-v2-count"),
    ),
)
