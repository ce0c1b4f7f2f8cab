"""Transformer Engine 2.20's table: MXFP8BlockScaling on NVIDIA GPUs, and AMD's fork."""

from mxlab.guards.call_rows import Library
from mxlab.guards.engine import Finding, Guard
from mxlab.guards.facts import CallFacts, Facts
from mxlab.guards.findings import judge, modulo, multiples, pad, passes, silent, skipped, stops

VERSION = "2.20.2"
SOURCE = "the wheel on PyPI (Python), C++ of main, AMD's fork on GitHub; read 2026-11"
TE = Library("transformer_engine", f"transformer_engine {VERSION}")

LINEAR, GROUPED, FUSED = "Linear", "GroupedLinear", "ForwardGroupedMLP"
GATHER, PARTIAL_CAST = "userbuffers_all_gather", "fp8_block_scaling_partial_cast"
LAYERS = (LINEAR, GROUPED, FUSED)
#: MXFP8BlockScaling is the recipe; "default" is te.autocast() without one
FUNCTIONS: dict[str, tuple[str, ...]] = {
    LINEAR: ("default",),
    GROUPED: ("default",),
    FUSED: (),
    GATHER: (),
    PARTIAL_CAST: (),
}

_QUANTIZATION = "pytorch/quantization.py"
_QUANTIZER = "pytorch/csrc/quantizer.cpp (main, 2026-08)"
_ROCM = "ROCm/TransformerEngine, common/gemm/rocm_gemm.cu"
_ANOTHER = "Float8CurrentScaling or, for inference, a product that takes TN alone"
_PAD = "pad tokens to a multiple of 32, under sequence parallelism for each rank"
_FP8_PADDING = "te.Fp8Padding before the experts pads each split to 32, Fp8Unpadding after them"


def _capability(facts: Facts, c: CallFacts) -> Finding:
    p = facts.platform
    if not p.cuda:
        return skipped("a check of NVIDIA GPUs")
    capability = p.capability or 0
    if c.backend == "default":
        return skipped("no recipe is asked for (te-default-recipe)")
    because = f"compute capability {capability // 10}.{capability % 10}, 10.0 to 11.x"
    return judge(capability < 100, because)


def _sm120(facts: Facts, c: CallFacts) -> Finding:
    p = facts.platform
    if not p.cuda or c.backend == "default":
        return skipped("a check of NVIDIA GPUs with the MXFP8 recipe")
    capability = p.capability or 0
    because = f"compute capability {capability // 10}.{capability % 10}, below 12.0"
    return judge(capability >= 120, because)


def _default_recipe(facts: Facts, c: CallFacts) -> Finding:
    p = facts.platform
    if c.backend != "default" or not p.cuda:
        return skipped("a recipe is given")
    capability = p.capability or 0
    if 100 <= capability < 120:
        return passes("the default recipe is MXFP8BlockScaling")
    other = "Float8CurrentScaling" if capability >= 120 else "DelayedScaling"
    return silent(f"the default recipe is {other}: one scale a tensor, not one for 32 values")


def _rocm_arch(facts: Facts, c: CallFacts) -> Finding:
    p = facts.platform
    if not p.hip:
        return skipped("a check of AMD's fork")
    because = f"{p.gpu.label} is {p.gpu.arch}, gfx950 or later"
    return judge((p.capability or 0) < 95, because)


def _cublas(facts: Facts, c: CallFacts) -> Finding:
    p = facts.platform
    if not p.cuda:
        return skipped("a check of CUDA")
    major, minor = p.toolkit
    because = f"CUDA {major}.{minor}, 12.8 needed"
    return judge(p.toolkit < (12, 8), because, version=major * 10000 + minor * 100)


def _tensors(c: CallFacts) -> list[tuple[str, int, int]]:
    """Return what is quantised: (name, product of the leading dims, last dim)."""
    made = [("input", c.m, c.k), ("weight", c.n, c.k)]
    return [*made, ("output gradient", c.m, c.n)] if c.training else made


def _dims_16(facts: Facts, c: CallFacts) -> Finding:
    for name, rows, cols in _tensors(c)[:2]:
        if rows % 8 or cols % 16:
            because = f"{name}: {modulo('rows', rows, 8)}, {modulo('columns', cols, 16)}"
            return stops(because, rows=rows, cols=cols)
    return passes(f"M = {c.m}, N = {c.n} % 8 = 0, K = {c.k} % 16 = 0")


def _dims_32(facts: Facts, c: CallFacts) -> Finding:
    for name, rows, cols in _tensors(c):
        if rows % 32 or cols % 32:
            because = (
                f"{name} {rows} x {cols}: {modulo('rows', rows, 32)}, "
                f"{modulo('columns', cols, 32)}; next {multiples(rows, 32)} x "
                f"{multiples(cols, 32)}"
            )
            return stops(because, rows=rows, cols=cols)
    return passes(", ".join(f"{name} {rows} x {cols}" for name, rows, cols in _tensors(c)))


def _splits(c: CallFacts) -> tuple[int, ...]:
    return c.groups or (c.m,)


def _group_align(facts: Facts, c: CallFacts) -> Finding:
    splits = _splits(c)
    bad = [size for size in splits if size % 32]
    if not bad:
        return passes(f"splits {list(splits)} are multiples of 32")
    by_32, by_128 = ([pad(size, of) for size in splits] for of in (32, 128))
    because = (
        f"{modulo('split', bad[0], 32)} of {list(splits)}: padded to 32 {by_32}; "
        f"to 128, for the fused MLP and whole scale tiles, {by_128}"
    )
    return stops(because, rows=bad[0], cols=c.k)


def _fused(facts: Facts, c: CallFacts) -> Finding:
    total = sum(_splits(c))
    because = f"{modulo('tokens', total, 128)}, next {multiples(total, 128)}"
    return judge(total % 128 != 0, because, m=total, k=c.k)


def _fused_tiles(facts: Facts, c: CallFacts) -> Finding:
    splits = _splits(c)
    bad = [size for size in splits if size % 128]
    if not bad:
        return passes(f"splits {list(splits)} are whole tiles of 128 rows")
    return silent(
        f"{modulo('split', bad[0], 128)}: the scale tile of 128 rows holds rows of two experts; "
        f"padded {[pad(size, 128) for size in splits]}"
    )


def _gather(facts: Facts, c: CallFacts) -> Finding:
    because = f"{modulo('M', c.m, 128)}, next {multiples(c.m, 128)}"
    return judge(c.m % 128 != 0, because, m=c.m, k=c.k)


def _products(c: CallFacts) -> list[tuple[str, int, int, int]]:
    """Return the products: (name, rows, columns, contraction length)."""
    forward = [("forward", c.m, c.n, c.k)]
    if not c.training:
        return forward
    return [*forward, ("input gradient", c.m, c.k, c.n), ("weight gradient", c.n, c.k, c.m)]


def _rocm_k(facts: Facts, c: CallFacts) -> Finding:
    if not facts.platform.hip:
        return skipped("a check of AMD's fork")
    of = 32 if facts.platform.gfx1250 else 128
    for name, _, _, length in _products(c):
        if length % of:
            sums = ", ".join(modulo("K", length, size) for size in (32, 64, 128))
            return stops(f"{name}: {sums}; next {multiples(length, of)}", k=length, of=of)
    return passes(f"{modulo('K', c.k, of)}")


def _rocm_mn(facts: Facts, c: CallFacts) -> Finding:
    if not facts.platform.hip:
        return skipped("a check of AMD's fork")
    for name, rows, cols, _ in _products(c):
        for index, (axis, size) in enumerate((("M", rows), ("N", cols))):
            if size % 16:
                return stops(f"{name}: {modulo(axis, size, 16)}", index, size=size)
    return passes(f"{modulo('M', c.m, 16)}, {modulo('N', c.n, 16)}")


def _block_len(facts: Facts, c: CallFacts) -> Finding:
    length = c.recipe[-1] if c.recipe else 128
    because = f"block FP8 (1x128, 128x128) with block_len {length}; MXFP8's blocks are 1x32"
    return judge(length != 128, because)


_DIM32 = "MXFP8 requires tensor dims that are divisible by 32 (got shape=({rows},{cols}))"

GUARDS: tuple[Guard, ...] = (
    TE.row(
        "te-sm120",
        LAYERS,
        "C1",
        "RuntimeError",
        "MXFP8 (for all gemm layouts) is not supported on 12.0+ architectures yet.",
        _sm120,
        predicate="compute capability 12.0 or more",
        hardware="SM120, SM121",
        meaning="Training needs operands in every order, and cuBLAS had MXFP8 kernels for one "
        "order on 12.x. 'Blackwell' is two things: 10.x has tcgen05 and tensor memory, 12.x has "
        "not.",
        fixes=(_ANOTHER, "train on compute capability 10.x"),
        source=f"{_QUANTIZATION}:162",
        related=("torch-tn-sm12x", "cublaslt-tn", "te-capability"),
    ),
    TE.row(
        "te-capability",
        LAYERS,
        "C1",
        "RuntimeError",
        "Device compute capability 10.0 or higher required for MXFP8 execution.",
        _capability,
        predicate="compute capability below 10.0",
        hardware="SM75 to SM90",
        meaning="Hopper and older have no block-scaled product, and there is no emulation.",
        fixes=("DelayedScaling or Float8CurrentScaling on Hopper",),
        source=f"{_QUANTIZATION}:162",
        related=("te-sm120", "torch-cublas-arch"),
    ),
    TE.row(
        "te-rocm-arch",
        LAYERS,
        "C1",
        "RuntimeError",
        "Device compute capability gfx950 or higher required for MXFP8 execution.",
        _rocm_arch,
        predicate="AMD's fork on a GPU before gfx950",
        hardware="MI300X, MI325X and older",
        meaning="CDNA4 is the first with a scaled matrix instruction.",
        fixes=("DelayedScaling on CDNA3",),
        source="ROCm/TransformerEngine (2026), check_mxfp8_support",
        related=("torch-rocm-arch",),
    ),
    TE.row(
        "te-default-recipe",
        (LINEAR, GROUPED),
        "C1",
        "",
        (),
        _default_recipe,
        predicate="te.autocast() without a recipe, outside compute capability 10.x and 11.x",
        meaning="The default recipe follows the GPU: MXFP8 on 10.x, one scale a tensor elsewhere. "
        "The same script trains in another format, and nothing is printed.",
        fallback="Float8CurrentScaling on 12.x, DelayedScaling before 10.0",
        fixes=("pass MXFP8BlockScaling(): an unsupported GPU then stops aloud",),
        source=f"{_QUANTIZATION}:244",
        related=("te-sm120", "te-capability"),
    ),
    TE.row(
        "te-dim16",
        LINEAR,
        "C2",
        "ValueError",
        "FP8 execution requires the product of all dimensions except the last to be divisible by 8 "
        "and the last dimension to be divisible by 16, but got tensor with dims=[{rows}, {cols}] "
        "(product of leading dims = {rows}, last dim = {cols})",
        _dims_16,
        predicate="M or N % 8 != 0, or K % 16 != 0",
        meaning="The older FP8 rule comes first: mended to 8 and 16, the same tensor meets te-dim32"
        " next.",
        fixes=(_PAD, "pad straight to 32"),
        source="pytorch/utils.py:704",
        related=("te-dim32",),
    ),
    TE.row(
        "te-dim32",
        LINEAR,
        "C2",
        "RuntimeError",
        _DIM32,
        _dims_32,
        predicate="any dimension of a quantised tensor % 32 != 0 (the tokens too)",
        meaning="Tensors are scaled along rows and along columns, so every dimension must be whole "
        "blocks of 32: also the number of tokens of one rank.",
        fixes=(_PAD, "pad N and K of the weight to 32"),
        source=_QUANTIZER,
        related=("te-dim16", "te-group-align", "ao-k32"),
    ),
    TE.row(
        "te-group-align",
        GROUPED,
        "C2",
        "RuntimeError",
        _DIM32,
        _group_align,
        predicate="a split of tokens % 32 != 0",
        meaning="Each expert's tokens are a tensor of their own: no scale may cross from one to "
        "the next. An empty expert (0 tokens) is fine.",
        fixes=(_FP8_PADDING,),
        source=f"{_QUANTIZER}; fp8_padding.py:119",
        related=("te-dim32", "te-fused-tokens", "ao-grouped-splits"),
    ),
    TE.row(
        "te-fused-tokens",
        FUSED,
        "C2",
        "ValueError",
        "Unsupported input shape for fused grouped MLP (in_shape=[{m}, {k}]).",
        _fused,
        predicate="the tokens of all experts % 128 != 0",
        hardware="SM100, SM103",
        meaning="The fused grouped MLP walks tiles of 128 rows: splits padded to 32 pass "
        "GroupedLinear and stop here.",
        fixes=("pad each split to 128", "use GroupedLinear"),
        source="pytorch/ops/fused/grouped_mlp.py:1203",
        related=("te-group-align", "te-fused-tiles"),
    ),
    TE.row(
        "te-fused-tiles",
        FUSED,
        "C2",
        "",
        (),
        _fused_tiles,
        predicate="the sum is a multiple of 128, a split is not",
        hardware="SM100, SM103",
        meaning="Only the sum is checked. A 128x4 scale tile belongs to one expert, so each split "
        "must be a multiple of 128. Concluded from the layout, not run.",
        fallback="goes on",
        fixes=("pad each split to 128: 44 -> 128, 20 -> 128, 0 -> 0, 64 -> 128",),
        source="pytorch/ops/fused/grouped_mlp.py:1203",
        related=("te-fused-tokens",),
    ),
    TE.row(
        "te-userbuffers",
        GATHER,
        "C2",
        "ValueError",
        "Userbuffers requires MXFP8 tensor dims that are divisible by 128, but got MXFP8 tensor "
        "with shape=({m}, {k})",
        _gather,
        predicate="the tokens of a rank % 128 != 0 with overlapped all-gather",
        meaning="The scales of the ranks are glued together, so each must be whole tiles of 128 "
        "rows.",
        fixes=("pad tokens to a multiple of 128 a rank", "turn the overlap off"),
        source="pytorch/module/base.py:711",
        related=("te-dim32",),
    ),
    TE.row(
        "te-block-len",
        PARTIAL_CAST,
        "C2",
        "RuntimeError",
        "Currently only block_len = 128 is supported",
        _block_len,
        predicate="block_len != 128",
        meaning="This is the block-FP8 recipe (1x128 and 128x128, float32 scales), not MXFP8 "
        "(1x32, E8M0): one package holds both, and 'block size' alone says neither.",
        fixes=(
            "for MXFP8 use the MXFP8BlockScaling recipe: it has no partial cast",
            "for block FP8 keep block_len = 128",
        ),
        source="pytorch/csrc/extensions/fp8_partial_cast.cpp, AMD's fork too "
        "(ROCm/TransformerEngine#539, 2026-04)",
        related=("te-dim32",),
    ),
    TE.row(
        "te-cublas",
        (LINEAR, GROUPED),
        "C3",
        "RuntimeError",
        "MXFP8 requires cuBLAS 12.8+, but run-time cuBLAS version is {version}",
        _cublas,
        predicate="cuBLAS before 12.8 at run time",
        hardware="NVIDIA GPUs",
        meaning="Built with a newer CUDA than what is loaded.",
        fixes=("load cuBLAS 12.8 or later",),
        source="common/gemm/cublaslt_gemm.cu (main, 2026-08)",
        related=("cublaslt-version", "torch-cuda-128"),
    ),
    TE.row(
        "te-rocm-k128",
        (LINEAR, GROUPED),
        "C3",
        "RuntimeError",
        "GEMM K dimension must be multiple of {of} for MXFP8 scaling (got K={k})",
        _rocm_k,
        predicate="AMD's fork: K % 128 != 0 on gfx950, K % 32 on gfx1250",
        hardware="gfx950, gfx1250",
        meaning="Whole blocks of 32 are not enough: the limit is the GEMM library's, not the "
        "format's. Training asks it of N and of the tokens as well. Without this check hipBLASLt "
        "answers 'Unable to find any suitable algorithms'.",
        fixes=(
            "a tensor-parallel size with K % 128 = 0",
            "pad K to 128 with zeros",
            "AMD measured solutions for K % 64 = 0 too (pull request 642, 2026-06, open)",
        ),
        source=f"{_ROCM} (pull requests 566 and 627, 2026-06)",
        related=("torch-rocm-sizes", "vllm-mx-rocm-k128", "te-rocm-mn16"),
    ),
    TE.row(
        "te-rocm-mn16",
        (LINEAR, GROUPED),
        "C3",
        "RuntimeError",
        (
            "GEMM M dimension must be multiple of 16 for MXFP8 scaling (got M={size})",
            "GEMM N dimension must be multiple of 16 for MXFP8 scaling (got N={size})",
        ),
        _rocm_mn,
        predicate="AMD's fork: M or N % 16 != 0",
        hardware="gfx950, gfx1250",
        meaning="Both outer dimensions of each product must be multiples of 16.",
        fixes=(_PAD,),
        source=f"{_ROCM} (pull request 566, 2026-05)",
        related=("te-rocm-k128",),
    ),
)
