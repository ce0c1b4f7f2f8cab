"""A report as text: the first stop on top, then what stands behind it, then what would run."""

from collections.abc import Iterable, Sequence

from mxlab.cli.result import table
from mxlab.diagnosis import LayerReport, Report
from mxlab.guards import STAGES, Status, Verdict, guard
from mxlab.hardware import gpu
from mxlab.report.common import clean, said, system_name
from mxlab.weights import human

WORDS = {
    "stops": "STOPS",
    "runs": "RUNS",
    "runs-degraded": "RUNS, DEGRADED",
    "unknown": "UNKNOWN",
}
#: outcomes that no stop explains, in words
_WHY = {
    "runs": "no guard stops it",
    "runs-degraded": "no guard stops it, but something is replaced, slower or silent; see below",
    "unknown": "not everything is known; see below",
}
_FLAGS = (
    *("quantization", "fp8_gemm_backend", "moe_runner_backend", "moe_a2a_backend"),
    *("kv_cache_dtype", "page_size", "attention_backend", "dtype", "toolkit"),
)
_USUAL = (None, "auto", "none")


def render(name: str, report: Report) -> str:
    """Return one report as text."""
    parts = [
        _head(name, report),
        _stop(report),
        _behind(report),
        _layers(report),
        *_around(report),
    ]
    return clean("\n\n".join(part for part in parts if part))


def flags(report: Report) -> list[str]:
    """Return the launch flags that were given."""
    given = [(name, getattr(report.deployment, name)) for name in _FLAGS]
    named = [f"--{n.replace('_', '-')} {value}" for n, value in given if value not in _USUAL]
    return [*named, *(f"{name}={value}" for name, value in report.deployment.settings.items())]


def headline(report: Report) -> str:
    """Return the outcome, and where it stops, as one line."""
    word = WORDS[report.outcome]
    if report.first_stop is None:
        return f"{word}: {_WHY[report.outcome]}"
    where, stop = report.first_stop
    at = "" if where == "server" else f" at {where}"
    return f"{word}{at} in {stop.stage} ({STAGES[stop.stage]}): {stop.guard}"


def model_line(report: Report) -> str:
    """Return the family and the architecture; parameters and bytes where they are derived."""
    s, w = report.shapes, report.weights
    line = f"{s.family or 'no recipe'} ({s.architecture or s.model_type or 'unnamed'})"
    if w is None or not w.parameters:
        return line
    line += f", {human(w.parameters, '')} parameters".replace(" G ", " B ")
    return line + (f", {human(w.bytes)} of weights ({w.format})" if w.bytes is not None else "")


def machine_line(report: Report) -> str:
    """Return the GPU, the ranks, the system, the rows of a library's calls and the flags."""
    d = report.deployment
    machine = gpu(d.gpu)
    ep = f", EP {d.ep}" if d.ep > 1 else ""
    asked = system_name(d.system, report.version)
    given = "".join(f" {flag}" for flag in flags(report))
    rows = "" if report.m is None else f", M = {report.m}"
    return f"{machine.label} ({machine.arch or 'no GPU'}), TP {d.tp}{ep}, {asked}{rows}{given}"


def _head(name: str, report: Report) -> str:
    packages = ", ".join(sorted(report.deployment.packages)) or "none"
    return f"{name}: {model_line(report)}\non {machine_line(report)}\npackages: {packages}"


def error_class(verdict: Verdict) -> str:
    """Return the class of what the system raises, "" where it is not in the table."""
    try:
        return guard(verdict.guard).error
    except ValueError:
        return ""


def _stop(report: Report) -> str:
    lines = [headline(report)]
    if report.first_stop is not None and report.dies is not None:
        stop = report.first_stop[1]
        lines.append(f"  {report.dies.when}")
        if stop.message:
            lines.append(f"  {error_class(stop)}: {stop.message}")
        lines.append(f"  because  {stop.because}")
        lines += [f"  fix      {fix}" for fix in stop.fixes]
    return "\n".join(lines)


def _behind(report: Report) -> str:
    """Return what would stop next, were the first stop mended: the order of failure."""
    lines = []
    for entry in report.stops()[1:]:
        verdict = entry.verdict
        where = ", ".join(entry.where)
        lines.append(f"{verdict.stage} {verdict.guard} at {where}: {verdict.because}")
        lines.append(f"  {entry.dies.when}")
    return listing("behind it, in the order of failure", lines)


def verdict_word(verdict: Verdict) -> str:
    """Return status and guard; an id that begins with its status says it once."""
    status = verdict.status.value
    same = verdict.guard.startswith(f"{status}-")
    return verdict.guard if same else f"{status} {verdict.guard}"


def layer_row(layer: LayerReport) -> list[object]:
    """Return the cells of one linear: name, layers, N, K, verdict, because."""
    row, cover, worst = layer.linear, layer.coverage, layer.worst
    count = f"{cover.layers}/{row.layers}" if 0 < cover.layers < row.layers else row.layers
    if worst is not None:
        more = sum(v.status is Status.STOPS for v in layer.verdicts) - (
            worst.status is Status.STOPS
        )
        tail = f" (and {more} more)" if more > 0 else ""
        verdict, because = verdict_word(worst), worst.because + tail
    elif cover.layers == 0:
        verdict, because = "16 bit", cover.why_not
    else:
        passed = [
            v.because
            for v in layer.verdicts
            if v.status is Status.PASSES and not v.guard.startswith(_REMOVED)
        ]
        verdict = "passes" if passed else "no guard"
        reasons = passed or [v.because for v in layer.verdicts] or ["no guard looks at it"]
        because = next((text for text in reversed(reasons) if "%" in text), reasons[-1])
    return [row.linear, count, row.n, row.k, verdict, because]


#: ids of rows about code that is gone: they pass, and say nothing about this launch
_REMOVED = "old-"
LAYER_HEADER = ("layer", "layers", "N", "K", "verdict", "because")


def _layers(report: Report) -> str:
    if not report.layers:
        return ""
    rows = [layer_row(layer) for layer in report.layers]
    return table(LAYER_HEADER, rows, right="layers N K")


def listing(title: str, lines: Iterable[str]) -> str:
    """Return a titled, indented list; "" where it is empty."""
    rows = [f"  {line}" for line in lines]
    return "\n".join([title, *rows]) if rows else ""


def _said(verdicts: Iterable[Verdict], skip: Verdict | None) -> list[str]:
    """Return a line for each verdict that is neither a pass nor unreached nor already on top."""
    return [
        f"{verdict_word(v)} ({v.stage}): {v.message or v.because}"
        + (f" [{v.because}]" if v.message else "")
        for v in verdicts
        if said(v) and v is not skip
    ]


def cache_line(report: Report) -> str:
    """Return the KV cache of one rank as one line."""
    kv = report.shapes.kv
    if kv is None:
        return ""
    heads = kv.kv_heads_per_rank
    values = f", v_head_dim {kv.v_head_dim}" if kv.v_head_dim != kv.head_dim else ""
    split = "cannot be split" if heads is None else heads
    return f"{kv.kind}, head_dim {kv.head_dim}{values}, KV heads a rank: {split}"


def prologue_lines(report: Report, skip: Verdict | None) -> list[str]:
    """Return what the fused attention prologue says, or why it is not run."""
    found = report.prologue
    if found is None:
        return []
    lines = [] if found.used else [f"not run: {found.why}"]
    if found.facts:
        f = found.facts
        lines.append(f"dq {f.dq}, dkv {f.dkv}, page {f.page_size}, MXFP8 {f.mxfp8}")
        lines += _said(found.verdicts, skip) or ["no guard speaks"]
    return lines


def suggestion_lines(suggestions: Sequence[dict[str, object]]) -> list[str]:
    """Return each set of changes with its outcome, its cost, and what still degrades."""
    lines = []
    for row in suggestions:
        changes, costs, degrades = row["changes"], row["costs"], row["degrades"]
        assert isinstance(changes, list) and isinstance(costs, list) and isinstance(degrades, list)
        lines.append(f"{' and '.join(changes)}: {row['outcome']}")
        lines += [f"  cost: {cost['cost']}" for cost in costs]
        lines += [f"  still: {text}" for text in degrades]
    return lines


def _around(report: Report) -> list[str]:
    first = report.first_stop[1] if report.first_stop else None
    cache = _said(report.kv_cache, first) or ["no guard speaks"]
    differences = [found.text() for found in report.shapes.differences]
    return [
        listing("also, at start", _said(report.server, first)),
        listing(f"KV cache: {cache_line(report)}", cache) if report.shapes.kv else "",
        listing("fused attention prologue", prologue_lines(report, first)),
        listing("it would run with (each tried)", suggestion_lines(report.suggestions)),
        listing("stored weights that differ from the config", differences),
        listing("unknown", report.shapes.unknown),
        listing("derived, not read", report.shapes.derived),
        listing("notes", report.shapes.notes),
    ]
