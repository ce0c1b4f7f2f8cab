"""One 128 x 4 tile of a scale matrix, as a grid of rows and as the bytes in memory."""

from mxlab.explorers import scale_window
from mxlab.explorers.panels import Facts, Grid
from mxlab.layout import layout

_ROWS, _COLUMNS = 128, 4
_NAME = "tile_128x4"


def tiles(rows: int, columns: int) -> tuple[int, int]:
    """Return how many tiles a (rows, columns) scale matrix has, down and across.

    >>> tiles(300, 10)
    (3, 3)
    """
    return -(-rows // _ROWS), -(-columns // _COLUMNS)


def logical(rows: int, columns: int, tile: int) -> Grid:
    """Return the tile as it is read: row by row, each cell with the byte that holds its scale."""
    return scale_window.logical(_window(rows, columns, tile))


def physical(rows: int, columns: int, tile: int) -> Grid:
    """Return the tile as it lies in memory: 32 lines of 16 bytes, each with its logical row."""
    return scale_window.physical(_window(rows, columns, tile))


def summary(rows: int, columns: int, tile: int) -> Facts:
    """Return size, padding and the place of the shown tile."""
    where = layout(_NAME)
    down, across = tiles(rows, columns)
    top, left = _corner(rows, columns, tile)
    nbytes = where.nbytes(rows, columns)
    padding = nbytes - rows * columns
    share = f"{100 * padding / nbytes:.1f} %"
    return Facts(
        id="scales",
        title="Scales of the layer",
        alt=f"{rows} x {columns} scales in {down * across} tiles of 128 x 4, {nbytes} bytes, "
        f"{share} of them padding.",
        rows=(
            ("scale matrix", f"{rows:,} x {columns:,}", "N rows, K / 32 columns"),
            ("tiles", f"{down:,} x {across:,}", f"tile = (row // 128) * {across:,} + column // 4"),
            ("bytes", f"{nbytes:,}", f"{padding:,} of them padding ({share})"),
            (
                "tile shown",
                f"{tile:,} of 0 to {down * across - 1:,}",
                f"rows from {top:,}, columns from {left:,}",
            ),
        ),
    )


def _corner(rows: int, columns: int, tile: int) -> tuple[int, int]:
    across = tiles(rows, columns)[1]
    return tile // across * _ROWS, tile % across * _COLUMNS


def _window(rows: int, columns: int, tile: int) -> scale_window.Window:
    return scale_window.window(layout(_NAME), rows, columns, *_corner(rows, columns, tile))
