"""Mamba-1: the mixer of Mamba, FalconMamba and Jamba.

Source: sglang 0.5.23, srt/layers/attention/mamba/mamba1.py:82; vLLM 0.33.0's is cut the same way.
"""

from dataclasses import dataclass

from mxlab.models.build import Build
from mxlab.models.config import MAX_SIZE
from mxlab.models.layer_sets import LayerRule


@dataclass(frozen=True, slots=True, kw_only=True)
class Mamba1:
    """Four linears: x and z; dt, B and C from x; dt; the output."""

    layers: LayerRule
    module: str = "mixer"
    expand: str = "expand"
    state: str = "state_size"
    rank: str = "time_step_rank"
    width: str = ""  # key of the inner width; "" is expand times hidden_size

    def lay_out(self, build: Build) -> None:
        """Add the rows."""
        hidden, indices = build.hidden, self.layers(build)
        if not indices:
            return
        state, rank, inner = build.size(self.state), self._rank(build), self._inner(build)
        at, name = f"{build.block}{self.module}.", self.module
        member = ("inner width of Mamba", inner)
        build.column(
            f"{name}.in_proj",
            [member, member],
            hidden,
            sources=(f"{name}.in_proj",),
            path=at + "in_proj",
            indices=indices,
        )
        build.row(
            f"{name}.x_proj",
            rank + 2 * state,
            member,
            sources=(f"{name}.x_proj",),
            path=at + "x_proj",
            indices=indices,
        )
        build.column(
            f"{name}.dt_proj",
            [member],
            rank,
            sources=(f"{name}.dt_proj",),
            path=at + "dt_proj",
            indices=indices,
        )
        build.row(
            f"{name}.out_proj",
            hidden,
            member,
            sources=(f"{name}.out_proj",),
            path=at + "out_proj",
            indices=indices,
        )

    def _inner(self, build: Build) -> int:
        given = build.optional(self.width) if self.width else None
        if given is not None:
            return given
        times = build.config.whole(self.expand, 1, 64)
        if times is None:
            build.lacks(self.expand)
            return 1
        inner = min(times * build.hidden, MAX_SIZE)
        build.derive(f"inner width of Mamba = {self.expand} * hidden_size = {inner}")
        return inner

    def _rank(self, build: Build) -> int:
        """Return the width of dt; "auto" is a sixteenth of the hidden size."""
        if build.config.get(self.rank) == "auto":
            rank = -(-build.hidden // 16)
            build.derive(f"{self.rank} = hidden_size / 16 = {rank}")
            return rank
        return build.size(self.rank)
