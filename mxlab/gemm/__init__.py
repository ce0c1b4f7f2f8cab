"""Matrix products of MXArrays, by backend: the reference is the one that the others must match."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from mxlab.errors import InputError, choose, quote
from mxlab.gemm.reference import matmul as _reference
from mxlab.mxarray import MXArray, require_same


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """One way to multiply: ``run(a, b)`` gets checked operands."""

    name: str
    summary: str
    run: Callable[[MXArray, MXArray], NDArray[Any]]


#: name -> backend
BACKENDS: dict[str, Backend] = {
    row.name: row
    for row in (
        Backend(
            name="reference",
            summary="dequantise exactly, multiply and add in float64",
            run=_reference,
        ),
    )
}


def _shape(q: MXArray) -> str:
    return f"shape {q.shape}, axis {q.axis}"


def _check(a: MXArray, b: MXArray) -> None:
    for name, q in (("a", a), ("b", b)):
        if not isinstance(q, MXArray):
            raise InputError(f"{name} is {quote(type(q).__name__)}: expected an MXArray")
        if len(q.shape) != 2:
            raise InputError(f"{name} has {len(q.shape)} dimensions: expected 2")
    require_same(a, b, ("library", "format", "layout"), "gemm")
    if a.axis != 1:
        raise InputError(f"a has {_shape(a)}: expected (M, K) quantised along axis 1, its K")
    if a.shape[1] != b.shape[b.axis]:
        raise InputError(
            f"a has {_shape(a)} and b {_shape(b)}: expected the same K, got {a.shape[1]} and "
            f"{b.shape[b.axis]}; b is (N, K) quantised along axis 1, or (K, N) along axis 0"
        )


def gemm(a: MXArray, b: MXArray, backend: str = "reference") -> NDArray[Any]:
    """Multiply two matrices along their quantised axes.

    ``a`` is (M, K) quantised along axis 1. ``b`` is a weight (N, K) quantised along axis 1
    (K-major; the result is a @ b.T), or (K, N) quantised along axis 0. The result is (M, N),
    float64 for ``reference``. Scales are applied to each block of 32 along K, so both operands
    must be quantised along K. Raises InputError where formats, layouts or K differ, and for an
    unknown backend. Source: OCP MX v1.0 section 6.2.

    >>> from mxlab.arrays import quantize
    >>> a = quantize([[1.0] * 32], "e4m3", axis=1); b = quantize([[2.0] * 32] * 3, "e4m3", axis=1)
    >>> gemm(a, b).tolist()
    [[64.0, 64.0, 64.0]]
    """
    chosen = choose("gemm backend", backend, BACKENDS)
    _check(a, b)
    return chosen.run(a, b)
