"""Whether scales of the right shape are in tiled order: the right reading has structure.

Scales of trained weights go by row (a row's amax has one size) and by column (input channels
differ), so that row means plus column means explain part of their variance. Read in the wrong
order every row is a mixture of others, and the means explain next to nothing. Where scales are
nearly equal, or nothing but noise, both readings are alike: cannot tell.
"""

from dataclasses import dataclass

from mxlab.layout import LAYOUTS

_ROWS = 128  # of one tile: a band of 128 rows holds the same bytes in both orders
_COLS = 32
#: variance below which scales are too uniform
_UNIFORM = 0.05
#: a reading must leave this much less unexplained than the other; independent random scales
#: differ by 0.05 at 8 columns and by 0.02 at 32. With 4 columns (K = 128) a tile only permutes
#: whole rows, and nothing can be told.
CLEAR, STRONG = 0.8, 0.6


@dataclass(frozen=True, slots=True)
class Reading:
    """``verdict`` is linear, tiled or cannot tell; ``ratio`` is unexplained as tiles over rows."""

    verdict: str
    ratio: float


def band_bytes(cols: int) -> int:
    """Return how many bytes the first 128 rows have."""
    return _ROWS * cols


def can_hide(n: int, cols: int) -> bool:
    """Tell whether tiling leaves the number of bytes as it is, so that only the bytes can tell."""
    return n % _ROWS == 0 and cols % 4 == 0 and n > 0 and cols > 0


def _unexplained(grid: list[list[int]]) -> tuple[float, float]:
    """Return (variance left after row and column means, whole variance)."""
    rows, cols = len(grid), len(grid[0])
    by_row = [sum(row) / cols for row in grid]
    by_col = [sum(column) / rows for column in zip(*grid, strict=True)]
    mean = sum(by_row) / rows
    whole = sum((cell - mean) ** 2 for row in grid for cell in row)
    left = sum(
        (cell - by_row[r] - by_col[c] + mean) ** 2
        for r, row in enumerate(grid)
        for c, cell in enumerate(row)
    )
    return left / (rows * cols), whole / (rows * cols)


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
    (as_rows, whole), (as_tiles, whole_tiles) = _unexplained(linear), _unexplained(tiled)
    if max(whole, whole_tiles) < _UNIFORM:
        return Reading("cannot tell", 1.0)
    ratio = as_tiles / as_rows if as_rows else float("inf")
    if ratio <= CLEAR:
        return Reading("tiled", ratio)
    return Reading("linear" if ratio >= 1 / CLEAR else "cannot tell", ratio)
