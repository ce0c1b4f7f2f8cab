"""``mxlab shapes``: the contract's JSON, the table, the exit codes."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mxlab.cli import main

DATA = Path(__file__).parent / "data"
CASES: dict[str, Any] = json.loads((DATA / "model-shapes.json").read_text())["models"]


def answer(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str, str]:
    code = main(["shapes", *argv])
    out, err = capsys.readouterr()
    return code, out, err


def path(name: str) -> str:
    return str(DATA / "models" / f"{name}.json")


def test_json_is_the_contract(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = answer(capsys, path("DeepSeek-V3"), "--tp", "8", "--ep", "2", "--json")
    data = json.loads(out)
    assert (code, err) == (0, "")
    assert (data["schema"], data["loads"], data["tp"], data["ep"]) == (1, True, 8, 2)
    assert (data["unknown"], data["derived"]) == ([], [])
    assert data["layers"][0] == {
        "linear": "fused_qkv_a_proj_with_mqa",
        "kind": "linear",
        "shard": "replicated",
        "layers": 61,
        "experts": None,
        "n": 2112,
        "k": 7168,
        "parts": [1536, 576],
        "sources": ["q_a_proj", "kv_a_proj_with_mqa"],
    }
    w13 = next(row for row in data["layers"] if row["linear"] == "experts.w13")
    assert (w13["n"], w13["experts"], w13["experts_per_rank"]) == (2 * 2048 // 4, 256, 128)
    kv = data["kv"]
    assert (kv["kind"], kv["head_dim"], kv["v_head_dim"]) == ("MLA", 192, 128)
    assert (kv["kv_heads_per_rank"], kv["q_heads_per_rank"], kv["cached_per_token"]) == (1, 16, 576)
    assert data["quantization"]["weights"] == "FP8 block"


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("tp", ["1", "8"])
def test_exit_code_says_whether_it_loads(
    name: str, tp: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = answer(capsys, path(name), "--tp", tp)
    loads = CASES[name]["tp"][tp]["loads"]
    assert code == (0 if loads else 1)
    assert ("does not load" in out) is not loads
    for row in CASES[name]["rows"]:
        assert f"\n{row[0]} " in out


def test_an_indivisible_linear_says_what_would_load(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = answer(capsys, "phi-4", "--tp", "4", "--json")
    data = json.loads(out)
    assert (code, data["loads"], data["why"]) == (
        1,
        False,
        ["num_key_value_heads=10 not divisible by 4"],
    )
    assert data["layers"][0]["invalid"] == "num_key_value_heads=10 not divisible by 4"
    assert (data["layers"][0]["n"], data["layers"][0]["parts"]) == (None, [])
    assert data["tp_that_load"] == [1, 2, 5, 10, 20, 40]
    assert data["kv"]["kv_heads_per_rank"] is None
    _, out, _ = answer(capsys, "phi-4", "--tp", "4")
    assert out.startswith("Phi3ForCausalLM, TP 4: does not load: num_key_value_heads=10 not ")
    assert "TP sizes up to 64 that load: 1, 2, 5, 10, 20, 40\n" in out


def test_table(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = answer(capsys, path("Llama-3.1-8B"), "--tp", "8")
    assert code == 0
    assert out == (
        "LlamaForCausalLM, TP 8: every linear divides\n"
        "checkpoint: not quantised\n"
        "KV cache on one rank: GQA, 1 KV heads of 128 in 32 layers, 4 query heads\n"
        "\n"
        "linear        layers     shard           N     K  parts of N       notes\n"
        "qkv_proj      32 (0-31)  column (N)    768  4096  512 + 128 + 128\n"
        "o_proj        32 (0-31)  row (K)      4096   512\n"
        "gate_up_proj  32 (0-31)  column (N)   3584  4096  1792 + 1792\n"
        "down_proj     32 (0-31)  row (K)      4096  1792\n"
        "lm_head       1          vocab (N)   16032  4096                   never quantised\n"
        "\n"
        "derived:\n"
        "  head_dim = hidden_size / num_attention_heads = 128\n"
    )


def test_missing_sizes_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = answer(capsys, path("Hy4-preview-FP8-modelopt"), "--tp", "8", "--json")
    data = json.loads(out)
    assert (code, data["loads"], data["layers"], data["kv"]) == (0, None, [], None)
    assert data["unknown"] == [
        "every layer and the output head (config lacks hidden_size, index_head_dim, "
        "intermediate_size, vocab_size: the hy_v4 family needs them, and mxlab assumes no default)"
    ]
    _, out, _ = answer(capsys, path("Hy4-preview-FP8-modelopt"))
    assert out.startswith("HYV4ForCausalLM, TP 1: sizes are missing, nothing derived\n")


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["Llama-3.1-9B"], "did you mean 'Llama-3.1-8B'?"),
        (["Llama-3.1-8B", "--tp", "0"], "tp is 0: expected 1 to 1024; the nearest is 1"),
        (["Llama-3.1-8B", "--tp", "-4"], "tp is -4: expected 1 to 1024; the nearest is 1"),
        (["Llama-3.1-8B", "--tp", "8.0"], "tp is '8.0': expected a whole number from 1 to 1024"),
        (["Llama-3.1-8B", "--tp", "9" * 5000], "tp is '999"),
        (["Llama-3.1-8B", "--tp", "\u0668"], "tp is '\u0668': expected a whole number"),
        (["Mixtral-8x7B", "--tp", "8", "--ep", "3"], "ep is 3: expected a divisor of tp = 8"),
    ],
)
def test_bad_input_is_one_line(
    argv: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = answer(capsys, *argv)
    assert (code, out) == (2, "")
    assert message in err and err.count("\n") == 1 and err.startswith("mxlab: ")


def test_linears_typed_in(capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["--linear", "2880", "2880", "--linear", "down_proj", "8192", "29568", "--tp", "8"]
    code, out, _ = answer(capsys, *argv, "--json")
    data = json.loads(out)
    assert (code, data["loads"], data["source"], data["quantization"]) == (0, True, "linears", None)
    assert [(r["linear"], r["shard"], r["n"], r["k"]) for r in data["layers"]] == [
        ("linear1", "replicated", 2880, 2880),
        ("down_proj", "row", 8192, 3696),
    ]
    _, out, _ = answer(capsys, *argv)
    assert out.startswith("linears as given, TP 8: every linear divides\n")
    assert "  taken as what one rank holds, not split: linear1\n" in out


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ([], "no model was given: expected CONFIG or --linear N K"),
        (["gpt2", "--linear", "1", "1"], "CONFIG and --linear were both given: expected one"),
        (["--linear", "64"], "linear 1 is [64]: expected N K or NAME N K"),
        (["--linear", "64", "0"], "K of linear1 is 0: expected 1 to 16777216; the nearest is 1"),
        (["--linear", "64", "1e3"], "K of linear1 is '1e3': expected a whole number from 1"),
        (["--linear", "a", "b", "64", "64"], "linear 1 is ['a', 'b', 64, 64]: expected N K"),
        (["DeepSeek-V3", "--tp", "8", "--attn-dp-size", "3"], "attn_dp is 3: expected a divisor"),
        (["DeepSeek-V3", "--attn-dp-size", "x"], "attn_dp is 'x': expected a whole number"),
    ],
)
def test_bad_ways_to_name_a_model(
    argv: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = answer(capsys, *argv)
    assert (code, out) == (2, "") and message in err and err.count("\n") == 1


def test_a_folder_whose_weights_differ_from_its_config(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from checkpoint_files import LLAMA, floats, plain_llama
    from safetensors.torch import save_file

    tensors = plain_llama()
    tensors["model.layers.1.mlp.down_proj.weight"] = floats(128, 512)
    save_file(tensors, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    code, out, _ = answer(capsys, str(tmp_path), "--tp", "2")
    assert (
        code == 0
        and (
            "stored weights that differ from the config:\n"
            "  down_proj (layers 1): stored (128, 512), the config gives (128, 256)\n"
        )
        in out
    )
    assert "down_proj     1 (1)     row (K)     128  256\n" in out
    code, out, _ = answer(capsys, str(tmp_path), "--json")
    assert json.loads(out)["differences"] == [
        {"name": "down_proj", "layers": [1], "stored": [128, 512], "derived": [128, 256]}
    ]
    (tmp_path / "config.json").unlink()
    _, out, _ = answer(capsys, str(tmp_path))
    assert out.startswith("no config, TP 1: every linear listed divides\ncheckpoint: no config ")


def test_attention_data_parallel_is_in_the_headline(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = answer(capsys, "DeepSeek-V3", "--tp", "8", "--attn-dp-size", "8")
    assert out.startswith("DeepseekV3ForCausalLM, TP 8, attention DP 8: every linear divides\n")
    _, out, _ = answer(capsys, "DeepSeek-V3", "--tp", "8", "--attn-dp-size", "8", "--json")
    assert json.loads(out)["attn_dp"] == 8


def test_hostile_names_are_escaped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "config.json"
    file.write_text('{"architectures": ["\\ud800\\u001b[31m\\n' + "x" * 9999 + '"]}')
    code, out, _ = answer(capsys, str(file))
    assert code == 0
    assert out.startswith("\\ud800\\x1b[31m\\nxxx") and "\x1b" not in out
    assert max(map(len, out.splitlines())) < 250


def test_needs_the_standard_library_only() -> None:
    code = (
        "import sys; sys.modules['numpy'] = sys.modules['torch'] = None\n"
        "from mxlab.cli import main; main(['shapes', 'DeepSeek-V3', '--tp', '8'])\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "fused_qkv_a_proj_with_mqa" in run.stdout
