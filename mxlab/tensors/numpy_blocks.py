"""Blocks in NumPy: the vector twin of ``block``, a chunk at a time so that it stays in the cache.

Arrays are [blocks, 32, inner]: the axis in the middle shares a scale. ``inner`` is 1 where the
quantised axis is the last one, so no array is ever turned round.
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from mxlab.block import BLOCK
from mxlab.codec import decode
from mxlab.errors import InputError, quote
from mxlab.formats import Format
from mxlab.scale import MANTISSA, MAX_BYTE, NAN_BYTE, ScaleRule, scale_value

DTYPES = ("float32", "float64", "float16", "bfloat16")
KIND = "a NumPy array"

Words = NDArray[np.uint32]
Bytes = NDArray[np.uint8]

_INF = np.uint32(0x7F800000)
_MAGNITUDE = np.uint32(0x7FFFFFFF)
_NORMAL = np.uint32(1 << MANTISSA)  # the smallest normal float32
_TINY = 18  # from this byte on, a subnormal is less than half the smallest code of either format
_CHUNK = 1 << 15  # values at a time: the three buffers of 4 bytes each fit a 1 MiB cache


def as_float32(x: Any) -> NDArray[Any]:
    """Return ``x`` as float32 data, or as the bfloat16 that it is.

    float64 is rounded to the nearest float32. Raises InputError for another dtype, and for finite
    values beyond float32.

    >>> as_float32(np.array([0.1])).item()
    0.10000000149011612
    """
    try:
        a = np.asarray(x)
    except ValueError:
        raise InputError("x is ragged: expected an array of numbers, all rows alike") from None
    except (TypeError, RuntimeError) as error:  # a list of tensors that NumPy cannot read
        raise InputError(f"x is no array: {quote(str(error))}") from None
    if a.dtype.name not in DTYPES:
        raise InputError(
            f"x has dtype {a.dtype}: expected {', '.join(DTYPES)}; convert with "
            "x.astype(numpy.float32)"
        )
    if a.dtype.name == "bfloat16":
        return a
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


def pad(data: NDArray[Any], axis: int, missing: int) -> NDArray[Any]:
    """Return ``data`` with ``missing`` zeros appended along ``axis``.

    >>> pad(np.ones((1, 2), np.float32), 1, 1).tolist()
    [[1.0, 1.0, 0.0]]
    """
    shape = list(data.shape)
    shape[axis] += missing
    wider = np.zeros(shape, data.dtype)
    np.moveaxis(wider, axis, 0)[: data.shape[axis]] = np.moveaxis(data, axis, 0)
    return wider


def empty(shape: tuple[int, ...], like: NDArray[Any]) -> Bytes:
    """Return uninitialised bytes of a shape.

    >>> empty((2, 3), np.ones(1)).shape
    (2, 3)
    """
    return np.empty(shape, np.uint8)


def buffer_fault(buffer: Any, data: NDArray[Any]) -> str:
    """Return what keeps ``buffer`` from taking bytes of ``data``, its shape apart; or nothing.

    >>> buffer_fault(np.empty(3, np.int8), np.ones(1))
    'int8'
    """
    if not isinstance(buffer, np.ndarray):
        return type(buffer).__name__
    if buffer.dtype != np.uint8:
        return str(buffer.dtype)
    if not (buffer.flags.c_contiguous and buffer.flags.writeable):
        return "not contiguous" if buffer.flags.writeable else "read-only"
    return ""


def overlap(a: NDArray[Any], b: NDArray[Any]) -> bool:
    """Return whether two arrays may share memory.

    >>> x = np.zeros(4); overlap(x, x[1:])
    True
    """
    return np.may_share_memory(a, b)


def _bits(chunk: NDArray[Any], out: Words) -> Words:
    """The float32 bits of float32 or bfloat16 data; bfloat16 is widened into ``out``."""
    if chunk.dtype == np.float32:
        return chunk.view(np.uint32)
    np.copyto(out, chunk.view(np.uint16))
    return np.left_shift(out, np.uint32(16), out=out)


def _amax(size: Words) -> Words:
    """The largest along the middle axis, [blocks, 1, inner], by halving: faster than a reduction.

    Neighbours are compared where ``inner`` is 1, for then the whole chunk is one strided loop;
    otherwise the first half with the second, which keeps the rows long.
    """
    neighbours = size.shape[2] == 1
    while (many := size.shape[1]) > 1:
        if neighbours:
            size = np.maximum(size[:, 0::2], size[:, 1::2])
        else:
            size = np.maximum(size[:, : many // 2], size[:, many // 2 :])
    return size


def scale_bytes(amax: Words, fmt: Format, rule: ScaleRule) -> NDArray[np.int32]:
    """Return the bytes for amax given as float32 bits; a subnormal's is 0 whatever its mantissa.

    >>> from mxlab.formats import E4M3
    >>> from mxlab.scale import RULES
    >>> scale_bytes(np.array([0x40600001], np.uint32), E4M3, RULES["rceil"]).tolist()
    [121]
    """
    up = (amax & np.uint32((1 << MANTISSA) - 1)) >= np.uint32(rule.threshold(fmt))
    byte = (amax >> np.uint32(MANTISSA)).astype(np.int32) - fmt.emax + up
    np.clip(byte, 0, MAX_BYTE, out=byte)
    byte[amax >= _INF] = NAN_BYTE
    return byte


def _scale(size: Words, byte: NDArray[np.int32]) -> NDArray[np.float32]:
    """Magnitudes over their scale, in place: exact, or far below the smallest code.

    A subnormal that a small scale brings into range is multiplied as the integer it is, because a
    process that flushes subnormals to zero would lose it.
    """
    rescued = None
    if (byte < _TINY).any():
        tiny = size < _NORMAL
        field = (105 - np.minimum(byte, 100)).astype(np.uint32)  # 2^(127 - byte) * 2^-149
        exact = size.astype(np.float32)
        exact *= (field << np.uint32(MANTISSA)).view(np.float32)
        rescued = tiny, exact
    field = np.where(byte == NAN_BYTE, 127, 254 - byte).astype(np.uint32)
    scaled = size.view(np.float32)
    scaled *= (field << np.uint32(MANTISSA)).view(np.float32)
    if rescued:
        np.copyto(scaled, rescued[1], where=rescued[0])
    return scaled


def clips(fmt: Format, rule: ScaleRule) -> bool:
    """Return whether a block's largest value can lie beyond the format's largest.

    >>> from mxlab.formats import E4M3
    >>> from mxlab.scale import RULES
    >>> [name for name, rule in RULES.items() if clips(E4M3, rule)]
    ['floor', 'even']
    """
    mantissa = fmt.max_code & ((1 << fmt.mantissa_bits) - 1)
    return rule.threshold(fmt) > (mantissa << (MANTISSA - fmt.mantissa_bits)) + 1


def _encode(scaled: NDArray[np.float32], fmt: Format, saturate: bool, power: Words) -> Words:
    """Magnitude codes of values >= 0, in place: nearest, ties to even, saturating.

    Adding a power of two whose last bit is the value's last code bit makes the adder round, and
    leaves the code's low bits as the low bits of the sum. ``power`` is a buffer.
    """
    code = scaled.view(np.uint32)
    shift = MANTISSA - fmt.mantissa_bits
    least = 127 + fmt.emin  # below it codes are subnormal: all have the last bit of this power
    np.bitwise_and(code, _INF, out=power)
    np.maximum(power, np.uint32(least << MANTISSA), out=power)
    power += np.uint32(shift << MANTISSA)
    scaled += power.view(np.float32)
    code -= power
    power >>= np.uint32(shift)
    code += power
    code -= np.uint32((least + shift) << fmt.mantissa_bits)
    if saturate:
        np.minimum(code, np.uint32(fmt.max_code), out=code)
    return code


def _chunks(shape: tuple[int, ...]) -> Iterator[tuple[slice, slice]]:
    """Slices of blocks and inner that cut [blocks, 32, inner] into about _CHUNK values."""
    blocks, _, inner = shape
    width = max(1, min(inner, _CHUNK // BLOCK))
    height = max(1, _CHUNK // BLOCK // width)
    for start in range(0, blocks, height):
        for left in range(0, inner, width):
            yield slice(start, start + height), slice(left, left + width)


def quantize_blocks(
    data: NDArray[Any],
    fmt: Format,
    rule: ScaleRule,
    codes: Bytes,
    scales: Bytes,
    *,
    compiled: bool = False,
) -> None:
    """Quantise float32 or bfloat16 [blocks, 32, inner] into codes and scales [blocks, 1, inner].

    >>> from mxlab.formats import E4M3
    >>> from mxlab.scale import RULES
    >>> codes, scales = np.empty((1, 32, 1), np.uint8), np.empty((1, 1, 1), np.uint8)
    >>> quantize_blocks(np.ones((1, 32, 1), np.float32), E4M3, RULES["floor"], codes, scales)
    >>> scales.item(), hex(codes[0, 0, 0])
    (119, '0x78')
    """
    if compiled:
        try:
            from mxlab.tensors import numba_kernel
        except ImportError:
            raise InputError(
                "compile=True needs numba on a CPU: install the extra, mxlab[compiled]"
            ) from None
        words = contiguous(data).view(np.uint32 if data.dtype == np.float32 else np.uint16)
        numba_kernel.quantize_blocks(words, rule.threshold(fmt), fmt, codes, scales)
        return
    buffers = np.empty((3, _CHUNK), np.uint32)
    saturate = clips(fmt, rule)
    for rows, cols in _chunks(data.shape):
        chunk = data[rows, :, cols]
        wide, size, power = (b[: chunk.size].reshape(chunk.shape) for b in buffers)
        bits = _bits(chunk, wide)
        np.bitwise_and(bits, _MAGNITUDE, out=size)
        byte = scale_bytes(_amax(size), fmt, rule)
        with np.errstate(invalid="ignore", over="ignore", under="ignore"):  # blocks with Inf, NaN
            code = _encode(_scale(size, byte), fmt, saturate, power)
        np.right_shift(bits, np.uint32(24), out=power)
        power &= np.uint32(0x80)
        power |= code
        target = codes[rows, :, cols]
        np.copyto(target, power, casting="unsafe")
        bad = byte == NAN_BYTE
        if bad.any():
            np.copyto(target, np.uint8(fmt.nan_code), where=bad)
        scales[rows, :, cols] = byte


@lru_cache(maxsize=8)
def code_values(fmt: Format, dtype: str) -> NDArray[Any]:
    """Return the values of the 256 codes.

    >>> from mxlab.formats import E4M3
    >>> code_values(E4M3, "float32")[0x7E].item()
    448.0
    """
    return np.array([decode(code, fmt).value for code in range(256)], dtype)


@lru_cache(maxsize=2)
def _scale_values(dtype: str) -> NDArray[Any]:
    return np.array([scale_value(byte) for byte in range(256)], dtype)


def dtype_name(dtype: Any) -> str:
    """Return a dtype's name, nothing for what is none.

    >>> dtype_name(np.float32), dtype_name("nonsense")
    ('float32', '')
    """
    try:
        return str(np.dtype(dtype).name)
    except TypeError:
        return ""


def dequantize_blocks(codes: Bytes, scales: Bytes, fmt: Format, dtype: DTypeLike) -> NDArray[Any]:
    """Return code * scale of [blocks, 32, inner] in float32 or float64.

    >>> from mxlab.formats import E4M3
    >>> codes, scales = np.full((1, 32, 1), 0x78, np.uint8), np.full((1, 1, 1), 119, np.uint8)
    >>> dequantize_blocks(codes, scales, E4M3, "float32")[0, 0, 0].item()
    1.0
    """
    name = dtype_name(dtype)
    values = code_values(fmt, name)[codes]
    values *= _scale_values(name)[scales]
    return values


def scatter(matrix: Bytes, offsets: NDArray[np.int64], length: int) -> Bytes:
    """Return bytes [..., length] that are 0 but for ``matrix`` [..., n] at ``offsets``.

    >>> scatter(np.array([7, 8], np.uint8), np.array([2, 0]), 4).tolist()
    [8, 0, 7, 0]
    """
    out = np.zeros((*matrix.shape[:-1], length), np.uint8)
    out[..., offsets] = matrix
    return out


def gather(buffer: Bytes, offsets: NDArray[np.int64]) -> Bytes:
    """Return the bytes of ``buffer`` [..., length] at ``offsets``.

    >>> gather(np.array([5, 6, 7], np.uint8), np.array([2, 0])).tolist()
    [7, 5]
    """
    return np.asarray(buffer[..., offsets])


def concatenate(arrays: list[Bytes], axis: int) -> Bytes:
    """Join along an axis; raises ValueError where shapes do not fit.

    >>> concatenate([np.ones(1, np.uint8)] * 2, 0).tolist()
    [1, 1]
    """
    return np.concatenate(arrays, axis)


def contiguous(array: NDArray[Any]) -> NDArray[Any]:
    """Return the array in C order, copied only where it is not.

    >>> contiguous(np.ones((2, 3)).T).flags.c_contiguous
    True
    """
    return np.ascontiguousarray(array)


def to_numpy(array: Bytes) -> Bytes:
    """Return the array in C order.

    >>> to_numpy(np.zeros(2, np.uint8)).tolist()
    [0, 0]
    """
    return np.ascontiguousarray(array)


def from_numpy(array: Bytes, like: NDArray[Any]) -> Bytes:
    """Return the array as it is.

    >>> from_numpy(np.zeros(2, np.uint8), np.zeros(1)).tolist()
    [0, 0]
    """
    return array
