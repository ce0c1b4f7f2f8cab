"""FlashInfer's mm_mxfp8 and bmm_mxfp8: what is checked before a backend is looked at."""

from dataclasses import replace

from mxlab.guards.engine import Finding, Guard, Status
from mxlab.guards.facts import CallFacts, Facts
from mxlab.guards.findings import judge, passes, skipped, stops
from mxlab.guards.flashinfer_backends import automatic, refusal
from mxlab.guards.flashinfer_rows import (
    BLACKWELL,
    CAPABILITIES,
    GEMM,
    GROUPED,
    GROUPED_CAPABILITIES,
    SWIZZLED_FIX,
    UTILS,
    capability,
    declared_shape_error,
    row,
    scale_shapes,
    torch_size,
    where,
)

_BOTH = ("mm_mxfp8", "bmm_mxfp8")
_ROUTER = "leave the layer unquantised: a router or a small K/V projection is too small"


def _device(facts: Facts, call: CallFacts) -> Finding:
    if facts.platform.capability is None:
        return stops("the tensors are on a CPU")
    if facts.platform.hip:
        gpu = facts.platform.gpu
        because = f"{gpu.label} ({gpu.arch}) is no NVIDIA GPU: every kernel is CUDA"
        return Finding(Status.STOPS, because, message=None)
    return passes(where(facts))


def _package(facts: Facts, call: CallFacts) -> Finding:
    missing = "flashinfer" not in facts.deployment.packages
    return judge(missing, f"flashinfer is {'not ' if missing else ''}among the packages")


def _backend(facts: Facts, call: CallFacts) -> Finding:
    if call.backend == "auto":
        return skipped("backend auto is chosen from those that take the call")
    cap, known = capability(facts), CAPABILITIES[call.function][call.backend]
    because = f"{where(facts)}: {call.backend} is for {', '.join(map(str, known))}"
    return judge(
        cap not in known, because, function=call.function, backend=call.backend, capability=cap
    )


def _capability(facts: Facts, call: CallFacts) -> Finding:
    cap, known = capability(facts), GROUPED_CAPABILITIES
    because = f"{where(facts)}: built for {', '.join(map(str, known))}"
    return judge(
        cap not in known, because, function=call.function, capability=cap, known=list(known)
    )


def _tile(facts: Facts, call: CallFacts) -> Finding:
    because = f"N = {call.n} and K = {call.k} against 128"
    batched = call.function == "bmm_mxfp8"
    values = {"b": call.batch, "m": call.m, "n": call.n, "k": call.k}
    return judge(call.n < 128 or call.k < 128, because, int(batched), **values)


def _dtype(facts: Facts, call: CallFacts) -> Finding:
    a, b = call.a_dtype, call.b_dtype
    because = f"a is {a}, b is {b}"
    if a != "float8_e4m3fn":
        return stops(because, name="a", dtype=f"torch.{a}")
    return judge(b != "float8_e4m3fn", because, name="b", dtype=f"torch.{b}")


def _scale_dtype(facts: Facts, call: CallFacts) -> Finding:
    dtype = call.scale_dtype or "uint8"
    return judge(dtype != "uint8", f"scales are {dtype}", dtype=f"torch.{dtype}")


def _scale_shape(facts: Facts, call: CallFacts) -> Finding:
    a, b = scale_shapes(call)
    wrong = declared_shape_error(call)
    because = f"a_descale {torch_size(a)} and b_descale {torch_size(b)}"
    if wrong is None:
        return passes(f"{because} are what M = {call.m}, N = {call.n}, K = {call.k} ask for")
    return replace(wrong, because=f"{because}: {wrong.because}")


def _bmm_scale_rank(facts: Facts, call: CallFacts) -> Finding:
    a, b = scale_shapes(call)
    because = f"A_scale {torch_size(a)} and B_scale {torch_size(b)}"
    return judge(len(a) != 1 or len(b) != 1, because, a=len(a), b=len(b))


def _out_dtype(facts: Facts, call: CallFacts) -> Finding:
    dtype = call.out_dtype
    return judge(dtype not in ("bfloat16", "float16"), f"output {dtype}", dtype=f"torch.{dtype}")


def _auto(facts: Facts, call: CallFacts) -> Finding:
    if call.backend != "auto":
        return skipped(f"backend {call.backend} was asked for")
    chosen = automatic(facts, call)
    refused = [refusal(facts, call, name) for name in CAPABILITIES[call.function]]
    because = "; ".join(text for text in refused if text)
    if chosen:
        taken = f"auto takes {chosen[0]}"
        return passes(f"{taken} ({because})" if because else taken)
    return stops(
        because or f"{where(facts)}: trtllm and cute-dsl are never chosen",
        0,
        function=call.function,
    )


GUARDS: tuple[Guard, ...] = (
    row(
        "fi-package",
        (*_BOTH, GROUPED, "mxfp8_quantize", "mxfp8_grouped_quantize", "block_scale_interleave"),
        "C1",
        "ModuleNotFoundError",
        "No module named 'flashinfer'",
        _package,
        predicate="the package is not installed",
        meaning="Nothing of FlashInfer can be called. On SGLang the environment variable "
        "SGLANG_IS_FLASHINFER_AVAILABLE=false has a like effect.",
        fixes=("pip install flashinfer-python",),
        source="the package's name",
        related=("res-cutlass", "fwd-unsupported"),
    ),
    row(
        "fi-device",
        (*_BOTH, GROUPED, "block_scale_interleave"),
        "C2",
        "ValueError",
        "device must be a cuda device",
        _device,
        predicate="the tensors are not on an NVIDIA GPU",
        hardware="CPU, AMD",
        meaning="The checks ask for the compute capability first, and only a CUDA device has one.",
        fixes=("an NVIDIA GPU of SM100 to SM121",),
        source=f"{UTILS}:315",
    ),
    row(
        "fi-backend-capability",
        _BOTH,
        "C2",
        "BackendSupportedError",
        "{function} does not support backend '{backend}' with capability {capability}",
        _backend,
        predicate="the compute capability is not in the backend's list: mm_mxfp8 cutlass and cudnn "
        "100, 103, 107, 110, 120, 121; trtllm, cute-dsl and cutedsl_low_latency 100, 103, 107; "
        "b12x 120, 121; bmm_mxfp8 cudnn as above, cutlass 120, 121",
        meaning="FlashInfer's MXFP8 kernels are written for Blackwell, each for some of its "
        "members. Hopper and older GPUs have no block-scaled tensor cores.",
        fixes=('backend="auto"', "a GPU that the backend is written for"),
        source=f"{GEMM}:6140, 6171, 6199, 6221, 6252, 12117, 12180 and {UTILS}:1565",
        related=("res-cutlass", "res-trtllm", "res-cutedsl"),
    ),
    row(
        "fi-grouped-capability",
        GROUPED,
        "C2",
        "BackendSupportedError",
        "{function} does not support compute capability {capability}; supported compute "
        "capabilities: {known}",
        _capability,
        predicate="the compute capability is not 100, 103, 107, 110, 120 or 121",
        meaning="The grouped GEMM is written for Blackwell only.",
        fixes=("a Blackwell GPU",),
        source=f"{GEMM}:10444 and {UTILS}:1584",
    ),
    row(
        "fi-mm-tile",
        _BOTH,
        "C2",
        "ValueError",
        (
            "MXFP8 requires n >= 128 and k >= 128 for CUTLASS MXFP8. got m={m}, n={n}, k={k}.",
            "MXFP8 requires n >= 128 and k >= 128. got b={b}, m={m}, n={n}, k={k}.",
        ),
        _tile,
        predicate="n < 128 or k < 128, on every backend whatever the text says",
        hardware=BLACKWELL,
        meaning="One tile is 128 wide; smaller problems used to return NaN or garbage, so they are "
        "refused. The smallest layers of a model meet this first.",
        fixes=(_ROUTER, "zero-pad N and K of the weight to 128"),
        source=f"{GEMM}:6044 and 12160",
        related=("fi-mm-min",),
    ),
    row(
        "fi-mm-dtype",
        "mm_mxfp8",
        "C2",
        "ValueError",
        "{name} must be a float8_e4m3fn tensor, got {name}.dtype={dtype}",
        _dtype,
        predicate="a or b is not float8_e4m3fn",
        hardware=BLACKWELL,
        meaning="E5M2 elements, or a 16-bit activation that was never quantised.",
        fixes=("quantise the operand: mxfp8_quantize(x) returns E4M3 codes and scales",),
        source=f"{GEMM}:6053",
    ),
    row(
        "fi-mm-scale-dtype",
        "mm_mxfp8",
        "C2",
        "ValueError",
        "a_descale must be a uint8 tensor, got a_descale.dtype={dtype}",
        _scale_dtype,
        predicate="the scales are not uint8; float8_e8m0fnu is refused too",
        hardware=BLACKWELL,
        meaning="FlashInfer carries E8M0 scales as bytes. torch's float8_e8m0fnu holds the same "
        "bytes under another name.",
        fixes=("scale.view(torch.uint8)",),
        source=f"{GEMM}:6060",
    ),
    row(
        "fi-mm-scale-shape",
        "mm_mxfp8",
        "C2",
        "ValueError",
        (
            "{name} shape mismatch for swizzled layout. Expected ({length},), got {got}.",
            "{name} shape mismatch for non-swizzled layout. {operand} must be divisible by 32, "
            "got {k}.",
            "{name} shape mismatch for non-swizzled layout. Expected ({rows}, {cols}), got {got}.",
            "{name} must be 1D (swizzled) or 2D (non-swizzled), got {got}.",
        ),
        _scale_shape,
        predicate="1-D scales whose length is not round_up(rows, 128, or 8 with 8x4) * "
        "ceil(k / 128) * 4; 2-D ones that are not (m, k / 32) and (k / 32, n); any other rank. "
        "The flag for 8x4 and a 2-D a_descale decide about b_descale as well",
        hardware=BLACKWELL,
        meaning="The number of dimensions says whether the bytes are swizzled, and the length is "
        "all that is checked of a swizzled buffer.",
        fixes=(SWIZZLED_FIX, "use_8x4_sf_layout=False unless the scales were made in 8x4"),
        source=f"{GEMM}:6066",
        related=("fi-scale-bytes",),
    ),
    row(
        "fi-bmm-scale-rank",
        "bmm_mxfp8",
        "C2",
        "ValueError",
        "bmm_mxfp8 requires 1D swizzled scale tensors (produced by mxfp8_quantize(..., "
        "is_sf_swizzled_layout=True)); got A_scale.ndim={a}, B_scale.ndim={b}.",
        _bmm_scale_rank,
        predicate="the scales are not 1-D",
        hardware=BLACKWELL,
        meaning="A batched call reads swizzled scales only.",
        fixes=(SWIZZLED_FIX,),
        source=f"{GEMM}:12169",
        related=("fi-bmm-batch-rows",),
    ),
    row(
        "fi-mm-output",
        _BOTH,
        "C2",
        "ValueError",
        "Unsupported output dtype: {dtype}. Only torch.bfloat16 and torch.float16 are supported "
        "for MXFP8 GEMM operations.",
        _out_dtype,
        predicate="the output is neither bfloat16 nor float16",
        hardware=BLACKWELL,
        meaning="The kernels write 16-bit results.",
        fixes=("out_dtype=torch.bfloat16",),
        source=f"{GEMM}:12130",
        related=("fi-mm-outdtype",),
    ),
    row(
        "fi-auto-none",
        _BOTH,
        "C2",
        "BackendSupportedError",
        "No suitable auto backends found for {function}",
        _auto,
        predicate='backend="auto", and none of b12x, cutlass, cudnn, cutedsl_low_latency takes the '
        "call on this GPU (for bmm_mxfp8: cutlass on SM12x, else cudnn)",
        meaning="Either the GPU is not Blackwell, or the scales are 2-D or in 8x4. trtllm needs "
        "shuffled weights and cute-dsl is left to the caller, so auto never takes them.",
        fixes=("a Blackwell GPU", SWIZZLED_FIX, "name the backend to see its own refusal"),
        source=f"{GEMM}:6953 and {UTILS}:1557",
        related=("fwd-unsupported",),
    ),
)
