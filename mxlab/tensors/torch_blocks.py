"""Blocks in torch, on any device: the same functions as ``numpy_blocks``, the same bytes.

``compiled=True`` runs the same arithmetic through numba on a CPU and torch.compile elsewhere; only
the first call of a kind (dtype, format, device, last axis or another) compiles.
"""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mxlab.errors import InputError
from mxlab.formats import Format
from mxlab.scale import NAN_BYTE, ScaleRule
from mxlab.tensors import numpy_blocks, torch_kernel

DTYPES = ("float32", "float64", "float16", "bfloat16")
KIND = "a torch tensor"


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


def _in_numpys_reach(data: Tensor) -> bool:
    return data.device.type == "cpu"


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

    On a CPU, NumPy's or numba's blocks run on the tensors' own memory: they stay in the cache,
    where torch's operations each go through the main memory. What torch.compile makes elsewhere is
    for two blocks or more, where subnormals are not flushed.

    >>> from mxlab.formats import E4M3
    >>> from mxlab.scale import RULES
    >>> codes, scales = (torch.empty(1, n, 1, dtype=torch.uint8) for n in (32, 1))
    >>> quantize_blocks(torch.ones(1, 32, 1), E4M3, RULES["floor"], codes, scales)
    >>> scales.item(), hex(codes[0, 0, 0])
    (119, '0x78')
    """
    if _in_numpys_reach(data):
        words = data.view(torch.int16) if data.dtype == torch.bfloat16 else data
        arrays = (tensor.numpy() for tensor in (codes, scales))
        numpy_blocks.quantize_blocks(words.numpy(), fmt, rule, *arrays, compiled=compiled)
        return
    compiled = (
        compiled and len(data) > 1 and not data.is_meta and not torch_kernel.flushes(data.device)
    )
    threshold = torch_kernel.threshold(rule.threshold(fmt), data.device)
    run = torch_kernel.run_compiled if compiled else torch_kernel.run_eagerly
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
        values *= torch_kernel.power_of_two(part + 127)
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
