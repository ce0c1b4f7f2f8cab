"""Which layers of a hybrid attend, convolve or keep a recurrent state: rules of single families.

Sources: the config classes of transformers 5.24.0 and of SGLang 0.5.23.
"""

from collections.abc import Sequence

from mxlab.errors import InputError, quote
from mxlab.models.build import Build
from mxlab.models.config import MAX_LAYERS
from mxlab.models.layer_sets import LayerRule, by_mlp_type

_ATTENDING = ("full_attention", "sliding_attention", "attention")
_RECURRENT = ("linear_attention", "mamba", "recurrent", "conv")


def _known(build: Build, key: str, names: Sequence[str], known: Sequence[str]) -> None:
    for index, name in enumerate(names):
        if name not in known:
            raise InputError(
                f"{build.config.at(key)}[{index}] is {quote(name)}: "
                f"expected one of {', '.join(known)}"
            )


def _pick(build: Build, attends: Sequence[bool], wanted: bool) -> tuple[int, ...]:
    return tuple(
        index for index, found in zip(build.layers, attends, strict=False) if found is wanted
    )


def _by_type(build: Build) -> tuple[bool, ...] | None:
    """Tell for each layer whether it attends, by ``layer_types``; None when absent."""
    types = build.per_layer("layer_types")
    if types is None:
        return None
    _known(build, "layer_types", types, (*_ATTENDING, *_RECURRENT))
    return tuple(name in _ATTENDING for name in types)


def typed(*, attends: bool) -> LayerRule:
    """Return the rule for the layers that attend, or for all the others."""

    def chosen(build: Build) -> tuple[int, ...]:
        found = _by_type(build)
        if found is None:
            build.lacks("layer_types")
            return ()
        return _pick(build, found, attends)

    return chosen


def by_index(*, attends: bool) -> LayerRule:
    """Return LFM2's rule: ``layer_types``, else ``full_attn_idxs``; without either all attend."""

    def chosen(build: Build) -> tuple[int, ...]:
        found = _by_type(build)
        if found is None:
            listed = build.config.numbers("full_attn_idxs")
            if listed is None:
                build.derive("every layer attends (layer_types and full_attn_idxs absent)")
            indices = frozenset(listed if listed is not None else build.layers)
            found = tuple(index in indices for index in build.layers)
        return _pick(build, found, attends)

    return chosen


def by_period(kind: str, *, within: bool = True) -> LayerRule:
    """Return Jamba's rule: each ``{kind}_layer_period``th layer from ``{kind}_layer_offset`` on."""

    def chosen(build: Build) -> tuple[int, ...]:
        period = build.config.whole(f"{kind}_layer_period", 1, MAX_LAYERS)
        offset = build.config.whole(f"{kind}_layer_offset", 0, MAX_LAYERS)
        for name, value in (("period", period), ("offset", offset)):
            if value is None:
                build.lacks(f"{kind}_layer_{name}")
        if period is None or offset is None:
            return ()
        return _pick(build, [index % period == offset for index in build.layers], within)

    return chosen


def jamba_experts(build: Build) -> tuple[int, ...]:
    """Return Jamba's layers with several experts; none where the model has one."""
    if build.optional("num_experts") == 1:
        return ()
    return by_period("expert")(build)


def by_attention_list(*, attends: bool) -> LayerRule:
    """Return MiniMax-Text-01's rule: ``attn_type_list`` (1 attends), else ``layer_types``."""

    def chosen(build: Build) -> tuple[int, ...]:
        flags = build.switches("attn_type_list")
        if flags is None:
            return typed(attends=attends)(build)
        for index, flag in enumerate(flags):
            if flag not in (0, 1):
                at = build.config.at("attn_type_list")
                raise InputError(f"{at}[{index}] is {flag}: expected 0 or 1")
        return _pick(build, [flag == 1 for flag in flags], attends)

    return chosen


def by_linear_config(*, attends: bool) -> LayerRule:
    """Return Kimi-Linear's rule: the lists in ``linear_attn_config`` count from 1."""

    def chosen(build: Build) -> tuple[int, ...]:
        inner = build.config.section("linear_attn_config")
        listed = inner.numbers("kda_layers") if inner else None
        if listed is None:
            return typed(attends=attends)(build)
        recurrent = frozenset(listed)
        return _pick(build, [index + 1 not in recurrent for index in build.layers], attends)

    return chosen


def by_repeated(*, attends: bool) -> LayerRule:
    """Return RecurrentGemma's rule: ``block_types`` (or ``_block_types``) over and over."""

    def chosen(build: Build) -> tuple[int, ...]:
        unit = build.config.words("block_types")
        if not unit:
            build.lacks("block_types")
            return ()
        _known(build, "block_types", unit, ("recurrent", "attention"))
        types = [unit[index % len(unit)] for index in build.layers]
        return _pick(build, [name == "attention" for name in types], attends)

    return chosen


def with_shared_block(*, shared: bool) -> LayerRule:
    """Return Zamba's rule: the layers that also run the shared attention block, or the others."""

    def chosen(build: Build) -> tuple[int, ...]:
        types = build.per_layer("layers_block_type")
        if types is None:
            build.lacks("layers_block_type")
            return ()
        _known(build, "layers_block_type", types, ("mamba", "linear_attention", "hybrid"))
        return _pick(build, [name == "hybrid" for name in types], shared)

    return chosen


def by_mlp_type_or_dense(build: Build) -> tuple[int, ...]:
    """Return the expert layers by ``mlp_layer_types``, else from ``first_k_dense_replace`` on."""
    if build.config.get("mlp_layer_types") is not None:
        return by_mlp_type(build)
    return build.layers[build.size("first_k_dense_replace", 0) :]


def by_mlp_type_or_all(build: Build) -> tuple[int, ...]:
    """Return the expert layers by ``mlp_layer_types``; all where it is absent."""
    if build.config.get("mlp_layer_types") is not None:
        return by_mlp_type(build)
    first = build.optional("first_k_dense_replace", 0) or 0
    build.derive(f"layers from {first} on have experts (mlp_layer_types absent)")
    return build.layers[first:]
