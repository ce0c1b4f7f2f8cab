"""One byte: a code of E4M3, E5M2 or E8M0 bit by bit, its place on the number line, and a value."""

from fractions import Fraction
from functools import lru_cache
from math import frexp, isfinite

from mxlab.codec import Decoded, Encoded, decode, encode
from mxlab.errors import InputError
from mxlab.explorers import colours
from mxlab.explorers.controls import Choice, Int, State, Text, number
from mxlab.explorers.one_byte_line import number_line, shown
from mxlab.explorers.panels import Facts, Grid, View
from mxlab.explorers.protocol import Explorer
from mxlab.formats import FORMATS, Format

CONTROLS = (
    Choice(
        name="format",
        label="Format",
        default="e4m3",
        options=tuple((fmt.name, fmt.name.upper()) for fmt in FORMATS.values()),
        group="The byte",
    ),
    Int(name="code", label="Code", default=0x39, low=0, high=255, slider=(0, 255, 1),
        group="The byte", help="0 to 255; or click a bit or a code below."),
    Text(name="value", label="Value", default="1.1", limit=32, lines=1, group="A value to encode",
         help="Such as 0.1, -3e-5, 0x1.8p3, inf or nan; empty for none."),
)  # fmt: skip
_ROW_TONES = {
    ("sign", True): colours.SIGN,
    ("exponent", True): colours.EXPONENT,
    ("exponent", False): colours.SCALE,
    ("mantissa", True): colours.MANTISSA,
}
#: kind of a code -> (what the reader sees, tone)
_KINDS = {
    "normal": ("normal", colours.KEPT),
    "subnormal": ("subnormal", colours.REFERENCE),
    "zero": ("zero", colours.FLUSHED),
    "nan": ("not a number", colours.NOT_A_NUMBER),
    "inf": ("infinity", colours.SATURATED),
}


def view(state: State) -> View:
    """Return the byte taken apart, the number line around it, and what the value becomes."""
    fmt = FORMATS[str(state["format"])]
    d = decode(int(state["code"]), fmt)
    text = str(state["value"]).strip()
    encoded, refused = _encoded(text, fmt)
    sentence = f"Byte 0x{d.code:02X} of {fmt.name.upper()} is {_value(d)}"
    if encoded is not None:
        sentence += f"; {shown(encoded.value)} becomes byte 0x{encoded.code:02X}, " + (
            f"{_value(encoded.decoded)}" + (", by a tie." if encoded.tie else ".")
        )
    elif refused:
        sentence += f"; {refused}."
    else:
        sentence += "."
    finite = d.kind not in ("nan", "inf")
    return View(
        status="passes" if finite else "warns",
        sign="=" if finite else "!",
        answer=sentence,
        panels=(
            _bits(d),
            _formula(d),
            number_line(d, encoded),
            _encoding(encoded, refused, fmt),
            _codes(fmt, d.code, -1 if encoded is None else encoded.code),
        ),
        cli=f"mxlab bits 0x{d.code:02x} --format {fmt.name}",
        python=f'import mxlab\nprint(mxlab.decode(0x{d.code:02X}, "{fmt.name}"))'
        + (f'\nprint(mxlab.encode({_literal(text)}, "{fmt.name}"))' if encoded else ""),
    )


def _encoded(text: str, fmt: Format) -> tuple[Encoded | None, str]:
    """Return the encoding of a text, or why there is none."""
    if not text:
        return None, ""
    value = number(text)
    if value is None:
        return None, f"{text[:32]!r} is not a number"
    try:
        return encode(value, fmt), ""
    except InputError as error:
        return None, str(error)[:200]


def _literal(text: str) -> str:
    """Return Python for the number that a text says."""
    value = number(text)
    return (
        f'float("{value}")'
        if value is None or value != value or abs(value) == float("inf")
        else repr(value)
    )


def _value(d: Decoded, digits: int = 10) -> str:
    sign = "-" if d.sign else ""
    return {"nan": "NaN", "inf": f"{sign}inf"}.get(d.kind) or shown(d.value, digits)


def _field(bit: int, fmt: Format) -> tuple[str, int]:
    """Return the field that a bit belongs to, and its tone."""
    if fmt.signed and bit == 7:
        return "sign", colours.SIGN
    if bit >= fmt.mantissa_bits:
        return "exponent", colours.EXPONENT if fmt.signed else colours.SCALE
    return "mantissa", colours.MANTISSA


def _bits(d: Decoded) -> Grid:
    fmt, order = d.format, range(7, -1, -1)
    fields = [_field(bit, fmt) for bit in order]
    names = list(dict.fromkeys(fields))
    legend = tuple(name for name, _ in names)
    return Grid(
        id="bits",
        title="The eight bits",
        alt=f"0x{d.code:02X} is {d.bits}: {', '.join(legend)}. Enter or a click flips a bit.",
        corner="bit",
        columns=tuple(str(bit) for bit in order),
        rows=(f"0x{d.code:02X}",),
        cells=(
            tuple(
                (str(d.code >> bit & 1), names.index(field), -1)
                for bit, field in zip(order, fields, strict=True)
            ),
        ),
        legend=legend,
        tones=tuple(tone for _, tone in names),
        large=True,
        say="Bit {column} is {text}; Enter flips it",
        drawn=True,
        sets="code",
        values=(tuple(d.code ^ (1 << bit) for bit in order),),
    )


def _formula(d: Decoded) -> Facts:
    """Say each field as the formula uses it."""
    fmt, rows = d.format, []
    if fmt.signed:
        rows.append(("sign", "-" if d.sign else "+", f"(-1)^{d.sign}: bit 7"))
    field = f"field {d.exponent}"
    if d.kind in ("nan", "inf"):
        rows.append(("exponent", str(d.exponent), "this pattern is no number"))
    elif fmt.mantissa_bits == 0:
        rows.append(("exponent", str(d.exponent - fmt.bias), f"{field} - bias {fmt.bias}"))
    else:
        normal = d.exponent > 0
        power = d.exponent - fmt.bias if normal else fmt.emin
        how = f"{field} - bias {fmt.bias}" if normal else f"{field}: 1 - bias {fmt.bias}, subnormal"
        rows.append(("exponent", str(power), how))
        unit = 1 << fmt.mantissa_bits
        fraction = Fraction(d.mantissa, unit) + normal
        rows.append(("mantissa", shown(float(fraction)), f"{int(normal)} + {d.mantissa}/{unit}"))
    rows.append(("value", _value(d), _product(d)))
    return Facts(
        id="formula",
        title="From bits to a number",
        alt=f"{_product(d)} = {_value(d)}, {d.kind}.",
        rows=tuple(rows),
        tones=tuple(_ROW_TONES.get((name, fmt.signed), -1) for name, _, _ in rows),
    )


def _product(d: Decoded) -> str:
    fmt = d.format
    if d.kind in ("nan", "inf"):
        return {"nan": "not a number", "inf": "infinity"}[d.kind]
    if fmt.mantissa_bits == 0:
        return f"2^{d.exponent - fmt.bias}"
    normal = d.exponent > 0
    power = d.exponent - fmt.bias if normal else fmt.emin
    unit = 1 << fmt.mantissa_bits
    fraction = shown(float(Fraction(d.mantissa, unit) + normal))
    return f"{'-' if d.sign else ''}{fraction} x 2^{power}"


def _encoding(encoded: Encoded | None, refused: str, fmt: Format) -> Facts:
    """Say between which codes a value lies and why it goes to one of them."""
    if encoded is None:
        text = refused or "no value was given"
        rows = [("value", "none", text)]
        return Facts(
            id="encode", title="Encoding a value", alt=f"Nothing: {text}.", rows=tuple(rows)
        )
    rows = [("value", shown(encoded.value), "the double that was typed, exactly")]
    for side, d in (("next below", encoded.lower), ("next above", encoded.upper)):
        if d is None:
            rows.append((side, "none", "past the end of the format"))
        elif d.exact is None or not isinstance(encoded.value, float):
            rows.append((side, _value(d), f"byte 0x{d.code:02X}"))
        else:
            away = abs(d.exact - Fraction(encoded.value)) if _finite(encoded) else None
            far = "" if away is None else f", {shown(float(away))} away"
            rows.append((side, _value(d), f"byte 0x{d.code:02X}{far}"))
    why = _why(encoded, fmt)
    rows.append(("becomes", f"0x{encoded.code:02X}", why))
    if encoded.error is not None:
        rows.append(("error", shown(float(encoded.error)), _relative(encoded)))
    result = _value(encoded.decoded)
    return Facts(
        id="encode",
        title="Encoding a value",
        alt=f"{shown(encoded.value)} becomes 0x{encoded.code:02X}, {result}: {why}.",
        rows=tuple(rows),
    )


def _finite(encoded: Encoded) -> bool:
    return abs(float(encoded.value)) < float("inf")


def _relative(encoded: Encoded) -> str:
    exact = Fraction(encoded.value)
    if encoded.error is None or not exact:
        return "exact"
    share = abs(encoded.error / exact)
    return f"{100 * float(share):.3g} % of the value" if share else "exact"


def _why(encoded: Encoded, fmt: Format) -> str:
    if encoded.saturated and abs(float(encoded.value)) < 1:
        return f"below the smallest, {shown(float(fmt.magnitude(0)))}: it saturates"
    if encoded.saturated:
        return f"beyond the largest, {shown(fmt.max_value)}: it saturates"
    if not _finite(encoded):
        return "NaN stays NaN" if encoded.value != encoded.value else "infinity"
    if encoded.error == 0:
        return "exact"
    if encoded.tie:
        if fmt.rounding == "nearest-away":
            return "a tie: halfway goes up"
        return "a tie: the code whose last bit is 0"
    return "the nearer of the two"


def _short(d: Decoded) -> str:
    """Return a value in few characters: 16 columns of them fit the page."""
    size = abs(d.value)
    if not isfinite(size) or size == 0 or frexp(size)[0] == 0.5:  # a power of two
        return _value(d, 4 if size >= 0.1 else 3)
    if size >= 1:
        return f"{d.value:g}"
    if size >= 0.001:
        return f"{d.value:.{3 if size >= 0.1 else 2}g}"
    digits, power = f"{d.value:.1e}".split("e")
    return f"{digits}e{int(power)}"


@lru_cache(maxsize=3)
def _table(fmt: Format) -> tuple[tuple[tuple[str, int, int], ...], ...]:
    kinds = list(_KINDS)
    return tuple(
        tuple(
            (_short(d), kinds.index(d.kind), d.code)
            for d in (decode(16 * high + low, fmt) for low in range(16))
        )
        for high in range(16)
    )


_VALUES = tuple(tuple(range(16 * high, 16 * high + 16)) for high in range(16))


def _codes(fmt: Format, code: int, other: int) -> Grid:
    """Return all 256 codes; the chosen ones are the byte and what the value became."""
    places = tuple(divmod(one, 16) for one in dict.fromkeys((code, other)) if one >= 0)
    also = f" and 0x{other:02X}, of the value" if other not in (-1, code) else ""
    last = (1 << fmt.mantissa_bits) - 1
    tiny = f"Subnormal: 0x01 to 0x{last:02X} and 0x81 to 0x{0x80 + last:02X}. " if last else ""
    return Grid(
        id="codes",
        title="All 256 codes",
        alt=f"A row for each high digit, a column for each low digit. {tiny}"
        f"Chosen: 0x{code:02X}{also}. "
        "Enter or a click takes a code.",
        corner="",
        columns=tuple(f"{low:X}" for low in range(16)),
        rows=tuple(f"0x{high:X}" for high in range(16)),
        cells=_table(fmt),
        legend=tuple(text for text, _ in _KINDS.values()),
        tones=tuple(tone for _, tone in _KINDS.values()),
        say="Code {row}{column}: {text}",
        wide=True,
        sample=(0, 3, 7),
        sets="code",
        values=_VALUES,
        chosen=places,
    )


EXPLORER = Explorer(
    name="one_byte",
    title="One byte",
    question="Which number is this byte, and which byte is this number?",
    controls=CONTROLS,
    view=view,
)
