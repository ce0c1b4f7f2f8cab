"""Encoders on their own. SGLang and vLLM serve few of them: names are transformers' 5.24.0."""

from dataclasses import replace

from mxlab.models.encoders import EncoderLayer
from mxlab.models.family import Family

_VIT = EncoderLayer(
    qkv="attention.attention.qkv_proj",
    sources=("query", "key", "value"),
    out="attention.output.dense",
    up="intermediate.dense",
    down="output.dense",
)
#: transformers 5's names -> the checkpoint's
_VIT_ALIASES = (
    (".vit.layers", ".vit.encoder.layer"),
    (".attention.q_proj", ".attention.attention.query"),
    (".attention.k_proj", ".attention.attention.key"),
    (".attention.v_proj", ".attention.attention.value"),
    (".attention.o_proj", ".attention.output.dense"),
    (".mlp.fc1", ".intermediate.dense"),
    (".mlp.fc2", ".output.dense"),
)
_BERT = replace(_VIT, qkv="attention.self.qkv_proj")

ENCODERS: tuple[Family, ...] = (
    Family(
        name="vit",
        architectures=("ViTForImageClassification", "ViTModel"),
        model_types=("vit",),
        parts=(_VIT,),
        block="vit.encoder.layer.{layer}.",
        head=None,
        aliases=_VIT_ALIASES,
        notes=(
            "an encoder: no KV cache; the patch embedding (a convolution) and the classifier, "
            "whose classes no size of the config counts, are not listed",
        ),
    ),
    Family(
        name="bert",
        architectures=("BertModel", "BertForMaskedLM", "BertForSequenceClassification"),
        model_types=("bert",),
        parts=(_BERT,),
        block="bert.encoder.layer.{layer}.",
        head=None,
        notes=("an encoder: no KV cache; pooler and task heads are not listed",),
    ),
    Family(
        name="roberta",
        architectures=("RobertaModel", "RobertaForMaskedLM", "XLMRobertaModel"),
        model_types=("roberta", "xlm-roberta"),
        parts=(_BERT,),
        block="roberta.encoder.layer.{layer}.",
        head=None,
        notes=("an encoder: no KV cache; pooler and task heads are not listed",),
    ),
)
