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
    weight, ws, gamma, eps, out, loc, slots, buf, buf8, sf, heads, page,
    track_rows, track_mask, track_dst, firsts,
    ROWS: tl.constexpr, TAPS: tl.constexpr, SILU: tl.constexpr, RESIDUAL: tl.constexpr,
    STORE: tl.constexpr, MXFP8: tl.constexpr, UPDATE: tl.constexpr, TRACK: tl.constexpr,
    NORM: tl.constexpr, TAP_MAJOR: tl.constexpr, DIRECT: tl.constexpr,
):  # fmt: skip
    """One head of K or V of the beginnings of ROWS sequences; then the update of their history."""
    valid = b < sequences
    b = tl.minimum(b, sequences - 1)
    begin, end = tl.load(cu + b), tl.load(cu + b + 1)
    at = tl.load(indices + b).to(tl.int64)
    counts = tl.load(mask + b)
    kept = tl.load(initial + b) != 0
    factor = _factor(gamma, b, NORM, DIRECT)
    w3, w2, w1, w0 = tap_weights(weight, ws, head, b, TAPS, TAP_MAJOR)
    lane = (head * 128 + tl.arange(0, 128))[None, :]
    live = at >= 0
    past = cache + (tl.where(live, at, 0) * cs0)[:, None] + lane
    h3, h2, h1 = _history(past, cs1, TAPS)
    gate = (counts != 0).to(tl.float32)[:, None]
    x3, x2, x1 = bf16_to_f32(h3) * gate, bf16_to_f32(h2) * gate, bf16_to_f32(h1) * gate
    x = qkvr + off8 * 8 + lane
    for i in range(firsts):  # not known to the compiler, which would unroll it
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
def _back(x, t, row8, BACK: tl.constexpr):  # type: ignore[no-untyped-def]
    """The inputs BACK tokens before t, float32 [ROWS, 128]."""
    return bf16_to_f32(tl.load(x + (tl.maximum(t - BACK, 0).to(tl.int64) * row8 * 8)[:, None]))


@jit
def _later(  # type: ignore[no-untyped-def]
    qkvr, off8, row8, tokens, head, first, cu, si, weight, ws, gamma, eps, out, loc, slots,
    buf, buf8, sf, heads, page,
    ROWS: tl.constexpr, TAPS: tl.constexpr, SILU: tl.constexpr, RESIDUAL: tl.constexpr,
    STORE: tl.constexpr, MXFP8: tl.constexpr, NORM: tl.constexpr,
    TAP_MAJOR: tl.constexpr, DIRECT: tl.constexpr,
):  # fmt: skip
    """One head of K or V of ROWS tokens that no longer see the history.

    Only the stores ask which sequence a token is of. The first W - 1 tokens of ``qkvr``, which
    have no rows before them, are always in ``_begin``'s part.
    """
    t = first + tl.arange(0, ROWS)
    keep = t < tokens
    t = tl.minimum(t, tokens - 1)
    sequence = tl.load(si + t)
    slot = _slot(loc, t, keep, STORE)
    lane = (head * 128 + tl.arange(0, 128))[None, :]
    x = qkvr + off8 * 8 + lane
    x0, x1 = _back(x, t, row8, 0), _back(x, t, row8, 1)
    x2, x3 = x1, x1
    if TAPS > 2:
        x2 = _back(x, t, row8, 2)
    if TAPS > 3:
        x3 = _back(x, t, row8, 3)
    w3, w2, w1, w0 = tap_weights(weight, ws, head, t, TAPS, TAP_MAJOR)
    factor = _factor(gamma, t, NORM, DIRECT)
    keep = keep & (t - tl.load(cu + sequence) >= TAPS - 1)
    y = convolved(x3, x2, x1, x0, w3, w2, w1, w0, TAPS, SILU, RESIDUAL)
    _put(
        y, head, t, keep, factor, eps, out, slot, slots, keep, buf, buf8, sf, heads, page,
        ROWS, NORM, STORE, MXFP8,
    )  # fmt: skip


@jit
def extend_kernel(  # type: ignore[no-untyped-def]
    qkvr, row8, tokens, q_off8, k_off8, v_off8, hq, hkv, k_cache, v_cache, cs0, cs1, indices, mask,
    kw, vw, ws, qg, kg, eps, loc, slots, k_buf, v_buf, buf8, sfk, sfv, page, tau,
    q_out, k_out, v_out, q_scale, initial, cu, si, sequences, track_rows, track_mask, track_dst,
    firsts,
    FIRST_ROWS: tl.constexpr, ROWS: tl.constexpr, STEPS: tl.constexpr, TAPS: tl.constexpr,
    SILU: tl.constexpr,
    RESIDUAL: tl.constexpr, STORE: tl.constexpr, MXFP8: tl.constexpr, TAU: tl.constexpr,
    TAP_MAJOR: tl.constexpr, DIRECT: tl.constexpr,
    UPDATE: tl.constexpr, TRACK: tl.constexpr,
):  # fmt: skip
    """Programs of beginnings first, then runs of tokens, the heads of a run side by side."""
    pid = tl.program_id(0)
    begins = (sequences + FIRST_ROWS - 1) // FIRST_ROWS * 2 * hkv
    if pid < begins:
        b = pid // (2 * hkv) * FIRST_ROWS + tl.arange(0, FIRST_ROWS)
        head = pid % (2 * hkv)
        if head < hkv:
            _begin(
                qkvr, k_off8, row8, tokens, head, b, sequences, k_cache, cs0, cs1, indices, mask,
                initial, cu, si, kw, ws, kg, eps, k_out, loc, slots, k_buf, buf8, sfk, hkv, page,
                track_rows, track_mask, track_dst, firsts, FIRST_ROWS, TAPS, SILU, RESIDUAL, STORE,
                MXFP8, UPDATE, TRACK, True, TAP_MAJOR, DIRECT,
            )  # fmt: skip
        else:
            _begin(
                qkvr, v_off8, row8, tokens, head - hkv, b, sequences, v_cache, cs0, cs1, indices,
                mask, initial, cu, si, vw, ws, kg, eps, v_out, loc, slots, v_buf, buf8, sfv, hkv,
                page, track_rows, track_mask, track_dst, firsts, FIRST_ROWS, TAPS, SILU, RESIDUAL,
                STORE, MXFP8, UPDATE, TRACK, False, TAP_MAJOR, DIRECT,
            )  # fmt: skip
    else:
        pid -= begins
        heads = hq + STEPS * 2 * hkv
        first, head = pid // heads * (ROWS * STEPS), pid % heads
        if head < hq:
            q_chain(
                qkvr, row8, q_off8, head, first, tokens, qg, eps, tau, q_out, q_scale, hq,
                ROWS, STEPS, TAU, MXFP8, DIRECT,
            )  # fmt: skip
        else:
            first, head = first + (head - hq) // (2 * hkv) * ROWS, (head - hq) % (2 * hkv)
            if head < hkv:
                _later(
                    qkvr, k_off8, row8, tokens, head, first, cu, si, kw, ws, kg, eps, k_out, loc,
                    slots, k_buf, buf8, sfk, hkv, page,
                    ROWS, TAPS, SILU, RESIDUAL, STORE, MXFP8, True, TAP_MAJOR, DIRECT,
                )  # fmt: skip
            else:
                _later(
                    qkvr, v_off8, row8, tokens, head - hkv, first, cu, si, vw, ws, kg, eps, v_out,
                    loc, slots, v_buf, buf8, sfv, hkv, page,
                    ROWS, TAPS, SILU, RESIDUAL, STORE, MXFP8, False, TAP_MAJOR, DIRECT,
                )  # fmt: skip
