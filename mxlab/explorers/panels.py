"""What a view is made of: panels as data, each with a text that says the same in words.

The face, the still picture and the command line draw these and compute nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from mxlab.explorers.colours import TONES

#: the most cells of one grid, and shapes of one drawing; an explorer windows what is larger, and
#: says so
MOST_CELLS = 1024
MOST_SHAPES = 3000


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One line of a list of verdicts.

    ``sign`` repeats the status without colour; ``quiet`` lines next to each other are folded; a
    ``notice`` is a warning after which everything is as it was asked for.
    """

    status: str
    sign: str
    name: str
    stage: str
    because: str
    message: str = ""
    notes: tuple[tuple[str, str], ...] = ()  # (what, text): meaning, instead, fix, source
    href: str = ""
    quiet: bool = False
    notice: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return the line as JSON for the face."""
        return {
            "status": self.status,
            "sign": self.sign,
            "name": self.name,
            "stage": self.stage,
            "because": self.because,
            "message": self.message,
            "notes": [list(note) for note in self.notes],
            "href": self.href,
            "quiet": self.quiet,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """What every panel has: an id, a title, and ``alt``, the panel said in one sentence.

    A ``wide`` one has a row for itself where the host is wide: its texts or columns need the room.
    """

    id: str
    title: str
    alt: str
    wide: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdicts(Panel):
    """Verdicts in the order in which the system meets them."""

    items: tuple[Item, ...]

    def runs(self) -> list[tuple[Item, ...]]:
        """Return the lines as they are shown: quiet neighbours of one stage together."""
        groups = groupby(self.items, key=lambda item: (item.stage, item.quiet))
        runs: list[tuple[Item, ...]] = []
        for (_, quiet), items in groups:
            runs += [tuple(items)] if quiet else [(item,) for item in items]
        return runs

    def to_json(self) -> dict[str, Any]:
        """Return the panel as JSON for the face."""
        runs = [{"said": said(run), "items": [i.to_json() for i in run]} for run in self.runs()]
        return _head(self, "verdicts") | {"runs": runs}


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts(Panel):
    """Name, value, and how the value came about; ``tones`` tie a row to cells of that colour."""

    rows: tuple[tuple[str, str, str], ...]
    tones: tuple[int, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the panel as JSON for the face."""
        rows = [list(row) for row in self.rows]
        return _head(self, "facts") | {"rows": rows, "tones": list(self.tones)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid(Panel):
    """Cells in rows and columns.

    ``cells[row][column]`` is (text, tone, key): ``tone`` is an index into ``legend``, or -1 for a
    cell that holds nothing; cells of any two grids of a view that have the same ``key`` are the
    same thing seen twice. ``say`` is the sentence for one cell, with {row}, {column}, {text} and
    {legend}, the word of its tone.
    ``sample`` are the rows that the still table shows; ``drawn`` grids are in the still picture.
    A click, Enter or Space on a cell sets the control ``sets`` to ``values[row][column]``, unless
    that is None; ``chosen`` cells are those that the state holds. ``sets`` may name several
    controls with spaces between: a value then is a text with one word for each. ``large`` cells
    are made for fingers.
    """

    corner: str
    columns: tuple[str, ...]
    rows: tuple[str, ...]
    cells: Sequence[Sequence[tuple[str, int, int]]]
    legend: tuple[str, ...]
    say: str
    nothing: str = "nothing"
    sample: tuple[int, ...] = ()
    drawn: bool = False  # whether the still picture shows it
    sets: str = ""
    values: Sequence[Sequence[int | str | None]] = ()
    chosen: tuple[tuple[int, int], ...] = ()
    tones: tuple[int, ...] = ()  # index into TONES of each in legend, where not 0, 1, 2, ...
    large: bool = False

    def __post_init__(self) -> None:
        if len(self.rows) * len(self.columns) > MOST_CELLS:
            raise ValueError(f"grid {self.id}: more than {MOST_CELLS} cells")
        if len(self.legend) > len(TONES):
            raise ValueError(f"grid {self.id}: more than {len(TONES)} tones")

    def hues(self) -> list[int]:
        """Return the index into TONES of each word of the legend."""
        return list(self.tones or range(len(self.legend)))

    def to_json(self) -> dict[str, Any]:
        """Return the panel as JSON for the face."""
        return _head(self, "grid") | {
            "corner": self.corner,
            "columns": list(self.columns),
            "rows": list(self.rows),
            "text": [[cell[0] for cell in row] for row in self.cells],
            "tone": [[cell[1] for cell in row] for row in self.cells],
            "key": [[cell[2] for cell in row] for row in self.cells],
            "legend": list(self.legend),
            "say": self.say,
            "nothing": self.nothing,
            "sample": list(self.sample),
            "sets": self.sets,
            "values": [list(row) for row in self.values],
            "chosen": [list(place) for place in self.chosen],
            "tones": self.hues(),
            "large": self.large,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """One mark of a drawing, in its units; y grows downwards.

    ``kind`` and what ``at`` holds: ``box`` x, y, width, height; ``line`` x, y, x, y, ... of two
    points or more; ``area`` the same, filled; ``dot`` x, y, radius; ``text`` x, y. ``tone`` is an
    index into TONES, -1 for plain ink, -2 for dim ink; ``strong`` takes the hue and not its tint.
    Shapes and cells with the same ``key`` are the same thing; ``say`` is read where it is pointed
    at.
    """

    kind: str
    at: tuple[float, ...]
    tone: int = -1
    text: str = ""
    anchor: str = "start"  # of a text: start, middle, end
    strong: bool = False
    dashed: bool = False
    key: int = -1
    say: str = ""

    def to_json(self) -> list[Any]:
        """Return the mark as JSON for the face: what is at its default at the end is left out."""
        at = [round(number, 2) for number in self.at]
        row = [self.kind, at, self.tone, self.text, self.anchor, int(self.strong)]
        row += [int(self.dashed), self.key, self.say]
        plain = [None, None, -1, "", "start", 0, 0, -1, ""]
        while row[-1] == plain[-1]:
            row.pop()
            plain.pop()
        return row


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing(Panel):
    """Shapes on a sheet of ``width`` x ``height``; what they say is in ``alt`` and other panels.

    ``legend`` names the tones used: (tone, what it stands for). A host that is too narrow scrolls,
    first to ``centre``, an x.
    """

    width: int
    height: int
    shapes: tuple[Shape, ...]
    legend: tuple[tuple[int, str], ...] = ()
    centre: float = 0

    def __post_init__(self) -> None:
        if len(self.shapes) > MOST_SHAPES:
            raise ValueError(f"drawing {self.id}: more than {MOST_SHAPES} shapes")

    def to_json(self) -> dict[str, Any]:
        """Return the panel as JSON for the face."""
        return _head(self, "drawing") | {
            "width": self.width,
            "height": self.height,
            "centre": round(self.centre),
            "shapes": [shape.to_json() for shape in self.shapes],
            "legend": [list(entry) for entry in self.legend],
        }


AnyPanel = Verdicts | Facts | Grid | Drawing


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What an explorer answers for one state.

    ``status`` and ``sign`` colour the answer; ``answer`` is one sentence, read out by the live
    region; ``cli`` and ``python`` reproduce the view outside the explorer.
    """

    status: str
    sign: str
    answer: str
    panels: tuple[AnyPanel, ...]
    cli: str
    python: str

    def to_json(self) -> dict[str, Any]:
        """Return the view as JSON for the face."""
        return {
            "schema": 1,
            "status": self.status,
            "sign": self.sign,
            "answer": self.answer,
            "panels": [panel.to_json() for panel in self.panels],
            "cli": self.cli,
            "python": self.python,
        }


def said(run: Sequence[Item]) -> str:
    """Return what a fold says: how many of each status.

    >>> item = Item(status="passes", sign="", name="", stage="S1", because="")
    >>> said([item, item])
    '2 passes'
    """
    counts: dict[str, int] = {}
    for item in run:
        counts[item.status] = counts.get(item.status, 0) + 1
    return ", ".join(f"{count} {status.replace('-', ' ')}" for status, count in counts.items())


def _head(panel: Panel, kind: str) -> dict[str, Any]:
    head: dict[str, Any] = {"kind": kind, "id": panel.id, "title": panel.title, "alt": panel.alt}
    return head | {"wide": True} if panel.wide else head
