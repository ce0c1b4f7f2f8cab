"""A call that trips a row, and one that passes it: found by search, so that rows cannot lie."""

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import combinations
from typing import Any

from mxlab.guards import Deployment, Status, facts, guard
from mxlab.guards.engine import run
from mxlab.guards.facts import CallFacts, Facts
from mxlab.guards.flashinfer_rows import GROUPED
from mxlab.guards.known_calls import PASSING, TRIPPING
from mxlab.guards.systems import System, system, versions

TRIPS = (Status.STOPS, Status.FALLS_BACK, Status.WARNS, Status.SILENT)

#: what a search changes, one or two at a time, from a call of 256 x 512 x 1024 on a B200;
#: values that a system does not know are passed over
DEPLOYMENTS: tuple[tuple[str, tuple[Any, ...]], ...] = (
    ("gpu", ("h200", "rtx5090", "gb10", "b300", "thor", "mi355x", "mi300x", "l40s", "a100", "cpu")),
    ("toolkit", ("13.0", "12.4", "12.8", "7.2", "6.4")),
    ("packages", (frozenset(),)),
)
CALLS: tuple[tuple[str, tuple[Any, ...]], ...] = (
    ("k", (576, 1040, 1000, 96, 1056, 48, 1025, 32, 0)),
    ("n", (96, 520, 516, 640, 544, 32, 24, 576, 513, 0)),
    ("m", (1, 6, 130, 257, 100, 33, 0)),
    ("a_dtype", ("bfloat16", "float8_e5m2", "float32", "uint8", "float16")),
    ("b_dtype", ("uint8", "float8_e5m2", "bfloat16", "int8")),
    ("out_dtype", ("float16", "float32", "float8_e4m3fn")),
    ("scale_dtype", ("float8_e8m0fnu", "uint8", "int32", "float32")),
    ("scale_layout", ("linear", "tile_8x4", "tile_128x4", "deepgemm_packed", "amd_32x8")),
    ("declared_layout", ("tile_128x4", "linear", "tile_8x4", "deepgemm_packed")),
    ("a_layout", ("column", "none")),
    ("b_layout", ("row",)),
    ("batch", (3,)),
    ("groups", ((100, 156), (127, 129), (129, 127), (0, 256), (128, 128))),
    ("b_shuffled", (True, False)),
    ("recipe", ((1, 128, 128), (1, 1, 64), (1, 32, 32), ())),
    ("a_scale_shape", ((16,), (256, 32), (1, 2, 3))),
    ("b_scale_shape", ((16,), (32, 512), (1, 2, 3))),
    ("scale_contiguous", (False,)),
    ("scales_pow2", (False, True)),
    ("bias", (True,)),
    ("training", (True,)),
)

#: function -> what its plainest call has besides the sizes
PLAIN: dict[str, dict[str, Any]] = {
    GROUPED: {"b_dtype": "uint8", "groups": (128, 128)},
    "mxfp8_quantize": {"a_dtype": "bfloat16"},
    "mxfp8_grouped_quantize": {"a_dtype": "bfloat16", "batch": 4},
    "mxfp8_dequantize_host": {"a_dtype": "uint8"},
}

_Call = tuple[Deployment, CallFacts, Facts]

#: third changes that a pair of others may need
FIXED = (("call", "b_dtype", "int8"), ("call", "scale_dtype", "float32"))


def _changes(asked: System, function: str) -> list[tuple[str, str, Any]]:
    changed = [("deployment", name, value) for name, values in DEPLOYMENTS for value in values]
    changed += [("call", name, value) for name, values in CALLS for value in values]
    named = [("call", "backend", name) for name in asked.functions[function]]
    return [*named, *changed]


def _made(
    asked: System, function: str, changes: tuple[tuple[str, str, Any], ...]
) -> tuple[Deployment, CallFacts]:
    deployment = Deployment(gpu="b200", system=asked.id, version=asked.version)
    call = CallFacts(function=function, m=256, n=512, k=1024, **PLAIN.get(function, {}))
    for where, name, value in changes:
        if where == "deployment":
            deployment = replace(deployment, **{name: value})
        else:
            call = replace(call, **{name: value})
    return deployment, call


def _candidates(asked: System) -> Iterator[tuple[Deployment, CallFacts]]:
    """Yield calls, the plainest first: no change, one, two, then two beside a fixed third."""
    for count in range(3):
        for function in asked.functions:
            for changes in combinations(_changes(asked, function), count):
                if len({change[:2] for change in changes}) == count:
                    yield _made(asked, function, changes)
    for function, backends in asked.functions.items():
        for fixed in (*(("call", "backend", name) for name in backends), *FIXED):
            for changes in combinations(_changes(asked, function), 2):
                if len({fixed[:2], *(change[:2] for change in changes)}) == 3:
                    yield _made(asked, function, (fixed, *changes))


@cache
def _pool(id: str, version: str) -> tuple[list[_Call], Iterator[_Call]]:
    """Return the calls whose facts are worked out, and those still to come: rows share them."""
    asked = system(id, version)
    calls = _candidates(asked)
    return [], ((deployment, call, facts(deployment, call=call)) for deployment, call in calls)


def _seen(asked: System) -> Iterator[_Call]:
    done, rest = _pool(asked.id, asked.version)
    yield from done
    for one in rest:
        done.append(one)
        yield one


def _find(id: str, wanted: tuple[Status, ...]) -> tuple[Deployment, CallFacts] | None:
    """Return the first call that gets ``wanted``; better one that meets no other trouble before."""
    row = guard(id)
    asked = next(known for known in versions(row.system) if row in known.guards)
    fallback = None
    for deployment, call, seen in _seen(asked):
        found = row.check(seen)
        if found.status not in wanted:
            continue
        fallback = fallback or (deployment, call)
        if row.messages and found.message is None:
            continue
        first = next((v for v in run(asked.guards, seen, "") if v.status in TRIPS), None)
        if first is None or first.guard == id:
            return deployment, call
    return fallback


@cache
def trips(id: str) -> tuple[Deployment, CallFacts] | None:
    """Return the plainest call that the row called ``id`` does not let pass, None where none is.

    >>> deployment, call = trips("fi-mm-b12x")
    >>> deployment.gpu, call.backend
    ('rtx5090', 'b12x')
    """
    return TRIPPING.get(id) or _find(id, TRIPS)


@cache
def passes(id: str) -> tuple[Deployment, CallFacts] | None:
    """Return the plainest call that passes the row called ``id``, None where none is.

    >>> passes("fi-mm-tile")[1].n
    512
    """
    return PASSING.get(id) or _find(id, (Status.PASSES,))
