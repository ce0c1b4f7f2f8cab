"""What a verb hands back to the command line."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Result:
    """``data`` for ``--json``, ``text`` for a person, and the exit code (0 or 1)."""

    data: Mapping[str, Any]
    text: str
    exit_code: int = 0


def table(header: Sequence[str], rows: Sequence[Sequence[object]], *, right: str = "") -> str:
    """Return rows as aligned columns; ``right`` names the columns that align right.

    >>> print(table(["name", "N"], [["a", 5], ["bc", 10]], right="N"))
    name   N
    a      5
    bc    10
    """
    cells = [list(header), *[["" if v is None else str(v) for v in row] for row in rows]]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
    rights = [name in right.split() for name in header]
    lines = [
        "  ".join(
            cell.rjust(width) if at_right else cell.ljust(width)
            for cell, width, at_right in zip(row, widths, rights, strict=True)
        ).rstrip()
        for row in cells
    ]
    return "\n".join(lines)
