"""``mxlab layout``: where the scale of (row, column) lives."""

import argparse
import re
from typing import Any

from mxlab.cli import values
from mxlab.cli.result import Result
from mxlab.errors import InputError, quote
from mxlab.layout import LAYOUTS, ScaleLayout, layout

EXAMPLES = """examples:
  mxlab layout 300 10 --layout tile_128x4
  mxlab layout 300 10 --layout tile_128x4 --at 130,5 --offset 517
  mxlab layout 256 32 --layout kv_paged --page-size 64 --scales-per-head 4

rows and cols are those of the scale matrix: cols = K / 32. JSON: offsets[row][col] where there are
at most 65,536 cells (null and a note otherwise); offset answers --at; coord answers --offset
(null: a padding byte)."""

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
    parser.add_argument("--page-size", help="kv_paged: tokens in a page (default 128)")
    parser.add_argument("--scales-per-head", help="kv_paged: head_dim / 32 (default 4)")


def _whole(text: str, where: str) -> int:
    if re.fullmatch(r"-?[0-9]{1,30}", text.strip()) is None:
        raise InputError(f"{where} is {quote(text)}: expected a whole number")
    return int(text)


def _chosen(args: argparse.Namespace) -> ScaleLayout:
    params = {"page_size": args.page_size, "scales_per_head": args.scales_per_head}
    given = {
        name: _whole(text, f"--{name.replace('_', '-')}")
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


def run(args: argparse.Namespace) -> Result:
    """Answer the verb."""
    found = _chosen(args)
    rows, cols = _whole(args.rows, "rows"), _whole(args.cols, "cols")
    padded_rows, padded_cols = found.padded(rows, cols)
    nbytes, share = found.nbytes(rows, cols), found.padding_fraction(rows, cols)
    data: dict[str, Any] = {
        "layout": found.name,
        **found.params,
        "rows": rows,
        "cols": cols,
        "padded_rows": padded_rows,
        "padded_cols": padded_cols,
        "nbytes": nbytes,
        "padding_fraction": share,
        "formula": found.formula,
        "offsets": None,
    }
    lines = [
        f"{found.name}: {found.summary}",
        f"{rows} x {cols} scales, padded to {padded_rows} x {padded_cols}: {nbytes:,} bytes, "
        f"{share:.1%} padding",
        f"offset(r, c) = {found.formula}",
    ]
    if args.at is not None:
        row, comma, col = args.at.partition(",")
        if not comma:
            raise InputError(f"--at is {quote(args.at)}: expected ROW,COL such as 130,5")
        at = (_whole(row, "--at row"), _whole(col, "--at col"))
        data |= {"at": list(at), "offset": found.offset(*at, rows, cols)}
        lines.append(f"({at[0]}, {at[1]}) is at byte {data['offset']}")
    if args.offset is not None:
        asked = _whole(args.offset, "--offset")
        coord = found.coord(asked, rows, cols)
        data |= {"asked_offset": asked, "coord": None if coord is None else list(coord)}
        says = "padding" if coord is None else f"the scale of ({coord[0]}, {coord[1]})"
        lines.append(f"byte {asked} is {says}")
    if rows * cols <= FULL_TABLE:
        data["offsets"] = [[found.at(r, c, rows, cols) for c in range(cols)] for r in range(rows)]
    else:
        data["note"] = f"{rows * cols} cells: offsets are listed up to {FULL_TABLE}; ask with --at"
    return Result(data, "\n".join([*lines, *_table(found, rows, cols)]))
