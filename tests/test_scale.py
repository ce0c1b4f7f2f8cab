"""Scale rules against the definitions in exact integers, and at every threshold."""

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from mxlab.errors import InputError
from mxlab.formats import E4M3, E5M2, Format
from mxlab.scale import (
    RULES,
    float32_bits,
    float32_from_bits,
    scale_byte,
    scale_byte_from_bits,
    scale_value,
)

UNIT = 400  # amax and scales are compared as integer multiples of 2^-UNIT
FORMATS = pytest.mark.parametrize("fmt", [E4M3, E5M2], ids=lambda f: f.name)
RULE_NAMES = pytest.mark.parametrize("rule", sorted(RULES))


def units(bits: int) -> int:
    value = float32_from_bits(bits) * 2.0**UNIT if bits < 0x10000000 else None
    if value is not None:
        return int(value)
    return int(Fraction(float32_from_bits(bits)) * 2**UNIT)


def power(exponent: int) -> int:
    return 1 << (exponent + UNIT)


def follows_definition(amax: int, byte: int, fmt: Format, rule: str) -> bool:
    """Check a byte against the rule's definition: an inequality on exact integers."""
    emax, largest = (8, (7, 6)) if fmt is E4M3 else (15, (7, 13))  # 448 = 7 * 2^6, 57344 = 7 * 2^13
    scale = byte - 127
    if rule == "rceil":  # the least power of two with amax / scale <= largest
        fits = [amax <= largest[0] * power(largest[1] + s) for s in (scale, scale - 1)]
    elif rule == "ceil":  # the least power of two with amax <= scale * 2^emax
        fits = [amax <= power(emax + s) for s in (scale, scale - 1)]
    else:  # floor: the least power of two with amax < scale * 2^(emax + 1)
        if rule == "even":  # after amax is rounded to the element's mantissa, ties to even
            quantum = 1 << (amax.bit_length() - 1 - fmt.mantissa_bits)
            amax = round(Fraction(amax, quantum)) * quantum
        fits = [amax < power(emax + 1 + s) for s in (scale, scale - 1)]
    return fits[0] and (byte == 0 or not fits[1])


@FORMATS
@RULE_NAMES
def test_every_positive_bfloat16(fmt: Format, rule: str) -> None:
    row = RULES[rule]
    bytes_seen = set()
    for high in range(1, 0x7F80):
        byte = scale_byte_from_bits(high << 16, fmt, row)
        bytes_seen.add(byte)
        assert follows_definition(units(high << 16), byte, fmt, rule), hex(high)
    top = 254 - fmt.emax + (rule != "floor")
    assert bytes_seen == set(range(top + 1))


MANTISSAS = sorted(
    {
        m + d
        for m in (0, 1, 0x400000, 0x600000, 0x700000, 0x780000, 0x7FFFFF)
        for d in (-1, 0, 1)
        if 0 <= m + d < 1 << 23
    }
)


@FORMATS
@RULE_NAMES
def test_thresholds_and_one_ulp_around_in_all_binades(fmt: Format, rule: str) -> None:
    for exponent in range(255):
        for mantissa in MANTISSAS:
            bits = exponent << 23 | mantissa
            if bits:
                byte = scale_byte_from_bits(bits, fmt, RULES[rule])
                assert follows_definition(units(bits), byte, fmt, rule), hex(bits)


def test_the_checker_can_fail() -> None:
    for rule in RULES:
        good = scale_byte(3.0, rule=rule)
        assert follows_definition(units(0x40400000), good, E4M3, rule)
        for bad in (good - 1, good + 1):
            assert not follows_definition(units(0x40400000), bad, E4M3, rule)


@pytest.mark.parametrize(
    ("bits", "expected"),
    [  # floor, rceil, ceil, even
        (0x40600001, (120, 121, 121, 120)),
        (0x43FFFFFF, (127, 128, 128, 128)),
        (0x43E00000, (127, 127, 128, 127)),
        (0x43E00001, (127, 128, 128, 127)),
        (0x04600000, (0, 0, 1, 0)),
        (0x04600001, (0, 1, 1, 0)),
        (0x7F7FFFFF, (246, 247, 247, 247)),
        (0x43160000, (126, 126, 127, 126)),  # field report 3: 150
        (0x441D8000, (128, 128, 129, 128)),  # field report 4: 630
    ],
)
def test_sharp_probes(bits: int, expected: tuple[int, ...]) -> None:
    amax = float32_from_bits(bits)
    names = ("floor", "rceil", "ceil", "even")
    assert tuple(scale_byte(amax, "e4m3", rule=name) for name in names) == expected


@RULE_NAMES
def test_edges(rule: str) -> None:
    assert scale_byte(0.0, rule=rule) == scale_byte(-0.0, rule=rule) == 0
    for value in (math.inf, math.nan, -math.nan):
        assert scale_byte(value, rule=rule) == 255
    assert scale_byte(float32_from_bits(1), rule=rule) == 0
    assert scale_byte(float32_from_bits(0x7F7FFFFF), rule=rule) <= 247


def test_doubles_are_rounded_to_float32_first() -> None:
    assert scale_byte(448.0 + 2.0**-40) == 127  # the nearest float32 is 448
    assert scale_byte(3.4028235e38) == 247
    for value in (3.4028236e38, 1e39, 10**400, Fraction(10**400)):
        with pytest.raises(InputError, match="beyond float32; the nearest is 3"):
            scale_byte(value)


def test_field_report_10_every_scale_byte() -> None:
    assert [scale_value(b) for b in (133, 134, 135)] == [64.0, 128.0, 256.0]
    assert all(scale_value(b) == 2.0 ** (b - 127) for b in range(255))
    assert math.isnan(scale_value(255))


@pytest.mark.parametrize("bad", [-1.0, -449, -math.inf, "449", None, True, [449]])
def test_bad_amax(bad: Any) -> None:
    with pytest.raises(InputError, match=r"amax is .*: expected"):
        scale_byte(bad)


def test_bad_names() -> None:
    with pytest.raises(InputError, match="did you mean 'rceil'"):
        scale_byte(1.0, "e4m3", rule="rcel")
    with pytest.raises(InputError, match="holds scales"):
        scale_byte(1.0, "e8m0")
    with pytest.raises(InputError, match="scale byte is 256"):
        scale_value(256)


def test_float32_bits_round_trip() -> None:
    for bits in (0, 1, 0x80000000, 0x3F800000, 0x7F7FFFFF, 0xFF800000, 0x007FFFFF):
        assert float32_bits(float32_from_bits(bits)) == bits
        assert np.uint32(bits).view(np.float32) == float32_from_bits(bits)
