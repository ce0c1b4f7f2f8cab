"""FlashInfer's quantisers and its scale interleaver."""

from mxlab.guards.engine import Finding, Guard, Status
from mxlab.guards.facts import CallFacts, Facts
from mxlab.guards.findings import judge, modulo, multiples, passes, silent, skipped
from mxlab.guards.flashinfer_rows import CSRC, DEFAULTS, QUANT, capability, row, where

_KERNEL = "flashinfer/quantization/kernels/mxfp8_quantize.py"
_FP4 = "flashinfer/quantization/fp4_quantization.py"
_PAD_K = "zero-pad K to a multiple of 32"
#: get_fp4_quantization_module has a build for these
_INTERLEAVE = (90, 100, 103, 107, 110, 120, 121)


def _backend(call: CallFacts) -> str:
    return DEFAULTS[call.function] if call.backend == "auto" else call.backend


def _k32(facts: Facts, call: CallFacts) -> Finding:
    near = f"; nearest legal K {multiples(call.k, 32)}" if call.k % 32 else ""
    return judge(call.k % 32 != 0, modulo("K", call.k, 32) + near)


def _dtype(facts: Facts, call: CallFacts) -> Finding:
    dtype, backend = call.a_dtype, _backend(call)
    because = f"input {dtype}, backend {backend}"
    if backend == "cute-dsl":
        bad = dtype not in ("float16", "bfloat16", "float32")
        return judge(bad, because, 1, dtype=f"torch.{dtype}")
    return judge(dtype not in ("float16", "bfloat16"), because, 0)


def _contiguous(facts: Facts, call: CallFacts) -> Finding:
    if call.function == "mxfp8_quantize" and _backend(call) != "cuda":
        return skipped("a check of backend cuda")
    name = {"mxfp8_quantize": "input"}.get(call.function, "blockScale")
    bad = call.a_layout != "row" or (name == "blockScale" and not call.scale_contiguous)
    return judge(bad, f"the input is {call.a_layout}-major", name=name)


def _old_gpu(facts: Facts, call: CallFacts) -> Finding:
    if _backend(call) != "cuda":
        return skipped("a matter of backend cuda")
    if not facts.platform.cuda:
        return skipped(f"{where(facts)}: the kernel is not built")
    because = f"{where(facts)} against 100"
    if capability(facts) >= 100:
        return passes(because)
    return silent(f"{because}: the conversion is compiled to a function that returns zeros")


def _grouped(facts: Facts, call: CallFacts) -> Finding:
    if call.a_dtype not in ("float16", "bfloat16"):
        return Finding(Status.STOPS, f"input {call.a_dtype}", message=0)
    if capability(facts) < 100:
        return Finding(Status.STOPS, f"{where(facts)} against SM100", message=1)
    because = modulo("K", call.k, 32)
    return judge(call.k % 32 != 0, because, 2, k=call.k)


def _cake(facts: Facts, call: CallFacts) -> Finding:
    if _backend(call) != "cake":
        return skipped("a check of backend cake")
    gpu = facts.platform.gpu.label
    bad = capability(facts) not in (100, 103)
    return judge(bad, where(facts), dtype=f"torch.{call.a_dtype}", gpu=gpu)


def _interleave_dtype(facts: Facts, call: CallFacts) -> Finding:
    dtype = call.scale_dtype or "uint8"
    bad = dtype not in ("uint8", "bfloat16")
    return judge(bad, f"scales are {dtype}", dtype=f"torch.{dtype}")


def _interleave_gpu(facts: Facts, call: CallFacts) -> Finding:
    cap = capability(facts)
    because = f"{where(facts)}: built for {', '.join(map(str, _INTERLEAVE))}"
    return judge(cap not in _INTERLEAVE, because, capability=cap)


def _dequantize(facts: Facts, call: CallFacts) -> Finding:
    name = call.scale_layout or "tile_128x4"
    dtypes = f"codes {call.a_dtype}, scales {call.scale_dtype or 'uint8'}, {name}"
    if call.a_dtype != "uint8":
        return Finding(Status.STOPS, dtypes, message=0)
    bad = (call.scale_dtype or "uint8") != "uint8"
    return judge(bad, dtypes, 1)


GUARDS: tuple[Guard, ...] = (
    row(
        "fi-quant-k32",
        "mxfp8_quantize",
        "C2",
        "AssertionError",
        (),
        _k32,
        predicate="K % 32 != 0; the assertion has no text",
        meaning="A row cannot be cut into blocks of 32. The traceback shows only the line "
        "assert input.shape[-1] % sf_vec_size == 0.",
        fixes=(_PAD_K, "quantise before the tensor is split"),
        source=f"{QUANT}:225",
        related=("fwd-fi-k32",),
    ),
    row(
        "fi-quant-dtype",
        "mxfp8_quantize",
        "C2",
        "NotImplementedError, AssertionError",
        (
            "mxfp8_quantize only supports input tensor with dtypes fp16/bf16.",
            "Input dtype must be float16, bfloat16, or float32, got {dtype}",
        ),
        _dtype,
        predicate="backend cuda: not float16 or bfloat16; cute-dsl: not float32 either",
        meaning="float32 activations need the cute-dsl backend.",
        fixes=("x.to(torch.bfloat16)", 'backend="cute-dsl" for float32'),
        source=f"{CSRC}/nv_internal/tensorrt_llm/thop/fp8Quantize.cpp:73 and {_KERNEL}:1357",
    ),
    row(
        "fi-quant-contiguous",
        ("mxfp8_quantize", "block_scale_interleave"),
        "C3",
        "RuntimeError",
        "{name} must be contiguous",
        _contiguous,
        predicate="a strided input: mxfp8_quantize with backend cuda, block_scale_interleave",
        meaning="The kernels read the rows one behind the other.",
        fixes=("x.contiguous()",),
        source=f"{CSRC}/nv_internal/tensorrt_llm/thop/fp8Quantize.cpp:32 and fp4Op.cpp:195",
    ),
    row(
        "fi-quant-old-gpu",
        "mxfp8_quantize",
        "C3",
        "",
        (),
        _old_gpu,
        predicate="backend cuda and a compute capability below 100",
        hardware="SM75 to SM90",
        meaning="The function has no check of the GPU. Below SM100 the conversion is compiled out: "
        "every code is 0 and the scales keep whatever the memory held. Read in the source, not "
        "run on a device.",
        fallback="returns zeros with arbitrary scales",
        fixes=("a Blackwell GPU", "mxlab.quantize, torchao's to_mx or any other quantiser"),
        source=f"{CSRC}/nv_internal/tensorrt_llm/kernels/quantization_utils.cuh:856",
        related=("cfg-min-capability",),
    ),
    row(
        "fi-quant-grouped",
        "mxfp8_grouped_quantize",
        "C2",
        "ValueError, RuntimeError",
        (
            "a dtype must be torch.float16 or torch.bfloat16",
            "mxfp8_grouped_quantize requires SM100 or newer",
            "K must be divisible by 32, got {k}",
        ),
        _grouped,
        predicate="the input is not 16-bit, or the GPU is older than SM100, or K % 32 != 0",
        meaning="The masked grouped quantiser feeds a Blackwell kernel.",
        fixes=("x.to(torch.bfloat16)", _PAD_K, "a Blackwell GPU"),
        source=f"{QUANT}:517",
    ),
    row(
        "fi-quant-cake",
        "mxfp8_grouped_quantize",
        "C2",
        "RuntimeError",
        "backend='cake' requires float16 or bfloat16 input on a device of exact compute capability "
        "10.0 or 10.3; got dtype={dtype} on {gpu}",
        _cake,
        predicate="backend cake on a capability other than 100 and 103",
        hardware="SM110, SM120, SM121",
        meaning="A generated kernel for two GPUs; there is no fallback from it.",
        fixes=('backend="cutile"',),
        source=f"{QUANT}:449",
        related=("fi-quant-grouped",),
    ),
    row(
        "fi-interleave-dtype",
        "block_scale_interleave",
        "C2",
        "AssertionError",
        "Input dtype must be uint8 or bfloat16, got {dtype}",
        _interleave_dtype,
        predicate="the scales are neither uint8 nor bfloat16",
        meaning="float8_e8m0fnu holds the same bytes under another name and is refused.",
        fixes=("scale.view(torch.uint8)",),
        source=f"{_FP4}:1385",
        related=("fi-mm-scale-dtype",),
    ),
    row(
        "fi-interleave-gpu",
        "block_scale_interleave",
        "C2",
        "ValueError",
        "Invalid backend: {capability}",
        _interleave_gpu,
        predicate="the compute capability has no build: not 90, 100, 103, 107, 110, 120, 121",
        hardware="SM75 to SM89",
        meaning="The text calls the compute capability a backend.",
        fixes=("mxlab.interleave, which gives the same bytes on a CPU",),
        source=f"{_FP4}:297",
    ),
    row(
        "fi-dequantize-dtype",
        "mxfp8_dequantize_host",
        "C3",
        "RuntimeError",
        (
            "Inconsistency of Tensor type: value_e4m3",
            "Inconsistency of Tensor type: scale_ue8m08sf",
        ),
        _dequantize,
        predicate="the codes or the scales are not uint8",
        hardware="CPU tensors",
        meaning="A test helper that runs on the host. It reads byte 0 as 0.0 and byte 255 as "
        "infinity, where the format has 2^-127 and NaN.",
        fixes=("x.view(torch.uint8)", "mxlab.dequantize"),
        source=f"{CSRC}/nv_internal/tensorrt_llm/thop/fp8Quantize.cpp:139",
    ),
)
