"""A product with many rows on Hopper that makes no bfloat16 copy of the weights.

Gluon. Weights stay E4M3 up to the registers, are scaled there in bfloat16 (exact for scale bytes 3
to 246) and are WGMMA's A operand; tokens are a bfloat16 matrix in shared memory, its B operand.

The order of K does not matter to a sum, as long as both operands have the same. A thread of the
instruction holds, of 32 neighbours of a row, those at 16 j + 8 h + 2 t + p: four pairs, apart from
each other. Read as 8 bytes in a row, 8 t + 4 j + 2 h + p, they are one load; the tokens are
written in that order too (``dequantize(..., dealt=True)``).

All products of a stage have ended before registers are written anew: the instruction reads its A
operand from them while it runs, and a loop that kept one stage in flight was right alone on the
GPU and wrong beside other work.
"""

from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia import hopper
from triton.experimental.gluon.language.nvidia.hopper import mbarrier

from mxlab.kernels.skinny_kernel import _barrier, _base, _load, _mma, _mma_wait, _words, gluon_jit


@gluon_jit
def _scaled(stage, word, i: gl.constexpr, raw: gl.constexpr, operand: gl.constexpr):  # type: ignore[no-untyped-def]
    """Return the i-th block of 32 columns of a stage, scaled, as bfloat16 of layout ``operand``."""
    rows: gl.constexpr = stage.shape[0]
    code = stage.slice(32 * i, 32, dim=1).load(raw)
    value = code.to(gl.bfloat16)
    value = value.reshape([rows, 4, 2, 2, 2]).permute([0, 2, 3, 1, 4]).reshape([rows, 32])
    value = gl.convert_layout(value, operand)
    byte = (word >> (8 * i)) & 0xFF
    bits = gl.where(byte == 255, 0x7FC0, gl.maximum(byte << 7, 0x40))
    factor = bits.to(gl.int16).to(gl.bfloat16, bitcast=True)
    return value * factor[:, None]


@gluon_jit
def mixed(  # type: ignore[no-untyped-def]
    weights, tokens, scales, out, group_of, first_of, end_of, M, N, K, blocks, scale_bytes,
    BN: gl.constexpr, BM: gl.constexpr, STAGES: gl.constexpr, HOW: gl.constexpr,
    GROUPED: gl.constexpr, WARPS: gl.constexpr,
):  # fmt: skip
    """out (M, N) = tokens (M, K) @ weights (N, K).T for one tile of BM tokens and BN rows.

    GROUPED: weights are (groups * N, K), and row of tiles i holds the tokens first_of[i] to
    end_of[i] of group_of[i].
    """
    acc_layout: gl.constexpr = gl.NVMMADistributedLayout(
        version=[3, 0], warps_per_cta=[WARPS, 1], instr_shape=[16, BM, 16]
    )
    operand: gl.constexpr = gl.DotOperandLayout(0, acc_layout, 2)
    row_layout: gl.constexpr = gl.SliceLayout(1, operand)
    # 8 bytes a thread, rows as the instruction has them: lane / 4, and that + 8
    raw: gl.constexpr = gl.DistributedLinearLayout(
        reg_bases=[[0, 1], [0, 2], [0, 4], [8, 0]],
        lane_bases=[[0, 8], [0, 16], [1, 0], [2, 0], [4, 0]],
        warp_bases=[[16, 0], [32, 0]] if WARPS == 4 else [[16, 0], [32, 0], [64, 0]],
        block_bases=[],
        shape=[BN, 32],
    )
    wide = (N + BN - 1) // BN
    high = gl.num_programs(0) // wide
    # eight rows of tiles together, so that L2 serves both operands
    program = gl.program_id(0)
    top = program // (8 * wide) * 8
    size = gl.minimum(high - top, 8)
    down = top + program % (8 * wide) % size
    across = program % (8 * wide) // size
    if GROUPED:
        group = gl.load(group_of + down)
        first = gl.load(first_of + down)
        end = gl.load(end_of + down)
    else:
        group = 0
        first = down * BM
        end = M
    row = across * BN + gl.arange(0, BN, layout=row_layout)
    base = _base(row, blocks, HOW)
    scales += group * scale_bytes
    top_row = group * N + across * BN
    steps = (K + 127) // 128

    w_memory = gl.allocate_shared_memory(gl.float8e4nv, [STAGES, BN, 128], weights.layout)
    x_memory = gl.allocate_shared_memory(gl.bfloat16, [2 * STAGES, BM, 64], tokens.layout)
    bars = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(STAGES):
        mbarrier.init(bars.index(i), count=1)
    hopper.fence_async_shared()
    LOADED: gl.constexpr = (BN + 2 * BM) * 128
    for i in gl.static_range(STAGES):
        bar = bars.index(i)
        more = i < steps
        mbarrier.expect(bar, LOADED, pred=more)
        _load(weights, [top_row, i * 128], bar, w_memory.index(i), pred=more)
        _load(tokens, [first, i * 128], bar, x_memory.index(2 * i), pred=more)
        _load(tokens, [first, i * 128 + 64], bar, x_memory.index(2 * i + 1), pred=more)
    acc = gl.zeros([BN, BM], gl.float32, layout=acc_layout)
    w0 = _words(scales, base, row < N, 0, blocks, HOW)
    stage = 0
    phase = 0
    for step in range(0, steps):
        w1 = _words(scales, base, row < N, step + 1, blocks, HOW)
        bar = bars.index(stage)
        mbarrier.wait(bar, phase)
        w = w_memory.index(stage)
        x0 = x_memory.index(2 * stage)
        x1 = x_memory.index(2 * stage + 1)
        a0 = _scaled(w, w0, 0, raw, operand)
        acc = _mma(a0, x0.slice(0, 32, dim=1).permute((1, 0)), acc, is_async=True)
        a1 = _scaled(w, w0, 1, raw, operand)
        acc = _mma(a1, x0.slice(32, 32, dim=1).permute((1, 0)), acc, is_async=True)
        a2 = _scaled(w, w0, 2, raw, operand)
        acc = _mma(a2, x1.slice(0, 32, dim=1).permute((1, 0)), acc, is_async=True)
        a3 = _scaled(w, w0, 3, raw, operand)
        acc = _mma(a3, x1.slice(32, 32, dim=1).permute((1, 0)), acc, is_async=True)
        acc, a0, a1, a2, a3 = _mma_wait(0, deps=(acc, a0, a1, a2, a3))
        _barrier()  # every warp has read this stage
        more = step + STAGES < steps
        k = (step + STAGES) * 128
        mbarrier.expect(bar, LOADED, pred=more)
        _load(weights, [top_row, k], bar, w, pred=more)
        _load(tokens, [first, k], bar, x0, pred=more)
        _load(tokens, [first, k + 64], bar, x1, pred=more)
        w0 = w1
        stage += 1
        if stage == STAGES:
            stage = 0
            phase ^= 1
    _barrier()
    for i in gl.static_range(STAGES):
        mbarrier.invalidate(bars.index(i))
    store_layout: gl.constexpr = gl.BlockedLayout([4, 1], [32, 1], [1, WARPS], [0, 1])
    value = gl.convert_layout(acc.to(out.dtype.element_ty), store_layout)
    n = across * BN + gl.arange(0, BN, layout=gl.SliceLayout(1, store_layout))
    m = first + gl.arange(0, BM, layout=gl.SliceLayout(0, store_layout))
    there = out + m[None, :].to(gl.int64) * N + n[:, None]
    gl.store(there, value, mask=(m < end)[None, :] & (n < N)[:, None])
