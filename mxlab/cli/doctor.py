"""``mxlab doctor``: a model on a deployment, the first stop on top."""

import argparse
from collections.abc import Iterable

from mxlab.cli.result import Result, table
from mxlab.doctor import LayerReport, Report, doctor
from mxlab.errors import InputError, choose, quote
from mxlab.guards import GUARDS, STAGES, Deployment, Status, Verdict
from mxlab.guards.values import PACKAGES
from mxlab.hardware import gpu

EXAMPLES = """examples:
  mxlab doctor Llama-3.1-8B --gpu h200 --tp 8 --quantization mxfp8 --fp8-gemm-backend deep_gemm
  mxlab doctor path/to/config.json --gpu b200 --kv-cache-dtype mxfp8 --page-size 128
  mxlab doctor Qwen3-30B-A3B --gpu rtx5090 --tp 2 --quantization mxfp8 --without flashinfer

Flags keep SGLang's names. Exit code 1 when something stops."""

_ERRORS = {guard.id: guard.error for guard in GUARDS}
_WORDS = {
    "stops": "STOPS",
    "runs": "RUNS",
    "runs-degraded": "RUNS, DEGRADED",
    "unknown": "UNKNOWN",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``mxlab doctor``; the flags keep SGLang's names and defaults."""
    default = Deployment()
    parser.add_argument("config", metavar="CONFIG", help="config.json, its folder, or a model name")
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


def _environment(pairs: Iterable[str]) -> dict[str, str]:
    env = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise InputError(f"--env is {quote(pair)}: expected NAME=VALUE")
        env[name] = value
    return env


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
    )


def run(args: argparse.Namespace) -> Result:
    """Run the verb."""
    report = doctor(args.config, deployment_of(args))
    data = {"config": args.config, **report.to_json()}
    return Result(data, render(args.config, report), int(report.outcome == "stops"))


def render(name: str, report: Report) -> str:
    """Return the report as text: the first stop, the layers, the cache, what would run."""
    parts = [_head(name, report), _stop(report), _layers(report), _around(report)]
    return "\n\n".join(part for part in parts if part)


def _head(name: str, report: Report) -> str:
    d, s = report.deployment, report.shapes
    machine = gpu(d.gpu)
    version = report.server[0].version
    flags = [
        f"--{field.replace('_', '-')} {getattr(d, field)}"
        for field in (
            "quantization",
            "fp8_gemm_backend",
            "moe_runner_backend",
            "kv_cache_dtype",
            "page_size",
            "attention_backend",
            "dtype",
        )
        if getattr(d, field) not in (None, "auto")
    ]
    ep = f", EP {d.ep}" if d.ep > 1 else ""
    return (
        f"{name}: {s.family or 'no recipe'} ({s.architecture or s.model_type or 'unnamed'})\n"
        f"on {machine.label} ({machine.arch}), TP {d.tp}{ep}, SGLang {version}"
        f"{' ' + ' '.join(flags) if flags else ''}\n"
        f"packages: {', '.join(sorted(d.packages)) or 'none'}"
    )


def _stop(report: Report) -> str:
    word = _WORDS[report.outcome]
    if report.first_stop is None:
        return word + (
            ": no guard stops it, but something is replaced, slower or silent; see below"
            if report.outcome == "runs-degraded"
            else ": not everything is known; see below"
            if report.outcome == "unknown"
            else ": no guard stops it"
        )
    where, stop = report.first_stop
    at = "" if where == "server" else f" at {where}"
    lines = [f"{word}{at} in {stop.stage} ({STAGES[stop.stage]}): {stop.guard}"]
    if stop.message:
        lines.append(f"  {_ERRORS.get(stop.guard, '')}: {stop.message}")
    lines.append(f"  because  {stop.because}")
    lines += [f"  fix      {fix}" for fix in stop.fixes]
    return "\n".join(lines)


def _verdict(verdict: Verdict) -> str:
    """Return status and guard; an id that begins with its status says it once."""
    status = verdict.status.value
    same = verdict.guard.startswith(f"{status}-")
    return verdict.guard if same else f"{status} {verdict.guard}"


def _row(layer: LayerReport) -> list[object]:
    row, cover, worst = layer.linear, layer.coverage, layer.worst
    count = f"{cover.layers}/{row.layers}" if 0 < cover.layers < row.layers else row.layers
    if worst is not None:
        more = sum(v.status is Status.STOPS for v in layer.verdicts) - (
            worst.status is Status.STOPS
        )
        tail = f" (and {more} more)" if more else ""
        verdict, because = _verdict(worst), worst.because + tail
    elif cover.layers == 0:
        verdict, because = "16 bit", cover.why_not
    else:
        passed = [v.because for v in layer.verdicts if v.status is Status.PASSES]
        verdict = "passes" if passed else "no guard"
        reasons = passed or [v.because for v in layer.verdicts] or ["no guard looks at it"]
        because = next((text for text in reversed(reasons) if "%" in text), reasons[-1])
    return [row.linear, count, row.n, row.k, verdict, because]


def _layers(report: Report) -> str:
    if not report.layers:
        return ""
    header = ["layer", "layers", "N", "K", "verdict", "because"]
    return table(header, [_row(layer) for layer in report.layers], right="layers N K")


def _listing(title: str, lines: Iterable[str]) -> str:
    rows = [f"  {line}" for line in lines]
    return "\n".join([title, *rows]) if rows else ""


def _said(verdicts: Iterable[Verdict], skip: Verdict | None) -> list[str]:
    """Return a line for each verdict that is neither a pass nor unreached nor already on top."""
    quiet = (Status.PASSES, Status.NOT_REACHED)
    return [
        f"{_verdict(v)} ({v.stage}): {v.message or v.because}"
        + (f" [{v.because}]" if v.message else "")
        for v in verdicts
        if v.status not in quiet and v is not skip
    ]


def _around(report: Report) -> str:
    first = report.first_stop[1] if report.first_stop else None
    kv = report.shapes.kv
    sizes = ""
    if kv:
        sizes = f"{kv.kind}, head_dim {kv.head_dim}"
        sizes += f", v_head_dim {kv.v_head_dim}" if kv.v_head_dim != kv.head_dim else ""
        heads = kv.kv_heads_per_rank
        sizes += f", KV heads a rank: {'cannot be split' if heads is None else heads}"
    cache = _said(report.kv_cache, first) or ["no guard speaks"]
    changes = [f"{', '.join(row['changes'])}: {row['outcome']}" for row in report.suggestions]
    parts = [
        _listing("also, at start", _said(report.server, first)),
        _listing(f"KV cache: {sizes}", cache) if kv else "",
        _listing("it would run with (each tried)", changes),
        _listing("unknown", report.shapes.unknown),
        _listing("derived, not read", report.shapes.derived),
        _listing("notes", report.shapes.notes),
    ]
    return "\n\n".join(part for part in parts if part)
