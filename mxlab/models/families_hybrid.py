"""Families that mix attention with a recurrent state."""

from mxlab.models.attention import Gqa
from mxlab.models.family import Family
from mxlab.models.layer_sets import (
    by_pattern,
    by_sparse_step,
    every,
    full_attention,
    without,
)
from mxlab.models.mlp import DenseMlp, Experts, LatentExperts
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

HYBRID: tuple[Family, ...] = (
    Family(
        name="qwen3_5",
        architectures=("Qwen3_5ForCausalLM",),
        model_types=("qwen3_5_text",),
        parts=QWEN3_5_PARTS,
    ),
    Family(
        name="qwen3_5_moe",
        architectures=("Qwen3_5MoeForCausalLM",),
        model_types=("qwen3_5_moe_text",),
        parts=QWEN3_5_MOE_PARTS,
    ),
    Family(
        name="qwen3_next",
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
)
