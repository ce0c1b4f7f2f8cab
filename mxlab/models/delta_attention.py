"""Linear attention with one head size: Kimi's delta attention (KDA) and MiniMax's lightning.

Source: sglang 0.5.23, srt/models/kimi_linear.py:331 (a quantised model; without a quantisation
SGLang fuses them); the model classes of transformers 5.24.0.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from mxlab.models.attention import head_dim_of
from mxlab.models.build import Build, Shape
from mxlab.models.layer_sets import LayerRule
from mxlab.models.sharding import divide

_HEADS = "num_attention_heads"


@dataclass(frozen=True, slots=True, kw_only=True)
class KimiDelta:
    """Query, key and value in one linear; forget gate and output gate through a narrow middle."""

    layers: LayerRule

    def lay_out(self, build: Build) -> None:
        """Add the rows."""
        indices = self.layers(build)
        if not indices:
            return
        inner = build.config.section("linear_attn_config")
        heads, dim = (
            (inner.whole(key) if inner else None) or build.size(flat)
            for key, flat in (("num_heads", "linear_num_heads"), ("head_dim", "linear_head_dim"))
        )
        name, hidden, at = "linear_attn heads", build.hidden, f"{build.block}self_attn."

        def fused() -> Shape:
            return (divide(name, heads, build.attn_tp) * dim,) * 3, hidden

        build.add(
            "qkv_proj",
            fused,
            shard="column",
            sources=("q_proj", "k_proj", "v_proj"),
            path=at + "qkv_proj",
            indices=indices,
        )
        for gate in ("f", "g"):
            low, high = f"{gate}_a_proj", f"{gate}_b_proj"
            build.replicated(low, (dim,), hidden, sources=(low,), path=at + low, indices=indices)
            _by_head(build, high, heads, dim, dim, at, indices)
        _by_head(build, "b_proj", heads, 1, hidden, at, indices)
        build.row(
            "o_proj",
            hidden,
            (name, heads),
            unit=dim,
            sources=("o_proj",),
            path=at + "o_proj",
            indices=indices,
            ranks=build.attn_tp,
        )


def _by_head(
    build: Build, linear: str, heads: int, dim: int, k: int, at: str, indices: tuple[int, ...]
) -> None:
    build.add(
        linear,
        lambda: ((divide("linear_attn heads", heads, build.attn_tp) * dim,), k),
        shard="column",
        sources=(linear,),
        path=at + linear,
        indices=indices,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Lightning:
    """MiniMax-Text-01's and M1's linear attention: every query head has its own key and value."""

    layers: LayerRule

    def lay_out(self, build: Build) -> None:
        """Add the rows."""
        indices = self.layers(build)
        if not indices:
            return
        hidden, heads = build.hidden, build.size(_HEADS)
        dim, at = head_dim_of(build, derivable=True), f"{build.block}self_attn."

        def widths() -> Iterator[tuple[str, int]]:
            yield "linear_attn.qkv_proj", 3
            yield "linear_attn.output_gate", 1

        for name, times in widths():
            leaf = name.rpartition(".")[2]

            def shape(times: int = times) -> Shape:
                return (divide(_HEADS, heads, build.attn_tp) * dim,) * times, hidden

            build.add(name, shape, shard="column", sources=(leaf,), path=at + leaf, indices=indices)
        build.row(
            "linear_attn.out_proj",
            hidden,
            (_HEADS, heads),
            unit=dim,
            sources=("out_proj",),
            path=at + "out_proj",
            indices=indices,
            ranks=build.attn_tp,
        )
