"""A model on a deployment: which guard stops it, where, why, in numbers.

The doctor derives the shapes of one rank, asks every guard of the system about the server
arguments, the checkpoint's quantisation, each linear, the experts and the KV cache, and orders
what it heard as the system would meet it: by stage, then by layer.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Any

from mxlab import other_systems
from mxlab.diagnosis import LayerReport, Report, conclude, deployment_json
from mxlab.errors import InputError, quote
from mxlab.guards import (
    STAGES,
    ConfigFacts,
    Deployment,
    ExpertFacts,
    Facts,
    KvCacheFacts,
    LinearFacts,
    Status,
    System,
    Verdict,
    ask,
    facts,
    system,
)
from mxlab.guards.facts import Quant
from mxlab.guards.inputs import check_deployment
from mxlab.models import (
    KvCache,
    Linear,
    Shapes,
    Source,
    quantization_config,
    read_model,
    shapes,
    tp_that_load,
)
from mxlab.padding import Padding, padded
from mxlab.prologue import inkling_cache, prologue
from mxlab.quantized import Coverage, coverage
from mxlab.weights import Weights, weights

__all__ = ["Examiner", "LayerReport", "Report", "deployment_json", "doctor", "evaluate"]


#: guards of what no rank gets a part of
_DIVIDES = ("tp-divides", "moe-tp-div")
#: subjects that are asked before a layer is built
_OUTER = ("server", "config")


@cache
def _before_layers(id: str, version: str) -> frozenset[str]:
    """Return the stages of a system in which no guard of a layer or a cache can be met."""
    inner = {row.stage for row in system(id, version).guards if row.subject not in _OUTER}
    stages = list(STAGES)
    first = min(stages.index(stage) for stage in (*inner, "S4"))
    return frozenset(stages[:first])


def _experts(linears: Sequence[Linear], deployment: Deployment) -> ExpertFacts | None:
    """Return the facts of the routed experts, when both of their matrices have a shape."""
    rows = {row.linear: row for row in linears if row.kind == "moe" and not row.invalid}
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


def _cache_facts(cache: KvCache) -> KvCacheFacts:
    return KvCacheFacts(
        head_dim=cache.head_dim,
        v_head_dim=cache.v_head_dim,
        kv_heads=cache.kv_heads_per_rank or 1,
        mla=cache.kind == "MLA",
    )


def _linear_facts(row: Linear, cover: Coverage) -> LinearFacts:
    assert row.n is not None and row.k is not None
    return LinearFacts(
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


def _tp_sizes(source: Source, deployment: Deployment) -> str:
    """Name the tensor-parallel sizes up to this one at which every linear of the model divides."""
    fit = [str(tp) for tp in tp_that_load(source, max(16, deployment.tp))]
    return f"--tp-size that divides: {', '.join(fit[-8:])}" if fit else "no TP size divides"


def _invalid(row: Linear, base: Facts, fix: str) -> tuple[Verdict, ...]:
    """Return the verdict for a linear, or experts, that no rank gets a part of."""
    assert row.invalid is not None
    if row.kind == "moe":
        experts = ExpertFacts(1, 1, 1, indivisible=row.invalid)
        said = ask(base, "experts", experts)
    else:
        linear = LinearFacts(row.linear, 1, 1, row.shard.split()[0], indivisible=row.invalid)
        said = ask(base, "linear", linear)
    mine = tuple(replace(v, fixes=(fix,)) for v in said if v.guard in _DIVIDES)
    return mine or (_unsplit(row.invalid, base.deployment, fix),)


def _unsplit(why: str, deployment: Deployment, fix: str) -> Verdict:
    """Return the verdict where a system's table has no row of its own for it."""
    return Verdict(
        guard="tp-divides",
        system=deployment.system,
        version=deployment.version or system(deployment.system).version,
        status=Status.STOPS,
        stage="S4",
        message="",
        because=why,
        fixes=(fix,),
        source="where the layer is built",
    )


def _beyond(quant: Quant) -> tuple[str, ...]:
    """Say what of the quantisation no guard looks at; InputError for a block no layer can have."""
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


@dataclass(slots=True)
class Examiner:
    """One model, asked about any number of deployments; its shapes are derived once a (tp, ep).

    ``prologue`` asks the fused attention prologue's checks of a model that does not run it.
    """

    source: Source
    prologue: bool = False
    _shapes: dict[tuple[int, int], Shapes] = field(default_factory=dict)
    _covered: dict[tuple[Any, ...], tuple[Coverage, ...]] = field(default_factory=dict)

    def shapes(self, tp: int, ep: int) -> Shapes:
        """Return the linears of one rank."""
        if (tp, ep) not in self._shapes:
            self._shapes[tp, ep] = shapes(self.source, tp=tp, ep=ep)
        return self._shapes[tp, ep]

    def weights(self, tp: int, ep: int) -> Weights | None:
        """Return the parameters and bytes of the model, whole and on one rank."""
        rank = self.shapes(tp, ep)
        return weights(rank.config, self.shapes(1, 1), rank)

    def evaluate(
        self, deployment: Deployment, padding: Padding | None = None, *, brief: bool = False
    ) -> Report:
        """Ask every guard about one deployment; no suggestions.

        ``padding`` replaces the (N, K) of some linears by larger ones, as if they were padded.
        ``brief`` asks no further where the server arguments or the checkpoint's config stop before
        any layer is built: the outcome and the first stop are the same.
        """
        found = self.shapes(deployment.tp, deployment.ep)
        values = quantization_config(found.config)
        architectures = found.config.get("architectures")
        if isinstance(architectures, list) and architectures and isinstance(architectures[0], str):
            deployment = replace(deployment, architecture=architectures[0])
        asked = system(deployment.system, deployment.version)
        if asked.id != "sglang":
            return self._elsewhere(found, deployment, asked, values, padding)
        base = facts(deployment, config=ConfigFacts(values))
        found = replace(found, unknown=(*found.unknown, *_beyond(base.quant)))
        server = (*ask(base, "server"), *ask(base, "config"))
        covered = self._coverage(found, deployment, base, values)
        early = _before_layers(deployment.system, deployment.version) if brief else ()
        if any(v.status is Status.STOPS and v.stage in early for v in server):
            report = Report(deployment=deployment, shapes=found, server=server)
            return replace(report, **conclude(report))
        rows = padded(found.layers, padding or {})
        layers, experts, moe = self._layers(rows, covered, base)
        cache = found.kv or inkling_cache(found)
        kv: tuple[Verdict, ...] = ()
        handed = None
        if cache is not None:
            kv_facts = _cache_facts(cache)
            known = replace(base, kv_cache=kv_facts)
            handed = prologue(known, cache, partial(ask, base), forced=self.prologue)
            wired = handed.facts if handed else None
            kv = ask(replace(base, prologue=wired) if wired else base, "kv_cache", kv_facts)
        report = Report(
            deployment=deployment,
            shapes=found if found.kv or cache is None else replace(found, kv=cache),
            server=server,
            layers=layers,
            experts=experts,
            moe=moe,
            kv_cache=kv,
            prologue=handed,
        )
        return replace(report, **conclude(report))

    def runs(self, deployment: Deployment, row: Linear) -> bool:
        """Tell whether a quantised linear of this size stops nowhere."""
        asked = system(deployment.system, deployment.version)
        values = quantization_config(self.shapes(deployment.tp, deployment.ep).config)
        if asked.id == "sglang":
            linear = _linear_facts(row, Coverage(row.layers))
            said = ask(facts(deployment, config=ConfigFacts(values)), "linear", linear)
        else:
            base = other_systems.server_facts(deployment, asked, values)
            cover = Coverage(row.layers)
            said = other_systems.linear_verdicts(deployment, asked, base, row, cover)
        return all(verdict.status is not Status.STOPS for verdict in said)

    def _elsewhere(
        self,
        found: Shapes,
        deployment: Deployment,
        asked: System,
        values: Mapping[str, Any] | None,
        padding: Padding | None,
    ) -> Report:
        """Ask another system: its server's own checks, and each linear as a call."""
        found = replace(found, unknown=(*found.unknown, *other_systems.beyond(found, asked)))
        base = other_systems.server_facts(deployment, asked, values)
        rows = padded(found.layers, padding or {})
        experts, moe, fix = _experts(rows, deployment), None, ""
        layers: list[LayerReport] = []
        for row, cover in zip(rows, other_systems.covered(found, deployment, asked), strict=True):
            if row.invalid is not None:
                fix = fix or _tp_sizes(self.source, deployment)
                verdicts: tuple[Verdict, ...] = (_unsplit(row.invalid, deployment, fix),)
            elif row.kind == "moe":
                if experts and moe is None:
                    experts = replace(experts, quantized=cover.layers > 0, why_not=cover.why_not)
                    moe = other_systems.expert_verdicts(base, experts)
                verdicts = moe or ()
            else:
                verdicts = other_systems.linear_verdicts(deployment, asked, base, row, cover)
            layers.append(LayerReport(row, cover, verdicts))
        kv = _cache_facts(found.kv) if found.kv and base else None
        report = Report(
            deployment=deployment,
            shapes=found,
            server=(*ask(base, "server"), *ask(base, "config")) if base else (),
            layers=tuple(layers),
            experts=experts,
            moe=moe or (),
            kv_cache=ask(base, "kv_cache", kv) if base and kv else (),
        )
        return replace(report, **conclude(report))

    def _coverage(
        self,
        found: Shapes,
        deployment: Deployment,
        base: Facts,
        values: Mapping[str, Any] | None,
    ) -> tuple[Coverage, ...]:
        """Return the coverage; of a deployment it depends on what these facts say, and no more."""
        quant, env = base.quant, deployment.env.get("SGLANG_FP8_IGNORED_LAYERS")
        origin = (quant.method, quant.origin, quant.fp8_config, quant.why, env)
        key = (deployment.tp, deployment.ep, *origin)
        if key not in self._covered:
            self._covered[key] = coverage(found, deployment, values)
        return self._covered[key]

    def _layers(
        self, rows: Sequence[Linear], covered: Sequence[Coverage], base: Facts
    ) -> tuple[tuple[LayerReport, ...], ExpertFacts | None, tuple[Verdict, ...]]:
        """Return the report of every linear, the experts' facts and their verdicts."""
        deployment = base.deployment
        experts = _experts(rows, deployment)
        layers: list[LayerReport] = []
        moe: tuple[Verdict, ...] = ()
        fix = ""
        for row, cover in zip(rows, covered, strict=True):
            if row.invalid is not None:
                fix = fix or _tp_sizes(self.source, deployment)
                verdicts = _invalid(row, base, fix)
            elif row.kind == "moe":
                if experts and not moe:
                    experts = replace(experts, quantized=cover.layers > 0, why_not=cover.why_not)
                    moe = ask(base, "experts", experts)
                verdicts = moe
            else:
                linear = _linear_facts(row, cover)
                verdicts = ask(base, "linear", linear)
            layers.append(LayerReport(row, cover, verdicts))
        return tuple(layers), experts, moe


def evaluate(config: Source, deployment: Deployment) -> Report:
    """Ask every guard about one model on one deployment; no suggestions."""
    return Examiner(config).evaluate(deployment)


def doctor(
    config: Source,
    deployment: Deployment,
    *,
    suggest: bool = True,
    prologue: bool = False,
) -> Report:
    """Say whether a model runs on a deployment, and if not, what stops it first and when.

    ``config`` is what ``mxlab.models.read_model`` takes: a config.json, a folder, headers, the name
    of a shipped model, the parsed config or a live module. ``suggest`` searches for changes under
    which a model that stops would run.
    ``prologue`` asks the checks of the fused attention prologue even of a model that SGLang does
    not run it for. Raises InputError for a config or a flag that cannot be used.

    >>> flags = Deployment(gpu="b200", tp=8, quantization="mxfp8", fp8_gemm_backend="deep_gemm")
    >>> report = doctor("Llama-3.1-8B", flags)
    >>> report.outcome
    'runs'
    """
    check_deployment(deployment)
    examiner = Examiner(read_model(config), prologue)
    report = examiner.evaluate(deployment)
    report = replace(report, weights=examiner.weights(deployment.tp, deployment.ep))
    if not suggest or report.outcome != "stops":
        return report
    from mxlab.suggest import suggestions

    return replace(report, suggestions=suggestions(examiner, report))
