"""More families that mix attention with convolutions or a recurrent state, or have no attention."""

from mxlab.models.attention import Gqa
from mxlab.models.delta_attention import KimiDelta, Lightning
from mxlab.models.families_hybrid import MAMBA_KEYS
from mxlab.models.family import Family
from mxlab.models.layer_sets import after_num_dense, every, without
from mxlab.models.layer_sets_hybrid import (
    by_attention_list,
    by_index,
    by_linear_config,
    by_mlp_type_or_dense,
    by_period,
    by_repeated,
    jamba_experts,
    typed,
    with_shared_block,
)
from mxlab.models.mamba1 import Mamba1
from mxlab.models.mla import Mla
from mxlab.models.mlp import DenseMlp, Experts
from mxlab.models.per_layer import GatedGqa
from mxlab.models.recurrent import GatedDeltaNet, LinearRecurrence, Mamba2
from mxlab.models.short_conv import AdjustedMlp, ShortConv
from mxlab.models.zamba import SharedBlock

_LFM2_ATTENTION = Gqa(
    out="out_proj",
    out_sources=("out_proj",),
    derive_head_dim=True,
    layers=by_index(attends=True),
)
_CONV = ShortConv(layers=by_index(attends=False))
_NO_CACHE = "no attention: no KV cache, a state of one size a sequence"
_MINIMAX_ATTENTION = Gqa(derive_head_dim=True, layers=by_attention_list(attends=True))

#: the decoder of LFM2 and of LFM2-VL
LFM2_PARTS = (_LFM2_ATTENTION, _CONV, AdjustedMlp())

#: LFM2 with experts
LFM2_MOE_PARTS = (
    _LFM2_ATTENTION,
    _CONV,
    DenseMlp(
        up_sources=("w1", "w3"),
        down_sources=("w2",),
        module="feed_forward",
        layers=without(after_num_dense),
    ),
    Experts(layers=after_num_dense, module="feed_forward"),
)

#: LFM3: a gate a head, and an MLP whose width is what is written
LFM3_PARTS = (
    GatedGqa(gqa=Gqa(layers=by_index(attends=True)), gating="use_attention_gate"),
    _CONV,
    DenseMlp(up_sources=("w1", "w3"), down_sources=("w2",), module="feed_forward"),
)

HYBRID_MORE: tuple[Family, ...] = (
    Family(
        name="lfm2",
        architectures=("Lfm2ForCausalLM",),
        model_types=("lfm2",),
        parts=LFM2_PARTS,
        tied=True,
    ),
    Family(
        name="lfm2_moe",
        attention_dp=True,
        architectures=("Lfm2MoeForCausalLM",),
        model_types=("lfm2_moe",),
        parts=LFM2_MOE_PARTS,
        tied=True,
    ),
    Family(
        name="lfm3",
        architectures=("Lfm3ForCausalLM",),
        model_types=("lfm3",),
        parts=LFM3_PARTS,
        tied=True,
        notes=("SGLang 0.5.23 has no LFM3 model; module names are the checkpoint's",),
    ),
    Family(
        name="jamba",
        architectures=("JambaForCausalLM",),
        model_types=("jamba",),
        parts=(
            Gqa(derive_head_dim=True, layers=by_period("attn")),
            Mamba1(
                layers=by_period("attn", within=False),
                module="mamba",
                expand="mamba_expand",
                state="mamba_d_state",
                rank="mamba_dt_rank",
            ),
            DenseMlp(module="feed_forward", layers=without(jamba_experts)),
            Experts(
                layers=jamba_experts,
                width="intermediate_size",
                module="feed_forward",
                router="router",
            ),
        ),
        notes=("SGLang 0.5.23 has no Jamba model; module names are the checkpoint's",),
    ),
    Family(
        name="minimax",
        architectures=(
            "MiniMaxForCausalLM",
            "MiniMaxM1ForCausalLM",
            "MiniMaxText01ForCausalLM",
        ),
        model_types=("minimax", "minimax_m1", "minimax_text_01"),
        parts=(
            _MINIMAX_ATTENTION,
            Lightning(layers=by_attention_list(attends=False)),
            Experts(
                layers=every,
                count="num_local_experts",
                width="intermediate_size",
                module="block_sparse_moe",
            ),
            DenseMlp(
                up="shared_mlp.gate_up_proj",
                up_sources=("shared_mlp.gate_up_proj",),
                down="shared_mlp.down_proj",
                down_sources=("shared_mlp.down_proj",),
                module="shared_mlp",
                width="shared_intermediate_size",
                optional=True,
            ),
        ),
        notes=("SGLang 0.5.23 has no MiniMax-Text-01 model; module names are the checkpoint's",),
    ),
    Family(
        name="kimi_linear",
        attention_dp=True,
        architectures=("KimiLinearForCausalLM",),
        model_types=("kimi_linear",),
        parts=(
            KimiDelta(layers=by_linear_config(attends=False)),
            Mla(layers=by_linear_config(attends=True)),
            DenseMlp(layers=without(by_mlp_type_or_dense)),
            Experts(
                layers=by_mlp_type_or_dense,
                shared="shared_experts",
                shared_count="num_shared_experts",
            ),
        ),
        aliases=((".forget_gate", ""),),  # transformers keeps f_a and f_b in a module of their own
    ),
    Family(
        name="mamba",
        architectures=("MambaForCausalLM", "FalconMambaForCausalLM"),
        model_types=("mamba", "falcon_mamba"),
        parts=(Mamba1(layers=every, width="intermediate_size"),),
        tied=True,
        notes=(_NO_CACHE,),
    ),
    Family(
        name="mamba2",
        architectures=("Mamba2ForCausalLM",),
        model_types=("mamba2",),
        parts=(Mamba2(layers=every),),
        keys={
            "mamba_num_heads": "num_heads",
            "mamba_head_dim": "head_dim",
            "ssm_state_size": "state_size",
        },
        notes=(_NO_CACHE,),
    ),
    Family(
        name="zamba2",
        architectures=("Zamba2ForCausalLM",),
        model_types=("zamba2",),
        parts=(
            Mamba2(module="mamba", layers=with_shared_block(shared=False)),
            Mamba2(module="mamba_decoder.mamba", layers=with_shared_block(shared=True)),
            SharedBlock(),
        ),
        keys={
            **MAMBA_KEYS,
            "mamba_num_heads": "n_mamba_heads",
            "mamba_head_dim": "mamba_headdim",
            "n_groups": "mamba_ngroups",
        },
        tied=True,
        notes=("SGLang 0.5.23 has no Zamba2 model; module names are the checkpoint's",),
    ),
    Family(
        name="recurrent_gemma",
        architectures=("RecurrentGemmaForCausalLM",),
        model_types=("recurrent_gemma",),
        parts=(
            Gqa(
                module="temporal_block",
                derive_head_dim=True,
                kv_defaults_to_heads=True,
                layers=by_repeated(attends=True),
            ),
            LinearRecurrence(layers=by_repeated(attends=False)),
            DenseMlp(module="mlp_block", halved=True),
        ),
        tied=True,
        notes=(
            "SGLang 0.5.23 has no RecurrentGemma model; module names are the checkpoint's; the "
            "recurrence's own gates are 16-bit parameters and not listed",
        ),
    ),
    Family(
        name="lara_mini",
        architectures=("LaraMiniForCausalLM",),
        model_types=("lara_mini",),
        parts=(
            Gqa(layers=typed(attends=True)),
            GatedDeltaNet(layers=typed(attends=False)),
            Experts(
                layers=every,
                shared="shared_expert",
                shared_width="shared_expert_intermediate_size",
            ),
        ),
        tied=True,
        notes=("SGLang 0.5.23 has no such model; module names are the checkpoint's",),
    ),
)
