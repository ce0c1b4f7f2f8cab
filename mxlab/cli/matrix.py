"""``mxlab matrix``: one MXFP8 product on every backend and every GPU."""

import argparse
import csv
import io
import textwrap
from collections.abc import Sequence

from mxlab.cli.result import Result
from mxlab.guards import Status
from mxlab.guards.calls import ROWS
from mxlab.matrix import GPUS, Cell, Row, matrix

EXAMPLES = """examples:
  mxlab matrix 2880 2880
  mxlab matrix 5120 576 --m 6 --gpu gb10,b200 --system flashinfer,deepgemm@54e2261
  mxlab matrix 2880 2880 --csv > matrix.csv"""
_WIDTH = 100
_REASON = 200  # characters of one reason
_SHOWN = 2  # reasons of one guard, where something runs and is not what it seems

#: status -> the word of a cell; the order is that of the reasons below the table
WORDS = {
    Status.SILENT: "silent",
    Status.FALLS_BACK: "falls",
    Status.WARNS: "warns",
    Status.UNKNOWN: "?",
    Status.STOPS: "stops",
    Status.PASSES: "ok",
}
_MEANS = (
    "ok: runs as asked. silent: runs, wrong or slow, and nothing is said. falls: another kernel "
    "runs. warns: it says so. ?: a number is not known. stops: an error."
)
_COLUMNS = ("system", "version", "function", "backend", "gpu", "status", "guard", "because")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument("n", type=int, help="output features of the weight on one rank")
    parser.add_argument("k", type=int, help="input features of the weight on one rank")
    parser.add_argument("--m", type=int, default=ROWS, help=f"rows of the activation ({ROWS})")
    parser.add_argument("--gpu", default=",".join(GPUS), metavar="A,B", help="columns")
    parser.add_argument("--system", metavar="A,B@VERSION", help="rows; without it, every system")
    parser.add_argument("--cuda", metavar="VERSION", help="toolkit of the NVIDIA GPUs, as 13.0")
    parser.add_argument("--csv", action="store_true", help="one line for each cell")


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",")]


def _csv(cells: Sequence[Cell]) -> str:
    out = io.StringIO()
    writer = csv.DictWriter(out, _COLUMNS, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(cell.to_json() for cell in cells)
    return out.getvalue().rstrip("\n")


def _notes(cells: Sequence[Cell]) -> dict[tuple[Status, str], tuple[int, list[str]]]:
    """Number every (status, guard), the quietest troubles first, with its distinct reasons."""
    reasons: dict[tuple[Status, str], list[str]] = {}
    for cell in cells:
        if cell.status is not Status.PASSES:
            found = reasons.setdefault((cell.status, cell.guard), [])
            if cell.because not in found:
                found.append(cell.because)
    order = list(WORDS)
    keys = sorted(reasons, key=lambda key: order.index(key[0]))
    return {key: (number, reasons[key]) for number, key in enumerate(keys, 1)}


def _by_row(cells: Sequence[Cell]) -> dict[Row, list[Cell]]:
    found: dict[Row, list[Cell]] = {}
    for cell in cells:
        found.setdefault(cell.row, []).append(cell)
    return found


def _fold(table: dict[Row, list[Cell]]) -> list[tuple[Row, list[Cell], list[str]]]:
    """Put rows of one function that say the same everywhere on one line."""
    folded: dict[tuple[object, ...], tuple[Row, list[Cell], list[str]]] = {}
    for row, cells in table.items():
        said = tuple((cell.status, cell.guard) for cell in cells)
        key = (row.system, row.version, row.function, said)
        if key in folded and any(status is not Status.PASSES for status, _ in said):
            folded[key][2].append(row.backend)
        else:
            folded[(*key, row.backend) if key in folded else key] = (row, cells, [])
    return list(folded.values())


def _text(m: int, n: int, k: int, cells: Sequence[Cell]) -> str:
    notes, table = _notes(cells), _by_row(cells)
    lines = [f"MXFP8 product M = {m}, N = {n}, K = {k}: which kernel takes it on which GPU", ""]
    gpus = [cell.gpu for cell in next(iter(table.values()))]
    rows = _fold(table)
    labels = [_label(row, more) for row, _, more in rows]
    left = max(len(label) for label in labels) + 4
    shown = [[_word(cell, notes) for cell in line] for _, line, _ in rows]
    wide = 1 + max(len(word) for word in (*gpus, *(word for line in shown for word in line)))
    columns = max(1, (_WIDTH - left) // wide)
    for start in range(0, len(gpus), columns):
        part = slice(start, start + columns)
        lines.append(" " * left + "".join(f"{gpu:<{wide}}" for gpu in gpus[part]).rstrip())
        head = ""
        for (row, _, _), label, words in zip(rows, labels, shown, strict=True):
            title = f"{row.name} {row.version}, {row.function}"
            if title != head:
                lines.append(title)
                head = title
            line = f"  {label:<{left - 2}}" + "".join(f"{w:<{wide}}" for w in words[part])
            lines.append(line.rstrip())
        lines.append("")
    for row, _, more in rows:
        if more:
            names = f"{row.name} {_label(row, more)}: also {', '.join(more)}"
            lines += textwrap.wrap(names, _WIDTH, subsequent_indent="  ")
    lines += textwrap.wrap(_MEANS, _WIDTH)
    for (status, guard), (number, reasons) in notes.items():
        count = _SHOWN if status in (Status.SILENT, Status.FALLS_BACK) else 1
        said = "; or ".join(
            textwrap.shorten(r, _REASON, placeholder=" ...") for r in reasons[:count]
        )
        more_like = f" (and {len(reasons) - count} like it)" if len(reasons) > count else ""
        text = f"{number:>2} {WORDS[status]}  {guard}: {said}{more_like}"
        lines += textwrap.wrap(text, _WIDTH, subsequent_indent="     ")
    if notes:
        lines.append("'mxlab guards ID' explains one; --json has the reason of every cell.")
    return "\n".join(lines)


def _label(row: Row, more: Sequence[str]) -> str:
    return (row.backend or row.function) + (f" +{len(more)}" if more else "")


def _word(cell: Cell, notes: dict[tuple[Status, str], tuple[int, list[str]]]) -> str:
    note = notes.get((cell.status, cell.guard))
    return WORDS[cell.status] + (str(note[0]) if note else "")


def run(args: argparse.Namespace) -> Result:
    """Ask every guard of every cell."""
    cells = matrix(
        args.n,
        args.k,
        m=args.m,
        gpus=_names(args.gpu),
        systems=None if args.system is None else _names(args.system),
        cuda=args.cuda,
    )
    sizes = {"m": args.m, "n": args.n, "k": args.k, "cuda": args.cuda}
    data = {**sizes, "rows": [cell.to_json() for cell in cells]}
    text = _csv(cells) if args.csv else _text(args.m, args.n, args.k, cells)
    return Result(data, text, int(all(cell.status is Status.STOPS for cell in cells)))
