"""The three prologues, one launch each. A program is one tile of tokens of one head.

Programs of one tile follow each other, heads first, so that they read one stretch of memory.
Strides named ``...8`` are in units of 8 elements, which tells the compiler that rows are aligned.
"""

import triton.language as tl

from mxlab.kernels.e4m3 import bf16_to_f32
from mxlab.kernels.mode import jit
from mxlab.kernels.prologue_parts import kv_rows, q_rows, rms_norm, store_kv


@jit
def _finish(  # type: ignore[no-untyped-def]
    y, head, t, keep, gamma, eps, out, loc, slots, live, buf, buf8, sf, heads, page,
    ROWS: tl.constexpr, NORM: tl.constexpr, STORE: tl.constexpr, MXFP8: tl.constexpr,
):  # fmt: skip
    """Norm K, write K or V out and to its slot; a slot outside the buffer is not written."""
    lane = tl.arange(0, 128)
    if NORM:
        y = rms_norm(bf16_to_f32(y), bf16_to_f32(tl.load(gamma + lane)), eps, ROWS)
    tl.store(out + ((t * heads + head) * 128)[:, None] + lane[None, :], y, mask=keep[:, None])
    if STORE:
        slot = tl.load(loc + t, mask=keep, other=-1)
        put = keep & live & (slot >= 0) & (slot < slots)
        store_kv(y, head, slot, put, buf, buf8, sf, heads, page, ROWS, MXFP8)


@jit
def _head_of(qkvr, off8, row8, head, t):  # type: ignore[no-untyped-def]
    """Pointers [ROWS, 128] at one head's slice of rows t, an int64."""
    row = t * row8 * 8 + off8 * 8 + head * 128
    return qkvr + row[:, None] + tl.arange(0, 128)[None, :]


@jit
def verify_kernel(  # type: ignore[no-untyped-def]
    qkvr, row8, tokens, q_off8, k_off8, v_off8, hq, hkv, k_cache, v_cache, cs0, cs1, indices, mask,
    kw, vw, qg, kg, eps, loc, slots, k_buf, v_buf, buf8, sfk, sfv, page, tau,
    q_out, k_out, v_out, q_scale, drafts, k_inter, v_inter, is0, is1, is2,
    ROWS: tl.constexpr, TAPS: tl.constexpr, SILU: tl.constexpr, RESIDUAL: tl.constexpr,
    STORE: tl.constexpr, MXFP8: tl.constexpr, TAU: tl.constexpr,
):  # fmt: skip
    """Draft tokens; inter strides of sequence, draft and row, in elements."""
    heads = hq + 2 * hkv
    tile, head = tl.program_id(0) // heads, tl.program_id(0) % heads
    t = (tile * ROWS + tl.arange(0, ROWS)).to(tl.int64)
    keep = t < tokens
    if head < hq:
        x = _head_of(qkvr, q_off8, row8, head, t)
        q_rows(x, head, t, keep, qg, eps, tau, q_out, q_scale, hq, ROWS, TAU, MXFP8)
    else:
        s, p = t // drafts, t % drafts
        at = tl.load(indices + s, mask=keep, other=-1).to(tl.int64)
        live = at >= 0
        gate = (live & (tl.load(mask + s, mask=keep, other=0) != 0)).to(tl.float32)
        history = tl.where(live, at, 0) * cs0
        window = s * is0 + p * is1
        lane = tl.arange(0, 128)[None, :]
        if head < hq + hkv:
            head -= hq
            y = kv_rows(
                _head_of(qkvr, k_off8, row8, head, t), row8, t, p, keep,
                k_cache + (history + head * 128)[:, None] + lane, cs1, gate, kw, head,
                k_inter + (window + head * 128)[:, None] + lane, is2, keep & live,
                ROWS, TAPS, SILU, RESIDUAL, True, True, False,
            )  # fmt: skip
            _finish(
                y, head, t, keep, kg, eps, k_out, loc, slots, keep, k_buf, buf8, sfk, hkv, page,
                ROWS, True, STORE, MXFP8,
            )  # fmt: skip
        else:
            head -= hq + hkv
            y = kv_rows(
                _head_of(qkvr, v_off8, row8, head, t), row8, t, p, keep,
                v_cache + (history + head * 128)[:, None] + lane, cs1, gate, vw, head,
                v_inter + (window + head * 128)[:, None] + lane, is2, keep & live,
                ROWS, TAPS, SILU, RESIDUAL, True, True, False,
            )  # fmt: skip
            _finish(
                y, head, t, keep, kg, eps, v_out, loc, slots, keep, v_buf, buf8, sfv, hkv, page,
                ROWS, False, STORE, MXFP8,
            )  # fmt: skip


@jit
def _decode_kv(  # type: ignore[no-untyped-def]
    qkvr, off8, row8, head, t, keep, cache, cs0, cs1, at, gate, weight, gamma, eps, out, loc,
    slots, buf, buf8, sf, heads, page, target,
    ROWS: tl.constexpr, TAPS: tl.constexpr, SILU: tl.constexpr, RESIDUAL: tl.constexpr,
    STORE: tl.constexpr, MXFP8: tl.constexpr, TRACK: tl.constexpr, NORM: tl.constexpr,
):  # fmt: skip
    """One head of K or V of tokens that are a sequence each; then the shift of its history."""
    lane = (head * 128 + tl.arange(0, 128))[None, :]
    live = at >= 0
    past = cache + (tl.where(live, at, 0) * cs0)[:, None] + lane
    x = _head_of(qkvr, off8, row8, head, t)
    p = (t * 0).to(tl.int32)
    save = keep & live
    y = kv_rows(
        x, row8, t, p, keep, past, cs1, gate, weight, head, past, cs1, save,
        ROWS, TAPS, SILU, RESIDUAL, True, True, True,
    )  # fmt: skip
    _finish(
        y, head, t, keep, gamma, eps, out, loc, slots, live, buf, buf8, sf, heads, page,
        ROWS, NORM, STORE, MXFP8,
    )  # fmt: skip
    if TRACK:  # each thread reads back what it has written
        snap = cache + (target * cs0)[:, None] + lane
        for w in tl.static_range(TAPS - 1):
            word = tl.load(past + w * cs1, mask=save[:, None], other=0)
            tl.store(snap + w * cs1, word, mask=(save & (target >= 0))[:, None])


@jit
def decode_kernel(  # type: ignore[no-untyped-def]
    qkvr, row8, tokens, q_off8, k_off8, v_off8, hq, hkv, k_cache, v_cache, cs0, cs1, indices, mask,
    kw, vw, qg, kg, eps, loc, slots, k_buf, v_buf, buf8, sfk, sfv, page, tau,
    q_out, k_out, v_out, q_scale, track_mask, track_to,
    ROWS: tl.constexpr, TAPS: tl.constexpr, SILU: tl.constexpr, RESIDUAL: tl.constexpr,
    STORE: tl.constexpr, MXFP8: tl.constexpr, TAU: tl.constexpr, TRACK: tl.constexpr,
):  # fmt: skip
    """One token a sequence; the history moves up by one row in place."""
    heads = hq + 2 * hkv
    tile, head = tl.program_id(0) // heads, tl.program_id(0) % heads
    t = (tile * ROWS + tl.arange(0, ROWS)).to(tl.int64)
    keep = t < tokens
    if head < hq:
        x = _head_of(qkvr, q_off8, row8, head, t)
        q_rows(x, head, t, keep, qg, eps, tau, q_out, q_scale, hq, ROWS, TAU, MXFP8)
    else:
        at = tl.load(indices + t, mask=keep, other=-1).to(tl.int64)
        gate = (tl.load(mask + t, mask=keep, other=0) != 0).to(tl.float32)
        target = at
        if TRACK:
            wanted = tl.load(track_mask + t, mask=keep, other=0) != 0
            target = tl.where(wanted, tl.load(track_to + t, mask=keep, other=-1), -1)
        if head < hq + hkv:
            _decode_kv(
                qkvr, k_off8, row8, head - hq, t, keep, k_cache, cs0, cs1, at, gate, kw, kg, eps,
                k_out, loc, slots, k_buf, buf8, sfk, hkv, page, target,
                ROWS, TAPS, SILU, RESIDUAL, STORE, MXFP8, TRACK, True,
            )  # fmt: skip
        else:
            _decode_kv(
                qkvr, v_off8, row8, head - hq - hkv, t, keep, v_cache, cs0, cs1, at, gate, vw, kg,
                eps, v_out, loc, slots, v_buf, buf8, sfv, hkv, page, target,
                ROWS, TAPS, SILU, RESIDUAL, STORE, MXFP8, TRACK, False,
            )  # fmt: skip


@jit
def _begin(  # type: ignore[no-untyped-def]
    qkvr, off8, row8, tokens, head, b, cache, cs0, cs1, indices, mask, initial, cu, si, weight,
    gamma, eps, out, loc, slots, buf, buf8, sf, heads, page, track_rows, track_mask, track_dst,
    TAPS: tl.constexpr, FIRST: tl.constexpr, SILU: tl.constexpr, RESIDUAL: tl.constexpr,
    STORE: tl.constexpr, MXFP8: tl.constexpr, UPDATE: tl.constexpr, TRACK: tl.constexpr,
    NORM: tl.constexpr,
):  # fmt: skip
    """The first W - 1 tokens of one sequence, which see its history; then the history's update.

    No other program reads or writes this history, so one launch keeps the order: all reads first.
    """
    p = tl.arange(0, FIRST)
    begin, end = tl.load(cu + b), tl.load(cu + b + 1)
    t = begin + p
    keep = (p < TAPS - 1) & (t < tokens)
    keep = keep & (tl.load(si + t, mask=keep, other=-1) == b)
    same = b + p * 0  # of the sequence, once for each row
    at = tl.load(indices + same).to(tl.int64)
    live = at >= 0
    gate = (tl.load(mask + same) != 0).to(tl.float32)
    lane = (head * 128 + tl.arange(0, 128))[None, :]
    past = cache + (tl.where(live, at, 0) * cs0)[:, None] + lane
    y = kv_rows(
        _head_of(qkvr, off8, row8, head, t), row8, t, p, keep, past, cs1, gate, weight, head,
        None, 0, keep, FIRST, TAPS, SILU, RESIDUAL, True, False, False,
    )  # fmt: skip
    _finish(
        y, head, t, keep, gamma, eps, out, loc, slots, keep, buf, buf8, sf, heads, page,
        FIRST, NORM, STORE, MXFP8,
    )  # fmt: skip
    if UPDATE:
        n = end - begin + p * 0
        row = p < TAPS - 1
        new = n >= TAPS - 1 - p
        write = row & live & (n > 0)
        fresh = tl.load(
            _head_of(qkvr, off8, row8, head, end - (TAPS - 1) + p),
            mask=(write & new)[:, None], other=0,
        )  # fmt: skip
        kept = write & (tl.load(initial + same) != 0) & (new == 0)
        old = tl.load(past + ((p + n) * cs1)[:, None], mask=kept[:, None], other=0)
        tl.debug_barrier()  # every thread has read the history
        word = tl.where(new[:, None], fresh, old)
        tl.store(past + (p * cs1)[:, None], word, mask=write[:, None])
        if TRACK:
            tl.debug_barrier()  # it may be the same row of the pool
            row = row & (tl.load(track_mask + same) != 0)
            token = tl.load(track_rows + b * (TAPS - 1) + p, mask=row, other=0)
            word = tl.load(_head_of(qkvr, off8, row8, head, token), mask=row[:, None], other=0)
            snap = cache + (tl.load(track_dst + same) * cs0)[:, None] + lane
            tl.store(snap + (p * cs1)[:, None], word, mask=row[:, None])


@jit
def _later(  # type: ignore[no-untyped-def]
    qkvr, off8, row8, head, t, keep, cu, si, weight, gamma, eps, out, loc, slots,
    buf, buf8, sf, heads, page,
    ROWS: tl.constexpr, TAPS: tl.constexpr, SILU: tl.constexpr, RESIDUAL: tl.constexpr,
    STORE: tl.constexpr, MXFP8: tl.constexpr, NORM: tl.constexpr,
):  # fmt: skip
    """Tokens that no longer see the history: the loads wait for no index, only the stores do."""
    y = kv_rows(
        _head_of(qkvr, off8, row8, head, t), row8, t, t, keep, None, 0, None, weight, head,
        None, 0, keep, ROWS, TAPS, SILU, RESIDUAL, False, False, False,
    )  # fmt: skip
    s = tl.load(si + t, mask=keep, other=0)
    keep = keep & (t - tl.load(cu + s, mask=keep, other=0) >= TAPS - 1)
    _finish(
        y, head, t, keep, gamma, eps, out, loc, slots, keep, buf, buf8, sf, heads, page,
        ROWS, NORM, STORE, MXFP8,
    )  # fmt: skip


@jit
def extend_kernel(  # type: ignore[no-untyped-def]
    qkvr, row8, tokens, q_off8, k_off8, v_off8, hq, hkv, k_cache, v_cache, cs0, cs1, indices, mask,
    kw, vw, qg, kg, eps, loc, slots, k_buf, v_buf, buf8, sfk, sfv, page, tau,
    q_out, k_out, v_out, q_scale, initial, cu, si, sequences, track_rows, track_mask, track_dst,
    ROWS: tl.constexpr, TAPS: tl.constexpr, SILU: tl.constexpr, RESIDUAL: tl.constexpr,
    STORE: tl.constexpr, MXFP8: tl.constexpr, TAU: tl.constexpr,
    FIRST: tl.constexpr, UPDATE: tl.constexpr, TRACK: tl.constexpr,
):  # fmt: skip
    """Sequences of any length: programs of sequence beginnings first, then tiles of tokens."""
    pid = tl.program_id(0)
    begins = sequences * 2 * hkv
    if pid < begins:
        b, head = pid // (2 * hkv), pid % (2 * hkv)
        if head < hkv:
            _begin(
                qkvr, k_off8, row8, tokens, head, b, k_cache, cs0, cs1, indices, mask, initial, cu,
                si, kw, kg, eps, k_out, loc, slots, k_buf, buf8, sfk, hkv, page,
                track_rows, track_mask, track_dst,
                TAPS, FIRST, SILU, RESIDUAL, STORE, MXFP8, UPDATE, TRACK, True,
            )  # fmt: skip
        else:
            _begin(
                qkvr, v_off8, row8, tokens, head - hkv, b, v_cache, cs0, cs1, indices, mask,
                initial, cu, si, vw, kg, eps, v_out, loc, slots, v_buf, buf8, sfv, hkv, page,
                track_rows, track_mask, track_dst,
                TAPS, FIRST, SILU, RESIDUAL, STORE, MXFP8, UPDATE, TRACK, False,
            )  # fmt: skip
    else:
        heads = hq + 2 * hkv
        tile, head = (pid - begins) // heads, (pid - begins) % heads
        t = (tile * ROWS + tl.arange(0, ROWS)).to(tl.int64)
        keep = t < tokens
        if head < hq:
            x = _head_of(qkvr, q_off8, row8, head, t)
            q_rows(x, head, t, keep, qg, eps, tau, q_out, q_scale, hq, ROWS, TAU, MXFP8)
        elif head < hq + hkv:
            _later(
                qkvr, k_off8, row8, head - hq, t, keep, cu, si, kw, kg, eps, k_out, loc, slots,
                k_buf, buf8, sfk, hkv, page, ROWS, TAPS, SILU, RESIDUAL, STORE, MXFP8, True,
            )  # fmt: skip
        else:
            _later(
                qkvr, v_off8, row8, head - hq - hkv, t, keep, cu, si, vw, kg, eps, v_out, loc,
                slots, v_buf, buf8, sfv, hkv, page,
                ROWS, TAPS, SILU, RESIDUAL, STORE, MXFP8, False,
            )  # fmt: skip
