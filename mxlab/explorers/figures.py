"""A view as a matplotlib figure, for print and for figures of one's own, in the face's colours.

>>> from mxlab.explorers import explorer
>>> record = explorer("will_it_run")
>>> len(figure(record.view(record.defaults())).axes) > 0
True
"""

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Polygon, Rectangle

from mxlab.explorers.colours import DIM, EMPTY, INK, STATUS, TONES
from mxlab.explorers.panels import AnyPanel, Drawing, Facts, Grid, Shape, Verdicts, View

_WIDTH = 7.6  # inches, as wide as the still picture at 100 points an inch
_POINTS = 100


def figure(view: View) -> Figure:
    """Return the view as a figure: the answer as title, one axes for each panel that is drawn.

    Verdicts become one line each, facts are left to the text. Needs matplotlib, of the extra
    ``mxlab[lab]``.
    """
    shown = [panel for panel in view.panels if _height(panel) > 0]
    heights = [_height(panel) for panel in shown] or [0.1]
    made = Figure(figsize=(_WIDTH, 0.8 + sum(heights)), layout="constrained")
    made.suptitle(
        f"{view.sign} {view.answer}",
        x=0.01,
        ha="left",
        fontsize=10,
        fontweight="bold",
        wrap=True,
        color=STATUS.get(view.status, INK),
    )
    grids: Any = made.add_gridspec(len(heights), 1, height_ratios=heights)
    for place, panel in enumerate(shown):
        axes = made.add_subplot(grids[place])
        axes.set_title(panel.title, loc="left", fontsize=9, fontweight="bold")
        axes.axis("off")
        if isinstance(panel, Drawing):
            _drawing(axes, panel)
        elif isinstance(panel, Grid):
            _grid(axes, panel)
        elif isinstance(panel, Verdicts):
            _verdicts(axes, panel)
    return made


def _height(panel: AnyPanel) -> float:
    """Inches that a panel takes; 0 where it is not drawn."""
    if isinstance(panel, Drawing):
        return 0.35 + _WIDTH * panel.height / panel.width
    if isinstance(panel, Verdicts):
        return 0.35 + 0.17 * len(_heard(panel))
    if isinstance(panel, Facts) or not panel.drawn:
        return 0.0
    return 0.6 + 0.15 * len(panel.rows)


def _heard(panel: Verdicts) -> list[tuple[str, str]]:
    """Return (status, line) of what is not quiet."""
    return [
        (item.status, f"{item.stage}  {item.sign} {item.status}  {item.name}: {item.because}")
        for item in panel.items
        if not item.quiet
    ]


def _verdicts(axes: Axes, panel: Verdicts) -> None:
    lines = _heard(panel)
    axes.set_ylim(len(lines), 0)
    for number, (status, text) in enumerate(lines):
        axes.text(
            0,
            number + 0.5,
            text[:130],
            color=STATUS.get(status, INK),
            fontsize=7,
            va="center",
            family="monospace",
            parse_math=False,
        )


def _grid(axes: Axes, panel: Grid) -> None:
    rows, columns = len(panel.rows), len(panel.columns)
    axes.set_xlim(-1.6, columns)
    axes.set_ylim(rows, -1)
    small: dict[str, Any] = {"fontsize": 6, "va": "center", "parse_math": False}
    axes.text(-0.2, -0.5, panel.corner, ha="right", color=DIM, **small)
    for c, name in enumerate(panel.columns):
        axes.text(c + 0.5, -0.5, name, ha="center", color=DIM, **small)
    for r, row in enumerate(panel.cells):
        axes.text(-0.2, r + 0.5, panel.rows[r], ha="right", color=DIM, **small)
        for c, (text, tone, _) in enumerate(row):
            tint = EMPTY if tone < 0 else TONES[panel.hues()[tone]].tint
            axes.add_patch(Rectangle((c, r), 1, 1, facecolor=tint, edgecolor="white", lw=0.5))
            axes.text(c + 0.5, r + 0.5, text, ha="center", color=INK, **small)


def _drawing(axes: Axes, panel: Drawing) -> None:
    axes.set_xlim(0, panel.width)
    axes.set_ylim(panel.height, 0)
    axes.set_aspect("equal")
    for shape in panel.shapes:
        _shape(axes, shape)


def _shape(axes: Axes, shape: Shape) -> None:
    hue = {-1: INK, -2: DIM}.get(shape.tone) or TONES[shape.tone].hue
    filled = hue if shape.strong or shape.tone < 0 else TONES[shape.tone].tint
    at = shape.at
    match shape.kind:
        case "text":
            where: Any = {"start": "left", "middle": "center", "end": "right"}[shape.anchor]
            weight = "bold" if shape.strong else "normal"
            axes.text(
                at[0],
                at[1],
                shape.text,
                ha=where,
                color=hue,
                weight=weight,
                fontsize=7,
                parse_math=False,
            )
        case "box":
            axes.add_patch(Rectangle((at[0], at[1]), at[2], at[3], facecolor=filled))
        case "dot":
            axes.plot(*at[:2], "o", color=hue, markersize=2 * at[2] * 72 / _POINTS)
        case "area":
            axes.add_patch(Polygon(list(zip(at[::2], at[1::2], strict=True)), facecolor=filled))
        case _:
            style = "--" if shape.dashed else "-"
            axes.plot(at[::2], at[1::2], style, color=hue, lw=1.6 if shape.strong else 0.8)
