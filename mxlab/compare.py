"""One tensor under every rule and library profile: what each keeps and what it loses.

The rules quantise every block, streamed in chunks. The profiles run block by block in plain Python,
so they get a sample of blocks, drawn evenly at random with a fixed seed; the rules' figures on the
same sample stand beside theirs. A block with Inf or NaN is counted and left out of every figure.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mxlab.arrays import quantize
from mxlab.block import BLOCK
from mxlab.detect_evidence import element_values
from mxlab.errors import InputError, whole_number
from mxlab.formats import Format, FormatLike, element_format
from mxlab.mxarray import Bytes, normal_axis
from mxlab.profiles import get_profile, profiles
from mxlab.scale import NAN_BYTE, RULES, RuleLike, get_rule
from mxlab.tensors.numpy_blocks import as_float32

Floats = NDArray[np.float32]

SAMPLE = 256  # blocks that the profiles get
_CHUNK = 2**20  # values at a time
_SEED = 0


@dataclass(slots=True, kw_only=True)
class Score:
    """What one rule or profile does to ``blocks`` finite blocks.

    ``sqnr_db`` is 10 log10(sum value^2 / sum error^2), None where the error is 0.
    ``max_rel_error`` is the largest |error| / |value| over values that are not 0,
    ``max_error_of_amax`` the largest |error| over its block's maximum. ``saturated`` counts values
    beyond max * scale, ``underflowed`` values that became 0. ``nan_blocks`` are finite blocks with
    byte 255; their values count in no error. ``lowest`` and ``highest`` are the scale bytes used.
    """

    name: str
    blocks: int = 0
    max_rel_error: float = 0.0
    max_error_of_amax: float = 0.0
    saturated: int = 0
    underflowed: int = 0
    nan_blocks: int = 0
    lowest: int = 255
    highest: int = 0
    signal: float = field(default=0.0, repr=False)
    noise: float = field(default=0.0, repr=False)

    @property
    def sqnr_db(self) -> float | None:
        """Signal over quantisation noise in decibels."""
        if self.signal == 0 or self.noise == 0:
            return None
        return 10 * math.log10(self.signal / self.noise)

    def add(self, values: Floats, codes: Bytes, scales: Bytes, fmt: Format) -> None:
        """Count finite blocks: values (n, 32), codes (n, 32), scale bytes (n,)."""
        if not len(values):
            return
        self.blocks += len(values)
        self.lowest = min(self.lowest, int(scales.min()))
        self.highest = max(self.highest, int(scales.max()))
        decoded = element_values(codes, fmt)
        known = (scales != NAN_BYTE) & np.isfinite(decoded).all(axis=1)
        self.nan_blocks += int((~known).sum())
        value = values[known].astype(np.float64)
        scale = np.ldexp(1.0, scales[known].astype(np.int64) - 127)[:, None]
        decoded = decoded[known] * scale
        size, error = np.abs(value), np.abs(decoded - value)
        self.signal += float((size**2).sum())
        self.noise += float((error**2).sum())
        self.saturated += int((size > fmt.max_value * scale).sum())
        self.underflowed += int(((size > 0) & (decoded == 0)).sum())
        amax = size.max(axis=1, initial=0.0)
        relative = np.divide(error, size, out=np.zeros_like(error), where=size > 0)
        of_amax = np.divide(
            error.max(axis=1, initial=0.0), amax, out=np.zeros_like(amax), where=amax > 0
        )
        self.max_rel_error = max(self.max_rel_error, float(relative.max(initial=0.0)))
        self.max_error_of_amax = max(self.max_error_of_amax, float(of_amax.max(initial=0.0)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """``rules`` on all blocks; ``sampled_rules`` and ``profiles`` on ``sampled`` blocks.

    ``nonfinite`` blocks hold Inf or NaN and are left out; ``zeros`` counts the blocks of zeros.
    """

    shape: tuple[int, ...]
    dtype: str
    format: str
    axis: int
    padded: int
    blocks: int
    nonfinite: int
    zeros: int
    sampled: int
    rules: tuple[Score, ...]
    sampled_rules: tuple[Score, ...]
    profiles: tuple[Score, ...]


def _lines(x: NDArray[Any], axis: int, pad: bool) -> tuple[NDArray[Any], int]:
    """Return the array with the axis last, and how many zeros complete each line."""
    if not isinstance(x, np.ndarray) or x.ndim == 0:
        raise InputError("x has no dimensions: expected an array of 1 or more")
    axis = normal_axis(axis, x.ndim)
    length = x.shape[axis]
    missing = -length % BLOCK
    if x.size == 0 or (missing and not pad):
        raise InputError(
            f"axis {axis} of shape {x.shape} has {length} values: expected a multiple of {BLOCK} "
            f"({length} % {BLOCK} = {length % BLOCK}); with pad, {missing or BLOCK} zeros are "
            "appended"
        )
    return np.moveaxis(x, axis, -1), missing


def _chunks(lines: NDArray[Any], missing: int) -> Iterator[Floats]:
    """Yield the blocks (n, 32) as float32, in order, a bounded number at a time."""
    length = lines.shape[-1]
    flat = lines.reshape(-1, length) if lines.flags.c_contiguous else None
    count = lines.size // length
    step = max(1, _CHUNK // length)
    width = length if length <= _CHUNK else _CHUNK
    for start in range(0, count, step):
        if flat is not None:
            rows = flat[start : start + step]
        else:
            at = np.unravel_index(np.arange(start, min(start + step, count)), lines.shape[:-1])
            rows = lines[at] if at else lines[None]
        for begin in range(0, length, width):
            part = as_float32(rows[:, begin : begin + width]).astype(np.float32, copy=False)
            if missing and begin + width >= length:
                part = np.pad(part, ((0, 0), (0, missing)))
            yield np.ascontiguousarray(part).reshape(-1, BLOCK)


def compare(
    x: NDArray[Any],
    fmt: FormatLike = "e4m3",
    axis: int = -1,
    *,
    rules: Sequence[RuleLike] | None = None,
    profile_names: Sequence[str] | None = None,
    pad: bool = False,
    sample: int = SAMPLE,
) -> Comparison:
    """Return what every rule and profile does to a tensor.

    ``x`` is float32, float16, bfloat16 or float64 (rounded to float32 first), any shape; it may be
    mapped from a file. ``rules`` and ``profile_names`` choose, by default all; profiles are for
    E4M3 and get at most ``sample`` blocks. Raises InputError as ``quantize`` does.

    >>> x = np.random.default_rng(0).standard_normal((64, 128)).astype(np.float32)
    >>> found = compare(x, rules=["floor", "rceil"], profile_names=[])
    >>> [(score.name, round(score.sqnr_db, 1), score.saturated) for score in found.rules]
    [('floor', 30.5, 66), ('rceil', 31.5, 0)]
    """
    fmt = element_format(fmt)
    sample = whole_number("sample", sample, 1, 2**20)
    chosen = [get_rule(rule) for rule in (RULES if rules is None else rules)]
    if profile_names is None:
        profile_names = list(profiles()) if fmt.name == "e4m3" else []
    others = [get_profile(name) for name in profile_names]
    if others and fmt.name != "e4m3":
        raise InputError(f"profile {others[0].id!r} is for format 'e4m3': got {fmt.name!r}")
    lines, missing = _lines(x, axis, pad)
    blocks = lines.size // lines.shape[-1] * ((lines.shape[-1] + missing) // BLOCK)
    wanted = np.sort(
        np.random.default_rng(_SEED).choice(blocks, min(sample, blocks), replace=False)
    )
    scores = [Score(name=rule.name) for rule in chosen]
    kept, seen, nonfinite, zeros = [], 0, 0, 0
    for chunk in _chunks(lines, missing):
        finite: NDArray[np.bool_] = np.asarray(np.isfinite(chunk).all(axis=1))
        low, high = np.searchsorted(wanted, (seen, seen + len(chunk)))
        picked = wanted[low:high] - seen
        kept.append(chunk[picked[finite[picked]]])
        seen += len(chunk)
        nonfinite += int((~finite).sum())
        whole = chunk[finite]
        zeros += int((~whole.any(axis=1)).sum())
        for rule, score in zip(chosen, scores, strict=True):
            _add(score, whole, fmt, rule)
    few = np.concatenate(kept)
    sampled = [Score(name=rule.name) for rule in chosen]
    for rule, score in zip(chosen, sampled, strict=True):
        _add(score, few, fmt, rule)
    return Comparison(
        shape=tuple(x.shape),
        dtype=x.dtype.name,
        format=fmt.name,
        axis=normal_axis(axis, x.ndim),
        padded=missing,
        blocks=blocks,
        nonfinite=nonfinite,
        zeros=zeros,
        sampled=len(few),
        rules=tuple(scores),
        sampled_rules=tuple(sampled),
        profiles=tuple(_profile_score(profile, few, fmt) for profile in others),
    )


def _add(score: Score, blocks: Floats, fmt: Format, rule: RuleLike) -> None:
    if len(blocks):
        q = quantize(blocks, fmt, rule=rule, axis=-1)
        score.add(blocks, q.codes, q.scales[:, 0], fmt)


def _profile_score(profile: Any, blocks: Floats, fmt: Format) -> Score:
    score = Score(name=profile.id)
    found = [profile.quantize(block) for block in blocks.tolist()]
    if found:
        scales = np.array([byte for byte, _ in found], np.uint8)
        score.add(blocks, np.array([codes for _, codes in found], np.uint8), scales, fmt)
    return score
