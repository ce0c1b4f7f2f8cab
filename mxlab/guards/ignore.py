"""Which layers a checkpoint leaves unquantised, by SGLang's rules for ``ignored_layers``."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from mxlab.errors import InputError, quote

#: fused leaf -> its members, where the config ships no packed_modules_mapping
FUSED: Mapping[str, tuple[str, ...]] = {
    "qkv_proj": ("q_proj", "k_proj", "v_proj"),
    "gate_up_proj": ("gate_proj", "up_proj"),
}

_MAX_ENTRIES = 200_000
_MAX_NAME = 1_000


class MixedShards(ValueError):
    """Some but not all members of a fused layer are ignored: guard ``cfg-fused-skip``."""


class EmptyShards(AssertionError):
    """The fused mapping lists no members: an assertion without text in SGLang."""


def matches(entry: str, prefix: str) -> bool:
    """Tell whether an ignored entry covers a module path, on dotted boundaries.

    >>> matches("mlp.gate", "model.layers.0.mlp.gate_up_proj"), matches("layers.0", "m.layers.0.x")
    (False, True)
    """
    entry, prefix = entry.rstrip("."), prefix.rstrip(".")
    if entry == prefix or prefix.startswith(entry + "."):
        return True
    return f".{entry}." in f".{prefix}."


@dataclass(frozen=True, slots=True)
class Entries:
    """The ignored entries, arranged so that a layer is looked up and not compared with each."""

    exact: frozenset[str]
    names: frozenset[str]  # without trailing dots
    experts: str  # the entries that contain "experts", one a line

    @classmethod
    def of(cls, entries: Iterable[str]) -> "Entries":
        """Arrange a list as ``ignored_layers`` returns it."""
        exact = frozenset(entries)
        experts = "\n".join(entry for entry in exact if "experts" in entry)
        return cls(exact, frozenset(entry.rstrip(".") for entry in exact), experts)

    def cover(self, prefix: str) -> bool:
        """Tell whether some entry covers the path: ``matches`` for all entries at once."""
        if not self.names:
            return False
        parts = prefix.rstrip(".").split(".")
        ends = range(1, len(parts) + 1)
        runs = (".".join(parts[first:end]) for end in ends for first in range(end))
        return any(run in self.names for run in runs)


def is_layer_skipped(
    prefix: str,
    ignored_layers: Sequence[str] | Entries,
    fused_mapping: Mapping[str, Sequence[str]] | None = None,
) -> bool:
    """Tell whether the layer at ``prefix`` stays unquantised.

    Raises MixedShards where SGLang raises ValueError, EmptyShards where it asserts. Source: sglang
    0.5.23, srt/layers/quantization/utils.py:73.

    >>> is_layer_skipped("model.layers.0.self_attn.qkv_proj", ["model.layers.0"])
    True
    """
    ignored = ignored_layers if isinstance(ignored_layers, Entries) else Entries.of(ignored_layers)
    leaf = prefix.split(".")[-1]
    mapping = fused_mapping if fused_mapping and leaf in fused_mapping else FUSED
    if leaf in mapping:
        # every occurrence of the leaf's name is replaced, not only the last component
        shards = [prefix.replace(leaf, name) for name in mapping[leaf]]
        found = {ignored.cover(shard) for shard in shards}
        if not found:
            raise EmptyShards
        if len(found) > 1:
            raise MixedShards(
                f"Detected some but not all shards of {prefix} are quantized. All shards of fused "
                "layers to have the same precision."
            )
        return found.pop()
    skipped = ignored.cover(prefix)
    if "gate_up_proj" in prefix:
        members = [prefix.replace("gate_up_proj", name) for name in ("gate_proj", "up_proj")]
        return skipped or all(member in ignored.exact for member in members)
    if "experts" in prefix:
        return skipped or prefix in ignored.experts
    return skipped


def ignored_layers(config: Mapping[str, object], env: Mapping[str, str] | None = None) -> list[str]:
    """Return the entries as SGLang stores them: each with and without ``model.``.

    ``config`` is a quantization_config after the ModelOpt rewrite. Raises InputError where the list
    is not one of names. Source: sglang 0.5.23, fp8.py:355, 290.

    >>> ignored_layers({"modules_to_not_convert": ["model.lm_head"]})
    ['lm_head', 'model.lm_head']
    """
    key = "ignored_layers" if "ignored_layers" in config else "modules_to_not_convert"
    names = config.get(key)
    if names is None:
        names = []
    if not isinstance(names, list | tuple) or len(names) > _MAX_ENTRIES:
        raise InputError(f"quantization_config.{key} is {quote(names)}: expected a list of names")
    stored: list[str] = []
    for name in names:
        if not isinstance(name, str) or len(name) > _MAX_NAME:
            raise InputError(
                f"quantization_config.{key} holds {quote(name)}: expected module names"
            )
        base = name.removeprefix("model.")
        stored += [base, f"model.{base}"]
    extra = (env or {}).get("SGLANG_FP8_IGNORED_LAYERS", "")
    return stored + [name.strip() for name in extra.split(",") if name.strip()]
