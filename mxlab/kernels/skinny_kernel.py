"""A product with few rows on Hopper: the weights are streamed once, as E4M3, into WGMMA.

Gluon, because the order matters: weights are the instruction's rows (64 or more), tokens its
columns (8 to 64); one instruction of K = 32 is one block, whose exact-width partial sums are scaled
in float32 and added. Tiles come by TMA, several stages ahead; scale bytes by plain loads, LOOKAHEAD
stages ahead. SPLIT programs share
a tile of weights along K; a second kernel adds their parts in order, so that results repeat bit
for bit.
"""

from collections.abc import Callable
from typing import Any

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia import hopper
from triton.experimental.gluon.language.nvidia.hopper import mbarrier, tma
from triton.language.extra.cuda import gdc_launch_dependents


def gluon_jit(function: Callable[..., Any]) -> Any:
    """Return ``function`` as a Gluon kernel or as a function for kernels; never interpreted."""
    return gluon.jit(function)


# names that changed between Triton 3.6 and 3.9
_load = getattr(tma, "async_load", None) or tma.async_copy_global_to_shared
_barrier = getattr(gl, "barrier", None) or gl.thread_barrier
_NEW_NAME = gl.constexpr(hasattr(gl.shared_memory_descriptor, "reinterpret"))
_mma, _mma_wait = hopper.warpgroup_mma, hopper.warpgroup_mma_wait


_FLAT = gl.constexpr(gl.SwizzledSharedLayout(1, 1, 1, [0]))
_PLAIN = gl.constexpr(gl.SwizzledSharedLayout(1, 1, 1, [1, 0]))

#: how scale bytes are read: whole words of tile_128x4, whole words of a row, or byte by byte
TILE, WORDS, BYTES = gl.constexpr(0), gl.constexpr(1), gl.constexpr(2)


@gluon_jit
def _base(line, blocks, HOW: gl.constexpr):  # type: ignore[no-untyped-def]
    """Return where a line's scales begin, in words (bytes for BYTES)."""
    if HOW == TILE:
        across = (blocks + 3) // 4
        return (line // 128) * across * 128 + (line % 32) * 4 + (line % 128) // 32
    if HOW == WORDS:
        return line * (blocks // 4)
    return line * blocks


@gluon_jit
def _words(scales, base, inside, group, blocks, HOW: gl.constexpr):  # type: ignore[no-untyped-def]
    """Return the ``group``-th four scale bytes of each line as int32; past the last block, 0."""
    left = blocks - group * 4
    if HOW == BYTES:
        word = gl.zeros_like(base)
        for i in gl.static_range(4):
            at = scales + base + group * 4 + i
            byte = gl.load(at, mask=inside & (left > i), other=0)
            word = word | (byte.to(gl.int32) << (8 * i))
        return word
    words = scales.to(gl.pointer_type(gl.int32), bitcast=True)
    step = 128 if HOW == TILE else 1
    word = gl.load(words + base + group * step, mask=inside & (left > 0), other=0)
    if HOW == TILE:  # what a poisoned buffer holds past the last block
        word = word & gl.where(left >= 4, -1, (1 << (gl.maximum(left, 0) * 8)) - 1)
    return word


@gluon_jit
def _fill(  # type: ignore[no-untyped-def]
    table, scales, begin, lines, blocks,
    HOW: gl.constexpr, CAP: gl.constexpr, BM: gl.constexpr, WARPS: gl.constexpr,
):  # fmt: skip
    """Read the token scales of CAP groups into shared memory: all warps need all of them."""
    layout: gl.constexpr = gl.BlockedLayout([1, 1], [1, 32], [WARPS, 1], [1, 0])
    line = gl.arange(0, BM, layout=gl.SliceLayout(0, layout))[None, :]
    group = begin + gl.arange(0, CAP, layout=gl.SliceLayout(1, layout))[:, None]
    base = _base(line, blocks, HOW) + group * 0
    word = _words(scales, base, line < lines, group, blocks, HOW)
    if _NEW_NAME:
        table.reinterpret(gl.int32, [CAP, BM], _PLAIN).store(word)
    else:
        table._reinterpret(gl.int32, [CAP, BM], _PLAIN).store(word)


@gluon_jit
def _factor(word, i: gl.constexpr):  # type: ignore[no-untyped-def]
    """Return 2^(byte - 127) of the i-th byte as float32; for 255 Inf, which ``_nan`` finds."""
    shifted = word << (23 - 8 * i) if i < 3 else word >> 1
    return gl.maximum(shifted & 0x7F800000, 0x400000).to(gl.float32, bitcast=True)


@gluon_jit
def _nan(word):  # type: ignore[no-untyped-def]
    """Return what is not 0 where one of the four bytes is 255."""
    return (~word - 0x01010101) & word & -0x7F7F7F80


@gluon_jit
def _promote(acc, part, w, x, i: gl.constexpr):  # type: ignore[no-untyped-def]
    return acc + part * _factor(w, i)[:, None] * _factor(x, i)[None, :]


@gluon_jit
def _dot(w, x, zero, i: gl.constexpr):  # type: ignore[no-untyped-def]
    """Start one block's product; the accumulator's value is not used."""
    left = w.slice(32 * i, 32, dim=1)
    right = x.slice(32 * i, 32, dim=1).permute((1, 0))
    return _mma(left, right, zero, use_acc=False, is_async=True)


@gluon_jit
def skinny(  # type: ignore[no-untyped-def]
    weights, tokens, weight_scales, token_scales, out, parts, M, N, K, blocks,
    BN: gl.constexpr, BM: gl.constexpr, STAGES: gl.constexpr,
    SPLIT: gl.constexpr, HOW: gl.constexpr, PARTS: gl.constexpr,
    CAP: gl.constexpr, WARPS: gl.constexpr,
):  # fmt: skip
    """out (M, N) = tokens (M, K) @ weights (N, K).T, both by TMA descriptor; one tile of BN rows.

    ``parts``: float32 [SPLIT, tiles, BN * BM], written instead of ``out`` where SPLIT > 1. CAP: a
    power of two, at least the groups of four blocks of one program. PARTS: products of blocks in
    flight before they are scaled, 4 or 1.
    """
    acc_layout: gl.constexpr = gl.NVMMADistributedLayout(
        version=[3, 0], warps_per_cta=[WARPS, 1], instr_shape=[16, BM, 32]
    )
    row_layout: gl.constexpr = gl.SliceLayout(1, acc_layout)
    col_layout: gl.constexpr = gl.SliceLayout(0, acc_layout)
    tile = gl.program_id(0)
    part = gl.program_id(1)
    steps = (K + 127) // 128
    begin = part * steps // SPLIT
    end = (part + 1) * steps // SPLIT

    w_memory = gl.allocate_shared_memory(gl.float8e4nv, [STAGES, BN, 128], weights.layout)
    x_memory = gl.allocate_shared_memory(gl.float8e4nv, [STAGES, BM, 128], tokens.layout)
    table = gl.allocate_shared_memory(gl.int32, [CAP, BM], _FLAT)
    if SPLIT > 1:
        gdc_launch_dependents()  # the kernel that adds the parts gets ready
    bars = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(STAGES):
        mbarrier.init(bars.index(i), count=1)
    hopper.fence_async_shared()
    LOADED: gl.constexpr = (BN + BM) * 128
    row = tile * BN + gl.arange(0, BN, layout=row_layout)
    w_base = _base(row, blocks, HOW)
    w_inside = row < N
    for i in gl.static_range(STAGES):
        more = begin + i < end
        mbarrier.expect(bars.index(i), LOADED, pred=more)
        _load(weights, [tile * BN, (begin + i) * 128], bars.index(i), w_memory.index(i), pred=more)
        _load(tokens, [0, (begin + i) * 128], bars.index(i), x_memory.index(i), pred=more)
    w0 = _words(weight_scales, w_base, w_inside, begin, blocks, HOW)
    w1 = _words(weight_scales, w_base, w_inside, begin + 1, blocks, HOW)
    _fill(table, token_scales, begin, M, blocks, HOW, CAP, BM, WARPS)
    _barrier()
    w_nan = gl.zeros_like(row)
    x_nan = gl.zeros([BM], gl.int32, layout=col_layout)
    acc = gl.zeros([BN, BM], gl.float32, layout=acc_layout)
    zero = gl.zeros([BN, BM], gl.float32, layout=acc_layout)
    stage = 0
    phase = 0
    for step in range(begin, end):
        w2 = _words(weight_scales, w_base, w_inside, step + 2, blocks, HOW)
        x0 = table.index(step - begin).load(col_layout)
        mbarrier.wait(bars.index(stage), phase)
        w = w_memory.index(stage)
        x = x_memory.index(stage)
        if PARTS == 4:
            p0 = _dot(w, x, zero, 0)
            p1 = _dot(w, x, zero, 1)
            p2 = _dot(w, x, zero, 2)
            p3 = _dot(w, x, zero, 3)
            p0, p1, p2, p3 = _mma_wait(0, deps=(p0, p1, p2, p3))
        else:
            p0 = _mma_wait(0, deps=(_dot(w, x, zero, 0),))
            acc = _promote(acc, p0, w0, x0, 0)
            p1 = _mma_wait(0, deps=(_dot(w, x, zero, 1),))
            acc = _promote(acc, p1, w0, x0, 1)
            p2 = _mma_wait(0, deps=(_dot(w, x, zero, 2),))
            acc = _promote(acc, p2, w0, x0, 2)
            p3 = _mma_wait(0, deps=(_dot(w, x, zero, 3),))
        _barrier()  # every warp has read this stage
        more = step + STAGES < end
        mbarrier.expect(bars.index(stage), LOADED, pred=more)
        _load(weights, [tile * BN, (step + STAGES) * 128], bars.index(stage), w, pred=more)
        _load(tokens, [0, (step + STAGES) * 128], bars.index(stage), x, pred=more)
        if PARTS == 4:
            acc = _promote(acc, p0, w0, x0, 0)
            acc = _promote(acc, p1, w0, x0, 1)
            acc = _promote(acc, p2, w0, x0, 2)
        acc = _promote(acc, p3, w0, x0, 3)
        w_nan = w_nan | _nan(w0)
        x_nan = x_nan | _nan(x0)
        w0 = w1
        w1 = w2
        stage += 1
        if stage == STAGES:
            stage = 0
            phase ^= 1
    acc = gl.where(((w_nan != 0)[:, None]) | ((x_nan != 0)[None, :]), float("nan"), acc)
    _barrier()
    for i in gl.static_range(STAGES):
        mbarrier.invalidate(bars.index(i))

    mine = True
    if SPLIT > 1:
        col = gl.arange(0, BM, layout=col_layout)
        inner = gl.arange(0, BN, layout=row_layout)[:, None] * BM + col[None, :]
        begin_of = (part * gl.num_programs(0) + tile) * (BN * BM)
        gl.store(parts + begin_of + inner, acc)
        mine = tile < 0  # never; without what follows, Triton 3.6 cannot compile this
    if mine:
        store_layout: gl.constexpr = gl.BlockedLayout([4, 1], [32, 1], [1, WARPS], [0, 1])
        value = gl.convert_layout(acc.to(out.dtype.element_ty), store_layout)
        n = tile * BN + gl.arange(0, BN, layout=gl.SliceLayout(1, store_layout))
        m = gl.arange(0, BM, layout=gl.SliceLayout(0, store_layout))
        there = out + m[None, :].to(gl.int64) * N + n[:, None]
        gl.store(there, value, mask=(m < M)[None, :] & (n < N)[:, None])
