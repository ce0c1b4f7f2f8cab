"""The rounding points of the prologue: bfloat16, and E4M3 under the prologue's own scale rule.

Everything between them is float32. Words are the integers of ``containers.bits``.
"""

from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

BLOCK = 32

Words = NDArray[np.uint16]
Bytes = NDArray[np.uint8]
Floats = NDArray[np.float32]

SMALLEST_BYTE = 19  # of 2^-108: amax is held at 1e-30 or above
INF_BYTE = 254
_INF = 0x7F80


def widen(words: Words) -> Floats:
    """Return bfloat16 words as float32, exactly.

    >>> widen(np.array([0x3F80], np.uint16))
    array([1.], dtype=float32)
    """
    return (words.astype(np.uint32) << np.uint32(16)).view(np.float32)


def bf(x: Floats) -> Words:
    """Round float32 to bfloat16, nearest, ties to even; NaN becomes 7FFF.

    >>> [hex(word) for word in bf(np.array([1.00390625, np.nan], np.float32))]
    ['0x3f80', '0x7fff']
    """
    word = x.view(np.uint32)
    rounded = (word + np.uint32(0x7FFF) + ((word >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
    return np.where(np.isnan(x), 0x7FFF, rounded).astype(np.uint16)


def scale_bytes(words: Words) -> Bytes:
    """Return the E8M0 bytes of bfloat16 blocks [..., 32]: one byte for each, shape [...].

    ``max(19, E - 8 + (m > 0x60))`` of the largest magnitude, E and m its exponent and mantissa
    fields; NaN is passed over, Inf gives 254. Equal to ``clamp(ceil(log2(max(amax, 1e-30) / 448))
    + 127, 0, 254)`` for every bfloat16 value. Source: sglang 0.5.23,
    inkling_attn_prologue_fused.cuh:63.

    >>> scale_bytes(np.full((1, 32), 0x3F80, np.uint16))
    array([119], dtype=uint8)
    """
    size = words & np.uint16(0x7FFF)
    amax = np.where(size > _INF, 0, size).max(axis=-1).astype(np.int32)
    byte = (amax >> 7) - 8 + ((amax & 0x7F) > 0x60)
    byte = np.maximum(byte, SMALLEST_BYTE)
    return np.where(amax == _INF, INF_BYTE, byte).astype(np.uint8)


def codes(words: Words, byte: Bytes) -> Bytes:
    """Return the E4M3 codes of bfloat16 blocks [..., 32] under their bytes [...].

    ``E4M3(clamp(v / 2^(byte - 127), -448, 448))``, nearest, ties to even; NaN gives -448 (FE), for
    the clamp takes the larger of it and -448 first.

    >>> hex(codes(np.full((1, 32), 0x3F80, np.uint16), np.array([119], np.uint8))[0, 0])
    '0x78'
    """
    power = np.ldexp(np.float32(1), 127 - byte.astype(np.int32)).astype(np.float32)
    scaled = widen(words) * power[..., None]
    scaled = np.where(np.isnan(scaled), np.float32(-448), np.clip(scaled, -448, 448))
    return scaled.astype(np.float32).astype(ml_dtypes.float8_e4m3fn).view(np.uint8)


def quantize(words: Words) -> tuple[Bytes, Bytes]:
    """Return codes and scale bytes of bfloat16 rows [..., n], n a multiple of 32.

    >>> q, s = quantize(np.full((2, 128), 0x3F80, np.uint16))
    >>> q.shape, s.shape
    ((2, 128), (2, 4))
    """
    blocks = words.reshape(*words.shape[:-1], words.shape[-1] // BLOCK, BLOCK)
    with np.errstate(all="ignore"):
        byte = scale_bytes(blocks)
        return codes(blocks, byte).reshape(words.shape), byte


def dequantize(q: Bytes, byte: Bytes) -> Floats:
    """Return float32 values of codes [..., n] under their scale bytes [..., n / 32]; 255 is NaN.

    >>> dequantize(np.full((1, 32), 0x78, np.uint8), np.array([[119]], np.uint8))[0, 0]
    np.float32(1.0)
    """
    values: Any = q.view(ml_dtypes.float8_e4m3fn).astype(np.float32)
    power = np.ldexp(np.float32(1), np.minimum(byte, 254).astype(np.int32) - 127)
    power = np.where(byte == 255, np.float32(np.nan), power)
    blocks = values.reshape(*byte.shape, BLOCK) * power[..., None]
    return blocks.reshape(q.shape)  # type: ignore[no-any-return]
