"""The vector twin against the scalar reference, bit for bit; axes, dtypes, padding, layouts."""

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mxlab.arrays as arrays
from mxlab.block import dequantize_block, quantize_block
from mxlab.errors import InputError
from mxlab.formats import ELEMENT_FORMATS
from mxlab.layout import LAYOUTS, layout
from mxlab.mxarray import MXArray, concatenate
from mxlab.scale import RULES

FORMATS = pytest.mark.parametrize("fmt", sorted(ELEMENT_FORMATS))
RULE_NAMES = pytest.mark.parametrize("rule", sorted(RULES))


def adversarial_blocks() -> np.ndarray[Any, Any]:
    """Float32 blocks (n, 32): every rule's thresholds +-1 ulp, both ends, special values."""
    rng = np.random.default_rng(7)
    amaxes = [
        exponent << 23 | min(max(mantissa + step, 0), 0x7FFFFF)
        for exponent in (0, 1, 7, 8, 9, 14, 15, 16, 17, 64, 126, 127, 128, 135, 200, 253, 254)
        for mantissa in (0, 0x600000, 0x700000, 0x780000, 0x7FFFFF)
        for step in (-1, 0, 1)
    ]
    blocks = []
    for amax in amaxes:
        sizes = rng.integers(0, amax + 1, 32, dtype=np.uint32)
        # half of the values near the maximum, where ties and saturation are
        near = max(amax - (1 << 25), 0)
        sizes[::2] = rng.integers(near, amax + 1, 16, dtype=np.uint32)
        sizes[1::4] &= np.uint32(0xFFF00000)  # exact codes and ties
        sizes[rng.integers(32)] = amax
        blocks.append(sizes | rng.integers(0, 2, 32, dtype=np.uint32) << np.uint32(31))
    for special in (0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC00000, 0x7F800001, 0xFF812345):
        for at in (0, 17, 31):
            block = blocks[rng.integers(len(blocks))].copy()
            block[at] = special
            blocks.append(block)
    blocks.append(np.full(32, 0x80000000, np.uint32))
    blocks.append(np.zeros(32, np.uint32))
    blocks.append(np.array([0x80000000, 1] * 16, np.uint32))
    return np.array(blocks, np.uint32).view(np.float32)


@FORMATS
@RULE_NAMES
def test_equal_to_the_scalar_reference_on_adversarial_blocks(fmt: str, rule: str) -> None:
    blocks = adversarial_blocks()
    found = arrays.quantize(blocks, fmt, rule=rule, axis=-1)
    for row, codes, byte in zip(blocks, found.codes, found.scales[:, 0], strict=True):
        expected = quantize_block(row.tolist(), fmt, rule=rule)
        assert (int(byte), tuple(codes.tolist())) == (expected.scale_byte, expected.codes)
    decoded = arrays.dequantize(found, np.float64)
    for row, codes, byte in zip(decoded, found.codes, found.scales[:, 0], strict=True):
        reference = dequantize_block(int(byte), codes.tolist(), fmt)
        np.testing.assert_array_equal(row, reference)
        np.testing.assert_array_equal(np.signbit(row), np.signbit(reference))
    assert set(found.scales.ravel().tolist()) >= {0, 1, 255}  # both ends and NaN were met


@FORMATS
def test_every_bfloat16_in_order_equals_the_scalar_reference(fmt: str) -> None:
    values = np.arange(65536, dtype=np.uint16).view(ml_dtypes.bfloat16).reshape(-1, 32)
    found = arrays.quantize(values, fmt, rule="rceil")
    for row, codes, byte in zip(values, found.codes, found.scales[:, 0], strict=True):
        expected = quantize_block([float(v) for v in row], fmt, rule="rceil")
        assert (int(byte), tuple(codes.tolist())) == (expected.scale_byte, expected.codes)


@FORMATS
def test_every_bfloat16_as_an_element_equals_ml_dtypes(fmt: str) -> None:
    """Each value sits in a block whose other values fix the scale at 1."""
    largest = ELEMENT_FORMATS[fmt].max_value
    values = np.arange(65536, dtype=np.uint16).view(ml_dtypes.bfloat16).astype(np.float32)
    values = values[np.abs(values) <= largest]
    blocks = np.full((len(values), 32), largest, np.float32)
    blocks[:, 5] = values
    found = arrays.quantize(blocks, fmt, rule="rceil")
    assert set(found.scales.ravel().tolist()) == {127} and len(values) > 30000
    dtype: Any = getattr(ml_dtypes, ELEMENT_FORMATS[fmt].torch_dtype)
    np.testing.assert_array_equal(found.codes[:, 5], values.astype(dtype).view(np.uint8))


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32, np.float64, ">f4"])
def test_dtypes_give_the_bytes_of_their_float32(dtype: Any) -> None:
    x = np.random.default_rng(1).standard_normal((4, 64)).astype(np.float16).astype(dtype)
    found = arrays.quantize(x, "e4m3", rule="even", axis=1)
    same = arrays.quantize(x.astype(np.float32), "e4m3", rule="even", axis=1)
    np.testing.assert_array_equal(found.codes, same.codes)
    np.testing.assert_array_equal(found.scales, same.scales)
    assert len(np.unique(found.codes)) > 50


def test_float64_is_rounded_to_float32_first() -> None:
    x = np.full(32, 448.0 + 2.0**-40)
    assert arrays.quantize(x).scales.tolist() == [127] == [quantize_block(x).scale_byte]
    with pytest.raises(InputError, match=r"x holds -1e\+39: beyond float32"):
        arrays.quantize(np.array([-1e39] * 32))
    assert arrays.quantize(np.array([math.inf] * 32)).scales.tolist() == [255]


@pytest.mark.parametrize("shape", [(32,), (64, 5), (3, 64, 2), (2, 3, 32), (32, 1, 4, 2)])
@FORMATS
def test_any_axis(shape: tuple[int, ...], fmt: str) -> None:
    x = np.random.default_rng(2).standard_normal(shape).astype(np.float32)
    x *= np.exp2(np.random.default_rng(3).integers(-20, 20, shape)).astype(np.float32)
    axes = [axis for axis, size in enumerate(shape) if size % 32 == 0]
    assert axes
    for axis in axes:
        found = arrays.quantize(x, fmt, rule="floor", axis=axis - len(shape))
        assert found.axis == axis and found.codes.shape == shape == found.shape
        lines = np.moveaxis(x, axis, -1).reshape(-1, 32)
        codes = np.moveaxis(found.codes, axis, -1).reshape(-1, 32)
        scales = np.moveaxis(found.scales, axis, -1).reshape(-1)
        for line, code, byte in zip(lines, codes, scales, strict=True):
            expected = quantize_block(line, fmt, rule="floor")
            assert (int(byte), tuple(code.tolist())) == (expected.scale_byte, expected.codes)
        decoded = arrays.dequantize(found)
        assert decoded.shape == shape and decoded.dtype == np.float32
        # a subnormal code is off by half a step, 2^-10 of a scale that is at most amax / 256
        bound = np.abs(x) * 0.13 + np.abs(x).max() * 2.0**-16
        assert (np.abs(decoded - x) <= bound).all()


def test_row_wise_and_column_wise_differ() -> None:
    x = np.random.default_rng(4).standard_normal((64, 64)).astype(np.float32)
    rows, cols = arrays.quantize(x, axis=1), arrays.quantize(x, axis=0)
    assert rows.scales.shape == (64, 2) and cols.scales.shape == (2, 64)
    assert (rows.codes != cols.codes).mean() > 0.1
    # rounding is relative, so as long as nothing is clipped or tiny the results even agree
    np.testing.assert_array_equal(arrays.dequantize(rows), arrays.dequantize(cols))
    clipped = [arrays.dequantize(arrays.quantize(x, rule="floor", axis=a)) for a in (0, 1)]
    assert (clipped[0] != clipped[1]).any()
    turned = arrays.quantize(x.T, axis=1)
    np.testing.assert_array_equal(cols.codes, turned.codes.T)
    np.testing.assert_array_equal(cols.scales, turned.scales.T)


def test_large_arrays_are_chunked_alike() -> None:
    x = np.random.default_rng(8).standard_normal((300, 1024)).astype(np.float32)
    whole = arrays.quantize(x)
    for row in (0, 63, 64, 65, 299):
        np.testing.assert_array_equal(whole.codes[row], arrays.quantize(x[row]).codes)
        np.testing.assert_array_equal(whole.scales[row], arrays.quantize(x[row]).scales)


def test_padding_is_explicit_and_recorded() -> None:
    x = np.random.default_rng(5).standard_normal((3, 40)).astype(np.float32)
    text = r"axis 1 of shape \(3, 40\) has 40 values: .*40 % 32 = 8\); pad=True appends 24 zeros"
    with pytest.raises(InputError, match=text):
        arrays.quantize(x)
    found = arrays.quantize(x, pad=True)
    assert (found.padded, found.shape, found.codes.shape) == (24, (3, 40), (3, 64))
    assert found.scales.shape == (3, 2) and not found.codes[:, 40:].any()
    assert arrays.dequantize(found).shape == (3, 40) and "padded=24" in repr(found)
    columns = arrays.quantize(x, axis=0, pad=True)
    assert columns.codes.shape == (32, 40) and arrays.dequantize(columns).shape == (3, 40)
    assert arrays.quantize(np.ones((2, 32), np.float32), pad=True).padded == 0


@pytest.mark.parametrize(
    ("x", "arguments", "text"),
    [
        (np.ones(32, np.int64), {}, "dtype int64: expected float32, float64"),
        (np.ones(32, complex), {}, "dtype complex128"),
        (["a"] * 32, {}, "dtype <U1"),
        ([[1.0], [1.0, 2.0]], {}, "ragged"),
        (1.0, {}, "no dimensions"),
        (np.ones((2, 0), np.float32), {}, "has 0 values"),
        (np.ones((2, 0), np.float32), {"pad": True}, "has 0 values"),
        (np.ones(32), {"axis": 1}, "axis is 1: expected -1 to 0"),
        (np.ones(32), {"axis": 0.0}, "axis is 0.0"),
        (np.ones(32), {"axis": None}, "axis is None"),
        (np.ones(32), {"fmt": "e8m0"}, "holds scales"),
        (np.ones(32), {"rule": "round"}, "unknown rule 'round'"),
    ],
)
def test_bad_arrays(x: Any, arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(InputError) as caught:
        arrays.quantize(x, **arguments)
    assert text in str(caught.value)


def test_float32_overflow_on_decode_is_not_silent() -> None:
    found = arrays.quantize(np.full(32, np.finfo(np.float32).max), rule="rceil")
    assert arrays.dequantize(found, np.float64).tolist() == [2.0**128] * 32
    with pytest.warns(RuntimeWarning, match="overflow"):
        assert np.isinf(arrays.dequantize(found)).all()
    with pytest.raises(InputError, match="expected float32 or float64"):
        arrays.dequantize(found, np.float16)
    with pytest.raises(InputError, match="expected float32 or float64"):
        arrays.dequantize(found, "nonsense")


def distinct(rows: int, cols: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Scale bytes that differ from their neighbours in every direction, none of them 0."""
    r, c = np.ogrid[:rows, :cols]
    return np.asarray((37 * r + 101 * c + 11 * r * c) % 251 + 1, np.uint8)


@pytest.mark.parametrize("name", LAYOUTS)
@settings(max_examples=15, deadline=None)
@given(rows=st.integers(1, 300), cols=st.integers(1, 20))
def test_interleave_is_the_closed_form(name: str, rows: int, cols: int) -> None:
    scales, found = distinct(rows, cols), layout(name)
    buffer = arrays.interleave(scales, name)
    assert buffer.shape == (found.nbytes(rows, cols),)
    values = buffer
    if found.itemsize == 4:  # exact float32 powers of two: their exponents are the bytes
        numbers = buffer.view("<f4").astype(np.float64)
        values = np.where(numbers == 0, 0, np.frexp(numbers)[1] + 126).astype(np.uint8)
    for item in range(0, len(values), 7):
        cell = found.coord(item * found.itemsize, rows, cols)
        assert values[item] == (0 if cell is None else scales[cell])
    poisoned = buffer.copy()
    items = poisoned.reshape(-1, found.itemsize)
    items[(items == 0).all(axis=1)] = 0xFF  # all padding, for no scale is 0
    back = arrays.deinterleave(poisoned, rows, cols, name)
    np.testing.assert_array_equal(back, scales)


@pytest.mark.parametrize("name", LAYOUTS)
def test_batches_are_padded_one_by_one(name: str) -> None:
    scales = np.stack([distinct(33, 3), distinct(33, 3)[::-1]]).reshape(2, 1, 33, 3)
    buffer = arrays.interleave(scales, name)
    assert buffer.shape == (2, 1, layout(name).nbytes(33, 3))
    for i in range(2):
        np.testing.assert_array_equal(buffer[i, 0], arrays.interleave(scales[i, 0], name))
    np.testing.assert_array_equal(arrays.deinterleave(buffer, 33, 3, name), scales)


def test_layout_parameters_reach_interleave() -> None:
    scales = distinct(70, 6)
    buffer = arrays.interleave(scales, "kv_paged", page_size=32, scales_per_head=2)
    found = layout("kv_paged", page_size=32, scales_per_head=2)
    assert buffer[found.offset(65, 5, 70, 6)] == scales[65, 5]
    back = arrays.deinterleave(buffer, 70, 6, "kv_paged", page_size=32, scales_per_head=2)
    np.testing.assert_array_equal(back, scales)


def sample(axis: int = 1, fmt: str = "e4m3", rows: int = 64, cols: int = 160) -> MXArray:
    rng = np.random.default_rng(6)
    x = rng.standard_normal((rows, cols)) * np.exp2(rng.integers(-40, 40, (rows, cols)))
    return arrays.quantize(x.astype(np.float32), fmt, axis=axis, pad=True)


def test_an_mxarray_knows_its_layout() -> None:
    q = sample()
    for name in ("tile_128x4", "tile_8x4", "amd_32x8", "deepgemm_packed", "kv_paged"):
        tiled = arrays.interleave(q, name)
        assert tiled.layout == name and tiled.scales.shape == (layout(name).nbytes(64, 5),)
        np.testing.assert_array_equal(arrays.dequantize(tiled), arrays.dequantize(q))
        np.testing.assert_array_equal(arrays.deinterleave(tiled).scales, q.scales)
        with pytest.raises(InputError, match=f"in layout '{name}' already"):
            arrays.interleave(tiled, "tile_8x4")
    paged = arrays.interleave(q, "kv_paged", page_size=32, scales_per_head=1)
    np.testing.assert_array_equal(arrays.deinterleave(paged).scales, q.scales)
    columns = sample(axis=0)
    tiled = arrays.interleave(columns, "te_columnwise")
    np.testing.assert_array_equal(arrays.deinterleave(tiled).scales, columns.scales)
    assert arrays.interleave(q, "linear") is q is arrays.deinterleave(q)


def test_a_tile_for_the_wrong_axis_is_refused() -> None:
    with pytest.raises(InputError, match="'te_columnwise' is the tiled one"):
        arrays.interleave(sample(axis=0), "tile_128x4")
    with pytest.raises(InputError, match="'te_columnwise' with axis 1 of 2"):
        arrays.interleave(sample(axis=1), "te_columnwise")
    with pytest.raises(InputError, match="of 1 dimensions"):
        arrays.interleave(arrays.quantize([1.0] * 32), "tile_128x4")


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: arrays.interleave(np.zeros((2, 2), np.int8)), "scales are int8"),
        (lambda: arrays.interleave(np.zeros(4, np.uint8)), "uint8 of 1 dimensions"),
        (lambda: arrays.interleave([[1]]), "scales are list"),  # type: ignore[call-overload]
        (lambda: arrays.interleave(np.zeros((0, 2), np.uint8)), "rows is 0"),
        (
            lambda: arrays.deinterleave(np.zeros(511, np.uint8), 128, 4),
            "the buffer has 511 bytes: expected 512 for 128 x 4 scales in layout 'tile_128x4'",
        ),
        (
            lambda: arrays.deinterleave(np.zeros(9, np.uint8)),  # type: ignore[call-overload]
            "rows and cols are missing",
        ),
    ],
)
def test_bad_buffers(call: Any, text: str) -> None:
    with pytest.raises(InputError) as caught:
        call()
    assert text in str(caught.value)


def test_mixing_raises_with_both_names() -> None:
    q = sample()
    with pytest.raises(InputError, match="format 'e4m3' with format 'e5m2'"):
        concatenate([q, sample(fmt="e5m2")])
    with pytest.raises(InputError, match="axis 1 with axis 0"):
        concatenate([q, sample(axis=0)])
    with pytest.raises(InputError, match="layout 'linear' with layout 'tile_8x4'"):
        concatenate([q, arrays.interleave(q, "tile_8x4")])
    untyped: Any = q
    ones: Any = np.ones(2)
    add: Any = np.add
    with pytest.raises(TypeError):
        untyped + q
    with pytest.raises(TypeError):
        ones * untyped
    with pytest.raises(TypeError):
        add(untyped, q)


def test_concatenate() -> None:
    q = sample()
    both = concatenate([q, q], axis=0)
    np.testing.assert_array_equal(arrays.dequantize(both), np.tile(arrays.dequantize(q), (2, 1)))
    with pytest.raises(InputError, match="other than the quantised 1"):
        concatenate([q, q], axis=1)
    with pytest.raises(InputError, match="shapes do not fit"):
        concatenate([q, sample(cols=192)], axis=0)
    with pytest.raises(InputError, match="0 arrays"):
        concatenate([])


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"codes": np.zeros((64, 160), np.int8)}, "codes are int8"),
        ({"codes": [[1]]}, "codes are list"),
        ({"scales": np.zeros((5, 64), np.uint8)}, r"scales have shape \(5, 64\): expected \(64, 5"),
        ({"layout": "tile_8x4"}, r"expected \(512,\) in layout 'tile_8x4'"),
        ({"axis": 2}, "do not fit"),
        ({"shape": (64, 161)}, r"codes have shape \(64, 160\): expected \(64, 161\)"),
        ({"padded": 1, "shape": (64, 160)}, "codes have shape"),
        ({"format": "e8m0"}, "holds scales"),
        ({"rule": "x"}, "unknown rule"),
    ],
)
def test_parts_that_do_not_fit(changed: dict[str, Any], text: str) -> None:
    q = sample()
    parts = {name: getattr(q, name) for name in q.__dataclass_fields__}
    with pytest.raises(InputError, match=text):
        MXArray(**{**parts, **changed})


def test_aliases_become_names() -> None:
    assert arrays.quantize([1.0] * 32, "float8_e4m3fn").format == "e4m3"
    q = sample()
    parts = {name: getattr(q, name) for name in q.__dataclass_fields__}
    assert MXArray(**{**parts, "format": "float8_e4m3fn"}).format == "e4m3"


@pytest.mark.parametrize("thing", [None, 5, np.ones((2, 32), np.float32)])
def test_dequantize_takes_an_mxarray(thing: Any) -> None:
    with pytest.raises(InputError, match="takes an MXArray"):
        arrays.dequantize(thing)
