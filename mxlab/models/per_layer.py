"""Sizes that a config gives layer by layer: one recipe for each group of layers of one size."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from mxlab.errors import InputError, quote
from mxlab.models.attention import Gqa
from mxlab.models.build import Build
from mxlab.models.kv_cache import KvCache
from mxlab.models.layer_sets import LayerRule, every
from mxlab.models.mlp import DenseMlp, Experts
from mxlab.models.sharding import divide

_HEADS = "num_attention_heads"


def only(indices: Sequence[int]) -> LayerRule:
    """Return the rule for these layers."""
    chosen = tuple(indices)
    return lambda build: chosen


def listed(build: Build, key: str, low: int = 1) -> tuple[int, ...] | None:
    """Return a size for every layer, be it one number or a list; None when absent."""
    if not isinstance(build.config.get(key), list):
        one = build.config.whole(key, low)
        return None if one is None else (one,) * build.depth
    sizes = build.switches(key) or ()
    if any(size < low for size in sizes):
        raise InputError(f"{build.config.at(key)} holds {min(sizes)}: expected {low} and up")
    return sizes


def grouped(sizes: Sequence[Any]) -> dict[Any, tuple[int, ...]]:
    """Return size -> the layers that have it, in the order of the first one.

    >>> grouped([48, 64, 48])
    {48: (0, 2), 64: (1,)}
    """
    return {
        size: tuple(index for index, found in enumerate(sizes) if found == size)
        for size in dict.fromkeys(sizes)
    }


def with_sizes(build: Build, **sizes: object) -> None:
    """Let the build read these sizes where the config has a list."""
    build.config = replace(build.config, data={**build.config.data, **sizes})


@dataclass(frozen=True, slots=True, kw_only=True)
class GatedGqa:
    """Attention with a gate: one a head or one an element of its output (Laguna, LFM3, Step-3.5).

    ``heads`` is the key of a list of query heads by layer. ``gating`` is the key that says whether
    there is a gate: true or "per-head", "per-element", false or absent.
    """

    gqa: Gqa
    heads: str = ""
    gating: str = ""

    def lay_out(self, build: Build) -> KvCache | None:
        """Add the rows; return the KV cache."""
        whole = build.config
        sizes = (listed(build, self.heads) if self.heads else None) or (0,) * build.depth
        caches = []
        for heads, indices in grouped(sizes).items():
            if heads:
                with_sizes(build, **{_HEADS: heads})
            rows = tuple(i for i in self.gqa.layers(build) if i in frozenset(indices))
            cache = replace(self.gqa, layers=only(rows)).lay_out(build)
            if cache is not None:
                caches.append(cache)
                self._lay_out_gate(build, cache.head_dim, rows)
            build.config = whole
        if len(caches) < 2:
            return caches[0] if caches else None
        return replace(caches[0], layers=sum(cache.layers for cache in caches))

    def _lay_out_gate(self, build: Build, dim: int, indices: tuple[int, ...]) -> None:
        said = build.config.get(self.gating) if self.gating else True
        if said in (None, False, "disabled"):
            return
        if said not in (True, "per-head", "per-element"):
            raise InputError(
                f"{build.config.at(self.gating)} is {quote(said)}: expected true, false, per-head, "
                "per-element or disabled"
            )
        heads = build.size(_HEADS)
        width = dim if said == "per-element" else 1
        build.add(
            "g_proj",
            lambda: ((divide(_HEADS, heads, build.attn_tp) * width,), build.hidden),
            shard="column",
            sources=("g_proj",),
            path=f"{build.block}{self.gqa.module}.g_proj",
            indices=indices,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class HunyuanLayers:
    """Hunyuan's attention: with ``use_cla`` only each ``cla_share_factor``th layer has k and v.

    Source: sglang 0.5.23, srt/models/hunyuan.py:395.
    """

    gqa: Gqa

    def lay_out(self, build: Build) -> KvCache | None:
        """Add the rows; return the KV cache."""
        step = 1
        if build.config.flag("use_cla"):
            step = build.optional("cla_share_factor") or 1
        own = tuple(index for index in build.layers if index % step == 0)
        cache = replace(self.gqa, layers=only(own)).lay_out(build)
        rest = tuple(index for index in build.layers if index % step)
        if rest and cache is not None:
            heads = build.size(_HEADS)
            build.add(
                "q_proj",
                lambda: ((divide(_HEADS, heads, build.tp) * cache.head_dim,), build.hidden),
                shard="column",
                sources=("q_proj",),
                path=f"{build.block}self_attn.q_proj",
                indices=rest,
            )
            build.row(
                "o_proj",
                build.hidden,
                (_HEADS, heads),
                unit=cache.head_dim,
                sources=("o_proj",),
                path=f"{build.block}self_attn.o_proj",
                indices=rest,
            )
        return cache


@dataclass(frozen=True, slots=True, kw_only=True)
class HunyuanExperts:
    """Hunyuan's experts: sizes may be lists; the shared MLP is as wide as a dense one.

    Source: sglang 0.5.23, srt/models/hunyuan.py:117.
    """

    def lay_out(self, build: Build) -> None:
        """Add the rows."""
        whole = build.config
        one = listed(build, "intermediate_size") or (build.size("intermediate_size"),) * build.depth
        experts = listed(build, "num_experts", 0)
        if experts is None:
            build.lacks("num_experts")
            return
        widths = listed(build, "moe_intermediate_size") or one
        counts = listed(build, "num_shared_expert", 0) or (1,) * build.depth
        shared = build.config.get("use_mixed_mlp_moe")
        if shared is not None and not isinstance(shared, bool):
            shared = build.config.whole("use_mixed_mlp_moe", 0)
        if shared is False or shared == 0:
            counts = (0,) * build.depth
        kinds = list(zip(experts, widths, one, counts, strict=True))
        for (total, width, dense, times), indices in grouped(kinds).items():
            with_sizes(
                build,
                num_experts=total or None,
                moe_intermediate_size=width,
            )
            Experts(layers=only(indices), router="gate").lay_out(build)
            if times:
                self._lay_out_shared(build, dense * times, indices)
            build.config = whole

    def _lay_out_shared(self, build: Build, width: int, indices: tuple[int, ...]) -> None:
        with_sizes(build, shared_mlp=width)
        DenseMlp(
            up="shared_mlp.gate_up_proj",
            up_sources=("shared_mlp.gate_proj", "shared_mlp.up_proj"),
            down="shared_mlp.down_proj",
            down_sources=("shared_mlp.down_proj",),
            module="mlp.shared_mlp",
            width="shared_mlp",
            layers=only(indices),
        ).lay_out(build)


#: attention of every layer, head_dim under either of its two names
HUNYUAN_GQA = Gqa(kv_defaults_to_heads=True, layers=every)
