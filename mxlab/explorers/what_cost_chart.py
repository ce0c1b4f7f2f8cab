"""Charts as drawings: lines over logarithmic axes, and bars."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor, log10

from mxlab.explorers import colours
from mxlab.explorers.panels import Drawing, Shape

_WIDTH, _HEIGHT = 728, 380
_LEFT, _RIGHT, _TOP, _BOTTOM = 62, 562, 20, 332
_APART = 15  # between the labels at the ends of lines


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One line: points (x, y), a hue, whether it is the one to look at; ``dashed`` for a bound."""

    name: str
    points: Sequence[tuple[float, float]]
    tone: int
    strong: bool = False
    dashed: bool = False


@dataclass(frozen=True, slots=True)
class _Axis:
    """A logarithmic axis: value -> place on the sheet."""

    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        part = (log10(value) - log10(self.low)) / (log10(self.high) - log10(self.low))
        return self.start + part * (self.end - self.start)

    def ticks(self) -> list[float]:
        """Return 1, 2, 5 times powers of ten, or powers of ten alone where those are many."""
        found = []
        for power in range(floor(log10(self.low)), ceil(log10(self.high)) + 1):
            found += [digit * 10.0**power for digit in (1, 2, 5)]
        inside = [tick for tick in found if self.low <= tick <= self.high]
        return inside if len(inside) <= 10 else [t for t in inside if _digit(t) == 1]


def _digit(value: float) -> int:
    return int(f"{value:e}"[0])


def lines(
    *, id: str, title: str, alt: str, x: str, y: str, series: Sequence[Series], mark: float
) -> Drawing:
    """Return lines over logarithmic axes; ``mark`` is the x that is looked at."""
    xs = [point[0] for one in series for point in one.points]
    ys = [point[1] for one in series for point in one.points]
    across = _Axis(min(xs) * 0.8, max(xs) * 1.25, _LEFT, _RIGHT)
    up = _Axis(min(ys) * 0.8, max(ys) * 1.4, _BOTTOM, _TOP)
    shapes = [
        Shape(kind="line", at=(_LEFT, _BOTTOM, _RIGHT, _BOTTOM), tone=-2),
        Shape(kind="line", at=(_LEFT, _TOP, _LEFT, _BOTTOM), tone=-2),
        Shape(kind="text", at=((_LEFT + _RIGHT) / 2, _HEIGHT - 8), text=x, anchor="middle"),
        Shape(kind="text", at=(_LEFT - 52, _TOP - 6), text=y),
    ]
    for tick in across.ticks():
        at = across.at(tick)
        shapes.append(Shape(kind="line", at=(at, _BOTTOM, at, _BOTTOM + 5), tone=-2))
        shapes.append(Shape(kind="text", at=(at, _BOTTOM + 19), text=f"{tick:,g}",
                            anchor="middle", tone=-2))  # fmt: skip
    for tick in up.ticks():
        at = up.at(tick)
        shapes.append(Shape(kind="line", at=(_LEFT - 5, at, _LEFT, at), tone=-2))
        shapes.append(Shape(kind="text", at=(_LEFT - 9, at + 4), text=f"{tick:,g}",
                            anchor="end", tone=-2))  # fmt: skip
    if across.low <= mark <= across.high:
        at = across.at(mark)
        shapes.append(Shape(kind="line", at=(at, _TOP, at, _BOTTOM), tone=-2, dashed=True))
    ends = []
    for number, one in enumerate(series):
        path = [place for px, py in one.points for place in (across.at(px), up.at(py))]
        said = f"{one.name}: " + ", ".join(f"{_plain(py)} at {_plain(px)}" for px, py in one.points)
        if len(path) > 2:
            shapes.append(Shape(kind="line", at=tuple(path), tone=one.tone, strong=one.strong,
                                dashed=one.dashed, key=number, say=said))  # fmt: skip
        for px, py in one.points if not one.dashed else ():
            shapes.append(Shape(kind="dot", at=(across.at(px), up.at(py), 3 if one.strong else 2),
                                tone=one.tone, key=number,
                                say=f"{one.name}: {_plain(py)} at {_plain(px)}"))  # fmt: skip
        ends.append((path[-1], path[-2], one, number))
    for (y_end, x_end, one, number), label in zip(ends, _spread([e[0] for e in ends]), strict=True):
        shapes.append(Shape(kind="line", at=(x_end + 5, y_end, _RIGHT + 8, label), tone=-2))
        shapes.append(Shape(kind="text", at=(_RIGHT + 11, label + 4), text=one.name, tone=one.tone,
                            strong=one.strong, key=number))  # fmt: skip
    return Drawing(id=id, title=title, alt=alt, width=_WIDTH, height=_HEIGHT, shapes=tuple(shapes))


def _plain(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def _spread(places: Sequence[float]) -> list[float]:
    """Return places at least ``_APART`` from each other, in the same order, on the sheet."""
    order = sorted(range(len(places)), key=lambda i: places[i])
    found = list(places)
    last: float = _TOP - _APART
    for i in order:
        found[i] = last = max(places[i], last + _APART)
    limit: float = _BOTTOM + 12
    for i in reversed(order):
        found[i] = limit = min(found[i], limit)
        limit -= _APART
    return found


def bars(
    *,
    id: str,
    title: str,
    alt: str,
    unit: str,
    values: Mapping[str, Mapping[str, float]],
    ceiling: float,
) -> Drawing:
    """Return bars in groups, heading -> name -> value, and the ceiling as a line."""
    left, right, row, y = 250, 620, 20, 16
    most = max([ceiling, *(value for group in values.values() for value in group.values())])
    shapes = []
    for heading, group in values.items():
        y += 8
        shapes.append(Shape(kind="text", at=(8, y + 13), text=heading, strong=True))
        for number, (name, value) in enumerate(group.items()):
            y += row
            tone = colours.RIGHT if name.startswith("mxlab") else colours.REFERENCE
            wide, short = max(1.0, (right - left) * value / most), name.removeprefix("mxlab ")
            shapes.append(Shape(kind="text", at=(left - 8, y + 12), text=short, anchor="end"))
            shapes.append(Shape(kind="box", at=(left, y, wide, row - 5), tone=tone, key=number,
                                say=f"{name}, {heading}: {_plain(value)} {unit}"))  # fmt: skip
            shapes.append(Shape(kind="text", at=(_WIDTH - 8, y + 12), text=_plain(value),
                                anchor="end"))  # fmt: skip
        y += row
    at = left + (right - left) * ceiling / most
    shapes.append(Shape(kind="line", at=(at, 16, at, y), tone=colours.WRONG, dashed=True,
                        say=f"ceiling: {_plain(ceiling)} {unit}"))  # fmt: skip
    shapes.append(Shape(kind="text", at=(at, 12), text=f"ceiling {_plain(ceiling)} {unit}",
                        anchor="middle", tone=colours.WRONG))  # fmt: skip
    return Drawing(
        id=id,
        title=title,
        alt=alt,
        width=_WIDTH,
        height=y + 6,
        shapes=tuple(shapes),
        legend=((colours.RIGHT, "mxlab"), (colours.REFERENCE, "others")),
    )
