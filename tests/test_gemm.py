"""The reference product against sums in exact arithmetic; what it refuses."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from mxlab.arrays import dequantize, interleave, quantize
from mxlab.errors import InputError
from mxlab.gemm import BACKENDS, gemm


def matrix(rows: int, cols: int, seed: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((rows, cols)) * np.exp2(rng.integers(-6, 6, (rows, cols)))
    return x.astype(np.float32)


def test_reference_equals_exact_sums() -> None:
    a, b = quantize(matrix(3, 96, 1), axis=1), quantize(matrix(5, 96, 2), axis=1)
    left, right = dequantize(a, np.float64), dequantize(b, np.float64)
    product = gemm(a, b, backend="reference")
    assert product.shape == (3, 5) and product.dtype == np.float64
    for m in range(3):
        for n in range(5):
            terms = [Fraction(x) * Fraction(y) for x, y in zip(left[m], right[n], strict=True)]
            error = abs(Fraction(float(product[m, n])) - sum(terms))
            assert error <= Fraction(96, 2**53) * sum(map(abs, terms))


def test_both_orientations_of_b() -> None:
    x = matrix(64, 7, 3)  # (K, N)
    a = quantize(matrix(4, 64, 4), axis=1)
    along_k = quantize(x, axis=0)
    turned = quantize(np.ascontiguousarray(x.T), axis=1)
    np.testing.assert_allclose(gemm(a, along_k), gemm(a, turned), rtol=1e-13)


def test_scales_of_every_block_count() -> None:
    """A scale byte changed in one block changes the products by exactly that block's part."""
    a, b = quantize(np.ones((2, 128), np.float32)), quantize(np.ones((3, 128), np.float32))
    before = gemm(a, b)
    a.scales[1, 2] += 3
    assert (gemm(a, b) - before).tolist() == [[0.0] * 3, [32.0 * 7] * 3]


def test_tiled_operands_give_the_same_product() -> None:
    a, b = quantize(matrix(130, 160, 5)), quantize(matrix(33, 160, 6))
    tiled = gemm(interleave(a, "tile_128x4"), interleave(b, "tile_128x4"))
    np.testing.assert_array_equal(tiled, gemm(a, b))
    poisoned = interleave(a, "tile_128x4")
    padding = interleave(quantize(np.full((130, 160), 2.0**60, np.float32)), "tile_128x4")
    poisoned.scales[padding.scales == 0] = 0xFF
    assert (poisoned.scales == 0xFF).sum() == 256 * 8 - 130 * 5
    np.testing.assert_array_equal(gemm(poisoned, interleave(b, "tile_128x4")), tiled)


def test_padded_k() -> None:
    a, b = quantize(matrix(2, 40, 7), pad=True), quantize(matrix(3, 40, 8), pad=True)
    expected = dequantize(a, np.float64) @ dequantize(b, np.float64).T
    np.testing.assert_array_equal(gemm(a, b), expected)


def test_nan_blocks_reach_only_their_rows() -> None:
    x = matrix(3, 64, 9)
    x[1, 40] = np.nan
    product = gemm(quantize(x), quantize(matrix(2, 64, 10)))
    assert np.isnan(product[1]).all() and np.isfinite(product[[0, 2]]).all()


@pytest.mark.parametrize(
    ("a", "b", "text"),
    [
        ({}, {"fmt": "e5m2"}, "gemm of format 'e4m3' with format 'e5m2'"),
        ({"axis": 0}, {}, "a has shape (64, 64), axis 0: expected (M, K) quantised along axis 1"),
        ({}, {"cols": 96}, "expected the same K, got 64 and 96"),
        ({"layout": "tile_8x4"}, {}, "gemm of layout 'tile_8x4' with layout 'linear'"),
    ],
)
def test_operands_that_do_not_fit(a: dict[str, Any], b: dict[str, Any], text: str) -> None:
    def operand(fmt: str = "e4m3", axis: int = 1, cols: int = 64, layout: str = "linear") -> Any:
        return interleave(quantize(matrix(64, cols, 11), fmt, axis=axis), layout)

    with pytest.raises(InputError) as caught:
        gemm(operand(**a), operand(**b))
    assert text in str(caught.value)


def test_bad_arguments() -> None:
    q = quantize(matrix(2, 32, 12))
    with pytest.raises(InputError, match=r"unknown gemm backend 'refernce': .*'reference'"):
        gemm(q, q, backend="refernce")
    with pytest.raises(InputError, match="a is 'ndarray': expected an MXArray"):
        gemm(np.ones((2, 32)), q)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="b has 1 dimensions: expected 2"):
        gemm(q, quantize([1.0] * 32))
    assert "reference" in BACKENDS
