"""The three formats of MXFP8 as data: E4M3 and E5M2 for elements, E8M0 for the block scale."""

from dataclasses import dataclass
from fractions import Fraction

from mxlab.errors import InputError, choose


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """An 8-bit format: sign bit (where there is one), exponent field, mantissa field.

    A *magnitude code* is the code without its sign bit. Magnitude codes order the values: one
    more is the next value up the number line, which is all that rounding needs to know.
    """

    name: str
    label: str
    torch_dtype: str
    signed: bool
    exponent_bits: int
    mantissa_bits: int
    bias: int
    max_code: int  #: magnitude code of the largest finite value
    inf_code: int | None  #: magnitude code of infinity
    first_nan: int  #: this magnitude code and all above it are NaN
    nan_code: int  #: the NaN that encoding writes
    has_zero: bool  #: exponent field 0 holds zero and the subnormals
    rounding: str  #: what encode does unless told otherwise: a row of ``codec.ROUNDINGS``
    source: str

    @property
    def emax(self) -> int:
        """Exponent of the largest power of two that the format holds: 8 for E4M3, 15 for E5M2."""
        return (self.max_code >> self.mantissa_bits) - self.bias

    @property
    def emin(self) -> int:
        """Exponent of the smallest normal value."""
        return 1 - self.bias if self.has_zero else -self.bias

    @property
    def max_value(self) -> float:
        """Largest finite value."""
        return float(self.magnitude(self.max_code))

    def magnitude(self, code: int) -> Fraction:
        """Return the value of a magnitude code by the fields alone, as if no code were special.

        The code after the largest one answers too: it is where rounding without a limit would go.

        >>> E4M3.magnitude(0x7E), E4M3.magnitude(0x7F)
        (Fraction(448, 1), Fraction(480, 1))
        """
        field, mantissa = divmod(code, 1 << self.mantissa_bits)
        hidden = 1 << self.mantissa_bits
        if self.has_zero and field == 0:
            field, hidden = 1, 0
        return (hidden + mantissa) * Fraction(2) ** (field - self.bias - self.mantissa_bits)


_OFP8 = "OCP 8-bit Floating Point Specification (OFP8) v1.0, table 1"

E4M3 = Format(
    name="e4m3",
    label="E4M3 (FN: no infinity)",
    torch_dtype="float8_e4m3fn",
    signed=True,
    exponent_bits=4,
    mantissa_bits=3,
    bias=7,
    max_code=0x7E,
    inf_code=None,
    first_nan=0x7F,
    nan_code=0x7F,
    has_zero=True,
    rounding="nearest-even",
    source=_OFP8,
)

E5M2 = Format(
    name="e5m2",
    label="E5M2",
    torch_dtype="float8_e5m2",
    signed=True,
    exponent_bits=5,
    mantissa_bits=2,
    bias=15,
    max_code=0x7B,
    inf_code=0x7C,
    first_nan=0x7D,
    nan_code=0x7E,  # the quiet NaN, as ml_dtypes and CUDA's header write it; torch writes 0x7f
    has_zero=True,
    rounding="nearest-even",
    source=_OFP8,
)

E8M0 = Format(
    name="e8m0",
    label="E8M0 (a power of two: no sign, zero or infinity)",
    torch_dtype="float8_e8m0fnu",
    signed=False,
    exponent_bits=8,
    mantissa_bits=0,
    bias=127,
    max_code=254,
    inf_code=None,
    first_nan=255,
    nan_code=255,
    has_zero=False,
    rounding="nearest-away",
    source="OCP Microscaling Formats (MX) Specification v1.0, section 5.4.1",
)

#: name -> format
FORMATS: dict[str, Format] = {f.name: f for f in (E4M3, E5M2, E8M0)}

#: formats that a block's elements can have
ELEMENT_FORMATS: dict[str, Format] = {f.name: f for f in (E4M3, E5M2)}

#: other names of the same formats -> name
ALIASES: dict[str, str] = {
    "e4m3fn": "e4m3",
    "e8m0fnu": "e8m0",
    "ue8m0": "e8m0",
    **{f.torch_dtype: f.name for f in FORMATS.values()},
}

FormatLike = Format | str


def get_format(fmt: FormatLike) -> Format:
    """Return the format called ``fmt``; raise InputError with the nearest name otherwise.

    >>> get_format("e4m3").max_value
    448.0
    """
    if isinstance(fmt, Format):
        return fmt
    if isinstance(fmt, str):
        fmt = ALIASES.get(fmt.lower(), fmt)
    return choose("format", fmt, FORMATS)


def element_format(fmt: FormatLike) -> Format:
    """Return the format of a block's elements; E8M0 is refused, for it holds only scales.

    >>> element_format("float8_e5m2").name
    'e5m2'
    """
    found = get_format(fmt)
    if found.name not in ELEMENT_FORMATS:
        names = ", ".join(ELEMENT_FORMATS)
        raise InputError(f"format {found.name!r} holds scales: expected an element format, {names}")
    return found
