"""SGLang's versions are tables of their own: rows, decisions and sources."""

import re
from dataclasses import replace
from typing import Any

import pytest
from command import ask, call, refuse
from guard_scenes import BLOCK, MXFP8, kv, kv8, lin, moe, on

from mxlab import InputError
from mxlab.guards import GUARDS, Deployment, Status, check, system
from mxlab.guards.releases import AUGUST, NEWEST
from mxlab.guards.sglang_0132848349 import ADDED
from mxlab.guards.sglang_0132848349_sources import ABSENT, SOURCES

OLD = system("sglang", AUGUST.version)
S, F, W, Q, P, N = (
    Status.STOPS,
    Status.FALLS_BACK,
    Status.WARNS,
    Status.SILENT,
    Status.PASSES,
    Status.NOT_REACHED,
)
NARROW: dict[str, Any] = {**BLOCK, "weight_block_size": [32, 32], "scale_fmt": "ue8m0"}
LIN: dict[str, Any] = {**lin(), "config": NARROW}


def _status(guard: str, version: str, deployment: Deployment, subjects: dict[str, Any]) -> str:
    verdicts = check(replace(deployment, version=version), **subjects)
    return next((v.status.value for v in verdicts if v.guard == guard), "absent")


#: guard, in 0.5.23, in the commit: deployments on which the two versions part
PARTING: list[tuple[str, str, str, Deployment, dict[str, Any]]] = [
    ("res-deepgemm", P, S, on("rtx5090", fp8_gemm_backend="deep_gemm"), lin()),
    ("disp-nonblk128", W, "absent", on("rtx5090", fp8_gemm_backend="deep_gemm"), LIN),
    ("disp-cutlass", P, S, on("b200", fp8_gemm_backend="cutlass"), LIN),
    ("disp-unknown", P, S, on("b200", fp8_gemm_backend="flashinfer_cutedsl"), LIN),
    (
        "disp-deepgemm",
        P,
        S,
        on("mi355x", fp8_gemm_backend="deep_gemm"),
        LIN,
    ),
    (
        "cvt-k32",
        S,
        N,
        on("mi355x", env={"SGLANG_FORCE_MXFP8_BLOCK_CONVERT_DENSE": "1"}),
        lin(128, 176),
    ),
    ("moe-tk-rows", N, S, on(moe_runner_backend="cutlass"), moe(hidden=96)),
    ("moe-cutlass-sshape", "absent", S, on(moe_runner_backend="cutlass"), moe()),
    ("silent-moe-cutlass-scale", Q, "absent", on(moe_runner_backend="cutlass"), moe()),
    (
        "arg-moe-runner-mxfp8",
        P,
        W,
        on("mi300x", quantization="mxfp8", moe_runner_backend="triton"),
        {},
    ),
    (
        "arg-moe-runner-mxfp8",
        P,
        W,
        on(
            "mi355x",
            quantization="mxfp8",
            moe_runner_backend="aiter",
            env={"SGLANG_USE_AITER": "1"},
        ),
        {},
    ),
    ("kv-page128", S, "absent", kv8(page_size=64, attention_backend="triton"), kv()),
    ("imp-flashinfer", "absent", S, on("h200", packages=frozenset()), {}),
    ("imp-flashinfer", "absent", P, on("h200"), {}),
    ("imp-flashinfer", "absent", N, on("mi355x", packages=frozenset()), {}),
    (
        "moe-runner-unsupported",
        P,
        S,
        on(moe_runner_backend="flashinfer_cutlass"),
        {**moe(), "config": BLOCK},
    ),
    ("cfg-method-unknown", P, S, on(), {"config": {"quant_method": "minimax_m3_nvfp4"}}),
    ("cfg-method-unknown", S, P, on("mi355x"), {"config": {"quant_method": "gptq"}}),
    ("cfg-rocm", S, P, on("mi355x"), {"config": {"quant_method": "gptq"}}),
    ("moe-dg-ue8m0", P, S, on("rtx5090", moe_runner_backend="deep_gemm"), moe()),
]


@pytest.mark.parametrize("case", PARTING, ids=[f"{row[0]}-{i}" for i, row in enumerate(PARTING)])
def test_where_they_part(case: tuple[str, str, str, Deployment, dict[str, Any]]) -> None:
    guard, new, old, deployment, subjects = case
    assert _status(guard, "", deployment, subjects) == new
    assert _status(guard, NEWEST.version, deployment, subjects) == new
    assert _status(guard, AUGUST.version, deployment, subjects) == old


@pytest.mark.parametrize(
    ("guard", "deployment", "subjects", "message"),
    [
        (
            "wsp-deepgemm",
            on("h200", fp8_gemm_backend="deep_gemm"),
            {**lin(2880, 2880), "config": MXFP8},
            "--fp8-gemm-backend=deep_gemm cannot serve MXFP8 weight shape (2880, 2880) (needs "
            "N % 64 == 0 and K % 128 == 0), and this device has no FlashInfer MXFP8 fallback "
            "kernel.",
        ),
        ("kv-hd32", kv8(), kv(80, 80), "MXFP8 KV cache requires head_dim divisible by 32, got 80."),
    ],
)
def test_where_they_agree(
    guard: str, deployment: Deployment, subjects: dict[str, Any], message: str
) -> None:
    for version in ("", AUGUST.version, AUGUST.commit, AUGUST.commit[:7]):
        verdicts = check(replace(deployment, version=version), **subjects)
        found = next(v for v in verdicts if v.guard == guard)
        assert (found.status, found.message) == (S, message)
        assert found.version == (AUGUST.version if version else NEWEST.version)
        assert found.source.startswith(f"sglang {found.version}, srt/")


def test_every_row_is_decided() -> None:
    ids = {row.id for row in GUARDS}
    assert ids == SOURCES.keys() | ABSENT.keys(), "decide for 0132848349 too"
    assert not SOURCES.keys() & ABSENT.keys()
    assert [row.id for row in ADDED if row.id in ids] == []


def test_rows_are_whole() -> None:
    ids = [row.id for row in OLD.guards]
    assert len(ids) == len(set(ids)) == len(SOURCES) + len(ADDED)
    assert [row.stage for row in OLD.guards] == sorted(row.stage for row in OLD.guards)
    for row in OLD.guards:
        assert re.match(
            r"(sglang 0132848349|flashinfer_python 0\.6\.17 and 0\.6\.18), \S", row.source
        )
        assert set(row.related) <= set(ids), row.id
        assert NEWEST.version not in f"{row.source}{row.predicate}", row.id


def test_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("sglang@0132848", "sglang@0132848349", f"sglang@{AUGUST.commit}"):
        answer = ask(capsys, "doctor", "Llama-3.1-8B", "--gpu", "b200", "--system", name)
        versions = {v["version"] for layer in answer["layers"] for v in layer["verdicts"]}
        assert versions <= {AUGUST.version}
    answer = ask(capsys, "guards", "--system", "sglang@0132848")
    assert [row["guard"] for row in answer["guards"]] == [row.id for row in OLD.guards]
    assert {row["version"] for row in answer["guards"]} == {AUGUST.version}
    _, out, _ = call(capsys, "guards", "moe-cutlass-sshape", "--system", "sglang@0132848")
    assert "sglang 0132848349, srt/layers/moe/cutlass_moe.py" in out
    assert ask(capsys, "guards", "moe-cutlass-sshape")["version"] == AUGUST.version
    assert ask(capsys, "guards", "wsp-deepgemm")["version"] == NEWEST.version
    assert "expected one of" in refuse(capsys, "guards", "--system", "sglang@1")
    assert "is not in sglang 0132848349: pages other than 128" in refuse(
        capsys, "guards", "kv-page128", "--system", "sglang@0132848"
    )


@pytest.mark.parametrize(
    "version", ["013284", "0132849", "9.9", "01328483490", "0132848\0", "é" * 9]
)
def test_unknown_version(version: str) -> None:
    with pytest.raises(InputError, match=r"unknown sglang version .*0\.5\.23, 0132848349"):
        system("sglang", version)


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        ({"moe_a2a_backend": "flashinfer_megamoe"}, "--moe-a2a-backend flashinfer_megamoe"),
        ({"moe_runner_backend": "flashinfer_megamoe"}, "--moe-runner-backend flashinfer_megamoe"),
        ({"flashinfer_a2a_dispatch_type": "auto"}, "--flashinfer-a2a-dispatch-type"),
    ],
)
def test_a_flag_that_a_version_does_not_have(flags: dict[str, Any], named: str) -> None:
    check(on(**flags))
    with pytest.raises(InputError, match=f"SGLang {AUGUST.version} has no {named}: 0.5.23 has it"):
        check(on(version="0132848", **flags))
