"""What reading a scale buffer as another layout costs: blocks, rows, errors, NaN."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mxlab.block import BLOCK
from mxlab.detect_evidence import element_values
from mxlab.detect_readings import CANDIDATES, Shape, places, sample
from mxlab.errors import InputError, choose
from mxlab.formats import element_format
from mxlab.layout import LayoutLike, ScaleLayout
from mxlab.mxarray import Bytes, MXArray

_TOKENS, _CHANNELS = 16, 256  # of the small product


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """``blocks`` of ``rows`` rows were compared: all, or a sample of a large matrix.

    ``blocks_touched`` get another scale, in ``rows_touched`` rows. Whatever the bytes are,
    ``blocks_in_place`` have theirs at one address in both layouts, ``rows_in_place`` all of theirs.
    ``beyond`` blocks are read past the end of the buffer: what they get is unknown, and they count
    in no error. ``nan_blocks`` become NaN. ``relative_error`` is the root of error energy over
    signal energy of the decoded matrix, NaN left out; ``gemm_error`` the same for a product with
    ``gemm_outputs`` results, of which ``gemm_nan`` are NaN. Errors are None without codes, or where
    nothing is left to compare.
    """

    actual: str
    read_as: str
    rows: int
    blocks: int
    rows_touched: int
    blocks_touched: int
    blocks_in_place: int
    rows_in_place: int
    beyond: int
    nan_blocks: int
    relative_error: float | None
    gemm_error: float | None
    gemm_nan: int
    gemm_outputs: int


def _layout(name: LayoutLike) -> ScaleLayout:
    return name if isinstance(name, ScaleLayout) else choose("layout", name, CANDIDATES)


def _values(
    buffer: Bytes, found: ScaleLayout, shape: Shape
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return scales as float64, their byte offsets, and which lie in the buffer."""
    at = places(found, shape)
    length = len(buffer) // found.itemsize
    inside = at < length
    index = np.where(inside, at, 0)
    if found.itemsize == 4:
        words = buffer[: length * 4].view("<f4") if length else np.zeros(1, "<f4")
        scales = words[index].astype(np.float64)
    else:
        byte = buffer[index]
        scales = np.where(byte == 255, np.nan, np.ldexp(1.0, byte.astype(np.int64) - 127))
    return scales, at * found.itemsize, inside


def misread(
    buffer: Bytes,
    actual: LayoutLike,
    read_as: LayoutLike,
    rows: int,
    cols: int,
    *,
    codes: Bytes | None = None,
    fmt: str = "e4m3",
) -> Damage:
    """Return what reading a buffer (n,) in layout ``actual`` as ``read_as`` does.

    ``codes`` uint8 (rows, cols * 32) give the errors. The small product takes 16 tokens of normal
    random activations and up to 256 rows. Raises InputError for a buffer that is not ``actual``'s.

    >>> scales = np.arange(512, dtype=np.uint16).astype(np.uint8).reshape(128, 4)
    >>> found = misread(scales.reshape(-1), "linear", "tile_128x4", 128, 4)
    >>> found.rows_in_place, found.rows_touched
    (2, 126)
    """
    right, wrong = _layout(actual), _layout(read_as)
    needed = right.nbytes(rows, cols)
    if len(buffer) != needed:
        raise InputError(
            f"the buffer has {len(buffer)} bytes: expected {needed} for {rows} x {cols} scales in "
            f"layout {right.name!r}"
        )
    shape = sample(1, rows, cols)
    true, here, _ = _values(buffer, right, shape)
    read, there, inside = _values(buffer, wrong, shape)
    same = (true == read) | (np.isnan(true) & np.isnan(read))
    touched = inside & ~same
    error = gemm_error = None
    nan = outputs = 0
    if codes is not None:
        elements = element_values(codes[shape.taken], element_format(fmt))
        error = _error(true, read, inside, elements)
        gemm_error, nan, outputs = _product(true, read, inside, elements)
    return Damage(
        actual=right.name,
        read_as=wrong.name,
        rows=len(true),
        blocks=true.size,
        rows_touched=int(touched.any(axis=1).sum()),
        blocks_touched=int(touched.sum()),
        blocks_in_place=int((here == there).sum()),
        rows_in_place=int((here == there).all(axis=1).sum()),
        beyond=int((~inside).sum()),
        nan_blocks=int((inside & np.isnan(read) & ~np.isnan(true)).sum()),
        relative_error=error,
        gemm_error=gemm_error,
        gemm_nan=nan,
        gemm_outputs=outputs,
    )


def _ratio(error: float, signal: float) -> float | None:
    return math.sqrt(error / signal) if signal > 0 and math.isfinite(error) else None


def _error(
    true: NDArray[Any], read: NDArray[Any], inside: NDArray[Any], elements: NDArray[Any]
) -> float | None:
    energy = (elements**2).reshape(len(elements), -1, BLOCK).sum(axis=2)
    known = inside & np.isfinite(true) & np.isfinite(read) & np.isfinite(energy)
    lost = np.where(known, energy * (np.where(known, read, 0) - np.where(known, true, 0)) ** 2, 0)
    kept = np.where(known, energy * np.where(known, true, 0) ** 2, 0)
    return _ratio(float(lost.sum()), float(kept.sum()))


def _product(
    true: NDArray[Any], read: NDArray[Any], inside: NDArray[Any], elements: NDArray[Any]
) -> tuple[float | None, int, int]:
    rows = np.flatnonzero(inside.all(axis=1))[:_CHANNELS]
    if not len(rows):
        return None, 0, 0
    tokens = np.random.default_rng(0).standard_normal((_TOKENS, elements.shape[1]))
    with np.errstate(invalid="ignore", over="ignore"):
        wanted, found = (
            tokens @ (elements[rows] * np.repeat(scales[rows], BLOCK, axis=1)).T
            for scales in (true, read)
        )
        known = np.isfinite(wanted) & np.isfinite(found)
        lost = ((found - wanted)[known] ** 2).sum()
    nan = int((np.isnan(found) & ~np.isnan(wanted)).sum())
    return _ratio(float(lost), float((wanted[known] ** 2).sum())), nan, wanted.size


def damage(q: MXArray, read_as: LayoutLike) -> Damage:
    """Return what it does to read the scales of an MXArray as another layout.

    ``q`` is a matrix (R, K) quantised along its last axis, its scales in any layout.
    Raises InputError for other shapes and an unknown layout.

    >>> from mxlab.arrays import quantize
    >>> x = np.exp2(np.arange(128)[:, None] % 9) * np.ones((128, 128), np.float32)
    >>> found = damage(quantize(x.astype(np.float32)), "tile_128x4")
    >>> found.rows_in_place, found.relative_error > 1
    (2, True)
    """
    if len(q.shape) != 2 or q.axis != 1:
        raise InputError(f"q has shape {q.shape}, axis {q.axis}: expected a matrix, axis 1")
    rows, cols = q.scale_shape
    buffer = np.ascontiguousarray(q.scales).reshape(-1)
    return misread(buffer, q.scale_layout, read_as, rows, cols, codes=q.codes, fmt=q.format)
