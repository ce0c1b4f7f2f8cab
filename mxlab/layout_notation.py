"""A layout in the notations of others: a CuTe layout string, bit bases; and where it can be cut.

All three describe the padded scale matrix and count in scales (bytes, but for float32 scales).
"""

from math import prod

from mxlab.errors import whole_number
from mxlab.layout import MAX_SIDE, LayoutLike, Mode, ScaleLayout, layout

Modes = tuple[Mode, ...]


def modes(found: ScaleLayout, rows: int, cols: int) -> tuple[Modes, Modes]:
    """Return the modes of a row and of a column, lowest first; the last one counts the tiles.

    >>> modes(layout("tile_8x4"), 16, 8)[1]
    (Mode(size=4, stride=1), Mode(size=2, stride=32))
    """
    padded = found.padded(rows, cols)
    high, wide = (
        size // side for size, side in zip(padded, found.tile, strict=True)
    )  # tiles down and across the matrix as its reader sees it
    if found.transposed:
        high, wide = wide, high
    cells = prod(found.tile)
    down, across = (cells, high * cells) if found.down else (wide * cells, cells)
    row = (*found.row_modes, Mode(high, down))
    col = (*found.col_modes, Mode(wide, across))
    return (col, row) if found.transposed else (row, col)


def cute(name: LayoutLike, rows: int, cols: int, batches: int = 1) -> str:
    """Return the CuTe layout of the padded scale matrix, ``shape:stride``, strides in scales.

    The coordinate is (row, column), or (row, column, batch) where there are batches: each is
    padded on its own. Raises InputError for an unknown layout or sizes that cannot be.
    Source: CuTe's layout algebra; the strides are those of ``LAYOUTS``.

    >>> cute("tile_128x4", 256, 8)
    '((32,4,2),(4,2)):((16,4,1024),(1,512))'
    >>> cute("linear", 300, 10)
    '(300,10):(10,1)'
    """
    found = layout(name)
    batches = whole_number("batches", batches, 1, MAX_SIDE)
    axes = [*modes(found, rows, cols)]
    if batches > 1:
        axes.append((Mode(batches, prod(found.padded(rows, cols))),))
    return ":".join(
        f"({','.join(_tuple([getattr(mode, part) for mode in axis]) for axis in axes)})"
        for part in ("size", "stride")
    )


def _tuple(numbers: list[int]) -> str:
    inside = ",".join(map(str, numbers))
    return inside if len(numbers) == 1 else f"({inside})"


def bases(name: LayoutLike, rows: int, cols: int) -> dict[str, list[int]] | None:
    """Return what each bit of the row and of the column adds to the offset, as in linear layouts.

    The offset in scales is the exclusive or of the bases of the bits that are set, lowest bit
    first. None where no such bases exist: a stride is no power of two, or bits would carry.
    Raises InputError for an unknown layout or sizes that cannot be.

    >>> bases("tile_8x4", 16, 8)
    {'row': [4, 8, 16, 64], 'col': [1, 2, 32]}
    >>> bases("tile_8x4", 16, 10) is None
    True
    """
    found = layout(name)
    taken, out = 0, dict[str, list[int]]()
    for axis, digits in zip(("row", "col"), modes(found, rows, cols), strict=True):
        digits = tuple(mode for mode in digits if mode.size > 1)
        out[axis] = []
        for mode in digits:
            bits = (mode.size - 1).bit_length()
            mask = ((1 << bits) - 1) * mode.stride
            whole = mode.size == 1 << bits or mode is digits[-1]  # the last may end early
            if mode.stride & (mode.stride - 1) or mask & taken or not whole:
                return None
            taken |= mask
            out[axis] += [mode.stride << bit for bit in range(bits)]
    return out


def cut_every(name: LayoutLike, rows: int, cols: int) -> int | None:
    """Return how many rows lie between places where the buffer can be cut in two.

    There every earlier row lies before every later one, and both parts are buffers of the same
    layout: at multiples of the tile's rows. None where tiles of later rows lie between.
    Raises InputError for an unknown layout or sizes that cannot be.

    >>> cut_every("tile_128x4", 256, 4), cut_every("linear", 256, 4)
    (128, 1)
    >>> cut_every("deepgemm_packed", 256, 8) is None
    True
    """
    found = layout(name)
    tile, _ = found.tile
    tiles = modes(found, rows, cols)[0][-1]
    if tile < rows and tiles.stride != tile * found.padded(rows, cols)[1]:
        return None
    return tile
