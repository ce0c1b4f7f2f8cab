"""``mxlab doctor``: a model on a deployment, the first stop on top."""

import argparse
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mxlab.cli.doctor_models import Model, about, models_of
from mxlab.cli.model_input import CONFIG, add_linear_argument, plain_number
from mxlab.cli.result import Result
from mxlab.diagnosis import Report
from mxlab.doctor import doctor
from mxlab.errors import InputError, choose, quote, whole_number
from mxlab.guards import Deployment
from mxlab.guards.calls import MAX_SIZE, ROWS
from mxlab.guards.inputs import check_deployment
from mxlab.guards.settings import SETTINGS
from mxlab.guards.values import PACKAGES
from mxlab.hardware import gpu

EXAMPLES = """examples:
  mxlab doctor Llama-3.1-8B --gpu h200 --tp 8 --quantization mxfp8 --fp8-gemm-backend deep_gemm
  mxlab doctor path/to/config.json --gpu b200 --kv-cache-dtype mxfp8 --page-size 128
  mxlab doctor Qwen3-30B-A3B --gpu rtx5090 --tp 2 --quantization mxfp8 --without flashinfer
  mxlab doctor --linear down_proj 8192 29568 --gpu b200 --tp 8 --quantization mxfp8
  mxlab doctor folder/of/configs --quantization mxfp8 --sweep tp=1,2,4,8 gpu=h200,b200 backend=all
  mxlab doctor config.json --gpu b200 --tp 8 --output report.html   (.csv, .json, .xml: JUnit)

Flags keep SGLang's names. --sweep takes tp, ep, gpu, backend, moe, a2a, kv, page, attention,
quantization, dtype, toolkit and system. Exit code 1 when something stops; of a sweep, when there is
a model that no cell runs."""

FORMATS = {
    "table": "text",
    "json": "JSON (schema 1)",
    "csv": "a row for each verdict, or each cell of a sweep",
    "html": "one file that needs nothing else, to attach to an issue",
    "junit": "JUnit XML for a CI system",
}
_SUFFIXES = {".txt": "table", ".json": "json", ".csv": "csv", ".html": "html", ".xml": "junit"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``mxlab doctor``; the flags keep SGLang's names and defaults."""
    default = Deployment()
    parser.add_argument(
        "config",
        nargs="*",
        metavar="CONFIG",
        help=f"{CONFIG}; several, or a folder of config files, are answered one by one",
    )
    add_linear_argument(parser)
    parser.add_argument(
        "--gpu", default=default.gpu, help="h100, b200, rtx5090, mi355x, ... (default: %(default)s)"
    )
    for flag, meaning in (("tp", "tensor-parallel"), ("ep", "expert-parallel")):
        shown = f"{meaning} size (default: %(default)s)"
        parser.add_argument(f"--{flag}", type=int, default=1, metavar="SIZE", help=shown)
    for flag in (
        "quantization",
        "fp8-gemm-backend",
        "moe-runner-backend",
        "moe-a2a-backend",
        "kv-cache-dtype",
        "attention-backend",
        "dtype",
    ):
        name = flag.replace("-", "_")
        value = getattr(default, name)
        shown = f"as in SGLang (default: {value or 'not given'})"
        parser.add_argument(f"--{flag}", default=value, metavar="NAME", help=shown)
    parser.add_argument("--page-size", type=int, metavar="TOKENS", help="of the KV cache")
    parser.add_argument("--toolkit", metavar="VERSION", help="CUDA or ROCm version, such as 12.9")
    parser.add_argument("--system", default="sglang", metavar="NAME[@VERSION]", help="whose guards")
    parser.add_argument(
        "--m",
        type=int,
        metavar="ROWS",
        help=f"rows of activations, of a system other than SGLang (default: {ROWS})",
    )
    installed = ", ".join(sorted(default.packages))
    for flag, dest, meaning in (
        ("with", "present", f"installed too (taken as installed: {installed})"),
        ("without", "absent", "not installed"),
    ):
        parser.add_argument(
            f"--{flag}", action="append", default=[], dest=dest, metavar="PACKAGE", help=meaning
        )
    parser.add_argument(
        "--env", action="append", default=[], metavar="NAME=VALUE", help="an environment variable"
    )
    parser.add_argument(
        "--attn-dp-size", type=int, metavar="SIZE", help="ranks of data-parallel attention"
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        dest="settings",
        metavar="NAME=VALUE",
        help=f"what few guards look at: {', '.join(SETTINGS)}",
    )
    parser.add_argument(
        "--prologue",
        action="store_true",
        help="ask the fused attention prologue's checks even where SGLang does not run it",
    )
    parser.add_argument(
        "--sweep",
        nargs="+",
        default=[],
        metavar="AXIS=VALUES",
        help="a grid: tp=1,2,4 gpu=h100,b200 backend=all",
    )
    parser.add_argument(
        "--format", metavar="NAME", help=f"{', '.join(FORMATS)} (default: by --output, or table)"
    )
    parser.add_argument("--output", metavar="FILE", help="write there, whole or not at all")


def _environment(pairs: Iterable[str]) -> dict[str, str]:
    env = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise InputError(f"--env is {quote(pair)}: expected NAME=VALUE")
        env[name] = value
    return env


def _settings(args: argparse.Namespace) -> dict[str, object]:
    """Return the settings, each as the kind that its default is."""
    found: dict[str, object] = {}
    for pair in args.settings:
        name, equals, value = pair.partition("=")
        default = choose("setting", name, SETTINGS).default
        name = name.lower()
        if not equals:
            raise InputError(f"--set {quote(pair)}: expected NAME=VALUE")
        if isinstance(default, bool):
            words = {"true": True, "1": True, "false": False, "0": False}
            found[name] = choose(f"value of {name}", value, words)
        else:
            found[name] = plain_number(value) if isinstance(default, int) else value
    if args.attn_dp_size is not None:
        found["attn-dp-size"] = args.attn_dp_size
    return found


def _rows(args: argparse.Namespace) -> int:
    """Return M; SGLang is asked about a server that takes any."""
    if args.m is None:
        return ROWS
    if args.system.partition("@")[0].lower() == "sglang" and not args.sweep:
        raise InputError(
            f"--m is {quote(args.m)}: no guard of SGLang looks at it, of others some do"
        )
    return whole_number("--m", args.m, 1, MAX_SIZE)


def deployment_of(args: argparse.Namespace) -> Deployment:
    """Return the deployment that the flags describe; raise InputError for one that cannot be."""
    system, _, version = args.system.partition("@")
    for name in args.absent:  # a misspelt package must not pass for an absent one
        choose("package", name, dict.fromkeys(PACKAGES))
    packages = (Deployment().packages | set(args.present)) - set(args.absent)
    return Deployment(
        gpu=gpu(args.gpu).name,
        system=system,
        version=version,
        tp=args.tp,
        ep=args.ep,
        quantization=args.quantization,
        fp8_gemm_backend=args.fp8_gemm_backend,
        moe_runner_backend=args.moe_runner_backend,
        moe_a2a_backend=args.moe_a2a_backend,
        kv_cache_dtype=args.kv_cache_dtype,
        page_size=args.page_size,
        attention_backend=args.attention_backend,
        dtype=args.dtype,
        toolkit=args.toolkit,
        packages=frozenset(packages),
        env=_environment(args.env),
        settings=_settings(args),
    )


def _format(args: argparse.Namespace) -> str:
    """Return the format asked for; that of the file's suffix where none is named."""
    if args.json and args.format not in (None, "json"):
        raise InputError(f"--json and --format {quote(args.format)}: expected one of them")
    if args.json:
        return "json"
    if args.format is not None:
        return args.format if choose("format", args.format, FORMATS) else ""
    if args.output is None:
        return "table"
    suffix = Path(args.output).suffix.lower()
    if suffix not in _SUFFIXES:
        raise InputError(
            f"--output {quote(args.output)} says no format: expected {', '.join(_SUFFIXES)}, "
            "or --format"
        )
    return _SUFFIXES[suffix]


def run(args: argparse.Namespace) -> Result:
    """Run the verb."""
    form = _format(args)
    axes = [text for text in args.sweep if "=" in text]
    configs = [*args.config, *(text for text in args.sweep if "=" not in text)]
    models, base = models_of(configs, args.linear), deployment_of(args)
    if args.sweep:
        if not axes:
            raise InputError("--sweep has no axis: expected AXIS=VALUES, such as tp=1,2,4")
        answer = _sweep(models, base, axes, form, args)
    else:
        answer = _reports(models, base, form, args)
    if args.output is None:
        args.json = form == "json"  # the command line prints the JSON itself
        return answer
    from mxlab.report.common import clean, write_whole

    text = answer.text
    if form == "json":
        text = json.dumps({"schema": 1, "verb": "doctor", **answer.data}, indent=2, allow_nan=False)
    write_whole(args.output, text + "\n")
    args.json = False
    wrote = f"wrote {clean(args.output)!r} ({FORMATS[form]})"  # whole, however long: to be copied
    return Result(answer.data, f"{wrote}\n{answer.summary}", answer.exit_code)


@dataclass(frozen=True, slots=True)
class _Answer(Result):
    """A result that also has one line for a person who reads the file later."""

    summary: str = ""


def _reports(
    models: Sequence[Model], base: Deployment, form: str, args: argparse.Namespace
) -> _Answer:
    several = len(models) > 1
    suggest = form != "csv"  # a spreadsheet of verdicts has no place for them
    reports: list[tuple[str, Report]] = []
    for model in models:
        with about(model.name if several else ""):
            report = doctor(
                model.source, base, suggest=suggest, prologue=args.prologue, m=_rows(args)
            )
        reports.append((model.name, report))
    listed = [{"config": name, **report.to_json()} for name, report in reports]
    data: Mapping[str, Any] = {"reports": listed} if several else listed[0]
    code = int(any(report.outcome == "stops" for _, report in reports))
    from mxlab.report import text as words
    from mxlab.report.common import clean

    summary = "\n".join(f"{name}: {words.headline(report)}" for name, report in reports)
    if form == "csv":
        from mxlab.report.sheet import reports_csv

        text = reports_csv(reports)
    elif form == "html":
        from mxlab.report.html_page import reports_html

        text = reports_html(reports, _provenance(args))
    elif form == "junit":
        from mxlab.report.junit import reports_junit

        text = reports_junit(reports, _provenance(args))
    elif form == "table":
        text = "\n\n\n".join(words.render(name, report) for name, report in reports)
    else:
        text = ""
    return _Answer(data, text, code, clean(summary))


def _sweep(
    models: Sequence[Model],
    base: Deployment,
    texts: Sequence[str],
    form: str,
    args: argparse.Namespace,
) -> _Answer:
    from mxlab.report import grid as grids
    from mxlab.sweep import parse_axes, sweep

    axes = parse_axes(texts)
    check_deployment(base)
    grid = sweep({model.name: model.source for model in models}, base, axes, m=_rows(args))
    data = grid.to_json()
    if form == "csv":
        from mxlab.report.sheet import grid_csv

        text = grid_csv(grid)
    elif form == "html":
        from mxlab.report.html_page import grid_html

        text = grid_html(grid, _provenance(args))
    elif form == "junit":
        from mxlab.report.junit import grid_junit

        text = grid_junit(grid, _provenance(args))
    else:
        text = grids.render_grid(grid) if form == "table" else ""
    return _Answer(data, text, int(bool(grid.hopeless())), grids.counts_line(grid))


def _provenance(args: argparse.Namespace) -> Any:
    from mxlab.report.common import Provenance

    return Provenance(argv=["doctor", *args.argv])
