"""What DeepGEMM's rows have in common: releases, functions, recipes, shapes of scales."""

from dataclasses import dataclass

from mxlab.guards.call_rows import Library
from mxlab.guards.facts import CallFacts, Facts

UTILS = "csrc/utils/layout.hpp:?"
LAYOUT = "csrc/apis/layout.hpp:?"
GEMM = "csrc/apis/gemm.hpp:?"
TMA = "csrc/jit_kernels/impls/runtime_utils.hpp:?"

DENSE = "fp8_gemm_nt"
CONTIGUOUS = "m_grouped_fp8_gemm_nt_contiguous"
MASKED = "m_grouped_fp8_gemm_nt_masked"
TRANSFORM = "transform_sf_into_required_layout"
GEMMS = (DENSE, CONTIGUOUS, MASKED)
ALL = (*GEMMS, TRANSFORM)
FUNCTIONS: dict[str, tuple[str, ...]] = dict.fromkeys(ALL, ())

MXFP8_RECIPE = (1, 1, 32)


def assertion(*conditions: str) -> tuple[str, ...]:
    """Return the texts of failed checks: the file and line, which moves from build to build."""
    return tuple("Assertion error ({where}): " + condition for condition in conditions)


@dataclass(frozen=True, slots=True)
class Release:
    """One version: which architectures it is written for, and where its rows were read."""

    version: str
    package: str
    source: str
    packed: tuple[int, ...]  # majors that take packed UE8M0 scales
    hopper32: bool  # blocks of 32 x 32 on SM90
    toolkit: tuple[int, int]

    @property
    def library(self) -> Library:
        """The writer of this release's rows."""
        return Library("deepgemm", self.package)

    @property
    def majors(self) -> tuple[int, ...]:
        """Every major compute capability with a kernel."""
        return (9, *self.packed)


#: the newest first
RELEASES = (
    Release(
        version="0.2.5",
        package="sgl-deep-gemm 0.2.5",
        source="texts and kernels in the wheel on PyPI; order of the checks in upstream's sources "
        "at 0274ad7b, read 2026-11",
        packed=(10, 12),
        hopper32=True,
        toolkit=(12, 9),
    ),
    Release(
        version="54e2261",
        package="DeepGEMM 54e2261",
        source="upstream's main of 2026-06-23, read 2026-11",
        packed=(10,),
        hopper32=False,
        toolkit=(12, 9),
    ),
)


def major(facts: Facts) -> int:
    """Return what DeepGEMM calls arch_major, 0 where there is no NVIDIA GPU."""
    return (facts.platform.capability or 0) // 10 if facts.platform.cuda else 0


def gpu(facts: Facts) -> str:
    """Describe the GPU: ``B200 (SM100)``."""
    return f"{facts.platform.gpu.label} (SM{facts.platform.capability})"


def scale_dtype(facts: Facts, call: CallFacts) -> str:
    """Return the dtype of the scales; not given, what the GPU asks for."""
    return call.scale_dtype or ("float32" if major(facts) == 9 else "int32")


def recipe(facts: Facts, call: CallFacts) -> tuple[int, ...] | None:
    """Return (rows of A, rows of B, K) of one scale; None where the default is unknown.

    Without a recipe argument SM90 and float32 scales mean (1, 128, 128), packed ones (1, 1, 128).
    """
    if call.recipe is None:
        return MXFP8_RECIPE
    if call.recipe:
        return tuple(call.recipe)
    if major(facts) not in (9, 10):
        return None
    return (1, 128, 128) if scale_dtype(facts, call) == "float32" else (1, 1, 128)


def groups(call: CallFacts) -> int:
    """Return the number of groups of a grouped call."""
    return len(call.groups) or call.batch


def operands(call: CallFacts) -> tuple[tuple[str, int, int, int | None], ...]:
    """Return (name, rows, place in the recipe, groups or None) of the scales handed over."""
    a = ("sfa", call.m, 0, groups(call) if call.function == MASKED else None)
    if call.function == TRANSFORM:
        return (a,)
    return a, ("sfb", call.n, 1, None if call.function == DENSE else groups(call))


def scale_shape(facts: Facts, call: CallFacts, name: str) -> tuple[int, ...]:
    """Return the shape of one scale tensor: as given, or as blocks of 32 along K need it."""
    given = call.a_scale_shape if name == "sfa" else call.b_scale_shape
    if given is not None:
        return tuple(given)
    used = MXFP8_RECIPE if call.recipe in (None, ()) else recipe(facts, call) or MXFP8_RECIPE
    rows, place, batch = next((r, p, g) for n, r, p, g in operands(call) if n == name)
    shape = (ceil_div(rows, used[place]), ceil_div(call.k, per_word(facts, call) * used[2]))
    return shape if batch is None else (batch, *shape)


def per_word(facts: Facts, call: CallFacts) -> int:
    """Return how many scales one element of the tensor holds."""
    return 1 if scale_dtype(facts, call) == "float32" else 4


def ceil_div(size: int, divisor: int) -> int:
    """Round a quotient up.

    >>> ceil_div(576, 128)
    5
    """
    return -(-size // max(1, divisor))
