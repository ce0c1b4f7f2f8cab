"""Whisper: an encoder, and a decoder that also attends to the encoder's output."""

from dataclasses import dataclass

from mxlab.errors import InputError
from mxlab.models.attention import heads_per_rank
from mxlab.models.build import Build, Shape
from mxlab.models.config import MAX_LAYERS
from mxlab.models.kv_cache import KvCache
from mxlab.models.sharding import divide

_HEADS = "num_attention_heads"


@dataclass(frozen=True, slots=True, kw_only=True)
class WhisperStack:
    """One of the two stacks: ``side`` is encoder or decoder."""

    side: str

    def lay_out(self, build: Build) -> KvCache | None:
        """Add the rows; return the KV cache of the decoder."""
        hidden = build.hidden
        heads = build.size(f"{self.side}_attention_heads")
        width = build.size(f"{self.side}_ffn_dim")
        depth = build.config.whole(f"{self.side}_layers", 1, MAX_LAYERS)
        if depth is None:
            build.lacks(f"{self.side}_layers")
        if hidden % heads and not build.missing:
            raise InputError(
                f"{build.config.at('d_model')} = {hidden} is not a multiple of "
                f"{self.side}_attention_heads = {heads}"
            )
        if depth is None:
            return None
        dim, indices = hidden // heads, tuple(range(depth))
        at = f"{self.side}.layers.{{layer}}."
        self._attention(build, at + "self_attn.", heads, dim, indices)
        if self.side == "decoder":
            self._cross_attention(build, at + "encoder_attn.", heads, dim, indices)
        member = (f"{self.side}_ffn_dim", width)
        build.column(
            f"{self.side}.fc1",
            [member],
            hidden,
            sources=("fc1",),
            path=at + "fc1",
            indices=indices,
        )
        build.row(
            f"{self.side}.fc2", hidden, member, sources=("fc2",), path=at + "fc2", indices=indices
        )
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
        self, build: Build, at: str, heads: int, dim: int, indices: tuple[int, ...]
    ) -> None:
        def qkv() -> Shape:
            return (divide(_HEADS, heads, build.tp) * dim,) * 3, build.hidden

        build.add(
            f"{self.side}.qkv_proj",
            qkv,
            shard="column",
            sources=("q_proj", "k_proj", "v_proj"),
            path=at + "qkv_proj",
            indices=indices,
        )
        self._output(build, f"{self.side}.out_proj", at, heads, dim, indices)

    def _cross_attention(
        self, build: Build, at: str, heads: int, dim: int, indices: tuple[int, ...]
    ) -> None:
        for name, sources in (("q_proj", ("q_proj",)), ("kv_proj", ("k_proj", "v_proj"))):

            def shape(members: int = len(sources)) -> Shape:
                return (divide(_HEADS, heads, build.tp) * dim,) * members, build.hidden

            build.add(
                f"{self.side}.encoder_attn.{name}",
                shape,
                shard="column",
                sources=tuple(f"encoder_attn.{source}" for source in sources),
                path=at + name,
                indices=indices,
            )
        self._output(build, f"{self.side}.encoder_attn.out_proj", at, heads, dim, indices)

    def _output(
        self,
        build: Build,
        linear: str,
        at: str,
        heads: int,
        dim: int,
        indices: tuple[int, ...],
    ) -> None:
        build.row(
            linear,
            build.hidden,
            (_HEADS, heads),
            unit=dim,
            sources=(linear.removeprefix(f"{self.side}."),),
            path=at + "out_proj",
            indices=indices,
        )
