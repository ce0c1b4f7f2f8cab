"""The three prologues, one launch each. A program is one head of a chain of tiles of tokens.

In a tile of K or V a row is a run of consecutive tokens, one a step: the inputs that the
convolution looks back at stay in registers, and are loaded once. Strides named ``...8`` are in
units of 8 elements, which tells the compiler that rows are aligned.
"""

import triton.language as tl

from mxlab.kernels.e4m3 import bf16_to_f32
from mxlab.kernels.mode import jit
from mxlab.kernels.prologue_parts import (
    convolved,
    load_gamma,
    q_chain,
    rms_norm,
    store_kv,
    tap_weights,
)


@jit
def _put(  # type: ignore[no-untyped-def]
    y, head, t, keep, factor, eps, out, slot, slots, live, buf, buf8, sf, heads, page,
    ROWS: tl.constexpr, NORM: tl.constexpr, STORE: tl.constexpr, MXFP8: tl.constexpr,
):  # fmt: skip
    """Norm K, write K or V out and to its slot; a slot outside the buffer is not written."""
    if NORM:
        y = rms_norm(bf16_to_f32(y), factor, eps, ROWS)
    row = (t.to(tl.int64) * heads + head) * 128
    tl.store(out + row[:, None] + tl.arange(0, 128)[None, :], y, mask=keep[:, None])
    if STORE:
        put = keep & live & (slot >= 0) & (slot < slots)
        store_kv(y, head, slot, put, buf, buf8, sf, heads, page, ROWS, MXFP8)


@jit
def _slot(loc, t, keep, STORE: tl.constexpr):  # type: ignore[no-untyped-def]
    """Slots of tokens, int64; -1 where nothing is to be stored."""
    if STORE:
        return tl.load(loc + t, mask=keep, other=-1)
    else:
        return t.to(tl.int64)


@jit
def _factor(gamma, row, NORM: tl.constexpr, DIRECT: tl.constexpr):  # type: ignore[no-untyped-def]
    """Gamma of K; V has none."""
    if NORM:
        return load_gamma(gamma, row, DIRECT)
    else:
        return 1.0


@jit
def _history(past, cs1, TAPS: tl.constexpr):  # type: ignore[no-untyped-def]
    """The history, newest last, int16 bits [ROWS, 128]; fewer taps repeat its oldest row."""
    h1 = tl.load(past + (TAPS - 2) * cs1)
    h2, h3 = h1, h1
    if TAPS > 2:
        h2 = tl.load(past + (TAPS - 3) * cs1)
        h3 = h2
    if TAPS > 3:
        h3 = tl.load(past + (TAPS - 4) * cs1)
    return h3, h2, h1


@jit
def _save(window, is2, h2, h1, word, save, TAPS: tl.constexpr):  # type: ignore[no-untyped-def]
    """Store the window after a token: what becomes the history, oldest row first."""
    if TAPS > 3:
        tl.store(window, h2, mask=save[:, None])
    if TAPS > 2:
        tl.store(window + (TAPS - 3) * is2, h1, mask=save[:, None])
    tl.store(window + (TAPS - 2) * is2, word, mask=save[:, None])


@jit
def _verify_kv(  # type: ignore[no-untyped-def]
    qkvr, off8, row8, sequences, head, s, cache, cs0, cs1, indices, mask, weight, ws, gamma, eps,
    out, loc, slots, buf, buf8, sf, heads, page, drafts, inter, is0, is1, is2,
    ROWS: tl.constexpr, TAPS: tl.constexpr, SILU: tl.constexpr, RESIDUAL: tl.constexpr,
    STORE: tl.constexpr, MXFP8: tl.constexpr, NORM: tl.constexpr, TAP_MAJOR: tl.constexpr,
    DIRECT: tl.constexpr,
):  # fmt: skip
    """One head of K or V of ROWS sequences: a row goes through its drafts."""
    keep = s < sequences
    s = tl.minimum(s, sequences - 1)
    at = tl.load(indices + s).to(tl.int64)
    counts = tl.load(mask + s)
    factor = _factor(gamma, s, NORM, DIRECT)
    w3, w2, w1, w0 = tap_weights(weight, ws, head, s, TAPS, TAP_MAJOR)
    lane = (head * 128 + tl.arange(0, 128))[None, :]
    t = s * drafts
    x = qkvr + off8 * 8 + (t.to(tl.int64) * row8 * 8)[:, None] + lane
    word = tl.load(x)
    slot = _slot(loc, t, keep, STORE)
    live = at >= 0
    gate = (live & (counts != 0)).to(tl.float32)[:, None]
    h3, h2, h1 = _history(cache + (tl.where(live, at, 0) * cs0)[:, None] + lane, cs1, TAPS)
    x3, x2, x1 = bf16_to_f32(h3) * gate, bf16_to_f32(h2) * gate, bf16_to_f32(h1) * gate
    window = inter + (s.to(tl.int64) * is0)[:, None] + lane
    for i in range(drafts):
        ahead = tl.minimum(i + 1, drafts - 1)
        later = tl.load(x + ahead.to(tl.int64) * row8 * 8)
        slot_later = _slot(loc, s * drafts + ahead, keep, STORE)
        x0 = bf16_to_f32(word)
        _save(window, is2, h2, h1, word, keep & live, TAPS)
        y = convolved(x3, x2, x1, x0, w3, w2, w1, w0, TAPS, SILU, RESIDUAL)
        _put(
            y, head, t, keep, factor, eps, out, slot, slots, keep, buf, buf8, sf, heads, page,
            ROWS, NORM, STORE, MXFP8,
        )  # fmt: skip
        x3, x2, x1 = x2, x1, x0
        h2, h1, word, slot = h1, word, later, slot_later
        window += is1
        t += 1


@jit
def verify_kernel(  # type: ignore[no-untyped-def]
    qkvr, row8, tokens, q_off8, k_off8, v_off8, hq, hkv, k_cache, v_cache, cs0, cs1, indices, mask,
    kw, vw, ws, qg, kg, eps, loc, slots, k_buf, v_buf, buf8, sfk, sfv, page, tau,
    q_out, k_out, v_out, q_scale, sequences, drafts, k_inter, v_inter, is0, is1, is2,
    ROWS: tl.constexpr, STEPS: tl.constexpr, TAPS: tl.constexpr, SILU: tl.constexpr,
    RESIDUAL: tl.constexpr, STORE: tl.constexpr, MXFP8: tl.constexpr, TAU: tl.constexpr,
    TAP_MAJOR: tl.constexpr, DIRECT: tl.constexpr,
):  # fmt: skip
    """Draft tokens: programs of K and V, then of Q; inter strides are in elements."""
    pid = tl.program_id(0)
    chains = (sequences + ROWS - 1) // ROWS * 2 * hkv
    if pid < chains:
        s, head = pid // (2 * hkv) * ROWS + tl.arange(0, ROWS), pid % (2 * hkv)
        if head < hkv:
            _verify_kv(
                qkvr, k_off8, row8, sequences, head, s, k_cache, cs0, cs1, indices, mask, kw, ws,
                kg, eps, k_out, loc, slots, k_buf, buf8, sfk, hkv, page, drafts, k_inter, is0, is1,
                is2, ROWS, TAPS, SILU, RESIDUAL, STORE, MXFP8, True, TAP_MAJOR, DIRECT,
            )  # fmt: skip
        else:
            _verify_kv(
                qkvr, v_off8, row8, sequences, head - hkv, s, v_cache, cs0, cs1, indices, mask, vw,
                ws, kg, eps, v_out, loc, slots, v_buf, buf8, sfv, hkv, page, drafts, v_inter, is0,
                is1, is2, ROWS, TAPS, SILU, RESIDUAL, STORE, MXFP8, False, TAP_MAJOR, DIRECT,
            )  # fmt: skip
    else:
        pid -= chains
        q_chain(
            qkvr, row8, q_off8, pid % hq, pid // hq * (ROWS * STEPS), tokens, qg, eps, tau, q_out,
            q_scale, hq, ROWS, STEPS, TAU, MXFP8, DIRECT,
        )  # fmt: skip


@jit
def _decode_kv(  # type: ignore[no-untyped-def]
    qkvr, off8, row8, tokens, head, t, cache, cs0, cs1, indices, mask, weight, ws, gamma, eps, out,
    loc, slots, buf, buf8, sf, heads, page, track_mask, track_to,
    ROWS: tl.constexpr, TAPS: tl.constexpr, SILU: tl.constexpr, RESIDUAL: tl.constexpr,
    STORE: tl.constexpr, MXFP8: tl.constexpr, TRACK: tl.constexpr, NORM: tl.constexpr,
    TAP_MAJOR: tl.constexpr, DIRECT: tl.constexpr,
):  # fmt: skip
    """One head of K or V of tokens that are a sequence each; then the shift of its history.

    A thread writes the rows of the pool that it has read, and no other reads them.
    """
    keep = t < tokens
    t = tl.minimum(t, tokens - 1)
    at = tl.load(indices + t).to(tl.int64)
    counts = tl.load(mask + t) != 0
    slot = _slot(loc, t, keep, STORE)
    lane = (head * 128 + tl.arange(0, 128))[None, :]
    word = tl.load(qkvr + off8 * 8 + (t.to(tl.int64) * row8 * 8)[:, None] + lane)
    factor = _factor(gamma, t, NORM, DIRECT)
    w3, w2, w1, w0 = tap_weights(weight, ws, head, t, TAPS, TAP_MAJOR)
    target = at
    if TRACK:
        target = tl.load(track_to + t, mask=tl.load(track_mask + t) != 0, other=-1)
    live = at >= 0
    past = cache + (tl.where(live, at, 0) * cs0)[:, None] + lane
    h3, h2, h1 = _history(past, cs1, TAPS)
    gate = counts.to(tl.float32)[:, None]
    x3, x2, x1 = bf16_to_f32(h3) * gate, bf16_to_f32(h2) * gate, bf16_to_f32(h1) * gate
    h2, h1 = tl.where(counts[:, None], h2, 0), tl.where(counts[:, None], h1, 0)
    _save(past, cs1, h2, h1, word, keep & live, TAPS)
    if TRACK:
        snap = cache + (target * cs0)[:, None] + lane
        _save(snap, cs1, h2, h1, word, keep & live & (target >= 0), TAPS)
    y = convolved(x3, x2, x1, bf16_to_f32(word), w3, w2, w1, w0, TAPS, SILU, RESIDUAL)
    _put(
        y, head, t, keep, factor, eps, out, slot, slots, live, buf, buf8, sf, heads, page,
        ROWS, NORM, STORE, MXFP8,
    )  # fmt: skip


@jit
def decode_kernel(  # type: ignore[no-untyped-def]
    qkvr, row8, tokens, q_off8, k_off8, v_off8, hq, hkv, k_cache, v_cache, cs0, cs1, indices, mask,
    kw, vw, ws, qg, kg, eps, loc, slots, k_buf, v_buf, buf8, sfk, sfv, page, tau,
    q_out, k_out, v_out, q_scale, track_mask, track_to,
    ROWS: tl.constexpr, STEPS: tl.constexpr, TAPS: tl.constexpr, SILU: tl.constexpr,
    RESIDUAL: tl.constexpr, STORE: tl.constexpr, MXFP8: tl.constexpr, TAU: tl.constexpr,
    TAP_MAJOR: tl.constexpr, DIRECT: tl.constexpr,
    TRACK: tl.constexpr,
):  # fmt: skip
    """One token a sequence: the longer programs, of K and V, first."""
    pid = tl.program_id(0)
    chains = (tokens + ROWS - 1) // ROWS * 2 * hkv
    if pid < chains:
        t, head = pid // (2 * hkv) * ROWS + tl.arange(0, ROWS), pid % (2 * hkv)
        if head < hkv:
            _decode_kv(
                qkvr, k_off8, row8, tokens, head, t, k_cache, cs0, cs1, indices, mask, kw, ws, kg,
                eps, k_out, loc, slots, k_buf, buf8, sfk, hkv, page, track_mask, track_to, ROWS,
                TAPS, SILU, RESIDUAL, STORE, MXFP8, TRACK, True, TAP_MAJOR, DIRECT,
            )  # fmt: skip
        else:
            _decode_kv(
                qkvr, v_off8, row8, tokens, head - hkv, t, v_cache, cs0, cs1, indices, mask, vw,
                ws, kg, eps, v_out, loc, slots, v_buf, buf8, sfv, hkv, page, track_mask, track_to,
                ROWS, TAPS, SILU, RESIDUAL, STORE, MXFP8, TRACK, False, TAP_MAJOR, DIRECT,
            )  # fmt: skip
    else:
        pid -= chains
        q_chain(
            qkvr, row8, q_off8, pid % hq, pid // hq * (ROWS * STEPS), tokens, qg, eps, tau, q_out,
            q_scale, hq, ROWS, STEPS, TAU, MXFP8, DIRECT,
        )  # fmt: skip


@jit
def empty_kernel():  # type: ignore[no-untyped-def]
    """Do nothing: what a launch alone costs."""
