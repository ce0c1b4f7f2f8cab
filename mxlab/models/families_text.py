"""Decoders that live inside vision and audio models only; see ``wrapped.py``.

Each is held to its class in transformers 5.24.0, or is flat remote code around a known decoder.
"""

from dataclasses import dataclass, replace

from mxlab.models.attention import Gqa
from mxlab.models.build import Build
from mxlab.models.config import MAX_LAYERS
from mxlab.models.family import Family, Part
from mxlab.models.kv_cache import KvCache
from mxlab.models.layer_sets import after_dense, by_sparse_step, every, without
from mxlab.models.mlp import DenseMlp, Experts
from mxlab.models.per_layer import only

_DERIVED = Gqa(derive_head_dim=True, layers=every)
_LENIENT = Gqa(derive_head_dim=True, kv_defaults_to_heads=True, layers=every)
_GATED = DenseMlp()
_FUSED = DenseMlp(up_sources=("gate_up_proj",))
_DEEPSEEK = (
    DenseMlp(layers=without(after_dense)),
    Experts(layers=after_dense, count="n_routed_experts", shared="shared_experts"),
)
_TOWERS = "vision and audio towers (no recipe for them)"


@dataclass(frozen=True, slots=True, kw_only=True)
class CrossAttention:
    """Llama-3.2-Vision: the layers of ``cross_attention_layers`` attend to the picture instead."""

    gqa: Gqa

    def lay_out(self, build: Build) -> KvCache | None:
        """Add the rows; return the KV cache of the layers that attend to text."""
        listed = build.config.numbers("cross_attention_layers")
        if listed is None:
            build.lacks("cross_attention_layers")
        crossing = frozenset(index for index in (listed or ()) if 0 <= index < MAX_LAYERS)
        text = tuple(index for index in build.layers if index not in crossing)
        other = tuple(index for index in build.layers if index in crossing)
        cache = replace(self.gqa, layers=only(text)).lay_out(build)
        if other:
            replace(self.gqa, layers=only(other), module="cross_attn").lay_out(build)
            build.notes.append(f"KV cache: {len(other)} more layers keep the picture's keys")
        return cache


def _text(name: str, parts: tuple[Part, ...], *, tied: bool = False) -> Family:
    return Family(
        name=name,
        architectures=(),
        model_types=(name,),
        parts=parts,
        tied=tied,
    )


def _flat(name: str, *architectures: str, model_types: tuple[str, ...] = ()) -> Family:
    """Return the family of remote code whose config has the decoder's sizes at the top."""
    return Family(
        name=name,
        architectures=architectures,
        model_types=model_types,
        parts=(_LENIENT, _GATED),
        unknown=(_TOWERS,),
    )


TEXT: tuple[Family, ...] = (
    _text("glm4v_text", (_DERIVED, _FUSED)),
    _text("glm_ocr_text", (_DERIVED, _FUSED)),
    _text("glm4v_moe_text", (_DERIVED, *_DEEPSEEK)),
    _text("emu3_text_model", (_DERIVED, _GATED)),
    _text("paddleocr_vl_text", (Gqa(layers=every), _GATED), tied=True),
    _text("qwen2_vl_text", (_DERIVED, _GATED)),
    _text("qwen2_5_vl_text", (_DERIVED, _GATED)),
    _text("qwen2_5_omni_text", (_DERIVED, _GATED)),
    _text("qwen3_vl_text", (_DERIVED, _GATED)),
    _text(
        "qwen3_vl_moe_text",
        (_DERIVED, DenseMlp(layers=without(by_sparse_step)), Experts(layers=by_sparse_step)),
    ),
    _text(
        "qwen3_omni_moe_text",
        (_DERIVED, DenseMlp(layers=without(by_sparse_step)), Experts(layers=by_sparse_step)),
    ),
    Family(
        name="mllama",
        architectures=("MllamaForCausalLM",),
        model_types=("mllama_text_model",),
        parts=(CrossAttention(gqa=_DERIVED), _GATED),
    ),
    _flat("llava_llama", "LlavaLlamaForCausalLM", model_types=("llava_llama",)),
    _flat("llava_qwen", "LlavaQwenForCausalLM", model_types=("llava_qwen",)),
    _flat("llava_mistral", "LlavaMistralForCausalLM", model_types=("llava_mistral",)),
    _flat(
        "phi4mm",
        "Phi4MMForCausalLM",
        "Phi4MultimodalForCausalLM",
        model_types=("phi4mm", "phi4_multimodal"),
    ),
)
