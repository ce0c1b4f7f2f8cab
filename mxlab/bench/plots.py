"""Pictures of a suite's run, each with the table that it draws."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """One picture as data: lines of (x, y) by name, or bars where x are names."""

    name: str
    title: str
    x: str
    y: str
    lines: Mapping[str, list[tuple[Any, float]]]
    log_x: bool = False
    log_y: bool = False
    roof: tuple[float, float] | None = None  # GB/s and TFLOP/s
    joined: bool = True  # points of one name by a line

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Return (header, rows) of everything that is drawn."""
        xs = sorted({x for points in self.lines.values() for x, _ in points}, key=_order)
        rows = []
        for at in xs:
            found = [dict(points).get(at) for points in self.lines.values()]
            rows.append([str(at), *("" if y is None else f"{y:.4g}" for y in found)])
        return [self.x, *self.lines], rows


def _order(value: Any) -> tuple[int, float, str]:
    return (0, float(value), "") if isinstance(value, int | float) else (1, 0.0, str(value))


def _gemms(run: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [r for name, r in run["reports"].items() if name.startswith("gemm ")]


def throughput(run: Mapping[str, Any], n: int = 8192, k: int = 8192) -> Plot:
    """Return TFLOP/s against M at one weight (N, K), a line for each backend and peer."""
    lines: dict[str, list[tuple[Any, float]]] = {}
    for report in _gemms(run):
        p = report["parameters"]
        if (p["n"], p["k"]) == (n, k):
            for row in report["rows"]:
                lines.setdefault(row["name"], []).append((p["m"], row["rate"]))
    for points in lines.values():
        points.sort()
    return Plot(
        name="throughput",
        title=f"Throughput against rows, weights {n} x {k}",
        x="M, rows of activations",
        y="TFLOP/s",
        lines=lines,
        log_x=True,
        log_y=True,
    )


def roofline(run: Mapping[str, Any]) -> Plot:
    """Return TFLOP/s against operations a byte, under the two measured ceilings."""
    lines: dict[str, list[tuple[Any, float]]] = {}
    for report in _gemms(run):
        for row in report["rows"]:
            if row.get("bytes"):
                intensity = round(report["flops"] / row["bytes"], 3)
                lines.setdefault(row["name"], []).append((intensity, row["rate"]))
    for points in lines.values():
        points.sort()
    ceilings = run["ceilings"]
    return Plot(
        name="roofline",
        title="Roofline: products under the measured ceilings",
        x="operations a byte",
        y="TFLOP/s",
        lines=lines,
        log_x=True,
        log_y=True,
        roof=(ceilings["GB/s"], ceilings["TFLOP/s"]),
        joined=False,
    )


def fraction(run: Mapping[str, Any]) -> Plot:
    """Return how much of the ceiling mxlab's fastest row reaches, and cuBLAS bf16 or the copy."""
    ours, theirs = "fastest of mxlab", "cuBLAS bf16 or a copy"
    lines: dict[str, list[tuple[Any, float]]] = {ours: [], theirs: []}
    for name, report in run["reports"].items():
        for kind, rows in (
            (ours, [r for r in report["rows"] if not r["peer"]]),
            (theirs, [r for r in report["rows"] if r["name"].startswith(("cuBLAS", "copy"))]),
        ):
            measured = [r for r in rows if r.get("of_ceiling")]
            if measured:
                best = min(measured, key=lambda r: r["seconds"]["median"])
                lines[kind].append((name, best["of_ceiling"]))
    return Plot(
        name="fraction",
        title="Fraction of the measured ceiling",
        x="measurement",
        y="least time / time",
        lines=lines,
    )


PLOTS = (throughput, roofline, fraction)


def draw(plot: Plot, path: str | Path) -> Path:
    """Write a plot as SVG or PNG, by the path's ending, with its table beside it as Markdown."""
    from matplotlib.figure import Figure

    path = Path(path)
    bars = not plot.log_x
    figure = Figure(figsize=(9, 6 + 0.16 * bars * max(map(len, plot.lines.values()), default=0)))
    axes = figure.subplots()
    for index, (name, points) in enumerate(plot.lines.items()):
        xs, ys = [x for x, _ in points], [y for _, y in points]
        if bars:
            axes.plot(ys, xs, "os"[index % 2], label=name)
        else:
            line = "-" if plot.joined else ""
            axes.plot(xs, ys, line, marker="os^vDPX*"[index % 8], label=name)
    if plot.roof is not None:
        low, high = 1.0, 1e4
        knee = plot.roof[1] / plot.roof[0] * 1e3
        axes.plot(
            [low, knee, high],
            [low * plot.roof[0] / 1e3, plot.roof[1], plot.roof[1]],
            "k--",
            label="ceiling",
        )
    if bars:
        axes.set_xlim(0, 1.1)
        axes.axvline(1, color="k", linestyle="--")
        axes.invert_yaxis()
    else:
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
    axes.set_xlabel(plot.y if bars else plot.x)
    axes.set_ylabel("" if bars else plot.y)
    axes.set_title(plot.title)
    axes.grid(alpha=0.3)
    if plot.lines:
        axes.legend()
    figure.tight_layout()
    figure.savefig(path)
    header, rows = plot.table()
    lines = ["| " + " | ".join(cells) + " |" for cells in (header, ["---"] * len(header), *rows)]
    path.with_suffix(".md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path
