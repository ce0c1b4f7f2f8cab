"""One block: up to 32 float32 values, one E8M0 scale, 32 element codes, and what was lost.

Edge policy: a block of zeros has byte 0 and codes of zero that keep their sign; subnormals are
kept; any Inf or NaN makes the byte 255 and the whole block NaN; elements saturate.
"""

import math
from collections.abc import Iterable, Sequence, Sized
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice

from mxlab.codec import Number, decode, encode_code
from mxlab.errors import InputError, quote
from mxlab.formats import Format, FormatLike, element_format
from mxlab.scale import (
    NAN_BYTE,
    RuleLike,
    ScaleRule,
    float32_bits,
    float32_from_bits,
    get_rule,
    scale_byte_from_bits,
    scale_value,
)

_INF = 0x7F800000

BLOCK = 32  # values that share one scale, by OCP MX v1.0 section 5.2


@dataclass(frozen=True, slots=True)
class Block:
    """A quantised block.

    ``values`` are the 32 float32 inputs, zeros appended; ``given`` is how many there were.
    ``decoded`` is code * scale, exact in a double. ``max_rel_error`` is the largest
    |decoded - value| / |value| over the values that are not zero; ``sqnr_db`` is
    10 log10(sum value^2 / sum error^2). Both are None for a block with Inf or NaN, ``sqnr_db``
    also where the error is 0 (the ratio is infinite, or 0 / 0 for zeros). ``rule`` is None where
    a ``profile`` was asked for.
    """

    values: tuple[float, ...]
    given: int
    format: Format
    rule: ScaleRule | None
    profile: str | None
    amax: float
    scale_byte: int
    scale: float
    codes: tuple[int, ...]
    decoded: tuple[float, ...]
    saturated: int
    max_rel_error: float | None
    sqnr_db: float | None
    notes: tuple[str, ...]

    @property
    def zero_filled(self) -> int:
        """How many zeros were appended to make 32."""
        return BLOCK - self.given


def _float32_values(values: Iterable[Number]) -> tuple[list[int], int]:
    """Return the float32 bits of up to 32 values, and how many were not float32 before."""
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise InputError(f"values are {quote(values)}: expected a list of 1 to {BLOCK} numbers")
    taken = list(islice(values, BLOCK + 1))
    if not 1 <= len(taken) <= BLOCK:
        many = len(values) if isinstance(values, Sized) else f"over {BLOCK}"
        count = many if taken else 0
        raise InputError(
            f"a block has {count} values: expected 1 to {BLOCK}; the nearest is "
            f"{BLOCK if taken else 1}"
        )
    bits = [float32_bits(value, f"values[{i}]") for i, value in enumerate(taken)]
    rounded = 0
    for value, word in zip(taken, bits, strict=True):
        single = float32_from_bits(word)
        rounded += not (single == value or math.isnan(single))
    return bits, rounded


def errors(values: Sequence[float], decoded: Sequence[float]) -> tuple[float | None, float | None]:
    """Return (max_rel_error, sqnr_db) as Block defines them.

    >>> errors([3.0, 4.0], [3.0, 3.5])
    (0.125, 20.0)
    """
    if not all(map(math.isfinite, [*values, *decoded])):
        return None, None
    lost = [d - v for v, d in zip(values, decoded, strict=True)]
    relative = max((abs(e / v) for v, e in zip(values, lost, strict=True) if v), default=0.0)
    noise = math.fsum(e * e for e in lost)
    signal = math.fsum(v * v for v in values)
    return relative, 10 * math.log10(signal / noise) if signal and noise else None


def quantize_block(
    values: Iterable[Number],
    fmt: FormatLike = "e4m3",
    rule: RuleLike = "rceil",
    profile: str | None = None,
) -> Block:
    """Quantise one block of up to 32 values.

    ``values`` are float32 data: another number is rounded to the nearest float32 first, and
    ``notes`` says so. Fewer than 32 are filled up with zeros. Each element is value / scale
    rounded once, to nearest even. ``profile`` names a library whose behaviour is wanted instead.
    Raises InputError for no values, more than 32, one beyond float32, or an unknown name.
    Source: OCP MX v1.0 section 6.3; for the edges see this module.

    >>> block = quantize_block([1.0, 2.0, -3.5], "e4m3", rule="rceil")
    >>> block.scale_byte, [hex(code) for code in block.codes[:4]], block.zero_filled
    (120, ['0x70', '0x78', '0xfe', '0x0'], 29)
    """
    fmt, rule = element_format(fmt), get_rule(rule)
    bits, rounded = _float32_values(values)
    given = len(bits)
    bits += [0] * (BLOCK - given)
    floats = tuple(map(float32_from_bits, bits))
    top = max(word & 0x7FFFFFFF for word in bits)  # as integers NaN > Inf > finite
    notes = []
    if given < BLOCK:
        notes.append(f"{given} values: filled up with {BLOCK - given} zeros")
    if rounded:
        notes.append(f"{rounded} of the values are no float32: rounded to the nearest first")
    if profile is None:
        byte = scale_byte_from_bits(top, fmt, rule)
        codes = _codes(floats, byte, fmt)
    else:
        byte, codes, said = _as_library(floats, fmt, profile)
        notes += said
    decoded = tuple(dequantize_block(byte, codes, fmt))
    saturated = 0
    if byte != NAN_BYTE:
        limit = fmt.max_value * scale_value(byte)
        saturated = sum(abs(value) > limit for value in floats)
    if top >= _INF:
        then = "the whole block is NaN" if byte == NAN_BYTE else "the scale does not say so"
        notes.append(f"a value is Inf or NaN: byte {byte}, {then}")
    elif byte == NAN_BYTE:
        notes.append("byte 255 is NaN although every value is finite")
    if byte == 0 and top:
        notes.append("byte 0 is 2^-127: some libraries read it as 0.0, some flush such a block")
    if saturated:
        notes.append(f"{saturated} of the values saturate at {fmt.max_value:g} * scale")
    return Block(
        floats,
        given,
        fmt,
        rule if profile is None else None,
        profile,
        float32_from_bits(top),
        byte,
        scale_value(byte),
        codes,
        decoded,
        saturated,
        *errors(floats, decoded),
        tuple(notes),
    )


def _codes(floats: Sequence[float], byte: int, fmt: Format) -> tuple[int, ...]:
    if byte == NAN_BYTE:
        return (fmt.nan_code,) * BLOCK
    factor = Fraction(2) ** (127 - byte)
    signed = [(Fraction(abs(v)) * factor, math.copysign(1.0, v) < 0) for v in floats]
    return tuple(encode_code(x, negative, fmt) for x, negative in signed)


def _as_library(
    floats: Sequence[float], fmt: Format, name: str
) -> tuple[int, tuple[int, ...], list[str]]:
    from mxlab.profiles import get_profile  # the table is large: only for those who ask

    profile = get_profile(name)
    if fmt.name != "e4m3":
        raise InputError(f"profile {profile.id!r} is for format 'e4m3': got {fmt.name!r}")
    said = [f"{profile.library} {profile.version}, {profile.obtained}"]
    changed = sum(profile.round_input(v) != v for v in floats if not math.isnan(v))
    if changed:
        said.append(f"{changed} of the values are no {profile.dtypes}: rounded to it first")
    if profile.scale_only:
        said.append("the library's function gives the scale alone: codes are the saturating cast")
    return *profile.quantize(floats), said


def dequantize_block(
    scale_byte: int, codes: Iterable[int], fmt: FormatLike = "e4m3"
) -> list[float]:
    """Return code * 2^(scale_byte - 127) for each code, exactly; all NaN for byte 255.

    A double holds every result; float32 does not hold those above 3.4e38.
    Raises InputError for a byte or a code out of 0..255. Source: OCP MX v1.0 section 5.1.

    >>> dequantize_block(120, [0x70, 0x78, 0xFE], "e4m3")
    [1.0, 2.0, -3.5]
    """
    fmt, scale = element_format(fmt), scale_value(scale_byte)
    return [decode(code, fmt).value * scale for code in codes]
