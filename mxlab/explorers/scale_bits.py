"""How an address is made: digits of row and column with their strides, and bit by bit."""

from mxlab.explorers import colours
from mxlab.explorers.panels import Drawing, Facts, Shape
from mxlab.explorers.scale_window import Window
from mxlab.layout_notation import bases, modes

_ROW, _COLUMN, _OFFSET = colours.EXPONENT, colours.MANTISSA, colours.REFERENCE


def digits(shown: Window, row: int, col: int) -> Facts:
    """Return the digits of a place, what each adds in bytes, and their sum."""
    step = shown.layout.itemsize
    rows, said = [], []
    tones = []
    for name, tone, index, axis in zip(
        ("row", "column"), (_ROW, _COLUMN), (row, col), modes(shown.layout, shown.rows, shown.cols),
        strict=True,
    ):  # fmt: skip
        below = 1
        for place, mode in enumerate(axis):
            digit = index // below % mode.size if place < len(axis) - 1 else index // below
            last = place == len(axis) - 1
            how = f"{index:,}" + (f" // {below:,}" if below > 1 else "")
            how += "" if last else f" % {mode.size:,}"
            adds = digit * mode.stride * step
            if mode.size > 1 or digit:
                rows.append((f"{name}: {how}", f"{adds:,}",
                             f"{digit:,} x {mode.stride * step:,} bytes"))  # fmt: skip
                said.append(f"{digit:,} x {mode.stride * step:,}")
                tones.append(tone)
            below *= mode.size
    if shown.base:
        rows.append(
            (f"batch {shown.batch:,}", f"{shown.base:,}", "each batch is padded on its own")
        )
        said.append(f"{shown.base:,}")
        tones.append(-1)
    byte = shown.byte(row, col)
    rows.append(("byte", f"{byte:,}", "the sum"))
    return Facts(
        id="digits",
        title="The address, digit by digit",
        alt=f"Row {row:,}, column {col:,} is byte {' + '.join(said) or '0'} = {byte:,}.",
        rows=tuple(rows),
        tones=(*tones, colours.SCALE),
    )


def bits(shown: Window, row: int, col: int) -> Drawing | None:
    """Return which bit of row and column becomes which bit of the offset; None where none does.

    The whole offset where each bit has one place in it, else the offset inside one tile.
    """
    found, what = shown.layout, "the offset"
    linear = bases(found, shown.rows, shown.cols)
    if linear is None:
        tile = found.tile
        linear = bases(found, *tile)
        row, col, what = row % tile[0], col % tile[1], "the offset inside its tile"
    if not linear or not any(linear.values()):
        return None
    moves = [
        (name, tone, bit, index >> bit & 1, (basis * found.itemsize).bit_length() - 1)
        for name, tone, index, key in (
            ("row", _ROW, row, "row"),
            ("column", _COLUMN, col, "col"),
        )
        for bit, basis in reversed(list(enumerate(linear[key])))
    ]
    many = max(place for *_, place in moves) + 1
    width, gap, top, low = 720, 20, 26, 128
    side = min(26.0, (width - 40 - gap) / max(len(moves), many))
    total = side * len(moves) + gap
    x = (width - total) / 2
    right = (width + side * many) / 2
    shapes, said = [], []
    values = [0] * many
    for place, (name, tone, bit, value, to) in enumerate(moves):
        if place and name != moves[place - 1][0]:
            x += gap
        middle, down = x + side / 2, right - side * (to + 0.5)
        say = f"Bit {bit} of the {name} is {value}: bit {to} of {what}, {1 << to:,} bytes"
        shapes.append(Shape(kind="line", at=(middle, top + 24, middle, top + 34, down, low - 10,
                                             down, low), tone=tone if value else -2,
                            strong=bool(value), dashed=not value, key=to, say=say))  # fmt: skip
        shapes += _box(x, top, side, value, tone, to, say)
        shapes.append(Shape(kind="text", at=(middle, top - 6), text=f"{name[0]}{bit}",
                            anchor="middle", tone=-2))  # fmt: skip
        values[to] = value
        said.append(f"{name[0]}{bit} to {to}")
        x += side
    fed = {to: tone for _, tone, _, _, to in moves}
    for to, value in enumerate(values):
        at = right - side * (to + 1)
        say = f"Bit {to} of {what} is {value}, worth {1 << to:,} bytes"
        shapes += _box(at, low, side, value, fed.get(to, _OFFSET), to, say)
        shapes.append(Shape(kind="text", at=(at + side / 2, low + 38), text=str(to),
                            anchor="middle", tone=-2))  # fmt: skip
    number = sum(value << to for to, value in enumerate(values))
    free = [str(to) for to in range(many) if to not in fed]
    return Drawing(
        id="bits",
        title=f"Bit by bit: where each bit of row and column goes in {what}",
        alt=f"{what.capitalize()} is {number:,}, in binary {number:0{many}b}. Bits of row (r) and "
        f"column (c) go to bits {', '.join(said)}"
        + (f"; bits {', '.join(free)} are always 0." if free else "."),
        width=width,
        height=low + 46,
        centre=width / 2,
        shapes=tuple(shapes),
        legend=((_ROW, "bits of the row"), (_COLUMN, "bits of the column")),
    )


def _box(x: float, y: float, side: float, value: int, tone: int, key: int, say: str) -> list[Shape]:
    return [
        Shape(kind="box", at=(x, y, side - 2, 24), tone=tone, key=key, say=say),
        Shape(kind="text", at=(x + side / 2 - 1, y + 16), text=str(value), anchor="middle",
              strong=bool(value)),
    ]  # fmt: skip
