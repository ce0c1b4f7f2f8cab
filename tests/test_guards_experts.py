"""MoE server arguments and experts against SGLang's recorded outcomes."""

from dataclasses import replace
from typing import Any

import pytest
from guard_cases import cases, deployments, machines, outcome_of

from mxlab.guards import (
    GUARDS,
    ConfigFacts,
    Deployment,
    ExpertCallFacts,
    ExpertFacts,
    Facts,
    Status,
    facts,
    guard,
    sglang_experts,
)
from mxlab.guards.engine import fill
from mxlab.guards.quant import converts
from mxlab.guards.runner import TRTLLM, constrain, runner
from mxlab.guards.sglang_dispatch import ep_size, mega_architecture
from mxlab.guards.sglang_expert_calls import scale_recipes
from mxlab.guards.sglang_server import MEGA_ARCHITECTURES

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


def _agrees(found: tuple[str, str, list[str]], outcome: dict[str, Any]) -> None:
    error, message, _ = found
    assert (error == "") == outcome["ok"], (found, outcome)
    if outcome.get("explicit"):
        assert (error, message) == (outcome["error"], outcome["message"])
    elif not outcome["ok"]:
        assert error == outcome["error"]


ONLINE = ("arg-nvfp4-online-hw", "arg-nvfp4-online-runner")


@pytest.mark.parametrize("case", cases("overrides._moe_runner_backend_quant_constraints"))
def test_constraints(case: dict[str, Any]) -> None:
    given, outcome = case["input"], case["outcome"]
    flags = {"moe_a2a_backend": given["moe_a2a_backend"]}
    for deployment in deployments(
        case,
        quantization=given["quantization"],
        moe_runner_backend=given["moe_runner_backend"],
        **flags,
    ):
        asked = facts(deployment)
        error, message, warnings = outcome_of((*ONLINE, "arg-moe-runner-mxfp8"), asked)
        _agrees((error, message, []), outcome)
        if outcome["ok"]:
            flag = given["moe_runner_backend"]
            name, _ = constrain(
                asked.platform, given["quantization"], flag, given["moe_a2a_backend"]
            )
            assert name == outcome["value"].get("moe_runner_backend", flag)
            assert warnings == outcome.get("warnings", [])


@pytest.mark.parametrize("case", cases("moe_hook.handle_moe_kernel_config"))
def test_kernel_config(case: dict[str, Any]) -> None:
    given = case["input"]
    for deployment in deployments(
        case,
        quantization=given["quantization"],
        moe_runner_backend=given["moe_runner_backend"],
        moe_a2a_backend=given["moe_a2a_backend"],
        tp=given["tp_size"],
        ep=given["ep_size"],
    ):
        asked = _before_dispatch(deployment)
        _agrees(outcome_of(KERNEL_CONFIG, asked), case["outcome"])
        if case["outcome"]["ok"]:
            assert asked.runner.name == case["outcome"]["value"]["moe_runner_backend"]


KERNEL_CONFIG = (
    *ONLINE,
    "arg-moe-runner-mxfp8",
    "arg-moe-fi-cutlass-quant",
    "arg-moe-fi-cutedsl-quant",
    "arg-moe-fi-ep",
    "arg-moe-cutedsl-a2a",
    "arg-moe-trtllm-quant",
    "arg-moe-trtllm-routed-quant",
    "arg-moe-cutlass-ep",
)
A2A = (
    "arg-a2a-type",
    "arg-mega-arch",
    "arg-mega-quant",
    "arg-mega-w4a16",
    "arg-mega-combine",
    "arg-mega-dp",
    "arg-mega-runner",
    "arg-mega-hw",
    "arg-a2a-topology",
    "arg-a2a-env",
    "arg-a2a-mxfp8-quant",
    "arg-a2a-mxfp8-runner",
    "arg-a2a-nvfp4",
    "arg-a2a-runner",
)


def _before_dispatch(deployment: Deployment) -> Facts:
    """The facts as the kernel hook sees them: the all-to-all changes the runner only later."""
    asked = facts(deployment)
    name = constrain(
        asked.platform,
        asked.runner.quantization,
        deployment.moe_runner_backend,
        deployment.moe_a2a_backend,
    )[0]
    return replace(asked, runner=replace(asked.runner, name=name))


def test_the_rows_stand_in_the_order_of_the_hooks() -> None:
    places = [row.id for row in GUARDS if row.stage == "S1"]
    wanted = [*KERNEL_CONFIG, *A2A]
    first = [id for id in wanted if id not in ("arg-moe-cutlass-ep",)]
    assert sorted(first, key=places.index) == first


@pytest.mark.parametrize("case", cases("moe_hook.handle_moe_kernel_config+handle_a2a_moe"))
def test_both_hooks(case: dict[str, Any]) -> None:
    given, outcome = case["input"], case["outcome"]
    for deployment in deployments(
        case,
        quantization=given["quantization"],
        moe_runner_backend=given["moe_runner_backend"],
        moe_a2a_backend=given["moe_a2a_backend"],
        tp=given["tp_size"],
        ep=given["ep_size"],
        flashinfer_a2a_dispatch_type=given["flashinfer_a2a_dispatch_type"],
        settings={"attn-dp-size": given["attn_dp_size"]},
    ):
        kernel = _before_dispatch(deployment)
        found = outcome_of(KERNEL_CONFIG, kernel)
        # the architecture's own rules ran before: here only its name counts
        settled = replace(kernel.deployment, architecture=given["architecture"])
        asked = replace(facts(deployment), deployment=settled)
        found = found if found[0] else outcome_of(A2A, asked)
        _agrees(found, outcome)
        if outcome["ok"]:
            value = outcome["value"]
            assert asked.runner.name == value["moe_runner_backend"]
            assert ep_size(deployment) == value["ep_size"]


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


@pytest.mark.parametrize("case", cases("moe_hook.handle_flashinfer_a2a_dispatch_type"))
def test_dispatch_type(case: dict[str, Any]) -> None:
    given = case["input"]
    # the function runs with the runner as it stands, whatever the constraint would make of it
    base = facts(
        Deployment(
            gpu="b200",
            moe_a2a_backend="flashinfer",
            flashinfer_a2a_dispatch_type=given["flashinfer_a2a_dispatch_type"] or "auto",
            env=given["env"] or {},
        )
    )
    settled = replace(
        base.runner, name=given["moe_runner_backend"], quantization=given["quantization"]
    )
    rows = ("arg-a2a-env", "arg-a2a-mxfp8-quant", "arg-a2a-mxfp8-runner", "arg-a2a-nvfp4")
    _agrees(outcome_of(rows, replace(base, runner=settled)), case["outcome"])


@pytest.mark.parametrize("case", cases("moe_hook.validate_flashinfer_megamoe_envs"))
def test_megamoe_environment(case: dict[str, Any]) -> None:
    env = {k: v for k, v in case["input"]["env"].items() if v is not None}
    deployment = Deployment(gpu="b200", moe_a2a_backend="flashinfer_megamoe", env=env)
    rows = ("arg-mega-w4a16", "arg-mega-combine")
    _agrees(outcome_of(rows, facts(deployment)), case["outcome"])


@pytest.mark.parametrize("case", cases("moe_hook.validate_flashinfer_megamoe_model"))
def test_megamoe_model(case: dict[str, Any]) -> None:
    given, outcome = case["input"], case["outcome"]
    row = guard("arg-mega-arch")
    found = mega_architecture(given["architectures"] or [], MEGA_ARCHITECTURES)
    if found.status is Status.STOPS:
        _agrees((row.error, fill(row.messages[0], found.values), []), outcome)
        return
    deployment = Deployment(
        gpu="h200",
        quantization=given["quantization"],
        moe_a2a_backend="flashinfer_megamoe",
        architecture=given["architectures"][0],
        settings={"fp4-experts": given["is_fp4_experts"]},
    )
    _agrees(outcome_of(("arg-mega-arch", "arg-mega-quant"), facts(deployment)), outcome)


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


@pytest.mark.parametrize("case", cases("DeepGemmMoeQuantInfo"))
def test_deep_gemm_scales(case: dict[str, Any]) -> None:
    given = case["input"]
    if not given["use_mxfp8"]:
        assert case["outcome"]["ok"]  # block FP8: nothing is looked at
        return
    for deployment in deployments(case, quantization="mxfp8", moe_runner_backend="deep_gemm"):
        step = ExpertCallFacts(
            runner="deep_gemm",
            hidden=256,
            intermediate=256,
            experts=1,
            block=tuple(given["block_shape"]),
            block_is_list=isinstance(given["block_shape"], list),
        )
        asked = facts(deployment, experts=ExpertFacts(256, 256, 1), step=step)
        if converts(asked.quant, asked.platform, dense=False):
            continue  # gfx942 never gets here
        _agrees(outcome_of(("moe-dg-block", "moe-dg-ue8m0"), asked), case["outcome"])


@pytest.mark.parametrize("case", cases("DeepGemmMoeQuantInfo.scale_recipes"))
def test_scale_recipes(case: dict[str, Any]) -> None:
    given = case["input"]
    step = ExpertCallFacts(
        runner="deep_gemm",
        hidden=given["hidden_size"],
        intermediate=256,
        experts=1,
        activation_block=given["activation_block_size"],
        activation_scale_width=given["activation_scale_width"],
    )
    asked = facts(Deployment(gpu="b200"), step=step)
    _agrees(outcome_of(("moe-dg-actscale",), asked), case["outcome"])
    if case["outcome"]["ok"]:
        assert scale_recipes(step) == case["outcome"]["value"]


@pytest.mark.parametrize("case", cases("model_overrides._deepseek_v4_overrides"))
def test_deepseek_v4(case: dict[str, Any]) -> None:
    given = case["input"]
    for deployment in deployments(
        case,
        architecture="DeepseekV4ForCausalLM",
        fp8_gemm_backend=given["fp8_gemm_backend"],
        settings={"model-type": given["model_type"]},
    ):
        machine = facts(replace(deployment, fp8_gemm_backend="auto")).platform
        if machine.hip:
            continue  # the recorded case says that the device is CUDA
        found = runner(deployment, given["quantization_config"], machine).fp8_gemm_backend
        assert found == case["outcome"]["value"]["fp8_gemm_runner_backend"]


def test_deepseek_v41_names_cutedsl_where_it_can() -> None:
    """The recorded sample holds only cases that change nothing."""
    values = {"quant_method": "fp8", "weight_block_size": [32, 32], "scale_fmt": "ue8m0"}

    def named(gpu: str, model_type: str = "deepseek_v41", **changes: Any) -> str:
        deployment = Deployment(
            gpu=gpu,
            architecture="DeepseekV4ForCausalLM",
            settings={"model-type": model_type},
        )
        return facts(deployment, config={**values, **changes}).deployment.fp8_gemm_backend

    assert named("b200") == named("b300") == "flashinfer_cutedsl"
    assert {named("h200"), named("rtx5090"), named("b200", "deepseek_v4")} == {"auto"}
    assert named("b200", weight_block_size=[128, 128]) == "auto"


def test_trtllm_rounds_the_intermediate_size() -> None:
    experts = ExpertFacts(1024, 96, 8, moe_tp=8)
    for name in ("auto", *TRTLLM):
        asked = facts(
            Deployment(gpu="b200", quantization="mxfp8", moe_runner_backend=name), experts=experts
        )
        assert outcome_of(("moe-inter-k", "moe-trtllm-sf-rows", "moe-trtllm-cols"), asked)[0] == ""
