"""torchao 0.18: training's three products, grouped experts, and the CUDA quantiser."""

from mxlab.guards.engine import Finding, Guard
from mxlab.guards.facts import CallFacts, Facts
from mxlab.guards.findings import judge, modulo, multiples, pad, passes, silent, skipped, stops
from mxlab.guards.torchao_facts import (
    AO,
    CAST,
    EMULATE,
    EXCLUDE,
    GROUPED,
    GROUPED_MM,
    KERNELS,
    PAD,
    TRAIN,
    TRAINING,
    emulated,
    native,
)


def _dgrad(facts: Facts, c: CallFacts) -> Finding:
    because = (
        f"{modulo('N', c.n, 32)}: the input gradient contracts over N = {c.n}, "
        f"next {multiples(c.n, 32)}"
    )
    index = 0 if emulated(c) else 1
    return judge(c.n % 32 != 0, because, index, m=c.m, n=c.n)


def _wgrad(facts: Facts, c: CallFacts) -> Finding:
    because = f"{modulo('M', c.m, 32)}: the weight gradient contracts over M = {c.m} tokens"
    index = 0 if emulated(c) else 1
    return judge(c.m % 32 != 0, because, index, m=c.m, n=c.n)


def _triton(facts: Facts, c: CallFacts) -> Finding:
    if emulated(c):
        return skipped("EMULATED needs no Triton kernel")
    gpu = facts.platform.gpu
    return judge(gpu.vendor == "none", f"{gpu.label}: Triton has no driver")


def _triton_dtype(facts: Facts, c: CallFacts) -> Finding:
    if emulated(c):
        return skipped("EMULATED takes float32 too")
    because = f"the input is {c.out_dtype}"
    return judge(c.out_dtype != "bfloat16", because, dtype=f"torch.{c.out_dtype}")


def _triton_k(facts: Facts, c: CallFacts) -> Finding:
    if emulated(c):
        return skipped("EMULATED has its own check (ao-k32)")
    return judge(c.k % 32 != 0, f"{modulo('K', c.k, 32)}, next {multiples(c.k, 32)}")


def _cast_kernel(facts: Facts, c: CallFacts) -> Finding:
    if c.function == TRAIN and emulated(c):
        return skipped("EMULATED needs no kernel")
    p = facts.platform
    because = f"{p.gpu.label} ({p.gpu.arch or 'no GPU'}), toolkit {p.toolkit[0]}.{p.toolkit[1]}"
    return judge(not native(facts), because)


def _cast_sizes(facts: Facts, c: CallFacts) -> Finding:
    for index, (name, size) in enumerate((("M", c.m), ("K", c.k))):
        if size % 32:
            return stops(modulo(name, size, 32), index)
    return passes(f"{modulo('M', c.m, 32)}, {modulo('K', c.k, 32)}")


def _grouped_kernels(facts: Facts, c: CallFacts) -> Finding:
    if emulated(c):
        return skipped("EMULATED needs no kernel")
    p = facts.platform
    because = f"{p.gpu.label}, toolkit {p.toolkit[0]}.{p.toolkit[1]}"
    return judge(not native(facts), because)


def _grouped_out(facts: Facts, c: CallFacts) -> Finding:
    return judge(c.out_dtype not in ("bfloat16", "float32"), f"out_dtype is {c.out_dtype}")


def _grouped_splits(facts: Facts, c: CallFacts) -> Finding:
    groups = c.groups or (c.m,)
    bad = [size for size in groups if size % 32]
    if not bad:
        return passes(f"groups {list(groups)} are multiples of 32")
    padded = [pad(size, 32) for size in groups]
    return silent(
        f"groups {list(groups)}: {bad[0]} % 32 = {bad[0] % 32}, so a block of 32 tokens holds two "
        f"experts; padded {padded}"
    )


GUARDS: tuple[Guard, ...] = (
    AO.row(
        "ao-triton",
        TRAIN,
        "C2",
        "AssertionError",
        "needs triton",
        _triton,
        predicate="AUTO without a GPU that Triton can drive",
        meaning="Training with AUTO quantises by a Triton kernel.",
        hardware="no GPU",
        fixes=(EMULATE,),
        source=f"{KERNELS}:444",
        related=("ao-cast-kernel",),
    ),
    AO.row(
        "ao-triton-dtype",
        TRAIN,
        "C2",
        "AssertionError",
        "only bfloat16 inputs are supported, got {dtype}",
        _triton_dtype,
        predicate="AUTO and an input that is not bfloat16",
        meaning="The Triton quantiser reads bfloat16 alone.",
        fixes=("convert to bfloat16 first", EMULATE),
        source=f"{KERNELS}:860",
        related=("ao-input-dtype",),
    ),
    AO.row(
        "ao-triton-k",
        TRAIN,
        "C2",
        "AssertionError",
        "columns must be divisible by inner block size",
        _triton_k,
        predicate="AUTO and K % 32 != 0",
        meaning="The same rule as ao-k32, in the Triton quantiser's words.",
        fixes=(PAD, EXCLUDE),
        source=f"{KERNELS}:873",
        related=("ao-k32",),
    ),
    AO.row(
        "ao-cast-sizes",
        CAST,
        "C2",
        "AssertionError",
        ("rows must be a multiple of 32", "cols must be a multiple of 32"),
        _cast_sizes,
        predicate="M % 32 != 0 or K % 32 != 0",
        meaning="The CUDA quantiser scales along both axes, so both must be whole blocks.",
        fixes=(PAD,),
        source=f"{KERNELS}:1052",
        related=("ao-train-wgrad",),
    ),
    AO.row(
        "ao-cast-kernel",
        (CAST, TRAIN),
        "C2",
        "NotImplementedError",
        "`mxfp8_quantize_cuda` needs (1) torch 2.8+ and (2) torchao built from source on a machine "
        "with CUDA capability 10.0+. Please see https://github.com/pytorch/ao/issues/2932 for more "
        "details.",
        _cast_kernel,
        predicate="no CUDA device of compute capability 10.0, or CUDA before 12.8",
        meaning="The kernel that scales along columns is built for SM100; training's backward pass "
        "needs it under AUTO.",
        hardware="everything before SM100, AMD, no GPU",
        fixes=(EMULATE,),
        source=f"{KERNELS}:1171",
        related=("ao-grouped-sm100", "ao-triton"),
    ),
    AO.row(
        "ao-grouped-sm100",
        GROUPED,
        "C2",
        "AssertionError",
        "SM100 kernels not available. Please use torchao CUDA 12.8+ build on SM100/100a device(s). "
        "Otherwise, set kernel_preference=KernelPreference.EMULATED (emulated mode implements "
        "basic functionality without efficient kernels).",
        _grouped_kernels,
        predicate="AUTO without SM100 kernels and CUDA 12.8",
        meaning="MoE training in MXFP8 has its kernels on SM100 only; the package imports "
        "everywhere and says so when called.",
        hardware="everything before SM100, AMD, no GPU",
        fixes=(EMULATE,),
        source=f"{GROUPED_MM}:158",
        related=("ao-cast-kernel", "fi-grouped-capability"),
    ),
    AO.row(
        "ao-grouped-out",
        GROUPED,
        "C2",
        "AssertionError",
        "out_dtype must be bfloat16 or float32",
        _grouped_out,
        predicate="out_dtype is neither bfloat16 nor float32",
        meaning="float16 results are not implemented.",
        fixes=("out_dtype=torch.bfloat16",),
        source=f"{GROUPED_MM}:169",
    ),
    AO.row(
        "ao-train-dgrad",
        TRAIN,
        "C3",
        "AssertionError",
        (
            "the last dimension of shape torch.Size([{m}, {n}]) must be divisible by block_size 32",
            "columns must be divisible by inner block size",
        ),
        _dgrad,
        predicate="N % 32 != 0, in the backward pass",
        meaning="Three products, three contraction lengths: forward K = in_features, input "
        "gradient N = out_features, weight gradient M = tokens. A router with 16 experts passes "
        "forward and stops in backward; inference meets the first only.",
        fixes=(EXCLUDE, PAD),
        source=f"{TRAINING}:166",
        related=("ao-k32", "ao-train-wgrad"),
    ),
    AO.row(
        "ao-train-wgrad",
        TRAIN,
        "C3",
        "AssertionError",
        (
            "the last dimension of shape torch.Size([{n}, {m}]) must be divisible by block_size 32",
            "rows must be a multiple of 32",
        ),
        _wgrad,
        predicate="M % 32 != 0, in the backward pass",
        meaning="The weight gradient contracts over the tokens of the batch.",
        fixes=("pad the batch to a multiple of 32 tokens", "wgrad_with_hp=True: in bfloat16"),
        source=f"{TRAINING}:205",
        related=("ao-k32", "ao-train-dgrad", "ao-grouped-splits"),
    ),
    AO.row(
        "ao-grouped-splits",
        GROUPED,
        "C3",
        "",
        (),
        _grouped_splits,
        predicate="a group of tokens is not a multiple of 32 and nothing pads it",
        meaning="In the weight gradient a block of 32 tokens must belong to one expert. "
        "pad_token_groups_for_grouped_mm is off unless asked for, and no check looks at the "
        "splits.",
        fallback="goes on: scales cross the border of two experts",
        fixes=(
            "pad_token_groups_for_grouped_mm=True: pads each group to 32",
            "let the router pad: 44 -> 64, 20 -> 32, 0 -> 0",
        ),
        source=f"{GROUPED_MM}:190",
        related=("te-group-align", "ao-train-wgrad"),
    ),
)
