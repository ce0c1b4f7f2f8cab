"""Chapters 1 and 2: their exercises against oracles, their prose against what their cells print."""

import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from chapters import check_claims, check_parts, printed

from mxlab.exercises import exercise

CHAPTERS = {"1": "01_one_byte", "2": "02_block"}
EVERY = np.arange(256, dtype=np.uint8)
E4M3 = EVERY.view(ml_dtypes.float8_e4m3fn).astype(np.float64)
E5M2 = EVERY.view(ml_dtypes.float8_e5m2).astype(np.float64)
E8M0 = EVERY.view(ml_dtypes.float8_e8m0fnu).astype(np.float64)
#: chapter -> (what the prose says, what the cells print)
CLAIMS = {
    "1": (
        ("The first byte, 0x73, is 115", "0x73 as a whole number: 115"),
        ("about 450,000 times too large", "471,040 times"),
        (
            "0x7E is the largest number of E4M3",
            "E4M3: 1 + 4 + 3 bits, bias   7, largest 448",
        ),
        ("no number in E5M2, and a half as a scale", "as E5M2: nan\n     as E8M0: 0.5"),
        ("0x7E = 0111 1110 = 0 1111 110", "0x7E = 01111110 = 0 1111 110"),
        ("**Value.** 1.75 * 256 = 448", "(1 + 6/8) * 2^(15 - 7) = 448.0\ndecode says 448.0"),
        ("counted the same 18 of 256", "18 of 256 are wrong: 00 01 02 03 04 05 06 07 7F 80 81"),
        ("By the rule, byte 0x00 would be 2^-7", "0x00: by the rule 0.0078125, right 0.0"),
        (
            "no gap where the fields change",
            "subnormal   7 * 2^-9\n0x08  0 0001 000  normal      8 *",
        ),
        ("By the rule they would be 480 and -480", "0x7F: by the rule 480.0, right nan"),
        ("the only codes that are not numbers", "E4M3  inf: -      nan: 7F FF\n"),
        ("reserves its whole last exponent field", "E5M2  inf: 7C FC  nan: 7D 7E 7F FD FE FF"),
        ("ends at 448 instead of 240", "E4M3 with field 15 reserved would end at 240.0"),
        ("more than 1/17 of the value, 5.88 %", "normal number has to move: 5.88%"),
        ("2^-10 is halfway between 0 and the smallest", "0.000976562   -> 0x00 = 0          a tie"),
        ("the errors would add up", "nearest-away: mean error of 118 ties +4.35%"),
        ("instead of cancelling", "nearest-even: mean error of 118 ties -0.20%"),
        (
            "beyond it gives NaN",
            "  464     448         448             448\n  465     448         nan",
        ),
        ("It works for 254 bytes", "byte 254: shifted 1.70141e+38   right 1.70141e+38"),
        ("Byte 0 is 2^-127", "byte   0: shifted 0             right 5.87747e-39"),
        ("byte 255 becomes infinity", "byte 255: shifted inf           right nan"),
        ("Every scale below 1 became 0", "cast:     [0, 0, 8]\nview:     [120, 125, 130]"),
        ("All but three are worth half", "E4M3 is twice FNUZ: 253 of 256 bytes"),
        ("it must only turn 0x80 into 0x00", "0x80: E4M3 -0, FNUZ nan"),
    ),
    "2": (
        ("957 / 4 = 239.25", "957    239.25  0x77      240          960   +0.3%"),
        ("136.0891 fares worst: 34.02", "136.089     34.02  0x61       36          144   +5.8%"),
        ("takes the same four steps", "same as by hand: True\nworst relative error 5.81%"),
        ("the numbers that can come back are 64 apart", " 512 to  1024         22     64"),
        ("Among the smallest they are 4 apart", "  32 to    64          2      4"),
        ("Then 957 / 2 = 478.5", "byte 128: 957 / 2 = 478.5\n-> code 0x7E -> 896"),
        ("Seven values *saturate*", "7 of 32 lie beyond 448 * 2 and come back as that"),
        ("From 129 to 138 nothing changes", "the same 32 numbers come back for bytes 129 to 138"),
        ("one too low, and 6 dB are gone", "128         2     7           0          0   27.6 dB"),
        ("6 dB are gone", "129         4     0           0          0   33.8 dB"),
        ("far below they become 0", "143     65536     0          32          2   23.9 dB"),
        ("at 40,000 it begins to matter", "   40,000       128           0.125                1"),
        (
            "every other value of the block is 0",
            "4,000,000     16384              16               31",
        ),
        ("There an outlier of 400 is enough", "0.000976562                0               5"),
        (
            "SQNR does not either",
            "31 of 32 values lost: SQNR 35.4 dB\nnone lost:            SQNR 28.0",
        ),
        ("mxlab writes byte 0", "32 zeros      byte   0, codes 00 ... 80:  0 NaN"),
        ("so all 32 come back as NaN", "one NaN       byte 255, codes 7F ... 7F: 32 NaN"),
        (
            "shrinks to 1/1.94 of bfloat16",
            "blocks of  32: 8.25 bits a value, bfloat16 1.94 times that",
        ),
    ),
}


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_the_prose_says_what_the_cells_print(chapter: str) -> None:
    check_claims(CHAPTERS[chapter], CLAIMS[chapter])


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_the_chapter_has_its_parts(chapter: str) -> None:
    check_parts(CHAPTERS[chapter], chapter)


def test_the_table_of_neighbours_is_the_oracles() -> None:
    """The 18 bytes on which one rule for all fails, counted in another library's numbers."""
    field, mantissa = EVERY >> 3 & 15, EVERY & 7
    rule = np.where(EVERY >> 7, -1, 1) * (1 + mantissa / 8) * 2.0 ** (field.astype(int) - 7)
    wrong = " ".join(f"{code:02X}" for code in EVERY[rule != E4M3])
    assert f"18 of 256 are wrong: {wrong}\n" in printed(CHAPTERS["1"])


def test_1_1_to_1_3_and_1_5_are_the_oracles() -> None:
    assert exercise("1.1").spec() == E4M3[0xAD]
    assert exercise("1.2").spec() == int(np.argmax(np.where(np.isfinite(E5M2), E5M2, 0)))
    ties = np.array([17, 19, 21], np.float32).astype(ml_dtypes.float8_e4m3fn)
    assert exercise("1.3").spec() == tuple(ties.view(np.uint8).tolist())
    assert exercise("1.5").spec() == 120 / E8M0[120]


def test_1_4_is_the_oracle_in_all_256_bytes() -> None:
    cases = [case[0] for case in exercise("1.4").cases()]  # type: ignore[misc]
    assert sorted(cases) == list(range(256))
    found = np.array([exercise("1.4").spec(code) for code in range(256)])
    np.testing.assert_array_equal(found, E4M3)
    assert np.isnan(found).sum() == 2 and len(np.unique(found[~np.isnan(found)])) == 253


def test_1_4_names_the_decoder_of_the_mi300() -> None:
    """FNUZ is half of every number: what is not half of it is no number in one of the two."""
    half = EVERY.view(ml_dtypes.float8_e4m3fnuz).astype(np.float64)
    mistake = next(m for m in exercise("1.4").mistakes if "FNUZ" in m.says)
    named = np.array([mistake.spec(code) for code in range(256)])
    assert (named != half).sum() == 3 and set(EVERY[named != half]) == {0x7F, 0x80, 0xFF}


def _least_that_fits(amax: float) -> int:
    byte = 0
    while Fraction(amax) > 448 * Fraction(2) ** (byte - 127):
        byte += 1
    return byte


def _stored(values: list[float], byte: int) -> list[int]:
    scaled = np.array(values, np.float64) / E8M0[byte]
    return [int(code) for code in scaled.astype(ml_dtypes.float8_e4m3fn).view(np.uint8)]


def test_2_1_is_the_least_scale_that_fits() -> None:
    assert exercise("2.1").spec() == _least_that_fits(0.03)


def test_2_2_is_the_oracles_code() -> None:
    assert [exercise("2.2").spec()] == _stored([-90.0], 129)


def test_2_3_is_the_last_value_that_becomes_0() -> None:
    byte = _least_that_fits(30_000.0)
    last = exercise("2.3").spec()
    after = float(np.nextafter(np.float32(last), np.float32(math.inf)))
    assert _stored([last, after, 30_000.0], byte)[:2] == [0, 1]


def test_2_4_is_the_oracle_in_all_256_scale_bytes() -> None:
    cases = list(exercise("2.4").cases())  # type: ignore[misc]
    assert sorted(byte for byte, _ in cases) == list(range(256))
    assert {code for _, codes in cases for code in codes} == set(range(256))
    for byte, codes in cases:
        found = exercise("2.4").spec(byte, codes)
        np.testing.assert_array_equal(found, E4M3[codes] * E8M0[byte])


def test_2_5_is_the_oracles_block() -> None:
    before, after = [1.0, 2.0, -3.5], [8.0, 16.0, -28.0]
    asks = exercise("2.5").asks
    assert f"byte {_least_that_fits(3.5)}, and its first code is 0x70" in asks
    assert _stored(before, _least_that_fits(3.5))[0] == 0x70
    byte = _least_that_fits(28.0)
    assert exercise("2.5").spec() == (byte, _stored(after, byte)[0])
