"""The guards of a KV page in the order in which the code meets them, phase by phase."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from mxlab.attention.order import order
from mxlab.attention.pages import BLOCK, HEAD_DIM, PAGE
from mxlab.explorers import colours
from mxlab.explorers.controls import State
from mxlab.explorers.panels import Grid, Item, Verdicts
from mxlab.explorers.will_it_run_lines import SIGNS, counts, line
from mxlab.guards import (
    AttentionFacts,
    Deployment,
    Facts,
    KvCacheFacts,
    PrologueFacts,
    Status,
    Verdict,
    ask,
    facts,
)
from mxlab.guards.sglang_kv_cache import INKLING, page_size
from mxlab.prologue import why_not

SGLANG, INTERLEAVED, FLAT = "sglang", "interleaved", "flat"
MODELS = {"inkling": INKLING[0], "other": "LlamaForCausalLM"}
UNFUSED = "SGLANG_OPT_INKLING_MXFP8_FUSED_QUANT_STORE"
_STORE = ("kv-no-scales", "kv-page128", "kv-sf-dim4")
#: (head_dim, v_head_dim) of the table of head sizes; v_head_dim 0 is head_dim
_SIZES = ((64, 0), (80, 0), (96, 0), (128, 0), (160, 0), (192, 128), (256, 0))
PROLOGUE, HOST = "fused prologue", "prologue's host code"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One cache, and who hands it over: SGLang's own code, or a call of one's own."""

    layout: str  # SGLANG; or INTERLEAVED, FLAT of a call of one's own
    gpu: str
    model: str  # a key of MODELS
    kept: bool  # EAGLE's top-k keeps FA4 from overruling the page size
    fused: bool  # the pool quantises in its store; False: the layer hands over scales
    function: str  # verify, extend, decode
    head_dim: int
    v_head_dim: int
    q_heads: int
    kv_heads: int
    page: int  # as it was asked for
    pages: int

    @property
    def own(self) -> bool:
        """Whether the prologue is called by hand, without SGLang's pool."""
        return self.layout != SGLANG

    @property
    def deployment(self) -> Deployment:
        """The server, or the machine of a call of one's own."""
        if self.own:
            return Deployment(gpu=self.gpu)
        return Deployment(
            gpu=self.gpu,
            kv_cache_dtype="mxfp8",
            page_size=self.page,
            architecture=MODELS[self.model],
            attention_backend="fa4",
            speculative_eagle_topk=2 if self.kept else None,
            env={} if self.fused else {UNFUSED: "0"},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What the guards are asked about: the facts, the page size that holds, the scale layout."""

    facts: Facts
    page: int
    interleaved: bool
    why_not: str  # why SGLang does not run the prologue; "" where it is run


@dataclass(frozen=True, slots=True)
class Phase:
    """Guards met one after the other; ``note`` says why there are none."""

    name: str
    stage: str
    verdicts: tuple[Verdict, ...]
    note: str = ""


def case_of(state: State) -> Case:
    """Return the case that the controls describe."""
    head_dim = int(state["head_dim"])
    return Case(
        layout=str(state["scale_layout"]),
        gpu=str(state["gpu"]),
        model=str(state["model"]),
        kept=state["page_rule"] == "kept",
        fused=state["store"] == "fused",
        function=str(state["function"]),
        head_dim=head_dim,
        v_head_dim=int(state["v_head_dim"]) or head_dim,
        q_heads=int(state["q_heads"]),
        kv_heads=int(state["kv_heads"]),
        page=int(state["page_size"]),
        pages=int(state["pages"]),
    )


@lru_cache(maxsize=64)
def asked(case: Case) -> Asked:
    """Return the facts of a case: the cache, the prologue's arguments, the attention call."""
    if case.own:
        interleaved = case.layout == INTERLEAVED
        handed = _handed(case, case.page, interleaved, mxfp8=True)
        found = facts(case.deployment, prologue=handed)
        return Asked(facts=found, page=case.page, interleaved=interleaved, why_not="")
    sizes = (case.head_dim, case.v_head_dim)
    found = facts(case.deployment, kv_cache=KvCacheFacts(*sizes, case.kv_heads))
    page, why = page_size(found), why_not(found, case.head_dim)
    # the model asks for the MXFP8 store only where the pool can take it, else the backend stores
    fits = page == PAGE and sizes == (HEAD_DIM, HEAD_DIM)
    handed_over = None if why else _handed(case, page, page == PAGE, mxfp8=fits)
    q, scales = ("float8_e4m3fn", "float8_e8m0fnu") if case.model == "inkling" else (
        "bfloat16", None
    )  # fmt: skip
    call = AttentionFacts(
        head_dim=case.head_dim,
        v_head_dim=case.v_head_dim,
        page_size=page,
        q_dtype=q,
        sfq_dtype=scales,
    )
    found = replace(found, prologue=handed_over, step=call)
    return Asked(facts=found, page=page, interleaved=page == PAGE, why_not=why)


def _handed(case: Case, page: int, interleaved: bool, *, mxfp8: bool) -> PrologueFacts:
    slots, heads = case.pages * page, case.kv_heads

    def scales(dim: int) -> tuple[int, ...]:
        if interleaved:
            return (case.pages, heads, 32, page // 32, dim // BLOCK)
        return (slots, heads, dim // BLOCK)

    return PrologueFacts(
        function=case.function,
        dq=case.q_heads * case.head_dim,
        dkv=heads * case.head_dim,
        slots=slots,
        page_size=page,
        mxfp8=mxfp8,
        do_store=mxfp8,
        sfk_shape=scales(case.head_dim),
        sfv_shape=scales(case.v_head_dim),
        v_stride=heads * case.v_head_dim,
    )


@lru_cache(maxsize=256)
def phases(case: Case) -> tuple[Phase, ...]:
    """Return every guard on the way of K and V into the cache and out of it, in order."""
    about = asked(case)
    found, handed = about.facts, about.facts.prologue
    prologue: list[Phase] = []
    if handed is None:
        prologue.append(Phase(PROLOGUE, "S8", (), about.why_not))
    else:
        met = {verdict.guard: verdict for verdict in ask(found, "prologue")}
        known = [met[id] for id in order(handed.function, mxfp8=handed.mxfp8)]
        python = tuple(v for v in known if v.stage == "S8")
        cuda = tuple(v for v in known if v.stage != "S8")
        note = "" if handed.mxfp8 else "it runs in bfloat16 and does not store: the backend does"
        prologue += [Phase(PROLOGUE, "S8", python, note)]
        prologue += [Phase(HOST, "S9", cuda)]
    if case.own:
        return tuple(prologue)
    server = [v for v in ask(found, "server") if v.guard.startswith("kv-")]
    cache = ask(found, "kv_cache")
    reads = [v for v in cache if v.stage == "S8" and v.guard not in _STORE]
    return (
        Phase("server arguments", "S1", tuple(v for v in server if v.stage == "S1")),
        Phase("cache allocation", "S7", tuple(v for v in (*server, *cache) if v.stage == "S7")),
        *prologue,
        Phase("store", "S8", tuple(v for v in cache if v.guard in _STORE)),
        Phase("attention call", "S8", (*reads, *ask(found, "attention"))),
    )


def first(case: Case, *wanted: Status) -> tuple[Phase, Verdict] | None:
    """Return the first verdict of one of these statuses, and its phase."""
    for phase in phases(case):
        for verdict in phase.verdicts:
            if verdict.status in wanted:
                return phase, verdict
    return None


def conclusion(case: Case) -> tuple[str, str, str]:
    """Return status, sign and what the guards say together, without a full stop."""
    stop, silent = first(case, Status.STOPS), first(case, Status.SILENT)
    who = "the call" if case.own else "SGLang"
    if stop:
        phase, verdict = stop
        text = f"{who} stops in the {phase.name}: {verdict.guard}, {verdict.because}"
        names = [one.name for one in phases(case)]
        if silent and names.index(silent[0].name) < names.index(phase.name):
            text += f"; before that the {silent[0].name} goes wrong in silence ({silent[1].guard})"
        return Status.STOPS, SIGNS[Status.STOPS][0], text
    if silent:
        text = f"nothing stops, but the {silent[0].name} goes wrong in silence: {silent[1].guard}, "
        text += silent[1].because
        return Status.SILENT, SIGNS[Status.SILENT][0], text
    many = sum(v.status == Status.PASSES for phase in phases(case) for v in phase.verdicts)
    return Status.PASSES, SIGNS[Status.PASSES][0], f"all {many} guards on the way pass"


def _line(verdict: Verdict, phase: Phase) -> Item:
    """Return a verdict as a line; one that speaks says in which of the phases of its stage."""
    plain = line(verdict)
    return plain if plain.quiet else replace(plain, because=f"{phase.name}: {plain.because}")


@lru_cache(maxsize=64)
def panel(case: Case) -> Verdicts:
    """Return every guard as a line, in the order in which the code meets them."""
    items: list[Item] = []
    for phase in phases(case):
        if phase.note:
            status = Status.NOT_REACHED
            sign = SIGNS[status][0]
            items.append(Item(status=status, sign=sign, name=phase.name, stage=phase.stage,
                              because=phase.note))  # fmt: skip
        items += [_line(verdict, phase) for verdict in phase.verdicts]
    found = first(case, Status.STOPS)
    stops = f" The first stop is {found[1].guard} in the {found[0].name}." if found else ""
    who = "the prologue makes them" if case.own else "SGLang 0.5.23 meets them"
    return Verdicts(
        id="guards",
        title=f"Guards, in the order in which {who}",
        alt=f"{len(items)} lines: {counts(items)}.{stops}",
        items=tuple(items),
    )


_WORDS = ("passes", "warns", "silent", "stops", "not asked")
_PASSES, _WARNS, _SILENT, _STOPS, _NOT = range(5)
Cell = tuple[str, int, int]
_KINDS = ((Status.STOPS, _STOPS), (Status.SILENT, _SILENT), (Status.WARNS, _WARNS))


def _columns(case: Case) -> dict[str, list[Verdict]]:
    """Return the verdicts of each column: the prologue's two phases are one in a server."""
    columns: dict[str, list[Verdict]] = {}
    for phase in phases(case):
        name = PROLOGUE if phase.name == HOST and not case.own else phase.name
        columns.setdefault(name, []).extend(phase.verdicts)
    return columns


def _cells(case: Case) -> list[Cell]:
    """Return one cell a column: its first guard that speaks; what follows a stop is not reached."""
    cells: list[Cell] = []
    for verdicts in _columns(case).values():
        if any(kind == _STOPS for _, kind, _ in cells):
            cells.append(("", _NOT, -1))
        elif not verdicts:
            cells.append(("unfused", _NOT, -1))
        else:
            said = [
                (verdict.guard, kind, -1)
                for status, kind in _KINDS
                for verdict in verdicts
                if verdict.status is status and not verdict.notice
            ]
            cells.append(said[0] if said else ("passes", _PASSES, -1))
    return cells


def _outcomes(names: Sequence[str], labels: Sequence[str], rows: Sequence[list[Cell]]) -> str:
    """Say what becomes of each size: sizes with the same end together."""
    ends: dict[str, list[str]] = {}
    for label, cells in zip(labels, rows, strict=True):
        end = "from end to end"
        for wanted, word in ((_STOPS, "stops at"), (_SILENT, "is wrong in silence at")):
            found = [i for i, (_, kind, _) in enumerate(cells) if kind == wanted]
            if found:
                end = f"{word} {cells[found[0]][0]} in the {names[found[0]]}"
                break
        ends.setdefault(end, []).append(label)
    works = ends.pop("from end to end", [])
    start = f"{_list(works)} works from end to end" if works else "No size here works"
    return "; ".join([start, *(f"{_list(sizes)} {end}" for end, sizes in ends.items())]) + "."


def _list(labels: Sequence[str]) -> str:
    return labels[0] if len(labels) == 1 else f"each of {', '.join(labels)}"


@lru_cache(maxsize=64)
def head_sizes(case: Case, v_asked: int) -> Grid:
    """Return where each head size fails: allocation, prologue, store or attention."""
    now = (case.head_dim, v_asked)
    sizes = sorted({*_SIZES, now})
    names = tuple(_columns(case))
    rows = [_cells(replace(case, head_dim=dim, v_head_dim=v_dim or dim)) for dim, v_dim in sizes]
    labels = tuple(f"{dim} / {v_dim}" if v_dim else str(dim) for dim, v_dim in sizes)
    return Grid(
        id="head_sizes",
        title="Where each head size fails",
        alt=f"{_outcomes(names, labels, rows)} Enter or a click takes a size.",
        corner="head_dim",
        columns=names,
        rows=labels,
        cells=rows,
        legend=_WORDS,
        tones=(
            *(colours.RIGHT, colours.FLUSHED, colours.NOT_A_NUMBER, colours.WRONG),
            colours.REFERENCE,
        ),
        say="head_dim {row}, {column}: {text}",
        sets="head_dim v_head_dim",
        values=tuple(tuple(f"{dim} {v_dim}" for _ in names) for dim, v_dim in sizes),
        chosen=tuple((sizes.index(now), column) for column in range(len(names))),
    )
