"""The array functions once more for each array library: NumPy, and torch on any device.

``numpy_blocks`` and ``torch_blocks`` (arithmetic in ``torch_kernel``) hold the same functions with
the same names; ``arrays`` asks ``twin`` which of the two an argument belongs to. torch is not
imported for that: an argument can be a tensor only where somebody has imported it already.
"""

import sys
from importlib import import_module
from typing import Any


def is_tensor(x: object) -> bool:
    """Return whether ``x`` is a torch tensor, without importing torch.

    >>> is_tensor([1.0])
    False
    """
    kind = getattr(sys.modules.get("torch"), "Tensor", None)
    return kind is not None and isinstance(x, kind)


def library(x: object) -> str:
    """Return ``torch`` for a tensor, ``numpy`` for all else.

    >>> library([1.0])
    'numpy'
    """
    return "torch" if is_tensor(x) else "numpy"


def twin(x: object) -> Any:
    """Return the module whose functions take ``x``.

    >>> twin([1.0]).__name__
    'mxlab.tensors.numpy_blocks'
    """
    return import_module(f"mxlab.tensors.{library(x)}_blocks")


def is_bytes(x: object) -> bool:
    """Return whether ``x`` is a uint8 array of NumPy or torch.

    >>> is_bytes([1])
    False
    """
    dtype = getattr(x, "dtype", None)
    if is_tensor(x):
        return str(dtype) == "torch.uint8"
    kind = getattr(sys.modules.get("numpy"), "ndarray", None)
    return kind is not None and isinstance(x, kind) and str(dtype) == "uint8"
