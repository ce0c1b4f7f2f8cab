"""One code taken apart and one value encoded, with every intermediate named.

All arithmetic is exact (integers and fractions). A Python float is a double: ``encode`` rounds
the exact double once, never through float32.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import SupportsFloat

from mxlab.errors import InputError, choose, quote, whole_number
from mxlab.formats import Format, FormatLike, get_format

Number = float | int | Fraction | SupportsFloat


@dataclass(frozen=True, slots=True)
class Decoded:
    """One code: its fields and its value.

    ``exponent`` and ``mantissa`` are the fields as stored, ``power`` is the exponent that the
    value has (None for zero, Inf, NaN). ``kind`` is zero, subnormal, normal, inf or nan.
    """

    code: int
    format: Format
    sign: int
    exponent: int
    mantissa: int
    kind: str
    value: float

    @property
    def power(self) -> int | None:
        """Exponent of the leading binary digit of the value."""
        finite = self.kind in ("normal", "subnormal")
        return math.frexp(self.value)[1] - 1 if finite else None

    @property
    def exact(self) -> Fraction | None:
        """The value as a fraction; None for Inf and NaN."""
        return Fraction(self.value) if math.isfinite(self.value) else None

    @property
    def bits(self) -> str:
        """The code in binary with its fields apart, such as ``0 1111 110``."""
        fmt = self.format
        fields = [f"{self.sign}"] if fmt.signed else []
        fields.append(f"{self.exponent:0{fmt.exponent_bits}b}")
        if fmt.mantissa_bits:
            fields.append(f"{self.mantissa:0{fmt.mantissa_bits}b}")
        return " ".join(fields)


@dataclass(frozen=True, slots=True)
class Encoded:
    """One value encoded.

    ``lower`` and ``upper`` are the codes on either side of the value on the number line (the
    same code when the value is exact, None past the end). ``error`` is decoded minus given,
    exactly; None where one of them is Inf or NaN. ``saturated``: the magnitude is above the
    format's largest (for E8M0 also below its smallest).
    """

    value: float | int | Fraction
    code: int
    format: Format
    decoded: Decoded
    error: Fraction | None
    tie: bool
    saturated: bool
    rounding: str

    @property
    def lower(self) -> Decoded | None:
        """The largest code at or below the value."""
        return _bracket(self.value, self.format)[0]

    @property
    def upper(self) -> Decoded | None:
        """The smallest code at or above the value."""
        return _bracket(self.value, self.format)[1]


#: rounding -> whether the magnitude goes up to the next code, from: the lower code; how the rest
#: compares with half a step (-1, 0, 1); whether there is a rest; whether the value is negative
ROUNDINGS: dict[str, Callable[[int, int, bool, bool], bool]] = {
    "nearest-even": lambda low, half, rest, negative: half > 0 or (half == 0 and low % 2 == 1),
    "nearest-away": lambda low, half, rest, negative: half >= 0,
    "toward-zero": lambda low, half, rest, negative: False,
    "up": lambda low, half, rest, negative: rest and not negative,
    "down": lambda low, half, rest, negative: rest and negative,
}


def decode(code: int, fmt: FormatLike = "e4m3") -> Decoded:
    """Take one code apart.

    ``code`` is 0..255; ``fmt`` a name or a Format. E8M0 byte 0 is 2^-127 and byte 255 is NaN.
    Raises InputError for a code out of range or an unknown format.
    Source: OFP8 v1.0 table 1; OCP MX v1.0 section 5.4.1.

    >>> d = decode(0x7E, "e4m3")
    >>> d.bits, d.kind, d.value
    ('0 1111 110', 'normal', 448.0)
    """
    fmt = get_format(fmt)
    return _decode(whole_number(f"{fmt.name} code", code, 0, 255), fmt)


@lru_cache(maxsize=3 * 256)
def _decode(code: int, fmt: Format) -> Decoded:
    sign = code >> 7 if fmt.signed else 0
    magnitude = code & 0x7F if fmt.signed else code
    exponent, mantissa = divmod(magnitude, 1 << fmt.mantissa_bits)
    if magnitude >= fmt.first_nan:
        kind, value = "nan", math.nan
    elif magnitude == fmt.inf_code:
        kind, value = "inf", math.inf
    else:
        value = float(fmt.magnitude(magnitude))
        kind = "normal"
        if fmt.has_zero and exponent == 0:
            kind = "subnormal" if mantissa else "zero"
    return Decoded(code, fmt, sign, exponent, mantissa, kind, -value if sign else value)


def as_number(value: Number, what: str = "value") -> float | int | Fraction:
    """Return a Python number with exactly the given value, or raise InputError.

    NumPy and ml_dtypes scalars become the double of the same value; text is refused.

    >>> as_number(1)
    1
    """
    if isinstance(value, float | int | Fraction) and not isinstance(value, bool):
        return value
    if isinstance(value, str | bytes | bool) or not hasattr(value, "__float__"):
        raise InputError(f"{what} is {quote(value)}: expected a number")
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"{what} is {quote(value)}: expected one number") from None


def _floor_code(x: Fraction, fmt: Format) -> tuple[int, int, bool]:
    """Return the magnitude code at or below ``x`` >= 0 and the rest, as ROUNDINGS want it."""
    if x == 0:
        return 0, -1, False
    n, d = x.numerator, x.denominator
    power = n.bit_length() - d.bit_length()  # floor(log2 x), or one more
    if n << max(-power, 0) < d << max(power, 0):
        power -= 1
    power = max(power, fmt.emin)
    step = power - fmt.mantissa_bits
    unit = d << max(step, 0)
    whole, rest = divmod(n << max(-step, 0), unit)
    half = (2 * rest > unit) - (2 * rest < unit)
    if not fmt.has_zero:
        whole -= 1 << fmt.mantissa_bits
    return ((power - fmt.emin) << fmt.mantissa_bits) + whole, half, rest > 0


def round_magnitude(x: Fraction, fmt: Format, rounding: str, negative: bool = False) -> int:
    """Return the magnitude code that ``x`` >= 0 rounds to, without a limit at the largest.

    >>> round_magnitude(Fraction(449), get_format("e4m3"), "nearest-even") == 0x7E
    True
    """
    low, half, rest = _floor_code(x, fmt)
    return low + ROUNDINGS[rounding](low, half, rest, negative)


def encode_code(
    x: Fraction, negative: bool, fmt: Format, rounding: str = "nearest-even", saturate: bool = True
) -> int:
    """Return the code of the finite value with magnitude ``x``; the short form of encode.

    >>> hex(encode_code(Fraction(1), True, get_format("e4m3")))
    '0xb8'
    """
    code = round_magnitude(x, fmt, rounding, negative)
    if code > fmt.max_code:
        overflow = fmt.nan_code if fmt.inf_code is None else fmt.inf_code
        code = fmt.max_code if saturate else overflow
    return code | 0x80 if negative else code


def _bracket(value: float | int | Fraction, fmt: Format) -> tuple[Decoded | None, Decoded | None]:
    """Codes on either side of a value: the same where it is exact, None past the end and for NaN.

    Signed zeros stay apart: -0 is bracketed by the code of -0.
    """
    negative = _is_negative(value)
    bit = 0x80 if negative else 0
    if isinstance(value, float) and not math.isfinite(value):
        end = None if math.isnan(value) else decode(fmt.max_code | bit, fmt)
        return (None, end) if negative else (end, None)
    x = abs(Fraction(value))
    if not fmt.has_zero and x < fmt.magnitude(0):
        return None, decode(0, fmt)
    low, _, rest = _floor_code(x, fmt)
    high = low + rest
    if low >= fmt.max_code:
        low, high = fmt.max_code, fmt.max_code + (x > fmt.magnitude(fmt.max_code))
    inner = decode(low | bit, fmt)
    outer = decode(high | bit, fmt) if high <= fmt.max_code else None
    return (outer, inner) if negative else (inner, outer)


def _is_negative(value: float | int | Fraction) -> bool:
    return math.copysign(1.0, value) < 0 if isinstance(value, float) else value < 0


def _not_finite(
    value: float, fmt: Format, negative: bool, rounding: str, saturate: bool
) -> Encoded:
    bit = 0x80 if negative and fmt.signed else 0
    if math.isnan(value):
        code = fmt.nan_code | bit
    elif not fmt.signed:
        code = fmt.nan_code  # a scale of infinity is NaN, as in scale_byte
    elif saturate:
        code = fmt.max_code | bit
    else:
        code = (fmt.nan_code if fmt.inf_code is None else fmt.inf_code) | bit
    saturated = math.isinf(value) and saturate and fmt.signed
    return Encoded(value, code, fmt, decode(code, fmt), None, False, saturated, rounding)


def encode(
    value: Number,
    fmt: FormatLike = "e4m3",
    *,
    rounding: str | None = None,
    saturate: bool = True,
) -> Encoded:
    """Encode one value.

    ``value`` is a float (the exact double), an int or a Fraction, and is rounded once. E4M3 and
    E5M2 round to nearest even and saturate, infinity too: 1000 is 448 in E4M3, infinity is 57344
    in E5M2. ``saturate=False`` gives what a plain cast gives: NaN in E4M3, infinity in E5M2.
    E8M0 rounds to the nearest power of two, halfway (1.5 * 2^n) up, and clamps positive values to
    2^-127..2^127 (``saturate=False``: NaN above); infinity is NaN there. ``rounding`` is a row of
    ROUNDINGS. A quantiser must not make its scale this way: see ``scale_byte``.
    Raises InputError for what is not a number, and for zero and negative values in E8M0.
    Source: OFP8 v1.0 section 5.2; ml_dtypes for E8M0's nearest.

    >>> e = encode(1.1, "e4m3")
    >>> hex(e.code), e.decoded.value, e.lower.value, e.upper.value
    ('0x39', 1.125, 1.0, 1.125)
    """
    fmt = get_format(fmt)
    rounding = fmt.rounding if rounding is None else rounding
    choose("rounding", rounding, ROUNDINGS)
    value = as_number(value)
    negative = _is_negative(value)
    if not fmt.signed and not math.isnan(_as_float(value)) and (negative or value == 0):
        raise InputError(
            f"value is {quote(value)}: {fmt.name} has no zero and no sign; expected a number above "
            "0; the smallest is 2^-127 (byte 0)"
        )
    if isinstance(value, float) and not math.isfinite(value):
        return _not_finite(value, fmt, negative, rounding, saturate)
    exact = Fraction(value)
    x = abs(exact)
    below = not fmt.has_zero and x < fmt.magnitude(0)
    if below:
        code, tie = 0, False
    else:
        code = encode_code(x, negative, fmt, rounding, saturate)
        tie = _floor_code(x, fmt)[1] == 0
    decoded = decode(code, fmt)
    error = None if decoded.exact is None else decoded.exact - exact
    saturated = below or (saturate and x > fmt.magnitude(fmt.max_code))
    return Encoded(value, code, fmt, decoded, error, tie, saturated, rounding)


def _as_float(value: float | int | Fraction) -> float:
    return value if isinstance(value, float) else 0.0
