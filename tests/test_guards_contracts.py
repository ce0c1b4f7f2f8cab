"""Limits of the steps that no recorded case covers: each side of each limit, by hand."""

from dataclasses import replace
from typing import Any

import pytest
from guard_scenes import BLOCK, MXFP8, NO_PACKAGES, ink, kv, kv8, lin, moe, on

from mxlab.doctor import doctor
from mxlab.errors import InputError
from mxlab.guards import (
    GUARDS,
    AttentionFacts,
    BlockScaleFacts,
    Deployment,
    ExpertCallFacts,
    GemmInputFacts,
    HostPoolFacts,
    KvCacheFacts,
    KvStoreFacts,
    LoadFacts,
    QuantizerFacts,
    Status,
    check,
    facts,
    guard,
)
from mxlab.guards.engine import fill
from mxlab.guards.facts_steps import STEPS
from mxlab.guards.steps import check_step

P, S, F, W = Status.PASSES, Status.STOPS, Status.FALLS_BACK, Status.WARNS
N, Q = Status.NOT_REACHED, Status.SILENT


def load(**changes: Any) -> LoadFacts:
    values: dict[str, Any] = {"target": "scale", "kind": "row", "n": 1, "k": 32}
    return LoadFacts(**values | {"loaded_shape": (1, 1), "loaded_dtype": "uint8"} | changes)


def wide(dtype: str) -> LoadFacts:
    return load(target="weight", kind="column", n=2, loaded_shape=(2, 32), loaded_dtype=dtype)


def mega(tp: int, dp: int, a2a: str = "flashinfer_megamoe", **more: Any) -> Deployment:
    return on(tp=tp, moe_a2a_backend=a2a, settings={"attn-dp-size": dp, **more})


def muse(tp: int) -> Deployment:
    found = mega(tp, 1, "flashinfer", **{"enable-layernorm-sp": True})
    return replace(found, architecture="MuseSparkForConditionalGeneration")


def slots(size: int) -> dict[str, Any]:
    return {"kv_cache": KvCacheFacts(128, 128, 8, size=size)}


def call(runner: str, **more: Any) -> ExpertCallFacts:
    values = {"hidden": 4096, "intermediate": 1024, "experts": 64, **more}
    return ExpertCallFacts(runner=runner, **values)


def gemm(route: str, **more: Any) -> GemmInputFacts:
    return GemmInputFacts(route=route, **{"m": 16, "n": 4096, "k": 4096, **more})


def quantizer(function: str, *shape: int, **more: Any) -> QuantizerFacts:
    return QuantizerFacts(function=function, shape=shape, **more)


def scale(conversion: str, n: int, k: int, block: int, *shape: int, **more: Any) -> BlockScaleFacts:
    return BlockScaleFacts(
        n=n, k=k, block_n=block, block_k=block, shape=shape, conversion=conversion, **more
    )


#: guard, status, where, step: numbers next to each limit
STEP_SCENES: list[tuple[str, Status, Deployment, Any]] = [
    ("lin-downcast", P, on(), wide("float8_e5m2")),
    ("lin-downcast", S, on(), wide("bfloat16")),
    ("lin-downcast", P, on(env={"SGLANG_QUANT_ALLOW_DOWNCASTING": "1"}), wide("bfloat16")),
    ("lin-downcast", N, on(), wide("uint8")),  # lin-copy-dtype
    ("moe-fi-routing", P, on(), call("flashinfer_trtllm", experts=64, top_k=32)),
    ("moe-fi-routing", S, on(), call("flashinfer_trtllm", experts=64, top_k=33)),
    ("moe-fi-routing", S, on(), call("flashinfer_trtllm", experts=66)),
    ("moe-fi-routing", S, on(), call("flashinfer_trtllm", experts=8, top_k=8)),
    ("moe-fi-routing", P, on(), call("flashinfer_trtllm", experts=12, top_k=11)),
    *(
        ("moe-fi-routing", status, on(), call("flashinfer_trtllm", routing="DeepSeekV3", **more))
        for status, more in (
            (P, {"experts": 384, "top_k": 8, "n_group": 8}),
            (S, {"experts": 384, "top_k": 9}),
            (P, {"experts": 388, "top_k": 22}),
            (S, {"experts": 388, "top_k": 23}),
            (S, {"experts": 388, "top_k": 8, "n_group": 8}),
        )
    ),
    ("moe-fi-routing", P, on(), call("flashinfer_trtllm", routing="Llama4", top_k=1)),
    ("moe-fi-routing", S, on(), call("flashinfer_trtllm", routing="Llama4", top_k=2)),
    ("moe-fi-routing", N, on(), call("cutlass", experts=66)),
    ("moe-cutlass-sm100", S, on("rtx5090"), call("cutlass")),
    ("moe-cutlass-sm100", P, on("b300"), call("cutlass")),
    (
        "moe-cutlass-sdtype",
        P,
        on(),
        call("cutlass", scale_shapes=((64, 128, 2048), (64, 32, 4096))),
    ),
    (
        "moe-cutlass-sdtype",
        S,
        on(),
        call("cutlass", scale_shapes=((64, 128, 2048), (64, 4096, 32))),
    ),
    ("moe-dg-actscale", P, on(), call("deep_gemm", hidden=2880, activation_scale_width=23)),
    ("moe-dg-actscale", S, on(), call("deep_gemm", hidden=2880, activation_scale_width=22)),
    ("moe-g95-bias", S, on("mi355x"), call("triton", bias=True)),
    ("moe-g95-bias", N, on("b200"), call("triton", bias=True)),
    ("npu-moe-runner", S, on(moe_runner_backend="triton"), call("npu")),
    ("npu-act-scale", S, on(), call("npu", hidden=32 * 45)),
    ("npu-act-scale", P, on(), call("npu", hidden=32 * 46)),
    ("act-grp-last", P, on(), quantizer("mxfp8_group_quantize", 4, 96)),
    ("act-grp-last", S, on(), quantizer("mxfp8_group_quantize", 4, 97)),
    ("act-rms", P, on(), quantizer("rmsnorm_mxfp8", 1, 384)),
    ("act-rms", S, on(), quantizer("rmsnorm_mxfp8", 0, 384)),
    ("act-rms", S, on(), quantizer("rmsnorm_mxfp8", 1, 416)),
    ("act-swiglu", P, on(), quantizer("swiglu_mxfp8", 4, 192)),
    ("act-swiglu", S, on(), quantizer("swiglu_mxfp8", 4, 160)),  # n = 80
    ("act-swiglu", S, on(), quantizer("swiglu_mxfp8_deepgemm", 4, 192)),
    ("act-swiglu", P, on(), quantizer("swiglu_mxfp8_deepgemm", 4, 256)),
    ("act-group-size", S, on(), quantizer("per_token_group_quant_fp8", 4, 96, group_size=48)),
    ("act-group-size", N, on(), quantizer("per_token_group_quant_fp8", 4, 96, group_size=96)),
    ("act-fi-k32", S, on(), quantizer("flashinfer_mxfp8_quantize", 4, 100)),
    ("act-swz", S, on(), quantizer("mxfp8_quantize_swizzled", 4, 64, dtype="float16")),
    ("g95-gemv-m", P, on(), gemm("gfx95_gemv", m=32)),
    ("g95-gemv-m", S, on(), gemm("gfx95_gemv", m=33)),
    ("g95-flydsl", P, on(), gemm("gfx95_flydsl", n=72, k=384)),
    ("g95-flydsl", S, on(), gemm("gfx95_flydsl", n=76, k=384)),
    ("g95-native-steps", P, on(), gemm("gfx95_native", k=416, input_k=512)),
    ("g95-native-steps", S, on(), gemm("gfx95_native", k=416, input_k=384)),
    ("g95-dot-prequant", N, on(), gemm("gfx95_dot_scaled", k=416, scale_dtype="uint8")),
    (
        "g95-dot-prequant",
        P,
        on(),
        gemm("gfx95_dot_scaled", dtype="float8_e4m3fn", scale_dtype="uint8", scale_shape=(16, 128)),
    ),
    ("g95-dot-prequant", S, on(), gemm("gfx95_dot_scaled", scale_dtype="uint8")),
    ("fwd-swizzled-input", S, on(), gemm("flashinfer", swizzled_input=True)),
    ("blk-cutlass-prequant", S, on(), gemm("block_cutlass", n=192, scale_dtype="float32")),
    ("blk-cutlass-prequant", P, on(), gemm("block_cutlass", n=384, scale_dtype="float32")),
    (
        "blk-unpack-shape",
        P,
        on(),
        gemm("block_triton", n=300, weight_scale_dtype="int32", weight_scale_shape=(3, 8)),
    ),
    (
        "blk-unpack-shape",
        S,
        on(),
        gemm("block_triton", n=300, weight_scale_dtype="int32", weight_scale_shape=(4, 8)),
    ),
    ("blk-packed-input", P, on(), gemm("block_deep_gemm", scale_dtype="int32")),
    ("blk-packed-input", S, on("h200"), gemm("block_deep_gemm", scale_dtype="int32")),
    ("blk2e8m0-128", P, on(), scale("mxscale", 128, 256, 128, 1, 2, values=(1.0, 0.5))),
    ("blk2e8m0-128", F, on(), scale("mxscale", 128, 256, 128, 1, 2, values=(1.0, 1e300))),
    ("blk2e8m0-128", N, on(), scale("mxscale", 130, 256, 128, 2, 2, values=(0.3,) * 4)),
    ("g95-native-blk", P, on(), scale("gfx95", 96, 416, 32, 3, 13)),
    ("g95-native-blk", S, on(), scale("gfx95", 80, 416, 32, 3, 13)),
    ("npu-k64", P, on(), scale("npu", 64, 192, 32, 2, 6)),
    ("npu-k64", S, on(), scale("npu", 64, 160, 32, 2, 5)),
    ("npu-scale-shape", S, on(), scale("npu", 64, 192, 32, 6, 2)),
    (
        "kv-fused-dims",
        P,
        on(),
        KvStoreFacts(function="quant_store_kv_mxfp8", page_size=96, heads=1, head_dim=64),
    ),
    (
        "kv-fused-dims",
        S,
        on(),
        KvStoreFacts(function="quant_store_kv_mxfp8", page_size=96, heads=1, head_dim=80),
    ),
    ("kv-hicache-asym", S, on(), HostPoolFacts(head_dim=192, v_head_dim=128)),
    ("kv-host-flat", S, on(), HostPoolFacts(mxfp8=False, scales="token")),
    ("kv-host-flat", P, on(), HostPoolFacts(mxfp8=False, scales=None)),
    ("fa4-v-even", P, on(), AttentionFacts(v_head_dim=64)),
    ("fa4-v-even", S, on(), AttentionFacts(v_head_dim=96)),
    ("fa4-arch", S, on("h200"), AttentionFacts()),  # block scales want 10.x or 11.x
    ("fa4-arch", P, on("h200"), AttentionFacts(sfq_dtype=None, sfk_dtype=None, sfv_dtype=None)),
    ("fa4-sf-tma", P, on(), AttentionFacts(page_size=64)),  # gathered without TMA
    ("fa4-sf-tma", S, on(), AttentionFacts(page_size=64, tile_n=64)),
    ("fa4-sf-pair", S, on(), AttentionFacts(sfk_dtype=None)),
    ("fa4-paged-v", S, on(), AttentionFacts(sfv_dtype=None, v_dtype="bfloat16")),
    ("fa4-paged-v", N, on(), AttentionFacts(sfv_dtype=None, page_size=None)),
    ("silent-fa4-256", Q, on(), AttentionFacts(head_dim=256, v_head_dim=256)),
]


@pytest.mark.parametrize(
    "scene", STEP_SCENES, ids=[f"{s[0]}-{s[1].value}-{i}" for i, s in enumerate(STEP_SCENES)]
)
def test_step(scene: tuple[str, Status, Deployment, Any]) -> None:
    id, status, deployment, step = scene
    verdict = next(v for v in check(deployment, step=step) if v.guard == id)
    assert verdict.status is status, verdict.because
    assert verdict.because


CT: dict[str, Any] = {
    "config": {
        "quant_method": "compressed-tensors",
        "config_groups": {"group_0": {"weights": {"block_structure": [128, 128]}}},
    }
}
BARE: dict[str, Any] = {"config": None}
DIFFUSION = on(quantization="mxfp8", settings={"diffusion": True})

#: the same for layers, experts, caches and arguments
SCENES: list[tuple[str, Status, Deployment, dict[str, Any]]] = [
    ("cvt-required", Q, on("mi300x"), lin()),
    ("cvt-required", P, on("b200"), lin()),
    ("cvt-required", N, on("mi300x"), {**lin(), "config": BLOCK}),
    ("requant-ue8m0", Q, on(fp8_gemm_backend="deep_gemm"), {**lin(), "config": BLOCK}),
    ("requant-ue8m0", P, on("h200"), {**lin(), "config": BLOCK}),
    ("requant-ue8m0", P, on(fp8_gemm_backend="deep_gemm"), {**lin(96, 128), "config": BLOCK}),
    ("moe-mega-fp8", S, on(moe_runner_backend="flashinfer_megamoe"), {**moe(), "config": BLOCK}),
    ("moe-mega-fp8", P, on(moe_runner_backend="flashinfer_megamoe"), moe()),
    ("moe-runner-unsupported", S, on(moe_runner_backend="marlin"), {**moe(), "config": BLOCK}),
    ("moe-runner-unsupported", P, on(), {**moe(), "config": BLOCK}),
    ("old-triton-k", P, on(), lin(128, 160)),
    ("lin-tp-ct", P, on(tp=2), lin(384, 256, shard="column") | CT),
    ("lin-tp-ct", S, on(tp=2), lin(320, 256, shard="column") | CT),
    ("lin-tp-ct", S, on(tp=2), lin(384, 320, shard="row") | CT),
    ("lin-tp-ct", P, on(), lin(320, 256, parts=(256, 64)) | CT),  # the last part may
    ("lin-tp-ct", S, on(), lin(320, 256, parts=(64, 256)) | CT),
    ("lin-tp-ct", N, on(), lin(320, 256, parts=(64, 256))),
    ("arg-mega-dp", P, mega(8, 8), {}),
    ("arg-mega-dp", S, mega(8, 4), {}),
    ("arg-mega-dp", S, mega(1, 1), {}),
    ("arg-a2a-topology", P, mega(8, 8, "flashinfer"), {}),
    ("arg-a2a-topology", S, mega(8, 4, "flashinfer"), {}),
    ("arg-a2a-topology", S, mega(1, 1, "flashinfer"), {}),
    ("arg-a2a-topology", P, muse(8), {}),
    ("arg-a2a-topology", S, muse(2), {}),
    ("kv-page-div", P, kv8(page_size=128), slots(1024)),
    ("kv-page-div", S, kv8(page_size=128), slots(1088)),
    ("kv-page-div", N, kv8("rtx5090", page_size=64), slots(1088)),
    ("kv-shard", S, kv8(settings={"enable-kv-cache-sharding": True}), {}),
    ("kv-shard", N, on(settings={"enable-kv-cache-sharding": True}), {}),
    ("kv-mtp-shard", P, kv8(settings={"enable-kv-cache-sharding": True}), {}),
    (
        "kv-mtp-shard",
        S,
        kv8(settings={"enable-kv-cache-sharding": True, "mtp-layers": True}),
        {},
    ),
    ("kv-pd-tp", S, kv8(tp=8, settings={"disaggregation-peer-attn-tp": 4}), {}),
    (
        "kv-pd-tp",
        P,
        kv8(tp=8, settings={"disaggregation-peer-attn-tp": 4, "attn-dp-size": 2}),
        {},
    ),
    ("kv-e8m0", S, kv8(settings={"torch": "2.6.0"}), kv()),
    ("kv-e8m0", P, kv8(settings={"torch": "2.13.0"}), kv()),
    ("ink-cu-t", P, on(), ink(tokens=6, batch=2, q_num=3)),
    ("ink-cu-t", S, on(), ink(tokens=7, batch=2, q_num=3)),
    ("ink-cu-t", N, on(), ink("decode", tokens=7)),
    ("ink-cu-kvalign", P, on(), ink(k_stride=1056)),
    ("ink-cu-kvalign", S, on(), ink(k_stride=1048)),
    ("ink-cu-bf16align", P, on(), ink(mxfp8=False, k_stride=1048)),
    ("ink-cu-bf16align", S, on(), ink(mxfp8=False, k_stride=1044)),
    ("ink-cu-sfdtype", S, on(), ink(sf_dtype="float8_e8m0fnu")),
    ("ink-cu-si", P, on(), ink("extend", tokens=3, si_size=4)),
    ("ink-cu-si", S, on(), ink("extend", tokens=3, si_size=2)),
    (
        "dif-online",
        Q,
        DIFFUSION,
        {**lin(72, 64), "config": None},
    ),
    (
        "dif-online",
        P,
        DIFFUSION,
        {**lin(80, 64), "config": None},
    ),
]


@pytest.mark.parametrize(
    "scene", SCENES, ids=[f"{s[0]}-{s[1].value}-{i}" for i, s in enumerate(SCENES)]
)
def test_scene(scene: tuple[str, Status, Deployment, dict[str, Any]]) -> None:
    id, status, deployment, subjects = scene
    verdict = next(v for v in check(deployment, **subjects) if v.guard == id)
    assert verdict.status is status, verdict.because


def test_scenes_show_both_sides() -> None:
    for scenes in (STEP_SCENES, SCENES):
        for id in {scene[0] for scene in scenes}:
            seen = {scene[1] for scene in scenes if scene[0] == id}
            assert seen & {S, F, Q} or id.startswith("old-")


def test_messages_of_the_prologue_name_the_variant() -> None:
    for function in ("verify", "decode", "extend"):
        word = "fused" if function == "verify" else f"fused {function}"
        found = {v.guard: v for v in check(on(), **ink(function, do_store=False))}
        assert found["ink-cu-store"].message == f"MXFP8 {word} prologue requires do_store=True"
    late = {
        v.guard: v.message for v in check(on(), **ink(tokens=2, tau_dtype="float32", tau_size=1))
    }
    assert late["ink-cu-tau"] == "log_tau smaller than T"


def test_a_notice_does_not_degrade() -> None:
    """FA4's page size 128 that becomes 128, and a speed notice, change nothing."""
    same = kv8(attention_backend="fa4", page_size=128)
    found = {v.guard: v for v in check(same, config=MXFP8, **kv())}
    assert found["kv-fa4-page"].status is W
    assert not found["kv-fa4-page"].degrades
    other = {v.guard: v for v in check(replace(same, page_size=64), **kv())}
    assert other["kv-fa4-page"].degrades
    slow = {v.guard: v for v in check(on("rtx5090"), config=MXFP8)}["cfg-not-optimized"]
    assert (slow.status, slow.degrades) == (W, False)
    assert doctor("Llama-3.1-8B", on("rtx5090", quantization="mxfp8")).outcome == "runs"


@pytest.mark.parametrize(
    ("gpu", "quantization", "word"),
    [
        ("t4", "mxfp8", "16 bits"),
        ("t4", "fp8", "capability 8.0"),
        ("a100", "mxfp8", "SM80 to SM89"),
        ("l40s", "mxfp8", "SM80 to SM89"),
        ("h200", "mxfp8", "on Hopper"),
    ],
)
def test_capability_advice_is_for_the_gpu_at_hand(gpu: str, quantization: str, word: str) -> None:
    found = check(Deployment(gpu=gpu, quantization=quantization))
    verdict = next(v for v in found if v.guard == "cfg-min-capability")
    assert any(word in fix for fix in verdict.fixes)
    assert any("Hopper" in fix for fix in verdict.fixes) == (gpu == "h200")


def test_what_does_not_divide_is_a_row() -> None:
    report = doctor("Mixtral-8x7B", on(tp=3), suggest=False)
    assert report.first_stop is not None
    _, stop = report.first_stop
    assert (stop.guard, stop.message) == ("tp-divides", "")  # the model asserts heads itself
    widths = facts(on(tp=3), **lin(indivisible="intermediate_size=14336 not divisible by 3"))
    found = guard("tp-divides").check(widths)
    row = guard("tp-divides")
    assert fill(row.messages[0], found.values) == "14336 is not divisible by 3"
    experts = next(row for row in report.layers if row.linear.kind == "moe")
    assert [v.guard for v in experts.verdicts] == ["moe-tp-div"]
    assert experts.verdicts[0].fixes[0].startswith("--tp-size that divides")


@pytest.mark.parametrize(
    "bad",
    [
        load(target="scales"),
        load(n=-1),
        load(loaded_dtype="u8"),
        load(k=2**80),
        load(loaded_shape=(1,) * 99),
        load(loaded_shape="8x8"),
        call("deep_gemm", block=()),
        call("deep_gemm", block=(1, 32, 1)),
        call("cutlass", scale_shapes=((1, 2, 3),)),
        call("marlin"),
        HostPoolFacts(draft=1),  # type: ignore[arg-type]
        scale("mxfp8", 1, 32, 32, 1, 1, values=(1.0, 2.0)),
        scale("mxfp8", 1, 32, 32, 1, 1, values=("x",)),
        scale("mxfp8", 1, 32, 0, 1, 1),
        object(),
        None,
    ],
)
def test_bad_steps_are_one_line(bad: Any) -> None:
    with pytest.raises(InputError) as caught:
        check_step(bad)
    assert "\n" not in str(caught.value)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    "change",
    [{"tokens": -1}, {"tokens": "3"}, {"do_store": 1}, {"offsets": (0, "1")}, {"kv_dtype": "fp8"}],
)
def test_bad_prologues_are_one_line(change: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="prologue"):
        check(on(), **ink(**change))


def test_every_step_has_rows() -> None:
    subjects = {row.subject for row in GUARDS}
    assert len({step.subject for step in STEPS}) == len(STEPS) == 8
    assert {step.subject for step in STEPS} < subjects


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"attn-dp": 8}, "did you mean 'attn-dp-size'"),
        ({"attn-dp-size": True}, "expected a whole number"),
        ({"attn-dp-size": -2}, "expected -1 to"),
        ({"diffusion": 1}, "expected True or False"),
        ({"torch": "x" * 99}, "expected a short text"),
        ({"Diffusion": True}, "lower case"),
        ([], "expected names and values"),
    ],
)
def test_bad_settings_are_one_line(settings: Any, text: str) -> None:
    with pytest.raises(InputError, match=text):
        check(Deployment(gpu="b200", settings=settings))


def test_no_packages_leaves_the_steps_as_they_are() -> None:
    """A step is asked with whatever deployment there is; nothing else stops it."""
    found = check(on(packages=NO_PACKAGES), step=HostPoolFacts())
    hosts = [v for v in found if v.guard.startswith(("kv-hicache", "kv-host"))]
    assert len(hosts) == 9
    assert all(v.status is not S for v in hosts)
