"""Which kernel a dense linear runs on: SGLang's rules for ``--fp8-gemm-backend``, as tables."""

from collections.abc import Callable
from dataclasses import dataclass

from mxlab.guards.engine import Finding
from mxlab.guards.facts import Platform
from mxlab.guards.findings import stops

CUTEDSL_SMS = (100, 103, 107)  # FlashInfer 0.7.2, mm_mxfp8, backend cute-dsl

#: values of --fp8-gemm-backend that own an MXFP8 dense kernel; others are ignored in silence
MXFP8_FLAGS = ("deep_gemm", "flashinfer_trtllm", "flashinfer_cutlass", "flashinfer_cutedsl")


def _facts(p: Platform) -> str:
    """Describe what the dense backends depend on."""
    cap = "no GPU" if p.capability is None else f"capability {p.capability}"
    flash = "FlashInfer" if p.flashinfer else "no FlashInfer"
    deep = "DeepGEMM" if p.deep_gemm else "no DeepGEMM"
    if p.capability == 120 and not p.release.deep_gemm_sm120:
        deep += f" ({p.release.version} does not take it on SM120)"
    family = "Blackwell" if p.blackwell else "not Blackwell (or CUDA < 12.8)"
    return f"{p.gpu.label}: {cap}, {family}, {flash}, {deep}"


def _cutedsl(p: Platform) -> bool:
    return p.blackwell and p.flashinfer and p.capability in CUTEDSL_SMS


@dataclass(frozen=True, slots=True)
class Requested:
    """One value of --fp8-gemm-backend that insists on its kernel."""

    guard: str
    backend: str
    needs: str
    available: Callable[[Platform], bool]


#: flag -> what it needs (srt/layers/quantization/fp8_utils.py:834)
REQUESTED: dict[str, Requested] = {
    "flashinfer_trtllm": Requested(
        "res-trtllm",
        "flashinfer_trtllm",
        "SM100 or SM103 with CUDA >= 12.8, and FlashInfer",
        lambda p: p.sm100 and p.flashinfer,
    ),
    "flashinfer_cutedsl": Requested(
        "res-cutedsl",
        "flashinfer_cutedsl",
        f"Blackwell with CUDA >= 12.8, FlashInfer, and an SM in {CUTEDSL_SMS}",
        _cutedsl,
    ),
    "flashinfer_cutlass": Requested(
        "res-cutlass",
        "flashinfer_cutlass",
        "Blackwell with CUDA >= 12.8, and FlashInfer",
        lambda p: p.blackwell and p.flashinfer,
    ),
    "deep_gemm": Requested(
        "res-deepgemm",
        "deep_gemm",
        "the deep_gemm package, SM90 or newer, SGLANG_ENABLE_JIT_DEEPGEMM not 0",
        lambda p: p.deep_gemm,
    ),
}

#: what is taken when the flag owns no MXFP8 kernel, first match wins
AUTOMATIC: tuple[tuple[str, Callable[[Platform], bool]], ...] = (
    ("gfx95_dot_scaled", lambda p: p.hip and p.gfx95),
    ("flashinfer_cutedsl", _cutedsl),
    ("flashinfer_cutlass", lambda p: p.blackwell and p.flashinfer),
    ("deep_gemm", lambda p: p.deep_gemm),
    ("unsupported", lambda p: True),
)


def effective_flag(platform: Platform, flag: str) -> str:
    """Return the flag after SGLang's start-up rewrite of ``auto``.

    Source: sglang 0.5.23, srt/layers/quantization/fp8_utils.py:1207.
    """
    if flag == "auto" and platform.sm120:
        return "cutlass"
    if flag == "auto" and platform.sm110 and platform.release.auto_triton_sm110:
        return "triton"
    return flag


def request(platform: Platform, flag: str) -> tuple[bool, str]:
    """Tell whether an explicit flag can be honoured, and the predicate with its facts."""
    wanted = REQUESTED[flag]
    return wanted.available(platform), f"{flag} needs {wanted.needs}; {_facts(platform)}"


def resolve_mxfp8_dense_gemm_backend(
    platform: Platform, flag: str
) -> tuple[str | None, Finding | None]:
    """Return (backend, None), or (None, the finding of the guard that stops).

    ``flag`` is the value of --fp8-gemm-backend. ``unsupported`` is an answer, not a stop: it
    raises at the first forward. Source: sglang 0.5.23, fp8_utils.py:834.

    >>> from mxlab.guards.facts import Deployment
    >>> from mxlab.guards.platform import platform
    >>> resolve_mxfp8_dense_gemm_backend(platform(Deployment(gpu="rtx5090")), "auto")
    ('flashinfer_cutlass', None)
    """
    flag = effective_flag(platform, flag)
    if flag in REQUESTED:
        available, because = request(platform, flag)
        return (REQUESTED[flag].backend, None) if available else (None, stops(because))
    return next(name for name, rule in AUTOMATIC if rule(platform)), None


def resolve_block_fp8_mxfp8_backend(
    platform: Platform, flag: str
) -> tuple[str | None, Finding | None]:
    """Return the MXFP8 backend for 32-wide UE8M0 block-FP8 weights, or ``unsupported``.

    Source: sglang 0.5.23, fp8_utils.py:900.
    """
    flag = effective_flag(platform, flag)
    if platform.gfx95:
        named = {"triton": "gfx95_dot_scaled", "aiter": "gfx95_mxfp8_aiter"}
        return named.get(flag, "gfx95_mxfp8_native"), None
    if flag not in ("flashinfer_cutedsl", "flashinfer_cutlass"):
        return "unsupported", None
    if not (platform.cuda and platform.blackwell and platform.flashinfer):
        return "unsupported", None
    return resolve_mxfp8_dense_gemm_backend(platform, flag)


def can_serve_block_fp8_as_mxfp8(
    platform: Platform, flag: str, block: object, scale_fmt: object
) -> tuple[bool, Finding | None]:
    """Tell whether block-FP8 weights may run on the MXFP8 kernels (block K 32, UE8M0 scales).

    Source: sglang 0.5.23, fp8_utils.py:921.
    """
    if not isinstance(block, list | tuple) or len(block) != 2:
        return False, None
    if block[1] != 32 or scale_fmt != "ue8m0" or not platform.release.block_as_mxfp8:
        return False, None
    backend, stop = resolve_block_fp8_mxfp8_backend(platform, flag)
    return stop is None and backend != "unsupported", stop


@dataclass(frozen=True, slots=True)
class BlockRequested:
    """One value of --fp8-gemm-backend for block-FP8 weights with a 128-wide K."""

    guard: str
    kernel: str
    needs: str
    available: Callable[[Platform], bool]


#: flag -> what it needs for block-FP8 weights (fp8_utils.py:1108)
BLOCK_REQUESTED: dict[str, BlockRequested] = {
    "flashinfer_trtllm": BlockRequested(
        "disp-trtllm",
        "flashinfer_gemm_w8a8_block_fp8_linear_with_fallback",
        "SM100 or SM103 with CUDA >= 12.8, and FlashInfer",
        lambda p: p.sm100 and p.flashinfer,
    ),
    "flashinfer_cutlass": BlockRequested(
        "disp-cutlass-fi",
        "flashinfer_gemm_w8a8_block_fp8_linear_with_fallback",
        "Blackwell with CUDA >= 12.8, and FlashInfer",
        lambda p: p.blackwell and p.flashinfer,
    ),
    "flashinfer_deepgemm": BlockRequested(
        "disp-fi-deepgemm",
        "flashinfer_deepgemm_w8a8_block_fp8_linear_with_fallback",
        "Hopper (SM90) and FlashInfer",
        lambda p: p.sm90 and p.flashinfer,
    ),
    "cutlass": BlockRequested(
        "disp-cutlass",
        "cutlass_w8a8_block_fp8_linear_with_fallback",
        "SM120 or SM121 with CUDA >= 12.8",
        lambda p: p.sm120,
    ),
    "aiter": BlockRequested(
        "disp-aiter",
        "aiter_w8a8_block_fp8_linear",
        "ROCm (not gfx1250) and SGLANG_USE_AITER=1",
        lambda p: p.aiter,
    ),
    "deep_gemm": BlockRequested(
        "disp-deepgemm",
        "deepgemm_w8a8_block_fp8_linear_with_fallback",
        "the deep_gemm package, SM90 or newer, SGLANG_ENABLE_JIT_DEEPGEMM not 0",
        lambda p: p.deep_gemm,
    ),
    "triton": BlockRequested("", "triton_w8a8_block_fp8_linear", "nothing", lambda p: True),
    "flashinfer_cutedsl": BlockRequested(
        "disp-unknown", "", "MXFP8 weights: it has no block-FP8 kernel", lambda p: False
    ),
}

_BLOCK_AUTOMATIC: tuple[tuple[str, Callable[[Platform], bool]], ...] = (
    ("deepgemm_w8a8_block_fp8_linear_with_fallback", lambda p: p.deep_gemm),
    (
        "flashinfer_gemm_w8a8_block_fp8_linear_with_fallback",
        lambda p: p.blackwell and p.flashinfer,
    ),
    ("cutlass_w8a8_block_fp8_linear_with_fallback", lambda p: p.sm120),
    ("aiter_w8a8_block_fp8_linear", lambda p: p.aiter),
    ("triton_w8a8_block_fp8_linear", lambda p: True),
)


def deepgemm_block_fp8_supported(p: Platform, n: int, k: int, block: object, dtype: str) -> bool:
    """Tell whether DeepGEMM takes a block-FP8 weight (n, k); ``dtype`` is the output's.

    Source: sglang 0.5.23, fp8_utils.py:1449.
    """
    sizes = list(block) if isinstance(block, list | tuple) else None
    if dtype != "bfloat16":
        return False
    if not p.release.block_width_first:
        return n % 64 == 0 and k % 128 == 0
    if sizes == [32, 32] and (p.sm90 or p.sm100):
        return n % 8 == 0 and k % 32 == 0
    return sizes == [128, 128] and n % 64 == 0 and k % 128 == 0


@dataclass(frozen=True, slots=True)
class BlockChoice:
    """The kernel of block-FP8 weights: ``guard`` names the row that stops, "" where none does."""

    kernel: str
    guard: str = ""
    because: str = ""
    warns: bool = False  # disp-nonblk128


def dispatch_block_fp8(platform: Platform, flag: str, block: object, ue8m0: bool) -> BlockChoice:
    """Return the kernel for block-FP8 or per-tensor FP8 weights.

    ``block`` is weight_block_size or None. Source: sglang 0.5.23, fp8_utils.py:704.
    """
    flag = effective_flag(platform, flag)
    sizes = list(block) if isinstance(block, list | tuple) else None
    native = platform.deep_gemm and (
        (platform.sm90 and flag in ("auto", "deep_gemm"))
        or (platform.sm100 and flag == "deep_gemm" and ue8m0)
    )
    by_width = platform.release.block_width_first
    if block == [32, 32] and native and by_width:  # the tuple (32, 32) is not equal to it
        return BlockChoice("deepgemm_w8a8_block_fp8_linear_with_fallback")
    if by_width and sizes is not None and len(sizes) > 1 and sizes[1] != 128:
        because = f"block K {sizes[1]} != 128, and DeepGEMM does not take {sizes} here"
        return BlockChoice(
            "triton_w8a8_block_fp8_linear", because=because, warns=flag == "deep_gemm"
        )
    if flag == "auto":
        return BlockChoice(next(kernel for kernel, rule in _BLOCK_AUTOMATIC if rule(platform)))
    wanted = BLOCK_REQUESTED[flag]
    because = f"{flag} needs {wanted.needs}; {_facts(platform)}"
    if not wanted.available(platform):
        return BlockChoice("", wanted.guard, because)
    return BlockChoice(wanted.kernel, because=because)
