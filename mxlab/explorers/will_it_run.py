"""Will it run? One linear layer and one KV cache against the guards, in the order they are met."""

from mxlab.explorers import scale_tile
from mxlab.explorers.controls import Choice, Int, State
from mxlab.explorers.panels import AnyPanel, Facts, Item, Verdicts, View
from mxlab.explorers.protocol import Explorer
from mxlab.guards import (
    GUARDS,
    STAGES,
    Deployment,
    Guard,
    KvCacheFacts,
    LinearFacts,
    Status,
    Verdict,
    check,
)
from mxlab.guards.sglang_attention import INKLING
from mxlab.guards.values import FP8_GEMM_BACKEND
from mxlab.hardware import GPUS

_DEPLOYMENT, _LAYER, _KV = "Deployment", "First layer, before TP", "KV cache"

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

#: value -> packages that can be imported
_PACKAGES = {
    "both": ("FlashInfer and DeepGEMM", frozenset({"flashinfer", "deep_gemm"})),
    "no-flashinfer": ("DeepGEMM only", frozenset({"deep_gemm"})),
    "no-deep-gemm": ("FlashInfer only", frozenset({"flashinfer"})),
    "neither": ("neither", frozenset[str]()),
}

#: value -> quantization_config of the checkpoint
_CHECKPOINTS: dict[str, tuple[str, dict[str, object] | None]] = {
    "mxfp8": (
        "MXFP8",
        {"quant_method": "mxfp8", "activation_scheme": "dynamic", "weight_block_size": [1, 32]},
    ),
    "bf16": ("bf16, quantised at load", None),
}

_ARCHITECTURES = {"inkling": INKLING[0], "other": ""}

CONTROLS = (
    Choice(
        name="gpu",
        label="GPU",
        group=_DEPLOYMENT,
        default="b200",
        options=tuple((gpu.name, f"{gpu.label} ({gpu.arch})") for gpu in GPUS.values()),
    ),
    Choice(
        name="backend",
        label="--fp8-gemm-backend",
        group=_DEPLOYMENT,
        default="deep_gemm",
        options=tuple((name, name) for name in FP8_GEMM_BACKEND),
    ),
    Int(
        name="tp",
        label="TP",
        group=_DEPLOYMENT,
        default=1,
        low=1,
        high=64,
        slider=(1, 16, 1),
        help="ranks of tensor parallelism",
    ),
    Choice(
        name="checkpoint",
        label="Checkpoint",
        group=_DEPLOYMENT,
        default="mxfp8",
        options=tuple((name, label) for name, (label, _) in _CHECKPOINTS.items()),
    ),
    Choice(
        name="packages",
        label="Installed",
        group=_DEPLOYMENT,
        default="both",
        options=tuple((name, label) for name, (label, _) in _PACKAGES.items()),
    ),
    Int(
        name="n",
        label="N",
        group=_LAYER,
        default=5120,
        low=1,
        high=1_048_576,
        slider=(64, 16384, 64),
        help="output features of the whole layer",
    ),
    Int(
        name="k",
        label="K",
        group=_LAYER,
        default=2880,
        low=1,
        high=1_048_576,
        slider=(64, 16384, 32),
        help="input features of the whole layer",
    ),
    Choice(
        name="split",
        label="TP splits",
        group=_LAYER,
        default="column",
        options=(
            ("column", "N (column-parallel)"),
            ("row", "K (row-parallel)"),
            ("replicated", "nothing (replicated)"),
        ),
    ),
    Int(
        name="tile",
        label="Scale tile",
        group=_LAYER,
        default=0,
        low=0,
        high=1_000_000_000,
        help="which 128 x 4 tile of the scales to show",
    ),
    Choice(
        name="kv_dtype",
        label="--kv-cache-dtype",
        group=_KV,
        default="mxfp8",
        options=(("mxfp8", "mxfp8"), ("fp8_e4m3", "fp8_e4m3"), ("auto", "auto (bf16)")),
    ),
    Choice(
        name="attention",
        label="--attention-backend",
        group=_KV,
        default="fa4",
        options=tuple((name, name) for name in ("auto", "fa4", "fa3", "flashinfer", "triton")),
    ),
    Choice(
        name="model",
        label="Attention of",
        group=_KV,
        default="inkling",
        options=(("inkling", "Inkling"), ("other", "any other model")),
        help="only Inkling quantises Q as well",
    ),
    Int(
        name="head_dim",
        label="head_dim",
        group=_KV,
        default=80,
        low=1,
        high=1024,
        slider=(16, 256, 16),
    ),
    Int(
        name="kv_heads",
        label="KV heads",
        group=_KV,
        default=8,
        low=1,
        high=1024,
        slider=(1, 64, 1),
        help="of the whole model",
    ),
    Int(
        name="page_size",
        label="--page-size",
        group=_KV,
        default=64,
        low=1,
        high=4096,
        slider=(1, 256, 1),
    ),
)


def deployment(state: State) -> Deployment:
    """Return the deployment that a state describes."""
    attention = str(state["attention"])
    return Deployment(
        gpu=str(state["gpu"]),
        tp=int(state["tp"]),
        quantization="mxfp8",
        fp8_gemm_backend=str(state["backend"]),
        kv_cache_dtype=str(state["kv_dtype"]),
        attention_backend=None if attention == "auto" else attention,
        page_size=int(state["page_size"]),
        architecture=_ARCHITECTURES[str(state["model"])],
        packages=_PACKAGES[str(state["packages"])][1],
    )


def view(state: State) -> View:
    """Return the guards over one rank's layer and KV cache, and the layer's scale tile."""
    n, k, heads, uneven = _on_one_rank(state)
    verdicts = check(
        deployment(state),
        config=_CHECKPOINTS[str(state["checkpoint"])][1],
        linear=None if uneven else LinearFacts("first layer", n, k, shard=str(state["split"])),
        kv_cache=KvCacheFacts(int(state["head_dim"]), int(state["head_dim"]), heads),
    )
    items = [_item(verdict) for verdict in verdicts]
    if uneven:
        stop = Item(
            status=Status.STOPS,
            sign=SIGNS[Status.STOPS][0],
            name="TP does not divide the layer",
            stage="S4",
            because=uneven,
            notes=(("fix", "choose a TP that divides it"),),
        )
        place = next((i for i, item in enumerate(items) if item.stage > "S4"), len(items))
        items.insert(place, stop)
    status, sign, sentence = _answer(items)
    panels: list[AnyPanel] = [_verdicts(items), _rank(state, n, k, heads, uneven)]
    if not uneven:
        rows, columns = n, -(-k // 32)
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
        python=_python(state, n, k, heads),
    )


def _on_one_rank(state: State) -> tuple[int, int, int, str]:
    """Return n, k and KV heads of one rank, and why TP does not divide the layer, or ""."""
    n, k, tp, kv = (int(state[name]) for name in ("n", "k", "tp", "kv_heads"))
    heads = max(1, kv // tp)  # fewer heads than ranks: each head is held by several ranks
    split = {"column": ("N", n), "row": ("K", k)}.get(str(state["split"]))
    if split is None:
        return n, k, heads, ""
    name, size = split
    if size % tp:
        return n, k, heads, f"{name} = {size} % TP {tp} = {size % tp}"
    return (n // tp, k, heads, "") if name == "N" else (n, k // tp, heads, "")


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
            sentence = f"{start} at {where}: {first.name}, {first.because}.{more}"
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


def _rank(state: State, n: int, k: int, heads: int, uneven: str) -> Facts:
    tp, kv = int(state["tp"]), int(state["kv_heads"])
    split = str(state["split"])
    shape: tuple[tuple[str, str, str], ...]
    if uneven:
        shape = (("N, K", "none", f"{uneven}: no rank can hold an equal part"),)
    else:
        shape = (
            ("N", f"{n:,}", f"{state['n']:,} / TP {tp}" if split == "column" else "not split"),
            ("K", f"{k:,}", f"{state['k']:,} / TP {tp}" if split == "row" else "not split"),
        )
    shared = f"{kv} / TP {tp}" if kv >= tp else f"{kv} over TP {tp}: several ranks hold one head"
    if max(kv, tp) % min(kv, tp):
        shared = f"{kv} over TP {tp}: does not divide; SGLang refuses such a model"
    rows = (*shape, ("KV heads", str(heads), shared))
    said = ", ".join(f"{name} = {value}" for name, value, _ in rows)
    return Facts(id="rank", title="What one rank holds", alt=f"On one rank: {said}.", rows=rows)


def _cli(state: State) -> str:
    changed = [f"{c.name}={state[c.name]}" for c in CONTROLS if state[c.name] != c.default]
    return " ".join(["mxlab explore will_it_run", *changed])


def _python(state: State, n: int, k: int, heads: int) -> str:
    where = deployment(state)
    hd = state["head_dim"]
    return (
        "from mxlab.guards import Deployment, KvCacheFacts, LinearFacts, check\n"
        f"where = Deployment(gpu={where.gpu!r}, tp={where.tp}, quantization='mxfp8', "
        f"fp8_gemm_backend={where.fp8_gemm_backend!r}, kv_cache_dtype={where.kv_cache_dtype!r}, "
        f"attention_backend={where.attention_backend!r}, page_size={where.page_size}, "
        f"architecture={where.architecture!r}, "
        f"packages=frozenset({sorted(where.packages)!r}))\n"
        f"config = {_CHECKPOINTS[str(state['checkpoint'])][1]!r}\n"
        f"layer = LinearFacts('first layer', {n}, {k}, shard={str(state['split'])!r})\n"
        f"for verdict in check(where, config=config, linear=layer, "
        f"kv_cache=KvCacheFacts({hd}, {hd}, {heads})):\n"
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
