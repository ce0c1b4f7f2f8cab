"""Timing on the machine at hand: where a kernel with a CUDA GPU serves the explorer, and not else.

The published page runs in a browser, where there is no GPU for Python; it says so.
"""

from pathlib import Path
from typing import Any

from mxlab.errors import InputError
from mxlab.explorers.panels import Facts

_DEVICE = Path("/dev/nvidiactl")  # asked before torch is: importing torch takes seconds
_MOST = 1 << 28  # elements of the weights; a view is no benchmark run
_TITLE = "Timed here, just now"


def timed_here(m: int, n: int, k: int) -> Facts:
    """Return the times of every kernel that serves here for (M, N, K), or why there are none."""
    if n * k > _MOST:
        return _none(f"{n} x {k} is more than is timed here: run mxlab bench gemm")
    if not _DEVICE.exists():
        return _none("Python has no CUDA GPU here: nothing was timed")
    try:
        from mxlab.bench.gpu_gemm import bench_gemm_gpu

        found: dict[str, Any] = bench_gemm_gpu(m=m, n=n, k=k, replays=3).to_json()
    except (ImportError, InputError) as error:
        return _none(f"nothing was timed: {str(error)[:200]}")
    rows = tuple(
        (row["name"], f"{1e6 * row['seconds']['median']:.1f} us", f"{row['rate']:.4g} TFLOP/s")
        for row in sorted(found["rows"], key=lambda row: float(row["seconds"]["median"]))
    )
    device = str(found["provenance"]["device"])
    alt = f"On this {device}, M = {m}, (N, K) = ({n}, {k}): {rows[0][0]} {rows[0][1]}."
    return Facts(id="here", title=f"{_TITLE}, on {device}", alt=alt, rows=rows)


def _none(why: str) -> Facts:
    return Facts(id="here", title=_TITLE, alt=f"{why}.", rows=(("none", "", why),))
