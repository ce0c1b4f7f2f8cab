"""Families on several ranks: numbers worked out by hand from the serving system's own classes."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

from mxlab.errors import InputError
from mxlab.models import read_config, shapes

DATA = Path(__file__).parent / "data"
SMALL: dict[str, Any] = json.loads((DATA / "model-weights.json").read_text())["small"]


def config(name: str) -> dict[str, Any]:
    if name in SMALL:
        found: dict[str, Any] = SMALL[name]["config"]
        return found
    return read_config(DATA / "models" / f"{name}.json")


def sizes(name: str, tp: int, **ranks: int) -> list[tuple[str, int | None, int | None]]:
    found = shapes(config(name), tp, **ranks)
    return [(row.linear, row.n, row.k) for row in found.layers]


# ---- field reports -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tp", "k", "rests"),
    [(1, 11008, (0, 0, 0)), (2, 5504, (0, 0, 0)), (4, 2752, (0, 0, 64)), (8, 1376, (0, 32, 96))],
)
def test_report_38_llama_2_down_proj(tp: int, k: int, rests: tuple[int, int, int]) -> None:
    row = next(r for r in shapes(config("Llama-2-7B"), tp).layers if r.linear == "down_proj")
    assert row.k == k and (k % 32, k % 64, k % 128) == rests


@pytest.mark.parametrize(
    ("vocabulary", "tp", "padded", "multiple"),
    [
        (151552, 6, 151680, "384s"),
        (49159, 2, 49216, "64s"),
        (32001, 1, 32064, "64s"),
        (151936, 8, 151936, ""),
    ],
)
def test_report_39_the_vocabulary(vocabulary: int, tp: int, padded: int, multiple: str) -> None:
    found = shapes({**config("GLM-4.7-FP8"), "vocab_size": vocabulary}, tp)
    head = found.layers[-1]
    assert head.n == padded // tp and head.n * tp == padded
    assert head.unquantized.endswith("not the output head")
    said = f"lm_head rows = vocab_size {vocabulary} padded to {padded} ({multiple})"
    assert (said in found.derived) == bool(multiple)
    if vocabulary == 151936:
        assert head.n == 18992 and head.n % 64 == 48  # it divides, and a guard of N % 64 fails


def test_report_39_96_heads_divide_by_6_and_8_kv_heads_do_not() -> None:
    found = shapes(config("GLM-4.7-FP8"), 6)
    assert "num_key_value_heads=8 not divisible by 6" in found.why
    assert next(r for r in found.layers if r.linear == "o_proj").k == 96 // 6 * 128


@pytest.mark.parametrize(("tp", "k"), [(1, 2880), (2, 1440), (4, 720), (8, 360)])
def test_report_41_gpt_oss_experts(tp: int, k: int) -> None:
    rows = {row.linear: row for row in shapes(config("gpt-oss-120b"), tp).layers}
    assert (rows["experts.w13"].n, rows["experts.w2"].k) == (2 * k, k)
    assert k % 32 == {1: 0, 2: 0, 4: 16, 8: 8}[tp]
    whole = {row.linear: row for row in shapes(config("gpt-oss-120b"), tp, ep=tp).layers}
    assert (whole["experts.w2"].k, whole["experts.w2"].experts_per_rank) == (2880, 128 // tp)


def test_report_32_the_small_projection_of_a_gated_delta_net() -> None:
    raw = {**config("Qwen3.5-27B")["text_config"], "linear_num_value_heads": 64}
    raw["architectures"] = ["Qwen3_5ForCausalLM"]
    row = next(r for r in shapes(raw, 8).layers if r.linear == "linear_attn.in_proj_ba")
    assert row.parts == (8, 8) and row.n == 16


# ---- heads of two sizes, shared KV, gates --------------------------------------------------------


def test_mimo_v2_has_two_kinds_of_attention() -> None:
    """8 heads; KV 4 and 8; query and key 96, value 80; the query's K is not the output's."""
    found = shapes(config("mimo_v2"), 2)
    attention = [row for row in found.layers if row.linear in ("qkv_proj", "o_proj")]
    assert [(row.parts, row.k, row.indices) for row in attention] == [
        ((4 * 96, 2 * 96, 2 * 80), 512, (0, 3)),
        ((512,), 4 * 80, (0, 3)),
        ((4 * 96, 4 * 96, 4 * 80), 512, (1, 2, 4, 5)),
        ((512,), 4 * 80, (1, 2, 4, 5)),
    ]
    assert all(row.skip_block_check for row in attention if row.linear == "qkv_proj")
    assert found.kv is not None and (found.kv.head_dim, found.kv.v_head_dim) == (96, 80)


def test_gemma_4_full_attention_is_wider_and_its_value_is_its_key() -> None:
    found = shapes(config("gemma4 k = v"), 4)
    qkv = [row for row in found.layers if row.linear == "qkv_proj"]
    assert [(row.parts, row.sources[2], row.indices) for row in qkv] == [
        ((2 * 64, 64, 64), "v_proj", (0, 1, 3, 4)),
        ((2 * 128, 128, 128), "k_proj", (2, 5)),  # two KV heads, each on two ranks
    ]
    assert found.kv is not None and (found.kv.head_dim, found.kv.layers) == (128, 2)
    assert "KV cache: the other 4 layers have head_dim 64 and 1 KV heads a rank" in found.notes


def test_gemma_4_layers_that_reuse_kv_have_a_doubled_mlp() -> None:
    found = shapes(config("gemma4 shared kv"), 2)
    up = {row.n: row.indices for row in found.layers if row.linear == "gate_up_proj"}
    assert up == {1536: (0, 1, 2, 3), 3072: (4, 5)}
    shared = [r for r in found.layers if r.linear == "qkv_proj" and r.sources == ("q_proj",)]
    assert [row.indices for row in shared] == [(4,), (5,)]
    assert any(note.startswith("layers 4-5 reuse the KV") for note in found.notes)


def test_gemma_4_as_transformers_saves_it() -> None:
    raw = dict(config("gemma4"))
    wide, heads = raw.pop("global_head_dim"), raw.pop("num_global_key_value_heads")
    layer = {"head_dim": wide, "num_key_value_heads": heads}
    saved = {**raw, "per_layer_config": {"02": layer, "05": layer}}
    assert shapes(saved, 2).layers == shapes(config("gemma4"), 2).layers
    with pytest.raises(InputError, match="config lacks global_head_dim"):
        shapes(raw)


def test_nemotron_h_experts_work_in_a_latent() -> None:
    latent = sizes("nemotron_h with experts in a latent", 2)
    assert latent[latent.index(("experts.w13", 36, 128)) :] == [
        ("experts.w13", 36, 128),
        ("experts.w2", 128, 36),
        ("shared_experts.up_proj", 100, 512),
        ("shared_experts.down_proj", 512, 100),
        ("router", 6, 512),
        ("fc1_latent_proj", 128, 512),
        ("fc2_latent_proj", 512, 128),
        ("lm_head", 512, 512),
    ]
    rows = {row.linear: row for row in shapes(config("nemotron_h with experts"), 2).layers}
    assert (rows["experts.w13"].parts, rows["experts.w13"].k) == ((36,), 512)
    two = {**config("nemotron_h with experts"), "n_shared_experts": 2}
    assert {r.linear: r.n for r in shapes(two, 2).layers}["shared_experts.up_proj"] == 200


def test_hy4_gates_its_attention_and_shares_its_indexers() -> None:
    rows = {row.linear: row for row in shapes(config("hy_v4"), 2).layers}
    assert (rows["linear_gate"].n, rows["linear_gate"].k) == (8 * 40 // 2, 512)
    assert rows["indexer.wk"].indices == (0, 2, 5)
    plain = shapes(config("hy_v4 without lists"))
    assert {r.linear: r.indices for r in plain.layers}["indexer.wk"] == (0, 1, 5)
    assert "an indexer in layer 0 and in every fourth from layer 1 (indexer_types absent)" in (
        plain.derived
    )


def test_deepseek_v41_has_ratios_of_its_own() -> None:
    raw = {
        **config("deepseek_v4"),
        "architectures": ["DeepseekV41ForCausalLM"],
        "model_type": "deepseek_v41",
        "compress_ratios": [1, 1, 2, 2, 4, 0],
        "kv_source_layer_ids": [0, 2],
        "index_source_layer_ids": [0, 3],
        "engram_layer_ids": [1],
    }
    found = shapes(raw, 2)
    rows = {(row.linear, row.n): row.indices for row in found.layers}
    assert rows["compressor.wkv", 96] == (0,)
    assert rows["compressor.wkv_gate", 2 * 96] == (2,)
    assert rows["compressor.wkv_gate", 4 * 96] == (4,)
    assert rows["indexer.wq_b", 4 * 32] == (0, 3, 4)
    assert rows["indexer.wk", 32] == (0,)
    assert "layers 1: engram.* (no rule)" in found.unknown
    nested = {"model_type": "deepseek_v41", "text_config": raw}
    assert shapes(nested, 2).layers == found.layers


def test_ernie_experts_are_in_a_range() -> None:
    raw = config("ernie4_5_moe")
    rows = {row.linear: row for row in shapes(raw, 2).layers}
    assert rows["experts.w13"].indices == (1, 3) and rows["gate_up_proj"].indices == (0, 2, 4, 5)
    last = {row.linear: row for row in shapes({**raw, "moe_layer_end_index": -1}, 2).layers}
    assert last["experts.w13"].indices == (1, 3, 5)


# ---- attention on fewer ranks than the rest ------------------------------------------------------


def test_attention_data_parallel() -> None:
    """With --attn-dp-size the attention is split over tp / dp ranks, the experts over all."""
    plain, found = (dict_of(shapes(config("DeepSeek-V3"), 8, attn_dp=dp)) for dp in (1, 4))
    assert (plain["q_b_proj"], found["q_b_proj"]) == ((3072, 1536), (12288, 1536))
    assert (plain["o_proj"], found["o_proj"]) == ((7168, 2048), (7168, 8192))
    for linear in ("experts.w13", "shared_experts.down_proj", "gate_up_proj", "lm_head"):
        assert plain[linear] == found[linear]
    rank = shapes(config("Qwen3-30B-A3B"), 8, attn_dp=8)
    assert rank.kv is not None and (rank.kv.kv_heads_per_rank, rank.kv.q_heads_per_rank) == (4, 32)
    hybrid = dict_of(shapes(config("Qwen3.5-27B"), 8, attn_dp=8))
    whole = dict_of(shapes(config("Qwen3.5-27B"), 1))
    assert hybrid["linear_attn.in_proj_qkvz"] == whole["linear_attn.in_proj_qkvz"]
    assert hybrid["linear_attn.in_proj_ba"] == whole["linear_attn.in_proj_ba"]


def dict_of(found: Any) -> dict[str, tuple[int | None, int | None]]:
    return {row.linear: (row.n, row.k) for row in found.layers}


def test_attention_data_parallel_where_the_model_cannot() -> None:
    found = shapes(config("Llama-3.1-8B"), 8, attn_dp=4)
    assert found.layers == shapes(config("Llama-3.1-8B"), 8).layers
    assert "attn_dp = 4 changes nothing" in found.notes[0]
    with pytest.raises(InputError) as error:
        shapes(config("DeepSeek-V3"), 8, attn_dp=3)
    assert str(error.value) == "attn_dp is 3: expected a divisor of tp = 8; the nearest is 2"


def test_a_saved_config_may_spell_the_experts_otherwise() -> None:
    """transformers 5 saves num_local_experts through the classes' attribute_map."""
    raw = dict(config("qwen3_moe"))
    raw["num_local_experts"] = raw.pop("num_experts")
    assert shapes(raw, 2).layers == shapes(config("qwen3_moe"), 2).layers


# ---- hostile configs of every family -------------------------------------------------------------

HOSTILE: list[Any] = [0, -1, 10**40, 2**24, 1.5, "x", "", True, None, [], [0], ["x"], {}, [[1]]]


@pytest.mark.parametrize("name", SMALL)
def test_any_key_replaced(name: str) -> None:
    rng = random.Random(name)
    raw = config(name)
    places = [(raw, key) for key in raw] + [
        (inner, key) for inner in raw.values() if isinstance(inner, dict) for key in inner
    ]
    refused = 0
    for owner, key in places:
        kept = owner[key]
        for value in rng.sample(HOSTILE, 4):
            owner[key] = value
            try:
                found = shapes(raw, rng.choice((1, 3, 8)))
                json.dumps(found.to_json(), allow_nan=False)
            except InputError as error:
                assert "\n" not in str(error) and str(error).isprintable()
                refused += 1
        owner[key] = kept
    assert refused


def test_the_doctor_knows_which_linears_skip_the_block_check() -> None:
    """MiMo-V2's qkv is built with skip_block_quant_check=True: its members need not fit 128."""
    from mxlab import Deployment
    from mxlab.doctor import evaluate
    from mxlab.guards import Status

    claim = {"quant_method": "fp8", "weight_block_size": [128, 128]}
    report = evaluate({**config("mimo_v2"), "quantization_config": claim}, Deployment(tp=2))
    said = {
        layer.linear.linear: [v.guard for v in layer.verdicts if v.status is Status.STOPS]
        for layer in report.layers
    }
    assert not any(guard.startswith("lin-tp") for guard in said["qkv_proj"])
    assert "lin-tp-row" in said["o_proj"]  # K = 320 % 128 = 64


def test_inkling_has_a_relative_position_in_its_fused_linear() -> None:
    """Full attention: 8 heads of 96, KV 4, 16 for the position; windows: 16 of 48, KV 8."""
    found = shapes(config("inkling_text as stored"), 2)
    fused = [(r.parts, r.indices) for r in found.layers if r.linear == "qkvr"]
    assert fused == [
        ((8 * 48, 4 * 48, 4 * 48, 8 * 16), (0, 2, 3, 5)),
        ((4 * 96, 2 * 96, 2 * 96, 4 * 16), (1, 4)),
    ]
    assert found.kv is not None and (found.kv.head_dim, found.kv.layers) == (96, 2)
    assert "layers 2-5: mlp.shared_experts (a sink of 2 experts: no rule)" in found.unknown
    router = next(r for r in found.layers if r.kind == "router")
    assert router.n == 6 + 2  # it chooses among the sink's experts too
    assert shapes(config("inkling_text as stored"), 3).loads is False
