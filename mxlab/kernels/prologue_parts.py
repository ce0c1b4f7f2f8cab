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
def load_gamma(gamma, row, DIRECT: tl.constexpr):  # type: ignore[no-untyped-def]
    """Gamma, float32 [1 or ROWS, 128]; DIRECT loads it for each row where it is used."""
    lane = tl.arange(0, 128)
    if DIRECT:
        return bf16_to_f32(tl.load(gamma + (lane[None, :] + row[:, None] * 0)))
    else:
        return bf16_to_f32(tl.load(gamma + lane))[None, :]


@jit
def rms_norm(x, gamma, eps, ROWS: tl.constexpr):  # type: ignore[no-untyped-def]
    """bf((x * rsqrt(mean(x^2) + eps)) * gamma) as int16 bits; x float32 [ROWS, 128]."""
    mean = _sum_128(x * x, ROWS) * 0.0078125 + eps
    inv = tl.div_rn(1.0, tl.sqrt_rn(mean))
    return f32_to_bf16((x * inv[:, None]) * gamma)


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
def q_chain(  # type: ignore[no-untyped-def]
    qkvr, row8, off8, head, first, tokens, gamma, eps, tau, out, scale, heads,
    ROWS: tl.constexpr, STEPS: tl.constexpr, TAU: tl.constexpr, MXFP8: tl.constexpr,
    DIRECT: tl.constexpr,
):  # fmt: skip
    """Norm, scale and store one head of Q: STEPS tiles of ROWS tokens from ``first`` on.

    A tile is loaded while the one before is worked on; rows past the end repeat the last token.
    """
    lane = tl.arange(0, 128)
    x = qkvr + (off8 * 8 + head * 128) + lane[None, :]
    t = first + tl.arange(0, ROWS)
    factor = load_gamma(gamma, t, DIRECT)
    word = tl.load(x + (tl.minimum(t, tokens - 1).to(tl.int64) * row8 * 8)[:, None])
    for _ in range(STEPS):
        later = word
        if STEPS > 1:
            ahead = tl.minimum(t + ROWS, tokens - 1).to(tl.int64) * row8 * 8
            later = tl.load(x + ahead[:, None])
        keep = t < tokens
        at = t.to(tl.int64) * heads + head
        n = rms_norm(bf16_to_f32(word), factor, eps, ROWS)
        if TAU:
            n = f32_to_bf16(bf16_to_f32(n) * tl.load(tau + t, mask=keep, other=0.0)[:, None])
        if MXFP8:
            code, scales = mx_quantize(n, ROWS)
            store_codes(out, at * 128, code, keep)
            tl.store(scale + at, scales, mask=keep)
        else:
            tl.store(out + (at * 128)[:, None] + lane[None, :], n, mask=keep[:, None])
        word = later
        t += ROWS


@jit
def tap_weights(  # type: ignore[no-untyped-def]
    weight, ws, head, row, TAPS: tl.constexpr, TAP_MAJOR: tl.constexpr
):
    """Weights of 128 channels, float32: of x[t-3], x[t-2], x[t-1] and x[t].

    Memory holds the taps of a channel side by side: four are loaded as one 64-bit word, and then
    change hands between threads. TAP_MAJOR memory, ``ws`` elements from tap to tap, is loaded for
    each row (``row`` int [ROWS]) where it is used. Fewer taps leave the first ones unused.
    """
    channel = head * 128 + tl.arange(0, 128)
    if TAP_MAJOR:
        at = weight + (channel[None, :] + row[:, None] * 0) + (TAPS - 1) * ws
        w0 = bf16_to_f32(tl.load(at))
        w1 = bf16_to_f32(tl.load(at - ws))
        w2, w3 = w1, w1
        if TAPS > 2:
            w2 = bf16_to_f32(tl.load(at - 2 * ws))
        if TAPS > 3:
            w3 = bf16_to_f32(tl.load(at - 3 * ws))
    elif TAPS == 4:
        word = tl.load(weight.to(tl.pointer_type(tl.int64), bitcast=True) + channel)
        w3 = (word.to(tl.int32) << 16).to(tl.float32, bitcast=True)[None, :]
        w2 = ((word >> 16).to(tl.int32) << 16).to(tl.float32, bitcast=True)[None, :]
        w1 = ((word >> 32).to(tl.int32) << 16).to(tl.float32, bitcast=True)[None, :]
        w0 = ((word >> 48).to(tl.int32) << 16).to(tl.float32, bitcast=True)[None, :]
    else:
        w0 = bf16_to_f32(tl.load(weight + channel * TAPS + TAPS - 1))[None, :]
        w1 = bf16_to_f32(tl.load(weight + channel * TAPS + TAPS - 2))[None, :]
        w2 = w1
        if TAPS == 3:
            w2 = bf16_to_f32(tl.load(weight + channel * TAPS))[None, :]
        w3 = w2
    return w3, w2, w1, w0


@jit
def convolved(  # type: ignore[no-untyped-def]
    x3, x2, x1, x0, w3, w2, w1, w0,
    TAPS: tl.constexpr, SILU: tl.constexpr, RESIDUAL: tl.constexpr,
):  # fmt: skip
    """bf(y) of taps float32 [ROWS, 128], int16 bits; ``x0`` is the token itself."""
    a = 0.0  # a sum from +0: of zeros it is +0
    if TAPS > 3:
        a = x3 * w3 + a
    if TAPS > 2:
        a = x2 * w2 + a
    a = x1 * w1 + a
    a = x0 * w0 + a
    if SILU:
        a = a / (1.0 + tl.exp(-a))
    if RESIDUAL:
        a = a + x0
    return f32_to_bf16(a)
