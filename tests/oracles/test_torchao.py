"""torchao 0.18's own code against ours: the quantiser in four modes, the 128x4 tiles."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from mxlab.arrays import deinterleave, dequantize, interleave, quantize
from mxlab.scale import RULES

torch = pytest.importorskip("torch")
pytest.importorskip("torchao", "0.18")
pytestmark = pytest.mark.oracle

SHAPES = [(1, 1), (33, 3), (128, 4), (130, 5), (256, 8), (300, 12), (384, 24)]


def data(seed: int) -> np.ndarray[Any, Any]:
    """bfloat16 values: rows spread over the binades, some maxima in [1.75, 2) * 2^n."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((256, 128)) * np.exp2(rng.integers(-100, 100, (256, 1)))
    x[::4, ::32] = np.exp2(np.ceil(np.log2(np.abs(x[::4]).max(1, keepdims=True))))
    x[::4, ::32] *= rng.uniform(0.87, 1.0, (64, 4))
    return x.astype(ml_dtypes.bfloat16)


def same(ours: np.ndarray[Any, Any], theirs: Any) -> None:
    np.testing.assert_array_equal(ours, theirs.view(torch.uint8).numpy().reshape(ours.shape))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("fmt", ["e4m3", "e5m2"])
@pytest.mark.parametrize("rule", sorted(RULES))
def test_quantise(rule: str, fmt: str, dtype: str) -> None:
    from torchao.prototype.mx_formats.config import ScaleCalculationMode
    from torchao.prototype.mx_formats.mx_tensor import to_dtype, to_mx

    element = {"e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2}[fmt]
    x = data(seed=3)
    tensor = torch.from_numpy(x.astype(np.float32)).to(getattr(torch, dtype))
    scale, codes = to_mx(tensor, element, 32, ScaleCalculationMode[rule.upper()])
    ours = quantize(x, fmt, rule=rule, axis=1)
    same(ours.scales, scale)
    same(ours.codes, codes)
    decoded = to_dtype(codes, scale, element, 32, torch.float32)
    np.testing.assert_array_equal(dequantize(ours), decoded.numpy())
    others = [quantize(x, fmt, rule=other, axis=1) for other in RULES if other != rule]
    assert all((other.scales != ours.scales).any() for other in others)  # the rules do differ


@pytest.mark.parametrize("shape", SHAPES)
def test_tiles(shape: tuple[int, int]) -> None:
    from torchao.prototype.mx_formats.utils import from_blocked, to_blocked

    rows, cols = shape
    r, c = np.ogrid[:rows, :cols]
    scales = np.asarray((37 * r + 101 * c + 11 * r * c) % 251 + 1, np.uint8)
    ours = interleave(scales, "tile_128x4")
    same(ours, to_blocked(torch.from_numpy(scales)))
    theirs = from_blocked(torch.from_numpy(ours), rows, cols).numpy()
    np.testing.assert_array_equal(deinterleave(ours, rows, cols, "tile_128x4"), theirs)
