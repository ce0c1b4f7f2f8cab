"""Reports and grids as one self-contained HTML file: nothing is fetched, nothing is run."""

from collections.abc import Iterable, Sequence
from html import escape

from mxlab.diagnosis import Report
from mxlab.guards import STAGES, Status, Verdict
from mxlab.report import grid as grid_text
from mxlab.report import text as words
from mxlab.report.common import Provenance, clean, said, system_name
from mxlab.report.style import STYLE
from mxlab.sweep import Grid

#: a page may not load, send or run anything, whatever a hostile name smuggles into it
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def _safe(value: object) -> str:
    return escape("" if value is None else clean(value))


class _Cell:
    """A table cell: a value, and the classes of its element."""

    def __init__(self, value: object, classes: str = "") -> None:
        self.value, self.classes = value, classes

    def html(self, tag: str = "td", scope: str = "") -> str:
        classes = f' class="{_safe(self.classes)}"' if self.classes else ""
        scope = f' scope="{scope}"' if scope else ""
        return f"<{tag}{scope}{classes}>{_safe(self.value)}</{tag}>"


def _table(caption: str, header: Sequence[str], rows: Iterable[Sequence[_Cell]]) -> str:
    """Return a table with a caption; the first cell of each row is its header."""
    numeric = {name for name in header if name in ("layers", "N", "K", "number")}
    head = "".join(_Cell(h, "n" if h in numeric else "").html("th", "col") for h in header)
    body = "\n".join(
        f"<tr>{row[0].html('th', 'row')}{''.join(cell.html() for cell in row[1:])}</tr>"
        for row in rows
    )
    return (
        f'<div class="wide" role="group" tabindex="0" aria-label="{_safe(caption)}">'
        f"<table><caption>{_safe(caption)}</caption>\n<thead><tr>{head}</tr></thead>\n"
        f"<tbody>\n{body}\n</tbody></table></div>"
    )


def _answer(report: Report) -> str:
    lines = [f"<p>{_safe(words.headline(report))}</p>"]
    if report.first_stop is not None and report.dies is not None:
        stop = report.first_stop[1]
        lines.append(f"<p>{_safe(report.dies.when)}</p>")
        if stop.message:
            lines.append(f"<pre>{_safe(words.error_class(stop))}: {_safe(stop.message)}</pre>")
        lines.append(f"<p>because {_safe(stop.because)}</p>")
        lines += [f"<p>fix: {_safe(fix)}</p>" for fix in stop.fixes]
    return f'<div class="answer {_safe(report.outcome)}">{"".join(lines)}</div>'


def _order(report: Report) -> str:
    rows = [
        (
            _Cell(f"{place}. {entry.verdict.guard}", "word"),
            _Cell(f"{entry.verdict.stage}, {STAGES[entry.verdict.stage]}"),
            _Cell(", ".join(entry.where)),
            _Cell(entry.verdict.because, "long"),
            _Cell(entry.dies.when, "long"),
        )
        for place, entry in enumerate(report.stops(), 1)
    ]
    if not rows:
        return ""
    caption = "Order of failure: each guard is asked on its own, a stop hides none behind it"
    return _table(caption, ("guard", "stage", "where", "because", "when"), rows)


def _layers(report: Report) -> str:
    rows = []
    for layer in report.layers:
        name, count, n, k, verdict, because = words.layer_row(layer)
        status = layer.worst.status.value if layer.worst else "passes"
        rows.append(
            (
                *(_Cell(name, "word"), _Cell(count, "n"), _Cell(n, "n"), _Cell(k, "n")),
                *(_Cell(verdict, f"word {status}"), _Cell(because, "long")),
            )
        )
    caption = "Linears of one rank: N x K, output x input features"
    return _table(caption, words.LAYER_HEADER, rows) if rows else ""


def _verdicts(caption: str, verdicts: Iterable[Verdict]) -> str:
    """Return what was said, as a table; "" where nothing was."""
    rows = [
        (
            _Cell(verdict.guard, "word"),
            _Cell(verdict.status.value, f"word {verdict.status.value}"),
            _Cell(verdict.stage, "word"),
            _Cell(verdict.message or "(says nothing)", "long"),
            _Cell(verdict.because, "long"),
            _Cell("; ".join(verdict.fixes), "long"),
        )
        for verdict in verdicts
        if said(verdict)
    ]
    header = ("guard", "status", "stage", "message", "because", "fix")
    return _table(caption, header, rows) if rows else ""


def _suggestions(report: Report) -> str:
    rows = []
    for row in report.suggestions:
        costs = "; ".join(cost["cost"] for cost in row["costs"])
        still = "; ".join(row["degrades"]) or "nothing degrades"
        outcome = row["outcome"]
        rows.append(
            (
                _Cell(" and ".join(row["changes"]), "long"),
                _Cell(outcome, f"word {outcome}"),
                _Cell(costs, "long"),
                _Cell(still, "long"),
            )
        )
    caption = "It would run with: each set was tried, and none of its changes can be spared"
    return _table(caption, ("changes", "outcome", "cost", "still"), rows) if rows else ""


def _list(title: str, lines: Sequence[str]) -> str:
    items = "".join(f"<li>{_safe(line)}</li>" for line in lines)
    return f"<h3>{_safe(title)}</h3><ul>{items}</ul>" if lines else ""


def _report(name: str, report: Report) -> str:
    detail = [
        _verdicts(f"Linear {layer.linear.linear}: what its guards say", layer.verdicts)
        for layer in report.layers
        if layer.worst is not None and layer.worst.status is not Status.UNKNOWN
    ]
    prologue = report.prologue
    heard = prologue.verdicts if prologue else ()
    cache = f"KV cache: {words.cache_line(report)}"
    sections = [
        f"<h2>{_safe(name)}</h2>",
        f"<p>{_safe(words.model_line(report))}<br>{_safe(words.machine_line(report))}</p>",
        _answer(report),
        _suggestions(report),
        _order(report),
        _layers(report),
        _verdicts("Server arguments and the checkpoint's config", report.server),
        _verdicts(cache, report.kv_cache) or (f"<p>{_safe(cache)}</p>" if report.shapes.kv else ""),
        _list("Fused attention prologue", words.prologue_lines(report, None)) if heard else "",
        *detail,
        _list(
            "Stored weights that differ from the config",
            [found.text() for found in report.shapes.differences],
        ),
        _list("Unknown", report.shapes.unknown),
        _list("Derived, not read", report.shapes.derived),
        _list("Notes", report.shapes.notes),
    ]
    return f"<article>{chr(10).join(part for part in sections if part)}</article>"


def _page(title: str, body: str, provenance: Provenance, versions: Sequence[str]) -> str:
    made, about = provenance.lines(versions)
    command = _safe(made.removeprefix("made by: "))
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        f"<title>{_safe(title)}</title><style>{STYLE}</style></head>\n"
        f"<body><main><h1>{_safe(title)}</h1>\n{body}\n</main>\n"
        f"<footer><p>made by: <code>{command}</code><br>{_safe(about)}</p></footer>"
        "</body></html>"
    )


def reports_html(reports: Sequence[tuple[str, Report]], provenance: Provenance) -> str:
    """Return the page of one or several reports."""
    title = f"mxlab doctor: {reports[0][0]}" if len(reports) == 1 else "mxlab doctor"
    overview = ""
    if len(reports) > 1:
        rows = [
            (_Cell(name, "word"), _Cell(words.headline(report), f"long {report.outcome}"))
            for name, report in reports
        ]
        overview = _table(f"{len(reports)} models", ("model", "answer"), rows)
    body = overview + "\n".join(_report(name, report) for name, report in reports)
    asked = {system_name(report.deployment.system, report.version) for _, report in reports}
    return _page(title, body, provenance, sorted(asked))


def grid_html(grid: Grid, provenance: Provenance) -> str:
    """Return the page of a sweep: a table for each model, and the reasons by number."""
    reasons = grid_text.Reasons(len(grid.models) > 1)
    column = grid_text.across(grid.axes)
    parts = [f"<p>{_safe(grid_text.counts_line(grid))}</p>"]
    for model in grid.models:
        header, rows = grid_text.rows(grid, model, reasons)
        down = len(grid.axes) - 1
        cells = [
            [
                _Cell(v, "word") if i < down else _Cell(v, f"word {_class(str(v))}")
                for i, v in enumerate(row)
            ]
            for row in rows
        ]
        if not down:  # one axis: the model is the row's header
            header, cells = ["model", *header], [[_Cell(model, "word"), *row] for row in cells]
        parts.append(f"<h2>{_safe(model)}</h2>")
        parts.append(_table(f"{model}: {', '.join(grid.axes)}; {column} across", header, cells))
    numbered = [(_Cell(number, "n"), _Cell(reason)) for number, reason in reasons.lines()]
    if numbered:
        parts += ["<h2>Reasons</h2>", _table("Reasons", ("number", "reason"), numbered)]
    asked = grid.axes.get("system", ((grid.base.system, grid.base.version),))
    versions = [system_name(*pair) for pair in asked]
    return _page("mxlab doctor: sweep", "\n".join(parts), provenance, versions)


def _class(word: str) -> str:
    """Return the class of a cell's word."""
    first = word.split(" ", 1)[0]
    known = {
        "runs": "runs",
        "degraded": "runs-degraded",
        "unknown": "unknown",
        "invalid": "invalid",
    }
    return known.get(first, "stops")
