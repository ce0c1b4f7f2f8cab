"""Scale rules: from the block maximum (amax) to its E8M0 byte, on float32 bits only.

Float ``log2`` is not used anywhere: near powers of two it is wrong for dozens of mantissas in
every binade. With e and m the exponent and mantissa fields of the float32 amax, every rule is
``e - emax + (m >= threshold)``, clamped to 0..254; the rules differ in the threshold alone.
"""

import math
import struct
from collections.abc import Callable
from dataclasses import dataclass

from mxlab.codec import Number, as_number
from mxlab.errors import InputError, choose, quote, whole_number
from mxlab.formats import Format, FormatLike, element_format

MANTISSA = 23  # bits of a float32 mantissa
_NEVER = 1 << MANTISSA
_INF = 0x7F800000

NAN_BYTE = 255
MAX_BYTE = 254


def _largest_mantissa(fmt: Format) -> int:
    """The mantissa of the format's largest value, as a float32 mantissa field."""
    field = fmt.max_code & ((1 << fmt.mantissa_bits) - 1)
    return field << (MANTISSA - fmt.mantissa_bits)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleRule:
    """How amax becomes a power of two.

    ``threshold(fmt)`` is the least float32 mantissa field that takes the next power of two up.
    """

    name: str
    meaning: str
    threshold: Callable[[Format], int]
    who: str
    source: str

    def formula(self, fmt: FormatLike = "e4m3") -> str:
        """Return the rule in the fields e and m of amax, before the clamp to 0..254.

        >>> RULES["rceil"].formula("e4m3"), RULES["floor"].formula("e5m2")
        ('e - 8 + (m > 0x600000)', 'e - 15')
        """
        fmt = element_format(fmt)
        threshold = self.threshold(fmt)
        if threshold == _NEVER:
            return f"e - {fmt.emax}"
        last = threshold - 1
        test = f"m > 0x{last:06x}" if threshold & 1 else f"m >= 0x{threshold:06x}"
        return f"e - {fmt.emax} + ({test})"


#: name -> rule
RULES: dict[str, ScaleRule] = {
    rule.name: rule
    for rule in (
        ScaleRule(
            name="floor",
            meaning="2^floor(log2 amax) / 2^emax: the maximum may be clipped by up to 12.5 %",
            threshold=lambda fmt: _NEVER,
            who="OCP MX v1.0; torchao FLOOR, microxcaling, gfloat",
            source="OCP MX v1.0 section 6.3",
        ),
        ScaleRule(
            name="rceil",
            meaning="amax / max rounded up to a power of two: nothing is clipped",
            threshold=lambda fmt: _largest_mantissa(fmt) + 1,
            who="cuBLAS, Transformer Engine, FlashInfer, DeepGEMM, torchao RCEIL",
            source="cuBLAS documentation, 1D block scaling for FP8",
        ),
        ScaleRule(
            name="ceil",
            meaning="2^ceil(log2 amax) / 2^emax: one binade of range is given away",
            threshold=lambda fmt: 1,
            who="torchao CEIL, Quark ceil",
            source="torchao 0.18 ScaleCalculationMode",
        ),
        ScaleRule(
            name="even",
            meaning="amax rounded to the element's mantissa, then floor",
            threshold=lambda fmt: _NEVER - (1 << (MANTISSA - fmt.mantissa_bits - 1)),
            who="torchao EVEN, Quark even",
            source="torchao 0.18 ScaleCalculationMode",
        ),
    )
}

RuleLike = ScaleRule | str


def get_rule(rule: RuleLike) -> ScaleRule:
    """Return the rule called ``rule``; raise InputError with the nearest name otherwise.

    >>> get_rule("RCEIL").formula()
    'e - 8 + (m > 0x600000)'
    """
    return rule if isinstance(rule, ScaleRule) else choose("rule", rule, RULES)


def float32_bits(value: Number, what: str = "value") -> int:
    """Return the 32 bits of ``value`` as a float32; a number that is none is rounded to nearest.

    Raises InputError for a finite number beyond float32, which would become infinity.

    >>> hex(float32_bits(1.0))
    '0x3f800000'
    """
    number = as_number(value, what)
    try:
        return int(struct.unpack("<I", struct.pack("<f", number))[0])
    except (OverflowError, struct.error):
        largest = "3.4028234663852886e+38"
        raise InputError(
            f"{what} is {quote(number)}: beyond float32; the nearest is {largest} in magnitude"
        ) from None


def float32_from_bits(bits: int) -> float:
    """Return the float32 with these 32 bits as a Python float.

    >>> float32_from_bits(0x40600001)
    3.500000238418579
    """
    whole_number("float32 bits", bits, 0, 0xFFFFFFFF)
    return float(struct.unpack("<f", struct.pack("<I", bits))[0])


def scale_byte_from_bits(bits: int, fmt: Format, rule: ScaleRule) -> int:
    """Return the E8M0 byte for an amax given as float32 bits without sign.

    >>> from mxlab.formats import E4M3
    >>> scale_byte_from_bits(0x40600001, E4M3, RULES["rceil"])
    121
    """
    if bits >= _INF:
        return NAN_BYTE
    if bits == 0:
        return 0
    exponent, mantissa = bits >> MANTISSA, bits & (_NEVER - 1)
    if exponent == 0:  # subnormal: move the leading one to where a normal number has it
        shift = MANTISSA + 1 - mantissa.bit_length()
        exponent, mantissa = 1 - shift, (mantissa << shift) & (_NEVER - 1)
    byte = exponent - fmt.emax + (mantissa >= rule.threshold(fmt))
    return min(max(byte, 0), MAX_BYTE)


def scale_byte(amax: Number, fmt: FormatLike = "e4m3", rule: RuleLike = "rceil") -> int:
    """Return the E8M0 byte of a block whose largest magnitude is ``amax``.

    ``amax`` is a float32 value >= 0 (another number is rounded to the nearest float32 first);
    the byte b stands for 2^(b-127). Zero gives 0, Inf and NaN give 255, finite data never do:
    the largest float32 gives 246 or 247 in E4M3, 239 or 240 in E5M2.
    Raises InputError for a negative amax, one beyond float32, an unknown format or rule.
    Source: the rules' own; zero, Inf and NaN as torchao after 0.18 and CUDA's header.

    >>> [scale_byte(449.0, "e4m3", rule=name) for name in ("floor", "rceil", "ceil", "even")]
    [127, 128, 128, 127]
    """
    fmt, rule = element_format(fmt), get_rule(rule)
    bits = float32_bits(amax, "amax")
    if bits >> 31:
        if bits & 0x7FFFFFFF > _INF:
            return NAN_BYTE
        if bits & 0x7FFFFFFF:
            near = float32_from_bits(bits & 0x7FFFFFFF)
            raise InputError(
                f"amax is {quote(amax)}: expected a magnitude, 0 or more; the nearest is {near!r}"
            )
        bits = 0
    return scale_byte_from_bits(bits, fmt, rule)


def scale_value(byte: int) -> float:
    """Return the scale 2^(byte - 127); NaN for 255.

    >>> [scale_value(b) for b in (133, 134, 135, 255)]
    [64.0, 128.0, 256.0, nan]
    """
    byte = whole_number("scale byte", byte, 0, 255)
    return math.nan if byte == NAN_BYTE else math.ldexp(1.0, byte - 127)
