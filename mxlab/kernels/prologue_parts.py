"""What the three prologue kernels share: one tile of rows of one head, [ROWS, 128], in registers.

bfloat16 comes and goes as int16 bits. Every step and every rounding point is that of
``mxlab.attention.arithmetic``; the sum of squares adds neighbours in the same order, so that the
bits are the same too.
"""

import triton.language as tl

from mxlab.kernels.e4m3 import add, bf16_to_f32, encode_e4m3, f32_to_bf16, reciprocal
from mxlab.kernels.mode import HARDWARE, jit


@jit
def _or(a, b):  # type: ignore[no-untyped-def]
    return a | b


@jit
def _most(a, b):  # type: ignore[no-untyped-def]
    return tl.maximum(a, b)  # of a number and NaN, the number


@jit
def _sum_pairs(x, ROWS: tl.constexpr, N: tl.constexpr):  # type: ignore[no-untyped-def]
    """[ROWS, N] to [ROWS, N / 2]: each with its neighbour."""
    pairs = tl.reshape(x, (ROWS, N // 2, 2))
    if HARDWARE:
        return tl.reduce(pairs, 2, add)
    else:
        a, b = tl.split(pairs)
        return a + b


@jit
def _sum_128(x, ROWS: tl.constexpr):  # type: ignore[no-untyped-def]
    """[ROWS, 128] to [ROWS], in the order of ``arithmetic.sum_of_neighbours``."""
    x = _sum_pairs(x, ROWS, 128)
    x = _sum_pairs(x, ROWS, 64)
    x = _sum_pairs(x, ROWS, 32)
    x = _sum_pairs(x, ROWS, 16)
    x = _sum_pairs(x, ROWS, 8)
    x = _sum_pairs(x, ROWS, 4)
    return tl.reshape(_sum_pairs(x, ROWS, 2), (ROWS,))


@jit
def _amax(x, ROWS: tl.constexpr):  # type: ignore[no-untyped-def]
    """[ROWS, 128] of magnitudes to [ROWS, 4], NaN passed over."""
    if HARDWARE:
        return tl.reduce(tl.reshape(x, (ROWS, 4, 32)), 2, _most)
    else:
        x = tl.where(x != x, 0.0, x)
        for n in tl.static_range(5):
            a, b = tl.split(tl.reshape(x, (ROWS, 128 >> (n + 1), 2)))
            x = tl.maximum(a, b)
        return x


@jit
def _word(byte, ROWS: tl.constexpr):  # type: ignore[no-untyped-def]
    """Four scale bytes [ROWS, 4] as one little-endian int32 [ROWS]."""
    part = byte << (8 * tl.arange(0, 4))[None, :]
    if HARDWARE:
        return tl.reduce(part, 1, _or)
    else:
        a, b = tl.split(tl.reshape(part, (ROWS, 2, 2)))
        a, b = tl.split(a + b)
        return a + b


@jit
def rms_norm(x, gamma, eps, ROWS: tl.constexpr):  # type: ignore[no-untyped-def]
    """bf((x * rsqrt(mean(x^2) + eps)) * gamma) as int16 bits; x float32 [ROWS, 128]."""
    mean = _sum_128(x * x, ROWS) * 0.0078125 + eps
    inv = tl.div_rn(1.0, tl.sqrt_rn(mean))
    return f32_to_bf16((x * inv[:, None]) * gamma[None, :])


@jit
def _nan_to_least(x):  # type: ignore[no-untyped-def]
    """NaN becomes -448: the real kernel's clamp takes the larger of it and -448 first."""
    if HARDWARE:
        return tl.maximum(x, -448.0)
    else:
        return tl.where(x != x, -448.0, x)


@jit
def mx_quantize(word, ROWS: tl.constexpr):  # type: ignore[no-untyped-def]
    """bfloat16 bits [ROWS, 128] to E4M3 codes uint8 [ROWS, 128] and scale words int32 [ROWS]."""
    v = bf16_to_f32(word)
    size = _amax(tl.abs(v), ROWS).to(tl.int32, bitcast=True)
    up = tl.where((size & 0x7FFFFF) > 0x600000, 1, 0)
    byte = tl.maximum((size >> 23) - 8 + up, 19)
    byte = tl.where(size == 0x7F800000, 254, byte)
    byte = tl.where(size > 0x7F800000, 19, byte)  # nothing but NaN
    scaled = tl.reshape(v, (ROWS, 4, 32)) * reciprocal(byte)[:, :, None]
    return encode_e4m3(_nan_to_least(tl.reshape(scaled, (ROWS, 128)))), _word(byte, ROWS)


@jit
def store_codes(ptr, row, code, keep):  # type: ignore[no-untyped-def]
    """Store uint8 [ROWS, 128] at ``ptr + row``, row int64 [ROWS], eight codes a thread."""
    lane = tl.max_contiguous(tl.arange(0, 128), 8)
    tl.store(ptr + row[:, None] + lane[None, :], code, mask=keep[:, None])


@jit
def store_kv(  # type: ignore[no-untyped-def]
    word, head, slot, keep, buf, buf8, sf, heads, page,
    ROWS: tl.constexpr, MXFP8: tl.constexpr,
):  # fmt: skip
    """Store bf16 bits [ROWS, 128] of one head to slots int64 [ROWS]: codes and scales, or as is.

    ``sf`` is the scale buffer as int32 words; ``buf8`` the slot stride in units of 8 elements.
    """
    row = slot * buf8 * 8 + head * 128
    if MXFP8:
        code, scale = mx_quantize(word, ROWS)
        store_codes(buf, row, code, keep)
        p = slot % page
        at = (slot // page * heads + head) * page + (p % 32) * (page // 32) + p // 32
        tl.store(sf + at, scale, mask=keep)
    else:
        tl.store(buf + row[:, None] + tl.arange(0, 128)[None, :], word, mask=keep[:, None])


@jit
def q_rows(  # type: ignore[no-untyped-def]
    x, head, t, keep, gamma, eps, tau, out, scale, heads,
    ROWS: tl.constexpr, TAU: tl.constexpr, MXFP8: tl.constexpr,
):  # fmt: skip
    """Norm, scale and store one head of Q; ``x`` points at [ROWS, 128] bf16 bits of the head."""
    lane = tl.arange(0, 128)
    word = tl.load(x, mask=keep[:, None], other=0)
    word = rms_norm(bf16_to_f32(word), bf16_to_f32(tl.load(gamma + lane)), eps, ROWS)
    if TAU:
        word = f32_to_bf16(bf16_to_f32(word) * tl.load(tau + t, mask=keep, other=0.0)[:, None])
    row = (t * heads + head) * 128
    if MXFP8:
        code, scales = mx_quantize(word, ROWS)
        store_codes(out, row, code, keep)
        tl.store(scale + t * heads + head, scales, mask=keep)
    else:
        tl.store(out + row[:, None] + lane[None, :], word, mask=keep[:, None])


@jit
def packed_weights(weight, channel, ROWS: tl.constexpr, TAPS: tl.constexpr):  # type: ignore[no-untyped-def]
    """All four taps of 128 channels, int64 [ROWS, 128] of equal rows; else the channels."""
    if TAPS == 4:
        packed = tl.load(weight.to(tl.pointer_type(tl.int64), bitcast=True) + channel)
        return tl.broadcast_to(packed[None, :], (ROWS, 128))
    else:
        return channel


@jit
def tap_weight(weight, packed, TAP: tl.constexpr, TAPS: tl.constexpr):  # type: ignore[no-untyped-def]
    """Weight of one tap, float32 [ROWS or 1, 128]; four taps are one 64-bit word a channel."""
    if TAPS == 4:
        return (((packed >> (16 * TAP)).to(tl.int32)) << 16).to(tl.float32, bitcast=True)
    else:
        return bf16_to_f32(tl.load(weight + packed * TAPS + TAP))[None, :]


@jit
def activated(a, x, SILU: tl.constexpr, RESIDUAL: tl.constexpr):  # type: ignore[no-untyped-def]
    """bf(y) of the convolution's sum ``a`` and the token's own value ``x``, int16 bits."""
    if SILU:
        a = a / (1.0 + tl.exp(-a))
    if RESIDUAL:
        a = a + x
    return f32_to_bf16(a)


@jit
def raw_tap(  # type: ignore[no-untyped-def]
    x, row8, t, p, keep, cache, cs1, TAP: tl.constexpr, TAPS: tl.constexpr, HISTORY: tl.constexpr
):
    """Return one raw tap, int16 bits [ROWS, 128], and which rows of it are history.

    ``x`` and ``cache`` point at the token's own row and at history row 0, [ROWS, 128]; ``p`` is
    the token's place in its sequence. Without HISTORY rows before the sequence are garbage, for
    tokens that the caller does not store.
    """
    back: tl.constexpr = TAPS - 1 - TAP
    if HISTORY:
        old = p < back
        word = tl.load(x - back * row8 * 8, mask=(keep & (p >= back))[:, None], other=0)
        if back > 0:
            past = tl.load(cache + ((p + TAP) * cs1)[:, None], mask=(keep & old)[:, None], other=0)
            word = tl.where(old[:, None], past, word)
        return word, old
    else:
        return tl.load(x - back * row8 * 8, mask=(keep & (t >= back))[:, None], other=0), keep


@jit
def kv_rows(  # type: ignore[no-untyped-def]
    x, row8, t, p, keep, cache, cs1, gate, weight, head, inter, is1, save,
    ROWS: tl.constexpr, TAPS: tl.constexpr, SILU: tl.constexpr, RESIDUAL: tl.constexpr,
    HISTORY: tl.constexpr, WINDOWS: tl.constexpr, SHIFT: tl.constexpr,
):  # fmt: skip
    """Return bf(y) of one head of K or V, int16 bits [ROWS, 128].

    With WINDOWS raw tap i goes to row i - 1 of ``inter``. With SHIFT that is the history itself,
    in place, and history that does not count becomes +0: a thread writes a row that it has read.
    """
    channel = head * 128 + tl.arange(0, 128)
    packed = packed_weights(weight, channel, ROWS, TAPS)
    a = 0.0  # a sum from +0: of zeros it is +0
    for i in tl.static_range(TAPS):
        word, old = raw_tap(x, row8, t, p, keep, cache, cs1, i, TAPS, HISTORY)
        value = bf16_to_f32(word)
        if HISTORY:
            value = tl.where(old[:, None], value * gate[:, None], value)
        if WINDOWS and i > 0:
            if SHIFT and i < TAPS - 1:
                word = tl.where((gate > 0)[:, None], word, 0)
            tl.store(inter + (i - 1) * is1, word, mask=save[:, None])
        w = tap_weight(weight, packed, i, TAPS)
        a = value * w + a
    return activated(a, value, SILU, RESIDUAL)
