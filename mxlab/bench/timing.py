"""Wall-clock timing on a CPU: variants take turns, and the median is what counts."""

import time
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from statistics import median
from typing import TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds of one variant: the first call apart, then minimum, median and maximum."""

    first: float
    minimum: float
    median: float
    maximum: float
    runs: int


def call_once(call: Callable[[], Value]) -> tuple[Value, float]:
    """Return what a call returns, and the seconds that it took.

    >>> call_once(lambda: 3)[0]
    3
    """
    start = time.perf_counter()
    value = call()
    return value, time.perf_counter() - start


def measure(
    variants: Mapping[Key, Callable[[], object]],
    *,
    runs: int = 7,
    seconds: float = 2.0,
    first: Mapping[Key, float] | None = None,
) -> dict[Key, Timing]:
    """Time every variant ``runs`` times in turn (round robin), so that drift hits all alike.

    A variant that is slower than its share of ``seconds`` gets at least three runs. The first
    call (compilation, page faults) is reported apart and not counted; ``first`` holds its seconds
    where it was made already.

    >>> measure({"nothing": lambda: None}, runs=3)["nothing"].runs
    3
    """
    before = (
        {name: call_once(call)[1] for name, call in variants.items()} if first is None else first
    )
    times: dict[Key, list[float]] = {name: [] for name in variants}
    for turn in range(runs):
        for name, call in variants.items():
            if turn >= 3 and sum(times[name]) > seconds:
                continue
            times[name].append(call_once(call)[1])
    return {
        name: Timing(before[name], min(spent), median(spent), max(spent), len(spent))
        for name, spent in times.items()
    }
