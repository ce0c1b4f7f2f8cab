"""Portable product kernels: one K = 32 product for each block, and Triton's own ``dot_scaled``."""

import triton.language as tl
from triton.language.extra.cuda import gdc_wait

from mxlab.kernels.e4m3 import decode_e4m3
from mxlab.kernels.mode import HARDWARE, jit
from mxlab.kernels.scales import power_of_two, scale_offset


@jit
def _scale_of(scales, line, block, lines, blocks, TILED: tl.constexpr):  # type: ignore[no-untyped-def]
    at = scale_offset(line.to(tl.int64), block, blocks, TILED)
    byte = tl.load(scales + at, mask=line < lines, other=127).to(tl.int32)
    return power_of_two(byte)


@jit
def block_product(  # type: ignore[no-untyped-def]
    a, b, a_scales, b_scales, row, col, rows, cols, K, blocks,
    a_row, a_col, b_row, b_col, TILED: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """Return float32 [BM, BN]: a's lines ``row`` with b's lines ``col``, block after block.

    The products of a block's codes are summed first, then scaled by both scales, then added.
    """
    acc = tl.full([BM, BN], 0.0, tl.float32)
    inner = tl.arange(0, 32)
    left = a + row.to(tl.int64)[:, None] * a_row + inner[None, :] * a_col
    right = b + col.to(tl.int64)[None, :] * b_row + inner[:, None] * b_col
    for block in range(blocks):
        x = tl.load(left, mask=(row < rows)[:, None], other=0)
        y = tl.load(right, mask=(col < cols)[None, :], other=0)
        if HARDWARE:
            part = tl.dot(x.to(tl.float8e4nv, bitcast=True), y.to(tl.float8e4nv, bitcast=True))
        else:
            part = tl.dot(decode_e4m3(x), decode_e4m3(y), input_precision="ieee")
        sx = _scale_of(a_scales, row, block, rows, blocks, TILED)
        sy = _scale_of(b_scales, col, block, cols, blocks, TILED)
        acc += part * sx[:, None] * sy[None, :]
        left += 32 * a_col
        right += 32 * b_col
    return acc


@jit
def grouped_order(program, high, wide, GROUP: tl.constexpr):  # type: ignore[no-untyped-def]
    """Return (row of tiles, column of tiles): GROUP rows together, so that L2 serves both."""
    span = GROUP * wide
    first = program // span * GROUP
    size = tl.minimum(high - first, GROUP)
    return first + program % span % size, program % span // size


@jit
def _blocks(  # type: ignore[no-untyped-def]
    a, b, a_scales, b_scales, out, M, N, K, blocks, a_row, a_col, b_row, b_col,
    TILED: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """out (M, N) = a (M, K) @ b (N, K).T, exact within a block but for the tensor core's own."""
    down, across = grouped_order(tl.program_id(0), (M + BM - 1) // BM, (N + BN - 1) // BN, 8)
    row = down * BM + tl.arange(0, BM)
    col = across * BN + tl.arange(0, BN)
    acc = block_product(a, b, a_scales, b_scales, row, col, M, N, K, blocks,
                        a_row, a_col, b_row, b_col, TILED, BM, BN)  # fmt: skip
    there = out + row.to(tl.int64)[:, None] * N + col[None, :]
    tl.store(there, acc.to(out.dtype.element_ty), mask=(row < M)[:, None] & (col < N)[None, :])


@jit
def _grouped(  # type: ignore[no-untyped-def]
    a, b, a_scales, b_scales, out, group_of, first_of, end_of, N, K, blocks, tokens,
    a_row, b_group, b_row, b_scale_bytes, TILED: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """One program for a tile of one group: rows first_of..end_of of ``a`` with matrix group_of.

    The three are int32, one for each row of tiles; a row of tiles with no rows is left at once.
    """
    wide = (N + BN - 1) // BN
    tile = tl.program_id(0) // wide
    first = tl.load(first_of + tile)
    end = tl.load(end_of + tile)
    if first < end:
        group = tl.load(group_of + tile).to(tl.int64)
        row = first + tl.arange(0, BM)
        col = tl.program_id(0) % wide * BN + tl.arange(0, BN)
        acc = block_product(a, b + group * b_group, a_scales, b_scales + group * b_scale_bytes,
                            row, col, end, N, K, blocks, a_row, 1, b_row, 1,
                            TILED, BM, BN)  # fmt: skip
        there = out + row.to(tl.int64)[:, None] * N + col[None, :]
        mask = (row < end)[:, None] & (col < N)[None, :]
        tl.store(there, acc.to(out.dtype.element_ty), mask=mask)


@jit
def _dot_scaled(  # type: ignore[no-untyped-def]
    a, b, a_scales, b_scales, out, M, N, K, blocks, a_row, a_col, b_row, b_col,
    TILED: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """out (M, N) = a (M, K) @ b (N, K).T by ``tl.dot_scaled``: native where the GPU has it."""
    down, across = grouped_order(tl.program_id(0), (M + BM - 1) // BM, (N + BN - 1) // BN, 8)
    row = down * BM + tl.arange(0, BM)
    col = across * BN + tl.arange(0, BN)
    inner = tl.arange(0, BK)
    group = tl.arange(0, BK // 32)
    acc = tl.full([BM, BN], 0.0, tl.float32)
    far, side = row.to(tl.int64)[:, None], col.to(tl.int64)[:, None]
    for step in range((K + BK - 1) // BK):
        k = step * BK + inner
        x = tl.load(a + far * a_row + k[None, :] * a_col,
                    mask=(row < M)[:, None] & (k < K)[None, :], other=0)  # fmt: skip
        y = tl.load(b + tl.reshape(side, [1, BN]) * b_row + k[:, None] * b_col,
                    mask=(col < N)[None, :] & (k < K)[:, None], other=0)  # fmt: skip
        block = (step * (BK // 32) + group)[None, :]
        sx = tl.load(a_scales + scale_offset(far, block, blocks, TILED),
                     mask=(row < M)[:, None] & (block < blocks), other=127)  # fmt: skip
        sy = tl.load(b_scales + scale_offset(side, block, blocks, TILED),
                     mask=(col < N)[:, None] & (block < blocks), other=127)  # fmt: skip
        acc = tl.dot_scaled(x, sx, "e4m3", y, sy, "e4m3", acc)
    there = out + row.to(tl.int64)[:, None] * N + col[None, :]
    tl.store(there, acc.to(out.dtype.element_ty), mask=(row < M)[:, None] & (col < N)[None, :])


@jit
def _sum_parts(  # type: ignore[no-untyped-def]
    parts, out, M, N, tiles,
    SPLIT: tl.constexpr, BN: tl.constexpr, BM: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """out (M, N): the sum of float32 parts [SPLIT, tiles, BN, BM], in order, turned.

    Launched before the kernel ahead, which writes them, has ended; it is awaited here.
    """
    if HARDWARE:
        gdc_wait()
    tile = tl.program_id(0)
    n = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    m = tl.arange(0, BM)
    here = parts + (tile * BN + n[:, None]) * BM + m[None, :]
    known = (m < M)[None, :] & (n >= 0)[:, None]
    acc = tl.full([ROWS, BM], 0.0, tl.float32)
    for part in tl.static_range(SPLIT):
        acc += tl.load(here + part * tiles * (BN * BM), mask=known, other=0.0)
    row = tile * BN + n
    there = out + m[:, None].to(tl.int64) * N + row[None, :]
    value = tl.trans(acc).to(out.dtype.element_ty)
    tl.store(there, value, mask=(m < M)[:, None] & (row < N)[None, :])
