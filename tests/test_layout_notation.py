"""CuTe strings, bit bases, cuts, batches: each held to the closed form, cell by cell."""

import re
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mxlab.arrays import interleave
from mxlab.errors import InputError
from mxlab.layout import LAYOUTS, MAX_SIDE, Mode, ScaleLayout, layout
from mxlab.layout_batched import batched
from mxlab.layout_notation import bases, cut_every, cute

EVERY = [
    *LAYOUTS.values(),
    layout("kv_paged", page_size=64, scales_per_head=3),
    layout("kv_paged", page_size=256, scales_per_head=8),
]
NAMED = pytest.mark.parametrize("found", EVERY, ids=lambda f: f"{f.name}{f.params or ''}")
Tree = int | tuple[Any, ...]


def parse(text: str) -> tuple[Tree, Tree]:
    assert re.fullmatch(r"[(),:0-9]+", text)
    shape, stride = (eval(part) for part in text.split(":"))  # digits, commas and parentheses
    return shape, stride


def value(index: int, shape: Tree, stride: Tree) -> int:
    """A CuTe layout at an index of one axis: digits lowest first, times their strides."""
    if isinstance(shape, int):
        assert isinstance(stride, int)
        return index * stride
    total = 0
    assert isinstance(stride, tuple)
    for size, step in zip(shape, stride, strict=True):
        index, digit = divmod(index, size)
        total += digit * step
    return total


@NAMED
@settings(max_examples=20, deadline=None)
@given(rows=st.integers(1, 300), cols=st.integers(1, 20))
def test_cute_string_is_the_closed_form(found: ScaleLayout, rows: int, cols: int) -> None:
    (row_shape, col_shape), (row_stride, col_stride) = parse(cute(found, rows, cols))  # type: ignore[misc]
    for r, c in product(range(0, rows, 3), range(cols)):
        offset = value(r, row_shape, row_stride) + value(c, col_shape, col_stride)
        assert offset * found.itemsize == found.offset(r, c, rows, cols)


def test_cute_strings_that_people_know() -> None:
    assert cute("tile_128x4", 128, 4) == "((32,4,1),(4,1)):((16,4,512),(1,512))"
    assert cute("tile_128x4", 256, 8, 3) == "((32,4,2),(4,2),3):((16,4,1024),(1,512),2048)"
    assert cute("amd_32x8", 64, 16) == "((16,2,2),(4,2,2)):((4,1,512),(64,2,256))"
    assert cute("deepgemm_packed", 10, 8) == "((4,3),(4,2)):((4,16),(1,48))"
    assert cute("deepgemm_float32", 10, 8) == "((4,3),8):((1,4),12)"
    assert cute("te_columnwise", 8, 256) == "((4,2),(32,4,2)):((1,512),(16,4,1024))"


def xor(found: dict[str, list[int]], row: int, col: int) -> int:
    out = 0
    for axis, index in (("row", row), ("col", col)):
        for bit, base in enumerate(found[axis]):
            out ^= base if index >> bit & 1 else 0
    return out


@NAMED
def test_bases_exist_exactly_where_exclusive_or_gives_every_offset(found: ScaleLayout) -> None:
    met = set()
    for rows, cols in product((1, 2, 3, 8, 33, 128, 256, 300), (1, 2, 3, 4, 5, 6, 8, 12, 16, 24)):
        if found.transposed:
            rows, cols = cols, rows
        padded_rows, padded_cols = found.padded(rows, cols)

        def at(r: int, c: int) -> int:
            return found.at(r, c, rows, cols) // found.itemsize  # noqa: B023 - called at once

        # the only candidates there can be: the offsets of single bits
        bits = {
            "row": [at(1 << i, 0) for i in range((padded_rows - 1).bit_length())],
            "col": [at(0, 1 << i) for i in range((padded_cols - 1).bit_length())],
        }
        cells = product(range(padded_rows), range(padded_cols))
        exist = all(xor(bits, r, c) == at(r, c) for r, c in cells)
        assert bases(found, rows, cols) == (bits if exist else None), (rows, cols)
        met.add(exist)
    assert True in met or found.params.get("scales_per_head") == 3
    assert False in met or found.name == "deepgemm_float32"


def test_no_bases_where_an_inner_digit_is_no_power_of_two() -> None:
    made_up = ScaleLayout(
        name="odd", summary="", formula="", source="", row_modes=(Mode(3, 1), Mode(2, 4))
    )
    assert bases(made_up, 3, 1) is None and bases(made_up, 6, 1) is None


@NAMED
def test_cut_is_where_both_parts_are_buffers_themselves(found: ScaleLayout) -> None:
    found_any = False
    for rows, cols in ((300, 5), (256, 4), (130, 12), (64, 3), (8, 8), (512, 8), (1, 1)):
        rng = np.random.default_rng(rows)
        scales = rng.integers(1, 255, (rows, cols), np.uint8)
        whole = interleave(scales, found)
        cuts = [
            row
            for row in range(1, rows)
            if (parts := [interleave(scales[:row], found), interleave(scales[row:], found)])
            and np.array_equal(np.concatenate(parts), whole)
        ]
        every = cut_every(found, rows, cols)
        expected = [] if every is None else list(range(every, rows, every))
        found_any |= bool(expected)
        assert cuts == expected, (rows, cols)
    assert found_any == (found.name != "deepgemm_float32")  # which never can


@NAMED
def test_batches_follow_each_other_each_padded(found: ScaleLayout) -> None:
    many = batched(found, 3, 33, 5)
    scales = np.random.default_rng(1).integers(1, 255, (3, 33, 5), np.uint8)
    buffer = interleave(scales, found).reshape(-1)
    assert len(buffer) == many.nbytes == 3 * many.stride
    seen = set()
    for offset in range(many.nbytes):
        place = many.coord(offset)
        if place is not None:
            seen.add(place)
            assert found.itemsize == 4 or buffer[offset] == scales[place]
            assert offset - many.offset(*place) in range(found.itemsize)
    assert len(seen) == scales.size
    padding = many.nbytes - scales.size * found.itemsize
    assert many.padding_fraction == padding / many.nbytes
    strides = cute(found, 33, 5, 3).rsplit(",", 1)[1].rstrip(")")
    assert int(strides) * found.itemsize == many.stride


def test_flattened_batches_are_another_buffer() -> None:
    many = batched("tile_128x4", 4, 96, 8)
    assert (many.nbytes, many.flattened_nbytes) == (4 * 1024, 3 * 1024)
    assert batched("tile_128x4", 4, 128, 8).flattened_nbytes == 4 * 1024


def test_out_of_range() -> None:
    for call, text in (
        (lambda: cute("tile", 1, 1), "unknown layout 'tile'"),
        (lambda: cute("linear", 0, 1), "rows is 0"),
        (lambda: cute("linear", 1, 1, 0), "batches is 0"),
        (lambda: batched("linear", 2, 3, 4).offset(2, 0, 0), "batch is 2: expected 0 to 1"),
        (lambda: batched("linear", 2, 3, 4).coord(24), "offset is 24: expected 0 to 23"),
        (lambda: batched("linear", 2, 3, -1), "cols is -1"),
        (lambda: bases("linear", 1, MAX_SIDE + 1), "cols is 1099511627777"),
    ):
        with pytest.raises(InputError, match=re.escape(text)):
            call()
    assert bases("tile_128x4", MAX_SIDE, MAX_SIDE) is not None  # answers at once
