"""Decode attention: the references against torch's own, the kernel against them, and the rows."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from mxlab.attention.cache import PagedKVCache
from mxlab.attention.check import head_errors, misread
from mxlab.attention.decode import attend, attend_by_pages
from mxlab.errors import InputError
from mxlab.layout import layout

torch = pytest.importorskip("torch")


def draw(tokens: int, q_heads: int, kv_heads: int, dim: int = 128, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    shapes = ((q_heads, dim), (tokens, kv_heads, dim), (tokens, kv_heads, dim))
    return [rng.standard_normal(shape) for shape in shapes]


@pytest.mark.parametrize(("tokens", "q_heads", "kv_heads"), [(1, 1, 1), (130, 8, 2), (257, 3, 3)])
def test_attend_against_torch(tokens: int, q_heads: int, kv_heads: int) -> None:
    q, k, v = draw(tokens, q_heads, kv_heads)
    group = q_heads // kv_heads
    wide = (torch.from_numpy(x).transpose(0, 1).repeat_interleave(group, 0) for x in (k, v))
    wanted = torch.nn.functional.scaled_dot_product_attention(torch.from_numpy(q)[:, None], *wide)
    assert np.allclose(attend(q, k, v), wanted[:, 0].numpy(), rtol=1e-10, atol=1e-12)
    assert np.allclose(attend_by_pages(q, k, v), attend(q, k, v), rtol=1e-12)


def test_attend_refuses_what_does_not_fit() -> None:
    q, k, v = draw(4, 3, 2)
    with pytest.raises(InputError, match="do not fit together"):
        attend(q, k, v)


def as_tensor(x: Any) -> Any:
    raw = x.view(np.int16) if x.dtype.itemsize == 2 else x
    tensor = torch.from_numpy(raw)
    return tensor.view(torch.bfloat16) if x.dtype.itemsize == 2 else tensor


@pytest.mark.parametrize("dtype", ["mxfp8", "bf16"])
@pytest.mark.parametrize(("length", "splits", "group"), [(1, 1, 4), (300, 2, 4), (300, 5, 1)])
def test_the_kernel_reads_the_pages_that_the_table_names(
    dtype: str, length: int, splits: int, group: int
) -> None:
    """Everything outside the sequence is poisoned: NaN codes, NaN scales, NaN bfloat16."""
    from mxlab.kernels.decode import Plan, decode_attention
    from mxlab.kernels.mode import INTERPRETED

    if not INTERPRETED:
        pytest.skip("arrays of the CPU; the GPU's run is in the bench")
    cache = PagedKVCache(896, kv_heads=2, dtype=dtype)
    for buffer in (cache.k_buf, cache.v_buf, cache.sfk, cache.sfv):
        if buffer is not None:
            buffer[...] = 0xFFFF if buffer.itemsize == 2 else 0xFF
    table = np.array([5, 2, 7], np.int32)
    slots = cache.slots_of(table, length)
    q, k, v = (x.astype(ml_dtypes.bfloat16) for x in draw(length, 2 * group, 2, seed=3))
    cache.store(slots, k, v)
    scales = {}
    if cache.mxfp8:
        scales = {"sfk": as_tensor(cache.sfk), "sfv": as_tensor(cache.sfv)}
    out = decode_attention(
        as_tensor(q)[None],
        as_tensor(cache.k_buf),
        as_tensor(cache.v_buf),
        torch.from_numpy(table)[None],
        torch.tensor([length], dtype=torch.int32),
        how=Plan(splits=splits),
        **scales,
    )
    wanted = attend(q, *cache.gather(slots))
    assert np.abs(out[0].numpy() - wanted).max() < 1e-6
    if cache.mxfp8 and length > 1:
        exact = attend(q, k, v)
        assert np.abs(wanted - exact).max() > 1e-3  # the cache's own error is not nothing


def test_the_kernel_refuses_what_does_not_fit() -> None:
    from mxlab.kernels.decode import decode_attention

    q = torch.zeros(1, 4, 128, dtype=torch.bfloat16)
    codes = torch.zeros(128, 2, 128, dtype=torch.uint8)
    index = torch.zeros(1, 1, dtype=torch.int32), torch.ones(1, dtype=torch.int32)
    with pytest.raises(InputError, match="one of sfk and sfv is missing"):
        decode_attention(q, codes, codes, *index, sfk=torch.zeros(1))
    with pytest.raises(InputError, match="expected bfloat16"):
        decode_attention(q, codes, codes, *index)
    flat = torch.zeros(128, 2, 4, dtype=torch.uint8)
    with pytest.raises(InputError, match=r"expected \(1, 2, 32, 4, 4\)"):
        decode_attention(q, codes, codes, *index, sfk=flat, sfv=flat)
    small = torch.zeros(128, 2, 64, dtype=torch.bfloat16)
    with pytest.raises(InputError, match=r"expected \[slots, KV heads, 128\]"):
        decode_attention(q, small, small, *index)


def test_the_error_of_a_cache_and_of_a_wrong_layout() -> None:
    def worst(**how: Any) -> float:
        return max(row.error for row in head_errors(tokens=160, **how))

    for head_dim in (64, 128):
        for outliers in (0, 4):
            right = worst(head_dim=head_dim, outliers=outliers)
            wrong = worst(head_dim=head_dim, outliers=outliers, scale_layout="linear")
            assert 0.01 < right < 0.2 and wrong > 4 * right, (head_dim, outliers, right, wrong)
    assert worst(rule="floor") > worst(rule="rceil")
    row = head_errors(tokens=4, q_heads=4, kv_heads=2)[3]
    assert (row.head, row.head_dim, row.rule, row.scale_layout) == (3, 128, "rceil", "tile_128x4")


def test_misread_is_the_tile_read_row_by_row() -> None:
    rng = np.random.default_rng(0)
    scales = rng.integers(0, 255, (130, 2, 4)).astype(np.uint8)
    wrong = misread(scales, "linear")
    tile = layout("tile_128x4")
    for row, block in ((0, 0), (1, 2), (127, 3), (64, 1)):
        at = tile.coord(row * 4 + block, 128, 4)
        assert at and wrong[row, 1, block] == scales[at[0], 1, at[1]]
    assert (wrong != scales).mean() > 0.5 and (misread(scales, "tile_128x4") == scales).all()


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"head_dim": 80}, "head_dim is 80: expected a multiple of 32; the nearest is 64"),
        ({"rule": "up"}, "unknown rule 'up'"),
        ({"scale_layout": "tile_8x4"}, "unknown scale layout"),
        ({"q_heads": 3, "kv_heads": 2}, "q_heads is 3"),
    ],
)
def test_bad_arguments(how: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        head_errors(**how)
    assert message in str(caught.value)
