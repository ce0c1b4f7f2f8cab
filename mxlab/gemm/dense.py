"""Dequantise first, then the library's own product: NumPy in float32, torch's BLAS."""

from typing import Any

import numpy as np

from mxlab.arrays import dequantize
from mxlab.gemm.backend import sizes
from mxlab.mxarray import MXArray


def numpy_fault(a: MXArray, b: MXArray) -> str:
    """Return why ``numpy_product`` cannot serve: the operands are tensors.

    >>> from mxlab.arrays import quantize
    >>> numpy_fault(quantize([1.0] * 32), quantize([1.0] * 32))
    ''
    """
    return "" if a.library == "numpy" else "the operands are torch tensors"


def torch_fault(a: MXArray, b: MXArray) -> str:
    """Return why ``torch_product`` cannot serve: the operands are NumPy's, or on no known device.

    >>> from mxlab.arrays import quantize
    >>> torch_fault(quantize([1.0] * 32), quantize([1.0] * 32))
    'the operands are NumPy arrays'
    """
    return "" if a.library == "torch" else "the operands are NumPy arrays"


def numpy_product(a: MXArray, b: MXArray, dtype: str) -> Any:
    """Return float32 (M, N): exact operands in float32, one float32 BLAS product."""
    left, right = dequantize(a), dequantize(b)
    return np.asarray(left @ (right.T if b.axis == 1 else right))


def _kernel_reads(q: MXArray) -> bool:
    fits = {"linear": True, "tile_128x4": q.axis == 1, "te_columnwise": q.axis == 0}
    return q.format == "e4m3" and fits.get(q.layout, False)


def torch_product(a: MXArray, b: MXArray, dtype: str) -> Any:
    """Return (M, N) by torch's product: bfloat16 operands on a GPU, float32 on a CPU.

    On a GPU the operands are written down in bfloat16, exact for scale bytes 3 to 246 and NaN
    where bfloat16 does not hold a value, and cuBLAS sums in float32.
    """
    import torch

    kind = getattr(torch, dtype)
    codes: Any = a.codes
    if codes.device.type != "cuda":
        left, right = dequantize(a), dequantize(b)
        return (left @ (right.T if b.axis == 1 else right)).to(kind)
    left, right = (_bfloat16(q) for q in (a, b))
    right = right.T if b.axis == 1 else right
    if kind == torch.float32 and 0 not in sizes(a, b):
        return torch.mm(left, right, out_dtype=torch.float32)
    return torch.mm(left, right).to(kind)


def _bfloat16(q: MXArray) -> Any:
    """The padded matrix in bfloat16, by the kernel where it reads the layout."""
    import torch

    from mxlab.arrays import deinterleave
    from mxlab.kernels.dequantize import dequantize as kernel

    if q.format != "e4m3":
        exact: Any = dequantize(q)
        held = exact.to(torch.bfloat16)
        padded = torch.nn.functional.pad(
            held.masked_fill((held != exact) | exact.isinf(), torch.nan),
            (0, q.padded) if q.axis == 1 else (0, 0, 0, q.padded),
        )
        return padded
    return kernel(q if _kernel_reads(q) else deinterleave(q), torch.bfloat16)
