"""Families that wrap a text decoder with an encoder."""

from dataclasses import replace

from mxlab.models.attention import Gqa
from mxlab.models.families_hybrid import QWEN3_5_MOE_PARTS, QWEN3_5_PARTS
from mxlab.models.families_moe import MINIMAX_M3_ALIASES, MINIMAX_M3_PARTS
from mxlab.models.family import Family
from mxlab.models.layer_sets import after_dense, by_interleave, by_sparse_step, without
from mxlab.models.mla import Mla
from mxlab.models.mlp import DenseMlp, Experts
from mxlab.models.moonvit import MoonVit
from mxlab.models.vision import PIXTRAL, QWEN2_5_VL, QWEN2_VL, clip_tower, qwen3_vl_tower
from mxlab.models.whisper import WhisperStack

_NESTED = "text_config"
_IN_LANGUAGE_MODEL = "language_model.model.layers.{layer}."
_IN_MODEL_LANGUAGE_MODEL = "model.language_model.layers.{layer}."
_GATED = DenseMlp()

_LLAMA4_PARTS = (
    Gqa(),
    DenseMlp(
        width="intermediate_size_mlp",
        module="feed_forward",
        layers=without(by_interleave),
    ),
    Experts(
        layers=by_interleave,
        count="num_local_experts",
        width="intermediate_size",
        module="feed_forward",
        router="router",
        shared="shared_expert",
        shared_count=None,
    ),
)

MULTIMODAL: tuple[Family, ...] = (
    Family(
        name="gemma3",
        architectures=("Gemma3ForConditionalGeneration",),
        model_types=("gemma3",),
        parts=(Gqa(), _GATED),
        block=_IN_LANGUAGE_MODEL,
        head="language_model.lm_head",
        nested=_NESTED,
        tied=True,
        vision=clip_tower(
            "vision_tower.vision_model.encoder.layers.{layer}.", "multi_modal_projector"
        ),
    ),
    Family(
        name="qwen2_5_vl",
        architectures=("Qwen2_5_VLForConditionalGeneration",),
        model_types=("qwen2_5_vl",),
        parts=(Gqa(derive_head_dim=True), _GATED),
        nested=_NESTED,
        vision=QWEN2_5_VL,
    ),
    Family(
        name="qwen3_vl",
        attention_dp=True,
        architectures=("Qwen3VLForConditionalGeneration",),
        model_types=("qwen3_vl",),
        parts=(Gqa(), _GATED),
        block=_IN_MODEL_LANGUAGE_MODEL,
        nested=_NESTED,
        vision=qwen3_vl_tower("model.visual.blocks.{layer}."),
        unquantized=("visual.",),
    ),
    Family(
        name="qwen3_vl_moe",
        attention_dp=True,
        architectures=("Qwen3VLMoeForConditionalGeneration",),
        model_types=("qwen3_vl_moe",),
        parts=(
            Gqa(derive_head_dim=True),
            DenseMlp(layers=without(by_sparse_step)),
            Experts(layers=by_sparse_step),
        ),
        block=_IN_MODEL_LANGUAGE_MODEL,
        nested=_NESTED,
        vision=qwen3_vl_tower("model.visual.blocks.{layer}."),
        unquantized=("visual.",),
    ),
    Family(
        name="qwen3_5",
        attention_dp=True,
        architectures=("Qwen3_5ForConditionalGeneration",),
        model_types=("qwen3_5",),
        parts=QWEN3_5_PARTS,
        block=_IN_MODEL_LANGUAGE_MODEL,
        nested=_NESTED,
        vision=qwen3_vl_tower("model.visual.blocks.{layer}."),
        unquantized=("visual.",),
    ),
    Family(
        name="qwen3_5_moe",
        attention_dp=True,
        architectures=("Qwen3_5MoeForConditionalGeneration",),
        model_types=("qwen3_5_moe",),
        parts=QWEN3_5_MOE_PARTS,
        block=_IN_MODEL_LANGUAGE_MODEL,
        nested=_NESTED,
        vision=qwen3_vl_tower("model.visual.blocks.{layer}."),
        unquantized=("visual.",),
    ),
    Family(
        name="minimax_m3_vl",
        attention_dp=True,
        architectures=("MiniMaxM3SparseForConditionalGeneration",),
        model_types=("minimax_m3_vl",),
        parts=MINIMAX_M3_PARTS,
        aliases=MINIMAX_M3_ALIASES,
        block=_IN_LANGUAGE_MODEL,
        head="language_model.lm_head",
        nested=_NESTED,
        vision=clip_tower(
            "vision_tower.vision_model.encoder.layers.{layer}.",
            "multi_modal_projector, patch_merge_mlp",
        ),
        unquantized=("visual.",),
    ),
    Family(
        name="kimi_k25",
        attention_dp=True,
        architectures=("KimiK25ForConditionalGeneration",),
        model_types=("kimi_k25",),
        parts=(
            Mla(),
            DenseMlp(layers=without(after_dense)),
            Experts(layers=after_dense, count="n_routed_experts", shared="shared_experts"),
        ),
        nested=_NESTED,
        tied=True,
        vision=MoonVit(),
        unquantized=("visual.",),
    ),
    Family(
        name="llama4",
        attention_dp=True,
        architectures=("Llama4ForCausalLM",),
        model_types=("llama4_text",),
        parts=_LLAMA4_PARTS,
    ),
    Family(
        name="llama4",
        attention_dp=True,
        architectures=("Llama4ForConditionalGeneration",),
        model_types=("llama4",),
        parts=_LLAMA4_PARTS,
        block=_IN_LANGUAGE_MODEL,
        head="language_model.lm_head",
        nested=_NESTED,
        vision=replace(
            clip_tower("vision_model.layers.{layer}.", "vision_adapter, multi_modal_projector"),
            out="o_proj",
            out_source="o_proj",
        ),
        unquantized=("visual.qkv_proj", "visual.o_proj"),
    ),
    Family(
        name="qwen2_vl",
        architectures=("Qwen2VLForConditionalGeneration",),
        model_types=("qwen2_vl",),
        parts=(Gqa(derive_head_dim=True), _GATED),
        nested=_NESTED,
        vision=QWEN2_VL,
    ),
    Family(
        name="mistral3",
        architectures=("Mistral3ForConditionalGeneration",),
        model_types=("mistral3",),
        parts=(Gqa(), _GATED),
        head="language_model.lm_head",
        nested=_NESTED,
        tied=True,
        vision=PIXTRAL,
    ),
    Family(
        name="whisper",
        architectures=("WhisperForConditionalGeneration",),
        model_types=("whisper",),
        parts=(WhisperStack(side="encoder"), WhisperStack(side="decoder")),
        head="proj_out",
        keys={"hidden_size": "d_model", "num_hidden_layers": "decoder_layers"},
        tied=True,
        unquantized=("encoder.fc", "decoder.fc"),
    ),
)
