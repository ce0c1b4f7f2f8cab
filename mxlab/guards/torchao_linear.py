"""torchao 0.18: imports, the quantiser to_mx, and the MXFP8 linear of inference."""

from mxlab.errors import InputError, quote
from mxlab.guards import torch_cpu, torch_device, torch_eager, torch_rocm
from mxlab.guards.engine import Finding, Guard, Status
from mxlab.guards.facts import CallFacts, Facts
from mxlab.guards.findings import judge, modulo, multiples, pad, passes, silent, skipped
from mxlab.guards.platform import toolkit_version
from mxlab.guards.torchao_facts import (
    ALL,
    AO,
    CONFIG,
    ELEMENTS,
    EMULATE,
    EXCLUDE,
    FLOW,
    LINEAR,
    PAD,
    TENSOR,
    TO_MX,
    TRAIN,
    emulated,
)


def _torch(facts: Facts) -> tuple[int, int] | None:
    """Return torch's version where the deployment names it: TORCH_VERSION in ``env``."""
    text = facts.deployment.env.get("TORCH_VERSION")
    if text is None:
        return None
    try:
        return toolkit_version(text.split("+")[0])
    except InputError:
        raise InputError(f"TORCH_VERSION is {quote(text)}: expected a version, 2.13.0") from None


def _import_dtype(facts: Facts, c: CallFacts) -> Finding:
    version = _torch(facts)
    if version is None:
        return passes("torch is taken to be 2.10 or later")
    return judge(version < (2, 7), f"torch {version[0]}.{version[1]}, 2.7 has E8M0")


def _import_enum(facts: Facts, c: CallFacts) -> Finding:
    version = _torch(facts)
    if version is None:
        return passes("torch is taken to be 2.10 or later")
    if version < (2, 7):
        return skipped("ao-import-dtype stops before")
    return judge(version < (2, 10), f"torch {version[0]}.{version[1]}, 2.10 has ScalingType")


def _match(facts: Facts, c: CallFacts) -> Finding:
    because = f"activations {c.a_dtype}, weights {c.b_dtype}"
    return judge(c.a_dtype != c.b_dtype, because)


def _element(facts: Facts, c: CallFacts) -> Finding:
    because = f"the element is {c.a_dtype}"
    return judge(c.a_dtype not in ELEMENTS, because, dtype=f"torch.{c.a_dtype}")


def _weight_dtype(facts: Facts, c: CallFacts) -> Finding:
    because = f"the weight is {c.out_dtype}"
    return judge(c.out_dtype != "bfloat16", because, dtype=f"torch.{c.out_dtype}")


def _input_dtype(facts: Facts, c: CallFacts) -> Finding:
    if c.function == TRAIN and not emulated(c):
        return skipped("AUTO quantises with a Triton kernel (ao-triton-dtype)")
    bad = c.out_dtype not in ("bfloat16", "float32")
    return judge(bad, f"the input is {c.out_dtype}", dtype=f"torch.{c.out_dtype}")


def _k32(facts: Facts, c: CallFacts) -> Finding:
    if c.function == TRAIN and not emulated(c):
        return skipped("AUTO quantises with a Triton kernel (ao-triton-k)")
    rows = c.n if c.function == LINEAR else c.m
    because = f"{modulo('K', c.k, 32)}, next {multiples(c.k, 32)}"
    return judge(c.k % 32 != 0, because, rows=rows, cols=c.k)


def _contiguous(facts: Facts, c: CallFacts) -> Finding:
    bad = c.a_layout != "row" and c.m > 1 and c.k > 1
    return judge(bad, f"the input is {c.m} x {c.k}, {c.a_layout} order")


def _auto_element(facts: Facts, c: CallFacts) -> Finding:
    if emulated(c):
        return skipped("EMULATED multiplies any element")
    return judge(c.a_dtype == "float8_e5m2", f"the element is {c.a_dtype}")


def _silent_emulated(facts: Facts, c: CallFacts) -> Finding:
    if emulated(c):
        return passes("EMULATED was asked for")
    if c.function != TO_MX:
        return passes("AUTO: torch._scaled_mm multiplies")
    return silent("to_mx's default is EMULATED: products dequantise to bfloat16 on every GPU")


def _silent_rule(facts: Facts, c: CallFacts) -> Finding:
    if c.function == TO_MX:
        return silent("to_mx's default is FLOOR: maxima above 1.75 * 2^n clip by up to 12.5 %")
    return passes("the default is RCEIL")


#: torch's rows that the product of AUTO can meet
_GEMM = tuple(
    row
    for table in (torch_eager, torch_cpu, torch_rocm, torch_device)
    for row in table.GUARDS
    if row.id
    in (
        *("torch-v1-arch", "torch-v1-n16", "torch-v1-cpu", "torch-rocm-version", "torch-rocm-arch"),
        *("torch-rocm-sizes", "torch-cuda-128", "torch-cublas-arch"),
    )
)


def _gemm(facts: Facts, c: CallFacts) -> Finding:
    if emulated(c):
        return skipped("EMULATED dequantises and multiplies in bfloat16")
    if c.a_dtype != "float8_e4m3fn":
        return skipped(f"AUTO multiplies E4M3 alone, not {c.a_dtype} (ao-auto-e5m2)")
    tiles = (32 * (pad(c.n, 128) // 128), 16 * (pad(c.k, 128) // 128))  # the weight's are kept 2-D
    call = CallFacts(
        function="_scaled_mm",
        m=c.m,
        n=c.n,
        k=c.k,
        b_scale_shape=tiles if c.function == LINEAR else None,
    )
    asked = Facts(
        deployment=facts.deployment,
        platform=facts.platform,
        quant=facts.quant,
        dense=facts.dense,
        runner=facts.runner,
        call=call,
    )
    offset = 0
    for row in _GEMM:
        found = row.check(asked)
        if found.status is Status.STOPS:
            index = offset + (found.message or 0)
            return Finding(Status.STOPS, f"{row.id}: {found.because}", found.values, index)
        offset += len(row.messages)
    return passes(f"torch._scaled_mm takes {c.m} x {c.k} by {c.k} x {c.n}")


GUARDS: tuple[Guard, ...] = (
    AO.row(
        "ao-import-dtype",
        ALL,
        "C1",
        "AttributeError",
        "module 'torch' has no attribute 'float8_e8m0fnu'",
        _import_dtype,
        predicate="torch before 2.7",
        meaning="torch.float8_e8m0fnu came with torch 2.7; importing mx_formats names it.",
        fixes=("torch 2.10 or later", "mxlab needs no such dtype: its scales are uint8 bytes"),
        source=f"{TENSOR}; reproduced by removing the attribute from torch 2.13",
        related=("ao-import-enum",),
    ),
    AO.row(
        "ao-import-enum",
        ALL,
        "C1",
        "ImportError",
        "cannot import name 'ScalingType' from 'torch.nn.functional'",
        _import_enum,
        predicate="torch from 2.7 to 2.9",
        meaning="torch.nn.functional.scaled_mm and its enums came with torch 2.10.",
        fixes=("torch 2.10 or later", "an older torchao"),
        source=f"{TENSOR}:39; reproduced by removing the names from torch 2.13",
        related=("ao-import-dtype",),
    ),
    AO.row(
        "ao-config-match",
        LINEAR,
        "C2",
        "AssertionError",
        "For now - we only support matching input/weight dtypes.",
        _match,
        predicate="activation_dtype != weight_dtype",
        meaning="Weights in one format and activations in another are not implemented.",
        fixes=("one dtype for both",),
        source=f"{FLOW}:113",
    ),
    AO.row(
        "ao-config-element",
        LINEAR,
        "C2",
        "AssertionError",
        "elem_dtype must be one of [torch.float8_e4m3fn, torch.float8_e5m2, 'fp6_e2m3', "
        "'fp6_e3m2', torch.float4_e2m1fn_x2], got {dtype}",
        _element,
        predicate="the element format is not one of the MX formats",
        meaning="AMD's fnuz formats and integers have no MX form here.",
        fixes=("torch.float8_e4m3fn",),
        source=f"{CONFIG}:78",
    ),
    AO.row(
        "ao-weight-dtype",
        LINEAR,
        "C2",
        "AssertionError",
        "Only supporting bf16 out dtype for now, got {dtype}",
        _weight_dtype,
        predicate="the weight is not bfloat16",
        meaning="The product writes bfloat16, so the model must be in bfloat16 before quantize_.",
        fixes=("model.to(torch.bfloat16) first",),
        source=f"{FLOW}:129",
        related=("ao-input-dtype",),
    ),
    AO.row(
        "ao-input-dtype",
        (TO_MX, TRAIN),
        "C2",
        "AssertionError",
        "{dtype} is not supported yet",
        _input_dtype,
        predicate="the input is neither bfloat16 nor float32",
        meaning="float16 is not quantised, although every float16 value fits.",
        fixes=("convert to bfloat16 or float32 first",),
        source=f"{TENSOR}:225",
    ),
    AO.row(
        "ao-k32",
        (TO_MX, LINEAR, TRAIN),
        "C2",
        "AssertionError",
        "the last dimension of shape torch.Size([{rows}, {cols}]) must be divisible by block_size "
        "32",
        _k32,
        predicate="K % 32 != 0",
        meaning="torchao has no short last block: the contraction length must be whole blocks.",
        fixes=(PAD, EXCLUDE),
        source=f"{TENSOR}:230",
        related=("ao-train-dgrad", "ao-train-wgrad", "torch-v1-k16", "te-dim32"),
    ),
    AO.row(
        "ao-contiguous",
        TO_MX,
        "C2",
        "AssertionError",
        "unsupported",
        _contiguous,
        predicate="the input is not contiguous",
        meaning="The whole text is one word: the input is a transposed or strided view.",
        fixes=("call .contiguous() first",),
        source=f"{TENSOR}:233",
        related=("ao-element",),
    ),
    AO.row(
        "ao-element",
        TO_MX,
        "C2",
        "AssertionError",
        "unsupported",
        _element,
        predicate="the element format is not one of the MX formats",
        meaning="AMD's fnuz formats and integers have no MX form here.",
        fixes=("torch.float8_e4m3fn",),
        related=("ao-config-element", "ao-contiguous"),
        source=f"{TENSOR}:234",
    ),
    AO.row(
        "ao-auto-e5m2",
        LINEAR,
        "C3",
        "AssertionError",
        (),
        _auto_element,
        predicate="AUTO with E5M2 elements",
        meaning="AUTO multiplies E4M3 or FP4: with E5M2 the first product meets an assertion that "
        "has no text.",
        fixes=("torch.float8_e4m3fn", EMULATE),
        source=f"{TENSOR}:814",
        related=("torch-v2-config",),
    ),
    AO.row(
        "ao-gemm",
        (LINEAR, TRAIN),
        "C3",
        "RuntimeError",
        tuple(message for row in _GEMM for message in row.messages),
        _gemm,
        predicate="torch._scaled_mm refuses the product",
        meaning="AUTO hands codes and tiled scales to torch._scaled_mm, whose checks follow. The "
        "linear was quantised before, so the error comes with the first batch.",
        fixes=(EMULATE, "pad N to a multiple of 16"),
        source=f"{TENSOR}:805",
        related=tuple(row.id for row in _GEMM),
    ),
    AO.row(
        "ao-silent-emulated",
        (TO_MX, LINEAR, TRAIN),
        "C3",
        "",
        (),
        _silent_emulated,
        predicate="MXTensor.to_mx without kernel_preference",
        meaning="A tensor made by to_mx multiplies by dequantising to bfloat16, on Blackwell too: "
        "right numbers, none of the speed.",
        fallback="dequantise, then a bfloat16 product",
        fixes=("kernel_preference=KernelPreference.AUTO",),
        source=f"{TENSOR}:646",
        related=("triton-emulated",),
    ),
    AO.row(
        "ao-silent-rule",
        (TO_MX, LINEAR, TRAIN),
        "C3",
        "",
        (),
        _silent_rule,
        predicate="MXTensor.to_mx without scaling_mode",
        meaning="to_mx rounds scales with FLOOR, the inference config with RCEIL: the same weight "
        "has other bytes in 16 to 19 % of blocks.",
        fallback="OCP's FLOOR",
        fixes=("scaling_mode=ScaleCalculationMode.RCEIL",),
        source=f"{TENSOR}:644",
    ),
)
