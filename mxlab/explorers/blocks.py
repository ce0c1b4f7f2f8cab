"""Blocks by the hundred in plain Python, for explorers that quantise a whole matrix in a few ms.

``quantize_block`` is exact arithmetic on fractions, a quarter of a millisecond a block. Here the
codec's own numbers stand in a sorted table, and rounding is one look-up in it.
"""

from bisect import bisect_right
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from math import inf, nextafter
from random import Random
from struct import unpack

from mxlab.codec import decode
from mxlab.formats import Format
from mxlab.scale import ScaleRule, float32_bits, scale_byte_from_bits

_STEP = 13 / 2**19  # the maximum of 32 then lies on either side of 1.75, where RCEIL changes


def bell(seed: int, count: int) -> list[float]:
    """Return ``count`` float32 values, bell-shaped around 0 with a standard deviation of 0.94.

    Each is the sum of four uniform integers: the same on every machine, which no logarithm is.

    >>> bell(1, 3)
    [-0.4166393280029297, 0.5039196014404297, 0.5348892211914062]
    """
    words = iter(unpack(f"<{4 * count}H", Random(seed).randbytes(8 * count)))
    sums = map(sum, zip(words, words, words, words, strict=True))
    return [(total - 131_070) * _STEP for total in sums]


@lru_cache(maxsize=2)
def magnitudes(fmt: Format) -> tuple[list[float], list[float]]:
    """Return the least magnitude that rounds to each code from 1, and each code's value from 0.

    Halfway goes to the even code, and everything beyond the last one to the last one.
    """
    sizes = [decode(code, fmt).value for code in range(fmt.max_code + 1)]
    least = []
    for code in range(1, len(sizes)):
        middle = float((Fraction(sizes[code - 1]) + Fraction(sizes[code])) / 2)
        least.append(middle if code % 2 == 0 else nextafter(middle, inf))
    return least, sizes


def quick_block(values: Sequence[float], fmt: Format, rule: ScaleRule) -> tuple[int, list[float]]:
    """Return the scale byte of a block and its decoded elements, before their scale.

    ``values`` are finite float32 numbers. The results are those of ``quantize_block``; a zero may
    have another sign.

    >>> from mxlab.formats import E4M3
    >>> from mxlab.scale import RULES
    >>> quick_block([1.0, -3.49, 0.0], E4M3, RULES["rceil"])
    (120, [128.0, -448.0, 0.0])
    """
    byte = scale_byte_from_bits(float32_bits(max(map(abs, values))), fmt, rule)
    least, sizes = magnitudes(fmt)
    up = 2.0 ** (127 - byte)
    return byte, [
        sizes[bisect_right(least, value * up)]
        if value >= 0
        else -sizes[bisect_right(least, -value * up)]
        for value in values
    ]
