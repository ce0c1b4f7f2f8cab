"""Time ``gemm`` on a CPU: every backend beside a float32 product of the dequantised operands."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from mxlab.arrays import dequantize, quantize
from mxlab.bench.report import Report, Row
from mxlab.bench.timing import measure
from mxlab.errors import choose, whole_number
from mxlab.gemm import BACKENDS, gemm


def bench_gemm(*, m: int = 16, n: int = 1024, k: int = 1024, backend: str = "all") -> Report:
    """Time (M, K) x (N, K) -> (M, N) in MXFP8 on this CPU, in GFLOP/s.

    The peer is one float32 BLAS product of operands that were dequantised before the clock starts.
    Every result is compared with the float64 reference. Raises InputError for sizes or names.
    """
    whole_number("m", m, 1, 2**16)
    whole_number("n", n, 1, 2**16)
    whole_number("k", k, 32, 2**16, multiple_of=32)
    if backend != "all":
        choose("backend", backend, {**BACKENDS, "all": None})
    random = np.random.default_rng(0)
    a = quantize(random.standard_normal((m, k), dtype=np.float32), "e4m3", rule="rceil")
    b = quantize(random.standard_normal((n, k), dtype=np.float32), "e4m3", rule="rceil")
    every = [name for name, row in BACKENDS.items() if not row.fault(a, b)]
    names = every if backend == "all" else [backend]
    left, right = dequantize(a), dequantize(b).T.copy()
    variants: dict[str, Callable[[], Any]] = {
        f"mxlab {name}": partial(gemm, a, b, backend=name) for name in names
    }
    variants["NumPy float32, dequantised before"] = lambda: left @ right
    exact = gemm(a, b, backend="reference")
    scale = float(np.abs(exact).max())
    checked = {
        name: f"error {float(np.abs(call() - exact).max()) / scale:.1e} of the largest value"
        for name, call in variants.items()
    }
    timings = measure(variants)
    return Report(
        title="gemm on a CPU (emulated MXFP8)",
        parameters={"m": m, "n": n, "k": k, "backend": backend},
        work=2 * m * n * k / 1e9,
        unit="GFLOP/s",
        rows=[
            Row(
                name=name,
                peer=not name.startswith("mxlab"),
                timing=timings[name],
                checked=checked[name],
            )
            for name in variants
        ],
    )
