"""Encoders, alone and before a decoder. Few are served: names are those of transformers 5.24.0."""

from dataclasses import replace

from mxlab.models.encoders import EncoderLayer
from mxlab.models.family import Family
from mxlab.models.t5 import T5Stack
from mxlab.models.whisper import WhisperStack

_VIT = EncoderLayer(
    qkv="attention.attention.qkv_proj",
    sources=("query", "key", "value"),
    out="attention.output.dense",
    up="intermediate.dense",
    down="output.dense",
)
#: transformers 5's names -> the checkpoint's
_VIT_ALIASES = (
    (".layers", ".encoder.layer"),
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
    Family(
        name="t5",
        architectures=(
            "T5ForConditionalGeneration",
            "MT5ForConditionalGeneration",
            "UMT5ForConditionalGeneration",
        ),
        model_types=("t5", "mt5", "umt5"),
        parts=(T5Stack(side="encoder"), T5Stack(side="decoder")),
        keys={"hidden_size": "d_model", "num_hidden_layers": "num_layers"},
        tied=True,
    ),
    Family(
        name="bart",
        architectures=(
            "BartForConditionalGeneration",
            "BlenderbotForConditionalGeneration",
            "BlenderbotSmallForConditionalGeneration",
            "M2M100ForConditionalGeneration",
            "MBartForConditionalGeneration",
            "MarianMTModel",
            "MvpForConditionalGeneration",
            "PLBartForConditionalGeneration",
            "PegasusForConditionalGeneration",
        ),
        model_types=(
            "bart",
            "blenderbot",
            "blenderbot-small",
            "m2m_100",
            "marian",
            "mbart",
            "mvp",
            "pegasus",
            "plbart",
        ),
        parts=(WhisperStack(side="encoder"), WhisperStack(side="decoder")),
        keys={"hidden_size": "d_model", "num_hidden_layers": "decoder_layers"},
        tied=True,
    ),
)
