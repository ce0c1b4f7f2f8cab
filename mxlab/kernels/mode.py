"""Compiled for a GPU, or interpreted on the CPU: decided once, for every kernel of this package.

Kernels are decorated with ``jit`` of this module. Interpreted kernels must not call Triton's own
library of jitted functions (``tl.sum``, ``tl.max``, ``tl.zeros``, ``tl.cdiv``): those were made
compiled when another package imported triton. ``tl.reduce`` with a function of ours, ``tl.full``
and the built-in operations do the same.
"""

import os
from collections.abc import Callable
from typing import Any

import torch
import triton
import triton.language as tl
from triton import knobs

_ASKED = os.environ.get("TRITON_INTERPRET")

#: True where kernels run on CPU tensors; TRITON_INTERPRET=0 or 1 decides before the GPU does
INTERPRETED = _ASKED != "0" if _ASKED else not torch.cuda.is_available()

#: the same for a kernel's code: the interpreter rounds float conversions wrongly, hardware does not
HARDWARE = tl.constexpr(not INTERPRETED)


def jit(function: Callable[..., Any]) -> Any:
    """Return ``function`` as a Triton kernel or as a function for kernels."""
    before = knobs.runtime.interpret
    knobs.runtime.interpret = INTERPRETED
    try:
        return triton.jit(function)
    finally:
        knobs.runtime.interpret = before
