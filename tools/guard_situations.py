"""Find ordinary situations in which each guard speaks: mxlab/data/guard_situations.json.

Shipped models are asked about usual deployments; what no model meets is shown by the example of the
guard's page. Run it as ``python -m tools.guard_situations`` after a change of the guards.
"""

import json
import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path

from book.site.guard_examples import Example, trips
from mxlab.doctor import doctor
from mxlab.errors import InputError
from mxlab.guards import Deployment, Status
from mxlab.guards.data import every_row
from mxlab.guards.systems import IDS
from mxlab.hardware import gpu
from mxlab.models import read_model, shipped_models

FILE = Path(__file__).parents[1] / "mxlab" / "data" / "guard_situations.json"
MOST = 3  # of one guard, each with another model

_SPEAKS = (Status.STOPS, Status.WARNS, Status.SILENT, Status.FALLS_BACK)
_MXFP8: dict[str, object] = {"quantization": "mxfp8"}
_CACHE: dict[str, object] = {**_MXFP8, "kv_cache_dtype": "mxfp8"}
#: flags by themselves, the most usual first
FLAGS: tuple[dict[str, object], ...] = (
    {},
    _MXFP8,
    {**_MXFP8, "fp8_gemm_backend": "deep_gemm"},
    {**_MXFP8, "fp8_gemm_backend": "flashinfer_trtllm"},
    {**_MXFP8, "fp8_gemm_backend": "flashinfer_cutlass"},
    {**_MXFP8, "fp8_gemm_backend": "triton"},
    {**_CACHE, "attention_backend": "fa4", "page_size": 128},
    {**_CACHE, "attention_backend": "fa4", "page_size": 64},
    {**_CACHE, "attention_backend": "fa3"},
    {**_CACHE, "attention_backend": "triton"},
    {"kv_cache_dtype": "fp8_e4m3"},
    {**_MXFP8, "moe_runner_backend": "deep_gemm"},
    {**_MXFP8, "moe_runner_backend": "cutlass"},
    {**_MXFP8, "moe_runner_backend": "flashinfer_trtllm"},
    {**_MXFP8, "moe_a2a_backend": "flashinfer_megamoe"},
    {**_MXFP8, "packages": frozenset({"deep_gemm"})},
    {**_MXFP8, "packages": frozenset()},
    {**_MXFP8, "dtype": "float16"},
    {"dtype": "float32"},
)
GPUS = ("h200", "b200", "rtx5090", "mi355x", "mi300x", "l40s", "a100")
OTHER = ("b200", "h200", "rtx5090", "mi355x", "a100")
TPS = (1, 8)


def deployments() -> Iterator[Deployment]:
    """Yield the deployments that each model is asked about, the most usual first."""
    for flags, name, tp in product(FLAGS, GPUS, TPS):
        yield Deployment(gpu=name, tp=tp, **flags)  # type: ignore[arg-type]
    for system, flags, name, tp in product(IDS[1:], FLAGS[:2], OTHER, TPS):
        yield Deployment(gpu=name, tp=tp, system=system, **flags)  # type: ignore[arg-type]


def command(model: str, deployment: Deployment) -> str:
    """Return the command that asks about a model on a deployment.

    >>> command("Llama-3.1-8B", Deployment(gpu="b200", tp=8, packages=frozenset()))
    'mxlab doctor Llama-3.1-8B --gpu b200 --tp 8 --without deep_gemm --without flashinfer'
    """
    words = ["mxlab doctor", model, "--gpu", deployment.gpu]
    plain = Deployment()
    for name in Deployment.__dataclass_fields__:
        value = getattr(deployment, name)
        if name not in ("gpu", "packages") and value != getattr(plain, name):
            words += [f"--{name.replace('_', '-')}", str(value)]
    for package in sorted(plain.packages - deployment.packages):
        words += ["--without", package]
    return " ".join(words)


def of_models() -> dict[str, list[dict[str, str | None]]]:
    """Return for each guard the first models that meet it; best where nothing stops before."""
    models = {name: read_model(name) for name in shipped_models()}
    found: dict[str, dict[str, dict[str, str | None]]] = {}
    behind: dict[str, dict[str, dict[str, str | None]]] = {}
    for deployment in deployments():
        for name, model in models.items():
            try:
                report = doctor(model, deployment, suggest=False)
            except InputError:
                continue
            stop = report.first_stop[1] if report.first_stop else None
            for where, verdict in report.heard():
                before = stop is not None and stop.guard != verdict.guard
                mine = (behind if before else found).setdefault(verdict.guard, {})
                if verdict.status in _SPEAKS and name not in mine and len(mine) < MOST:
                    said = f"{name}, {where} at TP {deployment.tp} on {gpu(deployment.gpu).label}"
                    first = f"; {stop.guard} stops it first" if before and stop else ""
                    mine[name] = {
                        "text": f"{said}: {verdict.because}{first}",
                        "command": command(name, deployment),
                    }
    shown = {}
    for id in (*found, *behind):
        mine = {**behind.get(id, {}), **found.get(id, {})}
        order = [*found.get(id, {}), *(name for name in mine if name not in found.get(id, {}))]
        shown[id] = [mine[name] for name in order[:MOST]]
    return {id: rows for id, rows in shown.items() if rows}


def of_example(example: Example) -> dict[str, str | None]:
    """Return the example of a page as one sentence."""
    settings = dict(example.settings)
    label = gpu(str(settings.get(("deployment", "gpu"), "h200"))).label
    own = ", ".join(
        f"{name} = {value}"
        for (subject, name), value in settings.items()
        if (subject, name) not in (("deployment", "gpu"), ("deployment", "system"), ("config", ""))
    )
    return {
        "text": f"{label}{', ' if own else ''}{own}: {example.finding.because}",
        "command": None,
    }


def main() -> int:
    """Write the file."""
    found = of_models()
    rows = [row for row, _ in every_row()]
    for row in rows:
        example = trips(row)
        if row.id not in found and example is not None:
            found[row.id] = [of_example(example)]
    ordered = {row.id: found[row.id] for row in rows if row.id in found}
    text = json.dumps({"situations": ordered}, indent=1, ensure_ascii=True)
    FILE.write_text(text + "\n", encoding="utf-8")
    seen = sum(one[0]["command"] is not None for one in ordered.values())
    print(f"{len(ordered)} of {len(rows)} guards, {seen} seen with shipped models", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
