"""Calls of torch's scaled_mm: made at random, and run on the meta device, a CPU or a GPU."""

from __future__ import annotations

import random
from typing import Any

from mxlab.guards.facts import CallFacts

_SIZES = (0, 1, 7, 16, 24, 31, 32, 48, 64, 100, 112, 128, 129, 144, 160, 256, 272, 384)
_ELEMENTS = ("float8_e5m2", "float8_e4m3fnuz", "bfloat16", "uint8")
_SCALES = ("float32", "uint8", "bfloat16")


def expected(rows: int, k: int) -> int:
    """Return the bytes of the 128x4 scales of ``rows`` x ``k``."""
    blocks = (k + 31) // 32
    return (rows + 127) // 128 * 128 * ((blocks + 3) // 4 * 4)


def _scale_shape(r: random.Random, rows: int, k: int) -> tuple[int, ...] | None:
    blocks = -(-k // 32)
    some: list[tuple[int, ...] | None] = [None] * 6
    some += [
        (rows, blocks),
        (expected(rows, k) + 1,),
        (expected(rows, k), 1),
        (rows, 1),
        (1,),
        (),
        (rows, -(-k // 128)),
        (rows * blocks,),
    ]
    return r.choice(some)


def random_call(
    r: random.Random, function: str, *, usual: float = 0.75, backend: str = "auto"
) -> CallFacts:
    """Return a call that is legal in most ways and odd in a few."""

    def often(value: Any, others: tuple[Any, ...]) -> Any:
        return value if r.random() < usual + 0.15 else r.choice(others)

    m = r.choice(_SIZES)
    legal = tuple(size for size in _SIZES if size and size % 16 == 0)
    n, k = (r.choice(legal if r.random() < usual else _SIZES) for _ in range(2))
    shapes: tuple[tuple[int, ...] | None, tuple[int, ...] | None] = (None, None)
    if r.random() > usual:
        shapes = _scale_shape(r, m, k), _scale_shape(r, n, k)
        if r.random() < 0.4:  # what row-wise scaling would take
            shapes = (m, 1), (1, n)
    scale_dtype = often("float8_e8m0fnu", _SCALES)
    if all(shape is not None and len(shape) == 2 for shape in shapes) and r.random() < 0.5:
        scale_dtype = "float32"  # shapes that the other recipes look at
    return CallFacts(
        function=function,
        backend=backend,
        m=m,
        n=n,
        k=k,
        a_dtype=often("float8_e4m3fn", _ELEMENTS),
        b_dtype=often("float8_e4m3fn", _ELEMENTS),
        scale_dtype=scale_dtype,
        out_dtype=often("bfloat16", ("float16", "float32")),
        a_layout=often("row", ("column",)),
        b_layout=often("column", ("row",)),
        scale_layout="tile_128x4",
        declared_layout=often("tile_128x4", ("linear",)),
        a_scale_shape=shapes[0],
        b_scale_shape=shapes[1],
        scale_contiguous=often(True, (False,)),
        bias=often(False, (True,)),
    )


def _operand(torch: Any, rows: int, cols: int, dtype: str, layout: str, device: str) -> Any:
    shape = (rows, cols) if layout == "row" else (cols, rows)
    made = torch.zeros(shape, dtype=torch.uint8, device=device)
    made = (
        made.to(getattr(torch, dtype)) if dtype == "bfloat16" else made.view(getattr(torch, dtype))
    )
    return made if layout == "row" else made.t()


def _scale(
    torch: Any, shape: tuple[int, ...] | None, length: int, dtype: str, strided: bool, device: str
) -> Any:
    wanted = (length,) if shape is None else shape
    if strided and wanted:
        return torch.empty(
            (*wanted[:-1], wanted[-1] * 2), dtype=getattr(torch, dtype), device=device
        )[..., ::2]
    return torch.empty(wanted, dtype=getattr(torch, dtype), device=device)


def run_call(torch: Any, c: CallFacts, device: str) -> tuple[str, str]:
    """Make the call; return the exception's class and text, two empty strings where it runs."""
    a = _operand(torch, c.m, c.k, c.a_dtype, c.a_layout, device)
    b = _operand(torch, c.k, c.n, c.b_dtype, c.b_layout, device)
    dtype, strided = c.scale_dtype or "float8_e8m0fnu", not c.scale_contiguous
    sa = _scale(torch, c.a_scale_shape, expected(c.m, c.k), dtype, strided, device)
    sb = _scale(torch, c.b_scale_shape, expected(c.n, c.k), dtype, strided, device)
    out = getattr(torch, c.out_dtype)
    bias = None
    if c.bias:
        kind = torch.float16 if c.out_dtype == "float16" else torch.bfloat16
        bias = torch.empty(c.n, dtype=kind, device=device)
    try:
        if c.function == "_scaled_mm":
            torch._scaled_mm(a, b, sa, sb, bias=bias, out_dtype=out)
        else:
            from torch.nn.functional import ScalingType, SwizzleType, scaled_mm

            flag = c.declared_layout or c.scale_layout or "tile_128x4"
            swizzle = SwizzleType.SWIZZLE_32_4_4 if flag != "linear" else SwizzleType.NO_SWIZZLE
            recipe = ScalingType.BlockWise1x32
            scaled_mm(a, b, sa, recipe, sb, recipe, swizzle, swizzle, bias=bias, output_dtype=out)
        if device == "cuda":
            torch.cuda.synchronize()
    except (RuntimeError, ValueError, NotImplementedError, IndexError) as error:
        return type(error).__name__, str(error).split("\nException raised from")[0]
    return "", ""
