"""DeepGEMM: what is checked of the scales, and what is not."""

from collections.abc import Callable

from mxlab.guards.call_rows import declared, scale_bytes, truth
from mxlab.guards.deepgemm_rows import (
    ALL,
    DENSE,
    GEMM,
    GEMMS,
    LAYOUT,
    TRANSFORM,
    UTILS,
    Release,
    assertion,
    ceil_div,
    gpu,
    major,
    operands,
    per_word,
    recipe,
    scale_dtype,
    scale_shape,
)
from mxlab.guards.engine import Finding, Guard, Status
from mxlab.guards.facts import CallFacts, Facts
from mxlab.guards.findings import judge, passes, silent, skipped, stops

_LEGAL = ("float32", "int32")
_SHAPE = (
    "sf.dim() == static_cast<int>(num_groups.has_value()) + 2",
    "sf.size(-3) == num_groups.value()",
    "sf.size(-2) == ceil_div(mn, gran_mn)",
    "sf.size(-1) == ceil_div(k, gran_k * (sf_dtype == torch::kFloat ? 1 : 4))",
)
_STRIDE = ("sf.stride(-2) == 1 or mn == 1", "sf.stride(-1) >= compact_stride")
_HOPPER = (
    "(gran_n == 32 and gran_k_a == 32) or (gran_k_a == 128 and (gran_n == 1 or gran_n == 128))",
    "sf_granularity != 32 or (n % 8 == 0 and k % 32 == 0)",
)
_PACK = "get_mn_major_tma_aligned_packed_ue8m0_tensor(float32_scales) packs them"


def _recipe(release: Release) -> Callable[[Facts, CallFacts], Finding]:
    def check(facts: Facts, call: CallFacts) -> Finding:
        if call.function == TRANSFORM:
            return skipped("transform_sf_into_required_layout has no default recipe")
        if call.recipe is None or call.recipe:
            return passes(f"recipe {call.recipe or (1, 1, 32)} is given")
        bad = recipe(facts, call) is None
        return judge(bad, f"no recipe is given, and {gpu(facts)} has no default", where=UTILS)

    return check


def _dtype(facts: Facts, call: CallFacts) -> Finding:
    dtype = scale_dtype(facts, call)
    return judge(dtype not in _LEGAL, f"scales are {dtype}", where=UTILS)


def _shape(facts: Facts, call: CallFacts) -> Finding:
    used = recipe(facts, call)
    if used is None:
        return skipped("no recipe: dg-recipe")
    word, said = per_word(facts, call), []
    for name, rows, place, batch in operands(call):
        shape = scale_shape(facts, call, name)
        wanted = (ceil_div(rows, used[place]), ceil_div(call.k, used[2] * word))
        said.append(f"{name} {shape} for {rows} rows and K = {call.k} under recipe {used}")
        dims = 2 + (batch is not None)
        if len(shape) != dims:
            return stops(f"{said[-1]}: {dims} dimensions", 0, where=UTILS)
        if batch is not None and shape[0] != batch:
            return stops(f"{said[-1]}: {batch} groups", 1, where=UTILS)
        if shape[-2] != wanted[0]:
            return stops(f"{said[-1]}: {wanted[0]} expected", 2, where=UTILS)
        if shape[-1] != wanted[1]:
            return stops(f"{said[-1]}: {wanted[1]} expected", 3, where=UTILS)
    return passes("; ".join(said))


def _known(release: Release, arch: int, dtype: str, rows: int, k: int) -> bool:
    """Tell whether transform_sf_into_required_layout has a branch for the scales."""
    if dtype == "float32" and arch == 9:
        return (k == 128 and rows in (1, 128)) or (release.hopper32 and k == 32 and rows in (1, 32))
    if arch not in release.packed or k not in (32, 128):
        return False
    return dtype == "float32" or (dtype == "int32" and rows == 1)


def _transform(release: Release) -> Callable[[Facts, CallFacts], Finding]:
    def check(facts: Facts, call: CallFacts) -> Finding:
        used, dtype, arch = recipe(facts, call), scale_dtype(facts, call), major(facts)
        if used is None:
            return skipped("no recipe: dg-recipe")
        if call.function == DENSE and 12 in release.packed and arch not in release.majors:
            return skipped(f"dg-arch stops {gpu(facts)} before")
        said = f"{dtype} scales, recipe {used}, {gpu(facts)}"
        places = [place for _, _, place, _ in operands(call)]
        bad = any(not _known(release, arch, dtype, used[place], used[2]) for place in places)
        return judge(bad, said, where=LAYOUT)

    return check


def _hopper(release: Release) -> Callable[[Facts, CallFacts], Finding]:
    def check(facts: Facts, call: CallFacts) -> Finding:
        used = recipe(facts, call)
        if major(facts) != 9 or not release.hopper32 or used is None:
            return skipped("a check of SM90")
        n, k = used[1], used[2]
        fits = (n == 32 and k == 32) or (k == 128 and n in (1, 128))
        because = f"recipe {used}: one scale for {n} rows of B and {k} of K"
        if not fits:
            return stops(because, 0, where=GEMM)
        shape = f"N = {call.n} % 8 = {call.n % 8}, K = {call.k} % 32 = {call.k % 32}"
        return judge(
            k == 32 and bool(call.n % 8 or call.k % 32), f"{because}; {shape}", 1, where=GEMM
        )

    return check


def _stride(facts: Facts, call: CallFacts) -> Finding:
    if scale_dtype(facts, call) != "int32":
        return skipped("float32 scales are brought into the layout by DeepGEMM itself")
    name = declared(call, "deepgemm_packed")
    for operand, rows, _, _ in operands(call):
        shape = scale_shape(facts, call, operand)
        if len(shape) < 2:
            return skipped(f"{operand} has {len(shape)} dimensions: dg-scale-shape")
        wide = shape[-1]
        because = f"{operand} of {rows} rows and {wide} words is {name}"
        if name == "deepgemm_packed" or rows == 0:
            continue
        if wide > 1 and rows > 1:
            return stops(f"{because}: stride(-2) = {wide}", 0, where=UTILS)
        if rows > 1:
            least = ceil_div(rows, 4) * 4
            return stops(f"{because}: stride(-1) = 1 against {least}", 1, where=UTILS)
    return passes(f"the packed scales are {name}")


def _pow2(release: Release) -> Callable[[Facts, CallFacts], Finding]:
    def check(facts: Facts, call: CallFacts) -> Finding:
        if major(facts) not in release.packed or scale_dtype(facts, call) != "float32":
            return skipped("a check of float32 scales that are packed into UE8M0")
        if call.scales_pow2 is None:
            text = "float32 scales: whether each is a power of two is not known"
            return Finding(Status.UNKNOWN, text)
        because = f"every scale is {'' if call.scales_pow2 else 'not '}a power of two"
        return judge(not call.scales_pow2, because)

    return check


def _bytes(facts: Facts, call: CallFacts) -> Finding:
    if scale_dtype(facts, call) != "int32":
        return skipped("a matter of packed scales")
    said, true = declared(call, "deepgemm_packed"), truth(call, "deepgemm_packed")
    if said != "deepgemm_packed":
        return skipped(f"the scales are passed as {said}: dg-scale-stride looks at them")
    if said == true:
        return passes(f"the scales are in {true}")
    rows = [(name, rows) for name, rows, _, _ in operands(call) if rows]
    same = [
        f"{name}: {scale_bytes(said, count, call.k)} bytes in both"
        for name, count in rows
        if call.k and scale_bytes(said, count, call.k) == scale_bytes(true, count, call.k)
    ]
    if same:
        return silent(f"{true} bytes read as {said}: {'; '.join(same)}")
    return passes(f"{true} and {said} differ in length here")


def guards(release: Release) -> tuple[Guard, ...]:
    """Return the rows of one release."""
    row = release.library.row
    wheel = "the wheel's _C.so holds the text; " if release.version == "0.2.5" else ""
    rows = [
        row(
            "dg-recipe",
            ALL,
            "C2",
            "RuntimeError",
            assertion("Unknown recipe"),
            _recipe(release),
            predicate="no recipe is given on a GPU other than SM90 and SM100",
            hardware="all but SM90, SM100, SM103",
            meaning="Without recipe=(1, 1, 32) DeepGEMM assumes blocks of 128, and only SM90 and "
            "SM100 have such a default.",
            fixes=("recipe=(1, 1, 32)",),
            source=wheel + "csrc/utils/layout.hpp, get_default_recipe",
            related=("dg-transform",),
        ),
        row(
            "dg-scale-dtype",
            ALL,
            "C2",
            "RuntimeError",
            assertion("sf_dtype == torch::kFloat or sf_dtype == torch::kInt"),
            _dtype,
            predicate="the scales are neither float32 nor int32",
            meaning="A checkpoint's uint8 scales must be packed four to an int32, or written out "
            "as float32 powers of two (byte << 23).",
            fixes=("(byte.int() << 23).view(torch.float32)", _PACK),
            source=wheel + "csrc/utils/layout.hpp, check_sf_layout",
            related=("dg-scale-stride",),
        ),
        row(
            "dg-scale-shape",
            ALL,
            "C2",
            "RuntimeError",
            assertion(*_SHAPE),
            _shape,
            predicate="the scales are not (ceil(rows / recipe rows), ceil(K / (recipe K, times 4 "
            "if int32))), behind the number of groups where there are groups",
            meaning="Usually MXFP8 scales without recipe=(1, 1, 32): the default reads K in "
            "blocks of 128.",
            fixes=("recipe=(1, 1, 32)",),
            source=wheel + "csrc/utils/layout.hpp, check_sf_layout",
            related=("dg-recipe",),
        ),
        row(
            "dg-transform",
            ALL,
            "C2",
            "RuntimeError",
            assertion("Unknown SF transformation"),
            _transform(release),
            predicate="no way from these scales to what the GPU reads: SM90 takes float32 blocks "
            "of 1 x 128 and 128 x 128"
            + (" (and 1 x 32, 32 x 32)" if release.hopper32 else "")
            + "; SM100"
            + (" and SM120" if 12 in release.packed else "")
            + " float32 with 32 or 128 along K, or int32 with one row; other GPUs take none",
            hardware="SM90 with MXFP8 scales; GPUs without kernels",
            meaning="The text names neither the recipe (the values that one scale covers) nor the "
            "GPU. Where DeepGEMM has kernels for the GPU, the recipe is the reason; "
            + ("SM110 has" if 12 in release.packed else "SM120 and SM110 have")
            + " no branch here.",
            fixes=(
                "a recipe and a scale dtype that the condition lists for this GPU",
                "another backend: FlashInfer's CUTLASS kernel on SM12x",
                "block FP8 (128 x 128) on SM90",
                *(() if 12 in release.packed else ("sgl-deep-gemm 0.2.5 has SM120",)),
            ),
            source=wheel + "csrc/apis/layout.hpp, end of transform_sf_into_required_layout",
            related=("res-deepgemm", "dg-recipe"),
        ),
        row(
            "dg-scale-stride",
            ALL,
            "C2",
            "RuntimeError",
            assertion(*_STRIDE),
            _stride,
            predicate="packed int32 scales that are not MN-major with a column stride of at least "
            "round_up(rows, 4)",
            meaning="TMA reads the scales of one word of K row after row.",
            fixes=(_PACK, "mxlab.interleave(scales, layout='deepgemm_packed')"),
            source=wheel + "csrc/utils/layout.hpp, check_sf_layout",
            related=("dg-scale-bytes",),
        ),
        row(
            "dg-scale-pow2",
            ALL,
            "C3",
            "torch.AcceleratorError",
            "CUDA error: unspecified launch failure",
            _pow2(release),
            predicate="SM100"
            + (" or SM120" if 12 in release.packed else "")
            + ", float32 scales, and one that is no positive power of two; padding rows count too",
            hardware="SM100, SM103" + (", SM120, SM121" if 12 in release.packed else ""),
            meaning="Packing keeps the exponent only, and the device traps when (value & "
            "0x807fffff) is not 0. The error appears at a later call, as CUDA error 719.",
            fixes=(
                "round the scale up to a power of two on its bits, never with log2",
                "fill padding rows with 1.0",
            ),
            source="deep_gemm/include/deep_gemm/impls/smxx_layout.cuh:178",
        ),
        row(
            "dg-scale-bytes",
            ALL,
            "C3",
            "",
            (),
            _bytes,
            predicate="scale bytes in another layout than deepgemm_packed, in a buffer of the same "
            "length viewed as int32",
            meaning="128x4 tiles of a shape that needs no padding have the length of the packed "
            "form. Shape and strides are all that is checked.",
            fallback="multiplies with the wrong scales",
            fixes=("deinterleave the tiles first, then pack", "mxlab detect"),
            source="csrc/utils/layout.hpp, check_sf_layout",
            related=("fi-scale-bytes", "dg-scale-stride"),
        ),
    ]
    if release.hopper32:
        hopper = row(
            "dg-sm90-recipe",
            GEMMS,
            "C2",
            "RuntimeError",
            assertion(*_HOPPER),
            _hopper(release),
            predicate="SM90, and one scale for 1 x 32 of B (MXFP8) or any block but 32 x 32, 1 x "
            "128, 128 x 128; 32 x 32 also needs N % 8 = 0 and K % 32 = 0",
            hardware="SM90",
            meaning="Hopper has no MXFP8 kernel in DeepGEMM: weights need at least 32 x 32 blocks.",
            fixes=(
                "block FP8 weights of 128 x 128",
                "weights whose scales are equal over 32 rows, with recipe=(1, 32, 32)",
            ),
            source=wheel + "deep_gemm/include/deep_gemm/impls/sm90_fp8_gemm_1d2d.cuh:57",
            related=("cfg-min-capability", "dg-transform"),
        )
        rows.insert(4, hopper)
    return tuple(rows)
