"""Peers that run on a CPU against their own profile, on fresh random and adversarial blocks."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mxlab.profiles import get_profile

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.oracle

Bytes = np.ndarray[Any, np.dtype[np.uint8]]


def blocks(seed: int = 11) -> np.ndarray[Any, np.dtype[np.float32]]:
    """(n, 32) float32: any exponent; maxima at thresholds +-1 ulp; tiny, huge, Inf, NaN, zeros."""
    rng = np.random.default_rng(seed)
    centre = rng.integers(0, 250, (200, 1), dtype=np.uint32) << np.uint32(23)
    bits = [centre + rng.integers(0, 4 << 23, (200, 32), dtype=np.uint32)]
    for exponent in (0, 1, 7, 8, 9, 20, 100, 127, 135, 200, 246, 253, 254):
        for mantissa in (0, 0x600000, 0x780000, 0x7FFFFF):
            for step in (-40, -1, 0, 1, 30):
                top = max(0, (exponent << 23) + min(max(mantissa + step, 0), 0x7FFFFF))
                low = max(top - (6 << 23), 0)
                block = rng.integers(low, top + 1, (1, 32), dtype=np.uint32)
                block[0, rng.integers(32)] = top
                bits.append(block)
    for special in (0x7F800000, 0x7FC00000):
        for at in (0, 9, 31):
            block = rng.integers(0x3F000000, 0x40000000, (1, 32), dtype=np.uint32)
            block[0, at] = special
            bits.append(block)
    bits.append(np.zeros((2, 32), np.uint32))
    every = np.concatenate(bits)
    every |= rng.integers(0, 2, every.shape, dtype=np.uint32) << np.uint32(31)
    return every.view(np.float32)


def compare(
    profile: str, values: np.ndarray[Any, np.dtype[np.float32]], bytes_: Bytes, codes: Bytes
) -> None:
    found = get_profile(profile)
    for row, byte, expected in zip(values, bytes_.ravel(), codes, strict=True):
        ours = found.quantize([float(v) for v in row])
        assert ours[0] == byte, row
        nan = (expected & 0x7F) == 0x7F
        mine = np.array(ours[1], np.uint8)
        np.testing.assert_array_equal((mine & 0x7F) == 0x7F, nan)
        np.testing.assert_array_equal(mine[~nan], expected[~nan])
    assert len(set(bytes_.ravel().tolist())) > 50


@pytest.mark.parametrize("rule", ["floor", "rceil", "ceil", "even"])
def test_torchao(rule: str) -> None:
    pytest.importorskip("torchao", "0.18")
    from torchao.prototype.mx_formats.config import (
        ScaleCalculationMode,
    )
    from torchao.prototype.mx_formats.mx_tensor import to_mx

    x = blocks()
    mode = ScaleCalculationMode[rule.upper()]
    scale, codes = to_mx(torch.from_numpy(x), torch.float8_e4m3fn, 32, mode)
    as_bytes: Callable[[Any], Bytes] = lambda t: t.view(torch.uint8).numpy()  # noqa: E731
    compare(f"torchao-0.18-{rule}", x, as_bytes(scale), as_bytes(codes))


def test_gfloat() -> None:
    block_formats = pytest.importorskip("gfloat.formats")
    from gfloat.block import compute_scale_amax, encode_block

    info = block_formats.format_info_mxfp8_e4m3
    x = blocks()
    x = x[~np.isnan(x).any(axis=1)]
    scales, codes = [], []
    for row in x.astype(np.float64):
        scale = compute_scale_amax(info.etype.emax, row)
        codes.append([int(c) for c in list(encode_block(info, scale, row / scale))[1:]])
        scales.append(round(math.log2(scale)) + 127)
    compare("gfloat-0.5", x, np.array(scales, np.uint8), np.array(codes, np.uint8))


def test_mlx() -> None:
    """One block a call: over many its log2 is another, and the bytes depend on the position."""
    mx: Any = pytest.importorskip("mlx.core")
    if not mx.__version__.startswith("0.31."):
        pytest.skip(f"MLX {mx.__version__} has no profile: 0.32 rounds up")
    mx.set_default_device(mx.cpu)
    values = blocks()
    answers = [mx.quantize(mx.array(row[None]), mode="mxfp8", group_size=32) for row in values]
    codes = np.concatenate([np.array(code).view(np.uint8) for code, _ in answers])
    scales = np.concatenate([np.array(scale) for _, scale in answers])
    compare("mlx-0.31-cpu", values, scales, codes)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_torch_testing(dtype: Any) -> None:
    pytest.importorskip("expecttest")  # torch's own test tools import it
    from torch.testing._internal.common_quantized import to_mxfp

    values = torch.from_numpy(blocks()).to(dtype)
    scales, codes = to_mxfp(values, block_size=32, format="mxfp8")
    given = values.float().numpy()
    found = scales.view(torch.uint8).numpy(), codes.view(torch.uint8).numpy()
    compare("torch-2.13-testing", given, *found)
