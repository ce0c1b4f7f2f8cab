"""Blocks by the hundred in plain Python, for explorers that quantise a whole matrix in a few ms.

``quantize_block`` is exact arithmetic on fractions, a quarter of a millisecond a block. Here the
codec's own numbers stand in a sorted table, and rounding is one look-up in it.
"""

from bisect import bisect_right
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import repeat
from math import inf, nextafter
from operator import mul
from random import Random
from struct import unpack

from mxlab.block import BLOCK
from mxlab.codec import decode
from mxlab.formats import Format
from mxlab.scale import ScaleRule, float32_bits, scale_byte_from_bits

_STEP = 13 / 2**19  # the maximum of 32 then lies on either side of 1.75, where RCEIL changes


def bell(seed: int | Random, count: int) -> list[float]:
    """Return ``count`` float32 values, bell-shaped around 0 with a standard deviation of 0.94.

    Each is the sum of four uniform integers: the same on every machine, which no logarithm is.
    A ``Random`` goes on where it stands.

    >>> bell(1, 3)
    [-0.4166393280029297, 0.5039196014404297, 0.5348892211914062]
    """
    more = seed if isinstance(seed, Random) else Random(seed)
    words = iter(unpack(f"<{4 * count}H", more.randbytes(8 * count)))
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


@lru_cache(maxsize=2)
def _signed(fmt: Format) -> tuple[list[float], list[float]]:
    """Return the least value that rounds to each number of a format but its first, and all."""
    least, sizes = magnitudes(fmt)
    below = [nextafter(-bound, inf) for bound in reversed(least)]
    return below + least, [-size for size in sizes[:0:-1]] + sizes


def quick_blocks(
    values: Sequence[float], fmt: Format, rule: ScaleRule
) -> tuple[list[int], list[float]]:
    """Return the scale byte of each block of 32 and all decoded elements, before their scale.

    ``values`` are finite float32 numbers. The results are those of ``quantize_block``; a zero has
    no sign.

    >>> from mxlab.formats import E4M3
    >>> from mxlab.scale import RULES
    >>> quick_blocks([1.0, -3.49, 0.0], E4M3, RULES["rceil"])
    ([120], [128.0, -448.0, 0.0])
    """
    bounds, held = _signed(fmt)
    bytes_ = []
    scaled: list[float] = []
    for start in range(0, len(values), BLOCK):
        block = values[start : start + BLOCK]
        byte = scale_byte_from_bits(float32_bits(max(max(block), -min(block))), fmt, rule)
        bytes_.append(byte)
        scaled += map(mul, block, repeat(2.0 ** (127 - byte)))
    # loops in C: a third of the time of a comprehension
    return bytes_, list(map(held.__getitem__, map(bisect_right, repeat(bounds), scaled)))
