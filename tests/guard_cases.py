"""Recorded outcomes of SGLang 0.5.23's own checks, and how a case becomes a deployment."""

import gzip
import json
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from mxlab.guards import Deployment, Facts, Guard, Platform, Status, platform, system
from mxlab.guards.engine import fill

_PATH = Path(__file__).parent / "data" / "sglang-outcomes.json.gz"

_GPUS = {
    "SM80": ("a100", "12.9"),
    "SM89": ("l40s", "12.9"),
    "SM90": ("h200", "12.9"),
    "SM100": ("b200", "12.9"),
    "SM103": ("b300", "12.9"),
    "SM110": ("thor", "13.0"),
    "SM120": ("rtx5090", "12.9"),
    "SM121": ("gb10", "12.9"),
    "SM100/cuda12.4": ("b200", "12.4"),
    "SM120/cuda12.4": ("rtx5090", "12.4"),
    "SM90/cuda12.1": ("h200", "12.1"),
    "gfx942": ("mi300x", "7.2"),
    "gfx950": ("mi355x", "7.2"),
    "gfx1250": ("gfx1250", "7.2"),
    "none": ("cpu", "0.0"),
}
EVERY = tuple(_GPUS)
CUDA = tuple(name for name, (gpu, _) in _GPUS.items() if name.startswith("SM"))


@cache
def all_cases() -> tuple[dict[str, Any], ...]:
    with gzip.open(_PATH, "rt") as file:
        return tuple(_plain(case) for case in json.load(file)["cases"])


def _plain(value: Any) -> Any:
    """Turn ``{"tuple": [...]}`` into a tuple, all the way down."""
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        if set(value) == {"tuple"}:
            return tuple(_plain(item) for item in value["tuple"])
        return {key: _plain(item) for key, item in value.items()}
    return value


def cases(fn: str) -> list[dict[str, Any]]:
    found = [case for case in all_cases() if case["fn"] == fn]
    assert found, fn
    return found


def kept(fn: str, rule: Callable[[dict[str, Any]], bool]) -> list[dict[str, Any]]:
    """Return the cases that a deployment can bring about; there must be some of each kind."""
    found = [case for case in cases(fn) if rule(case["input"])]
    assert {case["outcome"]["ok"] for case in found} == {True, False}, fn
    return found


def gpus(case: dict[str, Any]) -> tuple[str, ...]:
    """Return the virtual GPUs on which the case's outcome holds."""
    return {"any": EVERY, "cuda": CUDA}.get(case["gpu"], (case["gpu"],))


def deployments(case: dict[str, Any], **flags: Any) -> list[Deployment]:
    """Return one deployment for each GPU and set of packages that the outcome holds for."""
    made = []
    for gpu in gpus(case):
        name, toolkit = _GPUS[gpu]
        for flashinfer in _either(case["packages"]["flashinfer"]):
            for deep_gemm in _either(case["packages"]["deep_gemm"]):
                packages = [*["flashinfer"] * flashinfer, *["deep_gemm"] * deep_gemm]
                made.append((name, toolkit, frozenset(packages)))
    return [
        Deployment(
            gpu=name,
            toolkit=toolkit,
            packages=packages,
            env=case["input"].get("env") or {},
            version=case.get("version", ""),  # of SGLang; the recorded ones are the newest's
            **flags,
        )
        for name, toolkit, packages in made
    ]


def _either(value: bool | str) -> tuple[bool, ...]:
    return (False, True) if value == "any" else (bool(value),)


def machines(case: dict[str, Any]) -> list[Platform]:
    return [platform(deployment) for deployment in deployments(case)]


@cache
def _rows(version: str) -> dict[str, Guard]:
    return {row.id: row for row in system("sglang", version).guards}


def outcome_of(ids: tuple[str, ...], facts: Facts) -> tuple[str, str, list[str]]:
    """Return (error class, text, warnings) of the first of these guards that stops."""
    warnings: list[str] = []
    for id in ids:
        row = _rows(facts.deployment.version).get(id)
        if row is None:  # an older version has no such check
            assert id in _rows(""), id
            continue
        found = row.check(facts)
        said = row.messages and found.message is not None
        text = fill(row.messages[found.message or 0], found.values) if said else ""
        exercised[id, found.status] += 1
        if found.status is Status.WARNS:
            warnings.append(text)
        if found.status is Status.STOPS:
            return row.error, text, warnings
    return "", "", warnings


exercised: Counter[tuple[str, Status]] = Counter()
