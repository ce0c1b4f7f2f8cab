"""Whether scales of the right shape are in tiled order: the smoother reading is the right one.

Scales of trained weights vary slowly along a row (a row's amax has one size) and down a column
(input channels differ). Read in the wrong order, neighbours are rows 32 apart, and they differ
more. Where scales are nearly equal, or nothing but noise, both readings are alike: cannot tell.
"""

from dataclasses import dataclass
from itertools import pairwise

from mxlab.layout import LAYOUTS

_ROWS = 128  # of one tile: a band of 128 rows holds the same bytes in both orders
_COLS = 32
#: mean difference of neighbours below which scales are too uniform
_UNIFORM = 0.2
#: a reading must be this much smoother than the other; independent random scales stay in 0.95..1.05
CLEAR, STRONG = 0.8, 0.6


@dataclass(frozen=True, slots=True)
class Reading:
    """``verdict`` is linear, tiled or cannot tell; ``ratio`` is roughness as tiles over as rows."""

    verdict: str
    ratio: float


def band_bytes(cols: int) -> int:
    """Return how many bytes the first 128 rows have."""
    return _ROWS * cols


def can_hide(n: int, cols: int) -> bool:
    """Tell whether tiling leaves the number of bytes as it is, so that only the bytes can tell."""
    return n % _ROWS == 0 and cols % 4 == 0 and n > 0 and cols > 0


def _roughness(grid: list[list[int]]) -> float:
    """Mean absolute difference of neighbours, along rows plus down columns."""
    along = [abs(row[c] - row[c + 1]) for row in grid for c in range(len(row) - 1)]
    down = [abs(upper[c] - lower[c]) for upper, lower in pairwise(grid) for c in range(len(upper))]
    return sum(along) / len(along) + sum(down) / len(down)


def judge(band: bytes, cols: int) -> Reading:
    """Say in which order the scales of 128 rows are.

    ``band`` is the first 128 * ``cols`` bytes of a scale (N, ``cols``), N % 128 = cols % 4 = 0.

    >>> judge(bytes(row for row in range(128) for _ in range(8)), 8).verdict
    'linear'
    """
    tile = LAYOUTS["tile_128x4"]
    wide = range(min(cols, _COLS))
    linear = [[band[r * cols + c] for c in wide] for r in range(_ROWS)]
    tiled = [[band[tile.at(r, c, _ROWS, cols)] for c in wide] for r in range(_ROWS)]
    as_rows, as_tiles = _roughness(linear), _roughness(tiled)
    if max(as_rows, as_tiles) < _UNIFORM:
        return Reading("cannot tell", 1.0)
    ratio = as_tiles / as_rows if as_rows else float("inf")
    if ratio <= CLEAR:
        return Reading("tiled", ratio)
    return Reading("linear" if ratio >= 1 / CLEAR else "cannot tell", ratio)
