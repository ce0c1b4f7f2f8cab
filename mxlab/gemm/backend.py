"""What a backend of ``gemm`` is, and why it cannot serve two operands."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mxlab.mxarray import MXArray


def serves(a: MXArray, b: MXArray) -> str:
    """Return nothing: the fault of a backend that takes everything.

    >>> serves(None, None)
    ''
    """
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """One way to multiply.

    ``fault(a, b)`` says why it cannot serve checked operands, or nothing; ``run(a, b, dtype)``
    gets operands that it serves, and the name of one of ``dtypes``, the first by default.
    ``accuracy`` is what rounds.
    """

    name: str
    summary: str
    accuracy: str
    dtypes: tuple[str, ...]
    run: Callable[[MXArray, MXArray, str], Any]
    fault: Callable[[MXArray, MXArray], str] = serves


def sizes(a: MXArray, b: MXArray) -> tuple[int, int, int]:
    """Return (M, N, K) of two operands, K with its padding.

    >>> from mxlab.arrays import quantize
    >>> sizes(quantize([[1.0] * 32] * 2), quantize([[1.0] * 32] * 3))
    (2, 3, 32)
    """
    return a.shape[0], b.shape[1 - b.axis], a.codes.shape[1]
