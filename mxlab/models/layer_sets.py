"""Which decoder layers have what: the rules by which configs say so.

Each rule takes the build and returns layer indices. Sources: the config classes of transformers
5.24.0 and the model files of SGLang 0.5.23.
"""

from collections.abc import Callable

from mxlab.errors import InputError, quote
from mxlab.models.build import Build, layer_ranges
from mxlab.models.config import MAX_LAYERS

LayerRule = Callable[[Build], tuple[int, ...]]

#: layer types whose attention is the ordinary one with a window or without; same weights
_SOFTMAX = ("full_attention", "sliding_attention", "chunked_attention", "attention")


def every(build: Build) -> tuple[int, ...]:
    """All layers."""
    return build.layers


def none(build: Build) -> tuple[int, ...]:
    """No layer."""
    return ()


def softmax_attention(build: Build) -> tuple[int, ...]:
    """Return the layers with ordinary attention; a layer type without a rule becomes unknown."""
    types = build.per_layer("layer_types")
    if types is None:
        return build.layers
    other: dict[str, list[int]] = {}
    for index, name in enumerate(types):
        if name not in _SOFTMAX:
            other.setdefault(name, []).append(index)
    for name, indices in other.items():
        build.unknown.append(
            f"layers {layer_ranges(indices)}: attention (no rule for layer type {quote(name)})"
        )
    return tuple(index for index, name in enumerate(types) if name in _SOFTMAX)


def _hybrid(build: Build) -> tuple[str, ...]:
    """Return the layer types of a model that mixes full and linear attention."""
    known = ("full_attention", "linear_attention")
    types = build.per_layer("layer_types")
    if types is not None:
        for index, name in enumerate(types):
            if name not in known:
                raise InputError(
                    f"{build.config.at('layer_types')}[{index}] is {quote(name)}: "
                    f"expected one of {', '.join(known)}"
                )
        return types
    interval = build.config.whole("full_attention_interval", 1, MAX_LAYERS)
    if interval is None:
        build.lacks("layer_types")
        return ()
    build.derive(f"layer_types = full_attention every {interval} layers (full_attention_interval)")
    return tuple(known[(index + 1) % interval > 0] for index in build.layers)


def full_attention(build: Build) -> tuple[int, ...]:
    """Return the layers of a hybrid model that keep keys and values."""
    return tuple(i for i, name in enumerate(_hybrid(build)) if name == "full_attention")


def linear_attention(build: Build) -> tuple[int, ...]:
    """Return the layers of a hybrid model with a recurrent state."""
    return tuple(i for i, name in enumerate(_hybrid(build)) if name == "linear_attention")


def after_dense(build: Build) -> tuple[int, ...]:
    """Return the expert layers of DeepSeek and GLM: from ``first_k_dense_replace`` on."""
    config = build.config
    if config.named("n_routed_experts") and config.get("n_routed_experts") is None:
        build.derive("no expert layers (n_routed_experts is null)")
        return ()
    first = build.size("first_k_dense_replace", 0)
    if isinstance(config.get("moe_layer_freq"), list):  # the flag-a-layer spelling
        return by_flag(build)
    step = config.whole("moe_layer_freq", 1, MAX_LAYERS) or 1
    return tuple(i for i in build.layers if i >= first and i % step == 0)


def by_flag(build: Build) -> tuple[int, ...]:
    """Return the expert layers where ``moe_layer_freq`` is a flag a layer; all when absent."""
    flags = build.switches("moe_layer_freq")
    if flags is None:
        build.derive("every layer has experts (moe_layer_freq absent)")
        return build.layers
    return tuple(index for index, flag in enumerate(flags) if flag)


def by_sparse_step(build: Build) -> tuple[int, ...]:
    """Return the expert layers of Qwen: each ``decoder_sparse_step``th, not ``mlp_only_layers``."""
    config = build.config
    step = config.whole("decoder_sparse_step", 1, MAX_LAYERS)
    if step is None:
        build.derive("every layer has experts (decoder_sparse_step absent)")
    dense = frozenset(config.numbers("mlp_only_layers") or ())
    return tuple(i for i in build.layers if i not in dense and (i + 1) % (step or 1) == 0)


def by_interleave(build: Build) -> tuple[int, ...]:
    """Return the expert layers of Llama-4: each ``interleave_moe_layer_step``th."""
    listed = build.config.numbers("moe_layers")
    if listed is not None:
        chosen = frozenset(listed)
        return tuple(index for index in build.layers if index in chosen)
    step = build.size("interleave_moe_layer_step", 0)
    return tuple(i for i in build.layers if step == 0 or (i + 1) % step == 0)


def without(rule: LayerRule) -> LayerRule:
    """Return the rule for all the other layers."""

    def others(build: Build) -> tuple[int, ...]:
        has = frozenset(rule(build))
        return tuple(index for index in build.layers if index not in has)

    return others


def by_pattern(letter: str) -> LayerRule:
    """Return the rule for one letter of Nemotron-H's ``hybrid_override_pattern``."""

    def lettered(build: Build) -> tuple[int, ...]:
        pattern = build.config.text("hybrid_override_pattern")
        if pattern is None:
            build.lacks("hybrid_override_pattern")
            return ()
        if not build.missing and len(pattern) != build.depth:
            raise InputError(
                f"{build.config.at('hybrid_override_pattern')} has {len(pattern)} letters: "
                f"expected num_hidden_layers = {build.depth}"
            )
        for position, found in enumerate(pattern):
            if found not in "M*-E":
                raise InputError(
                    f"{build.config.at('hybrid_override_pattern')}[{position}] is "
                    f"{quote(found)}: expected M, *, - or E"
                )
        experts = tuple(index for index, found in enumerate(pattern) if found == "E")
        unknown = f"layers {layer_ranges(experts)}: experts (no rule for Nemotron-H's E layers)"
        if experts and unknown not in build.unknown:
            build.unknown.append(unknown)
        return tuple(index for index, found in enumerate(pattern) if found == letter)

    return lettered
