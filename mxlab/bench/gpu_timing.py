"""Timing on a GPU: a CUDA graph of rotated calls, replayed; medians and spread per call."""

import statistics
import subprocess
from collections.abc import Callable, Sequence
from typing import Any

import torch

from mxlab.bench.timing import Timing, call_once
from mxlab.errors import InputError

COLD = 1 << 30  # bytes of rotated operands: many times any L2


def copies(nbytes: int, least: int = 2, most: int = 512) -> int:
    """Return how many operands of ``nbytes`` to rotate so that none is found in a cache.

    >>> copies(64 << 20), copies(4 << 30), copies(1)
    (17, 2, 512)
    """
    return max(least, min(most, COLD // max(1, nbytes) + 1))


def require_gpu() -> None:
    """Raise InputError where there is no CUDA GPU, before anything is measured."""
    if not torch.cuda.is_available():
        raise InputError("device is 'cuda': torch finds no CUDA GPU here; --device cpu measures it")


def graph_timing(calls: Sequence[Callable[[], Any]], *, replays: int = 9) -> Timing:
    """Time calls captured in one CUDA graph: seconds of one, from ``replays`` of the whole.

    The calls are variants of one with rotated operands. Two replays come before the clock; the
    first call, which compiles, is timed apart on the host.
    """
    _, first = call_once(lambda: _finished(calls[0]))
    for call in calls[1:3]:
        call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for call in calls:
            call()
    spent = []
    for turn in range(replays + 2):
        begin, end = _event(), _event()
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        if turn > 1:
            spent.append(begin.elapsed_time(end) / 1e3 / len(calls))
    del graph
    return Timing(first, min(spent), statistics.median(spent), max(spent), replays * len(calls))


def _finished(call: Callable[[], Any]) -> None:
    call()
    torch.cuda.synchronize()


def _event() -> Any:
    return torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]


def gpu_provenance() -> dict[str, Any]:
    """Return what names the GPU: its name, capability, multiprocessors, driver and CUDA version."""
    properties = torch.cuda.get_device_properties(0)
    return {
        "gpu": properties.name,
        "capability": [properties.major, properties.minor],
        "multiprocessors": properties.multi_processor_count,
        "memory_bytes": properties.total_memory,
        "driver": _driver(),
        "cuda": torch.version.cuda,
    }


def _driver() -> str | None:
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        ran = subprocess.run(command, capture_output=True, text=True)
    except OSError:
        return None
    return ran.stdout.strip().splitlines()[0] if ran.returncode == 0 and ran.stdout else None
