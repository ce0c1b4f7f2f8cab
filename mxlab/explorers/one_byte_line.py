"""The number line around one code: its neighbours, and what rounds to it."""

from fractions import Fraction
from math import isfinite

from mxlab.codec import Decoded, Encoded
from mxlab.explorers import colours
from mxlab.explorers.panels import Drawing, Shape
from mxlab.formats import Format

_WIDTH, _HEIGHT, _AXIS, _PAD = 720, 108, 58, 50
_AROUND = 3  # neighbours on each side
_LETTER = 7  # the width of a digit


def shown(value: float | int | Fraction, digits: int = 10) -> str:
    """Return a number in about ``digits`` digits, far powers of two as such.

    >>> shown(448.0), shown(2.0**-127), shown(-0.0), shown(0.001953125), shown(0.001953125, 4)
    ('448', '2^-127', '-0', '0.001953125', '2^-9')
    """
    number = float(value)
    if not isfinite(number):
        return {"nan": "NaN", "inf": "infinity", "-inf": "-infinity"}[str(number)]
    plain = f"{number:.{digits}g}"
    if number and (len(plain.lstrip("-")) > digits + 2 or float(plain) != number):
        numerator, denominator = abs(number).as_integer_ratio()
        if numerator & (numerator - 1) == 0 and denominator & (denominator - 1) == 0:
            power = numerator.bit_length() - denominator.bit_length()
            return f"{'-' if number < 0 else ''}2^{power}"
        return f"{number:.{min(digits, 5)}g}"
    return plain


def number_line(d: Decoded, encoded: Encoded | None) -> Drawing:
    """Return the codes around ``d``, what rounds to it, and the value where it is near."""
    fmt = d.format
    if d.kind in ("nan", "inf"):
        text = f"0x{d.code:02X} is no number: it has no place on the number line"
        words = Shape(kind="text", at=(_WIDTH / 2, 40), text=text, anchor="middle")
        return _sheet((words,), text + ".")
    magnitude = d.code & 0x7F if fmt.signed else d.code
    codes = [
        c for c in range(magnitude - _AROUND, magnitude + _AROUND + 1) if 0 <= c <= fmt.max_code
    ]
    if fmt.signed and codes[0] == 0 and magnitude < _AROUND:
        mirrored = [-c for c in range(_AROUND - magnitude, 0, -1)]
        codes = mirrored + codes  # the other sign's side of zero
    flip = -1 if d.sign else 1
    places = [(flip * _size(c, fmt), c) for c in codes]
    places.sort()
    scale = _Scale([value for value, _ in places], fmt)
    shapes = [*_interval(d, magnitude, scale, flip)]
    left, right = scale.x(places[0][0]), scale.x(places[-1][0])
    shapes.append(Shape(kind="line", at=(left - 20, _AXIS, right + 20, _AXIS), tone=-2))
    labels = [shown(value, 6) for value, _ in places]
    ends = [scale.x(value) for value, _ in places]
    crowded = any(
        ends[i + 1] - ends[i] < _LETTER * (len(labels[i]) + len(labels[i + 1])) / 2 + 8
        for i in range(len(ends) - 1)
    )
    for number, (value, c) in enumerate(places):
        code = _code(c, fmt, d.sign)
        x, here = scale.x(value), c == magnitude
        tone = colours.REFERENCE if not here else colours.EXPONENT
        say = f"0x{code:02X} is {shown(value)}"
        shapes.append(
            Shape(kind="dot", at=(x, _AXIS, 6 if here else 4), tone=tone, key=code, say=say)
        )
        y = _AXIS + (42 if crowded and number % 2 else 25)
        shapes.append(
            Shape(kind="text", at=(x, y), text=labels[number], anchor="middle", strong=here)
        )
    shapes += _value(encoded, scale, places)
    low, high = _ends(magnitude, fmt)
    alt = (
        f"Around 0x{d.code:02X}, which is {shown(d.value)}: neighbours "
        + ", ".join(shown(value) for value, c in places if c != magnitude)
        + f". What rounds to it lies {_span(low, high, flip)}"
        + _ties(magnitude, fmt)
    )
    return _sheet(tuple(shapes), alt, scale.x(flip * fmt.magnitude(magnitude)))


def _sheet(shapes: tuple[Shape, ...], alt: str, centre: float = 0) -> Drawing:
    return Drawing(
        id="line",
        title="On the number line",
        alt=alt,
        width=_WIDTH,
        height=_HEIGHT,
        shapes=shapes,
        centre=centre,
        legend=(
            (colours.EXPONENT, "this byte, and what rounds to it"),
            (colours.REFERENCE, "its neighbours"),
            (colours.WRONG, "the value to encode"),
        ),
    )


def _size(c: int, fmt: Format) -> Fraction:
    return fmt.magnitude(c) if c >= 0 else -fmt.magnitude(-c)


def _code(c: int, fmt: Format, sign: int) -> int:
    if not fmt.signed:
        return c
    other = (c < 0) != bool(sign)
    return abs(c) | (0x80 if other else 0)


def _even(magnitude: int, fmt: Format) -> bool:
    return fmt.rounding == "nearest-even" and magnitude % 2 == 0


def _ends(magnitude: int, fmt: Format) -> tuple[Fraction | None, Fraction | None]:
    """Return the magnitudes between which values round to a code; None without a limit."""
    value = fmt.magnitude(magnitude)
    low: Fraction | None
    if magnitude:
        low = (fmt.magnitude(magnitude - 1) + value) / 2
    else:
        low = Fraction(0) if fmt.has_zero else None  # the other side belongs to the other zero
    high = (value + fmt.magnitude(magnitude + 1)) / 2 if magnitude < fmt.max_code else None
    return low, high


def _span(low: Fraction | None, high: Fraction | None, flip: int) -> str:
    """Say the interval of values, the smaller end first."""
    if high is None:
        return f"{'above' if flip > 0 else 'below'} {shown(float(flip * (low or 0)))}"
    if low is None:
        return f"below {shown(float(high))}"
    ends = sorted((flip * low, flip * high))
    return f"from {shown(float(ends[0]))} to {shown(float(ends[1]))}"


def _ties(magnitude: int, fmt: Format) -> str:
    if fmt.rounding != "nearest-even":
        return "; halfway goes to the larger."
    return ", ties included." if _even(magnitude, fmt) else ", ties excluded."


class _Scale:
    """Where a value is drawn: evenly by value, for powers of two by code."""

    def __init__(self, values: list[Fraction], fmt: Format) -> None:
        self.values, self.by_code = values, not fmt.signed
        self.step = (_WIDTH - 2 * _PAD) / max(1, len(values) - 1)

    def x(self, value: Fraction) -> float:
        """Return the place of a value, drawn at the edge where it is past it."""
        first, last = self.values[0], self.values[-1]
        value = min(max(value, first), last)
        if last == first:
            return _WIDTH / 2
        if not self.by_code:
            return _PAD + float((value - first) / (last - first)) * (_WIDTH - 2 * _PAD)
        below = max(i for i, one in enumerate(self.values) if one <= value)
        if below + 1 == len(self.values):
            return _PAD + below * self.step
        low, high = self.values[below], self.values[below + 1]
        return _PAD + (below + float((value - low) / (high - low))) * self.step


def _interval(d: Decoded, magnitude: int, scale: _Scale, flip: int) -> list[Shape]:
    low, high = _ends(magnitude, d.format)
    start = scale.values[0] if low is None else flip * low
    stop = scale.values[-1] if high is None else flip * high
    if high is None and flip < 0:
        stop = scale.values[0]
    left, right = sorted((scale.x(start), scale.x(stop)))
    if low is None:
        left -= 20
    if high is None:
        left, right = (left - 20, right) if flip < 0 else (left, right + 20)
    shapes = [Shape(kind="box", at=(left, _AXIS - 22, right - left, 44), tone=colours.EXPONENT)]
    for end in (low, high):
        if end:
            x = scale.x(flip * end)
            closed = _even(magnitude, d.format)
            whom = "the code with last bit 0" if d.format.signed else "the larger"
            say = f"{shown(float(flip * end))} is halfway: it goes to {whom}"
            shapes.append(
                Shape(kind="line", at=(x, _AXIS - 26, x, _AXIS + 26), tone=colours.EXPONENT,
                      strong=closed, dashed=not closed, say=say)
            )  # fmt: skip
    return shapes


def _value(
    encoded: Encoded | None, scale: _Scale, places: list[tuple[Fraction, int]]
) -> list[Shape]:
    """Return a mark for the value, where it lies in the picture."""
    if encoded is None or not isfinite(float(encoded.value)):
        return []
    exact = Fraction(encoded.value)
    if not places[0][0] <= exact <= places[-1][0]:
        return []
    x = scale.x(exact)
    words = f"{shown(encoded.value)} becomes 0x{encoded.code:02X}"
    return [
        Shape(kind="line", at=(x, 22, x, _AXIS), tone=colours.WRONG, strong=True, say=words),
        Shape(kind="text", at=(x, 16), text=shown(encoded.value), anchor="middle", strong=True),
    ]
