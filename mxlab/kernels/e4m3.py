"""E4M3 codes and E8M0 scale bytes inside Triton kernels, from float32.

On a GPU the conversions are the hardware's; the interpreter's are wrong, so there the same bits
come from integer arithmetic. Tests compare both with the reference.
"""

import triton.language as tl

from mxlab.kernels.mode import HARDWARE, jit

# What to reduce with. Triton's own, because the interpreter knows them by name: it runs NumPy's
# reduction for these, and one Python call a value for any other.
larger = tl.standard._elementwise_max
add = tl.standard._sum_combine


@jit
def magnitude(x):  # type: ignore[no-untyped-def]
    """Return the bits of abs(x), float32 to int32: they sort like the values, NaN above Inf."""
    return x.to(tl.int32, bitcast=True) & 0x7FFFFFFF


@jit
def encode_e4m3(x):  # type: ignore[no-untyped-def]
    """Return the uint8 code of float32: nearest, ties to even, saturating at 448; NaN is 0x7F."""
    if HARDWARE:
        return x.to(tl.float8e4nv).to(tl.uint8, bitcast=True)
    bits = x.to(tl.int32, bitcast=True)
    size = bits & 0x7FFFFFFF
    normal = ((size + 0x7FFFF + ((size >> 20) & 1)) >> 20) - (120 << 3)
    # below 2^-6 the step is 2^-9: added to 2^14, whose last mantissa bit that is, it is rounded
    small = tl.minimum(size, 0x3C800000).to(tl.float32, bitcast=True) + 16384.0
    small = small.to(tl.int32, bitcast=True) - 0x46800000
    code = tl.minimum(tl.where(size < 0x3C800000, small, normal), 0x7E)
    code = code | ((bits >> 24) & 0x80)
    return tl.where(size > 0x7F800000, 0x7F, code).to(tl.uint8)


@jit
def scale_byte(amax, THRESHOLD: tl.constexpr, EMAX: tl.constexpr):  # type: ignore[no-untyped-def]
    """Return int32 bytes for the bits of amax (int32): 0..254, and 255 for Inf and NaN.

    THRESHOLD is ``ScaleRule.threshold(fmt)``, EMAX ``fmt.emax``. A subnormal amax has byte 0.
    """
    up = tl.where((amax & 0x7FFFFF) >= THRESHOLD, 1, 0)
    byte = tl.maximum((amax >> 23) - EMAX + up, 0)
    return tl.where(amax >= 0x7F800000, 255, byte)


@jit
def reciprocal(byte):  # type: ignore[no-untyped-def]
    """Return 2^(127 - byte) as float32 for bytes 0..254; the last is subnormal."""
    return tl.maximum((254 - byte) << 23, 0x400000).to(tl.float32, bitcast=True)


@jit
def bf16_to_f32(word):  # type: ignore[no-untyped-def]
    """Return float32 of bfloat16 bits, an int16."""
    return (word.to(tl.int32) << 16).to(tl.float32, bitcast=True)


@jit
def f32_to_bf16(x):  # type: ignore[no-untyped-def]
    """Return bfloat16 bits, an int16, of float32: nearest, ties to even; NaN is 0x7FFF."""
    if HARDWARE:
        return x.to(tl.bfloat16).to(tl.int16, bitcast=True)
    bits = x.to(tl.int32, bitcast=True)
    word = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    return tl.where((bits & 0x7FFFFFFF) > 0x7F800000, 0x7FFF, word).to(tl.int16)


@jit
def decode_e4m3(code):  # type: ignore[no-untyped-def]
    """Return float32 of uint8 codes, exactly; 0x7F and 0xFF are NaN."""
    if HARDWARE:
        return code.to(tl.float8e4nv, bitcast=True).to(tl.float32)
    word = code.to(tl.int32)
    size = word & 0x7F
    # exponent and mantissa where float32 has them: 2^120 makes up for the bias
    value = (size << 20).to(tl.float32, bitcast=True) * 1.329227995784916e36
    bits = tl.where(size == 0x7F, 0x7FC00000, value.to(tl.int32, bitcast=True))
    return (bits | ((word & 0x80) << 24)).to(tl.float32, bitcast=True)
