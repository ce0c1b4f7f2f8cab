"""CuTe strings and bit bases against tensor-layouts, a pure-Python CuTe algebra by others."""

import re
from typing import Any

import pytest

from mxlab.layout import LAYOUTS, layout
from mxlab.layout_notation import bases, cute

tensor_layouts = pytest.importorskip("tensor_layouts")
pytestmark = pytest.mark.oracle

SHAPES = [(1, 1), (33, 3), (128, 4), (130, 5), (256, 8), (8, 256)]


def theirs(text: str) -> Any:
    assert re.fullmatch(r"[(),:0-9]+", text)
    return tensor_layouts.Layout(*(eval(part) for part in text.split(":")))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", LAYOUTS)
def test_cute_string(name: str, shape: tuple[int, int]) -> None:
    found, algebra = layout(name), theirs(cute(name, *shape))
    rows, cols = shape
    for r in range(0, rows, 1 + rows // 40):
        for c in range(0, cols, 1 + cols // 40):
            assert algebra(r, c) * found.itemsize == found.offset(r, c, rows, cols)
    padded = found.padded(*shape)
    assert tensor_layouts.size(algebra) == padded[0] * padded[1] == tensor_layouts.cosize(algebra)


@pytest.mark.parametrize("shape", [(128, 4), (256, 8), (8, 256), (64, 32)])
@pytest.mark.parametrize("name", LAYOUTS)
def test_bases_are_the_matrix_over_two_elements(name: str, shape: tuple[int, int]) -> None:
    from tensor_layouts.analysis import to_F2_matrix

    found = bases(name, *shape)
    assert found is not None
    matrix = to_F2_matrix(theirs(cute(name, *shape)))
    columns = [sum(row[i] << bit for bit, row in enumerate(matrix)) for i in range(len(matrix[0]))]
    assert [*found["row"], *found["col"]] == columns


def test_batches() -> None:
    algebra = theirs(cute("tile_128x4", 130, 5, 3))
    found = layout("tile_128x4")
    for b, r, c in ((0, 0, 0), (1, 33, 2), (2, 129, 4)):
        assert algebra(r, c, b) == b * found.nbytes(130, 5) + found.offset(r, c, 130, 5)
