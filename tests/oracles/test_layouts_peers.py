"""The layouts against the packing code of those who use them, run here as it was shipped.

Where a module cannot be imported without CUDA, the one function or file is taken out of the
installed package and run. Scales are distinct, shapes ragged, and the peers' padding is theirs.
"""

import ast
import importlib.util
import math
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from mxlab.arrays import deinterleave, interleave
from mxlab.layout import layout
from mxlab.layout_batched import batched

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.oracle

Bytes = np.ndarray[Any, np.dtype[np.uint8]]
SHAPES = [(1, 1), (33, 3), (128, 4), (130, 5), (256, 8), (300, 12), (384, 24)]
RAGGED = pytest.mark.parametrize("shape", SHAPES)


def scales(*shape: int) -> Bytes:
    """Bytes 1..254, so that neither padding nor NaN is among them; neighbours differ."""
    index = np.arange(math.prod(shape)).reshape(shape)
    found = (index * 37 + index // shape[-1] * 11) % 254 + 1
    return found.astype(np.uint8)


def laid(plain: Bytes, name: str) -> Bytes:
    """What the NumPy and the torch twin make of the scales: one and the same."""
    found = interleave(plain, name)
    twin: Any = interleave(torch.from_numpy(plain), name)
    np.testing.assert_array_equal(found, twin.numpy())
    return found


def package(name: str) -> Path:
    """Where an installed package lies; skip where it is absent."""
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        pytest.skip(f"{name} is not installed")
    return Path(next(iter(spec.submodule_search_locations)))


def load(path: Path, name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def function(path: Path, name: str, names: dict[str, Any]) -> Callable[..., Any]:
    """One function of a file, compiled from the file's own text; ``names`` are its globals."""
    tree = ast.parse(path.read_text())
    found = [n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == name]
    assert len(found) == 1
    found[0].decorator_list = []  # jax.jit
    exec(compile(ast.Module([*found], []), str(path), "exec"), names)
    return names[name]  # type: ignore[no-any-return]


def same(ours: Bytes, theirs: Any) -> None:
    assert len(np.unique(ours)) > 1 or ours.size == 1 or (ours != 0).sum() == 1
    np.testing.assert_array_equal(ours.reshape(-1), theirs.contiguous().view(-1).numpy())


# ---- Transformer Engine: its JAX swizzle, with NumPy for jax.numpy (reshape and transpose) ----


@pytest.fixture(scope="module")
def te_swizzle() -> Callable[..., Any]:
    path = package("transformer_engine") / "jax" / "cpp_extensions" / "gemm.py"
    return function(path, "swizzled_scale", {"math": math, "jnp": np})


@pytest.mark.parametrize("shape", [(128, 4), (256, 8), (384, 24), (128, 12)])
def test_transformer_engine_row_wise(te_swizzle: Any, shape: tuple[int, int]) -> None:
    mine = laid(scales(*shape), "tile_128x4")
    np.testing.assert_array_equal(mine, te_swizzle(scales(*shape), 1, False).reshape(-1))


@pytest.mark.parametrize("shape", [(4, 128), (8, 256), (24, 384), (12, 128)])
def test_transformer_engine_column_wise(te_swizzle: Any, shape: tuple[int, int]) -> None:
    mine = laid(scales(*shape), "te_columnwise")
    np.testing.assert_array_equal(mine, te_swizzle(scales(*shape), 1, True).reshape(-1))
    assert (mine != laid(scales(*shape[::-1]), "tile_128x4")).any()  # not by chance


@pytest.mark.parametrize("shape", [(3, 100), (5, 130), (1, 1)])
def test_transformer_engine_column_wise_padded(te_swizzle: Any, shape: tuple[int, int]) -> None:
    """Its allocation: column-wise scales are (round_up(M/32, 4), round_up(K, 128)), zeros added."""
    rows, cols = layout("te_columnwise").padded(*shape)
    assert (rows % 4, cols % 128) == (0, 0)
    whole = np.zeros((rows, cols), np.uint8)
    whole[: shape[0], : shape[1]] = scales(*shape)
    mine = laid(scales(*shape), "te_columnwise")
    np.testing.assert_array_equal(mine, te_swizzle(whole, 1, True).reshape(-1))


# ---- DeepGEMM: its torch packer; only the 16-byte alignment comes from its C++ side ----


@pytest.fixture(scope="module")
def deepgemm_pack() -> Iterator[Callable[..., Any]]:
    utils = package("deep_gemm") / "utils"
    parent = ModuleType("peer_deep_gemm")
    parent.__path__ = []
    inner = ModuleType("peer_deep_gemm.utils")
    inner.__path__ = [str(utils)]
    native: Any = SimpleNamespace(
        get_tma_aligned_size=lambda n, size: -(-n * size // 16) * 16 // size
    )
    parent._C = native  # type: ignore[attr-defined]
    added = {parent.__name__: parent, inner.__name__: inner}
    sys.modules.update(added)
    try:
        module = load(utils / "layout.py", "peer_deep_gemm.utils.layout")
        yield module._pack_fp32_into_ue8m0_fallback
    finally:
        for name in [name for name in sys.modules if name.startswith("peer_deep_gemm")]:
            del sys.modules[name]


def storage(tensor: Any, nbytes: int) -> Bytes:
    """The bytes of a strided int32 tensor as they lie in memory, padding included."""
    words = np.asarray(torch.as_strided(tensor, (nbytes // 4,), (1,), 0).numpy())
    return words.view(np.uint8)


@RAGGED
def test_deepgemm_packed(deepgemm_pack: Any, shape: tuple[int, int]) -> None:
    plain = scales(*shape)
    numbers = torch.from_numpy(np.exp2(plain.astype(np.float32) - 127))
    packed = deepgemm_pack(numbers)
    mine = laid(plain, "deepgemm_packed")
    aligned = -(-shape[0] // 4) * 4
    assert packed.shape == (shape[0], -(-shape[1] // 4))
    assert shape[0] == 1 or packed.stride(0) == 1
    assert packed.shape[1] == 1 or packed.stride(1) == aligned
    np.testing.assert_array_equal(mine, storage(packed, mine.size))


def test_deepgemm_packed_batches(deepgemm_pack: Any) -> None:
    plain = scales(3, 33, 5)
    packed = deepgemm_pack(torch.from_numpy(np.exp2(plain.astype(np.float32) - 127)))
    mine = laid(plain, "deepgemm_packed").reshape(-1)
    assert mine.size == batched("deepgemm_packed", 3, 33, 5).nbytes
    assert packed.stride(0) * 4 == batched("deepgemm_packed", 3, 33, 5).stride
    np.testing.assert_array_equal(mine, storage(packed, mine.size))


# ---- torch's vendored quack, torchao's batches ----


@RAGGED
def test_torch_vendored_quack(shape: tuple[int, int]) -> None:
    path = package("torch") / "_vendor" / "quack" / "mx_utils.py"
    if not path.exists():
        pytest.skip("this torch vendors no quack")
    quack = load(path, "peer_quack_mx_utils")
    plain = torch.from_numpy(scales(*shape)).view(torch.float8_e8m0fnu)
    same(laid(scales(*shape), "tile_128x4"), quack.to_blocked(plain).view(torch.uint8))


@RAGGED
def test_torch_vendored_quack_batches(shape: tuple[int, int]) -> None:
    path = package("torch") / "_vendor" / "quack" / "blockscaled_gemm_utils.py"
    if not path.exists():
        pytest.skip("this torch vendors no quack")
    ceil_div = function(path, "ceil_div", {})
    pack = function(path, "pack_scale_2d_to_blocked_contig", {"torch": torch, "ceil_div": ceil_div})
    plain = scales(3, *shape)
    same(laid(plain, "tile_128x4"), pack(torch.from_numpy(plain)))


@RAGGED
def test_torchao_batches(shape: tuple[int, int]) -> None:
    pytest.importorskip("torchao", "0.18")
    from torchao.prototype.moe_training.kernels.mxfp8 import torch_to_blocked_per_group_3d

    plain = scales(3, *shape)
    theirs = torch_to_blocked_per_group_3d(torch.from_numpy(plain).view(torch.float8_e8m0fnu))
    same(laid(plain, "tile_128x4"), theirs.view(torch.uint8))


# ---- FlashInfer: 100 MB, so not in the test extra; its bytes are in layout_vectors.json ----


@RAGGED
@pytest.mark.parametrize(("ours", "theirs"), [("tile_128x4", "128x4"), ("tile_8x4", "8x4")])
def test_flashinfer_offsets(shape: tuple[int, int], ours: str, theirs: str) -> None:
    path = package("flashinfer") / "batch_invariant" / "quantization" / "layout.py"
    peer, mine = load(path, "peer_flashinfer_layout"), layout(ours)
    rows, cols = shape
    padded = peer.padded_sf_cols(cols * 32, 32, theirs)
    assert mine.nbytes(rows, cols) == peer.sf_numel(rows, cols * 32, 32, theirs)
    for r in range(rows):
        for c in range(cols):
            assert mine.offset(r, c, rows, cols) == peer.sf_offset(theirs, r, c, padded)


@RAGGED
def test_flashinfer_batches(shape: tuple[int, int]) -> None:
    path = package("flashinfer") / "trace" / "templates" / "gemm.py"
    undo = function(path, "_unswizzle_batched_sf_128x4", {"torch": torch})
    plain = scales(3, *shape)
    buffer = laid(plain, "tile_128x4")
    same(plain, undo(torch.from_numpy(buffer), 3, *shape))
    np.testing.assert_array_equal(deinterleave(buffer, *shape, "tile_128x4"), plain)
