"""Parts of models whose class comes with the checkpoint: sizes said in ways of their own.

Source: sglang 0.5.23, srt/models/: chatglm.py:52, nemotron_nas.py:62, dbrx.py:91, step3p5.py:405.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from mxlab.errors import InputError, quote
from mxlab.models.attention import Gqa
from mxlab.models.build import Build
from mxlab.models.config import MAX_SIZE, Section, type_name
from mxlab.models.kv_cache import KvCache
from mxlab.models.layer_sets import full, sliding
from mxlab.models.mlp import DenseMlp, Experts
from mxlab.models.per_layer import GatedGqa, grouped, only, with_sizes

_HEADS, _KV = "num_attention_heads", "num_key_value_heads"


class GroupedByFlag(Gqa):
    """ChatGLM says its KV heads through a flag and a number of groups."""

    def heads(self, build: Build) -> tuple[int, int]:
        """Return (query heads, KV heads)."""
        heads = build.size(_HEADS)
        grouped_ = build.config.flag("multi_query_attention")
        if grouped_ is None:
            build.lacks("multi_query_attention")
        if not grouped_:
            return heads, heads
        kv = build.config.whole("multi_query_group_num")
        if kv is None:
            build.lacks("multi_query_group_num")
            return heads, heads
        if heads % kv and not build.missing:
            raise InputError(
                f"{build.config.at('multi_query_group_num')} is {kv}: expected a divisor of "
                f"{_HEADS} = {heads}"
            )
        return heads, kv


def _blocks(build: Build) -> tuple[Section, ...]:
    """Return DeciLM's ``block_configs``, one object a layer."""
    value, at = build.config.get("block_configs"), build.config.at("block_configs")
    if value is None:
        build.lacks("block_configs")
        return ()
    if not isinstance(value, list):
        raise InputError(f"{at} is {type_name(value)}: expected a list of objects, one a layer")
    for index, block in enumerate(value):
        if not isinstance(block, Mapping):
            raise InputError(f"{at}[{index}] is {type_name(block)}: expected an object")
    if len(value) != build.depth and not build.missing:
        raise InputError(f"{at} has {len(value)} entries: expected {build.depth}, one a layer")
    return tuple(Section(block, f"{at}[{index}]") for index, block in enumerate(value))


def _inner(block: Section, key: str) -> Section:
    return block.section(key) or Section({}, block.at(key))


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchedAttention:
    """DeciLM: layers without attention, and a group size of its own in each of the others."""

    gqa: Gqa

    def lay_out(self, build: Build) -> KvCache | None:
        """Add the rows; return the KV cache of the largest group of layers."""
        whole, heads = build.config, build.size(_HEADS)
        kinds: list[int] = []
        for block in _blocks(build):
            attention = _inner(block, "attention")
            size = attention.whole("n_heads_in_group")
            if attention.flag("replace_with_linear"):
                build.unknown.append(f"{attention.path}: a linear in place of attention (no rule)")
                size = None
            kinds.append(0 if attention.flag("no_op") or size is None else size)
        caches = []
        for size, indices in grouped(kinds).items():
            if not size:
                continue
            if heads % size and not build.missing:
                raise InputError(
                    f"{whole.at('block_configs')}[{indices[0]}].attention.n_heads_in_group is "
                    f"{size}: expected a divisor of {_HEADS} = {heads}"
                )
            with_sizes(build, **{_KV: max(heads // size, 1)})
            caches.append(replace(self.gqa, layers=only(indices)).lay_out(build))
            build.config = whole
        found = [cache for cache in caches if cache is not None]
        if len(found) > 1:
            build.notes.append("KV heads differ by layer: the KV cache is that of most layers")
        return max(found, key=lambda cache: cache.layers) if found else None


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchedMlp:
    """DeciLM: layers without an MLP, and a width of its own in each of the others."""

    mlp: DenseMlp

    def lay_out(self, build: Build) -> None:
        """Add the rows."""
        whole = build.config
        widths = [_width(build, _inner(block, "ffn")) for block in _blocks(build)]
        for width, indices in grouped(widths).items():
            if width:
                with_sizes(build, intermediate_size=width)
                replace(self.mlp, layers=only(indices)).lay_out(build)
                build.config = whole


def _width(build: Build, ffn: Section) -> int:
    """Return two thirds of ``ffn_mult`` times the hidden size in whole steps of 256; 0 for none."""
    if ffn.flag("no_op"):
        return 0
    if ffn.flag("replace_with_linear"):
        build.unknown.append(f"{ffn.path}: a linear in place of the MLP (no rule)")
        return 0
    times = ffn.get("ffn_mult")
    if times is None:
        return ffn.whole("intermediate_size") or 0
    if isinstance(times, bool) or not isinstance(times, int | float) or not 0 < times <= 64:
        raise InputError(
            f"{ffn.at('ffn_mult')} is {quote(times)}: expected a number above 0 and up to 64"
        )
    wanted = int(2 * times * build.hidden / 3)
    return min(math.ceil(wanted / 256) * 256, MAX_SIZE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Nested:
    """A part that reads some sizes from an object inside the config (DBRX)."""

    part: Gqa | Experts
    inside: str
    sizes: Mapping[str, str]  # the part's name -> the key in the object

    def lay_out(self, build: Build) -> KvCache | None:
        """Add the rows; return the KV cache where the part keeps one."""
        whole = build.config
        inner = whole.section(self.inside) or Section({}, whole.at(self.inside))
        sizes: dict[str, Any] = {}
        for name, key in self.sizes.items():
            sizes[name] = inner.whole(key)
            if sizes[name] is None:
                build.missing.append(inner.at(key))
                sizes[name] = 1
        with_sizes(build, **sizes)
        cache = self.part.lay_out(build)
        build.config = whole
        return cache


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherAttention:
    """Step-3.5: layers with a sliding window take heads from ``attention_other_setting``."""

    gqa: Gqa

    def lay_out(self, build: Build) -> KvCache | None:
        """Add the rows; return the KV cache of the layers with full attention."""
        whole = build.config
        gate = "use_head_wise_attn_gate"
        cache = GatedGqa(gqa=replace(self.gqa, layers=full), gating=gate).lay_out(build)
        other = sliding(build)
        if not other:
            return cache
        inner = whole.section("attention_other_setting")
        if inner is None:
            build.lacks("attention_other_setting")
            return cache
        sizes = {key: inner.whole(key) for key in (_HEADS, "num_attention_groups")}
        build.missing += [inner.at(key) for key, size in sizes.items() if size is None]
        with_sizes(build, **sizes)
        window = GatedGqa(gqa=replace(self.gqa, layers=only(other)), gating=gate).lay_out(build)
        build.config = whole
        if cache is not None and window is not None:
            build.notes.append(
                f"KV cache: the other {window.layers} layers have {window.kv_heads_per_rank} KV "
                f"heads a rank of {window.head_dim}"
            )
        return cache or window


def step_experts(build: Build) -> tuple[int, ...]:
    """Return Step-3.5's expert layers: ``moe_layers_enum``, numbers between commas; else all."""
    value = build.config.get("moe_layers_enum")
    if value is None:
        build.derive("layers from 1 on have experts (moe_layers_enum absent)")
        return build.layers[1:]
    if isinstance(value, str):
        words = [word.strip() for word in value[:65536].split(",") if word.strip()]
        if any(not (word.isascii() and word.isdigit() and len(word) < 6) for word in words):
            raise InputError(
                f"{build.config.at('moe_layers_enum')} is {quote(value)}: expected layer numbers "
                "between commas"
            )
        chosen = frozenset(map(int, words))
    else:
        chosen = frozenset(build.config.numbers("moe_layers_enum") or ())
    return tuple(index for index in build.layers if index in chosen)
