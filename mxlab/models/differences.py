"""What a recipe derives held against the stored weights: where they differ the stored ones win."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from mxlab.checkpoints.names import fold
from mxlab.models.build import Build, layer_ranges
from mxlab.models.by_name import Group, Modules, add_group, gather
from mxlab.models.conventions import (
    HEADS,
    KEYS,
    ROUTERS,
    HeadCounts,
    in_tower,
    is_embedding,
)
from mxlab.models.linear import Linear
from mxlab.models.sharding import padded_vocabulary

#: where checkpoints and model classes keep the decoder: the same weight under several prefixes
_PREFIXES = (
    "",
    "model.",
    "transformer.",
    "backbone.",
    "language_model.",
    "language_model.model.",
    "model.language_model.",
    "model.text_model.",
    "thinker.model.language_model.",
    "thinker.",
    "text_model.",
    "vit.",
    "bert.",
    "roberta.",
)

Size = tuple[int, int]
Key = tuple[str, int | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One linear whose stored shape (N, K) is not the derived one.

    ``stored`` is None where no weight is stored for it.
    """

    name: str
    layers: tuple[int, ...]
    stored: Size | None
    derived: Size
    experts: tuple[int, int] | None = None  # stored and derived counts, where they differ

    def text(self) -> str:
        """Return the difference as one line."""
        where = f" (layers {layer_ranges(self.layers)})" if self.layers else ""
        if self.stored is None:
            return f"{self.name}{where}: the config gives {self.derived}, no weight is stored"
        if self.experts:
            counts = "{} experts, the config gives {}".format(*self.experts)
            return f"{self.name}{where}: stored {self.stored} of {counts}"
        return f"{self.name}{where}: stored {self.stored}, the config gives {self.derived}"

    def to_json(self) -> dict[str, Any]:
        """Return a JSON object."""
        return {
            "name": self.name,
            "layers": list(self.layers),
            "stored": list(self.stored) if self.stored else None,
            "derived": list(self.derived),
            **({"experts": list(self.experts)} if self.experts else {}),
        }


def tail(module: str) -> str:
    """Return a module's name without the prefix that differs between copies of one model.

    >>> tail("model.language_model.layers.{layer}.mlp.up_proj")
    'layers.{layer}.mlp.up_proj'
    >>> tail("model.vision_tower.encoder.layers.{layer}.mlp.fc1")
    'visual.mlp.fc1'
    """
    if in_tower(module) and "{layer}." in module:
        return "visual." + module.rpartition("{layer}.")[2]
    return module[max(len(p) for p in _PREFIXES if module.startswith(p)) :]


def _owners(derived: Sequence[Linear]) -> dict[Key, int]:
    """Return under which (name, layer) the weights of each derived row may be stored."""
    owner: dict[Key, int] = {}
    for index, row in enumerate(derived):
        outer, _, fused = row.path.rpartition(".")
        if row.kind == "moe":
            names = [row.linear.rpartition(".")[2]]  # w13 or w2, whatever the module is called
        else:
            leaves = (*(source.rpartition(".")[2] for source in row.sources), fused)
            names = [tail(f"{outer}.{leaf}" if outer else leaf) for leaf in leaves]
        if row.linear == "router":
            names.append("router")
        if not row.indices:  # an index in its path (merger.mlp.2) is folded like a layer's
            for name in names:
                folded = fold(name)
                owner.setdefault((folded.pattern, _index(folded.layer)), index)
        for layer in row.indices:
            for name in names:
                owner.setdefault((name, layer), index)
    return owner


def _index(text: str | None) -> int | None:
    return None if text is None else int(text)


def _owner(owner: Mapping[Key, int], outer: str, leaf: str, layer: int | None) -> int | None:
    name = tail(f"{outer}.{leaf}" if outer else leaf)
    if (name, layer) not in owner and leaf in ROUTERS:
        name = "router"  # model classes disagree on the module that holds it
    return owner.get((name, layer))


def _match(
    modules: Modules, derived: Sequence[Linear]
) -> tuple[dict[int, list[Group]], list[Group]]:
    """Return derived row -> its stored groups, and the groups that no row is made of."""
    owner = _owners(derived)
    mine: dict[tuple[int, int | None], dict[str, Size]] = {}
    groups: dict[int, list[Group]] = {}
    spare: list[Group] = []
    for (outer, text), leaves in modules.leaves.items():
        layer = _index(text)
        if (outer, text) in modules.experts:
            for group in modules.of(outer, text, leaves):
                at = owner.get((group.leaf, layer))
                (spare if at is None else groups.setdefault(at, [])).append(group)
            continue
        rest: dict[str, Size] = {}
        for leaf, size in leaves.items():
            at = _owner(owner, outer, leaf, layer)
            if at is None:
                rest[leaf] = size
            else:  # a row without layers may have an index in its path
                own = layer if derived[at].indices else None
                mine.setdefault((at, own), {})[leaf] = size
        spare += modules.of(outer, text, rest)
    for (at, layer), sizes in mine.items():
        row = derived[at]
        order = _order(row)
        leaves_ = [leaf for leaf in order if leaf in sizes] or list(sizes)  # k = v counts twice
        depths = [sizes[leaf][1] for leaf in leaves_]
        group = Group(
            path=row.path,
            members=tuple((leaf, sizes[leaf][0]) for leaf in leaves_),
            k=next((k for k in depths if k != row.k), depths[0]),
            indices=[] if layer is None else [layer],
        )
        groups.setdefault(at, []).append(group)
    return {at: gather(found) for at, found in groups.items()}, gather(spare)


def _order(row: Linear) -> list[str]:
    """Return the leaves under which a row's members are stored."""
    return [source.rpartition(".")[2] for source in row.sources]


def _missing(group: Group, row: Linear) -> list[tuple[str, int]]:
    """Return the members (leaf, width) of a fused row that are not stored beside the others."""
    order, stored = _order(row), {leaf for leaf, _ in group.members}
    if group.experts or len(order) != len(row.parts) or stored.isdisjoint(order):
        return []
    pairs = zip(order, row.parts, strict=True)
    return [(leaf, width) for leaf, width in pairs if leaf not in stored]


def _same(group: Group, row: Linear) -> bool:
    """Tell whether a stored group has the shape of the derived row that it belongs to.

    A row may have parts that nothing is stored for, after those that are (Gemma's shared KV).
    """
    widths = tuple(width for _, width in group.members)
    stored = sum(widths)
    if group.k != row.k or group.experts not in (None, row.experts):
        return False
    if row.kind == "lm_head":
        return padded_vocabulary(stored, 1) == row.n
    order = _order(row)
    if _missing(group, row):
        expected = dict(zip(order, row.parts, strict=True))
        return all(expected.get(leaf, width) == width for leaf, width in group.members)
    if len(widths) == len(row.parts):
        return widths == row.parts
    return stored == row.n or (len(widths) == len(order) and widths == row.parts[: len(widths)])


def compare(
    build: Build,
    derived: Sequence[Linear],
    modules: Modules,
    heads: HeadCounts,
    partial: bool,
) -> tuple[list[Difference], list[Group]]:
    """Hold ``derived``, the rows at TP 1, against the stored weights.

    Return what differs, and the stored groups that no row is made of. Stored shapes replace
    derived ones in ``build.rows``: the rows of one rank in the same order.
    """
    matched, spare = _match(modules, derived)
    found: list[Difference] = []
    seen: set[tuple[int, int | None]] = set()
    changed: dict[int, list[Group]] = {}
    for at, groups in sorted(matched.items()):
        row = derived[at]
        for group in groups:
            seen.update((at, layer) for layer in group.indices or (None,))
            found += [
                Difference(
                    name=f"{row.linear}, its {leaf}",
                    layers=tuple(sorted(group.indices)),
                    stored=None,
                    derived=(width, row.k or 0),
                )
                for leaf, width in _missing(group, row)
                if not partial
            ]
            if row.n is None or row.k is None or _same(group, row):
                continue
            counts = (group.experts or 0, row.experts or 0)
            found.append(
                Difference(
                    name=row.linear,
                    layers=tuple(sorted(group.indices)),
                    stored=(sum(width for _, width in group.members), group.k),
                    derived=(row.n, row.k),
                    experts=counts if counts[0] and counts[0] != counts[1] else None,
                )
            )
            changed.setdefault(at, []).append(replace(group, shard=row.shard))
            if any(leaf in KEYS for leaf, _ in group.members) and row.path.endswith("qkv_proj"):
                build.unknown.append(
                    f"KV cache ({found[-1].text()}: head_dim or the number of KV heads is another)"
                )
    if not partial:
        found += _absent(derived, seen)
    _put(build, changed, heads)
    return found, spare


def _absent(derived: Sequence[Linear], seen: set[tuple[int, int | None]]) -> list[Difference]:
    """Return the derived rows without a stored weight; a tied output head has none."""
    found = []
    for index, row in enumerate(derived):
        layers: Sequence[int | None] = row.indices or (None,)
        missing = [layer for layer in layers if (index, layer) not in seen]
        if not missing or row.n is None or row.k is None or "(tied)" in row.sources[0]:
            continue
        where = tuple(layer for layer in missing if layer is not None)
        size = (row.n, row.k)
        found.append(Difference(name=row.linear, layers=where, stored=None, derived=size))
    return found


def _put(build: Build, changed: dict[int, list[Group]], heads: HeadCounts) -> None:
    """Replace rows of the build by stored groups, layer by layer."""
    rows: list[Linear] = []
    for index, row in enumerate(build.rows):
        groups = changed.get(index)
        if not groups:
            rows.append(row)
            continue
        gone = {layer for group in groups for layer in group.indices}
        kept = tuple(layer for layer in row.indices if layer not in gone)
        if kept:
            rows.append(replace(row, indices=kept, layers=len(kept)))
        build.rows = []
        for group in groups:
            add_group(build, group, row.linear, heads)
        rows += [
            replace(
                real,
                path=row.path,
                kind=row.kind,
                sources=row.sources,
            )
            for real in build.rows
        ]
    build.rows = rows


def names_that_differ(
    modules: Modules, derived: Sequence[Linear]
) -> tuple[list[Difference], list[str]]:
    """Return the rows that an index has no name for, and the names that no row is made of."""
    named = {tail(pattern): pattern for pattern in modules.nameless}
    known: set[str] = set()
    found: list[Difference] = []
    for row in derived:
        if row.kind != "linear" or row.n is None or row.k is None:
            continue
        outer, _, fused = row.path.rpartition(".")
        leaves = (*(source.rpartition(".")[2] for source in row.sources), fused)
        mine = [fold(tail(f"{outer}.{leaf}" if outer else leaf)).pattern for leaf in leaves]
        known.update(mine)
        if named and named.keys().isdisjoint(mine):
            size = (row.n, row.k)
            found.append(Difference(name=row.linear, layers=row.indices, stored=None, derived=size))
    spare = [
        pattern
        for name, pattern in sorted(named.items())
        if name not in known and "experts" not in pattern and not _other(pattern)
    ]
    return found, spare


def _other(pattern: str) -> bool:
    leaf = pattern.rpartition(".")[2]
    return leaf in ROUTERS or leaf in HEADS or is_embedding(leaf)
