"""The measurements behind every figure of the book, as one run: ``mxlab bench --suite h200``."""

import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from mxlab.bench.provenance import provenance
from mxlab.bench.report import Report
from mxlab.errors import InputError, choose

#: kind of measurement -> the function that makes it, imported when it runs: it needs torch
BENCHES = {
    "quantize": "gpu_memory.bench_quantize_gpu",
    "interleave": "gpu_memory.bench_layout",
    "dequantize": "gpu_memory.bench_dequantize",
    "gemm": "gpu_gemm.bench_gemm_gpu",
    "grouped": "gpu_gemm.bench_grouped",
    "prologue": "prologue.bench_prologue",
    "attention": "decode_attention.bench_decode_attention",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One measurement of the suite: its name in the run, its kind, and what it is called with."""

    name: str
    kind: str
    sizes: Mapping[str, int | str]

    def measure(self) -> Report:
        """Measure it on this GPU. Raises InputError without one and for a wrong result."""
        module, _, function = BENCHES[self.kind].partition(".")
        bench: Callable[..., Report] = getattr(import_module(f"mxlab.bench.{module}"), function)
        return bench(**self.sizes)

    def made(self, report: Mapping[str, Any]) -> bool:
        """Tell whether a report, as JSON, has what this case is called with."""
        found = report["parameters"]
        return all(found.get(name) == size for name, size in self.sizes.items())


def _sized(kind: str, sizes: tuple[tuple[int, ...], ...], *names: str) -> list[Case]:
    return [
        Case(
            name=f"{kind} {'x'.join(map(str, size))}",
            kind=kind,
            sizes=dict(zip(names, size, strict=True)),
        )
        for size in sizes
    ]


def _prologue(mode: str, tokens: int, q_heads: int = 32) -> Case:
    heads = {"q_heads": q_heads, "kv_heads": 8}
    sizes: dict[str, int | str] = {"mode": mode, "tokens": tokens, **heads}
    return Case(name=f"prologue {mode} {tokens}, {q_heads} + 8", kind="prologue", sizes=sizes)


#: what decode sees: weights (N, K) of one layer
DECODE = ((8192, 8192), (28672, 8192), (8192, 28672), (2880, 2880))
FEW = (1, 8, 16, 32, 48, 64)
#: rows at one weight, for the plot against M and the crossovers of ``auto``
SWEEP = (96, 128, 256, 512, 1024, 2048)
PRODUCTS = (
    *((m, n, k) for n, k in DECODE for m in FEW),
    *((m, 8192, 8192) for m in SWEEP),
    *((4096, 4096, 4096), (8192, 8192, 8192)),
)

H200 = (
    *_sized("quantize", ((16384, 16384), (4096, 8192), (16, 8192)), "rows", "cols"),
    *_sized("interleave", ((65536, 1024), (131072, 4096), (65536, 1026)), "rows", "cols"),
    *_sized("dequantize", ((16384, 8192),), "rows", "cols"),
    *_sized("gemm", PRODUCTS, "m", "n", "k"),
    *_sized("grouped", ((64, 256),), "experts", "tokens"),
    _prologue("extend", 8192),
    _prologue("extend", 8192, 48),
    _prologue("extend", 32768),
    _prologue("verify", 8192),
    _prologue("decode", 64),
    _prologue("decode", 256),
    *_sized("attention", ((1, 32768), (8, 4096)), "sequences", "length"),
)


#: name -> its measurements
SUITES = {"h200": H200}


def run_suite(suite: str = "h200", *, progress: bool = False) -> dict[str, Any]:
    """Run a suite on this GPU: its reports as JSON, with one provenance for all.

    Nothing is kept of an earlier run; ``progress`` names each measurement on standard error.
    Raises InputError for another name, without torch, without a GPU and for the first wrong result.
    """
    cases = choose("suite", suite, SUITES)
    try:
        import torch

        from mxlab.bench.gpu_timing import gpu_provenance, require_gpu
    except ImportError as error:
        raise InputError(f"the suite needs torch and a CUDA GPU: {error}") from None
    require_gpu()
    reports, ceilings, started = {}, {}, time.monotonic()
    for case in cases:
        torch.cuda.empty_cache()
        answer = case.measure().to_json()
        del answer["provenance"]
        ceilings = answer.pop("ceilings")
        reports[case.name] = answer
        if progress:
            print(f"{time.monotonic() - started:6.1f} s  {case.name}", file=sys.stderr)
    where = {**provenance(gpu_provenance()["gpu"]), **gpu_provenance()}
    return {"suite": suite, "ceilings": ceilings, "provenance": where, "reports": reports}
