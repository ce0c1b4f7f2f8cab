"""Exercises of chapter 1: one byte."""

import math
from collections.abc import Iterator
from fractions import Fraction

from mxlab.codec import decode, encode_code
from mxlab.exercises.checker import Exercise, Mistake
from mxlab.formats import E4M3, E5M2, Format

_BY_HAND = 0xAD
_TIES = (17, 19, 21)
_SCALE = 120


def _fields(code: int, fmt: Format = E4M3) -> tuple[int, int, float]:
    """The exponent field, the mantissa as a fraction of one, and the sign."""
    field, mantissa = divmod(code & 0x7F, 1 << fmt.mantissa_bits)
    return field, mantissa, -1.0 if code & 0x80 else 1.0


def _by_the_rule(code: int, bias: int = 7) -> float:
    """What a normal number with these fields would be."""
    field, mantissa, sign = _fields(code)
    return sign * (1 + mantissa / 8) * 2.0 ** (field - bias)


def _by_hand(bias: int = 7, hidden: int = 1) -> float:
    field, mantissa, sign = _fields(_BY_HAND)
    return sign * (hidden + mantissa / 8) * 2.0 ** (field - bias)


def _value(code: int) -> float:
    return decode(code, E4M3).value


def _with_480(code: int) -> float:
    return _by_the_rule(code) if code & 0x7F == E4M3.first_nan else _value(code)


def _no_subnormals(code: int) -> float:
    return _by_the_rule(code) if code & 0x78 == 0 else _value(code)


def _at_the_bias(code: int) -> float:
    """Field 0 taken as it is: one power of two too low."""
    return _value(code) / 2 if code & 0x78 == 0 else _value(code)


def _last_field_reserved(code: int) -> float:
    """As in a larger float: the last field is infinity, then NaN."""
    field, mantissa, sign = _fields(code)
    return _value(code) if field < 15 else math.nan if mantissa else sign * math.inf


def _codes() -> Iterator[tuple[int]]:
    """Yield every byte, the plain ones first and each kind among the first hundred."""
    first = (0x38, 0x39, 0x7E, 0xB8, 0x00, 0x01, 0x07, 0x08, 0x77, 0x78, 0x80, 0x81, 0x7F, 0xFF)
    yield from ((code,) for code in first)
    yield from ((code,) for code in range(256) if code not in first)


def _rounded(shift: int = 0) -> tuple[int, ...]:
    """The codes of the three values, each moved by ``shift`` first."""
    return tuple(encode_code(Fraction(n + shift), False, E4M3) for n in _TIES)


EXERCISES = (
    Exercise(
        name="1.1",
        asks="Which number is the byte 0xAD in E4M3?",
        spec=lambda: _value(_BY_HAND),
        hint="0xAD is 1010 1101 in binary. Cut it into 1 + 4 + 3 bits: a sign, a field, eighths.",
        mistakes=(
            Mistake(spec=lambda: -_value(_BY_HAND), says="The first bit is 1: it is negative."),
            Mistake(
                spec=lambda: _by_hand(bias=0),
                says="Subtract the bias: a field of 5 is 2^(5 - 7).",
            ),
            Mistake(
                spec=lambda: _by_hand(hidden=0),
                says="The eighths come on top of a 1 that is not stored.",
            ),
            Mistake(
                spec=lambda: decode(_BY_HAND, E5M2).value,
                says="That is the byte in E5M2: E4M3 has four bits of exponent.",
            ),
            Mistake(spec=lambda: _by_hand(bias=8), says="The bias of E4M3 is 7; 8 is FNUZ's."),
            Mistake(spec=lambda: _BY_HAND, says="That is the byte as a whole number."),
        ),
    ),
    Exercise(
        name="1.2",
        asks="Which byte is the largest number of E5M2? Its exponent field 31 holds infinity and "
        "NaN.",
        spec=lambda: E5M2.max_code,
        hint="Sign 0, then the largest field that holds numbers, 30 = 11110, then the largest "
        "mantissa of two bits.",
        mistakes=(
            Mistake(spec=lambda: 0x7F, says="0x7F has the exponent field 31: it is NaN."),
            Mistake(spec=lambda: E5M2.inf_code, says="That is infinity: one less is a number."),
            Mistake(
                spec=lambda: E4M3.max_code,
                says="That is the largest number of E4M3; in E5M2 its field is 31: NaN.",
            ),
            Mistake(
                spec=lambda: E5M2.max_value, says="That is the number. Which byte stands for it?"
            ),
            Mistake(
                spec=lambda: E5M2.max_code | 0x80, says="The sign bit is set: that is the least."
            ),
        ),
    ),
    Exercise(
        name="1.3",
        asks="Between 16 and 32 a step of E4M3 is 2, and 16 is the byte 0x58. Which bytes do 17, "
        "19 and 21 become, with ties to even?",
        spec=_rounded,
        hint="0x58 is 16, 0x59 is 18, 0x5A is 20, 0x5B is 22. Each value is halfway between two "
        "codes: take the one whose last bit is 0.",
        mistakes=(
            Mistake(
                spec=lambda: _rounded(1),
                says="That takes every tie up. The even code wins, and it may be the lower one.",
            ),
            Mistake(
                spec=lambda: _rounded(-1),
                says="That takes every tie down. The even code wins, and it may be the upper one.",
            ),
            Mistake(spec=lambda: (16, 20, 20), says="Those are the numbers. Which bytes are they?"),
            Mistake(
                spec=lambda: (0x58, 0x5C, 0x5C),
                says="One step is one code on: 18 is 0x59, and 20 is 0x5A.",
            ),
        ),
    ),
    Exercise(
        name="1.4",
        asks="Write value(code): the number that a byte (0 to 255) is in E4M3; NaN where it is "
        "none.",
        spec=_value,
        cases=_codes,
        hint="Field and mantissa are code >> 3 & 15 and code & 7. Three cases: field 15 with "
        "mantissa 7; field 0; all others. The sign is bit 7.",
        mistakes=(
            Mistake(
                spec=_by_the_rule,
                says="One rule for all: field 0 has no leading 1, and 0x7F and 0xFF are NaN.",
            ),
            Mistake(spec=_with_480, says="0x7F and 0xFF are NaN, not 480 and -480."),
            Mistake(
                spec=_no_subnormals,
                says="Where the field is 0 the leading 1 is a 0: mantissa * 2^-9.",
            ),
            Mistake(
                spec=_at_the_bias,
                says="Field 0 has the power of field 1, 2^-6: a step there is 2^-9, not 2^-10.",
            ),
            Mistake(
                spec=_last_field_reserved,
                says="E4M3 has no infinity: field 15 holds numbers, but for mantissa 7.",
            ),
            Mistake(
                spec=lambda code: abs(_value(code)), says="The sign is missing: bit 7 of the byte."
            ),
            Mistake(spec=lambda code: _value(code) / 2, says="The bias of E4M3 is 7; 8 is FNUZ's."),
        ),
    ),
    Exercise(
        name="1.5",
        asks="A loader multiplies by the scale byte 120 as if it were a number. By what factor are "
        "the weights too large?",
        spec=lambda: _SCALE / decode(_SCALE, "e8m0").value,
        hint="The byte means 2^(120 - 127). Compare that with 120.",
        mistakes=(
            Mistake(spec=lambda: _SCALE, says="That is what it multiplies by. By what should it?"),
            Mistake(
                spec=lambda: decode(_SCALE, "e8m0").value,
                says="That is the right scale.",
            ),
            Mistake(
                spec=lambda: _SCALE * decode(_SCALE, "e8m0").value,
                says="A factor is one divided by the other.",
            ),
            Mistake(
                spec=lambda: decode(_SCALE, "e8m0").value / _SCALE,
                says="The other way round: the weights are too large.",
            ),
            Mistake(
                spec=lambda: 1 / decode(_SCALE, "e8m0").value,
                says="That would be the factor if it multiplied by 1.",
            ),
        ),
    ),
)
