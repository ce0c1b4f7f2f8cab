"""Public field reports about guards: the input of each, our verdict, the numbers of its reason."""

from typing import Any

import pytest

from mxlab.explain import explain
from mxlab.guards import (
    CallFacts,
    Deployment,
    ExpertFacts,
    KvCacheFacts,
    LinearFacts,
    Status,
    Verdict,
    check,
    guard,
)
from mxlab.layout import layout

BLOCK = {"quant_method": "fp8", "weight_block_size": [128, 128]}


def ask(
    system: str, gpu: str, call: CallFacts | None = None, *, flags: Any = None, **subjects: Any
) -> dict[str, Verdict]:
    deployment = Deployment(system=system, gpu=gpu, **(flags or {}))
    if call is not None:
        subjects["call"] = call
    return {verdict.guard: verdict for verdict in check(deployment, **subjects)}


def first(verdicts: dict[str, Verdict]) -> str:
    return next((v.guard for v in verdicts.values() if v.status is Status.STOPS), "")


def stops(verdicts: dict[str, Verdict], id: str, *numbers: str) -> Verdict:
    verdict = verdicts[id]
    assert verdict.status is Status.STOPS, verdict
    for number in numbers:
        assert number in verdict.because, verdict.because
    assert verdict.fixes
    return verdict


@pytest.mark.parametrize(
    "system, function", [("torch", "_scaled_mm"), ("cublaslt", "cublasLtMatmul")]
)
def test_16_row_major_scales_in_a_tiled_kernel(system: str, function: str) -> None:
    """vllm#42118: garbage, and the server looked healthy."""
    tiles, linear = layout("tile_128x4"), layout("linear")
    assert [tiles.offset(r, c, 128, 4) for r, c in ((1, 0), (32, 0), (127, 3))] == [16, 4, 511]
    assert [linear.offset(r, c, 128, 4) for r, c in ((1, 0), (32, 0))] == [4, 128]
    alike = [
        row
        for row in range(128)
        if all(tiles.offset(row, c, 128, 4) == linear.offset(row, c, 128, 4) for c in range(4))
    ]
    assert len(alike) == 2
    call = CallFacts(function=function, m=128, n=128, k=128, scale_layout="linear")
    verdicts = ask(system, "b200", call)
    silent = verdicts[f"{system}-silent-layout"]
    assert silent.status is Status.SILENT
    assert "128 x 4 scales are 512 bytes in both" in silent.because
    assert first(verdicts) == ""  # nothing stops: this is the trap
    told = CallFacts(function=function, m=128, n=128, k=128, scale_layout="tile_128x4")
    assert ask(system, "b200", told)[f"{system}-silent-layout"].status is Status.PASSES


def test_21_v2_wants_swizzled_scales() -> None:
    """ao#4929: NO_SWIZZLE is refused on CUDA, asked for on ROCm before 7.14."""
    call = CallFacts(function="scaled_mm", m=256, n=512, k=256, scale_layout="linear")
    cuda = ask("torch", "b200", call)
    text = stops(cuda, "torch-v2-swizzle", "NO_SWIZZLE").message
    assert text == "scale_a must be swizzled to SWIZZLE_32_4_4 format"
    assert any("interleave" in fix for fix in cuda["torch-v2-swizzle"].fixes)
    assert first(ask("torch", "mi355x", call)) == ""
    newer = ask("torch", "mi355x", call, flags={"toolkit": "7.14"})
    assert newer["torch-rocm-swizzle"].status is Status.STOPS
    odd = CallFacts(function="scaled_mm", m=130, n=512, k=272, a_scale_shape=(9 * 130,))
    short = ask("torch", "b200", odd)["torch-v2-count"]
    assert short.message == "For Blockwise scaling scale_a should have 3072 elements, got: 1170"
    assert 256 * 12 == 3072  # round_up(M, 128) * round_up(ceil(K / 32), 4)


@pytest.mark.parametrize("n", [32, 64, 96])
def test_27_below_the_minimum_of_mm_mxfp8(n: int) -> None:
    """vllm#54223: the layer is good, this kernel does not take it."""
    call = CallFacts(function="init_mxfp8_linear_kernel", m=6, n=n, k=1024)
    old = ask("vllm", "b200", call, flags={"version": "0.29.0"})
    stops(old, "vllm-mx-minimum", f"N = {n}")
    assert old["vllm-mx-minimum"].stage == "S8"  # after the weights were read
    assert old["vllm-mx-k32"].because == "K = 1024 % 32 = 0, next 1024"
    new = ask("vllm", "b200", call)
    assert new["vllm-mx-minimum"].status is Status.FALLS_BACK
    assert "padded: N 128, K 1024" in new["vllm-mx-minimum"].because
    assert "Marlin" in new["vllm-mx-fallback"].message
    assert layout("tile_128x4").nbytes(n, 32) == layout("tile_128x4").nbytes(128, 32) == 4096
    assert layout("linear").nbytes(32, 32) == 1024


@pytest.mark.parametrize(
    "size, tp, remainder, shown",
    [(512, 8, 64, "64 % 128 = 64"), (1536, 8, 64, "192 % 128 = 64"), (18432, 32, 64, "576 % 128")],
)
def test_30_shards_smaller_than_a_block(size: int, tp: int, remainder: int, shown: str) -> None:
    """vllm#52997, sglang#23265: the block is 128; MXFP8's would be 32."""
    shard = size // tp
    assert shard % 128 == remainder
    assert shard % 32 == 0
    row = LinearFacts("down_proj", 4096, shard, "row")
    found = ask("vllm", "h200", flags={"tp": tp}, config=BLOCK, linear=row)
    text = stops(found, "vllm-block-row", shown).message
    assert text == (
        f"Weight input_size_per_partition = {shard} is not divisible by weight quantization "
        "block_k = 128."
    )
    moe = ExpertFacts(4096, shard, 64, moe_tp=tp)
    experts = ask("vllm", "h200", flags={"tp": tp}, config=BLOCK, experts=moe)
    stops(experts, "vllm-moe-block-n", shown)
    legal = max(t for t in (1, 2, 4, 8, 16, 32) if size % t == 0 and size // t % 128 == 0)
    wide = ExpertFacts(4096, size // legal, 64, moe_tp=legal)
    assert first(ask("vllm", "h200", flags={"tp": legal}, config=BLOCK, experts=wide)) == ""
    assert legal < tp
    online = {"tp": tp, "quantization": "mxfp8"}
    assert first(ask("vllm", "b200", flags=online, experts=moe)) == ""


def test_34_a_layout_and_no_quantisation() -> None:
    """vllm#41360: 768 / 8 = 96, 16-bit experts."""
    experts = ExpertFacts(2048, 96, 128, moe_tp=8, quantized=False, why_not="BF16 weights")
    verdict = ask("vllm", "b200", flags={"tp": 8}, experts=experts)["vllm-moe-trtllm-tiles"]
    assert verdict.status is Status.SILENT
    for part in ("96 % 32 = 0", "96 % 64 = 32", "96 % 128 = 96", "not a quantisation format"):
        assert part in verdict.because
    assert "padded to 128" in verdict.because
    assert ask("vllm", "h200", experts=experts)["vllm-moe-trtllm-tiles"].status is (
        Status.NOT_REACHED
    )


def test_35_three_products_three_lengths() -> None:
    """torchtitan#1703: the router stops in the backward pass only."""
    router = CallFacts(
        function="_to_mxfp8_then_scaled_mm", m=65536, n=16, k=5120, backend="emulated"
    )
    training = ask("torchao", "cpu", router)
    assert first(training) == "ao-train-dgrad"
    assert stops(training, "ao-train-dgrad", "N = 16 % 32 = 16").message == (
        "the last dimension of shape torch.Size([65536, 16]) must be divisible by block_size 32"
    )
    assert training["ao-k32"].status is Status.PASSES
    assert training["ao-train-wgrad"].status is Status.PASSES
    inference = CallFacts(function="MXDynamicActivationMXWeightConfig", m=65536, n=16, k=5120)
    assert first(ask("torchao", "b200", inference)) == ""


def test_37_every_guard_of_the_path_at_once() -> None:
    """TransformerEngine#2966: 32 first, then 128."""
    splits = (44, 20, 0, 64)
    grouped = CallFacts(function="GroupedLinear", m=128, n=256, k=256, groups=splits)
    verdict = stops(ask("transformer_engine", "b300", grouped), "te-group-align", "44 % 32 = 12")
    assert "[64, 32, 0, 64]" in verdict.because
    assert "[128, 128, 0, 128]" in verdict.because
    assert verdict.message.endswith("divisible by 32 (got shape=(44,256))")
    padded = CallFacts(function="ForwardGroupedMLP", m=160, n=256, k=256, groups=(64, 32, 0, 64))
    fused = stops(ask("transformer_engine", "b300", padded), "te-fused-tokens", "160 % 128 = 32")
    assert fused.message == ("Unsupported input shape for fused grouped MLP (in_shape=[160, 256]).")
    torchao = CallFacts(
        function="_to_mxfp8_then_scaled_grouped_mm", m=128, n=256, k=256, groups=splits
    )
    assert ask("torchao", "b200", torchao)["ao-grouped-splits"].status is Status.SILENT


@pytest.mark.parametrize("tp, fine", [(8, False), (4, False), (2, True), (1, True)])
def test_38_a_limit_of_the_library(tp: int, fine: bool) -> None:
    """ROCm/Megatron-LM#130: 11008 / TP on gfx950; the same passes on SM100."""
    k = 11008 // tp
    call = CallFacts(function="Linear", m=4096, n=4096, k=k)
    amd = ask("transformer_engine", "mi355x", call)
    assert (first(amd) == "") is fine
    if not fine:
        stops(amd, "te-rocm-k128", f"K = {k} % 128 = {k % 128}")
        assert amd["te-rocm-k128"].message == (
            f"GEMM K dimension must be multiple of 128 for MXFP8 scaling (got K={k})"
        )
    assert first(ask("transformer_engine", "b200", call)) == ""
    assert [1376 % of for of in (32, 64, 128)] == [0, 32, 96]


@pytest.mark.parametrize("gpu", ["rtxpro6000", "gb10", "b200", "b300"])
def test_45_blackwell_is_two_things(gpu: str) -> None:
    """TransformerEngine#2304."""
    call = CallFacts(function="Linear", m=4096, n=4096, k=4096, training=True)
    verdicts = ask("transformer_engine", gpu, call)
    if gpu.startswith("b"):
        assert first(verdicts) == ""
        return
    verdict = stops(verdicts, "te-sm120", "12.1" if gpu == "gb10" else "12.0")
    assert verdict.message == (
        "MXFP8 (for all gemm layouts) is not supported on 12.0+ architectures yet."
    )
    assert verdict.version == "2.20.2"


def test_46_operand_layout_is_an_input() -> None:
    """pytorch#198126: TN runs on 12.x, NT does not until cuBLAS 13.6.0."""
    shape: dict[str, Any] = {"function": "_scaled_mm", "m": 4096, "n": 3072, "k": 3072}
    tn, nt = CallFacts(**shape), CallFacts(**shape, b_layout="row")
    assert first(ask("torch", "rtx5090", tn)) == ""
    stopped = stops(ask("torch", "rtx5090", nt), "torch-tn-sm12x", "A row-major, B row-major: NN")
    assert "CUBLAS_STATUS_NOT_SUPPORTED" in stopped.message
    assert first(ask("torch", "b200", nt)) == ""
    newer = ask("torch", "rtx5090", nt, flags={"toolkit": "13.4"})
    assert first(newer) == ""
    update = ask("torch", "rtx5090", nt, flags={"toolkit": "13.3"})
    assert update["torch-tn-sm12x"].status is Status.UNKNOWN


@pytest.mark.parametrize(
    "gpu, fine", [("t4", False), ("a100", False), ("a10", False), ("l40s", True), ("h200", True)]
)
def test_48_e4m3_in_triton_needs_8_9(gpu: str, fine: bool) -> None:
    """sglang#5871: 8.9, not 9.0."""
    call = CallFacts(function="dot_scaled", m=128, n=128, k=128)
    verdicts = ask("triton", gpu, call)
    assert (first(verdicts) == "") is fine
    text = guard("triton-fp8-arch").messages[0]
    found = {match.guard.id for match in explain(f"ValueError('{text}')").matches}
    assert found & {"triton-fp8-arch", "moe-fp8-triton"}  # SGLang's row quotes Triton


def test_49_native_or_emulated() -> None:
    """triton#7550: a successful run proves nothing; the generated code does."""
    call = CallFacts(function="dot_scaled", m=128, n=128, k=128)
    seen = {}
    for gpu in ("rtx5090", "gb10", "h200", "b200", "mi300x", "mi355x"):
        for version in ("3.9.0", "3.6.0"):
            verdicts = ask("triton", gpu, call, flags={"version": version})
            seen[gpu, version] = verdicts["triton-emulated"]
    assert seen["rtx5090", "3.9.0"].status is Status.PASSES
    assert "mxf8f6f4.block_scale" in seen["rtx5090", "3.9.0"].because
    assert seen["h200", "3.9.0"].status is Status.SILENT
    assert "bfloat16" in seen["h200", "3.9.0"].because
    assert seen["gb10", "3.6.0"].status is Status.SILENT  # SM121 was forgotten there
    assert seen["gb10", "3.9.0"].status is Status.PASSES
    assert seen["mi300x", "3.6.0"].status is Status.NOT_REACHED  # it does not compile
    small = CallFacts(function="dot_scaled", m=64, n=128, k=128)
    assert ask("triton", "b200", small)["triton-emulated"].status is Status.SILENT


def test_51_where_the_package_can_be_imported() -> None:
    """ao#3598: a CPU, SM90, torch 2.6."""
    grouped = CallFacts(function="_to_mxfp8_then_scaled_grouped_mm", m=64, n=64, k=64)
    emulated = CallFacts(
        function="_to_mxfp8_then_scaled_grouped_mm", m=64, n=64, k=64, backend="emulated"
    )
    for gpu in ("cpu", "h200"):
        verdicts = ask("torchao", gpu, grouped)
        assert verdicts["ao-import-dtype"].status is Status.PASSES
        stops(verdicts, "ao-grouped-sm100")
        assert first(ask("torchao", gpu, emulated)) == ""
    old = ask("torchao", "b200", grouped, flags={"env": {"TORCH_VERSION": "2.6.0"}})
    verdict = stops(old, "ao-import-dtype", "torch 2.6, 2.7 has E8M0")
    assert verdict.message == "module 'torch' has no attribute 'float8_e8m0fnu'"
    assert "mxlab needs no such dtype: its scales are uint8 bytes" in verdict.fixes


def test_52_two_formats_in_one_package() -> None:
    """ROCm/TransformerEngine#539: 1x32 E8M0, and 1x128 float32."""
    mx = CallFacts(function="Linear", m=4096, n=4096, k=4096)
    assert first(ask("transformer_engine", "mi355x", mx)) == ""
    cast = CallFacts(
        function="fp8_block_scaling_partial_cast", m=4096, n=4096, k=4096, recipe=(1, 1, 32)
    )
    verdict = stops(ask("transformer_engine", "mi355x", cast), "te-block-len", "block_len 32")
    assert verdict.message == "Currently only block_len = 128 is supported"
    assert "block FP8 (1x128, 128x128)" in verdict.because
    assert "MXFP8's blocks are 1x32" in verdict.because


@pytest.mark.parametrize(
    "k, v, id, status",
    [
        (0.05, 0.08, "vllm-kv-scale-pair", Status.PASSES),
        (None, None, "vllm-kv-scale-default", Status.WARNS),
        (0.05, None, "vllm-kv-scale-number", Status.PASSES),
        (None, 0.08, "vllm-kv-scale-pair", Status.STOPS),
        (0.0, float("nan"), "vllm-kv-scale-pair", Status.STOPS),
        (0.05, float("nan"), "vllm-kv-scale-number", Status.SILENT),
        (0.05, float("inf"), "vllm-kv-scale-number", Status.SILENT),
    ],
)
def test_64_scales_of_the_cache(k: float | None, v: float | None, id: str, status: Status) -> None:
    """vllm#46265: both, none, one, and what no scale may be."""
    kv = KvCacheFacts(128, 128, 8, k_scale=k, v_scale=v)
    flags = {"kv_cache_dtype": "fp8_e4m3"}
    assert ask("vllm", "h200", flags=flags, kv_cache=kv)[id].status is status


def test_65_the_effective_scale_is_stated() -> None:
    """sgl-cookbook#237: FP8 weights do not bring KV scales."""
    flags = {"kv_cache_dtype": "fp8_e4m3"}
    verdict = ask("vllm", "h200", flags=flags, kv_cache=KvCacheFacts(128, 128, 8))
    found = verdict["vllm-kv-scale-default"]
    assert found.status is Status.WARNS
    assert found.because == (
        "k_scale = v_scale = 1.0: values above 448 clip, values to 2^-10 become 0"
    )
    assert "1.0 for fp8_e4m3" in found.message
    plain = ask("vllm", "h200", kv_cache=KvCacheFacts(128, 128, 8))
    assert plain["vllm-kv-scale-default"].status is Status.NOT_REACHED


def test_67_format_and_storage_are_two_fields() -> None:
    """vllm#38822: a uint8 cache is taken for NVFP4."""
    decode = "trtllm_batch_decode_with_kv_cache"
    stored = CallFacts(function=decode, m=1, n=8, k=512, b_dtype="uint8")
    verdict = stops(ask("flashinfer", "b200", stored), "fi-kv-uint8", "512 bytes", "256")
    assert verdict.message == "kv_cache_sf must be provided for NVFP4 KV cache."
    viewed = CallFacts(function=decode, m=1, n=8, k=512, b_dtype="float8_e4m3fn")
    assert ask("flashinfer", "b200", viewed)["fi-kv-uint8"].status is Status.PASSES
