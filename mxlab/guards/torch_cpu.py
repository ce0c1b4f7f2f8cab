"""What torch's scaled_mm says on a CPU: it has no MXFP8 product."""

from mxlab.guards.engine import Finding, Guard
from mxlab.guards.facts import CallFacts, Facts
from mxlab.guards.findings import judge, skipped
from mxlab.guards.torch_eager import CPU_CONFIG, CPU_CPP, eager, given, nothing, offer
from mxlab.guards.torch_facts import flagged, recipe


def _v1_cpu(facts: Facts, c: CallFacts) -> Finding:
    if facts.platform.gpu.vendor != "none":
        return skipped("a GPU call")
    found = recipe(c)
    if found in ("TensorWise", "RowWise"):
        return judge(False, f"read as {found}")
    return offer(c, f"no CPU has an MXFP8 product; {given(c)}")


def _v2_cpu_swizzle(facts: Facts, c: CallFacts) -> Finding:
    if facts.platform.gpu.vendor != "none":
        return skipped("a GPU call")
    because = f"swizzle_a and swizzle_b are {flagged(c)}"
    return nothing(c) or judge(flagged(c) != "NO_SWIZZLE", because)


def _v2_cpu(facts: Facts, c: CallFacts) -> Finding:
    if facts.platform.gpu.vendor != "none":
        return skipped("a GPU call")
    return nothing(c) or offer(c, "no CPU has an MXFP8 product")


_NO_CPU = ("dequantise to bfloat16 and use torch.mm", "mxlab gemm: the reference back end")

GUARDS: tuple[Guard, ...] = (
    eager(
        "v1",
        "cpu",
        "ValueError",
        CPU_CONFIG,
        _v1_cpu,
        predicate="a CPU tensor with block scales",
        meaning="torch's CPU has per-tensor and row-wise FP8 products, none with E8M0 scales.",
        hardware="no GPU",
        fixes=_NO_CPU,
        source=CPU_CPP,
        related=("torch-v2-cpu",),
    ),
    eager(
        "v2",
        "cpu-swizzle",
        "ValueError",
        "CPU does not support swizzle.",
        _v2_cpu_swizzle,
        predicate="a CPU tensor and a swizzle flag",
        meaning="The CPU path knows no tiled scales, and no MXFP8 either.",
        hardware="no GPU",
        fixes=_NO_CPU,
        source=CPU_CPP,
        related=("torch-v2-cpu",),
    ),
    eager(
        "v2",
        "cpu",
        "ValueError",
        CPU_CONFIG,
        _v2_cpu,
        predicate="a CPU tensor and BlockWise1x32",
        meaning="torch's CPU has per-tensor and row-wise FP8 products, none with E8M0 scales.",
        hardware="no GPU",
        fixes=_NO_CPU,
        source=CPU_CPP,
        related=("torch-v1-cpu", "torch-v2-cpu-swizzle"),
    ),
)
