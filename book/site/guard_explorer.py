"""The explorer on a guard's page: "Will it run?" at a state in which the guard speaks."""

from collections.abc import Iterator, Mapping
from functools import cache
from itertools import combinations, product

from mxlab.explorers import explorer
from mxlab.explorers.controls import State
from mxlab.explorers.panels import Verdicts
from mxlab.explorers.still import still
from mxlab.guards.engine import Guard, Status

NAME = "will_it_run"

#: a state in which nothing stops, and what is changed to make something stop
_CALM: State = {
    "gpu": "b200",
    "backend": "auto",
    "n": 4096,
    "k": 4096,
    "head_dim": 128,
    "page_size": 128,
}
_CHANGES: Mapping[str, tuple[int | str, ...]] = {
    "gpu": ("h200", "rtx5090", "mi300x", "mi355x", "thor", "b300"),
    "backend": (
        *("deep_gemm", "flashinfer_trtllm", "flashinfer_cutlass", "flashinfer_cutedsl", "triton"),
    ),
    "k": (2880, 1360, 576, 10880),
    "n": (96, 4104, 2880),
    "tp": (8,),
    "split": ("row",),
    "checkpoint": ("bf16",),
    "packages": ("no-flashinfer", "no-deep-gemm", "neither"),
    "head_dim": (80, 64, 256),
    "page_size": (64,),
    "kv_dtype": ("fp8_e4m3", "auto"),
    "attention": ("fa3", "triton", "auto"),
    "model": ("other",),
}
#: starts, and how many settings are changed at once
_STARTS: tuple[tuple[State, int], ...] = ((_CALM, 2), ({**_CALM, "tp": 8, "split": "row"}, 1))


def explorer_html(guard: Guard) -> str:
    """Return the explorer set to trip a guard as HTML, or "" where its controls cannot do that."""
    state = states().get(guard.id)
    return "" if state is None else still(explorer(NAME), state, f"will-it-run-{guard.id}")


@cache
def states() -> Mapping[str, State]:
    """Return for each guard the calmest state in which it speaks.

    Best is one in which it is the first stop, next best one in which nothing stops.
    """
    best: dict[str, tuple[int, State]] = {}
    asked = explorer(NAME)
    for state in _variations():
        panels = asked.view(asked.clean(state)).panels
        items = [item for panel in panels if isinstance(panel, Verdicts) for item in panel.items]
        stops = [item.name for item in items if item.status == Status.STOPS]
        for item in items:
            if not item.quiet:
                rank = 0 if item.name in stops[:1] else 2 if stops else 1
                if rank < best.get(item.name, (3, state))[0]:
                    best[item.name] = (rank, state)
    return {name: state for name, (_, state) in best.items()}


def _variations() -> Iterator[State]:
    for start, most in _STARTS:
        for changed in range(most + 1):
            for chosen in combinations(_CHANGES, changed):
                for values in product(*(_CHANGES[name] for name in chosen)):
                    yield {**start, **dict(zip(chosen, values, strict=True))}
