"""Config, capability and backend rules against SGLang's recorded outcomes."""

from dataclasses import replace
from typing import Any

import pytest
from guard_cases import cases, deployments, machines, outcome_of
from hypothesis import given
from hypothesis import strategies as st

from mxlab.errors import InputError
from mxlab.guards import ConfigFacts, Deployment, Facts, Status, facts, guard
from mxlab.guards import backend as rules
from mxlab.guards import quant as q
from mxlab.guards.ignore import EmptyShards, Entries, MixedShards, is_layer_skipped, matches
from mxlab.guards.quant import dense, from_arguments, from_values, min_capability, parse_modelopt
from mxlab.guards.sglang_other_configs import m31_config, modelopt_fp8_problem

PARSE = (
    "cfg-key-missing",
    "cfg-mxfp8-override",
    "cfg-act-scheme",
    "cfg-block-not-serialized",
    "cfg-block-ndim",
    "cfg-block-static",
    "cfg-mxfp8-block",
)
BUILD = PARSE[2:]


def _with(deployment: Deployment, quant: Any, config: ConfigFacts) -> Facts:
    base = facts(deployment)
    chosen = dense(quant, base.platform, deployment.fp8_gemm_backend)
    return replace(base, quant=quant, dense=chosen, config=config)


def _agrees(found: tuple[str, str, list[str]], outcome: dict[str, Any]) -> None:
    error, message, warnings = found
    assert (error == "") == outcome["ok"], (found, outcome)
    if outcome.get("explicit"):
        assert (error, message) == (outcome["error"], outcome["message"])
    if outcome["ok"]:
        assert warnings == outcome.get("warnings", [])


@pytest.mark.parametrize("case", cases("Fp8Config.__init__"))
def test_constructor(case: dict[str, Any]) -> None:
    values, outcome = case["input"]["kwargs"], case["outcome"]
    config = ConfigFacts(values, constructor=True)
    for deployment in deployments(case)[:1]:
        try:
            asked = facts(deployment, config=config)
        except InputError:
            assert not outcome["ok"]
            assert not outcome["explicit"]
            return
        _agrees(outcome_of(BUILD, asked), outcome)
        if outcome["ok"]:
            quant = from_arguments(values)
            assert quant.method == outcome["value"]["name"]
            assert quant.block == outcome["value"]["weight_block_size"]
            assert quant.mxfp8 == outcome["value"]["use_mxfp8"]
            assert quant.activation == outcome["value"]["activation_scheme"]


@pytest.mark.parametrize("case", cases("Fp8Config.from_config"))
def test_from_config(case: dict[str, Any]) -> None:
    values, outcome = case["input"]["config"], case["outcome"]
    if not outcome["ok"] and not outcome["explicit"]:  # an accident inside SGLang
        with pytest.raises(InputError):
            facts(Deployment(), config=values)
        return
    for deployment in deployments(case)[:1]:
        quant = from_values(values, None, "")
        _agrees(outcome_of(PARSE, _with(deployment, quant, ConfigFacts(values))), outcome)
        if outcome["ok"]:
            value = outcome["value"]
            assert ("mxfp8" if quant.mxfp8 else "fp8") == value["name"]
            assert quant.serialized == value["is_checkpoint_fp8_serialized"]
            assert quant.block == value["weight_block_size"]
            assert quant.activation == value["activation_scheme"]
            assert quant.scale_fmt == value["scale_fmt"]


@pytest.mark.parametrize("case", cases("Fp8Config.get_min_capability"))
def test_min_capability(case: dict[str, Any]) -> None:
    for machine in machines(case):
        mxfp8 = case["input"]["use_mxfp8"]
        assert min_capability(machine, mxfp8=mxfp8) == case["outcome"]["value"]


@pytest.mark.parametrize("case", cases("loader._get_quantization_config"))
def test_capability_and_dtype(case: dict[str, Any]) -> None:
    given = case["input"]
    for deployment in deployments(case):
        quant = from_values(given["quant_config"], given["quantization"], "")
        asked = _with(deployment, quant, ConfigFacts(given["quant_config"]))
        asked = _replace_dtype(asked, given["dtype"])
        _agrees(outcome_of(("cfg-min-capability", "cfg-act-dtype"), asked), case["outcome"])


def _replace_dtype(asked: Facts, dtype: str) -> Facts:
    return replace(asked, deployment=replace(asked.deployment, dtype=dtype))


@pytest.mark.parametrize("case", cases("ModelConfig._verify_quantization"))
def test_verify_quantization(case: dict[str, Any]) -> None:
    given, outcome = case["input"], case["outcome"]
    rows = ("cfg-method-mismatch", "cfg-method-unknown", "cfg-rocm", "cfg-not-optimized")
    for deployment in deployments(case):
        deployment = replace(
            deployment, quantization=given["quantization"], draft_model=given["is_draft_model"]
        )
        # the case holds a config that is parsed already: keep the ModelOpt rewrite out
        checkpoint = given["checkpoint"]
        machine = facts(
            Deployment(gpu=deployment.gpu, toolkit=deployment.toolkit, version=deployment.version)
        ).platform
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(q, "rewrite_modelopt", dict)
            patch.setattr("mxlab.guards.sglang_config.rewrite_modelopt", dict)
            config = ConfigFacts(checkpoint)
            parsed = q.quant(deployment, config, machine)
            base = facts(Deployment())
            asked = replace(
                base, deployment=deployment, platform=machine, quant=parsed, config=config
            )
            _agrees(outcome_of(rows, asked), outcome)
        if outcome["ok"]:
            assert parsed.method == outcome["value"]["quantization"]


@pytest.mark.parametrize("case", cases("ModelConfig._parse_modelopt_quant_config"))
def test_parse_modelopt(case: dict[str, Any]) -> None:
    assert parse_modelopt(case["input"]["config"]) == case["outcome"]["value"]["parsed"]


def _problem(id: str, found: Any) -> tuple[str, str, list[str]]:
    """(error class, text, warnings) of a check that returns (number of its message, ...)."""
    return (guard(id).error, guard(id).messages[found[0]], []) if found else ("", "", [])


@pytest.mark.parametrize("case", cases("MiniMaxM3Nvfp4Config.from_config"))
def test_m31(case: dict[str, Any]) -> None:
    given, outcome = case["input"]["config"], case["outcome"]
    stored = {"quant_method": "minimax_m3_nvfp4", **given}
    for deployment in deployments(case)[:3]:
        asked = facts(deployment, config=stored)
        _agrees(outcome_of(("cfg-m31-block", "cfg-m31-nvfp4"), asked), outcome)
        if outcome["ok"]:
            found, value = m31_config(given, asked.platform), outcome["value"]
            assert found.ignored == (value["ignored_layers"] or [])
            assert found.converts is value["convert_mxfp8_to_block_fp8"]
            assert found.min_capability == value["min_capability"]


@pytest.mark.parametrize("case", cases("ModelOptFp8Config.from_config"))
def test_modelopt_fp8(case: dict[str, Any]) -> None:
    found = modelopt_fp8_problem(case["input"]["config"])
    _agrees(_problem("cfg-modelopt-fp8-only", found), case["outcome"])


@pytest.mark.parametrize("algo", ["MXFP8", "NVFP4"])
def test_modelopt_fp8_names_what_it_found(algo: str) -> None:
    config = {"quant_method": "modelopt_fp8", "quant_algo": algo}
    found = outcome_of(("cfg-modelopt-fp8-only",), facts(Deployment(gpu="b200"), config=config))
    assert found[:2] == (
        "ValueError",
        f"ModelOptFp8Config only supports regular FP8 quantization, but found '{algo}'. Use the "
        "native 'mxfp8' quantization method for MXFP8 or ModelOptFp4Config for FP4.",
    )


_NAME = st.lists(st.sampled_from(["", "a", "b", "layers", "0"]), max_size=5).map(".".join)


@given(st.lists(_NAME, max_size=6), _NAME)
def test_looking_up_equals_comparing_with_each(entries: list[str], path: str) -> None:
    assert Entries.of(entries).cover(path) is any(matches(entry, path) for entry in entries)


@pytest.mark.parametrize("case", cases("quantization.utils.is_layer_skipped"))
def test_is_layer_skipped(case: dict[str, Any]) -> None:
    given, outcome = case["input"], case["outcome"]
    arguments = (given["prefix"], given["ignored_layers"], given["fused_mapping"])
    if outcome["ok"]:
        assert is_layer_skipped(*arguments) is outcome["value"]
    else:
        kind = {"ValueError": MixedShards, "AssertionError": EmptyShards}[outcome["error"]]
        with pytest.raises(kind) as caught:
            is_layer_skipped(*arguments)
        assert str(caught.value) == outcome["message"]


@pytest.mark.parametrize("case", cases("fp8_utils.initialize_fp8_gemm_config"))
def test_effective_flag(case: dict[str, Any]) -> None:
    for machine in machines(case):
        found = rules.effective_flag(machine, case["input"]["fp8_gemm_backend"])
        assert found == case["outcome"]["value"]["effective"]


RESOLVERS = {
    "fp8_utils.resolve_mxfp8_dense_gemm_backend": rules.resolve_mxfp8_dense_gemm_backend,
    "fp8_utils.resolve_block_fp8_mxfp8_backend": rules.resolve_block_fp8_mxfp8_backend,
}


@pytest.mark.parametrize("case", [case for fn in RESOLVERS for case in cases(fn)])
def test_resolvers(case: dict[str, Any]) -> None:
    for machine in machines(case):
        backend, stop = RESOLVERS[case["fn"]](machine, case["input"]["fp8_gemm_backend"])
        if case["outcome"]["ok"]:
            assert (backend, stop) == (case["outcome"]["value"], None)
        else:
            assert backend is None
            assert stop is not None
            assert stop.status is Status.STOPS


@pytest.mark.parametrize("case", cases("fp8_utils.can_serve_block_fp8_as_mxfp8"))
def test_can_serve_block_as_mxfp8(case: dict[str, Any]) -> None:
    given = case["input"]
    for machine in machines(case):
        served, stop = rules.can_serve_block_fp8_as_mxfp8(
            machine, given["fp8_gemm_backend"], given["weight_block_size"], given["scale_fmt"]
        )
        assert (stop is None) == case["outcome"]["ok"]
        if case["outcome"]["ok"]:
            assert served is case["outcome"]["value"]


@pytest.mark.parametrize("case", cases("fp8_utils._deepgemm_block_fp8_supported"))
def test_deep_gemm_block_fp8(case: dict[str, Any]) -> None:
    given = case["input"]
    for machine in machines(case):
        found = rules.deepgemm_block_fp8_supported(
            machine, given["n"], given["k"], given["block_size"], given["output_dtype"]
        )
        assert found is case["outcome"]["value"]


@pytest.mark.parametrize("case", cases("fp8_utils.dispatch_w8a8_block_fp8_linear"))
def test_dispatch_block_fp8(case: dict[str, Any]) -> None:
    given, outcome = case["input"], case["outcome"]
    for machine in machines(case):
        choice = rules.dispatch_block_fp8(
            machine,
            given["fp8_gemm_backend"],
            given["weight_block_size"],
            given["act_scale_ue8m0"],
        )
        assert (choice.guard == "") == outcome["ok"]
        if outcome["ok"]:
            assert choice.kernel == outcome["value"]["function"]
            assert choice.warns == bool(outcome.get("warnings"))
