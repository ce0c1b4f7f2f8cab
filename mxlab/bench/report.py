"""A measurement as data: rows of one run, each with its ratio to the first peer."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mxlab.bench.provenance import provenance
from mxlab.bench.timing import Timing


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One variant: its name, whether it is a peer's, its times, and how its result was checked.

    ``family`` names the peer that several rows belong to; ``peak`` is the peak memory as a multiple
    of input and output together, None where it was not measured; ``moved`` the least bytes
    that one call moves through the device's memory.
    """

    name: str
    peer: bool
    timing: Timing
    checked: str  # what the result was compared with, and what came out
    family: str = ""
    peak: float | None = None
    moved: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """One run on one set of data. ``work`` is in ``unit`` a second, for one call."""

    title: str
    parameters: Mapping[str, Any]
    work: float
    unit: str
    rows: Sequence[Row]
    device: str = "cpu"
    flops: float = 0.0  # of one call
    #: measured in the same run: ``GB/s`` of a copy, ``TFLOP/s`` of the largest product
    ceilings: Mapping[str, float] = field(default_factory=dict)
    where: Mapping[str, Any] = field(default_factory=dict)  # more provenance: the GPU's

    def of_ceiling(self, row: Row) -> float | None:
        """Return the least time that the measured ceilings allow, over the time that it took.

        The least time is that of the bytes or of the operations, whichever is longer.
        """
        if not self.ceilings or row.moved is None:
            return None
        bytes_time = row.moved / (self.ceilings["GB/s"] * 1e9)
        flops_time = self.flops / (self.ceilings["TFLOP/s"] * 1e12)
        return max(bytes_time, flops_time) / row.timing.median

    @property
    def fastest_peer(self) -> Row | None:
        """The peer that the ratios are taken against: the fastest of this run."""
        peers = [row for row in self.rows if row.peer]
        return min(peers, key=lambda row: row.timing.median, default=None)

    def ratio(self, row: Row) -> float | None:
        """Return how many times faster than the fastest peer a row is; None without a peer."""
        peer = self.fastest_peer
        return None if peer is None else peer.timing.median / row.timing.median

    @property
    def families(self) -> Mapping[str, Row]:
        """Peer -> its fastest row."""
        found: dict[str, Row] = {}
        for row in self.rows:
            best = found.get(row.family)
            if row.family and (best is None or row.timing.median < best.timing.median):
                found[row.family] = row
        return found

    def ratios(self, row: Row) -> dict[str, float]:
        """Return how many times faster than each peer's fastest row a row is."""
        return {
            name: best.timing.median / row.timing.median for name, best in self.families.items()
        }

    def to_json(self) -> dict[str, Any]:
        """Return the run with its provenance."""
        peer = self.fastest_peer
        return {
            "title": self.title,
            "parameters": dict(self.parameters),
            "unit": self.unit,
            "fastest_peer": peer and peer.name,
            "fastest_of": {name: row.name for name, row in self.families.items()},
            **({"flops": self.flops, "ceilings": dict(self.ceilings)} if self.ceilings else {}),
            "rows": [
                {
                    "name": row.name,
                    "peer": row.peer,
                    "rate": self.work / row.timing.median,
                    "ratio_to_fastest_peer": self.ratio(row),
                    "ratios": self.ratios(row),
                    "seconds": {
                        name: getattr(row.timing, name)
                        for name in ("first", "minimum", "median", "maximum")
                    },
                    "runs": row.timing.runs,
                    "checked": row.checked,
                    "peak_memory_ratio": row.peak,
                    **self._moved(row),
                }
                for row in self.rows
            ],
            "provenance": {**provenance(self.device), **self.where},
        }

    def _moved(self, row: Row) -> dict[str, Any]:
        if row.moved is None:
            return {}
        rate = row.moved / row.timing.median / 1e9
        return {"bytes": row.moved, "gb_per_s": rate, "of_ceiling": self.of_ceiling(row)}
