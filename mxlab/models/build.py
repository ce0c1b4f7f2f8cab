"""The workbench on which a family's recipe lays out its rows."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from mxlab.errors import InputError
from mxlab.models.config import MAX_LAYERS, Section
from mxlab.models.linear import Linear
from mxlab.models.sharding import Indivisible, divide

#: what a recipe computes for one weight on one rank: the widths of its members along N, and K
Shape = tuple[Sequence[int], int]


#: key -> how transformers 5 spells it when it saves a config (the classes' attribute_map)
_SPELLINGS = {
    "num_experts": ("num_local_experts", "n_routed_experts"),
    "n_routed_experts": ("num_local_experts",),
    "num_local_experts": ("num_experts",),
    "head_dim": ("attention_head_dim",),
}


class MissingKeys(InputError):
    """A config lacks keys that its family needs."""


@dataclass(slots=True, kw_only=True)
class Build:
    """One config, one TP and EP size, and what was found so far.

    ``keys`` translates the field's names to the family's own (``hidden_size`` -> ``n_embd``).
    """

    config: Section
    tp: int
    ep: int
    block: str  # module path of one decoder layer: "model.layers.{layer}."
    keys: Mapping[str, str] = field(default_factory=dict)
    rows: list[Linear] = field(default_factory=list)
    derived: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    attn_dp: int = 1  # groups that each hold the attention whole (--attn-dp-size)

    @property
    def attn_tp(self) -> int:
        """Ranks that share one attention."""
        return self.tp // self.attn_dp

    def key(self, name: str) -> str:
        """Return the family's own key for a name of the field."""
        return self.keys.get(name, name)

    def lacks(self, key: str) -> None:
        """Note a missing key; the recipe runs on so that every missing key is named at once."""
        path = self.config.at(key)
        if path not in self.missing:
            self.missing.append(path)

    def size(self, name: str, low: int = 1) -> int:
        """Return a required size. When it is missing, note so and return a placeholder."""
        value = self.optional(name, low)
        if value is None:
            self.lacks(self.key(name))
            return 1
        return value

    def optional(self, name: str, low: int = 1) -> int | None:
        """Return a size that the config may lack, under the family's key or its other spelling."""
        key = self.key(name)
        for spelling in (key, *_SPELLINGS.get(key, ())):
            value = self.config.whole(spelling, low)
            if value is not None:
                return value
        return None

    def derive(self, text: str) -> None:
        """Say once what was derived rather than read."""
        if text not in self.derived:
            self.derived.append(text)

    @property
    def hidden(self) -> int:
        """Width of the residual stream."""
        return self.size("hidden_size")

    @property
    def depth(self) -> int:
        """Number of decoder layers."""
        key = self.key("num_hidden_layers")
        value = self.config.whole(key, 1, MAX_LAYERS)
        listed = self.config.words("layers_block_type") if value is None else None
        if listed and len(listed) <= MAX_LAYERS:
            self.derive(f"{key} = {len(listed)} (the entries of layers_block_type)")
            return len(listed)
        if value is None:
            self.lacks(key)
            return 1
        return value

    @property
    def layers(self) -> tuple[int, ...]:
        """Indices of all decoder layers."""
        return tuple(range(self.depth))

    def per_layer(self, key: str) -> tuple[str, ...] | None:
        """Return a list of one string a layer, None when absent."""
        return self.config.words(key, None if self.missing else self.depth)

    def switches(self, key: str, section: Section | None = None) -> tuple[int, ...] | None:
        """Return a list of one number a layer, None when absent."""
        return (section or self.config).numbers(key, None if self.missing else self.depth)

    def add(
        self,
        linear: str,
        shape: Callable[[], Shape],
        *,
        shard: str,
        sources: Sequence[str],
        path: str,
        indices: tuple[int, ...],
        kind: str = "linear",
        experts: int | None = None,
        experts_per_rank: int | None = None,
        count: int | None = None,
        skip_block_check: bool = False,
        unquantized: str = "",
    ) -> None:
        """Add one row; a width that does not divide makes it invalid and says why."""
        layers = len(indices) if count is None else count
        if not layers:
            return
        parts: Sequence[int] = ()
        k = invalid = None
        try:
            parts, k = shape()
        except Indivisible as reason:
            invalid = str(reason)
        self.rows.append(
            Linear(
                linear=linear,
                kind=kind,
                shard=shard,
                layers=layers,
                sources=tuple(sources),
                path=path,
                indices=indices,
                n=None if k is None else sum(parts),
                k=k,
                parts=tuple(parts),
                experts=experts,
                experts_per_rank=experts_per_rank,
                invalid=invalid,
                unquantized=unquantized,
                skip_block_check=skip_block_check,
            )
        )

    def column(
        self,
        linear: str,
        members: Sequence[tuple[str, int]],
        k: int,
        *,
        sources: Sequence[str],
        path: str,
        indices: tuple[int, ...],
        ranks: int | None = None,
        count: int | None = None,
    ) -> None:
        """Add a column-parallel row: every member (name for messages, width) is split along N."""
        by = self.tp if ranks is None else ranks
        self.add(
            linear,
            lambda: ([divide(name, width, by) for name, width in members], k),
            shard="column",
            sources=sources,
            path=path,
            indices=indices,
            count=count,
        )

    def row(
        self,
        linear: str,
        n: int,
        member: tuple[str, int],
        *,
        sources: Sequence[str],
        path: str,
        indices: tuple[int, ...],
        unit: int = 1,
        ranks: int | None = None,
    ) -> None:
        """Add a row-parallel row: K, ``unit`` times the member's count, is split."""
        name, count = member
        by = self.tp if ranks is None else ranks
        self.add(
            linear,
            lambda: ((n,), divide(name, count, by) * unit),
            shard="row",
            sources=sources,
            path=path,
            indices=indices,
        )

    def replicated(
        self,
        linear: str,
        parts: Sequence[int],
        k: int,
        *,
        sources: Sequence[str],
        path: str,
        indices: tuple[int, ...],
        kind: str = "linear",
        count: int | None = None,
        unquantized: str = "",
    ) -> None:
        """Add a row that every rank holds whole."""
        self.add(
            linear,
            lambda: (parts, k),
            shard="replicated",
            sources=sources,
            path=path,
            indices=indices,
            kind=kind,
            count=count,
            unquantized=unquantized,
        )

    def check_complete(self, family: str) -> None:
        """Raise InputError naming every required key that the config lacks."""
        if self.missing:
            keys = ", ".join(sorted(self.missing))
            raise MissingKeys(
                f"config lacks {keys}: the {family} family needs "
                f"{'it' if len(self.missing) == 1 else 'them'}, and mxlab assumes no default"
            )


def layer_ranges(indices: Sequence[int]) -> str:
    """Return layer indices as ranges, for people; every n-th layer as one range too.

    >>> layer_ranges([0, 1, 2, 5, 7, 8]), layer_ranges([3, 7, 11, 15])
    ('0-2, 5, 7-8', '3-15 by 4')
    """
    found: list[str] = []
    at = 0
    while at < len(indices):
        step = indices[at + 1] - indices[at] if at + 1 < len(indices) else 1
        end = at
        while end + 1 < len(indices) and indices[end + 1] - indices[end] == step:
            end += 1
        first, last = indices[at], indices[end]
        if step == 1 and end > at:
            found.append(f"{first}-{last}")
        elif step > 1 and end - at >= 3:
            found.append(f"{first}-{last} by {step}")
        else:
            end = at
            found.append(str(first))
        at = end + 1
    return ", ".join(found)
