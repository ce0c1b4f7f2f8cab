"""Exercises of chapter 0: why blocks?"""

from collections.abc import Iterator

from mxlab.block import BLOCK
from mxlab.codec import decode
from mxlab.exercises.checker import Exercise, Mistake
from mxlab.scale import NAN_BYTE, scale_byte


def _company(length: int, position: int) -> int:
    blocks = [range(start, min(start + BLOCK, length)) for start in range(0, length, BLOCK)]
    return next(len(block) - 1 for block in blocks if position in block)


def _rows() -> Iterator[tuple[int, int]]:
    for length in (32, 64, 100, 96, 33, 1):
        yield from ((length, p) for p in (0, 1, 31, 32, 63, 64, 95, 96, 99) if p < length)


EXERCISES = (
    Exercise(
        name="0.1",
        asks="A weight has 4096 outputs and 14336 inputs. How many bytes does it take in MXFP8, "
        "codes and scales together?",
        spec=lambda: 4096 * 14336 + 4096 * (14336 // BLOCK),
        hint="One byte for each value, and one more for each 32 values.",
        mistakes=(
            Mistake(spec=lambda: 4096 * 14336, says="Those are the codes alone."),
            Mistake(spec=lambda: 4096 * 14336 // BLOCK, says="Those are the scales alone."),
            Mistake(spec=lambda: 4096 * 14336 * 33, says="That is a whole block for every value."),
        ),
    ),
    Exercise(
        name="0.2",
        asks="The largest value of a block is 90, and its scale is the smallest power of two that "
        "works. What is the smallest positive value that one of the others can come back as?",
        spec=lambda: decode(1, "e4m3").value * 2.0 ** (scale_byte(90.0, "e4m3") - 127),
        hint="Which power of two brings 90 to at most 448? The smallest positive E4M3 number is "
        "subnormal, code 0x01: 2^-9. Then the scale.",
        mistakes=(
            Mistake(spec=lambda: 2.0**-9, says="Now multiply by the scale."),
            Mistake(spec=lambda: 2.0**-2, says="That is the scale alone."),
            Mistake(
                spec=lambda: 2.0**-6 * 2.0**-2,
                says="2^-6 is the smallest normal number: subnormal ones go on below it.",
            ),
            Mistake(
                spec=lambda: 2.0**-9 * 2.0**-3,
                says="That scale is 2^-3: 90 / 2^-3 is 720, which is more than 448.",
            ),
            Mistake(
                spec=lambda: 2.0**-9 * 2.0**-1,
                says="That scale is 2^-1. A smaller one works too: 90 / 2^-2 is 360.",
            ),
        ),
    ),
    Exercise(
        name="0.3",
        asks="Write company(length, position): how many other values share their scale with the "
        "one at position, in a row of length values cut into blocks of 32?",
        spec=_company,
        cases=_rows,
        hint="The block starts at position // 32 * 32; it ends 32 later, or where the row ends.",
        mistakes=(
            Mistake(spec=lambda length, position: 31, says="The last block may be short."),
            Mistake(
                spec=lambda length, position: _company(length, position) + 1,
                says="The value itself is not its own company.",
            ),
        ),
    ),
    Exercise(
        name="0.4",
        asks="By how many powers of two does the largest E8M0 scale exceed the smallest?",
        spec=lambda: NAN_BYTE - 1 - 0,
        hint="Which byte is NaN? The exponent is the byte less 127.",
        mistakes=(
            Mistake(spec=lambda: 255, says="Byte 255 is no number: it is NaN."),
            Mistake(
                spec=lambda: 448 * 2**9,
                says="That is the ratio that the elements reach under one scale. This asks about "
                "the scales.",
            ),
            Mistake(spec=lambda: 2**254, says="That is the ratio. Which power of two is it?"),
        ),
    ),
)
