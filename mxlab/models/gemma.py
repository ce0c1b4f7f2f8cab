"""Gemma-3n and Gemma-4: per-layer inputs, shared KV, two head sizes, doubled MLPs.

Source: sglang 0.5.23, srt/models/gemma4_causal.py and gemma3n_causal.py; the config classes of
transformers 5.24.0.
"""

from dataclasses import dataclass, replace

from mxlab.errors import InputError
from mxlab.models.attention import Gqa
from mxlab.models.build import Build, layer_ranges
from mxlab.models.config import MAX_LAYERS
from mxlab.models.kv_cache import KvCache
from mxlab.models.layer_sets import full, sliding
from mxlab.models.mlp import lay_out_mlp

_STREAMS = 64  # Gemma-3n has four


def shared_from(build: Build) -> int:
    """Return the first of the layers at the end that reuse the KV of earlier ones."""
    count = build.config.whole("num_kv_shared_layers", 0, MAX_LAYERS) or 0
    return max(build.depth - count, 0) if count else build.depth


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoHeadSizes:
    """Gemma-4: full attention has a head size, KV heads and k = v of its own."""

    def lay_out(self, build: Build) -> KvCache | None:
        """Add the rows; return the KV cache of the layers with full attention."""
        _read_layers(build)
        same = bool(build.config.flag("attention_k_eq_v"))
        wide = build.optional("num_global_key_value_heads") if same else None
        sources = ("q_proj", "k_proj", "k_proj" if same else "v_proj")
        window = lay_out_shared(build, Gqa(layers=sliding))
        whole = lay_out_shared(
            build,
            Gqa(
                layers=full,
                dim_key="global_head_dim",
                kv_key="num_global_key_value_heads" if wide else "num_key_value_heads",
                sources=sources,
            ),
        )
        note_shared(build)
        if whole is None or window is None:
            return whole or window
        build.notes.append(
            f"KV cache: the other {window.layers} layers have head_dim {window.head_dim} and "
            f"{window.kv_heads_per_rank} KV heads a rank"
        )
        return whole


def _read_layers(build: Build) -> None:
    """Take the sizes of full attention out of ``per_layer_config``: how transformers 5 saves."""
    layers = build.config.section("per_layer_config")
    if layers is None or build.config.get("global_head_dim") is not None:
        return
    for index in full(build):
        wanted = (str(index), f"0{index}", f"00{index}")  # keys are padded to one width
        entry = next((found for key in wanted if (found := layers.section(key))), None)
        if entry is None:
            return
        sizes = {
            "global_head_dim": entry.whole("head_dim"),
            "num_global_key_value_heads": entry.whole("num_key_value_heads"),
        }
        build.config = replace(build.config, data={**build.config.data, **sizes})
        return


def lay_out_shared(build: Build, gqa: Gqa) -> KvCache | None:
    """Add the rows of attention; of the layers that reuse KV only the query is stored."""
    first = shared_from(build)

    def own(build: Build) -> tuple[int, ...]:
        return tuple(index for index in gqa.layers(build) if index < first)

    def reusing(build: Build) -> tuple[int, ...]:
        return tuple(index for index in gqa.layers(build) if index >= first)

    cache = replace(gqa, layers=own).lay_out(build)
    if reusing(build):
        replace(gqa, layers=reusing, sources=gqa.sources[:1]).lay_out(build)
    return cache


def note_shared(build: Build) -> None:
    """Say which layers have k and v in the fused linear that nothing reads."""
    first = shared_from(build)
    if first < build.depth:
        build.notes.append(
            f"layers {layer_ranges(range(first, build.depth))} reuse the KV of earlier layers: "
            "SGLang builds their k and v all the same"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedKv:
    """Attention of one size whose last layers reuse the KV of earlier ones."""

    gqa: Gqa

    def lay_out(self, build: Build) -> KvCache | None:
        """Add the rows; return the KV cache."""
        note_shared(build)
        return lay_out_shared(build, self.gqa)


@dataclass(frozen=True, slots=True, kw_only=True)
class DoubledMlp:
    """A gated MLP, twice as wide in the layers that reuse KV; or one width a layer."""

    def lay_out(self, build: Build) -> None:
        """Add the rows."""
        key = build.key("intermediate_size")
        if isinstance(build.config.get(key), list):
            widths = build.config.numbers(key, None if build.missing else build.depth) or ()
            if any(width < 1 for width in widths):
                raise InputError(f"{build.config.at(key)} holds {min(widths)}: expected 1 and up")
        else:
            width, first = build.size("intermediate_size"), shared_from(build)
            double = bool(build.config.flag("use_double_wide_mlp"))
            widths = tuple(width * (2 if double and i >= first else 1) for i in build.layers)
        for width in dict.fromkeys(widths):
            lay_out_mlp(
                build,
                ("gate_up_proj", "down_proj"),
                ("intermediate_size", width),
                gated=True,
                up_sources=("gate_proj", "up_proj"),
                down_sources=("down_proj",),
                module="mlp",
                indices=tuple(i for i, found in enumerate(widths) if found == width),
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class PerLayerInputs:
    """The small linears that feed each layer an embedding of its own.

    ``split`` is true where the projection for all layers is column-parallel (Gemma-3n).
    """

    split: bool

    def lay_out(self, build: Build) -> None:
        """Add the rows; none where the width is 0 or absent."""
        width = build.optional("hidden_size_per_layer_input", 0)
        if not width:
            return
        hidden, layers, at = build.hidden, build.layers, build.block
        for name, n, k in (
            ("per_layer_input_gate", width, hidden),
            ("per_layer_projection", hidden, width),
        ):
            build.replicated(name, (n,), k, sources=(name,), path=at + name, indices=layers)
        name = "per_layer_model_projection"
        path = at.partition("layers.")[0] + name
        total = ("num_hidden_layers * hidden_size_per_layer_input", build.depth * width)
        if self.split:
            build.column(name, [total], hidden, sources=(name,), path=path, indices=(), count=1)
        else:
            build.replicated(
                name, (total[1],), hidden, sources=(name,), path=path, indices=(), count=1
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Laurel:
    """Gemma-3n: a low-rank residual, and the linears that mix its four streams."""

    def lay_out(self, build: Build) -> None:
        """Add the rows."""
        rank, streams = build.size("laurel_rank"), build.size("altup_num_inputs")
        build.config.whole("altup_num_inputs", 1, _STREAMS)  # bounds the rows below
        hidden, layers, at = build.hidden, build.layers, build.block
        build.column(
            "laurel.linear_left",
            [("laurel_rank", rank)],
            hidden,
            sources=("laurel.linear_left",),
            path=at + "laurel.linear_left",
            indices=layers,
        )
        build.row(
            "laurel.linear_right",
            hidden,
            ("laurel_rank", rank),
            sources=("laurel.linear_right",),
            path=at + "laurel.linear_right",
            indices=layers,
        )
        for name, n, k in (
            ("correction_coefs", streams, streams),
            ("prediction_coefs", streams**2, streams),
            ("modality_router", streams, hidden),
        ):
            build.replicated(
                f"altup.{name}",
                (n,),
                k,
                sources=(f"altup.{name}",),
                path=f"{at}altup.{name}",
                indices=layers,
            )
        for name in ("altup_projections", "altup_unembed_projections"):
            build.column(
                name,
                [("hidden_size", hidden)],
                hidden,
                sources=(name,),
                path=at.partition("layers.")[0] + name + ".{layer}",
                indices=tuple(range(streams - 1)),
            )
