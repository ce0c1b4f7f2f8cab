"""A window of a scale matrix: as rows and columns, and as the lines of memory that hold them."""

from dataclasses import dataclass
from functools import lru_cache
from itertools import count, pairwise

from mxlab.explorers import colours
from mxlab.explorers.panels import Grid
from mxlab.layout import ScaleLayout

LINE = 16  # bytes of a line of memory
_MOST_CELLS, _MOST_LINES = 512, 64
#: layout -> rows and columns of a window where one tile is too small to see anything
_SEVERAL_TILES = {
    "linear": (32, 16),
    "tile_8x4": (32, 16),
    "amd_32x8": (32, 16),
    "deepgemm_packed": (128, 4),
    "deepgemm_float32": (32, 4),
}
Cell = tuple[str, int, int]


@dataclass(frozen=True, slots=True)
class Window:
    """``high`` x ``wide`` scales from (top, left), padding included, of a rows x cols matrix.

    ``batches`` such matrices follow each other in the buffer; this is the one called ``batch``.
    """

    layout: ScaleLayout
    rows: int
    cols: int
    top: int
    left: int
    high: int
    wide: int
    batch: int = 0
    batches: int = 1

    @property
    def base(self) -> int:
        """The byte where this matrix begins in the buffer."""
        return self.batch * self.layout.nbytes(self.rows, self.cols)

    def byte(self, row: int, col: int) -> int:
        """Return the first byte of a scale, or of a padding cell, in the buffer."""
        return self.base + self.layout.at(row, col, self.rows, self.cols)

    def inside(self, row: int, col: int) -> bool:
        """Tell whether a cell of the padded matrix holds a scale."""
        return row < self.rows and col < self.cols

    def padding(self) -> int:
        """Return how many of the window's cells hold no scale."""
        high = min(max(self.rows - self.top, 0), self.high)
        wide = min(max(self.cols - self.left, 0), self.wide)
        return self.high * self.wide - high * wide


def size(found: ScaleLayout, rows: int, cols: int) -> tuple[int, int]:
    """Return rows and columns of a window: whole tiles, or the part of one that can be shown.

    >>> from mxlab.layout import layout
    >>> size(layout("tile_128x4"), 300, 10), size(layout("kv_paged", page_size=256), 256, 16)
    ((128, 4), (128, 4))
    """
    padded = found.padded(rows, cols)
    high, wide = (
        min(part, side)
        for part, side in zip(_SEVERAL_TILES.get(found.name, found.tile), padded, strict=True)
    )
    while high * wide > _MOST_CELLS or len(_lines(Window(found, rows, cols, 0, 0, high, wide))) > (
        _MOST_LINES
    ):
        high, wide = (high // 2, wide) if high > 1 else (high, wide // 2)
    return high, wide


def window(
    found: ScaleLayout,
    rows: int,
    cols: int,
    row: int,
    col: int,
    batch: int = 0,
    batches: int = 1,
) -> Window:
    """Return the window that holds a cell of the padded matrix."""
    high, wide = size(found, rows, cols)
    down, across = found.padded(rows, cols)
    top, left = row // high * high, col // wide * wide
    sides = min(high, down - top), min(wide, across - left)
    return Window(found, rows, cols, top, left, *sides, batch, batches)


@lru_cache(maxsize=64)
def _lines(shown: Window) -> list[int]:
    """Return the addresses of the lines of 16 bytes that hold a cell of the window."""
    starts = {byte // LINE for line in _bytes(shown) for byte in line}
    return [line * LINE for line in sorted(starts)]


@lru_cache(maxsize=32)
def _bytes(shown: Window) -> list[list[int]]:
    """Return the byte of each cell: what its row adds and what its column adds."""
    where, rows, cols = shown.layout.at, shown.rows, shown.cols
    across = [where(0, col, rows, cols) for col in range(shown.left, shown.left + shown.wide)]
    down = [where(row, 0, rows, cols) for row in range(shown.top, shown.top + shown.high)]
    base = shown.base
    return [[base + start + step for step in across] for start in down]


def _along(shown: Window) -> tuple[str, int, int, int]:
    """Return the longer side's name, its first index, its length, and its number of bands."""
    rows = ("rows", shown.top, shown.high, min(4, shown.high))
    return rows if shown.high >= shown.wide else (
        "columns", shown.left, shown.wide, min(4, shown.wide)
    )  # fmt: skip


def _tones(shown: Window) -> list[list[int]]:
    """Return which quarter of the window's longer side each cell lies in."""
    what, _, length, many = _along(shown)
    bands = [place * many // length for place in range(length)]
    if what == "rows":
        return [[band] * shown.wide for band in bands]
    return [bands] * shown.high


def _bands(shown: Window) -> tuple[str, ...]:
    """Return what the bands are called."""
    what, first, length, many = _along(shown)
    ends = [first - (-length * band // many) for band in range(many + 1)]
    return tuple(
        f"{what} {low} to {high - 1}" if high - low > 1 else f"{what[:-1]} {low}"
        for low, high in pairwise(ends)
    )


@lru_cache(maxsize=32)  # most changes of a state leave the window as it is
def _logical(shown: Window) -> list[list[Cell]]:
    cells = []
    for row, bytes_, tones in zip(count(shown.top), _bytes(shown), _tones(shown), strict=False):
        inside = max(shown.cols - shown.left, 0) if row < shown.rows else 0
        line = [(str(byte), tone, byte) for byte, tone in zip(bytes_, tones[:inside], strict=False)]
        cells.append(line + [("", colours.PADDING, byte) for byte in bytes_[len(line) :]])
    return cells


@lru_cache(maxsize=32)
def _physical(shown: Window) -> list[list[Cell]]:
    many, base, step = (
        shown.layout.nbytes(shown.rows, shown.cols),
        shown.base,
        shown.layout.itemsize,
    )
    rows, cols, batch, batches = shown.rows, shown.cols, shown.batch, shown.batches
    top, left = shown.top, shown.left
    tones, outside = _tones(shown), _along(shown)[3]
    cells = []
    for start in _lines(shown):
        line: list[Cell] = []
        for byte in range(start, start + LINE, step):
            if byte // many != batch:
                other = byte // many
                line.append(
                    (f"batch {other}", outside, byte)
                    if other < batches
                    else ("", colours.PADDING, -1)
                )
                continue
            place = shown.layout.held(byte - base, rows, cols)
            if place is None:
                line.append(("pad", colours.PADDING, byte))
                continue
            row, col = place
            near = top <= row < top + shown.high and left <= col < left + shown.wide
            tone = tones[row - top][col - left] if near else outside
            line.append((f"{row},{col}", tone, byte))
        cells.append(line)
    return cells


def _step(shown: Window, down: int, right: int) -> str:
    """Return how far the next cell lies from the window's first, or "" where there is none."""
    if down >= shown.high or right >= shown.wide:
        return ""
    first = shown.byte(shown.top, shown.left)
    far = shown.byte(shown.top + down, shown.left + right) - first
    what = "the next column" if right else "the next row" if down == 1 else f"{down} rows down"
    return f"{what} is {far:+,}"


def logical(
    shown: Window, *, sets: str = "", batch: str = "", chosen: tuple[tuple[int, int], ...] = ()
) -> Grid:
    """Return the window row by row, each cell with the byte that holds its scale.

    A cell sets ``sets`` to "row,column" after ``batch``, or a padding cell to its byte.
    """
    top, left = shown.top, shown.left
    cells = _logical(shown)
    steps = [_step(shown, 0, 1), _step(shown, 1, 0), _step(shown, 32, 0)]
    far = f"; from there {', '.join(filter(None, steps))}" if any(steps) else ""
    return Grid(
        id="logical",
        title="Which byte holds the scale of (row, column)",
        alt=f"Scales of rows {top} to {top + shown.high - 1}, scale columns {left} to "
        f"{left + shown.wide - 1}: row {top}, column {left} is byte "
        f"{shown.byte(top, left)}{far}.",
        corner="row",
        columns=tuple(str(c) for c in range(left, left + shown.wide)),
        rows=tuple(str(r) for r in range(top, top + shown.high)),
        cells=cells,
        legend=_bands(shown),
        say="Row {row}, scale column {column}: byte {text}",
        nothing="outside the matrix: padding",
        sample=tuple(row for row in range(shown.high) if row % 32 in (0, 1, 31) or shown.high <= 8),
        sets=sets,
        values=tuple(
            tuple(
                f"{batch}{top + r},{left + c}" if tone >= 0 else str(byte)
                for c, (_, tone, byte) in enumerate(line)
            )
            for r, line in enumerate(cells)
        )
        if sets
        else (),
        chosen=chosen,
    )


def physical(shown: Window, *, sets: str = "", chosen: int = -1) -> Grid:
    """Return the lines of memory that hold the window, each cell with its row and column.

    A cell sets ``sets`` to its byte; ``chosen`` is the byte that the state holds.
    """
    cells, starts = _physical(shown), _lines(shown)
    step = shown.layout.itemsize
    gaps = sum(after - before > LINE for before, after in pairwise(starts))
    broken = f", with {gaps} gaps between them" if gaps else ""
    pads = sum(text == "pad" for line in cells for text, _, _ in line)
    each = "" if step == 1 else f" Each scale is a float32 of {step} bytes."
    bands = _bands(shown)
    elsewhere = any(tone == len(bands) for line in cells for _, tone, _ in line)
    return Grid(
        id="physical",
        title="Which (row, column) lies in this byte",
        alt=f"{len(starts)} lines of 16 bytes from byte {starts[0]}{broken}: the first begins with "
        f"{_begins(cells[0])}; {pads} cells are padding.{each}",
        corner="byte",
        columns=tuple(f"+{i}" for i in range(0, LINE, step)),
        rows=tuple(str(start) for start in starts),
        cells=cells,
        legend=(*bands, *(("outside this window",) if elsewhere else ())),
        tones=(*colours.BANDS[: len(bands)], *((colours.REFERENCE,) if elsewhere else ())),
        say="Byte {row} {column}: scale of row, column {text}",
        nothing="padding, must not be read"
        if cells[-1][-1][2] >= 0
        else "padding or past the end of the buffer, must not be read",
        drawn=True,
        sets=sets,
        values=tuple(
            tuple(str(byte) if byte >= 0 else None for _, _, byte in line) for line in cells
        )
        if sets
        else (),
        chosen=tuple(
            (r, c)
            for r, line in enumerate(cells)
            for c, (_, _, byte) in enumerate(line)
            if byte == chosen >= 0
        ),
    )


def _begins(line: list[Cell]) -> str:
    texts = [text for text, _, _ in line[:4]]
    return "padding" if texts[0] == "pad" else f"(row, column) {' '.join(filter(None, texts))}"
