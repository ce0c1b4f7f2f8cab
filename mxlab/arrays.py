"""Whole arrays in NumPy: the vector twin of ``block`` and ``layout``, bit for bit.

Input is float32 data. float16 and bfloat16 (ml_dtypes) are exact in float32; float64 is rounded
to the nearest float32 first, and finite values beyond float32 are refused.
"""

from dataclasses import replace
from functools import lru_cache
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from mxlab.block import BLOCK
from mxlab.codec import decode
from mxlab.errors import InputError, quote
from mxlab.formats import Format, FormatLike, element_format
from mxlab.layout import LayoutLike, ScaleLayout
from mxlab.layout import layout as get_layout
from mxlab.mxarray import Bytes, MXArray, concatenate, normal_axis
from mxlab.scale import MANTISSA, MAX_BYTE, NAN_BYTE, RuleLike, ScaleRule, get_rule, scale_value

__all__ = ["MXArray", "concatenate", "deinterleave", "dequantize", "interleave", "quantize"]

DTYPES = ("float32", "float64", "float16", "bfloat16")
_INF = 0x7F800000
_MAGNITUDE = np.uint32(0x7FFFFFFF)
_CHUNK = 2048  # blocks at a time: the temporaries stay in the cache


def as_float32(x: ArrayLike) -> NDArray[np.float32]:
    """Return ``x`` as float32 data by this module's policy.

    >>> as_float32(np.array([0.1])).item()
    0.10000000149011612
    """
    try:
        a = np.asarray(x)
    except ValueError:
        raise InputError("x is ragged: expected an array of numbers, all rows alike") from None
    if a.dtype.name not in DTYPES:
        raise InputError(
            f"x has dtype {a.dtype}: expected {', '.join(DTYPES)}; convert with "
            "x.astype(numpy.float32)"
        )
    if a.dtype.name == "float64":
        with np.errstate(over="ignore"):
            single = a.astype(np.float32)
        beyond = np.isinf(single) & np.isfinite(a)
        if beyond.any():
            value = float(a[beyond].flat[0])
            raise InputError(
                f"x holds {value!r}: beyond float32; the nearest is 3.4028234663852886e+38 in "
                "magnitude"
            )
        return single
    return a.astype(np.float32, copy=False)


def _scale_bytes(amax: NDArray[np.uint32], fmt: Format, rule: ScaleRule) -> NDArray[np.int32]:
    """Bytes for amax given as float32 bits; a subnormal's is 0 whatever its mantissa."""
    up = (amax & np.uint32((1 << MANTISSA) - 1)) >= np.uint32(rule.threshold(fmt))
    byte = (amax >> np.uint32(MANTISSA)).astype(np.int32) - fmt.emax + up
    np.clip(byte, 0, MAX_BYTE, out=byte)
    byte[amax >= _INF] = NAN_BYTE
    return byte


def _encode(scaled: NDArray[np.float32], fmt: Format) -> Bytes:
    """Codes of finite float32 values: nearest, ties to even, saturating."""
    bits = scaled.view(np.uint32)
    size = bits & _MAGNITUDE
    shift = np.uint32(MANTISSA - fmt.mantissa_bits)
    # normal results: add half of what is cut off, less one bit where the kept part is even
    code = size >> shift
    code &= np.uint32(1)
    code += size
    code += np.uint32((1 << (int(shift) - 1)) - 1)
    code >>= shift
    code -= np.uint32((127 - fmt.bias) << fmt.mantissa_bits)
    # subnormal results: adding this power of two leaves the code in the low bits of the sum
    small = size < np.uint32((127 + fmt.emin) << MANTISSA)
    magic = np.float32(2.0 ** (MANTISSA + fmt.emin - fmt.mantissa_bits))
    total = size[small].view(np.float32) + magic
    code[small] = total.view(np.uint32) - magic.view(np.uint32)
    np.minimum(code, np.uint32(fmt.max_code), out=code)
    code |= (bits >> np.uint32(31)) << np.uint32(7)
    return code.astype(np.uint8)


def _quantize_blocks(
    blocks: NDArray[np.float32], fmt: Format, rule: ScaleRule, codes: Bytes, scales: Bytes
) -> None:
    """Quantise blocks (n, 32) into codes (n, 32) and scales (n,)."""
    for start in range(0, len(blocks), _CHUNK):
        part = slice(start, start + _CHUNK)
        chunk = blocks[part]
        amax = (chunk.view(np.uint32) & _MAGNITUDE).max(axis=1)
        byte = _scale_bytes(amax, fmt, rule)
        bad = byte == NAN_BYTE
        # 2^(127 - byte) from its bits; multiplying by it is exact, or far below the smallest code
        field = np.where(bad, 127, 254 - byte).astype(np.uint32)
        with np.errstate(invalid="ignore"):  # signalling NaN
            scaled = chunk * (field << np.uint32(MANTISSA)).view(np.float32)[:, None]
        codes[part] = _encode(scaled, fmt)
        codes[part][bad] = fmt.nan_code
        scales[part] = byte


def quantize(
    x: ArrayLike,
    fmt: FormatLike = "e4m3",
    rule: RuleLike = "rceil",
    axis: int = -1,
    *,
    pad: bool = False,
) -> MXArray:
    """Quantise an array: blocks of 32 along ``axis`` share one scale.

    ``x`` is float32, float16, bfloat16 (ml_dtypes) or float64 (rounded to float32 first), any
    number of dimensions from 1. Codes and scales are those of ``quantize_block`` for each block.
    ``pad=True`` appends zeros along the axis up to a multiple of 32 and records how many.
    Raises InputError for another dtype, for an axis that is no multiple of 32 without ``pad``,
    and for float64 values beyond float32. Source: OCP MX v1.0 section 6.3.

    >>> quantize(np.ones((2, 64), np.float32), "e4m3", rule="floor", axis=0, pad=True)
    MXArray(shape=(2, 64), format='e4m3', rule='floor', axis=0, layout='linear', padded=30)
    """
    fmt, rule = element_format(fmt), get_rule(rule)
    data = as_float32(x)
    if data.ndim == 0:
        raise InputError("x has no dimensions: expected 1 or more")
    axis = normal_axis(axis, data.ndim)
    length = data.shape[axis]
    missing = -length % BLOCK
    if length == 0 or (missing and not pad):
        raise InputError(
            f"axis {axis} of shape {data.shape} has {length} values: expected a multiple of "
            f"{BLOCK} ({length} % {BLOCK} = {length % BLOCK}); pad=True appends "
            f"{missing or BLOCK} zeros and records it"
        )
    shape = data.shape
    moved = np.moveaxis(data, axis, -1)
    if missing:
        moved = np.pad(moved, [(0, 0)] * (data.ndim - 1) + [(0, missing)])
    lines = np.ascontiguousarray(moved)
    codes = np.empty(lines.shape, np.uint8)
    scales = np.empty((*lines.shape[:-1], lines.shape[-1] // BLOCK), np.uint8)
    flat = codes.reshape(-1, BLOCK), scales.reshape(-1)
    _quantize_blocks(lines.reshape(-1, BLOCK), fmt, rule, *flat)
    return MXArray(
        codes=np.ascontiguousarray(np.moveaxis(codes, -1, axis)),
        scales=np.ascontiguousarray(np.moveaxis(scales, -1, axis)),
        format=fmt.name,
        rule=rule.name,
        axis=axis,
        shape=shape,
        padded=missing,
    )


@lru_cache(maxsize=8)
def _values(fmt: Format, dtype: str) -> NDArray[Any]:
    return np.array([decode(code, fmt).value for code in range(256)], dtype)


@lru_cache(maxsize=2)
def _scale_values(dtype: str) -> NDArray[Any]:
    return np.array([scale_value(byte) for byte in range(256)], dtype)


def dequantize(q: MXArray, dtype: DTypeLike = np.float32) -> NDArray[Any]:
    """Return code * scale for every element, without the padding.

    ``dtype`` is numpy.float32 or numpy.float64. Both are exact, but float32 does not hold results
    of 2^128 and above (the largest float32 rounds up to that): infinity, with NumPy's warning.
    Raises InputError for another dtype. Source: OCP MX v1.0 section 5.1.

    >>> dequantize(quantize([1.0, -3.5] * 16, "e4m3")).tolist()[:2]
    [1.0, -3.5]
    """
    try:
        name = np.dtype(dtype).name
    except TypeError:
        name = ""
    if name not in ("float32", "float64"):
        raise InputError(f"dtype is {quote(dtype)}: expected float32 or float64")
    q = deinterleave(q)
    values = _values(element_format(q.format), name)[np.moveaxis(q.codes, q.axis, -1)]
    scales = _scale_values(name)[np.moveaxis(q.scales, q.axis, -1)]
    blocks = values.reshape(*values.shape[:-1], -1, BLOCK)
    blocks *= scales[..., None]
    length = q.shape[q.axis]
    whole = blocks.reshape(values.shape)[..., :length]
    return np.ascontiguousarray(np.moveaxis(whole, -1, q.axis))


def _offsets(found: ScaleLayout, rows: int, cols: int) -> NDArray[np.int64]:
    """Byte offset of every scale, (rows * cols,): a row's part and a column's part add up."""
    at: Any = found.at  # plain arithmetic: it takes arrays too
    by_row = at(np.arange(rows, dtype=np.int64), 0, rows, cols)
    by_col = at(0, np.arange(cols, dtype=np.int64), rows, cols)
    return np.asarray(by_row[:, None] + by_col[None, :], np.int64).reshape(-1)


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
    [..., nbytes(R, C)] with each matrix padded on its own. Raises InputError for another dtype or
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
    out = np.zeros((*matrix.shape[:-2], found.nbytes(rows, cols)), np.uint8)
    out[..., _offsets(found, rows, cols)] = matrix.reshape(*matrix.shape[:-2], rows * cols)
    return out


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
    ``layout``, which becomes [..., rows, cols]. Raises InputError for a buffer of another length.

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
    picked = buffer[..., _offsets(found, rows, cols)]
    return picked.reshape(*buffer.shape[:-1], rows, cols)


def _bytes(array: Bytes, ndim: int, shape: str) -> Bytes:
    if not isinstance(array, np.ndarray) or array.dtype != np.uint8 or array.ndim < ndim:
        kind = getattr(array, "dtype", type(array).__name__)
        dims = f" of {array.ndim} dimensions" if isinstance(array, np.ndarray) else ""
        raise InputError(f"scales are {kind}{dims}: expected uint8 {shape}")
    return array
