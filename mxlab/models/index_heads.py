"""MiniMax-M3's attention: index heads choose what the ordinary heads look at."""

from dataclasses import dataclass, replace

from mxlab.models.attention import Gqa
from mxlab.models.build import Build, Shape, layer_ranges
from mxlab.models.config import Section
from mxlab.models.kv_cache import KvCache
from mxlab.models.sharding import Indivisible, divide


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexedGqa:
    """MiniMax-M3: grouped-query attention, and in its sparse layers an index head beside it."""

    gqa: Gqa

    def lay_out(self, build: Build) -> KvCache | None:
        """Add the rows; return the KV cache."""
        cache = self.gqa.lay_out(build)
        sparse = build.config.section("sparse_attention_config")
        if sparse is None:
            build.lacks("sparse_attention_config")
            return cache
        flags = build.switches("sparse_attention_freq", sparse)
        no_value = build.switches("sparse_disable_index_value", sparse)
        heads, dim = sparse.whole("sparse_num_index_heads"), sparse.whole("sparse_index_dim")
        for key, value in (
            ("sparse_attention_freq", flags),
            ("sparse_num_index_heads", heads),
            ("sparse_index_dim", dim),
        ):
            if value is None:
                build.missing.append(sparse.at(key))
        if flags is None or heads is None or dim is None:
            return cache
        return self._lay_out_index(build, sparse, cache, flags, no_value, heads, dim)

    def _lay_out_index(
        self,
        build: Build,
        sparse: Section,
        cache: KvCache | None,
        flags: tuple[int, ...],
        no_value: tuple[int, ...] | None,
        heads: int,
        dim: int,
    ) -> KvCache | None:
        indexed = tuple(index for index, flag in enumerate(flags) if flag)
        with_value = [
            i for i in indexed if no_value is None or (i < len(no_value) and not no_value[i])
        ]
        if with_value:
            build.unknown.append(
                f"layers {layer_ranges(with_value)}: index_qkv_proj, index_o_proj "
                f"({sparse.at('sparse_disable_index_value')} is not set there: no rule for the "
                "index value)"
            )
        plain = tuple(index for index in indexed if index not in with_value)

        def index_qkv() -> Shape:
            if build.attn_tp > heads and build.attn_tp % heads:
                raise Indivisible(
                    f"tp={build.attn_tp} not divisible by sparse_num_index_heads={heads}"
                )
            ranks = min(build.attn_tp, heads)
            per_rank = divide("sparse_num_index_heads", heads, ranks)
            return (per_rank * dim, dim), build.hidden

        build.add(
            "index_qkv_proj",
            index_qkv,
            shard=f"column (index heads, replicated past {heads})",
            sources=("index_q_proj", "index_k_proj"),
            path=f"{build.block}self_attn.index_qkv_proj",
            indices=plain,
        )
        if cache is None:
            return None
        return replace(cache, index_head_dim=dim, index_layers=len(indexed))
