"""Families with one dense MLP a layer."""

from mxlab.models.attention import Gqa
from mxlab.models.build import Build
from mxlab.models.family import Family
from mxlab.models.layer_sets import every
from mxlab.models.mlp import DenseMlp

_STRICT = Gqa()  # head_dim and num_key_value_heads must be written
_DERIVED = Gqa(derive_head_dim=True)
_LENIENT = Gqa(derive_head_dim=True, kv_defaults_to_heads=True)
_GATED = DenseMlp()


class _FalconAttention(Gqa):
    """Falcon says its KV heads through two flags."""

    def heads(self, build: Build) -> tuple[int, int]:
        """Return (query heads, KV heads): one KV head with multi_query, num_kv_heads with the
        new decoder architecture, else one a query head."""
        config, heads = build.config, build.size("num_attention_heads")
        new, multi = config.flag("new_decoder_architecture"), config.flag("multi_query")
        for key, value in (("new_decoder_architecture", new), ("multi_query", multi)):
            if value is None and not (key == "multi_query" and new):
                build.lacks(key)
        kv = 1 if multi else heads
        if new:
            kv = config.whole("num_kv_heads") or heads
        if not config.named("num_key_value_heads"):
            build.derive(f"num_key_value_heads = {kv} (multi_query, new_decoder_architecture)")
        return heads, kv


def _two_linears(up: str, down: str) -> DenseMlp:
    """Return an MLP without a gate."""
    return DenseMlp(up=up, up_sources=(up,), down=down, down_sources=(down,), gated=False)


_GPT2_KEYS = {
    "hidden_size": "n_embd",
    "num_attention_heads": "n_head",
    "num_hidden_layers": "n_layer",
    "intermediate_size": "n_inner",
}

DENSE: tuple[Family, ...] = (
    Family(
        name="llama",
        architectures=("LlamaForCausalLM", "LLaMAForCausalLM", "InternLM3ForCausalLM"),
        model_types=("llama",),
        parts=(_LENIENT, _GATED),
    ),
    Family(
        name="mistral",
        architectures=("MistralForCausalLM",),
        model_types=("mistral",),
        parts=(_DERIVED, _GATED),
    ),
    Family(
        name="qwen2",
        architectures=("Qwen2ForCausalLM", "MiMoForCausalLM"),
        model_types=("qwen2",),
        parts=(_DERIVED, _GATED),
    ),
    Family(
        name="qwen3",
        attention_dp=True,
        architectures=("Qwen3ForCausalLM",),
        model_types=("qwen3",),
        parts=(_STRICT, _GATED),
    ),
    Family(
        name="gemma",
        architectures=(
            "GemmaForCausalLM",
            "Gemma2ForCausalLM",
            "Gemma3ForCausalLM",
        ),
        model_types=("gemma", "gemma2", "gemma3_text"),
        parts=(_STRICT, _GATED),
        tied=True,
    ),
    Family(
        name="phi3",
        architectures=("Phi3ForCausalLM",),
        model_types=("phi3",),
        parts=(_LENIENT, _GATED),
    ),
    Family(
        name="olmo2",
        architectures=("Olmo2ForCausalLM",),
        model_types=("olmo2",),
        parts=(_LENIENT, _GATED),
    ),
    Family(
        name="granite",
        architectures=("GraniteForCausalLM",),
        model_types=("granite",),
        parts=(_LENIENT, _GATED),
    ),
    Family(
        name="cohere",
        architectures=("CohereForCausalLM",),
        model_types=("cohere",),
        parts=(_LENIENT, _GATED),
        tied=True,
    ),
    Family(
        name="glm4",
        architectures=("Glm4ForCausalLM",),
        model_types=("glm4",),
        parts=(_STRICT, _GATED),
    ),
    Family(
        name="ministral3",
        architectures=("Ministral3ForCausalLM",),
        model_types=("ministral3",),
        parts=(_STRICT, _GATED),
    ),
    Family(
        name="stablelm",
        architectures=("StableLmForCausalLM",),
        model_types=("stablelm",),
        parts=(_DERIVED, _GATED),
        unquantized=("qkv_proj", "o_proj"),
    ),
    Family(
        name="minicpm",
        architectures=("MiniCPMForCausalLM",),
        model_types=("minicpm",),
        parts=(_LENIENT, _GATED),
    ),
    Family(
        name="falcon",
        architectures=("FalconForCausalLM",),
        model_types=("falcon",),
        parts=(
            _FalconAttention(
                qkv="query_key_value",
                sources=("query_key_value",),
                out="dense",
                out_sources=("dense",),
                module="self_attention",
                derive_head_dim=True,
                layers=every,
            ),
            DenseMlp(
                up="dense_h_to_4h",
                up_sources=("dense_h_to_4h",),
                down="dense_4h_to_h",
                down_sources=("dense_4h_to_h",),
                gated=False,
                four_hidden=True,
            ),
        ),
        block="transformer.h.{layer}.",
        keys={"intermediate_size": "ffn_hidden_size"},
        tied=True,
        notes=("SGLang 0.5.23 has no Falcon model; module names are the checkpoint's",),
    ),
    Family(
        name="starcoder2",
        architectures=("Starcoder2ForCausalLM",),
        model_types=("starcoder2",),
        parts=(_DERIVED, _two_linears("c_fc", "c_proj")),
        tied=True,
    ),
    Family(
        name="phi",
        architectures=("PhiForCausalLM",),
        model_types=("phi",),
        parts=(
            Gqa(
                out="dense",
                out_sources=("dense",),
                derive_head_dim=True,
                kv_defaults_to_heads=True,
            ),
            _two_linears("fc1", "fc2"),
        ),
    ),
    Family(
        name="gpt_neox",
        architectures=("GPTNeoXForCausalLM",),
        model_types=("gpt_neox",),
        parts=(
            Gqa(
                qkv="query_key_value",
                sources=("query_key_value",),
                out="dense",
                out_sources=("dense",),
                module="attention",
                derive_head_dim=True,
                kv_defaults_to_heads=True,
            ),
            _two_linears("dense_h_to_4h", "dense_4h_to_h"),
        ),
        block="gpt_neox.layers.{layer}.",
        head="embed_out",
        notes=("SGLang 0.5.23 has no GPT-NeoX model; module names are the checkpoint's",),
    ),
    Family(
        name="gpt2",
        architectures=("GPT2LMHeadModel",),
        model_types=("gpt2",),
        parts=(
            Gqa(
                qkv="attn.c_attn",
                sources=("attn.c_attn",),
                out="attn.c_proj",
                out_sources=("attn.c_proj",),
                module="attn",
                derive_head_dim=True,
                kv_defaults_to_heads=True,
                layers=every,
            ),
            DenseMlp(
                up="mlp.c_fc",
                up_sources=("mlp.c_fc",),
                down="mlp.c_proj",
                down_sources=("mlp.c_proj",),
                gated=False,
                four_hidden=True,
            ),
        ),
        block="transformer.h.{layer}.",
        keys=_GPT2_KEYS,
        tied=True,
    ),
)
