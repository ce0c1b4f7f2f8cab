"""Blocks: the element step against ml_dtypes, the edges, field reports, bad input."""

import math
import random
import struct
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from mxlab.block import BLOCK, dequantize_block, quantize_block
from mxlab.errors import InputError
from mxlab.formats import E4M3, E5M2, Format
from mxlab.scale import RULES, float32_from_bits

FORMATS = pytest.mark.parametrize("fmt", [E4M3, E5M2], ids=lambda f: f.name)
RULE_NAMES = pytest.mark.parametrize("rule", sorted(RULES))


def bf16(*words: int) -> list[float]:
    return [float32_from_bits(word << 16) for word in words]


def random_blocks(seed: int, count: int) -> list[list[float]]:
    """Blocks of float32 with a wide spread of magnitudes, no Inf or NaN."""
    rng = random.Random(seed)
    blocks = []
    for _ in range(count):
        centre, spread = rng.randrange(1, 250), rng.choice([1, 3, 12])
        words = [
            rng.getrandbits(1) << 31
            | min(max(centre + rng.randint(-spread, spread), 0), 254) << 23
            | rng.getrandbits(23)
            for _ in range(BLOCK)
        ]
        blocks.append([float32_from_bits(word) for word in words])
    return blocks


@FORMATS
@RULE_NAMES
def test_elements_are_ml_dtypes_casts_of_value_over_scale(fmt: Format, rule: str) -> None:
    dtype: Any = getattr(ml_dtypes, fmt.torch_dtype)
    for values in random_blocks(seed=5, count=60):
        block = quantize_block(values, fmt, rule=rule)
        scaled = np.array(values) / block.scale  # exact: a double divided by a power of two
        clamped = np.clip(scaled, -fmt.max_value, fmt.max_value).astype(dtype)
        assert block.codes == tuple(clamped.view(np.uint8).tolist())
        decoded = clamped.astype(np.float64) * block.scale
        assert block.decoded == tuple(decoded.tolist())
        assert block.saturated == (np.abs(scaled) > fmt.max_value).sum()
        nonzero = np.array(values) != 0
        relative = np.abs((decoded - values)[nonzero] / np.array(values)[nonzero]).max()
        assert block.max_rel_error == pytest.approx(relative, rel=1e-12)
        noise = ((decoded - values) ** 2).sum()
        ratio = 10 * np.log10((np.array(values) ** 2).sum() / noise)
        assert block.sqnr_db == pytest.approx(ratio, rel=1e-9)


@RULE_NAMES
def test_only_floor_and_even_clip(rule: str) -> None:
    clipped = sum(quantize_block(v, rule=rule).saturated for v in random_blocks(seed=6, count=80))
    assert (clipped > 0) == (rule in ("floor", "even"))


@FORMATS
@RULE_NAMES
@pytest.mark.parametrize("special", [math.inf, -math.inf, math.nan, -math.nan])
@pytest.mark.parametrize("at", [0, 13, 31])
def test_inf_or_nan_anywhere_makes_the_block_nan(
    fmt: Format, rule: str, special: float, at: int
) -> None:
    values = [1.0] * BLOCK
    values[at] = special
    block = quantize_block(values, fmt, rule=rule)
    assert block.scale_byte == 255 and math.isnan(block.scale)
    assert set(block.codes) == {fmt.nan_code}
    assert all(map(math.isnan, block.decoded))
    assert block.max_rel_error is None and block.sqnr_db is None


@FORMATS
@RULE_NAMES
def test_zero_block_keeps_signs(fmt: Format, rule: str) -> None:
    block = quantize_block([0.0] * 31 + [-0.0], fmt, rule=rule)  # field report 15
    assert block.scale_byte == 0 and block.codes == (0,) * 31 + (0x80,)
    assert block.max_rel_error == 0.0 and block.sqnr_db is None


@RULE_NAMES
def test_finite_data_never_become_nan(rule: str) -> None:
    largest = float32_from_bits(0x7F7FFFFF)
    block = quantize_block([largest, -largest, 1.0], rule=rule)
    assert block.scale_byte == (246 if rule == "floor" else 247)
    assert all(map(math.isfinite, block.decoded))


def test_field_report_1_small_blocks() -> None:
    values = bf16(0x046F, 0x8335, 0x000A)
    floor = quantize_block(values, rule="floor")
    assert floor.scale_byte == 0 and floor.codes[:3] == (0x7E, 0xEB, 0x22)
    rceil = quantize_block(values, rule="rceil")
    assert rceil.scale_byte == 1 and (rceil.codes[0], rceil.codes[2]) == (0x77, 0x1A)
    for rule in ("floor", "rceil"):
        tiny = quantize_block([2.0**-130, 3 * 2.0**-138, 2.0**-137], rule=rule)
        assert tiny.scale_byte == 0 and tiny.codes[:3] == (0x20, 0x01, 0x00)
        assert any("byte 0" in note for note in tiny.notes)


def test_field_report_3_amax_150() -> None:
    found = {r: quantize_block([150.0] + [1.0] * 31, rule=r) for r in RULES}
    assert {r: b.scale_byte for r, b in found.items()} == {
        "floor": 126, "rceil": 126, "even": 126, "ceil": 127
    }  # fmt: skip
    assert found["rceil"].codes[0] == 0x79 and found["ceil"].codes[0] == 0x71
    assert {b.decoded[0] for b in found.values()} == {144.0}
    assert all(b.decoded[1] == 1.0 for b in found.values())


def test_field_report_4_amax_630() -> None:
    values = [630.0] + [1.0] * 31
    for rule, byte in (("rceil", 128), ("floor", 128), ("ceil", 129)):
        block = quantize_block(values, rule=rule)
        assert block.scale_byte == byte and block.decoded[0] == 640.0


def test_field_report_6_e5m2() -> None:
    values = [float(i) for i in range(1, 32)] + [float32_from_bits(0x42FFFFFF)]
    floor = quantize_block(values, "e5m2", rule="floor")
    assert (floor.scale_byte, floor.codes[31], floor.decoded[31]) == (118, 0x7B, 112.0)
    assert floor.saturated == 1
    for rule in ("rceil", "even"):
        block = quantize_block(values, "e5m2", rule=rule)
        assert (block.scale_byte, block.codes[31], block.decoded[31]) == (119, 0x78, 128.0)


def test_field_report_7_one_nan_among_bfloat16() -> None:
    values = [*bf16(*range(0x3F80, 0x3F9F)), math.nan]
    assert len(values) == 32 and quantize_block(values).scale_byte == 255


def test_short_blocks_say_so() -> None:
    block = quantize_block([1.0, 2.0, -3.5])
    assert (block.given, block.zero_filled) == (3, 29)
    assert block.values[3:] == (0.0,) * 29 and block.codes[3:] == (0,) * 29
    assert block.notes == ("3 values: filled up with 29 zeros",)
    assert quantize_block([1.0] * 32).notes == ()


def test_values_that_are_no_float32_say_so() -> None:
    block = quantize_block([0.1, 0.5] * 16)
    assert block.values[0] == struct.unpack("<f", struct.pack("<f", 0.1))[0]
    assert block.notes == ("16 of the values are no float32: rounded to the nearest first",)


def test_numpy_rows_are_accepted() -> None:
    row = np.arange(32, dtype=np.float32)
    assert quantize_block(row) == quantize_block(row.tolist())
    assert quantize_block(row.astype(ml_dtypes.bfloat16)) == quantize_block(row)


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ([], "a block has 0 values: expected 1 to 32; the nearest is 1"),
        ([1.0] * 33, "a block has 33 values: expected 1 to 32; the nearest is 32"),
        (iter([1.0] * 10**6), "a block has over 32 values"),
        ([1.0, "2"], "values[1] is '2': expected a number"),
        ([1.0, 1e39], "values[1] is 1e+39: beyond float32"),
        ("1,2", "values are '1,2': expected a list"),
        (3.0, "values are 3.0: expected a list"),
        (None, "values are None"),
        ([[1.0] * 32] * 2, "values[0] is [1.0"),
    ],
)
def test_bad_values(values: Any, text: str) -> None:
    with pytest.raises(InputError) as caught:
        quantize_block(values)
    assert text in str(caught.value) and len(str(caught.value)) < 250


def test_bad_names() -> None:
    for arguments in ({"fmt": "e8m0"}, {"rule": "round"}, {"profile": "\x00nope"}):
        with pytest.raises(InputError):
            quantize_block([1.0], **arguments)


def test_dequantize_block() -> None:
    assert dequantize_block(247, [0x78]) == [2.0**128]  # beyond float32, not beyond a double
    assert dequantize_block(0, [0x01, 0x81]) == [2.0**-136, -(2.0**-136)]
    assert all(map(math.isnan, dequantize_block(255, [0, 0x38])))
    assert math.isnan(dequantize_block(127, [0x7F])[0])
    assert dequantize_block(127, [0x7C], "e5m2") == [math.inf]
    with pytest.raises(InputError, match="scale byte is 256"):
        dequantize_block(256, [0])
    with pytest.raises(InputError, match="e4m3 code is 300"):
        dequantize_block(0, [300])
