"""FlashInfer's rows, held to what FlashInfer's own checks said and to limits on both sides.

``data/flashinfer-outcomes.json.gz`` holds 4,125 answers of the real functions (see
``record_flashinfer.py``); ``data/sglang-outcomes.json.gz`` another 61 of ``mm_mxfp8``.
"""

import gzip
import json
import re
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from guard_cases import cases, deployments

from mxlab.errors import InputError
from mxlab.guards import CallFacts, Deployment, Status, Verdict, check, facts, guard, system
from mxlab.guards.call_examples import TRIPS, passes, trips
from mxlab.guards.flashinfer_backends import automatic
from mxlab.guards.flashinfer_rows import GROUPED

DATA = Path(__file__).parent / "data" / "flashinfer-outcomes.json.gz"
ROWS = system("flashinfer").guards
IDS = [row.id for row in ROWS]


@cache
def recorded() -> list[dict[str, Any]]:
    cases: list[dict[str, Any]] = json.loads(gzip.decompress(DATA.read_bytes()))["cases"]
    return cases


def call_of(values: dict[str, Any]) -> CallFacts:
    made: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in values.items()}
    return CallFacts(**made)


def first_stop(deployment: Deployment, call: CallFacts) -> Verdict | None:
    """Return what Python's checks would raise: the rows of stage C3 lie behind them."""
    verdicts = check(deployment, call=call)
    return next((v for v in verdicts if v.status is Status.STOPS and v.stage != "C3"), None)


def said(stop: Verdict | None) -> list[str] | None:
    return None if stop is None else [guard(stop.guard).error, stop.message]


def test_every_recorded_answer_agrees() -> None:
    seen: Counter[str] = Counter()
    for case in recorded():
        deployment = Deployment(gpu=case["gpu"], toolkit=case["toolkit"], system="flashinfer")
        call = call_of(case["call"])
        stop = first_stop(deployment, call)
        assert said(stop) == case["error"], case
        seen[stop.guard if stop else "passes"] += 1
        if "auto" in case:
            assert automatic(facts(deployment, call=call), call) == case["auto"], case
            seen["auto"] += 1
    functions = ("mm_mxfp8", "bmm_mxfp8", GROUPED)
    asked = {row.id for row in ROWS if row.stage == "C2" and row.error and _of(row.id, functions)}
    assert asked - set(seen) == {"fi-device"}  # the recorded GPUs are all NVIDIA's
    assert min(seen[id] for id in asked - {"fi-device"}) >= 3
    assert seen["passes"] > 300
    assert seen["auto"] > 100


def _of(id: str, functions: tuple[str, ...]) -> bool:
    found = trips(id)
    assert found is not None, id
    return found[1].function in functions


def test_recorded_sglang_cases_agree() -> None:
    counted: Counter[bool] = Counter()
    for case in cases("flashinfer.mm_mxfp8"):
        given = case["input"]
        m, n, k = given["m"], given["n"], given["k"]
        full = (_length(m, k), _length(n, k))
        shapes = {
            "swizzled": ((full[0],), (full[1],)),
            "short": ((full[0] - 16,), (full[1] - 16,)),
            "linear2d": ((m, k // 32), (k // 32, n)),
        }
        call = CallFacts(
            function="mm_mxfp8",
            m=m,
            n=n,
            k=k,
            backend=given["backend"],
            a_dtype=given["a_dtype"],
            scale_dtype=given["scale_dtype"],
            out_dtype=given["out_dtype"],
            scale_layout="tile_128x4",
            a_scale_shape=shapes[given["a_scale"]][0],
            b_scale_shape=shapes[given["b_scale"]][1],
        )
        wanted = case["outcome"]
        for deployment in deployments(case, system="flashinfer"):
            stop = first_stop(deployment, call)
            assert (stop is None) is wanted["ok"], case
            if not wanted["ok"]:
                assert said(stop) == [wanted["error"], wanted["message"]], case
        counted[wanted["ok"]] += 1
    assert min(counted.values()) >= 10


def _length(rows: int, k: int) -> int:
    return -(-rows // 128) * 128 * -(-k // 128) * 4


def one(id: str, gpu: str, toolkit: str | None = None, **call: Any) -> Verdict:
    """Return the verdict of one row."""
    made = CallFacts(**{"function": "mm_mxfp8", "m": 6, "n": 512, "k": 1024, **call})
    verdicts = check(Deployment(gpu=gpu, toolkit=toolkit, system="flashinfer"), call=made)
    return next(v for v in verdicts if v.guard == id)


P, S, F, Q, N = (
    Status.PASSES,
    Status.STOPS,
    Status.FALLS_BACK,
    Status.SILENT,
    Status.NOT_REACHED,
)
BMM, QUANT, INTERLEAVE = "bmm_mxfp8", "mxfp8_quantize", "block_scale_interleave"
#: row, status, GPU, toolkit, call, a number of the reason: what lies behind Python's checks
LIMITS: tuple[tuple[str, Status, str, str | None, dict[str, Any], str], ...] = (
    ("fi-mm-toolkit", S, "b200", "12.7", {}, "CUDA 12.7 against 12.8"),
    ("fi-mm-toolkit", P, "b200", "12.8", {}, "CUDA 12.8 against 12.8"),
    ("fi-mm-toolkit", S, "b300", "12.8", {}, "against 12.9"),
    ("fi-mm-toolkit", P, "b300", "12.9", {}, "against 12.9"),
    ("fi-mm-toolkit", S, "thor", "12.9", {}, "against 13.0"),
    ("fi-mm-toolkit", P, "thor", "13.0", {}, "against 13.0"),
    ("fi-mm-toolkit", S, "rtx5090", "12.7", {"backend": "cutlass"}, "against 12.8"),
    ("fi-mm-toolkit", S, "gb10", "12.8", {"backend": "cutlass"}, "against 12.9"),
    ("fi-mm-toolkit", N, "b200", "12.4", {"backend": "cute-dsl"}, "cute-dsl"),
    ("fi-mm-k32-n32", P, "b200", None, {"n": 544, "k": 1056}, "N = 544 % 32 = 0, K = 1056 % 32"),
    ("fi-mm-k32-n32", S, "b200", None, {"n": 536}, "N = 536 % 32 = 24"),
    ("fi-mm-k32-n32", S, "thor", None, {"k": 1040}, "nearest legal K 1024 or 1056"),
    ("fi-mm-k32-n32", N, "b200", None, {"n": 536, "backend": "cute-dsl"}, "SM100"),
    ("fi-mm-k32-n32", N, "rtx5090", None, {"n": 536, "backend": "cutlass"}, "SM100"),
    ("fi-mm-contiguous", S, "b200", None, {"b_layout": "row"}, "b is row-major"),
    ("fi-mm-contiguous", S, "b200", None, {"a_layout": "column"}, "a is column-major"),
    ("fi-mm-contiguous", P, "b200", None, {"a_layout": "column", "m": 1}, "a is column-major"),
    ("fi-mm-cutedsl-align", P, "b200", None, {"backend": "cute-dsl", "n": 520}, "N = 520 % 8 = 0"),
    ("fi-mm-cutedsl-align", Q, "b200", None, {"backend": "cute-dsl", "n": 516}, "% 8 = 4"),
    ("fi-mm-cutedsl-align", Q, "b200", None, {"backend": "cute-dsl", "k": 1032}, "% 16 = 8"),
    ("fi-mm-slow", P, "gb10", None, {"k": 640}, "b12x runs"),
    ("fi-mm-slow", F, "gb10", None, {"k": 576}, "zero-padding K to 640 costs 11.1 %"),
    ("fi-mm-slow", Q, "gb10", None, {"k": 576, "backend": "cutlass"}, "K = 576 % 128 = 64"),
    ("fi-mm-slow", F, "rtx5090", "12.9", {"k": 640}, "CUDA 12.9 against 13"),
    ("fi-mm-slow", F, "gb10", None, {"k": 608, "n": 520}, "cudnn runs"),
    ("fi-mm-slow", N, "b200", None, {"k": 576}, "SM120"),
    ("fi-scale-bytes", P, "b200", None, {}, "layout that the call says"),
    (
        "fi-scale-bytes",
        Q,
        "b200",
        None,
        {"m": 128, "k": 128, "scale_layout": "linear", "declared_layout": "tile_128x4"},
        "128 x 4 scales are 512 bytes in both",
    ),
    (
        "fi-scale-bytes",  # the padding gives it away: fi-mm-scale-shape is asked instead
        P,
        "b200",
        None,
        {"m": 130, "k": 128, "scale_layout": "linear", "declared_layout": "tile_128x4"},
        "",
    ),
    (
        "fi-scale-bytes",
        Q,
        "b200",
        None,
        {"backend": "cute-dsl", "scale_layout": "tile_8x4"},
        "6 rows are 8 in 8x4",
    ),
    ("fi-mm-shuffle", Q, "b200", None, {"backend": "trtllm", "b_shuffled": False}, "is not"),
    ("fi-mm-shuffle", P, "b200", None, {"backend": "trtllm", "b_shuffled": True}, "shuffled"),
    ("fi-mm-shuffle", Q, "b200", None, {"backend": "cutlass", "b_shuffled": True}, "is shuffled"),
    ("fi-bmm-batch-rows", P, "b200", None, {"function": BMM, "batch": 1, "m": 100}, "M = 100"),
    ("fi-bmm-batch-rows", P, "b200", None, {"function": BMM, "batch": 2, "m": 256}, "M = 256"),
    (
        "fi-bmm-batch-rows",
        Q,
        "b200",
        None,
        {"function": BMM, "batch": 3, "m": 130},
        "wants 16384 and 49152 bytes, the kernel reads 24576 and 49152",
    ),
    ("fi-bmm-k32-n32", P, "gb10", None, {"function": BMM, "n": 544}, "N = 544 % 32 = 0"),
    ("fi-bmm-k32-n32", S, "gb10", None, {"function": BMM, "n": 536}, "N = 536 % 32 = 24"),
    ("fi-bmm-k32-n32", N, "b200", None, {"function": BMM, "n": 536}, "cutlass"),
    ("fi-grouped-rows", P, "b200", None, {"function": GROUPED, "groups": (4, 0, 12)}, "3 groups"),
    (
        "fi-grouped-rows",
        Q,
        "b200",
        None,
        {"function": GROUPED, "groups": (4, 2, 2, 4)},
        "m_indptr[2] = 6 % 4 = 2 (1 such)",
    ),
    ("fi-quant-old-gpu", Q, "h200", None, {"function": QUANT}, "capability 90 against 100"),
    ("fi-quant-old-gpu", P, "b200", None, {"function": QUANT}, "capability 100 against 100"),
    ("fi-quant-old-gpu", N, "h200", None, {"function": QUANT, "backend": "cute-dsl"}, "cuda"),
    ("fi-quant-k32", S, "b200", None, {"function": QUANT, "k": 1040}, "K = 1040 % 32 = 16"),
    ("fi-quant-k32", P, "b200", None, {"function": QUANT, "k": 1056}, "K = 1056 % 32 = 0"),
    (
        "fi-quant-dtype",
        P,
        "b200",
        None,
        {"function": QUANT, "backend": "cute-dsl", "a_dtype": "float32"},
        "float32",
    ),
    ("fi-quant-dtype", S, "b200", None, {"function": QUANT, "a_dtype": "float32"}, "float32"),
    ("fi-interleave-gpu", S, "l40s", None, {"function": INTERLEAVE}, "capability 89"),
    ("fi-interleave-gpu", P, "h200", None, {"function": INTERLEAVE}, "capability 90"),
    ("fi-device", S, "cpu", None, {}, "CPU"),
    ("fi-device", S, "mi355x", None, {}, "gfx950"),
)


@pytest.mark.parametrize("limit", LIMITS, ids=[f"{x[0]}-{x[1]}-{i}" for i, x in enumerate(LIMITS)])
def test_both_sides_of_a_limit(
    limit: tuple[str, Status, str, str | None, dict[str, Any], str],
) -> None:
    id, status, gpu, toolkit, call, number = limit
    verdict = one(id, gpu, toolkit, **call)
    assert verdict.status is status, verdict
    assert number in verdict.because


def test_linear_bytes_that_need_padding_are_refused() -> None:
    call: dict[str, Any] = {"m": 130, "k": 128, "a_scale_shape": (130 * 4,)}
    assert one("fi-mm-scale-shape", "b200", **call).message == (
        "a_descale shape mismatch for swizzled layout. Expected (1024,), got torch.Size([520])."
    )


def test_quantiser_messages() -> None:
    assert one(
        "fi-quant-cake",
        "rtx5090",
        **{
            "function": "mxfp8_grouped_quantize",
            "backend": "cake",
            "a_dtype": "bfloat16",
        },
    ).message.endswith("10.0 or 10.3; got dtype=torch.bfloat16 on RTX 5090")
    assert one("fi-interleave-gpu", "a100", function=INTERLEAVE).message == "Invalid backend: 80"


@pytest.mark.parametrize("id", IDS)
def test_every_row_trips_passes_and_can_be_out_of_reach(id: str) -> None:
    found, fine = trips(id), passes(id)
    assert found is not None
    assert fine is not None
    row = guard(id)
    bad = row.check(facts(found[0], call=found[1]))
    assert bad.status in TRIPS
    assert bad.because
    assert row.check(facts(fine[0], call=fine[1])).status is Status.PASSES
    verdicts = check(found[0], call=found[1])
    assert re.search(r"\{\w+\}", "".join(v.message for v in verdicts)) is None
    other = "mxfp8_dequantize_host" if found[1].function != "mxfp8_dequantize_host" else BMM
    far = row.check(facts(found[0], call=CallFacts(function=other, m=1, n=128, k=128)))
    assert far.status is Status.NOT_REACHED


def test_rows_are_whole() -> None:
    for row in ROWS:
        assert row.system == "flashinfer"
        assert row.subject == "call"
        assert row.source.startswith("flashinfer_python 0.7.2, "), row.id
        assert bool(row.messages) == (bool(row.error) and row.id != "fi-quant-k32"), row.id
        assert all((row.predicate, row.hardware, row.meaning, row.fallback, row.fixes)), row.id
        assert all(guard(other).id == other != row.id for other in row.related)
    assert [row.stage for row in ROWS] == sorted(row.stage for row in ROWS)


BAD: tuple[tuple[dict[str, Any], str], ...] = (
    ({"function": "mm_mxfp9"}, "did you mean 'mm_mxfp8'"),
    ({"backend": "cutless"}, "did you mean 'cutlass'"),
    ({"k": -1}, "mm_mxfp8: k is -1: expected 0 to"),
    ({"n": 2**60}, "the nearest is"),
    ({"m": True}, "expected a whole number"),
    ({"m": "6"}, "expected a whole number"),
    ({"a_dtype": "fp8_e4m3"}, "did you mean 'float8_e4m3fn'"),
    ({"scale_dtype": "e8m0"}, "unknown mm_mxfp8 scale_dtype"),
    ({"scale_layout": "128x4"}, "did you mean 'tile_128x4'"),
    ({"a_layout": "col"}, "unknown mm_mxfp8 a_layout"),
    ({"groups": "44"}, "expected a tuple of at most"),
    ({"groups": tuple(range(5000))}, "expected a tuple of at most"),
    ({"a_scale_shape": (1, -2)}, "a_scale_shape is -2"),
    ({"b_scale_shape": (1,) * 9}, "expected a tuple of at most 8"),
)


@pytest.mark.parametrize(("fields", "text"), BAD)
def test_bad_calls_are_one_line(fields: dict[str, Any], text: str) -> None:
    with pytest.raises(InputError) as caught:
        one("fi-device", "b200", **fields)
    assert text in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_library_is_asked_about_a_call() -> None:
    with pytest.raises(InputError, match="FlashInfer is a library: expected call=CallFacts"):
        check(Deployment(system="flashinfer"))
    with pytest.raises(InputError, match="SGLang is asked about a model's layers"):
        check(Deployment(), call=CallFacts(function="mm_mxfp8", m=1, n=128, k=128))
    with pytest.raises(InputError, match="call is 3: expected"):
        check(Deployment(system="flashinfer"), call=3)  # type: ignore[arg-type]


@pytest.mark.parametrize("n", [32, 64, 96])
def test_field_report_27(n: int) -> None:
    """Small layers of Qwen3.5-0.8B on a B200: K = 1024 is whole blocks, N is below one tile."""
    verdict = one("fi-mm-tile", "b200", n=n, k=1024)
    assert verdict.status is S
    assert verdict.because == f"N = {n} and K = 1024 against 128"
    assert any("zero-pad" in fix for fix in verdict.fixes)


def test_field_report_28() -> None:
    """DeepSeek's shared expert at TP 4 on SM121: b12x refuses K = 576, cutlass runs it slowly."""
    shape: dict[str, Any] = {"m": 6, "n": 5120, "k": 576}
    refused = one("fi-mm-b12x", "gb10", backend="b12x", **shape)
    assert refused.status is S
    assert refused.message.endswith("(one full BK128 tile). Got K=576.")
    slow = one("fi-mm-slow", "gb10", backend="cutlass", **shape)
    assert slow.status is Q
    assert "11.1 % more bytes" in slow.because
    assert "3.4 times slower" in guard("fi-mm-slow").meaning
