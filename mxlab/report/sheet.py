"""Reports and grids as CSV: one row for each verdict, or one for each cell."""

import csv
import io
from collections.abc import Iterable, Sequence

from mxlab.diagnosis import Report
from mxlab.report.common import clean
from mxlab.sweep import Grid

VERDICTS = (
    *("model", "system", "version", "gpu", "tp", "ep", "quantization", "outcome", "where"),
    *("kind", "shard", "layers", "quantized_layers", "n", "k", "guard", "stage", "status"),
    *("message", "because", "fix", "source"),
)
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


def guarded(value: object) -> object:
    """Return a cell that no spreadsheet runs as a formula: text that looks like one gets a quote.

    >>> guarded("=HYPERLINK(1)"), guarded(-3), guarded("qkv_proj")
    ("'=HYPERLINK(1)", -3, 'qkv_proj')
    """
    if value is None:
        return ""
    if isinstance(value, int | float):
        return value
    text = clean(value)
    return f"'{text}" if text.startswith(_FORMULA) else text


def _write(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(header)
    writer.writerows([guarded(value) for value in row] for row in rows)
    return out.getvalue().rstrip("\n")


def _verdicts(name: str, report: Report) -> Iterable[Sequence[object]]:
    d = report.deployment
    linears = {layer.linear.linear: layer for layer in report.layers}
    for where, verdict in report.subjects():
        layer = linears.get(where)
        row = layer.linear if layer else None
        yield (
            *(name, verdict.system, verdict.version, d.gpu, d.tp, d.ep, d.quantization),
            *(report.outcome, where),
            *((row.kind, row.shard, row.layers) if row else ("", "", "")),
            layer.coverage.layers if layer else "",
            *((row.n, row.k) if row else ("", "")),
            *(verdict.guard, verdict.stage, verdict.status.value, verdict.message),
            *(verdict.because, "; ".join(verdict.fixes), verdict.source),
        )


def reports_csv(reports: Sequence[tuple[str, Report]]) -> str:
    """Return every verdict of every report, in the order in which the system meets them."""
    return _write(VERDICTS, (row for name, report in reports for row in _verdicts(name, report)))


def grid_csv(grid: Grid) -> str:
    """Return every cell: the model, the axes, the outcome and the first stop.

    >>> from mxlab.guards import Deployment
    >>> from mxlab.sweep import sweep
    >>> grid = sweep({"Llama-3.1-8B": "Llama-3.1-8B"}, Deployment(gpu="b200"), {"tp": (1, 2)})
    >>> grid_csv(grid).splitlines()[1]
    'Llama-3.1-8B,1,runs,,,,,,,'
    """
    after = ("outcome", "where", "guard", "stage", "because", "message", "when", "degrades")
    return _write(
        ("model", *grid.axes, *after),
        (
            (
                *(cell.model, *cell.at.values(), cell.outcome, cell.where, cell.guard),
                *(cell.stage, cell.because, cell.message, cell.when),
                ", ".join(cell.degrades),
            )
            for cell in grid.cells
        ),
    )
