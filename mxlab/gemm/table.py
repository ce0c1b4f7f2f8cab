"""The backends of ``gemm``: name, what it does, what rounds, what it cannot serve."""

from typing import Any

from mxlab.gemm import dense, kernels, native
from mxlab.gemm.backend import Backend
from mxlab.gemm.reference import matmul
from mxlab.mxarray import MXArray

_FAST = ("float32", "bfloat16", "float16")
_BLOCK = "products and sums of a block as the tensor core has them; scales and sums in float32"


def _reference(a: MXArray, b: MXArray, dtype: str) -> Any:
    return matmul(a, b)


#: name -> backend
BACKENDS: dict[str, Backend] = {
    row.name: row
    for row in (
        Backend(
            name="reference",
            summary="dequantise exactly, multiply and add in float64",
            accuracy="products exact, sums float64",
            dtypes=("float64",),
            run=_reference,
        ),
        Backend(
            name="numpy",
            summary="dequantise exactly, one float32 product of NumPy's BLAS",
            accuracy="products and sums float32",
            dtypes=("float32",),
            run=dense.numpy_product,
            fault=dense.numpy_fault,
        ),
        Backend(
            name="torch-dequant",
            summary="dequantise both (bfloat16 on a GPU, float32 on a CPU), then torch's product",
            accuracy="GPU: products exact or NaN, sums float32; CPU: products and sums float32",
            dtypes=_FAST,
            run=dense.torch_product,
            fault=dense.torch_fault,
        ),
        Backend(
            name="triton",
            summary="portable Triton kernel: one K = 32 product for each block",
            accuracy=_BLOCK,
            dtypes=_FAST,
            run=kernels.triton,
            fault=kernels.fault,
        ),
        Backend(
            name="triton-skinny",
            summary="few rows on sm_90: weights streamed once as E4M3 into WGMMA",
            accuracy=f"{_BLOCK}; E4M3 sums of a block to about 13 bits",
            dtypes=_FAST,
            run=kernels.skinny,
            fault=kernels.skinny_fault,
        ),
        Backend(
            name="triton-mixed",
            summary="many rows on sm_90: weights scaled to bfloat16 in registers, never in memory",
            accuracy="products exact for scale bytes 3 to 246, sums float32",
            dtypes=_FAST,
            run=kernels.mixed,
            fault=kernels.mixed_fault,
        ),
        Backend(
            name="dot_scaled",
            summary="Triton's tl.dot_scaled: native on sm_100 and sm_120, emulated elsewhere",
            accuracy="as Triton compiles it for the GPU",
            dtypes=_FAST,
            run=kernels.dot_scaled,
            fault=kernels.dot_scaled_fault,
        ),
        Backend(
            name="native",
            summary="torch's scaled_mm: the GPU's own MXFP8 product",
            accuracy="as the GPU's instruction has it",
            dtypes=("bfloat16", "float32", "float16"),
            run=native.product,
            fault=native.fault,
        ),
    )
}
