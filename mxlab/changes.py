"""Changes to a deployment that are worth trying when a model stops, and what each costs."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from mxlab import padding
from mxlab.diagnosis import Report
from mxlab.guards import Deployment, Status, Verdict, ask, platform
from mxlab.models import Linear, quantization_config
from mxlab.moe_config import routing
from mxlab.quantized import taken_apart
from mxlab.subjects import base_facts
from mxlab.weights import human

IGNORED = "SGLANG_FP8_IGNORED_LAYERS"
_TP = (1, 2, 4, 8, 16, 32)
_OTHERS = ("b200", "rtxpro6000", "mi355x")
#: bytes of a value in MXFP8, with its share of the scale, and in 16 bits
_MXFP8, _WIDE = 1 + 1 / 32, 2

#: how dear a change is, the cheapest first
FLAG, INSTALL, BYTES, PRECISION, RANKS, HARDWARE, GIVE_UP = range(7)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One thing to change: a field of the deployment, how a person would type it, and its cost.

    ``field`` is ``padding`` for a change of the model's sizes. ``bytes`` counts those of one rank,
    ``gpus`` the GPUs more, ``flops_percent`` the arithmetic more.
    """

    field: str
    value: Any
    text: str
    dear: int = FLAG
    cost: str = "a flag: no bytes"
    bytes: int = 0
    gpus: int = 0
    flops_percent: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """Return the change and its cost as a JSON object."""
        return {
            "change": self.text,
            "cost": self.cost,
            "bytes_a_rank": self.bytes,
            "gpus": self.gpus,
            "flops_percent": round(self.flops_percent, 3),
        }


@dataclass(frozen=True, slots=True)
class Situation:
    """A deployment with the changes made so far, what the guards say of it, and the padding."""

    deployment: Deployment
    report: Report
    padding: padding.Padding
    runs: Callable[[Deployment, Linear], bool]  # asks the guards about one linear


def apply(deployment: Deployment, change: Change) -> Deployment:
    """Return the deployment with one change made; padding changes the model and not this."""
    if change.field == "padding":
        return deployment
    if change.field.startswith("env:"):
        name = change.field.removeprefix("env:")
        rest = {key: value for key, value in deployment.env.items() if key != name}
        return replace(deployment, env={**rest, name: change.value} if change.value else rest)
    if change.field == "packages":
        return replace(deployment, packages=deployment.packages | {change.value})
    return replace(deployment, **{change.field: change.value})


def _flags(d: Deployment) -> Iterator[Change]:
    for backend in ("auto", "deep_gemm", "flashinfer_cutlass", "flashinfer_cutedsl"):
        yield Change(field="fp8_gemm_backend", value=backend, text=f"--fp8-gemm-backend {backend}")
    for runner in ("auto", "deep_gemm", "flashinfer_trtllm", "cutlass"):
        if runner == "flashinfer_trtllm" and not platform(d).blackwell:
            continue  # FlashInfer builds these kernels for Blackwell only (moe-trtllm-arch)
        yield Change(
            field="moe_runner_backend", value=runner, text=f"--moe-runner-backend {runner}"
        )
    yield Change(field="moe_a2a_backend", value="none", text="--moe-a2a-backend none")
    if d.kv_cache_dtype == "mxfp8":
        yield Change(field="page_size", value=128, text="--page-size 128")
        yield Change(field="attention_backend", value="fa4", text="--attention-backend fa4")
    if d.dtype not in ("auto", "bfloat16"):
        yield Change(
            field="dtype",
            value="bfloat16",
            text="--dtype bfloat16",
            dear=PRECISION,
            cost="activations in bfloat16: the same bytes as float16",
        )
    for package in sorted(Deployment().packages - d.packages):
        yield Change(
            field="packages",
            value=package,
            text=f"--with {package}",
            dear=INSTALL,
            cost="a package to install",
        )
    for name in sorted(d.env):
        yield Change(field=f"env:{name}", value="", text=f"unset {name}", cost="a variable less")
    if d.toolkit is not None:
        yield Change(
            field="toolkit",
            value=None,
            text=f"--toolkit {platform(d).gpu.toolkit}",
            dear=INSTALL,
            cost="another CUDA or ROCm",
        )


def _cache(report: Report) -> Iterator[Change]:
    """Give the KV cache another dtype: plain FP8, then 16 bits."""
    d, kv = report.deployment, report.shapes.kv
    if kv is None or d.kv_cache_dtype == "auto":
        return
    values = (kv.kv_heads_per_rank or 1) * (kv.head_dim + kv.v_head_dim) * kv.layers
    values = values if kv.cached_per_token is None else kv.cached_per_token * kv.layers
    for name, size in (("fp8_e4m3", 1.0), ("auto", 2.0)):
        before = _MXFP8 if d.kv_cache_dtype == "mxfp8" else 1.0
        more = round(values * (size - before))
        yield Change(
            field="kv_cache_dtype",
            value=name,
            text=f"--kv-cache-dtype {name}",
            dear=PRECISION,
            cost=f"KV cache {human(abs(more))} {'more' if more > 0 else 'less'} a token and rank"
            + (", one scale for a tensor and not for 32 values" if size == 1 else ""),
        )


def _gpus(count: int) -> str:
    return f"{count} GPU{'s' if count > 1 else ''}"


def _ranks(d: Deployment) -> Iterator[Change]:
    sizes = [size for size in _TP if size % d.ep == 0]
    for size in sorted(sizes, key=lambda size: (abs(size - d.tp), size)):
        more = size - d.tp
        yield Change(
            field="tp",
            value=size,
            text=f"--tp {size}",
            dear=RANKS,
            gpus=more,
            cost=f"{_gpus(size)} instead of {d.tp}",
        )
    for size in sorted({1, d.tp}):
        yield Change(
            field="ep",
            value=size,
            text=f"--ep {size}",
            dear=RANKS,
            cost="whole experts on a rank: the same bytes, another balance of load"
            if size > d.ep
            else "experts split over the ranks: the same bytes, another balance of load",
        )


def _stopped(report: Report) -> list[Linear]:
    """Return the dense linears that stop on their own and not for want of a divisor."""
    return [
        layer.linear
        for layer in report.layers
        if layer.linear.kind == "linear"
        and layer.linear.invalid is None
        and any(v.status is Status.STOPS for v in layer.verdicts)
    ]


def _exclusion(now: Situation) -> Iterator[Change]:
    """Leave every linear that stops in 16 bits: by name, through the environment variable."""
    rows, d = _stopped(now.report), now.deployment
    if not rows or d.system != "sglang":
        return
    origin = base_facts(now.report.shapes.config, d).quant.origin
    fused = taken_apart(now.report.shapes, origin == "online")
    names: set[str] = set()
    for row in rows:
        tower, _, inside = row.path.partition(".{layer}.")
        if row.linear.startswith("visual."):
            names.add(tower)  # the whole encoder: its members share names with the decoder's
        else:
            block, _, leaf = inside.rpartition(".")
            members = fused.get(leaf, (leaf,))
            names |= {f"{block}.{member}" for member in members}
    value = ",".join(sorted(names))
    elements = sum(row.layers * (row.n or 0) * (row.k or 0) for row in rows)
    more = round(elements * (_WIDE - _MXFP8))
    text, cost = f"{IGNORED}={value}", f"16-bit weights: {human(more)} more a rank"
    if origin != "online":  # ignored, stored codes would be read as 16-bit weights without scales
        text = f"quantise the checkpoint anew with modules_to_not_convert + {value}"
        cost += f", and a new checkpoint ({IGNORED} alone would read its codes without scales)"
    yield Change(
        field=f"env:{IGNORED}",
        value=value,
        text=text,
        cost=cost,
        bytes=more,
        dear=BYTES if origin == "online" else GIVE_UP,
    )


def _padding(now: Situation) -> Iterator[Change]:
    """Pad what stops, linears and experts, to the next size that passes its guards."""
    rows, report = _stopped(now.report), now.report
    experts = report.experts if any(v.status is Status.STOPS for v in report.moe) else None
    if now.padding or not (rows or experts):
        return
    linears = [layer.linear for layer in report.layers]
    found = padding.next_legal(linears, rows, lambda row: now.runs(report.deployment, row))
    if experts is not None and found is not None:
        base = base_facts(report.shapes.config, report.deployment)
        wider = padding.next_intermediate(
            linears,
            experts.intermediate,
            lambda size: _runs(ask(base, "experts", replace(experts, intermediate=size))),
        )
        found = wider and {**found, **wider}
    if not found:
        return
    routed = routing(report.shapes.config)
    price = padding.cost(linears, found, routed.top_k if routed else 1)
    yield Change(
        field="padding",
        value=found,
        text=padding.describe(linears, found, report.deployment),
        dear=BYTES,
        cost=f"zeros: {human(price.bytes)} more a rank ({price.bytes_percent:.2g} %), "
        f"{human(price.flops, 'FLOP')} more a token ({price.flops_percent:.2g} %)",
        bytes=price.bytes,
        flops_percent=price.flops_percent,
    )


def _runs(verdicts: Iterable[Verdict]) -> bool:
    return all(verdict.status is not Status.STOPS for verdict in verdicts)


def _wide(report: Report) -> Iterator[Change]:
    """Give up the flag: what SGLang quantises at load stays in 16 bits, or the checkpoint's say."""
    if report.deployment.quantization is None:
        return
    text = "no --quantization"
    if quantization_config(report.shapes.config) is not None:
        cost = "none: the checkpoint's own quantisation stands"
        yield Change(field="quantization", value=None, text=text, cost=cost)
        return
    elements = sum(
        layer.coverage.layers * (row.n or 0) * (row.k or 0) * (row.experts_per_rank or 1)
        for layer in report.layers
        for row in (layer.linear,)
    )
    more = round(elements * (_WIDE - _MXFP8))
    cost = f"16-bit weights: {human(more)} more a rank"
    yield Change(field="quantization", value=None, text=text, dear=GIVE_UP, cost=cost, bytes=more)


def candidates(now: Situation) -> list[Change]:
    """Return the changes worth trying in a situation: those that keep MXFP8 first."""
    d, report = now.deployment, now.report
    sglang = d.system == "sglang"  # whose flags these are
    found = [
        *(_flags(d) if sglang else ()),
        *_cache(report),
        *_padding(now),
        *_exclusion(now),
        *_ranks(d),
        *(
            Change(
                field="gpu",
                value=gpu,
                text=f"--gpu {gpu}",
                dear=HARDWARE,
                cost=f"other GPUs: {gpu} for {d.gpu}",
            )
            for gpu in _OTHERS
        ),
        *_wide(report),
    ]
    return [change for change in found if _changes(d, change)]


def _changes(d: Deployment, change: Change) -> bool:
    if change.field == "padding":
        return True
    if change.field.startswith("env:"):
        return d.env.get(change.field.removeprefix("env:"), "") != str(change.value)
    if change.field == "packages":
        return str(change.value) not in d.packages
    kept: object = getattr(d, change.field)
    return kept is not change.value and kept != change.value
