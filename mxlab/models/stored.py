"""Stored weights as the source of shapes: beside a recipe, or in its place."""

from collections.abc import Sequence
from dataclasses import replace

from mxlab.errors import quote
from mxlab.models.attention import cache_kind, heads_per_rank
from mxlab.models.build import Build
from mxlab.models.by_name import Group, add_group, modules_of, names_of
from mxlab.models.config import MAX_LAYERS, Section
from mxlab.models.conventions import HeadCounts, in_tower, kind_of
from mxlab.models.differences import Difference, compare, names_that_differ
from mxlab.models.family import Family
from mxlab.models.kv_cache import KvCache
from mxlab.models.linear import Linear
from mxlab.models.model import Model, Stored

#: patterns of names that a list shows
_SHOWN = 40


def _decoder(section: Section) -> Section:
    return section.section("text_config") or section


def _heads(decoder: Section) -> HeadCounts:
    queries = decoder.whole("num_attention_heads")
    keys = decoder.whole("num_key_value_heads") or queries
    return HeadCounts(queries, keys)


def _hidden(model: Model, decoder: Section) -> int | None:
    """Return the width of the residual stream: the config's, else that of the embedding."""
    written = decoder.whole("hidden_size") or decoder.whole("n_embd")
    if written:
        return written
    tables = (w for w in model.stored if w.module.rpartition(".")[2] in ("embed_tokens", "wte"))
    return next((table.k for table in tables if table.k), None)


def _renamed(stored: Sequence[Stored], family: Family) -> Sequence[Stored]:
    """Return the weights under the names that the family's rows use."""
    if not family.aliases:
        return stored
    found = []
    for weight in stored:
        name = f".{weight.module}."
        for other, ours in family.aliases:
            name = name.replace(f"{other}.", f"{ours}.")
        found.append(replace(weight, module=name[1:-1]))
    return found


def compared(
    model: Model, family: Family, build: Build, derived: Sequence[Linear]
) -> tuple[Difference, ...]:
    """Return where stored weights contradict the rows derived at TP 1; mend ``build.rows``."""
    decoder = build.config
    modules = modules_of(_renamed(model.stored, family), _hidden(model, decoder))
    if model.kind == "index":
        absent, names = names_that_differ(modules, derived)
        _note_spare(build, names, "named in the index")
        return tuple(absent)
    heads = HeadCounts(
        build.optional("num_attention_heads"),
        build.optional("num_key_value_heads") or build.optional("num_attention_heads"),
    )
    if modules.nameless:
        shown = list(modules.nameless)[:3]
        build.notes.append(
            f"shape not known from the headers, taken from the config: {', '.join(shown)}"
        )
    partial = model.partial or bool(modules.nameless)
    found, groups = compare(build, derived, modules, heads, partial)
    _note_spare(build, [group.path for group in groups], "stored")
    return tuple(found)


def _note_spare(build: Build, patterns: Sequence[str], how: str) -> None:
    """Say which weights no row is made of: projectors, draft layers, what a recipe leaves out."""
    if patterns:
        build.notes.append(f"{how} and not in the recipe: {_listed(patterns)}")


def derived_by_name(
    model: Model, section: Section, tp: int, ep: int
) -> tuple[Build, KvCache | None] | None:
    """Return the rows of a model without a recipe from the names and shapes of its weights.

    None where names are all there is: an index without its shards.
    """
    decoder = _decoder(section)
    build = Build(config=decoder, tp=tp, ep=ep, block="")
    modules = modules_of(model.stored, _hidden(model, decoder))
    groups = modules.groups()
    for pattern, count in list(modules.nameless.items())[:_SHOWN]:
        build.unknown.append(f"{_shown(pattern)} (named {count} times, shape not known)")
    if len(modules.nameless) > _SHOWN:
        build.unknown.append(f"{len(modules.nameless) - _SHOWN} more patterns of names")
    if not groups:
        return (build, None) if build.unknown else None
    heads = _heads(decoder)
    names = names_of(dict.fromkeys(group.path for group in groups))
    guessed: list[str] = []
    if model.kind != "linears":
        groups.sort(key=_order)
    for group in groups:
        if add_group(build, group, names[group.path], heads):
            guessed.append(names[group.path])
    _add_tied_head(model, decoder, build)
    cache = _cache(decoder, build, groups, heads)
    if model.kind == "linears":
        if tp > 1 and guessed:
            build.notes.append(f"taken as what one rank holds, not split: {_listed(guessed)}")
        return build, None
    build.derive("fused members and shards are read off the conventional names of the weights")
    if guessed:
        build.derive(f"guessed to be whole on every rank: {_listed(guessed)}")
    if tp > 1 and heads.keys is None and any("k_proj" in row.sources for row in build.rows):
        build.notes.append("num_key_value_heads is not known: KV heads are split, never copied")
    if cache is None:
        build.unknown.append("KV cache (heads and head_dim are not in the config)")
    return build, cache


def _order(group: Group) -> tuple[bool, bool, int, bool, int]:
    """Return a group's place: decoder before tower, by layer, attention before the rest."""
    kind, shard, _ = kind_of(group.leaf)
    attention = any("attn" in part or "attention" in part for part in group.path.split("."))
    return (
        kind == "lm_head",
        in_tower(group.path),
        min(group.indices, default=MAX_LAYERS),
        not attention,
        ("column", "row", "replicated", "vocab").index(shard),
    )


def _shown(pattern: str) -> str:
    return pattern if pattern.isprintable() and len(pattern) <= 200 else quote(pattern)


def _listed(names: Sequence[str]) -> str:
    unique = list(dict.fromkeys(map(_shown, names)))
    more = f" and {len(unique) - 12} more" if len(unique) > 12 else ""
    return ", ".join(unique[:12]) + more


def _add_tied_head(model: Model, decoder: Section, build: Build) -> None:
    """Add the output head of a decoder whose embedding is used twice."""
    if any(row.kind == "lm_head" for row in build.rows) or model.partial:
        return
    table = next(
        (w for w in model.stored if w.module.rpartition(".")[2] in ("embed_tokens", "wte")), None
    )
    if table is None or not table.n or not table.k:
        return
    group = Group(path="lm_head", members=(("embed_tokens (tied)", table.n),), k=table.k, count=1)
    add_group(build, group, "lm_head", HeadCounts())
    build.derive("lm_head is the embedding (no weight of its own is stored)")


def _cache(
    decoder: Section, build: Build, groups: Sequence[Group], heads: HeadCounts
) -> KvCache | None:
    """Return the KV cache where the stored k and v agree with the config's head counts."""
    if not heads.queries or not heads.keys:
        return None
    for group in groups:
        widths = dict(group.members)
        if in_tower(group.path) or not {"k_proj", "v_proj"} <= widths.keys():
            continue
        if widths["k_proj"] % heads.keys or widths["v_proj"] % heads.keys:
            return None
        return KvCache(
            kind=cache_kind(heads.queries, heads.keys),
            head_dim=widths["k_proj"] // heads.keys,
            v_head_dim=widths["v_proj"] // heads.keys,
            kv_heads_per_rank=heads_per_rank(build, heads.keys, kv=True),
            q_heads_per_rank=heads_per_rank(build, heads.queries, kv=False),
            layers=group.count,
        )
    return None
