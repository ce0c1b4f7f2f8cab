"""T5: an encoder and a decoder whose head size has nothing to do with the hidden size.

No serving system of the table has it; names are those of transformers 5.24.0.
"""

from dataclasses import dataclass

from mxlab.models.attention import heads_per_rank
from mxlab.models.build import Build, Shape
from mxlab.models.config import MAX_LAYERS
from mxlab.models.kv_cache import KvCache
from mxlab.models.sharding import divide


@dataclass(frozen=True, slots=True, kw_only=True)
class T5Stack:
    """One of the two stacks: ``side`` is encoder or decoder."""

    side: str

    def lay_out(self, build: Build) -> KvCache | None:
        """Add the rows; return the KV cache of the decoder."""
        heads, dim = build.size("num_heads"), build.size("d_kv")
        depth = build.depth
        if self.side == "decoder":
            depth = build.config.whole("num_decoder_layers", 1, MAX_LAYERS) or depth
        layers = tuple(range(depth))
        at = f"{self.side}.block.{{layer}}.layer."
        self._attention(build, f"{self.side}.", at + "0.SelfAttention.", heads, dim, layers)
        last = 1
        if self.side == "decoder":
            last = 2
            cross = at + "1.EncDecAttention."
            self._attention(build, "decoder.encoder_attn.", cross, heads, dim, layers)
        self._mlp(build, f"{at}{last}.DenseReluDense.", layers)
        if self.side == "encoder":
            return None
        return KvCache(
            kind="MHA",
            head_dim=dim,
            v_head_dim=dim,
            kv_heads_per_rank=heads_per_rank(build, heads, kv=False),
            q_heads_per_rank=heads_per_rank(build, heads, kv=False),
            layers=depth,
        )

    def _attention(
        self, build: Build, name: str, at: str, heads: int, dim: int, layers: tuple[int, ...]
    ) -> None:
        def qkv() -> Shape:
            return (divide("num_heads", heads, build.tp) * dim,) * 3, build.hidden

        build.add(
            f"{name}qkv_proj",
            qkv,
            shard="column",
            sources=("q", "k", "v"),
            path=at + "qkv_proj",
            indices=layers,
        )
        build.row(
            f"{name}o_proj",
            build.hidden,
            ("num_heads", heads),
            unit=dim,
            sources=("o",),
            path=at + "o",
            indices=layers,
        )

    def _mlp(self, build: Build, at: str, layers: tuple[int, ...]) -> None:
        member = ("d_ff", build.size("d_ff"))
        ups: tuple[str, ...] = ("wi",)
        if (build.config.text("feed_forward_proj") or "relu").startswith("gated"):
            ups = ("wi_0", "wi_1")
        build.column(
            f"{self.side}.{'gate_up_proj' if len(ups) > 1 else 'wi'}",
            [member] * len(ups),
            build.hidden,
            sources=ups,
            path=at + ("gate_up_proj" if len(ups) > 1 else "wi"),
            indices=layers,
        )
        build.row(
            f"{self.side}.wo", build.hidden, member, sources=("wo",), path=at + "wo", indices=layers
        )
