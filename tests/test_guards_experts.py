"""MoE server arguments and experts against SGLang's recorded outcomes."""

from dataclasses import replace
from typing import Any

import pytest
from guard_cases import cases, deployments, kept, machines, outcome_of

from mxlab.guards import ConfigFacts, Deployment, ExpertFacts, facts, sglang_experts
from mxlab.guards.quant import converts
from mxlab.guards.runner import TRTLLM, constrain, runner

CONFIG = {"quant_method": "mxfp8", "activation_scheme": "dynamic", "weight_block_size": [1, 32]}
ARCHITECTURES = {
    "minimax_m3": "MiniMaxM3SparseForCausalLM",
    "qwen3_moe": "Qwen3MoeForCausalLM",
    "glm4_moe": "Glm4MoeForCausalLM",
    "minimax_m2": "MiniMaxM2ForCausalLM",
    "deepseek": "DeepseekV3ForCausalLM",
    "hyv4": "HYV4ForCausalLM",
    "none": "MixtralForCausalLM",
}
OTHER_RUNNERS = ("flashinfer_cutlass", "flashinfer_cutedsl", "flashinfer_mxfp4")


def _agrees(found: tuple[str, str, list[str]], outcome: dict[str, Any]) -> None:
    error, message, _ = found
    assert (error == "") == outcome["ok"], (found, outcome)
    if outcome.get("explicit"):
        assert (error, message) == (outcome["error"], outcome["message"])
    elif not outcome["ok"]:
        assert error == outcome["error"]


def _ours(given: dict[str, Any]) -> bool:
    """Rows about FP4 have tables of their own."""
    return bool(given["quantization"] != "nvfp4_online")


@pytest.mark.parametrize(
    "case",
    [c for c in cases("overrides._moe_runner_backend_quant_constraints") if _ours(c["input"])],
)
def test_constraints(case: dict[str, Any]) -> None:
    given, outcome = case["input"], case["outcome"]
    for machine in machines(case):
        asked = given["moe_runner_backend"]
        name, overruled = constrain(machine, given["quantization"], asked, given["moe_a2a_backend"])
        assert name == outcome["value"].get("moe_runner_backend", asked)
        said = [
            f"mxfp8 quantization supports only {', '.join(overruled)} backends. Overriding "
            f"{asked!r}."
        ]
        assert (said if overruled else []) == outcome.get("warnings", [])


def _known(given: dict[str, Any]) -> bool:
    return _ours(given) and given["moe_runner_backend"] not in OTHER_RUNNERS


@pytest.mark.parametrize("case", kept("moe_hook.handle_moe_kernel_config", _known))
def test_kernel_config(case: dict[str, Any]) -> None:
    given = case["input"]
    rows = (
        "arg-moe-runner-mxfp8",
        "arg-moe-trtllm-quant",
        "arg-moe-trtllm-routed-quant",
        "arg-moe-cutlass-ep",
    )
    for deployment in deployments(
        case,
        quantization=given["quantization"],
        moe_runner_backend=given["moe_runner_backend"],
        moe_a2a_backend=given["moe_a2a_backend"],
        tp=given["tp_size"],
        ep=given["ep_size"],
    ):
        asked = facts(deployment)
        if asked.runner.name in OTHER_RUNNERS:
            continue
        _agrees(outcome_of(rows, asked), case["outcome"])
        if case["outcome"]["ok"]:
            named = constrain(
                asked.platform,
                given["quantization"],
                given["moe_runner_backend"],
                given["moe_a2a_backend"],
            )[0]
            assert named == case["outcome"]["value"]["moe_runner_backend"]


@pytest.mark.parametrize("case", cases("S1 MoE runner resolution"))
def test_runner_resolution(case: dict[str, Any]) -> None:
    given, value = case["input"], case["outcome"]["value"]
    for deployment, machine in zip(
        deployments(
            case,
            quantization=given["quantization"],
            moe_runner_backend=given["moe_runner_backend"],
            moe_a2a_backend=given["moe_a2a_backend"],
            architecture=ARCHITECTURES[given["provider"]],
        ),
        machines(case),
        strict=True,
    ):
        found = runner(deployment, given["checkpoint"], machine)
        assert found.name == value["moe_runner_backend"]
        assert found.quantization == value["quantization"]
        assert found.fp8_gemm_backend == value["fp8_gemm_runner_backend"]


def _not_nvfp4(given: dict[str, Any]) -> bool:
    return bool(given["flashinfer_a2a_dispatch_type"] != "nvfp4" and not given.get("env"))


@pytest.mark.parametrize("case", kept("moe_hook.handle_flashinfer_a2a_dispatch_type", _not_nvfp4))
def test_dispatch_type(case: dict[str, Any]) -> None:
    given = case["input"]
    # the function runs with the runner as it stands, whatever the constraint would make of it
    base = facts(
        Deployment(
            gpu="b200",
            moe_a2a_backend="flashinfer",
            flashinfer_a2a_dispatch_type=given["flashinfer_a2a_dispatch_type"] or "auto",
        )
    )
    settled = replace(
        base.runner, name=given["moe_runner_backend"], quantization=given["quantization"]
    )
    rows = ("arg-a2a-mxfp8-quant", "arg-a2a-mxfp8-runner")
    _agrees(outcome_of(rows, replace(base, runner=settled)), case["outcome"])


def _no_fp4(given: dict[str, Any]) -> bool:
    return bool((given.get("env") or {}).get("SGLANG_FLASHINFER_CUTEDSL_NVFP4_W4A16", "0") == "0")


@pytest.mark.parametrize(
    "case", [c for c in cases("moe_hook.validate_flashinfer_megamoe_envs") if _no_fp4(c["input"])]
)
def test_megamoe_environment(case: dict[str, Any]) -> None:
    env = {k: v for k, v in case["input"]["env"].items() if v is not None}
    deployment = Deployment(gpu="b200", moe_a2a_backend="flashinfer_megamoe", env=env)
    _agrees(outcome_of(("arg-mega-combine",), facts(deployment)), case["outcome"])


def _plain_experts(given: dict[str, Any]) -> bool:
    """One known architecture, and no FP4: what a deployment names."""
    fp4 = given["is_fp4_experts"] or given["quantization"] in ("nvfp4_online", "modelopt_mixed")
    return len(given["architectures"] or []) == 1 and not fp4


@pytest.mark.parametrize(
    "case",
    [c for c in cases("moe_hook.validate_flashinfer_megamoe_model") if _plain_experts(c["input"])],
)
def test_megamoe_model(case: dict[str, Any]) -> None:
    given = case["input"]
    deployment = Deployment(
        gpu="h200",
        quantization=given["quantization"],
        moe_a2a_backend="flashinfer_megamoe",
        architecture=given["architectures"][0],
    )
    _agrees(outcome_of(("arg-mega-arch", "arg-mega-quant"), facts(deployment)), case["outcome"])


@pytest.mark.parametrize("case", cases("Fp8MoEMethod.__init__"))
def test_moe_method(case: dict[str, Any]) -> None:
    given, outcome = case["input"], case["outcome"]
    for deployment in deployments(case):
        config = ConfigFacts(given["config"], constructor=True)
        base = facts(deployment, config=config, experts=ExpertFacts(256, 256, 1))
        asked = replace(base, runner=replace(base.runner, name=given["moe_runner_backend"]))
        rows = ("moe-cutlass-sup", "moe-cutlass-block", "moe-cutlass-arch")
        _agrees(outcome_of(rows, asked), outcome)
        if outcome["ok"]:
            converted = converts(asked.quant, asked.platform, dense=False)
            assert converted == outcome["value"]["convert_mxfp8_to_block"]


@pytest.mark.parametrize("case", cases("Fp8MoEMethod.create_fp8_moe_weight_"))
def test_expert_weights(case: dict[str, Any]) -> None:
    given, outcome = case["input"], case["outcome"]
    arguments = {
        "use_mxfp8": given["use_mxfp8"],
        "is_checkpoint_fp8_serialized": given["is_checkpoint_fp8_serialized"],
        "weight_block_size": given["weight_block_size"],
        "activation_scheme": given["activation_scheme"],
    }
    for deployment in deployments(case):
        experts = ExpertFacts(
            given["hidden_size"],
            given["intermediate_size_per_partition"],
            given["num_experts"],
            given["is_gated"],
            given["moe_tp_size"],
        )
        asked = facts(deployment, config=ConfigFacts(arguments, constructor=True), experts=experts)
        rows = ("moe-inter-n", "moe-inter-k", "cfg-act-assert", "moe-static-online")
        _agrees(outcome_of(rows, asked), outcome)


LOAD = (
    "moe-hw",
    "moe-k32",
    "moe-tk-rows",
    "moe-trtllm-nofi",
    "moe-trtllm-sf-rows",
    "moe-trtllm-cols",
)


@pytest.mark.parametrize("case", cases("Fp8MoEMethod._process_mxfp8_moe_weights"))
def test_expert_processing(case: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    given = case["input"]
    online = not given["is_checkpoint_fp8_serialized"]
    # the cases skip the layer's construction, which rounds the size up for the TRT-LLM runners
    raw = given["intermediate_size_per_partition"]
    monkeypatch.setattr(sglang_experts, "intermediate_of", lambda facts: raw)
    monkeypatch.setattr("mxlab.guards.experts.intermediate_of", lambda facts: raw)
    for deployment in deployments(case, quantization="mxfp8"):
        experts = ExpertFacts(given["hidden_size"], raw, given["num_experts"], given["is_gated"])
        base = facts(deployment, config=None if online else CONFIG, experts=experts)
        if base.platform.gfx942:
            pytest.fail("the recorded cases are not converted")
        asked = replace(base, runner=replace(base.runner, name=given["moe_runner_backend"]))
        _agrees(outcome_of(LOAD, asked), case["outcome"])


@pytest.mark.parametrize("case", cases("flashinfer_megamoe.prepare_mxfp8_moe_weights"))
def test_megamoe_weights(case: dict[str, Any]) -> None:
    given = case["input"]
    deployment = Deployment(
        gpu="b200",
        quantization="mxfp8",
        moe_a2a_backend="flashinfer_megamoe",
        ep=given["moe_ep_size"],
    )
    experts = ExpertFacts(
        given["hidden_size"],
        given["intermediate_size_per_partition"],
        given["num_experts"],
        given["is_gated"],
        activation=given["activation"],
    )
    rows = ("moe-mega-act", "moe-mega-h", "moe-mega-i", "moe-mega-e")
    _agrees(outcome_of(rows, facts(deployment, experts=experts)), case["outcome"])


def _mxfp8(given: dict[str, Any]) -> bool:
    return bool(given["use_mxfp8"] and given["block_shape"] == [1, 32])


@pytest.mark.parametrize("case", [c for c in cases("DeepGemmMoeQuantInfo") if _mxfp8(c["input"])])
def test_deep_gemm_scales(case: dict[str, Any]) -> None:
    for deployment in deployments(case, quantization="mxfp8", moe_runner_backend="deep_gemm"):
        asked = facts(deployment, experts=ExpertFacts(256, 256, 1))
        if converts(asked.quant, asked.platform, dense=False):
            continue  # gfx942 never gets here
        _agrees(outcome_of(("moe-dg-ue8m0",), asked), case["outcome"])


def test_trtllm_rounds_the_intermediate_size() -> None:
    experts = ExpertFacts(1024, 96, 8, moe_tp=8)
    for name in ("auto", *TRTLLM):
        asked = facts(
            Deployment(gpu="b200", quantization="mxfp8", moe_runner_backend=name), experts=experts
        )
        assert outcome_of(("moe-inter-k", "moe-trtllm-sf-rows", "moe-trtllm-cols"), asked)[0] == ""
