"""``mxlab bench``: measure this machine, every time beside its peer's in the same run."""

import argparse

from mxlab.bench.report import Report
from mxlab.cli.result import Result, table
from mxlab.errors import InputError, choose

EXAMPLES = """examples:
  mxlab bench
  mxlab bench quantize --rows 2048 --cols 2048 --dtype float32 --rule floor
  mxlab bench gemm --m 16 --n 1024 --k 1024 --backend all --json

Needs the extra `arrays`; torchao is timed too where it is installed."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``mxlab bench``."""
    parser.add_argument("what", nargs="?", default="quantize", metavar="quantize|gemm")
    parser.add_argument("--device", default="cpu", metavar="cpu")
    for name, size in (("rows", 2048), ("cols", 2048), ("m", 16), ("n", 1024), ("k", 1024)):
        parser.add_argument(f"--{name}", type=int, default=size, metavar="SIZE")
    parser.add_argument("--dtype", default="bfloat16", metavar="float32|bfloat16")
    parser.add_argument("--rule", default="rceil", metavar="RULE")
    parser.add_argument("--backend", default="all", metavar="NAME")


def run(args: argparse.Namespace) -> Result:
    """Run the verb."""
    what = choose("benchmark", args.what, {name: name for name in ("quantize", "gemm")})
    choose("device", args.device, {"cpu": "cpu"})
    try:
        report = _measure(what, args)
    except ImportError as missing:
        raise InputError(
            f"bench needs {missing.name}: install the extra, pip install 'mxlab[arrays]'"
        ) from None
    return Result(report.to_json(), render(report))


def _measure(what: str, args: argparse.Namespace) -> Report:
    if what == "gemm":
        from mxlab.bench.gemm import bench_gemm

        return bench_gemm(m=args.m, n=args.n, k=args.k, backend=args.backend)
    from mxlab.bench.quantize import bench_quantize

    return bench_quantize(rows=args.rows, cols=args.cols, dtype=args.dtype, rule=args.rule)


def render(report: Report) -> str:
    """Return the run as a table, with what a reader needs to repeat it."""
    data = report.to_json()
    rows = [
        [
            row["name"],
            f"{row['rate']:,.1f}",
            f"{row['ratio_to_fastest_peer']:.2f}" if row["ratio_to_fastest_peer"] else "",
            f"{row['seconds']['median'] * 1e3:,.2f}",
            f"{row['seconds']['minimum'] * 1e3:,.2f}..{row['seconds']['maximum'] * 1e3:,.2f}",
            f"{row['seconds']['first'] * 1e3:,.2f}",
            row["checked"],
        ]
        for row in data["rows"]
    ]
    header = ["variant", data["unit"], "ratio", "median ms", "spread ms", "first ms", "checked"]
    where = data["provenance"]
    versions = ", ".join(f"{name} {number}" for name, number in where["versions"].items())
    return "\n".join(
        [
            f"{data['title']}: {', '.join(f'{k} {v}' for k, v in data['parameters'].items())}",
            f"ratio: to the fastest peer of this run, {data['fastest_peer']}",
            "",
            table(header, rows, right=f"{data['unit']} ratio"),
            "",
            f"{where['device']}, {where['cores']} cores, {where['system']}; {versions}",
            f"{where['date']}, commit {where['commit'] or 'unknown'}: {where['command']}",
        ]
    )
