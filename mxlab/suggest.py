"""The smallest changes under which a model that stops would run, each tried and not guessed."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

from mxlab.doctor import Report, evaluate
from mxlab.errors import InputError
from mxlab.guards import Deployment, Status

IGNORED = "SGLANG_FP8_IGNORED_LAYERS"
WANTED = 4  # suggestions to offer
_BUDGET = 250  # evaluations at most


@dataclass(frozen=True, slots=True)
class Change:
    """One thing to change: a field of the deployment, and how a person would type it."""

    field: str
    value: Any
    text: str


def _flags(deployment: Deployment) -> Iterator[Change]:
    for backend in ("auto", "deep_gemm", "flashinfer_cutlass", "flashinfer_cutedsl"):
        yield Change("fp8_gemm_backend", backend, f"--fp8-gemm-backend {backend}")
    for runner in ("auto", "deep_gemm", "flashinfer_trtllm", "cutlass"):
        yield Change("moe_runner_backend", runner, f"--moe-runner-backend {runner}")
    if deployment.kv_cache_dtype == "mxfp8":
        yield Change("page_size", 128, "--page-size 128")
        yield Change("attention_backend", "fa4", "--attention-backend fa4")
        yield Change("kv_cache_dtype", "fp8_e4m3", "--kv-cache-dtype fp8_e4m3")
    yield Change("dtype", "bfloat16", "--dtype bfloat16")


def _sizes(deployment: Deployment) -> Iterator[Change]:
    sizes = [size for size in (1, 2, 4, 8, 16, 32) if size % deployment.ep == 0]
    for size in sorted(sizes, key=lambda size: abs(size - deployment.tp)):
        yield Change("tp", size, f"--tp {size}")
    for size in (1, deployment.tp):
        yield Change("ep", size, f"--ep {size}")


def _exclusion(report: Report) -> Iterator[Change]:
    """Leave every linear that stops on its own in 16 bit, through the environment variable."""
    names = sorted(
        {
            f"{layer.linear.path.rsplit('.', 2)[-2]}.{source}"
            for layer in report.layers
            if layer.linear.kind == "linear"
            and any(verdict.status is Status.STOPS for verdict in layer.verdicts)
            for source in layer.linear.sources
        }
    )
    if names and report.deployment.quantization is not None:
        value = ",".join(names)
        env = {**report.deployment.env, IGNORED: value}
        yield Change("env", env, f"{IGNORED}={value}")


def _gpus(deployment: Deployment) -> Iterator[Change]:
    for gpu in ("b200", "rtxpro6000", "mi355x"):
        yield Change("gpu", gpu, f"--gpu {gpu}")


def _candidates(report: Report) -> list[Change]:
    """Return the changes worth trying: those that keep MXFP8 first, giving it up last."""
    d = report.deployment
    found = [*_flags(d), *_sizes(d), *_exclusion(report), *_gpus(d)]
    found.append(Change("quantization", None, "no --quantization"))
    return [change for change in found if getattr(d, change.field) != change.value]


def suggestions(config: Mapping[str, Any], report: Report) -> tuple[dict[str, Any], ...]:
    """Return up to four smallest sets of changes after which no guard stops the model.

    Every set was evaluated with the same guards: ``outcome`` is what it came to. One change is
    tried before two; sets that contain a smaller one that already works are left out.
    """
    candidates = _candidates(report)
    works: list[tuple[frozenset[str], dict[str, Any]]] = []
    tried = 0
    for size in (1, 2, 3):
        for changes in combinations(candidates, size):
            texts = frozenset(change.text for change in changes)
            fields = {change.field for change in changes}
            if len(fields) < size or any(smaller <= texts for smaller, _ in works):
                continue
            if tried >= _BUDGET or len(works) >= WANTED:
                return tuple(row for _, row in works)
            tried += 1
            try:
                changed = replace(
                    report.deployment, **{change.field: change.value for change in changes}
                )
                outcome = evaluate(config, changed).outcome
            except InputError:
                continue
            if outcome != "stops":
                row = {"changes": sorted(texts), "outcome": outcome}
                works.append((texts, row))
        if works:
            break
    return tuple(row for _, row in works)
