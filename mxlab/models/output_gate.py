"""A gate beside attention, as wide as its output: AFMoE's ``self_attn.gate_proj``."""

from dataclasses import dataclass

from mxlab.models.attention import head_dim_of
from mxlab.models.build import Build
from mxlab.models.sharding import divide

_HEADS = "num_attention_heads"


@dataclass(frozen=True, slots=True, kw_only=True)
class GatedOutput:
    """One column-parallel linear, split by query head."""

    def lay_out(self, build: Build) -> None:
        """Add the row."""
        hidden, heads = build.hidden, build.size(_HEADS)
        dim = head_dim_of(build, derivable=False)
        build.add(
            "self_attn.gate_proj",
            lambda: ((divide(_HEADS, heads, build.attn_tp) * dim,), hidden),
            shard="column",
            sources=("self_attn.gate_proj",),
            path=f"{build.block}self_attn.gate_proj",
            indices=build.layers,
        )
