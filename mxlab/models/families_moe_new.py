"""Families with routed experts and a rule of their own for layers, heads or shared experts."""

from mxlab.models.attention import Gqa
from mxlab.models.family import Family
from mxlab.models.inkling import InklingAttention, InklingExperts, inkling_experts
from mxlab.models.layer_sets import (
    after_dense,
    by_mlp_type,
    by_sparse_step,
    every,
    without,
)
from mxlab.models.layer_sets_hybrid import by_mlp_type_or_all
from mxlab.models.mla import Mla
from mxlab.models.mlp import DenseMlp, Experts
from mxlab.models.per_layer import HUNYUAN_GQA, GatedGqa, HunyuanExperts, HunyuanLayers

_DERIVED = Gqa(derive_head_dim=True, layers=every)
_STRICT = Gqa(layers=every)
_UNSERVED = "SGLang 0.5.23 has no such model; module names are the checkpoint's"
#: Granite's experts and the MLP that every token runs beside them
_GRANITE = (
    Experts(
        layers=every,
        count="num_local_experts",
        width="intermediate_size",
        module="block_sparse_moe",
        router="router",
    ),
    DenseMlp(
        up="shared_mlp.input_linear",
        up_sources=("shared_mlp.input_linear",),
        down="shared_mlp.output_linear",
        down_sources=("shared_mlp.output_linear",),
        module="shared_mlp",
        width="shared_intermediate_size",
        optional=True,
    ),
)


def _double(part: int) -> tuple[Mla, DenseMlp]:
    """Return one of the two attentions and MLPs of a LongCat layer."""
    return Mla(module=f"self_attn.{part}"), DenseMlp(
        up=f"mlps.{part}.gate_up_proj",
        up_sources=(f"mlps.{part}.gate_proj", f"mlps.{part}.up_proj"),
        down=f"mlps.{part}.down_proj",
        down_sources=(f"mlps.{part}.down_proj",),
        module=f"mlps.{part}",
    )


_INKLING = (
    InklingAttention(),
    DenseMlp(
        width="dense_intermediate_size",
        width_else="intermediate_size",
        layers=without(inkling_experts),
    ),
    InklingExperts(),
)
#: transformers' names -> the checkpoint's
_INKLING_ALIASES = (
    (".self_attn.q_proj", ".attn.wq_du"),
    (".self_attn.k_proj", ".attn.wk_dv"),
    (".self_attn.v_proj", ".attn.wv_dv"),
    (".self_attn.r_proj", ".attn.wr_du"),
    (".self_attn.o_proj", ".attn.wo_ud"),
)

MOE_NEW: tuple[Family, ...] = (
    Family(
        name="inkling",
        attention_dp=True,
        architectures=("InklingForConditionalGeneration",),
        model_types=("inkling", "inkling_mm_model"),
        parts=_INKLING,
        block="llm.model.layers.{layer}.",
        head="llm.lm_head",
        nested="text_config",
        aliases=_INKLING_ALIASES,
        often_incomplete=True,
        unknown=("vision and audio towers (no recipe for Inkling's)",),
    ),
    Family(
        name="inkling",
        attention_dp=True,
        architectures=("InklingForCausalLM",),
        model_types=("inkling_text", "inkling_model"),
        parts=_INKLING,
        aliases=_INKLING_ALIASES,
        often_incomplete=True,
    ),
    Family(
        name="granitemoeshared",
        architectures=("GraniteMoeSharedForCausalLM", "GraniteMoeSWAForCausalLM"),
        model_types=("granitemoeshared", "granitemoe_swa"),
        parts=(_DERIVED, *_GRANITE),
    ),
    Family(
        name="hunyuan_v1_moe",
        architectures=("HunYuanMoEV1ForCausalLM", "HunYuanForCausalLM"),
        model_types=("hunyuan_v1_moe", "hunyuan"),
        parts=(HunyuanLayers(gqa=HUNYUAN_GQA), HunyuanExperts()),
        aliases=((".gate.wg", ".gate"),),
    ),
    Family(
        name="cohere2_moe",
        architectures=("Cohere2MoeForCausalLM",),
        model_types=("cohere2_moe",),
        parts=(
            _STRICT,
            DenseMlp(width="prefix_dense_intermediate_size", layers=without(by_mlp_type_or_all)),
            Experts(
                layers=by_mlp_type_or_all,
                width="intermediate_size",
                shared="shared_experts",
                shared_count="num_shared_experts",
            ),
        ),
        tied=True,
    ),
    Family(
        name="mellum",
        attention_dp=True,
        architectures=("MellumForCausalLM",),
        model_types=("mellum",),
        parts=(
            _STRICT,
            DenseMlp(layers=without(by_mlp_type_or_all)),
            Experts(layers=by_mlp_type_or_all, count="num_local_experts"),
        ),
    ),
    Family(
        name="laguna",
        attention_dp=True,
        architectures=("LagunaForCausalLM",),
        model_types=("laguna",),
        parts=(
            GatedGqa(gqa=_STRICT, heads="num_attention_heads_per_layer", gating="gating"),
            DenseMlp(layers=without(by_mlp_type)),
            Experts(
                layers=by_mlp_type,
                shared="shared_experts",
                shared_width="shared_expert_intermediate_size",
            ),
        ),
    ),
    Family(
        name="flint",
        architectures=("FlintForCausalLM",),
        model_types=("flint",),
        parts=(
            _STRICT,
            DenseMlp(layers=without(by_sparse_step)),
            Experts(
                layers=by_sparse_step,
                shared="shared_expert",
                shared_width="shared_expert_intermediate_size",
            ),
        ),
        notes=(_UNSERVED,),
    ),
    Family(
        name="kolibri1",
        architectures=("Kolibri1ForCausalLM",),
        model_types=("kolibri1",),
        parts=(
            _STRICT,
            Experts(
                layers=every,
                count="num_local_experts",
                shared="shared_experts",
                shared_width="shared_expert_intermediate_size",
            ),
        ),
        notes=(_UNSERVED,),
    ),
    Family(
        name="aria_text",
        architectures=("AriaTextForCausalLM",),
        model_types=("aria_text",),
        parts=(
            _DERIVED,
            Experts(
                layers=every,
                count="moe_num_experts",
                width="intermediate_size",
                router="router",
                shared="shared_experts",
                shared_count="moe_num_shared_experts",
            ),
        ),
        notes=(_UNSERVED,),
    ),
    Family(
        name="axk1",
        architectures=("AXK1ForCausalLM",),
        model_types=("axk1",),
        parts=(
            Mla(),
            DenseMlp(layers=without(after_dense)),
            Experts(layers=after_dense, count="n_routed_experts", shared="shared_experts"),
        ),
        notes=(_UNSERVED,),
    ),
    Family(
        name="longcat_flash",
        attention_dp=True,
        architectures=("LongcatFlashForCausalLM",),
        model_types=("longcat_flash",),
        parts=(
            *_double(0),
            *_double(1),
            Experts(
                layers=every,
                count="n_routed_experts",
                router="router.classifier",
                idle="zero_expert_num",
            ),
        ),
        keys={
            "intermediate_size": "ffn_hidden_size",
            "moe_intermediate_size": "expert_ffn_hidden_size",
            "num_hidden_layers": "num_layers",
        },
    ),
)
