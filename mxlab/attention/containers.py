"""NumPy arrays and torch tensors, seen as shapes and as bits.

The reference works on bits in memory that it shares with what it was handed: uint16 for bfloat16,
uint8 for E4M3 codes and E8M0 bytes. A NumPy array may be those integers or ml_dtypes' types.
"""

import sys
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from mxlab.errors import InputError, quote

#: dtype name, of NumPy with ml_dtypes or of torch -> what it holds
KINDS = {
    "bfloat16": "bf16",
    "uint16": "bf16",
    "float8_e4m3fn": "e4m3",
    "float8_e8m0fnu": "e8m0",
    "uint8": "byte",
    "bool": "bool",
    "int32": "int",
    "int64": "int",
    "float32": "float",
    "float64": "float",
    "float16": "float",
}
_BITS = {"bf16": np.uint16, "e4m3": np.uint8, "e8m0": np.uint8, "byte": np.uint8}


@dataclass(frozen=True, slots=True)
class Buffer:
    """What a guard looks at: shape, strides in elements, and what the elements are."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    kind: str  # a value of KINDS, or the dtype's own name
    contiguous: bool


def is_tensor(x: object) -> bool:
    """Tell whether ``x`` is a torch tensor, without importing torch.

    >>> is_tensor(np.ones(1))
    False
    """
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(x, torch.Tensor)


def describe(name: str, x: Any) -> Buffer:
    """Return the shape, strides and kind of an array or a tensor; InputError for anything else.

    >>> describe("loc", np.zeros((2, 3), np.uint16))
    Buffer(shape=(2, 3), strides=(3, 1), kind='bf16', contiguous=True)
    """
    if is_tensor(x):
        dtype = str(x.dtype).removeprefix("torch.")
        return Buffer(tuple(x.shape), tuple(x.stride()), KINDS.get(dtype, dtype), x.is_contiguous())
    if not isinstance(x, np.ndarray):
        raise InputError(f"{name} is {quote(x)}: expected a NumPy array or a torch tensor")
    size = x.itemsize
    if any(stride % size for stride in x.strides):
        raise InputError(f"{name} has strides {x.strides} bytes: expected multiples of {size}")
    strides = tuple(stride // size for stride in x.strides)
    kind = KINDS.get(x.dtype.name, x.dtype.name)
    return Buffer(x.shape, strides, kind, x.flags.c_contiguous)


def bits(name: str, x: Any) -> NDArray[Any]:
    """Return bfloat16, codes or scale bytes as integers on the same memory.

    Raises InputError for a tensor that is not in CPU memory, and for another dtype.

    >>> hex(bits("x", np.ones(1, ml_dtypes.bfloat16))[0])
    '0x3f80'
    """
    kind = describe(name, x).kind
    if kind not in _BITS:
        raise InputError(f"{name} holds {kind}: expected bfloat16, E4M3 codes or E8M0 bytes")
    if is_tensor(x):
        import torch

        if x.device.type != "cpu":
            raise InputError(
                f"{name} is on {x.device}: the reference works in CPU memory; backend='triton' "
                "works there"
            )
        x = x.detach().view(torch.int16 if kind == "bf16" else torch.uint8).numpy()
    return x.view(_BITS[kind])  # type: ignore[no-any-return]


def numbers(name: str, x: Any, dtype: Any) -> NDArray[Any]:
    """Return integers, flags or floats as a flat NumPy array of ``dtype``, from any device.

    Raises InputError where the values are of another kind.

    >>> numbers("loc", np.array([1, 2], np.int32), np.int64)
    array([1, 2])
    """
    kind = describe(name, x).kind
    wanted = {"b": ("bool",), "i": ("int",), "f": ("float", "int", "bf16")}[np.dtype(dtype).kind]
    if kind not in wanted:
        raise InputError(f"{name} holds {kind}: expected {wanted[0]}")
    if is_tensor(x):
        x = x.detach().cpu()
        x = x.float().numpy() if kind == "bf16" else x.numpy()
    elif kind == "bf16":
        x = x.view(ml_dtypes.bfloat16)
    return x.astype(dtype).reshape(-1)  # type: ignore[no-any-return]


def like(x: Any, words: NDArray[Any], kind: str) -> Any:
    """Return bits as what ``x`` is made of: a tensor for a tensor, an array for an array.

    ``kind`` is bf16, e4m3 or e8m0. Arrays keep bfloat16 as the dtype of ``x``; codes and scale
    bytes are uint8.

    >>> like(np.zeros(1, np.uint16), np.array([0x3F80], np.uint16), "bf16").dtype
    dtype('uint16')
    """
    if not is_tensor(x):
        return words.view(x.dtype) if kind == "bf16" else words
    import torch

    types = {"bf16": torch.bfloat16, "e4m3": torch.float8_e4m3fn, "e8m0": torch.float8_e8m0fnu}
    raw = words.view(np.int16) if kind == "bf16" else words
    return torch.from_numpy(raw).view(types[kind])
