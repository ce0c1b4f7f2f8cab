"""What the bytes of sampled scales say: exponents, numbers in disguise, tiles read as rows."""

import struct
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from math import frexp, isfinite, ldexp
from typing import Any

from mxlab.checkpoints.finding import Problem
from mxlab.checkpoints.sample import Sample, words

#: as E8M0, bytes below this are scales under 2^-63 and bytes from the other on 2^63 and more: no
#: layer has such weights, so a tensor that holds nothing else was written in another encoding
_LEAST, _MOST = 64, 190
#: bytes that a power of two from 1 to 64 has when it is cast by value
_POWERS = frozenset([0, *(1 << shift for shift in range(7))])

#: highest byte of a float32 from 2^-31 to 2^16: sign and exponent but for its last bit
_FLOAT_TOPS = frozenset(range(0x30, 0x48))

#: dtype -> width in bytes, mantissa bits, exponent bits
_FLOATS = {"F16": (2, 10, 5), "BF16": (2, 7, 8), "F32": (4, 23, 8), "F64": (8, 52, 11)}


@dataclass(slots=True)
class Histogram:
    """How often each byte occurs in the samples of some scales."""

    counts: Counter[int] = field(default_factory=Counter)
    tensors: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return a JSON object."""
        return {
            "tensors": self.tensors,
            "sampled": sum(self.counts.values()),
            "min": min(self.counts, default=None),
            "max": max(self.counts, default=None),
            "histogram": {str(byte): self.counts[byte] for byte in sorted(self.counts)},
        }


def exponent_problems(sample: Sample, counts: Counter[int]) -> list[Problem]:
    """Return the mistakes in the bytes of one E8M0 scale.

    ``counts`` is the sample's histogram. Source: OCP MX v1.0 (byte b is 2^(b-127), 255 is NaN);
    the bounds are those of weights that exist.
    """
    name, low, high = sample.tensor.name, min(counts), max(counts)
    seen = f"bytes {low}..{high} in {'all' if sample.complete else 'a sample'}"
    problems = []
    if lane := float_lanes(sample.data):
        text = f"{seen}: every {lane[0]} bytes are one {lane[1]} power of two"
        return [Problem("scale-float-in-disguise", name, text)]
    if high < _LEAST or (high == _LEAST and counts.keys() <= _POWERS):
        if counts.keys() <= _POWERS:
            text = f"{seen}, only 0 and powers of two: as E8M0 at most 2^{high - 127}"
            return [Problem("e8m0-cast-by-value", name, text)]
        text = f"{seen}: as E8M0 the largest scale is 2^{high - 127}"
        return [Problem("scale-float-in-disguise", name, text)]
    rest = [byte for byte in counts if byte]
    if min(rest) >= _MOST and high < 255:
        text = f"{seen}: as E8M0 the smallest scale is 2^{min(rest) - 127}; as int8 these are "
        text += f"exponents {min(rest) - 256}..{high - 256} without the bias of 127"
        return [Problem("scale-float-in-disguise", name, text)]
    if counts[255]:
        problems.append(Problem("byte-255-present", name, "holds byte 255 (NaN)"))
    if counts[0]:
        problems.append(Problem("byte-0-present", name, "holds byte 0 (2^-127)"))
    return problems


def float_lanes(data: bytes) -> tuple[int, str] | None:
    """Tell bytes that are float32 or bfloat16 powers of two viewed as uint8.

    A power of two has a zero mantissa, so the low bytes of every word are 0 and the sign is clear.

    >>> float_lanes(struct.pack("<4f", 0.5, 0.25, 2.0, 1.0))
    (4, 'float32')
    """
    if len(data) < 8 or len(data) % 4:
        return None
    if not any(data[0::4]) and not any(data[1::4]):
        tops = data[3::4]
        if set(data[2::4]) <= {0, 0x80} and set(tops) <= _FLOAT_TOPS:
            return 4, "float32"
    tops = data[1::2]
    if set(data[0::2]) <= {0, 0x80} and set(tops) <= _FLOAT_TOPS:
        return 2, "bfloat16"
    return None


def _value(bits: int, dtype: str) -> float:
    if dtype == "BF16":
        return float(struct.unpack("<f", struct.pack("<I", bits << 16))[0])
    code = {"F16": "<He", "F32": "<If", "F64": "<Qd"}[dtype]
    return float(struct.unpack("<" + code[2], struct.pack(code[:2], bits))[0])


def float_problems(sample: Sample, declared: bool) -> tuple[list[Problem], int, int]:
    """Return (mistakes, sampled scales, those that are no power of two) of float scales.

    ``declared``: the config says ue8m0, or the scale covers 32 values. Where it does not, numbers
    that are no powers of two are right and only counted.
    """
    dtype = sample.tensor.dtype or "F32"
    bits = Counter(words(sample.data, _FLOATS[dtype][0]))
    values = {word: _value(word, dtype) for word in bits}
    bad = [value for value in values.values() if not isfinite(value) or value <= 0]
    odd = {w: v for w, v in values.items() if isfinite(v) and v > 0 and frexp(v)[0] != 0.5}
    total, count = sum(bits.values()), sum(bits[word] for word in odd)
    problems = []
    if bad:
        problems.append(Problem("scale-not-finite", sample.tensor.name, f"holds {bad[0]!r}"))
    if odd and declared:
        text = f"{count} of {total} sampled scales are no power of two; {nearest_powers(odd)}"
        problems.append(Problem("scale-not-power-of-two", sample.tensor.name, text))
    return problems, total, count


def nearest_powers(odd: dict[int, float]) -> str:
    """Return what changing the scale of the first one alone would do to its weights.

    >>> nearest_powers({0: 0.002583741443231702})[-86:]
    '2^-9 (byte 118) would shrink the weights to 75.6 %, 2^-8 (byte 119) grow them to 151 %'
    """
    value = next(iter(odd.values()))
    exponent = frexp(value)[1] - 1
    low = ldexp(1.0, exponent) / value if exponent > -1074 else 0.0
    down, up = (min(max(exponent + step + 127, 0), 254) for step in (0, 1))
    return (
        f"{value!r}: 2^{exponent} (byte {down}) would shrink the weights to {100 * low:.1f} %, "
        f"2^{exponent + 1} (byte {up}) grow them to {200 * low:.0f} %"
    )


def bare_codes(sample: Sample) -> Problem | None:
    """Return the mistake where a 16-bit weight holds bare E4M3 numbers: its scale is missing.

    Every sampled number has at most 3 mantissa bits, which a trained weight meets by chance once
    in 16; the largest is exactly 448 or at least above 64, far above any trained weight.
    """
    dtype = sample.tensor.dtype or ""
    if dtype != "BF16" or len(sample.data) < 512:
        return None
    values = set(words(sample.data, 2))
    if any(word & 0xF for word in values):
        return None
    largest = max(abs(_value(word, dtype)) for word in values)
    if not 64 < largest <= 448:
        return None
    text = f"every sampled number is an E4M3 value, the largest is {largest:g}"
    return Problem("fp8-values-without-scale", sample.tensor.name, text)


def merge(samples: Iterable[Counter[int]]) -> Histogram:
    """Return one histogram of several scales."""
    found = Histogram()
    for counts in samples:
        found.counts.update(counts)
        found.tensors += 1
    return found
