"""A sweep as text: one axis across, the others down, each stop a number explained below."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mxlab.cli.result import table
from mxlab.report.common import clean
from mxlab.sweep import Cell, Grid

WORDS = {"runs": "runs", "runs-degraded": "degraded", "unknown": "unknown", "invalid": "invalid"}


@dataclass(slots=True)
class Reasons:
    """Numbers for what cells say, in the order in which they are met."""

    several: bool = False  # models: an example then says which
    numbers: dict[tuple[str, str], int] = field(default_factory=dict)
    first: dict[int, Cell] = field(default_factory=dict)
    counts: dict[int, int] = field(default_factory=dict)

    def word(self, cell: Cell) -> str:
        """Return a cell as one word, with the number of its reason where it has one."""
        if not cell.because:
            return WORDS.get(cell.outcome, cell.outcome)
        where = "" if self.several else cell.where  # else one reason in as many words a model
        key = (cell.guard, where) if cell.guard else (cell.outcome, _kind(cell))
        number = self.numbers.setdefault(key, len(self.numbers) + 1)
        self.first.setdefault(number, cell)
        self.counts[number] = self.counts.get(number, 0) + 1
        return f"{cell.stage or WORDS.get(cell.outcome, cell.outcome)} [{number}]"

    def lines(self) -> list[tuple[int, str]]:
        """Return (number, reason): the guard, where, the numbers of the first such cell."""
        return [(number, self._reason(cell, number)) for number, cell in self.first.items()]

    def _reason(self, cell: Cell, number: int) -> str:
        count = self.counts[number]
        cells = f"{count} cell{'s' if count > 1 else ''}"
        if not cell.guard:
            return f"{WORDS.get(cell.outcome, cell.outcome)}: {cell.because} ({cells})"
        at = "" if cell.where == "server" else f" at {cell.where}"
        example = ", ".join(f"{name} {value}" for name, value in cell.at.items())
        here = f"{cell.model}, {example}" if self.several else example
        because = f"{cell.because} ({cells}; here {here})"
        return f"{cell.stage} {cell.guard}{at}: {because}; {cell.when}"


def _kind(cell: Cell) -> str:
    """Return what counts as one reason: the guards that degrade, else the words."""
    return ", ".join(cell.degrades) or cell.because


def across(axes: Mapping[str, Sequence[Any]]) -> str:
    """Return the axis that is laid out in columns: the GPUs, else the last that varies.

    >>> across({"tp": (1, 2), "gpu": ("h100", "b200"), "backend": ("auto", "triton")})
    'gpu'
    """
    many = [name for name, values in axes.items() if len(values) > 1]
    return "gpu" if "gpu" in many else (many or list(axes))[-1]


def rows(grid: Grid, model: str, reasons: Reasons) -> tuple[list[str], list[list[object]]]:
    """Return (header, rows) of one model's grid; a reason is numbered as it is met."""
    column = across(grid.axes)
    down = [name for name in grid.axes if name != column]
    found: dict[tuple[Any, ...], list[object]] = {}
    heads: list[str] = []
    for cell in grid.cells:
        if cell.model != model:
            continue
        key = tuple(cell.at[name] for name in down)
        found.setdefault(key, list(key)).append(reasons.word(cell))
        if str(cell.at[column]) not in heads:
            heads.append(str(cell.at[column]))
    return [*down, *heads], list(found.values())


def counts_line(grid: Grid) -> str:
    """Return how many cells there are of each outcome."""
    counted = ", ".join(f"{count} {outcome}" for outcome, count in grid.counts().items())
    return f"{len(grid.cells)} cells: {counted}"


def render_grid(grid: Grid) -> str:
    """Return the whole grid as text.

    >>> from mxlab.guards import Deployment
    >>> from mxlab.sweep import sweep
    >>> grid = sweep({"Llama-3.1-8B": "Llama-3.1-8B"}, Deployment(gpu="b200"), {"tp": (1, 3)})
    >>> print(render_grid(grid).splitlines()[2])
    runs  S4 [1]
    """
    reasons = Reasons(len(grid.models) > 1)
    parts = []
    for model in grid.models:
        header, body = rows(grid, model, reasons)
        parts.append(f"{model}\n{table(header, body)}")
    explained = [f"  [{number}] {text}" for number, text in reasons.lines()]
    if explained:
        parts.append("\n".join(["reasons", *explained]))
    hopeless = grid.hopeless()
    tail = f"; nothing runs: {', '.join(hopeless)}" if hopeless else ""
    return clean("\n\n".join([*parts, counts_line(grid) + tail]))
