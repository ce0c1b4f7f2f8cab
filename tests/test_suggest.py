"""Suggestions: typed in as a person would, they run; and none of their changes can be spared."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mxlab.changes import IGNORED, Situation, apply, candidates
from mxlab.doctor import Examiner, Report, doctor
from mxlab.errors import InputError
from mxlab.guards import Deployment
from mxlab.models import read_config
from mxlab.padding import next_legal, padded
from mxlab.suggest import suggestions

MODELS = Path(__file__).parent / "data/models"
B200 = Deployment(gpu="b200", quantization="mxfp8")
#: model, flags: each stops
SCENES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("Qwen2.5-72B-Instruct", {"gpu": "b200", "tp": 8}),
    ("Qwen2.5-72B-Instruct", {"gpu": "h200", "tp": 8, "kv_cache_dtype": "mxfp8"}),
    ("phi-4", {"gpu": "b200", "tp": 8, "kv_cache_dtype": "mxfp8"}),
    ("gemma-3-27b-it", {"gpu": "h200", "tp": 8}),
    ("gemma-3-27b-it", {"gpu": "b200", "tp": 3, "fp8_gemm_backend": "flashinfer_trtllm"}),
    ("GLM-4.5-Air", {"gpu": "b200", "tp": 8, "kv_cache_dtype": "mxfp8"}),
    ("Qwen3-30B-A3B", {"gpu": "b200", "tp": 16, "moe_runner_backend": "cutlass"}),
    ("Qwen3-8B", {"gpu": "rtx5090", "fp8_gemm_backend": "flashinfer_cutedsl", "dtype": "float16"}),
    ("Llama-3.1-8B", {"gpu": "b200", "packages": frozenset()}),
    (
        "Llama-3.1-8B",
        {
            "gpu": "b200",
            "env": {"SGLANG_ENABLE_JIT_DEEPGEMM": "0"},
            "fp8_gemm_backend": "deep_gemm",
        },
    ),
    ("Llama-3.1-8B", {"gpu": "b200", "toolkit": "12.4", "fp8_gemm_backend": "flashinfer_cutlass"}),
)


def scene(model: str, flags: dict[str, Any]) -> tuple[Path, Deployment]:
    return MODELS / f"{model}.json", Deployment(quantization="mxfp8", **flags)


def typed(flags: Deployment, changes: list[str]) -> Deployment:
    """Type changes of flags in, the way their texts say."""
    for change in changes:
        name, _, value = change.removeprefix("--").partition(" ")
        if change == "no --quantization":
            flags = replace(flags, quantization=None)
        elif name == "with":
            flags = replace(flags, packages=flags.packages | {value})
        elif name == "unset":
            env = {key: kept for key, kept in flags.env.items() if key != value}
            flags = replace(flags, env=env)
        elif change.startswith(IGNORED):
            flags = replace(flags, env={**flags.env, IGNORED: change.partition("=")[2]})
        elif name == "pad":
            continue
        else:
            field = name.replace("-", "_")
            kept: Any = int(value) if field in ("tp", "ep", "page_size") else value
            flags = replace(flags, **{field: kept})
    return flags


def padding_of(report: Report, changes: list[str]) -> dict[str, Any]:
    """Read the padding back out of its text."""
    found: dict[str, Any] = {}
    rows = {layer.linear.linear: layer.linear for layer in report.layers}
    for change in changes:
        if not change.startswith("pad "):
            continue
        for text in change.removeprefix("pad ").split(", "):
            name, side, sizes = text.split(" (")[0].split(" ", 2)
            parts, k = found.get(name, (rows[name].parts or (rows[name].n,), rows[name].k))
            old, new = sizes.split(" -> ")
            if rows[name].k is None:
                continue  # at this TP the linear cannot be built at all
            if side == "K":
                assert int(old) == k
                k = int(new)
            else:
                assert tuple(map(int, old.split(" + "))) == tuple(parts)
                parts = tuple(map(int, new.split(" + ")))
            found[name] = (parts, k)
    return found


def retry(path: Path, flags: Deployment, report: Report, changes: list[str]) -> Report:
    after = typed(flags, changes)
    examiner = Examiner(read_config(path))
    unpadded = examiner.evaluate(after)
    return examiner.evaluate(after, padding_of(unpadded, changes))


@pytest.mark.parametrize(("model", "flags"), SCENES)
def test_every_suggestion_runs_when_typed_in_and_needs_every_change(
    model: str, flags: dict[str, Any]
) -> None:
    path, deployment = scene(model, flags)
    report = doctor(path, deployment)
    assert report.outcome == "stops" and report.suggestions
    sizes = {len(row["changes"]) for row in report.suggestions}
    assert len(sizes) == 1
    for suggestion in report.suggestions:
        changes = suggestion["changes"]
        after = retry(path, deployment, report, changes)
        assert after.outcome == suggestion["outcome"] != "stops"
        for change in changes:
            fewer = [kept for kept in changes if kept != change]
            assert retry(path, deployment, report, fewer).outcome == "stops", (changes, change)
        said = {verdict.guard for _, verdict in after.subjects() if verdict.degrades}
        told = {text.split()[1] for text in suggestion["degrades"] if "unknown" not in text}
        assert said <= told  # nothing that degrades goes unsaid
        costs = suggestion["costs"]
        assert [cost["change"] for cost in costs] == changes and all(c["cost"] for c in costs)
        json.dumps(suggestion, allow_nan=False)


def test_the_scenes_reach_every_kind_of_change() -> None:
    """The two tests around this one would pass on an empty search."""
    kinds = set()
    for model, flags in SCENES:
        for row in doctor(*scene(model, flags)).suggestions:
            kinds |= {change.split("=")[0].split()[0] for change in row["changes"]}
    assert {"pad", "--tp", "--gpu", "--with", "unset", "no", IGNORED} <= kinds
    assert {"--kv-cache-dtype", "--fp8-gemm-backend", "--moe-runner-backend"} & kinds


def test_padding_is_the_next_size_and_the_padded_checkpoint_runs() -> None:
    path = MODELS / "Qwen2.5-72B-Instruct.json"
    report = doctor(path, replace(B200, tp=8))
    pad = next(row for row in report.suggestions if row["changes"][0].startswith("pad "))
    assert "down_proj K 3696 -> 3712 (29568 -> 29696 in all)" in pad["changes"][0]
    assert "gate_up_proj N 3696 + 3696 -> 3712 + 3712" in pad["changes"][0]
    # 16 columns of down_proj, 32 rows of gate_up_proj: (16 x 8192 + 32 x 8192) x 80 layers x 33/32
    assert pad["costs"][0]["bytes_a_rank"] == 48 * 8192 * 80 * 33 // 32
    config = read_config(path)
    for size, outcome in ((29696, "runs"), (29680, "stops"), (29568 + 8 * 8, "stops")):
        config["intermediate_size"] = size
        assert doctor(config, replace(B200, tp=8), suggest=False).outcome == outcome


def test_padding_experts_widens_both_weights() -> None:
    report = doctor(MODELS / "Qwen3-235B-A22B-FP8.json", Deployment(gpu="h200", tp=8))
    assert report.first_stop is not None and report.first_stop[1].guard == "moe-inter-n"
    texts = [change for row in report.suggestions for change in row["changes"]]
    pad = next(text for text in texts if text.startswith("pad "))
    assert pad == (
        "pad experts.w13 N 192 + 192 -> 256 + 256, experts.w2 K 192 -> 256 (1536 -> 2048 in all)"
    )
    config = read_config(MODELS / "Qwen3-235B-A22B-FP8.json")
    config["moe_intermediate_size"] = 2048
    assert doctor(config, Deployment(gpu="h200", tp=8), suggest=False).outcome == "runs"


@pytest.mark.parametrize("tp", [1, 2, 4, 8])
def test_next_legal_adds_the_fewest_elements(tp: int) -> None:
    """Held against a search over every size near by."""
    rows = [layer.linear for layer in doctor("Llama-3.1-8B", Deployment(tp=tp)).layers]
    down = replace(next(row for row in rows if row.linear == "down_proj"), n=4090, parts=(4090,))
    down = replace(down, k=(down.k or 0) - 5)

    def legal(row: Any) -> bool:
        return bool(row.n % 64 == 0 and row.k % 128 == 0)

    found = next_legal([down], [down], legal)
    assert found is not None and down.n and down.k
    wanted = min(
        n * k
        for n in range(down.n, down.n + 130)
        for k in range(down.k, down.k + 130)
        if n % 64 == 0 and k % 128 == 0
    )
    parts, k = found["down_proj"]
    assert sum(parts) * k == wanted and padded([down], found)[0].k == k


def test_no_suggestion_names_a_runner_that_the_gpu_cannot_build() -> None:
    flags = Deployment(gpu="h200", tp=8)
    report = doctor(MODELS / "Qwen3-235B-A22B-FP8.json", flags)
    changes = [change for row in report.suggestions for change in row["changes"]]
    assert "--tp 4" in changes and not any("trtllm" in change for change in changes)
    blackwell = doctor(MODELS / "Qwen3-235B-A22B-FP8.json", replace(flags, gpu="rtx5090"))
    assert any("trtllm" in change for row in blackwell.suggestions for change in row["changes"])


def test_a_missing_package_is_suggested_and_the_fallback_said() -> None:
    flags = replace(B200, tp=4, fp8_gemm_backend="deep_gemm", packages=frozenset({"deep_gemm"}))
    found = doctor("Qwen2.5-72B-Instruct", flags).suggestions
    row = next(row for row in found if row["changes"] == ["--with flashinfer"])
    assert row["outcome"] == "runs-degraded"
    assert any("falls-back wsp-deepgemm at down_proj" in text for text in row["degrades"])
    outcomes = [row["outcome"] for row in found]
    assert outcomes == sorted(outcomes, key=["runs", "runs-degraded"].index)  # clean ones first


def test_stored_codes_are_not_read_as_16_bit_weights() -> None:
    """The environment variable alone would load FP8 codes without their scales."""
    config = read_config("Qwen2.5-72B-Instruct")
    config["quantization_config"] = {"quant_method": "mxfp8", "activation_scheme": "dynamic"}
    found = doctor(config, Deployment(gpu="b200", tp=8)).suggestions
    texts = [change for row in found for change in row["changes"]]
    assert any("quantise the checkpoint anew" in text for text in texts)
    assert not any(text.startswith(IGNORED) for text in texts)


def test_the_flag_that_fights_the_checkpoint_is_given_up_first() -> None:
    found = doctor("DeepSeek-V3", replace(B200, tp=8)).suggestions
    assert [row["changes"] for row in found] == [["no --quantization"]]
    assert found[0]["costs"][0]["bytes_a_rank"] == 0


def test_nothing_is_suggested_where_it_runs() -> None:
    assert doctor("Llama-3.1-8B", replace(B200, tp=8)).suggestions == ()
    assert doctor("phi-4", replace(B200, tp=8), suggest=False).suggestions == ()


@pytest.mark.parametrize(
    ("model", "flags"),
    [
        ("phi-4", {"gpu": "h200", "kv_cache_dtype": "mxfp8"}),
        ("Qwen2-0.5B", {"gpu": "b200", "toolkit": "12.4", "kv_cache_dtype": "mxfp8"}),
        ("GLM-4.5-Air", {"gpu": "b200", "kv_cache_dtype": "mxfp8", "attention_backend": "fa3"}),
        ("Qwen3-30B-A3B", {"gpu": "h200", "kv_cache_dtype": "mxfp8"}),
    ],
)
def test_no_smaller_set_of_the_candidates_works(model: str, flags: dict[str, Any]) -> None:
    """The search leaves sets out that look hopeless: here all smaller ones are tried."""
    examiner = Examiner(read_config(MODELS / f"{model}.json"))
    start = Deployment(**{"tp": 8, "quantization": "mxfp8", **flags})
    tried = 0

    def works(deployment: Deployment, padding: Any, left: int, fields: frozenset[str]) -> bool:
        nonlocal tried
        tried += 1
        report = examiner.evaluate(deployment, padding)
        if report.outcome != "stops" or left == 0:
            return report.outcome != "stops"
        for change in candidates(Situation(deployment, report, padding, examiner.runs)):
            wider = change.value if change.field == "padding" else padding
            if change.field not in fields:
                try:
                    after = apply(deployment, change)
                    if works(after, wider, left - 1, fields | {change.field}):
                        return True
                except InputError:
                    continue
        return False

    found = suggestions(examiner, examiner.evaluate(start))
    size = len(found[0]["changes"])
    assert size >= 2 and not works(start, {}, size - 1, frozenset()) and tried > 15
