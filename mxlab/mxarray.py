"""MXArray: codes and scales in NumPy or torch, with everything that is needed to read them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from mxlab.block import BLOCK
from mxlab.errors import InputError, quote
from mxlab.formats import element_format
from mxlab.layout import ScaleLayout
from mxlab.layout import layout as get_layout
from mxlab.scale import get_rule
from mxlab.tensors import is_bytes, library, twin

Bytes = NDArray[np.uint8]


@dataclass(frozen=True, eq=False)
class MXArray:
    """Codes and scales, with everything that is needed to read them.

    Both are NumPy arrays, or torch tensors on one device.
    ``codes`` uint8 has the shape of the data (the quantised axis rounded up to 32 where
    ``padded`` > 0). ``scales`` uint8: in layout ``linear`` the same shape with the axis divided by
    32; in another layout one buffer of bytes for each matrix of the last two axes. ``shape`` is
    the data's own; ``padded`` counts the zeros appended along ``axis``. Two MXArrays are mixed
    only where format, axis and layout agree; arithmetic is refused (dequantize first).
    Raises InputError where the parts do not fit each other.

    >>> from mxlab.arrays import quantize
    >>> q = quantize([[1.0, -2.0] * 32], "e4m3", rule="rceil", axis=-1)
    >>> q.codes.shape, q.scales.tolist(), q.axis, q.layout
    ((1, 64), [[120, 120]], 1, 'linear')
    """

    codes: Bytes
    scales: Bytes
    format: str
    rule: str
    axis: int
    shape: tuple[int, ...]
    layout: str = "linear"
    layout_params: Mapping[str, int] = field(default_factory=dict)
    padded: int = 0

    __array_ufunc__ = None  # NumPy's operators raise instead of computing with codes

    def __post_init__(self) -> None:
        # aliases (float8_e4m3fn) become the name that messages and comparisons use
        object.__setattr__(self, "format", element_format(self.format).name)
        object.__setattr__(self, "rule", get_rule(self.rule).name)
        for name in ("codes", "scales"):
            array = getattr(self, name)
            if not is_bytes(array):
                kind = str(getattr(array, "dtype", type(array).__name__)).removeprefix("torch.")
                raise InputError(f"{name} are {kind}: expected a uint8 array of bytes")
        codes, scales = (_home(array) for array in (self.codes, self.scales))
        if codes != scales:
            raise InputError(f"codes are in {codes}, scales in {scales}: expected both in one")
        if self.codes.ndim != len(self.shape) or not 0 <= self.axis < self.codes.ndim:
            raise InputError(
                f"axis {quote(self.axis)} and shape {quote(self.shape)} do not fit codes of shape "
                f"{tuple(self.codes.shape)}: expected as many dimensions, and 0 <= axis < them"
            )
        full = list(self.shape)
        full[self.axis] += self.padded
        if tuple(full) != tuple(self.codes.shape) or full[self.axis] % BLOCK:
            raise InputError(
                f"codes have shape {tuple(self.codes.shape)}: expected {tuple(full)}, axis "
                f"{self.axis} a multiple of {BLOCK}"
            )
        expected = self.scale_shape
        if self.layout != "linear":
            expected = (*expected[:-2], self.scale_layout.nbytes(*expected[-2:]))
        if tuple(self.scales.shape) != expected:
            raise InputError(
                f"scales have shape {tuple(self.scales.shape)}: expected {expected} in layout "
                f"{self.layout!r} for codes of shape {tuple(self.codes.shape)}, axis {self.axis}"
            )

    @property
    def library(self) -> str:
        """Whose arrays codes and scales are: ``numpy`` or ``torch``."""
        return library(self.codes)

    @property
    def scale_shape(self) -> tuple[int, ...]:
        """Shape of the scales in layout ``linear``."""
        shape = list(self.codes.shape)
        shape[self.axis] //= BLOCK
        return tuple(shape)

    @property
    def scale_layout(self) -> ScaleLayout:
        """The layout of ``scales``."""
        return get_layout(self.layout, **self.layout_params)

    @property
    def nbytes(self) -> int:
        """Bytes of codes and scales together."""
        return self.codes.nbytes + self.scales.nbytes

    def __repr__(self) -> str:
        pad = f", padded={self.padded}" if self.padded else ""
        return (
            f"MXArray(shape={self.shape}, format={self.format!r}, rule={self.rule!r}, "
            f"axis={self.axis}, layout={self.layout!r}{pad})"
        )


def _home(array: object) -> str:
    device = getattr(array, "device", "cpu")
    return library(array) if str(device) == "cpu" else f"{library(array)} on {device}"


def require_same(a: MXArray, b: MXArray, names: Sequence[str], what: str) -> None:
    """Raise InputError, with both values, where two MXArrays differ in one of ``names``.

    >>> from mxlab.arrays import quantize
    >>> x = quantize([1.0] * 32, "e4m3"); y = quantize([1.0] * 32, "e5m2")
    >>> require_same(x, y, ["format"], "gemm")
    Traceback (most recent call last):
    mxlab.errors.InputError: gemm of format 'e4m3' with format 'e5m2': expected the same format
    """
    for name in names:
        left, right = getattr(a, name), getattr(b, name)
        if left != right:
            raise InputError(
                f"{what} of {name} {left!r} with {name} {right!r}: expected the same {name}"
            )


def concatenate(arrays: Sequence[MXArray], axis: int = 0) -> MXArray:
    """Join MXArrays along an axis that is not the quantised one.

    All must agree in format, rule, axis and padding, with scales in layout ``linear``: tiled
    scales cannot be joined without tiling them anew. Raises InputError otherwise.

    >>> from mxlab.arrays import quantize
    >>> q = quantize([[1.0] * 32], "e4m3")
    >>> concatenate([q, q]).shape
    (2, 32)
    """
    if not arrays:
        raise InputError("there are 0 arrays: expected 1 or more")
    first = arrays[0]
    for other in arrays[1:]:
        same = ("library", "format", "rule", "axis", "padded", "layout")
        require_same(first, other, same, "concatenate")
    axis = normal_axis(axis, len(first.shape))
    if axis == first.axis or first.layout != "linear":
        raise InputError(
            f"axis is {axis} and layout {first.layout!r}: expected an axis other than the "
            f"quantised {first.axis}, and layout 'linear' (deinterleave first)"
        )
    try:
        join = twin(first.codes).concatenate
        codes = join([a.codes for a in arrays], axis)
        scales = join([a.scales for a in arrays], axis)
    except ValueError as error:
        raise InputError(f"shapes do not fit: {error}") from None
    shape = list(codes.shape)
    shape[first.axis] -= first.padded
    return replace(first, codes=codes, scales=scales, shape=tuple(shape))


def normal_axis(axis: int, ndim: int) -> int:
    """Return an axis counted from the front, or raise InputError.

    >>> normal_axis(-1, 2)
    1
    """
    if isinstance(axis, bool) or not isinstance(axis, int) or not -ndim <= axis < ndim:
        raise InputError(f"axis is {quote(axis)}: expected {-ndim} to {ndim - 1}")
    return axis % ndim
