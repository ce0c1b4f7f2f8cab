"""Exercises of chapter 5: where does the scale live?"""

from collections.abc import Iterator

from mxlab.exercises.checker import Exercise, Mistake
from mxlab.layout import layout

_TILE = layout("tile_128x4")
_SIZES = ((256, 8), (300, 10), (1, 1), (129, 5), (128, 4), (640, 3))


def _cells() -> Iterator[tuple[int, int, int, int]]:
    for rows, cols in _SIZES:
        for row in {0, 1, 31, 32, 33, 96, 127, 128, 130, 200, 299, rows - 1}:
            for col in {0, 3, 4, 5, cols - 1}:
                if row < rows and col < cols:
                    yield row, col, rows, cols


def _swapped(row: int, col: int, rows: int, cols: int) -> int:
    """Rows of 4 bytes: what a row-major tile would be."""
    across = -(-cols // 4)
    return ((row // 128) * across + col // 4) * 512 + row % 128 * 4 + col % 4


def _unrounded(row: int, col: int, rows: int, cols: int) -> int:
    inside = row % 32 * 16 + row % 128 // 32 * 4 + col % 4
    return ((row // 128) * (cols // 4) + col // 4) * 512 + inside


def _down(row: int, col: int, rows: int, cols: int) -> int:
    inside = row % 32 * 16 + row % 128 // 32 * 4 + col % 4
    return ((col // 4) * -(-rows // 128) + row // 128) * 512 + inside


EXERCISES = (
    Exercise(
        name="5.1",
        asks="The scale matrix has 256 rows and 8 columns, in layout tile_128x4. At which byte "
        "offset lies the scale of row 130, column 5?",
        spec=lambda: _TILE.offset(130, 5, 256, 8),
        hint="Row 130 is row 2 of the second row of tiles; a row of tiles has 8 / 4 = 2 tiles. "
        "Inside the tile, one row is 16 bytes on.",
        mistakes=(
            Mistake(spec=lambda: 130 * 8 + 5, says="That is row-major: 130 * 8 + 5."),
            Mistake(
                spec=lambda: _swapped(130, 5, 256, 8),
                says="Right tile, but inside a tile the next row is 16 bytes on, not 4.",
            ),
            Mistake(
                spec=lambda: _TILE.offset(130, 5, 300, 10),
                says="That is its byte in a matrix of 10 columns, which has 3 tiles in a row. "
                "With 8 columns there are 2.",
            ),
        ),
    ),
    Exercise(
        name="5.2",
        asks="Write offset(row, col, rows, cols) for layout tile_128x4.",
        spec=lambda row, col, rows, cols: _TILE.offset(row, col, rows, cols),
        cases=_cells,
        hint="Three parts: the number of the tile times 512; row % 32 times 16; and the place in "
        "16 bytes, (row % 128) // 32 times 4 plus col % 4. A row of tiles has ceil(cols / 4).",
        mistakes=(
            Mistake(spec=_swapped, says="Inside a tile the next row is 16 bytes on, not 4."),
            Mistake(
                spec=_unrounded,
                says="A row of tiles has ceil(cols / 4) tiles: cols // 4 forgets the padded one.",
            ),
            Mistake(spec=_down, says="Tiles follow each other along a row of tiles, not down."),
            Mistake(
                spec=lambda row, col, rows, cols: row * cols + col,
                says="That is row-major, layout linear.",
            ),
        ),
    ),
    Exercise(
        name="5.3",
        asks="How many bytes does the scale buffer of a (2880, 2880) weight have in tile_128x4, "
        "blocks along K?",
        spec=lambda: _TILE.nbytes(2880, 90),
        hint="K = 2880 is 90 scale columns. Round 2880 up to whole tiles of 128 and 90 up to whole "
        "tiles of 4.",
        mistakes=(
            Mistake(spec=lambda: 2880 * 90, says="That is without padding: 2880 * 90."),
            Mistake(
                spec=lambda: 2944 * 90,
                says="The columns are padded too: 90 is no multiple of 4.",
            ),
            Mistake(
                spec=lambda: 2944 * 2880,
                says="That rounds the elements up, not the scales: K / 32.",
            ),
        ),
    ),
    Exercise(
        name="5.4",
        asks="Write rows_hit(offset, nbytes): the sorted rows of a 128 x 4 scale matrix whose "
        "scales lie in the bytes offset to offset + nbytes - 1 of its tile.",
        spec=lambda offset, nbytes: sorted(
            {
                place[0]
                for byte in range(offset, offset + nbytes)
                if (place := _TILE.coord(byte, 128, 4)) is not None
            }
        ),
        cases=lambda: ((0, 4), (0, 16), (4, 4), (60, 1), (76, 1), (496, 16), (0, 512), (8, 24)),
        hint="Byte b of a tile holds row b // 16 + 32 * (b % 16 // 4).",
        mistakes=(
            Mistake(
                spec=lambda offset, nbytes: sorted(
                    {byte // 4 for byte in range(offset, offset + nbytes)}
                ),
                says="That reads the tile row by row, four bytes each.",
            ),
        ),
    ),
)
