"""A known decoder inside an unknown model, and known bodies without an output head."""

import json
from typing import Any

import pytest

from mxlab.errors import InputError
from mxlab.models import read_config, shapes

LLAMA: dict[str, Any] = read_config("Llama-3.1-8B")
INTERN: dict[str, Any] = {
    "architectures": ["SomeNewVisionChatModel"],
    "model_type": "some_new_chat",
    "vision_config": {"model_type": "some_new_vit", "hidden_size": 1024},
    "audio_config": {},
}


@pytest.mark.parametrize("key", ["text_config", "llm_config", "language_config", "decoder_config"])
def test_the_decoder_of_an_unknown_model(key: str) -> None:
    found = shapes({**INTERN, key: LLAMA}, 4)
    plain = shapes(LLAMA, 4)
    assert found.layers == plain.layers and found.kv == plain.kv and found.loads
    assert found.architecture == "SomeNewVisionChatModel" and found.family == "llama"
    assert found.unknown == ("vision (no recipe: model_type 'some_new_vit')", "audio (no recipe)")
    assert f"{key} is read as a llama decoder; what joins it to towers is not listed" in found.notes


def test_the_innermost_decoder_wins() -> None:
    omni = {**INTERN, "thinker_config": {"model_type": "thinker", "text_config": LLAMA}}
    assert shapes(omni, 2).layers == shapes(LLAMA, 2).layers
    # an inner text_config without a name is no decoder: the next one out is
    odd = {**INTERN, "text_config": {**LLAMA, "text_config": {"hidden_size": 1}}}
    assert shapes(odd, 2).layers == shapes(LLAMA, 2).layers


def test_sizes_that_a_nested_config_leaves_to_its_class() -> None:
    """LLaVA 1.5's text_config says what differs from Llama's defaults and no more."""
    short = {"model_type": "llama", "vocab_size": 32064, "architectures": ["LlamaForCausalLM"]}
    with pytest.raises(InputError) as error:
        shapes({**INTERN, "text_config": short})
    assert str(error.value) == (
        "config lacks text_config.hidden_size, text_config.intermediate_size, "
        "text_config.num_attention_heads, text_config.num_hidden_layers: the llama family needs "
        "them, and mxlab assumes no default"
    )


def test_a_quantisation_inside_the_decoder_is_still_seen() -> None:
    """The checkpoint's claim stands at the top, or in the decoder's part."""
    from mxlab import Deployment
    from mxlab.doctor import evaluate

    claim = {"quant_method": "fp8", "weight_block_size": [128, 128]}
    for config in (
        {**INTERN, "text_config": LLAMA, "quantization_config": claim},
        {**INTERN, "text_config": {**LLAMA, "quantization_config": claim}},
    ):
        report = evaluate(config, Deployment(tp=2))
        assert any(layer.verdicts for layer in report.layers)


@pytest.mark.parametrize("value", [[], "x", 7, True, {"model_type": 3}, {"architectures": "x"}])
@pytest.mark.parametrize("key", ["llm_config", "text_config", "thinker_config"])
def test_a_nested_config_that_is_not_one(key: str, value: Any) -> None:
    with pytest.raises(InputError) as error:
        shapes({**INTERN, key: value})
    assert key in str(error.value) and "\n" not in str(error.value)


def test_deep_nesting_ends() -> None:
    deep: dict[str, Any] = dict(LLAMA)
    for _ in range(200):
        deep = {"text_config": deep}
    found = shapes({**INTERN, **deep})
    assert found.loads is None and not found.layers


def test_an_unprintable_key_does_not_reach_the_report() -> None:
    found = shapes({**INTERN, "text_config": LLAMA, "\n\x1b_config": {}, "x" * 99 + "_config": {}})
    assert found.unknown == ("vision (no recipe: model_type 'some_new_vit')", "audio (no recipe)")
    json.dumps(found.to_json(), allow_nan=False)


@pytest.mark.parametrize(
    "name",
    ["LlamaForSequenceClassification", "LlamaModel", "LlamaForTokenClassification"],
)
def test_a_body_without_an_output_head(name: str) -> None:
    found = shapes({**LLAMA, "architectures": [name]}, 2)
    assert [row.linear for row in found.layers] == [
        row.linear for row in shapes(LLAMA, 2).layers if row.kind != "lm_head"
    ]
    assert any(note.startswith(f"'{name}' has no output head") for note in found.notes)


def test_a_new_name_for_a_known_type_keeps_its_head() -> None:
    found = shapes({**LLAMA, "architectures": ["LlamaForCausalLMNew"]}, 2)
    assert found.layers == shapes(LLAMA, 2).layers


@pytest.mark.parametrize(
    "path", [("text_config",), ("llm_config",), ("thinker_config", "text_config")]
)
def test_experts_a_token_of_a_wrapped_decoder(path: tuple[str, ...]) -> None:
    from mxlab.moe_config import routing

    config: dict[str, Any] = {"num_experts_per_tok": 8, "n_group": 4, "norm_topk_prob": True}
    for key in reversed(path):
        config = {key: config}
    found = routing(config)
    assert found is not None and (found.top_k, found.groups) == (8, 4)
    nested = routing({"ffn_config": {"moe_top_k": 4}})
    assert nested is not None and nested.top_k == 4
    assert routing({"llm_config": "x", "ffn_config": []}) is None


def test_the_weights_of_a_wrapped_decoder_are_its_own() -> None:
    from mxlab.weights import weights

    wrapped = {**INTERN, "llm_config": {**LLAMA, "torch_dtype": "float32"}}
    plain = {**LLAMA, "torch_dtype": "float32"}
    found, alone = (weights(c, shapes(c), shapes(c, 2)) for c in (wrapped, plain))
    assert found is not None and alone is not None and found.bytes == alone.bytes
