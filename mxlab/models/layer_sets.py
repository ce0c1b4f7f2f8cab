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
    if config.get("mlp_layer_types") is not None:  # as transformers 5 saves it
        return by_mlp_type(build)
    first = build.size("first_k_dense_replace", 0)
    if isinstance(config.get("moe_layer_freq"), list):  # the flag-a-layer spelling
        return by_flag(build)
    step = config.whole("moe_layer_freq", 1, MAX_LAYERS) or 1
    return tuple(i for i in build.layers if i >= first and i % step == 0)


_EXPERTS = ("sparse", "moe", "hash_moe")


def by_mlp_type(build: Build) -> tuple[int, ...]:
    """Return the expert layers by ``mlp_layer_types``; all but the first where it is absent.

    Source: the config classes of Hy4 and MiMo-V2.
    """
    types = build.per_layer("mlp_layer_types")
    if types is None:
        build.derive("layer 0 is dense, all others have experts (mlp_layer_types absent)")
        return build.layers[1:]
    for index, name in enumerate(types):
        if name not in ("dense", *_EXPERTS):
            raise InputError(
                f"{build.config.at('mlp_layer_types')}[{index}] is {quote(name)}: "
                f"expected dense or one of {', '.join(_EXPERTS)}"
            )
    return tuple(index for index, name in enumerate(types) if name in _EXPERTS)


def by_flag_or_type(build: Build) -> tuple[int, ...]:
    """Return MiMo-V2's expert layers: a flag a layer, or ``mlp_layer_types``."""
    return by_mlp_type(build) if build.config.get("moe_layer_freq") is None else by_flag(build)


def _windowed(build: Build) -> frozenset[int]:
    """Return the layers with a window, by ``hybrid_layer_pattern`` or ``layer_types``."""
    flags = build.switches("hybrid_layer_pattern")
    if flags is not None:
        return frozenset(index for index, flag in enumerate(flags) if flag)
    types = build.per_layer("layer_types")
    if types is None:
        build.lacks("layer_types")
        return frozenset()
    return frozenset(index for index, name in enumerate(types) if name == "sliding_attention")


def sliding(build: Build) -> tuple[int, ...]:
    """Return the layers with a sliding window."""
    return tuple(sorted(_windowed(build)))


def full(build: Build) -> tuple[int, ...]:
    """Return the layers that attend to everything."""
    windowed = _windowed(build)
    return tuple(index for index in build.layers if index not in windowed)


def indexed(build: Build) -> tuple[int, ...]:
    """Return the layers that choose their own top-k (DSA); the others reuse the layer before's.

    Source: sglang 0.5.23, srt/configs/model_config.py:488 (dsa_layer_skips_topk).
    """
    config = build.config
    types = build.per_layer("indexer_types")
    if types is not None:
        return tuple(index for index, name in enumerate(types) if name != "shared")
    every_nth = config.whole("cli_factor", 1, MAX_LAYERS) or 1
    if every_nth > 1:
        return tuple(index for index in build.layers if index % every_nth == 0)
    pattern = config.get("index_topk_pattern")
    if pattern is not None:
        letters = config.text("index_topk_pattern") or ""
        return tuple(i for i in build.layers if letters[i : i + 1] != "S")
    step = config.whole("index_topk_freq", 1, MAX_LAYERS) or 1
    offset = config.whole("index_skip_topk_offset", 1, MAX_LAYERS) or 2
    return tuple(i for i in build.layers if max(i - offset + 1, 0) % step == 0)


def indexed_by_four(build: Build) -> tuple[int, ...]:
    """Return Hy4's layers with an indexer: layers 0, 1, 5, 9, ... where no list says so."""
    if build.config.get("indexer_types") is not None:
        return indexed(build)
    build.derive("an indexer in layer 0 and in every fourth from layer 1 (indexer_types absent)")
    return tuple(i for i in build.layers if i == 0 or i % 4 == 1)


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


def after_num_dense(build: Build) -> tuple[int, ...]:
    """Return AFMoE's expert layers: all after ``num_dense_layers``."""
    return build.layers[build.size("num_dense_layers", 0) :]


def within_range(build: Build) -> tuple[int, ...]:
    """Return ERNIE-4.5's expert layers: from start to end, each ``moe_layer_interval``th."""
    config = build.config
    step = config.whole("moe_layer_interval", 1, MAX_LAYERS) or 1
    first = build.size("moe_layer_start_index", 0)
    last = config.get("moe_layer_end_index")
    if last in (None, -1):
        build.derive("experts up to the last layer (moe_layer_end_index absent or -1)")
        end = build.depth - 1
    else:
        end = config.whole("moe_layer_end_index", 0, MAX_LAYERS) or 0
    return tuple(i for i in build.layers if first <= i <= end and (i + 1) % step == 0)


def by_mixer(kind: str) -> LayerRule:
    """Return the rule for mamba or attention, of models that say so by name or by index."""

    def chosen(build: Build) -> tuple[int, ...]:
        types = build.per_layer("layer_types") or build.per_layer("layers_block_type")
        if types is None:
            attending = build.config.numbers("attn_layer_indices")
            if attending is None:
                build.lacks("layer_types")
                return ()
            types = tuple(
                "attention" if index in frozenset(attending) else "mamba" for index in build.layers
            )
        for index, name in enumerate(types):
            if _LETTERS.get(name) not in ("M", "*"):
                raise InputError(
                    f"{build.config.at('layer_types')}[{index}] is {quote(name)}: "
                    "expected mamba or attention"
                )
        letter = "M" if kind == "mamba" else "*"
        return tuple(index for index, name in enumerate(types) if _LETTERS[name] == letter)

    return chosen


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


_LETTERS = {
    **dict.fromkeys(("mamba", "mamba2", "linear_attention"), "M"),
    **dict.fromkeys(("attention", "full_attention"), "*"),
    **dict.fromkeys(("mlp", "dense"), "-"),
    "moe": "E",
}


def _pattern(build: Build) -> str | None:
    """Return Nemotron-H's letter of every layer; transformers 5 saves names instead."""
    pattern = build.config.text("hybrid_override_pattern")
    if pattern is not None:
        return pattern
    for key in ("layers_block_type", "layer_types"):
        names = build.config.words(key)
        if names is not None:
            return "".join(_LETTERS.get(name, "?") for name in names)
    build.lacks("hybrid_override_pattern")
    return None


def by_pattern(letter: str) -> LayerRule:
    """Return the rule for one letter of Nemotron-H's ``hybrid_override_pattern``."""

    def lettered(build: Build) -> tuple[int, ...]:
        pattern = _pattern(build)
        if pattern is None:
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
        return tuple(index for index, found in enumerate(pattern) if found == letter)

    return lettered
