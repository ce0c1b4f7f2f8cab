"""vLLM's MXFP8 linear kernels as data: which GPU and shape each takes, and in which order."""

from collections.abc import Callable
from dataclasses import dataclass

from mxlab.guards.facts import Facts, Platform

SELECT = "init_mxfp8_linear_kernel"


@dataclass(frozen=True, slots=True)
class Release:
    """What differs between the releases whose sources were read."""

    version: str
    checks_shape_at_load: bool  # mm_mxfp8's minimum of 128 is in can_implement
    torch_kernel: bool
    marlin_checks_k: bool


NEW = Release("0.33.0", checks_shape_at_load=True, torch_kernel=True, marlin_checks_k=True)
OLD = Release("0.29.0", checks_shape_at_load=False, torch_kernel=False, marlin_checks_k=False)


@dataclass(frozen=True, slots=True)
class Kernel:
    """One kernel class: ``supported`` and ``fits`` give vLLM's own reason against it, or ""."""

    name: str
    backend: str  # of --linear-backend
    supported: Callable[[Platform], str]
    fits: Callable[[Release, Platform, int, int], str]
    native: bool  # multiplies E4M3 by E4M3 with block scales
    how: str


def _always(release: Release, p: Platform, n: int, k: int) -> str:
    return ""


def _family(p: Platform, major: int) -> bool:
    return p.cuda and (p.capability or 0) // 10 == major


def _at_least(p: Platform, capability: int) -> bool:
    return p.cuda and (p.capability or 0) >= capability


def _cutedsl(p: Platform) -> str:
    if not _family(p, 10):
        return "requires sm_100/sm_103 (Blackwell)"
    return "" if p.flashinfer else "requires FlashInfer CuTe-DSL module"


def _cutlass(p: Platform) -> str:
    if not _at_least(p, 100):
        return "requires >=sm_100 (Blackwell)"
    return "" if p.flashinfer else "requires FlashInfer"


def _trtllm(p: Platform) -> str:
    if not _family(p, 10):
        return "requires SM100-family GPU"
    return "" if p.flashinfer else "requires FlashInfer"


def _marlin(p: Platform) -> str:
    return "" if _at_least(p, 75) else "Marlin FP8 not available"


def _b12x(p: Platform) -> str:
    if not p.cuda:
        return "b12x MXFP8 kernels are only available on CUDA"
    if not _family(p, 12):
        return "b12x MXFP8 kernels require a Blackwell 12x device"
    return "Install the B12X backend with `pip install vllm[b12x]`"


def _humming(p: Platform) -> str:
    return "Humming is not installed" if p.cuda else "Humming only supported on CUDA"


def _torch(p: Platform) -> str:
    if _at_least(p, 90):
        return ""
    return "requires XPU or CUDA (>=sm_90) for native torch._scaled_mm"


def _dot_scaled(p: Platform) -> str:
    if not p.hip:
        return "not ROCm"
    return "" if p.gfx95 else "native MX requires CDNA4 (gfx95x)"


def below_minimum(n: int, k: int) -> str:
    """Return vLLM's reason against mm_mxfp8 for a weight (n, k), or nothing.

    >>> below_minimum(32, 1024)
    'mm_mxfp8 requires N >= 128, got N=32.'
    """
    if k < 128:
        return f"mm_mxfp8 requires K >= 128, got K={k}."
    if k % 32:
        return f"mm_mxfp8 requires K to be divisible by 32, got K={k}."
    return f"mm_mxfp8 requires N >= 128, got N={n}." if n < 128 else ""


def _mm_cutedsl(release: Release, p: Platform, n: int, k: int) -> str:
    return below_minimum(n, k) if release.checks_shape_at_load else ""


def _mm_cutlass(release: Release, p: Platform, n: int, k: int) -> str:
    if not release.checks_shape_at_load:
        return ""
    small = below_minimum(n, k)
    if small or not (_family(p, 12) and n % 32):
        return small
    return f"mm_mxfp8 on SM12x requires N to be divisible by 32, got N={n}."


def _marlin_k(release: Release, p: Platform, n: int, k: int) -> str:
    if release.marlin_checks_k and k % 32:
        return f"Marlin MXFP8 requires K to be divisible by 32, got K={k}."
    return ""


CUTEDSL = Kernel(
    "FlashInferCutedslMxfp8LinearKernel",
    "flashinfer_cutedsl",
    _cutedsl,
    _mm_cutedsl,
    True,
    "FlashInfer mm_mxfp8, CuTe-DSL",
)
CUTLASS = Kernel(
    "FlashInferCutlassMxfp8LinearKernel",
    "flashinfer_cutlass",
    _cutlass,
    _mm_cutlass,
    True,
    "FlashInfer mm_mxfp8, CUTLASS",
)
MARLIN = Kernel(
    "MarlinMxfp8LinearKernel",
    "marlin",
    _marlin,
    _marlin_k,
    False,
    "weights dequantised inside a 16-bit product; activations stay 16-bit",
)
B12X = Kernel("B12xMxfp8LinearKernel", "b12x", _b12x, _always, True, "b12x")
EMULATION = Kernel(
    "EmulationMxfp8LinearKernel",
    "emulation",
    lambda p: "",
    _always,
    False,
    "weights dequantised to bfloat16 at load: two bytes a weight, a 16-bit product",
)
HUMMING = Kernel(
    "HummingMxfp8LinearKernel", "humming", _humming, _always, False, "weight-only, humming"
)
TRTLLM = Kernel(
    "FlashInferTrtllmMxfp8LinearKernel",
    "flashinfer_trtllm",
    _trtllm,
    _always,
    True,
    "FlashInfer mm_mxfp8, TensorRT-LLM",
)
TORCH = Kernel("TorchMxFp8LinearKernel", "torch", _torch, _always, True, "torch._scaled_mm")
DOT_SCALED = Kernel(
    "RocmDotScaledMxfp8LinearKernel", "triton", _dot_scaled, _always, True, "Triton dot_scaled"
)

#: what --linear-backend takes, of which only some have an MXFP8 kernel
BACKENDS = (
    *("flashinfer_cutedsl", "flashinfer_cutlass", "flashinfer_trtllm", "marlin", "b12x"),
    *("humming", "torch", "emulation", "cutlass", "triton", "deep_gemm", "flashinfer_cudnn"),
    *("aiter", "machete", "fbgemm", "conch", "exllama"),
)


def possible(release: Release, p: Platform) -> tuple[Kernel, ...]:
    """Return the kernels of the platform in the order in which vLLM tries them."""
    if p.cuda:
        cuda = (CUTEDSL, CUTLASS, MARLIN, B12X, EMULATION, HUMMING, TRTLLM)
        return (*cuda, TORCH) if release.torch_kernel else cuda
    return (DOT_SCALED, EMULATION) if p.hip else ()


@dataclass(frozen=True, slots=True)
class Choice:
    """The kernel that serves a weight, None where none does, and the reasons against others."""

    kernel: Kernel | None
    reasons: tuple[str, ...]
    ignored: bool  # the backend asked for has no MXFP8 kernel here


def choose_kernel(release: Release, facts: Facts, n: int, k: int, backend: str) -> Choice:
    """Return what vLLM's init_mxfp8_linear_kernel picks for a weight (n, k)."""
    kernels = possible(release, facts.platform)
    # the map's value "triton" lists block-FP8 kernels alone
    asked = [one for one in kernels if one.backend == backend and one is not DOT_SCALED]
    reasons: list[str] = []
    for kernel in asked or kernels:
        reason = kernel.supported(facts.platform)
        reason = reason or kernel.fits(release, facts.platform, n, k)
        if not reason:
            return Choice(kernel, tuple(reasons), not asked and backend != "auto")
        reasons.append(f"{kernel.name}: {reason}")
    return Choice(None, tuple(reasons), not asked and backend != "auto")
