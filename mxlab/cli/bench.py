"""``mxlab bench``: measure this machine, every time beside its peer's in the same run."""

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from mxlab.bench.report import Report, Row
from mxlab.cli.result import Result, table
from mxlab.errors import InputError, choose, quote

KINDS = (
    *("quantize", "gemm", "interleave", "dequantize", "prologue", "attention"),
    *("compare", "plot"),
)
GPU_ONLY = ("interleave", "dequantize", "prologue", "attention")

EXAMPLES = """examples:
  mxlab bench
  mxlab bench quantize --rows 2048 --cols 2048 --dtype float32 --rule floor
  mxlab bench quantize --all        2048 and 8192 squared, both dtypes, every rule: minutes
  mxlab bench gemm --m 16 --n 1024 --k 1024 --backend all --json
  mxlab bench gemm --device cuda --m 16 --n 8192 --k 8192
  mxlab bench interleave --device cuda --rows 65536 --cols 1024
  mxlab bench prologue --device cuda --mode extend --tokens 8192 --q-heads 32 --kv-heads 8
  mxlab bench attention --device cuda --sequences 1 --tokens 32768
  mxlab bench --suite h200 --json > run.json       every figure of the book: minutes on a GPU
  mxlab bench compare before.json run.json         exit 1 where something became slower
  mxlab bench plot run.json pictures               SVG and a table for each

Needs the extra `arrays`; torch and torchao are timed too where they are installed. The first call
of a compiled variant compiles: "first ms" shows what that costs."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``mxlab bench``."""
    parser.add_argument("what", nargs="?", default="quantize", metavar="|".join(KINDS))
    parser.add_argument("files", nargs="*", metavar="FILE", help="of compare and plot")
    parser.add_argument("--device", default="cpu", metavar="cpu|cuda")
    parser.add_argument("--suite", metavar="h200", help="measure everything that the book shows")
    for name, size in (("rows", 2048), ("cols", 2048), ("m", 16), ("n", 1024), ("k", 1024)):
        parser.add_argument(f"--{name}", type=int, default=size, metavar="SIZE")
    heads = (("tokens", 8192), ("q-heads", 32), ("kv-heads", 8), ("sequences", 1))
    for name, size in heads:
        parser.add_argument(f"--{name}", type=int, default=size, metavar="SIZE")
    parser.add_argument("--mode", default="extend", metavar="verify|extend|decode")
    parser.add_argument("--dtype", default="bfloat16", metavar="float32|bfloat16")
    parser.add_argument("--rule", default="rceil", metavar="RULE|all")
    parser.add_argument("--backend", default="all", metavar="NAME")
    parser.add_argument("--all", action="store_true", help="the whole grid of quantize")
    parser.add_argument("--no-memory", action="store_true", help="leave peak memory out")


def run(args: argparse.Namespace) -> Result:
    """Run the verb."""
    what = choose("benchmark", args.what, {name: name for name in KINDS})
    device = choose("device", args.device, {"cpu": "cpu", "cuda": "cuda"})
    wanted = {"compare": 2, "plot": 2}.get(what, 0)
    if len(args.files) != wanted:
        names = {"compare": " (two runs)", "plot": " (a run, and a folder)"}.get(what, "")
        raise InputError(f"{what} with {len(args.files)} files: expected {wanted}{names}")
    if args.suite is not None:
        return _suite(args.suite)
    if what in ("compare", "plot"):
        return _compare(*args.files) if what == "compare" else _plot(*args.files)
    if args.all and (what != "quantize" or device != "cpu"):
        raise InputError(f"--all with {what!r} on {device}: expected it with 'quantize' on cpu")
    if args.all:
        return _grid(args)
    report = _on_gpu(what, args) if device == "cuda" else _measure(what, args)
    return Result(report.to_json(), render(report))


def _suite(name: str) -> Result:
    from mxlab.bench.suite import run_suite

    data = run_suite(name, progress=True)
    lines = [
        [report, row["name"], f"{row['rate']:,.1f} {found['unit']}",
         f"{row['seconds']['median'] * 1e6:,.2f}", row["checked"]]
        for report, found in data["reports"].items()
        for row in found["rows"]
    ]  # fmt: skip
    header = ["measurement", "variant", "rate", "median us", "checked"]
    ceilings = ", ".join(f"{value:,.0f} {unit}" for unit, value in data["ceilings"].items())
    return Result(data, f"ceilings: {ceilings}\n\n{table(header, lines, right='rate')}")


def _compare(before: str, after: str) -> Result:
    from mxlab.bench.compare import compare, load

    changes = compare(load(before), load(after))
    slower = sum(change.verdict == "slower" for change in changes)
    lines = [
        [
            c.verdict,
            f"{c.ratio:.2f}",
            *(f"{seconds * 1e6:,.2f}" for seconds in (c.before, c.after)),
            c.report,
            c.row,
        ]
        for c in changes
    ]
    header = ["verdict", "ratio", "before us", "after us", "measurement", "variant"]
    data = {"slower": slower, "changes": [{**asdict(c), "ratio": c.ratio} for c in changes]}
    text = f"{slower} of {len(changes)} rows are slower\n\n{table(header, lines, right='ratio')}"
    return Result(data, text, exit_code=1 if slower else 0)


def _plot(run: str, folder: str) -> Result:
    from mxlab.bench.compare import load_run
    from mxlab.bench.plots import PLOTS, draw

    data, path = load_run(run), Path(folder)
    try:
        path.mkdir(parents=True, exist_ok=True)
        drawn = [str(draw(make(data), path / f"{make.__name__}.svg")) for make in PLOTS]
    except OSError as error:
        raise InputError(f"cannot write into {quote(folder)}: {error.strerror}") from None
    return Result({"files": drawn}, "\n".join(drawn))


def _on_gpu(what: str, args: argparse.Namespace) -> Report:
    if what in ("prologue", "attention"):
        return _attention(what, args)
    try:
        from mxlab.bench import gpu_gemm, gpu_memory
    except ImportError as error:
        raise InputError(f"--device cuda needs torch and Triton: {error}") from None
    if what == "gemm":
        return gpu_gemm.bench_gemm_gpu(m=args.m, n=args.n, k=args.k, backend=args.backend)
    if what == "interleave":
        return gpu_memory.bench_layout(rows=args.rows, cols=args.cols)
    if what == "dequantize":
        return gpu_memory.bench_dequantize(rows=args.rows, cols=args.cols)
    return gpu_memory.bench_quantize_gpu(
        rows=args.rows, cols=args.cols, dtype=args.dtype, rule=args.rule
    )


def _attention(what: str, args: argparse.Namespace) -> Report:
    try:
        from mxlab.bench.decode_attention import bench_decode_attention
        from mxlab.bench.prologue import bench_prologue
    except ImportError as error:
        raise InputError(f"--device cuda needs torch and Triton: {error}") from None
    if what == "attention":
        return bench_decode_attention(sequences=args.sequences, length=args.tokens)
    return bench_prologue(
        mode=args.mode, tokens=args.tokens, q_heads=args.q_heads, kv_heads=args.kv_heads
    )


def _measure(what: str, args: argparse.Namespace) -> Report:
    if what in GPU_ONLY:
        raise InputError(f"{what} on cpu: it is measured with --device cuda")
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


def _of_ceiling(row: dict[str, Any], measured: bool) -> list[str]:
    if not measured:
        return []
    if row.get("bytes") is None:
        return ["", ""]
    return [f"{row['gb_per_s']:,.0f}", f"{row['of_ceiling']:.2f}"]


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
            f"{row['seconds']['median'] * 1e3:,.4g}",
            f"{row['seconds']['minimum'] * 1e3:,.4g}..{row['seconds']['maximum'] * 1e3:,.4g}",
            f"{row['seconds']['first'] * 1e3:,.2f}",
            "" if row["peak_memory_ratio"] is None else f"{row['peak_memory_ratio']:.2f}",
            *_of_ceiling(row, "ceilings" in data),
            row["checked"],
        ]
        for row in data["rows"]
    ]
    ceiling = ["GB/s", "of ceiling"] if "ceilings" in data else []
    times = ["median ms", "spread ms", "first ms", "peak", *ceiling, "checked"]
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
