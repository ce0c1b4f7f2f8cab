"""More families with one dense MLP a layer, each held to its class in transformers 5.24.0."""

from mxlab.models.attention import Gqa
from mxlab.models.build import Build
from mxlab.models.family import Family
from mxlab.models.layer_sets import every
from mxlab.models.mla import Mla
from mxlab.models.mlp import DenseMlp
from mxlab.models.per_layer import HUNYUAN_GQA, HunyuanLayers

_DERIVED = Gqa(derive_head_dim=True, layers=every)
_GATED = DenseMlp()
_MHA = Gqa(derive_head_dim=True, kv_defaults_to_heads=True, layers=every)
_PLAIN = DenseMlp(up="up_proj", up_sources=("up_proj",), gated=False)
_N_HEAD = {"num_attention_heads": "n_head", "num_hidden_layers": "n_layer"}


class _MultiQuery(Gqa):
    """GPT-BigCode says its one KV head through a flag."""

    def heads(self, build: Build) -> tuple[int, int]:
        """Return (query heads, KV heads): one KV head where ``multi_query`` is true."""
        heads, one = build.size("num_attention_heads"), build.config.flag("multi_query")
        if one is None:
            build.lacks("multi_query")
        return heads, 1 if one else heads


def _like_llama(name: str, *architectures: str, tied: bool = False, gated: bool = True) -> Family:
    """Return a family whose layers have Llama's linears."""
    return Family(
        name=name,
        architectures=architectures,
        model_types=(name,),
        parts=(_DERIVED, _GATED if gated else _PLAIN),
        tied=tied,
    )


DENSE_MORE: tuple[Family, ...] = (
    _like_llama("cohere2", "Cohere2ForCausalLM", tied=True),
    _like_llama("cwm", "CwmForCausalLM"),
    _like_llama("ernie4_5", "Ernie4_5ForCausalLM", "Ernie4_5_ForCausalLM", tied=True),
    _like_llama("exaone4", "Exaone4ForCausalLM"),
    _like_llama("glm", "GlmForCausalLM"),
    _like_llama("helium", "HeliumForCausalLM"),
    _like_llama("hyperclovax", "HyperCLOVAXForCausalLM"),
    _like_llama("olmo", "OlmoForCausalLM"),
    _like_llama("olmo3", "Olmo3ForCausalLM"),
    _like_llama("seed_oss", "SeedOssForCausalLM"),
    _like_llama("smollm3", "SmolLM3ForCausalLM", tied=True),
    _like_llama("vaultgemma", "VaultGemmaForCausalLM", tied=True),
    _like_llama("bitnet", "BitNetForCausalLM"),
    _like_llama("diffllama", "DiffLlamaForCausalLM"),
    _like_llama("granite_swa", "GraniteSWAForCausalLM"),
    _like_llama("ministral", "MinistralForCausalLM"),
    _like_llama("apertus", "ApertusForCausalLM", gated=False),
    _like_llama("apertus1p5_text", "Apertus1p5TextForCausalLM", gated=False),
    _like_llama("jais2", "Jais2ForCausalLM", gated=False),
    _like_llama("arcee", "ArceeForCausalLM", gated=False),
    _like_llama("nemotron", "NemotronForCausalLM", gated=False),
    Family(
        name="hunyuan_v1_dense",
        architectures=("HunYuanDenseV1ForCausalLM",),
        model_types=("hunyuan_v1_dense",),
        parts=(HunyuanLayers(gqa=HUNYUAN_GQA), _GATED),
    ),
    Family(
        name="youtu",
        architectures=("YoutuForCausalLM",),
        model_types=("youtu",),
        parts=(Mla(), _GATED),
        tied=True,
    ),
    Family(
        name="minicpm3",
        architectures=("MiniCPM3ForCausalLM",),
        model_types=("minicpm3",),
        parts=(Mla(), _GATED),
        tied=True,
    ),
    Family(
        name="opt",
        architectures=("OPTForCausalLM",),
        model_types=("opt",),
        parts=(
            Gqa(
                out="out_proj",
                out_sources=("out_proj",),
                derive_head_dim=True,
                kv_defaults_to_heads=True,
                layers=every,
            ),
            DenseMlp(
                up="fc1",
                up_sources=("fc1",),
                down="fc2",
                down_sources=("fc2",),
                module="",
                width="ffn_dim",
                gated=False,
            ),
        ),
        block="model.decoder.layers.{layer}.",
        tied=True,
    ),
    Family(
        name="bloom",
        architectures=("BloomForCausalLM",),
        model_types=("bloom",),
        parts=(
            Gqa(
                qkv="query_key_value",
                sources=("query_key_value",),
                out="dense",
                out_sources=("dense",),
                module="self_attention",
                derive_head_dim=True,
                kv_defaults_to_heads=True,
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
        keys=_N_HEAD,
        tied=True,
        notes=("SGLang 0.5.23 has no BLOOM model; module names are the checkpoint's",),
    ),
    Family(
        name="gptj",
        architectures=("GPTJForCausalLM",),
        model_types=("gptj",),
        parts=(
            Gqa(
                module="attn",
                out="out_proj",
                out_sources=("out_proj",),
                derive_head_dim=True,
                kv_defaults_to_heads=True,
                layers=every,
            ),
            DenseMlp(
                up="fc_in",
                up_sources=("fc_in",),
                down="fc_out",
                down_sources=("fc_out",),
                gated=False,
                four_hidden=True,
            ),
        ),
        block="transformer.h.{layer}.",
        keys={**_N_HEAD, "hidden_size": "n_embd", "intermediate_size": "n_inner"},
    ),
    Family(
        name="gpt_bigcode",
        architectures=("GPTBigCodeForCausalLM",),
        model_types=("gpt_bigcode",),
        parts=(
            _MultiQuery(
                qkv="attn.c_attn",
                sources=("attn.c_attn",),
                out="attn.c_proj",
                out_sources=("attn.c_proj",),
                module="attn",
                derive_head_dim=True,
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
        keys={**_N_HEAD, "hidden_size": "n_embd", "intermediate_size": "n_inner"},
        tied=True,
    ),
)
