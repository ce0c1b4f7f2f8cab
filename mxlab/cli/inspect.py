"""``mxlab inspect``: what a checkpoint holds, and what was shipped in it by mistake."""

import argparse
from collections.abc import Iterator
from typing import Any

from mxlab.checkpoints import Finding, Report, inspect
from mxlab.checkpoints.names import shown
from mxlab.cli.result import Result, table

EXAMPLES = """examples:
  mxlab inspect model.safetensors
  mxlab inspect checkpoint-folder --bytes
  mxlab inspect model.safetensors.index.json --json
Only headers are read; --bytes samples scales too. Pickles are never opened."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument(
        "path", help="a .safetensors file, a folder, an index or a config.json (never a pickle)"
    )
    parser.add_argument(
        "--bytes", action="store_true", help="sample the bytes of scales (32 MiB at most)"
    )


def _size(count: int) -> str:
    units = ("B", "KB", "MB", "GB", "TB", "PB")
    value, at = float(count), 0
    while value >= 1000 and at < len(units) - 1:
        value, at = value / 1000, at + 1
    return f"{count} B" if at == 0 else f"{value:.2f} {units[at]}"


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _headline(report: Report) -> str:
    errors = [finding for finding in report.findings if finding.severity == "error"]
    warnings = [finding for finding in report.findings if finding.severity == "warning"]
    tail = f"; {_plural(len(warnings), 'warning')}" if warnings else ""
    if not errors:
        return f"no mistake found that stops{tail}"
    first = errors[0]
    more = f" and {_plural(len(errors) - 1, 'other error')}" if len(errors) > 1 else ""
    return f"this stops: {first.name} in {_plural(first.count, 'place')}{more}{tail}"


def _what(report: Report) -> str:
    held = report.checkpoint
    size = f", {_size(report.total_bytes)}" if report.total_bytes else ""
    files = f" in {_plural(len(held.paths), 'file')}" if held.paths else ""
    return f"{shown(held.path)}: {held.kind}, {_plural(len(held.tensors), 'tensor')}{files}{size}"


def _claim(report: Report) -> str:
    claim = report.claim
    if claim is None:
        none = "no config" if report.checkpoint.config is None else "nothing about quantisation"
        return f"claimed: {none}"
    block = f", one scale for {claim.block[0]} x {claim.block[1]}" if claim.block else ""
    count = len(claim.ignore)
    entries = f", {count} {'entry' if count == 1 else 'entries'} in {claim.ignore_key}"
    return f"claimed: {claim.weights} ({shown(claim.dialect)}){block}{entries if count else ''}"


def _format(entry: dict[str, Any]) -> str:
    dialect = f" ({shown(entry['dialect'])})" if entry["dialect"] else ""
    size = f", {_size(entry['bytes'])}" if entry["bytes"] else ""
    return f"{entry['format']}{dialect}: {_plural(entry['linears'], 'linear')}{size}"


def _shape(shape: list[int] | None) -> str:
    return "" if shape is None else "x".join(map(str, shape)) or "scalar"


def _row(row: dict[str, Any]) -> list[object]:
    scale = " ".join(filter(None, (row["scale_dtype"], _shape(row["scale_shape"]))))
    block = f" {row['block'][0]}x{row['block'][1]}" if row["format"] == "FP8 block" else ""
    layers = f"{row['layers']} ({row['layer_ranges']})" if row["layers"] else "1"
    return [
        shown(row["pattern"]),
        layers if len(layers) < 40 else f"{row['layers']}",
        row["experts"],
        row["n"],
        row["k"],
        row["format"] + block,
        row["weight_dtype"],
        scale or row["scale_name"],
    ]


def _finding(finding: Finding) -> Iterator[str]:
    guard = f" [SGLang guard {finding.guard}]" if finding.guard else ""
    yield f"{finding.severity} {finding.name}: {finding.message}{guard}"
    names = ", ".join(shown(name) for name in finding.tensors[:2])
    rest = f" and {finding.count - 2} more" if finding.count > 2 else ""
    yield f"  where: {names}{rest}"
    yield f"  {finding.meaning}"
    yield f"  fix: {finding.fix}"


def _bytes(report: Report) -> Iterator[str]:
    if report.bytes is None:
        return
    yield ""
    yield f"sampled {_size(report.bytes.read)}"
    rows = []
    for name, histogram in report.bytes.histograms.items():
        counts = histogram.counts
        common, count = counts.most_common(1)[0]
        share = f"{100 * count / sum(counts.values()):.0f} %"
        low, high = min(counts), max(counts)
        rows.append([shown(name), histogram.tensors, low, high, f"{common} ({share})"])
    if rows:
        yield table(
            ["scale", "tensors", "min", "max", "most common"], rows, right="tensors min max"
        )


def run(args: argparse.Namespace) -> Result:
    """Run the verb."""
    report = inspect(args.path, sample_bytes=args.bytes)
    data = report.to_json()
    lines = [_headline(report), _what(report), _claim(report)]
    lines += [f"found: {_format(entry)}" for entry in data["formats"]]
    if report.rows:
        header = ["linear", "layers", "experts", "N", "K", "format", "weight", "scale"]
        lines += ["", table(header, [_row(r) for r in data["linears"]], right="experts N K")]
    lines += _bytes(report)
    for finding in report.findings:
        lines += ["", *_finding(finding)]
    if report.left_out:
        lines += ["", f"{report.left_out} more findings of these kinds are left out"]
    if report.notes:
        lines += ["", "notes:", *(f"  {note}" for note in report.notes)]
    return Result(data, "\n".join(lines), exit_code=1 if report.stops else 0)
