"""Where does the scale live? Any layout of any size: cells and bytes side by side, both ways."""

import re
from dataclasses import dataclass

from mxlab.block import BLOCK
from mxlab.explorers import colours
from mxlab.explorers.controls import Choice, Int, State, Text
from mxlab.explorers.panels import AnyPanel, Facts, Grid, View
from mxlab.explorers.protocol import Explorer
from mxlab.explorers.scale_bits import bits, digits
from mxlab.explorers.scale_window import Window, logical, physical, size, window
from mxlab.layout import LAYOUTS, ScaleLayout, layout
from mxlab.layout_batched import BatchedLayout, batched
from mxlab.layout_notation import cute

_PAGED = ("scale_layout", ("kv_paged",))
_SIDE = 2**20
CONTROLS = (
    Choice(name="scale_layout", label="Layout", default="tile_128x4", group="The layout",
           options=tuple((name, name) for name in LAYOUTS)),
    Choice(name="page_size", label="Tokens in a page", default="128", group="The layout",
           options=tuple((size, size) for size in ("32", "64", "128", "256")), when=_PAGED),
    Choice(name="head_dim", label="Head dimension", default="128", group="The layout",
           options=tuple((dim, dim) for dim in ("32", "64", "96", "128", "192", "256")),
           when=_PAGED),
    Int(name="rows", label="Rows", default=300, low=1, high=_SIDE, slider=(1, 512, 1),
        group="The matrix", help="M of activations, N of a weight, tokens of a cache."),
    Int(name="k", label="K", default=256, low=1, high=_SIDE, slider=(32, 1024, 32),
        group="The matrix", help="A scale for 32 values along K; down the rows for te_columnwise."),
    Int(name="batches", label="Batches", default=1, low=1, high=4096, slider=(1, 8, 1),
        group="The matrix", help="Such as experts: each padded on its own."),
    Text(name="at", label="Find", default="33,2", limit=48, lines=1, group="One scale",
         help="ROW,COLUMN (or BATCH,ROW,COLUMN) of a scale, or a byte; or click a cell."),
)  # fmt: skip
_PARTS = re.compile(r"\s*([0-9]{1,15})\s*(?:,\s*([0-9]{1,15})\s*)?(?:,\s*([0-9]{1,15})\s*)?")
_NEIGHBOURS = (8, 8)  # windows shown around the chosen one


@dataclass(frozen=True, slots=True)
class _Place:
    """A cell of one padded matrix, its first byte, and what was mended on the way."""

    batch: int
    row: int
    col: int
    byte: int
    mended: str


def view(state: State) -> View:
    """Return the window around one scale, its address, and the buffer's numbers."""
    found = _layout(state)
    rows, cols = _scales(state)
    many = batched(found, int(state["batches"]), rows, cols)
    place = _place(many, str(state["at"]))
    shown = window(found, rows, cols, place.row, place.col, place.batch, many.batches)
    inside = shown.inside(place.row, place.col)
    spare = many.nbytes - many.batches * rows * cols * found.itemsize
    who = f"row {place.row:,}, column {place.col:,}"
    if many.batches > 1:
        who = f"batch {place.batch:,}, {who}"
    answer = (
        f"The scale of {who} is byte {place.byte:,}"
        if inside
        else f"Byte {place.byte:,} is padding: it would be {who}, outside {rows:,} x {cols:,}"
    ) + f"; {found.name} takes {many.nbytes:,} bytes, {spare:,} of them padding ({_share(many)})."
    if place.mended:
        answer = f"{place.mended}. {answer}"
    cells: tuple[tuple[int, int], ...] = ((place.row - shown.top, place.col - shown.left),)
    batch = f"{place.batch}," if many.batches > 1 else ""
    drawn = bits(shown, place.row, place.col)
    panels: tuple[AnyPanel, ...] = (
        _buffer(many, state, spare),
        digits(shown, place.row, place.col),
        *((drawn,) if drawn else ()),
        logical(shown, sets="at", batch=batch, chosen=cells),
        physical(shown, sets="at", chosen=shown.byte(place.row, place.col)),
        _windows(shown),
    )
    return View(
        status="passes" if inside and not place.mended else "warns",
        sign="=" if inside and not place.mended else "!",
        answer=answer,
        panels=panels,
        cli=_cli(many, place, inside),
        python=_python(many, place, inside),
    )


def _layout(state: State) -> ScaleLayout:
    name = str(state["scale_layout"])
    if name != "kv_paged":
        return layout(name)
    heads = int(state["head_dim"]) // BLOCK
    return layout(name, page_size=int(state["page_size"]), scales_per_head=heads)


def _scales(state: State) -> tuple[int, int]:
    """Return rows and columns of the scale matrix."""
    rows, k = int(state["rows"]), int(state["k"])
    if state["scale_layout"] == "te_columnwise":
        return -(-rows // BLOCK), k
    return rows, -(-k // BLOCK)


def _place(many: BatchedLayout, text: str) -> _Place:
    """Return the cell that a text asks for; what is no place, or too far, is mended and said."""
    found, rows, cols = many.layout, many.rows, many.cols
    match = _PARTS.fullmatch(text)
    parts = [int(part) for part in match.groups() if part is not None] if match else [0, 0]
    mended = "" if match else f"{text.strip()[:48]!r} is no ROW,COLUMN and no byte: row 0, column 0"
    if len(parts) == 1:
        byte = min(parts[0], many.nbytes - 1)
        if byte != parts[0]:
            mended = f"The last byte is {byte:,}, not {parts[0]:,}"
        batch, inside = divmod(byte, many.stride)
        cell = found.coord(inside, *found.padded(rows, cols))
        assert cell is not None  # the padded matrix has no padding
        return _Place(batch, *cell, byte - byte % found.itemsize, mended)
    wanted = [0, *parts][-3:]
    last = (many.batches - 1, rows - 1, cols - 1)
    batch, row, col = (min(part, most) for part, most in zip(wanted, last, strict=True))
    if [batch, row, col] != wanted:
        asked = ",".join(map(str, parts))
        mended = f"There is no {asked}: the nearest is taken"
    return _Place(batch, row, col, many.offset(batch, row, col), mended)


def _share(many: BatchedLayout) -> str:
    return f"{100 * many.padding_fraction:.1f} %"


def _buffer(many: BatchedLayout, state: State, spare: int) -> Facts:
    found, rows, cols = many.layout, many.rows, many.cols
    down, across = found.padded(rows, cols)
    tile = f"{found.tile[0]} x {found.tile[1]}"
    length = int(state["rows"] if found.transposed else state["k"])
    short = f"; {length:,} % 32 = {length % BLOCK}: the last block is short" if (
        length % BLOCK
    ) else ""  # fmt: skip
    shape = "rows / 32 x K" if found.transposed else "rows x K / 32"
    more: list[tuple[str, str, str]] = []
    if many.batches > 1:
        more = [
            ("batches", f"{many.batches:,}", f"one every {many.stride:,} bytes"),
            ("if flattened", f"{many.flattened_nbytes:,}", f"bytes as one matrix of "
             f"{many.batches * rows:,} rows: another buffer"),
        ]  # fmt: skip
    if found.itemsize > 1:
        more.append(("one scale", f"{found.itemsize} bytes", "a float32, 2^(byte - 127)"))
    return Facts(
        id="buffer",
        title="The buffer",
        alt=f"{rows:,} x {cols:,} scales, padded to {down:,} x {across:,}, in tiles of {tile}: "
        f"{many.nbytes:,} bytes, {spare:,} of them padding ({_share(many)}).",
        rows=(
            ("scale matrix", f"{rows:,} x {cols:,}", f"{shape}{short}"),
            ("padded to", f"{down:,} x {across:,}", f"whole tiles of {tile}"),
            ("bytes", f"{many.nbytes:,}", f"{spare:,} of them padding ({_share(many)})"),
            *more,
            ("offset(r, c)", "", found.formula),
            ("CuTe layout", "", cute(found, rows, cols, many.batches)),
            ("used by", "", f"{found.summary} ({found.source})"),
        ),
    )


def _windows(shown: Window) -> Grid:
    """Return the windows around the one that is shown, each with its first byte."""
    found, rows, cols = shown.layout, shown.rows, shown.cols
    high, wide = size(found, rows, cols)
    padded = found.padded(rows, cols)
    counts = [-(-side // part) for side, part in zip(padded, (high, wide), strict=True)]
    here = shown.top // high, shown.left // wide
    firsts = [
        max(0, min(at - most // 2, count - most))
        for at, most, count in zip(here, _NEIGHBOURS, counts, strict=True)
    ]
    tops, lefts = (
        range(first * part, min(first + most, count) * part, part)
        for first, most, count, part in zip(firsts, _NEIGHBOURS, counts, (high, wide), strict=True)
    )
    cells, values = [], []
    for top in tops:
        each = [
            Window(found, rows, cols, top, left, min(high, padded[0] - top),
                   min(wide, padded[1] - left), shown.batch, shown.batches)
            for left in lefts
        ]  # fmt: skip
        kinds = [0 if not w.padding() else 2 if w.padding() == w.high * w.wide else 1 for w in each]
        cells.append(
            tuple((f"{w.byte(top, w.left):,}", kind, -1) for w, kind in zip(each, kinds,
                                                                            strict=True))
        )  # fmt: skip
        values.append(tuple(str(w.byte(top, w.left)) for w in each))
    total, listed = counts[0] * counts[1], len(tops) * len(lefts)
    rest = "" if listed == total else f" The {listed} around this one are listed."
    number = here[0] * counts[1] + here[1]
    return Grid(
        id="windows",
        title="The window's neighbours, each with its first byte",
        alt=f"Window {number:,} of 0 to {total - 1:,}, {high} x {wide} scales each: this one has "
        f"{shown.padding():,} cells of padding.{rest} Enter or a click shows another.",
        corner="row",
        columns=tuple(f"{left:,}" for left in lefts),
        rows=tuple(f"{top:,}" for top in tops),
        cells=cells,
        legend=("scales only", "some padding", "padding only"),
        tones=(colours.KEPT, colours.FLUSHED, colours.REFERENCE),
        say="Window from row {row}, column {column}: byte {text}",
        sets="at",
        values=values,
        chosen=((here[0] - firsts[0], here[1] - firsts[1]),),
    )


def _cli(many: BatchedLayout, place: _Place, inside: bool) -> str:
    parts = ["mxlab layout", str(many.rows), str(many.cols), "--layout", many.layout.name]
    for name, value in many.layout.params.items():
        parts += [f"--{name.replace('_', '-')}", str(value)]
    parts += ["--batches", str(many.batches)] if many.batches > 1 else []
    batch = f"{place.batch}," if many.batches > 1 else ""
    parts += ["--at", f"{batch}{place.row},{place.col}"] if inside else (
        ["--offset", str(place.byte)]
    )  # fmt: skip
    return " ".join(parts)


def _python(many: BatchedLayout, place: _Place, inside: bool) -> str:
    params = "".join(f", {name}={value}" for name, value in many.layout.params.items())
    ask = f"offset({place.batch}, {place.row}, {place.col})" if inside else f"coord({place.byte})"
    return (
        "from mxlab import layout\nfrom mxlab.layout_batched import batched\n\n"
        f'found = layout("{many.layout.name}"{params})\n'
        f"scales = batched(found, {many.batches}, {many.rows}, {many.cols})\n"
        f"print(scales.nbytes, scales.{ask})"
    )


EXPLORER = Explorer(
    name="scale_layout",
    title="Where does the scale live?",
    question="Which byte of the buffer holds the scale of this row and column, and what is "
    "padding?",
    controls=CONTROLS,
    view=view,
)
