"""Will it run? One linear layer and one KV cache, typed in, split over the ranks."""

from dataclasses import dataclass

from mxlab.explorers import scale_tile
from mxlab.explorers.controls import State, command
from mxlab.explorers.panels import AnyPanel, Facts, Item, View
from mxlab.explorers.will_it_run_controls import CHECKPOINTS, CONTROLS, NO_MATRIX, deployment
from mxlab.explorers.will_it_run_lines import SIGNS, conclusion, guards, line
from mxlab.explorers.will_it_run_matrix import panels as matrix_panels
from mxlab.guards import KvCacheFacts, LinearFacts, Status, check
from mxlab.models.sharding import Indivisible, divide, kv_heads


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
    items = [line(verdict) for verdict in verdicts]
    place = next((i for i, item in enumerate(items) if item.stage > "S4"), len(items))
    items[place:place] = [_refusal(what, because) for what, because in rank.refused]
    status, sign, sentence = conclusion(items)
    title = "Guards, in the order in which SGLang meets them"
    panels: list[AnyPanel] = [guards(items, title), _holds(state, rank)]
    if linear is not None:
        if state["matrix"] != NO_MATRIX:
            panels += matrix_panels(linear.n, linear.k, state)
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
        cli=command("will_it_run", CONTROLS, state),
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


def _python(state: State, linear: LinearFacts | None, kv_cache: KvCacheFacts | None) -> str:
    where = deployment(state)
    settings = (
        f"gpu={where.gpu!r}, tp={where.tp}, ep={where.ep}, quantization={where.quantization!r}, "
        f"fp8_gemm_backend={where.fp8_gemm_backend!r}, "
        f"moe_runner_backend={where.moe_runner_backend!r}, "
        f"kv_cache_dtype={where.kv_cache_dtype!r}, "
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
