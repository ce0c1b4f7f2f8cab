"""What does it cost? A product: throughput under the roof, and every kernel at one size."""

from collections.abc import Sequence
from math import log

from mxlab.explorers import colours
from mxlab.explorers.controls import State
from mxlab.explorers.panels import AnyPanel, Grid
from mxlab.explorers.what_cost_chart import Series, lines
from mxlab.explorers.what_cost_data import BF16, Answer, Measured, Report, Run, duration
from mxlab.explorers.what_cost_here import timed_here

#: name -> hue; what is not here is grey
_TONES = {
    "mxlab triton-skinny": colours.SCALE,
    "mxlab triton-mixed": colours.KEPT,
    "mxlab torch-dequant": colours.SIGN,
    "mxlab triton": colours.FLUSHED,
    "tl.dot_scaled": colours.WRONG,
    BF16: colours.EXPONENT,
    "torch fp8": colours.MANTISSA,
}


def product(measured: Run, state: State) -> Answer:
    """Return status, sign, sentence and panels for the weights and the M of a state."""
    reports = measured.weights()[str(state["weights"])]
    asked = int(state["m"])
    report = min(reports, key=lambda r: (abs(log(int(r.parameters["m"]) / asked)), r.name))
    m, n, k = (int(report.parameters[name]) for name in "mnk")
    bf16 = next(row for row in report.rows if row.name == BF16)
    best = min((row for row in report.rows if row.mxfp8), key=lambda row: row.us)
    ratio = bf16.us / best.us
    near = "" if m == asked else f"M = {asked} was not measured, {m} is the nearest. "
    answer = (
        f"{near}On an {measured.gpu}, emulated MXFP8, M = {m}, (N, K) = ({n:,}, {k:,}): "
        f"{best.name} takes {duration(best.us)}, {BF16} {duration(bf16.us)}: "
        f"{ratio:.2f} times as fast."
    )
    status, sign = ("passes", "▲") if ratio >= 1 else ("warns", "▼")
    panels: list[AnyPanel] = [
        _chart(measured, reports, report, str(state["lines"]), str(state["axis"])),
        _table(report, bf16),
    ]
    if state["here"] == "yes":
        panels.append(timed_here(m, n, k))
    return status, sign, answer, panels


def _chosen(reports: Sequence[Report], which: str) -> list[str]:
    names = list(dict.fromkeys(row.name for report in reports for row in report.rows))
    mxfp8 = {row.name for report in reports for row in report.rows if row.mxfp8}
    if which == "mxfp8":
        return [name for name in names if name in mxfp8]
    if which == "best":
        first = {
            min((row for row in report.rows if row.mxfp8), key=lambda row: row.us).name
            for report in reports
        }
        return [name for name in names if name in first or name not in mxfp8]
    return names


def _chart(
    measured: Run, reports: Sequence[Report], chosen: Report, which: str, axis: str
) -> AnyPanel:
    """Return TFLOP/s against M or against operations a byte, under the measured roof."""
    bandwidth, peak = measured.ceilings["GB/s"], measured.ceilings["TFLOP/s"]

    def x(report: Report, row: Measured) -> float:
        return float(report.parameters["m"]) if axis == "m" else report.flops / (row.bytes or 1)

    series = []
    best = min((row for row in chosen.rows if row.mxfp8), key=lambda row: row.us).name
    for name in _chosen(reports, which):
        found = [(x(r, row), row.rate) for r in reports for row in r.rows if row.name == name]
        tone = _TONES.get(name, colours.REFERENCE)
        series.append(Series(name=name, points=sorted(found), tone=tone, strong=name == best))
    roof = []
    for report in reports:
        row = next(row for row in report.rows if row.mxfp8 and row.bytes)
        bound = min(peak, report.flops / (row.bytes or 1) * bandwidth / 1e3)
        roof.append((x(report, row), bound))
    series.append(Series(name="roof, MXFP8 bytes", points=sorted(roof), tone=colours.REFERENCE,
                         dashed=True))  # fmt: skip
    mark = x(chosen, next(row for row in chosen.rows if row.name == best))
    p = chosen.parameters
    said = "; ".join(f"{row.name} {row.rate:.4g}" for row in chosen.rows)
    return lines(
        id="chart",
        title=f"Throughput of (N, K) = ({p['n']:,}, {p['k']:,})",
        alt=f"TFLOP/s at M = {p['m']}: {said}; the roof of {bandwidth:,.0f} GB/s and "
        f"{peak:,.0f} TFLOP/s allows {dict(roof)[x(chosen, _first(chosen))]:.4g}.",
        x="M, rows of activations" if axis == "m" else "operations for each byte moved",
        y="TFLOP/s",
        series=series,
        mark=mark,
    )


def _first(report: Report) -> Measured:
    return next(row for row in report.rows if row.mxfp8 and row.bytes)


def _table(report: Report, bf16: Measured) -> Grid:
    ordered = sorted(report.rows, key=lambda row: row.us)
    cells = []
    for number, row in enumerate(ordered):
        texts = (
            duration(row.us),
            f"{row.rate:.4g}",
            "" if row.gb_per_s is None else f"{row.gb_per_s:,.0f}",
            "" if row.of_ceiling is None else f"{100 * row.of_ceiling:.0f} %",
            f"{bf16.us / row.us:.2f}",
            row.checked.removeprefix("relative error "),
            row.format,
        )
        cells.append(tuple((text, 0 if row.mxfp8 else 1, number) for text in texts))
    p = report.parameters
    return Grid(
        id="times",
        title=f"M = {p['m']}, (N, K) = ({p['n']:,}, {p['k']:,}), the fastest first",
        alt="; ".join(f"{row.name} {duration(row.us)}" for row in ordered) + ".",
        corner="kernel",
        columns=("time", "TFLOP/s", "GB/s", "of the roof", "x bf16", "error", "multiplies"),
        rows=tuple(row.name for row in ordered),
        cells=cells,
        legend=("MXFP8, emulated on Hopper", "another format"),
        tones=(colours.SCALE, colours.EXPONENT),
        say="{row}, {column}: {text}",
        wide=True,
    )
