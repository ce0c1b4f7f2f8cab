"""Which layout a scale buffer is in: by its length, its padding, and what fits the codes.

Nothing in a buffer says how it is laid out, and a wrong reading raises no error. A verdict is given
only where the confidence reaches ``THRESHOLD``; otherwise the answer is "cannot tell", and why.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mxlab.block import BLOCK
from mxlab.detect_decide import FOUND, THRESHOLD, Candidate, Judge, Reference, weigh
from mxlab.detect_readings import Shape, chosen, readings, sample
from mxlab.errors import InputError, quote, whole_number
from mxlab.formats import FormatLike, element_format
from mxlab.layout import MAX_SIDE, LayoutLike
from mxlab.mxarray import Bytes, normal_axis

__all__ = ["THRESHOLD", "Candidate", "Detection", "detect_layout", "scale_bytes"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Detection:
    """``verdict`` is the layout's name; None where ``outcome`` is "cannot tell" or "none" (fits).

    ``alike`` names further layouts that are the same on this shape. ``evidence`` is length,
    padding, values, product, codes or scales; ``why`` one sentence with the numbers.
    """

    outcome: str
    verdict: str | None
    alike: tuple[str, ...]
    confidence: float
    evidence: str
    why: str
    batches: int
    rows: int
    cols: int
    nbytes: int
    rows_weighed: int
    ranking: tuple[Candidate, ...]
    excluded: tuple[tuple[str, str], ...]


def detect_layout(
    scales: NDArray[Any],
    rows: int | None = None,
    cols: int | None = None,
    *,
    codes: Bytes | None = None,
    fmt: FormatLike = "e4m3",
    axis: int = -1,
    values: NDArray[Any] | None = None,
    activations: NDArray[Any] | None = None,
    product: NDArray[Any] | None = None,
    candidates: Sequence[LayoutLike] | None = None,
) -> Detection:
    """Say which layout the bytes of ``scales`` are in.

    ``scales`` is the buffer, of any shape: uint8, int32 (four bytes each) or float32, taken in the
    order of memory. ``rows`` and ``cols`` are those of the scale matrix; they follow from
    ``codes`` uint8 (R, K) or (B, R, K), quantised along ``axis``, or from ``values``, the numbers
    before quantisation. ``product`` (M, R) is what ``activations`` (M, K) times the weight
    transposed gave, or should give. ``candidates`` are the layouts to weigh, by default all.
    Raises InputError for parts that do not fit each other.

    >>> from mxlab.arrays import interleave, quantize
    >>> x = np.random.default_rng(0).standard_normal((256, 1024)).astype(np.float32)
    >>> q = quantize(x, axis=1)
    >>> found = detect_layout(interleave(q.scales, "tile_128x4"), codes=q.codes)
    >>> found.verdict, found.alike, found.evidence
    ('tile_128x4', ('kv_paged',), 'codes')
    """
    fmt = element_format(fmt)
    buffer = scale_bytes(scales)
    layouts = chosen(candidates)
    lines = _lines("codes", codes, axis), _lines("values", values, axis)
    flipped = _turned(codes, values, axis)
    shape = _shape(rows, cols, lines, turned=flipped)
    found = readings(buffer, shape, layouts, _stored(scales))
    judge = Judge(shape, fmt, flipped, *(_taken(part, shape, flipped) for part in lines))
    reference = _reference(activations, product, judge, shape)
    verdict = weigh(found.possible, judge, reference, buffer, shape)
    best = verdict.order[0].layouts if verdict.outcome == FOUND else ()
    return Detection(
        outcome=verdict.outcome,
        verdict=best[0] if best else None,
        alike=best[1:],
        confidence=verdict.confidence,
        evidence=verdict.evidence,
        why=verdict.why,
        batches=shape.batches,
        rows=shape.rows,
        cols=shape.cols,
        nbytes=len(buffer),
        rows_weighed=len(shape.taken),
        ranking=verdict.order,
        excluded=found.excluded,
    )


# ---- the input ----


def scale_bytes(scales: NDArray[Any]) -> Bytes:
    """Return the bytes (n,) of a scale array in the order of memory.

    ``scales`` is uint8, E8M0 (ml_dtypes), int32, uint32 or float32. Raises InputError otherwise.

    >>> scale_bytes(np.array([[1, 2], [3, 4]], np.uint8).T).tolist()
    [1, 2, 3, 4]
    """
    if not isinstance(scales, np.ndarray):
        raise InputError(f"scales are {type(scales).__name__}: expected a NumPy array")
    kinds = ("uint8", "int32", "uint32", "float32", "float8_e8m0fnu")
    if scales.dtype.name not in kinds:
        raise InputError(f"scales are {scales.dtype}: expected {', '.join(kinds)}")
    flat = scales.ravel(order="K")
    if not flat.size:
        raise InputError("scales are empty: expected 1 byte or more")
    if flat.dtype.itemsize == 4:
        flat = flat.astype(flat.dtype.newbyteorder("<"), copy=False)
    return np.ascontiguousarray(flat).view(np.uint8)


def _stored(scales: NDArray[Any]) -> tuple[int, ...]:
    """Return the shape in the order of memory: that of a Fortran-ordered array is turned round."""
    turned = scales.flags.f_contiguous and not scales.flags.c_contiguous
    return scales.shape[::-1] if turned else scales.shape


def _turned(codes: NDArray[Any] | None, values: NDArray[Any] | None, axis: int) -> bool:
    """Tell whether the blocks run down the columns."""
    part = codes if codes is not None else values
    return part is not None and normal_axis(axis, part.ndim) == part.ndim - 2


def _lines(name: str, part: NDArray[Any] | None, axis: int) -> NDArray[Any] | None:
    """Return the matrix with its blocks along the last axis, batches kept."""
    if part is None:
        return None
    if not isinstance(part, np.ndarray) or part.ndim not in (2, 3):
        dims = getattr(part, "ndim", type(part).__name__)
        raise InputError(f"{name} have dimensions {dims}: expected 2, or 3 with batches")
    if name == "codes" and part.dtype != np.uint8:
        raise InputError(f"codes are {part.dtype}: expected a uint8 array of bytes")
    axis = normal_axis(axis, part.ndim)
    if axis < part.ndim - 2:
        raise InputError(f"axis is {axis}: expected one of the last two")
    lines = np.moveaxis(part, axis, -1)
    if not lines.shape[-1] or lines.shape[-1] % BLOCK:
        length = lines.shape[-1]
        raise InputError(
            f"axis {axis} of {name} {part.shape} has {length} values: expected a multiple of "
            f"{BLOCK} ({length} % {BLOCK} = {length % BLOCK})"
        )
    return lines


def _shape(
    rows: int | None, cols: int | None, lines: tuple[NDArray[Any] | None, ...], *, turned: bool
) -> Shape:
    known = [part.shape for part in lines if part is not None]
    if len(set(known)) > 1:
        raise InputError(f"codes and values have shapes {known[0]} and {known[1]}: expected one")
    batches = 1
    if known:
        *batch, high, length = known[0]
        batches = batch[0] if batch else 1
        mine = (length // BLOCK, high) if turned else (high, length // BLOCK)
        for name, given, own in zip(("rows", "cols"), (rows, cols), mine, strict=True):
            if given is not None and given != own:
                raise InputError(f"{name} is {given}: expected {own}, as the codes or values have")
        rows, cols = mine
        if batches > 1 and turned:
            raise InputError("codes have batches and axis -2: expected one matrix at a time")
    if rows is None or cols is None:
        raise InputError("rows and cols are missing: expected those of the scale matrix, or codes")
    whole_number("rows", rows, 1, MAX_SIDE)
    whole_number("cols", cols, 1, MAX_SIDE)
    whole_number("batches", batches, 1, MAX_SIDE)
    if batches * rows * cols > 2**28:
        raise InputError(f"there are {batches * rows * cols:,} scales: expected at most 2^28")
    return sample(batches, rows, cols)


def _taken(part: NDArray[Any] | None, shape: Shape, turned: bool) -> NDArray[Any] | None:
    """Return the lines that belong to the scale rows that are weighed."""
    if part is None:
        return None
    lines = part.reshape(-1, part.shape[-1])
    if turned:  # a scale row is a block of every line
        blocks = lines.reshape(len(lines), -1, BLOCK)[:, shape.taken]
        return np.ascontiguousarray(blocks).reshape(len(lines), -1)
    return np.ascontiguousarray(lines[shape.taken])


def _reference(
    activations: NDArray[Any] | None, product: NDArray[Any] | None, judge: Judge, shape: Shape
) -> Reference | None:
    if (activations is None) != (product is None):
        missing = "product" if product is None else "activations"
        raise InputError(f"{missing} is missing: expected activations (M, K) and product (M, N)")
    if activations is not None and product is not None:
        codes = judge.codes
        if codes is None or judge.turned or shape.batches > 1:
            raise InputError("a product needs codes (N, K) of one matrix, quantised along axis 1")
        wanted = (activations.shape[0] if activations.ndim == 2 else -1, codes.shape[1])
        if activations.shape != wanted or product.shape != (wanted[0], shape.rows):
            raise InputError(
                f"activations have shape {activations.shape} and product {product.shape}: "
                f"expected (M, {codes.shape[1]}) and (M, {shape.rows})"
            )
        if not all(_is_float(part) for part in (activations, product)):
            raise InputError(f"product is {quote(product.dtype)}: expected floats for both")
        return Reference("product", activations, product[:, shape.taken])
    if judge.values is not None:
        if not _is_float(judge.values):
            raise InputError(f"values are {judge.values.dtype}: expected floats")
        return Reference("values")
    return None


def _is_float(part: NDArray[Any]) -> bool:
    return part.dtype.name in ("float16", "bfloat16", "float32", "float64")
