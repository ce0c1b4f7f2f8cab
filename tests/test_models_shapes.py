"""Shapes of one rank against ``model-shapes.json``, on which four derivations agree."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from mxlab.errors import InputError
from mxlab.models import Shapes, read_config, shapes, shipped_models, tp_that_load

DATA = Path(__file__).parent / "data"
CASES: dict[str, Any] = json.loads((DATA / "model-shapes.json").read_text())
CONFIGS = sorted((DATA / "models").glob("*.json"))
MODELS: dict[str, Any] = CASES["models"]
EVERY_TP = [(name, tp) for name, case in MODELS.items() for tp in case["tp"]]
#: sizes are missing: the keys are named, nothing is derived
WITHOUT_SIZES = {"DeepSeek-V4.1-Flash-MXFP4-quark-quantonly", "Hy4-preview-FP8-modelopt"}


def config(name: str) -> dict[str, Any]:
    return read_config(DATA / "models" / f"{name}.json")


def test_the_cases_are_there() -> None:
    assert len(MODELS) == 17
    assert len(EVERY_TP) == 85
    assert sum(len(case["rows"]) * len(case["tp"]) for case in MODELS.values()) == 615
    assert len(CONFIGS) == 48


@pytest.mark.parametrize(("name", "tp"), EVERY_TP)
def test_equals_the_four_derivations(name: str, tp: str) -> None:
    case, expected = MODELS[name], MODELS[name]["tp"][tp]
    found = shapes(config(name), int(tp))
    rows = [[r.linear, r.kind, r.shard, r.layers, list(r.sources), r.experts] for r in found.layers]
    assert rows == case["rows"]
    numbers = [r.invalid or [r.n, r.k, list(r.parts)] for r in found.layers]
    assert numbers == expected["rows"]
    assert found.loads is expected["loads"]
    assert list(found.why) == expected["why"]
    assert found.vision_only is expected["vision_only"]
    assert found.kv is not None
    kv = {**found.kv.to_json(), "qk_head_dim": found.kv.head_dim}
    if found.kv.index_head_dim:
        kv["index_key"] = {"head_dim": 128, "heads": 1, "layers": found.kv.index_layers}
    for key, value in case["kv"].items():
        assert kv[key] == (value[tp] if key.endswith("_per_rank") else value), key


@pytest.mark.parametrize(("name", "tp"), [(n, tp) for n, tp in EVERY_TP if "ep" in MODELS[n]])
def test_expert_parallel_equals_the_cases(name: str, tp: str) -> None:
    expected = MODELS[name]["ep"][tp]
    rows = {row.linear: row for row in shapes(config(name), int(tp), ep=int(tp)).layers}
    w13, w2 = rows["experts.w13"], rows["experts.w2"]
    if "invalid" in expected:
        assert w13.invalid == w2.invalid == expected["invalid"]
        return
    assert w13.experts_per_rank == w2.experts_per_rank == expected["experts_per_rank"]
    assert [[w13.n, w13.k], [w2.n, w2.k]] == [expected["w13"], expected["w2"]]


def test_expert_parallel_leaves_the_rest_of_tp_to_the_width() -> None:
    rows = {row.linear: row for row in shapes("Mixtral-8x7B", 8, ep=2).layers}
    assert (rows["experts.w13"].n, rows["experts.w13"].experts_per_rank) == (2 * 14336 // 4, 4)
    assert (rows["experts.w2"].n, rows["experts.w2"].k) == (4096, 14336 // 4)
    assert rows["qkv_proj"].n == 768  # attention still splits by tp


@pytest.mark.parametrize("anchor", CASES["anchors"], ids=lambda anchor: str(anchor["source"]))
def test_field_reports_quote_the_same_number(anchor: dict[str, Any]) -> None:
    rows = {row.linear: row for row in shapes(config(anchor["config"]), anchor["tp"]).layers}
    row = rows[anchor["linear"]]
    found = {"N": row.n, "K": row.k, "parts[0]": row.parts[0]}
    assert found[anchor["field"]] == anchor["value"]


def test_two_more_field_reports() -> None:
    """vllm issue 17569 and ROCm/ATOM pull 1488 quote 192 for these two."""
    for name in ("Qwen3-235B-A22B-FP8", "MiniMax-M2.7"):
        rows = {row.linear: row for row in shapes(config(name), 8).layers}
        assert rows["experts.w13"].parts == (192, 192)


@pytest.mark.parametrize("file", CONFIGS, ids=lambda file: file.stem)
def test_every_config_gives_layers_or_says_what_is_unknown(file: Path) -> None:
    raw = read_config(file)
    for tp in (1, 2, 3, 4, 6, 7, 8, 16, 32, 64):
        found = shapes(raw, tp)
        assert found.layers or found.unknown
        assert (found.loads is None) == (not found.layers) == (file.stem in WITHOUT_SIZES)
        for row in found.layers:
            assert (row.n is None) == (row.k is None) == bool(row.invalid)
            assert row.invalid or sum(row.parts) == row.n
            assert row.layers == len(row.indices) or not row.indices
            assert ("{layer}" in row.path) == bool(row.indices)
        json.dumps(found.to_json(), allow_nan=False)
    assert {file.stem for file in CONFIGS} >= WITHOUT_SIZES


def test_speed() -> None:
    raws = [read_config(file) for file in CONFIGS]
    start = time.perf_counter()
    for raw in raws:
        for tp in (1, 2, 4, 8, 16):
            shapes(raw, tp)
    assert time.perf_counter() - start < 1


def test_the_whole_weight_comes_back() -> None:
    """Over all ranks the parts of a row add up to the weight, whatever divides."""
    for name, tp in (("Qwen2.5-72B-Instruct", 3), ("gpt-oss-120b", 5), ("GLM-4.5-Air", 11)):
        whole = {row.linear: row for row in shapes(config(name), 1).layers}
        for row in shapes(config(name), tp).layers:
            one = whole[row.linear]
            if row.invalid or row.n is None or row.k is None:
                continue
            if row.kind in ("router", "lm_head"):
                continue
            if row.shard == "row":
                assert (row.n, row.k * tp) == (one.n, one.k)
            elif row.linear != "qkv_proj":
                assert (row.n * tp, row.k) == (one.n, one.k)


@pytest.mark.parametrize(
    ("vocabulary", "tp", "n"),
    [(50257, 1, 50304), (50257, 8, 6288), (50257, 7, 7232), (128256, 3, 42752), (1, 1024, 64)],
)
def test_the_vocabulary_is_padded_until_it_divides(vocabulary: int, tp: int, n: int) -> None:
    raw = {**config("Llama-3.1-8B"), "vocab_size": vocabulary}
    head = shapes(raw, tp).layers[-1]
    assert (head.linear, head.n, head.invalid) == ("lm_head", n, None)
    assert n * tp >= vocabulary and n * tp % 64 == 0


@pytest.mark.parametrize(
    ("heads", "kv", "tp", "reason"),
    [
        (24, 8, 16, "num_attention_heads=24 not divisible by 16"),
        (40, 10, 4, "num_key_value_heads=10 not divisible by 4"),
        (24, 4, 6, "tp=6 not divisible by num_key_value_heads=4"),
        (96, 12, 8, "num_key_value_heads=12 not divisible by 8"),
    ],
)
def test_heads_that_cannot_be_split_say_why(heads: int, kv: int, tp: int, reason: str) -> None:
    raw = {**config("Qwen3-8B"), "num_attention_heads": heads, "num_key_value_heads": kv}
    found = shapes(raw, tp)
    assert found.loads is False
    assert found.layers[0].invalid == reason
    assert reason in found.why


def test_tp_that_load_is_what_loads() -> None:
    assert tp_that_load(config("falcon-7b")) == (1,)  # 71 heads; 71 itself is past the limit
    assert tp_that_load(config("Llama-3.1-8B"), 32) == (1, 2, 4, 8, 16, 32)


@pytest.mark.parametrize(
    ("tp", "ep", "message"),
    [
        (0, 1, "tp is 0: expected 1 to 1024; the nearest is 1"),
        (1025, 1, "tp is 1025: expected 1 to 1024; the nearest is 1024"),
        (10**400, 1, "tp is a number of over 30 digits: expected 1 to 1024; the nearest is 1024"),
        (True, 1, "tp is True: expected a whole number from 1 to 1024"),
        (8, 3, "ep is 3: expected a divisor of tp = 8; the nearest is 2"),
        (4, 8, "ep is 8: expected a divisor of tp = 4; the nearest is 4"),
    ],
)
def test_impossible_ranks(tp: int, ep: int, message: str) -> None:
    with pytest.raises(InputError) as error:
        shapes("Llama-3.1-8B", tp, ep)
    assert str(error.value) == message


PATHS = {
    "Llama-3.1-8B": {"qkv_proj": "model.layers.{layer}.self_attn.qkv_proj", "lm_head": "lm_head"},
    "Mixtral-8x7B": {"experts.w13": "model.layers.{layer}.block_sparse_moe.experts"},
    "DeepSeek-V3": {
        "fused_qkv_a_proj_with_mqa": "model.layers.{layer}.self_attn.fused_qkv_a_proj_with_mqa",
        "shared_experts.down_proj": "model.layers.{layer}.mlp.shared_experts.down_proj",
        "router": "model.layers.{layer}.mlp.gate",
    },
    "gpt2": {"attn.c_attn": "transformer.h.{layer}.attn.c_attn"},
    "gemma-3-27b-it": {
        "o_proj": "language_model.model.layers.{layer}.self_attn.o_proj",
        "visual.fc1": "vision_tower.vision_model.encoder.layers.{layer}.mlp.fc1",
    },
    "Qwen2.5-VL-7B-Instruct": {
        "down_proj": "model.layers.{layer}.mlp.down_proj",
        "visual.merger.mlp.0": "visual.merger.mlp.0",
    },
    "Qwen3.5-27B": {
        "linear_attn.in_proj_ba": "model.language_model.layers.{layer}.linear_attn.in_proj_ba"
    },
    "Llama-4-Maverick-17B-128E": {
        "experts.w2": "language_model.model.layers.{layer}.feed_forward.experts"
    },
}


@pytest.mark.parametrize("name", PATHS)
def test_module_names_are_those_of_the_serving_system(name: str) -> None:
    rows = {row.linear: row.path for row in shapes(config(name)).layers}
    assert {linear: rows[linear] for linear in PATHS[name]} == PATHS[name]


def _layers(found: Shapes, linear: str) -> tuple[int, ...]:
    return next(row.indices for row in found.layers if row.linear == linear)


def test_layer_sets_are_explicit() -> None:
    v3 = shapes(config("DeepSeek-V3"))
    assert _layers(v3, "gate_up_proj") == (0, 1, 2)
    assert _layers(v3, "experts.w13") == tuple(range(3, 61))
    maverick = shapes(config("Llama-4-Maverick-17B-128E"))
    assert _layers(maverick, "experts.w13") == tuple(range(1, 48, 2))
    assert _layers(maverick, "gate_up_proj") == tuple(range(0, 48, 2))
    hybrid = shapes(config("Qwen3.5-27B"))
    assert _layers(hybrid, "qkv_proj") == tuple(range(3, 64, 4))
    nemotron = config("Nemotron-H-56B")
    pattern = nemotron["hybrid_override_pattern"]
    stars = tuple(i for i, letter in enumerate(pattern) if letter == "*")
    assert _layers(shapes(nemotron), "qkv_proj") == stars and len(stars) == 10


def test_names_in_a_real_ignore_list_are_paths() -> None:
    """Block-FP8 Qwen3 lists every router and the head by the names that the rows carry."""
    raw = config("Qwen3-235B-A22B-FP8")
    paths = {
        row.path.replace("{layer}", str(index))
        for row in shapes(raw).layers
        for index in row.indices or (0,)
    }
    entries = raw["quantization_config"]["modules_to_not_convert"]
    linears = [entry for entry in entries if "norm" not in entry]
    assert len(linears) == 95 and set(linears) <= paths


def test_shipped_models_are_the_real_configs() -> None:
    assert len(shipped_models()) == 16
    for name in shipped_models():
        shipped, real = shapes(name, 4), shapes(config(name), 4)
        assert (shipped.layers, shipped.kv, shipped.unknown) == (real.layers, real.kv, real.unknown)


def rows(raw: dict[str, Any], tp: int = 1) -> dict[str, Any]:
    return {row.linear: row for row in shapes(raw, tp).layers}


def test_an_output_gate_doubles_the_query_unless_switched_off() -> None:
    raw = config("Qwen3.5-4B-MXFP8-compressed-tensors")
    assert rows(raw, 2)["qkv_proj"].parts == (2 * 8 * 256, 512, 512)
    assert rows({**raw, "attn_output_gate": False}, 2)["qkv_proj"].parts == (8 * 256, 512, 512)
    del raw["attn_output_gate"]
    assert rows(raw, 2)["qkv_proj"].parts == (2 * 8 * 256, 512, 512)
    assert any("attn_output_gate = true" in text for text in shapes(raw).derived)


def test_moe_layer_freq() -> None:
    raw = config("DeepSeek-V3")
    every_other = {**raw, "moe_layer_freq": 2}
    assert _layers(shapes(every_other), "router") == tuple(range(4, 61, 2))
    assert _layers(shapes(every_other), "gate_up_proj") == (0, 1, 2, *range(3, 61, 2))
    dense = shapes({**raw, "n_routed_experts": None})
    assert _layers(dense, "gate_up_proj") == tuple(range(61))
    assert "no expert layers (n_routed_experts is null)" in dense.derived


@pytest.mark.parametrize(
    ("tp", "parts", "reason"),
    [
        (8, (128, 128), None),
        (12, (), "tp=12 not divisible by sparse_num_index_heads=8"),
        (16, (128, 128), None),
        (2, (512, 128), None),
        (3, (), "sparse_num_index_heads=8 not divisible by 3"),
    ],
)
def test_index_heads(tp: int, parts: tuple[int, ...], reason: str | None) -> None:
    raw = config("MiniMax-M3")
    raw["sparse_attention_config"] = {
        **raw["sparse_attention_config"],
        "sparse_num_index_heads": 8,
    }
    row = rows(raw, tp)["index_qkv_proj"]
    assert (row.parts, row.invalid, row.layers) == (parts, reason, 57)


def test_index_value_has_no_rule() -> None:
    raw = config("MiniMax-M3")
    disabled = [0] * 3 + [1] * 7 + [0] * 2 + [1] * 48
    sparse = {**raw["sparse_attention_config"], "sparse_disable_index_value": disabled}
    found = shapes({**raw, "sparse_attention_config": sparse})
    assert found.unknown[0].startswith("layers 10-11: index_qkv_proj, index_o_proj (")
    assert _layers(found, "index_qkv_proj") == (*range(3, 10), *range(12, 60))


@pytest.mark.parametrize(
    ("groups", "tp", "state", "reason"),
    [
        (8, 4, 512, None),
        (8, 16, 0, "n_groups=8 not divisible by 16"),
        (1, 16, 256, None),
        (1, 1, 256, None),
        (8, 3, 0, "mamba_num_heads=256 not divisible by 3"),
    ],
)
def test_mamba_groups(groups: int, tp: int, state: int, reason: str | None) -> None:
    """Every rank of Mamba-2 has whole groups, or a copy of the only one."""
    raw = {**config("Nemotron-H-56B"), "n_groups": groups}
    row = rows(raw, tp)["mixer.in_proj"]
    assert row.invalid == reason
    if reason is None:
        inner = 256 * 64 // tp
        assert row.parts == (inner, inner, state, state, 256 // tp)
    copied = any("n_groups = 1 is copied" in note for note in shapes(raw, tp).notes)
    assert copied == (groups == 1 and tp > 1)


def test_a_vision_tower_is_split_by_head() -> None:
    raw = config("MiniMax-M3-MXFP8")  # 16 heads of 80: 1280 / 5 is whole, 16 / 5 is not
    row = rows(raw, 5)["visual.qkv_proj"]
    assert row.invalid == "num_attention_heads=16 not divisible by 5"
    only = shapes({**config("gemma-3-27b-it"), "vision_config": None}, 16)
    assert only.loads is True and only.vision_only is False
    odd = config("gemma-3-27b-it")
    odd["vision_config"] = {**odd["vision_config"], "intermediate_size": 4305}
    assert shapes(odd, 2).vision_only is True and shapes(odd, 2).loads is False


def test_an_indexer_is_where_the_layer_chooses_its_own_top_k() -> None:
    """sglang 0.5.23, srt/configs/model_config.py:488: dsa_layer_skips_topk."""
    raw = {
        **config("DeepSeek-V3"),
        "index_topk": 2048,
        "index_n_heads": 64,
        "index_head_dim": 128,
    }
    found = rows(raw, 8)
    assert [(found[f"indexer.{n}"].n, found[f"indexer.{n}"].k) for n in ("wq_b", "wk")] == [
        (8192, 1536),
        (128, 7168),
    ]

    def having(**keys: object) -> tuple[int, ...]:
        return _layers(shapes({**raw, **keys}), "indexer.wk")

    assert having() == tuple(range(61))
    assert having(index_topk_freq=4) == (0, *range(1, 61, 4))
    assert having(index_topk_freq=4, index_skip_topk_offset=1) == tuple(range(0, 61, 4))
    assert having(cli_factor=2) == tuple(range(0, 61, 2))
    assert having(index_topk_pattern="FSS" * 20 + "F") == tuple(range(0, 61, 3))
    types = ["full", *["shared"] * 59, "full"]
    assert having(indexer_types=types) == (0, 60)
    pooled = shapes({**raw, "index_kpool": 2})
    assert pooled.unknown == ("layers 0-60: indexer.* (index_kpool is set: no rule for it)",)
    assert not any(row.linear.startswith("indexer") for row in pooled.layers)


def test_lookup_order() -> None:
    raw = config("Qwen3-8B")
    family = shapes({**raw, "architectures": ["LlamaForCausalLM"]}).family
    assert family == "llama"  # what is written in architectures decides
    assert shapes({**raw, "architectures": None}).family == "qwen3"
    new = shapes({**raw, "architectures": ["Qwen3ForSomethingNew"]})
    assert new.family == "qwen3"
    assert "no recipe for architecture 'Qwen3ForSomethingNew'" in new.notes[-1]
    kimi = {**config("DeepSeek-V3"), "architectures": None, "model_type": "kimi_k2"}
    assert shapes(kimi).family == "deepseek_v3"


def test_the_outer_config_decides_whether_the_head_is_tied() -> None:
    raw = config("Qwen3-VL-8B")
    raw["text_config"] = {**raw["text_config"], "tie_word_embeddings": True}
    assert rows(raw)["lm_head"].sources == ("lm_head",)
    del raw["tie_word_embeddings"]
    assert rows(raw)["lm_head"].sources == ("embed_tokens (tied)",)
    del raw["text_config"]["tie_word_embeddings"]
    assert rows(raw)["lm_head"].sources == ("lm_head",)


@pytest.mark.parametrize(
    ("name", "never"),
    [
        ("Llama-3.1-8B", {"lm_head"}),
        ("Mixtral-8x7B", {"lm_head", "router"}),
        ("stablelm-2-zephyr-1_6b", {"lm_head", "qkv_proj", "o_proj"}),
        ("gemma-3-4b-it", {"lm_head"}),
        (
            "MiniMax-M3-MXFP8",
            {"lm_head", "router", "visual.qkv_proj", "visual.out_proj", "visual.fc1", "visual.fc2"},
        ),
    ],
)
def test_rows_that_the_serving_system_never_quantises(name: str, never: set[str]) -> None:
    found = rows(config(name))
    assert {linear for linear, row in found.items() if row.unquantized} == never


def test_deepseek_v4() -> None:
    """128 query heads of 512 in 16 groups: sglang 0.5.23, srt/models/deepseek_v4.py:1094."""
    found = shapes(config("DeepSeek-V4-Pro"), 8)
    sizes = {row.linear: (row.n, row.k) for row in found.layers if "compressor" not in row.linear}
    assert sizes == {
        "wqkv_a": (1536 + 512, 7168),
        "wq_b": (128 // 8 * 512, 1536),
        "wo_a": (16 // 8 * 1024, 128 * 512 // 16),
        "wo_b": (7168, 16 * 1024 // 8),
        "indexer.wq_b": (64 * 128, 1536),
        "indexer.weights_proj": (64, 7168),
        "experts.w13": (2 * 3072 // 8, 7168),
        "experts.w2": (7168, 3072 // 8),
        "shared_experts.gate_up_proj": (2 * 3072 // 8, 7168),
        "shared_experts.down_proj": (7168, 3072 // 8),
        "router": (384, 7168),
        "lm_head": (129280 // 8, 7168),
    }
    pooling = {row.n: row.indices for row in found.layers if row.linear == "compressor.wkv_gate"}
    assert pooling[2 * 512] == (0, 1, *range(3, 61, 2))
    assert pooling[4 * 512] == _layers(found, "indexer.wq_b") == tuple(range(2, 61, 2))
    assert shapes(config("DeepSeek-V4-Pro"), 32).why == ("o_groups=16 not divisible by 32",)
    assert found.kv is None and [text.split(" (")[0] for text in found.unknown] == ["KV cache"]


def test_kimis_tower_is_split_by_head_and_its_mlp_is_not_split() -> None:
    raw = config("Kimi-K2.5")
    found = rows(raw, 8)
    assert (found["visual.attn.qkv_proj"].n, found["visual.mlp.fc0"].n) == (3 * 1152 // 8, 4304)
    assert rows(raw, 32)["visual.attn.proj"].invalid == "num_attention_heads=16 not divisible by 32"
    vision = {**raw["vision_config"], "vt_num_attention_heads": 7}
    assert (
        shapes({**raw, "vision_config": vision}).unknown[0].startswith("vision tower (vision_con")
    )
    assert shapes({**raw, "vision_config": None}).unknown == (
        "vision tower (the config has no vision_config)",
    )
