"""Block-FP8 scales on their way to E8M0 bytes: for the MXFP8 kernels, gfx950, and Ascend."""

import struct

from mxlab.guards.engine import Finding, Guard, Status
from mxlab.guards.facts import Facts
from mxlab.guards.facts_steps import BlockScaleFacts
from mxlab.guards.findings import judge, modulo, pad, passes, silent, skipped, stops
from mxlab.guards.rows import FP8, FP8_UTILS, row

_NATIVE = "kernels/ops/gemm/mxfp8_native_amd_gfx95.py"
_NPU = "srt/hardware_backend/npu/quantization/w8a8_mxfp8.py"
_MANTISSA, _SIGN = 0x7FFFFF, 0x80000000
_INF = 0x7F800000


def float32_bits(value: float) -> int:
    """Return the bits of a number rounded to float32; what is too large becomes infinite.

    >>> hex(float32_bits(2.0 ** -7))
    '0x3c000000'
    """
    try:
        packed = struct.pack("<f", value)
    except OverflowError:
        packed = struct.pack("<f", float("inf") if value > 0 else float("-inf"))
    return int(struct.unpack("<I", packed)[0])


def block_fp8_scale_to_mxfp8_e8m0(step: BlockScaleFacts) -> list[list[int]]:
    """Return the E8M0 byte of each row and block of 32 of the weight: (n, k / 32).

    The caller has asked the rows blk2mx-k, blk2mx-shape and blk2mx-pow2 before. Source: sglang
    0.5.23, fp8_utils.py:965.

    >>> step = BlockScaleFacts(n=3, k=64, block_n=2, block_k=32, shape=(2, 2),
    ...                        values=(1.0, 0.5, 2.0, 4.0))
    >>> block_fp8_scale_to_mxfp8_e8m0(step)
    [[127, 126], [127, 126], [128, 129]]
    """
    groups = step.k // 32
    codes = [float32_bits(value) >> 23 & 0xFF for value in step.values]
    return [codes[n // step.block_n * groups :][:groups] for n in range(step.n)]


def scale_of(facts: Facts) -> BlockScaleFacts:
    """Return the scale; the engine asks these guards only where there is one."""
    assert isinstance(facts.step, BlockScaleFacts)
    return facts.step


def _for(facts: Facts, *conversions: str) -> Finding | None:
    step = scale_of(facts)
    if step.conversion not in conversions:
        return skipped(f"the conversion is {step.conversion}, not {' or '.join(conversions)}")
    return None


def _falls_back(bad: bool, because: str, message: int = 0, **values: object) -> Finding:
    return Finding(Status.FALLS_BACK, because, values, message) if bad else passes(because)


def _mx_k(facts: Facts) -> Finding:
    step = scale_of(facts)
    because = f"block K {step.block_k} against 32, {modulo('K', step.k, 32)}"
    bad = step.block_k != 32 or step.k % 32 != 0
    return _for(facts, "mxfp8") or _falls_back(bad, because, b=step.block_k, k=step.k)


def _mx_shape(facts: Facts) -> Finding:
    skip = _for(facts, "mxfp8")
    step = scale_of(facts)
    if skip:
        return skip
    if _mx_k(facts).status is not Status.PASSES:
        return skipped("blk2mx-k comes first")
    wanted = (pad(step.n, max(step.block_n, 1)) // max(step.block_n, 1), step.k // 32)
    because = f"scale {step.shape}, wanted (ceil(N / {step.block_n}), K / 32) = {wanted}"
    bad = tuple(step.shape) != wanted
    return _falls_back(bad, because, s=tuple(step.shape), w=(step.n, step.k))


def _bad_value(step: BlockScaleFacts) -> tuple[int, float] | None:
    """Return the first scale that is no positive power of two, by bits: infinity passes."""
    for place, value in enumerate(step.values):
        bits = float32_bits(value)
        if bits & _MANTISSA or bits & _SIGN or bits == 0:
            return place, value
    return None


def _mx_pow2(facts: Facts) -> Finding:
    skip = _for(facts, "mxfp8")
    if skip:
        return skip
    step = scale_of(facts)
    if Status.FALLS_BACK in (_mx_k(facts).status, _mx_shape(facts).status):
        return skipped("blk2mx-k or blk2mx-shape comes first")
    if not step.values:
        return Finding(Status.UNKNOWN, "the scales' values are not given")
    bad = _bad_value(step)
    if bad:
        return _falls_back(True, f"scale {bad[1]!r} at {bad[0]} is no positive normal power of two")
    return passes("every scale is a positive power of two; its exponent field is the byte")


def _mx_inf(facts: Facts) -> Finding:
    skip = _for(facts, "mxfp8")
    if skip:
        return skip
    if _mx_pow2(facts).status is not Status.PASSES:
        return skipped("blk2mx-k, blk2mx-shape or blk2mx-pow2 comes first")
    count = sum(float32_bits(value) == _INF for value in scale_of(facts).values)
    if count:
        return silent(f"{count} infinite scales become byte 255, which is E8M0's NaN")
    return passes("no scale is infinite")


def _mxscale(facts: Facts) -> Finding:
    skip = _for(facts, "mxscale")
    if skip:
        return skip
    step = scale_of(facts)
    wanted = (step.n // 128, step.k // 128)
    if step.n % 128 or step.k % 128 or tuple(step.shape) != wanted:
        sizes = f"{modulo('N', step.n, 128)}, {modulo('K', step.k, 128)}, scale {step.shape}"
        return skipped(f"{sizes}: only whole blocks of [128, 128] are looked at")
    bad = _bad_value(step)
    infinite = next((v for v in step.values if float32_bits(v) == _INF), None)
    if bad is None and infinite is None:
        return passes("every scale is a positive, finite power of two")
    value = infinite if bad is None else bad[1]
    text = f"scale {value!r}: not a finite normal power of two"
    return Finding(Status.FALLS_BACK, text, {"layer": f"({step.n}, {step.k})"})


def _gfx95(facts: Facts) -> Finding:
    skip = _for(facts, "gfx95")
    if skip:
        return skip
    for value in scale_of(facts).values:
        if float32_bits(value) & (_SIGN | _MANTISSA):
            return stops(f"scale {value!r} has a sign or a mantissa")
    return passes("every scale has neither a sign nor a mantissa; 0 and infinity pass too")


def _native_blk(facts: Facts) -> Finding:
    skip = _for(facts, "gfx95")
    if skip:
        return skip
    s = scale_of(facts)
    block = f"block [{s.block_n}, {s.block_k}]"
    because = f"{block}, {modulo('N', s.n, 32)}, {modulo('K', s.k, 32)}"
    if (s.block_n, s.block_k) == (32, 32) and s.n % 32 == 0 and s.k % 32 == 0:
        return passes(because)
    return Finding(Status.STOPS, because, message=None)


def _npu_bk32(facts: Facts) -> Finding:
    s = scale_of(facts)
    because = modulo("block K", s.block_k, 32)
    return _for(facts, "npu") or judge(s.block_k % 32 != 0, because, bk=s.block_k)


def _npu_k64(facts: Facts) -> Finding:
    s = scale_of(facts)
    return _for(facts, "npu") or judge(s.k % 64 != 0, modulo("K", s.k, 64), k=s.k)


def _npu_shape(facts: Facts) -> Finding:
    s = scale_of(facts)
    bn, bk = max(s.block_n, 1), max(s.block_k, 1)
    wanted, got = (pad(s.n, bn) // bn, pad(s.k, bk) // bk), tuple(s.shape)
    because = f"scale {got}, wanted (ceil(N / {bn}), ceil(K / {bk})) = {wanted}"
    return _for(facts, "npu") or judge(got != wanted, because, a=got, b=wanted)


def _npu_dtype(facts: Facts) -> Finding:
    dtype = scale_of(facts).dtype
    bad = dtype not in ("float8_e8m0fnu", "uint8", "float32")
    return _for(facts, "npu") or judge(bad, f"scale dtype {dtype}", d=f"torch.{dtype}")


_KEPT = "the warning `Block-fp8 layer stays on the Triton kernel: ...` and Triton's kernel"
_MX_HARDWARE = "gfx950; Blackwell with --fp8-gemm-backend flashinfer_cutedsl or flashinfer_cutlass"
_ASCEND = "Ascend A5"

GUARDS: tuple[Guard, ...] = (
    row(
        "blk2mx-k",
        "block_scale",
        "S6",
        "ValueError",
        "MXFP8 needs a 32-wide K block and K % 32 == 0, got block_k={b} k={k}",
        _mx_k,
        predicate="block K is not 32, or K % 32 != 0",
        hardware=_MX_HARDWARE,
        meaning="A block-FP8 weight can run on the MXFP8 kernels when its scale has one column for "
        "32 values of K, which is what MXFP8 has.",
        fallback=_KEPT,
        fixes=("a checkpoint with blocks 32 wide along K", "a --tp-size that mends K"),
        source=f"{FP8_UTILS}:973, {FP8}:988",
        related=("blk2mx-shape", "blk2mx-pow2", "blk2mx-layer"),
    ),
    row(
        "blk2mx-shape",
        "block_scale",
        "S6",
        "ValueError",
        "unexpected block scale shape {s} for weight {w}",
        _mx_shape,
        predicate="the scale's shape is not (ceil(N / block_n), K / 32)",
        hardware=_MX_HARDWARE,
        meaning="Each row of blocks is repeated block_n times to give one byte a row and 32 "
        "values; the scale has to have the blocks for that.",
        fallback=_KEPT,
        fixes=("compare the scale with weight_block_size in quantization_config",),
        source=f"{FP8_UTILS}:979, {FP8}:988",
        related=("blk2mx-k", "blk2mx-pow2"),
    ),
    row(
        "blk2mx-pow2",
        "block_scale",
        "S6",
        "ValueError",
        "block scales are not positive powers of two; cannot encode as e8m0",
        _mx_pow2,
        predicate="some scale has a mantissa, is 0, negative or NaN, or is 2^-127, which float32 "
        "keeps as a subnormal; +Inf passes (silent-blk2mx-inf)",
        hardware=_MX_HARDWARE,
        meaning='The config says scale_fmt "ue8m0", but a scale is no power of two, so a byte '
        "cannot hold it.",
        fallback=_KEPT,
        fixes=("quantise again with power-of-two scales", 'drop "scale_fmt" from the config'),
        source=f"{FP8_UTILS}:984, {FP8}:988",
        related=("blk2mx-shape", "silent-blk2mx-inf", "blk2e8m0-128"),
    ),
    row(
        "silent-blk2mx-inf",
        "block_scale",
        "S6",
        "",
        (),
        _mx_inf,
        predicate="some scale is +Inf: its mantissa is 0, so it passes for a power of two",
        hardware=_MX_HARDWARE,
        meaning="The exponent field of infinity is 255, and byte 255 is NaN in E8M0: the whole "
        "block decodes to NaN.",
        fallback="goes on with a block of NaN",
        fixes=("look for infinities in the checkpoint's scales",),
        source=f"{FP8_UTILS}:984",
        related=("blk2mx-pow2",),
    ),
    row(
        "blk2e8m0-128",
        "block_scale",
        "S6",
        "warning",
        "Dense mxscale: {layer} keeps the fp32 GEMM (scales are not powers of two)",
        _mxscale,
        predicate="SGLANG_DSV4_DENSE_MXSCALE, blocks of [128, 128], and a scale that is no finite "
        "normal power of two (stricter than blk2mx-pow2: infinity does not pass)",
        hardware="gfx950 with AITER",
        meaning="The e8m0 kernel of AITER takes exponent bytes; this layer's scales do not fit.",
        fallback="the GEMM with float32 scales",
        fixes=("nothing: the result is the same, a little slower",),
        source=f"{FP8_UTILS}:196, {FP8}:963",
        related=("blk2mx-pow2", "g95-mxscale-missing"),
    ),
    row(
        "g95-scale-pow2",
        "block_scale",
        "S6",
        "AssertionError",
        "weight scales must be positive powers of two",
        _gfx95,
        predicate="some scale has a sign or a mantissa (bits & 0x807FFFFF); 0 and +Inf pass",
        hardware="MI350X, MI355X",
        meaning="The native MXFP8 kernel of gfx950 takes exponent bytes.",
        fixes=("--fp8-gemm-backend triton", "quantise again with power-of-two scales"),
        source=f"{_NATIVE}:125",
        related=("blk2mx-pow2", "g95-native-blk"),
    ),
    row(
        "g95-native-blk",
        "block_scale",
        "S6",
        "AssertionError",
        (),
        _native_blk,
        predicate="the block is not [32, 32], or N % 32 != 0, or K % 32 != 0",
        hardware="MI350X, MI355X",
        meaning="The native kernel of gfx950 lays weights out in tiles of 32 x 32. The text is the "
        "block or the shape and nothing else; SGLang asks g95-native-skip before it comes here.",
        fixes=("--fp8-gemm-backend triton",),
        source=f"{_NATIVE}:194",
        related=("g95-native-skip", "g95-scale-pow2"),
    ),
    row(
        "npu-bk32",
        "block_scale",
        "S6",
        "ValueError",
        "UE8M0 block K size must be divisible by 32, got {bk}.",
        _npu_bk32,
        predicate="block K % 32 != 0",
        hardware=_ASCEND,
        meaning="A block has to be a whole number of MX groups of 32.",
        fixes=("a checkpoint with blocks of a multiple of 32 along K",),
        source=f"{_NPU}:119",
        related=("npu-k64",),
    ),
    row(
        "npu-k64",
        "block_scale",
        "S6",
        "ValueError",
        "NPU arch35 MXFP8 linear requires K to be divisible by 64, got {k}.",
        _npu_k64,
        predicate="K % 64 != 0",
        hardware=_ASCEND,
        meaning="The A5 kernel reads scales in pairs: two groups of 32 at a time.",
        fixes=("a --tp-size that leaves K a multiple of 64", "leave the layer unquantised"),
        source=f"{_NPU}:64,123",
        related=("npu-bk32",),
    ),
    row(
        "npu-scale-shape",
        "block_scale",
        "S6",
        "ValueError",
        "Unexpected UE8M0 scale shape: got {a}, expected {b}.",
        _npu_shape,
        predicate="the scale's shape is not (ceil(N / block_n), ceil(K / block_k))",
        hardware=_ASCEND,
        meaning="The scale does not have one entry for each block of the weight.",
        fixes=("compare the scale with weight_block_size in quantization_config",),
        source=f"{_NPU}:134",
        related=("npu-scale-dtype", "blk2mx-shape"),
    ),
    row(
        "npu-scale-dtype",
        "block_scale",
        "S6",
        "TypeError",
        "UE8M0 checkpoint scales must be float8_e8m0fnu, uint8, or float32, got {d}.",
        _npu_dtype,
        predicate="the scale's dtype is none of the three",
        hardware=_ASCEND,
        meaning="The exponent byte is taken from the bits; for bfloat16 nobody wrote that down.",
        fixes=("store the scales as float8_e8m0fnu or uint8",),
        source=f"{_NPU}:150",
        related=("npu-scale-shape",),
    ),
)
