"""Padding a linear to the next size that every guard takes, and what the zeros cost."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

from mxlab.guards import Deployment
from mxlab.models import Linear

#: linear -> (widths of its members along N, K) on one rank, after padding
Padding = Mapping[str, tuple[tuple[int, ...], int]]

Padded = dict[str, tuple[tuple[int, ...], int]]

#: what the guards ask of N and of K: multiples, and FlashInfer's least size of 128
_MULTIPLES = (1, 8, 16, 32, 64, 128, 256)
#: a size that grows by more than this is below every tile: 16 bits are the answer, not zeros
_MOST = 4
#: bytes of one MXFP8 value with its share of the scale
_MXFP8 = 1 + 1 / 32


def _up(size: int, multiple: int) -> int:
    return -(-size // multiple) * multiple


def padded(rows: Sequence[Linear], padding: Padding) -> Sequence[Linear]:
    """Return the rows with the padded ones in place of the real ones.

    >>> row = Linear(linear="down_proj", kind="linear", shard="row", layers=1, sources=(),
    ...              path="", n=64, k=72, parts=(64,))
    >>> padded([row], {"down_proj": ((64,), 96)})[0].k
    96
    """
    if not padding:
        return rows
    return [
        replace(row, parts=padding[row.linear][0], n=sum(padding[row.linear][0]), k=size)
        if row.linear in padding and (size := padding[row.linear][1])
        else row
        for row in rows
    ]


def _sizes(row: Linear) -> list[tuple[tuple[int, ...], int]]:
    """Return the larger sizes worth trying, the fewest added elements first."""
    assert row.k is not None and row.n is not None
    parts = row.parts or (row.n,)
    found = {
        (tuple(max(_up(part, by_n), low) for part in parts), max(_up(row.k, by_k), low))
        for by_n, by_k, low in product(_MULTIPLES, _MULTIPLES, (1, 128))
    }
    fit = {
        (wide, k)
        for wide, k in found - {(tuple(parts), row.k)}
        if k <= _MOST * row.k and all(w <= _MOST * p for w, p in zip(wide, parts, strict=True))
    }
    return sorted(fit, key=lambda size: (sum(size[0]) * size[1], size))


def _partners(
    rows: Sequence[Linear], row: Linear, k: int
) -> dict[str, tuple[tuple[int, ...], int]]:
    """Return the linears that write what ``row`` reads, widened alike: gate and up for down."""
    block = row.path.rpartition(".")[0]
    return {
        other.linear: ((k,) * len(other.parts), other.k)
        for other in rows
        if other.linear != row.linear
        and other.k
        and other.shard == "column"
        and other.parts
        and set(other.parts) == {row.k}
        and other.path.rpartition(".")[0] == block
    }


def next_legal(
    rows: Sequence[Linear], stopped: Sequence[Linear], legal: Callable[[Linear], bool]
) -> Padded | None:
    """Return the padding under which every stopped linear is legal; None where there is none.

    ``legal`` asks the guards about one linear. What feeds a padded linear is widened with it.
    """
    found: Padded = {}
    for row in stopped:
        if row.invalid or not row.k or not row.n:
            return None
        for parts, k in _sizes(row):
            if legal(replace(row, parts=parts, n=sum(parts), k=k)):
                break
        else:
            return None
        partners = _partners(rows, row, k) if k != row.k else {}
        for name, size in {**partners, row.linear: (parts, k)}.items():
            before = found.get(name, ((0,) * len(size[0]), 0))
            widest = tuple(max(a, b) for a, b in zip(before[0], size[0], strict=True))
            found[name] = (widest, max(before[1], size[1]))
    return found


def next_intermediate(
    rows: Sequence[Linear], size: int, legal: Callable[[int], bool]
) -> Padded | None:
    """Return both expert weights widened to the next legal intermediate size; None without one."""
    for wider in sorted({_up(size, multiple) for multiple in _MULTIPLES} - {size}):
        if legal(wider):
            return {
                row.linear: ((wider,) * len(row.parts), row.k)
                if row.shard == "column"
                else (tuple(row.parts or (row.n or 0,)), wider)
                for row in rows
                if row.kind == "moe" and row.k
            }
    return None


@dataclass(frozen=True, slots=True)
class PaddingCost:
    """What the zeros cost on one rank: bytes, and multiply-adds of one token times two."""

    bytes: int
    bytes_percent: float
    flops: int
    flops_percent: float


def cost(rows: Sequence[Linear], padding: Padding, chosen: int) -> PaddingCost:
    """Return the cost over all layers; ``chosen`` is how many experts a token goes to."""
    more_bytes = more_flops = all_elements = all_flops = 0
    for row, new in zip(rows, padded(rows, padding), strict=True):
        if not (row.n and row.k and new.n and new.k):
            continue
        held = row.layers * ((row.experts_per_rank or 1) if row.kind == "moe" else 1)
        used = row.layers * (min(chosen, row.experts_per_rank or 1) if row.kind == "moe" else 1)
        before, added = row.n * row.k, new.n * new.k - row.n * row.k
        all_elements += held * before
        all_flops += 2 * used * before
        more_bytes += round(held * added * _MXFP8)
        more_flops += 2 * used * added
    return PaddingCost(
        more_bytes,
        100 * more_bytes / max(1, all_elements * _MXFP8),
        more_flops,
        100 * more_flops / max(1, all_flops),
    )


def describe(rows: Sequence[Linear], padding: Padding, deployment: Deployment) -> str:
    """Return the padding as one line: each size that grows, on a rank and over all ranks."""
    texts = []
    for row in rows:
        if row.linear not in padding or row.k is None:
            continue
        parts, k = padding[row.linear]
        ranks = deployment.tp // (deployment.ep if row.kind == "moe" else 1)
        if k != row.k:
            whole = f" ({row.k * ranks} -> {k * ranks} in all)"
            texts.append(
                f"{row.linear} K {row.k} -> {k}{whole if ranks > 1 and row.shard == 'row' else ''}"
            )
        before = tuple(row.parts or (row.n or 0,))
        if parts != before:
            each = " + ".join(map(str, parts))
            texts.append(f"{row.linear} N {' + '.join(map(str, before))} -> {each}")
    return "pad " + ", ".join(texts)
