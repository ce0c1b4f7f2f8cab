"""Thirty-two bytes and a scale: one block, element by element, with what rounding does to it."""

from collections import Counter
from fractions import Fraction
from math import floor, isfinite, isnan

from mxlab.block import BLOCK, Block, quantize_block
from mxlab.errors import InputError
from mxlab.explorers import colours
from mxlab.explorers.controls import Choice, Numbers, State, number
from mxlab.explorers.one_byte_line import shown
from mxlab.explorers.panels import AnyPanel, Drawing, Facts, Grid, Shape, View
from mxlab.explorers.protocol import Explorer
from mxlab.formats import ELEMENT_FORMATS, FORMATS
from mxlab.scale import NAN_BYTE, RULES

#: 32 draws of a normal distribution (Python's random, seed 7, three digits): ordinary activations
_NORMAL = (
    "-0.182,0.464,-0.367,1.21,0.107,-0.532,-1.43,0.264,0.718,-0.0912,0.385,-0.644,"
    "1.05,-0.221,0.0137,0.893,-1.12,0.342,-0.476,0.159,0.607,-0.0284,-0.815,1.37,"
    "0.0526,-0.298,0.431,-0.761,0.195,0.982,-0.123,0.552"
)
_PRESETS = (
    ("normal", _NORMAL),
    ("outlier", "30000," + _NORMAL.split(",", 1)[1]),
    ("uniform", ",".join(f"{(2 * i - 31) / 32:g}" for i in range(BLOCK))),
    ("tiny", ",".join(f"{2.0**-133 * (i + 1):.4g}" for i in range(BLOCK))),
    ("with NaN", "nan," + _NORMAL.split(",", 1)[1]),
    ("just too large", "450," + ",".join(f"{2.0 ** (8 - i // 2):g}" for i in range(BLOCK - 1))),
    ("zeros", ",".join(["0"] * (BLOCK - 1) + ["-0.0"])),
)
CONTROLS = (
    Choice(
        name="rule",
        label="Scale rule",
        default="rceil",
        options=tuple((rule.name, rule.name.upper()) for rule in RULES.values()),
        group="The scale",
    ),
    Choice(
        name="format",
        label="Elements",
        default="e4m3",
        options=tuple((fmt.name, fmt.name.upper()) for fmt in ELEMENT_FORMATS.values()),
        group="The elements",
    ),
    Numbers(
        name="values",
        label="Value",
        default=_NORMAL,
        count=BLOCK,
        presets=_PRESETS,
        file="numbers",
        group="The block",
        help="Type, paste a list, drag a box up or down, or step it with the arrow keys.",
    ),
)

#: what can become of an element: (word, sign, tone)
_FATES = (
    ("exact", "=", colours.KEPT),
    ("rounded", "~", colours.ROUNDED),
    ("flushed to zero", "0", colours.FLUSHED),
    ("saturated", "^", colours.SATURATED),
    ("NaN", "?", colours.NOT_A_NUMBER),
)
_COLUMNS = ("value", "value / scale", "code", "comes back as", "error", "what happened")


def view(state: State) -> View:
    """Return the block's scale, codes, decoded values and errors."""
    fmt = FORMATS[str(state["format"])]
    texts = str(state["values"]).split(",")
    try:
        block = quantize_block([number(text) or 0.0 for text in texts], fmt, str(state["rule"]))
    except InputError as error:
        raise InputError(str(error).replace("values[", "value ").replace("]", "", 1)) from None
    fates = [_fate(block, i) for i in range(BLOCK)]
    counts = [sum(fate == one for fate in fates) for one in range(len(_FATES))]
    lost = [f"{counts[i]} {_FATES[i][0]}" for i in (2, 3) if counts[i]]
    nan = block.scale_byte == NAN_BYTE
    answer = (
        "Byte 255: one value is NaN or infinite, so all 32 are NaN."
        if nan
        else f"Scale byte {block.scale_byte}, 2^{block.scale_byte - 127}, for the largest "
        f"magnitude {shown(block.amax)}; {_error(block)}"
        + (f"; {' and '.join(lost)}." if lost else "; nothing saturated, nothing flushed.")
    )
    panels: tuple[AnyPanel, ...] = (
        _facts(block, counts),
        *(() if nan else (_range(block, fates),)),
        _elements(block, fates, counts),
    )
    values = ",".join(texts)
    named = f'"{fmt.name}", rule="{state["rule"]}"'
    return View(
        status="warns" if nan or lost else "passes",
        sign="!" if nan or lost else "=",
        answer=answer,
        panels=panels,
        cli=f"mxlab block --values={values} --format {fmt.name} --rule {state['rule']}",
        python="import mxlab\n"
        f'values = [float(text) for text in "{_floats(texts)}".split(",")]\n'
        f"block = mxlab.quantize_block(values, {named})\nprint(block.scale_byte, block.codes)",
    )


def _floats(texts: list[str]) -> str:
    """Return the numbers as texts that ``float`` takes; hexadecimal ones in full."""
    return ",".join(repr(number(t)) if "x" in t.lower() else t for t in texts)


def _error(block: Block) -> str:
    if block.max_rel_error is None:
        return "no error can be given"
    return f"worst relative error {100 * block.max_rel_error:.3g} %"


def _fate(block: Block, i: int) -> int:
    value, back = block.values[i], block.decoded[i]
    if isnan(back) or not isfinite(value):
        return 4
    if value == back:
        return 0
    if back == 0:
        return 2
    return 3 if abs(value) > block.format.max_value * block.scale else 1


def _facts(block: Block, counts: list[int]) -> Facts:
    fmt, rule = block.format, block.rule
    formula = rule.formula(fmt) if rule else ""
    sqnr = "none" if block.sqnr_db is None else f"{block.sqnr_db:.1f} dB"
    fates = ", ".join(
        f"{count} {fate[0]}" for fate, count in zip(_FATES, counts, strict=True) if count
    )
    return Facts(
        id="scale",
        title="One scale for all 32",
        alt=f"Scale byte {block.scale_byte}, SQNR {sqnr}: {fates}.",
        rows=(
            ("amax", shown(block.amax), "the largest magnitude, as float32"),
            ("scale byte", str(block.scale_byte), f"{formula}, clamped to 0 to 254"),
            ("scale", shown(block.scale), f"2^(byte - 127), {fmt.name.upper()} reaches "
             f"{shown(fmt.max_value * block.scale)}"),
            ("SQNR", sqnr, "signal to quantisation noise of the block"),
            ("elements", str(BLOCK), fates),
            *(("note", "", note) for note in block.notes),
        ),
        tones=(-1, colours.SCALE, colours.SCALE, -1, -1),
    )  # fmt: skip


def _elements(block: Block, fates: list[int], counts: list[int]) -> Grid:
    cells = []
    for i, fate in enumerate(fates):
        value, back = block.values[i], block.decoded[i]
        scaled = "NaN" if block.scale_byte == NAN_BYTE else shown(value / block.scale, 6)
        word, sign, _ = _FATES[fate]
        error = "" if not (isfinite(value) and isfinite(back)) else shown(back - value, 4)
        texts = (shown(value, 6), scaled, f"0x{block.codes[i]:02X}", shown(back, 6), error,
                 f"{sign} {word}")  # fmt: skip
        cells.append(tuple((text, fate, i) for text in texts))
    said = ", ".join(
        f"{count} {fate[0]}" for fate, count in zip(_FATES, counts, strict=True) if count
    )
    return Grid(
        id="elements",
        title="Element by element",
        alt=f"32 values with their codes: {said}. The first, {shown(block.values[0])}, is "
        f"0x{block.codes[0]:02X} and comes back as {shown(block.decoded[0])}.",
        corner="element",
        columns=_COLUMNS,
        rows=tuple(str(i) for i in range(BLOCK)),
        cells=cells,
        legend=tuple(f"{sign} {word}" for word, sign, _ in _FATES),
        tones=tuple(tone for _, _, tone in _FATES),
        say="Element {row}, {column}: {text}",
        sample=tuple(range(BLOCK)),
    )


def _range(block: Block, fates: list[int]) -> Drawing:
    """Return where the scaled magnitudes lie in the format's range, a column for each binade."""
    fmt = block.format
    smallest = fmt.emin - fmt.mantissa_bits
    low, high = smallest - 3, fmt.emax + 2
    width, height, left, base = 720, 190, 30, 150
    step = (width - 2 * left) / (high - low + 1)

    def x(power: int) -> float:
        return left + (power - low) * step

    shapes = [
        Shape(kind="box", at=(x(low), 20, x(smallest - 1) - x(low) , base - 20),
              tone=colours.FLUSHED, say="Below half the smallest code: becomes 0"),
        Shape(kind="box", at=(x(smallest - 1), 20, x(fmt.emin) - x(smallest - 1), base - 20),
              tone=colours.REFERENCE, say="Subnormal codes: fewer mantissa bits"),
        Shape(kind="box", at=(x(fmt.emin), 20, x(fmt.emax + 1) - x(fmt.emin), base - 20),
              tone=colours.KEPT, say="Normal codes: full mantissa"),
        Shape(kind="box", at=(x(fmt.emax + 1), 20, x(high + 1) - x(fmt.emax + 1), base - 20),
              tone=colours.SATURATED, say="Beyond the largest code: saturates"),
        Shape(kind="line", at=(left, base, width - left, base), tone=-2),
    ]  # fmt: skip
    for power in range(low, high + 1, 2):
        shapes.append(
            Shape(kind="text", at=(x(power) + step / 2, base + 16), text=f"2^{power}",
                  anchor="middle", tone=-2)
        )  # fmt: skip
    zones = ((low, smallest - 1, "to 0"), (smallest - 1, fmt.emin, "subnormal"),
             (fmt.emin, fmt.emax + 1, "normal"), (fmt.emax + 1, high + 1, "saturates"))  # fmt: skip
    for start, end, word in zones:
        shapes.append(Shape(kind="text", at=((x(start) + x(end)) / 2, 14), text=word,
                            anchor="middle", tone=-2))  # fmt: skip
    shapes.append(
        Shape(kind="text", at=(width / 2, base + 34), text="magnitude / scale, a column a binade",
              anchor="middle", tone=-2)
    )  # fmt: skip
    powers = [
        (i, min(max(_binade(Fraction(abs(value)) / Fraction(block.scale)), low), high))
        for i, value in enumerate(block.values)
        if value
    ]
    tallest = max(Counter(power for _, power in powers).values(), default=1)
    pitch = min(9.0, (base - 24) / tallest)
    stacks: dict[int, int] = {}
    zeros = BLOCK - len(powers)
    for i, power in powers:
        stacks[power] = stacks.get(power, 0) + 1
        y = base - pitch * (stacks[power] - 0.6)
        shapes.append(
            Shape(kind="dot", at=(x(power) + step / 2, y, 0.4 * pitch),
                  tone=_FATES[fates[i]][2], key=i,
                  say=f"Element {i}: {shown(block.values[i])}, {_FATES[fates[i]][0]}")
        )  # fmt: skip
    most = max(stacks.items(), key=lambda item: item[1], default=(0, 0))
    alt = (
        f"{sum(stacks.values())} magnitudes over their scale, from 2^{min(stacks, default=0)} to "
        f"2^{max(stacks, default=0)}, most of them ({most[1]}) in the binade from 2^{most[0]}; "
        f"{zeros} zeros are not drawn. {fmt.name.upper()} is exact to {fmt.mantissa_bits} mantissa "
        f"bits from 2^{fmt.emin} to {shown(fmt.max_value)}."
    )
    return Drawing(
        id="range",
        title="Where the values lie in the format's range",
        alt=alt,
        width=width,
        height=height,
        shapes=tuple(shapes),
        centre=x(most[0]),
        legend=tuple((tone, f"{sign} {word}") for word, sign, tone in _FATES[:4]),
    )


def _binade(x: Fraction) -> int:
    """Return floor(log2 x), exactly."""
    power = x.numerator.bit_length() - x.denominator.bit_length()
    return power - (x < Fraction(2) ** power) if x else floor(0)


EXPLORER = Explorer(
    name="block_of_32",
    title="Thirty-two bytes and a scale",
    question="What becomes of 32 values that share one power of two?",
    controls=CONTROLS,
    view=view,
)
