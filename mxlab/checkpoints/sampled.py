"""Sample the scales of a checkpoint and hold their bytes against what they should be."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from mxlab.checkpoints.finding import Problem
from mxlab.checkpoints.names import fold
from mxlab.checkpoints.sample import PER_TENSOR, TOTAL, read_samples, share
from mxlab.checkpoints.scale_bytes import (
    Histogram,
    bare_codes,
    exponent_problems,
    float_problems,
)
from mxlab.checkpoints.tensors import EXPONENTS, FLOATS, Checkpoint, Tensor
from mxlab.checkpoints.tiled import STRONG, Reading, band_bytes, can_hide, judge
from mxlab.checkpoints.weights import Weight
from mxlab.models.quantization import Quantization

_BANDS = 2  # scales of one pattern whose order is looked at
_WEIGHT_BYTES = 4 << 10
_ZERO_CODES = frozenset((0x00, 0x80))


@dataclass(slots=True)
class Bytes:
    """Histograms by pattern of the scale, mistakes, and what cannot be told."""

    histograms: dict[str, Histogram] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    read: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return a JSON object."""
        rows = [{"pattern": name, **row.to_json()} for name, row in self.histograms.items()]
        return {"bytes_read": self.read, "scales": rows}


def _exponents(checkpoint: Checkpoint, scales: dict[str, Weight], found: Bytes) -> None:
    budget = share(len(scales))
    doubtful: list[tuple[Weight, list[Problem]]] = []
    tensors = [weight.scale for weight in scales.values() if weight.scale]
    for sample in read_samples(tensors, checkpoint.paths, budget):
        counts = Counter(sample.data)
        found.read += len(sample.data)
        histogram = found.histograms.setdefault(fold(sample.tensor.name).pattern, Histogram())
        histogram.counts.update(counts)
        histogram.tensors += 1
        problems = exponent_problems(sample, counts)
        if counts.keys() == {0}:
            doubtful.append((scales[sample.tensor.name], problems))
        else:
            found.problems += problems
    _settle_zeros(checkpoint, doubtful, found)


def _settle_zeros(
    checkpoint: Checkpoint, doubtful: list[tuple[Weight, list[Problem]]], found: Bytes
) -> None:
    """Scales that are all byte 0 are right where the weight is all zeros, and only there."""
    by_name = {weight.weight.name: (weight, problems) for weight, problems in doubtful}
    weights = [weight.weight for weight, _ in doubtful]
    for sample in read_samples(weights, checkpoint.paths, share(len(weights), TOTAL // 8)):
        weight, problems = by_name[sample.tensor.name]
        found.read += len(sample.data)
        if set(sample.data) <= _ZERO_CODES and weight.scale is not None:
            text = "holds byte 0 (2^-127) only, and the weight is zero"
            found.problems.append(Problem("byte-0-present", weight.scale.name, text, "note"))
        else:
            found.problems += problems


def _numbers(checkpoint: Checkpoint, scales: dict[str, Weight], ue8m0: bool, found: Bytes) -> None:
    total = odd = 0
    tensors = [weight.scale for weight in scales.values() if weight.scale]
    for sample in read_samples(tensors, checkpoint.paths, share(len(scales))):
        weight = scales[sample.tensor.name]
        found.read += len(sample.data)
        declared = ue8m0 or weight.format == "MXFP8, float scales"
        problems, count, no_power = float_problems(sample, declared)
        found.problems += problems
        total, odd = total + count, odd + no_power
    if total:
        tail = "" if odd else ": they can be stored as E8M0 without loss"
        found.notes.append(f"{odd} of {total} sampled float scales are no power of two{tail}")


def _order(checkpoint: Checkpoint, rows: Sequence[Sequence[Weight]], found: Bytes) -> None:
    """Look at whether scales of the right shape are in tiled order."""
    unsure = looked = 0
    for weights in rows:
        first = weights[0]
        cols = (first.k or 0) // 32
        whole = first.format == "MXFP8" and first.block == (1, 32) and (first.k or 0) % 32 == 0
        if not whole or not can_hide(first.n or 0, cols) or band_bytes(cols) > PER_TENSOR:
            continue
        step = max(1, (len(weights) - 1) // max(1, _BANDS - 1))
        chosen = [weight for weight in weights[::step][:_BANDS] if weight.scale]
        bands = [_first_band(weight.scale, cols) for weight in chosen if weight.scale]
        readings: list[Reading] = []
        for sample in read_samples(bands, checkpoint.paths, PER_TENSOR):
            found.read += len(sample.data)
            readings.append(judge(sample.data, cols))
        looked += 1
        if readings and all(reading.verdict == "tiled" for reading in readings):
            ratio = max(reading.ratio for reading in readings)
            text = "read as tile_128x4, row and column means leave "
            text += f"{100 * ratio:.0f} % of the variance that they leave read row by row"
            severity = None if ratio <= STRONG else "warning"
            found.problems += [
                Problem("tiled-as-linear", weight.scale.name, text, severity)
                for weight in chosen
                if weight.scale
            ]
        elif any(reading.verdict != "linear" for reading in readings):
            unsure += 1
    if unsure:
        found.notes.append(
            f"cannot tell row-major from tiled order in {unsure} of {looked} patterns: their "
            "scales are too uniform or too random"
        )


def _first_band(scale: Tensor, cols: int) -> Tensor:
    """Return the first 128 rows as a tensor of their own."""
    return Tensor(scale.name, scale.file, scale.dtype, (128, cols), scale.offset, band_bytes(cols))


def _bare(checkpoint: Checkpoint, rows: Sequence[Sequence[Weight]], found: Bytes) -> None:
    weights = [w.weight for weights in rows for w in weights if w.format == "BF16"]
    budget = min(_WEIGHT_BYTES, share(len(weights), TOTAL // 4))
    for sample in read_samples(weights, checkpoint.paths, budget):
        found.read += len(sample.data)
        problem = bare_codes(sample)
        if problem:
            found.problems.append(problem)


def read_bytes(
    checkpoint: Checkpoint, claim: Quantization | None, rows: Sequence[Sequence[Weight]]
) -> Bytes:
    """Sample scales (and a little of 16-bit weights) and return what their bytes say.

    ``rows`` are weights grouped by what they have in common. Raises InputError when a file cannot
    be read.
    """
    found = Bytes()
    exponents: dict[str, Weight] = {}
    numbers: dict[str, Weight] = {}
    for weights in rows:
        for weight in weights:
            scale = weight.scale
            if scale is None or not weight.quantized:
                continue
            if scale.dtype in EXPONENTS:
                exponents[scale.name] = weight
            elif scale.dtype in FLOATS:
                numbers[scale.name] = weight
    _exponents(checkpoint, exponents, found)
    _numbers(checkpoint, numbers, claim is not None and claim.scale == "ue8m0", found)
    _order(checkpoint, rows, found)
    _bare(checkpoint, rows, found)
    if not checkpoint.paths:
        found.notes.append("--bytes: no file with tensor data is here")
    return found
