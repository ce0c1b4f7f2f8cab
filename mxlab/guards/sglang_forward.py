"""Checks that a dense MXFP8 linear meets at the first forward (S8), FlashInfer's own included."""

from dataclasses import replace

from mxlab.guards.engine import Finding, Guard, Status
from mxlab.guards.facts import Facts
from mxlab.guards.findings import judge, modulo, multiples, passes, skipped
from mxlab.guards.linear import (
    activation_dtype,
    deep_gemm_serves,
    deep_gemm_shape,
    flashinfer_kernel,
    flashinfer_takes,
    linear_of,
    not_mxfp8,
)
from mxlab.guards.rows import FP8_UTILS, row

_GEMM = "flashinfer/gemm/gemm_base.py"
_SM100_CUTLASS = (100, 103, 110)  # other Blackwell parts check sizes in Python: fi-mm-size


def _unsupported(facts: Facts) -> Finding:
    skip = not_mxfp8(facts)
    if skip:
        return skip
    return judge(facts.dense.backend == "unsupported", facts.dense.why)


def _flashinfer(facts: Facts) -> tuple[Finding | None, str]:
    """Return (not-reached or None, FlashInfer's kernel)."""
    skip = not_mxfp8(facts)
    if skip:
        return skip, ""
    kernel = flashinfer_kernel(facts)
    if kernel is None:
        return skipped(f"FlashInfer does not multiply this layer: {facts.dense.backend} does"), ""
    return None, kernel


def _fi_k32(facts: Facts) -> Finding:
    skip, _ = _flashinfer(facts)
    k = linear_of(facts).k
    return skip or flashinfer_takes(k, k, "float8_e4m3fn")[1]


_BF16 = ("--dtype bfloat16",)


def _noswz(facts: Facts) -> Finding:
    skip = not_mxfp8(facts, "deep_gemm")
    if skip:
        return skip
    lin, dtype = linear_of(facts), activation_dtype(facts)
    copy = flashinfer_kernel(facts) is not None
    found = deep_gemm_serves(lin.n, lin.k, dtype, copy=copy)
    if found.status is Status.FALLS_BACK and dtype == "bfloat16":
        return replace(found, done=_BF16)
    if found.status is not Status.STOPS:
        return found
    if not deep_gemm_shape(lin.n, lin.k):
        return skipped(f"{found.because}: wsp-deepgemm stops the load first")
    text = f"{found.because}: the swizzled copy is made only for shapes DeepGEMM refuses"
    return replace(found, because=text)


def _mm_min(facts: Facts) -> Finding:
    skip, kernel = _flashinfer(facts)
    if skip:
        return skip
    lin = linear_of(facts)
    because = f"N = {lin.n} and K = {lin.k} against 128 ({kernel})"
    return judge(lin.n < 128 or lin.k < 128, because, m="M", n=lin.n, k=lin.k)


def _mm_outdtype(facts: Facts) -> Finding:
    skip, _ = _flashinfer(facts)
    dtype = activation_dtype(facts)
    bad = dtype not in ("bfloat16", "float16")
    return skip or judge(bad, f"output {dtype}", dtype=f"torch.{dtype}")


def _mm_size(facts: Facts) -> Finding:
    skip, kernel = _flashinfer(facts)
    if skip:
        return skip
    lin, cap = linear_of(facts), facts.platform.capability
    if kernel == "trtllm":
        dtype = activation_dtype(facts)
        near = f"nearest legal K {multiples(lin.k, 256)}"
        because = f"trtllm: {modulo('K', lin.k, 256)}, output {dtype}; {near}"
        return judge(lin.k % 256 != 0 or dtype != "bfloat16", because)
    if kernel == "cutlass" and cap in (120, 121):
        because = f"cutlass on SM12x: {modulo('N', lin.n, 32)}, {modulo('K', lin.k, 32)}"
        return judge(lin.k % 32 != 0 or lin.n % 32 != 0, because)
    return skipped(f"{kernel} on capability {cap} has no such check")


def _mm_k32n32(facts: Facts) -> Finding:
    skip, kernel = _flashinfer(facts)
    if skip:
        return skip
    lin, cap = linear_of(facts), facts.platform.capability
    if kernel != "cutlass" or cap not in _SM100_CUTLASS:
        return skipped(f"{kernel} on capability {cap} has no such check")
    because = f"{modulo('N', lin.n, 32)}, {modulo('K', lin.k, 32)}"
    if lin.k % 32:
        return skipped(f"{because}: fwd-fi-k32 stops first")
    return judge(lin.n % 32 != 0, because, 1, n=lin.n, k=lin.k)


def _g95_fallback(facts: Facts) -> Finding:
    skip = not_mxfp8(facts, "gfx95_dot_scaled")
    if skip:
        return skip
    k = linear_of(facts).k
    because = modulo("K", k, 128)
    if k % 128 == 0:
        return passes(because)
    text = f"{because}: the weight is dequantised and multiplied in 16 bits at every call"
    return Finding(Status.SILENT, text, message=None)


GUARDS: tuple[Guard, ...] = (
    row(
        "fwd-unsupported",
        "linear",
        "S8",
        "RuntimeError",
        "No MXFP8 dense GEMM kernel is available on this device. MXFP8 dense linear requires "
        "Blackwell (SM100/SM103/SM110/SM120) with FlashInfer, Hopper (SM90) with DeepGEMM, or ROCm "
        "gfx95.",
        _unsupported,
        predicate="no kernel was found when the layers were built, which raises nothing until the "
        "first forward",
        hardware="gfx1250, no GPU, SM90 or Blackwell without the packages",
        meaning="The model loads completely and then cannot multiply. Usually FlashInfer or "
        "DeepGEMM is not installed, or an environment variable switches it off.",
        fixes=(
            "install FlashInfer (Blackwell) or DeepGEMM",
            "SGLANG_FORCE_MXFP8_BLOCK_CONVERT=1 converts to block FP8 at load (lossy)",
        ),
        source=f"{FP8_UTILS}:893",
        related=("res-deepgemm", "res-cutlass", "silent-gemm-flag"),
    ),
    row(
        "fwd-dg-noswz",
        "linear",
        "S8",
        "RuntimeError",
        "DeepGEMM cannot serve this MXFP8 GEMM (shape_supported={shape}, dtype_supported={dtype}) "
        "and no FlashInfer fallback scale was prepared for this layer. Re-run with "
        "--fp8-gemm-backend=flashinfer_cutlass.",
        _noswz,
        predicate="backend deep_gemm, and not (N % 64 == 0, K % 128 == 0, bfloat16 output), and no "
        "swizzled copy of the scale",
        hardware="SM90; Blackwell with deep_gemm",
        meaning="DeepGEMM writes bfloat16 only. The copy that FlashInfer could use is made at load "
        "only for bad shapes, so float16 with a good shape always stops here.",
        fallback="where the copy exists (Blackwell with FlashInfer and a bad shape): FlashInfer's "
        "CUTLASS kernel, without a message",
        fixes=(*_BF16, "on Blackwell, --fp8-gemm-backend auto"),
        source=f"{FP8_UTILS}:1054",
        related=("wsp-deepgemm",),
    ),
    row(
        "fwd-fi-k32",
        "linear",
        "S8",
        "ValueError",
        "K={k} must be divisible by 32 for MXFP8.",
        _fi_k32,
        predicate="a FlashInfer kernel and K % 32 != 0",
        hardware="SM100 to SM121 with FlashInfer",
        meaning="The activation cannot be cut into blocks of 32. The weight got this far because "
        "nothing looks at K at load.",
        fixes=("leave the layer unquantised", "a --tp-size that leaves K a multiple of 32"),
        source=f"{FP8_UTILS}:1894",
        related=("wsp-k32", "lin-tp-row"),
    ),
    row(
        "fi-mm-min",
        "linear",
        "S8",
        "ValueError",
        "MXFP8 requires n >= 128 and k >= 128 for CUTLASS MXFP8. got m={m}, n={n}, k={k}.",
        _mm_min,
        predicate="n < 128 or k < 128, on every FlashInfer kernel whatever the text says",
        hardware="SM100 to SM121 with FlashInfer",
        meaning="A layer of this rank is smaller than one tile: a router, or K and V heads under a "
        "large --tp-size. SGLang does not look before the first forward.",
        fixes=("a smaller --tp-size", "leave the layer unquantised (modules_to_not_convert)"),
        source=f"{_GEMM}:6046",
        related=("fi-mm-size", "fi-mm-k32n32"),
    ),
    row(
        "fi-mm-outdtype",
        "linear",
        "S8",
        "ValueError",
        "Unsupported output dtype: {dtype}. Only torch.bfloat16 and torch.float16 are supported "
        "for MXFP8 GEMM operations.",
        _mm_outdtype,
        predicate="the activations are neither bfloat16 nor float16",
        hardware="SM100 to SM121 with FlashInfer",
        meaning="FlashInfer writes 16-bit results only.",
        fixes=("--dtype bfloat16",),
        source=f"{_GEMM}:12130",
        related=("cfg-act-dtype",),
    ),
    row(
        "fi-mm-size",
        "linear",
        "S8",
        "ValueError",
        "Problem size is not supported for mm_mxfp8",
        _mm_size,
        predicate="trtllm: K % 256 != 0 or the output is not bfloat16; cutlass on SM120/SM121: "
        "N % 32 != 0 or K % 32 != 0",
        hardware="SM100, SM103 (trtllm); SM120, SM121 (cutlass)",
        meaning="FlashInfer's own size rule of the chosen kernel. The text carries no numbers.",
        fixes=("--fp8-gemm-backend auto", "a --tp-size that mends the size", "--dtype bfloat16"),
        source=f"flashinfer/utils.py:1567, {_GEMM}:6141",
        related=("fi-mm-min", "wsp-trtllm-cols"),
    ),
    row(
        "fi-mm-k32n32",
        "linear",
        "S8",
        "RuntimeError",
        (
            "Expected k to be divisible by 32, but got mat1 shape: ({m}x{k}), k: {k}.",
            "Expected n to be divisible by 32, but got mat2 shape: ({n}x{k}).",
        ),
        _mm_k32n32,
        predicate="cutlass on SM100, SM103 or SM110, and N % 32 != 0 (K % 32 is met before)",
        hardware="SM100, SM103, SM110",
        meaning="The CUTLASS kernel needs both sizes of the weight to be multiples of 32.",
        fixes=("--fp8-gemm-backend flashinfer_cutedsl on SM100/SM103", "a --tp-size that mends N"),
        source="flashinfer/data/csrc/mxfp8_gemm_cutlass.cu:246",
        related=("fi-mm-size", "fwd-fi-k32"),
    ),
    row(
        "g95-dot-fallback",
        "linear",
        "S8",
        "",
        (),
        _g95_fallback,
        predicate="gfx950 and K % 128 != 0",
        hardware="MI350X, MI355X",
        meaning="The scaled MFMA instruction works on 128 values of K. Other widths run, slowly, "
        "and nothing says so.",
        fallback="dequantises the weight at every call and multiplies in 16 bits",
        fixes=("a --tp-size that leaves K a multiple of 128", "leave the layer unquantised"),
        source="kernels/ops/gemm/mxfp8_amd_gfx95.py:199",
        related=("fwd-unsupported",),
    ),
)
