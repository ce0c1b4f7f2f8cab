"""``mxlab inspect`` at the command line: exit codes, JSON, what a person reads, size and speed."""

import json
import subprocess
import sys
import time
from pathlib import Path

import checkpoint_files as files
import pytest
import torch

from mxlab.cli import main


def test_a_good_checkpoint_exits_0(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = files.write(tmp_path, files.llama(), files.with_config(files.MODELOPT))
    assert main(["inspect", str(folder), "--bytes"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("no mistake found that stops\n")
    assert "claimed: MXFP8 (ModelOpt MXFP8, flat), one scale for 1 x 32, 1 entry in" in text
    assert "model.layers.{layer}.mlp.down_proj" in text
    assert "U8 128x8" in text
    assert "105  124" in text


def test_a_mistake_exits_1_and_comes_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tensors = files.llama()
    name = "model.layers.2.mlp.up_proj.weight_scale"
    tensors[name] = tensors[name].T.contiguous()
    folder = files.write(tmp_path, tensors, files.with_config(files.MODELOPT))
    assert main(["inspect", str(folder)]) == 1
    text = capsys.readouterr().out
    first = text.split("\n")[0]
    assert first == "this stops: transposed-scale in 1 place"
    assert "scale (4, 256) is (K/32, N); expected (N, K/32) = (256, 4)" in text
    assert "[SGLang guard lin-scale-shape]" in text
    assert f"where: {name}" in text
    assert "fix: store scale.T.contiguous()" in text


def test_json_is_strict_and_whole(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tensors = files.llama()
    tensors["a.b.weight"] = tensors["model.layers.0.mlp.up_proj.weight"].clone()
    tensors["a.b.weight_scale"] = torch.tensor([[float("nan"), 1.0]])
    folder = files.write(tmp_path, tensors, files.with_config(files.MODELOPT))

    def refuse(name: str) -> None:
        raise AssertionError(name)

    assert main(["inspect", str(folder), "--json", "--bytes"]) == 1
    data = json.loads(capsys.readouterr().out, parse_constant=refuse)
    assert data["schema"] == 1
    assert data["verb"] == "inspect"
    assert (data["kind"], data["outcome"], data["files"]) == ("folder", "stops", 1)
    assert data["tensors"] == len(tensors)
    assert data["claim"]["weights"] == "MXFP8"
    assert {entry["format"] for entry in data["formats"]} >= {"MXFP8", "BF16"}
    row = next(r for r in data["linears"] if r["pattern"].endswith("layer}.mlp.down_proj"))
    assert row | {"dialect": None} == {
        "pattern": "model.layers.{layer}.mlp.down_proj",
        "count": 3,
        "layers": 3,
        "layer_ranges": "0-2",
        "experts": None,
        "n": 128,
        "k": 256,
        "format": "MXFP8",
        "dialect": None,
        "block": [1, 32],
        "weight_dtype": "F8_E4M3",
        "weight_shape": [128, 256],
        "scale_name": "weight_scale",
        "scale_dtype": "U8",
        "scale_shape": [128, 8],
    }
    for finding in data["findings"]:
        assert set(finding) == {
            *("name", "severity", "message", "count", "tensors", "meaning", "fix", "guard")
        }
    scales = data["scale_bytes"]["scales"]
    assert all(sum(s["histogram"].values()) == s["sampled"] for s in scales)


@pytest.mark.parametrize("source", ["nothing", "model.bin", ""])
def test_bad_input_exits_2(tmp_path: Path, source: str, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "model.bin").write_bytes(b"\x80\x02")
    assert main(["inspect", str(tmp_path / source)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("mxlab: ") and err.count("\n") == 1


def test_the_base_install_is_enough(tmp_path: Path) -> None:
    """No NumPy, no torch, no safetensors: headers and samples need the standard library only."""
    folder = files.write(tmp_path, files.llama(), files.with_config(files.MODELOPT))
    code = (
        "import sys\n"
        "for name in ('numpy', 'torch', 'safetensors', 'ml_dtypes'): sys.modules[name] = None\n"
        "from mxlab.cli import main\n"
        f"sys.exit(main(['inspect', {str(folder)!r}, '--bytes']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_671b_checkpoint_prints_few_rows_in_seconds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """DeepSeek-V3's linears as sparse MXFP8 shards: 90,000 tensors, 16 rows."""
    mla = {
        "self_attn.q_a_proj": (1536, 7168),
        "self_attn.q_b_proj": (24576, 1536),
        "self_attn.kv_a_proj_with_mqa": (576, 7168),
        "self_attn.kv_b_proj": (32768, 512),
        "self_attn.o_proj": (7168, 16384),
    }
    dense = {"gate_proj": (18432, 7168), "up_proj": (18432, 7168), "down_proj": (7168, 18432)}
    expert = {"gate_proj": (2048, 7168), "up_proj": (2048, 7168), "down_proj": (7168, 2048)}
    placed = {}
    count = 0
    for layer in range(61):
        modules = dict(mla)
        if layer < 3:
            modules |= {f"mlp.{leaf}": size for leaf, size in dense.items()}
        else:
            modules |= {f"mlp.shared_experts.{leaf}": size for leaf, size in expert.items()}
            for index in range(256):
                modules |= {f"mlp.experts.{index}.{leaf}": size for leaf, size in expert.items()}
        header, at = {}, 0
        for module, (n, k) in modules.items():
            base = f"model.layers.{layer}.{module}.weight"
            for name, dtype, shape in (
                (base, "F8_E4M3", [n, k]),
                (f"{base}_scale_inv", "U8", [n, k // 32]),
            ):
                end = at + shape[0] * shape[1]
                header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, end]}
                at = end
        file = f"model-{layer + 1:05}-of-00061.safetensors"
        path = files.header_file(tmp_path / file, header)
        with path.open("r+b") as stream:
            stream.truncate(path.stat().st_size + at)
        placed.update(dict.fromkeys(header, file))
        count += len(modules)
    files.write_index(tmp_path, placed)
    config = {
        "architectures": ["DeepseekV3ForCausalLM"],
        "model_type": "deepseek_v3",
        "hidden_size": 7168,
        "intermediate_size": 18432,
        "moe_intermediate_size": 2048,
        "num_hidden_layers": 61,
        "first_k_dense_replace": 3,
        "moe_layer_freq": 1,
        "n_routed_experts": 256,
        "n_shared_experts": 1,
        "num_attention_heads": 128,
        "num_key_value_heads": 128,
        "q_lora_rank": 1536,
        "kv_lora_rank": 512,
        "qk_nope_head_dim": 128,
        "qk_rope_head_dim": 64,
        "v_head_dim": 128,
        "vocab_size": 129280,
        "tie_word_embeddings": False,
        "quantization_config": {**files.NATIVE, "ignored_layers": []},
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    start = time.process_time()
    assert main(["inspect", str(tmp_path), "--json"]) == 0
    assert time.process_time() - start < 10  # 2 s on an idle machine
    data = json.loads(capsys.readouterr().out)
    assert data["findings"] == []
    assert data["notes"] == []
    assert data["tensors"] == 2 * count > 80_000
    assert data["bytes"] > 650e9
    assert len(data["linears"]) == 14
    experts = next(r for r in data["linears"] if r["pattern"].endswith("{expert}.down_proj"))
    assert (experts["layers"], experts["experts"], experts["count"]) == (58, 256, 58 * 256)
