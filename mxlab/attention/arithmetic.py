"""The arithmetic of the prologue in NumPy float32, one head of 128 at a time along the last axis.

``bf`` marks every rounding point; between two of them nothing is narrowed. Products of bfloat16
numbers are exact in float32, so that a fused multiply-add changes nothing. The sum of squares adds
neighbours, then neighbours of the sums: a GPU kernel does the same, and gets the same bits.
"""

from collections.abc import Sequence

import numpy as np

from mxlab.attention.rounding import Floats, Words, bf, widen

_ONE = np.float32(1)


def sum_of_neighbours(x: Floats) -> Floats:
    """Return the sum along the last axis, a power of two long: (x0 + x1) + (x2 + x3) and so on.

    >>> sum_of_neighbours(np.array([[1, 2, 3, 4]], np.float32))
    array([10.], dtype=float32)
    """
    while x.shape[-1] > 1:
        x = x[..., 0::2] + x[..., 1::2]
    return x[..., 0]


def rms_norm(words: Words, gamma: Words, eps: float) -> Words:
    """Return ``bf((x * rsqrt(mean(x^2) + eps)) * gamma)`` of heads [..., 128].

    >>> words = np.full((1, 128), 0x4000, np.uint16)  # 2.0
    >>> hex(rms_norm(words, np.full(128, 0x3F80, np.uint16), 0.0)[0, 0])
    '0x3f80'
    """
    with np.errstate(all="ignore"):
        x = widen(words)
        mean = sum_of_neighbours(x * x) * np.float32(1 / 128) + np.float32(eps)
        inv = _ONE / np.sqrt(mean)
        return bf((x * inv[..., None]) * widen(gamma))


def scaled(words: Words, tau: Floats) -> Words:
    """Return ``bf(n * tau)``, one tau a token: n [tokens, heads, 128], tau [tokens].

    >>> hex(scaled(np.full((1, 1, 1), 0x3F80, np.uint16), np.array([3], np.float32))[0, 0, 0])
    '0x4040'
    """
    with np.errstate(all="ignore"):
        return bf(widen(words) * tau[:, None, None])


def convolve(taps: Sequence[Floats], weight: Words, *, silu: bool, residual: bool) -> Words:
    """Return ``bf(y)`` of a depthwise convolution: W taps [tokens, C], oldest first, weight [C, W].

    ``a`` sums from +0, oldest tap first; SiLU is ``a / (1 + exp(-a))``; the residual is the last
    tap, the token itself, added after it.

    >>> one, weight = np.ones((1, 1), np.float32), np.full((1, 2), 0x3F80, np.uint16)
    >>> widen(convolve([one, 3 * one], weight, silu=False, residual=True))[0, 0]
    np.float32(7.0)
    """
    w = widen(weight)
    with np.errstate(all="ignore"):
        a: Floats = np.zeros_like(taps[-1])
        for tap, x in enumerate(taps):
            a = a + x * w[:, tap]
        if silu:
            a = np.divide(a, _ONE + np.exp(-a), dtype=np.float32)
        return bf(a + taps[-1] if residual else a)
