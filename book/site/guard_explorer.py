"""The explorer on a guard's page, and the way from there to "Will it run?".

Every page has its guard's own explorer, set to trip it. Where the controls of "Will it run?" can
trip it too, a link leads there: that one asks every guard about the whole deployment.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from html import escape
from itertools import combinations, product
from urllib.parse import quote

from mxlab.explorers import explorer
from mxlab.explorers.controls import State
from mxlab.explorers.panels import Verdicts
from mxlab.explorers.still import still
from mxlab.guards.engine import Guard, Status

NAME = "will_it_run"
#: the page whose "Will it run?" opens at its defaults, and the explorer's id there
_PAGE, _MOUNT = "../index.html", "will_it_run-1"

#: a state in which nothing stops, and what is changed to make something stop
_CALM: State = {
    "gpu": "b200",
    "backend": "auto",
    "n": 4096,
    "k": 4096,
    "head_dim": 128,
    "page_size": 128,
    "kv_dtype": "mxfp8",
    "attention": "fa4",
    "model": "inkling",
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
    """Return the guard's own explorer, set to trip it, as HTML."""
    return still(explorer(f"guard:{guard.id}"), {}, f"guard-{guard.id}")


def will_it_run_link(guard: Guard) -> str:
    """Return the address of "Will it run?" set to trip a guard, or "" where it cannot."""
    state = states().get(guard.id)
    if state is None:
        return ""
    asked = explorer(NAME)
    start = asked.defaults()
    differs = {name: value for name, value in asked.clean(state).items() if value != start[name]}
    parts = [f"{_MOUNT}.{name}={quote(str(value))}" for name, value in differs.items()]
    return escape("#".join([_PAGE, *filter(None, ["&".join(parts)])]), quote=True)


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
