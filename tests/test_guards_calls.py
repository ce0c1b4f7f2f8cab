"""Calls of every system: whatever can be written down is answered, never with a traceback."""

import json
import random
import re
import subprocess
import sys
from typing import Any

import pytest

import mxlab.guards
from mxlab.errors import InputError
from mxlab.guards import SYSTEMS, CallFacts, Deployment, Status, check, facts, guard
from mxlab.guards.call_examples import TRIPS, trips
from mxlab.guards.call_rows import misread, scale_bytes
from mxlab.guards.calls import DTYPES, ORDERS
from mxlab.guards.systems import System, system
from mxlab.hardware import GPUS
from mxlab.layout import LAYOUTS, layout

CALLED = [asked for asked in SYSTEMS if asked.functions]
SIZES = (0, 1, 2, 3, 31, 32, 33, 127, 128, 129, 2880, 2**40)


def odd_call(asked: System, r: random.Random) -> CallFacts:
    def shape() -> tuple[int, ...] | None:
        return tuple(r.choice(SIZES) for _ in range(r.randrange(5))) if r.random() < 0.3 else None

    function = r.choice(list(asked.functions))
    names = [None, *LAYOUTS]
    return CallFacts(
        function=function,
        m=r.choice(SIZES),
        n=r.choice(SIZES),
        k=r.choice(SIZES),
        batch=r.choice((0, 1, 3)),
        groups=tuple(r.choice(SIZES) for _ in range(r.randrange(4))),
        backend=r.choice(("auto", *asked.functions[function])),
        a_dtype=r.choice(DTYPES),
        b_dtype=r.choice(DTYPES),
        scale_dtype=r.choice((None, *DTYPES)),
        out_dtype=r.choice(DTYPES),
        a_layout=r.choice(ORDERS),
        b_layout=r.choice(ORDERS),
        scale_layout=r.choice(names),
        declared_layout=r.choice(names),
        a_scale_shape=shape(),
        b_scale_shape=shape(),
        b_shuffled=r.choice((None, True, False)),
        recipe=r.choice((None, (), (1, 1, 32), (1, 128, 128), (7, 3, 5))),
        scales_pow2=r.choice((None, True, False)),
    )


@pytest.mark.parametrize("asked", CALLED, ids=[f"{s.id}@{s.version}" for s in CALLED])
def test_no_call_is_a_traceback(asked: System) -> None:
    r = random.Random(asked.id + asked.version)
    seen: set[Status] = set()
    for _ in range(250):
        where = Deployment(gpu=r.choice(list(GPUS)), system=asked.id, version=asked.version)
        for verdict in check(where, call=odd_call(asked, r)):
            seen.add(verdict.status)
            assert verdict.because
            assert "\n" not in verdict.because
            assert re.search(r"\{\w+\}", verdict.message) is None, verdict
            json.dumps(verdict.to_json(), allow_nan=False)
    assert {Status.PASSES, Status.STOPS, Status.NOT_REACHED} <= seen


@pytest.mark.parametrize("asked", CALLED, ids=[f"{s.id}@{s.version}" for s in CALLED])
def test_systems_name_what_they_have(asked: System) -> None:
    assert asked.dense in asked.functions or (asked.dense == "" and asked.id == "triton")
    assert {row.system for row in asked.guards} == {asked.id}
    assert all(guard(row.id).system == asked.id for row in asked.guards)
    sides = (128, 4096, 4096) if asked.dense else (128, 128, 128)  # Triton multiplies tiles
    function = asked.dense or next(iter(asked.functions))
    plain = CallFacts(function=function, m=sides[0], n=sides[1], k=sides[2])
    verdicts = check(Deployment(gpu="b200", system=asked.id, version=asked.version), call=plain)
    assert not [v for v in verdicts if v.status is Status.STOPS], "it runs on a B200"


def test_a_table_is_imported_when_it_is_asked_for() -> None:
    """SGLang's newest alone for a doctor of SGLang; one library's for a call of that library."""
    code = (
        "import sys, mxlab.guards as g;"
        "names = ('flashinfer', 'deepgemm', 'vllm', 'torchao', 'sglang_0132848349');"
        "seen = lambda: [n for n in names if f'mxlab.guards.{n}' in sys.modules];"
        "g.check(g.Deployment(), linear=g.LinearFacts('x', 128, 128)); g.guard('wsp-deepgemm');"
        "before = seen(); g.system('deepgemm'); print(before, seen(), len(g.SYSTEMS), seen());"
        "print(len(g.system('sglang', '0132848').guards), seen()[4:])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    every = "['flashinfer', 'deepgemm', 'vllm', 'torchao']"
    first, second = run.stdout.splitlines()
    assert first == f"[] ['deepgemm'] {len(SYSTEMS)} {every}"
    assert second == f"{len(system('sglang', '0132848').guards)} ['sglang_0132848349']"
    with pytest.raises(AttributeError):
        mxlab.guards.NOTHING  # noqa: B018


def test_ids_are_of_one_system() -> None:
    owner: dict[str, str] = {}
    for asked in SYSTEMS:
        for row in asked.guards:
            assert owner.setdefault(row.id, asked.id) == asked.id, row.id


BAD: tuple[tuple[dict[str, Any], str], ...] = (
    ({"recipe": (1, 1)}, "recipe is (1, 1): expected rows of A, rows of B and K of one scale"),
    ({"recipe": (1, 1, 0)}, "recipe is 0: expected 1 to"),
    ({"recipe": 32}, "recipe is 32"),
    ({"b_shuffled": 1}, "b_shuffled is 1: expected True or False"),
    ({"bias": None}, "bias is None: expected True or False"),
    ({"declared_layout": "swizzled"}, "swizzled"),
    ({"function": 7}, "unknown function of DeepGEMM 7"),
    ({"function": "fp8_gemm_nt\x00"}, "did you mean 'fp8_gemm_nt'"),
    ({"k": 10**5000}, "over 30 digits"),
)


@pytest.mark.parametrize(("fields", "text"), BAD)
def test_bad_calls(fields: dict[str, Any], text: str) -> None:
    call = CallFacts(**{"function": "fp8_gemm_nt", "m": 1, "n": 128, "k": 128, **fields})
    with pytest.raises(InputError) as caught:
        check(Deployment(system="deepgemm"), call=call)
    assert text in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_wrong_layout_is_seen_only_where_lengths_agree() -> None:
    """Every pair of layouts, against the layouts' own offsets."""
    names = ("linear", "tile_128x4", "tile_8x4", "deepgemm_packed")
    seen: set[bool] = set()
    for true in names:
        for said in names:
            for rows, cols in ((1, 1), (1, 4), (8, 4), (128, 4), (128, 8), (130, 4), (256, 5)):
                call = CallFacts(
                    function="x",
                    m=rows,
                    n=1,
                    k=cols * 32,
                    scale_layout=true,
                    declared_layout=said,
                )
                one, other = layout(true), layout(said)
                moved = any(
                    one.offset(r, c, rows, cols) != other.offset(r, c, rows, cols)
                    for r in range(rows)
                    for c in range(cols)
                )
                same = scale_bytes(true, rows, call.k) == scale_bytes(said, rows, call.k)
                assert bool(misread(call, {"a": rows})) is (moved and same), (true, said, rows)
                seen.add(moved and same)
    assert seen == {True, False}


def test_examples_name_one_row() -> None:
    """The call found for a row meets that row before any other trouble."""
    for id in ("fi-mm-b12x", "dg-recipe", "fi-bmm-batch-rows", "dg-tma"):
        found = trips(id)
        assert found is not None
        deployment, call = found
        assert guard(id).check(facts(deployment, call=call)).status in TRIPS
        first = next(v for v in check(deployment, call=call) if v.status in TRIPS)
        assert first.guard == id
