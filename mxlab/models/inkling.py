"""Inkling: query, key, value and a relative position in one linear; heads by kind of layer.

Source: sglang 0.5.23, srt/models/inkling_common/attn.py:323, srt/configs/inkling.py:77.
"""

from dataclasses import dataclass

from mxlab.errors import InputError, quote
from mxlab.models.attention import cache_kind, head_dim_of, heads_per_rank, kv_count
from mxlab.models.build import Build, Shape, layer_ranges
from mxlab.models.config import MAX_LAYERS
from mxlab.models.kv_cache import KvCache
from mxlab.models.layer_sets import by_mlp_type
from mxlab.models.mlp import Experts
from mxlab.models.per_layer import only
from mxlab.models.sharding import divide, kv_heads

_HEADS, _KV = "num_attention_heads", "num_key_value_heads"
_TYPES = ("hybrid", "hybrid_sliding")


def _local(build: Build) -> frozenset[int]:
    """Return the layers with a sliding window, by ``local_layer_ids`` or ``layer_types``."""
    listed = build.config.numbers("local_layer_ids")
    if listed is not None:
        return frozenset(listed)
    types = build.per_layer("layer_types")
    if types is None:
        build.lacks("local_layer_ids")
        return frozenset()
    for index, name in enumerate(types):
        if name not in _TYPES:
            raise InputError(
                f"{build.config.at('layer_types')}[{index}] is {quote(name)}: "
                f"expected one of {', '.join(_TYPES)}"
            )
    return frozenset(index for index, name in enumerate(types) if name == "hybrid_sliding")


@dataclass(frozen=True, slots=True, kw_only=True)
class InklingAttention:
    """Both kinds of layers; a window's sizes are those of the others where no key says so."""

    def lay_out(self, build: Build) -> KvCache | None:
        """Add the rows; return the KV cache of the layers with full attention."""
        local = _local(build)
        window = self._kind(build, "swa_", tuple(i for i in build.layers if i in local))
        whole = self._kind(build, "", tuple(i for i in build.layers if i not in local))
        if whole is not None and window is not None:
            build.notes.append(
                f"KV cache: the other {window.layers} layers have head_dim {window.head_dim} and "
                f"{window.kv_heads_per_rank} KV heads a rank"
            )
        return whole or window

    def _kind(self, build: Build, prefix: str, indices: tuple[int, ...]) -> KvCache | None:
        if not indices:
            return None

        def own(name: str) -> str:
            return prefix + name if build.optional(prefix + name) else name

        hidden, relative = build.hidden, build.size("d_rel")
        heads = build.size(own(_HEADS))
        kv = kv_count(build, heads, defaults_to_heads=False, name=own(_KV))
        dim = head_dim_of(build, derivable=True, key=own("head_dim"))

        def fused() -> Shape:
            queries = divide(own(_HEADS), heads, build.attn_tp)
            keys = kv_heads(kv, build.attn_tp, own(_KV)) * dim
            return (queries * dim, keys, keys, queries * relative), hidden

        at = f"{build.block}attn."
        build.add(
            "qkvr",
            fused,
            shard="column",
            sources=("wq_du", "wk_dv", "wv_dv", "wr_du"),
            path=at + "qkvr",
            indices=indices,
        )
        build.row(
            "wo_ud",
            hidden,
            (own(_HEADS), heads),
            unit=dim,
            sources=("wo_ud",),
            path=at + "wo_ud",
            indices=indices,
            ranks=build.attn_tp,
        )
        return KvCache(
            kind=cache_kind(heads, kv),
            head_dim=dim,
            v_head_dim=dim,
            kv_heads_per_rank=heads_per_rank(build, kv, kv=True),
            q_heads_per_rank=heads_per_rank(build, heads, kv=False),
            layers=len(indices),
        )


def inkling_experts(build: Build) -> tuple[int, ...]:
    """Return the layers with experts: ``mlp_layer_types``, else from ``dense_mlp_idx`` on."""
    if build.config.get("mlp_layer_types") is not None:
        return by_mlp_type(build)
    return build.layers[build.config.whole("dense_mlp_idx", 0, MAX_LAYERS) or 0 :]


@dataclass(frozen=True, slots=True, kw_only=True)
class InklingExperts:
    """Routed experts; shared ones are a second set of experts where they are a sink."""

    def lay_out(self, build: Build) -> None:
        """Add the rows."""
        indices = inkling_experts(build)
        if not indices:
            return
        sink = bool(build.config.flag("shared_expert_sink"))
        shared = build.config.whole("n_shared_experts", 0) or 0
        Experts(
            layers=only(indices),
            count="n_routed_experts",
            width_else="intermediate_size",
            idle="n_shared_experts" if sink and shared else "",
        ).lay_out(build)
        if shared:
            kind = f"a sink of {shared} experts" if sink else f"{shared} experts in one"
            build.unknown.append(
                f"layers {layer_ranges(indices)}: mlp.shared_experts ({kind}: no rule)"
            )
