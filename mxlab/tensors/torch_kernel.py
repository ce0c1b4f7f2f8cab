"""The arithmetic of quantising in torch, and the two ways to run it: eagerly or compiled.

Scales are uint8 tensors and never of a scale dtype, whose casts round. The codes come from
integer arithmetic and one exact addition, which no version of torch rounds differently.
"""

from collections.abc import Callable
from functools import lru_cache

import torch
from torch import Tensor

from mxlab.block import BLOCK
from mxlab.errors import InputError, quote
from mxlab.formats import Format
from mxlab.scale import MANTISSA, MAX_BYTE, NAN_BYTE

_INF = 0x7F800000
_MAGNITUDE = 0x7FFFFFFF
_SUBNORMAL = 2.0**-130
_CHUNK = 1 << 24  # values at a time: bounds the temporaries of about 8 operations


def _scale_bytes(amax: Tensor, threshold: Tensor, fmt: Format) -> Tensor:
    """int32 bytes for a float32 amax.

    A subnormal amax that was flushed to 0 has byte 0 as before. The sign is masked because a
    compiled maximum returns a NaN with the sign bit set.
    """
    word = amax.view(torch.int32) & _MAGNITUDE
    up = ((word & ((1 << MANTISSA) - 1)) >= threshold).to(torch.int32)
    byte = ((word >> MANTISSA) - fmt.emax + up).clamp(0, MAX_BYTE)
    return torch.where(word >= _INF, NAN_BYTE, byte)


def power_of_two(field: Tensor) -> Tensor:
    """Return the float32 with this exponent field, an int32.

    >>> power_of_two(torch.tensor([126, 127], dtype=torch.int32)).tolist()
    [0.5, 1.0]
    """
    return (field << MANTISSA).view(torch.float32)


def _encode(single: Tensor, byte: Tensor, fmt: Format, careful: bool) -> Tensor:
    """Codes of float32 values under their scale bytes; see ``numpy_blocks`` for each step.

    ``careful``: subnormals are multiplied as the integers they are, in case the device or this
    thread flushes them to zero.
    """
    bits = single.view(torch.int32)
    bad = byte == NAN_BYTE
    scaled = single.abs() * power_of_two(torch.where(bad, 127, 254 - byte))
    if careful:
        size = bits & _MAGNITUDE
        subnormal = size.to(torch.float32) * power_of_two(105 - byte.clamp(max=100))
        scaled = torch.where(size < (1 << MANTISSA), subnormal, scaled)
    shift = MANTISSA - fmt.mantissa_bits
    least = 127 + fmt.emin
    power = (scaled.view(torch.int32) & _INF).clamp(min=least << MANTISSA) + (shift << MANTISSA)
    total = (scaled + power.view(torch.float32)).view(torch.int32)
    # the sum's exponent in units of codes, and the code's low bits, 0 to 16, at its end
    code = (total >> shift) + (total & 0x1F) - ((least + shift) << fmt.mantissa_bits)
    code = code.clamp(max=fmt.max_code) | ((bits >> 24) & 0x80)
    return torch.where(bad, fmt.nan_code, code).to(torch.uint8)


def _blocks(
    data: Tensor, threshold: Tensor, fmt: Format, codes: Tensor, scales: Tensor, careful: bool
) -> None:
    """Quantise [blocks, 32, ...] into codes and scales: what is compiled."""
    single = data.to(torch.float32)
    byte = _scale_bytes(single.abs().amax(1, keepdim=True), threshold, fmt)
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
def threshold(value: int, device: torch.device) -> Tensor:
    """Return a rule's threshold as a tensor, so that all rules share one compiled kernel.

    >>> threshold(1, torch.device("cpu")).dtype
    torch.int32
    """
    with torch.inference_mode(False):  # it outlives the mode of the call that makes it
        return torch.tensor(value, dtype=torch.int32, device=device)


def run_compiled(data: Tensor, limit: Tensor, fmt: Format, codes: Tensor, scales: Tensor) -> None:
    """Quantise [blocks, 32, inner], two blocks or more, under a rule's threshold ``limit``.

    The first call of a kind compiles. Raises InputError where torch.compile fails.
    """
    last = data.shape[2] == 1
    tensors = [data.contiguous(), codes, scales]
    if last:
        tensors = [t.squeeze(2) for t in tensors]
    for tensor in tensors:  # one kernel for all sizes
        for axis in (0,) if last else (0, 2):
            torch._dynamo.maybe_mark_dynamic(tensor, axis)
    data, codes, scales = tensors
    try:
        _compiled(fmt, data.dtype, data.device.type, last)(data, limit, codes, scales)
    except torch._dynamo.exc.TorchDynamoException as error:
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise InputError(
            f"torch.compile failed here, leave compile=True out: {quote(reason)}"
        ) from None


_PROBE = torch.tensor(_SUBNORMAL)


@lru_cache(maxsize=64)
def _device_flushes(device: torch.device) -> bool:
    return bool((_PROBE.to(device) * 1).item() == 0)


def flushes(device: torch.device) -> bool:
    """Return whether subnormals are zero: a device's property, but on a CPU the calling thread's.

    >>> flushes(torch.device("cpu"))
    False
    """
    if device.type == "cpu":
        return bool((_PROBE * 1).item() == 0)
    return _device_flushes(device)


def run_eagerly(data: Tensor, limit: Tensor, fmt: Format, codes: Tensor, scales: Tensor) -> None:
    """Quantise [blocks, 32, inner] under a rule's threshold ``limit``, on any device.

    >>> from mxlab.formats import E4M3
    >>> codes, scales = (torch.empty(1, n, 1, dtype=torch.uint8) for n in (32, 1))
    >>> limit = threshold(1 << 23, torch.device("cpu"))
    >>> run_eagerly(torch.ones(1, 32, 1), limit, E4M3, codes, scales)
    >>> scales.item(), hex(codes[0, 0, 0])
    (119, '0x78')
    """
    blocks, _, inner = data.shape
    width = max(1, min(inner, _CHUNK // BLOCK))
    height = max(1, _CHUNK // BLOCK // width)
    for start in range(0, blocks, height):
        for left in range(0, inner, width):
            part = slice(start, start + height), slice(None), slice(left, left + width)
            _blocks(data[part], limit, fmt, codes[part], scales[part], careful=True)
