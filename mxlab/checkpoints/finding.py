"""Findings: what was shipped by mistake, as a table, and how single problems become one line."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from mxlab.checkpoints.kinds import ERROR, KINDS, NOTE, WARNING
from mxlab.checkpoints.names import fold, shown

_RANK = {ERROR: 0, WARNING: 1, NOTE: 2}
_TENSORS_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake in one tensor. ``numbers`` says it without the tensor's name."""

    kind: str
    tensor: str
    numbers: str
    severity: str | None = None  # where the case is milder than the kind's own
    guard: str | None = None  # where another check meets this case


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The same mistake in all the tensors that have it."""

    name: str
    severity: str
    message: str
    count: int
    tensors: tuple[str, ...]
    meaning: str
    fix: str
    guard: str | None

    def to_json(self) -> dict[str, Any]:
        """Return a JSON object."""
        return {
            "name": self.name,
            "severity": self.severity,
            "message": self.message,
            "count": self.count,
            "tensors": list(self.tensors),
            "meaning": self.meaning,
            "fix": self.fix,
            "guard": self.guard,
        }


def gather(problems: Iterable[Problem]) -> list[Finding]:
    """Return one finding for each mistake, pattern and numbers; the worst first.

    >>> problems = [Problem("missing-scale", f"layers.{i}.up.weight", "none") for i in (0, 1)]
    >>> gather(problems)[0].count
    2
    """
    groups: dict[tuple[str, str, str, str, str | None], list[str]] = {}
    for problem in problems:
        kind = KINDS[problem.kind]
        key = (
            kind.name,
            problem.severity or kind.severity,
            fold(problem.tensor).pattern,
            problem.numbers,
            problem.guard or kind.guard,
        )
        names = groups.setdefault(key, [])
        if problem.tensor not in names[-1:]:
            names.append(problem.tensor)
    order = list(KINDS)
    found = [
        Finding(
            name=name,
            severity=severity,
            message=f"{shown(pattern)}: {numbers}",
            count=len(names),
            tensors=tuple(names[:_TENSORS_SHOWN]),
            meaning=KINDS[name].meaning,
            fix=KINDS[name].fix,
            guard=guard,
        )
        for (name, severity, pattern, numbers, guard), names in groups.items()
    ]
    return sorted(found, key=lambda row: (_RANK[row.severity], order.index(row.name)))
