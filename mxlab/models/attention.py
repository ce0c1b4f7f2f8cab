"""Attention: grouped-query (fused qkv) and multi-head latent (MLA), one row a weight."""

from dataclasses import dataclass

from mxlab.errors import InputError
from mxlab.models.build import Build, Shape
from mxlab.models.config import Section
from mxlab.models.kv_cache import KvCache
from mxlab.models.layer_sets import LayerRule, every, softmax_attention
from mxlab.models.sharding import Indivisible, divide, kv_heads

_HEADS = "num_attention_heads"
_KV = "num_key_value_heads"


def _or_none(build: Build, heads: int, *, kv: bool) -> int | None:
    """Return the heads of one rank, None when they cannot be split."""
    try:
        return kv_heads(heads, build.tp) if kv else divide(_HEADS, heads, build.tp)
    except Indivisible:
        return None


def head_dim_of(build: Build, *, derivable: bool) -> int:
    """Return head_dim, derived as hidden_size / heads only where the family's class does that."""
    given = build.optional("head_dim")
    if given is not None:
        return given
    if not derivable:
        build.lacks(build.key("head_dim"))
        return 1
    hidden, heads = build.hidden, build.size(_HEADS)
    if hidden % heads:
        raise InputError(
            f"{build.config.at(build.key('hidden_size'))} = {hidden} is not a multiple of "
            f"{build.key(_HEADS)} = {heads}: head_dim cannot be derived"
        )
    build.derive(f"head_dim = hidden_size / num_attention_heads = {hidden // heads}")
    return hidden // heads


def kv_count(build: Build, heads: int, *, defaults_to_heads: bool) -> int:
    """Return the number of KV heads; null is one a query head, absent only where the class says."""
    key = build.key(_KV)
    given = build.optional(_KV)
    if given is None and not (defaults_to_heads or build.config.named(key)):
        build.lacks(key)
        return 1
    if given is None:
        build.derive(f"{_KV} = num_attention_heads = {heads}")
        return heads
    if heads % given and not build.missing:
        raise InputError(
            f"{build.config.at(key)} is {given}: expected a divisor of {build.key(_HEADS)} = {heads}"
        )
    return given


def cache_kind(heads: int, kv: int) -> str:
    """Return MHA, MQA or GQA.

    >>> cache_kind(32, 8), cache_kind(71, 1), cache_kind(12, 12)
    ('GQA', 'MQA', 'MHA')
    """
    return "MHA" if kv == heads else "MQA" if kv == 1 else "GQA"


@dataclass(frozen=True, slots=True, kw_only=True)
class Gqa:
    """Query, key and value in one column-parallel linear, then a row-parallel output linear."""

    qkv: str = "qkv_proj"
    sources: tuple[str, ...] = ("q_proj", "k_proj", "v_proj")
    out: str = "o_proj"
    out_sources: tuple[str, ...] = ("o_proj",)
    module: str = "self_attn"
    derive_head_dim: bool = False  # hidden_size / num_attention_heads when absent
    kv_defaults_to_heads: bool = False
    output_gate: bool = False  # the query member also carries a gate (attn_output_gate)
    layers: LayerRule = softmax_attention

    def heads(self, build: Build) -> tuple[int, int]:
        """Return (query heads, KV heads) of the whole model."""
        heads = build.size(_HEADS)
        return heads, kv_count(build, heads, defaults_to_heads=self.kv_defaults_to_heads)

    def lay_out(self, build: Build) -> KvCache | None:
        """Add the rows; return the KV cache."""
        hidden = build.hidden
        heads, kv = self.heads(build)
        dim = head_dim_of(build, derivable=self.derive_head_dim)
        indices = self.layers(build)
        gated = self._gate(build)

        def qkv() -> Shape:
            queries = divide(_HEADS, heads, build.tp) * dim * gated
            keys = kv_heads(kv, build.tp) * dim
            return (queries, keys, keys), hidden

        at = f"{build.block}{self.module}"
        build.add(
            self.qkv,
            qkv,
            shard="column",
            sources=self.sources,
            path=f"{at}.{self.qkv.rsplit('.', 1)[-1]}",
            indices=indices,
        )
        build.row(
            self.out,
            hidden,
            (_HEADS, heads),
            unit=dim,
            sources=self.out_sources,
            path=f"{at}.{self.out.rsplit('.', 1)[-1]}",
            indices=indices,
        )
        if not indices:
            return None
        return KvCache(
            kind=cache_kind(heads, kv),
            head_dim=dim,
            v_head_dim=dim,
            kv_heads_per_rank=_or_none(build, kv, kv=True),
            q_heads_per_rank=_or_none(build, heads, kv=False),
            layers=len(indices),
        )

    def _gate(self, build: Build) -> int:
        if not self.output_gate:
            return 1
        gate = build.config.flag("attn_output_gate")
        if gate is None:
            build.derive("attn_output_gate = true (the family's attention always gates)")
        return 1 if gate is False else 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Mla:
    """DeepSeek's multi-head latent attention, with the sparse indexer where the config has one."""

    layers: LayerRule = every
    indexer: bool = False  # the architecture reads index_topk

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
        at = f"{build.block}self_attn."

        def by_head(name: str, width: int, k: int) -> None:
            build.add(
                name,
                lambda: ((divide(_HEADS, heads, build.tp) * width,), k),
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
        )
        if self.indexer and config.get("index_topk") is not None:
            _lay_out_indexer(build, at + "indexer.", q_lora, indices)
        return KvCache(
            kind="MLA",
            head_dim=nope + rope,
            v_head_dim=value,
            kv_heads_per_rank=1,
            q_heads_per_rank=_or_none(build, heads, kv=False),
            layers=len(indices),
            cached_per_token=latent + rope,
            latent=latent,
            rope=rope,
        )


#: keys by which a config lets a layer reuse the top-k of the layer before, without an indexer
_REUSE = ("indexer_types", "cli_factor", "index_topk_pattern", "index_topk_freq", "index_kpool")


def _lay_out_indexer(build: Build, at: str, q_lora: int | None, indices: tuple[int, ...]) -> None:
    """Add the indexer of DeepSeek sparse attention (DSA): three replicated linears."""
    heads, dim = build.size("index_n_heads"), build.size("index_head_dim")
    reuse = [key for key in _REUSE if build.config.get(key) not in (None, 1)]
    if reuse or q_lora is None:
        why = f"{build.config.at(reuse[0])} is set" if reuse else "q_lora_rank is null"
        build.unknown.append(f"all layers: indexer.* ({why}: no rule for which layers have one)")
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


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexedGqa:
    """MiniMax-M3: grouped-query attention, and in its sparse layers an index head beside it."""

    gqa: Gqa = Gqa()

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
                f"layers {with_value[0]}-{with_value[-1]}: index_qkv_proj, index_o_proj "
                f"({sparse.at('sparse_disable_index_value')} is not set there: no rule for the "
                "index value)"
            )
        plain = tuple(index for index in indexed if index not in with_value)

        def index_qkv() -> Shape:
            if build.tp > heads and build.tp % heads:
                raise Indivisible(f"tp={build.tp} not divisible by sparse_num_index_heads={heads}")
            ranks = min(build.tp, heads)
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
        return KvCache(
            kind=cache.kind,
            head_dim=cache.head_dim,
            v_head_dim=cache.v_head_dim,
            kv_heads_per_rank=cache.kv_heads_per_rank,
            q_heads_per_rank=cache.q_heads_per_rank,
            layers=cache.layers,
            index_head_dim=dim,
            index_layers=len(indexed),
        )
