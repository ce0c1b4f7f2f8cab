"""Whole arrays, in NumPy and torch: the vector twins of ``block`` and ``layout``, bit for bit.

Input is float32 data. float16 and bfloat16 are exact in float32; float64 is rounded to the nearest
float32 first, and finite values beyond float32 are refused. Tensors go in and come out through the
same names; NumPy's path never imports torch.
"""

from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from math import prod
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mxlab.block import BLOCK
from mxlab.errors import InputError, choose, quote
from mxlab.float_scales import from_words, to_words
from mxlab.formats import FormatLike, element_format
from mxlab.layout import LayoutLike, ScaleLayout
from mxlab.layout import layout as get_layout
from mxlab.mxarray import Bytes, MXArray, concatenate, normal_axis
from mxlab.scale import RuleLike, get_rule
from mxlab.tensors import is_bytes, is_tensor, twin
from mxlab.tensors.numpy_blocks import code_values

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["MXArray", "concatenate", "deinterleave", "dequantize", "interleave", "quantize"]

_values = code_values


def _outputs(
    out: tuple[Bytes, Bytes] | None, data: Any, codes: tuple[int, ...], scales: tuple[int, ...]
) -> tuple[Any, Any]:
    """Buffers for codes and scales: new ones, or ``out`` once it is known to fit."""
    library = twin(data)
    if out is None:
        return library.empty(codes, data), library.empty(scales, data)
    if not isinstance(out, tuple | list) or len(out) != 2:
        raise InputError(f"out is {type(out).__name__}: expected a pair (codes, scales)")
    for name, buffer, shape in (("codes", out[0], codes), ("scales", out[1], scales)):
        fault = library.buffer_fault(buffer, data)
        if fault or tuple(buffer.shape) != shape:
            found = fault or f"of shape {tuple(buffer.shape)}"
            raise InputError(
                f"out {name} are {found}: expected {library.KIND} of uint8, shape {shape}, in C "
                "order and writable, where x is"
            )
    if any(library.overlap(*pair) for pair in ((out[0], out[1]), (data, out[0]), (data, out[1]))):
        raise InputError("out shares memory with x or with itself: expected buffers apart")
    return out[0], out[1]


def _kernel(backend: str, x: Any, compile: bool) -> Any:
    """The quantiser of ``backend``, imported where it is asked for."""
    if compile:
        raise InputError(f"compile=True with backend {backend!r}: its kernel is compiled already")
    if not is_tensor(x):
        raise InputError(f"x is {quote(type(x).__name__)}: backend {backend!r} takes torch tensors")
    if find_spec("triton") is None:
        raise InputError(f"backend {backend!r} needs Triton: install the extra torch on Linux")
    return import_module("mxlab.kernels.quantize").quantize


def quantize(
    x: "ArrayLike | Tensor",
    fmt: FormatLike = "e4m3",
    rule: RuleLike = "rceil",
    axis: int = -1,
    *,
    pad: bool = False,
    out: tuple[Bytes, Bytes] | None = None,
    compile: bool = False,
    backend: str | None = None,
    layout: LayoutLike = "linear",
) -> MXArray:
    """Quantise an array or a tensor: blocks of 32 along ``axis`` share one scale.

    ``x`` is float32, float16, bfloat16 (of ml_dtypes or torch) or float64 (rounded to float32
    first), any number of dimensions from 1, any strides. Codes and scales are those of
    ``quantize_block`` for each block; a tensor's are tensors on its device, without its gradient.
    ``pad=True`` appends zeros along the axis up to a multiple of 32 and records how many. ``out``
    is (codes, scales), uint8 buffers of the result's shapes: the MXArray then holds them.
    ``compile=True`` runs a compiled kernel: numba's on a CPU, whose first call takes a second, and
    torch.compile's elsewhere.
    ``backend="triton"`` runs one kernel on a GPU's tensor (on a CPU's, in Triton's interpreter),
    which writes ``layout`` itself; without it scales are interleaved afterwards.
    Raises InputError for another dtype, for an axis that is no multiple of 32 without ``pad``,
    for float64 values beyond float32, and for buffers that do not fit; ``out`` is untouched then.
    Source: OCP MX v1.0 section 6.3.

    >>> quantize(np.ones((2, 64), np.float32), "e4m3", rule="floor", axis=0, pad=True)
    MXArray(shape=(2, 64), format='e4m3', rule='floor', axis=0, layout='linear', padded=30)
    """
    fmt, rule, library = element_format(fmt), get_rule(rule), twin(x)
    if backend is not None:
        kernel: Callable[..., MXArray] = _kernel(
            choose("quantize backend", backend, {"triton": "triton"}), x, compile
        )
        return kernel(x, fmt, rule, axis, pad=pad, out=out, layout=layout)
    found = get_layout(layout)
    if found.name != "linear":
        if out is not None:
            raise InputError(f"out with layout {found.name!r}: expected layout 'linear'")
        plain = quantize(x, fmt, rule, axis, pad=pad, compile=compile)
        return interleave(plain, found)
    data = library.as_float32(x)
    if data.ndim == 0:
        raise InputError("x has no dimensions: expected 1 or more")
    shape = tuple(data.shape)
    axis = normal_axis(axis, len(shape))
    length = shape[axis]
    missing = -length % BLOCK
    if length == 0 or (missing and not pad):
        raise InputError(
            f"axis {axis} of shape {shape} has {length} values: expected a multiple of "
            f"{BLOCK} ({length} % {BLOCK} = {length % BLOCK}); pad=True appends "
            f"{missing or BLOCK} zeros and records it"
        )
    many, before, inner = (length + missing) // BLOCK, shape[:axis], shape[axis + 1 :]
    codes, scales = _outputs(out, data, (*before, many * BLOCK, *inner), (*before, many, *inner))
    if missing:
        data = library.pad(data, axis, missing)
    blocks = prod(before) * many
    views = (a.reshape(blocks, n, prod(inner)) for a, n in ((codes, BLOCK), (scales, 1)))
    library.quantize_blocks(
        data.reshape(blocks, BLOCK, prod(inner)), fmt, rule, *views, compiled=compile
    )
    return MXArray(
        codes=codes,
        scales=scales,
        format=fmt.name,
        rule=rule.name,
        axis=axis,
        shape=shape,
        padded=missing,
    )


def dequantize(q: MXArray, dtype: Any = np.float32) -> Any:
    """Return code * scale for every element, without the padding: NumPy or torch, as ``q`` is.

    ``dtype`` is float32 or float64, of NumPy or torch. Both are exact, but float32 does not hold
    results of 2^128 and above (the largest float32 rounds up to that): infinity, with NumPy's
    warning. Raises InputError for another dtype. Source: OCP MX v1.0 section 5.1.

    >>> dequantize(quantize([1.0, -3.5] * 16, "e4m3")).tolist()[:2]
    [1.0, -3.5]
    """
    if not isinstance(q, MXArray):
        raise InputError(f"dequantize takes an MXArray: got {quote(type(q).__name__)}")
    library = twin(q.codes)
    if library.dtype_name(dtype) not in ("float32", "float64"):
        raise InputError(f"dtype is {quote(dtype)}: expected float32 or float64")
    q = deinterleave(q)
    full, length = q.codes.shape, q.shape[q.axis]
    inner = prod(full[q.axis + 1 :])
    blocks = prod(full[: q.axis + 1]) // BLOCK
    values = library.dequantize_blocks(
        q.codes.reshape(blocks, BLOCK, inner),
        q.scales.reshape(blocks, 1, inner),
        element_format(q.format),
        dtype,
    ).reshape(full)
    kept = (*(slice(None),) * q.axis, slice(length))
    return library.contiguous(values[kept])


def _offsets(found: ScaleLayout, rows: int, cols: int) -> NDArray[np.int64]:
    """Byte offset of every scale, (rows * cols,): a row's part and a column's part add up."""
    at: Any = found.at  # plain arithmetic: it takes arrays too
    by_row = at(np.arange(rows, dtype=np.int64), 0, rows, cols)
    by_col = at(0, np.arange(cols, dtype=np.int64), rows, cols)
    return np.asarray(by_row[:, None] + by_col[None, :], np.int64).reshape(-1)


def _places(found: ScaleLayout, rows: int, cols: int) -> NDArray[np.int64]:
    """Offset of every byte of every scale: one a scale, or the four of a float32."""
    bytes_of_one = np.arange(found.itemsize, dtype=np.int64)
    return (_offsets(found, rows, cols)[:, None] + bytes_of_one).reshape(-1)


def _check_axis(q: MXArray, found: ScaleLayout) -> None:
    ndim = len(q.shape)
    wanted = ndim - 2 if found.transposed else ndim - 1
    if ndim < 2 or q.axis != wanted:
        hint = "'te_columnwise' is the tiled one for column-wise scales"
        if found.transposed or ndim < 2:
            hint = f"layout {found.name!r} is for axis {max(wanted, 0)} of 2 or more dimensions"
        raise InputError(f"layout {found.name!r} with axis {q.axis} of {ndim} dimensions: {hint}")


@overload
def interleave(scales: MXArray, layout: LayoutLike = ..., **params: int) -> MXArray: ...
@overload
def interleave(scales: Bytes, layout: LayoutLike = ..., **params: int) -> Bytes: ...
def interleave(
    scales: MXArray | Bytes, layout: LayoutLike = "tile_128x4", **params: int
) -> MXArray | Bytes:
    """Lay row-major scales out as ``layout`` wants them; padding bytes are 0.

    ``scales`` is an MXArray in layout ``linear``, or uint8 [..., R, C], which becomes
    [..., nbytes(R, C)] with each matrix padded on its own (``deepgemm_float32``: the bytes of
    little-endian float32 numbers; view them as such). Raises InputError for another dtype or
    layout, and where the axis does not fit. Source: the layout's own.

    >>> interleave(np.arange(6, dtype=np.uint8).reshape(3, 2), "tile_8x4")[:8].tolist()
    [0, 1, 0, 0, 2, 3, 0, 0]
    """
    found = get_layout(layout, **params)
    if isinstance(scales, MXArray):
        if scales.layout != "linear":
            raise InputError(
                f"scales are in layout {scales.layout!r} already: expected 'linear'; deinterleave "
                "first"
            )
        if found.name == "linear":
            return scales
        _check_axis(scales, found)
        return replace(
            scales,
            scales=interleave(scales.scales, found),
            layout=found.name,
            layout_params=dict(found.params),
        )
    matrix = _bytes(scales, 2, "[..., rows, cols]")
    rows, cols = matrix.shape[-2:]
    cells, library = matrix.reshape(*matrix.shape[:-2], rows * cols), twin(matrix)
    if found.itemsize > 1:
        words = to_words(library.to_numpy(cells))
        cells = library.from_numpy(words.view(np.uint8), matrix)
    laid: Bytes = library.scatter(cells, _places(found, rows, cols), found.nbytes(rows, cols))
    return laid


@overload
def deinterleave(scales: MXArray) -> MXArray: ...
@overload
def deinterleave(
    scales: Bytes, rows: int, cols: int, layout: LayoutLike = ..., **params: int
) -> Bytes: ...
def deinterleave(
    scales: MXArray | Bytes,
    rows: int | None = None,
    cols: int | None = None,
    layout: LayoutLike = "tile_128x4",
    **params: int,
) -> MXArray | Bytes:
    """Undo interleave; what the padding bytes hold makes no difference.

    ``scales`` is an MXArray, which knows its layout, or uint8 [..., nbytes(rows, cols)] in
    ``layout``, which becomes [..., rows, cols]. Raises InputError for a buffer of another length,
    and for float32 scales that are no powers of two.

    >>> deinterleave(interleave(np.arange(6, dtype=np.uint8).reshape(3, 2)), 3, 2).tolist()
    [[0, 1], [2, 3], [4, 5]]
    """
    if isinstance(scales, MXArray):
        if scales.layout == "linear":
            return scales
        rows, cols = scales.scale_shape[-2:]
        plain = deinterleave(scales.scales, rows, cols, scales.scale_layout)
        return replace(scales, scales=plain, layout="linear", layout_params={})
    if rows is None or cols is None:
        raise InputError("rows and cols are missing: expected those of the scale matrix")
    found = get_layout(layout, **params)
    buffer = _bytes(scales, 1, "[..., bytes]")
    length = found.nbytes(rows, cols)
    if buffer.shape[-1] != length:
        raise InputError(
            f"the buffer has {buffer.shape[-1]} bytes: expected {length} for {rows} x {cols} "
            f"scales in layout {found.name!r} (linear: {rows * cols})"
        )
    library = twin(buffer)
    picked: Bytes = library.gather(buffer, _places(found, rows, cols))
    if found.itemsize > 1:
        words = library.to_numpy(picked).view("<u4")
        picked = library.from_numpy(from_words(words), buffer)
    return picked.reshape(*buffer.shape[:-1], rows, cols)


def _bytes(array: Bytes, ndim: int, shape: str) -> Bytes:
    if not is_bytes(array) or array.ndim < ndim:
        kind = str(getattr(array, "dtype", type(array).__name__)).removeprefix("torch.")
        dims = f" of {array.ndim} dimensions" if hasattr(array, "ndim") else ""
        raise InputError(f"scales are {kind}{dims}: expected uint8 {shape}")
    return array
