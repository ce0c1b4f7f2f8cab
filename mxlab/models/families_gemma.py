"""Gemma-3n and Gemma-4."""

from mxlab.models.attention import Gqa
from mxlab.models.family import Family
from mxlab.models.gemma import (
    DoubledMlp,
    Laurel,
    PerLayerInputs,
    SharedKv,
    TwoHeadSizes,
)
from mxlab.models.layer_sets import every
from mxlab.models.mlp import Experts, OptionalExperts

_NESTED = "text_config"
_WRAPPED = "model.language_model.layers.{layer}."
_TOWERS = "vision and audio towers (no recipe for Gemma's)"

_GEMMA4 = (
    TwoHeadSizes(),
    DoubledMlp(),
    OptionalExperts(
        experts=Experts(layers=every, module="", router="router.proj", experts_at="moe.experts"),
        flag="enable_moe_block",
    ),
    PerLayerInputs(split=False),
)
_GEMMA3N = (SharedKv(gqa=Gqa()), DoubledMlp(), PerLayerInputs(split=True), Laurel())

GEMMA: tuple[Family, ...] = (
    Family(
        name="gemma4",
        architectures=("Gemma4ForCausalLM",),
        model_types=("gemma4_text",),
        parts=_GEMMA4,
        tied=True,
    ),
    Family(
        name="gemma4",
        architectures=("Gemma4ForConditionalGeneration",),
        model_types=("gemma4",),
        parts=_GEMMA4,
        block=_WRAPPED,
        nested=_NESTED,
        tied=True,
        unknown=(_TOWERS,),
    ),
    Family(
        name="gemma3n",
        architectures=("Gemma3nForCausalLM",),
        model_types=("gemma3n_text",),
        parts=_GEMMA3N,
        tied=True,
    ),
    Family(
        name="gemma3n",
        architectures=("Gemma3nForConditionalGeneration",),
        model_types=("gemma3n",),
        parts=_GEMMA3N,
        block=_WRAPPED,
        nested=_NESTED,
        tied=True,
        unknown=(_TOWERS,),
    ),
)
