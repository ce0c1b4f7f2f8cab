"""Dequantise, interleave and deinterleave kernels against the reference, padding poisoned."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from kernel_device import DEVICE, put
from test_arrays import distinct
from test_torch_arrays import scaled
from twins import array

import mxlab
from mxlab.errors import InputError
from mxlab.kernels import interleave as tiles
from mxlab.kernels.dequantize import dequantize
from mxlab.mxarray import MXArray

SHAPES = [(1, 1), (3, 4), (33, 3), (130, 5), (300, 12), (129, 130), (128, 64)]


def every_code_and_scale(columns: bool = False) -> tuple[MXArray, MXArray]:
    """All codes under all scale bytes, on the CPU and where kernels run."""
    codes = np.repeat(np.arange(256, dtype=np.uint8)[None], 256, axis=0)
    scales = np.repeat(np.arange(256, dtype=np.uint8)[:, None], 8, axis=1)
    axis = 1
    if columns:
        codes, scales, axis = codes.T, scales.T, 0

    def make(f: Any) -> MXArray:
        return MXArray(f(codes), f(scales), "e4m3", "rceil", axis, (256, 256))

    return make(torch.from_numpy), make(put)


@pytest.mark.parametrize("layout", ["linear", "tile_128x4", "te_columnwise"])
def test_float32_is_the_reference_s(layout: str) -> None:
    cpu, q = every_code_and_scale(layout == "te_columnwise")
    wanted = array(mxlab.dequantize(cpu, torch.float32))
    found = array(dequantize(mxlab.interleave(q, layout)))
    np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(array(dequantize(q, turned=True)), wanted.T)


def test_bfloat16_is_exact_or_nan() -> None:
    cpu, q = every_code_and_scale()
    exact = mxlab.dequantize(cpu, torch.float64)
    found = dequantize(q, torch.bfloat16).cpu()
    held = (exact.float().to(torch.bfloat16).double() == exact) & exact.isfinite()
    assert torch.equal(found.isnan(), ~held)
    assert torch.equal(found[held].double(), exact[held])
    finite = [code for code in range(256) if code & 0x7F != 0x7F]
    assert held[3:247, finite].all() and not held[0, 1] and not held[247, 0x7E]


def test_dealt_is_the_order_of_the_instruction() -> None:
    q = mxlab.quantize(put(scaled((5, 96))))
    plain, dealt = (dequantize(q, dealt=dealt) for dealt in (False, True))
    k = np.arange(32)
    order = 8 * (k % 8 // 2) + 4 * (k // 16) + 2 * (k % 16 // 8) + k % 2
    assert sorted(order.tolist()) == list(range(32))
    for block in range(3):
        assert torch.equal(dealt[:, 32 * block + k], plain[:, 32 * block + order])


def test_padded_values_are_kept() -> None:
    q = mxlab.quantize(put(scaled((5, 40))), pad=True)
    found = dequantize(q)
    assert found.shape == (5, 64) and not found[:, 40:].any()
    np.testing.assert_array_equal(array(found[:, :40]), array(mxlab.dequantize(q)))
    assert dequantize(mxlab.quantize(put(scaled((0, 64))))).shape == (0, 64)


@pytest.mark.parametrize(("rows", "cols"), SHAPES)
@pytest.mark.parametrize("batch", [(), (2,), (2, 3)])
def test_tiles(rows: int, cols: int, batch: tuple[int, ...]) -> None:
    scales = np.broadcast_to(distinct(rows, cols), (*batch, rows, cols)).copy()
    scales += np.arange(scales.size // (rows * cols), dtype=np.uint8).reshape(*batch, 1, 1)
    laid = tiles.interleave(put(scales))
    np.testing.assert_array_equal(array(laid), mxlab.interleave(scales))
    padding = mxlab.interleave(np.full_like(scales, 1)) == 0
    assert padding.any() or (rows, cols) == (128, 64)
    poisoned = np.where(padding, 0xFF, array(laid)).astype(np.uint8)
    np.testing.assert_array_equal(array(tiles.deinterleave(put(poisoned), rows, cols)), scales)


def test_bad_arguments() -> None:
    q = mxlab.quantize(put(scaled((32, 32))))
    cases: tuple[tuple[Callable[[], object], str], ...] = (
        (lambda: dequantize(q, torch.float16), "expected torch.bfloat16 or torch.float32"),
        (lambda: dequantize(mxlab.quantize(scaled((1, 32)))), "expected an MXArray of torch"),
        (lambda: dequantize(mxlab.interleave(q, "tile_8x4")), "read 'linear' and 'tile_128x4'"),
        (lambda: dequantize(mxlab.quantize(put(scaled((1, 32))), "e5m2")), "format 'e5m2'"),
        (lambda: tiles.interleave(put(scaled((2, 2)))), "scales are float32 of 2 dimensions"),
        (
            lambda: tiles.deinterleave(torch.zeros(4, dtype=torch.uint8, device=DEVICE), 1, 1),
            "the buffer has 4 bytes: expected 512 for 1 x 1",
        ),
    )
    for call, text in cases:
        with pytest.raises(InputError, match=text):
            call()
