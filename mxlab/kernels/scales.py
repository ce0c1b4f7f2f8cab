"""Scale bytes in Triton kernels: where they live, and the powers of two that they stand for."""

import triton.language as tl

from mxlab.kernels.mode import jit


@jit
def tile_offset(row, col, cols):  # type: ignore[no-untyped-def]
    """Return the offset in ``tile_128x4`` of (row, col) in a matrix of ``cols`` columns."""
    tile = (row // 128) * ((cols + 3) // 4) + col // 4
    return tile * 512 + (row % 32) * 16 + (row % 128) // 32 * 4 + col % 4


@jit
def scale_offset(row, col, cols, TILED: tl.constexpr):  # type: ignore[no-untyped-def]
    """Return the offset of a scale byte in ``tile_128x4`` where TILED, else in ``linear``."""
    if TILED:
        return tile_offset(row, col, cols)
    return row * cols + col


@jit
def power_of_two(byte):  # type: ignore[no-untyped-def]
    """Return 2^(byte - 127) as float32 for int32 bytes; NaN for 255. 2^-127 is subnormal."""
    bits = tl.where(byte == 255, 0x7FC00000, tl.maximum(byte << 23, 0x400000))
    return bits.to(tl.float32, bitcast=True)
