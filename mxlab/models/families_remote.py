"""Families whose class comes with the checkpoint; each read off SGLang 0.5.23's own model."""

from mxlab.models.attention import Gqa
from mxlab.models.family import Family
from mxlab.models.layer_sets import after_dense, by_sparse_step, every, without
from mxlab.models.layer_sets_hybrid import by_mlp_type_or_dense
from mxlab.models.mlp import DenseMlp, Experts
from mxlab.models.remote import (
    GroupedByFlag,
    Nested,
    OtherAttention,
    SearchedAttention,
    SearchedMlp,
    step_experts,
)

_LENIENT = Gqa(derive_head_dim=True, kv_defaults_to_heads=True, layers=every)
_GATED = DenseMlp()
_TRANSFORMER = "transformer.h.{layer}."


def _fused(qkv: str, source: str, out: str, module: str = "self_attn") -> Gqa:
    """Return attention whose q, k and v are one weight on disk too."""
    return Gqa(
        qkv=qkv,
        sources=(source,),
        out=out,
        out_sources=(out,),
        module=module,
        derive_head_dim=True,
        kv_defaults_to_heads=True,
        layers=every,
    )


def _like_llama(name: str, architectures: tuple[str, ...], *model_types: str) -> Family:
    return Family(
        name=name,
        architectures=architectures,
        model_types=model_types or (name,),
        parts=(_LENIENT, _GATED),
    )


REMOTE: tuple[Family, ...] = (
    _like_llama("orion", ("OrionForCausalLM",)),
    _like_llama("xverse", ("XverseForCausalLM",)),
    _like_llama("sdar", ("SDARForCausalLM",)),
    _like_llama("iquestcoder", ("IQuestCoderForCausalLM",)),
    Family(
        name="baichuan",
        architectures=("BaichuanForCausalLM", "BaiChuanForCausalLM"),
        model_types=("baichuan",),
        parts=(_fused("W_pack", "W_pack", "o_proj"), _GATED),
    ),
    Family(
        name="internlm2",
        architectures=("InternLM2ForCausalLM",),
        model_types=("internlm2",),
        parts=(
            _fused("wqkv", "wqkv", "wo", "attention"),
            DenseMlp(
                up_sources=("w1", "w3"),
                down="w2",
                down_sources=("w2",),
                module="feed_forward",
            ),
        ),
        head="output",
    ),
    Family(
        name="chatglm",
        architectures=("ChatGLMModel", "ChatGLMForConditionalGeneration", "ChatGLMForCausalLM"),
        model_types=("chatglm",),
        parts=(
            GroupedByFlag(
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
            ),
        ),
        block="transformer.encoder.layers.{layer}.",
        head="transformer.output_layer",
        keys={
            "num_hidden_layers": "num_layers",
            "intermediate_size": "ffn_hidden_size",
            "vocab_size": "padded_vocab_size",
            "head_dim": "kv_channels",
        },
    ),
    Family(
        name="qwen",
        architectures=("QWenLMHeadModel",),
        model_types=("qwen",),
        parts=(
            _fused("attn.c_attn", "attn.c_attn", "attn.c_proj", "attn"),
            DenseMlp(
                up_sources=("w2", "w1"),
                down="mlp.c_proj",
                down_sources=("mlp.c_proj",),
                halved=True,
            ),
        ),
        block=_TRANSFORMER,
    ),
    Family(
        name="exaone",
        architectures=("ExaoneForCausalLM",),
        model_types=("exaone",),
        parts=(
            Gqa(
                out="out_proj",
                out_sources=("out_proj",),
                derive_head_dim=True,
                kv_defaults_to_heads=True,
                layers=every,
            ),
            DenseMlp(up_sources=("c_fc_0", "c_fc_1"), down="c_proj", down_sources=("c_proj",)),
        ),
        block=_TRANSFORMER,
        keys={"num_hidden_layers": "num_layers"},
    ),
    Family(
        name="phi3small",
        architectures=("Phi3SmallForCausalLM",),
        model_types=("phi3small",),
        parts=(
            _fused("query_key_value", "query_key_value", "dense"),
            DenseMlp(up="up_proj", up_sources=("up_proj",), width="ff_intermediate_size"),
        ),
        tied=True,
    ),
    Family(
        name="nemotron-nas",
        architectures=("DeciLMForCausalLM",),
        model_types=("nemotron-nas",),
        parts=(SearchedAttention(gqa=_LENIENT), SearchedMlp(mlp=_GATED)),
    ),
    Family(
        name="grok",
        architectures=("Grok1ForCausalLM", "Grok1ModelForCausalLM"),
        model_types=("grok-1",),
        parts=(
            Gqa(module="attn", derive_head_dim=True, kv_defaults_to_heads=True, layers=every),
            Experts(
                layers=every,
                count="num_local_experts",
                width="moe_intermediate_size",
                width_else="intermediate_size",
                module="block_sparse_moe",
            ),
            DenseMlp(flag="residual_moe"),
        ),
        notes=("the head is Grok's own class in SGLang: replicated where its config says so",),
    ),
    Family(
        name="dbrx",
        architectures=("DbrxForCausalLM",),
        model_types=("dbrx",),
        parts=(
            Nested(
                part=_fused("Wqkv", "Wqkv", "out_proj", "norm_attn_norm.attn"),
                inside="attn_config",
                sizes={"num_key_value_heads": "kv_n_heads"},
            ),
            Nested(
                part=Experts(
                    layers=every,
                    module="ffn",
                    router="router.layer",
                ),
                inside="ffn_config",
                sizes={
                    "num_experts": "moe_num_experts",
                    "moe_intermediate_size": "ffn_hidden_size",
                },
            ),
        ),
        block="transformer.blocks.{layer}.",
        keys={
            "hidden_size": "d_model",
            "num_attention_heads": "n_heads",
            "num_hidden_layers": "n_layers",
        },
        unquantized=("experts.",),
    ),
    Family(
        name="deepseek",
        architectures=("DeepseekForCausalLM",),
        model_types=("deepseek",),
        parts=(
            _LENIENT,
            DenseMlp(layers=without(after_dense)),
            Experts(layers=after_dense, count="n_routed_experts", shared="shared_experts"),
        ),
    ),
    Family(
        name="bailing_moe",
        attention_dp=True,
        architectures=(
            "BailingMoeForCausalLM",
            "BailingMoEForCausalLM",
            "BailingMoeV2ForCausalLM",
            "LLaDA2MoeModelLM",
        ),
        model_types=("bailing_moe", "bailing_moe_v2", "llada2_moe"),
        parts=(
            _fused("query_key_value", "query_key_value", "dense", "attention"),
            DenseMlp(layers=without(by_mlp_type_or_dense)),
            Experts(
                layers=by_mlp_type_or_dense,
                shared="shared_experts",
                shared_count="num_shared_experts",
                shared_one="moe_shared_expert_intermediate_size",
            ),
        ),
    ),
    Family(
        name="sdar_moe",
        architectures=("SDARMoeForCausalLM",),
        model_types=("sdar_moe",),
        parts=(
            _LENIENT,
            DenseMlp(layers=without(by_sparse_step)),
            Experts(layers=by_sparse_step),
        ),
    ),
    Family(
        name="step3p5",
        attention_dp=True,
        architectures=("Step3p5ForCausalLM",),
        model_types=("step3p5",),
        parts=(
            OtherAttention(gqa=Gqa(kv_key="num_attention_groups")),
            DenseMlp(layers=without(step_experts)),
            Experts(layers=step_experts, count="moe_num_experts"),
            DenseMlp(
                up="share_expert.gate_up_proj",
                up_sources=("share_expert.gate_proj", "share_expert.up_proj"),
                down="share_expert.down_proj",
                down_sources=("share_expert.down_proj",),
                module="share_expert",
                width="share_expert_dim",
                layers=step_experts,
            ),
        ),
    ),
)
