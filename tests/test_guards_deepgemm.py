"""DeepGEMM's rows, held to the released wheel: its texts, its packer, limits on both sides."""

import importlib.util
import re
from functools import cache
from itertools import product
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from mxlab.guards import CallFacts, Deployment, Status, Verdict, check, facts, guard, system
from mxlab.guards.call_examples import TRIPS, passes, trips
from mxlab.guards.deepgemm_rows import CONTIGUOUS, MASKED, RELEASES, TRANSFORM

NEW, OLD = (release.version for release in RELEASES)
ROWS = system("deepgemm").guards
P, S, F, Q, N, U = (
    Status.PASSES,
    Status.STOPS,
    Status.FALLS_BACK,
    Status.SILENT,
    Status.NOT_REACHED,
    Status.UNKNOWN,
)


def verdicts(gpu: str, version: str = "", toolkit: str = "12.9", **call: Any) -> list[Verdict]:
    made = CallFacts(**{"function": "fp8_gemm_nt", "m": 16, "n": 512, "k": 1024, **call})
    where = Deployment(gpu=gpu, toolkit=toolkit, system="deepgemm", version=version)
    return check(where, call=made)


def one(id: str, gpu: str, version: str = "", **call: Any) -> Verdict:
    return next(v for v in verdicts(gpu, version, **call) if v.guard == id)


def stop(gpu: str, version: str = "", **call: Any) -> str:
    """Return the id of the first row that stops."""
    found = verdicts(gpu, version, **call)
    return next((v.guard for v in found if v.status is S), "")


THREE = {"function": MASKED, "batch": 3}
#: row, status, GPU, call, a number of the reason, in the newest release
LIMITS: tuple[tuple[str, Status, str, dict[str, Any], str], ...] = (
    ("dg-device", S, "mi355x", {}, "MI355X"),
    ("dg-device", P, "b200", {}, "SM100"),
    ("dg-stride", S, "b200", {"b_layout": "none"}, "B is none-major"),
    ("dg-k-major", P, "b200", {"a_layout": "column", "b_layout": "row"}, "not contiguous in A"),
    ("dg-k-major", S, "h200", {"b_layout": "row"}, "not in B"),
    ("dg-k-major", S, "b200", {"function": CONTIGUOUS, "a_layout": "column"}, "in A"),
    ("dg-k-major", P, "b200", {"function": CONTIGUOUS, "b_layout": "row"}, "not in B"),
    ("dg-k-major", S, "b200", {"function": MASKED, "b_layout": "row"}, MASKED),
    ("dg-element-dtype", S, "h200", {"b_dtype": "int8"}, "B is int8"),
    ("dg-element-dtype", P, "b200", {"b_dtype": "int8"}, "B is int8"),
    ("dg-element-dtype", S, "b200", {"a_dtype": "float8_e5m2"}, "A is float8_e5m2"),
    ("dg-output", P, "b200", {"out_dtype": "float32"}, "float32"),
    ("dg-output", S, "b200", {"out_dtype": "float16"}, "float16"),
    ("dg-output", S, "b200", {"function": CONTIGUOUS, "out_dtype": "float32"}, "float32"),
    ("dg-empty-group", S, "b200", {"function": MASKED, "m": 0}, "M = 0"),
    ("dg-empty-group", P, "b200", {"function": CONTIGUOUS, "m": 0}, "M = 0"),
    ("dg-empty-group", S, "b200", {"function": CONTIGUOUS, "batch": 0}, "0 groups"),
    ("dg-arch", S, "thor", {}, "Jetson Thor (SM110): written for SM9x, SM10x, SM12x"),
    ("dg-arch", P, "rtx5090", {}, "SM120"),
    ("dg-sm120-mixed", S, "gb10", {"b_dtype": "int8", "k": 576}, "K = 576 % 128 = 64"),
    ("dg-sm120-mixed", P, "gb10", {"b_dtype": "int8", "k": 640}, "K = 640 % 128 = 0"),
    ("dg-sm120-mixed", N, "b200", {"b_dtype": "int8", "k": 576}, "SM120"),
    ("dg-recipe", S, "rtx5090", {"recipe": ()}, "no default"),
    ("dg-recipe", P, "rtx5090", {}, "(1, 1, 32)"),
    ("dg-scale-dtype", S, "b200", {"scale_dtype": "uint8"}, "scales are uint8"),
    ("dg-scale-shape", S, "b200", {"recipe": ()}, "under recipe (1, 1, 128): 2 expected"),
    (
        "dg-scale-shape",
        S,
        "h200",
        {"recipe": ()},
        "(16, 32) for 16 rows and K = 1024 under recipe (1, 128, 128)",
    ),
    ("dg-scale-shape", P, "b200", {"k": 576, "a_scale_shape": (16, 5)}, "(16, 5) for 16 rows"),
    ("dg-scale-shape", S, "b200", {"k": 576, "a_scale_shape": (16, 4)}, "5 expected"),
    ("dg-scale-shape", S, "b200", {"a_scale_shape": (15, 8)}, "16 expected"),
    (
        "dg-scale-shape",
        S,
        "b200",
        {"function": MASKED, "batch": 3, "a_scale_shape": (16, 8)},
        "3 d",
    ),
    (
        "dg-scale-shape",
        S,
        "b200",
        {"function": MASKED, "batch": 3, "b_scale_shape": (2, 512, 8)},
        "",
    ),
    ("dg-transform", P, "b200", {"scale_dtype": "float32"}, "float32 scales"),
    ("dg-transform", S, "b200", {"recipe": (1, 1, 64)}, "recipe (1, 1, 64)"),
    ("dg-transform", P, "b200", {"recipe": (1, 128, 128), "scale_dtype": "float32"}, "128, 128)"),
    ("dg-transform", P, "b200", {"recipe": (1, 1, 128)}, "(1, 1, 128)"),
    ("dg-transform", S, "h200", {"recipe": (1, 64, 128)}, "(1, 64, 128)"),
    ("dg-transform", S, "b200", {"recipe": (1, 128, 128)}, "int32 scales"),
    ("dg-transform", S, "h200", {"scale_dtype": "int32"}, "int32 scales"),
    ("dg-transform", S, "thor", {"function": CONTIGUOUS}, "SM110"),
    ("dg-transform", N, "thor", {}, "dg-arch"),
    ("dg-transform", P, "h200", {"function": TRANSFORM, "recipe": (1, 128, 128)}, "H200"),
    ("dg-sm90-recipe", S, "h200", {}, "one scale for 1 rows of B and 32 of K"),
    ("dg-sm90-recipe", P, "h200", {"recipe": (1, 128, 128)}, "128 rows of B"),
    ("dg-sm90-recipe", P, "h200", {"recipe": (1, 32, 32)}, "N = 512 % 8 = 0"),
    ("dg-sm90-recipe", S, "h200", {"recipe": (1, 32, 32), "n": 516}, "N = 516 % 8 = 4"),
    ("dg-sm90-recipe", N, "b200", {}, "SM90"),
    ("dg-scale-stride", S, "b200", {"scale_layout": "linear"}, "stride(-2) = 8"),
    (
        "dg-scale-stride",
        S,
        "b200",
        {"scale_layout": "linear", "k": 128},
        "stride(-1) = 1 against 16",
    ),
    ("dg-scale-stride", N, "b200", {"scale_layout": "linear", "scale_dtype": "float32"}, "float32"),
    ("dg-tma", P, "b200", {"n": 520, "k": 1040}, "D 1040 % 16 = 0"),
    ("dg-tma", S, "b200", {"n": 516}, "D 1032 % 16 = 8"),
    ("dg-tma", P, "b200", {"n": 516, "out_dtype": "float32"}, "D 2064 % 16 = 0"),
    ("dg-tma", S, "b200", {"k": 1032}, "A 1032 % 16 = 8"),
    ("dg-tma", S, "b200", {"a_layout": "column", "m": 24}, "A 24 % 16 = 8"),
    ("dg-tma", P, "rtx5090", {"a_layout": "column", "m": 24}, "A 1024 % 16 = 0"),
    ("dg-tma", N, "b200", {"m": 0}, "empty"),
    ("dg-sm120-copy", F, "gb10", {"b_layout": "row"}, "B (524288 bytes)"),
    ("dg-sm120-copy", N, "b200", {"b_layout": "row"}, "SM120"),
    ("dg-group-rows", P, "b200", {"function": CONTIGUOUS, "groups": (128, 256, 5)}, "last"),
    ("dg-group-rows", Q, "b200", {"function": CONTIGUOUS, "groups": (128, 130, 5)}, "group 1: 130"),
    ("dg-scale-pow2", U, "b200", {"scale_dtype": "float32"}, "not known"),
    ("dg-scale-pow2", S, "b200", {"scale_dtype": "float32", "scales_pow2": False}, "not a power"),
    ("dg-scale-pow2", P, "b200", {"scale_dtype": "float32", "scales_pow2": True}, "a power"),
    ("dg-scale-pow2", N, "h200", {"scale_dtype": "float32", "scales_pow2": False}, "UE8M0"),
    (
        "dg-scale-bytes",
        Q,
        "b200",
        {"m": 128, "scale_layout": "tile_128x4", "declared_layout": "deepgemm_packed"},
        "sfa: 4096 bytes in both; sfb: 16384 bytes in both",
    ),
    (
        "dg-scale-bytes",
        P,
        "b200",
        {"m": 5, "n": 6, "scale_layout": "tile_128x4", "declared_layout": "deepgemm_packed"},
        "differ in length",
    ),
)


@pytest.mark.parametrize("limit", LIMITS, ids=[f"{x[0]}-{x[1]}-{i}" for i, x in enumerate(LIMITS)])
def test_both_sides_of_a_limit(limit: tuple[str, Status, str, dict[str, Any], str]) -> None:
    id, status, gpu, call, number = limit
    verdict = one(id, gpu, **call)
    assert verdict.status is status, verdict
    assert number in verdict.because


def test_cuda_must_be_new_enough() -> None:
    for toolkit, status in (("12.8", S), ("12.9", P), ("13.0", P)):
        found = next(v for v in verdicts("b200", toolkit=toolkit) if v.guard == "dg-toolkit")
        assert found.status is status


@pytest.mark.parametrize(
    ("gpu", "new", "old"),
    [
        ("b200", "", ""),
        ("b300", "", ""),
        ("h200", "dg-sm90-recipe", "dg-transform"),
        ("rtx5090", "", "dg-transform"),
        ("gb10", "", "dg-transform"),
        ("thor", "dg-arch", "dg-transform"),
        ("l40s", "dg-arch", "dg-transform"),
        ("mi355x", "dg-device", "dg-device"),
    ],
)
def test_releases_differ(gpu: str, new: str, old: str) -> None:
    """MXFP8 on each GPU; on SM12x users of old releases reported this text."""
    assert stop(gpu, NEW) == new
    assert stop(gpu, OLD) == old
    if old == "dg-transform":
        text = one(old, gpu, OLD).message
        assert re.fullmatch(
            r"Assertion error \(csrc/apis/layout.hpp:\S+\): Unknown SF transformation", text
        )


def test_a_recipe_left_out_on_sm120() -> None:
    """As reported: first ``Unknown recipe``, from utils/layout.hpp."""
    assert stop("rtx5090", OLD, recipe=()) == "dg-recipe"
    assert "Unknown recipe" in one("dg-recipe", "rtx5090", OLD, recipe=()).message


@cache
def package() -> Path:
    spec = importlib.util.find_spec("deep_gemm")
    if spec is None or spec.origin is None:
        pytest.skip("sgl-deep-gemm is not installed")
    return Path(spec.origin).parent


def conditions() -> set[tuple[str, str]]:
    """Return (row, condition) of every text that the newest release's rows can print."""
    found: set[tuple[str, str]] = set()
    cases = [(gpu, call) for _, _, gpu, call, _ in LIMITS]
    cases += [
        ("b200", {"function": MASKED, "a_layout": "column"}),
        ("h200", {"a_layout": "column"}),
    ]
    cases += [("h200", {"b_layout": "row"}), ("b200", {"function": MASKED, "k": 0})]
    for gpu, call in cases:
        for verdict in verdicts(gpu, **call):
            if verdict.message.startswith("Assertion error ("):
                found.add((verdict.guard, verdict.message.split("): ", 1)[1]))
    return found


def test_every_text_is_in_the_released_binary() -> None:
    if (package() / "VERSION").read_text().strip() != NEW:
        pytest.skip(f"sgl-deep-gemm {NEW} is not installed")
    binary = (package() / "_C.so").read_bytes()
    texts = conditions()
    rows = {row.id for row in ROWS if row.messages and row.messages[0].startswith("Assertion")}
    assert {id for id, _ in texts} == rows
    assert len(texts) >= 23
    assert [text for _, text in sorted(texts) if text.encode() not in binary] == []
    assert b"NVCC version must be at least 12.9" in binary
    assert b"sf.size(-2) == ceil_div(mn, gran_nm)" not in binary  # the search can fail


def test_the_traps_are_in_the_released_kernels() -> None:
    source = package() / "include" / "deep_gemm" / "impls" / "smxx_layout.cuh"
    lines = source.read_text().splitlines()
    line = int(guard("dg-scale-pow2").source.rpartition(":")[2])
    assert "0x807fffffu) == 0" in lines[line - 1]


def load(path: Path, name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_scales_that_deepgemm_makes_have_the_shape_it_takes() -> None:
    torch = pytest.importorskip("torch")
    cast = load(package() / "utils" / "math.py", "peer_deep_gemm_math").per_token_cast_to_fp8
    for m, k in product((1, 3, 16, 130), (32, 96, 128, 160, 576, 1056)):
        for packed, dtype in ((True, "int32"), (False, "float32")):
            _, scales = cast(torch.ones(m, k), True, 32, packed)
            made = tuple(scales.shape)
            call: dict[str, Any] = {"m": m, "k": k, "scale_dtype": dtype, "a_scale_shape": made}
            assert one("dg-scale-shape", "b200", **call).status is P, (m, k, made)
            for wrong in ((made[0] + 1, made[1]), (made[0], made[1] + 1), (1, *made)):
                call["a_scale_shape"] = wrong
                assert one("dg-scale-shape", "b200", **call).status is S, (m, k, wrong)


@pytest.mark.parametrize("id", [row.id for row in ROWS])
def test_every_row_trips_passes_and_can_be_out_of_reach(id: str) -> None:
    found, fine = trips(id), passes(id)
    assert found is not None
    assert fine is not None
    row = guard(id)
    bad = row.check(facts(found[0], call=found[1]))
    assert bad.status in TRIPS
    assert row.check(facts(fine[0], call=fine[1])).status is P
    said = "".join(v.message for v in check(found[0], call=found[1]))
    assert re.search(r"\{\w+\}", said) is None
    if id not in ALWAYS_ASKED:
        assert N in {v.status for v in _elsewhere() if v.guard == id}


ALWAYS_ASKED = ("dg-package", "dg-device", "dg-scale-dtype")


@cache
def _elsewhere() -> list[Verdict]:
    calls: list[tuple[str, dict[str, Any]]] = [
        ("h200", {"function": TRANSFORM}),
        ("cpu", {"recipe": ()}),
        ("thor", {}),
        ("b200", {"m": 0}),
        ("h200", {"scale_dtype": "float32"}),
    ]
    return [v for gpu, call in calls for v in verdicts(gpu, toolkit="12.9", **call)]


@pytest.mark.parametrize("version", [NEW, OLD])
def test_rows_are_whole(version: str) -> None:
    rows = system("deepgemm", version).guards
    ids = [row.id for row in rows]
    assert len(ids) == len(set(ids)) >= 17
    assert [row.stage for row in rows] == sorted(row.stage for row in rows)
    for row in rows:
        assert row.source.startswith(("sgl-deep-gemm 0.2.5, ", "DeepGEMM 54e2261, ")), row.id
        assert bool(row.messages) == bool(row.error), row.id
        assert all((row.predicate, row.hardware, row.meaning, row.fallback, row.fixes)), row.id
        assert all(guard(other).id == other != row.id for other in row.related)
