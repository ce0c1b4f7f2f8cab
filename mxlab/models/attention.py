"""Attention with grouped queries: fused qkv and the output linear."""

from dataclasses import dataclass

from mxlab.errors import InputError
from mxlab.models.build import Build, Shape
from mxlab.models.kv_cache import KvCache
from mxlab.models.layer_sets import LayerRule, softmax_attention
from mxlab.models.sharding import Indivisible, divide, kv_heads

_HEADS = "num_attention_heads"
_KV = "num_key_value_heads"


def heads_per_rank(build: Build, heads: int, *, kv: bool) -> int | None:
    """Return the heads of one rank, None when they cannot be split."""
    try:
        return kv_heads(heads, build.attn_tp) if kv else divide(_HEADS, heads, build.attn_tp)
    except Indivisible:
        return None


def head_dim_of(build: Build, *, derivable: bool, key: str = "head_dim") -> int:
    """Return head_dim, derived as hidden_size / heads only where the family's class does that."""
    given = build.optional(key)
    if given is not None:
        return given
    if not derivable:
        build.lacks(build.key(key))
        return 1
    hidden, heads = build.hidden, build.size(_HEADS)
    if hidden % heads:
        raise InputError(
            f"{build.config.at(build.key('hidden_size'))} = {hidden} is not a multiple of "
            f"{build.key(_HEADS)} = {heads}: head_dim cannot be derived"
        )
    build.derive(f"head_dim = hidden_size / num_attention_heads = {hidden // heads}")
    return hidden // heads


def kv_count(build: Build, heads: int, *, defaults_to_heads: bool, name: str = _KV) -> int:
    """Return the number of KV heads; null is one a query head, absent only where the class says."""
    key = build.key(name)
    given = build.optional(name)
    if given is None and not (defaults_to_heads or build.config.named(key)):
        build.lacks(key)
        return 1
    if given is None:
        build.derive(f"{name} = num_attention_heads = {heads}")
        return heads
    if heads % given and not build.missing:
        raise InputError(
            f"{build.config.at(key)} is {given}: "
            f"expected a divisor of {build.key(_HEADS)} = {heads}"
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
    """Query, key and value in one column-parallel linear, then a row-parallel output linear.

    The ``_key`` fields name the config's sizes, where some layers have sizes of their own.
    """

    qkv: str = "qkv_proj"
    sources: tuple[str, ...] = ("q_proj", "k_proj", "v_proj")
    out: str = "o_proj"
    out_sources: tuple[str, ...] = ("o_proj",)
    module: str = "self_attn"
    derive_head_dim: bool = False  # hidden_size / num_attention_heads when absent
    kv_defaults_to_heads: bool = False
    output_gate: bool = False  # the query member also carries a gate (attn_output_gate)
    layers: LayerRule = softmax_attention
    heads_key: str = _HEADS
    kv_key: str = _KV
    dim_key: str = "head_dim"
    v_dim_key: str | None = None
    skip_block_check: bool = False

    def heads(self, build: Build) -> tuple[int, int]:
        """Return (query heads, KV heads) of the whole model."""
        heads = build.size(self.heads_key)
        lenient = self.kv_defaults_to_heads
        return heads, kv_count(build, heads, defaults_to_heads=lenient, name=self.kv_key)

    def lay_out(self, build: Build) -> KvCache | None:
        """Add the rows; return the KV cache."""
        indices = self.layers(build)
        if not indices and self.heads_key != _HEADS:
            return None  # sizes of layers that this model does not have are not asked for
        hidden = build.hidden
        heads, kv = self.heads(build)
        dim = head_dim_of(build, derivable=self.derive_head_dim, key=self.dim_key)
        values = (build.optional(self.v_dim_key) if self.v_dim_key else None) or dim
        gated = self._gate(build)

        def qkv() -> Shape:
            queries = divide(self.heads_key, heads, build.attn_tp) * dim * gated
            keys = kv_heads(kv, build.attn_tp, self.kv_key)
            return (queries, keys * dim, keys * values), hidden

        at = f"{build.block}{self.module}"
        build.add(
            self.qkv,
            qkv,
            shard="column",
            sources=self.sources,
            path=f"{at}.{self.qkv.rsplit('.', 1)[-1]}",
            indices=indices,
            skip_block_check=self.skip_block_check,
        )
        build.row(
            self.out,
            hidden,
            (self.heads_key, heads),
            unit=values,
            sources=self.out_sources,
            path=f"{at}.{self.out.rsplit('.', 1)[-1]}",
            indices=indices,
            ranks=build.attn_tp,
        )
        if not indices:
            return None
        return KvCache(
            kind=cache_kind(heads, kv),
            head_dim=dim,
            v_head_dim=values,
            kv_heads_per_rank=heads_per_rank(build, kv, kv=True),
            q_heads_per_rank=heads_per_rank(build, heads, kv=False),
            layers=len(indices),
        )

    def _gate(self, build: Build) -> int:
        if not self.output_gate:
            return 1
        gate = build.config.flag("attn_output_gate")
        if gate is None:
            build.derive("attn_output_gate = true (the family's attention always gates)")
        return 1 if gate is False else 2
