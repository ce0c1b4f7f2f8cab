"""The readings of a scale buffer: what each layout of the right length makes of its bytes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mxlab.errors import InputError, choose, quote
from mxlab.float_scales import parse_words
from mxlab.layout import LAYOUTS, LayoutLike, ScaleLayout
from mxlab.mxarray import Bytes
from mxlab.scale import NAN_BYTE

Offsets = NDArray[np.int64]

BAND = 128  # rows of the tallest tile: rows are sampled in whole bands
MAX_CELLS = 2**20  # scales that are weighed; more are sampled

_MORE = (
    ScaleLayout(
        name="linear_transposed",
        summary="row-major (K/32, N): the linear form that some GEMMs want of a weight",
        formula="c*R + r",
        transposed=True,
        source="FlashInfer mm_mxfp8, linear b_descale",
    ),
    ScaleLayout(
        name="linear_float32",
        summary="row-major float32 numbers 2^(byte - 127)",
        formula="(r*C + c)*4",
        itemsize=4,
        source="float32 weight_scale_inv of block FP8 checkpoints",
    ),
)

#: name -> layout: every layout, and two more orders in which scales are met
CANDIDATES: Mapping[str, ScaleLayout] = {**LAYOUTS, **{row.name: row for row in _MORE}}


@dataclass(frozen=True, slots=True)
class Shape:
    """``batches`` scale matrices of ``rows`` x ``cols``; ``taken`` are the rows that are weighed.

    Rows are counted through all batches: row r of batch b is b * rows + r.
    """

    batches: int
    rows: int
    cols: int
    taken: NDArray[np.int64] = field(repr=False)

    @property
    def sampled(self) -> bool:
        """Whether not every row is weighed."""
        return len(self.taken) < self.batches * self.rows


def sample(batches: int, rows: int, cols: int) -> Shape:
    """Return the shape with bands of rows, evenly spread, of at most about ``MAX_CELLS`` scales.

    >>> len(sample(1, 100_000, 256).taken) * 256 <= MAX_CELLS
    True
    """
    total = batches * rows
    if total * cols <= MAX_CELLS:
        return Shape(batches, rows, cols, np.arange(total))
    bands = max(1, min(MAX_CELLS // (BAND * cols), -(-total // BAND)))
    starts = np.linspace(0, max(total - BAND, 0) // BAND, bands).astype(np.int64) * BAND
    taken = (np.unique(starts)[:, None] + np.arange(BAND)).reshape(-1)
    return Shape(batches, rows, cols, taken[taken < total])


def places(found: ScaleLayout, shape: Shape, taken: NDArray[np.int64] | None = None) -> Offsets:
    """Return the offset of the scales of some rows, in scales: (rows taken, cols)."""
    rows, cols = shape.rows, shape.cols
    at: Any = found.at  # plain arithmetic: it takes arrays too
    batch, row = np.divmod(shape.taken if taken is None else taken, rows)
    by_row = at(row, 0, rows, cols) + batch * found.nbytes(rows, cols)
    by_col = at(0, np.arange(cols, dtype=np.int64), rows, cols)
    return np.asarray((by_row[:, None] + by_col) // found.itemsize, np.int64)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Reading:
    """The scales (rows taken, cols) as ``names`` read them: layouts that place all of them alike.

    ``padding`` counts the buffer's bytes that hold no scale, ``dirty`` those of them that are not
    0, ``where`` says which bytes they are.
    """

    names: tuple[str, ...]
    layout: ScaleLayout
    scales: Bytes = field(repr=False)
    places: Offsets = field(repr=False)
    where: NDArray[np.bool_] = field(repr=False)
    padding: int
    dirty: int


@dataclass(frozen=True, slots=True)
class Readings:
    """The readings that are possible, and why each of the other layouts is not."""

    possible: tuple[Reading, ...]
    excluded: tuple[tuple[str, str], ...]


def chosen(candidates: Sequence[LayoutLike] | None) -> list[ScaleLayout]:
    """Return the layouts to weigh: all, or those named.

    >>> [found.name for found in chosen(["linear"])]
    ['linear']
    """
    if candidates is None:
        return list(CANDIDATES.values())
    if isinstance(candidates, str | ScaleLayout) or not candidates:
        raise InputError(f"candidates are {quote(candidates)}: expected a list of layouts")
    return [
        c if isinstance(c, ScaleLayout) else choose("layout", c, CANDIDATES) for c in candidates
    ]


def _read(buffer: Bytes, found: ScaleLayout, at: Offsets) -> tuple[Bytes, int]:
    """Return the scales at the places, and how many have no E8M0 byte or are NaN."""
    if found.itemsize == 1:
        return buffer[at], 0
    scales, known = parse_words(buffer.view("<u4")[at])
    return scales, int((~known | (scales == NAN_BYTE)).sum())


def _padding(found: ScaleLayout, shape: Shape, length: int) -> NDArray[np.bool_]:
    where = np.ones(length // found.itemsize, bool)
    step = max(1, MAX_CELLS // shape.cols)
    for start in range(0, shape.batches * shape.rows, step):
        stop = min(start + step, shape.batches * shape.rows)
        where[places(found, shape, np.arange(start, stop))] = False
    return np.repeat(where, found.itemsize)


def _other_way_round(found: ScaleLayout, shape: Shape, stored: tuple[int, ...]) -> bool:
    """Tell whether the array is stored as the other of (R, C) and (C, R)."""
    flat = found.name in ("linear", "linear_float32", "linear_transposed")
    mine, other = (shape.rows, shape.cols), (shape.cols, shape.rows)
    if found.transposed:
        mine, other = other, mine
    return flat and mine != other and stored[-2:] == other


def readings(
    buffer: Bytes, shape: Shape, candidates: Sequence[ScaleLayout], stored: tuple[int, ...] = ()
) -> Readings:
    """Return how the layouts of the right length read a buffer of bytes (n,).

    ``stored`` is the shape of the array they came in: (C, R) is no row-major (R, C). Where every
    word is a float32 power of two, only the float32 layouts remain: bytes do not look like that by
    chance.
    """
    possible: list[Reading] = []
    excluded = []
    for found in candidates:
        needed = shape.batches * found.nbytes(shape.rows, shape.cols)
        if needed != len(buffer):
            excluded.append((found.name, f"takes {needed:,} bytes"))
            continue
        if _other_way_round(found, shape, stored):
            sides = " x ".join(map(str, stored[-2:]))
            excluded.append((found.name, f"the array is stored as {sides}"))
            continue
        at = places(found, shape)
        alike = next(
            (
                i
                for i, other in enumerate(possible)
                if other.layout.itemsize == found.itemsize and np.array_equal(other.places, at)
            ),
            None,
        )
        if alike is not None:
            possible[alike] = _renamed(possible[alike], found.name)
            continue
        scales, unknown = _read(buffer, found, at)
        if unknown > at.size // 100:  # some may be NaN
            excluded.append((found.name, f"{unknown:,} of its words are no powers of two"))
            continue
        where = _padding(found, shape, len(buffer))
        possible.append(
            Reading(
                names=(found.name,),
                layout=found,
                scales=scales,
                places=at,
                where=where,
                padding=int(where.sum()),
                dirty=int((buffer[where] != 0).sum()),
            )
        )
    if any(r.layout.itemsize == 4 for r in possible):
        for reading in possible:
            if reading.layout.itemsize == 1:
                excluded += [(n, "every word is a float32 power of two") for n in reading.names]
        possible = [r for r in possible if r.layout.itemsize == 4]
    return Readings(tuple(possible), tuple(excluded))


def _renamed(reading: Reading, name: str) -> Reading:
    return replace(reading, names=(*reading.names, name))
