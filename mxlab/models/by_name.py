"""The linears of one rank from stored weights: their real shapes, folded and fused by name."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from mxlab.checkpoints.names import Folded, fold
from mxlab.models.build import Build, Shape
from mxlab.models.conventions import (
    FUSED,
    FUSED_ON_DISK,
    KEYS,
    OUTPUTS,
    QUERIES,
    HeadCounts,
    in_tower,
    is_embedding,
    kind_of,
)
from mxlab.models.model import Stored
from mxlab.models.sharding import Indivisible, divide, kv_heads, padded_vocabulary

_GATES, _UPS, _DOWNS = ("gate_proj", "w1"), ("up_proj", "w3"), ("down_proj", "w2")


@dataclass(slots=True, kw_only=True)
class Group:
    """Weights of one name and one shape, over the layers that have them, before any split."""

    path: str  # with {layer}, its leaf that of the fused linear
    members: tuple[tuple[str, int], ...]  # (leaf, width along N)
    k: int
    indices: list[int] = field(default_factory=list)
    count: int = 0
    experts: int | None = None
    shard: str = ""  # what a recipe says; "" asks the name

    @property
    def leaf(self) -> str:
        """Last part of the path."""
        return self.path.rpartition(".")[2]

    def shape(self, tp: int, heads: HeadCounts) -> Shape:
        """Return the parts along N and K on one of ``tp`` ranks; raise Indivisible."""
        if in_tower(self.path):
            heads = HeadCounts()
        shard = self.shard or kind_of(self.leaf)[1]
        if shard == "column":
            members = _opened(self.members, heads)
            return [_column(leaf, width, tp, heads) for leaf, width in members], self.k
        widths = [width for _, width in self.members]
        if shard == "row":
            return widths, _row(self.path, self.k, tp, heads)
        if shard == "vocab":
            return [padded_vocabulary(sum(widths), tp) // tp], self.k
        return widths, self.k


def _opened(members: tuple[tuple[str, int], ...], heads: HeadCounts) -> tuple[tuple[str, int], ...]:
    """Return the members of a linear that is fused on disk too, where their widths follow."""
    leaf, width = members[0]
    if len(members) > 1:
        return members
    if leaf == "gate_up_proj" and width % 2 == 0:
        return (("gate_proj", width // 2), ("up_proj", width // 2))
    if leaf in FUSED_ON_DISK and heads.queries and heads.keys:
        unit, rest = divmod(width, heads.queries + 2 * heads.keys)
        if not rest:
            keys = unit * heads.keys
            return (("q_proj", unit * heads.queries), ("k_proj", keys), ("v_proj", keys))
    return members


def _column(leaf: str, width: int, tp: int, heads: HeadCounts) -> int:
    if leaf in QUERIES and heads.queries and width % heads.queries == 0:
        return divide("num_attention_heads", heads.queries, tp) * (width // heads.queries)
    if leaf in KEYS and heads.keys and width % heads.keys == 0:
        return kv_heads(heads.keys, tp) * (width // heads.keys)
    return divide(f"N of {leaf}", width, tp)


def _row(path: str, k: int, tp: int, heads: HeadCounts) -> int:
    *outer, leaf = path.split(".")
    attention = leaf in OUTPUTS and any("attn" in part or "attention" in part for part in outer)
    if attention and heads.queries and k % heads.queries == 0:
        return divide("num_attention_heads", heads.queries, tp) * (k // heads.queries)
    return divide(f"K of {leaf}", k, tp)


def _upright(weight: Stored, leaf: str, hidden: int | None) -> tuple[int, int]:
    """Return (N, K) of a weight that may be stored as (K, N): GPT-2's, and stacks of experts."""
    n, k = weight.n or 0, weight.k or 0
    if hidden is None or not (leaf.startswith("c_") or weight.experts):
        return n, k
    down = kind_of(leaf)[1] == "row"
    turned = (k == hidden != n) if down else (n == hidden != k)
    return (k, n) if turned else (n, k)


def _fuse(leaves: dict[str, tuple[int, int]]) -> Iterable[tuple[str, tuple[str, ...]]]:
    """Yield (name of the linear, its members' leaves) for the weights of one module."""
    spent: set[str] = set()
    for leaf in leaves:
        if leaf in spent:
            continue
        for members, fused in FUSED:
            if leaf not in members or not all(member in leaves for member in members):
                continue
            if len({leaves[member][1] for member in members}) == 1:
                spent.update(members)
                yield fused, members
                break
        else:
            yield leaf, (leaf,)


def _expert_groups(
    outer: str, layer: str | None, leaves: dict[str, tuple[int, int]], experts: int
) -> Iterable[Group]:
    """Yield w13 and w2 of one layer's experts."""
    upper = [x for x in leaves if x in (*_GATES, *_UPS)]
    upper.sort(key=lambda leaf: leaf in _UPS)
    at = [int(layer)] if layer is not None else []
    for leaf, (n, k) in leaves.items():
        if leaf == "gate_up_proj" and n % 2 == 0:
            halves = (("gate", n // 2), ("up", n // 2))
            yield Group(path=f"{outer}.w13", members=halves, k=k, indices=at, experts=experts)
        elif leaf in _DOWNS:
            one = ((leaf, n),)
            yield Group(path=f"{outer}.w2", members=one, k=k, indices=at, experts=experts)
    if upper and len({leaves[leaf][1] for leaf in upper}) == 1:
        members = tuple((leaf, leaves[leaf][0]) for leaf in upper)
        k = leaves[upper[0]][1]
        yield Group(path=f"{outer}.w13", members=members, k=k, indices=at, experts=experts)


@dataclass(slots=True)
class Modules:
    """Stored weights by module and layer: leaf -> (N, K), upright.

    ``experts`` counts the experts of the modules that hold them, ``nameless`` how often a pattern
    is there whose shape is not known.
    """

    leaves: dict[tuple[str, str | None], dict[str, tuple[int, int]]] = field(default_factory=dict)
    experts: dict[tuple[str, str | None], int] = field(default_factory=dict)
    nameless: dict[str, int] = field(default_factory=dict)

    def groups(self) -> list[Group]:
        """Return the weights fused by convention and gathered over the layers."""
        return gather(
            group
            for (outer, layer), leaves in self.leaves.items()
            for group in self.of(outer, layer, leaves)
        )

    def of(
        self, outer: str, layer: str | None, leaves: dict[str, tuple[int, int]]
    ) -> Iterable[Group]:
        """Return the groups of one module of one layer."""
        count = self.experts.get((outer, layer))
        return (
            _expert_groups(outer, layer, leaves, count)
            if count
            else _linear_groups(outer, layer, leaves)
        )


def gather(groups: Iterable[Group]) -> list[Group]:
    """Return groups of one path and shape as one, over all their layers."""
    found: dict[tuple[object, ...], Group] = {}
    for group in groups:
        key = (group.path, group.members, group.k, group.experts)
        kept = found.get(key)
        if kept is None:
            found[key] = replace(group, indices=list(group.indices), count=1)
        else:
            kept.indices += group.indices
            kept.count += 1
    return list(found.values())


def modules_of(stored: Sequence[Stored], hidden: int | None) -> Modules:
    """Return the stored weights by module and layer; tables that are looked up are left out."""
    found = Modules()
    for weight in stored:
        folded: Folded = fold(weight.module)
        outer, _, leaf = folded.pattern.rpartition(".")
        if is_embedding(leaf) or is_embedding(outer.rpartition(".")[2]):
            continue
        if not weight.n or not weight.k:
            found.nameless[folded.pattern] = found.nameless.get(folded.pattern, 0) + 1
            continue
        single = folded.expert is not None and outer.endswith(".{expert}")
        if single or (weight.experts and outer.rpartition(".")[2] == "experts"):
            outer = outer.removesuffix(".{expert}")
            count = int(folded.expert or 0) + 1 if single else weight.experts or 1
            at = (outer, folded.layer)
            found.experts[at] = max(count, found.experts.get(at, 0))
        leaves = found.leaves.setdefault((outer, folded.layer), {})
        leaves.setdefault(leaf, _upright(weight, leaf, hidden))
    return found


def _linear_groups(
    outer: str, layer: str | None, leaves: dict[str, tuple[int, int]]
) -> Iterable[Group]:
    at = [int(layer)] if layer is not None else []
    for name, members in _fuse(leaves):
        path = f"{outer}.{name}" if outer else name
        widths = tuple((leaf, leaves[leaf][0]) for leaf in members)
        yield Group(path=path, members=widths, k=leaves[members[0]][1], indices=at)


def names_of(paths: Iterable[str]) -> dict[str, str]:
    """Return path -> the shortest ending that no other path shares; a tower's after ``visual.``.

    >>> names_of(["layers.{layer}.mlp.up_proj", "layers.{layer}.ffn.up_proj"])
    {'layers.{layer}.mlp.up_proj': 'mlp.up_proj', 'layers.{layer}.ffn.up_proj': 'ffn.up_proj'}
    """
    split = {path: path.split(".") for path in paths}
    times: dict[str, int] = {}
    for parts in split.values():
        for start in range(len(parts)):
            ending = ".".join(parts[start:])
            times[ending] = times.get(ending, 0) + 1
    found = {}
    for path, parts in split.items():
        start = len(parts) - 1 - (parts[-1] in ("w13", "w2") and len(parts) > 1)
        while start and (times[".".join(parts[start:])] > 1 or "{" in parts[start]):
            start -= 1
        ending = ".".join(parts[start:])
        found[path] = f"visual.{ending}" if in_tower(path) and not in_tower(ending) else ending
    return found


def add_group(build: Build, group: Group, name: str, heads: HeadCounts) -> bool:
    """Add the row of one group; tell whether its shard was guessed."""
    sources = tuple(leaf for leaf, _ in group.members)
    indices = tuple(sorted(group.indices))
    if group.experts:
        experts, tp = group.experts, build.tp // build.ep

        def one() -> Shape:
            if experts % build.ep:
                raise Indivisible(f"experts={experts} not divisible by ep={build.ep}")
            widths = [width for _, width in group.members]
            if group.leaf == "w2":
                return widths, divide("K of experts.w2", group.k, tp)
            return [divide("N of an expert's member", width, tp) for width in widths], group.k

        build.add(
            name,
            one,
            shard="row" if group.leaf == "w2" else "column",
            sources=sources,
            path=group.path.rpartition(".")[0],
            indices=indices,
            kind="moe",
            experts=experts,
            experts_per_rank=None if experts % build.ep else experts // build.ep,
            count=group.count,
        )
        return False
    kind, shard, guessed = kind_of(group.leaf)
    shard = group.shard or shard
    build.add(
        "lm_head" if kind == "lm_head" else name,
        lambda: group.shape(build.tp, heads),
        shard=shard,
        sources=sources,
        path=group.path,
        indices=indices,
        kind=kind,
        count=group.count,
    )
    return guessed and not group.shard
