"""torch's own checks of scaled_mm against our rows: on the meta device, a CPU, and as recorded.

The recording is of torch 2.11 on an H200 (tests/record_torch_outcomes.py made it there).
"""

import gzip
import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from torch_calls import random_call, run_call

from mxlab.guards import Deployment, Status, Verdict, check
from mxlab.guards.facts import CallFacts
from mxlab.guards.torch import GUARDS, VERSION

pytestmark = pytest.mark.oracle
_RECORDED = Path(__file__).parent.parent / "data" / "torch-outcomes.json.gz"
_ERROR = {row.id: row.error for row in GUARDS}
COUNT = 1000


def first_stop(verdicts: list[Verdict], prefix: str = "") -> tuple[str, str, str]:
    """Return class, text and id of the first row that stops, three empty strings for none."""
    for verdict in verdicts:
        if verdict.status is Status.STOPS and verdict.guard.startswith(prefix):
            return _ERROR[verdict.guard], verdict.message, verdict.guard
    return "", "", ""


def live() -> Any:
    torch = pytest.importorskip("torch")
    if torch.__version__.split("+")[0] != VERSION:
        pytest.skip(f"the table is of torch {VERSION}, here is {torch.__version__}")
    return torch


@pytest.mark.parametrize("function", ["_scaled_mm", "scaled_mm"])
def test_meta_device(function: str) -> None:
    torch, r = live(), random.Random(7)
    deployment = Deployment(system="torch", gpu="b200")
    seen: Counter[str] = Counter()
    for index in range(COUNT):
        usual = 0.75 if index % 2 else 0.45
        call = random_call(r, function, usual=usual, backend="compile")
        error, text, id = first_stop(check(deployment, call=call), "torch-meta-")
        assert (error, text) == run_call(torch, call, "meta"), (id, call)
        seen[id] += 1
    rows = 12 if function == "_scaled_mm" else 6
    assert len(seen) == rows + 1, seen  # each row, and no stop at all
    assert seen[""] > 100


@pytest.mark.parametrize("function", ["_scaled_mm", "scaled_mm"])
def test_cpu(function: str) -> None:
    torch, r = live(), random.Random(8)
    deployment = Deployment(system="torch", gpu="cpu")
    seen: Counter[str] = Counter()
    for _ in range(COUNT):
        call = random_call(r, function)
        error, text, id = first_stop(check(deployment, call=call))
        assert (error, text) == run_call(torch, call, "cpu"), (id, call)
        seen[id] += 1
    assert len(seen) == (2 if function == "_scaled_mm" else 3), seen


def recorded() -> dict[str, Any]:
    with gzip.open(_RECORDED, "rt") as file:
        found: dict[str, Any] = json.load(file)
    return found


def _call(values: dict[str, Any]) -> CallFacts:
    tuples = ("groups", "a_scale_shape", "b_scale_shape")
    fixed = {key: tuple(values[key]) for key in tuples if values[key] is not None}
    return CallFacts(**{**values, **fixed})


@pytest.mark.parametrize("function", ["_scaled_mm", "scaled_mm"])
def test_recorded_on_a_hopper_gpu(function: str) -> None:
    data = recorded()
    assert data["capability"] == [9, 0]
    deployment = Deployment(system="torch", gpu="h200", toolkit=data["cuda"])
    seen: Counter[str] = Counter()
    for case in data["cases"]:
        call = _call(case["call"])
        if call.function != function:
            continue
        verdicts = check(deployment, call=call)
        if any(v.status is Status.SILENT for v in verdicts if v.guard == "torch-silent-recipe"):
            # another recipe's kernel answers, whose own limits are not in the table
            assert not case["text"].startswith("Invalid scaling configuration")
            seen["torch-silent-recipe"] += 1
            continue
        error, text, id = first_stop(verdicts)
        assert (error, text) == (case["error"], case["text"]), (id, call)
        seen[id] += 1
    expected = 9 if function == "_scaled_mm" else 12
    assert len(seen) >= expected, seen
    assert seen["torch-cublas-arch"] > 300
    assert seen[""] > 50  # only calls with nothing to multiply run there
