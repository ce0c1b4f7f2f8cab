"""The matrix: held to recorded answers of FlashInfer and SGLang, and to sizes on both sides."""

import gzip
import json
from collections import Counter
from dataclasses import replace
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from guard_cases import cases, deployments

import mxlab
from mxlab.errors import InputError
from mxlab.guards import (
    SYSTEMS,
    CallFacts,
    Deployment,
    Finding,
    Guard,
    Status,
    facts,
    guard,
)
from mxlab.hardware import GPUS as ALL_GPUS
from mxlab.hardware import gpu
from mxlab.matrix import GPUS, Cell, Row, cell, matrix, rows, worst

DATA = Path(__file__).parent / "data" / "flashinfer-outcomes.json.gz"
P, S, F, Q, W = (
    Status.PASSES,
    Status.STOPS,
    Status.FALLS_BACK,
    Status.SILENT,
    Status.WARNS,
)
#: a call as the matrix makes it
PLAIN = {
    **{"a_dtype": "float8_e4m3fn", "b_dtype": "float8_e4m3fn", "scale_dtype": "uint8"},
    **{"out_dtype": "bfloat16", "a_layout": "row", "b_layout": "column"},
    **{"scale_layout": "tile_128x4", "a_scale_shape": None, "b_scale_shape": None},
}


def at(cells: list[Cell], system: str, backend: str, gpu: str) -> Cell:
    (found,) = [c for c in cells if (c.row.system, c.row.backend, c.gpu) == (system, backend, gpu)]
    return found


def test_cells_agree_with_what_flashinfer_itself_said() -> None:
    recorded: list[dict[str, Any]] = json.loads(gzip.decompress(DATA.read_bytes()))["cases"]
    counted: Counter[bool] = Counter()
    for case in recorded:
        call = case["call"]
        if call["function"] != "mm_mxfp8" or not call.items() >= PLAIN.items():
            continue
        row = Row("flashinfer", "FlashInfer", "", "mm_mxfp8", call["backend"])
        sizes = call["m"], call["n"], call["k"]
        found = cell(row, gpu(case["gpu"]), *sizes, case["toolkit"])
        if case["error"] is not None:
            assert found.status is S
            assert [guard(found.guard).error, found.message] == case["error"]
        else:  # what stops behind the Python checks is a row of stage C3
            assert found.status is not S or found.stage == "C3", found
        counted[case["error"] is None] += 1
    assert counted[True] > 40
    assert counted[False] > 200


def test_cells_agree_with_what_sglang_resolved() -> None:
    """A flag that SGLang refuses on a GPU stops; the others do not stop there."""
    counted: Counter[bool] = Counter()
    for case in cases("fp8_utils.resolve_mxfp8_dense_gemm_backend"):
        flag = case["input"]["fp8_gemm_backend"]
        for deployment in deployments(case):
            full = {"flashinfer", "deep_gemm"} <= deployment.packages and not deployment.env
            device = gpu(deployment.gpu)
            checked = device.vendor == "nvidia" and device.capability[0] < 10  # stops before
            if not full or checked or device.vendor == "none" or device.name == "mi300x":
                continue
            row = Row("sglang", "SGLang", "0.5.23", "--fp8-gemm-backend", flag)
            found = cell(row, device, 16, 4096, 4096, deployment.toolkit)
            refused = found.status is S and found.guard.startswith("res-")
            assert refused is not case["outcome"]["ok"], (case, found)
            if refused:
                assert found.message == case["outcome"]["message"]
            counted[refused] += 1
    assert counted[True] >= 1
    assert counted[False] >= 1


def test_the_matrix_of_2880() -> None:
    cells = matrix(2880, 2880)
    sglang = {
        "auto": (S, P, P, P, P, Q, Q, S, S),
        "deep_gemm": (S, F, F, F, F, S, S, S, S),
        "flashinfer_trtllm": (S, S, S, S, S, S, S, S, S),
        "flashinfer_cutlass": (S, P, P, P, P, S, S, S, S),
        "flashinfer_cutedsl": (S, P, P, S, S, S, S, S, S),
        "triton": (S, Q, Q, Q, Q, Q, Q, S, S),
    }
    flashinfer = {
        "auto": (S, P, P, F, F, S, S, S, S),
        "cutlass": (S, P, P, Q, Q, S, S, S, S),
        "trtllm": (S,) * 9,
        "cute-dsl": (S, P, P, S, S, S, S, S, S),
        "cudnn": (S, P, P, P, P, S, S, S, S),
        "b12x": (S,) * 9,
    }
    for system, table in (("sglang", sglang), ("flashinfer", flashinfer)):
        for backend, statuses in table.items():
            got = tuple(at(cells, system, backend, name).status for name in GPUS)
            assert got == statuses, (system, backend)
    reason = at(cells, "sglang", "deep_gemm", "b200").because
    assert "N = 2880 % 64 = 0, K = 2880 % 128 = 64" in reason
    reason = at(cells, "flashinfer", "trtllm", "b300").because
    assert reason == "trtllm: K = 2880 % 256 = 64; nearest legal K 2816 or 3072"


@pytest.mark.parametrize(
    ("system", "backend", "device", "n", "k", "m", "status"),
    [
        ("flashinfer", "trtllm", "b200", 2880, 2816, 16, P),
        ("flashinfer", "trtllm", "b200", 2880, 2944, 16, S),
        ("flashinfer", "cutlass", "b200", 2896, 2880, 16, S),
        ("flashinfer", "cutlass", "b200", 2912, 2880, 16, P),
        ("flashinfer", "cutlass", "b200", 120, 2880, 16, S),
        ("flashinfer", "cutedsl_low_latency", "b200", 2880, 2944, 8, P),
        ("flashinfer", "cutedsl_low_latency", "b200", 2880, 2944, 9, S),
        ("flashinfer", "auto", "gb10", 2880, 2944, 16, P),
        ("sglang", "deep_gemm", "b200", 2880, 2944, 16, P),
        ("sglang", "deep_gemm", "b200", 2912, 2944, 16, F),
        ("sglang", "deep_gemm", "b200", 2896, 2944, 16, S),
        ("deepgemm", "", "b200", 2888, 2896, 16, P),
        ("deepgemm", "", "b200", 2884, 2896, 16, S),
        ("deepgemm", "", "b200", 2888, 2888, 16, S),
    ],
)
def test_both_sides_of_a_limit(
    system: str, backend: str, device: str, n: int, k: int, m: int, status: Status
) -> None:
    found = at(matrix(n, k, m=m, gpus=[device], systems=[system]), system, backend, device)
    assert found.status is status, found


def test_cuda_is_for_the_nvidia_columns() -> None:
    for cuda, status in (("12.9", S), ("13.0", P)):
        cells = matrix(2944, 2944, gpus=["rtx5090", "mi355x"], systems=["flashinfer"], cuda=cuda)
        assert at(cells, "flashinfer", "b12x", "rtx5090").status is status
    amd = ["mi300x", "mi355x"]
    assert matrix(2944, 2944, gpus=amd, cuda="6.0") == matrix(2944, 2944, gpus=amd)
    with pytest.raises(InputError, match="toolkit is 'x'"):
        matrix(128, 128, cuda="x")


def test_versions_are_rows_of_their_own() -> None:
    both = ["deepgemm@0.2.5", "deepgemm@54e2261"]
    cells = matrix(4096, 4096, gpus=["gb10"], systems=both)
    assert [(c.row.version, c.status, c.guard) for c in cells] == [
        ("0.2.5", P, ""),
        ("54e2261", S, "dg-transform"),
    ]


def test_every_cell_says_something() -> None:
    names = list(ALL_GPUS)
    cells = matrix(520, 584, gpus=names)
    newest = {row.id for row in SYSTEMS}
    assert {c.row.system for c in cells} == newest >= {"sglang", "flashinfer", "deepgemm"}
    assert [c.gpu for c in cells[: len(names)]] == names
    assert len(cells) == len(names) * len({c.row for c in cells})
    for found in cells:
        assert found.because
        assert (found.guard == "") is (found.status is P)
        if found.guard:
            assert guard(found.guard).system == found.row.system
        json.dumps(found.to_json(), allow_nan=False)
    assert {P, S, Q, F} <= {c.status for c in cells}
    assert set(cells[0].to_json()) == {
        *("system", "version", "function", "backend"),
        *("gpu", "status", "guard", "stage", "because", "message"),
    }


def test_nvidias_libraries_stop_on_amd() -> None:
    names = ["flashinfer", "deepgemm", "cublaslt"]
    cells = matrix(4096, 4096, gpus=["mi300x", "mi355x"], systems=names)
    assert {c.status for c in cells} == {S}
    cells = matrix(4096, 4096, gpus=["mi300x", "mi355x"], systems=["torch"])
    assert {c.gpu: c.status for c in cells if c.row.backend == "auto"} == {"mi300x": S, "mi355x": P}


def test_rows_start_with_what_is_automatic() -> None:
    for asked in SYSTEMS:
        listed = list(rows(asked))
        assert listed
        assert len({row.backend for row in listed}) == len(listed) or len(listed) > 1
        first = [
            row.backend
            for row, before in zip(listed, [None, *listed], strict=False)
            if before is None or before.function != row.function
        ]
        assert set(first) <= {"auto", ""}


def test_the_worst_comes_first() -> None:
    """Every order of rows that say something: the severest wins, then the first."""
    asked = facts(Deployment(system="flashinfer"), call=CallFacts(function="mm_mxfp8", **SIZES))
    model = guard("fi-mm-tile")

    def row(id: str, status: Status, *, notice: bool = False) -> Guard:
        return replace(model, id=id, check=lambda _: Finding(status, id, notice=notice))

    severities = (S, Q, F, W, Status.UNKNOWN)
    made = [row(status.value, status) for status in severities]
    assert worst([], asked) is None
    quiet = [row("p", P), row("n", Status.NOT_REACHED), row("notice", W, notice=True)]
    assert worst(quiet, asked) is None
    for kept in range(1, len(made) + 1):
        for order in permutations(made[-kept:]):
            found = worst([*quiet, *order, row("late", order[0].check(asked).status)], asked)
            assert found is not None
            assert found[0].id == severities[len(made) - kept].value


SIZES: dict[str, Any] = {"m": 6, "n": 5120, "k": 576}


def test_it_is_exported() -> None:
    assert mxlab.matrix(128, 128, gpus=["b200"], systems=["deepgemm"])[0].status is P
    assert mxlab.CallFacts(function="mm_mxfp8", m=1, n=1, k=1).backend == "auto"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"n": 0}, "n is 0: expected 1 to"),
        ({"k": 2**60}, "the nearest is"),
        ({"m": True}, "m is True: expected a whole number"),
        ({"gpus": ["b20O"]}, "did you mean 'b200'"),
        ({"gpus": []}, "0 GPUs: expected 1 to 64"),
        ({"gpus": ["b200"] * 65}, "65 GPUs: expected 1 to 64"),
        ({"gpus": "b200"}, "expected a list of names"),
        ({"gpus": [3]}, "3 is no name"),
        ({"systems": ["flashinfr"]}, "did you mean 'flashinfer'"),
        ({"systems": ["flashinfer@0.1"]}, "0.7.2"),
        ({"systems": [None]}, "None is no name"),
    ],
)
def test_bad_input_is_one_line(arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(InputError) as caught:
        matrix(**{"n": 128, "k": 128, **arguments})
    assert text in str(caught.value)
    assert "\n" not in str(caught.value)
