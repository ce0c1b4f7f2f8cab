"""Will it run? One linear layer and one KV cache against the guards, in the order they are met."""

from dataclasses import dataclass

from mxlab.explorers import scale_tile
from mxlab.explorers.controls import State
from mxlab.explorers.panels import AnyPanel, Facts, Item, Verdicts, View
from mxlab.explorers.protocol import Explorer
from mxlab.explorers.will_it_run_controls import CHECKPOINTS, CONTROLS, deployment
from mxlab.guards import GUARDS, STAGES, Guard, KvCacheFacts, LinearFacts, Status, Verdict, check
from mxlab.models.sharding import Indivisible, divide, kv_heads

#: status -> (sign, word): the status without its colour
SIGNS = {
    Status.PASSES: ("✓", "passes"),
    Status.STOPS: ("✕", "stops"),
    Status.FALLS_BACK: ("↷", "falls back"),
    Status.WARNS: ("!", "warns"),
    Status.SILENT: ("⚠", "silent"),
    Status.NOT_REACHED: ("–", "not reached"),
    Status.UNKNOWN: ("?", "unknown"),
}


@dataclass(frozen=True, slots=True)
class _Rank:
    """What one rank holds; None where TP does not divide it, and ``refused`` says what."""

    n: int | None
    k: int | None
    heads: int | None
    refused: tuple[tuple[str, str], ...]  # (what, because)


def view(state: State) -> View:
    """Return the guards over one rank's layer and KV cache, and the layer's scale tile."""
    rank = _rank(state)
    linear = kv_cache = None
    if rank.n is not None and rank.k is not None:
        linear = LinearFacts("layer", rank.n, rank.k, shard=str(state["split"]))
    if rank.heads is not None:
        dim = int(state["head_dim"])
        kv_cache = KvCacheFacts(dim, dim, rank.heads)
    config = CHECKPOINTS[str(state["checkpoint"])][1]
    verdicts = check(deployment(state), config=config, linear=linear, kv_cache=kv_cache)
    items = [_item(verdict) for verdict in verdicts]
    place = next((i for i, item in enumerate(items) if item.stage > "S4"), len(items))
    items[place:place] = [_refusal(what, because) for what, because in rank.refused]
    status, sign, sentence = _answer(items)
    panels: list[AnyPanel] = [_verdicts(items), _holds(state, rank)]
    if linear is not None:
        rows, columns = linear.n, -(-linear.k // 32)
        down, across = scale_tile.tiles(rows, columns)
        tile = min(int(state["tile"]), down * across - 1)
        panels += [
            scale_tile.summary(rows, columns, tile),
            scale_tile.logical(rows, columns, tile),
            scale_tile.physical(rows, columns, tile),
        ]
    return View(
        status=status,
        sign=sign,
        answer=sentence,
        panels=tuple(panels),
        cli=_cli(state),
        python=_python(state, linear, kv_cache),
    )


def _rank(state: State) -> _Rank:
    """Split the layer and the KV heads over the ranks by the rules of the models' linears."""
    tp, refused = int(state["tp"]), []
    n: int | None = int(state["n"])
    k: int | None = int(state["k"])
    try:
        if state["split"] == "column":
            n = divide("N", int(state["n"]), tp)
        elif state["split"] == "row":
            k = divide("K", int(state["k"]), tp)
    except Indivisible as error:
        n = k = None
        refused.append(("the layer", str(error)))
    heads: int | None = None
    try:
        heads = kv_heads(int(state["kv_heads"]), tp, "KV heads")
    except Indivisible as error:
        refused.append(("the KV heads", str(error)))
    return _Rank(n, k, heads, tuple(refused))


def _refusal(what: str, because: str) -> Item:
    return Item(
        status=Status.STOPS,
        sign=SIGNS[Status.STOPS][0],
        name=f"TP does not divide {what}",
        stage="S4",
        because=because,
        notes=(("fix", "a --tp-size that divides it"),),
    )


def _item(verdict: Verdict) -> Item:
    guard = _ROWS[verdict.guard]
    said = verdict.status not in (Status.PASSES, Status.NOT_REACHED)
    notes = [("means", guard.meaning), ("instead", guard.fallback)] if said else []
    notes += [("fix", fix) for fix in verdict.fixes]
    return Item(
        status=verdict.status,
        sign=SIGNS[verdict.status][0],
        name=verdict.guard,
        stage=verdict.stage,
        because=verdict.because,
        message=verdict.message,
        notes=tuple(note for note in notes if note[1] and note != ("instead", "none")),
        href=f"book/guards/{verdict.guard}.html",
        quiet=not said,
    )


def _answer(items: list[Item]) -> tuple[str, str, str]:
    """Return status, sign and the sentence for the whole."""
    for status, start in (
        (Status.STOPS, "Stops"),
        (Status.UNKNOWN, "Not known"),
        (Status.SILENT, "Runs, but silently wrong or slow"),
        (Status.FALLS_BACK, "Runs, but falls back"),
        (Status.WARNS, "Runs, with a warning"),
    ):
        found = [item for item in items if item.status == status]
        if found:
            first = found[0]
            more = f" {len(found) - 1} more behind it." if len(found) > 1 else ""
            where = f"{first.stage} ({STAGES[first.stage]})"
            because = first.because
            if status == Status.FALLS_BACK:
                because = because.partition("; ")[0]  # what replaces it stands in its line
            sentence = f"{start} at {where}: {first.name}, {because}.{more}"
            return status, SIGNS[status][0], sentence
    asked = sum(item.status == Status.PASSES for item in items)
    return Status.PASSES, SIGNS[Status.PASSES][0], f"Runs: all {asked} guards on the way pass."


def _verdicts(items: list[Item]) -> Verdicts:
    counts = [
        f"{sum(item.status == status for item in items)} {word}"
        for status, (_, word) in SIGNS.items()
        if any(item.status == status for item in items)
    ]
    return Verdicts(
        id="guards",
        title="Guards, in the order in which SGLang meets them",
        alt=f"{len(items)} guards: {', '.join(counts)}.",
        items=tuple(items),
    )


def _holds(state: State, rank: _Rank) -> Facts:
    tp, heads, split = int(state["tp"]), int(state["kv_heads"]), state["split"]
    divided = f"/ TP {tp}"
    rows = (
        ("N", rank.n, f"{state['n']:,} {divided}" if split == "column" else "not split"),
        ("K", rank.k, f"{state['k']:,} {divided}" if split == "row" else "not split"),
        ("KV heads", rank.heads, f"{heads} {divided}" if tp <= heads else _shared(heads, tp)),
    )
    shown = [(name, "none" if value is None else f"{value:,}", how) for name, value, how in rows]
    said = ", ".join(f"{name} = {value}" for name, value, _ in shown)
    alt = f"On one rank: {said}."
    return Facts(id="rank", title="What one rank holds", alt=alt, rows=tuple(shown))


def _shared(heads: int, tp: int) -> str:
    return f"{heads} on TP {tp}: several ranks hold the same head"


def _cli(state: State) -> str:
    changed = [f"{c.name}={state[c.name]}" for c in CONTROLS if state[c.name] != c.default]
    return " ".join(["mxlab explore will_it_run", *changed])


def _python(state: State, linear: LinearFacts | None, kv_cache: KvCacheFacts | None) -> str:
    where = deployment(state)
    settings = (
        f"gpu={where.gpu!r}, tp={where.tp}, quantization={where.quantization!r}, "
        f"fp8_gemm_backend={where.fp8_gemm_backend!r}, kv_cache_dtype={where.kv_cache_dtype!r}, "
        f"attention_backend={where.attention_backend!r}, page_size={where.page_size}, "
        f"architecture={where.architecture!r}, packages=frozenset({sorted(where.packages)!r})"
    )
    subjects = ["config=config"]
    if linear:
        layer = f"LinearFacts('layer', {linear.n}, {linear.k}, shard={linear.shard!r})"
        subjects.append(f"linear={layer}")
    if kv_cache:
        dim = kv_cache.head_dim
        subjects.append(f"kv_cache=KvCacheFacts({dim}, {dim}, {kv_cache.kv_heads})")
    return (
        "from mxlab.guards import Deployment, KvCacheFacts, LinearFacts, check\n\n"
        f"where = Deployment({settings})\n"
        f"config = {CHECKPOINTS[str(state['checkpoint'])][1]!r}\n"
        f"for verdict in check(where, {', '.join(subjects)}):\n"
        "    print(verdict.stage, verdict.guard, verdict.status, verdict.because)\n"
    )


_ROWS: dict[str, Guard] = {guard.id: guard for guard in GUARDS}

EXPLORER = Explorer(
    name="will_it_run",
    title="Will it run?",
    question="Which guard stops this layer or this KV cache on this GPU, and with which numbers?",
    controls=CONTROLS,
    view=view,
)
