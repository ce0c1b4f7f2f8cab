"""DeepSeek's multi-head latent attention (MLA), one row a weight."""

from dataclasses import dataclass

from mxlab.models.attention import heads_per_rank
from mxlab.models.build import Build, layer_ranges
from mxlab.models.kv_cache import KvCache
from mxlab.models.layer_sets import LayerRule, every, indexed
from mxlab.models.sharding import divide

_HEADS = "num_attention_heads"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mla:
    """DeepSeek's multi-head latent attention, with the sparse indexer where the config has one."""

    layers: LayerRule = every
    indexer: bool = False  # the architecture reads index_topk
    indexed: LayerRule = indexed  # the layers with an indexer of their own
    module: str = "self_attn"
    gate: bool = False  # a gate as wide as the values multiplies what attention gives

    def lay_out(self, build: Build) -> KvCache | None:
        """Add the rows; return the KV cache."""
        config, hidden = build.config, build.hidden
        heads = build.size(_HEADS)
        latent, rope = build.size("kv_lora_rank"), build.size("qk_rope_head_dim")
        nope, value = build.size("qk_nope_head_dim"), build.size("v_head_dim")
        if not config.named("q_lora_rank"):
            build.lacks("q_lora_rank")
        q_lora = config.whole("q_lora_rank")
        indices = self.layers(build)
        at = f"{build.block}{self.module}."

        def by_head(name: str, width: int, k: int) -> None:
            build.add(
                name,
                lambda: ((divide(_HEADS, heads, build.attn_tp) * width,), k),
                shard="column",
                sources=(name,),
                path=at + name,
                indices=indices,
            )

        def whole(name: str, parts: tuple[int, ...], *sources: str) -> None:
            build.replicated(name, parts, hidden, sources=sources, path=at + name, indices=indices)

        if q_lora is not None:
            whole(
                "fused_qkv_a_proj_with_mqa",
                (q_lora, latent + rope),
                "q_a_proj",
                "kv_a_proj_with_mqa",
            )
            by_head("q_b_proj", nope + rope, q_lora)
        else:
            by_head("q_proj", nope + rope, hidden)
            whole("kv_a_proj_with_mqa", (latent + rope,), "kv_a_proj_with_mqa")
        by_head("kv_b_proj", nope + value, latent)
        build.row(
            "o_proj",
            hidden,
            (_HEADS, heads),
            unit=value,
            sources=("o_proj",),
            path=at + "o_proj",
            indices=indices,
            ranks=build.attn_tp,
        )
        if self.gate:
            build.add(
                "linear_gate",
                lambda: ((divide(_HEADS, heads, build.attn_tp) * value,), hidden),
                shard="column",
                sources=("gate_proj",),
                path=at + "linear_gate",
                indices=indices,
            )
        if self.indexer and config.get("index_topk") is not None:
            owners = frozenset(self.indexed(build))
            own = tuple(index for index in indices if index in owners)
            _lay_out_indexer(build, at + "indexer.", q_lora, own)
        return KvCache(
            kind="MLA",
            head_dim=nope + rope,
            v_head_dim=value,
            kv_heads_per_rank=1,
            q_heads_per_rank=heads_per_rank(build, heads, kv=False),
            layers=len(indices),
            cached_per_token=latent + rope,
            latent=latent,
            rope=rope,
        )


def _lay_out_indexer(build: Build, at: str, q_lora: int | None, indices: tuple[int, ...]) -> None:
    """Add the indexer of DeepSeek sparse attention (DSA): three replicated linears."""
    heads, dim = build.size("index_n_heads"), build.size("index_head_dim")
    pooled = build.config.get("index_kpool") not in (None, 1)
    if pooled or q_lora is None:
        why = "index_kpool is set" if pooled else "q_lora_rank is null"
        build.unknown.append(f"layers {layer_ranges(indices)}: indexer.* ({why}: no rule for it)")
        return
    for name, width, k in (
        ("wq_b", heads * dim, q_lora),
        ("wk", dim, build.hidden),
        ("weights_proj", heads, build.hidden),
    ):
        build.replicated(
            f"indexer.{name}",
            (width,),
            k,
            sources=(f"indexer.{name}",),
            path=at + name,
            indices=indices,
        )
