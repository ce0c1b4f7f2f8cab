"""Exercises of chapter 3: which power of two?"""

import math
from collections.abc import Iterator, Sequence
from random import Random
from struct import pack, unpack

from mxlab.exercises.checker import Exercise, Mistake
from mxlab.formats import E4M3, E5M2
from mxlab.scale import MANTISSA, NAN_BYTE, RULES, float32_from_bits, scale_byte
from mxlab.scale import scale_byte_from_bits as by_rule

_INF = 0x7F800000
_BY_HAND = 500.0
_BINADE = 32768.0  # of E5M2's largest number
Pairs = Sequence[tuple[float, int]]


def _patterns() -> Iterator[tuple[int]]:
    """Yield float32 bits without sign: each threshold from both sides, and both ends."""
    for exponent in (1, 7, 8, 9, 64, 127, 135, 200, 254):
        for mantissa in (0, 1, 0x400000, 0x5FFFFF, 0x600000, 0x600001, 0x780000, 0x7FFFFF):
            yield (exponent << MANTISSA | mantissa,)
    for bits in (0, 1, 0x400000, 0x7FFFFF, _INF - 1, _INF, _INF + 1, 0x7FC00000):
        yield (bits,)


def _float32(value: float) -> float:
    return float(unpack("<f", pack("<f", value))[0])


def _in_logs(bits: int) -> int:
    """The rule in float32 logarithms, each step rounded correctly."""
    if bits == 0 or bits >= _INF:
        return NAN_BYTE if bits else 0
    quotient = _float32(float32_from_bits(bits) / 448)
    return max(math.ceil(_float32(math.log2(quotient))) + 127, 0) if quotient else 0


def _fields(bits: int, up: bool) -> int:
    if bits >= _INF:
        return NAN_BYTE
    return max((bits >> MANTISSA) - 8 + up, 0)


def _rceil_unclamped(bits: int) -> int:
    up = bits & 0x7FFFFF > 0x600000
    return NAN_BYTE if bits >= _INF else (bits >> MANTISSA) - 8 + up


def _first_up(rule: str) -> int:
    """The least amax from ``_BINADE`` on whose byte is the next one up, for E5M2."""
    return int(_BINADE * (1 + RULES[rule].threshold(E5M2) / 2**MANTISSA))


def _fitting(pairs: Pairs) -> list[str]:
    return sorted(
        name for name in RULES if all(scale_byte(a, "e4m3", rule=name) == b for a, b in pairs)
    )


def _fitting_once(pairs: Pairs) -> list[str]:
    return sorted(
        name for name in RULES if any(scale_byte(a, "e4m3", rule=name) == b for a, b in pairs)
    )


def _blocks() -> Iterator[tuple[list[tuple[float, int]]]]:
    random = Random(3)
    for rule in RULES:
        maxima = [random.uniform(1, 2) * 2.0 ** random.randint(-20, 20) for _ in range(40)]
        yield ([(amax, scale_byte(amax, "e4m3", rule=rule)) for amax in maxima],)
    yield ([(150.0, 127)],)
    yield ([(500.0, 127)],)
    yield ([(500.0, 128), (450.0, 127)],)
    yield ([(450.0, 128), (440.0, 127)],)
    yield ([(1.0, 119)],)
    yield ([(1.0, 119), (1.0, 127)],)


EXERCISES = (
    Exercise(
        name="3.1",
        asks="A block's amax is 500 and its elements are E4M3. Which byte does each rule give: "
        "FLOOR, RCEIL, CEIL, EVEN?",
        spec=lambda: tuple(
            scale_byte(_BY_HAND, "e4m3", rule=rule) for rule in ("floor", "rceil", "ceil", "even")
        ),
        hint="500 = 1.953 * 2^8, so e = 127 + 8 and e - 8 = 127. Which of the thresholds 1.75, 1 "
        "and 1.9375 are below 1.953?",
        mistakes=(
            Mistake(
                spec=lambda: (135, 136, 136, 136),
                says="Those are 8 too many: 448 is near 2^8, so that the scale is near amax / 2^8.",
            ),
            Mistake(
                spec=lambda: (127, 128, 128, 127),
                says="EVEN rounds 1.953 to the nearest eighth first, and that is 2.",
            ),
            Mistake(
                spec=lambda: (127, 127, 128, 128),
                says="RCEIL: 500 / 1 is more than 448, and does not fit.",
            ),
            Mistake(
                spec=lambda: (0, 1, 1, 1), says="Those are the exponents. The byte is 127 more."
            ),
        ),
    ),
    Exercise(
        name="3.2",
        asks="Write rceil_byte(bits): the E8M0 byte of RCEIL for E4M3, from the bits of a float32 "
        "amax (its sign is 0). Infinity and NaN give 255, and no byte is below 0.",
        spec=lambda bits: by_rule(bits, E4M3, RULES["rceil"]),
        cases=_patterns,
        hint="e is bits >> 23 and m is bits & 0x7fffff. e = 255 is infinity or NaN; otherwise "
        "e - 8, one more where m > 0x600000, and at least 0.",
        mistakes=(
            Mistake(
                spec=lambda bits: by_rule(bits, E4M3, RULES["floor"]),
                says="That is FLOOR: it never looks at the mantissa.",
            ),
            Mistake(
                spec=lambda bits: by_rule(bits, E4M3, RULES["ceil"]),
                says="That is CEIL: it goes up for any mantissa but 0.",
            ),
            Mistake(
                spec=lambda bits: _fields(bits, bits & 0x7FFFFF >= 0x600000),
                says="Exactly 448 * 2^n still fits: the mantissa must exceed 0x600000.",
            ),
            Mistake(
                spec=_rceil_unclamped,
                says="An amax below 2^-119 would get a negative byte: the least is 0.",
            ),
            Mistake(
                spec=lambda bits: max((bits >> MANTISSA) - 8 + (bits & 0x7FFFFF > 0x600000), 0),
                says="An exponent field of 255 is no number: infinity and NaN give byte 255.",
            ),
            Mistake(
                spec=_in_logs,
                says="That is log2 in float32: just above 448 * 2^n it rounds down to n.",
            ),
        ),
    ),
    Exercise(
        name="3.3",
        asks="A library takes the power of two nearest to amax / 448, by rounding its log2 to the "
        "nearest whole number. Which part of the largest value can it cut off at most? Answer "
        "with a fraction, to three digits.",
        spec=lambda: 1 - 2**-0.5,
        close=1e-3,
        hint="Rounding a logarithm to the nearest moves it down by at most 1/2. By what factor is "
        "the scale then too small?",
        mistakes=(
            Mistake(
                spec=lambda: 1 - 448 / 512,
                says="That is FLOOR's worst: 448 of 512. Here amax / scale can be larger.",
            ),
            Mistake(
                spec=lambda: 0.5,
                says="Half a step of log2 is a factor of sqrt(2), not of 2.",
            ),
            Mistake(
                spec=lambda: 2**0.5 - 1,
                says="The scale is too small by sqrt(2): what is left of the value is 1 / sqrt(2).",
            ),
            Mistake(
                spec=lambda: 100 * (1 - 2**-0.5), says="That is in percent: answer with a fraction."
            ),
        ),
    ),
    Exercise(
        name="3.4",
        asks="Write rules_that_fit(pairs): the sorted names of the rules (floor, rceil, ceil, "
        "even) that explain every pair (amax, byte) of an E4M3 tensor.",
        spec=_fitting,
        cases=_blocks,
        hint="For each rule, compare mxlab.scale_byte(amax, 'e4m3', rule=rule) with the byte of "
        "every pair.",
        mistakes=(
            Mistake(
                spec=_fitting_once,
                says="A rule has to explain every block: one byte that it does not give rules it "
                "out.",
            ),
            Mistake(
                spec=lambda pairs: _fitting(pairs)[:1],
                says="More than one rule may fit: on many data they give the same bytes.",
            ),
            Mistake(
                spec=lambda pairs: _fitting(pairs[:1]),
                says="That looks at the first block only.",
            ),
        ),
    ),
    Exercise(
        name="3.5",
        asks="E5M2 has two bits of mantissa, and its largest number is 57,344 = 1.75 * 2^15. From "
        "which amax on, in the binade of 32,768 to 65,536, does EVEN take the next byte up?",
        spec=lambda: _first_up("even"),
        hint="EVEN goes up where amax rounds to the next power of two. With two bits, the last "
        "step before 2 is 1.75, and halfway is a tie that goes up.",
        mistakes=(
            Mistake(
                spec=lambda: int(_BINADE * 1.9375),
                says="1.9375 is halfway from 1.875 to 2: that is E4M3, with three bits.",
            ),
            Mistake(
                spec=lambda: 57344,
                says="57,344 is a number of E5M2: it rounds to itself, not to 65,536.",
            ),
            Mistake(spec=lambda: 57345, says="That is RCEIL: it goes up just above 57,344."),
            Mistake(spec=lambda: 65536, says="That is FLOOR: 65,536 is the next binade."),
        ),
    ),
)
