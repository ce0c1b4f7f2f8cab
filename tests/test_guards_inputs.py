"""Bad and hostile input to check(): one line that names the value and what was expected."""

from typing import Any

import pytest

from mxlab.cli import main
from mxlab.doctor import doctor
from mxlab.errors import InputError
from mxlab.guards import (
    ConfigFacts,
    Deployment,
    ExpertFacts,
    KvCacheFacts,
    LinearFacts,
    PrologueFacts,
    Status,
    check,
    guard,
)
from mxlab.hardware import ALIASES, GPUS, gpu

BAD_DEPLOYMENTS: list[tuple[dict[str, Any], str]] = [
    ({"gpu": "h20O"}, "did you mean 'h20'"),
    ({"gpu": "h" * 10_000_000}, "unknown GPU"),
    ({"gpu": None}, "unknown GPU"),
    ({"system": "sglan"}, "did you mean 'sglang'"),
    ({"version": "0.5.22"}, "0.5.23"),
    ({"tp": 0}, "tp is 0: expected 1 to"),
    ({"tp": "8"}, "tp is '8': expected a whole number"),
    ({"tp": True}, "expected a whole number"),
    ({"tp": 10**5000}, "a number of over 30 digits"),
    ({"ep": -1}, "ep is -1"),
    ({"quantization": "mxpf8"}, "did you mean 'mxfp8'"),
    ({"fp8_gemm_backend": "deepgemm"}, "did you mean 'deep_gemm'"),
    ({"fp8_gemm_backend": "DEEP_GEMM"}, "lower case"),
    ({"moe_runner_backend": "trtllm"}, "--moe-runner-backend"),
    ({"moe_a2a_backend": "deep_ep"}, "did you mean 'deepep'"),
    ({"flashinfer_a2a_dispatch_type": "mxfp"}, "did you mean 'mxfp8'"),
    ({"kv_cache_dtype": "mxfp4"}, "did you mean 'mxfp8'"),
    ({"attention_backend": "fa5"}, "did you mean 'fa"),
    ({"decode_attention_backend": "flash_infer"}, "did you mean 'flashinfer'"),
    ({"dtype": "bf16"}, "unknown --dtype"),
    ({"dtype": None}, "unknown --dtype"),
    ({"page_size": 0}, "--page-size is 0"),
    ({"page_size": 2.5}, "--page-size is 2.5"),
    ({"toolkit": "12"}, "MAJOR.MINOR"),
    ({"toolkit": "9" * 5000}, "MAJOR.MINOR"),
    ({"packages": frozenset({"flash_infer"})}, "did you mean 'flashinfer'"),
    ({"env": {"SGLANG_USE_AITER": 1}}, "expected text"),
    ({"env": ["x"]}, "expected names and values"),
    ({"packages": None}, "packages are None: expected a set of names"),
]


@pytest.mark.parametrize(("fields", "text"), BAD_DEPLOYMENTS)
def test_bad_deployment(fields: dict[str, Any], text: str) -> None:
    with pytest.raises(InputError) as caught:
        check(Deployment(**fields))
    assert text in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 1500


@pytest.mark.parametrize("value", [None, "b200", {}])
def test_no_deployment(value: Any) -> None:
    with pytest.raises(InputError, match="is no Deployment"):
        check(value)
    with pytest.raises(InputError, match="is no Deployment"):
        doctor("Llama-3.1-8B", value)


MX = {"quant_method": "mxfp8", "activation_scheme": "dynamic"}
BAD_SUBJECTS: list[tuple[dict[str, Any], str]] = [
    ({"config": [1]}, "quantization_config is [1]: expected an object"),
    ({"config": {"quant_method": 8}}, "quantization_config.quant_method is 8"),
    ({"config": {"quant_method": "x" * 10_000}}, "expected a short name"),
    ({"config": ConfigFacts({"use_mxfp": True}, constructor=True)}, "did you mean 'use_mxfp8'"),
    ({"linear": LinearFacts("x", 0, 32)}, "n is 0"),
    ({"linear": LinearFacts("x", 32, -1)}, "k is -1"),
    ({"linear": LinearFacts("x", 10**400, 32)}, "a number of over 30 digits"),
    ({"linear": LinearFacts("x", 32, 32, "rows")}, "did you mean 'row'"),
    ({"linear": LinearFacts("x", 32, 32, parts=(16, 8))}, "add up to 24, not to n = 32"),
    ({"linear": LinearFacts("x", 32, 32, parts=5)}, "parts are 5: expected"),  # type: ignore[arg-type]
    ({"linear": "x"}, "'x' is no LinearFacts"),
    ({"experts": (1, 1, 1)}, "(1, 1, 1) is no ExpertFacts"),
    ({"kv_cache": 128}, "128 is no KvCacheFacts"),
    ({"prologue": {}}, "{} is no PrologueFacts"),
    ({"experts": ExpertFacts(0, 1, 1)}, "hidden is 0"),
    ({"experts": ExpertFacts(1, 1, 1, moe_tp=0)}, "moe_tp is 0"),
    ({"kv_cache": KvCacheFacts(0, 1, 1)}, "head_dim is 0"),
    ({"prologue": PrologueFacts("verif", 1, 1, 1, 1)}, "did you mean 'verify'"),
    ({"prologue": PrologueFacts("verify", 128, 128, 128, 0)}, "page_size is 0"),
    ({"prologue": PrologueFacts("verify", 1, 1, 1, 1, sfk_shape=(-1,))}, "sfk_shape is -1"),
]


@pytest.mark.parametrize(("subjects", "text"), BAD_SUBJECTS)
def test_bad_subject(subjects: dict[str, Any], text: str) -> None:
    with pytest.raises(InputError) as caught:
        check(Deployment(gpu="b200"), **subjects)
    assert text in str(caught.value)
    assert "\n" not in str(caught.value)


def _nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


HOSTILE = [
    {**MX, "weight_block_size": 10**5000},
    {**MX, "weight_block_size": _nested(50_000)},
    {**MX, "weight_block_size": "\x00\ud800\n" * 1000},
    {**MX, "weight_block_size": float("nan")},
    {**MX, "activation_scheme": {"a": [1]}},
    {**MX, "activation_scheme": "x" * 1_000_000},
    {"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [0, 0]},
    {"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": ["a", None]},
    {"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [-1, 2.5]},
    {"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": 128},
    {"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": {}},
    {"quant_method": "modelopt", "quant_algo": "MXFP8", "group_size": 10**5000},
    {"quant_algo": "MIXED_PRECISION", "quantized_layers": {"a": {"quant_algo": 5}, "b": 3}},
    {"quantization": {"quantization": {"quantization": []}}},
    {"quant_method": "mxfp8", "kv_cache_scheme": [1]},
    {},
]


@pytest.mark.parametrize("config", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_config_is_answered(config: dict[str, Any]) -> None:
    verdicts = check(
        Deployment(gpu="b200", tp=2),
        config=config,
        linear=LinearFacts("x", 256, 256, "row"),
        experts=ExpertFacts(256, 256, 4),
    )
    assert verdicts
    for verdict in verdicts:
        assert len(verdict.message) < 2000
        assert len(verdict.because) < 2000
        assert "\n" not in verdict.because


def test_uppercase_method_is_not_mxfp8() -> None:
    """SGLang lower-cases the name in one place and not in the other."""
    verdicts = check(Deployment(gpu="a100"), config={**MX, "quant_method": "MXFP8"})
    found = {v.guard: v for v in verdicts}
    assert found["cfg-method-mismatch"].status is Status.NOT_REACHED
    assert found["cfg-min-capability"].status is Status.PASSES  # it became a plain fp8 config
    blocked = check(
        Deployment(gpu="a100"),
        config={**MX, "quant_method": "MXFP8", "weight_block_size": [1, 32]},
    )
    assert {v.guard: v.status for v in blocked}["cfg-block-not-serialized"] is Status.STOPS


def test_16_bit_models_reach_nothing() -> None:
    linear = LinearFacts("x", 96, 96)
    for verdict in check(Deployment(gpu="h200"), linear=linear, experts=ExpertFacts(96, 96, 4)):
        divides = verdict.guard in ("tp-divides", "moe-tp-div")  # asked of every model
        wanted = Status.PASSES if divides else Status.NOT_REACHED
        assert verdict.status is wanted, verdict


def test_hyv4_chooses_deep_gemm() -> None:
    config = {"quant_method": "modelopt", "quant_algo": "MXFP8"}
    deployment = Deployment(gpu="b200", architecture="HYV4ForCausalLM")
    found = {v.guard: v for v in check(deployment, config=config, linear=LinearFacts("x", 96, 96))}
    assert found["wsp-deepgemm"].status is Status.FALLS_BACK


def test_gpu_names() -> None:
    for name, row in GPUS.items():
        assert gpu(name) is gpu(name.upper()) is row
    for alias, name in ALIASES.items():
        assert gpu(alias) is GPUS[name]
    assert gpu("NVIDIA H200").name == "h200"
    assert gpu("AMD Instinct MI355X").name == "mi355x"


def test_guard_lookup_offers_the_nearest() -> None:
    with pytest.raises(InputError, match="did you mean 'wsp-deepgemm'"):
        guard("wsp-deep-gemm")


def test_verb(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("mxlab.cli", fromlist=["VERBS"]).VERBS, "guards", "the table")
    assert main(["guards", "wsp-deepgemm", "--json"]) == 0
    assert '"guard": "wsp-deepgemm"' in capsys.readouterr().out
    assert main(["guards"]) == 0
    assert "cfg-min-capability" in capsys.readouterr().out
    assert main(["guards", "nope"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_methods_of_others_do_not_stop() -> None:
    gptq = {"quant_method": "gptq", "bits": 4, "group_size": 128, "sym": True, "desc_act": False}
    for flag, config in ((None, gptq), ("unquant", None)):
        for verdict in check(
            Deployment(gpu="b200", quantization=flag),
            config=config,
            linear=LinearFacts("x", 96, 96),
        ):
            assert verdict.status in (Status.NOT_REACHED, Status.PASSES), verdict
