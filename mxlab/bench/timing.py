"""Wall-clock timing on a CPU: variants take turns, and the median is what counts."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds of one variant: the first call apart, then minimum, median and maximum."""

    first: float
    minimum: float
    median: float
    maximum: float
    runs: int


def measure(
    variants: Mapping[str, Callable[[], object]], *, runs: int = 7, seconds: float = 2.0
) -> dict[str, Timing]:
    """Time every variant ``runs`` times in turn (round robin), so that drift hits all alike.

    A variant that is slower than its share of ``seconds`` gets at least three runs. The first
    call (compilation, page faults) is reported apart and not counted.

    >>> measure({"nothing": lambda: None}, runs=3)["nothing"].runs
    3
    """
    first: dict[str, float] = {}
    times: dict[str, list[float]] = {name: [] for name in variants}
    for name, call in variants.items():
        start = time.perf_counter()
        call()
        first[name] = time.perf_counter() - start
    for turn in range(runs):
        for name, call in variants.items():
            if turn >= 3 and sum(times[name]) > seconds:
                continue
            start = time.perf_counter()
            call()
            times[name].append(time.perf_counter() - start)
    return {
        name: Timing(first[name], min(spent), median(spent), max(spent), len(spent))
        for name, spent in times.items()
    }
