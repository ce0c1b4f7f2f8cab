"""``mxlab bench``: measure this machine, every time beside its peer's in the same run."""

import argparse
from collections.abc import Sequence

from mxlab.bench.report import Report, Row
from mxlab.cli.result import Result, table
from mxlab.errors import InputError, choose

EXAMPLES = """examples:
  mxlab bench
  mxlab bench quantize --rows 2048 --cols 2048 --dtype float32 --rule floor
  mxlab bench quantize --all        2048 and 8192 squared, both dtypes, every rule: minutes
  mxlab bench gemm --m 16 --n 1024 --k 1024 --backend all --json

Needs the extra `arrays`; torch and torchao are timed too where they are installed. The first call
of a compiled variant compiles: "first ms" shows what that costs."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``mxlab bench``."""
    parser.add_argument("what", nargs="?", default="quantize", metavar="quantize|gemm")
    parser.add_argument("--device", default="cpu", metavar="cpu")
    for name, size in (("rows", 2048), ("cols", 2048), ("m", 16), ("n", 1024), ("k", 1024)):
        parser.add_argument(f"--{name}", type=int, default=size, metavar="SIZE")
    parser.add_argument("--dtype", default="bfloat16", metavar="float32|bfloat16")
    parser.add_argument("--rule", default="rceil", metavar="RULE|all")
    parser.add_argument("--backend", default="all", metavar="NAME")
    parser.add_argument("--all", action="store_true", help="the whole grid of quantize")
    parser.add_argument("--no-memory", action="store_true", help="leave peak memory out")


def run(args: argparse.Namespace) -> Result:
    """Run the verb."""
    what = choose("benchmark", args.what, {name: name for name in ("quantize", "gemm")})
    choose("device", args.device, {"cpu": "cpu"})
    if args.all and what != "quantize":
        raise InputError(f"--all with {what!r}: expected it with 'quantize'")
    if args.all:
        return _grid(args)
    report = _measure(what, args)
    return Result(report.to_json(), render(report))


def _measure(what: str, args: argparse.Namespace) -> Report:
    if what == "gemm":
        from mxlab.bench.gemm import bench_gemm

        return bench_gemm(m=args.m, n=args.n, k=args.k, backend=args.backend)
    from mxlab.bench.quantize import bench_quantize

    return bench_quantize(
        rows=args.rows,
        cols=args.cols,
        dtype=args.dtype,
        rule=args.rule,
        memory=not args.no_memory,
    )


def _grid(args: argparse.Namespace) -> Result:
    from mxlab.bench.quantize import DTYPES, SIZES, bench_quantize

    reports = [
        bench_quantize(rows=size, cols=size, dtype=dtype, rule="all", memory=not args.no_memory)
        for size in SIZES
        for dtype in DTYPES
    ]
    text = "\n\n\n".join([*map(render, reports), summary(reports)])
    return Result({"reports": [report.to_json() for report in reports]}, text)


def summary(reports: Sequence[Report]) -> str:
    """Return one line for each run and each way of ours: its slowest rule against the peers."""
    lines = []
    for report in reports:
        ways: dict[str, list[Row]] = {}
        for row in report.rows:
            if not row.peer:
                ways.setdefault(row.name.rpartition(", ")[0], []).append(row)
        for rows in ways.values():
            slowest = max(rows, key=lambda row: row.timing.median)
            ratios = [f"{ratio:.2f}" for ratio in report.ratios(slowest).values()]
            peak = "" if slowest.peak is None else f"{slowest.peak:.2f}"
            size, dtype = report.parameters["rows"], report.parameters["dtype"]
            lines.append([size, dtype, slowest.name, *ratios, peak])
    families = [f"x {name}" for name in reports[0].families]
    header = ["size", "dtype", "slowest rule", *families, "peak"]
    meaning = "times as fast as each peer's fastest; peak memory over input and output"
    return "\n\n".join([meaning, table(header, lines)])


def render(report: Report) -> str:
    """Return the run as a table, with what a reader needs to repeat it."""
    data = report.to_json()
    families = list(data["fastest_of"])
    rows = [
        [
            row["name"],
            f"{row['rate']:,.1f}",
            f"{row['ratio_to_fastest_peer']:.2f}" if row["ratio_to_fastest_peer"] else "",
            *(f"{row['ratios'][name]:.2f}" for name in families),
            f"{row['seconds']['median'] * 1e3:,.2f}",
            f"{row['seconds']['minimum'] * 1e3:,.2f}..{row['seconds']['maximum'] * 1e3:,.2f}",
            f"{row['seconds']['first'] * 1e3:,.2f}",
            "" if row["peak_memory_ratio"] is None else f"{row['peak_memory_ratio']:.2f}",
            row["checked"],
        ]
        for row in data["rows"]
    ]
    times = ["median ms", "spread ms", "first ms", "peak", "checked"]
    header = ["variant", data["unit"], "ratio", *(f"x {name}" for name in families), *times]
    where = data["provenance"]
    versions = ", ".join(f"{name} {number}" for name, number in where["versions"].items())
    return "\n".join(
        [
            f"{data['title']}: {', '.join(f'{k} {v}' for k, v in data['parameters'].items())}",
            f"ratio: to the fastest peer of this run, {data['fastest_peer']}",
            *(f"x {name}: times as fast as {best}" for name, best in data["fastest_of"].items()),
            *(["peak: memory over input and output together"] if families else []),
            "",
            table(header, rows, right=f"{data['unit']} ratio"),
            "",
            f"{where['device']}, {where['cores']} cores, {where['system']}; {versions}",
            f"{where['date']}, commit {where['commit'] or 'unknown'}: {where['command']}",
        ]
    )
