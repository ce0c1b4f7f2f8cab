"""Which kernel FlashInfer's mm_mxfp8 and bmm_mxfp8 run on: the requirements of every backend."""

from collections.abc import Callable
from dataclasses import dataclass

from mxlab.guards.facts import CallFacts, Facts
from mxlab.guards.findings import modulo
from mxlab.guards.flashinfer_rows import (
    CAPABILITIES,
    capability,
    flag_8x4,
    k_contiguous,
    one_dimensional,
    scale_shapes,
    sm12x,
    torch_size,
)


@dataclass(frozen=True, slots=True)
class Need:
    """One thing that a backend asks for: whether it holds, and its numbers.

    ``quiet`` needs make the checker return False, which becomes "Problem size is not supported";
    the others raise their own text.
    """

    holds: bool
    because: str
    quiet: bool


def _scales(call: CallFacts, quiet: bool, eight: bool = False) -> Need:
    """1-D scales, and not 8x4 unless ``eight`` is allowed."""
    a, b = scale_shapes(call)
    what = f"scales {torch_size(a)} and {torch_size(b)}"
    if flag_8x4(call) and not eight:
        return Need(False, f"{what} in 8x4: 128x4 is needed", quiet)
    return Need(one_dimensional(call), f"{what}: 1-D is needed", quiet)


def _k(call: CallFacts, divisor: int, quiet: bool) -> Need:
    return Need(call.k % divisor == 0, modulo("K", call.k, divisor), quiet)


def _cutlass(facts: Facts, call: CallFacts) -> tuple[Need, ...]:
    if not sm12x(facts):
        return (_scales(call, quiet=False),)
    n = Need(call.n % 32 == 0, modulo("N", call.n, 32), quiet=True)
    return _scales(call, quiet=True), _k(call, 32, quiet=True), n


def _trtllm(facts: Facts, call: CallFacts) -> tuple[Need, ...]:
    bf16 = Need(call.out_dtype == "bfloat16", f"output {call.out_dtype}", quiet=True)
    return bf16, _scales(call, quiet=False, eight=True), _k(call, 256, quiet=True)


def _cute_dsl(facts: Facts, call: CallFacts) -> tuple[Need, ...]:
    return (_scales(call, quiet=False, eight=True),)


def _low_latency(facts: Facts, call: CallFacts) -> tuple[Need, ...]:
    orders = f"A is {call.a_layout}-major and B {call.b_layout}-major"
    return (
        _scales(call, quiet=False),
        Need(all(k_contiguous(call)), orders, quiet=False),
        Need(
            call.m <= 8 and call.k % 128 == 0,
            f"M = {call.m} against 8, {modulo('K', call.k, 128)}",
            quiet=False,
        ),
    )


def _cudnn(facts: Facts, call: CallFacts) -> tuple[Need, ...]:
    return (_scales(call, quiet=True),)


def _b12x(facts: Facts, call: CallFacts) -> tuple[Need, ...]:
    major, minor = facts.platform.toolkit
    return (
        Need(major >= 13, f"CUDA {major}.{minor} against 13", quiet=False),
        _scales(call, quiet=False),
        _k(call, 128, quiet=False),
    )


def _bmm_cutlass(facts: Facts, call: CallFacts) -> tuple[Need, ...]:
    return ()  # 1-D scales were checked for every backend before


#: function -> backend -> its needs, in the order in which it checks them
NEEDS: dict[str, dict[str, Callable[[Facts, CallFacts], tuple[Need, ...]]]] = {
    "mm_mxfp8": {
        "cutlass": _cutlass,
        "trtllm": _trtllm,
        "cute-dsl": _cute_dsl,
        "cutedsl_low_latency": _low_latency,
        "cudnn": _cudnn,
        "b12x": _b12x,
    },
    "bmm_mxfp8": {"cudnn": _bmm_cutlass, "cutlass": _bmm_cutlass},
}


def first_unmet(facts: Facts, call: CallFacts, backend: str) -> Need | None:
    """Return the first need of ``backend`` that does not hold."""
    needs = NEEDS[call.function][backend](facts, call)
    return next((need for need in needs if not need.holds), None)


def refusal(facts: Facts, call: CallFacts, backend: str) -> str:
    """Say why a backend does not take the call, or nothing where it does."""
    cap = capability(facts)
    known = CAPABILITIES[call.function][backend]
    if cap not in known:
        return f"{backend}: capability {cap} is not one of {', '.join(map(str, known))}"
    unmet = first_unmet(facts, call, backend)
    return "" if unmet is None else f"{backend}: {unmet.because}"


def automatic(facts: Facts, call: CallFacts) -> list[str]:
    """Return what ``backend="auto"`` may take, best first: the first one runs without a tuner.

    Never trtllm, whose weights are shuffled, and never cute-dsl. cuDNN and the CuTe DSL count as
    installed: the package depends on them. Source: gemm_base.py:6953 and 12195.
    """
    fit = [name for name in CAPABILITIES[call.function] if not refusal(facts, call, name)]
    if call.function == "bmm_mxfp8":
        first = "cutlass" if capability(facts) // 10 == 12 else "cudnn"
        return [first] if first in fit else []
    if "b12x" in fit:
        return [name for name in ("b12x", "cutlass", "cudnn") if name in fit]
    return next(([n] for n in ("cutlass", "cudnn", "cutedsl_low_latency") if n in fit), [])


def backend_of(facts: Facts, call: CallFacts) -> str:
    """Return the backend that runs: the one asked for, or auto's choice; "" where there is none."""
    if call.backend != "auto":
        return call.backend
    return next(iter(automatic(facts, call)), "")
