"""Layouts: bijections on ragged shapes, the bytes of peers, the tile's rows, bad input."""

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mxlab.errors import InputError
from mxlab.layout import LAYOUTS, MAX_SIDE, ScaleLayout, layout

VECTORS = json.loads((Path(__file__).parent / "data" / "layout_vectors.json").read_text())

EVERY = [
    *LAYOUTS.values(),
    layout("kv_paged", page_size=32, scales_per_head=2),
    layout("kv_paged", page_size=64, scales_per_head=3),
    layout("kv_paged", page_size=256, scales_per_head=8),
]


def packed(found: ScaleLayout, rows: int, cols: int) -> bytes:
    """The peers' test matrix, laid out."""
    buffer = bytearray(found.nbytes(rows, cols))
    for r in range(rows):
        for c in range(cols):
            buffer[found.offset(r, c, rows, cols)] = (37 * (r * cols + c) + 11 * r + 5) % 251
    return bytes(buffer)


@pytest.mark.parametrize("found", EVERY, ids=lambda f: f"{f.name}{f.params or ''}")
@settings(max_examples=20, deadline=None)
@given(rows=st.integers(1, 150), cols=st.integers(1, 13))
def test_bijection(found: ScaleLayout, rows: int, cols: int) -> None:
    seen = {}
    for r in range(rows):
        for c in range(cols):
            offset = found.offset(r, c, rows, cols)
            assert found.coord(offset, rows, cols) == (r, c)
            seen[offset] = (r, c)
    assert len(seen) == rows * cols
    total = found.nbytes(rows, cols)
    padding = [o for o in range(total) if found.coord(o, rows, cols) is None]
    assert len(padding) == total - rows * cols * found.itemsize and not set(padding) & set(seen)
    inside = {offset + byte for offset in seen for byte in range(found.itemsize)}
    assert len(inside) == rows * cols * found.itemsize and not set(padding) & inside
    assert found.padding_fraction(rows, cols) == len(padding) / total


@pytest.mark.parametrize("name", LAYOUTS)
def test_the_formula_in_words_is_the_code(name: str) -> None:
    found = layout(name)
    formula = found.formula
    if name == "te_columnwise":
        formula = LAYOUTS["tile_128x4"].formula.replace("ceil(C/4)", "ceil(R/4)")
        formula = formula.translate(str.maketrans("rc", "cr")).replace("reil", "ceil")
    formula, _, where = formula.partition(", ")
    for rows, cols in ((300, 10), (33, 3), (1, 1), (257, 9)):
        names: dict[str, Any] = {"R": rows, "C": cols, "ceil": lambda x: int(-(-x // 1))}
        names |= {"P": 128, "S": 4, "H": -(-cols // 4)}
        for r in range(0, rows, 7):
            for c in range(cols):
                names |= {"r": r, "c": c, "t": r, "h": c // 4, "s": c % 4}
                for part in filter(None, where.split(", ")):
                    left, right = part.split(" = ")
                    names[left] = eval(right, names)  # the table's own text
                assert eval(formula, names) == found.offset(r, c, rows, cols)


@pytest.mark.parametrize("case", VECTORS["cases"], ids=lambda c: f"{c['rows']}x{c['cols']}")
def test_bytes_of_peers(case: dict[str, Any]) -> None:
    for name, digest in case["sha256"].items():
        found = packed(layout(name), case["rows"], case["cols"])
        assert hashlib.sha256(found).hexdigest() == digest, name
        assert len(found) == case["nbytes"].get(name, case["rows"] * case["cols"])


def test_bytes_of_transformer_engine_columnwise() -> None:
    case = VECTORS["te_columnwise"]
    found = packed(layout("te_columnwise"), case["rows"], case["cols"])
    assert hashlib.sha256(found).hexdigest() == case["sha256"]


def test_offsets_of_peers() -> None:
    for case in VECTORS["offsets"]:
        shape = (case["rows"], case["cols"])
        for name in ("tile_128x4", "tile_8x4", "amd_32x8", "deepgemm_packed"):
            assert layout(name).offset(case["row"], case["col"], *shape) == case[name]
            assert layout(name).coord(case[name], *shape) == (case["row"], case["col"])


def test_rows_of_one_tile_in_memory_order() -> None:
    tile = layout("tile_128x4")
    rows = [tile.coord(offset, 128, 4)[0] for offset in range(0, 512, 4)]  # type: ignore[index]
    assert rows == [32 * group + row for row in range(32) for group in range(4)]


def test_kv_paged_is_the_tile_of_slots_by_heads() -> None:
    kv, tile = layout("kv_paged"), layout("tile_128x4")
    for slots, heads in ((256, 8), (300, 3), (1, 1)):
        cols = heads * 4
        assert kv.nbytes(slots, cols) == tile.nbytes(slots, cols)
        for slot in range(0, slots, 5):
            for col in range(cols):
                assert kv.offset(slot, col, slots, cols) == tile.offset(slot, col, slots, cols)


@pytest.mark.parametrize(("page", "scales"), [(32, 2), (64, 4), (256, 8)])
def test_kv_paged_general_form(page: int, scales: int) -> None:
    kv = layout("kv_paged", page_size=page, scales_per_head=scales)
    heads, slots = 3, 2 * page + 1
    for t in range(0, slots, 3):
        for h in range(heads):
            for s in range(scales):
                p, words = t % page, page // 32
                # a five-dimensional row-major buffer [pages, heads, 32, page/32, scales]
                index = ((t // page * heads + h) * 32 + p % 32) * words + p // 32
                expected = index * scales + s
                assert kv.offset(t, h * scales + s, slots, heads * scales) == expected


@pytest.mark.parametrize(
    ("m", "k", "padded", "compact"),
    [(128, 256, 1024, 1024), (64, 64, 512, 128), (129, 96, 1024, 387), (1, 32, 512, 1),
     (33, 160, 1024, 165), (5760, 2880, 529_920, 518_400), (2880, 2880, 270_848, 259_200)],
)  # fmt: skip
def test_field_reports_19_and_22_counts(m: int, k: int, padded: int, compact: int) -> None:
    assert layout("tile_128x4").nbytes(m, k // 32) == padded
    assert layout("linear").nbytes(m, k // 32) == compact


def test_field_reports_16_and_17_misplaced_bytes() -> None:
    tile, linear = layout("tile_128x4"), layout("linear")
    for side in (128, 1024):  # square weights
        shape = (side, side // 32)
        cells = [(r, c) for r in range(shape[0]) for c in range(shape[1])]
        in_place = [tile.at(*cell, *shape) == linear.at(*cell, *shape) for cell in cells]
        assert sum(in_place) / len(cells) == 2 / side
    assert [tile.offset(r, c, 128, 4) for r, c in ((1, 0), (32, 0), (127, 3))] == [16, 4, 511]


def test_field_report_24_tokens_cannot_be_cut_at_100() -> None:
    tile = layout("tile_128x4")
    assert [tile.offset(r, 0, 256, 4) for r in (99, 100)] == [60, 76]


@pytest.mark.parametrize("name", LAYOUTS)
def test_huge_shapes_answer_at_once(name: str) -> None:
    found, side = layout(name), MAX_SIDE
    offset = found.offset(side - 1, side - 1, side, side)
    assert found.coord(offset, side, side) == (side - 1, side - 1)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda f: f.offset(3, 0, 3, 2), "row is 3: expected 0 to 2; the nearest is 2"),
        (lambda f: f.offset(0, -1, 3, 2), "col is -1: expected 0 to 1; the nearest is 0"),
        (lambda f: f.coord(512, 3, 2), "offset is 512: expected 0 to 511; the nearest is 511"),
        (lambda f: f.coord(-1, 3, 2), "offset is -1"),
        (lambda f: f.nbytes(0, 2), "rows is 0: expected 1 to 1099511627776"),
        (lambda f: f.padded(1, MAX_SIDE + 1), "cols is 1099511627777"),
        (lambda f: f.padded(1, 10**5000), "cols is a number of over 30 digits"),
        (lambda f: f.padded(1.0, 2), "rows is 1.0: expected a whole number"),
        (lambda f: f.offset(True, 0, 3, 2), "row is True"),
    ],
)
def test_out_of_range(call: Any, text: str) -> None:
    with pytest.raises(InputError) as caught:
        call(layout("tile_128x4"))
    assert text in str(caught.value)


def test_integers_of_numpy_are_integers() -> None:
    tile = layout("tile_128x4")
    rows, cols = np.int64(256), np.uint8(8)
    assert tile.offset(np.int32(33), np.int64(2), rows, cols) == 22  # type: ignore[arg-type]
    for bad in (np.bool_(True), np.float32(1), np.array([1, 2])):
        with pytest.raises(InputError, match=r"row is .*: expected a whole number"):
            tile.offset(bad, 0, 256, 8)  # type: ignore[arg-type]


def test_bad_names_and_parameters() -> None:
    with pytest.raises(InputError, match="did you mean 'tile_128x4'"):
        layout("128x4")
    with pytest.raises(InputError, match="'linear' takes no parameters: got 'page_size'"):
        layout("linear", page_size=64)
    with pytest.raises(InputError, match="page_size is 48: expected a multiple of 32"):
        layout("kv_paged", page_size=48)
    with pytest.raises(InputError, match="scales_per_head is 0"):
        layout("kv_paged", scales_per_head=0)
