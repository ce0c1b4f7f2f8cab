"""A view as one SVG: the answer, the guards stage by stage, drawings, the grids that ask for it.

It stands alone on its own light card, because as an ``<img>`` it cannot follow the page's theme.
"""

import re

from mxlab.explorers.colours import CARD, DIM, EMPTY, INK, RULE, SOFT, STATUS, TONES
from mxlab.explorers.panels import Drawing, Grid, Item, Shape, Verdicts, View

_WIDTH = 760
_PAD = 16
_LINE = 88  # characters of the answer in one line
_CELL_WIDTH, _CELL_HEIGHT = 42, 15
#: xml.sax.saxutils would do it, and import urllib, http and email: a second in a browser
_ESCAPED = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;"})
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def clean(text: str) -> str:
    """Return text without the characters that XML forbids, escaped.

    >>> clean("<b>\\0")
    '&lt;b&gt;\ufffd'
    """
    return _NOT_XML.sub("\ufffd", text).translate(_ESCAPED)


def picture(title: str, view: View) -> str:
    """Return the view as SVG text."""
    parts: list[str] = []
    y = _PAD + 18
    parts.append(_text(_PAD, y, title, size=17, weight=650))
    hue = STATUS.get(view.status, INK)
    lines = _wrap(f"{view.sign} {view.answer}", _LINE)
    y += 14
    parts.append(_box(_PAD, y, 4, 20 * len(lines) + 6, hue))
    for line in lines:
        y += 20
        parts.append(_text(_PAD + 14, y - 3, line, size=14, weight=600))
    y += 26
    for panel in view.panels:
        if isinstance(panel, Verdicts):
            if len(panel.items) > 1:  # of a single one the answer says it all
                y = _stages(parts, panel, y)
        elif isinstance(panel, Grid) and panel.drawn:
            y = _grid(parts, panel, y)
        elif isinstance(panel, Drawing):
            y = _drawing(parts, panel, y)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {y}" width="{_WIDTH}" '
        f'height="{y}" font-family="system-ui, sans-serif" fill="{INK}">'
        f'<rect width="{_WIDTH}" height="{y}" rx="8" fill="{CARD}" stroke="{RULE}"/>'
        + "".join(parts)
        + "</svg>"
    )


def _stages(parts: list[str], panel: Verdicts, y: int) -> int:
    """Draw one box for each stage with a sign for each guard; return the y below it."""
    stages: dict[str, list[Item]] = {}
    for item in panel.items:
        if item.status != "not-reached":
            stages.setdefault(item.stage, []).append(item)
    parts.append(_text(_PAD, y, panel.title, size=13, weight=650))
    if not stages:
        return y + 20
    y += 10
    gap = 8
    wide = (_WIDTH - 2 * _PAD - gap * (len(stages) - 1)) // len(stages)
    in_a_row = max(1, (wide - 8) // 17)
    tall = 26 + 18 * max(-(-len(items) // in_a_row) for items in stages.values())
    for number, (stage, items) in enumerate(stages.items()):
        x = _PAD + number * (wide + gap)
        parts.append(_box(x, y, wide, tall, SOFT, RULE))
        parts.append(_text(x + 6, y + 15, stage, size=12, fill=DIM))
        for index, item in enumerate(items):
            cx = x + 13 + index % in_a_row * 17
            cy = y + 32 + index // in_a_row * 18
            hue = STATUS.get(item.status, DIM)
            parts.append(
                f'<circle cx="{cx}" cy="{cy - 4}" r="7.5" fill="{hue}"/>'
                + _text(cx, cy, item.sign, size=11, weight=700, fill=CARD, anchor="middle")
            )
    return y + tall + 28


def _grid(parts: list[str], panel: Grid, y: int) -> int:
    """Draw a grid with its headings and legend; return the y below it."""
    parts.append(_text(_PAD, y, panel.title, size=13, weight=650))
    y += 18
    across = (_WIDTH - 2 * _PAD) // max(1, len(panel.legend))
    for index, name in enumerate(panel.legend):
        x = _PAD + index * across
        parts.append(_swatch(x, y - 9, panel.hues()[index]))
        parts.append(_text(x + 16, y, name, size=11, fill=DIM))
    y += 20
    left = _PAD + max(48, min(200, 6 * max(map(len, panel.rows), default=0)) + 8)
    longest = max((len(text) for row in panel.cells for text, _, _ in row), default=0)
    widest = (_WIDTH - left - _PAD) // len(panel.columns)
    width = min(max(_CELL_WIDTH, 5 * longest + 8), widest)
    room = max(1, (width + 1) // 5)  # characters that a cell shows
    parts.append(_text(left - 8, y, panel.corner, size=10, fill=DIM, anchor="end"))
    for index, name in enumerate(panel.columns):
        x = left + index * width + width // 2
        parts.append(_text(x, y, name, size=10, fill=DIM, anchor="middle"))
    y += 5
    boxes: dict[str, list[str]] = {}
    hues = panel.hues()
    words = []
    for name, row in zip(panel.rows, panel.cells, strict=True):
        parts.append(_text(left - 8, y + 11, name, size=10, fill=DIM, anchor="end"))
        for index, (text, tone, _) in enumerate(row):
            x = left + index * width
            tint = EMPTY if tone < 0 else TONES[hues[tone]].tint
            shape = f"M{x} {y}h{width - 1}v{_CELL_HEIGHT - 1}h{1 - width}z"
            boxes.setdefault(tint, []).append(shape)
            if text:
                words.append(f'<text x="{x + width // 2}" y="{y + 10}">{clean(text[:room])}</text>')
        y += _CELL_HEIGHT
    parts += [f'<path fill="{tint}" d="{"".join(shapes)}"/>' for tint, shapes in boxes.items()]
    parts.append('<g font-size="9" text-anchor="middle">' + "".join(words) + "</g>")
    return y + 24


def _drawing(parts: list[str], panel: Drawing, y: int) -> int:
    """Draw a drawing under its title and legend; return the y below it."""
    parts.append(_text(_PAD, y, panel.title, size=13, weight=650))
    y += 18
    across = (_WIDTH - 2 * _PAD) // max(1, len(panel.legend))
    for index, (tone, name) in enumerate(panel.legend):
        x = _PAD + index * across
        parts.append(_swatch(x, y - 9, tone))
        parts.append(_text(x + 16, y, name, size=11, fill=DIM))
    y += 10 if panel.legend else -8
    scale = (_WIDTH - 2 * _PAD) / panel.width
    parts.append(f'<g transform="translate({_PAD} {y}) scale({scale:.4g})">')
    parts += [shape_svg(shape) for shape in panel.shapes]
    parts.append("</g>")
    return y + round(panel.height * scale) + 28


def shape_svg(shape: Shape) -> str:
    """Return one shape as SVG, in the colours of the light card."""
    hue = {-1: INK, -2: DIM}.get(shape.tone) or TONES[shape.tone].hue
    filled = hue if shape.strong or shape.tone < 0 else TONES[shape.tone].tint
    at = [f"{number:g}" for number in (round(number, 2) for number in shape.at)]
    match shape.kind:
        case "text":
            weight = ' font-weight="650"' if shape.strong else ""
            anchor = f' text-anchor="{shape.anchor}"' if shape.anchor != "start" else ""
            return (
                f'<text x="{at[0]}" y="{at[1]}" font-size="12" fill="{hue}"{weight}{anchor}>'
                f"{clean(shape.text)}</text>"
            )
        case "box":
            x, y, width, height = at
            return f'<rect x="{x}" y="{y}" width="{width}" height="{height}" fill="{filled}"/>'
        case "dot":
            return f'<circle cx="{at[0]}" cy="{at[1]}" r="{at[2]}" fill="{hue}"/>'
        case "area":
            return f'<path d="M{" ".join(at)}z" fill="{filled}"/>'
        case _:
            width = "2" if shape.strong else "1"
            dashes = ' stroke-dasharray="4 3"' if shape.dashed else ""
            return (
                f'<path d="M{" ".join(at)}" fill="none" stroke="{hue}" '
                f'stroke-width="{width}"{dashes}/>'
            )


def _swatch(x: int, y: int, tone: int) -> str:
    if tone < 0:
        return _box(x, y, 11, 11, EMPTY, RULE)
    return _box(x, y, 11, 11, TONES[tone].tint, TONES[tone].hue)


def _box(x: int, y: int, width: int, height: int, fill: str, stroke: str = "") -> str:
    edge = f' rx="4" stroke="{stroke}"' if stroke else ""
    return f'<rect x="{x}" y="{y}" width="{width}" height="{height}" fill="{fill}"{edge}/>'


def _text(
    x: int,
    y: int,
    text: str,
    *,
    size: int,
    weight: int = 400,
    fill: str = "",
    anchor: str = "",
) -> str:
    looks = f' font-weight="{weight}"' if weight != 400 else ""
    looks += f' fill="{fill}"' if fill else ""
    looks += f' text-anchor="{anchor}"' if anchor else ""
    return f'<text x="{x}" y="{y}" font-size="{size}"{looks}>{clean(text)}</text>'


def _wrap(text: str, width: int) -> list[str]:
    """Return text in lines of at most ``width`` characters, at most six."""
    lines = [""]
    for word in text.split():
        if len(lines[-1]) + len(word) + 1 > width and lines[-1]:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word[:width]}".strip()
    return lines if len(lines) <= 6 else [*lines[:5], lines[5] + " ..."]
