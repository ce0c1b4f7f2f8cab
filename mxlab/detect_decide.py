"""The decision between readings of a scale buffer, and its confidence."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mxlab.detect_evidence import (
    Losses,
    additive,
    by_product,
    by_values,
    largest_log2,
    mean_difference,
    pairing,
    signs,
    tail,
)
from mxlab.detect_readings import Reading, Shape, chosen
from mxlab.formats import Format
from mxlab.mxarray import Bytes

THRESHOLD = 0.999  # confidence below which the answer is "cannot tell"
FOUND, UNSURE, NONE = "found", "cannot tell", "none"  # outcomes
_MISFIT = 0.02  # share of blocks that may contradict a reference: padding rows, edge policies
_MORE_REGULAR = 2.0  # deviations by which a rival may follow rows and columns more closely
_ZEROS = 0.05  # share of zeros among scales above which padding proves nothing
_EQUAL = 0.5  # random data have about an eighth of neighbours alike
_LIKELY = 0.99  # the most that scales without codes give
_DOUBT = 2.0  # neighbouring scales are not independent: so many deviations count as one


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One reading in the ranking, the best first.

    ``layouts`` place every scale alike on this shape. ``misfit`` is the share of blocks (rows of a
    product) that contradict the reference, ``deviation`` how many standard errors the reading is
    worse than the best one; None where not known. ``dirty`` counts padding bytes that are not 0.
    """

    layouts: tuple[str, ...]
    padding: int
    dirty: int
    misfit: float | None = None
    deviation: float | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """The ranking, the outcome (found, cannot tell, none), the confidence in the first, and why."""

    order: tuple[Candidate, ...]
    outcome: str
    confidence: float
    evidence: str
    why: str


@dataclass(frozen=True, slots=True)
class Judge:
    """What the readings are held against."""

    shape: Shape
    fmt: Format
    turned: bool
    codes: Bytes | None
    values: NDArray[Any] | None

    def lines(self, reading: Reading) -> Bytes:
        """The scales with the blocks of one line along the last axis."""
        return np.ascontiguousarray(reading.scales.T) if self.turned else reading.scales


@dataclass(frozen=True, slots=True)
class Reference:
    """``values``, or a ``product`` (M, R) of ``activations`` (M, K)."""

    name: str
    activations: NDArray[Any] | None = None
    product: NDArray[Any] | None = None


def weigh(
    possible: tuple[Reading, ...],
    judge: Judge,
    reference: Reference | None,
    buffer: Bytes,
    shape: Shape,
) -> Verdict:
    """Return the verdict on the possible readings: by reference, length, padding or codes."""
    if not possible:
        return Verdict((), NONE, 0.0, "length", _no_length(len(buffer), shape))
    if reference is not None:
        return _by_reference(possible, judge, reference)
    if len(possible) == 1:
        only = possible[0]
        how = "the only layout of this length"
        if only.layout.itemsize == 4:
            how = "every word is a float32 power of two"
        return Verdict((_candidate(only),), FOUND, 1.0, "length", f"{len(buffer):,} bytes: {how}")
    if all(np.array_equal(r.scales, possible[0].scales) for r in possible):
        span = np.unique(possible[0].scales)
        what = f"every scale is {span[0]}" if len(span) == 1 else "the scales are too uniform"
        why = f"{what}: all {len(possible)} readings give the same scales, so none does damage here"
        return Verdict(tuple(map(_candidate, possible)), UNSURE, 0.0, "scales", why)
    clean, confidence = _clean(possible, buffer)
    dirty = tuple(_candidate(r) for r in possible if r not in clean)
    if len(clean) == 1:
        return _by_padding(clean[0], dirty, confidence)
    if judge.codes is None:
        verdict = _by_scales(clean)
    else:
        verdict = _by_codes(clean, judge, largest_log2(judge.codes, judge.fmt))
    return replace(verdict, order=verdict.order + dirty)


def _outcome(confidence: float) -> str:
    return FOUND if confidence >= THRESHOLD else UNSURE


def _candidate(r: Reading, losses: Losses | None = None, worse: float | None = None) -> Candidate:
    misfit = None if losses is None else losses.misfit
    return Candidate(
        layouts=r.names, padding=r.padding, dirty=r.dirty, misfit=misfit, deviation=worse
    )


def _no_length(length: int, shape: Shape) -> str:
    b, r, c = shape.batches, shape.rows, shape.cols
    what = f"{b} x {r} x {c}" if b > 1 else f"{r} x {c}"
    hint = ""
    if b > 1:
        flat = [
            found.name
            for found in chosen(None)
            if b * found.nbytes(r, c) != length == found.nbytes(b * r, c)
        ]
        if flat:
            hint = f"; it is {flat[0]} of the batches flattened to {b * r} rows"
    return f"no layout of {what} scales takes {length:,} bytes{hint}"


def _by_reference(possible: tuple[Reading, ...], judge: Judge, reference: Reference) -> Verdict:
    def losses(reading: Reading) -> Losses:
        scales = judge.lines(reading)
        if reference.product is not None and reference.activations is not None:
            assert judge.codes is not None
            return by_product(
                scales, reference.product, reference.activations, judge.codes, judge.fmt
            )
        assert judge.values is not None
        with np.errstate(over="ignore"):
            values = judge.values.astype(np.float32)
        return by_values(scales, values, judge.codes, judge.fmt)

    ranked = sorted(((losses(r), r) for r in possible), key=lambda pair: float(pair[0].units.sum()))
    order, confidence = _against_best(ranked, signs)
    best, unit = ranked[0][0], "blocks" if reference.name == "values" else "output columns"
    misfit = best.misfit or 0.0
    name = ranked[0][1].names[0]
    if misfit > _MISFIT:
        why = (
            f"no layout fits: read as {name}, the best, {misfit:.1%} of the {unit} contradict the "
            f"{reference.name} (at most {_MISFIT:.0%} may); stale or foreign scales?"
        )
        return Verdict(order, NONE, 0.0, reference.name, why)
    if len(ranked) == 1:
        why = f"the only layout of this length, and {misfit:.1%} of the {unit} contradict it"
        return Verdict(order, FOUND, 1.0, reference.name, why)
    second, rival = ranked[1]
    why = (
        f"read as {name}, {misfit:.1%} of the {unit} contradict the {reference.name}; as "
        f"{rival.names[0]}, {second.misfit or 0.0:.1%}"
    )
    if confidence < THRESHOLD:
        why += f": too few {unit} differ"
    return Verdict(order, _outcome(confidence), confidence, reference.name, why)


def _against_best(
    ranked: list[tuple[Losses, Reading]],
    deviation: Callable[[Losses, Losses], float],
    doubt: float = 1.0,
) -> tuple[tuple[Candidate, ...], float]:
    best = ranked[0][0]
    order, confidence = [_candidate(ranked[0][1], best)], 1.0
    for losses, reading in ranked[1:]:
        worse = deviation(best, losses)
        confidence -= tail(worse / doubt)
        order.append(_candidate(reading, losses, worse))
    return tuple(order), max(confidence, 0.0)


def _clean(possible: tuple[Reading, ...], buffer: Bytes) -> tuple[tuple[Reading, ...], float]:
    """Return the readings whose padding is clean, and how sure it is that no other is right.

    All of them where there is no padding, or where zeros are too common elsewhere to tell.
    """
    clean = tuple(r for r in possible if r.padding and not r.dirty)
    others = [r for r in possible if r not in clean]
    if not clean or not others:
        return possible, 0.0
    zeros = max(float((buffer[~r.where] == 0).mean()) for r in clean)
    fewest = min(int((a.where & ~b.where).sum()) for a in clean for b in others)
    confidence = max(0.0, 1.0 - len(others) * (zeros + 0.01) ** fewest)
    if zeros > _ZEROS or confidence < THRESHOLD:
        return possible, 0.0
    return clean, confidence


def _by_padding(best: Reading, dirty: tuple[Candidate, ...], confidence: float) -> Verdict:
    others = tuple(sorted(dirty, key=lambda c: c.dirty))
    why = (
        f"all {best.padding:,} padding bytes of {best.names[0]} are 0; read as "
        f"{others[0].layouts[0]}, {others[0].dirty:,} of them are not"
    )
    return Verdict((_candidate(best), *others), FOUND, confidence, "padding", why)


def _by_codes(possible: tuple[Reading, ...], judge: Judge, largest: NDArray[Any]) -> Verdict:
    """Decide by whether the blocks' largest codes and their scales change together."""
    equal = _equal_neighbours(largest)
    ranked = sorted(
        ((pairing(judge.lines(r), largest), r) for r in possible),
        key=lambda pair: float(pair[0].units.sum()),
    )
    order, confidence = _against_best(ranked, mean_difference, _DOUBT)
    best, first = ranked[0]
    nothing = Losses(np.zeros(len(best.units)))
    itself = mean_difference(best, nothing)
    confidence = min(confidence, 1 - tail(itself / _DOUBT))
    name, rival = first.names[0], ranked[1][1].names[0]
    why = (
        f"read as {name}, codes and scales of neighbours change together by {itself:.1f} standard "
        f"errors, {order[1].deviation or 0.0:.1f} more than as {rival}"
    )
    if confidence < THRESHOLD:
        why += ": that can be chance; the scales are too uniform or too wild"
    elif equal > _EQUAL:
        confidence = min(confidence, 0.5)
        why += f", but {equal:.0%} of neighbouring blocks have equal maxima: a pattern, not data"
    elif (veto := _veto(ranked, judge, largest)) is not None:
        confidence = min(confidence, 0.5)
        why += f", but {veto}"
    return Verdict(order, _outcome(confidence), confidence, "codes", why)


def _equal_neighbours(largest: NDArray[Any]) -> float:
    """Return the share of neighbours along a row whose largest codes are equal."""
    known = np.isfinite(largest[:, 1:]) & np.isfinite(largest[:, :-1])
    equal = (largest[:, 1:] == largest[:, :-1]) & known
    return float(equal.sum() / max(int(known.sum()), 1))


def _veto(ranked: list[tuple[Losses, Reading]], judge: Judge, largest: NDArray[Any]) -> str | None:
    """Say what speaks against the best reading: extreme scales, or a rival that is more regular."""
    best = ranked[0][1]
    mine = additive(judge.lines(best), largest)
    for _, rival in ranked[1:]:
        if _extremes(best) > _extremes(rival):
            return (
                f"{_extremes(best)} of its scales are 0 or 255 and {_extremes(rival)} of "
                f"{rival.names[0]}'s"
            )
        if mean_difference(mine, additive(judge.lines(rival), largest)) < -_MORE_REGULAR:
            return f"rows and columns are more regular in {rival.names[0]}"
    return None


def _extremes(reading: Reading) -> int:
    return int(((reading.scales == 0) | (reading.scales == 255)).sum())


def _by_scales(possible: tuple[Reading, ...]) -> Verdict:
    """Rank by how well scales alone follow their rows and columns; never sure enough to decide.

    Scales that are equal in blocks look like rows when they are read in column order: what is
    the more regular reading need not be the right one.
    """
    ranked = sorted(
        ((additive(r.scales, None), r) for r in possible),
        key=lambda pair: float(pair[0].units.sum()),
    )
    order, confidence = _against_best(ranked, mean_difference, _DOUBT)
    likely = " or ".join(ranked[0][1].names)
    why = f"scales alone do not settle it ({likely} looks likeliest): give codes or values too"
    if confidence < _LIKELY:
        why = "scales alone do not settle it, and none looks likelier: give codes or values too"
    return Verdict(order, UNSURE, min(confidence, _LIKELY), "scales", why)
