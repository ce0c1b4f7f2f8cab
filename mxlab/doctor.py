"""A model on a deployment: which guard stops it, where, why, in numbers.

The doctor derives the shapes of one rank, asks every guard of the system about the server
arguments, the checkpoint's quantisation, each linear, the experts and the KV cache, and orders
what it heard as the system would meet it: by stage, then by layer.
"""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from mxlab.errors import InputError, quote
from mxlab.guards import (
    GUARDS,
    STAGES,
    ConfigFacts,
    Deployment,
    ExpertFacts,
    KvCacheFacts,
    LinearFacts,
    Status,
    Verdict,
    check,
    facts,
)
from mxlab.guards.inputs import check_deployment
from mxlab.models import Linear, Shapes, quantization_config, read_config, shapes, tp_that_load
from mxlab.quantized import Coverage, coverage

_ORDER = {stage: place for place, stage in enumerate(STAGES)}
#: families whose vision tower SGLang builds after the decoder (srt/models/qwen2_5_vl.py:743)
_TOWER_LAST = ("qwen2_5_vl",)
_SUBJECT = {guard.id: guard.subject for guard in GUARDS}
_DEGRADES = (Status.FALLS_BACK, Status.WARNS, Status.SILENT)
#: what a one-line summary shows first
_SEVERITY = (Status.STOPS, Status.SILENT, Status.FALLS_BACK, Status.WARNS, Status.UNKNOWN)


@dataclass(frozen=True, slots=True)
class LayerReport:
    """One linear of the model: how many of its layers are quantised, and the verdicts."""

    linear: Linear
    coverage: Coverage
    verdicts: tuple[Verdict, ...]

    @property
    def worst(self) -> Verdict | None:
        """The verdict for one line: the first stop, else the first that is not a pass."""
        for status in _SEVERITY:
            for verdict in self.verdicts:
                if verdict.status is status:
                    return verdict
        return None

    def to_json(self) -> dict[str, Any]:
        """Return the contract's row: the linear, how many are quantised, the verdicts."""
        return {
            **self.linear.to_json(),
            "quantized_layers": self.coverage.layers,
            "not_quantized_because": self.coverage.why_not,
            "verdicts": [verdict.to_json() for verdict in self.verdicts],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What ``doctor`` found.

    ``outcome`` is ``stops``, ``runs``, ``runs-degraded`` (it runs, but something is replaced,
    slower or wrong in silence) or ``unknown``.
    """

    deployment: Deployment
    shapes: Shapes
    outcome: str
    first_stop: tuple[str, Verdict] | None  # (where, verdict)
    server: tuple[Verdict, ...]
    layers: tuple[LayerReport, ...]
    experts: ExpertFacts | None  # what the guards of the experts were asked about
    moe: tuple[Verdict, ...]
    kv_cache: tuple[Verdict, ...]
    suggestions: tuple[dict[str, Any], ...] = ()

    def subjects(self) -> Iterator[tuple[str, Verdict]]:
        """Yield (where, verdict) as the system would meet them: by stage, then by layer."""
        found = [("server", verdict) for verdict in self.server]
        for layer in self.layers:
            found += [(layer.linear.linear, verdict) for verdict in layer.verdicts]
        found += [("kv_cache", verdict) for verdict in self.kv_cache]
        yield from sorted(found, key=self._place)

    def _place(self, item: tuple[str, Verdict]) -> tuple[int, bool]:
        """Return where a verdict stands: its stage, and in it whether SGLang builds it first."""
        where, stage = item[0], item[1].stage
        tower = where.startswith("visual.") and self.shapes.family not in _TOWER_LAST
        return _ORDER[stage], not (tower and stage in ("S4", "S5", "S6"))

    def to_json(self) -> dict[str, Any]:
        """Return the contract's JSON object."""
        where, stop = self.first_stop or ("", None)
        kv = self.shapes.kv.to_json() if self.shapes.kv else None
        return {
            "deployment": deployment_json(self.deployment),
            "outcome": self.outcome,
            "first_stop": stop and {"where": where, **stop.to_json()},
            "server": [verdict.to_json() for verdict in self.server],
            "layers": [layer.to_json() for layer in self.layers],
            "kv_cache": kv and {**kv, "verdicts": [v.to_json() for v in self.kv_cache]},
            "moe": self.experts
            and {**asdict(self.experts), "verdicts": [v.to_json() for v in self.moe]},
            "suggestions": list(self.suggestions),
            "unknown": list(self.shapes.unknown),
            "derived": list(self.shapes.derived),
        }


def deployment_json(deployment: Deployment) -> dict[str, Any]:
    """Return a deployment's flags as JSON; sets become sorted lists."""
    row = {name: getattr(deployment, name) for name in deployment.__dataclass_fields__}
    return {**row, "packages": sorted(deployment.packages), "env": dict(deployment.env)}


def _experts(found: Shapes, deployment: Deployment) -> ExpertFacts | None:
    """Return the facts of the routed experts, when both of their matrices have a shape."""
    rows = {row.linear: row for row in found.layers if row.kind == "moe" and not row.invalid}
    w13, w2 = rows.get("experts.w13"), rows.get("experts.w2")
    if w13 is None or w2 is None or w13.k is None or w2.k is None:
        return None
    return ExpertFacts(
        hidden=w13.k,
        intermediate=w2.k,
        experts=w13.experts_per_rank or w13.experts or 1,
        gated=len(w13.parts) == 2,
        moe_tp=deployment.tp // deployment.ep,
    )


def _tp_sizes(config: Mapping[str, Any], deployment: Deployment) -> str:
    """Name the tensor-parallel sizes up to this one at which every linear of the model divides."""
    fit = [str(tp) for tp in tp_that_load(config, max(16, deployment.tp))]
    return f"--tp-size that divides: {', '.join(fit[-8:])}" if fit else "no TP size divides"


def _invalid(row: Linear, deployment: Deployment, version: str, fix: str) -> Verdict:
    """Return the verdict for a linear that cannot be split: the engine asserts at construction."""
    assert row.invalid is not None
    return Verdict(
        guard="tp-divides",
        system=deployment.system,
        version=version,
        status=Status.STOPS,
        stage="S4",
        message="",
        because=row.invalid,
        fixes=(fix,),
        source="AssertionError without text where the layer is built",
    )


def _beyond(deployment: Deployment, config: ConfigFacts) -> tuple[str, ...]:
    """Say what of the quantisation no guard looks at; InputError for a block no layer can have."""
    quant = facts(deployment, config=config).quant
    if quant.method is None:
        return ()
    if not quant.fp8_config:
        return (
            f"quantisation {quote(quant.method)}: SGLang has other classes for it than for fp8 and "
            "mxfp8, and no guard of the table looks at its layers",
        )
    sizes = quant.block if isinstance(quant.block, list) else []
    if len(sizes) == 2 and not all(type(size) is int and size > 0 for size in sizes):
        raise InputError(
            f"quantization_config.weight_block_size is {quote(sizes)}: expected two whole numbers "
            "above 0, such as [128, 128]"
        )
    return ()


def evaluate(config: Mapping[str, Any], deployment: Deployment) -> Report:
    """Ask every guard about one model on one deployment; no suggestions."""
    found = shapes(config, tp=deployment.tp, ep=deployment.ep)
    values = quantization_config(found.config)
    architectures = found.config.get("architectures")
    if isinstance(architectures, list) and architectures and isinstance(architectures[0], str):
        deployment = replace(deployment, architecture=architectures[0])
    claims = ConfigFacts(values)
    found = replace(found, unknown=(*found.unknown, *_beyond(deployment, claims)))

    def ask(**subject: Any) -> tuple[Verdict, ...]:
        wanted = subject.keys() or {"server", "config"}
        verdicts = check(deployment, config=claims, **subject)
        return tuple(verdict for verdict in verdicts if _SUBJECT[verdict.guard] in wanted)

    server = ask()
    version = server[0].version
    experts = _experts(found, deployment)
    covered = coverage(found, deployment, values)
    layers: list[LayerReport] = []
    moe: tuple[Verdict, ...] = ()
    fix = ""
    for row, cover in zip(found.layers, covered, strict=True):
        if row.invalid is not None:
            fix = fix or _tp_sizes(found.config, deployment)
            verdicts: tuple[Verdict, ...] = (_invalid(row, deployment, version, fix),)
        elif row.kind == "moe":
            if experts and not moe:
                experts = replace(experts, quantized=cover.layers > 0, why_not=cover.why_not)
                moe = ask(experts=experts)
            verdicts = moe
        else:
            assert row.n is not None and row.k is not None
            linear = LinearFacts(
                name=row.linear,
                n=row.n,
                k=row.k,
                shard=row.shard.split()[0],
                # SGLang builds a replicated linear as one matrix, whatever was fused into it
                parts=(row.n,) if row.shard == "replicated" else row.parts,
                quantized=cover.layers > 0,
                why_not=cover.why_not,
                mixed_shards=cover.mixed,
            )
            verdicts = ask(linear=linear)
        layers.append(LayerReport(row, cover, verdicts))
    kv: tuple[Verdict, ...] = ()
    if found.kv is not None:
        kv = ask(
            kv_cache=KvCacheFacts(
                head_dim=found.kv.head_dim,
                v_head_dim=found.kv.v_head_dim,
                kv_heads=found.kv.kv_heads_per_rank or 1,
                mla=found.kv.kind == "MLA",
            )
        )
    report = Report(
        deployment=deployment,
        shapes=found,
        outcome="runs",
        first_stop=None,
        server=server,
        layers=tuple(layers),
        experts=experts,
        moe=moe,
        kv_cache=kv,
    )
    return replace(report, **_conclude(report))


def _conclude(report: Report) -> dict[str, Any]:
    """Return the first stop and the outcome that the verdicts come to."""
    heard = list(report.subjects())
    stop = next((item for item in heard if item[1].status is Status.STOPS), None)
    statuses = {verdict.status for _, verdict in heard}
    if stop is not None:
        outcome = "stops"
    elif report.shapes.unknown or Status.UNKNOWN in statuses:
        outcome = "unknown"
    elif statuses & set(_DEGRADES):
        outcome = "runs-degraded"
    else:
        outcome = "runs"
    return {"first_stop": stop, "outcome": outcome}


def doctor(
    config: str | Path | Mapping[str, Any], deployment: Deployment, *, suggest: bool = True
) -> Report:
    """Say whether a model runs on a deployment, and if not, what stops it first.

    ``config`` is a path to a Hugging Face config.json (or its folder), a shipped model's name, or
    the parsed object. Raises InputError for a config or a flag that cannot be used.

    >>> flags = Deployment(gpu="b200", tp=8, quantization="mxfp8", fp8_gemm_backend="deep_gemm")
    >>> report = doctor("Llama-3.1-8B", flags)
    >>> report.outcome
    'runs'
    """
    check_deployment(deployment)
    read = read_config(config)
    report = evaluate(read, deployment)
    if not suggest or report.outcome != "stops":
        return report
    from mxlab.suggest import suggestions

    return replace(report, suggestions=suggestions(read, report))
