"""Will it run? One layer on every backend and every GPU, and the reasons below."""

from functools import lru_cache

from mxlab.errors import InputError
from mxlab.explorers import colours
from mxlab.explorers.controls import State
from mxlab.explorers.panels import Facts, Grid
from mxlab.explorers.will_it_run_controls import ALL_SYSTEMS
from mxlab.explorers.will_it_run_lines import SIGNS
from mxlab.guards import Status
from mxlab.guards.systems import IDS
from mxlab.matrix import FLAGS, GPUS, MAX_SIZE, Cell, matrix

#: what a cell says, the worst first, and its tone
WORDS: dict[Status, tuple[str, int]] = {
    Status.STOPS: ("stops", colours.WRONG),
    Status.SILENT: ("silent", colours.SIGN),
    Status.FALLS_BACK: ("falls back", colours.MANTISSA),
    Status.WARNS: ("warns", colours.FLUSHED),
    Status.UNKNOWN: ("not known", colours.REFERENCE),
    Status.PASSES: ("runs", colours.RIGHT),
}
_KEYS = 1 << 40  # keys of cells start here, beyond every byte of a scale matrix


def panels(n: int, k: int, state: State) -> list[Grid | Facts]:
    """Return the grid for a layer (N, K) of one rank, and the reason of every number in it."""
    asked = str(state["matrix"])
    cells = _cells(n, k, IDS if asked == ALL_SYSTEMS else (asked,))
    numbers: dict[tuple[Status, str], int] = {}
    order = list(WORDS)
    for cell in sorted(cells, key=lambda cell: order.index(cell.status)):
        if cell.status is not Status.PASSES:
            numbers.setdefault((cell.status, cell.guard), len(numbers) + 1)
    return [_grid(n, k, asked, cells, numbers, state), _reasons(cells, numbers)]


@lru_cache(maxsize=16)  # most changes of a state leave the layer as it is
def _cells(n: int, k: int, systems: tuple[str, ...]) -> tuple[Cell, ...]:
    if max(n, k) > MAX_SIZE:
        raise InputError(f"(N, K) = ({n}, {k}): expected at most {MAX_SIZE}")
    return tuple(matrix(n, k, systems=systems))


def _grid(
    n: int,
    k: int,
    asked: str,
    cells: tuple[Cell, ...],
    numbers: dict[tuple[Status, str], int],
    state: State,
) -> Grid:
    lines = [cells[at : at + len(GPUS)] for at in range(0, len(cells), len(GPUS))]
    used = [status for status in WORDS if any(cell.status is status for cell in cells)]
    texts, values, chosen = [], [], []
    for r, line in enumerate(lines):
        row, places = [], []
        for c, cell in enumerate(line):
            number = numbers.get((cell.status, cell.guard), 0)
            word, tone = WORDS[cell.status][0], used.index(cell.status)
            text = f"{SIGNS[cell.status][0]} {word}" + (f" {number}" if number else "")
            row.append((text, tone, _KEYS + number if number else -1))
            mine = cell.row.system in FLAGS  # only its flag is a control
            places.append(f"{cell.row.backend} {cell.gpu}" if mine else None)
            if mine and (cell.row.backend, cell.gpu) == (state["backend"], state["gpu"]):
                chosen.append((r, c))
        texts.append(tuple(row))
        values.append(tuple(places))
    said = ", ".join(
        f"{sum(cell.status is status for cell in cells)} {WORDS[status][0]}" for status in used
    )
    who = "every system" if asked == ALL_SYSTEMS else asked
    return Grid(
        id="matrix",
        title=f"(N, K) = ({n:,}, {k:,}) on every backend of {who} and on every GPU",
        alt=f"{len(lines)} backends on {len(GPUS)} GPUs, an MXFP8 checkpoint, 128 rows: {said}.",
        corner="backend",
        columns=GPUS,
        rows=tuple(_name(line[0], asked) for line in lines),
        cells=texts,
        legend=tuple(WORDS[status][0] for status in used),
        tones=tuple(WORDS[status][1] for status in used),
        say="{row} on {column}: {text}",
        drawn=True,
        wide=True,
        sample=tuple(range(min(len(lines), 28))),
        sets="backend gpu",
        values=values,
        chosen=tuple(chosen),
    )


def _name(cell: Cell, asked: str) -> str:
    name = cell.row.backend or cell.row.function
    return f"{cell.row.system} {name}" if asked == ALL_SYSTEMS else name


def _reasons(cells: tuple[Cell, ...], numbers: dict[tuple[Status, str], int]) -> Facts:
    rows = []
    for (status, guard), number in numbers.items():
        mine = [cell for cell in cells if (cell.status, cell.guard) == (status, guard)]
        reasons = list(dict.fromkeys(cell.because for cell in mine))
        like = f" (and {len(reasons) - 1} like it)" if len(reasons) > 1 else ""
        where: dict[str, list[str]] = {}
        for cell in mine:
            where.setdefault(cell.row.backend or cell.row.function, []).append(cell.gpu)
        named = "; ".join(f"{name} on {', '.join(gpus)}" for name, gpus in where.items())
        rows.append((f"{number} {guard}", WORDS[status][0], f"{reasons[0]}{like}. {named}"))
    alt = f"{len(rows)} reasons, numbered as in the grid above." if rows else "Nothing stands out."
    title = "Reasons, by the number in the grid"
    return Facts(id="reasons", title=title, alt=alt, rows=tuple(rows), wide=True)
