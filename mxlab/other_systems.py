"""A model asked of a system other than SGLang: its linears are calls of that system's function.

SGLang decides from a checkpoint's config and its flags what is quantised and which kernel runs. A
library is handed operands: every dense linear is one call of the function that multiplies MXFP8,
for M rows of tokens. A server with tables of its own is asked about its config too.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from mxlab.guards import (
    CallFacts,
    ConfigFacts,
    Deployment,
    ExpertFacts,
    Facts,
    System,
    Verdict,
    ask,
    facts,
)
from mxlab.guards.calls import ROWS
from mxlab.models import Linear, Shapes, describe_quantization
from mxlab.quantized import Coverage
from mxlab.subjects import linear_facts

_WIDE = ("router", "lm_head")


def covered(found: Shapes, deployment: Deployment, asked: System) -> tuple[Coverage, ...]:
    """Return which linears are multiplied in MXFP8.

    A library is asked about MXFP8 whatever the checkpoint holds; a server where the checkpoint or
    ``--quantization mxfp8`` says so. Routers, the output head and what the checkpoint's exclusion
    list names stay in 16 bits.
    """
    claim = describe_quantization(found.config)
    held = claim.weights if claim else "16 bit"
    if asked.server and deployment.quantization != "mxfp8" and held != "MXFP8":
        why = f"the weights are {held} and no --quantization mxfp8 is given"
        return tuple(Coverage(0, why) for _ in found.layers)
    modules = {name: row for row in found.layers for name in _names(row)}
    kept: dict[str, int] = {}
    for name in _excluded(claim.ignore if claim else (), modules):
        kept[modules[name].linear] = kept.get(modules[name].linear, 0) + 1
    return tuple(_coverage(row, kept.get(row.linear, 0)) for row in found.layers)


def _excluded(entries: Sequence[str], modules: Collection[str]) -> Collection[str]:
    if not entries:
        return ()
    from mxlab.checkpoints.exclusions import exclude  # only for a claim with a list

    return exclude(entries, modules).covers


def _names(row: Linear) -> list[str]:
    outer = row.path.rpartition(".")[0]
    leaf = row.sources[0].rpartition(".")[2] if row.sources and row.kind != "moe" else ""
    name = f"{outer}.{leaf}" if outer and leaf else row.path
    return [name.replace("{layer}", str(index)) for index in row.indices or (0,)]


def _coverage(row: Linear, kept: int) -> Coverage:
    if row.kind in _WIDE:
        return Coverage(0, "routers and the output head stay in 16 bits")
    if kept >= row.layers:
        return Coverage(0, "the exclusion list names it")
    return Coverage(row.layers - kept, f"the exclusion list names {kept} layers" if kept else "")


def calls_of(
    row: Linear, asked: System, backend: str = "auto", m: int = ROWS
) -> tuple[CallFacts, ...]:
    """Return the calls that one linear is: one of the system's dense function.

    >>> from mxlab.guards import system
    >>> row = Linear(linear="down_proj", kind="linear", shard="row", layers=1, sources=(),
    ...              path="", n=64, k=96)
    >>> [(call.function, call.n, call.k) for call in calls_of(row, system("deepgemm"))]
    [('fp8_gemm_nt', 64, 96)]
    """
    if not asked.dense or row.n is None or row.k is None or row.kind == "moe":
        return ()
    known = asked.functions.get(asked.dense, ())
    chosen = backend if backend in known else "auto"
    return (CallFacts(function=asked.dense, m=m, n=row.n, k=row.k, backend=chosen),)


def server_facts(
    deployment: Deployment, asked: System, values: Mapping[str, Any] | None
) -> Facts | None:
    """Return the facts of a server; None for a library, which knows of nothing but its calls."""
    return facts(deployment, config=ConfigFacts(values)) if asked.server else None


def linear_verdicts(
    deployment: Deployment,
    asked: System,
    base: Facts | None,
    row: Linear,
    cover: Coverage,
    m: int = ROWS,
) -> tuple[Verdict, ...]:
    """Return the verdicts about one linear: those of a server's own checks, then of its calls."""
    if row.n is None or row.k is None:
        return ()
    own: tuple[Verdict, ...] = ()
    if base is not None:
        own = ask(base, "linear", linear_facts(row, cover))
    if not cover.layers:
        return own
    backend = deployment.fp8_gemm_backend
    calls: Sequence[CallFacts] = calls_of(row, asked, backend, m)
    return (*own, *(v for call in calls for v in ask(facts(deployment, call=call), "call")))


def expert_verdicts(base: Facts | None, experts: ExpertFacts) -> tuple[Verdict, ...]:
    """Return a server's verdicts about the experts; a library's grouped calls are not asked."""
    return ask(base, "experts", experts) if base is not None else ()


def beyond(found: Shapes, asked: System) -> tuple[str, ...]:
    """Say what no guard of the system looks at."""
    lacks = []
    if any(row.kind == "moe" for row in found.layers) and not _has(asked, "experts"):
        lacks.append(f"experts: {asked.name}'s grouped calls are not asked; see mxlab matrix")
    if found.kv is not None and asked.server and not _has(asked, "kv_cache"):
        lacks.append(f"KV cache: no guard of {asked.name} looks at it")
    return tuple(lacks)


def _has(asked: System, subject: str) -> bool:
    return any(row.subject == subject for row in asked.guards)
