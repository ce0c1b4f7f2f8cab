"""One model asked about deployments: its shapes, then every guard about every subject."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Any

from mxlab import other_systems
from mxlab.diagnosis import LayerReport, Report, conclude
from mxlab.guards import (
    STAGES,
    Deployment,
    ExpertFacts,
    Facts,
    Status,
    System,
    Verdict,
    ask,
    system,
)
from mxlab.guards.calls import ROWS
from mxlab.guards.settings import check_settings, number
from mxlab.models import (
    Linear,
    Shapes,
    Source,
    quantization_config,
    shapes,
)
from mxlab.padding import Padding, padded
from mxlab.prologue import inkling_cache, prologue
from mxlab.quantized import Coverage, coverage
from mxlab.subjects import (
    base_facts,
    beyond,
    cache_facts,
    expert_facts,
    invalid,
    linear_facts,
    routing_verdicts,
    tp_sizes,
    unsplit,
)
from mxlab.weights import Weights, weights

#: subjects that are asked before a layer is built
_OUTER = ("server", "config")


@cache
def _before_layers(id: str, version: str) -> frozenset[str]:
    """Return the stages of a system in which no guard of a layer or a cache can be met."""
    inner = {row.stage for row in system(id, version).guards if row.subject not in _OUTER}
    stages = list(STAGES)
    first = min(stages.index(stage) for stage in (*inner, "S4"))
    return frozenset(stages[:first])


@dataclass(slots=True)
class Examiner:
    """One model, asked about any number of deployments; its shapes are derived once a split.

    ``prologue`` asks the fused attention prologue's checks of a model that does not run it, ``m``
    are the rows of activations of another system's calls.
    """

    source: Source
    prologue: bool = False
    m: int = ROWS
    _shapes: dict[tuple[int, int, int], Shapes] = field(default_factory=dict)
    _covered: dict[tuple[Any, ...], tuple[Coverage, ...]] = field(default_factory=dict)
    _sizes: dict[int, str] = field(default_factory=dict)  # TP -> the sizes that divide

    def shapes(self, tp: int, ep: int, attn_dp: int = 1) -> Shapes:
        """Return the linears of one rank."""
        key = (tp, ep, attn_dp)
        if key not in self._shapes:
            self._shapes[key] = shapes(self.source, tp, ep, attn_dp)
        return self._shapes[key]

    def shapes_of(self, deployment: Deployment) -> Shapes:
        """Return the linears of one rank of a deployment."""
        check_settings(deployment.settings)
        attn_dp = number(deployment.settings, "attn-dp-size")
        return self.shapes(deployment.tp, deployment.ep, attn_dp)

    def weights(self, deployment: Deployment) -> Weights | None:
        """Return the parameters and bytes of the model, whole and on one rank."""
        rank = self.shapes_of(deployment)
        return weights(rank.config, self.shapes(1, 1), rank)

    def evaluate(
        self, deployment: Deployment, padding: Padding | None = None, *, brief: bool = False
    ) -> Report:
        """Ask every guard about one deployment; no suggestions.

        ``padding`` replaces the (N, K) of some linears by larger ones, as if they were padded.
        ``brief`` asks no further where the server arguments or the checkpoint's config stop before
        any layer is built: the outcome and the first stop are the same.
        """
        found = self.shapes_of(deployment)
        values = quantization_config(found.config)
        architectures = found.config.get("architectures")
        if isinstance(architectures, list) and architectures and isinstance(architectures[0], str):
            deployment = replace(deployment, architecture=architectures[0])
        asked = system(deployment.system, deployment.version)
        if asked.id != "sglang":
            return self._elsewhere(found, deployment, asked, values, padding)
        base = base_facts(found.config, deployment)
        found = replace(found, unknown=(*found.unknown, *beyond(base.quant, found.config)))
        server = (*ask(base, "server"), *ask(base, "config"))
        covered = self._coverage(found, deployment, base, values)
        early = _before_layers(deployment.system, deployment.version) if brief else ()
        if any(v.status is Status.STOPS and v.stage in early for v in server):
            report = Report(deployment=deployment, shapes=found, server=server)
            return replace(report, **conclude(report))
        rows = padded(found.layers, padding or {})
        layers, experts, moe = self._layers(found, rows, covered, base)
        cache = found.kv or inkling_cache(found)
        kv: tuple[Verdict, ...] = ()
        handed = None
        if cache is not None:
            kv_facts = cache_facts(cache)
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
        config = self.shapes_of(deployment).config
        if asked.id == "sglang":
            linear = linear_facts(row, Coverage(row.layers))
            said = ask(base_facts(config, deployment), "linear", linear)
        else:
            values = quantization_config(config)
            base = other_systems.server_facts(deployment, asked, values)
            cover = Coverage(row.layers)
            said = other_systems.linear_verdicts(deployment, asked, base, row, cover, self.m)
        return all(verdict.status is not Status.STOPS for verdict in said)

    def _dividing(self, deployment: Deployment) -> str:
        """Name the TP sizes that divide; a search for changes asks again and again."""
        if deployment.tp not in self._sizes:
            self._sizes[deployment.tp] = tp_sizes(self.source, deployment)
        return self._sizes[deployment.tp]

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
        experts, moe, fix = expert_facts(rows, deployment), None, ""
        layers: list[LayerReport] = []
        for row, cover in zip(rows, other_systems.covered(found, deployment, asked), strict=True):
            if row.invalid is not None:
                fix = fix or self._dividing(deployment)
                verdicts: tuple[Verdict, ...] = (unsplit(row.invalid, deployment, fix),)
            elif row.kind == "moe":
                if experts and moe is None:
                    experts = replace(experts, quantized=cover.layers > 0, why_not=cover.why_not)
                    moe = other_systems.expert_verdicts(base, experts)
                verdicts = moe or ()
            else:
                verdicts = other_systems.linear_verdicts(
                    deployment, asked, base, row, cover, self.m
                )
            layers.append(LayerReport(row, cover, verdicts))
        kv = cache_facts(found.kv) if found.kv and base else None
        report = Report(
            deployment=deployment,
            shapes=found,
            m=self.m,
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
        key = (found.tp, found.ep, found.attn_dp, *origin)
        if key not in self._covered:
            self._covered[key] = coverage(found, deployment, values)
        return self._covered[key]

    def _layers(
        self,
        found: Shapes,
        rows: Sequence[Linear],
        covered: Sequence[Coverage],
        base: Facts,
    ) -> tuple[tuple[LayerReport, ...], ExpertFacts | None, tuple[Verdict, ...]]:
        """Return the report of every linear, the experts' facts and their verdicts."""
        deployment = base.deployment
        experts = expert_facts(rows, deployment)
        layers: list[LayerReport] = []
        moe: tuple[Verdict, ...] = ()
        fix = ""
        for row, cover in zip(rows, covered, strict=True):
            if row.invalid is not None:
                fix = fix or self._dividing(deployment)
                verdicts = invalid(row, base, fix)
            elif row.kind == "moe":
                if experts and not moe:
                    experts = replace(experts, quantized=cover.layers > 0, why_not=cover.why_not)
                    moe = ask(base, "experts", experts)
                    moe += routing_verdicts(found, row, experts, base)
                verdicts = moe
            else:
                linear = linear_facts(row, cover)
                verdicts = ask(base, "linear", linear)
            layers.append(LayerReport(row, cover, verdicts))
        return tuple(layers), experts, moe
