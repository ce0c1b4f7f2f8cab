"""Zamba2: one attention block, shared by several layers, that reads a doubled residual stream.

Source: the model class of transformers 5.24.0; vLLM 0.33.0 serves it.
"""

from dataclasses import dataclass

from mxlab.models.attention import cache_kind, heads_per_rank, kv_count
from mxlab.models.build import Build, Shape
from mxlab.models.kv_cache import KvCache
from mxlab.models.layer_sets_hybrid import with_shared_block
from mxlab.models.mlp import lay_out_mlp
from mxlab.models.sharding import divide, kv_heads

_HEADS = "num_attention_heads"


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedBlock:
    """Attention over twice the hidden size, its MLP, and the linear that leads back."""

    def lay_out(self, build: Build) -> KvCache | None:
        """Add the rows; return the KV cache."""
        indices = with_shared_block(shared=True)(build)
        if not indices:
            return None
        hidden, heads = build.hidden, build.size(_HEADS)
        kv = kv_count(build, heads, defaults_to_heads=True)
        dim = build.optional("attention_head_dim") or 2 * hidden // heads
        at = f"{build.block}shared_transformer."
        build.derive(f"K of qkv_proj = 2 * hidden_size = {2 * hidden}")

        def qkv() -> Shape:
            keys = kv_heads(kv, build.tp) * dim
            return (divide(_HEADS, heads, build.tp) * dim, keys, keys), 2 * hidden

        build.add(
            "qkv_proj",
            qkv,
            shard="column",
            sources=("q_proj", "k_proj", "v_proj"),
            path=at + "self_attn.qkv_proj",
            indices=indices,
        )
        build.row(
            "o_proj",
            hidden,
            (_HEADS, heads),
            unit=dim,
            sources=("o_proj",),
            path=at + "self_attn.o_proj",
            indices=indices,
        )
        lay_out_mlp(
            build,
            ("gate_up_proj", "down_proj"),
            ("intermediate_size", build.size("intermediate_size")),
            gated=True,
            up_sources=("gate_up_proj",),
            down_sources=("down_proj",),
            module="shared_transformer.feed_forward",
            indices=indices,
        )
        path = f"{build.block}linear"
        build.replicated(
            "linear", (hidden,), hidden, sources=("linear",), path=path, indices=indices
        )
        build.notes.append(
            f"the {len(indices)} shared blocks hold the weights of num_mem_blocks = "
            f"{build.optional('num_mem_blocks') or 1}; their low-rank adapters are not listed"
        )
        return KvCache(
            kind=cache_kind(heads, kv),
            head_dim=dim,
            v_head_dim=dim,
            kv_heads_per_rank=heads_per_rank(build, kv, kv=True),
            q_heads_per_rank=heads_per_rank(build, heads, kv=False),
            layers=len(indices),
        )
