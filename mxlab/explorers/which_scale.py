"""Which power of two? One block under every scale rule and every library profile."""

from functools import lru_cache
from math import isfinite, isinf, isnan

from mxlab.block import BLOCK, Block, dequantize_block, quantize_block
from mxlab.errors import InputError
from mxlab.explorers import colours
from mxlab.explorers.controls import Choice, Int, State, Text, command, number
from mxlab.explorers.one_byte_line import shown
from mxlab.explorers.panels import Drawing, Facts, Grid, Shape, View
from mxlab.explorers.protocol import Explorer
from mxlab.formats import E4M3
from mxlab.profiles import get_profile, profiles
from mxlab.scale import (
    MANTISSA,
    MAX_BYTE,
    RULES,
    ScaleRule,
    float32_bits,
    float32_from_bits,
    scale_byte_from_bits,
)

_OTHERS: dict[str, tuple[str, float | None]] = {
    "same": ("all 32 are this value", None),
    "ones": ("the other 31 are 1.0", 1.0),
    "zeros": ("the other 31 are 0", 0.0),
    "nan": ("one of them is NaN", float("nan")),
    "inf": ("one of them is infinity", float("inf")),
}
CONTROLS = (
    Text(name="amax", label="Largest magnitude", default="449", limit=32, lines=1,
         group="The block", help="Such as 449, 2.8e-36, 0x1.cp8 or 0."),
    Int(name="sweep", label="Sweep its binade", default=-1, low=-1, high=127, slider=(-1, 127, 1),
        group="The block", help="n / 128 of the way through; -1 is the magnitude as typed."),
    Choice(name="others", label="The others", default="same", group="The block",
           options=tuple((name, text) for name, (text, _) in _OTHERS.items())),
    Int(name="byte", label="Byte asked for", default=128, low=0, high=255, slider=(100, 150, 1),
        group="Who gives it?", help="Which rules and libraries give this scale byte?"),
)  # fmt: skip
#: profile -> (byte, code of the first element), or None where the library raises
Pairs = dict[str, tuple[int, int] | None]
_RULE_TONES = {"floor": 0, "rceil": 1, "ceil": 2, "even": 3}


def view(state: State) -> View:
    """Return every rule's and library's byte, the binade around amax, and who gives a byte."""
    amax, bits = _amax(str(state["amax"]), int(state["sweep"]))
    values = _block(amax, str(state["others"]))
    rules = {name: quantize_block(values, E4M3, name) for name in RULES}
    libraries = _libraries(tuple(values))
    found = {block.scale_byte for block in rules.values()}
    bytes_ = sorted(found | {pair[0] for pair in libraries.values() if pair})
    asked = int(state["byte"])
    groups = {byte: _group(byte, rules, libraries) for byte in bytes_}
    agree = len(bytes_) == 1
    answer = (
        f"Everyone gives byte {bytes_[0]} for amax {shown(amax)}."
        if agree
        else f"For amax {shown(amax)} the answers part: " + "; ".join(_parts(groups)) + "."
    )
    return View(
        status="passes" if agree else "warns",
        sign="=" if agree else "≠",
        answer=answer,
        panels=(
            _binade(bits, amax),
            _who(rules, libraries, asked),
            _rules(rules),
            _groups(groups),
            _profiles(values[0], libraries, rules["rceil"].scale_byte),
        ),
        cli=f"mxlab rules --amax {amax!r}"
        if state["others"] == "same"
        else command("which_scale", CONTROLS, state),
        python=f"import mxlab\nvalues = [{_literal(values[0])}] + [{_literal(values[1])}] * 30"
        f" + [{_literal(values[-1])}]\nfor rule in ('floor', 'rceil', 'ceil', 'even'):\n"
        "    print(rule, mxlab.quantize_block(values, 'e4m3', rule=rule).scale_byte)",
    )


def _literal(value: float) -> str:
    return repr(value) if isfinite(value) else f"float('{value}')"


def _parts(groups: dict[int, tuple[list[str], list[str]]]) -> list[str]:
    """Say each byte that a rule gives, and the other bytes together where they are many."""
    parts = [f"byte {byte} from {_said(*group)}" for byte, group in groups.items() if group[0]]
    others = {byte: group for byte, group in groups.items() if not group[0]}
    if len(others) < 2:
        return parts + [f"byte {byte} from {_said(*group)}" for byte, group in others.items()]
    count = sum(len(profiles) for _, profiles in others.values())
    return [*parts, f"{len(others)} other bytes from {count} library profiles"]


def _group(byte: int, rules: dict[str, Block], libraries: Pairs) -> tuple[list[str], list[str]]:
    """Return the rules and the library profiles that give a byte."""
    return (
        [name.upper() for name, block in rules.items() if block.scale_byte == byte],
        [name for name, pair in libraries.items() if pair and pair[0] == byte],
    )


def _said(named: list[str], profiles: list[str]) -> str:
    """Return who gives a byte: the rules by name, libraries by name where they are few."""
    count = len(profiles)
    few = ", ".join(profiles) if count < 3 else f"{count} library profiles"
    return " and ".join(part for part in (", ".join(named), few if count else "") if part)


def _groups(groups: dict[int, tuple[list[str], list[str]]]) -> Facts:
    """Return one row for each byte that someone gives."""
    said = "; ".join(f"{byte} from {_said(*group)}" for byte, group in groups.items())
    return Facts(
        id="groups",
        title="Who gives which byte",
        alt=f"Bytes for this block: {said}.",
        rows=tuple(
            (f"byte {byte}", ", ".join(named) or "no rule",
             f"{len(profiles)} profiles: {', '.join(profiles)}" if profiles[1:]
             else (profiles or ["no library profile"])[0])
            for byte, (named, profiles) in groups.items()
        ),
    )  # fmt: skip


def _amax(text: str, sweep: int = -1) -> tuple[float, int]:
    """Return the magnitude, or ``sweep`` / 128 of its binade, as a float32 and its bits."""
    value = number(text)
    if value is None:
        raise InputError(f"the largest magnitude is {text.strip()[:32]!r}: expected a number")
    bits = float32_bits(abs(value), "the largest magnitude") & 0x7FFFFFFF
    if sweep >= 0 and 1 <= bits >> MANTISSA < 255:
        bits = bits >> MANTISSA << MANTISSA | sweep << (MANTISSA - 7)
    return float32_from_bits(bits), bits


def _block(amax: float, others: str) -> list[float]:
    rest = _OTHERS[others][1]
    if rest is None:
        return [amax] * BLOCK
    if isnan(rest) or isinf(rest):
        return [*[amax] * (BLOCK - 1), rest]
    return [amax, *[min(rest, amax)] * (BLOCK - 1)]


@lru_cache(maxsize=32)
def _libraries(values: tuple[float, ...]) -> Pairs:
    """Return each profile's byte and first code; None where the library raises.

    Two values stand for the block: its first, and the other one that it holds. A byte depends on
    amax, a code on its own value and the byte.
    """
    made: Pairs = {}
    for name in profiles():
        try:
            byte, codes = get_profile(name).quantize((values[0], values[-1]))
            made[name] = byte, codes[0]
        except InputError:
            made[name] = None
    return made


def _code(value: float, byte: int, code: int) -> tuple[str, str, str]:
    """Return code, decoded value and error of the first element."""
    back = dequantize_block(byte, [code])[0]
    error = "" if not value or not isfinite(back) or not isfinite(value) else (
        f"{100 * abs(back / value - 1):.3g} %"
    )  # fmt: skip
    return f"0x{code:02X}", shown(back, 6), error


def _first(block: Block) -> tuple[str, str, str]:
    return _code(block.values[0], block.scale_byte, block.codes[0])


def _rules(rules: dict[str, Block]) -> Grid:
    cells = []
    for name, block in rules.items():
        texts = (str(block.scale_byte), shown(block.scale, 6), *_first(block),
                 RULES[name].formula(E4M3))  # fmt: skip
        cells.append(tuple((text, place, 2000 + place) for place, text in
                           zip([_RULE_TONES[name]] * 6, texts, strict=True)))  # fmt: skip
    return Grid(
        id="rules",
        title="The four rules",
        alt="; ".join(f"{name.upper()} gives byte {block.scale_byte}, the maximum comes back as "
                      f"{_first(block)[1]}" for name, block in rules.items()) + ".",
        corner="rule",
        columns=("byte", "scale", "code", "comes back as", "error", "e and m of amax"),
        rows=tuple(name.upper() for name in rules),
        cells=cells,
        legend=tuple(name.upper() for name in rules),
        say="{row}, {column}: {text}",
    )  # fmt: skip


def _profiles(value: float, libraries: Pairs, reference: int) -> Grid:
    """Return one row for each library profile; the colour tells how its byte differs."""
    cells = []
    different = raising = 0
    for pair in libraries.values():
        if pair is None:
            raising += 1
            texts, tone = ("raises", "", "", "", "no bytes"), 2
        else:
            byte, code = pair
            same = byte == reference
            different += not same
            tone = 0 if same else 1
            against = "as RCEIL" if same else f"{byte - reference:+d}"
            texts = (str(byte), *_code(value, byte, code), against)
        cells.append(tuple((text, tone, -1) for text in texts))
    raised = f", {raising} raise an error" if raising else ""
    return Grid(
        id="profiles",
        title="What each library does",
        alt=f"{len(libraries)} versions and modes of libraries: {different} give another byte than "
        f"RCEIL's {reference}{raised}.",
        corner="library profile",
        columns=("byte", "code", "comes back as", "error", "against RCEIL"),
        rows=tuple(libraries),
        cells=cells,
        legend=("RCEIL's byte", "another byte", "the library raises"),
        tones=(colours.RIGHT, colours.MANTISSA, colours.REFERENCE),
        say="{row}, {column}: {text}",
        sample=tuple(range(len(libraries))),
    )


def _who(rules: dict[str, Block], libraries: Pairs, asked: int) -> Facts:
    named, who = _group(asked, rules, libraries)
    listed = f"profiles, in the row of byte {asked} below" if who else "profiles"
    if 0 < len(who) <= 6:
        listed = ", ".join(who)
    rows = [
        ("this block", ", ".join(named) or "no rule", f"give it byte {asked}"),
        ("libraries", f"{len(who)} of {len(libraries)}", listed),
    ]
    for name, rule in RULES.items():
        ends = _gives(asked, rule)
        text = "never" if ends is None else f"{ends[0]:.9g} to {ends[1]:.9g}"
        how = f"gives byte {asked} for an amax in this range" if ends else "no finite amax gets it"
        rows.append((name.upper(), text, how))
    return Facts(
        id="who",
        title=f"Who gives byte {asked}?",
        alt=f"Byte {asked}: {', '.join(named) or 'no rule'}, and {len(who)} of {len(libraries)} "
        "library profiles, give it for this block.",
        rows=tuple(rows),
    )


def _gives(byte: int, rule: ScaleRule) -> tuple[float, float] | None:
    """Return the least and the largest finite float32 amax for which a rule gives a byte."""
    if byte > MAX_BYTE:
        return None

    def first(wanted: int) -> int:
        """The least amax, as bits, whose byte is at least ``wanted``; bytes grow with amax."""
        low, high = 0, 0x7F800000
        while low < high:
            middle = (low + high) // 2
            if scale_byte_from_bits(middle, E4M3, rule) >= wanted:
                high = middle
            else:
                low = middle + 1
        return low

    start, stop = first(byte), first(byte + 1) - 1
    if start > stop:
        return None
    return float32_from_bits(start), float32_from_bits(stop)


def _binade(bits: int, amax: float) -> Drawing:
    """Return each rule's byte over the binade of amax, as steps, and amax in it."""
    width, height, left, right, top, row = 720, 190, 90, 690, 24, 34
    exponent = min(max(bits >> MANTISSA, 1), 254)
    base = exponent << MANTISSA
    low, high = float32_from_bits(base), float32_from_bits(base) * 2
    shapes = []
    said = []
    for place, (name, rule) in enumerate(RULES.items()):
        y, tone = top + row * place, _RULE_TONES[name]
        threshold = min(rule.threshold(E4M3), 1 << MANTISSA)
        cut = left + (right - left) * threshold / (1 << MANTISSA)
        below = scale_byte_from_bits(base, E4M3, rule)
        above = scale_byte_from_bits(base + (1 << MANTISSA) - 1, E4M3, rule)
        shapes.append(Shape(kind="text", at=(left - 10, y + 16), text=name.upper(), anchor="end",
                            strong=True))  # fmt: skip
        parts = [(left, cut, below), (cut, right, above)]
        for begin, end, byte in parts:
            if end - begin < 1:
                continue
            shapes.append(Shape(kind="box", at=(begin, y, end - begin - 1, 22), tone=tone,
                                key=2000 + tone, say=f"{name.upper()}: byte {byte}"))  # fmt: skip
            if end - begin > 24:
                text = f"{name.upper()}: {byte}" if end - begin > 80 else str(byte)
                shapes.append(Shape(kind="text", at=((begin + end) / 2, y + 16), text=text,
                                    anchor="middle"))  # fmt: skip
        if threshold < 1 << MANTISSA:
            at = float32_from_bits(base | threshold)
            shapes.append(Shape(kind="line", at=(cut, y - 3, cut, y + 26), strong=True,
                                say=f"{name.upper()} goes up from {shown(at)}"))  # fmt: skip
            said.append(f"{name.upper()} goes from {below} to {above} at {shown(at)}")
        else:
            said.append(f"{name.upper()} gives {below} throughout")
    axis = top + row * len(RULES) + 4
    shapes.append(Shape(kind="line", at=(left, axis, right, axis), tone=-2))
    for part in range(5):
        x = left + (right - left) * part / 4
        shapes.append(Shape(kind="line", at=(x, axis, x, axis + 5), tone=-2))
        text = shown(low + (high - low) * part / 4, 5)
        shapes.append(Shape(kind="text", at=(x, axis + 18), text=text, anchor="middle", tone=-2))
    x = 0.0
    if bits < 0x7F800000 and bits >> MANTISSA == exponent:
        x = left + (right - left) * (bits & ((1 << MANTISSA) - 1)) / (1 << MANTISSA)
        shapes.append(Shape(kind="line", at=(x, top - 12, x, axis), tone=colours.WRONG,
                            dashed=True, say=f"amax = {shown(amax)}"))  # fmt: skip
        shapes.append(Shape(kind="text", at=(x, top - 14), text=f"amax {shown(amax, 7)}",
                            anchor="end" if x > 600 else "start"))  # fmt: skip
    return Drawing(
        id="binade",
        title="Through one binade",
        alt=f"For amax from {shown(low, 6)} to {shown(high, 6)}: {'; '.join(said)}.",
        width=width,
        height=height,
        shapes=tuple(shapes),
        centre=x,
    )


EXPLORER = Explorer(
    name="which_scale",
    title="Which power of two?",
    question="Which scale byte does each rule, and each library, choose for this block?",
    controls=CONTROLS,
    view=view,
)
