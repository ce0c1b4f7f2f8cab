"""A KV page as it is read, token by token, and as it lies in memory: grids that follow each other.

A cell's key is the offset of its scale byte, in every grid: a code, the scale of its block and the
byte that holds it are the same thing seen three times.
"""

from dataclasses import dataclass
from functools import lru_cache

from mxlab.attention.pages import BLOCK, KVShape
from mxlab.explorers import colours
from mxlab.explorers.panels import Grid

LINE = 16  # bytes of a line of memory
_WINDOW = 512  # scale bytes shown at a time
_MAP = 8  # pages and heads around the chosen one
_SETS = "slot head dim"
Cell = tuple[str, int, int]


@dataclass(frozen=True, slots=True)
class Place:
    """One value of K or V in the cache: its token's slot, its KV head, its place in the head."""

    slot: int
    head: int
    dim: int

    @property
    def block(self) -> int:
        """The block of 32, and with it the scale."""
        return self.dim // BLOCK


@dataclass(frozen=True, slots=True)
class Window:
    """Rows (slot, head) whose scales lie in ``first..end - 1``, nothing else between them."""

    rows: tuple[tuple[int, int], ...]
    first: int
    end: int
    whole: bool  # the tile of one page and head, all of it


def window(shape: KVShape, place: Place) -> Window:
    """Return the rows around one token whose scale bytes lie together: a tile, if it is small.

    >>> window(KVShape(slots=512, kv_heads=2), Place(200, 1, 3)).first
    1536
    """
    return _window(shape, place.slot, place.head)


@lru_cache(maxsize=64)
def _window(shape: KVShape, slot: int, head: int) -> Window:
    groups = shape.scales_per_head
    if not shape.interleaved:
        many = min(_WINDOW // groups, 128)
        top = (slot * shape.kv_heads + head) // many * many
        end = min(top + many, shape.slots * shape.kv_heads)
        pairs = tuple(divmod(pair, shape.kv_heads) for pair in range(top, end))
        return Window(pairs, top * groups, end * groups, False)
    page, row = shape.page_row(slot)
    high, low = divmod(row, 32)
    runs = shape.page_size // 32
    lows, highs = range(32), range(runs)
    if 32 * runs * groups > _WINDOW:  # a part of the tile: whole runs of it, or a part of one run
        many = _power(_WINDOW // (runs * groups))
        if many:
            lows = range(low // many * many, low // many * many + many)
        else:
            part = _WINDOW // groups
            top = high // part * part
            lows, highs = range(low, low + 1), range(top, min(top + part, runs))
    base = page * shape.page_size
    rows = tuple((base + 32 * high + low, head) for high in highs for low in lows)
    first = shape.scale_offset(base + 32 * highs[0] + lows[0], head, 0)
    return Window(rows, first, first + len(rows) * groups, len(lows) == 32)


def _power(number: int) -> int:
    """Return the largest power of two that is no larger, 0 for 0."""
    return 1 << number.bit_length() - 1 if number else 0


def _band(shape: KVShape, slot: int, head: int) -> int:
    """Return what a scale is coloured by: the run of 32 rows of its page, or its head if flat."""
    return slot % shape.page_size // 32 % 4 if shape.interleaved else head % 4


def _bands(shape: KVShape) -> tuple[str, ...]:
    if not shape.interleaved:
        name = "head" if shape.kv_heads <= 4 else "head % 4 ="
        return tuple(f"{name} {band}" for band in range(min(4, shape.kv_heads)))
    runs = shape.page_size // 32
    return tuple(
        f"rows {32 * band} to {32 * band + 31}" if runs <= 4 else f"row // 32 % 4 = {band}"
        for band in range(min(4, runs))
    )


def codes(shape: KVShape, which: str, place: Place) -> Grid:
    """Return the codes of one token and head: two rows for each block of 32."""
    groups, slot, head = shape.scales_per_head, place.slot, place.head
    start = shape.code_offset(slot, head, 0)
    keys = [shape.scale_offset(slot, head, group) for group in range(groups)]
    first = shape.code_offset(slot, head, BLOCK * place.block)
    lines = range(0, BLOCK * groups, LINE)  # of 16 codes: 32 are too wide to be seen at once
    return Grid(
        id="codes",
        title=f"The codes of {which}, slot {slot:,}, head {head}: which byte",
        alt=f"{shape.head_dim} codes from byte {start:,} of the codes; bytes {first:,} to "
        f"{first + 31:,} share the scale at byte {keys[place.block]:,} of the scales. "
        "Enter or a click takes a value.",
        corner="values from",
        columns=tuple(f"+{i}" for i in range(LINE)),
        rows=tuple(str(line) for line in lines),
        cells=[
            [(str(start + line + i), int(line // BLOCK != place.block), keys[line // BLOCK])
             for i in range(LINE)]
            for line in lines
        ],
        legend=("the block of the chosen value", "other blocks"),
        tones=(colours.SCALE, colours.REFERENCE),
        say="Value {row} {column}: its code is byte {text}",
        sample=tuple(dict.fromkeys((0, 1, 2 * place.block, 2 * place.block + 1, 2 * groups - 1))),
        sets="dim",
        values=[[line + i for i in range(LINE)] for line in lines],
        chosen=(divmod(place.dim, LINE),),
    )  # fmt: skip


@lru_cache(maxsize=32)  # most changes of a state leave the window as it is
def _logical(shape: KVShape, shown: Window) -> tuple[list[list[Cell]], list[list[str]]]:
    cells, values = [], []
    for slot, head in shown.rows:
        tone = _band(shape, slot, head)
        first = shape.scale_offset(slot, head, 0)
        offsets = range(first, first + shape.scales_per_head)  # groups are neighbours
        cells.append([(str(offset), tone, offset) for offset in offsets])
        values.append([f"{slot} {head} {BLOCK * g}" for g in range(shape.scales_per_head)])
    return cells, values


def logical(shape: KVShape, which: str, place: Place) -> Grid:
    """Return the scales row by row: token and head down, groups of 32 values across."""
    shown = window(shape, place)
    cells, values = _logical(shape, shown)
    row = shown.rows.index((place.slot, place.head))
    here = shape.scale_offset(place.slot, place.head, place.block)
    slots = [slot for slot, _ in shown.rows]
    return Grid(
        id="logical",
        title=f"The scales of {which} as they are read: which byte",
        alt=f"{len(shown.rows)} rows of {shape.scales_per_head} scales, slots {min(slots):,} to "
        f"{max(slots):,}: slot {place.slot:,}, head {place.head}, group {place.block} is byte "
        f"{here:,}.{_rest(shape, shown)}",
        corner="slot, head",
        columns=tuple(f"group {group}" for group in range(shape.scales_per_head)),
        rows=tuple(f"{slot},{head}" for slot, head in shown.rows),
        cells=cells,
        legend=_bands(shape),
        tones=colours.BANDS[: len(_bands(shape))],
        say="Slot, head {row}, {column}: scale byte {text}",
        sample=_sample(len(shown.rows), row),
        sets=_SETS,
        values=values,
        chosen=((row, place.block),),
    )


def _sample(rows: int, row: int) -> tuple[int, ...]:
    """Return the rows of the still table: the ends of runs of 32, and the chosen one."""
    return tuple(r for r in range(rows) if r == row or r % 32 in (0, 1, 31) or rows <= 8)


def _rest(shape: KVShape, shown: Window) -> str:
    if shown.whole:
        return ""
    total = shape.slots * shape.kv_heads if not shape.interleaved else shape.page_size
    return f" {len(shown.rows)} of {total:,} rows are shown; another slot or head moves them."


@lru_cache(maxsize=32)
def _physical(shape: KVShape, shown: Window) -> tuple[list[list[Cell]], list[list[str | None]]]:
    total = shape.kv_heads * shape.scales_per_head
    total *= shape.pages * shape.page_size if shape.interleaved else shape.slots
    outside = len(_bands(shape))
    known = {
        byte: (slot, head, group, tone)
        for (slot, head), row in zip(shown.rows, _logical(shape, shown)[0], strict=True)
        for group, (_, tone, byte) in enumerate(row)
    }
    cells: list[list[Cell]] = []
    values: list[list[str | None]] = []
    for start in range(shown.first // LINE * LINE, shown.end, LINE):
        line: list[Cell] = []
        places: list[str | None] = []
        for byte in range(start, start + LINE):
            if byte >= total:
                line.append(("", colours.PADDING, -1))
                places.append(None)
                continue
            slot, head, group, tone = known.get(byte) or (*shape.scale_at(byte), outside)
            line.append((f"{slot},{head},{group}", tone, byte))
            places.append(f"{slot} {head} {BLOCK * group}")
        cells.append(line)
        values.append(places)
    return cells, values


def physical(shape: KVShape, which: str, place: Place) -> Grid:
    """Return the lines of memory that hold these scales: in each byte slot, head and group."""
    shown = window(shape, place)
    cells, values = _physical(shape, shown)
    start = shown.first // LINE * LINE
    here = shape.scale_offset(place.slot, place.head, place.block)
    begins = " ".join(text for text, _, _ in cells[0][:5] if text)
    bands = _bands(shape)
    others = any(tone == len(bands) for line in cells for _, tone, _ in line)
    return Grid(
        id="physical",
        title=f"The scales of {which} as they lie in memory: (slot, head, group)",
        alt=f"{len(cells)} lines of 16 bytes from byte {start:,} begin with {begins}; byte "
        f"{here:,} holds the scale of slot {place.slot:,}, head {place.head}, group {place.block}.",
        corner="byte",
        columns=tuple(f"+{i}" for i in range(LINE)),
        rows=tuple(str(start + LINE * line) for line in range(len(cells))),
        cells=cells,
        legend=(*bands, *(("other rows",) if others else ())),
        tones=(*colours.BANDS[: len(bands)], *((colours.REFERENCE,) if others else ())),
        say="Byte {row} {column}: scale of slot, head, group {text}",
        nothing="past the end of the buffer",
        drawn=True,
        sample=tuple(dict.fromkeys((*range(min(8, len(cells))), (here - start) // LINE))),
        sets=_SETS,
        values=values,
        chosen=(divmod(here - start, LINE),),
    )


def pages(shape: KVShape, place: Place) -> Grid:
    """Return the pages and heads around the chosen one, each with its first scale byte."""
    count = -(-shape.slots // shape.page_size)
    page, row = divmod(place.slot, shape.page_size)
    downs = _around(page, count)
    heads = _around(place.head, shape.kv_heads)
    kinds = [0 if one == page else 1 if one == 0 else 2 for one in downs]
    listed = len(downs) * len(heads)
    rest = "" if listed == count * shape.kv_heads else f" The {listed} around this are listed."
    return Grid(
        id="pages",
        title="Pages and heads, each with its first scale byte",
        alt=f"Page {page:,} of 0 to {count - 1:,}, head {place.head} of 0 to "
        f"{shape.kv_heads - 1}; slot 0 lies in page 0.{rest} Enter or a click goes there.",
        corner="page",
        columns=tuple(f"head {head}" for head in heads),
        rows=tuple(f"{one:,}" for one in downs),
        cells=[
            [
                (f"{shape.scale_offset(one * shape.page_size, head, 0):,}", kind, -1)
                for head in heads
            ]
            for one, kind in zip(downs, kinds, strict=True)
        ],
        legend=("the page of the chosen slot", "the page of slot 0", "other pages"),
        tones=(colours.KEPT, colours.FLUSHED, colours.REFERENCE),
        say="Page {row}, {column}: from scale byte {text}",
        sets="slot head",
        values=[[f"{one * shape.page_size + row} {head}" for head in heads] for one in downs],
        chosen=((page - downs[0], place.head - heads[0]),),
    )


def _around(at: int, count: int) -> range:
    first = max(0, min(at - _MAP // 2, count - _MAP))
    return range(first, min(first + _MAP, count))
