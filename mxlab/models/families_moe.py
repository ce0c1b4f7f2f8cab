"""Families with routed experts, DeepSeek's among them."""

from mxlab.models.attention import Gqa
from mxlab.models.family import Family
from mxlab.models.index_heads import IndexedGqa
from mxlab.models.layer_sets import after_dense, by_flag, by_sparse_step, every, without
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

MOE: tuple[Family, ...] = (
    Family(
        name="mixtral",
        architectures=("MixtralForCausalLM",),
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
        architectures=("Qwen3MoeForCausalLM",),
        model_types=("qwen3_moe",),
        parts=(_DERIVED, _QWEN_DENSE, Experts(layers=by_sparse_step)),
    ),
    Family(
        name="gpt_oss",
        architectures=("GptOssForCausalLM",),
        model_types=("gpt_oss",),
        parts=(
            _STRICT,
            Experts(layers=every, count=_LOCAL_EXPERTS, width="intermediate_size"),
        ),
    ),
    Family(
        name="glm4_moe",
        architectures=("Glm4MoeForCausalLM",),
        model_types=("glm4_moe",),
        parts=(_STRICT, *_DEEPSEEK_PARTS),
    ),
    Family(
        name="minimax_m2",
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
        architectures=("MiniMaxM3SparseForCausalLM", "MiniMaxM3ForCausalLM"),
        model_types=("minimax_m3",),
        parts=MINIMAX_M3_PARTS,
    ),
    Family(
        name="deepseek_v2",
        architectures=("DeepseekV2ForCausalLM",),
        model_types=("deepseek_v2",),
        parts=(Mla(), *_DEEPSEEK_PARTS),
    ),
    Family(
        name="deepseek_v3",
        architectures=("DeepseekV3ForCausalLM", "DeepseekV32ForCausalLM", "GlmMoeDsaForCausalLM"),
        model_types=("deepseek_v3", "deepseek_v32", "kimi_k2", "glm_moe_dsa"),
        parts=(Mla(indexer=True), *_DEEPSEEK_PARTS),
        unquantized=("indexer.weights_proj",),
    ),
    Family(
        name="deepseek_v4",
        architectures=("DeepseekV4ForCausalLM",),
        model_types=("deepseek_v4",),
        parts=(Experts(layers=every, count="n_routed_experts", shared="shared_experts"),),
        unknown=(
            "every layer: self_attn.* (no recipe for grouped output projections, compressors and "
            "indexers; what SGLang fuses and quantises there depends on its environment)",
            "KV cache (compressed, a ratio a layer)",
        ),
        notes=("hyper-connections (attn_hc, ffn_hc) are 16-bit parameters and not listed",),
    ),
)
