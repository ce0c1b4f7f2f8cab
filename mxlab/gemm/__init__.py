"""Matrix products of MXArrays, by backend: the reference is the one that the others must match."""

from typing import Any

from mxlab.errors import InputError, choose, quote
from mxlab.gemm.backend import Backend
from mxlab.gemm.dispatch import CROSSOVERS, Choice, choose_backend
from mxlab.gemm.table import BACKENDS
from mxlab.mxarray import MXArray, require_same
from mxlab.tensors import twin

__all__ = ["BACKENDS", "CROSSOVERS", "Backend", "Choice", "gemm", "why"]


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
    devices = [str(getattr(q.codes, "device", "cpu")) for q in (a, b)]
    if devices[0] != devices[1]:
        raise InputError(f"a is on {devices[0]} and b on {devices[1]}: expected one device")


def _dtype(backend: Backend, dtype: Any, a: MXArray) -> str:
    if dtype is None:
        return backend.dtypes[0]
    name = dtype if isinstance(dtype, str) else twin(a.codes).dtype_name(dtype)
    if name not in backend.dtypes:
        raise InputError(
            f"dtype is {quote(dtype)}: gemm backend {backend.name!r} returns "
            f"{' or '.join(backend.dtypes)}"
        )
    return name


def why(a: MXArray, b: MXArray) -> Choice:
    """Return what ``backend="auto"`` picks for two operands, and why nothing else.

    ``str`` of it is one line for each backend: what it cannot serve, or that another was measured
    to be faster. Raises InputError as ``gemm`` does. Source: ``CROSSOVERS``.

    >>> from mxlab.arrays import quantize
    >>> a = quantize([[1.0] * 32])
    >>> why(a, a).backend
    'numpy'
    """
    _check(a, b)
    return choose_backend(a, b, BACKENDS)


class Gemm:
    """The function ``gemm``, which can also say why: ``gemm.why(a, b)``."""

    why = staticmethod(why)

    def __call__(
        self, a: MXArray, b: MXArray, backend: str = "reference", *, dtype: Any = None
    ) -> Any:
        """Multiply two matrices along their quantised axes.

        ``a`` is (M, K) quantised along axis 1. ``b`` is a weight (N, K) quantised along axis 1
        (K-major; the result is a @ b.T), or (K, N) quantised along axis 0. The result is (M, N) in
        ``dtype``, one of the backend's (``BACKENDS``): float64 for ``reference``, float32 for the
        others unless asked. Scales are applied to each block of 32 along K, so both operands must
        be quantised along K. ``auto`` takes what was measured to be fastest, and ``gemm.why`` says
        which. Raises InputError where formats, layouts or K differ, for an unknown backend, and
        for one that cannot serve: the message says why, and names one that can.
        Source: OCP MX v1.0 section 6.2.

        >>> from mxlab.arrays import quantize
        >>> a = quantize([[1.0] * 32], "e4m3"); b = quantize([[2.0] * 32] * 3, "e4m3")
        >>> gemm(a, b).tolist()
        [[64.0, 64.0, 64.0]]
        """
        known = {**BACKENDS, "auto": BACKENDS["reference"]}
        chosen = choose("gemm backend", backend, known)
        _check(a, b)
        if backend == "auto":
            chosen = BACKENDS[choose_backend(a, b, BACKENDS).backend]
        fault = chosen.fault(a, b)
        if fault:
            other = choose_backend(a, b, BACKENDS).backend
            raise InputError(f"gemm backend {chosen.name!r}: {fault}; {other!r} serves")
        return chosen.run(a, b, _dtype(chosen, dtype, a))


gemm = Gemm()
