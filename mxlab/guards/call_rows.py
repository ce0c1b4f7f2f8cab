"""What the rows about a library's call have in common."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from mxlab.guards.engine import Finding, Guard
from mxlab.guards.facts import CallFacts, Facts
from mxlab.guards.findings import skipped
from mxlab.layout import layout

ALL_GPUS = "every GPU"
NONE = "none"


def call_of(facts: Facts) -> CallFacts:
    """Return the call: rows of the subject ``call`` are asked only where there is one."""
    assert facts.call is not None
    return facts.call


@dataclass(frozen=True, slots=True)
class Library:
    """A library whose rows are written: its id, and the package that ``source`` lines are from."""

    system: str
    package: str  # with its version, such as flashinfer_python 0.7.2

    def row(
        self,
        id: str,
        functions: str | tuple[str, ...],
        stage: str,
        error: str,
        messages: str | tuple[str, ...],
        check: Callable[[Facts, CallFacts], Finding],
        *,
        predicate: str,
        meaning: str,
        fixes: tuple[str, ...],
        source: str,
        hardware: str = ALL_GPUS,
        fallback: str = NONE,
        related: tuple[str, ...] = (),
    ) -> Guard:
        """Return one row, which calls of other functions do not reach."""
        named = (functions,) if isinstance(functions, str) else functions

        def asked(facts: Facts) -> Finding:
            call = call_of(facts)
            if call.function not in named:
                return skipped(f"a check of {' and '.join(named)}")
            return check(facts, call)

        return Guard(
            id=id,
            system=self.system,
            subject="call",
            stage=stage,
            error=error,
            messages=(messages,) if isinstance(messages, str) else messages,
            predicate=predicate,
            hardware=hardware,
            meaning=meaning,
            fallback=fallback,
            fixes=fixes,
            source=f"{self.package}, {source}",
            related=related,
            check=asked,
        )


def declared(call: CallFacts, default: str = "tile_128x4") -> str:
    """Return the layout that the caller says the scales are in.

    >>> declared(CallFacts(function="mm_mxfp8", m=1, n=128, k=128, scale_layout="linear"))
    'linear'
    """
    return call.declared_layout or call.scale_layout or default


def truth(call: CallFacts, default: str = "tile_128x4") -> str:
    """Return the layout that the scale bytes are in, whatever the caller says."""
    return call.scale_layout or call.declared_layout or default


def scale_bytes(name: str, rows: int, k: int, block: int = 32) -> int:
    """Return how many bytes the scales of (rows, k) take in a layout.

    >>> scale_bytes("tile_128x4", 130, 576), scale_bytes("linear", 130, 576)
    (5120, 2340)
    """
    return layout(name).nbytes(rows, -(-k // block))


def misread(call: CallFacts, operands: Mapping[str, int]) -> str:
    """Say in numbers that bytes of one layout are read as another of the same length, or nothing.

    ``operands`` maps an operand's name to its rows.
    """
    said, true = declared(call), truth(call)
    if said == true or call.k == 0:
        return ""
    found = []
    for name, rows in operands.items():
        cols = -(-call.k // 32)
        size = scale_bytes(said, rows, call.k) if rows else 0
        if rows and scale_bytes(true, rows, call.k) == size and not _same(call, rows):
            found.append(f"{name}: {rows} x {cols} scales are {size} bytes in both")
    return "; ".join(found)


def _same(call: CallFacts, rows: int) -> bool:
    """Tell whether the two layouts place every scale alike: a single row or column of tiles."""
    one, other = layout(declared(call)), layout(truth(call))
    cols = -(-call.k // 32)
    probes = {(0, 0), (rows - 1, cols - 1), (0, cols - 1), (rows - 1, 0)}
    probes |= {(min(1, rows - 1), 0), (0, min(1, cols - 1)), (min(32, rows - 1), 0)}
    probes |= {(0, min(4, cols - 1)), (min(8, rows - 1), 0)}
    return all(one.offset(r, c, rows, cols) == other.offset(r, c, rows, cols) for r, c in probes)
