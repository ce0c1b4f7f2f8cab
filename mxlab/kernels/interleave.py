"""Interleave and deinterleave ``tile_128x4`` by one kernel: whole 16-byte runs on both sides."""

import torch
import triton.language as tl
from torch import Tensor

from mxlab.errors import InputError
from mxlab.kernels.launch import on, require_device
from mxlab.kernels.mode import INTERPRETED, jit
from mxlab.layout import layout as get_layout

#: elements in four bytes -> tiles of a program, and its warps; measured on an H200
TILE = {4: (16, 4), 2: (16, 4), 1: (64, 4)}


@jit
def _permute(  # type: ignore[no-untyped-def]
    plain, tiled, rows, cols, tiles,
    UNIT: tl.constexpr, BACK: tl.constexpr, BT: tl.constexpr,
):  # fmt: skip
    """Move BT tiles of one row of tiles; ``cols`` counts elements, UNIT of which are four bytes."""
    across = (tiles + BT - 1) // BT
    high = (rows + 127) // 128
    program = tl.program_id(0)
    batch = (program // (across * high)).to(tl.int64)
    down = program // across % high
    first = program % across * BT
    # (tile, row % 32, row // 32, byte): the order of the tiled buffer
    tile = tl.arange(0, BT)[:, None]
    inner = tl.arange(0, 128 * UNIT)[None, :]
    base = (batch * high + down) * tiles + first
    there = tiled + base * (128 * UNIT) + tile * (128 * UNIT) + inner
    inside = first + tile < tiles
    row = (down * 128 + tl.arange(0, 128))[:, None]
    col = (first * UNIT + tl.arange(0, BT * UNIT))[None, :]
    here = plain + (batch * rows + row) * cols + col
    known = (row < rows) & (col < cols)
    if BACK:
        value = tl.reshape(tl.load(there, mask=inside, other=0), [BT, 32, 4, UNIT])
        value = tl.reshape(tl.permute(value, [2, 1, 0, 3]), [128, BT * UNIT])
        tl.store(here, value, mask=known)
    else:
        value = tl.reshape(tl.load(here, mask=known, other=0), [4, 32, BT, UNIT])
        value = tl.reshape(tl.permute(value, [2, 1, 0, 3]), [BT, 128 * UNIT])
        tl.store(there, value, mask=inside & (inner >= 0))


def _run(plain: Tensor, tiled: Tensor, rows: int, cols: int, back: bool) -> None:
    tiles = -(-cols // 4)
    unit = 4
    for size, dtype in ((4, torch.int32), (2, torch.int16)):  # as few elements as there can be
        if unit == 4 and cols % size == 0 and plain.data_ptr() % size == 0:
            plain, tiled = plain.view(dtype), tiled.view(dtype)
            cols, unit = cols // size, 4 // size
    batch = plain.numel() // (rows * cols)
    many, warps = (16, 4) if INTERPRETED else TILE[unit]
    grid = (batch * -(-rows // 128) * -(-tiles // many),)
    with on(plain):
        _permute[grid](
            plain, tiled, rows, cols, tiles, UNIT=unit, BACK=back, BT=many, num_warps=warps
        )


def interleave(scales: Tensor) -> Tensor:
    """Lay row-major scale bytes [..., rows, cols] out in ``tile_128x4``, padding 0.

    The bytes of ``arrays.interleave`` for uint8 tensors where kernels run. Raises InputError for
    another dtype or fewer dimensions.

    >>> interleave(torch.ones(1, 2, dtype=torch.uint8))[:5].tolist()
    [1, 1, 0, 0, 0]
    """
    _check(scales, 2, "[..., rows, cols]")
    rows, cols = scales.shape[-2:]
    shape = (*scales.shape[:-2], get_layout("tile_128x4").nbytes(rows, cols))
    tiled = torch.empty(shape, dtype=torch.uint8, device=scales.device)
    if scales.numel():
        _run(scales.contiguous(), tiled, rows, cols, back=False)
    return tiled


def deinterleave(tiled: Tensor, rows: int, cols: int) -> Tensor:
    """Undo ``interleave``: [..., nbytes] becomes [..., rows, cols]; padding is not read.

    >>> deinterleave(interleave(torch.ones(3, 2, dtype=torch.uint8)), 3, 2).tolist()
    [[1, 1], [1, 1], [1, 1]]
    """
    _check(tiled, 1, "[..., bytes]")
    length = get_layout("tile_128x4").nbytes(rows, cols)
    if tiled.shape[-1] != length:
        raise InputError(
            f"the buffer has {tiled.shape[-1]} bytes: expected {length} for {rows} x {cols} scales "
            "in layout 'tile_128x4'"
        )
    shape = (*tiled.shape[:-1], rows, cols)
    plain = torch.empty(shape, dtype=torch.uint8, device=tiled.device)
    if plain.numel():
        _run(plain, tiled.contiguous(), rows, cols, back=True)
    return plain


def _check(scales: Tensor, ndim: int, shape: str) -> None:
    if scales.dtype != torch.uint8 or scales.ndim < ndim:
        kind = str(scales.dtype).removeprefix("torch.")
        raise InputError(f"scales are {kind} of {scales.ndim} dimensions: expected uint8 {shape}")
    require_device(scales, "the buffer of scales")
