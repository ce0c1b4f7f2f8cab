"""Families that mix attention with a recurrent state."""

from mxlab.models.attention import Gqa
from mxlab.models.family import Family
from mxlab.models.layer_sets import (
    by_mixer,
    by_pattern,
    by_sparse_step,
    every,
    full_attention,
    without,
)
from mxlab.models.mlp import DenseMlp, Experts, LatentExperts, OptionalExperts
from mxlab.models.recurrent import GatedDeltaNet, Mamba2

_GATED_ATTENTION = Gqa(output_gate=True, layers=full_attention)
_EXPERTS = Experts(
    layers=every,
    shared="shared_expert",
    shared_width="shared_expert_intermediate_size",
    shared_gate="shared_expert_gate",
)

#: Qwen3.5's text model, dense and with experts: the multimodal classes wrap them
QWEN3_5_PARTS = (_GATED_ATTENTION, GatedDeltaNet(), DenseMlp())
QWEN3_5_MOE_PARTS = (_GATED_ATTENTION, GatedDeltaNet(), _EXPERTS)

#: the names of Mamba-2's sizes in Bamba, Falcon-H1, Granite-4 and Zamba2
MAMBA_KEYS = {
    "mamba_num_heads": "mamba_n_heads",
    "mamba_head_dim": "mamba_d_head",
    "n_groups": "mamba_n_groups",
    "ssm_state_size": "mamba_d_state",
}

HYBRID: tuple[Family, ...] = (
    Family(
        name="qwen3_5",
        attention_dp=True,
        architectures=("Qwen3_5ForCausalLM",),
        model_types=("qwen3_5_text",),
        parts=QWEN3_5_PARTS,
    ),
    Family(
        name="qwen3_5_moe",
        attention_dp=True,
        architectures=("Qwen3_5MoeForCausalLM",),
        model_types=("qwen3_5_moe_text",),
        parts=QWEN3_5_MOE_PARTS,
    ),
    Family(
        name="qwen3_next",
        attention_dp=True,
        architectures=("Qwen3NextForCausalLM",),
        model_types=("qwen3_next",),
        parts=(
            _GATED_ATTENTION,
            GatedDeltaNet(
                qkvz_sources=("linear_attn.in_proj_qkvz",),
                ba_sources=("linear_attn.in_proj_ba",),
            ),
            DenseMlp(layers=without(by_sparse_step)),
            Experts(
                layers=by_sparse_step,
                shared="shared_expert",
                shared_width="shared_expert_intermediate_size",
                shared_gate="shared_expert_gate",
            ),
        ),
    ),
    Family(
        name="nemotron_h",
        attention_dp=True,
        architectures=("NemotronHForCausalLM",),
        model_types=("nemotron_h",),
        parts=(
            Gqa(module="mixer", derive_head_dim=True, layers=by_pattern("*")),
            Mamba2(layers=by_pattern("M")),
            DenseMlp(
                up="up_proj",
                up_sources=("up_proj",),
                module="mixer",
                gated=False,
                layers=by_pattern("-"),
            ),
            Experts(
                layers=by_pattern("E"),
                count="n_routed_experts",
                module="mixer",
                shared="shared_experts",
                shared_width="moe_shared_expert_intermediate_size",
                shared_times=True,
                gated=False,
                latent="moe_latent_size",
            ),
            LatentExperts(layers=by_pattern("E")),
        ),
    ),
    Family(
        name="bamba",
        architectures=("BambaForCausalLM",),
        model_types=("bamba",),
        parts=(
            Gqa(derive_head_dim=True, layers=by_mixer("attention")),
            Mamba2(module="mamba", layers=by_mixer("mamba")),
            DenseMlp(module="feed_forward"),
        ),
        keys=MAMBA_KEYS,
        notes=("SGLang 0.5.23 has no Bamba model; module names are the checkpoint's",),
    ),
    Family(
        name="falcon_h1",
        attention_dp=True,
        architectures=("FalconH1ForCausalLM",),
        model_types=("falcon_h1",),
        parts=(
            Gqa(derive_head_dim=True, layers=every),
            Mamba2(module="mamba", layers=every),
            DenseMlp(module="feed_forward"),
        ),
        keys=MAMBA_KEYS,
    ),
    Family(
        name="granitemoehybrid",
        architectures=("GraniteMoeHybridForCausalLM",),
        model_types=("granitemoehybrid",),
        parts=(
            Gqa(derive_head_dim=True, layers=by_mixer("attention")),
            Mamba2(module="mamba", layers=by_mixer("mamba")),
            OptionalExperts(
                experts=Experts(
                    layers=every,
                    count="num_local_experts",
                    width="intermediate_size",
                    module="block_sparse_moe",
                    router="router",
                )
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
        ),
        keys=MAMBA_KEYS,
        notes=("SGLang names the Mamba module mixer; here it has the checkpoint's name",),
    ),
)
