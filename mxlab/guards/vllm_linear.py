"""vLLM's MXFP8 linear: which kernel it picks for a weight (n, k), and what that kernel refuses."""

from mxlab.guards.call_rows import Library
from mxlab.guards.engine import Finding, Guard, Status
from mxlab.guards.facts import CallFacts, Facts
from mxlab.guards.findings import judge, modulo, multiples, pad, passes, silent, skipped, stops
from mxlab.guards.torch_device import NOT_SUPPORTED
from mxlab.guards.vllm_kernels import (
    CUTEDSL,
    CUTLASS,
    DOT_SCALED,
    MARLIN,
    SELECT,
    TORCH,
    TRTLLM,
    Choice,
    Release,
    below_minimum,
    choose_kernel,
)

_KERNELS = "vllm/model_executor/kernels/linear"
_MODELOPT = "vllm/model_executor/layers/quantization/modelopt.py"
_EXCLUDE = "leave the layer in 16 bits: add it to the checkpoint's exclude_modules"


def guards(release: Release) -> tuple[Guard, ...]:
    """Return the rows of one release."""
    vllm = Library("vllm", f"vllm {release.version}")

    def chosen(facts: Facts, c: CallFacts) -> Choice:
        return choose_kernel(release, facts, c.n, c.k, c.backend)

    def is_kernel(facts: Facts, c: CallFacts, *names: str) -> str:
        """Return "" where the chosen kernel is one of ``names``, else why it is not."""
        kernel = chosen(facts, c).kernel
        if c.k % 32:
            return "vllm-mx-k32 stops before"
        if kernel is None:
            return "no kernel: vllm-mx-no-kernel"
        return "" if kernel.name in names else f"the kernel is {kernel.name}"

    def k32(facts: Facts, c: CallFacts) -> Finding:
        because = f"{modulo('K', c.k, 32)}, next {multiples(c.k, 32)}"
        online = facts.deployment.quantization == "mxfp8"
        return judge(c.k % 32 != 0, because, 1 if online else 0, k=c.k)

    def ignored(facts: Facts, c: CallFacts) -> Finding:
        if not chosen(facts, c).ignored:
            return passes(f"--linear-backend is {c.backend}")
        because = f"{c.backend} has no MXFP8 kernel here: the automatic order decides"
        return Finding(Status.WARNS, because, {"backend": c.backend})

    def no_kernel(facts: Facts, c: CallFacts) -> Finding:
        choice = chosen(facts, c)
        if choice.kernel is not None:
            return passes(f"{choice.kernel.name} takes N = {c.n}, K = {c.k}")
        reasons = "; ".join(choice.reasons) or f"{facts.platform.gpu.label} has no MXFP8 kernel"
        return stops(reasons, reasons="\n".join(choice.reasons))

    def minimum(facts: Facts, c: CallFacts) -> Finding:
        if release.checks_shape_at_load:
            small = below_minimum(c.n, c.k)
            named = (CUTEDSL.backend, CUTLASS.backend)
            able = any(one.supported(facts.platform) == "" for one in (CUTEDSL, CUTLASS))
            if not able or c.backend not in ("auto", *named):
                return skipped("mm_mxfp8 of FlashInfer is not asked for, or not there")
            kernel = chosen(facts, c).kernel
            if not small:
                return passes(f"N = {c.n} and K = {c.k} are at least 128")
            if kernel is None:
                return skipped("vllm-mx-no-kernel stops")
            because = f"{small} padded: N {pad(max(c.n, 128), 32)}, K {pad(max(c.k, 128), 32)}"
            return Finding(Status.FALLS_BACK, because, message=None)
        skip = is_kernel(facts, c, CUTEDSL.name, CUTLASS.name)
        if skip:
            return skipped(skip)
        if c.k < 128:
            return stops(f"K = {c.k} < 128", 0, k=c.k)
        return judge(c.n < 128, f"N = {c.n}, K = {c.k}, at least 128 each", 1, n=c.n)

    def trtllm_k(facts: Facts, c: CallFacts) -> Finding:
        skip = is_kernel(facts, c, TRTLLM.name)
        if skip:
            return skipped(skip)
        return judge(c.k % 256 != 0, f"{modulo('K', c.k, 256)}, next {multiples(c.k, 256)}", k=c.k)

    def trtllm_dtype(facts: Facts, c: CallFacts) -> Finding:
        skip = is_kernel(facts, c, TRTLLM.name)
        if skip:
            return skipped(skip)
        because = f"activations are {c.out_dtype}"
        return judge(c.out_dtype != "bfloat16", because, dtype=f"torch.{c.out_dtype}")

    def torch_hopper(facts: Facts, c: CallFacts) -> Finding:
        skip = is_kernel(facts, c, TORCH.name)
        if skip:
            return skipped(skip)
        capability = facts.platform.capability or 0
        because = f"compute capability {capability // 10}.{capability % 10}, 10.0 needed"
        return judge(capability < 100, because, status="CUBLAS_STATUS_NOT_SUPPORTED")

    def rocm_k128(facts: Facts, c: CallFacts) -> Finding:
        skip = is_kernel(facts, c, DOT_SCALED.name)
        if skip:
            return skipped(skip)
        shown = modulo("K", c.k, 128)
        if c.k % 128 == 0:
            return passes(shown)
        return silent(f"{shown}: the weight is kept in bfloat16, {2 * c.n * c.k} bytes")

    def native(facts: Facts, c: CallFacts) -> Finding:
        kernel = chosen(facts, c).kernel
        if kernel is None or c.k % 32:
            return skipped("no kernel")
        if kernel.native:
            return passes(f"{kernel.name}: {kernel.how}")
        because = f"{kernel.name}: {kernel.how}"
        return Finding(Status.FALLS_BACK, because, {"kernel": kernel.name})

    small = (
        (
            "mm_mxfp8 requires K >= 128, got K={k}. in_features is too small for mm_mxfp8.",
            "mm_mxfp8 requires N >= 128, got N={n}. out_features is too small for mm_mxfp8.",
        )
        if not release.checks_shape_at_load
        else ()
    )
    k32_text = (
        "MXFP8 requires input size divisible by 32, got {k}"
        if release.checks_shape_at_load
        else "MXFP8 requires input dimension to be divisible by 32, got {k}."
    )
    old = not release.checks_shape_at_load
    return (
        vllm.row(
            "vllm-mx-k32",
            SELECT,
            "S4",
            "ValueError",
            (
                k32_text,
                "MXFP8 requires input_size_per_partition ({k}) to be divisible by 32.",
            ),
            k32,
            predicate="K of the rank % 32 != 0 (the second text: --quantization mxfp8)",
            meaning="A row-parallel shard must hold whole blocks of 32.",
            fixes=("a smaller --tensor-parallel-size", _EXCLUDE),
            source=f"{_MODELOPT}; vllm/model_executor/layers/quantization/online/mxfp8.py:58",
            related=("ao-k32", "torch-v1-k16"),
        ),
        vllm.row(
            "vllm-mx-backend",
            SELECT,
            "S4",
            "warning",
            "--linear-backend={backend} has no kernel for this linear layer type; using automatic "
            "selection for that layer type.",
            ignored,
            predicate="--linear-backend names a backend without an MXFP8 kernel on this platform",
            meaning="The flag is for all layer types at once; where it has nothing for MXFP8 the "
            "automatic order decides.",
            fallback="the first kernel of the automatic order",
            fixes=("--linear-backend auto", "name a backend that has MXFP8"),
            source=f"{_KERNELS}/__init__.py:393",
            related=("silent-gemm-flag",),
        ),
        vllm.row(
            "vllm-mx-no-kernel",
            SELECT,
            "S4",
            "ValueError",
            "Failed to find a kernel that can implement the MXFP8 linear layer. Reasons: \n"
            "{reasons}",
            no_kernel,
            predicate="the backend asked for refuses the GPU or the shape; or no GPU",
            meaning="A backend that is named is the only one tried. The automatic order always "
            "ends at the emulation.",
            fixes=("--linear-backend auto",),
            source=f"{_KERNELS}/__init__.py:1007",
            related=("res-cutlass", "res-cutedsl", "fwd-unsupported"),
        ),
        vllm.row(
            "vllm-mx-minimum",
            SELECT,
            "S8" if old else "S4",
            "AssertionError" if old else "",
            small,
            minimum,
            predicate="N < 128 or K < 128 with FlashInfer's CuTe-DSL or CUTLASS kernel",
            hardware="SM100 to SM121",
            meaning="The layer is a good MXFP8 layer, this kernel has a minimum of 128. "
            + (
                "This release says that it takes every layer and asserts in the forward pass: the "
                "server dies in the profile run, after the weights were read."
                if old
                else "This release asks at load and goes on to Marlin, which multiplies in 16 bits."
            ),
            fallback="none" if old else "MarlinMxfp8LinearKernel",
            fixes=(
                "vLLM 0.31 or later falls back by itself" if old else "nothing to do",
                "--linear-backend marlin",
                _EXCLUDE,
                "pad N to 128 with zero rows",
            ),
            source=f"{_KERNELS}/mxfp8/flashinfer.py:{67 if old else 27}",
            related=("fi-mm-min", "vllm-mx-fallback"),
        ),
        vllm.row(
            "vllm-mx-fallback",
            SELECT,
            "S4",
            "warning",
            "Using {kernel} for MXFP8 GEMM",
            native,
            predicate="the first kernel that fits multiplies in 16 bits",
            meaning="The line is logged at INFO for every kernel. With Marlin or the emulation "
            "only the weights are MXFP8: other numbers than a Blackwell's, and no MX speed.",
            hardware="everything before SM100; CDNA3; small layers anywhere",
            fallback="a 16-bit product",
            fixes=("on Blackwell, install FlashInfer", "on Hopper, expect 16-bit speed"),
            source=f"{_KERNELS}/__init__.py:1004",
            related=("vllm-mx-minimum", "silent-hopper-activation", "triton-emulated"),
        ),
        vllm.row(
            "vllm-mx-rocm-k128",
            SELECT,
            "S6",
            "",
            (),
            rocm_k128,
            predicate="gfx950 and K % 128 != 0",
            hardware="gfx950",
            meaning="Triton's dot_scaled runs over K in tiles of 128. Others are dequantised once "
            "at load and stay in bfloat16: twice the memory, 16-bit speed.",
            fallback="bfloat16 weights",
            fixes=("a tensor-parallel size with K % 128 = 0", "reckon with the memory"),
            source=f"{_KERNELS}/mxfp8/rocm_native.py",
            related=("te-rocm-k128", "torch-rocm-sizes"),
        ),
        vllm.row(
            "vllm-mx-trtllm-k",
            SELECT,
            "S6",
            "ValueError",
            "FlashInfer TRTLLM MXFP8 requires K to be divisible by 256, got K={k}.",
            trtllm_k,
            predicate="--linear-backend flashinfer_trtllm and K % 256 != 0",
            hardware="SM100, SM103",
            meaning="The TensorRT-LLM kernel shuffles weights in tiles of 256 along K. N is padded "
            "to 128 for it.",
            fixes=("--linear-backend auto",),
            source=f"{_KERNELS}/mxfp8/flashinfer.py",
            related=("res-trtllm",),
        ),
        vllm.row(
            "vllm-mx-trtllm-dtype",
            SELECT,
            "S8",
            "AssertionError",
            "FlashInfer TRTLLM MXFP8 requires bfloat16 activations, got {dtype}.",
            trtllm_dtype,
            predicate="--linear-backend flashinfer_trtllm and activations that are not bfloat16",
            hardware="SM100, SM103",
            meaning="The kernel reads bfloat16 alone.",
            fixes=("--dtype bfloat16",),
            source=f"{_KERNELS}/mxfp8/flashinfer.py",
            related=("vllm-act-dtype",),
        ),
        vllm.row(
            "vllm-mx-torch-arch",
            SELECT,
            "S8",
            "RuntimeError",
            NOT_SUPPORTED,
            torch_hopper,
            predicate="--linear-backend torch on compute capability 9.x",
            hardware="SM90",
            meaning="The kernel says that it runs from SM90 on; cuBLASLt has MXFP8 from 10.0 on, "
            "so the first forward pass stops. Concluded from vLLM's gate and an H200's answer to "
            "torch._scaled_mm.",
            fixes=(f"--linear-backend auto: {MARLIN.name}",),
            source=f"{_KERNELS}/mxfp8/pytorch.py:32",
            related=("torch-cublas-arch",),
        ),
    )
