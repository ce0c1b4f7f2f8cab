"""``mxlab doctor`` as a person and as a script calls it, bad input included."""

import json
from pathlib import Path
from typing import Any

import pytest
from command import Capture, ask, call, refuse

MODELS = Path(__file__).parent / "data/models"
LLAMA = json.loads((MODELS / "Llama-3.1-8B.json").read_text())
ISSUE = ("--gpu", "h200", "--tp", "8", "--quantization", "mxfp8", "--fp8-gemm-backend", "deep_gemm")


def test_the_text_has_the_first_stop_on_top_and_a_row_for_each_linear(capsys: Capture) -> None:
    code, out, err = call(capsys, "doctor", str(MODELS / "Llama-3.1-8B.json"), *ISSUE)
    assert (code, err) == (1, "")
    lines = out.splitlines()
    stop = next(i for i, line in enumerate(lines) if line.startswith("STOPS in S3"))
    table = next(i for i, line in enumerate(lines) if line.startswith("layer "))
    assert stop < table and "cfg-min-capability" in lines[stop]
    assert lines[table].split() == ["layer", "layers", "N", "K", "verdict", "because"]
    rows = [line.split()[:4] for line in lines[table + 1 : table + 6]]
    assert rows[3] == ["down_proj", "32", "4096", "1792"]


def test_the_json_is_the_contract_s(capsys: Capture) -> None:
    answer = ask(capsys, "doctor", "Llama-3.1-8B", *ISSUE, code=1)
    wanted = {"deployment", "outcome", "first_stop", "layers", "kv_cache", "moe", "suggestions"}
    assert wanted <= answer.keys()
    verdict = answer["layers"][0]["verdicts"][0]
    assert set(verdict) == {
        *("guard", "system", "version", "status", "stage"),
        *("message", "because", "fixes", "source"),
    }
    assert answer["kv_cache"]["head_dim"] == 128
    assert answer["deployment"]["gpu"] == "h200"


def test_packages_environment_and_toolkit_reach_the_guards(capsys: Capture) -> None:
    base = ("doctor", "Llama-3.1-8B", "--gpu", "b200", "--quantization", "mxfp8")
    assert ask(capsys, *base)["outcome"] == "runs"
    bare = ask(capsys, *base, "--without", "flashinfer", "--without", "deep_gemm", code=1)
    assert bare["first_stop"]["guard"] == "fwd-unsupported"
    old = ask(
        capsys, *base, "--fp8-gemm-backend", "flashinfer_cutlass", "--toolkit", "12.4", code=1
    )
    assert old["first_stop"]["guard"] == "res-cutlass"
    off = ("--fp8-gemm-backend", "deep_gemm", "--env", "SGLANG_ENABLE_JIT_DEEPGEMM=0")
    assert ask(capsys, *base, *off, code=1)["first_stop"]["guard"] == "res-deepgemm"


def test_an_unknown_model_is_answered_not_guessed(capsys: Capture, tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"architectures": ["NoSuchForCausalLM"], "num_hidden_layers": 4}))
    answer = ask(capsys, "doctor", str(config), "--gpu", "b200")
    assert answer["outcome"] == "unknown" and answer["layers"] == []
    assert any("layers 0-3" in line for line in answer["unknown"])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{not json", "JSON"),
        ("[1, 2]", "list"),
        ("", "empty"),
        ("null", "null"),
        ("{}", "architectures"),
        (json.dumps({**LLAMA, "hidden_size": None}), "hidden_size"),
        (json.dumps({k: v for k, v in LLAMA.items() if k != "hidden_size"}), "hidden_size"),
        (json.dumps({**LLAMA, "hidden_size": "4096"}), "hidden_size"),
        (json.dumps({**LLAMA, "hidden_size": -4096}), "-4096"),
        (json.dumps({**LLAMA, "intermediate_size": 0}), "intermediate_size"),
        (json.dumps({**LLAMA, "vocab_size": 1.5}), "vocab_size"),
        (json.dumps({**LLAMA, "num_hidden_layers": 10**9}), "num_hidden_layers"),
        (json.dumps({**LLAMA, "hidden_size": 10**400}), "hidden_size"),
        (json.dumps({**LLAMA, "quantization_config": [1]}), "quantization_config"),
        (json.dumps({**LLAMA, "quantization_config": {"quant_method": 8}}), "quant_method"),
        ('{"a":' * 100_000, "nest"),
    ],
)
def test_a_config_that_cannot_be_used(
    capsys: Capture, tmp_path: Path, text: str, said: str
) -> None:
    config = tmp_path / "config.json"
    config.write_text(text)
    assert said in refuse(capsys, "doctor", str(config), *ISSUE)


def test_a_config_of_100_mb_is_refused_unread(capsys: Capture, tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    with config.open("wb") as file:
        file.truncate(100_000_000)
    assert "MB" in refuse(capsys, "doctor", str(config))


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--gpu", "h2000"], "h200"),
        (["--fp8-gemm-backend", "deepgemm"], "deep_gemm"),
        (["--moe-runner-backend", "tritn"], "triton"),
        (["--kv-cache-dtype", "mxfp9"], "mxfp8"),
        (["--attention-backend", "fa5"], "fa4"),
        (["--quantization", "mxfp7"], "mxfp8"),
        (["--dtype", "bfloat"], "bfloat16"),
        (["--without", "flashinfr"], "flashinfer"),
        (["--with", "deepgem"], "deep_gemm"),
        (["--system", "sglng"], "sglang"),
        (["--system", "sglang@9.9"], "0.5.23"),
        (["--tp", "0"], "nearest is 1"),
        (["--tp", "-8"], "nearest is 1"),
        (["--tp", "eight"], "eight"),
        (["--tp", "8", "--ep", "3"], "nearest is 2"),
        (["--page-size", "0"], "nearest is 1"),
        (["--env", "NOVALUE"], "NAME=VALUE"),
        (["--toolkit", "new"], "new"),
    ],
)
def test_flags_that_no_launch_could_have(capsys: Capture, argv: list[str], said: Any) -> None:
    assert said in refuse(capsys, "doctor", "Llama-3.1-8B", *argv)


def test_a_name_that_is_no_file_offers_the_nearest_models(capsys: Capture) -> None:
    assert "Llama-3.1-8B" in refuse(capsys, "doctor", "Llama-3.1-8b-instruct")


def test_a_tp_that_does_not_divide_the_heads_is_an_answer(capsys: Capture) -> None:
    answer = ask(capsys, "doctor", "Llama-3.1-8B", "--gpu", "b200", "--tp", "3", code=1)
    assert answer["first_stop"]["because"] == "num_attention_heads=32 not divisible by 3"
    assert "1, 2, 4, 8, 16" in answer["first_stop"]["fixes"][0]


def test_an_empty_name_is_not_the_current_folder(capsys: Capture) -> None:
    assert "Llama-3.1-8B" in refuse(capsys, "doctor", "")
