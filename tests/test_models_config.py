"""Bad configs: one clear line that names the key, and never another exception."""

import copy
import json
import os
import random
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mxlab.errors import InputError
from mxlab.models import describe_quantization, read_config, shapes
from mxlab.models.config import MAX_BYTES, read_file

DATA = Path(__file__).parent / "data" / "models"
CONFIGS = sorted(DATA.glob("*.json"))
LLAMA: dict[str, Any] = read_config(DATA / "Llama-3.1-8B.json")
DEEP = 100_000


def refused(source: Any, tp: int = 1) -> str:
    with pytest.raises(InputError) as error:
        shapes(source, tp)
    message = str(error.value)
    assert "\n" not in message and message.isprintable() and len(message) < 900
    return message


CONTENTS: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "is empty: expected a JSON object"),
    "blank": (b" \n\t ", "is empty: expected a JSON object"),
    "not JSON": (b"hidden_size: 4096", "is not JSON: Expecting value at line 1 column 1"),
    "cut off": (b'{"model_type": "llama"', "is not JSON: Expecting ',' delimiter at line 1"),
    "a list": (b'[{"model_type": "llama"}]', "is a list: expected a JSON object"),
    "a string": (b'"llama"', "is a string: expected a JSON object"),
    "null": (b"null", "is null: expected a JSON object"),
    "binary": (bytes(range(128, 256)) * 4, "is not UTF-8 text (byte 0 is 0x80)"),
    "safetensors": (b"\x08\0\0\0\0\0\0\0{}      ", "is not JSON"),
    "UTF-8 mark": (b"\xef\xbb\xbf{}", "starts with a byte order mark: expected UTF-8 without one"),
    "UTF-16": ('{"a": 1}'.encode("utf-16"), "starts with a byte order mark"),
    "UTF-16 without mark": ('{"a": 1}'.encode("utf-16-le"), "is not JSON"),
    "NaN": (b'{"model_type": "llama", "hidden_size": NaN}', "holds NaN, which JSON does not have"),
    "Infinity": (b'{"x": [-Infinity]}', "holds -Infinity, which JSON does not have"),
    "1e999": (b'{"x": 1e999}', "holds the number '1e999', which no float can hold"),
    "key twice": (b'{"a": {"hidden_size": 1, "hidden_size": 2}}', "key 'hidden_size' twice"),
    "deep list": (b"[" * DEEP + b"]" * DEEP, "nests too deep"),
    "deep object": (b'{"a":' * DEEP + b"1" + b"}" * DEEP, "nests too deep"),
    "5,000 digits": (b'{"hidden_size": ' + b"9" * 5000 + b"}", "number of thousands of digits"),
}


@pytest.mark.parametrize("name", CONTENTS)
def test_content_that_is_no_config(name: str, tmp_path: Path) -> None:
    content, message = CONTENTS[name]
    file = tmp_path / "config.json"
    file.write_bytes(content)
    assert message in refused(file)
    assert message in refused(tmp_path)  # the folder that holds it


def test_folder_without_config(tmp_path: Path) -> None:
    assert refused(tmp_path).endswith("has no safetensors file, index or config.json")
    (tmp_path / "config.json").mkdir()
    assert "is not a regular file" in refused(tmp_path)


def test_pipe_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "config.json")
    assert "is not a regular file" in refused(tmp_path / "config.json")


def test_unreadable_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "config.json"
    file.write_text("{}")

    def denied(*args: object, **kwargs: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", denied)
    assert refused(file).endswith("Permission denied")


def test_100_megabytes_are_not_read(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    with file.open("wb") as out:
        out.truncate(100 << 20)  # sparse: costs no disk
    tracemalloc.start()
    try:
        message = refused(file)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert MAX_BYTES <= peak < MAX_BYTES + (1 << 20)
    assert f"holds {100 << 20} bytes: expected at most {MAX_BYTES} (16 MB)" in message


@pytest.mark.parametrize(
    "name", ["Llama-3.1-9B", "nowhere/config.json", "a\0b", "x" * 5000, "\ud800", "", "bad\nname"]
)
def test_no_such_file_offers_the_shipped_models(name: str) -> None:
    message = refused(name)
    assert "expected a config.json" in message and "Mixtral-8x7B" in message
    if name == "Llama-3.1-9B":
        assert message.endswith("did you mean 'Llama-3.1-8B'?")


@pytest.mark.parametrize(
    "path", ["/nowhere/Llama-3.1-8B", "./Llama-3.1-8B", "../x/Llama-3.1-8B", "a/b/Llama-3.1-8B"]
)
def test_a_path_that_is_not_there_is_no_shipped_model(path: str) -> None:
    with pytest.raises(InputError, match="no file, folder or shipped model"):
        read_config(path)


def test_shipped_name_with_owner_and_other_case() -> None:
    assert read_config("meta-llama/llama-3.1-8b")["hidden_size"] == 4096


def test_quant_config_beside_the_config(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    claim = {"quantization": {"quant_algo": "MXFP8", "exclude_modules": ["lm_head"]}}
    (tmp_path / "hf_quant_config.json").write_text(json.dumps(claim))
    found = describe_quantization(read_file(tmp_path))
    assert found is not None and (found.weights, found.ignore) == ("MXFP8", ("lm_head",))
    (tmp_path / "hf_quant_config.json").write_text("[")
    assert "is not JSON" in refused(tmp_path)


def test_not_usable_at_all() -> None:
    nothing = "config has neither architectures nor model_type"
    assert nothing in refused({})
    assert nothing in refused({"hidden_size": 4096})
    assert nothing in refused({"_source": "llama", "_model_type": "llama"})
    assert nothing in refused({"model_type": None, "architectures": []})
    assert refused(7) == "config is 7: expected a path, a model's name or an object"


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("hidden_size", "4096", "hidden_size is '4096' (a string): expected a whole number 1.."),
        ("hidden_size", 4096.0, "hidden_size is 4096.0 (a float): expected a whole number"),
        ("hidden_size", True, "hidden_size is True (a boolean): expected a whole number"),
        ("hidden_size", [4096], "hidden_size is a list: expected a whole number"),
        ("hidden_size", {}, "hidden_size is an object: expected a whole number"),
        ("hidden_size", -1, "hidden_size is -1: expected a whole number 1..16777216; the nearest"),
        ("hidden_size", 0, "the nearest is 1"),
        ("hidden_size", 1 << 25, "hidden_size is 33554432: expected a whole number 1..16777216"),
        ("hidden_size", 10**400, "hidden_size is a number of over 30 digits: expected"),
        ("hidden_size", -(10**400), "hidden_size is a number of over 30 digits: expected"),
        (
            "num_hidden_layers",
            10**6,
            "num_hidden_layers is 1000000: expected a whole number 1..100",
        ),
        ("num_key_value_heads", 5, "is 5: expected a divisor of num_attention_heads = 32"),
        ("num_key_value_heads", 64, "is 64: expected a divisor of num_attention_heads = 32"),
        ("num_attention_heads", 24, "hidden_size = 4096 is not a multiple of num_attention_heads"),
        ("vocab_size", None, "config lacks vocab_size: the llama family needs it"),
        (
            "architectures",
            "LlamaForCausalLM",
            "architectures is 'LlamaForCausalLM' (a string): exp",
        ),
        ("architectures", [1], "architectures[0] is 1: expected one of a list of strings"),
        ("architectures", {}, "architectures is an object: expected a list of strings"),
        ("model_type", 3, "model_type is 3: expected a string"),
        ("text_config", [], "text_config is a list: expected an object"),
        ("vision_config", "x", "vision_config is 'x' (a string): expected an object"),
        ("tie_word_embeddings", "no", "tie_word_embeddings is 'no' (a string): expected true or"),
        ("layer_types", ["full_attention"] * 31, "layer_types has 31 entries: expected 32"),
        ("layer_types", "full_attention", "layer_types is 'full_attention' (a string): expected"),
        ("layer_types", [None] * 32, "layer_types[0] is null: expected one of a list of strings"),
    ],
)
def test_wrong_values_are_named(key: str, value: object, message: str) -> None:
    assert message in refused({**LLAMA, key: value})


def test_nested_keys_are_named_by_their_path() -> None:
    raw = copy.deepcopy(read_config(DATA / "Qwen3.5-27B.json"))
    raw["text_config"]["hidden_size"] = "5120"
    assert refused(raw).startswith("text_config.hidden_size is '5120' (a string)")
    del raw["text_config"]["hidden_size"], raw["text_config"]["head_dim"]
    assert refused(raw).startswith("config lacks text_config.head_dim, text_config.hidden_size:")
    raw = copy.deepcopy(read_config(DATA / "MiniMax-M3.json"))
    raw["sparse_attention_config"]["sparse_attention_freq"].pop()
    assert "sparse_attention_config.sparse_attention_freq has 59 entries" in refused(raw)


REQUIRED = {
    "Llama-3.1-8B": "hidden_size intermediate_size num_hidden_layers num_attention_heads "
    "vocab_size",
    "Qwen3-8B": "head_dim num_key_value_heads hidden_size",
    "GLM-4.5-Air": "head_dim n_routed_experts n_shared_experts moe_intermediate_size "
    "first_k_dense_replace",
    "Mixtral-8x7B": "num_local_experts num_key_value_heads",
    "DeepSeek-V3": "q_lora_rank kv_lora_rank qk_rope_head_dim qk_nope_head_dim v_head_dim",
    "gpt-oss-120b": "head_dim num_local_experts",
    "falcon-7b": "multi_query new_decoder_architecture",
    "gpt2": "n_embd n_head n_layer vocab_size",
    "Nemotron-H-56B": "n_groups ssm_state_size mamba_num_heads",
    "Qwen3.5-4B-MXFP8-compressed-tensors": "linear_num_key_heads linear_value_head_dim head_dim",
    "whisper-tiny": "d_model encoder_layers decoder_ffn_dim vocab_size",
}


@pytest.mark.parametrize("name", REQUIRED)
def test_a_missing_key_is_named_and_never_defaulted(name: str) -> None:
    raw = read_config(DATA / f"{name}.json")
    keys = REQUIRED[name].split()
    for key in keys:
        message = refused({k: v for k, v in raw.items() if k != key})
        assert message.startswith(f"config lacks {key}:"), message
        assert "mxlab assumes no default" in message
    together = refused({k: v for k, v in raw.items() if k not in keys})
    assert together.startswith(f"config lacks {', '.join(sorted(keys))}:")


def test_a_missing_layer_pattern_is_named() -> None:
    raw = read_config(DATA / "Nemotron-H-56B.json")
    assert refused({**raw, "hybrid_override_pattern": None}).startswith(
        "config lacks hybrid_override_pattern:"
    )
    assert "has 117 letters: expected num_hidden_layers = 118" in refused(
        {**raw, "hybrid_override_pattern": raw["hybrid_override_pattern"][1:]}
    )
    assert "[5] is 'X': expected M, *, - or E" in refused(
        {**raw, "hybrid_override_pattern": "M-M-MX" + raw["hybrid_override_pattern"][6:]}
    )
    hybrid = read_config(DATA / "Qwen3.5-4B-MXFP8-compressed-tensors.json")
    neither = {**hybrid, "layer_types": None, "full_attention_interval": None}
    assert refused(neither).startswith("config lacks layer_types:")
    by_interval = shapes({**hybrid, "layer_types": None})
    assert by_interval.layers == shapes(hybrid).layers
    assert by_interval.derived[0].startswith("layer_types = full_attention every 4 layers")


def test_derivations_are_said() -> None:
    assert shapes(LLAMA).derived == ("head_dim = hidden_size / num_attention_heads = 128",)
    assert shapes({**LLAMA, "head_dim": 64}).derived == ()
    no_kv = {k: v for k, v in LLAMA.items() if k != "num_key_value_heads"}
    assert "num_key_value_heads = num_attention_heads = 32" in shapes(no_kv).derived
    explicit_null = {**read_config(DATA / "Qwen3-8B.json"), "num_key_value_heads": None}
    assert "num_key_value_heads = num_attention_heads = 32" in shapes(explicit_null).derived


def test_an_unknown_layer_type_is_unknown_and_the_rest_is_not() -> None:
    raw = read_config(DATA / "gpt-oss-120b.json")
    types = list(raw["layer_types"])
    types[3:5] = ["wavelet", "wavelet"]
    found = shapes({**raw, "layer_types": types})
    assert found.unknown == ("layers 3-4: attention (no rule for layer type 'wavelet')",)
    assert [row.layers for row in found.layers[:3]] == [34, 34, 36]


def test_an_unknown_family_is_unknown_layer_by_layer() -> None:
    found = shapes({"architectures": ["NewForCausalLM"], "num_hidden_layers": 4})
    assert (found.loads, found.layers, found.kv) == (None, (), None)
    assert found.unknown[0] == "layers 0-3: attention (no recipe for 'NewForCausalLM')"
    assert len(found.unknown) == 4
    assert found.unknown[3] == (
        "config lacks hidden_size, intermediate_size, num_attention_heads, vocab_size"
    )


def test_a_tower_that_is_not_described_is_unknown() -> None:
    raw = read_config(DATA / "Qwen3-VL-8B.json")
    bare = shapes({k: v for k, v in raw.items() if k != "vision_config"})
    assert bare.unknown == ("vision tower (the config has no vision_config)",)
    part = {k: v for k, v in raw["vision_config"].items() if k != "depth"}
    assert shapes({**raw, "vision_config": part}).unknown == (
        "vision tower (the config lacks vision_config.depth)",
    )
    assert [row.linear for row in bare.layers] == [
        row.linear for row in shapes(raw).layers if not row.linear.startswith("visual.")
    ]


HOSTILE: list[Any] = [
    None,
    True,
    -1,
    0,
    1,
    3,
    1 << 24,
    10**400,
    1.5,
    "8",
    "\ud800\n\0",
    [],
    [0],
    ["x"],
    [[]],
    {},
    {"a": 1},
    float("nan"),
]


def _mutations(raw: dict[str, Any], rng: random.Random) -> Iterator[dict[str, Any]]:
    """Yield the config with each key, nested ones too, dropped and replaced."""
    paths: list[tuple[str, ...]] = [(key,) for key in raw]
    for outer, value in raw.items():
        if isinstance(value, dict):
            paths += [(outer, inner) for inner in value]
            for inner, deeper in value.items():
                if isinstance(deeper, dict):
                    paths += [(outer, inner, last) for last in list(deeper)[:20]]
    for path in paths:
        for value in (HOSTILE[0], "drop", *rng.sample(HOSTILE[1:], 3)):
            changed = copy.deepcopy(raw)
            target = changed
            for key in path[:-1]:
                target = target[key]
            if value == "drop":
                del target[path[-1]]
            else:
                target[path[-1]] = value
            yield changed


@pytest.mark.parametrize("file", CONFIGS, ids=lambda file: file.stem)
def test_any_one_key_dropped_or_replaced(file: Path) -> None:
    rng = random.Random(file.stem)
    answers = refusals = 0
    for changed in _mutations(read_config(file), rng):
        try:
            found = shapes(changed, rng.choice((1, 3, 8)))
            claim = describe_quantization(changed)
            json.dumps([found.to_json(), claim.to_json() if claim else None], allow_nan=False)
            answers += 1
        except InputError as error:
            assert "\n" not in str(error) and str(error).isprintable()
            refusals += 1
    assert answers and refusals


def test_key_names_in_messages_stay_on_one_line() -> None:
    claim = {"quant_method": "compressed-tensors", "config_groups": {"a\nb": {"weights": 3}}}
    with pytest.raises(InputError) as error:
        describe_quantization({"quantization_config": claim})
    assert str(error.value) == (
        "quantization_config.config_groups.'a\\nb'.weights is 3: expected an object"
    )
