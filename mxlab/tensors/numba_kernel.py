"""Blocks compiled by numba: the arithmetic of ``numpy_blocks`` in one pass, a share to each core.

The first call of a format and dtype compiles for about two seconds. What numba cannot say, the
float32 view of a word and the maximum of 32 words at once, is three short pieces of LLVM.
"""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

from mxlab.block import BLOCK
from mxlab.formats import Format
from mxlab.scale import MANTISSA, MAX_BYTE, NAN_BYTE

_U32, _I32 = np.uint32, np.int32
_INF = _U32(0x7F800000)
_MAGNITUDE = _U32(0x7FFFFFFF)
_NORMAL = _U32(1 << MANTISSA)  # the smallest normal float32
_FRACTION = _U32((1 << MANTISSA) - 1)
_SIGN = _U32(0x80)
_SHIFT, _SIGN_SHIFT = _U32(MANTISSA), _U32(24)
_TINY = 18  # from this byte on, a subnormal is less than half the smallest code of either format
_STRIP = 256  # columns at a time where the quantised axis is not the last
_ALONE = 1 << 16  # values that are not worth a second thread

Kernel = Callable[..., None]


@intrinsic
def _as_float(_: Any, word: Any) -> Any:
    """float32 with the bits of a uint32."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return builder.bitcast(values[0], ir.FloatType())

    return types.float32(types.uint32), generate


@intrinsic
def _as_word(_: Any, value: Any) -> Any:
    """uint32 with the bits of a float32."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return builder.bitcast(values[0], ir.IntType(32))

    return types.uint32(types.float32), generate


@intrinsic
def _amax(_: Any, words: Any, start: Any) -> Any:
    """The largest magnitude of the 32 values from ``start``, as float32 bits.

    An integer maximum, which sees a NaN with either sign; LLVM knows it as one operation.
    """
    narrow = words.dtype == types.uint16

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, values[0])
        stored = ir.VectorType(ir.IntType(16 if narrow else 32), BLOCK)
        wide = ir.VectorType(ir.IntType(32), BLOCK)
        at = builder.gep(array.data, [values[1]])
        block = builder.load(builder.bitcast(at, stored.as_pointer()))
        block.align = 2 if narrow else 4
        if narrow:
            block = builder.shl(builder.zext(block, wide), ir.Constant(wide, [16] * BLOCK))
        block = builder.and_(block, ir.Constant(wide, [int(_MAGNITUDE)] * BLOCK))
        largest = cgutils.get_or_insert_function(
            builder.module,
            ir.FunctionType(ir.IntType(32), [wide]),
            f"llvm.vector.reduce.umax.v{BLOCK}i32",
        )
        return builder.call(largest, [block])

    return types.uint32(words, start), generate


@lru_cache(maxsize=8)
def _kernels(fmt: Format, narrow: bool) -> tuple[Kernel, Kernel]:
    """Compile on first use: (for the last axis, for an axis before it)."""
    emax, max_code = fmt.emax, _U32(fmt.max_code)
    nan_code: Any = np.uint8(fmt.nan_code)
    low = MANTISSA - fmt.mantissa_bits
    drop, low_bits = _U32(low), _U32(0x1F)
    least = _U32((127 + fmt.emin) << MANTISSA)
    rounding = _U32(low << MANTISSA)
    bias = _U32((127 + fmt.emin + low) << fmt.mantissa_bits)
    widen = _U32(16 if narrow else 0)

    @njit(error_model="numpy", nogil=True, inline="always")
    def word(stored: Any) -> Any:
        return _U32(_U32(stored) << widen)

    @njit(error_model="numpy", nogil=True)
    def scale_byte(amax: Any, threshold: Any) -> Any:
        if amax >= _INF:
            return _I32(NAN_BYTE)
        byte: Any = _I32(amax >> _SHIFT) - emax + _I32((amax & _FRACTION) >= threshold)
        return _I32(min(max(byte, 0), MAX_BYTE))

    @njit(error_model="numpy", nogil=True)
    def code(bits: Any, scaled: Any) -> Any:
        power = _U32(max(_U32(_as_word(scaled) & _INF), least) + rounding)
        total = _as_word(scaled + _as_float(power))
        magnitude = _U32(_U32(_U32(total >> drop) + _U32(total & low_bits)) - bias)
        return np.uint8(_U32(min(magnitude, max_code) | _U32(_U32(bits >> _SIGN_SHIFT) & _SIGN)))

    @njit(error_model="numpy", nogil=True)
    def scaled_by(bits: Any, byte: Any) -> Any:
        return _as_float(_U32(bits & _MAGNITUDE)) * _as_float(_U32(_U32(254 - byte) << _SHIFT))

    @njit(error_model="numpy", nogil=True)
    def scaled_exactly(bits: Any, byte: Any) -> Any:
        """As ``scaled_by``; a subnormal is multiplied as the integer it is: it may be flushed."""
        size = _U32(bits & _MAGNITUDE)
        if size < _NORMAL:
            field = _U32(105 - min(byte, 100))  # 2^(127 - byte) * 2^-149
            return np.float32(size) * _as_float(_U32(field << _SHIFT))
        return scaled_by(bits, byte)

    @njit(error_model="numpy", nogil=True)
    def last(words: Any, threshold: Any, codes: Any, scales: Any, start: Any, stop: Any) -> None:
        for block in range(start, stop):
            byte = scale_byte(_amax(words, block * BLOCK), threshold)
            scales[block, 0] = np.uint8(byte)
            if byte == NAN_BYTE:
                for i in range(BLOCK):
                    codes[block, i] = nan_code
            elif byte < _TINY:
                for i in range(BLOCK):
                    bits = word(words[block, i])
                    codes[block, i] = code(bits, scaled_exactly(bits, byte))
            else:
                for i in range(BLOCK):
                    bits = word(words[block, i])
                    codes[block, i] = code(bits, scaled_by(bits, byte))

    @njit(error_model="numpy", nogil=True)
    def inner(words: Any, threshold: Any, codes: Any, scales: Any, start: Any, stop: Any) -> None:
        largest = np.empty(_STRIP, np.uint32)
        found = np.empty(_STRIP, np.int32)
        for block in range(start, stop):
            for left in range(0, words.shape[2], _STRIP):
                # slices of one row: their index needs no arithmetic that stops vectors
                strip = slice(left, min(left + _STRIP, words.shape[2]))
                scale = scales[block, 0, strip]
                width = len(scale)
                amax, byte = largest[:width], found[:width]
                amax[:] = _U32(0)
                for i in range(BLOCK):
                    row = words[block, i, strip]
                    for c in range(width):
                        size = _U32(word(row[c]) & _MAGNITUDE)
                        amax[c] = size if size > amax[c] else amax[c]
                plain = True
                for c in range(width):
                    byte[c] = scale_byte(amax[c], threshold)
                    scale[c] = np.uint8(byte[c])
                    plain &= _TINY <= byte[c] < NAN_BYTE
                for i in range(BLOCK):
                    row, out = words[block, i, strip], codes[block, i, strip]
                    if plain:
                        for c in range(width):
                            bits = word(row[c])
                            out[c] = code(bits, scaled_by(bits, byte[c]))
                    else:
                        for c in range(width):
                            bits = word(row[c])
                            fits = code(bits, scaled_exactly(bits, byte[c]))
                            out[c] = nan_code if byte[c] == NAN_BYTE else fits

    return last, inner


@lru_cache(maxsize=1)
def _threads() -> tuple[int, ThreadPoolExecutor]:
    """How many cores this process may use, and threads for all but the caller's."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return cores or 1, ThreadPoolExecutor(max(1, (cores or 1) - 1), "mxlab-quantize")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_threads.cache_clear)  # a child has no threads of ours


def quantize_blocks(
    words: NDArray[Any], threshold: int, fmt: Format, codes: NDArray[Any], scales: NDArray[Any]
) -> None:
    """Quantise [blocks, 32, inner] under a rule's ``threshold``; everything in C order.

    ``words`` are float32 values as uint32, or bfloat16 values as uint16.

    >>> from mxlab.formats import E4M3
    >>> codes, scales = np.empty((1, 32, 1), np.uint8), np.empty((1, 1, 1), np.uint8)
    >>> ones = np.ones((1, 32, 1), np.float32).view(np.uint32)
    >>> quantize_blocks(ones, 1 << 23, E4M3, codes, scales)
    >>> scales.item(), hex(codes[0, 0, 0])
    (119, '0x78')
    """
    last, inner = _kernels(fmt, words.dtype == np.uint16)
    kernel = inner
    if words.shape[2] == 1:
        kernel, words, codes, scales = last, words[..., 0], codes[..., 0], scales[..., 0]
    blocks, limit = len(words), _U32(threshold)
    if words.size < _ALONE:
        kernel(words, limit, codes, scales, 0, blocks)
        return
    cores, pool = _threads()
    cuts = [blocks * part // cores for part in range(cores + 1)]
    others = [
        pool.submit(kernel, words, limit, codes, scales, start, stop)
        for start, stop in pairwise(cuts[1:])
    ]
    kernel(words, limit, codes, scales, 0, cuts[1])
    for other in others:
        other.result()
