"""What the doctor found: the verdicts by subject, the order of failure, and when it dies."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from mxlab.guards import STAGES, Deployment, ExpertFacts, Status, Verdict
from mxlab.models import Linear, Shapes
from mxlab.prologue import Prologue
from mxlab.quantized import Coverage
from mxlab.weights import Weights, human

_ORDER = {stage: place for place, stage in enumerate(STAGES)}
#: families whose vision tower SGLang builds after the decoder (srt/models/qwen2_5_vl.py:743)
_TOWER_LAST = ("qwen2_5_vl",)
#: statuses of a model that runs degraded, the worst first
DEGRADES = (Status.SILENT, Status.FALLS_BACK, Status.WARNS)
#: what a one-line summary shows first
_SEVERITY = (Status.STOPS, *DEGRADES, Status.UNKNOWN)

#: stage -> when a server dies in it, and whether the weights have been read by then
_DIES = {
    "S1": ("dies at start, before reading anything", False),
    "S2": ("dies at start, before reading a weight", False),
    "S3": ("dies at start, before reading a weight", False),
    "S4": ("dies while the model is built, before reading a weight", False),
    "S5": ("dies at weight load, after reading up to {read}", True),
    "S6": ("dies at weight load, after reading {read}", True),
    "S7": ("dies when the KV cache is allocated, after reading {read}", True),
    "S8": ("dies at the first token (warm-up, graph capture), after reading {read}", True),
    "S9": ("dies at the first kernel launch, after reading {read}", True),
}


@dataclass(frozen=True, slots=True)
class Death:
    """When a deployment stops: the stage, in words with numbers, and the bytes read by then.

    Bytes are None where the size of the weights is not known.
    """

    stage: str
    when: str
    bytes_read: int | None
    bytes_a_rank: int | None

    def to_json(self) -> dict[str, Any]:
        """Return a JSON object."""
        return asdict(self)


def death(stage: str, weights: Weights | None) -> Death:
    """Return when a stop in ``stage`` comes, for a model with these weights.

    >>> death("S3", None).when
    'dies at start, before reading a weight'
    """
    when, reads = _DIES.get(stage, (f"dies at the {STAGES[stage]}", False))
    if not reads:
        return Death(stage, when, 0, 0)
    read, rank = (weights.bytes, weights.bytes_a_rank) if weights else (None, None)
    text = "every weight" if read is None else f"{human(read)} of weights"
    text += f" ({human(rank)} a rank)" if rank is not None and read is not None else ""
    return Death(stage, when.format(read=text), read, rank)


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
        stops = [v.guard for v in sorted_by_stage(self.verdicts) if v.status is Status.STOPS]
        return {
            **self.linear.to_json(),
            "quantized_layers": self.coverage.layers,
            "not_quantized_because": self.coverage.why_not,
            "first_stop": stops[0] if stops else None,
            "behind": stops[1:],
            "verdicts": [verdict.to_json() for verdict in self.verdicts],
        }


def sorted_by_stage(verdicts: tuple[Verdict, ...]) -> list[Verdict]:
    """Return verdicts in the order in which the system meets them."""
    return sorted(verdicts, key=lambda verdict: _ORDER[verdict.stage])


@dataclass(frozen=True, slots=True)
class Stop:
    """One guard that stops, and all that it stops: an entry of the order of failure."""

    verdict: Verdict
    where: tuple[str, ...]
    dies: Death

    def to_json(self) -> dict[str, Any]:
        """Return a JSON object."""
        return {
            "guard": self.verdict.guard,
            "stage": self.verdict.stage,
            "where": list(self.where),
            "because": self.verdict.because,
            "when": self.dies.when,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What ``doctor`` found.

    ``outcome`` is ``stops``, ``runs``, ``runs-degraded`` (it runs, but something is replaced,
    slower or wrong in silence) or ``unknown``. ``dies`` says when the first stop comes.
    """

    deployment: Deployment
    shapes: Shapes
    outcome: str = "runs"
    first_stop: tuple[str, Verdict] | None = None  # (where, verdict)
    server: tuple[Verdict, ...]
    layers: tuple[LayerReport, ...] = ()
    experts: ExpertFacts | None = None  # what the guards of the experts were asked about
    moe: tuple[Verdict, ...] = ()
    kv_cache: tuple[Verdict, ...] = ()
    prologue: Prologue | None = None
    weights: Weights | None = None
    suggestions: tuple[dict[str, Any], ...] = ()
    m: int | None = None  # rows of activations in the calls asked of another system

    @property
    def version(self) -> str:
        """Version of the system whose guards were asked."""
        return next((v.version for _, v in self.subjects()), self.deployment.version)

    @property
    def dies(self) -> Death | None:
        """When the first stop comes; None where nothing stops."""
        return self.first_stop and death(self.first_stop[1].stage, self.weights)

    def subjects(self) -> Iterator[tuple[str, Verdict]]:
        """Yield (where, verdict) as the system would meet them: by stage, then by layer."""
        yield from sorted(self.heard(), key=self.place)

    def heard(self) -> list[tuple[str, Verdict]]:
        """Return (where, verdict) subject by subject."""
        found = [("server", verdict) for verdict in self.server]
        for layer in self.layers:
            found += [(layer.linear.linear, verdict) for verdict in layer.verdicts]
        found += [("kv_cache", verdict) for verdict in self.kv_cache]
        if self.prologue:
            found += [("prologue", verdict) for verdict in self.prologue.verdicts]
        return found

    def place(self, item: tuple[str, Verdict]) -> tuple[int, bool]:
        """Return where a verdict stands: its stage, and in it whether SGLang builds it first."""
        where, stage = item[0], item[1].stage
        tower = where.startswith("visual.") and self.shapes.family not in _TOWER_LAST
        return _ORDER[stage], not (tower and stage in ("S4", "S5", "S6"))

    def stops(self) -> tuple[Stop, ...]:
        """Return every stop in the order of failure, one entry for each guard and stage."""
        found: dict[tuple[str, str], tuple[Verdict, list[str]]] = {}
        for where, verdict in self.subjects():
            if verdict.status is Status.STOPS:
                first = found.setdefault((verdict.stage, verdict.guard), (verdict, []))
                if where not in first[1]:
                    first[1].append(where)
        return tuple(
            Stop(verdict, tuple(where), death(verdict.stage, self.weights))
            for verdict, where in found.values()
        )

    def to_json(self) -> dict[str, Any]:
        """Return the contract's JSON object."""
        where, stop = self.first_stop or ("", None)
        kv = self.shapes.kv.to_json() if self.shapes.kv else None
        return {
            "deployment": deployment_json(self.deployment),
            "m": self.m,
            "outcome": self.outcome,
            "first_stop": stop and {"where": where, **stop.to_json()},
            "dies": self.dies and self.dies.to_json(),
            "order_of_failure": [entry.to_json() for entry in self.stops()],
            "server": [verdict.to_json() for verdict in self.server],
            "layers": [layer.to_json() for layer in self.layers],
            "kv_cache": kv and {**kv, "verdicts": [v.to_json() for v in self.kv_cache]},
            "prologue": self.prologue and self.prologue.to_json(),
            "moe": self.experts
            and {**asdict(self.experts), "verdicts": [v.to_json() for v in self.moe]},
            "weights": self.weights and self.weights.to_json(),
            "suggestions": list(self.suggestions),
            "differences": [found.to_json() for found in self.shapes.differences],
            "unknown": list(self.shapes.unknown),
            "derived": list(self.shapes.derived),
            "notes": list(self.shapes.notes),
        }


def deployment_json(deployment: Deployment) -> dict[str, Any]:
    """Return a deployment's flags as JSON; sets become sorted lists."""
    row = {name: getattr(deployment, name) for name in deployment.__dataclass_fields__}
    return {
        **row,
        "packages": sorted(deployment.packages),
        "env": dict(deployment.env),
        "settings": dict(deployment.settings),
    }


def conclude(report: Report) -> dict[str, Any]:
    """Return the first stop and the outcome that the verdicts come to."""
    heard = report.heard()
    stops = [item for item in heard if item[1].status is Status.STOPS]
    stop = min(stops, key=report.place) if stops else None
    statuses = {verdict.status for _, verdict in heard}
    if stop is not None:
        outcome = "stops"
    elif report.shapes.unknown or Status.UNKNOWN in statuses:
        outcome = "unknown"
    elif any(verdict.degrades for _, verdict in heard):
        outcome = "runs-degraded"
    else:
        outcome = "runs"
    return {"first_stop": stop, "outcome": outcome}
