"""Codes against ml_dtypes, exhaustively, and against the casts of other libraries."""

import json
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mxlab.codec import ROUNDINGS, decode, encode
from mxlab.errors import InputError
from mxlab.formats import E4M3, E5M2, E8M0, FORMATS, Format
from mxlab.scale import float32_from_bits

CASTS = json.loads((Path(__file__).parent / "data" / "cast_vectors.json").read_text())
ELEMENTS = pytest.mark.parametrize("fmt", [E4M3, E5M2], ids=lambda f: f.name)


def ml(fmt: Format) -> Any:
    return getattr(ml_dtypes, fmt.torch_dtype)


def same_code(ours: int, theirs: int, fmt: Format) -> bool:
    """Equal, or both NaN: neither the sign nor the payload of a NaN has a meaning."""
    magnitude = 0x7F if fmt.signed else 0xFF
    both_nan = min(ours & magnitude, theirs & magnitude) >= fmt.first_nan
    return ours == theirs or both_nan


@pytest.mark.parametrize("fmt", FORMATS.values(), ids=lambda f: f.name)
def test_decode_every_code(fmt: Format) -> None:
    theirs = np.arange(256, dtype=np.uint8).view(ml(fmt)).astype(np.float64)
    for code in range(256):
        ours = decode(code, fmt)
        assert ours.value == theirs[code] or (math.isnan(ours.value) and np.isnan(theirs[code]))
        assert math.copysign(1, ours.value) == np.copysign(1, theirs[code]) or ours.kind == "nan"


@ELEMENTS
def test_fields_rebuild_every_value(fmt: Format) -> None:
    kinds = set()
    for code in range(256):
        d = decode(code, fmt)
        kinds.add(d.kind)
        assert int(d.bits.replace(" ", ""), 2) == code
        assert d.sign << 7 | d.exponent << fmt.mantissa_bits | d.mantissa == code
        if d.power is not None:
            lead = 1 if d.kind == "normal" else 0
            power = (d.exponent or 1) - fmt.bias
            value = (lead + d.mantissa / 2**fmt.mantissa_bits) * 2.0**power
            assert abs(d.value) == value and 2.0**d.power <= value < 2.0 ** (d.power + 1)
    assert kinds == {"zero", "subnormal", "normal", "nan"} | ({"inf"} if fmt is E5M2 else set())


@ELEMENTS
@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, np.float16], ids=["bfloat16", "float16"])
def test_encode_every_16_bit_value(fmt: Format, dtype: Any) -> None:
    values = np.arange(65536, dtype=np.uint16).view(dtype)
    doubles = [float(v) for v in values]
    with np.errstate(all="ignore"):
        cast = values.astype(ml(fmt)).view(np.uint8)
        clamped = np.clip(values.astype(np.float32), -fmt.max_value, fmt.max_value)
        saturated = clamped.astype(ml(fmt)).view(np.uint8)
    wrong = [
        (doubles[i], plain)
        for plain, theirs in ((True, cast), (False, saturated))
        for i in range(plain, 65536, 2)  # each policy on half of the values: all are covered
        if not same_code(encode(doubles[i], fmt, saturate=not plain).code, int(theirs[i]), fmt)
    ]
    assert wrong == []
    assert len(set(cast)) > 240  # the reference is not constant


def test_e8m0_nearest_on_every_positive_bfloat16() -> None:
    values = np.arange(1, 0x7F80, dtype=np.uint16).view(ml_dtypes.bfloat16)
    theirs = values.astype(ml_dtypes.float8_e8m0fnu).view(np.uint8)
    differ = []
    for value, code in zip(values.astype(np.float64), theirs, strict=True):
        if encode(float(value), E8M0, saturate=False).code != code:
            differ.append(float(value))
    # between 2^-127 and 1.5 * 2^-127 ml_dtypes goes up, away from the nearer 2^-127
    assert differ and all(2.0**-127 < value < 1.5 * 2.0**-127 for value in differ)


@pytest.mark.parametrize(
    ("rounding", "library"),
    [
        ("up", "CUDA header RoundPosInf SATFINITE"),
        ("toward-zero", "CUDA header RoundZero SATFINITE"),
    ],
)
def test_e8m0_directed_rounding_is_cudas(rounding: str, library: str) -> None:
    table = CASTS["f32_to_e8m0"]
    checked = 0
    for bits, theirs in zip(table["f32_bits"], table[library], strict=True):
        value = float32_from_bits(int(bits, 16))
        # CUDA gives zero and negative numbers a byte; an infinite scale is 254 there, 255 here
        if value > 0 and not math.isinf(value):
            assert encode(value, E8M0, rounding=rounding).code == theirs, bits
            checked += 1
    assert checked == 24


def test_e4m3_casts_of_torch_and_cuda() -> None:
    table = CASTS["f32_to_e4m3fn"]
    for library, saturate in (
        ("torch 2.13 .to(float8_e4m3fn)", True),
        ("CUDA header SATFINITE", True),
        ("CUDA header NOSAT", False),
        ("ml_dtypes.float8_e4m3fn", False),
    ):
        for bits, theirs in zip(table["f32_bits"], table[library], strict=True):
            value = float32_from_bits(int(bits, 16))
            assert same_code(encode(value, E4M3, saturate=saturate).code, theirs, E4M3), bits


@ELEMENTS
def test_every_code_encodes_to_itself(fmt: Format) -> None:
    for code in range(256):
        d = decode(code, fmt)
        if d.kind in ("nan", "inf"):
            continue
        e = encode(d.value, fmt)
        assert e.code == code and e.error == 0 and not (e.tie or e.saturated)
        assert e.lower == e.upper == e.decoded


@ELEMENTS
def test_midpoints_are_ties_and_their_neighbours_are_not(fmt: Format) -> None:
    tiny = Fraction(1, 2**60)
    for code in range(fmt.max_code):
        low, high = fmt.magnitude(code), fmt.magnitude(code + 1)
        middle = (low + high) / 2
        even = code if code % 2 == 0 else code + 1
        assert encode(middle, fmt).code == even and encode(middle, fmt).tie
        assert encode(-middle, fmt).code == even | 0x80
        assert encode(middle - tiny, fmt).code == code and not encode(middle - tiny, fmt).tie
        assert encode(middle + tiny, fmt).code == code + 1


@given(
    st.one_of(st.floats(allow_nan=False, allow_infinity=False), st.fractions()),
    st.sampled_from(sorted(FORMATS)),
    st.sampled_from(sorted(ROUNDINGS)),
)
def test_the_result_is_a_neighbour(value: float | Fraction, fmt: str, rounding: str) -> None:
    if fmt == "e8m0" and value <= 0:
        return
    e = encode(value, fmt, rounding=rounding)
    exact = Fraction(value)
    below = e.lower.exact if e.lower else None
    above = e.upper.exact if e.upper else None
    assert e.decoded.exact in (below, above)
    assert e.error == e.decoded.exact - exact  # type: ignore[operator]
    assert (below is None or below <= exact) and (above is None or exact <= above)
    if below is not None and above is not None:
        nearest = min(exact - below, above - exact)
        if rounding.startswith("nearest"):
            assert abs(e.error) == nearest
        assert e.tie == (exact - below == above - exact and below != above)
        if rounding == "up":
            assert e.decoded.exact == above
        if rounding == "down":
            assert e.decoded.exact == below


def test_a_double_is_rounded_once() -> None:
    value = 1.0625 + 2.0**-40  # above a tie; through float32 it would be the tie itself
    assert np.float32(value) == np.float32(1.0625)
    assert encode(value, "e4m3").decoded.value == 1.125
    assert encode(1.0625, "e4m3").decoded.value == 1.0


@pytest.mark.parametrize("fmt", ["e4m3", "e5m2"])
def test_infinity_and_nan(fmt: str) -> None:
    largest = FORMATS[fmt].max_value
    for value in (math.inf, -math.inf):
        e = encode(value, fmt)
        assert e.decoded.value == math.copysign(largest, value) and e.saturated and e.error is None
    plain = encode(-math.inf, fmt, saturate=False).decoded
    assert plain.kind == ("nan" if fmt == "e4m3" else "inf") and plain.sign == 1
    assert encode(math.nan, fmt).decoded.kind == encode(-math.nan, fmt).decoded.kind == "nan"
    assert encode(math.inf, "e8m0").code == encode(-math.nan, "e8m0").code == 255


def test_field_report_11_e8m0_roundings() -> None:
    values = [1.0, 1.25, 1.5, 3.0, 0.375]
    expected = {
        "nearest-away": [127, 127, 128, 129, 126],
        "up": [127, 128, 128, 129, 126],
        "down": [127, 127, 127, 128, 125],
    }
    for rounding, codes in expected.items():
        assert [encode(v, "e8m0", rounding=rounding).code for v in values] == codes
    for value in (0.0, -0.0, -1.0, -math.inf, 0, Fraction(-1, 3)):
        with pytest.raises(InputError, match="no zero and no sign"):
            encode(value, "e8m0")


def test_e8m0_clamps_both_ends_and_says_so() -> None:
    small, large = encode(2.0**-130, "e8m0"), encode(1.6 * 2.0**127, "e8m0")
    assert (small.code, small.saturated, small.lower) == (0, True, None)
    assert (large.code, large.saturated, large.upper) == (254, True, None)
    assert encode(1.6 * 2.0**127, "e8m0", saturate=False).code == 255
    assert not encode(2.0**-127, "e8m0").saturated and not encode(2.0**127, "e8m0").saturated


def test_field_report_12_saturation() -> None:
    values = [448, 464, 465, 1000, -1000]
    assert [encode(v).decoded.value for v in values] == [448, 448, 448, 448, -448]
    plain = [encode(v, saturate=False).decoded.value for v in values]
    assert plain[:2] == [448, 448] and all(map(math.isnan, plain[2:]))


def test_field_report_14_floor_is_not_truncation_of_log2() -> None:
    assert [encode(v, "e8m0", rounding="down").code for v in (0.375, 3.0)] == [125, 128]
    assert [encode(v, "e8m0", rounding="up").code for v in (0.375, 3.0)] == [126, 129]


@pytest.mark.parametrize(
    "bad", [256, -1, 1.5, True, "0x7e", None, pytest.param(10**5000, id="huge")]
)
def test_bad_codes(bad: Any) -> None:
    with pytest.raises(InputError, match="e4m3 code is") as caught:
        decode(bad, "e4m3")
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("bad", ["1.1", b"1", True, None, [1.0], {}, 1j])
def test_bad_values(bad: Any) -> None:
    with pytest.raises(InputError, match=r"value is .*: expected"):
        encode(bad, "e4m3")


def test_scalars_of_numpy_and_ml_dtypes() -> None:
    for value in (np.float16(1.5), np.float32(1.5), np.float64(1.5), ml_dtypes.bfloat16(1.5)):
        assert encode(value).decoded.value == 1.5
    assert decode(np.uint8(0x7E)).value == 448  # type: ignore[arg-type]
    assert encode(10**5000).code == 0x7E and encode(-(10**5000), saturate=False).code == 0xFF
    assert encode(Fraction(1, 10**5000)).code == 0


def test_unknown_rounding() -> None:
    with pytest.raises(InputError, match="did you mean 'nearest-even'"):
        encode(1.0, rounding="nearest_even")
