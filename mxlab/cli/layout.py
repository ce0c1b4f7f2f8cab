"""``mxlab layout``: where the scale of (row, column) lives."""

import argparse
from typing import Any

from mxlab.cli import values
from mxlab.cli.result import Result
from mxlab.errors import InputError, quote, whole_number
from mxlab.layout import LAYOUTS, ScaleLayout, layout
from mxlab.layout_batched import batched
from mxlab.layout_notation import bases, cut_every, cute

EXAMPLES = """examples:
  mxlab layout 300 10 --layout tile_128x4
  mxlab layout 300 10 --layout tile_128x4 --at 130,5 --offset 517
  mxlab layout 256 32 --layout kv_paged --page-size 64 --scales-per-head 4
  mxlab layout 256 4 --cut 100
  mxlab layout 96 8 --batches 4 --at 1,0,0

rows and cols are those of the scale matrix: cols = K / 32. JSON: offsets[row][col] where there are
at most 65,536 cells (null and a note otherwise); offset answers --at; coord answers --offset
(null: a padding byte); cute is the CuTe layout of the padded matrix and bases holds what each bit
of row and column adds by exclusive or (null where there is no such form), both counted in scales
of itemsize bytes. With --batches every matrix is padded on its own, nbytes is that of all, and --at
takes BATCH,ROW,COL."""

FULL_TABLE = 65_536  # cells
_SHOWN = (8, 16)  # rows and columns of the table that a person sees


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    values.allow_negative_values(parser)
    parser.add_argument("rows", help="rows of the scale matrix (M or N)")
    parser.add_argument("cols", help="columns of the scale matrix (K / 32)")
    parser.add_argument("--layout", default="tile_128x4", help=f"{', '.join(LAYOUTS)}")
    parser.add_argument("--at", metavar="ROW,COL", help="the offset of this scale")
    parser.add_argument("--offset", help="the (row, column) at this byte")
    parser.add_argument("--cut", metavar="ROW", help="can the buffer be cut before this row?")
    parser.add_argument("--batches", help="matrices in one buffer, each padded on its own")
    parser.add_argument("--page-size", help="kv_paged: tokens in a page (default 128)")
    parser.add_argument("--scales-per-head", help="kv_paged: head_dim / 32 (default 4)")


def _chosen(args: argparse.Namespace) -> ScaleLayout:
    params = {"page_size": args.page_size, "scales_per_head": args.scales_per_head}
    given = {
        name: values.whole(text, f"--{name.replace('_', '-')}")
        for name, text in params.items()
        if text is not None
    }
    return layout(args.layout, **given)


def _table(found: ScaleLayout, rows: int, cols: int) -> list[str]:
    high, wide = min(rows, _SHOWN[0]), min(cols, _SHOWN[1])
    cells = [[str(found.at(r, c, rows, cols)) for c in range(wide)] for r in range(high)]
    width = max(len(cell) for row in cells for cell in row)
    more = (
        "" if (high, wide) == (rows, cols) else f" (the first {high} x {wide} of {rows} x {cols})"
    )
    return [f"offsets{more}:", *["  ".join(cell.rjust(width) for cell in row) for row in cells]]


def _coordinates(text: str, names: tuple[str, ...]) -> list[int]:
    parts = text.split(",")
    if len(parts) != len(names):
        wanted = ",".join(names).upper()
        example = "1,130,5" if len(names) == 3 else "130,5"
        raise InputError(f"--at is {quote(text)}: expected {wanted} such as {example}")
    return [values.whole(part, f"--at {name}") for part, name in zip(parts, names, strict=True)]


def _cut(found: ScaleLayout, rows: int, cols: int, text: str) -> dict[str, Any]:
    row = whole_number("--cut row", values.whole(text, "--cut"), 1, max(1, rows - 1))
    every = cut_every(found, rows, cols)
    possible = every is not None and row % every == 0 and row < rows
    near = []
    if every is not None and not possible:
        near = [r for r in (row // every * every, -(-row // every) * every) if 0 < r < rows]
    return {"row": row, "possible": possible, "every": every, "nearest": near}


def _cut_text(cut: dict[str, Any], name: str) -> str:
    row, every = cut["row"], cut["every"]
    if cut["possible"]:
        return f"the buffer can be cut before row {row}: a multiple of {every} rows"
    why = f"{row} % {every} = {row % every}" if every else "rows of all tiles are interleaved"
    near = " or ".join(map(str, cut["nearest"]))
    instead = f"; cut at {near}, or" if near else ";"
    return (
        f"the buffer cannot be cut before row {row}: {why}{instead} deinterleave, split, and "
        f"interleave each part in {name} with padding of its own"
    )


def run(args: argparse.Namespace) -> Result:
    """Answer the verb."""
    found = _chosen(args)
    rows, cols = values.whole(args.rows, "rows"), values.whole(args.cols, "cols")
    padded_rows, padded_cols = found.padded(rows, cols)
    share = found.padding_fraction(rows, cols)
    many = batched(
        found, 1 if args.batches is None else values.whole(args.batches, "--batches"), rows, cols
    )
    data: dict[str, Any] = {
        "layout": found.name,
        **found.params,
        "rows": rows,
        "cols": cols,
        "padded_rows": padded_rows,
        "padded_cols": padded_cols,
        "nbytes": many.nbytes,
        "padding_fraction": share,
        "itemsize": found.itemsize,
        "formula": found.formula,
        "cute": cute(found, rows, cols, many.batches),
        "bases": bases(found, rows, cols),
        "offsets": None,
    }
    form = "none: a stride is no power of two, or bits carry"
    if data["bases"] is not None:
        form = ", ".join(f"{axis} {listed}" for axis, listed in data["bases"].items())
    lines = [
        f"{found.name}: {found.summary}",
        f"{rows} x {cols} scales, padded to {padded_rows} x {padded_cols}: {many.stride:,} bytes, "
        f"{share:.1%} padding",
        f"offset(r, c) = {found.formula}",
        f"CuTe layout: {data['cute']}",
        f"bit bases: {form}",
    ]
    if found.itemsize > 1:
        lines.insert(2, f"each scale is a float32 of {found.itemsize} bytes, 2^(byte - 127)")
    if args.batches is not None:
        data |= {
            "batches": many.batches,
            "batch_nbytes": many.stride,
            "flattened_nbytes": many.flattened_nbytes,
        }
        lines.append(
            f"{many.batches} batches, each padded on its own: {many.nbytes:,} bytes, one every "
            f"{many.stride:,} (flattened to {many.batches * rows} rows first: "
            f"{many.flattened_nbytes:,})"
        )
    if args.at is not None:
        names = ("row", "col") if args.batches is None else ("batch", "row", "col")
        at = _coordinates(args.at, names)
        data |= {"at": at, "offset": many.offset(*([0, *at] if args.batches is None else at))}
        lines.append(f"({', '.join(map(str, at))}) is at byte {data['offset']}")
    if args.offset is not None:
        asked = values.whole(args.offset, "--offset")
        place = many.coord(asked)
        coord = place if place is None or args.batches is not None else place[1:]
        data |= {"asked_offset": asked, "coord": None if coord is None else list(coord)}
        says = "padding" if coord is None else f"the scale of ({', '.join(map(str, coord))})"
        lines.append(f"byte {asked} is {says}")
    if args.cut is not None:
        data["cut"] = _cut(found, rows, cols, args.cut)
        lines.append(_cut_text(data["cut"], found.name))
    if rows * cols <= FULL_TABLE:
        data["offsets"] = [[found.at(r, c, rows, cols) for c in range(cols)] for r in range(rows)]
    else:
        data["note"] = f"{rows * cols} cells: offsets are listed up to {FULL_TABLE}; ask with --at"
    return Result(data, "\n".join([*lines, *_table(found, rows, cols)]))
