"""What speaks for one reading of a scale buffer against another, in numbers.

A reading is the scale matrix that a layout makes of the bytes. Losses are per unit (a block, or
a row), the smaller the better the reading fits; ``compare`` turns two lists of losses into a
deviation: how many standard errors the second is worse than the first.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mxlab.block import BLOCK
from mxlab.formats import Format
from mxlab.mxarray import Bytes
from mxlab.scale import MANTISSA, NAN_BYTE

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

_GROUPS, _FEWEST = 16, 8
_CLIP = 12  # binades from the median: beyond it a scale is an outlier
_BAD_ENERGY = 0.05  # error to signal of a block: rounding and clipping < 0.02, a binade off > 0.25
_BAD_PRODUCT = 0.1  # the same for a row of a product


@dataclass(frozen=True, slots=True)
class Losses:
    """``units`` (n,) float64: the loss of each unit; ``misfit``: the share of units that do not
    fit.

    ``misfit`` is None where nothing absolute is known, only which reading is the better one.
    """

    units: Floats
    misfit: float | None = None


def element_values(codes: Bytes, fmt: Format) -> Floats:
    """Return codes as float64 values without their scales; NaN for NaN codes."""
    from mxlab.arrays import _values

    return np.asarray(_values(fmt, "float64")[codes], np.float64)


def largest_log2(codes: Bytes, fmt: Format) -> Floats:
    """Return log2 of the largest magnitude of each block of (R, K) codes; NaN where there is none.

    >>> from mxlab.formats import E4M3
    >>> largest_log2(np.full((1, 32), 0x7E, np.uint8), E4M3).round(3).tolist()
    [[8.807]]
    """
    rows, length = codes.shape
    top = (codes & np.uint8(0x7F)).reshape(rows, length // BLOCK, BLOCK).max(axis=2)
    with np.errstate(divide="ignore", invalid="ignore"):
        found = np.log2(element_values(top, fmt))
    return np.where(np.isfinite(found), found, np.nan)


def additive(reading: Bytes, largest: Floats | None) -> Losses:
    """Losses by row of a model: log2 of a block's maximum is a row's share plus a column's.

    The scales of a matrix have sizes by row (output channel) and by column (input channel). With
    ``largest`` from the codes the maxima themselves are modelled: a block's code and its scale
    belong together, so that even scales without any structure tell which reading is right.
    """
    y = reading.astype(np.float64)
    middle = np.median(y)
    y = np.clip(y, middle - _CLIP, middle + _CLIP)
    known: Bools = np.ones(y.shape, bool)
    if largest is not None:
        known = np.isfinite(largest)
        y = np.where(known, y + np.where(known, largest, 0), 0)
    rest = y
    for axis in (1, 0, 1):
        count = np.maximum(known.sum(axis=axis, keepdims=True), 1)
        rest = np.where(known, rest - (rest * known).sum(axis=axis, keepdims=True) / count, 0)
    return Losses((rest**2).sum(axis=1 if len(rest) >= 16 else 0))


def pairing(reading: Bytes, largest: Floats) -> Losses:
    """Losses by row, the lower the better: do codes and scales of neighbours change together?

    Where a maximum passes a power of two, the scale goes up by one and the largest code comes down
    by a binade. So among neighbours whose scales differ by one, the codes differ the other way, as
    long as scale and codes belong to one block; in a wrong reading they are unrelated, whatever
    structure the matrix has.
    """
    y = reading.astype(np.int64)
    found = np.zeros(len(y))
    for axis in (0, 1):
        step, change = np.diff(y, axis=axis), np.diff(largest, axis=axis)
        usable = (np.abs(step) == 1) & np.isfinite(change)
        products = np.where(usable, step * np.where(usable, change, 0), 0).sum(axis=1)
        found[: len(products)] += products
    return Losses(found)


def by_values(
    reading: Bytes, values: NDArray[np.float32], codes: Bytes | None, fmt: Format
) -> Losses:
    """Losses by block, 0 or 1: does code * scale give back the values?

    ``values`` (R, K) are the originals. Without codes the byte itself is judged: from the exponent
    of a block's maximum it is off by a constant d or d + 1, whatever the rule.
    """
    blocks = values.reshape(-1, BLOCK).astype(np.float64)
    finite: Bools = np.asarray(np.isfinite(blocks).all(axis=1))
    blocks = np.where(finite[:, None], blocks, 0)
    scales = reading.reshape(-1)
    if codes is not None:
        elements = element_values(codes, fmt).reshape(-1, BLOCK)
        with np.errstate(invalid="ignore", over="ignore"):
            decoded = elements * _scale_column(scales)
            error = ((decoded - blocks) ** 2).sum(axis=1)
        energy = (blocks**2).sum(axis=1)
        bad = ~(error <= _BAD_ENERGY * energy)
    else:
        bits = np.abs(values.reshape(-1, BLOCK)).max(axis=1).astype(np.float32).view(np.uint32)
        off = scales.astype(np.int64) - (bits >> np.uint32(MANTISSA)).astype(np.int64)
        finite &= bits > 0  # a zero block's byte is the library's choice
        usual = np.bincount(off[finite] + 256) if finite.any() else np.zeros(2, np.int64)
        pairs = usual[:-1] + usual[1:]
        low = int(pairs.argmax()) - 256 if pairs.size else 0
        bad = (off < low) | (off > low + 1)
    bad &= finite
    return Losses(bad.astype(np.float64), float(bad.sum() / max(finite.sum(), 1)))


def by_product(
    reading: Bytes,
    product: NDArray[Any],
    activations: NDArray[Any],
    codes: Bytes,
    fmt: Format,
) -> Losses:
    """Losses by row of the weight: error energy of its column of the product, relative, up to 1.

    ``product`` (M, R) is what ``activations`` (M, K) times the weight (R, K) transposed must be.
    """
    scales = np.repeat(_scale_column(reading.reshape(-1)).reshape(reading.shape), BLOCK, axis=1)
    wanted = product.astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        found = activations.astype(np.float64) @ (element_values(codes, fmt) * scales).T
        error = ((found - wanted) ** 2).sum(axis=0)
    energy = (wanted**2).sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(energy > 0, error / energy, 0)
    share = np.where(np.isfinite(share), np.minimum(share, 1.0), 1.0)
    return Losses(share, float((share > _BAD_PRODUCT).mean()))


def _scale_column(scales: Bytes) -> Floats:
    found = np.ldexp(1.0, scales.astype(np.int64) - 127)
    found[scales == NAN_BYTE] = np.nan
    return np.asarray(found[:, None], np.float64)


def signs(best: Losses, other: Losses) -> float:
    """Deviation by signs: of the units that differ, how far from half and half.

    >>> signs(Losses(np.zeros(16)), Losses(np.ones(16)))
    4.0
    """
    difference = other.units - best.units
    plus, minus = int((difference > 0).sum()), int((difference < 0).sum())
    return (plus - minus) / math.sqrt(plus + minus) if plus + minus else 0.0


def mean_difference(best: Losses, other: Losses) -> float:
    """Deviation of the mean difference from 0 in its standard errors; 0 where too few units differ.

    Neighbouring rows are no independent trials: their sums in ``_GROUPS`` groups more nearly are.

    >>> mean_difference(Losses(np.zeros(64)), Losses(np.tile([1.0, 2.0], 32))) > 10
    True
    """
    difference = other.units - best.units
    difference = difference[difference != 0]
    if len(difference) < _FEWEST:
        return 0.0
    n = min(len(difference), _GROUPS)
    edges = np.linspace(0, len(difference), n, endpoint=False).astype(np.int64)
    sums = np.add.reduceat(difference, edges)
    mean, error = float(sums.mean()), float(sums.std(ddof=1)) / math.sqrt(n)
    return mean / max(error, abs(mean) / len(difference)) if mean else 0.0


def tail(deviation: float) -> float:
    """Probability that chance gives such a deviation or a larger one.

    >>> round(tail(3.09), 4)
    0.001
    """
    return 0.5 * math.erfc(deviation / math.sqrt(2))
