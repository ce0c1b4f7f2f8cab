"""Families without a gate in the MLP, most of them older, each held to transformers 5.24.0."""

from mxlab.models.attention import Gqa
from mxlab.models.build import Build
from mxlab.models.config import MAX_SIZE
from mxlab.models.family import Family
from mxlab.models.layer_sets import every
from mxlab.models.mlp import DenseMlp, lay_out_mlp

_UNSERVED = "SGLang 0.5.23 has no such model; module names are the checkpoint's"


def _attention(module: str, *, qkv: str = "", out: str = "out_proj", leaf: str = "") -> Gqa:
    """Return attention without grouped heads where the config does not say so."""
    fused = qkv or "qkv_proj"
    return Gqa(
        qkv=fused,
        sources=(leaf or fused,) if qkv else ("q_proj", "k_proj", "v_proj"),
        out=out,
        out_sources=(out,),
        module=module,
        derive_head_dim=True,
        kv_defaults_to_heads=True,
        layers=every,
    )


def _mlp(
    up: str,
    down: str,
    *,
    module: str = "mlp",
    width: str = "intermediate_size",
    four_hidden: bool = False,
) -> DenseMlp:
    return DenseMlp(
        up=up,
        up_sources=(up,),
        down=down,
        down_sources=(down,),
        module=module,
        width=width,
        gated=False,
        four_hidden=four_hidden,
    )


class _ExpandedMlp:
    """MPT: the MLP is ``expansion_ratio`` times as wide as the hidden size."""

    def lay_out(self, build: Build) -> None:
        """Add the rows."""
        times = build.config.whole("expansion_ratio", 1, 64)
        if times is None:
            build.lacks("expansion_ratio")
            times = 1
        width = min(times * build.hidden, MAX_SIZE)
        build.derive(f"width of the MLP = expansion_ratio * hidden_size = {width}")
        lay_out_mlp(
            build,
            ("up_proj", "down_proj"),
            ("expansion_ratio * hidden_size", width),
            gated=False,
            up_sources=("up_proj",),
            down_sources=("down_proj",),
            module="ffn",
            indices=build.layers,
        )


DENSE_OLD: tuple[Family, ...] = (
    Family(
        name="nanochat",
        architectures=("NanoChatForCausalLM",),
        model_types=("nanochat",),
        parts=(Gqa(derive_head_dim=True, layers=every), _mlp("fc1", "fc2")),
        notes=(_UNSERVED,),
    ),
    Family(
        name="persimmon",
        architectures=("PersimmonForCausalLM",),
        model_types=("persimmon",),
        parts=(
            _attention("self_attn", qkv="query_key_value", out="dense"),
            _mlp("dense_h_to_4h", "dense_4h_to_h"),
        ),
    ),
    Family(
        name="mpt",
        architectures=("MptForCausalLM", "MPTForCausalLM"),
        model_types=("mpt",),
        parts=(_attention("attn", qkv="Wqkv"), _ExpandedMlp()),
        block="transformer.blocks.{layer}.",
        keys={
            "hidden_size": "d_model",
            "num_attention_heads": "n_heads",
            "num_hidden_layers": "n_layers",
        },
        tied=True,
        notes=(_UNSERVED,),
    ),
    Family(
        name="codegen",
        architectures=("CodeGenForCausalLM",),
        model_types=("codegen",),
        parts=(
            _attention("attn", qkv="qkv_proj"),
            _mlp("fc_in", "fc_out", four_hidden=True),
        ),
        block="transformer.h.{layer}.",
        keys={
            "hidden_size": "n_embd",
            "num_attention_heads": "n_head",
            "num_hidden_layers": "n_layer",
            "intermediate_size": "n_inner",
        },
        notes=(_UNSERVED,),
    ),
    Family(
        name="gpt_neo",
        architectures=("GPTNeoForCausalLM",),
        model_types=("gpt_neo",),
        parts=(
            _attention("attn.attention"),
            _mlp("c_fc", "c_proj", four_hidden=True),
        ),
        block="transformer.h.{layer}.",
        keys={"num_attention_heads": "num_heads", "num_hidden_layers": "num_layers"},
        tied=True,
        notes=(_UNSERVED,),
    ),
    Family(
        name="xglm",
        architectures=("XGLMForCausalLM",),
        model_types=("xglm",),
        parts=(_attention("self_attn"), _mlp("fc1", "fc2", module="", width="ffn_dim")),
        keys={
            "hidden_size": "d_model",
            "num_attention_heads": "attention_heads",
            "num_hidden_layers": "num_layers",
        },
        tied=True,
        notes=(_UNSERVED,),
    ),
    Family(
        name="biogpt",
        architectures=("BioGptForCausalLM",),
        model_types=("biogpt",),
        parts=(_attention("self_attn"), _mlp("fc1", "fc2", module="")),
        block="biogpt.layers.{layer}.",
        head="output_projection",
        tied=True,
        notes=(_UNSERVED,),
    ),
)
