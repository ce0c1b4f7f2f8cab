"""The tables of torch, torchao, Transformer Engine, vLLM, cuBLASLt and Triton: each row acts."""

import re

import pytest

from mxlab.errors import InputError
from mxlab.guards import STAGES, CallFacts, Deployment, Status, check, guard, system
from mxlab.guards.call_examples import TRIPS, passes, trips
from mxlab.guards.engine import Guard
from mxlab.guards.known_calls import PASSING, TRIPPING
from mxlab.guards.systems import SYSTEMS

NAMED = ("torch", "torchao", "transformer_engine", "vllm", "cublaslt", "triton")
TABLES = [asked for asked in SYSTEMS if asked.id in NAMED]
#: the newest row of each id
ROWS = {row.id: row for asked in reversed(TABLES) for row in asked.guards}
CALLED = sorted(row.id for row in ROWS.values() if row.subject == "call")
NEVER_PASSES = ("torch-v2-cpu",)  # no CPU has an MXFP8 product
WORDLESS = ("ao-auto-e5m2", "vllm-kv-scale-pair")  # assertions without text


def verdict(id: str, deployment: Deployment, call: CallFacts) -> tuple[Status, str, str]:
    found = next(v for v in check(deployment, call=call) if v.guard == id)
    return found.status, found.message, found.because


@pytest.mark.parametrize("id", CALLED)
def test_every_row_trips_and_passes(id: str) -> None:
    tripped = trips(id)
    assert tripped is not None
    status, message, because = verdict(id, *tripped)
    assert status in TRIPS
    assert because
    assert re.search(r"\{\w+\}", message) is None
    if status is Status.STOPS:
        assert bool(message) == (id not in WORDLESS)
    if id in NEVER_PASSES:
        return
    passed = passes(id)
    assert passed is not None
    assert verdict(id, *passed)[:2] == (Status.PASSES, "")


@pytest.mark.parametrize("id", sorted({*TRIPPING, *PASSING}))
def test_known_calls(id: str) -> None:
    """An example that is written down is what it says, whatever the search would find."""
    if id in TRIPPING:
        assert verdict(id, *TRIPPING[id])[0] in TRIPS
    if id in PASSING:
        assert verdict(id, *PASSING[id])[0] is Status.PASSES


@pytest.mark.parametrize("asked", TABLES, ids=[f"{s.id}@{s.version}" for s in TABLES])
def test_rows_are_whole(asked: object) -> None:
    rows: tuple[Guard, ...] = asked.guards  # type: ignore[attr-defined]
    assert len({row.id for row in rows}) == len(rows)
    assert [row.stage for row in rows] == sorted(row.stage for row in rows)
    for row in rows:
        assert row.stage in STAGES
        said = bool(row.error) and row.id not in WORDLESS
        assert bool(row.messages) == said, row.id
        for text in (row.predicate, row.hardware, row.meaning, row.fallback, row.source):
            assert text, row.id
        assert row.fixes, row.id
        assert row.id not in row.related
        for other in row.related:
            assert guard(other).id == other, row.id


def test_ids_carry_their_system() -> None:
    prefixes = {
        "torch": "torch-",
        "torchao": "ao-",
        "transformer_engine": "te-",
        "vllm": "vllm-",
        "cublaslt": "cublaslt-",
        "triton": "triton-",
    }
    for row in ROWS.values():
        assert row.id.startswith(prefixes[row.system])


def test_versions() -> None:
    assert system("vllm").version == "0.33.0"
    assert system("vllm", "0.29.0").version == "0.29.0"
    assert system("triton").version == "3.9.0"
    call = CallFacts(function="dot_scaled", m=128, n=128, k=128)
    for version, status in (("3.9.0", Status.PASSES), ("3.6.0", Status.SILENT)):
        deployment = Deployment(system="triton", version=version, gpu="gb10")
        assert verdict("triton-emulated", deployment, call)[0] is status


@pytest.mark.parametrize("text", ["", "two", "2", "2.x", "9" * 5000 + ".0"])
def test_hostile_torch_version(text: str) -> None:
    deployment = Deployment(system="torchao", env={"TORCH_VERSION": text})
    with pytest.raises(InputError, match=r"TORCH_VERSION is .*: expected a version"):
        check(deployment, call=CallFacts(function="to_mx", m=1, n=1, k=32))
