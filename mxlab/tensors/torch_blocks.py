"""Blocks in torch, on any device: the same functions as ``numpy_blocks``, the same bytes.

Scales are uint8 tensors and never of a scale dtype, whose casts round. The codes come from
integer arithmetic and one exact addition, which neither an old cast nor flushed subnormals change.
``compiled=True`` runs the same lines through torch.compile; only the first call of a kind
(dtype, format, position of the axis, device) compiles.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mxlab.block import BLOCK
from mxlab.errors import InputError, quote
from mxlab.formats import Format
from mxlab.scale import MANTISSA, MAX_BYTE, NAN_BYTE, ScaleRule
from mxlab.tensors import numpy_blocks

DTYPES = ("float32", "float64", "float16", "bfloat16")
KIND = "a torch tensor"

_INF = 0x7F800000
_MAGNITUDE = 0x7FFFFFFF
_SUBNORMAL = 2.0**-130
_CHUNK = 1 << 24  # values at a time: bounds the temporaries of about 8 operations


def as_float32(x: Tensor) -> Tensor:
    """Return ``x`` as float32 data, or as the bfloat16 that it is, without its gradient.

    float64 is rounded to the nearest float32. Raises InputError for another dtype or a sparse
    tensor, and for finite values beyond float32.

    >>> as_float32(torch.tensor([0.1], dtype=torch.float64)).item()
    0.10000000149011612
    """
    name = str(x.dtype).removeprefix("torch.")
    if name not in DTYPES:
        raise InputError(
            f"x has dtype {name}: expected {', '.join(DTYPES)}; convert with x.to(torch.float32)"
        )
    if x.layout != torch.strided:
        raise InputError(f"x has layout {x.layout}: expected torch.strided; x.to_dense() is")
    x = x.detach().resolve_neg()
    if name == "bfloat16":
        return x
    single = x.to(torch.float32)
    if name == "float64" and not x.is_meta:
        beyond = single.isinf() & x.isfinite()
        if beyond.any():
            value = float(x[beyond][0])
            raise InputError(
                f"x holds {value!r}: beyond float32; the nearest is 3.4028234663852886e+38 in "
                "magnitude"
            )
    return single


def pad(data: Tensor, axis: int, missing: int) -> Tensor:
    """Return ``data`` with ``missing`` zeros appended along ``axis``.

    >>> pad(torch.ones(1, 2), 1, 1).tolist()
    [[1.0, 1.0, 0.0]]
    """
    shape = list(data.shape)
    shape[axis] += missing
    wider = torch.zeros(shape, dtype=data.dtype, device=data.device)
    wider.narrow(axis, 0, data.shape[axis]).copy_(data)
    return wider


def empty(shape: tuple[int, ...], like: Tensor) -> Tensor:
    """Return uninitialised bytes of a shape, on the device of ``like``.

    >>> empty((2, 3), torch.ones(1)).dtype
    torch.uint8
    """
    if like.device.type == "cpu":  # NumPy asks for huge pages: a tenth of the page faults
        return torch.from_numpy(np.empty(shape, np.uint8))
    return torch.empty(shape, dtype=torch.uint8, device=like.device)


def buffer_fault(buffer: Any, data: Tensor) -> str:
    """Return what keeps ``buffer`` from taking bytes of ``data``, its shape apart; or nothing.

    >>> buffer_fault(torch.empty(3), torch.ones(1))
    'float32'
    """
    if not isinstance(buffer, Tensor):
        return type(buffer).__name__
    if buffer.dtype != torch.uint8:
        return str(buffer.dtype).removeprefix("torch.")
    if buffer.device != data.device:
        return f"on {buffer.device}, x on {data.device}"
    return "" if buffer.is_contiguous() else "not contiguous"


def _extent(a: Tensor) -> tuple[int, int]:
    last = sum((size - 1) * stride for size, stride in zip(a.shape, a.stride(), strict=True))
    start = a.data_ptr()
    return start, start + (last + 1) * a.element_size() if a.numel() else start


def overlap(a: Tensor, b: Tensor) -> bool:
    """Return whether two tensors may share memory.

    >>> x = torch.zeros(4); overlap(x, x[1:]), overlap(x[:2], x[2:])
    (True, False)
    """
    if a.device != b.device or a.is_meta:
        return False
    (start, end), (other, other_end) = _extent(a), _extent(b)
    return start < other_end and other < end


def _scale_bytes(amax: Tensor, threshold: Tensor, fmt: Format) -> Tensor:
    """int32 bytes for a float32 amax; one that flushing made 0 has byte 0 as the subnormal had."""
    word = amax.view(torch.int32)
    up = ((word & ((1 << MANTISSA) - 1)) >= threshold).to(torch.int32)
    byte = ((word >> MANTISSA) - fmt.emax + up).clamp(0, MAX_BYTE)
    return torch.where(word >= _INF, NAN_BYTE, byte)


def _power(field: Tensor) -> Tensor:
    """The float32 with this exponent field."""
    return (field << MANTISSA).view(torch.float32)


def _encode(single: Tensor, byte: Tensor, fmt: Format, careful: bool) -> Tensor:
    """Codes of float32 values under their scale bytes; see ``numpy_blocks`` for each step.

    ``careful``: subnormals are multiplied as the integers they are, in case the device or this
    thread flushes them to zero.
    """
    bits = single.view(torch.int32)
    bad = byte == NAN_BYTE
    scaled = single.abs() * _power(torch.where(bad, 127, 254 - byte))
    if careful:
        size = bits & _MAGNITUDE
        subnormal = size.to(torch.float32) * _power(105 - byte.clamp(max=100))
        scaled = torch.where(size < (1 << MANTISSA), subnormal, scaled)
    shift = MANTISSA - fmt.mantissa_bits
    least = 127 + fmt.emin
    power = (scaled.view(torch.int32) & _INF).clamp(min=least << MANTISSA) + (shift << MANTISSA)
    total = (scaled + power.view(torch.float32)).view(torch.int32)
    # the sum's exponent in units of codes, and the code's low bits, 0 to 16, at its end
    code = (total >> shift) + (total & 0x1F) - ((least + shift) << fmt.mantissa_bits)
    code = code.clamp(max=fmt.max_code) | ((bits >> 24) & 0x80)
    return torch.where(bad, fmt.nan_code, code).to(torch.uint8)


def _finite_or_inf(single: Tensor, dtype: torch.dtype) -> Tensor:
    """Magnitudes with infinity for NaN, which a compiled kernel's vectorised maximum may lose.

    The same in two ways, each the one that the compiler turns into vector instructions.
    """
    if dtype == torch.float32:
        return (single.view(torch.int32) & _MAGNITUDE).clamp(max=_INF).view(torch.float32)
    size = single.abs()
    return torch.where(size <= torch.inf, size, torch.inf)


def _blocks(
    data: Tensor, threshold: Tensor, fmt: Format, codes: Tensor, scales: Tensor, careful: bool
) -> None:
    """Quantise [blocks, 32, ...] into codes and scales: what is compiled."""
    single = data.to(torch.float32)
    amax = _finite_or_inf(single, data.dtype).amax(1, keepdim=True)
    byte = _scale_bytes(amax, threshold, fmt)
    scales.copy_(byte.to(torch.uint8))
    codes.copy_(_encode(single, byte, fmt, careful))


@lru_cache(maxsize=64)
def _compiled(
    fmt: Format, dtype: torch.dtype, device: str, last: bool
) -> Callable[[Tensor, Tensor, Tensor, Tensor], None]:
    """The compiled kernel of a format, dtype and device, for the last axis or for one before it."""

    def kernel(data: Tensor, threshold: Tensor, codes: Tensor, scales: Tensor) -> None:
        _blocks(data, threshold, fmt, codes, scales, careful=False)

    # torch.compile counts variants, and calls integers variable that differ among them, by the
    # function's code: each kernel needs one of its own
    name = f"{fmt.name}_{dtype}_{device}_{'last' if last else 'inner'}"
    kernel.__code__ = kernel.__code__.replace(co_name=name)
    return torch.compile(kernel, fullgraph=True)


@lru_cache(maxsize=64)
def _threshold(value: int, device: torch.device) -> Tensor:
    """The rule as a tensor, so that all rules share one compiled kernel."""
    return torch.tensor(value, dtype=torch.int32, device=device)


def _run_compiled(
    data: Tensor, threshold: Tensor, fmt: Format, codes: Tensor, scales: Tensor
) -> None:
    last = data.shape[2] == 1
    tensors = [data.contiguous(), codes, scales]
    if last:
        tensors = [t.squeeze(2) for t in tensors]
    for tensor in tensors:  # one kernel for all sizes
        for axis in (0,) if last else (0, 2):
            torch._dynamo.maybe_mark_dynamic(tensor, axis)
    data, codes, scales = tensors
    try:
        _compiled(fmt, data.dtype, data.device.type, last)(data, threshold, codes, scales)
    except torch._dynamo.exc.TorchDynamoException as error:
        reason = str(error).strip().splitlines()[0]
        raise InputError(
            f"torch.compile failed here, leave compile=True out: {quote(reason)}"
        ) from None


@lru_cache(maxsize=64)
def _device_flushes(device: torch.device) -> bool:
    return bool((torch.full((1,), _SUBNORMAL, device=device) * 1 == 0).item())


def _flushes(device: torch.device) -> bool:
    """Whether subnormals are zero: a property of a device, but on a CPU of the calling thread."""
    ask = _device_flushes.__wrapped__ if device.type == "cpu" else _device_flushes
    return ask(device)


def _in_numpys_reach(data: Tensor) -> bool:
    return data.device.type == "cpu"


def _run_eagerly(
    data: Tensor, threshold: Tensor, fmt: Format, codes: Tensor, scales: Tensor
) -> None:
    blocks, _, inner = data.shape
    width = max(1, min(inner, _CHUNK // BLOCK))
    height = max(1, _CHUNK // BLOCK // width)
    for start in range(0, blocks, height):
        for left in range(0, inner, width):
            part = slice(start, start + height), slice(None), slice(left, left + width)
            _blocks(data[part], threshold, fmt, codes[part], scales[part], careful=True)


@torch.no_grad()
def quantize_blocks(
    data: Tensor,
    fmt: Format,
    rule: ScaleRule,
    codes: Tensor,
    scales: Tensor,
    *,
    compiled: bool = False,
) -> None:
    """Quantise float32 or bfloat16 [blocks, 32, inner] into codes and scales [blocks, 1, inner].

    On a CPU, what is not compiled runs NumPy's blocks on the tensors' own memory: they stay in the
    cache, where torch's operations each go through the main memory. Compiled kernels are for two
    blocks or more, where subnormals are not flushed.

    >>> from mxlab.formats import E4M3
    >>> from mxlab.scale import RULES
    >>> codes, scales = (torch.empty(1, n, 1, dtype=torch.uint8) for n in (32, 1))
    >>> quantize_blocks(torch.ones(1, 32, 1), E4M3, RULES["floor"], codes, scales)
    >>> scales.item(), hex(codes[0, 0, 0])
    (119, '0x78')
    """
    compiled = compiled and len(data) > 1 and not data.is_meta and not _flushes(data.device)
    if _in_numpys_reach(data) and not compiled:
        words = data.view(torch.int16) if data.dtype == torch.bfloat16 else data
        arrays = (tensor.numpy() for tensor in (codes, scales))
        numpy_blocks.quantize_blocks(words.numpy(), fmt, rule, *arrays)
        return
    threshold = _threshold(rule.threshold(fmt), data.device)
    run = _run_compiled if compiled else _run_eagerly
    run(data, threshold, fmt, codes, scales)


_DTYPES = {"float32": torch.float32, "float64": torch.float64}


def dtype_name(dtype: Any) -> str:
    """Return the name of a torch or NumPy dtype, nothing for what is none.

    >>> dtype_name(torch.float32), dtype_name(np.float64), dtype_name("nonsense")
    ('float32', 'float64', '')
    """
    if isinstance(dtype, torch.dtype):
        return str(dtype).removeprefix("torch.")
    return numpy_blocks.dtype_name(dtype)


def dequantize_blocks(codes: Tensor, scales: Tensor, fmt: Format, dtype: Any) -> Tensor:
    """Return code * scale of [blocks, 32, inner] in float32 or float64.

    >>> from mxlab.formats import E4M3
    >>> codes, scales = torch.full((1, 32, 1), 0x78).byte(), torch.full((1, 1, 1), 119).byte()
    >>> dequantize_blocks(codes, scales, E4M3, "float32")[0, 0, 0].item()
    1.0
    """
    kind = _DTYPES[dtype_name(dtype)]
    values = codes.view(getattr(torch, fmt.torch_dtype)).to(kind)
    # in two steps, each a normal number: 2^-127 itself would be flushed where subnormals are
    power = scales.to(torch.int32) - 127
    half = power // 2
    for part in (half, power - half):
        values *= _power(part + 127)
    return values.masked_fill_(scales == NAN_BYTE, torch.nan)


def scatter(matrix: Tensor, offsets: NDArray[np.int64], length: int) -> Tensor:
    """Return bytes [..., length] that are 0 but for ``matrix`` [..., n] at ``offsets``.

    >>> scatter(torch.tensor([7, 8], dtype=torch.uint8), np.array([2, 0]), 4).tolist()
    [8, 0, 7, 0]
    """
    out = torch.zeros((*matrix.shape[:-1], length), dtype=torch.uint8, device=matrix.device)
    return out.index_copy_(-1, torch.from_numpy(offsets).to(matrix.device), matrix)


def gather(buffer: Tensor, offsets: NDArray[np.int64]) -> Tensor:
    """Return the bytes of ``buffer`` [..., length] at ``offsets``.

    >>> gather(torch.tensor([5, 6, 7], dtype=torch.uint8), np.array([2, 0])).tolist()
    [7, 5]
    """
    return buffer.index_select(-1, torch.from_numpy(offsets).to(buffer.device))


def concatenate(arrays: list[Tensor], axis: int) -> Tensor:
    """Join along an axis; raises ValueError where shapes do not fit.

    >>> concatenate([torch.ones(1, dtype=torch.uint8)] * 2, 0).tolist()
    [1, 1]
    """
    try:
        return torch.cat(arrays, axis)
    except RuntimeError as error:
        raise ValueError(str(error)) from None


def contiguous(array: Tensor) -> Tensor:
    """Return the tensor in C order, copied only where it is not.

    >>> contiguous(torch.ones(2, 3).T).is_contiguous()
    True
    """
    return array.contiguous()


def to_numpy(array: Tensor) -> NDArray[np.uint8]:
    """Return the bytes as a NumPy array in C order, from any device.

    >>> to_numpy(torch.zeros(2, dtype=torch.uint8)).tolist()
    [0, 0]
    """
    return np.ascontiguousarray(array.cpu().numpy())


def from_numpy(array: NDArray[np.uint8], like: Tensor) -> Tensor:
    """Return a NumPy array's bytes as a tensor on the device of ``like``.

    >>> from_numpy(np.zeros(2, np.uint8), torch.ones(1)).dtype
    torch.uint8
    """
    return torch.from_numpy(array).to(like.device)


def wrap(array: NDArray[Any]) -> Tensor:
    """Return a NumPy array of float32, bfloat16 or uint8 as a tensor on the same memory.

    >>> wrap(np.ones(2, np.float32)).dtype
    torch.float32
    """
    if not array.flags.writeable:  # torch warns of tensors on memory that it must not write
        array = array.copy()
    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)
