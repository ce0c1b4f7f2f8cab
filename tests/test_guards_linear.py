"""Dense linears against SGLang's and FlashInfer's recorded outcomes."""

from dataclasses import replace
from typing import Any

import pytest
from guard_cases import cases, deployments, kept, outcome_of

from mxlab.guards import Deployment, LinearFacts, Status, check, facts
from mxlab.guards.findings import pad
from mxlab.guards.linear import tp_column, tp_row

CONFIG = {"quant_method": "mxfp8", "activation_scheme": "dynamic", "weight_block_size": [1, 32]}
LOAD = ("wsp-deepgemm", "wsp-k32", "wsp-trtllm-n32", "wsp-trtllm-cols")


def _agrees(found: tuple[str, str, list[str]], outcome: dict[str, Any]) -> None:
    error, message, _ = found
    assert (error == "") == outcome["ok"], (found, outcome)
    if outcome.get("explicit"):
        assert (error, message) == (outcome["error"], outcome["message"])
    elif not outcome["ok"]:
        assert error == outcome["error"]


@pytest.mark.parametrize(
    "case",
    cases("Fp8LinearMethod.validate_block_quant_shapes")
    + cases("fp8_utils.validate_fp8_block_shape"),
)
def test_block_shapes(case: dict[str, Any]) -> None:
    given, outcome = case["input"], case["outcome"]
    variant = case["fn"] == "fp8_utils.validate_fp8_block_shape"
    tp, parts = given["tp_size"] or 1, tuple(given["output_partition_sizes"])
    block_n, block_k = given["weight_block_size"]
    skip = given.get("skip_block_quant_check", False)
    row = tp_row(
        given["input_size"], given["input_size_per_partition"], tp, block_k, skip_check=skip
    )
    column = tp_column(
        given["output_size"], parts, tp, block_n, skip_check=skip, exempt_last=variant
    )
    if outcome.get("error") == "ZeroDivisionError":
        empty = Status.NOT_REACHED
        assert row.status is empty or column.status is empty  # no rank holds an empty weight
        return
    stopped = next((found for found in (row, column) if found.status is Status.STOPS), None)
    assert (stopped is None) == outcome["ok"]
    if stopped is row:
        in_part, bk = row.values["in_part"], row.values["bk"]
        assert outcome["message"] == (
            f"Weight input_size_per_partition = {in_part} is not divisible by weight "
            f"quantization block_k = {bk}."
        )
    elif stopped is column:
        p, bn = column.values["p"], column.values["bn"]
        assert outcome["message"] == (
            f"Weight output_partition_size = {p} is not divisible by weight quantization "
            f"block_n = {bn}."
        )


@pytest.mark.parametrize("case", cases("Fp8LinearMethod._process_mxfp8_linear_weight_scale"))
def test_scale_processing(case: dict[str, Any]) -> None:
    given, outcome = case["input"], case["outcome"]
    n, k = given["n"], given["k"]
    for deployment in deployments(case, fp8_gemm_backend=given["fp8_gemm_backend"]):
        asked = facts(deployment, config=CONFIG, linear=LinearFacts("linear", n, k))
        if asked.dense.kind == "converted":
            pytest.fail("the recorded cases resolve a backend")
        assert asked.dense.backend == given["backend"]
        _agrees(outcome_of(LOAD, asked), outcome)
        if not outcome["ok"]:
            continue
        value = outcome["value"]
        verdict = _verdict(deployment, n, k)
        falls_back = value["block_scale_interleave_calls"] and given["backend"] == "deep_gemm"
        assert (verdict.status is Status.FALLS_BACK) == bool(falls_back)
        packed = value.get("weight_scale_inv_deepgemm")
        if packed:
            assert ("int32" in verdict.because) == isinstance(packed, str)  # the packing stand-in
            if isinstance(packed, dict):
                assert packed["dtype"] == "float32"
                assert f"({n}, {packed['shape'][1]})" in verdict.because
        if falls_back:
            size = pad(n, 128) * pad(pad(k, 32) // 32, 4)
            assert value["weight_scale_inv_swizzled"]["shape"] == [size]
            assert f"{size} bytes" in verdict.because


def _verdict(deployment: Deployment, n: int, k: int) -> Any:
    found = check(deployment, config=CONFIG, linear=LinearFacts("linear", n, k))
    return next(v for v in found if v.guard == "wsp-deepgemm")


RESOLVE = ("res-trtllm", "res-cutedsl", "res-cutlass", "res-deepgemm")
DISPATCH = (
    "disp-trtllm",
    "disp-cutlass-fi",
    "disp-fi-deepgemm",
    "disp-cutlass",
    "disp-aiter",
    "disp-deepgemm",
    "disp-unknown",
)


@pytest.mark.parametrize("case", cases("fp8_utils.dispatch_w8a8_mxfp8_linear"))
def test_dispatch_mxfp8(case: dict[str, Any]) -> None:
    kernels = {
        "flashinfer_mxfp8_blockscaled_linear": (
            "flashinfer_trtllm",
            "flashinfer_cutlass",
            "flashinfer_cutedsl",
        ),
        "deepgemm_w8a8_mxfp8_linear_with_fallback": ("deep_gemm",),
        "_unsupported_mxfp8_linear": ("unsupported",),
        "dot_scaled_mxfp8_blockscaled_linear": ("gfx95_dot_scaled",),
    }
    from mxlab.guards.backend import resolve_mxfp8_dense_gemm_backend
    from mxlab.guards.platform import platform

    for deployment in deployments(case):
        found, stop = resolve_mxfp8_dense_gemm_backend(
            platform(deployment), case["input"]["fp8_gemm_backend"]
        )
        assert (stop is None) == case["outcome"]["ok"]
        if stop is None:
            assert found in kernels[case["outcome"]["value"]["function"]]


#: what decides -> the checkpoint for which a launch comes to it
_REFUSED: dict[str, Any] = {
    "fp8_utils.resolve_mxfp8_dense_gemm_backend": CONFIG,
    "fp8_utils.dispatch_w8a8_mxfp8_linear": CONFIG,
    "fp8_utils.can_serve_block_fp8_as_mxfp8": {"quant_method": "fp8"},
    "fp8_utils.dispatch_w8a8_block_fp8_linear": {"quant_method": "fp8"},
}


@pytest.mark.parametrize(
    "case", [case for fn in _REFUSED for case in cases(fn) if not case["outcome"]["ok"]]
)
def test_what_a_refused_backend_says(case: dict[str, Any]) -> None:
    given, config = case["input"], dict(_REFUSED[case["fn"]])
    if "weight_block_size" in given:
        config["weight_block_size"] = given["weight_block_size"]
        config["activation_scheme"] = "dynamic"
        ue8m0 = given.get("act_scale_ue8m0") or given.get("scale_fmt") == "ue8m0"
        config["scale_fmt"] = "ue8m0" if ue8m0 else None
    for deployment in deployments(case, fp8_gemm_backend=given["fp8_gemm_backend"]):
        asked = facts(deployment, config=config, linear=LinearFacts("linear", 256, 256))
        _agrees(outcome_of(RESOLVE + DISPATCH, asked), case["outcome"])


@pytest.mark.parametrize("case", cases("Fp8LinearMethod.__init__"))
def test_linear_method(case: dict[str, Any]) -> None:
    given, outcome = case["input"], case["outcome"]
    from mxlab.guards import ConfigFacts

    for deployment in deployments(case, fp8_gemm_backend=given["fp8_gemm_backend"]):
        config = ConfigFacts(given["config"], constructor=True)
        asked = facts(deployment, config=config, linear=LinearFacts("linear", 256, 256))
        _agrees(outcome_of(RESOLVE + DISPATCH, asked), outcome)
        if outcome["ok"]:
            value = outcome["value"]
            assert (asked.dense.kind == "converted") == value["convert_mxfp8_to_block"]
            assert (asked.dense.kind == "block-as-mxfp8") == value["block_fp8_as_mxfp8"]
            assert asked.dense.backend == value["mxfp8_dense_backend"]


@pytest.mark.parametrize(
    "case", cases("Fp8LinearMethod.process_weights_after_loading_block_quant(convert)")
)
def test_conversion(case: dict[str, Any]) -> None:
    given = case["input"]
    online = not given["is_checkpoint_fp8_serialized"]
    for deployment in deployments(case, quantization="mxfp8"):
        asked = facts(
            deployment,
            config=None if online else CONFIG,
            linear=LinearFacts("linear", given["n"], given["k"]),
        )
        _agrees(outcome_of(("cvt-online", "cvt-k32"), asked), case["outcome"])


def _deepgemm_reachable(given: dict[str, Any]) -> bool:
    """The loader makes a copy for bad shapes only; packed input comes from fused producers only."""
    bad_shape = given["n"] % 64 != 0 or given["k"] % 128 != 0
    return not given["pre_quantized"] and (bad_shape or not given["weight_scale_swizzled"])


@pytest.mark.parametrize(
    "case", kept("fp8_utils.deepgemm_w8a8_mxfp8_linear_with_fallback", _deepgemm_reachable)
)
def test_deepgemm_forward(case: dict[str, Any]) -> None:
    given, outcome = case["input"], case["outcome"]
    n, k = given["n"], given["k"]
    copy = given["weight_scale_swizzled"]
    made = n % 64 != 0 or k % 128 != 0
    packages = frozenset({"deep_gemm", "flashinfer"} if copy or not made else {"deep_gemm"})
    deployment = Deployment(
        gpu="b200", packages=packages, dtype=given["input_dtype"], fp8_gemm_backend="deep_gemm"
    )
    asked = facts(deployment, config=CONFIG, linear=LinearFacts("linear", n, k))
    if made and not copy:
        # the load has stopped before: the row says so instead of repeating the stop
        assert outcome_of(("wsp-deepgemm",), asked)[0] == "RuntimeError"
        assert not outcome["ok"]
        return
    _agrees(outcome_of(("fwd-dg-noswz", "fwd-fi-k32"), asked), outcome)


def _loadable(given: dict[str, Any]) -> bool:
    """A loaded model has an E4M3 weight of the activation's K."""
    return bool(given["k"] == given["k_weight"] and given["weight_dtype"] == "float8_e4m3fn")


@pytest.mark.parametrize("case", kept("fp8_utils.flashinfer_mxfp8_blockscaled_linear", _loadable))
def test_flashinfer_forward(case: dict[str, Any]) -> None:
    given, outcome = case["input"], case["outcome"]
    flag = {"cute-dsl": "cutedsl"}.get(given["backend"], given["backend"])
    deployment = Deployment(gpu="b200", fp8_gemm_backend=f"flashinfer_{flag}")
    linear = LinearFacts("linear", given["n"], given["k"])
    _agrees(outcome_of(("fwd-fi-k32",), facts(deployment, config=CONFIG, linear=linear)), outcome)


def _as_sglang_calls(given: dict[str, Any]) -> bool:
    """SGLang hands over E4M3, uint8 scales, both swizzled."""
    dtypes = given["a_dtype"] == "float8_e4m3fn" and given["scale_dtype"] == "uint8"
    return dtypes and {given["a_scale"], given["b_scale"]} == {"swizzled"}


@pytest.mark.parametrize("case", kept("flashinfer.mm_mxfp8", _as_sglang_calls))
def test_mm_mxfp8(case: dict[str, Any]) -> None:
    given, outcome = case["input"], case["outcome"]
    flag = {"cute-dsl": "cutedsl"}.get(given["backend"], given["backend"])
    for deployment in deployments(case, fp8_gemm_backend=f"flashinfer_{flag}"):
        deployment = replace(deployment, dtype=given["out_dtype"])
        linear = LinearFacts("linear", given["n"], given["k"])
        asked = facts(deployment, config=CONFIG, linear=linear)
        if asked.dense.backend is None:
            assert outcome["error"] == "BackendSupportedError" or not outcome["ok"]
            continue
        found = outcome_of(("fi-mm-min", "fi-mm-outdtype", "fi-mm-size"), asked)
        message = found[1].replace("m=M,", f"m={given['m']},")
        _agrees((found[0], message, []), outcome)


def test_a_fix_that_is_in_place_is_not_offered() -> None:
    deployment = Deployment(gpu="b200", quantization="mxfp8", fp8_gemm_backend="deep_gemm")
    down = LinearFacts("down_proj", 2880, 2880)
    found = {verdict.guard: verdict for verdict in check(deployment, linear=down)}
    assert found["wsp-deepgemm"].status is Status.FALLS_BACK
    assert not any("install FlashInfer" in fix for fix in found["wsp-deepgemm"].fixes)
    assert found["wsp-deepgemm"].fixes and "--dtype bfloat16" not in found["fwd-dg-noswz"].fixes
    bare = replace(deployment, packages=frozenset({"deep_gemm"}))
    stops = {verdict.guard: verdict for verdict in check(bare, linear=down)}
    assert any("install FlashInfer" in fix for fix in stops["wsp-deepgemm"].fixes)
    half = replace(deployment, dtype="float16")
    fp16 = {verdict.guard: verdict for verdict in check(half, linear=down)}
    assert "--dtype bfloat16" in fp16["fwd-dg-noswz"].fixes
