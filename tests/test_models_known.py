"""Recipes without a class in transformers, against known numbers of parameters.

The counts of InternLM2-7B, Qwen-7B, ChatGLM3-6B, DeepSeek-MoE-16B, LFM2-1.2B and MiniMax-M1 were
found in public repositories that print them (2026-12-01). Those of the others, and all the sizes
in ``CONFIGS``, were written from memory and not fetched: a wrong width, layer or expert gives
another sum, so that a count which agrees to the last parameter is evidence, but no citation.
``other`` counts what is no linear: embedding, norms, biases, convolutions.
"""

from typing import Any

import pytest

from mxlab.errors import InputError
from mxlab.models import Linear, Model, Stored, shapes
from mxlab.models.config import Section
from mxlab.models.families import find_family

_GQA = {"hidden_size": 4096, "num_attention_heads": 32, "num_hidden_layers": 32}

CONFIGS: dict[str, dict[str, Any]] = {
    "internlm2-7b": {
        **_GQA,
        "architectures": ["InternLM2ForCausalLM"],
        "intermediate_size": 14336,
        "num_key_value_heads": 8,
        "vocab_size": 92544,
    },
    "Baichuan2-7B-Base": {
        **_GQA,
        "architectures": ["BaichuanForCausalLM"],
        "intermediate_size": 11008,
        "vocab_size": 125696,
    },
    "chatglm3-6b": {
        "architectures": ["ChatGLMModel"],
        "hidden_size": 4096,
        "ffn_hidden_size": 13696,
        "num_attention_heads": 32,
        "kv_channels": 128,
        "multi_query_attention": True,
        "multi_query_group_num": 2,
        "num_layers": 28,
        "padded_vocab_size": 65024,
    },
    "Qwen-7B": {
        **_GQA,
        "architectures": ["QWenLMHeadModel"],
        "intermediate_size": 22016,
        "vocab_size": 151936,
    },
    "EXAONE-3.0-7.8B": {
        "architectures": ["ExaoneForCausalLM"],
        "hidden_size": 4096,
        "intermediate_size": 14336,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "num_layers": 32,
        "vocab_size": 102400,
    },
    "Phi-3-small-8k": {
        **_GQA,
        "architectures": ["Phi3SmallForCausalLM"],
        "ff_intermediate_size": 14336,
        "num_key_value_heads": 8,
        "vocab_size": 100352,
    },
    "deepseek-moe-16b": {
        "architectures": ["DeepseekForCausalLM"],
        "hidden_size": 2048,
        "intermediate_size": 10944,
        "moe_intermediate_size": 1408,
        "n_routed_experts": 64,
        "n_shared_experts": 2,
        "first_k_dense_replace": 1,
        "moe_layer_freq": 1,
        "num_attention_heads": 16,
        "num_key_value_heads": 16,
        "num_hidden_layers": 28,
        "vocab_size": 102400,
    },
    "dbrx-base": {
        "architectures": ["DbrxForCausalLM"],
        "d_model": 6144,
        "n_heads": 48,
        "n_layers": 40,
        "vocab_size": 100352,
        "attn_config": {"kv_n_heads": 8},
        "ffn_config": {"ffn_hidden_size": 10752, "moe_num_experts": 16},
    },
    "Ling-lite": {
        "architectures": ["BailingMoeForCausalLM"],
        "hidden_size": 2048,
        "intermediate_size": 5632,
        "moe_intermediate_size": 1408,
        "num_experts": 64,
        "num_shared_experts": 2,
        "first_k_dense_replace": 0,
        "num_attention_heads": 16,
        "num_key_value_heads": 4,
        "num_hidden_layers": 28,
        "vocab_size": 126464,
    },
    "LFM2-1.2B": {
        "architectures": ["Lfm2ForCausalLM"],
        "hidden_size": 2048,
        "block_ff_dim": 12288,
        "block_multiple_of": 256,
        "block_ffn_dim_multiplier": 1.0,
        "block_auto_adjust_ff_dim": True,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "num_hidden_layers": 16,
        "full_attn_idxs": [2, 5, 8, 10, 12, 14],
        "tie_embedding": True,
        "vocab_size": 65536,
    },
    "MiniMax-M1-80k": {
        "architectures": ["MiniMaxM1ForCausalLM"],
        "attn_type_list": ([0] * 7 + [1]) * 10,
        "hidden_size": 6144,
        "head_dim": 128,
        "num_attention_heads": 64,
        "num_key_value_heads": 8,
        "num_hidden_layers": 80,
        "intermediate_size": 9216,
        "num_local_experts": 32,
        "shared_intermediate_size": 0,
        "vocab_size": 200064,
    },
    "Kimi-Linear-48B-A3B": {
        "architectures": ["KimiLinearForCausalLM"],
        "hidden_size": 2304,
        "head_dim": 72,
        "intermediate_size": 9216,
        "kv_lora_rank": 512,
        "q_lora_rank": None,
        "qk_nope_head_dim": 128,
        "qk_rope_head_dim": 64,
        "v_head_dim": 128,
        "linear_attn_config": {
            "full_attn_layers": [4, 8, 12, 16, 20, 24, 27],
            "head_dim": 128,
            "kda_layers": [n for n in range(1, 27) if n % 4],
            "num_heads": 32,
            "short_conv_kernel_size": 4,
        },
        "first_k_dense_replace": 1,
        "moe_intermediate_size": 1024,
        "num_attention_heads": 32,
        "num_experts": 256,
        "num_shared_experts": 1,
        "num_hidden_layers": 27,
        "vocab_size": 163840,
    },
    "Jamba-v0.1": {
        **_GQA,
        "architectures": ["JambaForCausalLM"],
        "attn_layer_offset": 4,
        "attn_layer_period": 8,
        "expert_layer_offset": 1,
        "expert_layer_period": 2,
        "intermediate_size": 14336,
        "mamba_d_state": 16,
        "mamba_dt_rank": 256,
        "mamba_expand": 2,
        "num_key_value_heads": 8,
        "num_experts": 16,
        "vocab_size": 65536,
    },
}

#: name -> (parameters, other)
KNOWN: dict[str, tuple[int, int]] = {
    "internlm2-7b": (7_737_708_544, 92544 * 4096 + 65 * 4096),
    "Baichuan2-7B-Base": (7_505_973_248, 125696 * 4096 + 65 * 4096),
    "chatglm3-6b": (6_243_584_000, 65024 * 4096 + 57 * 4096 + 28 * 4608),
    "Qwen-7B": (7_721_324_544, 151936 * 4096 + 65 * 4096 + 32 * 12288),
    "EXAONE-3.0-7.8B": (7_818_448_896, 102400 * 4096 + 65 * 4096),
    # the output head is the embedding
    "Phi-3-small-8k": (7_392_272_384, 65 * 2 * 4096 + 32 * (6144 + 4096 + 28672 + 4096)),
    "deepseek-moe-16b": (16_375_728_128, 102400 * 2048 + 57 * 2048),
    "dbrx-base": (131_596_523_520, 100352 * 6144 + 81 * 6144),
    "Ling-lite": (16_801_974_272, 126464 * 2048 + 57 * 2048),
    # convolutions of 3 taps, norms of 64 for q and k
    "LFM2-1.2B": (1_170_340_608, 33 * 2048 + 10 * 3 * 2048 + 6 * 128),
    "MiniMax-M1-80k": (456_089_655_296, 200064 * 6144 + 161 * 6144 + 70 * 8192),
    # three convolutions of 4 taps, dt, A and the output's norm in each of 20 layers
    "Kimi-Linear-48B-A3B": (
        49_122_681_728,
        163840 * 2304 + 55 * 2304 + 7 * 512 + 20 * (3 * 4096 * 4 + 4096 + 32 + 128) + 26 * 256,
    ),
    # convolution of 4 taps and its bias, A, D, the bias of dt, norms of dt, B and C
    "Jamba-v0.1": (
        51_570_323_328,
        65536 * 4096 + 65 * 4096 + 28 * (8192 * (4 + 1 + 16 + 1 + 1) + 256 + 32),
    ),
}


def weights(row: Linear, vocabulary: int) -> int:
    assert row.n is not None and row.k is not None
    n = vocabulary if row.kind == "lm_head" else row.n  # rows here are padded
    return n * row.k * row.layers * (row.experts or 1)


@pytest.mark.parametrize("name", CONFIGS)
def test_the_known_number_of_parameters(name: str) -> None:
    config, (parameters, other) = CONFIGS[name], KNOWN[name]
    vocabulary = config.get("vocab_size") or config["padded_vocab_size"]
    found = shapes(config)
    assert not found.unknown and found.kv is not None
    assert sum(weights(row, vocabulary) for row in found.layers) + other == parameters


def rows(name: str, tp: int) -> dict[str, tuple[int | None, int | None]]:
    return {row.linear: (row.n, row.k) for row in shapes(CONFIGS[name], tp).layers}


def test_chatglm_has_two_kv_heads_on_eight_ranks() -> None:
    found = rows("chatglm3-6b", 8)
    assert found["query_key_value"] == ((4 + 2) * 128, 4096)  # 4 query heads, one KV head copied
    assert found["dense_h_to_4h"] == (2 * 13696 // 8, 4096)
    assert shapes({**CONFIGS["chatglm3-6b"], "multi_query_attention": False}).layers[0].n == 12288
    with pytest.raises(InputError, match="config lacks multi_query_attention"):
        shapes({k: v for k, v in CONFIGS["chatglm3-6b"].items() if k != "multi_query_attention"})


def test_kimi_linear_splits_by_head() -> None:
    found = shapes(CONFIGS["Kimi-Linear-48B-A3B"], 8)
    delta = {row.linear: row for row in found.layers if row.indices[:1] == (0,)}
    assert (delta["qkv_proj"].parts, delta["qkv_proj"].k) == ((512, 512, 512), 2304)
    assert (delta["f_a_proj"].n, delta["f_b_proj"].n, delta["b_proj"].n) == (128, 512, 4)
    assert found.kv is not None and (found.kv.kind, found.kv.layers) == ("MLA", 7)
    assert shapes(CONFIGS["Kimi-Linear-48B-A3B"], 64).loads is False  # 32 heads


def test_a_mixer_of_mamba_1_splits_its_inner_width() -> None:
    found = rows("Jamba-v0.1", 4)
    assert found["mamba.in_proj"] == (2 * 8192 // 4, 4096)
    assert found["mamba.x_proj"] == (256 + 32, 8192 // 4)
    assert found["mamba.dt_proj"] == (8192 // 4, 256)


def test_the_stored_weights_of_internlm2_have_its_rows() -> None:
    config = {**CONFIGS["internlm2-7b"], "num_hidden_layers": 1}
    at = "model.layers.0."
    stored = (
        Stored("model.tok_embeddings", 92544, 4096),
        Stored(f"{at}attention.wqkv", 6144, 4096),
        Stored(f"{at}attention.wo", 4096, 4096),
        Stored(f"{at}feed_forward.w1", 14336, 4096),
        Stored(f"{at}feed_forward.w3", 14336, 4096),
        Stored(f"{at}feed_forward.w2", 4096, 14336),
        Stored("output", 92544, 4096),
    )
    found = shapes(Model(kind="headers", config=config, stored=stored))
    assert found.family == "internlm2" and not found.differences
    assert not any("not in the recipe" in note for note in found.notes)


def _searched(attention: dict[str, Any], ffn: dict[str, Any]) -> dict[str, Any]:
    return {"attention": attention, "ffn": ffn}


DECI: dict[str, Any] = {
    **_GQA,
    "architectures": ["DeciLMForCausalLM"],
    "num_hidden_layers": 4,
    "vocab_size": 128256,
    "block_configs": [
        _searched({"n_heads_in_group": 4}, {"ffn_mult": 1.3}),
        _searched({"no_op": True, "n_heads_in_group": None}, {"ffn_mult": 2.625}),
        _searched({"n_heads_in_group": 8}, {"no_op": True, "ffn_mult": None}),
        _searched({"n_heads_in_group": 4}, {"ffn_mult": 2.625}),
    ],
}


def test_a_searched_model_has_sizes_layer_by_layer() -> None:
    found = shapes(DECI, 2)
    attention = [(r.parts, r.indices) for r in found.layers if r.linear == "qkv_proj"]
    assert attention == [((2048, 512, 512), (0, 3)), ((2048, 256, 256), (2,))]
    # int(2 * 1.3 * 4096 / 3) = 3549 -> 3584; int(2 * 2.625 * 4096 / 3) = 7168
    assert [(r.k, r.indices) for r in found.layers if r.linear == "down_proj"] == [
        (3584 // 2, (0,)),
        (7168 // 2, (1, 3)),
    ]
    assert found.kv is not None and (found.kv.layers, found.kv.kv_heads_per_rank) == (2, 4)


@pytest.mark.parametrize(
    ("blocks", "said"),
    [
        ([], "block_configs has 0 entries: expected 4, one a layer"),
        ({}, "block_configs is an object: expected a list of objects, one a layer"),
        ([1, 2, 3, 4], "block_configs[0] is a whole number: expected an object"),
        (
            [_searched({"n_heads_in_group": 5}, {"ffn_mult": 1})] * 4,
            "block_configs[0].attention.n_heads_in_group is 5: expected a divisor of "
            "num_attention_heads = 32",
        ),
        (
            [_searched({"n_heads_in_group": 4}, {"ffn_mult": 1e9})] * 4,
            "block_configs[0].ffn.ffn_mult is 1000000000.0: expected a number above 0 and up to 64",
        ),
    ],
)
def test_a_searched_model_that_is_not_one(blocks: Any, said: str) -> None:
    with pytest.raises(InputError) as error:
        shapes({**DECI, "block_configs": blocks})
    assert str(error.value) == said


STEP: dict[str, Any] = {
    "architectures": ["Step3p5ForCausalLM"],
    "hidden_size": 4096,
    "head_dim": 128,
    "num_attention_heads": 64,
    "num_attention_groups": 8,
    "attention_other_setting": {"num_attention_heads": 96, "num_attention_groups": 8},
    "layer_types": ["full_attention", "sliding_attention", "sliding_attention", "full_attention"],
    "num_hidden_layers": 4,
    "use_head_wise_attn_gate": True,
    "intermediate_size": 11264,
    "moe_layers_enum": "2,3",
    "moe_num_experts": 288,
    "moe_intermediate_size": 1280,
    "share_expert_dim": 1280,
    "vocab_size": 128896,
}


def test_step_3_5_has_more_heads_under_a_window() -> None:
    found = shapes(STEP, 8)
    assert [(r.linear, r.n, r.k, r.indices) for r in found.layers[:6]] == [
        ("qkv_proj", (8 + 2) * 128, 4096, (0, 3)),
        ("o_proj", 4096, 8 * 128, (0, 3)),
        ("g_proj", 8, 4096, (0, 3)),
        ("qkv_proj", (12 + 2) * 128, 4096, (1, 2)),
        ("o_proj", 4096, 12 * 128, (1, 2)),
        ("g_proj", 12, 4096, (1, 2)),
    ]
    experts = next(r for r in found.layers if r.linear == "experts.w13")
    assert experts.indices == (2, 3) and experts.n == 320
    assert any(note.startswith("KV cache: the other 2 layers") for note in found.notes)
    with pytest.raises(InputError, match=r"moe_layers_enum is '2,x': expected layer numbers"):
        shapes({**STEP, "moe_layers_enum": "2,x"})


def test_names_that_serving_systems_and_checkpoints_use() -> None:
    for name, family in (
        ("Ernie4_5_ForCausalLM", "ernie4_5"),
        ("PhiMoEForCausalLM", "phimoe"),
        ("ExaoneMoEForCausalLM", "exaone_moe"),
        ("MistralLarge3ForCausalLM", "deepseek_v3"),
        ("QuantMixtralForCausalLM", "mixtral"),
    ):
        found = find_family(Section({"architectures": [name]}))
        assert found is not None and found.name == family
