"""One question asked of many deployments: a grid of flags, and what each cell comes to."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from typing import Any

from mxlab.diagnosis import DEGRADES, Report, death, deployment_json
from mxlab.errors import InputError, choose, quote
from mxlab.examiner import Examiner
from mxlab.guards import Deployment
from mxlab.guards import values as flags
from mxlab.guards.calls import ROWS
from mxlab.guards.platform import toolkit_version
from mxlab.guards.systems import SYSTEMS, system
from mxlab.hardware import GPUS, gpu

MAX_CELLS = 5_000  # of one model
MAX_IN_ALL = 25_000


@dataclass(frozen=True, slots=True)
class Axis:
    """One thing that varies: its name on the command line and the field of the deployment.

    ``known`` are the values that ``all`` stands for; ``read`` turns a word into a value.
    """

    name: str
    field: str
    known: tuple[str, ...]
    read: Callable[[str], Any]


def _whole(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10 and int(text)):
        raise InputError(f"{quote(text)} is no size: expected a whole number from 1")
    return int(text)


def _or_none(text: str) -> str | None:
    return None if text == "none" else text


def _named(name: str, field: str, known: Iterable[str]) -> Axis:
    names = tuple(known)
    return Axis(name, field, names, lambda text: choose(name, text, {n: n for n in names}))


def _optional(name: str, field: str, known: Iterable[str]) -> Axis:
    named = _named(name, field, ("none", *known))
    return replace(named, read=lambda text: _or_none(named.read(text)))


def _toolkit(text: str) -> str:
    toolkit_version(text)
    return text


def _system(text: str) -> tuple[str, str]:
    id, _, version = text.partition("@")
    return id, system(id, version).version


AXES: Mapping[str, Axis] = {
    axis.name: axis
    for axis in (
        Axis("tp", "tp", ("1", "2", "4", "8", "16"), _whole),
        Axis("ep", "ep", ("1", "2", "4", "8"), _whole),
        Axis("gpu", "gpu", tuple(GPUS), lambda text: gpu(text).name),
        _named("backend", "fp8_gemm_backend", flags.FP8_GEMM_BACKEND),
        _named("moe", "moe_runner_backend", ("auto", *flags.MOE_RUNNER_BACKEND)),
        _named("a2a", "moe_a2a_backend", flags.MOE_A2A_BACKEND),
        _named("kv", "kv_cache_dtype", flags.KV_CACHE_DTYPE),
        Axis("page", "page_size", ("1", "16", "32", "64", "128"), _whole),
        _optional("attention", "attention_backend", flags.ATTENTION_BACKEND),
        _optional("quantization", "quantization", flags.QUANTIZATION),
        _named("dtype", "dtype", flags.DTYPE),
        Axis("toolkit", "toolkit", (), _toolkit),
        Axis(
            "system",
            "system",
            tuple(f"{row.id}@{row.version}" for row in SYSTEMS if row.server),
            _system,
        ),
    )
}
#: the flag's own name does too
_SPELLINGS = {axis.field.replace("_", "-"): axis for axis in AXES.values()} | dict(AXES)

Axes = Mapping[str, tuple[Any, ...]]


def parse_axes(texts: Iterable[str]) -> Axes:
    """Return axis -> values of ``tp=1,2,4 gpu=h100,b200 backend=all``.

    Raises InputError for an unknown axis (with the nearest name), a value that the axis has not, an
    axis named twice, and one without values.

    >>> parse_axes(["tp=1,2", "gpu=h100"])
    {'tp': (1, 2), 'gpu': ('h100',)}
    """
    axes: dict[str, tuple[Any, ...]] = {}
    for text in texts:
        name, equals, listed = text.partition("=")
        if not equals:
            raise InputError(f"--sweep {quote(text)}: expected AXIS=VALUE,VALUE, such as tp=1,2,4")
        axis = choose("sweep axis", name.removeprefix("--").replace("_", "-"), _SPELLINGS)
        if axis.name in axes:
            raise InputError(f"--sweep names {axis.name} twice: list its values once")
        words = axis.known if listed == "all" else [w for w in listed.split(",") if w.strip()]
        if not words or len(words) > MAX_CELLS:
            raise InputError(f"--sweep {axis.name}= has {len(words)} values: expected 1 or more")
        try:
            values = [axis.read(word.strip()) for word in words]
        except InputError as error:
            raise InputError(f"--sweep {axis.name}: {error}") from None
        axes[axis.name] = tuple(dict.fromkeys(values))
    return axes


@dataclass(frozen=True, slots=True)
class Cell:
    """One model on one deployment: ``outcome`` as of a report, and the first stop.

    ``outcome`` is ``invalid`` for flags that no launch could have together, and ``unknown`` for a
    model whose shapes cannot be derived; ``because`` then says why. ``degrades`` names the guards
    that let the model run replaced, slower or wrong in silence, the silent ones first.
    """

    model: str
    at: Mapping[str, Any]
    outcome: str
    where: str = ""
    guard: str = ""
    stage: str = ""
    because: str = ""
    message: str = ""
    degrades: tuple[str, ...] = ()

    @property
    def when(self) -> str:
        """When it dies, without the bytes: those are in the single report."""
        return death(self.stage, None).when if self.stage else ""

    def to_json(self) -> dict[str, Any]:
        """Return a flat JSON object: model, axes, outcome and the first stop."""
        return {
            "model": self.model,
            **self.at,
            "outcome": self.outcome,
            "where": self.where,
            "guard": self.guard,
            "stage": self.stage,
            "because": self.because,
            "when": self.when,
            "degrades": list(self.degrades),
        }


@dataclass(frozen=True, slots=True)
class Grid:
    """All cells, model by model, the last axis fastest; ``base`` holds the flags that stay."""

    base: Deployment
    axes: Axes
    models: tuple[str, ...]
    cells: tuple[Cell, ...]

    def counts(self) -> dict[str, int]:
        """Return how many cells have each outcome."""
        return dict(sorted(Counter(cell.outcome for cell in self.cells).items()))

    def hopeless(self) -> list[str]:
        """Return the models that no cell runs."""
        fine = ("runs", "runs-degraded", "unknown")
        run = {cell.model for cell in self.cells if cell.outcome in fine}
        return [model for model in self.models if model not in run]

    def to_json(self) -> dict[str, Any]:
        """Return the axes, the models, how many cells there are of each outcome, and the cells."""
        axes = {
            name: [_shown(name, value) for value in values] for name, values in self.axes.items()
        }
        return {
            "axes": axes,
            "deployment": deployment_json(self.base),
            "models": list(self.models),
            "counts": self.counts(),
            "nothing_runs": self.hopeless(),
            "cells": [cell.to_json() for cell in self.cells],
        }


def deployment_at(base: Deployment, at: Mapping[str, Any]) -> Deployment:
    """Return the base with one cell's values in place.

    >>> deployment_at(Deployment(), {"tp": 8, "backend": "deep_gemm"}).fp8_gemm_backend
    'deep_gemm'
    """
    named = {AXES[name].field: value for name, value in at.items() if name != "system"}
    if "system" in at:
        named["system"], named["version"] = at["system"]
    return replace(base, **named)


def _shown(name: str, value: Any) -> Any:
    return "@".join(value) if name == "system" else "none" if value is None else value


def _cell(model: str, examiner: Examiner, base: Deployment, at: Mapping[str, Any]) -> Cell:
    shown = {name: _shown(name, value) for name, value in at.items()}
    deployment = deployment_at(base, at)
    try:
        report = examiner.evaluate(deployment, brief=True)
    except InputError as error:
        return Cell(model, shown, "invalid", because=str(error))
    if report.first_stop is None:
        return _running(model, shown, report)
    where, stop = report.first_stop
    return Cell(model, shown, "stops", where, stop.guard, stop.stage, stop.because, stop.message)


def _running(model: str, shown: Mapping[str, Any], report: Report) -> Cell:
    """Return the cell of a deployment that nothing stops."""
    heard = [
        (where, verdict)
        for status in DEGRADES
        for where, verdict in report.heard()
        if verdict.status is status and verdict.degrades
    ]
    because = report.shapes.unknown[0] if report.shapes.unknown else ""
    if not because and heard:
        where, first = heard[0]
        because = f"{first.status} {first.guard} at {where}: {first.because}"
    guards = tuple(dict.fromkeys(verdict.guard for _, verdict in heard))
    return Cell(model, shown, report.outcome, because=because, degrades=guards)


def sweep(models: Mapping[str, Any], base: Deployment, axes: Axes, *, m: int = ROWS) -> Grid:
    """Return every combination of the axes' values for every model.

    ``models`` maps a name to what ``doctor`` takes, already read; ``m`` is as for it. Each cell
    says what a doctor's report on that deployment alone would: outcome and first stop. Raises
    InputError for a grid of over 5,000 cells a model or 25,000 in all.

    >>> grid = sweep({"Llama-3.1-8B": "Llama-3.1-8B"}, Deployment(gpu="b200"), {"tp": (1, 3)})
    >>> [cell.outcome for cell in grid.cells]
    ['runs', 'stops']
    """
    each = prod(len(values) for values in axes.values())
    for count, limit, what in (
        (each, MAX_CELLS, "a model"),
        (each * len(models), MAX_IN_ALL, "in all"),
    ):
        if count > limit:
            sizes = " x ".join(f"{len(values)} {name}" for name, values in axes.items())
            raise InputError(
                f"--sweep asks for {count:,} cells {what} ({sizes}): expected at most {limit:,}"
            )
    return Grid(base, axes, tuple(models), tuple(_cells(models, base, axes, m)))


def _cells(models: Mapping[str, Any], base: Deployment, axes: Axes, m: int) -> Iterator[Cell]:
    points: Sequence[tuple[Any, ...]] = list(product(*axes.values()))
    for name, config in models.items():
        examiner = Examiner(config, m=m)
        try:
            examiner.shapes(1, 1)
        except InputError as error:  # the model's own fault: no cell can answer
            for point in points:
                shown = {k: _shown(k, v) for k, v in zip(axes, point, strict=True)}
                yield Cell(name, shown, "unknown", because=str(error))
            continue
        for point in points:
            yield _cell(name, examiner, base, dict(zip(axes, point, strict=True)))
