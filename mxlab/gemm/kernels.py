"""The backends that are kernels of ours: their limits, and the calls into ``mxlab.kernels``."""

from importlib.util import find_spec
from typing import Any

from mxlab.gemm.backend import sizes
from mxlab.mxarray import MXArray


def fault(a: MXArray, b: MXArray) -> str:
    """Return why Triton's portable kernels cannot serve two operands, or nothing.

    >>> from mxlab.arrays import quantize
    >>> fault(quantize([1.0] * 32), quantize([1.0] * 32))
    'the operands are NumPy arrays, Triton takes torch tensors'
    """
    if a.library != "torch":
        return "the operands are NumPy arrays, Triton takes torch tensors"
    if find_spec("triton") is None:
        return "Triton is not installed"
    from mxlab.kernels.mode import INTERPRETED

    runs_on, device = "cpu" if INTERPRETED else "cuda", _device(a)
    if device.type != runs_on:
        return f"the operands are on {device.type}, kernels of this process run on {runs_on}"
    if a.format != "e4m3":
        return f"format {a.format!r}: the kernels multiply 'e4m3'"
    if a.layout not in ("linear", "tile_128x4"):
        return f"layout {a.layout!r}: the kernels read 'linear' and 'tile_128x4'"
    return ""


def _device(q: MXArray) -> Any:
    codes: Any = q.codes
    return codes.device


def _k_major(b: MXArray) -> str:
    return "" if b.axis == 1 else f"b is {b.shape} along axis 0: the kernel reads (N, K)"


def skinny_fault(a: MXArray, b: MXArray) -> str:
    """Return why the kernel for few rows cannot serve: more than 64 rows, or no sm_90."""
    found = fault(a, b) or _k_major(b)
    if found:
        return found
    from mxlab.kernels import skinny

    return skinny.fault(sizes(a, b)[0], _device(a))


def mixed_fault(a: MXArray, b: MXArray) -> str:
    """Return why the kernel that scales weights in registers cannot serve: no sm_90."""
    found = fault(a, b) or _k_major(b)
    if found:
        return found
    from mxlab.kernels import skinny

    return skinny.sm90_fault(_device(a))


def dot_scaled_fault(a: MXArray, b: MXArray) -> str:
    """Return why ``tl.dot_scaled`` cannot serve: what ``fault`` says, or an old interpreter."""
    found = fault(a, b)
    if found:
        return found
    from triton.runtime import interpreter

    from mxlab.kernels.mode import INTERPRETED

    if INTERPRETED and not hasattr(interpreter.InterpreterBuilder, "create_dot_scaled"):
        return "Triton's interpreter has no dot_scaled before 3.8"
    return ""


def _dtype(name: str) -> Any:
    import torch

    return getattr(torch, name)


def triton(a: MXArray, b: MXArray, dtype: str) -> Any:
    """Run the portable kernel: block after block, scales and sums in float32."""
    from mxlab.kernels import gemm

    return gemm.gemm(a, b, _dtype(dtype))


def dot_scaled(a: MXArray, b: MXArray, dtype: str) -> Any:
    """Run ``tl.dot_scaled``."""
    from mxlab.kernels import gemm

    return gemm.dot_scaled(a, b, _dtype(dtype))


def skinny(a: MXArray, b: MXArray, dtype: str) -> Any:
    """Run the kernel for few rows."""
    from mxlab.kernels import skinny

    return skinny.gemm(a, b, _dtype(dtype))


def mixed(a: MXArray, b: MXArray, dtype: str) -> Any:
    """Run the kernel that scales weights in registers."""
    from mxlab.kernels import mixed

    return mixed.gemm(a, b, _dtype(dtype))
