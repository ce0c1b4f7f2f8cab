"""Quantise kernels: codes and scale bytes in one read, scales in any of the kernel's layouts.

``_rows`` shares a scale among 32 neighbours of a row, ``_columns`` among 32 of a column, ``_both``
does both from one read. Scales go straight into their layout; its padding is written as 0.
"""

import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

from mxlab.kernels.e4m3 import bf16_to_f32, encode_e4m3, larger, magnitude, reciprocal, scale_byte
from mxlab.kernels.mode import jit
from mxlab.kernels.scales import scale_offset


@jit
def load_float32(x, offsets, mask, BF16: tl.constexpr):  # type: ignore[no-untyped-def]
    """Return float32 values; bfloat16 comes as int16 bits, which the interpreter reads right."""
    if BF16:
        return bf16_to_f32(tl.load(x + offsets, mask=mask, other=0))
    return tl.load(x + offsets, mask=mask, other=0.0).to(tl.float32)


@jit
def block_codes(value, amax, THRESHOLD: tl.constexpr, EMAX: tl.constexpr, AXIS: tl.constexpr):  # type: ignore[no-untyped-def]
    """Return (codes, int32 bytes) of [..., 32, ...] values whose largest bits are ``amax``."""
    byte = scale_byte(amax, THRESHOLD, EMAX)
    factor = tl.where(byte == 255, float("nan"), reciprocal(byte))
    return encode_e4m3(value * tl.expand_dims(factor, AXIS)), byte


@jit
def _zero_rows_below(scales, rows, blocks, first, BS: tl.constexpr):  # type: ignore[no-untyped-def]
    """Write 0 for the rows that fill up the last row of tiles, BS columns from first * BS."""
    inner = tl.arange(0, 128 * BS)
    tile, byte = inner // 512, inner % 512
    down = (rows - 1) // 128
    row = down * 128 + byte % 16 // 4 * 32 + byte // 16
    across, col = (blocks + 3) // 4, first * (BS // 4) + tile
    at = (down.to(tl.int64) * across + col) * 512 + byte
    zero = tl.full([128 * BS], 0, tl.uint8)
    tl.store(scales + at, zero, mask=(row >= rows) & (col < across))


@jit
def _rows(  # type: ignore[no-untyped-def]
    x, codes, scales, rows, cols, blocks, batch_stride, row_stride, col_stride, scale_bytes,
    THRESHOLD: tl.constexpr, EMAX: tl.constexpr, BF16: tl.constexpr, TILED: tl.constexpr,
    EARLY: tl.constexpr, BR: tl.constexpr, BC: tl.constexpr,
):  # fmt: skip
    """Quantise x [batch, rows, cols] along its rows: one program for BR x BC values.

    codes [batch, rows, 32 * blocks], scales [batch, scale_bytes]. The grid is (columns, rows,
    batch). EARLY: launched before the kernel ahead has ended, whose results are awaited here.
    """
    if EARLY:
        gdc_wait()
        gdc_launch_dependents()
    BS: tl.constexpr = BC // 32
    first, down = tl.program_id(0), tl.program_id(1)
    batch = tl.program_id(2).to(tl.int64)
    row = down * BR + tl.arange(0, BR)
    col = first * BC + tl.arange(0, BC)
    far = row.to(tl.int64)[:, None]
    here = (row < rows)[:, None]
    offsets = batch * batch_stride + far * row_stride + col[None, :].to(tl.int64) * col_stride
    value = load_float32(x, offsets, here & (col < cols)[None, :], BF16)
    value = tl.reshape(value, [BR, BS, 32])
    amax = tl.reduce(magnitude(value), 2, larger)
    code, byte = block_codes(value, amax, THRESHOLD, EMAX, 2)
    width = blocks * 32
    at = batch * rows * width + far * width + col[None, :]
    tl.store(codes + at, tl.reshape(code, [BR, BC]), mask=here & (col < width)[None, :])
    block = first * BS + tl.arange(0, BS)
    at = batch * scale_bytes + scale_offset(far, block[None, :], blocks, TILED)
    inside = (block < blocks)[None, :]
    if TILED:  # past the last block all values were loaded as 0, and so is the byte
        inside = (block < (blocks + 3) // 4 * 4)[None, :]
    tl.store(scales + at, byte.to(tl.uint8), mask=here & inside)
    if TILED and down == tl.num_programs(1) - 1:
        _zero_rows_below(scales + batch * scale_bytes, rows, blocks, first, BS)


@jit
def _columns(  # type: ignore[no-untyped-def]
    x, codes, scales, rows, cols, blocks, batch_stride, row_stride, col_stride, scale_bytes,
    row_codes, row_scales, row_scale_bytes,
    THRESHOLD: tl.constexpr, EMAX: tl.constexpr, BF16: tl.constexpr, TILED: tl.constexpr,
    BR: tl.constexpr, BC: tl.constexpr, BOTH: tl.constexpr,
):  # fmt: skip
    """Quantise x [batch, rows, cols] along its columns: one program for BR x BC values.

    codes [batch, 32 * blocks, cols]; scales are (blocks, cols), or where TILED the tiles of their
    transpose (cols, blocks). BOTH: the same values also along their rows, for whole blocks only.
    """
    BS: tl.constexpr = BR // 32
    cols_to_write, blocks_to_write = cols, blocks
    if TILED:
        cols_to_write, blocks_to_write = (cols + 127) // 128 * 128, (blocks + 3) // 4 * 4
    wide, high = (cols_to_write + BC - 1) // BC, (blocks_to_write + BS - 1) // BS
    program = tl.program_id(0)
    batch = (program // (wide * high)).to(tl.int64)
    first = program // wide % high
    row = first * BR + tl.arange(0, BR)
    col = (program % wide) * BC + tl.arange(0, BC)
    far = row.to(tl.int64)[:, None]
    here = (col < cols)[None, :]
    offsets = batch * batch_stride + far * row_stride + col[None, :].to(tl.int64) * col_stride
    value = load_float32(x, offsets, here & (row < rows)[:, None], BF16)
    split = tl.reshape(value, [BS, 32, BC])
    amax = tl.reduce(magnitude(split), 1, larger)
    code, byte = block_codes(split, amax, THRESHOLD, EMAX, 1)
    height = blocks * 32
    at = batch * height * cols + far * cols + col[None, :]
    inside = here & (row < height)[:, None]
    tl.store(codes + at, tl.reshape(code, [BR, BC]), mask=inside)
    block = (first * BS + tl.arange(0, BS))[:, None]
    side = col[None, :].to(tl.int64)
    if TILED:
        at = batch * scale_bytes + scale_offset(side, block, blocks, True)
    else:
        at = batch * scale_bytes + block * cols + side
    written = (col < cols_to_write)[None, :] & (block < blocks_to_write)
    tl.store(scales + at, byte.to(tl.uint8), mask=written)
    if BOTH:
        rowwise = tl.reshape(value, [BR, BC // 32, 32])
        amax = tl.reduce(magnitude(rowwise), 2, larger)
        code, byte = block_codes(rowwise, amax, THRESHOLD, EMAX, 2)
        at = batch * height * cols + far * cols + col[None, :]
        tl.store(row_codes + at, tl.reshape(code, [BR, BC]), mask=inside)
        across = cols // 32
        block = ((program % wide) * (BC // 32) + tl.arange(0, BC // 32))[None, :]
        at = batch * row_scale_bytes + scale_offset(far, block, across, TILED)
        known = (row < rows)[:, None] & (block < across)
        if TILED:
            written = (row < (rows + 127) // 128 * 128)[:, None] & (block < (across + 3) // 4 * 4)
        else:
            written = known
        tl.store(row_scales + at, byte.to(tl.uint8), mask=written)
