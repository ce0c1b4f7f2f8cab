"""Exercises of chapter 2: thirty-two bytes and a scale."""

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from random import Random

from mxlab.block import BLOCK, dequantize_block, quantize_block
from mxlab.codec import decode, encode_code
from mxlab.exercises.checker import Exercise, Mistake
from mxlab.formats import E4M3
from mxlab.scale import NAN_BYTE, scale_byte, scale_value

_AMAX = 0.03
_BYTE, _ELEMENT = 129, -90
_OUTLIER = 30_000.0
_HALF_OF_THE_SMALLEST = float(E4M3.magnitude(1) / 2)
_BLOCK = (1.0, 2.0, -3.5)  # of byte 120, and 0x70 is its first code
_FACTOR = 8


def _code(value: float) -> int:
    return encode_code(abs(Fraction(value)), value < 0, E4M3)


def _in_the_block(number: float, rule: str = "rceil") -> float:
    """An element of the outlier's block, as it comes back."""
    return number * scale_value(scale_byte(_OUTLIER, E4M3, rule=rule))


def _times(factor: int) -> tuple[int, int]:
    block = quantize_block([value * factor for value in _BLOCK], E4M3, "rceil")
    return block.scale_byte, block.codes[0]


def _numbers(codes: Sequence[int], scale: float) -> list[float]:
    return [decode(code, E4M3).value * scale for code in codes]


def _shifted(byte: int) -> float:
    """The byte in float32's exponent field: 0 and infinity at the ends."""
    return math.inf if byte == NAN_BYTE else 0.0 if byte == 0 else scale_value(byte)


def _powers(byte: int) -> float:
    """The formula alone, for all bytes."""
    return float(Fraction(2) ** (byte - 127))


def _blocks() -> Iterator[tuple[int, list[int]]]:
    """Yield every scale byte, the plain ones and both ends first, with codes of every kind."""
    random = Random(2)
    first = (127, 120, 129, 0, 255, 254, 1, 128)
    for byte in (*first, *(b for b in range(256) if b not in first)):
        codes = [0x38, 0xB8, 0x01, 0x7E, 0x00, 0x80, *(random.randrange(256) for _ in range(26))]
        yield byte, codes[:BLOCK]


EXERCISES = (
    Exercise(
        name="2.1",
        asks="The amax of a block of E4M3 is 0.03. Which byte has the smallest scale under which "
        "nothing saturates?",
        spec=lambda: scale_byte(_AMAX, E4M3, rule="rceil"),
        hint="0.03 / 448 is 0.000067. Which is the next power of two above it? 2^-14 is 0.000061.",
        mistakes=(
            Mistake(
                spec=lambda: scale_byte(_AMAX, E4M3, rule="floor"),
                says="0.03 / 2^-14 is 491.5, more than 448.",
            ),
            Mistake(
                spec=lambda: scale_byte(_AMAX, E4M3, rule="floor") + 8,
                says="That brings amax between 1 and 2. E4M3 goes up to 448.",
            ),
            Mistake(spec=lambda: -13, says="That is the exponent. The byte is 127 more."),
            Mistake(spec=lambda: 2**-13, says="That is the scale. Its byte is exponent + 127."),
            Mistake(
                spec=lambda: 127 + 13, says="0.03 / 2^13 is tiny: the exponent is negative here."
            ),
            Mistake(
                spec=lambda: _AMAX / E4M3.max_value, says="A scale is a power of two, and a byte."
            ),
        ),
    ),
    Exercise(
        name="2.2",
        asks="A block has the scale byte 129. Which E4M3 code does the value -90 get?",
        spec=lambda: _code(_ELEMENT / scale_value(_BYTE)),
        hint="The scale is 4, and -90 / 4 is -22.5. Between 16 and 32 a step is 2: 16 is 0x58, "
        "and the sign bit adds 0x80.",
        mistakes=(
            Mistake(
                spec=lambda: _code(-_ELEMENT / scale_value(_BYTE)),
                says="The sign is missing: bit 7.",
            ),
            Mistake(
                spec=lambda: _code(_ELEMENT), says="That is -90 itself: divide by the scale first."
            ),
            Mistake(
                spec=lambda: _code(_ELEMENT * scale_value(_BYTE)),
                says="That multiplies by the scale. A reader does; a writer divides.",
            ),
            Mistake(
                spec=lambda: _code(_ELEMENT / scale_value(_BYTE) - 1),
                says="That is -24. -22 is nearer to -22.5.",
            ),
            Mistake(spec=lambda: -22, says="That is the number. Which code stands for it?"),
            Mistake(spec=lambda: -88, says="That is what comes back. Which code is stored?"),
        ),
    ),
    Exercise(
        name="2.3",
        asks="A block of E4M3 holds 30,000 and 31 small values. Under the smallest scale that cuts "
        "nothing, what is the largest magnitude that becomes 0?",
        spec=lambda: _in_the_block(_HALF_OF_THE_SMALLEST),
        hint="30,000 / 448 is 66.96: which power of two is the scale? The smallest number is 2^-9, "
        "and half of it still goes to 0. Then multiply by the scale.",
        mistakes=(
            Mistake(
                spec=lambda: _in_the_block(2 * _HALF_OF_THE_SMALLEST),
                says="That is the smallest number that can come back. Half of it still becomes 0.",
            ),
            Mistake(spec=lambda: 2**-10, says="Now multiply by the scale."),
            Mistake(
                spec=lambda: _in_the_block(_HALF_OF_THE_SMALLEST, rule="floor"),
                says="Under a scale of 64, 30,000 is cut: 30,000 / 64 is 468.75.",
            ),
            Mistake(
                spec=lambda: _in_the_block(2.0**E4M3.emin),
                says="Below that numbers are subnormal. They are not 0 yet.",
            ),
            Mistake(
                spec=lambda: 2**-10 / 128, says="What is stored is value / scale: multiply back."
            ),
        ),
    ),
    Exercise(
        name="2.4",
        asks="Write read(byte, codes): the list of numbers that a block with this E8M0 scale byte "
        "and these E4M3 codes holds.",
        spec=lambda byte, codes: dequantize_block(byte, codes, E4M3),
        cases=_blocks,
        hint="The scale is 2.0 ** (byte - 127), and NaN for byte 255. Multiply every "
        "mxlab.decode(code).value by it.",
        mistakes=(
            Mistake(
                spec=lambda byte, codes: _numbers(codes, byte),
                says="The byte is not the scale: it is 2^(byte - 127).",
            ),
            Mistake(
                spec=lambda byte, codes: _numbers(codes, _powers(byte)),
                says="Byte 255 is NaN, and all values of the block with it.",
            ),
            Mistake(
                spec=lambda byte, codes: _numbers(codes, _shifted(byte)),
                says="Byte 0 is 2^-127, not 0, and byte 255 is NaN, not infinity.",
            ),
            Mistake(
                spec=lambda byte, codes: _numbers(codes, scale_value(byte) if byte else 0.0),
                says="Byte 0 is 2^-127, not 0.",
            ),
            Mistake(
                spec=lambda byte, codes: _numbers(codes, 1 / scale_value(byte)),
                says="A reader multiplies by the scale. The writer divided.",
            ),
            Mistake(
                spec=lambda byte, codes: [float(code) * scale_value(byte) for code in codes],
                says="A code is not a number yet: decode it.",
            ),
        ),
    ),
    Exercise(
        name="2.5",
        asks="A block has the scale byte 120, and its first code is 0x70. Multiply all its values "
        "by 8 and quantise again: what are the scale byte and the first code?",
        spec=lambda: _times(_FACTOR),
        hint="8 is 2^3. What does the scale become, and what does value / scale become?",
        mistakes=(
            Mistake(
                spec=lambda: (_times(1)[0] + _FACTOR, _times(1)[1]),
                says="The byte is an exponent: a factor of 8 = 2^3 adds 3 to it.",
            ),
            Mistake(
                spec=lambda: (_times(1)[0], E4M3.max_code),
                says="That keeps the scale, and 128 * 8 saturates. A new amax has a new scale.",
            ),
            Mistake(
                spec=lambda: (_times(1)[0] - 3, _times(1)[1]),
                says="Larger values have a larger scale.",
            ),
            Mistake(spec=lambda: _times(1), says="Something must change: the values did."),
            Mistake(
                spec=lambda: (_times(1)[0] * _FACTOR, _times(1)[1]),
                says="The byte is an exponent: a factor is added to it, and a byte ends at 255.",
            ),
            Mistake(
                spec=lambda: (_times(_FACTOR)[0], E4M3.max_code),
                says="The new scale takes up the whole factor: value / scale is what it was.",
            ),
        ),
    ),
)
