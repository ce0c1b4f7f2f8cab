"""One 128 x 4 tile of a scale matrix, as a grid of rows and as the bytes in memory."""

from functools import lru_cache

from mxlab.explorers.panels import Facts, Grid
from mxlab.layout import layout

_ROWS, _COLUMNS, _BAND = 128, 4, 32
_NAME = "tile_128x4"
_BANDS = tuple(f"rows {low} to {low + _BAND - 1} of the tile" for low in range(0, _ROWS, _BAND))
_SAMPLE = (0, 1, 2, 31, 32, 33, 63, 64, 65, 95, 96, 97, 127)


def tiles(rows: int, columns: int) -> tuple[int, int]:
    """Return how many tiles a (rows, columns) scale matrix has, down and across.

    >>> tiles(300, 10)
    (3, 3)
    """
    return -(-rows // _ROWS), -(-columns // _COLUMNS)


@lru_cache(maxsize=16)  # most changes of a state leave the layer as it is
def logical(rows: int, columns: int, tile: int) -> Grid:
    """Return the tile as it is read: row by row, each cell with the byte that holds its scale."""
    where = layout(_NAME)
    top, left = _corner(rows, columns, tile)
    cells = []
    for row in range(top, top + _ROWS):
        line = []
        for column in range(left, left + _COLUMNS):
            if row < rows and column < columns:
                byte = where.offset(row, column, rows, columns)
                line.append((str(byte), (row - top) // _BAND, byte))
            else:
                line.append(("", -1, -1))
        cells.append(line)
    first = cells[0][0][0]
    return Grid(
        id="logical",
        title="Which byte holds the scale of (row, column)",
        alt=f"Scales of rows {top} to {top + _ROWS - 1}, scale columns {left} to "
        f"{left + _COLUMNS - 1}: row {top}, column {left} is byte {first}. The next column is the "
        "next byte, the next row is 16 bytes on, and 32 rows down is 4 bytes on.",
        corner="row",
        columns=tuple(f"{c}" for c in range(left, left + _COLUMNS)),
        rows=tuple(f"{r}" for r in range(top, top + _ROWS)),
        cells=cells,
        legend=_BANDS,
        say="Row {row}, scale column {column}: byte {text}",
        nothing="outside the matrix",
        sample=_SAMPLE,
    )


@lru_cache(maxsize=16)
def physical(rows: int, columns: int, tile: int) -> Grid:
    """Return the tile as it lies in memory: 32 lines of 16 bytes, each with its logical row."""
    where = layout(_NAME)
    top, _ = _corner(rows, columns, tile)
    start = tile * _ROWS * _COLUMNS
    cells = []
    for line_start in range(start, start + _ROWS * _COLUMNS, 16):
        line = []
        for byte in range(line_start, line_start + 16):
            place = where.coord(byte, rows, columns)
            if place is None:
                line.append(("pad", -1, byte))
            else:
                row, column = place
                line.append((f"{row},{column}", (row - top) // _BAND, byte))
        cells.append(line)
    return Grid(
        id="physical",
        title="Which (row, column) lies in this byte",
        alt=f"The 512 bytes of this tile from byte {start}, 16 a line: a line holds four scale "
        f"columns of rows {top}, {top + 32}, {top + 64} and {top + 96}, then one row further.",
        corner="byte",
        columns=tuple(f"+{i}" for i in range(16)),
        rows=tuple(str(start + i) for i in range(0, _ROWS * _COLUMNS, 16)),
        cells=cells,
        legend=_BANDS,
        say="Byte {row} {column}: scale of row, column {text}",
        nothing="padding, must not be read",
        drawn=True,
    )


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
