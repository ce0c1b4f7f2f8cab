"""``quantize`` by Triton kernels: the reference's bytes, in one read and straight into a layout."""

from dataclasses import dataclass
from math import prod
from typing import Any

import torch
from torch import Tensor

from mxlab.block import BLOCK
from mxlab.errors import InputError, quote
from mxlab.formats import E4M3, Format, FormatLike, element_format
from mxlab.kernels.launch import as_matrices, early, on, require_device
from mxlab.kernels.mode import INTERPRETED
from mxlab.kernels.quantize_kernels import _columns, _rows
from mxlab.layout import LayoutLike, ScaleLayout
from mxlab.layout import layout as get_layout
from mxlab.mxarray import MXArray, normal_axis
from mxlab.scale import RuleLike, ScaleRule, get_rule
from mxlab.tensors import torch_blocks


@dataclass(frozen=True, slots=True)
class Tile:
    """The values of one program, and its warps."""

    rows: int
    cols: int
    warps: int


#: up to this many values a launch is bound by latency: small tiles, so that every SM has some
_SMALL = 1 << 20
ROWS = {True: Tile(4, 128, 1), False: Tile(16, 256, 4)}
COLUMNS = {True: Tile(32, 32, 1), False: Tile(32, 128, 1)}
BOTH = {True: Tile(32, 32, 1), False: Tile(32, 64, 1)}

#: the interpreter pays for programs, not for bytes
_INTERPRETER_S = Tile(128, 256, 4)


def _tile(table: dict[bool, Tile], values: int) -> Tile:
    return _INTERPRETER_S if INTERPRETED else table[values <= _SMALL]


_TILED = {True: "tile_128x4", False: "te_columnwise"}  # by whether the axis is the last


def _check(fmt: FormatLike, x: Tensor) -> tuple[Format, Tensor]:
    found = element_format(fmt)
    if found is not E4M3:
        raise InputError(
            f"format {found.name!r} with backend 'triton': its kernel writes 'e4m3'; backend=None "
            "takes every format"
        )
    if not isinstance(x, Tensor):
        raise InputError(f"x is {quote(type(x).__name__)}: backend 'triton' takes torch tensors")
    if x.dtype != torch.float16 or x.layout != torch.strided:
        x = torch_blocks.as_float32(x)
    x = x.detach().resolve_neg()
    if x.ndim == 0:
        raise InputError("x has no dimensions: expected 1 or more")
    return found, x


def _length(shape: tuple[int, ...], axis: int, pad: bool) -> int:
    """Blocks along the axis; the message is that of ``arrays.quantize``."""
    length = shape[axis]
    missing = -length % BLOCK
    if length == 0 or (missing and not pad):
        raise InputError(
            f"axis {axis} of shape {shape} has {length} values: expected a multiple of "
            f"{BLOCK} ({length} % {BLOCK} = {length % BLOCK}); pad=True appends "
            f"{missing or BLOCK} zeros and records it"
        )
    return (length + missing) // BLOCK


def scale_buffer_shape(
    layout: ScaleLayout, shape: tuple[int, ...], axis: int, blocks: int
) -> tuple[int, ...]:
    """Return the shape of the buffer of scales for data of ``shape``, ``blocks`` along ``axis``.

    Raises InputError for a layout that the kernel does not write along this axis.

    >>> scale_buffer_shape(get_layout("tile_128x4"), (2, 130, 64), 2, 2)
    (2, 1024)
    """
    scales = (*shape[:axis], blocks, *shape[axis + 1 :])
    if layout.name == "linear":
        return scales
    fits = len(shape) >= 2 and axis >= len(shape) - 2
    wanted = _TILED[axis == len(shape) - 1]
    if not fits or layout.name != wanted:
        raise InputError(
            f"layout {layout.name!r} with axis {axis} of {len(shape)} dimensions: backend 'triton' "
            f"writes 'linear'{f' and {wanted!r}' if fits else ''} here; interleave makes the others"
        )
    return (*scales[:-2], layout.nbytes(*scales[-2:]))


def _buffers(out: Any, x: Tensor, codes: tuple[int, ...], scales: tuple[int, ...]) -> Any:
    if out is None:
        return torch_blocks.empty(codes, x), torch_blocks.empty(scales, x)
    if not isinstance(out, tuple | list) or len(out) != 2:
        raise InputError(f"out is {type(out).__name__}: expected a pair (codes, scales)")
    for name, buffer, shape in (("codes", out[0], codes), ("scales", out[1], scales)):
        fault = torch_blocks.buffer_fault(buffer, x)
        if fault or tuple(buffer.shape) != shape:
            raise InputError(
                f"out {name} are {fault or f'of shape {tuple(buffer.shape)}'}: expected a torch "
                f"tensor of uint8, shape {shape}, in C order, where x is"
            )
    if any(torch_blocks.overlap(*pair) for pair in ((out[0], out[1]), (x, out[0]), (x, out[1]))):
        raise InputError("out shares memory with x or with itself: expected buffers apart")
    return out[0], out[1]


def quantize(
    x: Tensor,
    fmt: FormatLike = "e4m3",
    rule: RuleLike = "rceil",
    axis: int = -1,
    *,
    pad: bool = False,
    out: tuple[Tensor, Tensor] | None = None,
    layout: LayoutLike = "linear",
    tile: Tile | None = None,
) -> MXArray:
    """Quantise a tensor by one kernel: codes and scales of ``arrays.quantize``, byte for byte.

    ``x`` is float32, float16 or bfloat16 (float64 is rounded first) with any strides, on a GPU, or
    on a CPU in Triton's interpreter. ``layout``: ``linear``, ``tile_128x4`` along the last axis or
    ``te_columnwise`` along the one before it; padding is written as 0. ``out`` is (codes, scales),
    scales in that layout. ``tile`` overrides the size of a program. Raises InputError for what
    ``arrays.quantize`` refuses, for another format or layout, and for a device without kernels.

    >>> quantize(torch.ones(2, 64), layout="tile_128x4").scales[:6].tolist()
    [119, 119, 0, 0, 0, 0]
    """
    found, data = _check(fmt, x)
    require_device(data, "x")
    chosen, laid = get_rule(rule), get_layout(layout)
    shape = tuple(data.shape)
    axis = normal_axis(axis, len(shape))
    blocks = _length(shape, axis, pad)
    padded = blocks * BLOCK - shape[axis]
    scale_shape = scale_buffer_shape(laid, shape, axis, blocks)
    code_shape = (*shape[:axis], blocks * BLOCK, *shape[axis + 1 :])
    codes, scales = _buffers(out, data, code_shape, scale_shape)
    if data.numel():
        _launch(data, found, chosen, axis, blocks, laid, codes, scales, tile)
    return MXArray(
        codes=codes,
        scales=scales,
        format=found.name,
        rule=chosen.name,
        axis=axis,
        shape=shape,
        layout=laid.name,
        padded=padded,
    )


def _bits(x: Tensor) -> tuple[Tensor, bool]:
    return (x.view(torch.int16), True) if x.dtype == torch.bfloat16 else (x, False)


def _grid(tile: Tile, batch: int, rows: int, cols: int) -> tuple[int]:
    return (batch * -(-rows // tile.rows) * -(-cols // tile.cols),)


def _launch(
    data: Tensor,
    fmt: Format,
    rule: ScaleRule,
    axis: int,
    blocks: int,
    layout: ScaleLayout,
    codes: Tensor,
    scales: Tensor,
    tile: Tile | None,
) -> None:
    tiled, last = layout.name != "linear", axis == data.ndim - 1
    matrices = as_matrices(data, axis)
    if last and not tiled:  # a longer run of rows: fewer ragged edges
        matrices = matrices.reshape(1, -1, matrices.shape[2])
    batch, rows, cols = matrices.shape
    bits, bf16 = _bits(matrices)
    constants = {"THRESHOLD": rule.threshold(fmt), "EMAX": fmt.emax, "BF16": bf16, "TILED": tiled}
    scale_bytes = scales.numel() // batch
    chosen = tile or _tile(ROWS if last else COLUMNS, data.numel())
    shape = {"BR": chosen.rows, "BC": chosen.cols, "num_warps": chosen.warps}
    sizes = (rows, cols, blocks, *bits.stride(), scale_bytes)
    if last:
        if early(data) and data.numel() <= _SMALL:
            shape |= {"EARLY": True, "launch_pdl": True}
        else:
            shape["EARLY"] = False
        grid = (-(-blocks * BLOCK // chosen.cols), -(-rows // chosen.rows), batch)
        with on(data):
            _rows[grid](bits, codes, scales, *sizes, **constants, **shape)
        return
    span = (blocks * BLOCK, cols) if not tiled else (-(-blocks // 4) * 128, -(-cols // 128) * 128)
    with on(data):
        _columns[_grid(chosen, batch, *span)](
            bits, codes, scales, *sizes, codes, scales, 0, **constants, **shape, BOTH=False
        )


def quantize_both(
    x: Tensor, fmt: FormatLike = "e4m3", rule: RuleLike = "rceil", *, tiled: bool = False
) -> tuple[MXArray, MXArray]:
    """Quantise a matrix along its rows and along its columns, from one read.

    ``x`` is [..., rows, cols], both multiples of 32. Returns (along axis -1, along axis -2), scales
    in ``linear``, or with ``tiled`` in ``tile_128x4`` and ``te_columnwise``. Training needs both:
    the forward product sums along one axis, the gradient's along the other.

    >>> rows, columns = quantize_both(torch.ones(32, 64))
    >>> rows.scales.shape, columns.scales.shape
    (torch.Size([32, 2]), torch.Size([1, 64]))
    """
    found, data = _check(fmt, x)
    require_device(data, "x")
    if data.ndim < 2:
        raise InputError(f"x has {data.ndim} dimensions: expected 2 or more")
    shape, chosen = tuple(data.shape), get_rule(rule)
    results = []
    for axis in (data.ndim - 1, data.ndim - 2):
        laid = get_layout(_TILED[axis == data.ndim - 1] if tiled else "linear")
        blocks = _length(shape, axis, False)
        codes: Any = torch_blocks.empty(shape, data)
        scales: Any = torch_blocks.empty(scale_buffer_shape(laid, shape, axis, blocks), data)
        results.append(
            MXArray(
                codes=codes,
                scales=scales,
                format=found.name,
                rule=chosen.name,
                axis=axis,
                shape=shape,
                layout=laid.name,
            )
        )
    by_row, by_column = results
    if not data.numel():
        return by_row, by_column
    matrices = as_matrices(data, data.ndim - 2)
    batch, rows, cols = matrices.shape
    bits, bf16 = _bits(matrices)
    tile = _tile(BOTH, data.numel())
    up = 128 if tiled else BLOCK
    with on(data):
        _columns[_grid(tile, batch, -(-rows // up) * up, -(-cols // up) * up)](
            bits, by_column.codes, by_column.scales, rows, cols, rows // BLOCK, *bits.stride(),
            prod(by_column.scales.shape) // batch, by_row.codes, by_row.scales,
            prod(by_row.scales.shape) // batch, THRESHOLD=chosen.threshold(found), EMAX=found.emax,
            BF16=bf16, TILED=tiled, BR=tile.rows, BC=tile.cols, BOTH=True, num_warps=tile.warps,
        )  # fmt: skip
    return by_row, by_column
