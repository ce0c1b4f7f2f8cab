"""What a model may be besides a config: headers, an index, one file, a live module, typed sizes."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from checkpoint_files import LLAMA, Tensors, codes, floats, llama, plain_llama, scales
from safetensors.torch import save_file

from mxlab.errors import InputError
from mxlab.models import Model, Shapes, Stored, linears_model, read_model, shapes, tp_that_load

Rows = dict[str, tuple[int | None, int | None, int]]


def rows(found: Shapes) -> Rows:
    return {row.linear: (row.n, row.k, row.layers) for row in found.layers}


def folder(path: Path, tensors: Tensors, config: dict[str, Any] | None = None) -> Path:
    save_file(tensors, path / "model.safetensors")
    if config is not None:
        (path / "config.json").write_text(json.dumps(config))
    return path


def index(path: Path, tensors: Tensors, shards: int = 2, *, write: bool = True) -> Path:
    names = sorted(tensors)
    placed = {name: f"model-{i % shards:05}.safetensors" for i, name in enumerate(names)}
    for shard in set(placed.values()) if write else ():
        save_file({n: tensors[n] for n in names if placed[n] == shard}, path / shard)
    file = path / "model.safetensors.index.json"
    file.write_text(json.dumps({"metadata": {}, "weight_map": placed}))
    return file


AT_TP_2: Rows = {
    "qkv_proj": (64 + 32 + 32, 128, 3),
    "o_proj": (128, 64, 3),
    "gate_up_proj": (256, 128, 3),
    "down_proj": (128, 128, 3),
    "lm_head": (256, 128, 1),
}


@pytest.mark.parametrize("make", [llama, plain_llama])
def test_headers_that_agree_with_the_config(tmp_path: Path, make: Any) -> None:
    found = shapes(folder(tmp_path, make(), LLAMA), 2)
    assert found.differences == () and found.unknown == () and found.family == "llama"
    assert rows(found) == AT_TP_2 == rows(shapes(LLAMA, 2))
    assert found.to_json()["source"] == "headers" and found.to_json()["differences"] == []
    assert not any("not in the recipe" in note for note in found.notes)


def test_stored_shapes_win_layer_by_layer(tmp_path: Path) -> None:
    tensors = plain_llama()
    tensors["model.layers.1.mlp.down_proj.weight"] = floats(128, 512)
    for name in ("gate_proj", "up_proj"):
        tensors[f"model.layers.1.mlp.{name}.weight"] = floats(512, 128)
    found = shapes(folder(tmp_path, tensors, LLAMA), 4)
    assert [(r.linear, r.n, r.k, r.indices) for r in found.layers if "down" in r.linear] == [
        ("down_proj", 128, 64, (0, 2)),
        ("down_proj", 128, 128, (1,)),
    ]
    assert [d.to_json() for d in found.differences] == [
        {"name": "gate_up_proj", "layers": [1], "stored": [1024, 128], "derived": [512, 128]},
        {"name": "down_proj", "layers": [1], "stored": [128, 512], "derived": [128, 256]},
    ]
    text = found.differences[1].text()
    assert text == "down_proj (layers 1): stored (128, 512), the config gives (128, 256)"
    paths = {row.path for row in found.layers if row.linear == "down_proj"}
    assert paths == {"model.layers.{layer}.mlp.down_proj"}


def test_another_number_of_kv_heads_makes_the_cache_unknown(tmp_path: Path) -> None:
    tensors = plain_llama()
    for layer in range(3):
        for name in ("k_proj", "v_proj"):
            tensors[f"model.layers.{layer}.self_attn.{name}.weight"] = floats(128, 128)
    found = shapes(folder(tmp_path, tensors, LLAMA), 2)
    assert found.layers[0].parts == (64, 64, 64)  # two KV heads of 64, one a rank
    assert [d.stored for d in found.differences] == [(384, 128)]
    assert found.unknown[0].startswith("KV cache (qkv_proj (layers 0-2): stored (384, 128), the ")


def test_what_is_missing_and_what_is_more_than_the_recipe(tmp_path: Path) -> None:
    tensors = plain_llama()
    del tensors["model.layers.2.self_attn.o_proj.weight"]
    del tensors["model.layers.0.mlp.gate_proj.weight"]
    tensors["model.layers.0.adapter.weight"] = floats(8, 128)
    found = shapes(folder(tmp_path, tensors, LLAMA))
    assert [d.text() for d in found.differences] == [
        "gate_up_proj, its gate_proj (layers 0): the config gives (256, 128), no weight is stored",
        "o_proj (layers 2): the config gives (128, 128), no weight is stored",
    ]
    assert "stored and not in the recipe: model.layers.{layer}.adapter" in found.notes
    assert rows(found) == rows(shapes(LLAMA))


def test_a_tied_head_is_not_missing_and_a_vocabulary_is_compared_unpadded(tmp_path: Path) -> None:
    tensors = plain_llama()
    assert shapes(folder(tmp_path, tensors, LLAMA)).differences == ()  # 500 rows, padded to 512
    tensors["lm_head.weight"] = floats(700, 128)
    (difference,) = shapes(folder(tmp_path, tensors, LLAMA)).differences
    assert (difference.name, difference.stored, difference.derived) == (
        "lm_head",
        (700, 128),
        (512, 128),
    )
    assert rows(shapes(tmp_path, 2))["lm_head"] == (704 // 2, 128, 1)
    del tensors["lm_head.weight"]
    tied = {**LLAMA, "tie_word_embeddings": True}
    assert shapes(folder(tmp_path, tensors, tied)).differences == ()


def test_shards_behind_an_index(tmp_path: Path) -> None:
    file = index(tmp_path, llama())
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    sources: list[Path | str] = [tmp_path, file, str(file)]
    for source in sources:
        found = shapes(source, 2)
        assert rows(found) == AT_TP_2 and found.model.kind == "headers" and not found.differences


def test_a_missing_shard_is_said_and_its_weights_are_not_missing(tmp_path: Path) -> None:
    index(tmp_path, llama())
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    (tmp_path / "model-00001.safetensors").unlink()
    found = shapes(tmp_path, 2)
    assert found.differences == () and rows(found) == AT_TP_2
    assert "1 shards are missing: model-00001.safetensors" in found.notes


def test_an_index_alone_gives_names(tmp_path: Path) -> None:
    tensors = llama()
    for name in [name for name in tensors if "layers.1.mlp.down_proj" in name]:
        tensors[name.replace("down_proj", "other_proj")] = tensors.pop(name)
    for layer in (0, 2):
        for name in [name for name in tensors if f"layers.{layer}.mlp.down_proj" in name]:
            del tensors[name]
    file = index(tmp_path, tensors, write=False)
    nameless = shapes(file)
    assert nameless.layers == () and nameless.loads is None and nameless.model.kind == "index"
    assert "lm_head (named 1 times, shape not known)" in nameless.unknown
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    found = shapes(file, 2)
    assert rows(found) == AT_TP_2  # derived: the index has no shapes
    assert [d.text() for d in found.differences] == [
        "down_proj (layers 0-2): the config gives (128, 256), no weight is stored"
    ]
    extra = "named in the index and not in the recipe: model.layers.{layer}.mlp.other_proj"
    assert extra in found.notes


def test_one_shard_with_its_config(tmp_path: Path) -> None:
    index(tmp_path, llama())
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    found = shapes(tmp_path / "model-00000.safetensors", 2)
    assert found.model.partial and found.differences == () and rows(found) == AT_TP_2


def test_an_unknown_architecture_is_read_from_its_headers(tmp_path: Path) -> None:
    config = {"architectures": ["NewForCausalLM"], "model_type": "new", "hidden_size": 128}
    found = shapes(folder(tmp_path, llama(), config), 2)
    assert found.family is None and found.loads is True
    assert rows(found) == AT_TP_2  # 2 KV heads are not known: 64 / 2 all the same
    assert any("KV heads are split, never copied" in note for note in found.notes)
    assert found.unknown == ("KV cache (heads and head_dim are not in the config)",)
    heads = {**config, "num_attention_heads": 4, "num_key_value_heads": 2}
    known = shapes(folder(tmp_path, llama(), heads), 4)
    assert known.layers[0].parts == (32, 32, 32) and known.unknown == ()
    assert known.kv is not None and (known.kv.kind, known.kv.head_dim) == ("GQA", 32)
    assert shapes(tmp_path, 8).why == ("num_attention_heads=4 not divisible by 8",)
    assert tp_that_load(tmp_path, 16) == (1, 2, 4)


def test_experts_one_by_one_and_stacked(tmp_path: Path) -> None:
    config = {"architectures": ["NewForCausalLM"], "hidden_size": 128}
    single = plain_llama()
    stacked = plain_llama()
    for layer in range(3):
        at = f"model.layers.{layer}.mlp."
        for tensors in (single, stacked):
            for name in ("gate_proj", "up_proj", "down_proj"):
                del tensors[f"{at}{name}.weight"]
            tensors[f"{at}gate.weight"] = floats(6, 128)
        for expert in range(6):
            for name in ("w1", "w3"):
                single[f"{at}experts.{expert}.{name}.weight"] = floats(96, 128)
            single[f"{at}experts.{expert}.w2.weight"] = floats(128, 96)
        stacked[f"{at}experts.gate_up_proj"] = floats(6, 128, 192)  # (E, K, N), as gpt-oss
        stacked[f"{at}experts.down_proj"] = floats(6, 96, 128)
    for tensors in (single, stacked):
        found = shapes(folder(tmp_path, tensors, config), 4, ep=2)
        assert {name: rows(found)[name] for name in ("experts.w13", "experts.w2")} == {
            "experts.w13": (2 * 96 // 2, 128, 3),
            "experts.w2": (128, 96 // 2, 3),
        }
        w13 = next(row for row in found.layers if row.linear == "experts.w13")
        assert (w13.experts, w13.experts_per_rank, w13.kind) == (6, 3, "moe")
        assert next(row for row in found.layers if row.linear == "gate").kind == "router"
        broken = shapes(tmp_path, 8, ep=8)
        assert "experts=6 not divisible by ep=8" in broken.why


def test_no_config_at_all(tmp_path: Path) -> None:
    found = shapes(folder(tmp_path, llama()), 2)
    assert rows(found) == AT_TP_2 and found.architecture == found.model_type == ""
    assert "stored weights: MXFP8 x 21, BF16 x 2" in found.notes
    del (tensors := llama())["lm_head.weight"]
    tied = shapes(folder(tmp_path, tensors), 2)
    assert tied.layers[-1].sources == ("embed_tokens (tied)",) and rows(tied) == AT_TP_2


def test_headers_that_cannot_be_read(tmp_path: Path) -> None:
    """A clone without its large files: text pointers in place of safetensors."""
    (tmp_path / "model.safetensors").write_text("version https://git-lfs.github.com/spec/v1\n")
    with pytest.raises(InputError):
        shapes(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    found = shapes(tmp_path, 2)
    assert rows(found) == AT_TP_2 and found.notes[0].startswith("no header was read: ")
    (tmp_path / "model.safetensors").rename(tmp_path / "pytorch_model.bin")
    assert "pickle" in shapes(tmp_path).notes[0]


def test_an_index_under_another_name(tmp_path: Path) -> None:
    other = tmp_path / "weights.json"
    other.write_text(json.dumps({"weight_map": {"a.weight": "a.safetensors"}}))
    with pytest.raises(InputError, match="is a safetensors index by its weight_map"):
        shapes(other)


class Attention(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.q_proj = torch.nn.Linear(128, 128)
        self.k_proj = torch.nn.Linear(128, 64)
        self.v_proj = torch.nn.Linear(128, 64)
        self.o_proj = torch.nn.Linear(128, 128)
        self.norm = torch.nn.LayerNorm(128)


def live() -> torch.nn.Module:
    with torch.device("meta"):
        model = torch.nn.Module()
        model.embed_tokens = torch.nn.Embedding(500, 128)
        model.layers = torch.nn.ModuleList()
        for _ in range(3):
            layer = torch.nn.Module()
            layer.self_attn = Attention()
            model.layers.append(layer)
    return model


def test_a_live_module_on_the_meta_device() -> None:
    found = shapes(live(), 2)
    assert rows(found) == {
        "qkv_proj": (128, 128, 3),
        "o_proj": (128, 64, 3),
        "lm_head": (256, 128, 1),
    }
    assert found.model.kind == "module"
    with pytest.raises(InputError, match="LayerNorm has no linear"):
        shapes(torch.nn.LayerNorm(8))


class Conv1D(torch.nn.Module):
    """As transformers' GPT-2 has it: (K, N)."""

    def __init__(self, n: int, k: int) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.empty(k, n, device="meta"))


def test_a_weight_stored_as_k_n(tmp_path: Path) -> None:
    model = torch.nn.Module()
    model.mlp = torch.nn.Module()
    model.mlp.c_fc = Conv1D(512, 128)
    assert rows(shapes(model, 2)) == {"c_fc": (256, 128, 1)}
    config = {"n_embd": 128, "n_head": 4, "n_layer": 1, "vocab_size": 512, "model_type": "gpt2"}
    sizes = {"attn.c_attn": (128, 384), "attn.c_proj": (128, 128), "mlp.c_fc": (128, 512)}
    tensors = {f"h.0.{name}.weight": floats(*size) for name, size in sizes.items()}
    tensors |= {"h.0.mlp.c_proj.weight": floats(512, 128), "wte.weight": floats(512, 128)}
    found = shapes(folder(tmp_path, tensors, config))
    assert found.family == "gpt2" and found.differences == ()
    tensors["h.0.mlp.c_fc.weight"] = floats(128, 640)
    (difference,) = shapes(folder(tmp_path, tensors, config)).differences
    assert (difference.name, difference.stored) == ("mlp.c_fc", (640, 128))


def test_a_live_module_with_a_config_is_held_against_it() -> None:
    class Config:
        def to_dict(self) -> dict[str, Any]:
            return {**LLAMA, "architectures": None, "torch_dtype": torch.bfloat16}

    model = live()
    model.config = Config()  # type: ignore[assignment]
    found = shapes(model, 2)
    assert found.family == "llama" and found.layers[0].n == 128
    assert {d.name for d in found.differences} == {"gate_up_proj", "down_proj", "lm_head"}


def test_sizes_typed_in() -> None:
    model = linears_model([(2880, 4096), ("down_proj", 4096, 14336), ("qkv_proj", 6144, 4096)])
    found = shapes(model, 8)
    assert [(row.linear, row.shard, row.n, row.k) for row in found.layers] == [
        ("linear1", "replicated", 2880, 4096),
        ("down_proj", "row", 4096, 1792),
        ("qkv_proj", "column", 768, 4096),
    ]
    assert found.notes == ("taken as what one rank holds, not split: linear1",)
    assert found.unknown == () and found.kv is None and not found.config
    assert shapes(linears_model([("o_proj", 4096, 4097)]), 2).why == (
        "K of o_proj=4097 not divisible by 2",
    )


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([], "0 linears: expected 1 to 1000"),
        ([(1, 2)] * 1001, "1001 linears: expected 1 to 1000"),
        ([(1,)], "linear 1 is [1]: expected N K or NAME N K"),
        ([(1, 2, 3)], "linear 1 is [1, 2, 3]: expected N K or NAME N K"),
        ([(1, 0)], "K of linear1 is 0: expected 1 to 16777216; the nearest is 1"),
        ([(1 << 25, 1)], "N of linear1 is 33554432: expected 1 to 16777216; the nearest is "),
        ([("a\n", 1, 1)], "linear 1 is named 'a\\n': expected 1 to 200 letters"),
        ([("a", 1, 1), ("a", 2, 2)], "two linears are named 'a': expected one of each name"),
        ([(True, 1)], "N of linear1 is True: expected a whole number from 1 to 16777216"),
    ],
)
def test_impossible_sizes_typed_in(given: list[Any], message: str) -> None:
    with pytest.raises(InputError) as error:
        linears_model(given)
    assert str(error.value).startswith(message) and "\n" not in str(error.value)


HOSTILE_NAMES = [
    "",
    ".",
    "..",
    "q_proj",
    "layers.0",
    "layers.99999999999999.q_proj",
    "experts.0.w1",
    "a.experts.123456.w1",
    "{layer}.{expert}",
    "x" * 900,
    "a\nb",
    "visual",
    "lm_head",
    "experts.gate_up_proj",
    "\u202e",
]


def test_hostile_names_of_weights() -> None:
    stored = tuple(
        Stored(name, n, k, experts)
        for name in HOSTILE_NAMES
        for n, k, experts in ((3, 5, None), (4, 4, 2), (None, None, None), (2**62, 2**62, None))
    )
    for config in ({}, LLAMA, {"architectures": ["X"], "num_attention_heads": 3}):
        for kind in ("headers", "index"):
            for tp in (1, 3):
                found = shapes(Model(kind=kind, config=config, stored=stored), tp)
                text = json.dumps(found.to_json(), allow_nan=False)
                assert len(text) < 200_000
                for line in (*found.notes, *found.unknown, *(d.text() for d in found.differences)):
                    assert line.isprintable() and len(line) < 4000


def test_a_source_is_read_once() -> None:
    model = read_model(LLAMA)
    assert read_model(model) is model
    for wrong in (None, 3, ["Llama-3.1-8B"]):
        with pytest.raises(InputError, match="expected a path, a model's name or an object"):
            read_model(wrong)  # type: ignore[arg-type]


def test_torch_is_not_imported_for_headers(tmp_path: Path) -> None:
    path = folder(tmp_path, {"model.layers.0.mlp.up_proj.weight": codes(64, 32)})
    code = (
        "import sys; sys.modules['numpy'] = sys.modules['torch'] = None\n"
        f"from mxlab.cli import main; sys.exit(main(['shapes', {str(path)!r}]))\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.returncode == 0 and "\nup_proj  1 (0)" in run.stdout, run.stderr
    assert scales(2, 2).shape == (2, 2)
