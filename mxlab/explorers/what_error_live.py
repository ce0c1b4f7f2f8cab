"""The check behind a message, asked again with its numbers: on every GPU, under every backend."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from mxlab.errors import InputError
from mxlab.explain import Match
from mxlab.explain_text import JsonValue
from mxlab.explorers import colours
from mxlab.explorers.panels import Facts, Grid
from mxlab.explorers.will_it_run_lines import SIGNS
from mxlab.explorers.will_it_run_matrix import WORDS
from mxlab.guards import Deployment, ExpertFacts, KvCacheFacts, LinearFacts, Status, facts, system
from mxlab.guards.engine import Guard
from mxlab.guards.values import FP8_GEMM_BACKEND
from mxlab.matrix import CHECKPOINT, GPUS

_REMAINDER = re.compile(r"(\w{1,60}) = (\d{1,15}) % \(?(?:\w{1,60} = )?(\d{1,9})\)? = (\d{1,9})")
_RUNNERS = ("auto", "deep_gemm", "triton", "flashinfer_trtllm", "flashinfer_cutlass", "cutlass")
_CACHES = ("mxfp8", "fp8_e4m3", "auto")
_ATTENTION = ("fa4", "fa3", "triton")
_LARGEST = 1 << 30
_TWINS = 3  # checks with one text that are tried
_NOT_REACHED = ("not reached", colours.REFERENCE)
#: name of a message's field -> field of the facts
_NAMES: Mapping[str, Mapping[str, str]] = {
    "linear": {"n": "n", "out_part": "n", "p": "n", "k": "k", "in_part": "k", "numerator": "k"},
    "experts": {"h": "hidden", "k": "hidden", "inter": "intermediate", "size": "intermediate"},
    "kv_cache": {"hd": "head_dim", "vhd": "v_head_dim"},
}
#: the subject where the message does not say all of it
_USUAL: Mapping[str, Mapping[str, int]] = {
    "linear": {"n": 4096, "k": 4096},
    "experts": {"hidden": 4096, "intermediate": 1536, "experts": 64},
    "kv_cache": {"head_dim": 128, "v_head_dim": 128, "kv_heads": 8},
}


def near(match: Match) -> Facts | None:
    """Return the nearest sizes that divide, for every remainder that the message comes to."""
    rows = []
    for said in match.because:
        found = _REMAINDER.fullmatch(said)
        if found is None:
            continue
        name, value, by, rest = found[1], int(found[2]), int(found[3]), int(found[4])
        if not by or value % by != rest:
            continue
        text = "it divides" if not rest else " or ".join(
            str(size) for size in (value - rest, value - rest + by) if size
        )  # fmt: skip
        rows.append((f"{name} = {value}", text, f"{value} = {value // by} x {by} + {rest}"))
    if not rows:
        return None
    alt = "; ".join(f"{name}: nearest {text}" for name, text, _ in rows) + "."
    return Facts(id="near", title="Nearest sizes that pass", alt=alt, rows=tuple(rows))


def speaks(matches: Sequence[Match]) -> Grid | None:
    """Return what the check of a match says on every GPU, or None where no launch decides it.

    Of several checks that share one text, the first that says anything there is taken.
    """
    grids = [grid for match in matches[:_TWINS] if (grid := _grid(match)) is not None]
    heard = (grid for grid in grids if set(grid.legend) != {_NOT_REACHED[0]})
    return next(heard, grids[0] if grids else None)


def _grid(match: Match) -> Grid | None:
    guard = match.guard
    if guard.system != "sglang" or guard.subject not in (*_NAMES, "server", "config"):
        return None
    if guard not in system("sglang").guards:
        return None
    try:
        subject = _subject(guard, match.values)
        lines = [
            (name, [_cell(guard, replace(where, gpu=gpu), subject) for gpu in GPUS])
            for name, where in _launches(guard, match.values)
        ]
    except InputError:  # numbers that no layer has: a log can hold any
        return None
    legend = list(dict.fromkeys(word for _, line in lines for _, word, _ in line))
    hues = {word: hue for _, line in lines for _, word, hue in line}
    said = ", ".join(
        f"{sum(word == name for _, line in lines for _, word, _ in line)} {name}" for name in legend
    )
    numbers = ", ".join(f"{name} = {value}" for name, value in _numbers(subject).items())
    asked = f" with {numbers}" if numbers else ""
    return Grid(
        id="live",
        title=f"{guard.id}, asked again on every GPU",
        alt=f"An MXFP8 checkpoint{asked}: {said}.",
        corner=_CORNER.get(guard.subject, "--fp8-gemm-backend"),
        columns=GPUS,
        rows=tuple(name for name, _ in lines),
        cells=tuple(
            tuple(
                (sign if word == _NOT_REACHED[0] else f"{sign} {word}", legend.index(word), -1)
                for sign, word, _ in line
            )
            for _, line in lines
        ),
        legend=tuple(legend),
        tones=tuple(hues[word] for word in legend),
        say="{row} on {column}: {legend}",
        sample=tuple(range(len(lines))),
        drawn=True,
        wide=True,
    )


_CORNER = {"kv_cache": "KV cache, attention", "experts": "--moe-runner-backend"}


def _subject(guard: Guard, values: Mapping[str, JsonValue]) -> dict[str, Any]:
    """Return the facts that the message tells of, completed by usual ones."""
    if guard.subject not in _NAMES:
        return {}
    known = dict(_USUAL[guard.subject])
    names = _NAMES[guard.subject]
    for name, value in values.items():
        if type(value) is int and 0 < value <= _LARGEST and name in names:
            known[names[name]] = value
        elif isinstance(value, list) and len(value) == 2 and guard.subject == "linear":
            sizes = [size for size in value if type(size) is int and 0 < size <= _LARGEST]
            if len(sizes) == 2:
                known |= {"n": sizes[0], "k": sizes[1]}
    if guard.subject == "linear":
        shard = "row" if {"in_part", "numerator"} & {*values} else "column"
        return {"linear": LinearFacts("layer", known["n"], known["k"], shard=shard)}
    if guard.subject == "experts":
        hidden, inter, count = known["hidden"], known["intermediate"], known["experts"]
        return {"experts": ExpertFacts(hidden=hidden, intermediate=inter, experts=count)}
    wide = known["v_head_dim"] if "vhd" in values else known["head_dim"]
    return {"kv_cache": KvCacheFacts(known["head_dim"], wide, known["kv_heads"])}


def _numbers(subject: Mapping[str, Any]) -> dict[str, int]:
    names = {
        "linear": ("n", "k"),
        "experts": ("hidden", "intermediate", "experts"),
        "kv_cache": ("head_dim", "v_head_dim", "kv_heads"),
    }
    return {name: getattr(found, name) for kind, found in subject.items() for name in names[kind]}


def _launches(guard: Guard, values: Mapping[str, JsonValue]) -> Iterator[tuple[str, Deployment]]:
    usual = Deployment(quantization="mxfp8", tp=8)
    if guard.subject == "experts":
        for runner in _RUNNERS:
            yield runner, replace(usual, moe_runner_backend=runner)
    elif guard.subject == "kv_cache":
        page = values.get("p")
        size = page if type(page) is int and 0 < page <= 4096 else 128
        for cache in _CACHES:
            for attention in _ATTENTION:
                yield (
                    f"{cache}, {attention}",
                    replace(
                        usual, kv_cache_dtype=cache, attention_backend=attention, page_size=size
                    ),
                )
    else:
        for backend in FP8_GEMM_BACKEND:
            yield backend, replace(usual, fp8_gemm_backend=backend)


def _cell(guard: Guard, where: Deployment, subject: Mapping[str, Any]) -> tuple[str, str, int]:
    """Return sign, word and hue of one answer; nine GPUs leave the longest word no room."""
    status = guard.check(facts(where, config=CHECKPOINT, **subject)).status
    word, hue = _NOT_REACHED if status is Status.NOT_REACHED else WORDS[status]
    return SIGNS[status][0], "passes" if status is Status.PASSES else word, hue
