"""The paged cache: addresses, allocation, store and gather, and where other head sizes fail."""

import subprocess
import sys
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

import mxlab.attention
from mxlab.attention.cache import PagedKVCache
from mxlab.attention.checks import GuardTripped
from mxlab.attention.pages import KVShape
from mxlab.attention.reference import scale_offsets
from mxlab.errors import InputError
from mxlab.guards import guard
from mxlab.layout import layout


def test_a_page_and_head_is_one_128x4_tile() -> None:
    """Every byte of every (page, head): the tile of rows = tokens, columns = blocks."""
    shape = KVShape(slots=384, kv_heads=3)
    tile = layout("tile_128x4")
    seen = set()
    for slot in range(shape.slots):
        page, row = shape.page_row(slot)
        for head in range(3):
            for block in range(4):
                offset = shape.scale_offset(slot, head, block)
                number = page * 3 + head
                assert offset == number * 512 + tile.offset(row, block, rows=128, cols=4)
                assert shape.scale_at(offset) == (slot, head, block)
                seen.add(offset)
    assert seen == set(range(384 * 3 * 4))


@pytest.mark.parametrize("page", [32, 64, 96, 128, 256])
def test_addresses_of_other_pages(page: int) -> None:
    """Against a NumPy array's own indices, the layout called kv_paged, and the vector twin."""
    shape = KVShape(slots=2 * page + 5, kv_heads=2, page_size=page)
    places = np.arange(np.prod(shape.scale_shape)).reshape(shape.scale_shape)
    paged = layout("kv_paged", page_size=page)
    slots = np.arange(2 * page)
    twin = scale_offsets(slots, 2, page)
    for slot in slots.tolist():
        for head in range(2):
            for block in range(4):
                offset = shape.scale_offset(slot, head, block)
                assert offset == places[shape.scale_index(slot, head, block)]
                assert offset == paged.at(slot, head * 4 + block, 2 * page, 8)
                assert offset == twin[slot, head, block]
    with pytest.raises(InputError, match=f"slot is {2 * page}: expected 0 to {2 * page - 1}"):
        shape.scale_offset(2 * page, 0, 0)


@pytest.mark.parametrize("page", [1, 48, 128])
def test_flat_addresses_are_those_of_an_array(page: int) -> None:
    shape = KVShape(slots=300, kv_heads=3, head_dim=64, page_size=page, interleaved=False)
    assert shape.scale_shape == (300, 3, 2)
    for offset, index in enumerate(np.ndindex(shape.scale_shape)):
        assert shape.scale_offset(*index) == offset and shape.scale_at(offset) == index
        assert shape.scale_index(*index) == index
    for bad in (-1, 1800):
        with pytest.raises(InputError, match=f"offset is {bad}: expected 0 to 1799"):
            shape.scale_at(bad)
    with pytest.raises(InputError, match="slot is 300: expected 0 to 299"):
        shape.scale_offset(300, 0, 0)


def test_the_facts_examples() -> None:
    for page, heads, slot, head, block, offset in (
        (128, 2, 200, 1, 3, 1675),
        (64, 1, 100, 0, 2, 294),
        (32, 2, 33, 1, 0, 388),
    ):
        shape = KVShape(slots=512, kv_heads=heads, page_size=page)
        assert shape.scale_offset(slot, head, block) == offset


def values(n: int, heads: int, dim: int, seed: int = 0) -> NDArray[Any]:
    rng = np.random.default_rng(seed)
    scale = np.exp2(rng.integers(-12, 12, (n, heads, 1)))
    return (rng.standard_normal((n, heads, dim)) * scale).astype(ml_dtypes.bfloat16)


@pytest.mark.parametrize("dim", [128, 64, 96])
def test_store_and_gather(dim: int) -> None:
    cache = PagedKVCache(256, kv_heads=2, head_dim=dim)
    assert cache.k_buf.shape == (384, 2, dim) and cache.sfk.shape == (3, 2, 32, 4, dim // 32)
    assert not cache.k_buf.any() and not cache.sfk.any() and cache.sfk.dtype == np.uint8
    cache.sfk[:], cache.sfv[:], cache.k_buf[:], cache.v_buf[:] = 0xFF, 0xFF, 0x7F, 0x7F
    slots = cache.slots_of(np.array([2, 0]), 150)
    assert slots[:2].tolist() == [256, 257] and slots[-1] == 21
    k, v = values(150, 2, dim), values(150, 2, dim, seed=1)
    cache.store(slots, k, v)
    for found, wanted in zip(cache.gather(slots), (k, v), strict=True):
        blocks = wanted.astype(np.float64).reshape(150, 2, -1, 32)
        error = found.astype(np.float64).reshape(blocks.shape) - blocks
        assert (np.abs(error) <= np.abs(blocks).max(-1, keepdims=True) / 16).all()
        assert np.abs(error).max() > 0
    others = np.setdiff1d(np.arange(384), slots)
    assert np.isnan(cache.gather(others)[0].astype(np.float32)).all()
    assert (cache.k_buf[others] == 0x7F).all() and (cache.sfk == 0xFF).sum() == 234 * 2 * dim // 32


def test_bfloat16_goes_in_and_out_unchanged() -> None:
    cache = PagedKVCache(64, kv_heads=1, head_dim=80, v_head_dim=48, page_size=16, dtype="bf16")
    k, v = values(5, 1, 80), values(5, 1, 48)
    cache.store([0, 3, 79, 17, 16], k, v)
    found = cache.gather([0, 3, 79, 17, 16])
    assert (found[0] == k).all() and (found[1] == v).all() and cache.sfk is None
    assert cache.bytes_per_token == 256


def test_bytes_per_token() -> None:
    assert PagedKVCache(128, kv_heads=8).bytes_per_token == 2112
    assert KVShape(slots=128, kv_heads=8).bytes_per_token * 2 == 2112


#: head_dim, v_head_dim, page, fused store -> where it fails and the guard
FAILS: list[tuple[int, int, int, bool, str, str]] = [
    (80, 80, 128, True, "allocation", "kv-hd32"),
    (128, 72, 128, True, "allocation", "kv-vhd32"),
    (128, 128, 64, True, "store", "kv-no-scales"),
    (128, 128, 1, False, "store", "kv-page128"),
    (64, 64, 128, False, "store", "kv-sf-dim4"),
    (96, 96, 128, False, "store", "kv-sf-dim4"),
    (192, 128, 128, False, "store", "kv-sf-dim4"),
    (160, 160, 128, True, "attention", "fa4-hd"),
    (64, 64, 128, True, "silent", "kv-sf-dim4"),
    (96, 96, 128, True, "attention", "fa4-v-even"),
    (256, 256, 128, True, "silent", "kv-sf-dim4"),
    (128, 128, 128, True, "nowhere", ""),
    (128, 128, 128, False, "nowhere", ""),
]


def texts(id: str) -> list[str]:
    return [message.split("{")[0] for message in guard(id).messages]


@pytest.mark.parametrize(("dim", "v_dim", "page", "fused", "where", "id"), FAILS)
def test_where_a_head_size_fails(
    dim: int, v_dim: int, page: int, fused: bool, where: str, id: str
) -> None:
    def make() -> PagedKVCache:
        return PagedKVCache(
            page * 2, kv_heads=1, head_dim=dim, v_head_dim=v_dim, page_size=page, fused_store=fused
        )

    if where == "allocation":
        with pytest.raises(GuardTripped) as caught:
            make()
        assert caught.value.guard == id and str(caught.value).startswith(texts(id)[0])
        return
    cache = make()
    k, v = values(1, 1, dim), values(1, 1, v_dim)
    if where == "store":
        with pytest.raises(GuardTripped) as caught:
            cache.store([0], k, v)
        assert caught.value.guard == id and str(caught.value).startswith(texts(id)[0])
        assert not cache.k_buf.any() and not cache.sfk.any()
        return
    cache.store([0], k, v)
    fault = cache.attention_fault
    assert (fault is not None) is (where == "attention")
    if fault:
        assert fault.startswith((texts(id) or [guard(id).error])[0]) and id in fault
    assert bool(cache.silent_faults) is (where in ("silent", "attention"))


@pytest.mark.parametrize(
    ("slots", "message"),
    [
        ([-1], "slot -1: expected 0 to 383"),
        ([384], "slot 384: expected 0 to 383"),
        ([3, 3], "slots name one slot twice"),
    ],
)
def test_bad_slots(slots: list[int], message: str) -> None:
    cache = PagedKVCache(256, kv_heads=1)
    k = values(len(slots), 1, 128)
    with pytest.raises(InputError) as caught:
        cache.store(slots, k, k)
    assert message in str(caught.value) and not cache.k_buf.any()


def test_bad_arguments() -> None:
    with pytest.raises(InputError, match="size is 100: expected a multiple of 128"):
        PagedKVCache(100, kv_heads=1)
    with pytest.raises(InputError, match="unknown dtype 'fp4'"):
        PagedKVCache(128, kv_heads=1, dtype="fp4")
    cache = PagedKVCache(128, kv_heads=1)
    with pytest.raises(InputError, match="page_table holds 2: expected 0 to 1"):
        cache.slots_of(np.array([2]), 1)
    with pytest.raises(InputError, match="length is 200"):
        cache.slots_of(np.array([1]), 200)
    with pytest.raises(InputError, match="k has shape"):
        cache.store([0], values(1, 1, 64), values(1, 1, 128))


def test_addresses_need_no_numpy() -> None:
    """An explorer runs them in a browser, where there is none."""
    code = "import sys; sys.modules['numpy'] = None; from mxlab.attention.pages import KVShape; "
    code += "from mxlab.attention import KVShape as same; print(same is KVShape)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (ran.stdout, ran.stderr) == ("True\n", "")


def test_every_name_of_the_package_is_there() -> None:
    for name in mxlab.attention.__all__:
        assert callable(getattr(mxlab.attention, name))
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        mxlab.attention.nonsense  # noqa: B018
