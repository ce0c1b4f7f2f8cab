"""Triton's compiler against our rows: 3.9 live, for GPUs that are not there; 3.6 as recorded.

What is compared: the error's class and text, or whether the code holds a block-scaled instruction.
"""

import gzip
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from mxlab.guards import CallFacts, Deployment, Status, check
from mxlab.guards.triton_arch import DOT, NEW, OLD, Release

pytestmark = pytest.mark.oracle
_TESTS = Path(__file__).parent.parent
_RECORDED = _TESTS / "data" / "triton-3.6.0-outcomes.json.gz"
_GPUS = {
    "75": "t4",
    "80": "a100",
    "86": "a10",
    "89": "l40s",
    "90": "h200",
    "100": "b200",
    "103": "b300",
    "110": "thor",
    "120": "rtx5090",
    "121": "gb10",
    "gfx942": "mi300x",
    "gfx950": "mi355x",
    "gfx1250": "gfx1250",
}
_TYPES = {"u8": "uint8", "i8": "int8", "bf16": "bfloat16", "fp32": "float32"}
_TYPES |= {"fp8e4nv": "float8_e4m3fn", "fp8e5": "float8_e5m2"}


def call_of(case: dict[str, Any]) -> CallFacts:
    formats = case.get("formats", ("e4m3", "e4m3"))
    a, b = (
        "float8_e5m2" if form == "e5m2" else _TYPES[kind]
        for form, kind in zip(formats, case.get("types", ("u8", "u8")), strict=True)
    )
    shapes: dict[str, Any] = {}
    if "scales" in case:
        rows, cols, *rest = case["scales"]
        shapes = {"a_scale_shape": (rows, cols), "b_scale_shape": tuple(rest)}
    m, n, k = case["tile"]
    scale = _TYPES[case.get("scale_type", "u8")]
    return CallFacts(function=DOT, m=m, n=n, k=k, a_dtype=a, b_dtype=b, scale_dtype=scale, **shapes)


def expressible(case: dict[str, Any]) -> bool:
    """A call has one dtype for codes and format: E5M2 bytes under the name e4m3 have none."""
    return "fp8e5" not in case.get("types", ())


def compare(release: Release, case: dict[str, Any]) -> str:
    deployment = Deployment(system="triton", version=release.version, gpu=_GPUS[case["arch"]])
    verdicts = {v.guard: v for v in check(deployment, call=call_of(case))}
    stop = next((v for v in verdicts.values() if v.status is Status.STOPS), None)
    error, text = case["error"], case["text"]
    if error:
        assert stop is not None, case
        assert stop.message == text, case
        return stop.guard
    assert stop is None, (case, stop)
    native = "block_scale" in text or "_scale_f32" in text
    status = verdicts["triton-emulated"].status
    assert status is (Status.PASSES if native else Status.SILENT), case
    return "native" if native else "emulated"


def test_recorded_3_6() -> None:
    with gzip.open(_RECORDED, "rt") as file:
        data = json.load(file)
    assert data["triton"] == OLD.version
    seen = Counter(compare(OLD, case) for case in data["cases"] if expressible(case))
    assert seen["native"] > 80
    assert seen["emulated"] > 60
    assert len(seen) >= 8, seen


def _tile(arch: str, *tile: int, **more: Any) -> dict[str, Any]:
    return {"arch": arch, "tile": list(tile), **more}


LIVE = (
    _tile("86", 128, 128, 128),
    _tile("80", 64, 64, 64, formats=("e5m2", "e5m2")),
    _tile("89", 64, 64, 64),
    _tile("90", 64, 64, 64),
    _tile("90", 64, 64, 64, scale_type="fp32"),
    *(_tile("100", *tile) for tile in ((128, 16, 64), (128, 8, 64), (64, 128, 64), (256, 16, 32))),
    _tile("103", 128, 32, 64),
    _tile("110", 128, 32, 64),
    _tile("110", 64, 32, 64),
    _tile("120", 16, 16, 32),
    _tile("121", 32, 16, 64),
    _tile("gfx942", 32, 32, 64),
    *(_tile("gfx950", *tile) for tile in ((16, 16, 128), (16, 32, 64), (32, 32, 64), (32, 32, 32))),
    _tile("gfx1250", 16, 16, 32),
    _tile("100", 96, 128, 128),
    _tile("100", 128, 128, 128, types=("i8", "u8")),
    _tile("100", 128, 128, 128, types=("u8", "bf16")),
    *(
        _tile("100", 128, 128, 128, scales=scales)
        for scales in (
            (128, 4, 4, 128),
            (128, 8, 128, 4),
            (64, 4, 128, 4),
            (128, 4, 64, 4),
            (128, 2, 128, 2),
            (128, 16, 128, 16),
            (1, 1, 1, 1),
        )
    ),
    _tile("120", 32, 32, 64, scales=(32, 4, 32, 4)),
    _tile("120", 32, 32, 64, scale_type="fp8e4nv"),
)


def _more(case: dict[str, Any]) -> dict[str, Any]:
    return {name: case[name] for name in case if name not in ("arch", "tile")}


def test_live() -> None:
    triton = pytest.importorskip("triton")
    if triton.__version__ != NEW.version:
        pytest.skip(f"the table is of Triton {NEW.version}, here is {triton.__version__}")
    cases = [{"arch": case["arch"], "tile": case["tile"], "more": _more(case)} for case in LIVE]
    clean = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    found = subprocess.run(
        [sys.executable, _TESTS / "triton_dots.py"],
        input=json.dumps(cases),
        env={**clean, "TRITON_DEFAULT_FP_FUSION": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    outcomes = json.loads(found.stdout.splitlines()[-1])
    seen: Counter[str] = Counter()
    for case, (error, text) in zip(LIVE, outcomes, strict=True):
        seen[compare(NEW, {**case, "error": error, "text": text})] += 1
    assert seen["native"] >= 8
    assert seen["emulated"] >= 6
    assert len(seen) >= 8, seen


def test_e8m0_has_no_name() -> None:
    torch = pytest.importorskip("torch")
    jit = pytest.importorskip("triton.runtime.jit")
    with pytest.raises(KeyError) as error:
        jit.mangle_type(torch.empty(2, dtype=torch.float8_e8m0fnu))
    call = CallFacts(function=DOT, m=64, n=64, k=64, scale_dtype="float8_e8m0fnu")
    verdicts = {v.guard: v for v in check(Deployment(system="triton"), call=call)}
    assert verdicts["triton-e8m0"].message == str(error.value)


def test_blocks_of_16_are_silent() -> None:
    call = CallFacts(function=DOT, m=32, n=32, k=64, a_scale_shape=(32, 4), b_scale_shape=(32, 4))
    statuses = {v.guard: v.status for v in check(Deployment(system="triton"), call=call)}
    assert statuses["triton-block16"] is Status.SILENT
    assert Status.STOPS not in statuses.values()
