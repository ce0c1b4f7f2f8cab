"""Where the scale byte of (row, column) lives: closed forms and their inverses.

The matrix here is the scale matrix: R rows and C = K / 32 columns, one byte a cell (a float32 in
``deepgemm_float32``). Every layout is a grid of tiles; inside a tile the digits of row and column
have strides, as in a CuTe layout.
"""

from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod

from mxlab.errors import InputError, choose, whole_number

MAX_SIDE = 2**40  # rows or columns; far above any buffer, small enough for any message


@dataclass(frozen=True, slots=True)
class Mode:
    """One digit of a coordinate inside a tile: how many values it takes, bytes from one to next."""

    size: int
    stride: int


def _size(modes: tuple[Mode, ...]) -> int:
    return prod(mode.size for mode in modes)


def _spread(index: int, modes: tuple[Mode, ...]) -> int:
    """Offset of an index inside a tile: its digits, lowest first, times their strides."""
    offset = 0
    for mode in modes:
        index, digit = divmod(index, mode.size)
        offset += digit * mode.stride
    return offset


def _gather(offset: int, modes: tuple[Mode, ...]) -> int:
    """Inverse of _spread: the index whose digits stand at this offset."""
    index, weight = 0, 1
    for mode in modes:
        index += offset // mode.stride % mode.size * weight
        weight *= mode.size
    return index


@dataclass(frozen=True, kw_only=True)
class ScaleLayout:
    """A layout of scale bytes.

    ``row_modes`` and ``col_modes`` are the digits of a row and a column inside one tile, lowest
    first. Tiles follow each other along a row of tiles, or down a column where ``down``.
    ``transposed``: the matrix is turned before it is tiled. Padding cells hold 0. ``itemsize`` is
    the bytes of one scale: 1 for an E8M0 byte, 4 for the float32 2^(byte - 127).
    """

    name: str
    summary: str
    formula: str
    row_modes: tuple[Mode, ...] = ()
    col_modes: tuple[Mode, ...] = ()
    down: bool = False
    transposed: bool = False
    itemsize: int = 1
    params: dict[str, int] = field(default_factory=dict, hash=False)
    source: str

    @cached_property
    def tile(self) -> tuple[int, int]:
        """Rows and columns of one tile, as the matrix's own rows and columns."""
        height, width = self._digits
        return (width, height) if self.transposed else (height, width)

    @cached_property
    def _digits(self) -> tuple[int, int]:
        """Rows and columns of one tile as the matrix is tiled: turned first where transposed."""
        return _size(self.row_modes), _size(self.col_modes)

    def padded(self, rows: int, cols: int) -> tuple[int, int]:
        """Return rows and columns rounded up to whole tiles.

        >>> layout("tile_128x4").padded(300, 10)
        (384, 12)
        """
        rows, cols = _sides(rows, cols)
        return (-(-rows // self.tile[0]) * self.tile[0], -(-cols // self.tile[1]) * self.tile[1])

    def nbytes(self, rows: int, cols: int) -> int:
        """Return the length of the buffer in bytes, padding included.

        >>> layout("tile_128x4").nbytes(300, 10)
        4608
        """
        return prod(self.padded(rows, cols)) * self.itemsize

    def padding_fraction(self, rows: int, cols: int) -> float:
        """Return the share of the buffer that is padding, 0..1.

        >>> layout("tile_128x4").padding_fraction(1, 1)
        0.998046875
        """
        total = self.nbytes(rows, cols)
        return (total - rows * cols * self.itemsize) / total

    def offset(self, row: int, col: int, rows: int, cols: int) -> int:
        """Return the byte offset of the scale of (row, col) in a matrix of rows x cols.

        Raises InputError where row or col is outside the matrix. Source: the layout's own.

        >>> layout("tile_128x4").offset(33, 2, rows=256, cols=8)
        22
        """
        rows, cols = _sides(rows, cols)
        row = whole_number("row", row, 0, rows - 1)
        col = whole_number("col", col, 0, cols - 1)
        return self.at(row, col, rows, cols)

    def at(self, row: int, col: int, rows: int, cols: int) -> int:
        """Return ``offset`` without its checks, for padding cells and loops too.

        >>> layout("linear").at(1, 2, 4, 8)
        10
        """
        if self.transposed:
            row, col, rows, cols = col, row, cols, rows
        height, width = self._digits
        tile_row, tile_col = row // height, col // width
        if self.down:
            tile = tile_col * -(-rows // height) + tile_row
        else:
            tile = tile_row * -(-cols // width) + tile_col
        inside = _spread(row % height, self.row_modes) + _spread(col % width, self.col_modes)
        return (tile * height * width + inside) * self.itemsize

    def coord(self, offset: int, rows: int, cols: int) -> tuple[int, int] | None:
        """Return (row, col) of the scale that holds the byte at an offset; None for padding.

        Raises InputError where the offset is outside the buffer.

        >>> layout("tile_128x4").coord(22, rows=256, cols=8)
        (33, 2)
        >>> layout("tile_128x4").coord(511, rows=1, cols=1) is None
        True
        """
        rows, cols = _sides(rows, cols)
        offset = whole_number("offset", offset, 0, self.nbytes(rows, cols) - 1)
        return self.held(offset, rows, cols)

    def held(self, offset: int, rows: int, cols: int) -> tuple[int, int] | None:
        """Return ``coord`` without its checks, for loops.

        >>> layout("linear").held(10, 4, 8)
        (1, 2)
        """
        wide, high = (rows, cols) if self.transposed else (cols, rows)
        height, width = self._digits
        tile, inside = divmod(offset // self.itemsize, height * width)
        if self.down:
            tile_col, tile_row = divmod(tile, -(-high // height))
        else:
            tile_row, tile_col = divmod(tile, -(-wide // width))
        row = tile_row * height + _gather(inside, self.row_modes)
        col = tile_col * width + _gather(inside, self.col_modes)
        if self.transposed:
            row, col = col, row
        return (row, col) if row < rows and col < cols else None


def _sides(rows: int, cols: int) -> tuple[int, int]:
    return whole_number("rows", rows, 1, MAX_SIDE), whole_number("cols", cols, 1, MAX_SIDE)


def _kv_paged(page_size: int = 128, scales_per_head: int = 4) -> ScaleLayout:
    page = whole_number("page_size", page_size, 32, 2**20, multiple_of=32)
    scales = whole_number("scales_per_head", scales_per_head, 1, 2**20)
    return replace(
        LAYOUTS["kv_paged"],
        row_modes=(Mode(32, page // 32 * scales), Mode(page // 32, scales)),
        col_modes=(Mode(scales, 1),),
        params={"page_size": page, "scales_per_head": scales},
    )


_TILE_128X4 = ((Mode(32, 16), Mode(4, 4)), (Mode(4, 1),))

#: name -> layout
LAYOUTS: dict[str, ScaleLayout] = {
    row.name: row
    for row in (
        ScaleLayout(
            name="linear",
            summary="row-major, no padding: what checkpoints store",
            formula="r*C + c",
            source="ModelOpt 0.47 and compressed-tensors 0.20 checkpoints",
        ),
        ScaleLayout(
            name="tile_128x4",
            summary="512-byte tiles of 128 rows x 4 columns (SWIZZLE_32_4_4)",
            formula="((r//128)*ceil(C/4) + c//4)*512 + (r%32)*16 + ((r%128)//32)*4 + c%4",
            row_modes=_TILE_128X4[0],
            col_modes=_TILE_128X4[1],
            source="cuBLAS documentation, 1D block scaling factors layout; torchao to_blocked",
        ),
        ScaleLayout(
            name="tile_8x4",
            summary="32-byte tiles of 8 rows x 4 columns, for few tokens",
            formula="((r//8)*ceil(C/4) + c//4)*32 + (r%8)*4 + c%4",
            row_modes=(Mode(8, 4),),
            col_modes=(Mode(4, 1),),
            source="FlashInfer SfLayout.layout_8x4",
        ),
        ScaleLayout(
            name="amd_32x8",
            summary="256-byte tiles of 32 rows x 8 columns (gfx950 pre-shuffle)",
            formula="(r//32)*32*S + (c//8)*256 + (c%4)*64 + (r%16)*4 + ((c%8)//4)*2 + (r%32)//16, "
            "S = 8*ceil(C/8)",
            row_modes=(Mode(16, 4), Mode(2, 1)),
            col_modes=(Mode(4, 64), Mode(2, 2)),
            source="hipBLASLt BLK32_UE8M0_32_8_EXT; aiter pads rows to 256 instead of 32",
        ),
        ScaleLayout(
            name="deepgemm_packed",
            summary="four bytes along K in one little-endian int32, MN-major, rows padded to 4",
            formula="((c//4)*A + r)*4 + c%4, A = 4*ceil(R/4)",
            row_modes=(Mode(4, 4),),
            col_modes=(Mode(4, 1),),
            down=True,
            source="DeepGEMM tests/test_layout.py (54e2261)",
        ),
        ScaleLayout(
            name="deepgemm_float32",
            summary="Hopper: scales as float32, MN-major, rows padded to 4 (16 bytes, for TMA)",
            formula="(c*A + r)*4, A = 4*ceil(R/4)",
            row_modes=(Mode(4, 1),),
            down=True,
            itemsize=4,
            source="DeepGEMM SM90, stride (1, round_up(mn, 4)) (54e2261)",
        ),
        ScaleLayout(
            name="kv_paged",
            summary="KV cache: one tile for a page of tokens of one head; columns are head*S + s",
            formula="((t//P)*H + h)*(32*(P//32)*S) + (p%32)*((P//32)*S) + (p//32)*S + s, p = t%P",
            row_modes=_TILE_128X4[0],
            col_modes=_TILE_128X4[1],
            params={"page_size": 128, "scales_per_head": 4},
            source="SGLang MXFP8 KV cache, buffers [pages, H, 32, page/32, S]",
        ),
        ScaleLayout(
            name="te_columnwise",
            summary="column-wise scales (M/32, K), tiled 128x4 as their transpose (K, M/32)",
            formula="tile_128x4 of (c, r) in a C x R matrix",
            row_modes=_TILE_128X4[0],
            col_modes=_TILE_128X4[1],
            transposed=True,
            source="Transformer Engine MXFP8 column-wise swizzle (d0067d0)",
        ),
    )
}

LayoutLike = ScaleLayout | str


def layout(name: LayoutLike, **params: int) -> ScaleLayout:
    """Return the layout called ``name``.

    ``kv_paged`` takes ``page_size`` (a multiple of 32, default 128) and ``scales_per_head``
    (head_dim / 32, default 4); the others take nothing. Raises InputError otherwise.

    >>> layout("kv_paged", page_size=64, scales_per_head=2).nbytes(100, 6)
    768
    """
    found = name if isinstance(name, ScaleLayout) else choose("layout", name, LAYOUTS)
    if not params:
        return found
    unknown = sorted(set(params) - set(found.params))
    if unknown:
        takes = ", ".join(found.params) or "no parameters"
        raise InputError(f"layout {found.name!r} takes {takes}: got {unknown[0]!r}")
    return _kv_paged(**{**found.params, **params})
