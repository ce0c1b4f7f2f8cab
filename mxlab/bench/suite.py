"""The measurements behind every figure of the book, as one run: ``mxlab bench --suite h200``."""

import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from mxlab.bench.gpu_timing import gpu_provenance, require_gpu
from mxlab.bench.provenance import provenance
from mxlab.bench.report import Report

#: what decode sees: weights (N, K) of one layer
DECODE = ((8192, 8192), (28672, 8192), (8192, 28672), (2880, 2880))
FEW = (1, 8, 16, 32, 48, 64)
#: rows at one weight, for the plot against M and the crossovers of ``auto``
SWEEP = (96, 128, 256, 512, 1024, 2048)
QUANTIZE = ((16384, 16384), (4096, 8192), (16, 8192))
LAYOUT = ((65536, 1024), (131072, 4096), (65536, 1026))


def _jobs() -> Iterator[tuple[str, Callable[[], Report]]]:
    from mxlab.bench import gpu_gemm, gpu_memory

    for rows, cols in QUANTIZE:
        yield (
            f"quantize {rows}x{cols}",
            lambda rows=rows, cols=cols: gpu_memory.bench_quantize_gpu(rows=rows, cols=cols),  # type: ignore[misc]
        )
    for rows, cols in LAYOUT:
        yield (
            f"interleave {rows}x{cols}",
            lambda rows=rows, cols=cols: gpu_memory.bench_layout(rows=rows, cols=cols),  # type: ignore[misc]
        )
    yield "dequantize 16384x8192", lambda: gpu_memory.bench_dequantize()
    sizes = [(m, n, k) for n, k in DECODE for m in FEW]
    sizes += [(m, 8192, 8192) for m in SWEEP] + [(4096, 4096, 4096), (8192, 8192, 8192)]
    for m, n, k in sizes:
        yield (
            f"gemm {m}x{n}x{k}",
            lambda m=m, n=n, k=k: gpu_gemm.bench_gemm_gpu(m=m, n=n, k=k),  # type: ignore[misc]
        )
    yield "grouped 64x256", lambda: gpu_gemm.bench_grouped()


def run_suite(*, progress: bool = False) -> dict[str, Any]:
    """Run the suite on this GPU: its reports as JSON, with one provenance for all.

    Nothing is kept of an earlier run; ``progress`` names each measurement on standard error.
    Raises InputError without a GPU and for the first wrong result.
    """
    import torch

    require_gpu()
    reports, started = {}, time.monotonic()
    for name, job in _jobs():
        torch.cuda.empty_cache()
        answer = job().to_json()
        for common in ("provenance", "ceilings"):
            value = answer.pop(common)
            if common == "ceilings":
                ceilings = value
        reports[name] = answer
        if progress:
            spent = time.monotonic() - started
            print(f"{spent:6.1f} s  {name}", file=sys.stderr)
    where = {**provenance(gpu_provenance()["gpu"]), **gpu_provenance()}
    return {"suite": "h200", "ceilings": ceilings, "provenance": where, "reports": reports}


#: name -> suite
SUITES: dict[str, Callable[..., dict[str, Any]]] = {"h200": run_suite}
