"""Steps of a server (loads, scales, inputs, quantisers, stores) against recorded outcomes."""

from pathlib import Path
from typing import Any

import pytest
import torch
from guard_cases import all_cases, cases, deployments, gpus, kept, outcome_of

from mxlab.guards import (
    BlockScaleFacts,
    Deployment,
    GemmInputFacts,
    HostPoolFacts,
    KvStoreFacts,
    LinearFacts,
    LoadFacts,
    QuantizerFacts,
    Status,
    facts,
    guard,
)
from mxlab.guards.engine import fill
from mxlab.guards.linear import deep_gemm_serves, prepares_deep_gemm_input
from mxlab.guards.sglang_block_scale import block_fp8_scale_to_mxfp8_e8m0
from mxlab.guards.sglang_load import parameter_shape, source_index

MXFP8 = {"quant_method": "mxfp8", "activation_scheme": "dynamic", "weight_block_size": [1, 32]}
B200 = Deployment(gpu="b200")


def agrees(found: tuple[str, str, list[str]], outcome: dict[str, Any]) -> None:
    error, message, _ = found
    assert (error == "") == outcome["ok"], (found, outcome)
    if outcome.get("explicit"):
        assert (error, message) == (outcome["error"], outcome["message"])
    elif not outcome["ok"]:
        assert (error, message) == (outcome["error"], outcome["message"].splitlines()[0])


def _byte(load: LoadFacts, row: int, column: int) -> int:
    """The byte that the recorded tensor holds, and what a conversion by value makes of it."""
    place = source_index(load, row, column)
    if place is None:
        return 0
    stored = 118 + 7 * (place[0] * load.loaded_shape[1] + place[1]) % 20
    target = torch.uint8 if load.target == "scale" else torch.float8_e4m3fn
    dtype = getattr(torch, load.loaded_dtype)
    byte = torch.tensor([stored], dtype=torch.uint8)
    if dtype == torch.uint8:
        held = byte
    elif dtype.itemsize == 1:
        held = byte.view(dtype)  # the same bits
    elif load.target == "scale":
        held = torch.tensor([2.0 ** (stored - 127)]).to(dtype)
    else:
        held = byte.view(torch.float8_e4m3fn).to(dtype)
    return int(held.to(target).view(torch.uint8))


def _one_nan(load: LoadFacts, byte: int) -> int:
    """torch's casts give E4M3 NaN either sign, by the length of the tensor."""
    return 0x7F if load.target == "weight" and byte == 0xFF else byte


@pytest.mark.parametrize("case", cases("parameter.load"))
def test_load(case: dict[str, Any]) -> None:
    given, outcome = case["input"], case["outcome"]
    load = LoadFacts(
        target=given["target"],
        kind=given["kind"],
        n=given["n"],
        k=given["k"],
        loaded_shape=tuple(given["loaded_shape"]),
        loaded_dtype=given["loaded_dtype"],
        tp_rank=given["tp_rank"],
    )
    for deployment in deployments(case, tp=given["tp_size"])[:2]:
        asked = facts(deployment, step=load)
        rows = ("lin-load-range", "lin-scale-shape", "lin-copy-dtype", "lin-downcast")
        found = outcome_of(rows, asked)
        agrees(found, outcome)
        if not outcome["ok"]:
            continue
        n, k = parameter_shape(load)
        width = k if load.target == "scale" else min(k, 4)
        wanted = [[_one_nan(load, byte) for byte in row] for row in outcome["value"]["bytes"]]
        assert wanted == [
            [_one_nan(load, _byte(load, row, column)) for column in range(width)]
            for row in range(n)
        ]
        by_value = guard("silent-load-value").check(asked).status is Status.SILENT
        plain = load.loaded_dtype == ("uint8" if load.target == "scale" else "float8_e4m3fn")
        assert by_value == (not plain and load.kind != "column")


def test_a_scale_of_another_group_size_is_cut_or_padded_in_silence() -> None:
    """Groups of 16 give twice the columns, groups of 64 half: only row-parallel loads take them."""
    for columns, word in ((16, "never read"), (4, "become 0"), (8, "")):
        load = LoadFacts(
            target="scale",
            kind="row",
            n=128,
            k=128,
            loaded_shape=(128, columns),
            loaded_dtype="uint8",
        )
        found = guard("silent-load-width").check(facts(Deployment(gpu="b200", tp=2), step=load))
        assert (found.status is Status.SILENT) == bool(word)
        assert word in found.because


@pytest.mark.parametrize("case", cases("fp8_utils.block_fp8_scale_to_mxfp8_e8m0"))
def test_block_scales(case: dict[str, Any]) -> None:
    given, outcome = case["input"], case["outcome"]
    block_n, block_k = given["weight_block_size"]
    step = BlockScaleFacts(
        n=given["n"],
        k=given["k"],
        block_n=block_n,
        block_k=block_k,
        shape=tuple(given["scale_shape"]),
        values=tuple(float.fromhex(value) for value in given["scale_values"]),
    )
    for deployment in deployments(case)[:1]:
        asked = facts(deployment, step=step)
        said = []
        for id in ("blk2mx-k", "blk2mx-shape", "blk2mx-pow2"):
            row, found = guard(id), guard(id).check(asked)
            if found.status is Status.FALLS_BACK:
                said.append((row.error, fill(row.messages[found.message or 0], found.values)))
        assert len(said) <= 1
        assert (said == []) == outcome["ok"]
        if said:
            assert said[0] == (outcome["error"], outcome["message"])
        else:
            assert block_fp8_scale_to_mxfp8_e8m0(step)[::block_n] == outcome["value"]


def test_block_scales_by_hand() -> None:
    def found(id: str, *values: float) -> Status:
        step = BlockScaleFacts(
            n=64, k=32 * len(values), block_n=64, block_k=32, shape=(1, len(values)), values=values
        )
        return guard(id).check(facts(B200, step=step)).status

    smallest = 2.0**-126
    assert found("blk2mx-pow2", smallest, 2.0**127) is Status.PASSES
    for bad in (smallest / 2, 0.0, -1.0, float("nan"), float("-inf"), 1.5):
        assert found("blk2mx-pow2", 1.0, bad) is Status.FALLS_BACK
    assert found("blk2mx-pow2", float("inf")) is Status.PASSES
    assert found("silent-blk2mx-inf", float("inf")) is Status.SILENT
    assert found("silent-blk2mx-inf", 1.0) is Status.PASSES


def _scale(given: dict[str, Any]) -> dict[str, Any]:
    """The recorded form of a quantised activation's scale."""
    m, k = given["m"], given.get("k_input") or given["k"]
    shape, stride = (m, k // 128), (1, -(-m // 4) * 4)
    made = {
        "ok": ("int32", shape, stride),
        "wrong_shape": ("int32", (m, k // 128 + 1), stride),
        "wrong_stride": ("int32", shape, (k // 128 + 4, 1)),
        "float32": ("float32", shape, stride),
        "uint8": ("uint8", shape, stride),
    }[given["scale"]]
    return dict(zip(("scale_dtype", "scale_shape", "scale_stride"), made, strict=True))


@pytest.mark.parametrize("case", cases("fp8_utils.deepgemm_w8a8_mxfp8_linear_with_fallback"))
def test_deepgemm_linear(case: dict[str, Any]) -> None:
    given, outcome = case["input"], case["outcome"]
    n, k = given["n"], given["k"]
    if not given["pre_quantized"]:
        copy = given["weight_scale_swizzled"]
        found = deep_gemm_serves(n, k, given["input_dtype"], copy=copy)
        row = guard("fwd-dg-noswz")
        assert (found.status is not Status.STOPS) == outcome["ok"]
        if not outcome["ok"]:
            assert (row.error, fill(row.messages[0], found.values)) == (
                outcome["error"],
                outcome["message"],
            )
        else:
            fallback = outcome["value"]["reached"] == "FlashInfer fallback"
            assert (found.status is Status.FALLS_BACK) == fallback
        return
    step = GemmInputFacts(
        route="deep_gemm",
        m=given["m"],
        n=n,
        k=k,
        input_k=given.get("k_input"),
        dtype=given["input_dtype"],
        ndim=given["input_ndim"],
        contiguous=given["input_contiguous"],
        **_scale(given),
    )
    for deployment in deployments(case):
        rows = ("fwd-dg-prequant-shape", "fwd-dg-prequant-layout")
        agrees(outcome_of(rows, facts(deployment, step=step)), outcome)


@pytest.mark.parametrize("case", cases("fp8_utils.flashinfer_mxfp8_blockscaled_linear"))
def test_flashinfer_linear(case: dict[str, Any]) -> None:
    given, outcome = case["input"], case["outcome"]
    step = GemmInputFacts(
        route="flashinfer",
        m=given["m"],
        n=given["n"],
        k=given["k_weight"],
        input_k=given["k"],
        dtype=given["input_dtype"],
        weight_dtype=given["weight_dtype"],
    )
    asked = facts(B200, step=step)
    k32 = guard("fwd-fi-k32")
    first = outcome_of(("fwd-fi-k-match",), asked)
    if not first[0] and given["k"] % 32:
        # the row is the layer's; a call of one's own meets the same check between the two
        found = k32.check(facts(B200, config=MXFP8, linear=LinearFacts("x", 128, given["k"])))
        first = (k32.error, fill(k32.messages[0], found.values), [])
    agrees(first if first[0] else outcome_of(("fwd-fi-dtype",), asked), outcome)


@pytest.mark.parametrize("case", cases("Fp8LinearMethod.prepare_deepgemm_mxfp8_input"))
def test_prepare_deepgemm_input(case: dict[str, Any]) -> None:
    given = case["input"]
    for deployment in deployments(case, fp8_gemm_backend=given["fp8_gemm_backend"]):
        asked = facts(deployment, config=MXFP8)
        fits, because = prepares_deep_gemm_input(asked, given["n"], given["k"])
        assert fits is case["outcome"]["value"], because


@pytest.mark.parametrize(
    "case", cases("fp8_utils.mxfp8_group_quantize") + cases("mxfp8_quant.to_mxfp8")
)
def test_quantizers(case: dict[str, Any]) -> None:
    given = case["input"]
    step = QuantizerFacts(
        function=case["fn"].split(".")[1],
        shape=tuple(given["shape"]),
        contiguous=given.get("contiguous", True),
    )
    rows = ("act-grp-2d", "act-grp-contig", "act-grp-last", "act-to-mxfp8", "act-triton-kernels")
    for deployment in deployments(case)[:2]:
        agrees(outcome_of(rows, facts(deployment, step=step)), case["outcome"])


@pytest.mark.parametrize("case", cases("MHATokenToKVPoolMXFP8.set_kv_buffer"))
def test_store(case: dict[str, Any]) -> None:
    given, outcome = case["input"], case["outcome"]
    step = KvStoreFacts(
        function="set_kv_buffer",
        page_size=given["page_size"],
        heads=given["head_num"],
        head_dim=given["head_dim"],
        v_head_dim=given["v_head_dim"],
        k_dtype=given["k_dtype"],
        scales=given["k_scale"] and given["v_scale"],
        dcp_mask=given["dcp_kv_mask"],
        store_kernel=given["store_kernel"],
    )
    for deployment in deployments(case):
        asked = facts(deployment, step=step)
        rows = ("kv-dcp", "kv-store-scales", "kv-store-rows", "kv-store-page")
        found = outcome_of(rows, asked)
        if not found[0] and not outcome["ok"]:  # else it ended at K's kernel, before V's scales
            found = outcome_of(("kv-sf-scales",), asked)
        agrees(found, outcome)


@pytest.mark.parametrize(
    "case",
    cases("mxfp8_interleave_sf.store_sf_interleaved")
    + cases("mxfp8_quant_store_kv.quant_store_kv_mxfp8"),
)
def test_store_kernels(case: dict[str, Any]) -> None:
    given = case["input"]
    contiguous = given.get("k_cache_contiguous", True) and given.get("v_cache_contiguous", True)
    step = KvStoreFacts(
        function=case["fn"].split(".")[1],
        page_size=given["page_size"],
        heads=given["heads"],
        head_dim=given.get("head_dim") or 32 * given["sf_dim"],
        inner_stride=given.get("k_inner_stride", 1),
        cache_contiguous=contiguous,
    )
    rows = ("kv-sf-page", "kv-sf-scales", "kv-fused-dims")
    agrees(outcome_of(rows, facts(B200, step=step)), case["outcome"])


@pytest.mark.parametrize("case", cases("pool_host.MXFP8.__init__"))
def test_host_pool(case: dict[str, Any]) -> None:
    given = case["input"]
    step = HostPoolFacts(
        layout=given["layout"],
        draft=given["draft"],
        scales=given["scales"],
        page_size=given["page_size"],
        device_page_size=given["device_page_size"],
        staged_kernel=given["can_use_write_back_jit"] and given["jit_element_ok"],
    )
    rows = (
        *("kv-hicache-layout", "kv-hicache-draft", "kv-hicache-il", "kv-hicache-page"),
        "kv-hicache-jit",
    )
    agrees(outcome_of(rows, facts(B200, step=step)), case["outcome"])


def test_prefix_valid_always_raises() -> None:
    step = KvStoreFacts(function="set_kv_buffer_prefix_valid", page_size=128, heads=1, head_dim=128)
    found = outcome_of(("kv-prefix-valid",), facts(B200, step=step))
    assert found[0] == "NotImplementedError"


def test_the_recorded_cases_are_of_every_kind() -> None:
    """Filters above leave nothing out: both outcomes are there, on more than one GPU."""
    for fn in ("parameter.load", "MHATokenToKVPoolMXFP8.set_kv_buffer"):
        assert kept(fn, lambda given: True)
    assert (
        len(
            {
                gpu
                for case in cases("Fp8LinearMethod.prepare_deepgemm_mxfp8_input")
                for gpu in gpus(case)
            }
        )
        > 5
    )


def test_every_recorded_function_is_compared() -> None:
    """A function of the recorded outcomes that no test names would agree with nothing."""
    tests = Path(__file__).parent
    text = "".join(path.read_text(encoding="utf-8") for path in tests.glob("test_guards_*.py"))
    functions = {case["fn"] for case in all_cases()}
    assert len(functions) > 45
    assert [fn for fn in functions if f'"{fn}"' not in text] == []
