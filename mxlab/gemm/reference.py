"""The float64 reference: slow, plain, and the measure of every other backend."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mxlab.arrays import dequantize
from mxlab.mxarray import MXArray


def matmul(a: MXArray, b: MXArray) -> NDArray[Any]:
    """Return the product of the dequantised matrices, float64 (M, N), of their library.

    Products of two elements with their scales are exact in float64; only their sum rounds.

    >>> from mxlab.arrays import quantize
    >>> matmul(quantize([[1.0] * 32]), quantize([[0.5] * 32])).tolist()
    [[16.0]]
    """
    left, right = dequantize(a, np.float64), dequantize(b, np.float64)
    product = left @ (right.T if b.axis == 1 else right)
    return product if a.library == "torch" else np.asarray(product)
