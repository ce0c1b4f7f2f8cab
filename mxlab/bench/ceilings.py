"""The two ceilings of a GPU, measured in the run that uses them: bytes, and operations."""

from functools import lru_cache

import torch

from mxlab.bench.gpu_timing import graph_timing


@lru_cache(maxsize=1)
def ceilings() -> dict[str, float]:
    """Return ``GB/s`` of reading and writing 1 GiB each, ``TFLOP/s`` of cuBLAS bf16 at 8192^3.

    The bytes are moved by an addition: what ``copy_`` becomes in a graph is a slower engine's copy.
    """
    x = torch.randn(1 << 28, device="cuda")
    y = torch.empty_like(x)
    moving = graph_timing([lambda: torch.add(x, 1.0, out=y)] * 2)
    a, b = (torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    multiplying = graph_timing([lambda: a @ b.T] * 4)
    return {
        "GB/s": 2 * (1 << 30) / moving.minimum / 1e9,
        "TFLOP/s": 2 * 8192**3 / multiplying.minimum / 1e12,
    }
