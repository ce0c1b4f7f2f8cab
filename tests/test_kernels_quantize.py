"""The quantise kernels write the reference's bytes: every bfloat16, every rule, axis and layout."""

from typing import Any

import numpy as np
import pytest
import torch
from kernel_device import DEVICE, equal, gpu_only, poisoned_empty, put
from test_arrays import adversarial_blocks
from test_torch_arrays import STRIDES, every_bfloat16, scaled
from twins import array

import mxlab
from mxlab.errors import InputError
from mxlab.kernels import quantize as host
from mxlab.kernels.quantize import Tile, quantize_both
from mxlab.scale import RULES
from mxlab.tensors import torch_blocks

LAYOUTS = pytest.mark.parametrize("layout", ["linear", "tile_128x4"])
COLUMNS = {"linear": "linear", "tile_128x4": "te_columnwise"}


@pytest.fixture(autouse=True)
def nothing_left_unwritten(monkeypatch: pytest.MonkeyPatch) -> None:
    def empty(shape: tuple[int, ...], like: torch.Tensor) -> torch.Tensor:
        return poisoned_empty(shape, dtype=torch.uint8, device=like.device)

    monkeypatch.setattr(torch_blocks, "empty", empty)


def kernel(x: torch.Tensor, **named: Any) -> Any:
    return mxlab.quantize(x, backend="triton", **named)


@LAYOUTS
@pytest.mark.parametrize("rule", sorted(RULES))
def test_every_bfloat16(rule: str, layout: str) -> None:
    values = every_bfloat16().reshape(-1, 128)
    found = kernel(put(values), rule=rule, layout=layout)
    equal(found, mxlab.quantize(values, rule=rule, layout=layout))
    columns = kernel(put(values.T), rule=rule, axis=0, layout=COLUMNS[layout])
    wanted = mxlab.quantize(np.ascontiguousarray(values.T), rule=rule, axis=0)
    equal(columns, mxlab.interleave(wanted, COLUMNS[layout]))
    assert {0, 1, 255} <= set(array(found.scales).reshape(-1).tolist())


@pytest.mark.parametrize("rule", sorted(RULES))
def test_adversarial_float32(rule: str) -> None:
    blocks = adversarial_blocks()
    equal(kernel(put(blocks), rule=rule), mxlab.quantize(blocks, rule=rule))


@LAYOUTS
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("shape", [(1, 32), (3, 96), (130, 160), (2, 129, 64), (2, 3, 33, 32)])
def test_dtypes_and_ragged_shapes(dtype: torch.dtype, shape: tuple[int, ...], layout: str) -> None:
    x = torch.from_numpy(scaled(shape)).clamp(-6e4, 6e4).to(dtype)
    found = kernel(x.to(DEVICE), layout=layout)
    wanted = mxlab.quantize(x.float() if dtype == torch.float16 else x)
    equal(found, mxlab.interleave(wanted, layout))
    if layout != "linear":
        padding = mxlab.interleave(np.full_like(array(wanted.scales), 9), layout) == 0
        assert not array(found.scales)[padding].any()


@pytest.mark.parametrize("shape", [(32, 1), (64, 33), (2, 96, 5), (32, 2, 3)])
def test_other_axes(shape: tuple[int, ...]) -> None:
    x = scaled(shape)
    axis = next(i for i, size in enumerate(shape) if size % 32 == 0)
    equal(kernel(put(x), axis=axis), mxlab.quantize(x, axis=axis))


@LAYOUTS
@pytest.mark.parametrize("shape", [(32, 32), (160, 96), (2, 64, 160)])
def test_both_axes_from_one_read(shape: tuple[int, ...], layout: str) -> None:
    x = scaled(shape)
    rows, columns = quantize_both(put(x), tiled=layout != "linear")
    equal(rows, mxlab.quantize(x, layout=layout))
    equal(columns, mxlab.interleave(mxlab.quantize(x, axis=-2), COLUMNS[layout]))


@pytest.mark.parametrize("shape", [(3, 40), (5, 1), (2, 130, 33)])
def test_padding_is_zeros(shape: tuple[int, ...]) -> None:
    x = scaled(shape)
    for axis in range(len(shape)):
        equal(kernel(put(x), axis=axis, pad=True), mxlab.quantize(x, axis=axis, pad=True))


@pytest.mark.parametrize("name", STRIDES)
def test_strides(name: str) -> None:
    view = STRIDES[name](put(scaled((64, 96))).to(torch.bfloat16))
    plain = array(view.detach().resolve_neg().float().contiguous())
    for axis in (0, 1):
        if len(view) or axis:
            found = kernel(view, axis=axis, pad=True)
            equal(found, mxlab.quantize(plain, axis=axis, pad=True))


@pytest.mark.parametrize("tile", [Tile(4, 128, 1), Tile(4, 256, 1), Tile(32, 512, 4)])
def test_tiles_change_no_byte(tile: Tile) -> None:
    x = scaled((37, 608))
    found = host.quantize(put(x), layout="tile_128x4", tile=tile)
    equal(found, mxlab.quantize(x, layout="tile_128x4"))


def test_buffers_are_filled_and_kept() -> None:
    x = scaled((40, 96))
    out = torch.full((40, 96), 0xFF).byte(), torch.full((512,), 0xFF).byte()
    out = out[0].to(DEVICE), out[1].to(DEVICE)
    found = kernel(put(x), layout="tile_128x4", out=out)
    assert found.codes is out[0] and found.scales is out[1]
    equal(found, mxlab.quantize(x, layout="tile_128x4"))


@pytest.mark.parametrize(
    ("x", "named", "text"),
    [
        (torch.ones(2, 33), {}, "has 33 values: expected a multiple of 32 (33 % 32 = 1)"),
        (torch.ones(2, 32), {"fmt": "e5m2"}, "format 'e5m2' with backend 'triton'"),
        (torch.ones(2, 32), {"layout": "tile_8x4"}, "writes 'linear' and 'tile_128x4' here"),
        (torch.ones(32, 2), {"axis": 0, "layout": "tile_128x4"}, "'te_columnwise' here"),
        (torch.ones(32, dtype=torch.int64), {}, "x has dtype int64"),
        (torch.ones(()), {}, "no dimensions"),
        (torch.ones(2, 32, device="meta"), {}, "x is on meta: Triton's kernels run on"),
        (torch.ones(2, 32), {"out": (torch.ones(2, 32).byte(),)}, "expected a pair"),
        (torch.ones(2, 32), {"compile": True}, "compile=True with backend 'triton'"),
        (np.ones((2, 32), np.float32), {}, "x is 'ndarray': backend 'triton' takes torch tensors"),
    ],
)
def test_bad_arguments(x: Any, named: dict[str, Any], text: str) -> None:
    x = x.to(DEVICE) if isinstance(x, torch.Tensor) and not x.is_meta else x
    with pytest.raises(InputError) as caught:
        mxlab.quantize(x, **{"backend": "triton", **named})
    assert text in str(caught.value) and "\n" not in str(caught.value)


def test_an_unknown_backend() -> None:
    with pytest.raises(
        InputError, match=r"unknown quantize backend 'tritn'.*did you mean 'triton'"
    ):
        mxlab.quantize(torch.ones(32), backend="tritn")


@gpu_only
def test_past_two_to_the_31_elements() -> None:
    rows, cols = (1 << 17) + 5, 1 << 14
    x = torch.zeros(rows, cols, dtype=torch.bfloat16, device=DEVICE)
    tail = torch.randn(256, cols).bfloat16()
    x[-256:] = tail.to(DEVICE)
    found = kernel(x, layout="tile_128x4")
    assert x.numel() > 1 << 31
    wanted = mxlab.quantize(tail)
    assert torch.equal(found.codes[-256:].cpu(), torch.as_tensor(wanted.codes))
    assert not found.codes[:-256].any()
    plain = mxlab.deinterleave(found)
    assert torch.equal(plain.scales[-256:].cpu(), torch.as_tensor(wanted.scales))  # type: ignore[attr-defined]
