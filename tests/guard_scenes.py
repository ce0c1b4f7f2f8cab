"""Deployments and subjects under which the rows that issue 2 names pass, trip or are missed."""

from typing import Any

from mxlab.guards import (
    ConfigFacts,
    Deployment,
    ExpertFacts,
    KvCacheFacts,
    LinearFacts,
    PrologueFacts,
    Status,
    scale_shape,
)

MXFP8 = {"quant_method": "mxfp8", "activation_scheme": "dynamic", "weight_block_size": [1, 32]}
BLOCK = {"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [128, 128]}
ONLINE = Deployment(gpu="b200", quantization="mxfp8")
NO_PACKAGES: frozenset[str] = frozenset()
HEADS = KvCacheFacts(128, 128, 8)


def lin(n: int = 1024, k: int = 1024, **more: Any) -> dict[str, Any]:
    return {"linear": LinearFacts("linear", n, k, **more), "config": MXFP8}


def moe(hidden: int = 1024, inter: int = 1024, **more: Any) -> dict[str, Any]:
    return {"experts": ExpertFacts(hidden, inter, 8, **more), "config": MXFP8}


def kv(head_dim: int = 128, v_head_dim: int = 128) -> dict[str, Any]:
    return {"kv_cache": KvCacheFacts(head_dim, v_head_dim, 8)}


def ink(function: str = "verify", **more: Any) -> dict[str, Any]:
    shape = scale_shape(512, 128, 1024)
    values: dict[str, Any] = {"dq": 1024, "dkv": 1024, "slots": 512, "page_size": 128}
    values |= {"sfk_shape": shape, "sfv_shape": shape} | more
    return {"prologue": PrologueFacts(function, **values)}


def on(gpu: str = "b200", **flags: Any) -> Deployment:
    return Deployment(gpu=gpu, **flags)


def dg(gpu: str = "b200", **flags: Any) -> Deployment:
    return Deployment(gpu=gpu, fp8_gemm_backend="deep_gemm", **flags)


def fi(kernel: str, gpu: str = "b200", **flags: Any) -> Deployment:
    return Deployment(gpu=gpu, fp8_gemm_backend=f"flashinfer_{kernel}", **flags)


def trtllm(gpu: str = "b200", **flags: Any) -> Deployment:
    return Deployment(gpu=gpu, moe_runner_backend="flashinfer_trtllm", **flags)


def kv8(gpu: str = "b200", **flags: Any) -> Deployment:
    return Deployment(gpu=gpu, kv_cache_dtype="mxfp8", **flags)


def config(**changes: Any) -> dict[str, Any]:
    values = {**MXFP8, **changes}
    return {"config": {key: value for key, value in values.items() if value != "absent"}}


def built(**arguments: Any) -> dict[str, Any]:
    return {"config": ConfigFacts(arguments, constructor=True)}


FUSED_OFF = {"SGLANG_OPT_INKLING_MXFP8_FUSED_QUANT_STORE": "0"}
INKLING = "InklingForConditionalGeneration"
P, S, F, W = Status.PASSES, Status.STOPS, Status.FALLS_BACK, Status.WARNS
N, Q = Status.NOT_REACHED, Status.SILENT

#: guard, status, deployment, subjects: the rows that issue 2 names
SCENES: list[tuple[str, Status, Deployment, dict[str, Any]]] = [
    ("wsp-deepgemm", P, dg("h200"), lin(64, 128)),
    ("wsp-deepgemm", S, dg("h200"), lin(96, 128)),
    ("wsp-deepgemm", S, dg("h200"), lin(64, 96)),
    ("wsp-deepgemm", S, dg("b200", packages=frozenset({"deep_gemm"})), lin(96, 128)),
    ("wsp-deepgemm", S, on("h200"), lin(96, 128)),  # chosen by auto
    ("wsp-deepgemm", F, dg("b200"), lin(96, 128)),
    ("wsp-deepgemm", F, dg("rtx5090"), lin(64, 96)),
    ("wsp-deepgemm", N, on("b200"), lin(96, 128)),
    ("wsp-deepgemm", N, dg("h200"), lin(96, 128, quantized=False, why_not="ignored")),
    ("res-trtllm", P, fi("trtllm"), lin()),
    ("res-trtllm", S, fi("trtllm", "rtx5090"), lin()),
    ("res-trtllm", S, fi("trtllm", toolkit="12.4"), lin()),
    ("res-trtllm", N, on(), lin()),
    ("res-cutedsl", P, fi("cutedsl", "b300"), lin()),
    ("res-cutedsl", S, fi("cutedsl", "thor"), lin()),
    ("res-cutedsl", N, on("mi300x", fp8_gemm_backend="flashinfer_cutedsl"), lin()),
    ("res-cutlass", P, fi("cutlass", "gb10"), lin()),
    ("res-cutlass", S, fi("cutlass", "h200"), lin()),
    ("res-cutlass", S, fi("cutlass", packages=NO_PACKAGES), lin()),
    ("res-cutlass", N, dg(), lin()),
    ("res-deepgemm", P, dg("h200"), lin()),
    ("res-deepgemm", S, dg("h200", packages=NO_PACKAGES), lin()),
    ("res-deepgemm", S, dg("h200", env={"SGLANG_ENABLE_JIT_DEEPGEMM": "0"}), lin()),
    ("res-deepgemm", S, dg("l40s"), lin()),
    ("res-deepgemm", N, on("h200"), lin()),
    ("cfg-key-missing", P, on(), config()),
    ("cfg-key-missing", S, on(), config(activation_scheme="absent")),
    ("cfg-key-missing", N, ONLINE, {}),
    ("cfg-act-scheme", P, on(), config(activation_scheme="static")),
    ("cfg-act-scheme", S, on(), config(activation_scheme="Dynamic")),
    ("cfg-act-scheme", N, on(), {"config": {"quant_method": "awq"}}),
    ("cfg-block-not-serialized", P, on(), config()),
    ("cfg-block-not-serialized", S, on(), built(weight_block_size=[128, 128])),
    ("cfg-block-not-serialized", N, on(), {"config": {"quant_method": "awq"}}),
    ("cfg-block-ndim", P, on(), {"config": BLOCK}),
    ("cfg-block-ndim", S, on(), {"config": {**BLOCK, "weight_block_size": [128]}}),
    ("cfg-block-ndim", N, on(), {"config": {**BLOCK, "weight_block_size": None}}),
    ("cfg-block-static", P, on(), config()),
    ("cfg-block-static", S, on(), config(activation_scheme="static")),
    ("cfg-block-static", N, ONLINE, {}),
    ("cfg-mxfp8-block", P, on(), built(use_mxfp8=True)),
    (
        "cfg-mxfp8-block",
        S,
        on(),
        built(use_mxfp8=True, is_checkpoint_fp8_serialized=True, weight_block_size=[1, 16]),
    ),
    ("cfg-mxfp8-block", N, on(), config(weight_block_size=[1, 16])),
    ("cfg-mxfp8-override", P, on(), config(weight_block_size="absent")),
    ("cfg-mxfp8-override", W, on(), config(weight_block_size=[1, 16])),
    ("cfg-mxfp8-override", N, on(), {"config": BLOCK}),
    ("cfg-min-capability", P, on("b200"), config()),
    ("cfg-min-capability", P, on("mi300x"), config()),
    ("cfg-min-capability", S, on("h200"), config()),
    ("cfg-min-capability", S, on("h200", quantization="mxfp8"), {}),
    ("cfg-min-capability", N, on("cpu"), config()),
    ("cfg-method-mismatch", P, on(quantization="mxfp8"), config()),
    ("cfg-method-mismatch", S, on(quantization="mxfp8"), {"config": BLOCK}),
    ("cfg-method-mismatch", S, on(quantization="fp8"), config()),
    ("cfg-method-mismatch", P, on(quantization="fp8", draft_model=True), config()),
    ("cfg-method-mismatch", N, on(), config()),
    ("cfg-act-dtype", P, on(dtype="half"), config()),
    ("cfg-act-dtype", S, on(dtype="float32"), config()),
    ("cfg-act-dtype", N, on(dtype="float32"), {}),
    ("cfg-not-optimized", P, on("b200"), config()),
    ("cfg-not-optimized", W, on("rtx5090"), config()),
    ("cfg-not-optimized", W, on("mi355x"), config()),
    ("cfg-not-optimized", N, on("rtx5090"), {}),
    ("lin-tp-row", P, on(tp=2), lin(64, 7392, shard="row")),
    ("lin-tp-row", S, on(tp=2), lin(64, 7400, shard="row")),
    ("lin-tp-row", N, on(tp=2), lin(64, 7400, shard="column")),
    ("lin-tp-row", N, on(tp=1), lin(64, 7400, shard="row")),
    ("lin-tp-col", P, on(tp=2), {**lin(256, 64, shard="column"), "config": BLOCK}),
    ("lin-tp-col", S, on(tp=2), {**lin(192, 64, shard="column"), "config": BLOCK}),
    ("lin-tp-col", S, on(), {**lin(192, 64, parts=(128, 64)), "config": BLOCK}),
    ("lin-tp-col", P, on(tp=2), lin(191, 64, shard="column")),  # a block of MXFP8 is one row high
    ("lin-tp-col", N, on(tp=2), {**lin(192, 64, shard="row"), "config": BLOCK}),
    ("fwd-unsupported", P, on(), lin()),
    ("fwd-unsupported", S, on(packages=NO_PACKAGES), lin()),
    ("fwd-unsupported", S, on("gfx1250"), lin()),
    ("fwd-unsupported", N, on("mi300x"), lin()),
    ("fwd-fi-k32", P, on(), lin(128, 160)),
    ("fwd-fi-k32", S, on(), lin(128, 168)),
    ("fwd-fi-k32", N, on("h200"), lin(128, 168)),
    ("fwd-dg-noswz", P, dg(), lin()),
    ("fwd-dg-noswz", S, dg(dtype="float16"), lin()),
    ("fwd-dg-noswz", S, dg("h200", dtype="float16"), lin()),
    ("fwd-dg-noswz", F, dg(dtype="float16"), lin(160, 1024)),
    ("fwd-dg-noswz", N, on(dtype="float16"), lin()),
    ("fi-mm-min", P, on(), lin(128, 128)),
    ("fi-mm-min", S, on(), lin(96, 128)),
    ("fi-mm-min", S, dg(), lin(96, 128)),  # DeepGEMM's fallback meets it too
    ("fi-mm-min", N, dg(), lin(64, 128)),
    ("fi-mm-size", P, fi("trtllm"), lin(128, 256)),
    ("fi-mm-size", S, fi("trtllm"), lin(128, 384)),
    ("fi-mm-size", S, fi("trtllm", dtype="float16"), lin(128, 256)),
    ("fi-mm-size", S, fi("cutlass", "rtx5090"), lin(144, 128)),
    ("fi-mm-size", N, fi("cutedsl"), lin(144, 128)),
    ("fi-mm-k32n32", P, fi("cutlass"), lin(160, 128)),
    ("fi-mm-k32n32", S, fi("cutlass"), lin(144, 128)),
    ("fi-mm-k32n32", S, on("thor"), lin(144, 128)),
    ("fi-mm-k32n32", N, on("b200"), lin(144, 128)),
    ("wsp-trtllm-n32", P, fi("trtllm"), lin(160, 128)),
    ("wsp-trtllm-n32", S, fi("trtllm"), lin(144, 128)),
    ("wsp-trtllm-n32", N, fi("cutlass"), lin(144, 128)),
    ("wsp-trtllm-cols", P, fi("trtllm"), lin(160, 128)),
    ("wsp-trtllm-cols", S, fi("trtllm"), lin(160, 160)),
    ("wsp-trtllm-cols", N, fi("cutlass"), lin(160, 160)),
    ("wsp-k32", P, dg(), lin(128, 160)),
    ("wsp-k32", S, dg(), lin(128, 168)),
    ("wsp-k32", S, fi("trtllm"), lin(128, 168)),
    ("wsp-k32", N, fi("cutlass"), lin(128, 168)),
    ("moe-hw", P, on("b200"), moe()),
    ("moe-hw", P, on("mi355x"), moe()),
    ("moe-hw", S, on("h200"), moe()),
    ("moe-hw", S, on("rtx5090"), moe()),
    ("moe-hw", S, on("thor"), moe()),
    ("moe-hw", N, on("mi300x"), moe()),
    ("moe-hw", N, on("h200"), {**moe(), "config": BLOCK}),
    ("arg-moe-runner-mxfp8", P, on(quantization="mxfp8", moe_runner_backend="deep_gemm"), {}),
    ("arg-moe-runner-mxfp8", W, on(quantization="mxfp8", moe_runner_backend="triton"), {}),
    (
        "arg-moe-runner-mxfp8",
        P,
        on("mi355x", quantization="mxfp8", moe_runner_backend="triton"),
        {},
    ),
    ("arg-moe-runner-mxfp8", N, on(moe_runner_backend="triton"), config()),
    (
        "arg-moe-runner-mxfp8",
        W,
        on(moe_runner_backend="triton", architecture="Qwen3MoeForCausalLM"),
        config(),
    ),
    ("kv-hw", P, kv8("b200"), {}),
    ("kv-hw", P, kv8("rtx5090"), {}),
    ("kv-hw", S, kv8("h200"), {}),
    ("kv-hw", S, kv8("b200", toolkit="12.4"), {}),
    ("kv-hw", N, on("h200"), {}),
    ("kv-fa4-page", W, kv8(attention_backend="fa4", page_size=64), kv()),
    ("kv-fa4-page", P, kv8("rtx5090", attention_backend="fa4", page_size=64), kv()),
    ("kv-fa4-page", N, kv8(attention_backend="triton"), kv()),
    ("kv-hd32", P, kv8(), kv(96)),
    ("kv-hd32", S, kv8(), kv(80)),
    ("kv-hd32", N, on(), kv(80)),
    ("kv-hd32", N, kv8(), {"kv_cache": KvCacheFacts(80, 80, 1, mla=True)}),
    ("kv-vhd32", P, kv8(), kv(128, 96)),
    ("kv-vhd32", S, kv8(), kv(128, 80)),
    ("kv-vhd32", N, on(), kv(128, 80)),
    ("kv-page128", P, kv8(page_size=128), kv()),
    ("kv-page128", P, kv8(page_size=64, attention_backend="fa4"), kv()),
    ("kv-page128", S, kv8(page_size=64), kv()),
    ("kv-page128", S, kv8("rtx5090", page_size=64, attention_backend="fa4"), kv()),
    ("kv-page128", S, kv8(), kv()),
    ("kv-page128", S, kv8(page_size=256, attention_backend="triton"), kv()),
    ("kv-no-scales", P, kv8(page_size=128), kv()),
    ("kv-no-scales", S, kv8(page_size=256, attention_backend="triton"), kv()),
    ("kv-no-scales", N, kv8(page_size=256, env=FUSED_OFF), kv()),
    ("kv-page128", N, on(page_size=64), kv()),
    ("kv-sf-dim4", P, kv8(page_size=128), kv()),
    ("kv-sf-dim4", S, kv8(page_size=128, env=FUSED_OFF), kv(64)),
    ("kv-sf-dim4", Q, kv8(page_size=128), kv(64)),
    ("kv-sf-dim4", N, on(page_size=128), kv(64)),
    ("fa4-required", P, kv8(attention_backend="fa4"), kv()),
    ("fa4-required", S, kv8(attention_backend="fa3"), kv()),
    ("fa4-required", N, kv8(attention_backend="triton"), kv()),
    ("fa4-qdescale", P, kv8(attention_backend="fa4", architecture=INKLING), kv()),
    ("fa4-qdescale", S, kv8(attention_backend="fa4", architecture="LlamaForCausalLM"), kv()),
    ("fa4-qdescale", N, kv8(attention_backend="fa3"), kv()),
    ("fa4-fp8-arch", P, kv8(attention_backend="fa4"), kv()),
    ("fa4-fp8-arch", S, kv8("rtx5090", attention_backend="fa4"), kv()),
    ("fa4-fp8-arch", N, on("rtx5090", attention_backend="fa4"), kv()),
    ("ink-py-dims", P, on(), ink()),
    ("ink-py-dims", S, on(), ink(dq=1000)),
    ("ink-py-dims", N, on(), ink(mxfp8=False, dq=1000)),
    ("ink-py-sf", P, on(), ink("decode")),
    ("ink-py-sf", S, on(), ink("decode", sfk_shape=None)),
    ("ink-py-sf", N, on(), ink(mxfp8=False, sfk_shape=None)),
    ("ink-py-shape", P, on(), ink("extend")),
    ("ink-py-shape", S, on(), ink("extend", page_size=64)),
    ("ink-py-shape", N, on(), ink(sfk_shape=None)),
    ("ink-py-contig", P, on(), ink()),
    ("ink-py-contig", S, on(), ink(sfv_contiguous=False)),
    ("ink-py-contig", N, on(), ink(mxfp8=False, sfv_contiguous=False)),
    ("silent-gemm-flag", P, on(), lin()),
    ("silent-gemm-flag", P, dg(), lin()),
    ("silent-gemm-flag", Q, on(fp8_gemm_backend="triton"), lin()),
    ("silent-gemm-flag", N, on(fp8_gemm_backend="triton"), {**lin(), "config": BLOCK}),
    ("silent-hopper-gate", Q, on("h200"), config()),
    ("silent-hopper-gate", N, on("b200"), config()),
    ("lin-fp8-marlin", P, on("l4"), {**lin(), "config": BLOCK}),
    ("lin-fp8-marlin", F, on("a100"), {**lin(), "config": BLOCK}),
    ("lin-fp8-marlin", F, on("a10", quantization="fp8"), {"linear": LinearFacts("x", 64, 64)}),
    ("lin-fp8-marlin", F, on(env={"SGLANG_FORCE_FP8_MARLIN": "1"}), {**lin(), "config": BLOCK}),
    ("lin-fp8-marlin", N, on("a100"), lin()),  # MXFP8: cfg-min-capability
    ("lin-fp8-marlin", N, on("mi300x"), {**lin(), "config": BLOCK}),
    ("moe-fp8-triton", P, on("h200"), {**moe(), "config": BLOCK}),
    ("moe-fp8-triton", S, on("a100"), {**moe(), "config": BLOCK}),
    ("moe-fp8-triton", N, on("a100"), moe()),
    ("moe-fp8-triton", N, on("a100", moe_runner_backend="cutlass"), {**moe(), "config": BLOCK}),
    ("moe-trtllm-arch", P, trtllm(), {**moe(), "config": BLOCK}),
    ("moe-trtllm-arch", S, trtllm("h200"), {**moe(), "config": BLOCK}),
    ("moe-trtllm-arch", S, trtllm("h200"), {"experts": ExpertFacts(1024, 1024, 8)}),
    ("moe-trtllm-arch", N, trtllm("h200"), moe()),  # MXFP8: moe-hw
    ("moe-trtllm-arch", N, trtllm("h200", packages=NO_PACKAGES), {**moe(), "config": BLOCK}),
    ("moe-trtllm-arch", N, on("h200"), {**moe(), "config": BLOCK}),
    ("moe-trtllm-nofi", P, on(moe_runner_backend="flashinfer_trtllm"), moe()),
    ("moe-trtllm-nofi", S, on("mi355x", moe_runner_backend="flashinfer_trtllm"), moe()),
    ("moe-trtllm-nofi", N, on(moe_runner_backend="deep_gemm"), moe()),
    ("silent-kv-latent", P, kv8(), kv()),
    ("silent-kv-latent", Q, kv8(), {"kv_cache": KvCacheFacts(192, 128, 1, mla=True)}),
    ("silent-kv-latent", N, on(), {"kv_cache": KvCacheFacts(192, 128, 1, mla=True)}),
    ("silent-kv-backend", P, kv8(attention_backend="fa4"), kv()),
    ("silent-kv-backend", Q, kv8(), kv()),
    ("silent-kv-backend", N, on(), kv()),
]
