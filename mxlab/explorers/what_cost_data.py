"""What was measured, as the explorer shows it: mxlab/data/bench.json, read from a zip too."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from mxlab.explorers.panels import AnyPanel

#: the peer that others are held against, and what each name multiplies
BF16 = "cuBLAS bf16"
_FORMATS = {BF16: "bf16", "torch fp8": "FP8, one scale a tensor"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One variant of one report. ``us`` is the median; ``bytes`` the least that a call moves."""

    name: str
    peer: bool
    us: float
    rate: float
    bytes: float | None
    of_ceiling: float | None
    checked: str

    @property
    def mxfp8(self) -> bool:
        """Tell whether it multiplies MXFP8."""
        return self.name not in _FORMATS

    @property
    def format(self) -> str:
        """What it multiplies, in words."""
        return _FORMATS.get(self.name, "MXFP8, emulated")

    @property
    def gb_per_s(self) -> float | None:
        """GB/s of the least bytes that a call moves."""
        return None if self.bytes is None else self.bytes / self.us / 1e3


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """One measurement: rows of one shape."""

    name: str
    title: str
    parameters: Mapping[str, Any]
    unit: str
    flops: float
    rows: tuple[Measured, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One whole run on one GPU; ``ceilings`` are ``GB/s`` of a copy and ``TFLOP/s`` of bf16."""

    ceilings: Mapping[str, float]
    provenance: Mapping[str, Any]
    reports: tuple[Report, ...]

    @property
    def gpu(self) -> str:
        """Name of the GPU."""
        return str(self.provenance["gpu"])

    def weights(self) -> dict[str, list[Report]]:
        """Return the products by their weights: "8192x8192" (N, K) -> reports by rising M."""
        found: dict[str, list[Report]] = {}
        for report in self.reports:
            if report.name.startswith("gemm "):
                p = report.parameters
                found.setdefault(f"{p['n']}x{p['k']}", []).append(report)
        return {
            name: sorted(rows, key=lambda r: int(r.parameters["m"])) for name, rows in found.items()
        }

    def others(self, what: str) -> list[Report]:
        """Return the reports of ``quantize``, ``interleave``, ``dequantize`` or ``grouped``."""
        return [report for report in self.reports if report.name.startswith(f"{what} ")]


#: status, sign, sentence, panels: what a part of the explorer answers
Answer = tuple[str, str, str, list[AnyPanel]]


def duration(us: float) -> str:
    """Return a time for people.

    >>> duration(22.34), duration(5963.4)
    ('22.3 us', '5.96 ms')
    """
    return f"{us:.1f} us" if us < 1000 else f"{us / 1000:.2f} ms"


@cache
def run() -> Run | None:
    """Return the committed run, or None where there is none."""
    try:
        text = files("mxlab").joinpath("data", "bench.json").read_text("utf-8")
    except OSError:
        return None
    found = json.loads(text)
    return Run(
        ceilings=found["ceilings"],
        provenance=found["provenance"],
        reports=tuple(
            Report(
                name=name,
                title=report["title"],
                parameters=report["parameters"],
                unit=report["unit"],
                flops=report["flops"],
                rows=tuple(Measured(**row) for row in report["rows"]),
            )
            for name, report in found["reports"].items()
        ),
    )
