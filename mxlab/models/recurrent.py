"""Recurrent layers: the gated delta net of Qwen3.5 and Qwen3-Next, Mamba-2, RecurrentGemma's."""

from dataclasses import dataclass

from mxlab.models.build import Build, Shape
from mxlab.models.layer_sets import LayerRule, linear_attention
from mxlab.models.sharding import Indivisible, divide


@dataclass(frozen=True, slots=True, kw_only=True)
class GatedDeltaNet:
    """Query, key, value and output gate in one linear; the two gates of the state in another."""

    qkvz_sources: tuple[str, ...] = ("linear_attn.in_proj_qkv", "linear_attn.in_proj_z")
    ba_sources: tuple[str, ...] = ("linear_attn.in_proj_b", "linear_attn.in_proj_a")
    layers: LayerRule = linear_attention

    def lay_out(self, build: Build) -> None:
        """Add the rows."""
        hidden, indices = build.hidden, self.layers(build)
        if not indices:
            return
        key_heads, value_heads = (
            build.size("linear_num_key_heads"),
            build.size("linear_num_value_heads"),
        )
        key_dim, value_dim = build.size("linear_key_head_dim"), build.size("linear_value_head_dim")
        at = f"{build.block}linear_attn."

        def qkvz() -> Shape:
            keys = divide("linear_num_key_heads", key_heads, build.attn_tp) * key_dim
            values = divide("linear_num_value_heads", value_heads, build.attn_tp) * value_dim
            return (keys, keys, values, values), hidden

        build.add(
            "linear_attn.in_proj_qkvz",
            qkvz,
            shard="column",
            sources=self.qkvz_sources,
            path=at + "in_proj_qkvz",
            indices=indices,
        )
        build.column(
            "linear_attn.in_proj_ba",
            [("linear_num_value_heads", value_heads)] * 2,
            hidden,
            sources=self.ba_sources,
            path=at + "in_proj_ba",
            indices=indices,
            ranks=build.attn_tp,
        )
        build.row(
            "linear_attn.out_proj",
            hidden,
            ("linear_num_value_heads", value_heads),
            unit=value_dim,
            sources=("linear_attn.out_proj",),
            path=at + "out_proj",
            indices=indices,
            ranks=build.attn_tp,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Mamba2:
    """Mamba-2's input linear (z, x, B, C, dt) and output linear."""

    layers: LayerRule
    module: str = "mixer"

    def lay_out(self, build: Build) -> None:
        """Add the rows. One B/C group is copied to every rank; several must divide."""
        hidden, indices = build.hidden, self.layers(build)
        if not indices:
            return
        heads, dim = build.size("mamba_num_heads"), build.size("mamba_head_dim")
        groups, state = build.size("n_groups"), build.size("ssm_state_size")
        at = f"{build.block}{self.module}."

        def in_proj() -> Shape:
            per_rank = divide("mamba_num_heads", heads, build.attn_tp)
            if groups != 1 and groups % build.attn_tp:
                raise Indivisible(f"n_groups={groups} not divisible by {build.attn_tp}")
            state_width = max(1, groups // build.attn_tp) * state
            return (per_rank * dim, per_rank * dim, state_width, state_width, per_rank), hidden

        build.add(
            f"{self.module}.in_proj",
            in_proj,
            shard="column",
            sources=(f"{self.module}.in_proj",),
            path=at + "in_proj",
            indices=indices,
        )
        build.row(
            f"{self.module}.out_proj",
            hidden,
            ("mamba_num_heads", heads),
            unit=dim,
            sources=(f"{self.module}.out_proj",),
            path=at + "out_proj",
            indices=indices,
            ranks=build.attn_tp,
        )
        if groups == 1 and build.attn_tp > 1:
            build.notes.append(
                f"{self.module}.in_proj: n_groups = 1 is copied to {build.attn_tp} ranks; "
                "SGLang refuses that for quantised models"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearRecurrence:
    """RecurrentGemma's block: two linears into ``lru_width``, one back."""

    layers: LayerRule

    def lay_out(self, build: Build) -> None:
        """Add the rows."""
        hidden, indices = build.hidden, self.layers(build)
        width = build.optional("lru_width")
        if width is None:
            build.derive(f"lru_width = hidden_size = {hidden}")
            width = hidden
        at, member = f"{build.block}temporal_block.", ("lru_width", width)
        for name in ("linear_y", "linear_x"):
            build.column(name, [member], hidden, sources=(name,), path=at + name, indices=indices)
        name = "linear_out"
        build.row(name, hidden, member, sources=(name,), path=at + name, indices=indices)
