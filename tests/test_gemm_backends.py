"""Every backend of gemm against the float64 reference: the same tests on a CPU and on a GPU."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from kernel_device import DEVICE, gpu_only, poisoned_empty, put
from twins import Array, array

import mxlab
from mxlab.errors import InputError
from mxlab.gemm import BACKENDS, CROSSOVERS, gemm
from mxlab.kernels.gemm import grouped
from mxlab.mxarray import MXArray

#: name -> relative error in the norm that its arithmetic may have; NumPy and torch take turns
TOLERANCE = {
    "reference": 1e-12,
    "numpy": 2e-6,
    "torch-dequant": 2e-6,
    "triton": 1e-4,  # on Hopper E4M3's sums of a block are kept to about 13 bits
    "triton-skinny": 1e-4,
    "triton-mixed": 5e-5,  # float32 sums of 16,416 terms, in the tensor core's own order
    "dot_scaled": 5e-5,
    "native": 5e-3,  # bfloat16 out
}


def values(rows: int, cols: int, seed: int = 0) -> Array:
    """Every block with a scale of its own, neighbours far apart."""
    rng = np.random.default_rng(seed)
    blocks = rng.standard_normal((rows, cols // 32, 32))
    exponents = rng.integers(-8, 8, (rows, cols // 32, 1)) + np.arange(rows)[:, None, None] % 5
    return np.asarray((blocks * np.exp2(exponents)).reshape(rows, cols), np.float32)


def operand(x: Array, name: str, layout: str = "linear", axis: int = 1) -> MXArray:
    q = mxlab.quantize(x if name == "numpy" else put(x), axis=axis)
    return mxlab.interleave(q, layout)


def served(name: str, m: int = 1, layout: str = "tile_128x4") -> bool:
    """Whether a backend can serve at all here; the others are tested to say why not."""
    a, b = (operand(values(rows, 64), name, layout) for rows in (m, 16))
    return not BACKENDS[name].fault(a, b)


HERE = [name for name in BACKENDS if served(name)]
EACH = pytest.mark.parametrize("name", HERE)


@pytest.fixture(autouse=True)
def nothing_left_unwritten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "empty", poisoned_empty)


def error(found: Any, wanted: Any) -> float:
    left, right = array(found).astype(np.float64), array(wanted).astype(np.float64)
    return float(np.linalg.norm(left - right) / np.linalg.norm(right))


def test_what_serves_here() -> None:
    expected = {"reference", "numpy", "torch-dequant", "triton"}
    assert expected <= set(HERE) and HERE[0] == "reference"
    if "dot_scaled" not in HERE:
        assert "before 3.8" in BACKENDS["dot_scaled"].fault(
            *(operand(values(1, 64), "triton"),) * 2
        )


@EACH
@pytest.mark.parametrize("layout", ["linear", "tile_128x4"])
@pytest.mark.parametrize(
    ("m", "n", "k"),
    [(1, 16, 32), (5, 48, 96), (17, 144, 160), (33, 16, 2880), (130, 64, 128), (2, 16, 16416)],
)
def test_products(name: str, layout: str, m: int, n: int, k: int) -> None:
    a, b = operand(values(m, k), name, layout), operand(values(n, k, 1), name, layout)
    if BACKENDS[name].fault(a, b):
        assert (name == "triton-skinny" and m > 64) or name == "native"
        return
    found = gemm(a, b, backend=name)
    assert tuple(found.shape) == (m, n)
    assert error(found, gemm(a, b)) < TOLERANCE[name]


@EACH
def test_one_scale_changes_one_row_or_one_column(name: str) -> None:
    a, b = operand(values(20, 256), name), operand(values(48, 256, 1), name)
    if name == "native":
        a, b = mxlab.interleave(a, "tile_128x4"), mxlab.interleave(b, "tile_128x4")
    before = array(gemm(a, b, backend=name)).copy()
    for q, at, expected in (
        (a, 13, (slice(13, 14), slice(None))),
        (b, 37, (slice(None), slice(37, 38))),
    ):
        plain = mxlab.deinterleave(q)
        scales = array(plain.scales).copy()
        scales[at, 5] += 3
        buffer: Any = scales if name == "numpy" else put(scales)
        changed = replace(plain, scales=buffer)
        changed = mxlab.interleave(changed, q.layout)
        pair = (changed, b) if q is a else (a, changed)
        after = array(gemm(*pair, backend=name))
        differs = np.zeros((20, 48), bool)
        differs[expected] = True
        assert ((after != before) == differs).all()


@EACH
def test_poisoned_padding_reaches_nothing(name: str) -> None:
    a, b = (operand(values(rows, 160, rows), name, "tile_128x4") for rows in (33, 144))
    clean = array(gemm(a, b, backend=name)).copy()

    def poison(q: MXArray) -> MXArray:
        ones = np.ones(q.scale_shape, np.uint8)
        padding = mxlab.interleave(ones) == 0
        assert padding.sum() > 500
        scales = np.where(padding, 0xFF, array(q.scales)).astype(np.uint8)
        buffer: Any = scales if name == "numpy" else put(scales)
        return replace(q, scales=buffer)

    np.testing.assert_array_equal(array(gemm(poison(a), poison(b), backend=name)), clean)


@EACH
def test_nan_scales_and_codes_reach_only_their_rows(name: str) -> None:
    x, y = values(5, 128), values(16, 128, 1)
    x[1, 70], y[2, 3] = np.nan, np.inf
    layout = "tile_128x4" if name == "native" else "linear"
    found = array(gemm(operand(x, name, layout), operand(y, name, layout), backend=name))
    expected = np.zeros((5, 16), bool)
    expected[1], expected[:, 2] = True, True
    assert (np.isnan(found) == expected).all()


@EACH
def test_the_ends_of_the_range(name: str) -> None:
    """Scales 2^-60 and 2^60 in one row: neither is lost; a block of zeros has byte 0."""
    x = values(4, 128)
    x[:, :32] *= np.float32(2.0**-60)
    x[:, 32:64] = 0
    y = values(16, 128, 1)
    y[:, :32] *= np.float32(2.0**60)
    layout = "tile_128x4" if name == "native" else "linear"
    a, b = operand(x, name, layout), operand(y, name, layout)
    assert error(gemm(a, b, backend=name), gemm(a, b)) < TOLERANCE[name]


@EACH
def test_both_orientations_of_b(name: str) -> None:
    x = values(16, 96, 3)
    a = operand(values(4, 96, 4), name)
    along_k = operand(np.ascontiguousarray(x.T), name, axis=0)
    if BACKENDS[name].fault(a, along_k):
        assert name in ("triton-skinny", "triton-mixed", "native")
        return
    found = gemm(a, along_k, backend=name)
    assert error(found, gemm(a, operand(x, name))) < TOLERANCE[name]


@EACH
@pytest.mark.parametrize(("m", "n"), [(0, 16), (3, 0), (0, 0)])
def test_empty(name: str, m: int, n: int) -> None:
    a, b = operand(values(m, 64), name), operand(values(n, 64), name)
    if name == "native" or BACKENDS[name].fault(a, b):
        return
    assert tuple(gemm(a, b, backend=name).shape) == (m, n)


def with_arrays(q: MXArray, change: Callable[[Any], Any], **named: Any) -> MXArray:
    """The MXArray with both of its arrays changed."""
    codes, scales = change(q.codes), change(q.scales)
    return replace(q, codes=codes, scales=scales, **named)


@EACH
def test_strided_codes(name: str) -> None:
    a, b = operand(values(8, 96), name), operand(values(32, 96, 1), name)
    if name == "native":
        return
    strided = with_arrays(a, lambda x: x[::2], shape=(4, 96))
    copied = with_arrays(strided, lambda x: x.copy() if name == "numpy" else x.contiguous())
    wanted = array(gemm(copied, b, backend=name))
    np.testing.assert_array_equal(array(gemm(strided, b, backend=name)), wanted)


@EACH
def test_dtypes(name: str) -> None:
    layout = "tile_128x4" if name == "native" else "linear"
    a, b = operand(values(3, 64) / 1024, name, layout), operand(values(16, 64, 1), name, layout)
    row, wanted = BACKENDS[name], gemm(a, b)
    for dtype in row.dtypes:
        found = gemm(a, b, backend=name, dtype=dtype)
        assert str(found.dtype).removeprefix("torch.") == dtype
        numbers = found.double() if isinstance(found, torch.Tensor) else found
        assert error(numbers, wanted) < 5e-3
    assert gemm(a, b, backend=name).dtype == gemm(a, b, backend=name, dtype=row.dtypes[0]).dtype
    with pytest.raises(InputError, match=f"gemm backend '{name}' returns {row.dtypes[0]}"):
        gemm(a, b, backend=name, dtype="int8")


@pytest.mark.parametrize("name", [n for n in BACKENDS if n not in HERE])
def test_a_backend_that_cannot_serve_says_why_and_names_one_that_can(name: str) -> None:
    a, b = operand(values(3, 64), name, "tile_128x4"), operand(values(16, 64), name, "tile_128x4")
    with pytest.raises(InputError) as caught:
        gemm(a, b, backend=name)
    text = str(caught.value)
    other = gemm.why(a, b).backend
    assert text.startswith(f"gemm backend {name!r}: ") and text.endswith(f"{other!r} serves")
    assert "\n" not in text and BACKENDS[name].fault(a, b) in text
    gemm(a, b, backend=other)


def test_libraries_formats_and_layouts_are_refused_by_name() -> None:
    numpys = operand(values(3, 64), "numpy")
    tensors = operand(values(3, 64), "triton")
    tiled = mxlab.interleave(tensors, "tile_8x4")
    wide = mxlab.quantize(put(values(3, 64)), "e5m2")
    cases: tuple[tuple[MXArray, str, str], ...] = (
        (numpys, "triton", "the operands are NumPy arrays"),
        (numpys, "torch-dequant", "the operands are NumPy arrays; 'numpy' serves"),
        (tensors, "numpy", "the operands are torch tensors; "),
        (wide, "triton", "format 'e5m2': the kernels multiply 'e4m3'"),
        (tiled, "triton", "layout 'tile_8x4': the kernels read 'linear' and 'tile_128x4'"),
        (tensors, "trition", "did you mean 'triton'"),
    )
    for q, name, text in cases:
        with pytest.raises(InputError) as caught:
            gemm(q, q, backend=name)
        assert text in str(caught.value)
    for q in (wide, tiled):  # the general one takes them
        assert error(gemm(q, q, backend="torch-dequant"), gemm(q, q)) < 2e-6


def test_auto_is_what_why_says() -> None:
    for name in ("numpy", "triton"):
        a, b = operand(values(3, 64), name), operand(values(16, 64), name)
        choice = mxlab.gemm.why(a, b)
        assert choice.backend in {row.backend for row in CROSSOVERS}
        assert set(choice.others) == set(BACKENDS) - {choice.backend}
        found, wanted = gemm(a, b, backend="auto"), gemm(a, b, backend=choice.backend)
        np.testing.assert_array_equal(array(found), array(wanted))
        text = str(choice)
        assert text.count("\n") == len(BACKENDS) - 1 and "M = 3" in text


def test_every_device_of_the_table_ends_without_a_limit() -> None:
    last = {row.device: row for row in CROSSOVERS}
    assert {"numpy", "cpu", "cuda", "sm_90"} <= last.keys()
    assert all(last[device].max_m is None for device in ("numpy", "cpu", "cuda", "sm_90"))
    assert {row.backend for row in CROSSOVERS} <= BACKENDS.keys()


@gpu_only
def test_crossovers_on_a_gpu() -> None:
    few, many = operand(values(64, 64), "triton"), operand(values(4096, 64), "triton")
    if torch.cuda.get_device_capability() == (9, 0):
        assert gemm.why(few, many).backend == "triton-skinny"
        assert gemm.why(operand(values(512, 64), "triton"), many).backend == "triton-mixed"
        assert gemm.why(many, many).backend == "torch-dequant"


@gpu_only
def test_results_repeat_bit_for_bit() -> None:
    a, b = operand(values(16, 2880), "triton"), operand(values(2880, 2880, 1), "triton")
    for name in HERE:
        if name != "numpy" and not BACKENDS[name].fault(a, b):
            first = gemm(a, b, backend=name)
            assert all(torch.equal(first, gemm(a, b, backend=name)) for _ in range(10)), name


def _groups(counts: list[int], layout: str) -> tuple[MXArray, MXArray, Any]:
    tokens, experts = (
        values(sum(counts), 608),
        np.stack([values(40, 608, i) for i in range(len(counts))]),
    )
    a = mxlab.quantize(put(tokens), layout=layout)
    e = mxlab.quantize(put(experts), layout=layout)
    x, w = (mxlab.dequantize(q, torch.float64) for q in (a, e))
    parts = [p @ w[i].T for i, p in enumerate(x.split(counts))]
    return a, e, torch.cat(parts)


def _grouped_kernels() -> list[Callable[..., torch.Tensor]]:
    from mxlab.kernels import mixed, skinny

    return [grouped] if skinny.sm90_fault(torch.device(DEVICE)) else [grouped, mixed.grouped]


@pytest.mark.parametrize("kernel", _grouped_kernels())
@pytest.mark.parametrize("layout", ["linear", "tile_128x4"])
@pytest.mark.parametrize("counts", [[3], [0, 66, 0, 4], [300, 0, 257], [0, 0]])
def test_experts(kernel: Callable[..., torch.Tensor], counts: list[int], layout: str) -> None:
    if not sum(counts) and layout != "linear":
        return
    a, e, wanted = _groups(counts, layout)
    found = kernel(a, e, counts, torch.float32)
    assert found.shape == wanted.shape
    if sum(counts):
        assert error(found, wanted) < 1e-4


def test_experts_that_do_not_add_up() -> None:
    a, e, _ = _groups([2, 3], "linear")
    cases: tuple[tuple[Any, str], ...] = (
        ([2, 2], "counts has 2 entries, sum 4: expected 2, sum 5"),
        ([5], "counts has 1 entries"),
        ([-1, 6], "count is -1: expected 0 to 5"),
    )
    for counts, text in cases:
        with pytest.raises(InputError, match=text):
            grouped(a, e, counts)
    with pytest.raises(InputError, match="expected the same"):
        grouped(mxlab.interleave(a), e, [2, 3])


def test_scaled_mm_on_the_meta_device() -> None:
    """torch's own checks take what the native backend passes: shapes, strides, dtypes, bytes."""
    from mxlab.gemm import native

    for m, n, k in ((1, 16, 32), (130, 144, 160), (8, 2880, 2880)):
        a, b = (mxlab.interleave(mxlab.quantize(torch.ones(r, k)), "tile_128x4") for r in (m, n))
        a, b = (
            replace(q, codes=q.codes.to("meta"), scales=q.scales.to("meta"))  # type: ignore[attr-defined]
            for q in (a, b)
        )
        assert native.fault(a, b) == ""
        assert native.product(a, b, "bfloat16").shape == (m, n)
        odd = replace(b, codes=b.codes[:-1], shape=(n - 1, k))
        assert f"N = {n - 1} % 16" in native.fault(a, odd)


@pytest.mark.parametrize(
    ("gpu", "text"), [("h200", "9.0, 10.0 needed"), ("b200", ""), ("l40s", "8.9, 10.0")]
)
def test_native_by_gpu(gpu: str, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from mxlab.gemm import native

    monkeypatch.setattr(native, "_gpu", lambda a: gpu)
    a = operand(values(16, 64), "native", "tile_128x4")
    found = native.fault(a, a)
    assert (text in found) if text else found == ""
