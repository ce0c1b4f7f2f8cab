"""The extend prologue: sequences of any length in one launch.

The first W - 1 tokens of a sequence see its history, and one program computes them and then
updates that history; no other program touches it. So all reads come before the writes without a
second launch. The other tokens see only ``qkvr``.
"""

import triton.language as tl

from mxlab.kernels.e4m3 import bf16_to_f32
from mxlab.kernels.mode import jit
from mxlab.kernels.prologue_kernels import _factor, _history, _put, _slot
from mxlab.kernels.prologue_parts import convolved, q_chain, tap_weights


@jit
def _update(  # type: ignore[no-untyped-def]
    x, row8, begin, n, past, cs1, live, counts, WRITTEN: tl.constexpr, TAPS: tl.constexpr
):
    """Row WRITTEN of the history after a sequence of n tokens: of qkvr, of the old one, or +0.

    A row that is read from the old history lies after it, and was not written yet.
    """
    back: tl.constexpr = TAPS - 1 - WRITTEN
    fresh = n >= back
    row = (begin + tl.maximum(n - back, 0)).to(tl.int64) * row8 * 8
    word = tl.load(x + row[:, None], mask=(live & fresh)[:, None], other=0)
    kept = live & (n < back) & counts
    old = tl.load(past + ((WRITTEN + n) * cs1)[:, None], mask=kept[:, None], other=0)
    word = tl.where(fresh[:, None], word, old)
    tl.debug_barrier()  # other threads have read this row, for an earlier one
    tl.store(past + WRITTEN * cs1, word, mask=live[:, None])


@jit
def _begin(  # type: ignore[no-untyped-def]
    qkvr, off8, row8, tokens, head, b, sequences, cache, cs0, cs1, indices, mask, initial, cu, si,
    weight, gamma, eps, out, loc, slots, buf, buf8, sf, heads, page,
    track_rows, track_mask, track_dst,
    ROWS: tl.constexpr, TAPS: tl.constexpr, SILU: tl.constexpr, RESIDUAL: tl.constexpr,
    STORE: tl.constexpr, MXFP8: tl.constexpr, UPDATE: tl.constexpr, TRACK: tl.constexpr,
    NORM: tl.constexpr,
):  # fmt: skip
    """One head of K or V of the beginnings of ROWS sequences; then the update of their history."""
    valid = b < sequences
    b = tl.minimum(b, sequences - 1)
    begin, end = tl.load(cu + b), tl.load(cu + b + 1)
    at = tl.load(indices + b).to(tl.int64)
    counts = tl.load(mask + b)
    kept = tl.load(initial + b) != 0
    factor = _factor(gamma, NORM)
    w3, w2, w1, w0 = tap_weights(weight, head, TAPS)
    lane = (head * 128 + tl.arange(0, 128))[None, :]
    live = at >= 0
    past = cache + (tl.where(live, at, 0) * cs0)[:, None] + lane
    h3, h2, h1 = _history(past, cs1, TAPS)
    gate = (counts != 0).to(tl.float32)[:, None]
    x3, x2, x1 = bf16_to_f32(h3) * gate, bf16_to_f32(h2) * gate, bf16_to_f32(h1) * gate
    x = qkvr + off8 * 8 + lane
    for i in range(TAPS - 1):
        t = begin + i
        keep = valid & (t < tokens)
        t = tl.minimum(t, tokens - 1)
        keep = keep & (tl.load(si + t) == b)
        slot = _slot(loc, t, keep, STORE)
        x0 = bf16_to_f32(tl.load(x + (t * row8 * 8)[:, None]))
        y = convolved(x3, x2, x1, x0, w3, w2, w1, w0, TAPS, SILU, RESIDUAL)
        _put(
            y, head, t, keep, factor, eps, out, slot, slots, keep, buf, buf8, sf, heads, page,
            ROWS, NORM, STORE, MXFP8,
        )  # fmt: skip
        x3, x2, x1 = x2, x1, x0
    if UPDATE:
        n = end - begin
        write = valid & live & (n > 0)
        for w in tl.static_range(TAPS - 1):
            _update(x, row8, begin, n, past, cs1, write, kept, w, TAPS)
        if TRACK:
            tl.debug_barrier()  # it may be the same row of the pool
            wanted = valid & (tl.load(track_mask + b) != 0)
            snap = cache + (tl.load(track_dst + b) * cs0)[:, None] + lane
            for w in tl.static_range(TAPS - 1):
                token = tl.load(track_rows + b * (TAPS - 1) + w, mask=wanted, other=0)
                word = tl.load(x + (token * row8 * 8)[:, None])
                tl.store(snap + w * cs1, word, mask=wanted[:, None])


@jit
def _later(  # type: ignore[no-untyped-def]
    qkvr, off8, row8, tokens, head, first, cu, si, weight, gamma, eps, out, loc, slots,
    buf, buf8, sf, heads, page,
    ROWS: tl.constexpr, STEPS: tl.constexpr, TAPS: tl.constexpr, SILU: tl.constexpr,
    RESIDUAL: tl.constexpr, STORE: tl.constexpr, MXFP8: tl.constexpr, NORM: tl.constexpr,
):  # fmt: skip
    """One head of K or V of tokens that no longer see the history: ROWS runs of STEPS tokens.

    Only the stores ask which sequence a token is of. The first W - 1 tokens of ``qkvr``, which
    have no rows before them, are always in ``_begin``'s part.
    """
    last = tokens - 1
    t = first + tl.arange(0, ROWS) * STEPS
    lane = (head * 128 + tl.arange(0, 128))[None, :]
    x = qkvr + off8 * 8 + lane
    here = tl.minimum(t, last)
    word = tl.load(x + (here.to(tl.int64) * row8 * 8)[:, None])
    sequence = tl.load(si + here)
    slot = _slot(loc, here, t < tokens, STORE)
    before = tl.maximum(here - 1, 0).to(tl.int64) * row8 * 8
    x1 = bf16_to_f32(tl.load(x + before[:, None]))
    x2, x3 = x1, x1
    if TAPS > 2:
        before = tl.maximum(here - 2, 0).to(tl.int64) * row8 * 8
        x2 = bf16_to_f32(tl.load(x + before[:, None]))
        x3 = x2
    if TAPS > 3:
        before = tl.maximum(here - 3, 0).to(tl.int64) * row8 * 8
        x3 = bf16_to_f32(tl.load(x + before[:, None]))
    factor = _factor(gamma, NORM)
    w3, w2, w1, w0 = tap_weights(weight, head, TAPS)
    for _ in range(STEPS):
        begin = tl.load(cu + sequence)
        ahead = tl.minimum(t + 1, last)
        later = tl.load(x + (ahead.to(tl.int64) * row8 * 8)[:, None])
        sequence = tl.load(si + ahead)
        slot_later = _slot(loc, ahead, t + 1 < tokens, STORE)
        x0 = bf16_to_f32(word)
        y = convolved(x3, x2, x1, x0, w3, w2, w1, w0, TAPS, SILU, RESIDUAL)
        keep = (t < tokens) & (t - begin >= TAPS - 1)
        _put(
            y, head, t, keep, factor, eps, out, slot, slots, keep, buf, buf8, sf, heads, page,
            ROWS, NORM, STORE, MXFP8,
        )  # fmt: skip
        x3, x2, x1 = x2, x1, x0
        word, slot = later, slot_later
        t += 1


@jit
def extend_kernel(  # type: ignore[no-untyped-def]
    qkvr, row8, tokens, q_off8, k_off8, v_off8, hq, hkv, k_cache, v_cache, cs0, cs1, indices, mask,
    kw, vw, qg, kg, eps, loc, slots, k_buf, v_buf, buf8, sfk, sfv, page, tau,
    q_out, k_out, v_out, q_scale, initial, cu, si, sequences, track_rows, track_mask, track_dst,
    ROWS: tl.constexpr, STEPS: tl.constexpr, TAPS: tl.constexpr, SILU: tl.constexpr,
    RESIDUAL: tl.constexpr, STORE: tl.constexpr, MXFP8: tl.constexpr, TAU: tl.constexpr,
    UPDATE: tl.constexpr, TRACK: tl.constexpr,
):  # fmt: skip
    """Programs of beginnings first, then runs of tokens, the heads of a run side by side."""
    pid = tl.program_id(0)
    begins = (sequences + ROWS - 1) // ROWS * 2 * hkv
    if pid < begins:
        b, head = pid // (2 * hkv) * ROWS + tl.arange(0, ROWS), pid % (2 * hkv)
        if head < hkv:
            _begin(
                qkvr, k_off8, row8, tokens, head, b, sequences, k_cache, cs0, cs1, indices, mask,
                initial, cu, si, kw, kg, eps, k_out, loc, slots, k_buf, buf8, sfk, hkv, page,
                track_rows, track_mask, track_dst,
                ROWS, TAPS, SILU, RESIDUAL, STORE, MXFP8, UPDATE, TRACK, True,
            )  # fmt: skip
        else:
            _begin(
                qkvr, v_off8, row8, tokens, head - hkv, b, sequences, v_cache, cs0, cs1, indices,
                mask, initial, cu, si, vw, kg, eps, v_out, loc, slots, v_buf, buf8, sfv, hkv, page,
                track_rows, track_mask, track_dst,
                ROWS, TAPS, SILU, RESIDUAL, STORE, MXFP8, UPDATE, TRACK, False,
            )  # fmt: skip
    else:
        heads = hq + 2 * hkv
        first, head = (pid - begins) // heads * (ROWS * STEPS), (pid - begins) % heads
        if head < hq:
            q_chain(
                qkvr, row8, q_off8, head, first, tokens, qg, eps, tau, q_out, q_scale, hq,
                ROWS, STEPS, TAU, MXFP8,
            )  # fmt: skip
        elif head < hq + hkv:
            _later(
                qkvr, k_off8, row8, tokens, head - hq, first, cu, si, kw, kg, eps, k_out, loc,
                slots, k_buf, buf8, sfk, hkv, page,
                ROWS, STEPS, TAPS, SILU, RESIDUAL, STORE, MXFP8, True,
            )  # fmt: skip
        else:
            _later(
                qkvr, v_off8, row8, tokens, head - hq - hkv, first, cu, si, vw, kg, eps, v_out,
                loc, slots, v_buf, buf8, sfv, hkv, page,
                ROWS, STEPS, TAPS, SILU, RESIDUAL, STORE, MXFP8, False,
            )  # fmt: skip
