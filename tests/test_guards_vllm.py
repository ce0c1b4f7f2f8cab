"""vLLM's rows against recorded answers of its own functions, in two releases."""

import gzip
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from mxlab.errors import InputError
from mxlab.guards import (
    CallFacts,
    Deployment,
    ExpertFacts,
    KvCacheFacts,
    LinearFacts,
    Status,
    Verdict,
    check,
    facts,
    system,
)
from mxlab.guards.vllm_kernels import NEW, OLD, Release, choose_kernel, possible

DATA = Path(__file__).parent / "data"
BLOCK = {"quant_method": "fp8", "weight_block_size": [128, 128]}
RELEASES = pytest.mark.parametrize("release", [NEW, OLD], ids=lambda release: release.version)


def recorded(release: Release) -> dict[str, Any]:
    with gzip.open(DATA / f"vllm-{release.version}-outcomes.json.gz", "rt") as file:
        found: dict[str, Any] = json.load(file)
    assert found["vllm"] == release.version
    return found


def ask(release: Release, gpu: str = "b200", **subjects: Any) -> dict[str, Verdict]:
    flags = {key: subjects.pop(key) for key in list(subjects) if key in FLAGS}
    deployment = Deployment(system="vllm", version=release.version, gpu=gpu, **flags)
    return {verdict.guard: verdict for verdict in check(deployment, **subjects)}


FLAGS = ("tp", "quantization", "dtype", "kv_cache_dtype", "packages")


def linear(n: int, k: int, backend: str = "auto", **more: Any) -> dict[str, Any]:
    call = CallFacts(function="init_mxfp8_linear_kernel", m=6, n=n, k=k, backend=backend, **more)
    return {"call": call}


@RELEASES
def test_kernels(release: Release) -> None:
    seen: Counter[str] = Counter()
    for case in recorded(release)["kernels"]:
        packages = frozenset({"flashinfer"}) if case["flashinfer"] else frozenset()
        deployment = Deployment(
            system="vllm", version=release.version, gpu=case["gpu"], packages=packages
        )
        n, k = case["n"], case["k"]
        found = facts(deployment, **linear(n, k))
        kernels = possible(release, found.platform)
        assert [kernel.name for kernel in kernels] == case["order"]
        ours = [
            kernel.supported(found.platform) or kernel.fits(release, found.platform, n, k)
            for kernel in kernels
        ]
        assert ours == case["answers"], case
        choice = choose_kernel(release, found, n, k, "auto")
        first = case["answers"].index("")
        assert choice.kernel is not None
        assert choice.kernel.name == case["order"][first]
        wanted = zip(case["order"], case["answers"][:first], strict=False)
        assert choice.reasons == tuple(f"{name}: {why}" for name, why in wanted)
        seen[choice.kernel.name] += 1
    assert len(seen) >= 3, seen


@RELEASES
def test_block_fp8(release: Release) -> None:
    seen: Counter[str] = Counter()
    for case in recorded(release)["blocks"]:
        parts = tuple(case["parts"])
        subject = LinearFacts("x", sum(parts), case["k"], case["shard"], parts)
        verdicts = ask(release, tp=case["tp"], config=BLOCK, linear=subject)
        first = next((v for v in verdicts.values() if v.status is Status.STOPS), None)
        error = ["", ""] if first is None else ["ValueError", first.message]
        assert error == case["error"], case
        seen["" if first is None else first.guard] += 1
    assert min(seen.values()) > 20
    assert len(seen) == 3


@RELEASES
def test_kv_scales(release: Release) -> None:
    seen: Counter[str] = Counter()
    for case in recorded(release)["scales"]:
        k, v = (None if case[name] is None else float(case[name]) for name in "kv")
        kv = KvCacheFacts(128, 128, 8, k_scale=k, v_scale=v)
        verdicts = ask(release, kv_cache_dtype="fp8_e4m3", kv_cache=kv)
        stops = verdicts["vllm-kv-scale-pair"].status is Status.STOPS
        assert stops is (case["error"][0] == "AssertionError"), case
        warns = verdicts["vllm-kv-scale-default"]
        assert ([warns.message] if warns.status is Status.WARNS else []) == case["warned"], case
        if stops:
            assert verdicts["vllm-kv-scale-number"].status is Status.NOT_REACHED
            seen["stops"] += 1
            continue
        used = [float(text) for text in case["used"]]
        broken = "inf" in case["used"] or (v is not None and abs(used[1] - v) > 1e-6) or v != v
        assert (verdicts["vllm-kv-scale-number"].status is Status.SILENT) is broken, case
        seen["silent" if broken else "fine"] += 1
    assert min(seen.values()) > 5
    assert len(seen) == 3


def test_below_the_minimum_of_mm_mxfp8() -> None:
    new, old = ask(NEW, **linear(32, 1024)), ask(OLD, **linear(32, 1024))
    assert old["vllm-mx-minimum"].stage == "S8"
    assert old["vllm-mx-minimum"].message == (
        "mm_mxfp8 requires N >= 128, got N=32. out_features is too small for mm_mxfp8."
    )
    assert new["vllm-mx-minimum"].status is Status.FALLS_BACK
    assert "mm_mxfp8 requires N >= 128, got N=32." in new["vllm-mx-minimum"].because
    assert new["vllm-mx-fallback"].message == "Using MarlinMxfp8LinearKernel for MXFP8 GEMM"
    for release in (NEW, OLD):
        wide = ask(release, **linear(128, 128))
        assert wide["vllm-mx-minimum"].status is Status.PASSES
        assert wide["vllm-mx-fallback"].status is Status.PASSES


@pytest.mark.parametrize(
    "gpu, subjects, row, status",
    [
        ("b200", linear(512, 100), "vllm-mx-k32", Status.STOPS),
        ("b200", linear(512, 96, "cutlass"), "vllm-mx-backend", Status.WARNS),
        ("b200", linear(512, 1024, "marlin"), "vllm-mx-backend", Status.PASSES),
        ("h200", linear(512, 1024, "flashinfer_trtllm"), "vllm-mx-no-kernel", Status.STOPS),
        ("cpu", linear(512, 1024), "vllm-mx-no-kernel", Status.STOPS),
        ("h200", linear(512, 1024), "vllm-mx-no-kernel", Status.PASSES),
        ("h200", linear(512, 1024), "vllm-mx-fallback", Status.FALLS_BACK),
        ("b200", linear(512, 1024), "vllm-mx-fallback", Status.PASSES),
        ("mi355x", linear(512, 1024), "vllm-mx-rocm-k128", Status.PASSES),
        ("mi355x", linear(512, 1056), "vllm-mx-rocm-k128", Status.SILENT),
        ("mi300x", linear(512, 1056), "vllm-mx-fallback", Status.FALLS_BACK),
        ("b200", linear(512, 1152, "flashinfer_trtllm"), "vllm-mx-trtllm-k", Status.STOPS),
        ("b200", linear(512, 1024, "flashinfer_trtllm"), "vllm-mx-trtllm-k", Status.PASSES),
        (
            "b200",
            linear(512, 1024, "flashinfer_trtllm", out_dtype="float16"),
            "vllm-mx-trtllm-dtype",
            Status.STOPS,
        ),
        ("h200", linear(512, 1024, "torch"), "vllm-mx-torch-arch", Status.STOPS),
        ("b200", linear(512, 1024, "torch"), "vllm-mx-torch-arch", Status.PASSES),
    ],
)
def test_linear(gpu: str, subjects: dict[str, Any], row: str, status: Status) -> None:
    verdict = ask(NEW, gpu, **subjects)[row]
    assert verdict.status is status, verdict
    assert re.search(r"\{\w+\}", verdict.message) is None


def test_model() -> None:
    mxfp8 = {"quant_method": "mxfp8"}
    assert ask(NEW, "t4", config=mxfp8)["vllm-min-capability"].message == (
        "The quantization method modelopt_mxfp8 is not supported for the current GPU. Minimum "
        "capability: 80. Current capability: 75."
    )
    online = ask(NEW, "t4", quantization="mxfp8")
    assert online["vllm-min-capability"].status is Status.PASSES
    half = ask(NEW, config=mxfp8, dtype="half")["vllm-act-dtype"]
    assert half.message.startswith("torch.float16 is not supported for quantization method")
    modelopt = {"quantization": {"quant_algo": "MXFP8", "exclude_modules": []}}
    assert ask(NEW, config=modelopt)["vllm-cfg-fields"].message.endswith("['kv_cache_quant_algo']")
    for size, index in ((96, 32), (80, 0)):
        experts = ExpertFacts(2048, size, 128, moe_tp=8)
        verdict = ask(NEW, config=mxfp8, experts=experts)["vllm-moe-k32"]
        assert (verdict.status is Status.PASSES) is bool(index), verdict
    moe = ask(NEW, tp=8, config=BLOCK, experts=ExpertFacts(2048, 192, 128, moe_tp=8))
    assert moe["vllm-moe-block-n"].message == (
        "The output_size of gate's and up's weight = 192 is not divisible by weight quantization "
        "block_n = 128."
    )
    assert moe["vllm-moe-block-k"].status is Status.STOPS
    alone = ask(NEW, tp=1, config=BLOCK, experts=ExpertFacts(2048, 192, 128))
    assert alone["vllm-moe-block-k"].status is Status.PASSES


@pytest.mark.parametrize(
    "sizes", [[128], "128", [0, 128], [True, 2**40], [128, 128, 128], {"n": 128}, None]
)
def test_hostile_block_sizes(sizes: object) -> None:
    config = {"quant_method": "fp8", "weight_block_size": sizes}
    verdicts = ask(NEW, tp=8, config=config, linear=LinearFacts("x", 64, 64, "row"))
    assert verdicts["vllm-block-row"].status is Status.NOT_REACHED


@pytest.mark.parametrize("scale", [True, "0.05", [0.05]])
def test_hostile_scales(scale: Any) -> None:
    with pytest.raises(InputError, match="expected a number, or nothing"):
        ask(NEW, kv_cache=KvCacheFacts(128, 128, 8, k_scale=scale))


def test_rows_are_whole() -> None:
    for release in (NEW, OLD):
        rows = system("vllm", release.version).guards
        assert [row.stage for row in rows] == sorted(row.stage for row in rows)
        assert len({row.id for row in rows}) == len(rows)
        assert all(row.source.startswith(f"vllm {release.version}, ") for row in rows)
