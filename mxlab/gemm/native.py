"""The GPU's own MXFP8 product, through torch's ``scaled_mm``; elsewhere its guards say why not."""

from typing import Any

from mxlab.errors import quote
from mxlab.gemm.backend import sizes
from mxlab.guards import CallFacts, Deployment, Status, check
from mxlab.hardware import GPUS
from mxlab.mxarray import MXArray


def gpu_of(capability: tuple[int, int]) -> str:
    """Return a GPU of the table with this compute capability; the nearest older one otherwise.

    >>> gpu_of((9, 0)), gpu_of((10, 0)), gpu_of((12, 1))
    ('h100', 'b200', 'gb10')
    """
    rows = [g for g in GPUS.values() if g.vendor == "nvidia" and g.capability <= capability]
    newest = max(rows, key=lambda g: g.capability, default=GPUS["cpu"])
    return next(g.name for g in GPUS.values() if g.capability == newest.capability)


def _gpu(a: MXArray) -> str:
    import torch

    codes: Any = a.codes
    if codes.device.type == "meta":
        return "b200"  # asked about its shapes alone
    if codes.device.type != "cuda" or torch.version.hip:
        return "cpu"
    return gpu_of(torch.cuda.get_device_capability(codes.device))


def fault(a: MXArray, b: MXArray) -> str:
    """Return what stops torch's scaled_mm for two operands, by its guards, or nothing.

    >>> from mxlab.arrays import quantize
    >>> fault(quantize([1.0] * 32), quantize([1.0] * 32))
    'the operands are NumPy arrays'
    """
    if a.library != "torch":
        return "the operands are NumPy arrays"
    m, n, k = sizes(a, b)
    call = CallFacts(
        function="scaled_mm",
        m=m,
        n=n,
        k=k,
        a_dtype=f"float8_{'e4m3fn' if a.format == 'e4m3' else a.format}",
        b_dtype=f"float8_{'e4m3fn' if b.format == 'e4m3' else b.format}",
        b_layout="column" if b.axis == 1 else "row",
        scale_layout=a.layout,
    )
    for verdict in check(Deployment(system="torch", gpu=_gpu(a)), call=call):
        if verdict.status in (Status.STOPS, Status.SILENT):
            return f"{verdict.because} (guard {verdict.guard}: {quote(verdict.message)})"
    return ""


def product(a: MXArray, b: MXArray, dtype: str) -> Any:
    """Return (M, N) by ``torch._scaled_mm`` on the operands' own bytes, scales in tile_128x4."""
    import torch

    # a view of bytes for the call that asks for it: nothing is computed in this dtype
    scale_dtype = getattr(torch, "float8_e8m0fnu")  # noqa: B009
    element = torch.float8_e4m3fn if a.format == "e4m3" else torch.float8_e5m2
    tensors: Any = a.codes, b.codes, a.scales, b.scales
    left, right, left_scales, right_scales = (x.contiguous() for x in tensors)
    return torch._scaled_mm(
        left.view(element),
        right.view(element).T,
        scale_a=left_scales.view(scale_dtype),
        scale_b=right_scales.view(scale_dtype),
        out_dtype=getattr(torch, dtype),
    )
