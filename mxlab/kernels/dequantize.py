"""Dequantise by one kernel: float32 as the reference has it, or bfloat16 that is exact or NaN."""

from typing import Any

import torch
import triton.language as tl
from torch import Tensor

from mxlab.errors import InputError, quote
from mxlab.kernels.e4m3 import bf16_to_f32, decode_e4m3, f32_to_bf16
from mxlab.kernels.launch import as_matrices, on, require_device
from mxlab.kernels.mode import INTERPRETED, jit
from mxlab.kernels.scales import power_of_two, scale_offset
from mxlab.mxarray import MXArray

DTYPES = (torch.bfloat16, torch.float32)
_TILED = {False: ("linear", "tile_128x4"), True: ("linear", "te_columnwise")}


@jit
def exact_bf16(value):  # type: ignore[no-untyped-def]
    """Return bfloat16 bits, int16, of float32: NaN where bfloat16 does not hold the value."""
    word = f32_to_bf16(value)
    held = (bf16_to_f32(word) == value) & (tl.abs(value) < float("inf"))
    return tl.where(held, word, 0x7FC0).to(tl.int16)


@jit
def _tile(  # type: ignore[no-untyped-def]
    program, codes, scales, out, rows, cols, batch_stride, row_stride, col_stride, scale_bytes,
    BF16: tl.constexpr, TILED: tl.constexpr, COLUMN: tl.constexpr, TURN: tl.constexpr,
    DEAL: tl.constexpr, BR: tl.constexpr, BC: tl.constexpr,
):  # fmt: skip
    wide, high = (cols + BC - 1) // BC, (rows + BR - 1) // BR
    batch = (program // (wide * high)).to(tl.int64)
    row = (program // wide % high) * BR + tl.arange(0, BR)
    col = (program % wide) * BC + tl.arange(0, BC)
    far = row.to(tl.int64)[:, None]
    here = (row < rows)[:, None] & (col < cols)[None, :]
    at = batch * batch_stride + far * row_stride + col[None, :].to(tl.int64) * col_stride
    value = decode_e4m3(tl.load(codes + at, mask=here, other=0))
    if COLUMN:
        block = (program // wide % high) * (BR // 32) + tl.arange(0, BR // 32)
        known = (block < rows // 32)[:, None] & (col < cols)[None, :]
        side = col[None, :].to(tl.int64)
        if TILED:
            at = scale_offset(side, block[:, None], rows // 32, True)
        else:
            at = block[:, None].to(tl.int64) * cols + side
        byte = tl.load(scales + batch * scale_bytes + at, mask=known, other=127).to(tl.int32)
        value = tl.reshape(value, [BR // 32, 32, BC]) * power_of_two(byte)[:, None, :]
    else:
        block = (program % wide) * (BC // 32) + tl.arange(0, BC // 32)
        known = (row < rows)[:, None] & (block < cols // 32)[None, :]
        at = batch * scale_bytes + scale_offset(far, block[None, :], cols // 32, TILED)
        byte = tl.load(scales + at, mask=known, other=127).to(tl.int32)
        value = tl.reshape(value, [BR, BC // 32, 32]) * power_of_two(byte)[:, :, None]
    if DEAL:  # what ``mixed`` wants: see there
        value = tl.reshape(value, [BR, BC // 32, 4, 2, 2, 2])
        value = tl.permute(value, [0, 1, 3, 4, 2, 5])
    value = tl.reshape(value, [BR, BC])
    stored = exact_bf16(value) if BF16 else value
    if TURN:
        at = batch * rows * cols + col[:, None].to(tl.int64) * rows + row[None, :]
        mask = (col < cols)[:, None] & (row < rows)[None, :]
        tl.store(out + at, tl.trans(stored), mask=mask)
    else:
        at = batch * rows * cols + far * cols + col[None, :]
        tl.store(out + at, stored, mask=here)


@jit
def _one(  # type: ignore[no-untyped-def]
    codes, scales, out, rows, cols, batch_stride, row_stride, col_stride, scale_bytes,
    BF16: tl.constexpr, TILED: tl.constexpr, COLUMN: tl.constexpr, TURN: tl.constexpr,
    DEAL: tl.constexpr, BR: tl.constexpr, BC: tl.constexpr,
):  # fmt: skip
    """Dequantise codes [batch, rows, cols]: one program for BR x BC values."""
    _tile(tl.program_id(0), codes, scales, out, rows, cols, batch_stride, row_stride, col_stride,
          scale_bytes, BF16, TILED, COLUMN, TURN, DEAL, BR, BC)  # fmt: skip


def _tile_shape(rows: int, square: bool) -> dict[str, int]:
    if INTERPRETED:
        return {"BR": 128, "BC": 256, "num_warps": 4}
    if square:
        return {"BR": 64, "BC": 64, "num_warps": 4}
    br, bc, warps = (32, 256, 4) if rows >= 512 else (4, 512, 1)
    return {"BR": br, "BC": bc, "num_warps": warps}


def _words(out: Tensor) -> Tensor:
    return out.view(torch.int16) if out.dtype == torch.bfloat16 else out


def dequantize(
    q: MXArray,
    dtype: Any = torch.float32,
    *,
    out: Tensor | None = None,
    turned: bool = False,
    dealt: bool = False,
) -> Tensor:
    """Return code * scale as a tensor of the padded shape, by one kernel.

    ``dtype`` is float32, which gives what ``arrays.dequantize`` gives before it drops the padding,
    or bfloat16: exact for scale bytes 3 to 246; a value that bfloat16 does not hold becomes NaN,
    never a rounded number. Scales in ``linear``, ``tile_128x4`` (last axis) or ``te_columnwise``
    (the one before). ``turned`` writes each matrix of the last two axes transposed,
    ``dealt`` the 32 values of a block in the order that the kernel ``mixed`` reads. Raises
    InputError for another format, layout or dtype.

    >>> from mxlab.kernels.quantize import quantize
    >>> dequantize(quantize(torch.full((1, 32), 3.0)), torch.bfloat16)[0, :2].tolist()
    [3.0, 3.0]
    """
    if dtype not in DTYPES:
        raise InputError(f"dtype is {quote(dtype)}: expected torch.bfloat16 or torch.float32")
    codes, scales, tiled, column = operand(q)
    full = tuple(codes.shape)
    if turned:
        full = (*full[:-2], full[-1], full[-2])
    out = torch.empty(full, dtype=dtype, device=codes.device) if out is None else out
    if not codes.numel():
        return out
    matrices = as_matrices(codes, q.axis)
    if not tiled and not column and not turned:
        matrices = matrices.reshape(1, -1, matrices.shape[2])
    batch, rows, cols = matrices.shape
    shape = _tile_shape(rows, turned or column)
    grid = (batch * -(-rows // shape["BR"]) * -(-cols // shape["BC"]),)
    with on(codes):
        _one[grid](
            matrices, scales, _words(out), rows, cols, *matrices.stride(), scales.numel() // batch,
            BF16=dtype == torch.bfloat16, TILED=tiled, COLUMN=column, TURN=turned, DEAL=dealt,
            **shape,
        )  # fmt: skip
    return out


def operand(q: MXArray) -> tuple[Tensor, Tensor, bool, bool]:
    """Return (codes, contiguous scales, tiled, along an axis before the last) for a kernel.

    Raises InputError for what the kernels do not read, before anything is launched.
    """
    if not isinstance(q, MXArray) or q.library != "torch":
        raise InputError(f"the operand is {quote(type(q).__name__)}: expected an MXArray of torch")
    if q.format != "e4m3":
        raise InputError(f"format {q.format!r}: Triton's kernels here read 'e4m3'")
    codes: Any = q.codes
    scales: Any = q.scales
    require_device(codes, "the operand")
    column = q.axis != len(q.shape) - 1
    if q.layout not in _TILED[column] or (
        q.layout == "te_columnwise" and q.axis != len(q.shape) - 2
    ):
        raise InputError(
            f"layout {q.layout!r} with axis {q.axis} of {len(q.shape)} dimensions: Triton's "
            f"kernels read {' and '.join(map(repr, _TILED[column]))} there; deinterleave first"
        )
    return codes, scales.contiguous(), q.layout != "linear", column
