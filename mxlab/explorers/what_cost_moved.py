"""What does it cost? What moves bytes and multiplies none, and products of experts."""

from mxlab.explorers import colours
from mxlab.explorers.panels import Grid
from mxlab.explorers.what_cost_chart import bars
from mxlab.explorers.what_cost_data import Answer, Measured, Report, Run, duration

#: kind of report -> what a reader sees
WORK = {
    "quantize": "quantise",
    "dequantize": "dequantise",
    "interleave": "interleave scales",
    "grouped": "one product for each expert",
}


def moved(measured: Run, what: str) -> Answer:
    """Return what quantising and its like reach, beside the ceiling."""
    reports = measured.others(what)
    rows = [(_sizes(report), row, report.unit) for report in reports for row in report.rows]
    if not rows:
        return "unknown", "?", f"{WORK[what]} was not measured.", []
    unit = rows[0][2]

    def rate(row: Measured) -> float:
        return row.gb_per_s or row.rate if unit == "GB/s" else row.rate

    best_size, best, _ = max(
        (entry for entry in rows if entry[1].name.startswith("mxlab")), key=lambda e: rate(e[1])
    )
    answer = (
        f"On an {measured.gpu}, {best.name} reaches {rate(best):,.0f} {unit} at {best_size}; "
        f"the ceiling is {measured.ceilings[unit]:,.0f} {unit}."
    )
    said = "; ".join(f"{row.name} at {size} {rate(row):,.0f}" for size, row, _ in rows)
    chart = bars(
        id="chart",
        title=f"{WORK[what].capitalize()}: {unit}" + (" moved" if unit == "GB/s" else ""),
        alt=f"{unit}: {said}.",
        unit=unit,
        values={_sizes(report): {row.name: rate(row) for row in report.rows} for report in reports},
        ceiling=measured.ceilings[unit],
    )
    grid = Grid(
        id="times",
        title=f"{WORK[what].capitalize()}, each size",
        alt=f"{len(rows)} measurements; {best.name} at {best_size}: {rate(best):,.0f} {unit}.",
        corner="kernel and size",
        columns=("time", unit, "of the ceiling", "checked"),
        rows=tuple(f"{row.name}, {size}" for size, row, _ in rows),
        cells=[
            tuple((text, 0 if row.name.startswith("mxlab") else 1, number) for text in (
                duration(row.us), f"{rate(row):,.0f}",
                "" if row.of_ceiling is None else f"{100 * row.of_ceiling:.0f} %", row.checked))
            for number, (_, row, _) in enumerate(rows)
        ],
        legend=("mxlab", "others"),
        tones=(colours.RIGHT, colours.REFERENCE),
        say="{row}, {column}: {text}",
        wide=True,
    )  # fmt: skip
    return "passes", "▲", answer, [chart, grid]


def _sizes(report: Report) -> str:
    p = report.parameters
    if "experts" in p:
        return f"{p['experts']} x {p['tokens']} x {p['n']} x {p['k']}"
    return f"{p['rows']} x {p['cols']}"
