"""What torch's scaled_mm asks on AMD GPUs: hipBLASLt's rules."""

from math import prod

from mxlab.guards.engine import Finding, Guard
from mxlab.guards.facts import CallFacts, Facts
from mxlab.guards.findings import judge, modulo, multiples, skipped
from mxlab.guards.torch_device import device_row, not_mx
from mxlab.guards.torch_eager import CUDA_CPP
from mxlab.guards.torch_facts import V1, ceil, flagged


def _rocm(facts: Facts, c: CallFacts) -> Finding | None:
    if not facts.platform.hip:
        return skipped("a check of ROCm")
    return not_mx(facts, c)


def _new(facts: Facts) -> bool:
    """Tell whether torch was built for ROCm 7.14 or later, with its 32x8 scale tiles."""
    return facts.platform.toolkit >= (7, 14)


def _rocm_version(facts: Facts, c: CallFacts) -> Finding:
    version = facts.platform.toolkit
    because = f"ROCm {version[0]}.{version[1]}, 7.0 needed"
    return _rocm(facts, c) or judge(version < (7, 0), because)


def _rocm_arch(facts: Facts, c: CallFacts) -> Finding:
    known = ("gfx950", "gfx1250") if _new(facts) else ("gfx950",)
    arch = facts.platform.gpu.arch
    because = f"{facts.platform.gpu.label} is {arch}, ROCm {facts.platform.toolkit}"
    return _rocm(facts, c) or judge(arch not in known, because, archs=",".join(known))


def _rocm_sizes(facts: Facts, c: CallFacts) -> Finding:
    skip = _rocm(facts, c)
    if skip:
        return skip
    if c.function == V1:
        because = ", ".join((modulo("M", c.m, 16), modulo("N", c.n, 16), modulo("K", c.k, 128)))
        bad = c.m % 16 != 0 or c.n % 16 != 0 or c.k % 128 != 0
        return judge(bad, f"{because}; next K {multiples(c.k, 128)}", 0)
    because = ", ".join(modulo(name, getattr(c, name.lower()), 32) for name in "MNK")
    return judge(c.m % 32 != 0 or c.n % 32 != 0 or c.k % 32 != 0, because, 1)


def _rocm_out(facts: Facts, c: CallFacts) -> Finding:
    bad = c.out_dtype not in ("bfloat16", "float16")
    return _rocm(facts, c) or judge(bad, f"out_dtype is {c.out_dtype}")


def _rocm_swizzle(facts: Facts, c: CallFacts) -> Finding:
    skip = _rocm(facts, c)
    if skip or c.function == V1:
        return skip or skipped("v1 has no swizzle flag")
    want = "SWIZZLE_32_4_4" if _new(facts) else "NO_SWIZZLE"
    because = f"ROCm {facts.platform.toolkit} wants {want}, the flag is {flagged(c)}"
    return judge(flagged(c) != want, because, 1 if _new(facts) else 0)


def _rocm_length(facts: Facts, c: CallFacts) -> Finding:
    skip = _rocm(facts, c)
    if skip or not _new(facts):
        return skip or skipped("a check of ROCm 7.14 and later")
    want = [ceil(rows, 32) * 32 * ceil(ceil(c.k, 32), 8) * 8 for rows in (c.m, c.n)]
    given = (c.a_scale_shape, c.b_scale_shape)
    got = [size if shape is None else prod(shape) for size, shape in zip(want, given, strict=True)]
    because = f"scale_a {got[0]} of {want[0]}, scale_b {got[1]} of {want[1]} elements"
    values = {"want_a": want[0], "want_b": want[1], "got_a": got[0], "got_b": got[1]}
    return judge(want != got, because, **values)


GUARDS: tuple[Guard, ...] = (
    device_row(
        "rocm-version",
        "C2",
        "NotImplementedError",
        "Block-wise scaling for Float8_e8m0fnu requires ROCm 7.0 or later",
        _rocm_version,
        predicate="torch built for ROCm before 7.0",
        hardware="AMD GPUs",
        meaning="hipBLASLt's block scaling came with ROCm 7.0.",
        fixes=("use a torch built for ROCm 7.0 or later",),
        source=CUDA_CPP,
        related=("torch-rocm-arch",),
    ),
    device_row(
        "rocm-swizzle",
        "C2",
        "ValueError",
        (
            "For ROCM MX gemm, swizzle_a and swizzle_b must both be NO_SWIZZLE",
            "For ROCm 7.14+ MX FP8, swizzle_a and swizzle_b must both be SWIZZLE_32_4_4 (gfx950 "
            "hipBLASLt pre-shuffled scale layout).",
        ),
        _rocm_swizzle,
        predicate="the flag is SWIZZLE_32_4_4 before ROCm 7.14, or NO_SWIZZLE from it on",
        hardware="AMD GPUs",
        meaning="Before 7.14 the scales are row-major; from 7.14 on they are AMD's 32x8 tiles, "
        "which go under the name SWIZZLE_32_4_4 although they are not NVIDIA's 128x4 ones.",
        fixes=(
            "before ROCm 7.14: row-major scales and NO_SWIZZLE",
            "from ROCm 7.14 on: mxlab.interleave(scales, 'amd_32x8') and SWIZZLE_32_4_4",
        ),
        source=CUDA_CPP,
        related=("torch-v2-swizzle",),
    ),
    device_row(
        "rocm-ext-length",
        "C2",
        "ValueError",
        "For BlockWiseBlk32Ue8m0_32_8_EXT MXFP8 scales, scale_a should have {want_a} elements and "
        "scale_b {want_b}; got {got_a} and {got_b}",
        _rocm_length,
        predicate="numel != round_up(rows, 32) * round_up(ceil(K / 32), 8), ROCm 7.14 and later",
        hardware="AMD GPUs",
        meaning="The pre-shuffled scales are padded to 32 rows and 8 columns.",
        fixes=("mxlab.interleave(scales, 'amd_32x8') pads and tiles",),
        source=CUDA_CPP,
        related=("torch-v2-count",),
    ),
    device_row(
        "rocm-arch",
        "C2",
        "NotImplementedError",
        "Block-wise scaling for Float8_e8m0fnu is only supported on {archs}",
        _rocm_arch,
        predicate="not gfx950 (nor gfx1250, from ROCm 7.14 on)",
        hardware="MI300X, MI325X and older",
        meaning="Only CDNA4 has the scaled matrix instruction.",
        fixes=("dequantise to bfloat16 and use torch.mm", "use an MI350 or MI355"),
        source=CUDA_CPP,
        related=("torch-cublas-arch", "te-rocm-arch"),
    ),
    device_row(
        "rocm-sizes",
        "C2",
        "ValueError",
        (
            "M, N must be multiples of 16 and K must be multiple of 128 for block-wise scaling",
            "Matrix dimensions must be multiples of 32 for block-wise scaling",
        ),
        _rocm_sizes,
        predicate="v1: M % 16, N % 16 or K % 128; v2: M, N or K % 32",
        hardware="gfx950, gfx1250",
        meaning="Unlike on CUDA, M counts too: a batch of 7 tokens must be padded. v1 and v2 ask "
        "for different multiples of K.",
        fixes=("pad M, N to 32 and K to 128",),
        source=CUDA_CPP,
        related=("torch-v1-k16", "te-rocm-k128"),
    ),
    device_row(
        "rocm-out",
        "C2",
        "ValueError",
        "Block-wise scaling only supports BFloat16 or Half output types",
        _rocm_out,
        predicate="out_dtype is neither bfloat16 nor float16",
        hardware="gfx950, gfx1250",
        meaning="hipBLASLt's MX kernels write 16-bit results.",
        fixes=("out_dtype bfloat16",),
        source=CUDA_CPP,
        related=("torch-out-fp8",),
    ),
)
