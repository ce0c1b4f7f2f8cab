"""The steps that libraries take from 32 values to a byte and codes, in their own arithmetic.

A profile is made of three steps: ``amax`` (values -> largest magnitude), ``scale`` (amax -> byte
and the divisor of the elements), ``cast`` (value / divisor -> code). A divisor of infinity stands
for a multiplier of 0: finite values become 0, Inf becomes NaN. Dividing by a power of two is exact
in a double; where a library's float32 would round, the result is far below the smallest code.
"""

import math
import struct
from collections.abc import Callable, Sequence
from fractions import Fraction

from mxlab.codec import encode_code
from mxlab.formats import E4M3
from mxlab.scale import RULES, float32_bits, float32_from_bits, scale_byte_from_bits

Round = Callable[[float], float]
Amax = Callable[[Sequence[float]], float]
Scale = Callable[[float], tuple[int, float]]
Cast = Callable[[float], int]

NAN_CODE, INF_BITS = E4M3.nan_code, 0x7F800000
LARGEST = 448.0
TINY = 2.0**-126  # smallest normal float32


class LibraryRaises(Exception):
    """The library itself raises for this block."""


# float32 and bfloat16 arithmetic: compute in a double, then round


def single(x: float) -> float:
    """Round to float32, overflowing to infinity."""
    try:
        return float(struct.unpack("<f", struct.pack("<f", x))[0])
    except OverflowError:
        return math.copysign(math.inf, x)


def bfloat(x: float) -> float:
    """Round a float32 result to bfloat16, ties to even."""
    x = single(x)
    if not math.isfinite(x):
        return x
    bits = float32_bits(x)
    bits += 0x7FFF + (bits >> 16 & 1)
    return float32_from_bits(bits & 0xFFFF0000)


def log2(x: float, rnd: Round = single) -> float:
    """Return log2 as a float32 (or bfloat16) library does: rounded, so wrong near powers of two."""
    if x == 0:
        return -math.inf
    return rnd(single(math.log2(x))) if math.isfinite(x) else x


def divisor(byte: int) -> float:
    """Return 2^(byte - 127), with infinity for 255."""
    return math.ldexp(1.0, byte - 127) if byte < 255 else math.inf


def divide(x: float, by: float) -> float:
    """Divide as float32 hardware does: by 0 too, where 0 / 0 is a NaN with its sign bit set."""
    if by:
        return x / by
    if math.isnan(x):
        return x
    return math.copysign(math.inf if x else math.nan, x if x else -1.0)


def _clamp(power: float, low: int, high: int) -> int:
    return int(min(max(power, low), high))


# amax


def amax_nan(values: Sequence[float]) -> float:
    """The largest magnitude; NaN if any value is (torch.amax)."""
    if any(map(math.isnan, values)):
        return math.nan
    return max(map(abs, values))


def amax_drop(values: Sequence[float]) -> float:
    """The largest magnitude of the values that are not NaN; NaN if all are (hardware max)."""
    return max((abs(v) for v in values if not math.isnan(v)), default=math.nan)


def amax_from_zero(values: Sequence[float]) -> float:
    """As amax_drop, but 0 if all are NaN (fmaxf, starting at 0)."""
    return max((abs(v) for v in values if not math.isnan(v)), default=0.0)


def amax_std_max(values: Sequence[float]) -> float:
    """C++ ``amax = std::max(|v|, amax)``: a NaN stays only until the next value replaces it."""
    top = 0.0
    for value in values:
        top = top if abs(value) < top else abs(value)
    return top


# scale


def exact(rule: str, *, even_overflows: bool = False) -> Scale:
    """A rule on bits; Inf and NaN are 255, as is what ``even_overflows`` rounds up to Inf."""

    def scale(amax: float) -> tuple[int, float]:
        bits = float32_bits(amax) & 0x7FFFFFFF
        if even_overflows and bits + 0x80000 >= INF_BITS:
            bits = INF_BITS
        byte = scale_byte_from_bits(bits, E4M3, RULES[rule])
        return byte, math.nan if byte == 255 else divisor(byte)

    return scale


def rceil_float(
    *, inf: int = 255, nan: int = 255, zero_flushes: bool = False, divide: bool = False
) -> Scale:
    """NVIDIA's rule as it is written: the fields of float32 amax * (1/448), rounded up.

    It is RCEIL on bits for every normal quotient; a subnormal one has been rounded before.
    """

    def scale(amax: float) -> tuple[int, float]:
        if not math.isfinite(amax):
            byte = nan if math.isnan(amax) else inf
        else:
            exponent, mantissa = _quotient(amax, divide)
            byte = exponent + (mantissa > (0x400000 if exponent == 0 else 0))
        if byte == 0 and zero_flushes:
            return 0, math.inf
        return byte, math.nan if byte == 255 else divisor(byte)

    return scale


def _quotient(amax: float, divide: bool = False) -> tuple[int, int]:
    """Exponent and mantissa fields of amax / 448 in float32, by the reciprocal or by division."""
    bits = float32_bits(single(amax / LARGEST if divide else amax * single(1 / LARGEST)))
    return bits >> 23 & 0xFF, bits & 0x7FFFFF


def torchao_018(rule: str) -> Scale:
    """torchao 0.18 FLOOR, CEIL, EVEN: Inf is an exponent like others, the divisor is normal."""

    def scale(amax: float) -> tuple[int, float]:
        if math.isnan(amax):
            return 255, math.inf
        bits = float32_bits(amax)
        if rule == "even":
            bits = min(bits + 0x80000, INF_BITS)
        up = rule == "ceil" and bits & 0x7FFFFF > 0
        byte = _clamp((bits >> 23) + up - 8, 0, 255)
        return byte, max(divisor(byte), TINY)

    return scale


def ceil_log2(
    *,
    clamp: float = 0.0,
    inf: int = 254,
    nan: tuple[int, float] = (0, 2.0**-127),
    zero_scale: float = 2.0**-127,
) -> Scale:
    """ceil(log2(amax / 448)) in float32. ``zero_scale`` is the divisor at byte 0."""

    def scale(amax: float) -> tuple[int, float]:
        if math.isnan(amax):
            return nan
        ratio = single(max(amax, clamp) / LARGEST)
        power = log2(ratio)
        byte = inf if math.isinf(ratio) else _clamp(_ceil(power), -127, 127) + 127
        return byte, zero_scale if byte == 0 else divisor(byte)

    return scale


def _ceil(power: float) -> float:
    return float(math.ceil(power)) if math.isfinite(power) else power


def _floor(power: float) -> float:
    return float(math.floor(power)) if math.isfinite(power) else power


def vllm_older(amax: float) -> tuple[int, float]:
    """floor(log2 amax) without the element's 8; all NaN where amax is, with byte 0."""
    if math.isnan(amax):
        return 0, math.nan
    byte = _clamp(_floor(log2(max(amax, TINY))) + 127, 0, 254)
    return byte, divisor(byte)


def flashinfer_trace(amax: float) -> tuple[int, float]:
    """floor(log2(amax / 448)); an infinite power becomes the most negative integer."""
    ratio = single(amax / LARGEST)
    power = _floor(log2(ratio if ratio > 0 else 1.0))
    byte = _clamp(-math.inf if math.isinf(power) else power, -127, 128) + 127
    return byte, divisor(byte)


def flashinfer_host(amax: float) -> tuple[int, float]:
    """RCEIL on bits; an element factor of 1 at byte 0, NaN is byte 0."""
    byte, _ = rceil_float(nan=0)(amax)
    return byte, {0: 1.0, 255: 2.0**128}.get(byte, divisor(byte))


def flashinfer_cute_dsl(amax: float) -> tuple[int, float]:
    """Bits of amax * (1/448), saturating at 254; a factor of 0 at bytes 0 and 254."""
    exponent, mantissa = _quotient(amax)
    up = mantissa > (0x400000 if exponent == 0 else 0)
    byte = min(exponent + up, 254)
    return byte, math.inf if byte in (0, 254) else divisor(byte)


def flashinfer_cuda(amax: float) -> tuple[int, float]:
    """As the CuTe-DSL kernel, with a subnormal quotient flushed to 0 and NaN as 255."""
    exponent, mantissa = _quotient(amax)
    if exponent == 0:
        return 0, math.inf
    if exponent == 255:
        return (255 if mantissa else 254), math.inf
    return exponent + (mantissa > 0), divisor(exponent + (mantissa > 0))


def deepgemm(floor: float, low: int, high: int) -> Scale:
    """amax clamped from below, amax / 448 rounded up to a power of two, the byte clamped."""

    def scale(amax: float) -> tuple[int, float]:
        least = single(floor)
        bits = float32_bits(single((amax if not amax < least else least) / LARGEST))
        byte = _clamp((bits >> 23 & 0xFF) + (bits & 0x7FFFFF > 0), low, high)
        return byte, divisor(byte)

    return scale


def triton_kernels(*, up: bool, divide_by: float = LARGEST, nan: int | None = None) -> Scale:
    """amax / 448 with its mantissa cut off, rounded up before where ``up``; byte 0 multiplies by 0.

    The rounding is a 32-bit addition, so that NaN wraps round to 0 (``nan``: what is done instead).
    """

    def scale(amax: float) -> tuple[int, float]:
        if math.isnan(amax) and nan is not None:
            return nan, math.inf
        bits = float32_bits(single(amax / divide_by)) & 0x7FFFFFFF
        byte = (bits + (0x7FFFFF if up else 0) & INF_BITS) >> 23
        return byte, math.inf if byte == 0 else divisor(byte)

    return scale


def compressed_tensors(amax: float) -> tuple[int, float]:
    """amax + 0x200000 in bits (the FP4 half step), then floor(log2) - 8; NaN is byte 0."""
    if math.isnan(amax):
        return 0, divisor(0)
    bits = float32_bits(amax) + 0x200000 & 0xFF800000
    power = math.inf if bits >= INF_BITS else _floor(log2(float32_from_bits(bits)))
    byte = _clamp(127 + power - 8, 0, 255)
    return byte, divisor(byte)


def quark(rule: str, rnd: Round, epsilon: float | None = None) -> Scale:
    """Quark's float scale 2^(round(log2 amax) - 8) in the tensor's dtype, and the byte made of it.

    In floor and ceil a scale that underflows to 0 becomes ``epsilon``, the dtype's unless given,
    and elements are divided by a float scale that can be smaller than byte 0 says.
    """
    if epsilon is None:
        epsilon = 2.0**-23 if rnd is single else 2.0**-7

    def scale(amax: float) -> tuple[int, float]:
        if math.isnan(amax) or (math.isinf(amax) and rule != "even"):
            return 255, amax  # the float scale is NaN or Inf too: 255 stands for either
        if rule == "even":
            bits = float32_bits(amax) + 0x80000 & 0xFF800000
            power = math.inf if bits >= INF_BITS else _floor(log2(float32_from_bits(bits)))
            byte = _clamp(power - 8, -127, 127) + 127
            return byte, divisor(byte)
        power = {"floor": _floor, "ceil": _ceil}[rule](log2(amax, rnd))
        value = rnd(math.ldexp(1.0, int(power) - 8)) if math.isfinite(power) else 0.0
        value = value or epsilon
        return _clamp(log2(value), -127, 127) + 127, value

    return scale


def microxcaling(rnd: Round, *, flush: bool) -> Scale:
    """floor(log2 amax) - 8 in the tensor's dtype; beyond 127, Inf and NaN make the block NaN."""

    def scale(amax: float) -> tuple[int, float]:
        power = _floor(log2(amax if amax else TINY, rnd))
        if math.isnan(power) or power - 8 > 127:
            return 255, math.nan
        byte = max(int(power) - 8, -127) + 127
        return byte, math.inf if flush and power <= -127 else divisor(byte)

    return scale


def gfloat(amax: float) -> tuple[int, float]:
    """floor(log2 amax) - 8 in doubles, clamped; NaN cannot be converted and raises."""
    if math.isnan(amax):
        raise LibraryRaises("ValueError: cannot convert float NaN to integer")
    power = math.floor(math.log2(amax)) if 0 < amax < math.inf else math.copysign(999, amax - 1)
    byte = _clamp(power - 8, -127, 127) + 127
    return byte, divisor(byte)


def mlx(amax: float) -> tuple[int, float]:
    """MLX's CPU path: log2(amax / 448) in float32 to the nearest whole number, byte modulo 256.

    Nothing clamps the byte, so tiny blocks wrap round to large ones. Inf and NaN go through a
    conversion to an integer that C++ leaves undefined: on x86-64 byte 128 and a divisor of 0.
    """
    if not math.isfinite(amax):
        return 128, 0.0
    quotient = single(amax / LARGEST)
    if quotient == 0:
        return 127, 1.0
    power = round(log2(quotient))
    return (power + 127) & 0xFF, math.ldexp(1.0, power)


def swizzled_triton(amax: float) -> tuple[int, float]:
    """RCEIL on bits where Inf is an exponent like others: byte 247."""
    return (247, divisor(247)) if math.isinf(amax) else exact("rceil")(amax)


# cast


def saturating(x: float, rounding: str = "nearest-even") -> int:
    """To E4M3: nearest even, beyond 448 (Inf too) to 448, NaN kept."""
    if math.isnan(x):
        return NAN_CODE
    negative = math.copysign(1.0, x) < 0
    return encode_code(Fraction(min(abs(x), LARGEST)), negative, E4M3, rounding)


def plain_zero(x: float) -> int:
    """As saturating, after adding a zero point of 0 in float32: -0 becomes 0."""
    return saturating(single(x) + 0.0)


def nan_by_sign(x: float) -> int:
    """As saturating, but NaN becomes 448 with the NaN's own sign."""
    return saturating(math.copysign(LARGEST, x) if math.isnan(x) else x)


def nan_to_448(x: float) -> int:
    """As saturating, clamped by instructions that prefer numbers: NaN becomes 448."""
    return E4M3.max_code if math.isnan(x) else saturating(x)


def nan_to_minus_448(x: float) -> int:
    """As saturating, clamped from below first by such instructions: NaN becomes -448."""
    return E4M3.max_code | 0x80 if math.isnan(x) else saturating(x)


def microxcaling_cast(rounding: str, rnd: Round) -> Cast:
    """microxcaling's own rounding in float arithmetic, each step rounded to the tensor's dtype.

    The exponent comes from floor(log2), so just below a power of two the step is twice too wide.
    """

    def cast(x: float) -> int:
        if math.isnan(x):
            return NAN_CODE
        size = abs(rnd(x))
        power = max(_floor(log2(size, rnd)), -6.0) if size else 0.0
        steps = rnd(size / 2.0**power * 8)
        if rounding == "floor":
            whole = math.floor(steps)
        else:
            whole = math.floor(rnd(steps + 0.5))
            if rounding == "even" and (steps - 0.5) % 2 == 0:
                whole -= 1
        sign = math.copysign(1.0, x) if size else 1.0
        return saturating(math.copysign(whole / 8 * 2.0**power, sign))

    return cast
