"""Families with routed experts, DeepSeek's among them."""

from mxlab.models.attention import Gqa
from mxlab.models.deepseek_v4 import ALIASES, CompressedMqa
from mxlab.models.family import Family
from mxlab.models.index_heads import IndexedGqa
from mxlab.models.layer_sets import (
    after_dense,
    by_flag,
    by_flag_or_type,
    by_mlp_type,
    by_sparse_step,
    every,
    full,
    indexed_by_four,
    sliding,
    without,
)
from mxlab.models.mla import Mla
from mxlab.models.mlp import DenseMlp, Experts

_STRICT = Gqa()
_DERIVED = Gqa(derive_head_dim=True)
_DEEPSEEK_PARTS = (
    DenseMlp(layers=without(after_dense)),
    Experts(layers=after_dense, count="n_routed_experts", shared="shared_experts"),
)
_QWEN_DENSE = DenseMlp(layers=without(by_sparse_step))
_LOCAL_EXPERTS = "num_local_experts"

#: MiniMax-M3's text model: MiniMax-M3-VL wraps it
MINIMAX_M3_PARTS = (
    IndexedGqa(gqa=_STRICT),
    DenseMlp(width="dense_intermediate_size", layers=without(by_flag)),
    Experts(
        layers=by_flag,
        count=_LOCAL_EXPERTS,
        width="intermediate_size",
        shared="shared_experts",
    ),
)

#: transformers' names of the index heads -> the checkpoint's
MINIMAX_M3_ALIASES = (
    (".self_attn.indexer.q_proj", ".self_attn.index_q_proj"),
    (".self_attn.indexer.k_proj", ".self_attn.index_k_proj"),
)

_DEEPSEEK_V4_PARTS = (
    CompressedMqa(),
    Experts(layers=every, count="n_routed_experts", shared="shared_experts"),
)
_V4_CACHE = (
    "KV cache (compressed at a ratio of its own in each layer, in pools that no guard looks at)"
)
_HYPER = "hyper-connections are 16-bit parameters and not listed"

#: MiMo-V2: layers with a sliding window have heads and head sizes of their own
_MIMO_FULL = Gqa(layers=full, v_dim_key="v_head_dim", skip_block_check=True)
_MIMO_WINDOW = Gqa(
    layers=sliding,
    heads_key="swa_num_attention_heads",
    kv_key="swa_num_key_value_heads",
    dim_key="swa_head_dim",
    v_dim_key="swa_v_head_dim",
    skip_block_check=True,
)

MOE: tuple[Family, ...] = (
    Family(
        name="mixtral",
        architectures=("MixtralForCausalLM", "QuantMixtralForCausalLM"),
        model_types=("mixtral",),
        parts=(
            _DERIVED,
            Experts(
                layers=every,
                count=_LOCAL_EXPERTS,
                width="intermediate_size",
                module="block_sparse_moe",
            ),
        ),
    ),
    Family(
        name="qwen2_moe",
        attention_dp=True,
        architectures=("Qwen2MoeForCausalLM",),
        model_types=("qwen2_moe",),
        parts=(
            _DERIVED,
            _QWEN_DENSE,
            Experts(
                layers=by_sparse_step,
                shared="shared_expert",
                shared_width="shared_expert_intermediate_size",
                shared_gate="shared_expert_gate",
            ),
        ),
    ),
    Family(
        name="qwen3_moe",
        attention_dp=True,
        architectures=("Qwen3MoeForCausalLM",),
        model_types=("qwen3_moe",),
        parts=(_DERIVED, _QWEN_DENSE, Experts(layers=by_sparse_step)),
    ),
    Family(
        name="gpt_oss",
        attention_dp=True,
        architectures=("GptOssForCausalLM",),
        model_types=("gpt_oss",),
        parts=(
            _STRICT,
            Experts(layers=every, count=_LOCAL_EXPERTS, width="intermediate_size"),
        ),
    ),
    Family(
        name="glm4_moe",
        attention_dp=True,
        architectures=("Glm4MoeForCausalLM",),
        model_types=("glm4_moe",),
        parts=(_STRICT, *_DEEPSEEK_PARTS),
    ),
    Family(
        name="minimax_m2",
        attention_dp=True,
        architectures=("MiniMaxM2ForCausalLM",),
        model_types=("minimax_m2",),
        parts=(
            _STRICT,
            Experts(
                layers=every,
                count=_LOCAL_EXPERTS,
                width="intermediate_size",
                module="block_sparse_moe",
            ),
        ),
    ),
    Family(
        name="minimax_m3",
        attention_dp=True,
        architectures=("MiniMaxM3SparseForCausalLM", "MiniMaxM3ForCausalLM"),
        model_types=("minimax_m3",),
        parts=MINIMAX_M3_PARTS,
        aliases=MINIMAX_M3_ALIASES,
    ),
    Family(
        name="deepseek_v2",
        attention_dp=True,
        architectures=("DeepseekV2ForCausalLM",),
        model_types=("deepseek_v2",),
        parts=(Mla(), *_DEEPSEEK_PARTS),
    ),
    Family(
        name="deepseek_v3",
        attention_dp=True,
        architectures=(
            "DeepseekV3ForCausalLM",
            "DeepseekV32ForCausalLM",
            "GlmMoeDsaForCausalLM",
            "MistralLarge3ForCausalLM",
        ),
        model_types=("deepseek_v3", "deepseek_v32", "kimi_k2", "glm_moe_dsa"),
        parts=(Mla(indexer=True), *_DEEPSEEK_PARTS),
        unquantized=("indexer.weights_proj",),
    ),
    Family(
        name="deepseek_v4",
        attention_dp=True,
        architectures=("DeepseekV4ForCausalLM",),
        model_types=("deepseek_v4",),
        parts=_DEEPSEEK_V4_PARTS,
        aliases=ALIASES,
        unknown=(_V4_CACHE,),
        notes=(_HYPER,),
    ),
    Family(
        name="deepseek_v41",
        attention_dp=True,
        architectures=("DeepseekV41ForCausalLM",),
        model_types=("deepseek_v41", "deepseek_v41_text"),
        parts=_DEEPSEEK_V4_PARTS,
        nested="text_config",
        aliases=ALIASES,
        often_incomplete=True,
        unknown=(_V4_CACHE, "vision tower (no recipe for DeepSeek-V4.1's)"),
        notes=(_HYPER,),
    ),
    Family(
        name="hy_v4",
        attention_dp=True,
        architectures=("HYV4ForCausalLM",),
        model_types=("hy_v4",),
        parts=(
            Mla(indexer=True, gate=True, indexed=indexed_by_four),
            DenseMlp(layers=without(by_mlp_type)),
            Experts(layers=by_mlp_type, count="n_routed_experts", shared="shared_experts"),
        ),
        often_incomplete=True,
        unquantized=("indexer.weights_proj",),
        notes=(_HYPER,),
    ),
    Family(
        name="mimo_v2",
        attention_dp=True,
        architectures=("MiMoV2FlashForCausalLM", "MiMoV2ForCausalLM"),
        model_types=("mimo_v2_flash", "mimo_v2"),
        parts=(
            _MIMO_FULL,
            _MIMO_WINDOW,
            DenseMlp(layers=without(by_flag_or_type)),
            Experts(layers=by_flag_or_type, count="n_routed_experts"),
        ),
    ),
)
