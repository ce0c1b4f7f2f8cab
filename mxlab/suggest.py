"""The smallest changes under which a model that stops would run, each tried and not guessed."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from mxlab.doctor import Report, evaluate
from mxlab.errors import InputError
from mxlab.guards import Deployment, Status, platform

IGNORED = "SGLANG_FP8_IGNORED_LAYERS"
WANTED = 4  # suggestions to offer
_CHANGES = 3  # at most, at once
_BUDGET = 400  # evaluations at most


@dataclass(frozen=True, slots=True)
class Change:
    """One thing to change: a field of the deployment, and how a person would type it."""

    field: str
    value: Any
    text: str


def _flags(deployment: Deployment) -> Iterator[Change]:
    for backend in ("auto", "deep_gemm", "flashinfer_cutlass", "flashinfer_cutedsl"):
        yield Change("fp8_gemm_backend", backend, f"--fp8-gemm-backend {backend}")
    runners = ("auto", "deep_gemm", "flashinfer_trtllm", "cutlass")
    for runner in runners:
        if runner == "flashinfer_trtllm" and not platform(deployment).blackwell:
            continue  # FlashInfer builds these kernels for Blackwell only (moe-trtllm-arch)
        yield Change("moe_runner_backend", runner, f"--moe-runner-backend {runner}")
    if deployment.kv_cache_dtype == "mxfp8":
        yield Change("page_size", 128, "--page-size 128")
        yield Change("attention_backend", "fa4", "--attention-backend fa4")
        yield Change("kv_cache_dtype", "fp8_e4m3", "--kv-cache-dtype fp8_e4m3")
    yield Change("dtype", "bfloat16", "--dtype bfloat16")
    for package in sorted(Deployment().packages - deployment.packages):
        yield Change("packages", deployment.packages | {package}, f"--with {package}")


def _sizes(deployment: Deployment) -> Iterator[Change]:
    sizes = [size for size in (1, 2, 4, 8, 16, 32) if size % deployment.ep == 0]
    for size in sorted(sizes, key=lambda size: abs(size - deployment.tp)):
        yield Change("tp", size, f"--tp {size}")
    for size in (1, deployment.tp):
        yield Change("ep", size, f"--ep {size}")


def _exclusion(report: Report) -> Iterator[Change]:
    """Leave every linear that stops on its own in 16 bit, through the environment variable."""
    names: set[str] = set()
    for layer in report.layers:
        row = layer.linear
        if row.kind == "linear" and any(
            v.status is Status.STOPS and v.guard != "tp-divides" for v in layer.verdicts
        ):
            tower, _, inside = row.path.partition(".{layer}.")
            if row.linear.startswith("visual."):
                names.add(tower)  # the whole encoder: its members share names with the decoder's
            else:
                block = inside.rsplit(".", 1)[0]
                names |= {f"{block}.{source}" for source in row.sources}
    if names and report.deployment.quantization is not None:
        value = ",".join(sorted(names))
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


def _apply(deployment: Deployment, changes: Iterable[Change]) -> Deployment:
    return replace(deployment, **{change.field: change.value for change in changes})


def suggestions(config: Mapping[str, Any], report: Report) -> tuple[dict[str, Any], ...]:
    """Return up to four smallest sets of changes after which no guard stops the model.

    Every set was evaluated with the same guards: ``outcome`` is what it came to. The search goes
    by size: a set is extended only where its last change moved the first stop to another place.
    """
    candidates = _candidates(report)
    works: list[dict[str, Any]] = []
    frontier: list[tuple[tuple[Change, ...], Report]] = [((), report)]
    seen: set[frozenset[str]] = set()
    for _ in range(_CHANGES):
        further: list[tuple[tuple[Change, ...], Report]] = []
        for changes, before in frontier:
            for change in candidates:
                texts = frozenset(one.text for one in (*changes, change))
                fields = {one.field for one in changes}
                if change.field in fields or texts in seen or len(seen) >= _BUDGET:
                    continue
                seen.add(texts)
                try:
                    after = evaluate(config, _apply(report.deployment, (*changes, change)))
                except InputError:
                    continue
                if after.outcome != "stops":
                    works.append({"changes": sorted(texts), "outcome": after.outcome})
                elif _place(after) != _place(before):
                    further.append(((*changes, change), after))
                if len(works) >= WANTED:
                    return tuple(works)
        if works:
            break
        frontier = further
    return tuple(works)


def _place(report: Report) -> tuple[str, str] | None:
    return report.first_stop and (report.first_stop[0], report.first_stop[1].guard)
