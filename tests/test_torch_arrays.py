"""torch and NumPy give the same bytes through the same names, whatever the strides and the axis."""

import ast
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch
from test_arrays import adversarial_blocks, distinct
from torch.utils._python_dispatch import TorchDispatchMode
from twins import EAGER, Quantizer, array, tensor

import mxlab
from mxlab.arrays import concatenate
from mxlab.block import quantize_block
from mxlab.codec import decode
from mxlab.errors import InputError
from mxlab.formats import ELEMENT_FORMATS
from mxlab.layout import LAYOUTS
from mxlab.mxarray import MXArray
from mxlab.scale import RULES, scale_value
from mxlab.tensors import torch_kernel

FORMATS = pytest.mark.parametrize("fmt", sorted(ELEMENT_FORMATS))
RULE_NAMES = pytest.mark.parametrize("rule", sorted(RULES))
TWINS = pytest.mark.parametrize("quantize", list(EAGER.values()), ids=list(EAGER))
TORCH = pytest.mark.parametrize("device", ["cpu"] + ["cuda"] * torch.cuda.is_available())
PACKAGE = Path(mxlab.__file__).parent


def every_bfloat16() -> np.ndarray[Any, Any]:
    """All 65,536 twice: neighbours in one block, and far apart."""
    words = np.arange(65536, dtype=np.uint16).view(ml_dtypes.bfloat16)
    return np.concatenate([words.reshape(-1, 32), words.reshape(32, -1).T])


def equal(found: MXArray, wanted: MXArray) -> None:
    np.testing.assert_array_equal(array(found.codes), array(wanted.codes))
    np.testing.assert_array_equal(array(found.scales), array(wanted.scales))


def scaled(shape: tuple[int, ...], seed: int = 0) -> np.ndarray[Any, Any]:
    """Float32 values over many binades, so that neighbouring scales differ."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape) * np.exp2(rng.integers(-60, 60, shape))
    return np.asarray(x, np.float32)


@TWINS
@FORMATS
@RULE_NAMES
def test_adversarial_blocks_equal_the_scalar_reference(
    quantize: Quantizer, fmt: str, rule: str
) -> None:
    blocks = adversarial_blocks()
    found = quantize(blocks, fmt, rule=rule)
    columns = quantize(np.ascontiguousarray(blocks.T), fmt, rule=rule, axis=0)
    np.testing.assert_array_equal(columns.codes.T, found.codes)
    np.testing.assert_array_equal(columns.scales.T, found.scales)
    for row, codes, byte in zip(blocks, found.codes, found.scales[:, 0], strict=True):
        expected = quantize_block(row.tolist(), fmt, rule=rule)
        assert (int(byte), tuple(codes.tolist())) == (expected.scale_byte, expected.codes)
    assert set(found.scales.ravel().tolist()) >= {0, 1, 255}


@TWINS
@FORMATS
def test_every_bfloat16_equals_the_scalar_reference(quantize: Quantizer, fmt: str) -> None:
    values = every_bfloat16()
    found = quantize(values, fmt, rule="rceil")
    equal(found, mxlab.quantize(values.astype(np.float32), fmt, rule="rceil"))
    for row in range(0, len(values), 7):
        expected = quantize_block([float(v) for v in values[row]], fmt, rule="rceil")
        assert found.scales[row, 0] == expected.scale_byte
        assert found.codes[row].tolist() == list(expected.codes)


def subnormal_blocks(fmt: str) -> np.ndarray[Any, Any]:
    """Subnormals alone, and beside a maximum that gives them each scale byte from 0 to 20."""
    words = np.random.default_rng(3).integers(0, 1 << 23, (85, 32), dtype=np.uint32)
    words[21:] >>= np.arange(64, dtype=np.uint32)[:, None] % 12
    words[:21, 1:] |= 0x7F0000
    words[:21, 0] = (np.arange(21, dtype=np.uint32) + ELEMENT_FORMATS[fmt].emax) << np.uint32(23)
    words[:, ::3] |= np.uint32(1 << 31)
    return words.view(np.float32)


@TWINS
@FORMATS
def test_flushed_subnormals_change_no_byte(quantize: Quantizer, fmt: str) -> None:
    x = subnormal_blocks(fmt)
    wanted = [quantize_block(row.tolist(), fmt, rule="floor") for row in x]
    assert [block.scale_byte for block in wanted[:21]] == list(range(21))
    last = {"e4m3": 10, "e5m2": 17}[fmt]  # the last scale under which a subnormal is not zero
    assert [any(code & 0x7F for code in b.codes[1:]) for b in wanted[last : last + 2]] == [1, 0]
    assert torch.set_flush_denormal(True)
    try:
        assert (torch.tensor([2.0**-130]) * 1).item() == 0  # it does flush
        together = quantize(x, fmt, rule="floor")
        alone = [quantize(x[i : i + 1], fmt, rule="floor") for i in range(21)]
    finally:
        torch.set_flush_denormal(False)
    assert together.scales.ravel().tolist() == [block.scale_byte for block in wanted]
    assert together.codes.tolist() == [list(block.codes) for block in wanted]
    assert [q.codes[0].tolist() for q in alone] == together.codes[:21].tolist()


@TWINS
@pytest.mark.parametrize("shape", [(32,), (96, 5), (3, 64, 2), (2, 3, 32), (32, 1, 4, 2)])
def test_any_axis(quantize: Quantizer, shape: tuple[int, ...]) -> None:
    x = scaled(shape)
    axes = [axis for axis, size in enumerate(shape) if size % 32 == 0]
    assert axes
    for axis in axes:
        found = quantize(x, "e5m2", rule="even", axis=axis - len(shape))
        assert found.axis == axis and found.codes.shape == shape == found.shape
        lines = np.moveaxis(x, axis, -1).reshape(-1, 32)
        wanted = mxlab.quantize(lines, "e5m2", rule="even")
        codes, scales = (np.moveaxis(a, axis, -1) for a in (found.codes, found.scales))
        np.testing.assert_array_equal(codes.reshape(-1, 32), wanted.codes)
        np.testing.assert_array_equal(scales.reshape(-1, 1), wanted.scales)


@TWINS
@pytest.mark.parametrize(("shape", "axis"), [((2048, 96), 1), ((32, 3000), 0), ((4, 64, 1500), 1)])
def test_chunks_meet(
    quantize: Quantizer, shape: tuple[int, ...], axis: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch_kernel, "_CHUNK", 1 << 13)
    x = scaled(shape)
    found = quantize(x, axis=axis)
    lines = np.moveaxis(x, axis, -1).reshape(-1, shape[axis])
    codes = np.moveaxis(found.codes, axis, -1).reshape(lines.shape)
    for at in range(0, len(lines), 97):
        np.testing.assert_array_equal(codes[at], mxlab.quantize(lines[at]).codes)


STRIDES: dict[str, Any] = {
    "transposed": lambda t: t.T,
    "every other": lambda t: t[::2, 32:],
    "a column of columns": lambda t: t[:, ::3],
    "expanded": lambda t: t[:1].expand(64, 96),
    "permuted": lambda t: t.reshape(4, 16, 96).permute(1, 0, 2),
    "flipped": lambda t: t.flip(0),
    "no rows": lambda t: t[:0],
    "a parameter": torch.nn.Parameter,
    "with a gradient": lambda t: t.clone().requires_grad_() * 1,
    "negative bit": lambda t: torch.complex(t.float(), -t.float()).conj().imag.to(t.dtype),
}


@TORCH
@pytest.mark.parametrize("name", STRIDES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_strides(device: str, name: str, dtype: torch.dtype) -> None:
    view = STRIDES[name](tensor(scaled((64, 96)), device).to(dtype))
    plain = array(view.detach().resolve_neg().float().contiguous())
    for axis in (0, 1):
        found = mxlab.quantize(view, axis=axis, pad=True) if len(view) or axis else None
        if found:
            equal(found, mxlab.quantize(plain, axis=axis, pad=True))
            assert not found.codes.requires_grad  # type: ignore[attr-defined]
            assert found.codes.is_contiguous()  # type: ignore[attr-defined]


@pytest.mark.parametrize("view", [lambda a: a.T, lambda a: a[::2, 32:], lambda a: a[::-1]])
def test_strides_of_numpy(view: Any) -> None:
    x = scaled((64, 96))
    for axis in (0, 1):
        equal(mxlab.quantize(view(x), axis=axis), mxlab.quantize(view(x).copy(), axis=axis))


@TORCH
@pytest.mark.parametrize("dtype", ["float16", "float64"])
def test_other_dtypes_give_the_bytes_of_their_float32(device: str, dtype: str) -> None:
    x = np.random.default_rng(1).standard_normal((4, 64)).astype(np.float16).astype(dtype)
    equal(mxlab.quantize(tensor(x, device)), mxlab.quantize(x.astype(np.float32)))
    tiny = np.array([448.0 + 2.0**-40, *[1.0] * 31])
    assert mxlab.quantize(tensor(tiny, device)).scales.tolist() == [127]
    with pytest.raises(InputError, match=r"x holds -1e\+39: beyond float32"):
        mxlab.quantize(tensor(np.array([-1e39] * 32), device))
    infinite = mxlab.quantize(tensor(np.array([math.inf] * 32), device))
    assert infinite.scales.tolist() == [255]


@TORCH
def test_padding_is_explicit_and_recorded(device: str) -> None:
    x = scaled((3, 40))
    with pytest.raises(InputError, match=r"axis 1 of shape \(3, 40\) has 40 .*40 % 32 = 8"):
        mxlab.quantize(tensor(x, device))
    for axis in (0, 1):
        found = mxlab.quantize(tensor(x, device), axis=axis, pad=True)
        wanted = mxlab.quantize(x, axis=axis, pad=True)
        equal(found, wanted)
        assert (found.padded, found.shape) == (wanted.padded, (3, 40))
        np.testing.assert_array_equal(array(mxlab.dequantize(found)), mxlab.dequantize(wanted))


@TORCH
@FORMATS
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_every_code_under_every_scale_decodes_exactly(device: str, fmt: str, dtype: str) -> None:
    codes = np.repeat(np.arange(256, dtype=np.uint8)[None], 256, axis=0)
    scales = np.repeat(np.arange(256, dtype=np.uint8)[:, None], 8, axis=1)
    q = MXArray(tensor(codes, device), tensor(scales, device), fmt, "rceil", 1, (256, 256))  # type: ignore[arg-type]
    values = [decode(code, fmt).value for code in range(256)]
    with np.errstate(over="ignore"):
        wanted = np.array([[v * scale_value(b) for v in values] for b in range(256)]).astype(dtype)
    found = mxlab.dequantize(q, getattr(torch, dtype))
    assert found.device.type == device and str(found.dtype) == f"torch.{dtype}"
    np.testing.assert_array_equal(array(found), wanted)
    finite = np.isfinite(wanted)
    assert finite.mean() > 0.9
    np.testing.assert_array_equal(np.signbit(array(found))[finite], np.signbit(wanted)[finite])
    columns = MXArray(q.codes.T, q.scales.T, fmt, "rceil", 0, (256, 256))
    np.testing.assert_array_equal(array(mxlab.dequantize(columns, np.dtype(dtype))), wanted.T)


@TORCH
@pytest.mark.parametrize("name", LAYOUTS)
@pytest.mark.parametrize(("rows", "cols"), [(1, 1), (33, 3), (130, 5), (300, 12)])
def test_layouts(device: str, name: str, rows: int, cols: int) -> None:
    scales = np.stack([distinct(rows, cols), distinct(rows, cols)[::-1]])
    laid = mxlab.interleave(tensor(scales, device), name)  # type: ignore[call-overload]
    wanted = mxlab.interleave(scales, name)
    np.testing.assert_array_equal(array(laid), wanted)
    padding = mxlab.interleave(np.zeros_like(scales), name)
    padding = (wanted == 0) & (padding == 0)
    poisoned = np.where(padding, 0xFF, wanted) if name != "deepgemm_float32" else wanted
    back = mxlab.deinterleave(tensor(poisoned, device), rows, cols, name)  # type: ignore[call-overload]
    assert back.device.type == device
    np.testing.assert_array_equal(array(back), scales)


@TORCH
def test_an_mxarray_of_tensors(device: str) -> None:
    x = scaled((64, 160))
    q, wanted = mxlab.quantize(tensor(x, device)), mxlab.quantize(x)
    for name in ("tile_128x4", "deepgemm_packed", "kv_paged"):
        tiled = mxlab.interleave(q, name)
        np.testing.assert_array_equal(array(tiled.scales), mxlab.interleave(wanted, name).scales)
        equal(mxlab.deinterleave(tiled), wanted)
        np.testing.assert_array_equal(array(mxlab.dequantize(tiled)), mxlab.dequantize(wanted))
    assert q.nbytes == wanted.nbytes and "layout='linear'" in repr(q)
    both = concatenate([q, q])
    np.testing.assert_array_equal(array(both.codes), np.tile(wanted.codes, (2, 1)))
    product = mxlab.gemm(q, q)
    assert isinstance(product, torch.Tensor)
    reference = mxlab.gemm(wanted, wanted)
    np.testing.assert_allclose(array(product), reference, rtol=1e-12)
    untyped: Any = q
    for left, right in ((untyped, torch.ones(2)), (torch.ones(2), untyped)):
        with pytest.raises(TypeError):
            left * right


@TWINS
def test_buffers_are_filled_and_kept(quantize: Quantizer) -> None:
    """The public function's own buffers; the twin says which kind of array x is."""
    kind = torch.Tensor if quantize is not mxlab.quantize else np.ndarray
    first, second = scaled((64, 96), seed=1), scaled((64, 96), seed=2)
    codes, scales = np.full((64, 96), 0xFF, np.uint8), np.full((64, 3), 0xFF, np.uint8)
    make: Any = tensor if kind is torch.Tensor else np.copy
    out = make(codes), make(scales)
    for x in (first, second):
        found = mxlab.quantize(make(x), rule="floor", out=out)
        assert found.codes is out[0] and found.scales is out[1]
        equal(found, mxlab.quantize(x, rule="floor"))


@pytest.mark.parametrize("make", [np.copy, tensor], ids=["numpy", "torch"])
def test_buffers_that_do_not_fit(make: Any) -> None:
    x = make(scaled((64, 96)))
    codes, scales = make(np.zeros((64, 96), np.uint8)), make(np.zeros((64, 3), np.uint8))
    shared = make(np.zeros(64 * 96 + 64 * 3, np.uint8))
    apart = shared[: 64 * 96].reshape(64, 96), shared[64 * 96 :].reshape(64, 3)
    equal(mxlab.quantize(x, out=apart), mxlab.quantize(x))
    bytes_of_x = x.view(np.uint8 if make is np.copy else torch.uint8).reshape(-1)
    other = (tensor if make is np.copy else np.copy)(np.zeros((64, 96), np.uint8))
    for out, said in (
        ((codes,), "out is tuple: expected a pair"),
        (codes, "out is (Tensor|ndarray): expected a pair"),
        ((codes[:, :64], scales), r"out codes are (not contiguous|of shape \(64, 64\))"),
        ((codes, codes[:, :3]), "out scales are not contiguous"),
        ((codes[:32], scales), r"of shape \(32, 96\): expected .*\(64, 96\)"),
        ((make(np.zeros((64, 96), np.int8)), scales), "out codes are int8"),
        ((other, scales), "out codes are (Tensor|ndarray): expected a (NumPy array|torch tensor)"),
        (([0], scales), "out codes are list"),
        ((bytes_of_x[: 64 * 96].reshape(64, 96), scales), "shares memory"),
        ((codes, codes.reshape(-1)[: 64 * 3].reshape(64, 3)), "shares memory"),
    ):
        with pytest.raises(InputError, match=said):
            mxlab.quantize(x, out=out)  # type: ignore[arg-type]
    assert not array(codes).any() and not array(scales).any()
    with pytest.raises(InputError, match="beyond float32"):
        mxlab.quantize(make(np.full((64, 96), 1e300)), out=(codes, scales))
    assert not array(codes).any() and not array(scales).any()


def test_read_only_buffers_are_refused() -> None:
    codes = np.zeros((1, 32), np.uint8)
    codes.flags.writeable = False
    with pytest.raises(InputError, match="out codes are read-only"):
        mxlab.quantize(np.ones((1, 32), np.float32), out=(codes, np.zeros((1, 1), np.uint8)))


@pytest.mark.parametrize(
    ("x", "arguments", "text"),
    [
        (torch.ones(32, dtype=torch.int64), {}, "x has dtype int64: expected float32, float64"),
        (torch.ones(32, dtype=torch.complex64), {}, "x has dtype complex64"),
        (torch.ones(32).to(torch.float8_e4m3fn), {}, "x has dtype float8_e4m3fn"),
        (torch.ones(1, 32).to_sparse(), {}, "x has layout torch.sparse_coo"),
        (torch.tensor(1.0), {}, "no dimensions"),
        (torch.ones(2, 0), {"pad": True}, "has 0 values"),
        (torch.ones(32), {"axis": 1}, "axis is 1: expected -1 to 0"),
        (torch.ones(32), {"fmt": "e8m0"}, "holds scales"),
        (torch.ones(32), {"rule": "round"}, "unknown rule 'round'"),
        ([torch.ones(32, requires_grad=True)] * 2, {}, "x is no array"),
    ],
)
def test_bad_tensors(x: Any, arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(InputError) as caught:
        mxlab.quantize(x, **arguments)
    assert text in str(caught.value) and "\n" not in str(caught.value)


def test_libraries_do_not_mix() -> None:
    x = scaled((64, 64))
    q, t = mxlab.quantize(x), mxlab.quantize(tensor(x))
    for call in (lambda: concatenate([q, t]), lambda: mxlab.gemm(q, t)):
        with pytest.raises(InputError, match="library 'numpy' with library 'torch'"):
            call()
    parts = {name: getattr(q, name) for name in q.__dataclass_fields__}
    with pytest.raises(InputError, match="codes are in torch, scales in numpy"):
        MXArray(**{**parts, "codes": t.codes})
    with pytest.raises(InputError, match="codes are in torch, scales in torch on meta"):
        MXArray(**{**parts, "codes": t.codes, "scales": t.scales.to("meta")})  # type: ignore[attr-defined]
    with pytest.raises(InputError, match="codes are int8"):
        MXArray(**{**parts, "codes": t.codes.to(torch.int8)})  # type: ignore[attr-defined]
    scales: Any = torch.zeros(4, dtype=torch.uint8)
    with pytest.raises(InputError, match="scales are uint8 of 1 dimensions"):
        mxlab.interleave(scales)
    with pytest.raises(InputError, match="expected float32 or float64"):
        mxlab.dequantize(t, torch.float16)


def test_the_meta_device_gives_shapes() -> None:
    for dtype in (torch.float32, torch.bfloat16, torch.float64):
        q = mxlab.quantize(torch.empty(3, 70, 8, dtype=dtype, device="meta"), axis=1, pad=True)
        assert q.codes.shape == (3, 96, 8) and q.scales.shape == (3, 3, 8) and q.padded == 26
        assert q.codes.device.type == "meta"  # type: ignore[attr-defined]
        assert mxlab.dequantize(q).shape == (3, 70, 8)


def test_inference_mode() -> None:
    x = scaled((4, 64))
    with torch.inference_mode():
        equal(mxlab.quantize(tensor(x)), mxlab.quantize(x))


class Dtypes(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Every dtype that an operation returns."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.seen: set[torch.dtype] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if isinstance(result, torch.Tensor):
            self.seen.add(result.dtype)
        return result


def test_no_operation_meets_the_scale_dtype() -> None:
    q = mxlab.quantize(torch.ones(4, 64))
    with Dtypes() as dtypes:
        mxlab.quantize(torch.ones(4, 64, device="meta"))
        mxlab.dequantize(q)
        mxlab.deinterleave(mxlab.interleave(q))
    assert {torch.int32, torch.uint8, torch.float32} <= dtypes.seen
    assert torch.float8_e8m0fnu not in dtypes.seen


def test_no_source_uses_the_scale_dtype_of_torch() -> None:
    """Names in text are data (what checkpoints call it); ``torch.float8_e8m0fnu`` would be code."""
    # torch's scaled_mm and SGLang's cache take their bytes as that dtype: views, in these folders
    views = {"attention", "bench", "gemm", "kernels"}
    sources = [path for path in PACKAGE.rglob("*.py") if not views & set(path.parts)]
    assert len(sources) > 100
    for path in sources:
        for node in ast.walk(ast.parse(path.read_text())):
            used = isinstance(node, ast.Attribute | ast.Name) and "e8m0fnu" in ast.unparse(node)
            assert not used, f"{path.name}:{node.lineno}"  # type: ignore[attr-defined]
    element_dtypes = {fmt.torch_dtype for fmt in ELEMENT_FORMATS.values()}
    assert element_dtypes == {"float8_e4m3fn", "float8_e5m2"}  # all that torch_blocks looks up


def test_numpy_never_imports_torch() -> None:
    code = (
        "import sys, numpy as np, mxlab\n"
        "q = mxlab.quantize(np.ones((4, 64), np.float32), out=None)\n"
        "mxlab.dequantize(mxlab.interleave(q)); mxlab.gemm(q, q)\n"
        "print('torch' in sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "False\n"
