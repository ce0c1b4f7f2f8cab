"""What the rows about torch's scaled_mm look at: strides, scale sizes, dtype names, recipes."""

from math import prod

from mxlab.guards.call_rows import Library, declared, scale_bytes
from mxlab.guards.facts import CallFacts, Facts

VERSION = "2.13.0"
TORCH = Library("torch", f"torch {VERSION}")
V1, V2 = "_scaled_mm", "scaled_mm"
BOTH = (V1, V2)
EAGER, COMPILE = "eager", "compile"
FUNCTIONS = {V2: (EAGER, COMPILE), V1: (EAGER, COMPILE)}

MX_SCALE = "float8_e8m0fnu"
#: what C++ calls a dtype
NAMES = {
    "float8_e4m3fn": "Float8_e4m3fn",
    "float8_e5m2": "Float8_e5m2",
    "float8_e4m3fnuz": "Float8_e4m3fnuz",
    "float8_e5m2fnuz": "Float8_e5m2fnuz",
    "float8_e8m0fnu": "Float8_e8m0fnu",
    "float4_e2m1fn_x2": "Float4_e2m1fn_x2",
    "bfloat16": "BFloat16",
    "float16": "Half",
    "float32": "Float",
    "float64": "Double",
    "uint8": "Byte",
    "int8": "Char",
    "int16": "Short",
    "int32": "Int",
    "int64": "Long",
    "bool": "Bool",
}
FP8 = ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz")
FNUZ = FP8[2:]


def ceil(value: int, divisor: int) -> int:
    """Divide and round up.

    >>> ceil(33, 32)
    2
    """
    return -(-value // divisor)


def scale_dtype(call: CallFacts) -> str:
    """Return the dtype of both scales, E8M0 unless the call names another."""
    return call.scale_dtype or MX_SCALE


def tiled(rows: int, k: int, block: int = 32) -> int:
    """Return the elements of the 128x4 tiled scales of ``rows`` x ``k``.

    >>> tiled(129, 48)
    1024
    """
    return ceil(rows, 128) * 128 * ceil(ceil(k, block), 4) * 4


def flagged(call: CallFacts) -> str:
    """Return v2's swizzle flag: SWIZZLE_32_4_4 unless the caller declares linear scales."""
    return "NO_SWIZZLE" if declared(call) == "linear" else "SWIZZLE_32_4_4"


def shapes(call: CallFacts, rocm: bool = False) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the shapes of the two scales.

    Those of the call; else what the layout of the bytes makes them; else what the recipe wants.

    >>> shapes(CallFacts(function="_scaled_mm", m=100, n=32, k=64, scale_layout="linear"))
    ((100, 2), (32, 2))
    """

    def usual(rows: int) -> tuple[int, ...]:
        blocks = ceil(call.k, 32)
        if rocm and call.scale_layout is None:
            return (ceil(rows, 32) * call.k,)
        if call.scale_layout == "linear":
            return (rows, blocks)
        if call.scale_layout is not None and rows and blocks:
            return (scale_bytes(call.scale_layout, rows, call.k),)
        return (tiled(rows, call.k),)

    return (
        usual(call.m) if call.a_scale_shape is None else call.a_scale_shape,
        usual(call.n) if call.b_scale_shape is None else call.b_scale_shape,
    )


def strides(shape: tuple[int, ...], *, every_second: bool = False) -> tuple[int, ...]:
    """Return the strides of a contiguous tensor, or of every second element of one twice as wide.

    >>> strides((4, 3)), strides((4, 3), every_second=True)
    ((3, 1), (6, 2))
    """
    wide = (*shape[:-1], shape[-1] * 2) if every_second and shape else shape
    steps = [1] * len(shape)
    for axis in range(len(shape) - 2, -1, -1):
        steps[axis] = steps[axis + 1] * max(wide[axis + 1], 1)
    if every_second and shape:
        steps[-1] = 2
    return tuple(steps)


def operand_strides(call: CallFacts) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return the strides of A (m, k) and of B (k, n)."""

    def of(rows: int, cols: int, order: str) -> tuple[int, int]:
        return (max(cols, 1), 1) if order == "row" else (1, max(rows, 1))

    return of(call.m, call.k, call.a_layout), of(call.k, call.n, call.b_layout)


def contiguous(call: CallFacts, shape: tuple[int, ...]) -> bool:
    """Tell whether a scale is contiguous: one without elements always is."""
    return call.scale_contiguous or prod(shape) == 0


def blockwise(call: CallFacts, rocm: bool = False) -> bool:
    """Tell whether v1 takes the call for MXFP8: by dtypes, element counts and contiguity alone."""
    a, b = shapes(call, rocm)
    return (
        call.a_dtype in FP8
        and call.b_dtype in FP8
        and scale_dtype(call) == MX_SCALE
        and (prod(a), prod(b)) == (tiled(call.m, call.k), tiled(call.n, call.k))
        and contiguous(call, a)
        and contiguous(call, b)
    )


def recipe(call: CallFacts) -> str:
    """Return the recipe that v1 takes the call for, "" where none fits.

    >>> recipe(CallFacts(function="_scaled_mm", m=16, n=32, k=64))
    'BlockWise1x32'
    """
    if blockwise(call):
        return "BlockWise1x32"
    if scale_dtype(call) != "float32" or call.a_dtype not in FP8 or call.b_dtype not in FP8:
        return ""
    a, b = shapes(call)
    if prod(a) == prod(b) == 1:
        return "TensorWise"
    if len(a) != 2 or len(b) != 2:
        return ""
    if a == (call.m, 1) and b == (1, call.n) and call.scale_contiguous:
        return "RowWise"
    return _blocks(call, a, b)


def _blocks(call: CallFacts, a: tuple[int, ...], b: tuple[int, ...]) -> str:
    """Name the 128-wide recipe whose shapes and strides the float32 scales have."""
    every_second = not call.scale_contiguous
    sa, sb = strides(a, every_second=every_second), strides(b, every_second=every_second)
    cells = ceil(call.k, 128)
    left, right = (a, sa), ((b[1], b[0]), (sb[1], sb[0]))  # B is judged as its transpose

    def fits(scale: tuple[tuple[int, ...], tuple[int, ...]], size: int, step: int, of: int) -> bool:
        (rows, cols), (down, along) = scale
        one = rows == size and (size <= 1 or down == step)
        return one and cols == cells and (cells <= 1 or along == of)

    thin_a, thick_a = fits(left, call.m, 1, call.m), fits(left, ceil(call.m, 128), cells, 1)
    thin_b, thick_b = fits(right, call.n, 1, call.n), fits(right, ceil(call.n, 128), cells, 1)
    if thick_a and thin_b:
        return "BlockWise128x128, BlockWise1x128"
    if thin_a and thick_b:
        return "BlockWise1x128, BlockWise128x128"
    return "BlockWise1x128, BlockWise1x128" if thin_a and thin_b else ""


def empty(call: CallFacts) -> bool:
    """Tell whether one of the sizes is zero: then there is nothing to multiply."""
    return 0 in (call.m, call.n, call.k)


def traced(call: CallFacts) -> bool:
    """Tell whether torch.compile or a meta tensor traces the call first."""
    return call.backend == COMPILE


def on_gpu(facts: Facts) -> bool:
    """Tell whether the operands live on a GPU."""
    return facts.platform.cuda or facts.platform.hip
