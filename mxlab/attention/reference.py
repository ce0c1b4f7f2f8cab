"""The fused prologue as a reference: NumPy, written to be read, in the order of its definition.

Arguments are checked before (``checks``, ``ranges``); arrays are bits that share memory with what
the caller handed over. All outputs are computed from the history as it was before the call; only
then is anything stored.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mxlab.attention.arguments import HEAD, Arguments
from mxlab.attention.arithmetic import convolve, rms_norm, scaled
from mxlab.attention.containers import bits, like, numbers
from mxlab.attention.rounding import Bytes, Floats, Words, quantize, widen

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Sequences:
    """Which sequence a token belongs to, and which history its convolution sees."""

    of: Ints  # s(t)
    begin: Ints  # bos(t)
    rows: Ints  # history row of each sequence, 0 for padding
    live: Flags  # by sequence
    gate: Flags  # by sequence: does the history count in the convolution


def sequences(a: Arguments) -> Sequences:
    """Return the call's sequences; negative cache indices are padding."""
    indices = numbers("cache_indices", a.cache_indices, np.int64)
    mask = numbers("cache_mask", a.cache_mask, np.bool_)
    live = indices >= 0
    token = np.arange(a.tokens, dtype=np.int64)
    if a.mode == "verify":
        of = token // a.draft_token_num
        begin = of * a.draft_token_num
    elif a.mode == "extend":
        of = numbers("si", a.si, np.int64)[: a.tokens]
        begin = numbers("cu", a.cu, np.int64)[of]
    else:
        of = begin = token
    gate = live & mask if a.mode == "verify" else mask
    return Sequences(of, begin, np.where(live, indices, 0), live, gate)


def raw_taps(x: Words, cache: Words, seq: Sequences, taps: int) -> tuple[list[Words], list[Flags]]:
    """Return the W raw inputs of every token, oldest first, and which of them are history.

    ``x`` [T, C], ``cache`` [pool, W - 1, C]. History lies directly before the sequence: row W - 2
    is the newest.
    """
    token = np.arange(len(x))
    words, old = [], []
    for tap in range(taps):
        row = token - (taps - 1) + tap
        history = row < seq.begin
        place = np.clip(row - seq.begin + taps - 1, 0, max(taps - 2, 0))
        past = cache[seq.rows[seq.of], place]
        words.append(np.where(history[:, None], past, x[np.maximum(row, 0)]))
        old.append(history)
    return words, old


def mixed(a: Arguments, name: str, seq: Sequences, x: Words) -> tuple[Words, list[Words]]:
    """Return ``bf(y)`` [T, C] of K or V, and the raw taps that it came from."""
    cache = bits(f"{name}_cache", getattr(a, f"{name}_cache"))
    weight = bits(f"{name}_weight", getattr(a, f"{name}_weight"))
    words, old = raw_taps(x, cache, seq, a.taps)
    gate = seq.gate[seq.of].astype(np.float32)[:, None]
    taps = []
    with np.errstate(all="ignore"):
        for word, history in zip(words, old, strict=True):
            value = widen(word)
            # the gate multiplies: NaN and Inf of history that does not count still give NaN
            taps.append(np.where(history[:, None], value * gate, value))
    return convolve(taps, weight, silu=a.silu, residual=a.use_residual), words


def stored_tokens(a: Arguments, seq: Sequences) -> tuple[Ints, Ints]:
    """Return the tokens whose K and V are stored, and their slots."""
    loc = numbers("loc", a.loc, np.int64)[: a.tokens]
    keep = loc >= 0
    if a.mode == "decode":
        keep &= seq.live
    tokens = np.flatnonzero(keep)
    return tokens, loc[tokens]


def scale_offsets(slots: Ints, heads: int, page: int) -> NDArray[np.int64]:
    """Return the offsets of the scale bytes of slots: [slots, heads, 4].

    The vector twin of ``pages.KVShape.scale_offset``.

    >>> scale_offsets(np.array([200]), 2, 128)[0, 1, 3]
    np.int64(1675)
    """
    row = slots % page
    inside = (row % 32) * (page // 8) + row // 32 * 4
    head = np.arange(heads)
    tile = (slots // page)[:, None] * heads + head
    return (tile * (4 * page) + inside[:, None])[..., None] + np.arange(4)


def store(buffer: Any, scales: Any, rows: Words, slots: Ints, page: int) -> None:
    """Write rows [n, heads, 128] to their slots: codes and scale bytes, or bfloat16 as it is."""
    target = bits("buffer", buffer)
    if scales is None:
        target[slots] = rows
        return
    code, byte = quantize(rows)
    target[slots] = code
    flat = bits("scales", scales).reshape(-1)
    flat[scale_offsets(slots, rows.shape[1], page)] = byte


def window_after(x: Words, old: Words, n: int) -> Words:
    """Return the last W - 1 rows of ``old`` followed by the ``n`` rows of ``x``.

    >>> old = np.array([[1], [2], [3]], np.uint16)
    >>> window_after(np.full((1, 1), 9, np.uint16), old, 1).tolist()
    [[2], [3], [9]]
    """
    return np.concatenate([old, x[:n]])[n:]


def _save_windows(a: Arguments, name: str, seq: Sequences, words: list[Words]) -> None:
    """verify: inter[s, i, w] is the raw tap w + 1 of draft i; padding stays as it was."""
    inter = bits(f"{name}_inter", getattr(a, f"{name}_inter"))
    alive = np.flatnonzero(seq.live)
    for w in range(a.taps - 1):
        rows = words[w + 1].reshape(a.sequences, a.draft_token_num, a.dkv)
        inter[alive, :, w] = rows[alive]


def _update(a: Arguments, name: str, seq: Sequences, x: Words) -> None:
    """extend: the history at the end of every sequence, then the snapshots."""
    cache = bits(f"{name}_cache", getattr(a, f"{name}_cache"))
    cu = numbers("cu", a.cu, np.int64)
    initial = numbers("has_initial_state", a.has_initial_state, np.bool_)
    tracked = numbers("track_mask", a.track_mask, np.bool_) if a.tracks else [False] * a.sequences
    for b in range(a.sequences):
        n = int(cu[b + 1] - cu[b])
        if seq.live[b] and n > 0:
            row = seq.rows[b]
            old = cache[row] if initial[b] else np.zeros_like(cache[row])
            cache[row] = window_after(x[cu[b] : cu[b + 1]], old, n)
        if tracked[b]:
            gather = numbers("track_rows", a.track_rows, np.int64).reshape(-1, a.taps - 1)[b]
            cache[numbers("track_dst", a.track_dst, np.int64)[b]] = x[gather]


def _shift(a: Arguments, name: str, seq: Sequences, x: Words) -> None:
    """decode: every history moves up by one row; the oldest row is dropped."""
    cache = bits(f"{name}_cache", getattr(a, f"{name}_cache"))
    alive = np.flatnonzero(seq.live)
    old = cache[seq.rows] * seq.gate[:, None, None]  # words: what does not count becomes +0
    new = np.concatenate([old[:, 1:], x[:, None]], axis=1)
    cache[seq.rows[alive]] = new[alive]
    if a.tracks:
        mask = numbers("track_mask", a.track_mask, np.bool_)
        tracked = alive[mask[alive]]
        cache[numbers("track_indices", a.track_indices, np.int64)[tracked]] = new[tracked]


def run(a: Arguments) -> tuple[Any, Any, Any, Any]:
    """Return q, k, v and the Q scales (or None), and store what the mode stores."""
    seq = sequences(a)
    qkvr = bits("qkvr", a.qkvr)
    heads = (a.tokens, a.q_heads, HEAD)
    q = rms_norm(qkvr[:, a.q_off : a.q_off + a.dq].reshape(heads), bits("", a.q_gamma), a.eps)
    if a.log_scaling_tau is not None:
        tau: Floats = numbers("log_scaling_tau", a.log_scaling_tau, np.float32)[: a.tokens]
        q = scaled(q, tau)
    kx = qkvr[:, a.k_off : a.k_off + a.dkv]
    vx = qkvr[:, a.v_off : a.v_off + a.dkv]
    rows = (a.tokens, a.kv_heads, HEAD)
    z, k_words = mixed(a, "k", seq, kx)
    k = rms_norm(z.reshape(rows), bits("", a.k_gamma), a.eps)
    y, v_words = mixed(a, "v", seq, vx)
    v = y.reshape(rows)

    if a.do_store:
        tokens, slots = stored_tokens(a, seq)
        store(a.k_buf, a.sfk if a.mxfp8_quant else None, k[tokens], slots, a.page_size)
        store(a.v_buf, a.sfv if a.mxfp8_quant else None, v[tokens], slots, a.page_size)
    for name, x, words in (("k", kx, k_words), ("v", vx, v_words)):
        if a.mode == "verify":
            _save_windows(a, name, seq, words)
        elif a.mode == "decode":
            _shift(a, name, seq, x)
        elif a.do_cache_update and a.tokens:
            _update(a, name, seq, x)
    flat = (a.tokens, a.dkv)
    out = like(a.qkvr, k.reshape(flat), "bf16"), like(a.qkvr, v.reshape(flat), "bf16")
    if not a.mxfp8_quant:
        return like(a.qkvr, q.reshape(a.tokens, a.dq), "bf16"), *out, None
    code, byte = quantize(q)
    codes: Bytes = code.reshape(a.tokens, a.dq)
    return like(a.qkvr, codes, "e4m3"), *out, like(a.qkvr, byte, "e8m0")
