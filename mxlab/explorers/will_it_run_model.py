"""Will it run? A whole model: its layers with their verdicts, the order of failure, what to change.

What is slow to find depends on the model alone, or on the model and the flags, and is kept.
"""

import shlex
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from textwrap import shorten
from typing import Any

from mxlab.diagnosis import LayerReport, Report, sorted_by_stage
from mxlab.errors import InputError
from mxlab.examiner import Examiner
from mxlab.explorers import colours
from mxlab.explorers.controls import State
from mxlab.explorers.panels import AnyPanel, Facts, Grid, Item, Verdicts, View
from mxlab.explorers.will_it_run_controls import NO_MATRIX, PASTED, deployment
from mxlab.explorers.will_it_run_lines import SIGNS, conclusion, guards, line, more
from mxlab.explorers.will_it_run_matrix import WORDS
from mxlab.explorers.will_it_run_matrix import panels as matrix_panels
from mxlab.guards import Deployment, Status
from mxlab.guards.inputs import check_deployment
from mxlab.models.config import parse_json, type_name
from mxlab.models.shipped import shipped_config
from mxlab.suggest import suggestions
from mxlab.weights import Weights, human

_LISTED = 100  # layers of one window
_NOTES = 20  # lines about the model
_TRIALS = 400  # of the doctor's own search
_VERDICTS = 60_000  # of all trials of one search here: under a second on a slow core


def view(state: State) -> View:
    """Return what the guards say of a model; raise InputError for a config that is none."""
    examiner = _examiner(str(state["config"]), str(state["config_json"]))
    asked = deployment(state)
    check_deployment(asked)
    report = examiner.evaluate(asked)
    weights = examiner.weights(asked)
    order = _order(report, weights)
    status, sign, sentence = _answer(report, order)
    panels: list[AnyPanel] = [_facts(report, weights)]
    if order:
        panels.append(_failures(order))
    chosen = _chosen(report, str(state["layer"]))
    if report.layers:
        panels.append(_layers(report, chosen, int(state["row"])))
    if state["suggest"] == "yes" and report.outcome == "stops":
        panels.append(_suggestions(_key(state), report))
    panels.append(_guards(report, chosen))
    if chosen and chosen.linear.n and chosen.linear.k and state["matrix"] != NO_MATRIX:
        panels += matrix_panels(chosen.linear.n, chosen.linear.k, state)
    name = "config.json" if state["config"] == PASTED else str(state["config"])
    return View(
        status=status,
        sign=sign,
        answer=sentence,
        panels=tuple(panels),
        cli=_cli(name, asked),
        python=_python(name, asked),
    )


@lru_cache(maxsize=8)
def _examiner(name: str, text: str) -> Examiner:
    if name != PASTED:
        return Examiner(shipped_config(name))
    if not text.strip():
        raise InputError("Paste a config.json, or open one from a file: the box is empty.")
    config = parse_json(text.encode("utf-8", "replace"), "config.json")
    if not isinstance(config, dict):
        raise InputError(f"config.json is {type_name(config)}: expected a JSON object")
    return Examiner(config)


Line = tuple[Item, str, str]  # the line, where it is heard, when it comes


def _order(report: Report, weights: Weights | None) -> list[Line]:
    """Return what stops in the order of failure, then what is replaced, slower or wrong."""
    known = replace(report, weights=weights)
    lines = [(line(stop.verdict), ", ".join(stop.where), stop.dies.when) for stop in known.stops()]
    seen: dict[str, tuple[Item, list[str]]] = {}
    for where, verdict in report.subjects():
        if verdict.degrades or verdict.status is Status.UNKNOWN:
            entry = seen.setdefault(f"{verdict.guard} {verdict.status}", (line(verdict), []))
            if where not in entry[1]:
                entry[1].append(where)
    rank = list(WORDS)
    rest = sorted(seen.values(), key=lambda entry: rank.index(Status(entry[0].status)))
    return [*lines, *((item, ", ".join(where), "") for item, where in rest)]


def _answer(report: Report, order: Sequence[Line]) -> tuple[str, str, str]:
    for item, where, when in order:
        if item.status == Status.STOPS:
            status, sign, text = conclusion([entry[0] for entry in order])
            at = "" if where == "server" else f" In {where}."
            return status, sign, f"{text}{at} It {when}."
    if report.shapes.unknown:
        why = report.shapes.unknown[0]
        return Status.UNKNOWN, SIGNS[Status.UNKNOWN][0], f"Not known: {why}."
    status, sign, text = conclusion([entry[0] for entry in order])
    if status == Status.PASSES:
        asked = sum(verdict.status is Status.PASSES for _, verdict in report.heard())
        text = f"Runs: all {asked} checks on the way pass."
    return status, sign, text


def _failures(order: Sequence[Line]) -> Verdicts:
    stops = sum(item.status == Status.STOPS for item, _, _ in order)
    items = tuple(more(item, ("at", where), ("when", when)) for item, where, when in order)
    return Verdicts(
        id="order",
        title="What stops it, in order, and what is not as asked",
        alt=f"{stops} guards stop the model, {len(order) - stops} say that something is replaced, "
        "slower, wrong or not known.",
        items=items,
    )


def _facts(report: Report, weights: Weights | None) -> Facts:
    found = report.shapes
    rows = [("model", found.family or "no recipe", found.architecture or found.model_type)]
    rows.append(("split", f"TP {found.tp}, EP {found.ep}", f"{len(report.layers)} kinds of linear"))
    if weights and weights.bytes is not None:
        rank = weights.bytes_a_rank
        how = f"{weights.parameters:,} parameters, {weights.format}"
        each = f", {human(rank)} a rank" if rank is not None else ""
        rows.append(("weights", human(weights.bytes) + each, how))
    if found.kv:
        kv = found.kv
        heads = f"{kv.kv_heads_per_rank} KV heads of {kv.head_dim}"
        rows.append(("KV cache", kv.kind, f"{heads} a rank, {kv.layers} layers"))
    rows += [("not known", "", text) for text in found.unknown]
    rows += [("derived", "", text) for text in found.derived]
    rows += [("note", "", text) for text in found.notes]
    left = len(rows) - _NOTES
    rows = [
        *rows[:_NOTES],
        *([("more", str(left), "lines; mxlab doctor has them")] if left > 0 else []),
    ]
    said = "; ".join(f"{name} {value}" for name, value, _ in rows[:4])
    return Facts(id="model", title="The model on one rank", alt=f"{said}.", rows=tuple(rows),
                 wide=True)  # fmt: skip


def _chosen(report: Report, name: str) -> LayerReport | None:
    """Return the layer asked for; else the first that stops; else the first that speaks."""
    layers = {layer.linear.linear: layer for layer in report.layers}
    if name.strip() in layers:
        return layers[name.strip()]
    if report.first_stop and report.first_stop[0] in layers:
        return layers[report.first_stop[0]]
    speaking = sorted((layer for layer in report.layers if layer.worst), key=_goes_on)
    return next(iter(speaking or report.layers), None)


def _layers(report: Report, chosen: LayerReport | None, first: int) -> Grid:
    first = min(first, max(0, len(report.layers) - 1))
    shown = report.layers[first : first + _LISTED]
    cells, values, places = [], [], []
    legend: dict[str, int] = {}  # word -> hue
    for r, layer in enumerate(shown):
        row, worst = layer.linear, layer.worst
        if worst:
            word, hue = WORDS[worst.status]
            said = (f"{SIGNS[worst.status][0]} {word}", worst.guard)
        elif not layer.coverage.layers:
            word, hue = "not quantised", colours.REFERENCE
            said = ("16 bit", layer.coverage.why_not)
        else:
            word, hue = WORDS[Status.PASSES]
            said = (f"{SIGNS[Status.PASSES][0]} {word}", "")
        legend[word] = hue
        tone = list(legend).index(word)
        split = row.shard if row.experts is None else f"{row.shard}, {row.experts} experts"
        size = ("none", "none") if row.n is None or row.k is None else (f"{row.n:,}", f"{row.k:,}")
        texts = (*said, *size, f"{layer.coverage.layers} of {row.layers}", split)
        cells.append(tuple((shorten(text, 60, placeholder=" ..."), tone, -1) for text in texts))
        values.append((row.linear,) * len(texts))
        if layer is chosen:
            places += [(r, c) for c in range(len(texts))]
    stops = [layer.linear.linear for layer in report.layers if _stops(layer)]
    said_stops = f"{', '.join(stops[:8])} stop" if stops else "none stops"
    window = (
        f" Rows {first} to {first + len(shown) - 1}." if len(shown) < len(report.layers) else ""
    )
    return Grid(
        id="layers",
        title="Layers of one rank",
        alt=f"{len(report.layers)} kinds of linear: {said_stops}.{window}",
        corner="linear",
        columns=("verdict", "because of", "N", "K", "quantised", "split"),
        rows=tuple(layer.linear.linear for layer in shown),
        cells=cells,
        legend=tuple(legend),
        tones=tuple(legend.values()),
        say="{row}, {column}: {text}",
        drawn=True,
        wide=True,
        sample=tuple(range(len(shown))),
        sets="layer",
        values=values,
        chosen=tuple(places),
    )


def _stops(layer: LayerReport) -> bool:
    return any(verdict.status is Status.STOPS for verdict in layer.verdicts)


def _goes_on(layer: LayerReport) -> bool:
    return not _stops(layer)


def _guards(report: Report, chosen: LayerReport | None) -> Verdicts:
    """Return every verdict about the server, one layer and the cache, in their order."""
    name = chosen.linear.linear if chosen else ""
    heard = [("", verdict) for verdict in report.server]
    heard += [(name, verdict) for verdict in chosen.verdicts] if chosen else []
    heard += [("KV cache", verdict) for verdict in report.kv_cache]
    heard += [("prologue", v) for v in (report.prologue.verdicts if report.prologue else ())]
    places = {id(v): i for i, v in enumerate(sorted_by_stage(tuple(v for _, v in heard)))}
    heard.sort(key=lambda pair: places[id(pair[1])])
    items = [line(verdict, where) for where, verdict in heard]
    of = f"{name} and the KV cache" if name else "the server and the KV cache"
    return guards(items, f"Guards of {of}, in the order in which SGLang meets them")


Key = tuple[tuple[str, int | str], ...]


def _key(state: State) -> Key:
    without = ("suggest", "layer", "row", "matrix")
    return tuple((name, value) for name, value in state.items() if name not in without)


@lru_cache(maxsize=16)
def _found(key: Key, trials: int) -> tuple[dict[str, Any], ...]:
    state = dict(key)
    examiner = _examiner(str(state["config"]), str(state["config_json"]))
    return suggestions(examiner, examiner.evaluate(deployment(state)), trials)


def _suggestions(key: Key, report: Report) -> Facts:
    trials = min(_TRIALS, max(30, _VERDICTS // max(1, len(report.heard()))))
    found = _found(key, trials)
    rows = []
    for number, one in enumerate(found, 1):
        costs = "; ".join(cost["cost"] for cost in one["costs"])
        still = "; ".join(one["degrades"][:3])
        how = f"{' and '.join(one['changes'])}. Cost: {costs}."
        rows.append((str(number), one["outcome"], how + (f" Still: {still}." if still else "")))
    if not rows:
        rows.append(("none", "0", "no set of up to three changes was found"))
    if trials < _TRIALS:
        rows.append(("trials", str(trials), f"at most; mxlab doctor tries up to {_TRIALS}"))
    texts = "; ".join(" and ".join(one["changes"]) for one in found) or "no set of changes"
    return Facts(
        id="suggestions",
        title="Smallest changes under which no guard stops it, each tried",
        alt=f"{len(found)} found: {texts}.",
        wide=True,
        rows=tuple(rows),
    )


def _flags(asked: Deployment) -> dict[str, object]:
    usual = Deployment()
    flags = {
        name.replace("_", "-"): value
        for name in ("gpu", "tp", "ep", "quantization", "fp8_gemm_backend", "moe_runner_backend",
                     "kv_cache_dtype", "page_size", "attention_backend")
        if (value := getattr(asked, name)) != getattr(usual, name)
    }  # fmt: skip
    return flags


def _cli(name: str, asked: Deployment) -> str:
    words = ["mxlab", "doctor", name]
    for flag, value in _flags(asked).items():
        words += [f"--{flag}", str(value)]
    for package in sorted(Deployment().packages - asked.packages):
        words += ["--without", package]
    return shlex.join(words)


def _python(name: str, asked: Deployment) -> str:
    flags = ", ".join(
        f"{flag.replace('-', '_')}={value!r}" for flag, value in _flags(asked).items()
    )
    if asked.packages != Deployment().packages:
        flags += f", packages=frozenset({sorted(asked.packages)!r})"
    return (
        "from mxlab import Deployment, doctor\n\n"
        f"report = doctor({name!r}, Deployment({flags.removeprefix(', ')}))\n"
        "print(report.outcome)\n"
        "for stop in report.stops():\n"
        "    print(stop.verdict.stage, stop.verdict.guard, stop.where, stop.verdict.because)\n"
        "for suggestion in report.suggestions:\n"
        "    print(suggestion['changes'], suggestion['outcome'])\n"
    )
