"""Encoders on their own: ViT and BERT, whose layers have one set of names in transformers."""

from dataclasses import dataclass

from mxlab.models.attention import head_dim_of
from mxlab.models.build import Build, Shape
from mxlab.models.sharding import divide

_HEADS = "num_attention_heads"


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderLayer:
    """Attention without a cache and an MLP without a gate; every token sees every other.

    ``qkv``, ``out``, ``up`` and ``down`` are modules of a layer; the rows have the usual names.
    """

    qkv: str
    sources: tuple[str, ...]
    out: str
    up: str
    down: str

    def lay_out(self, build: Build) -> None:
        """Add the rows."""
        hidden, heads = build.hidden, build.size(_HEADS)
        dim = head_dim_of(build, derivable=True)
        member = ("intermediate_size", build.size("intermediate_size"))
        layers, at = build.layers, build.block

        def qkv() -> Shape:
            return (divide(_HEADS, heads, build.tp) * dim,) * 3, hidden

        build.add(
            "qkv_proj",
            qkv,
            shard="column",
            sources=self.sources,
            path=at + self.qkv,
            indices=layers,
        )
        build.row(
            "o_proj",
            hidden,
            (_HEADS, heads),
            unit=dim,
            sources=(self.out,),
            path=at + self.out,
            indices=layers,
        )
        up, down = self.up, self.down
        build.column("fc1", [member], hidden, sources=(up,), path=at + up, indices=layers)
        build.row("fc2", hidden, member, sources=(down,), path=at + down, indices=layers)
