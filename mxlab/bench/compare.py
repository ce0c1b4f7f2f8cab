"""Two runs of the bench side by side: what became slower by more than both runs' spread."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mxlab.errors import InputError, quote

_MOST = 1 << 26  # bytes of a file
SLOWER = 1.05  # and beyond the spread


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One row of both runs: medians in seconds, their ratio, and what that means."""

    report: str
    row: str
    before: float
    after: float
    verdict: str  # slower, faster, same

    @property
    def ratio(self) -> float:
        """The second run's time over the first's."""
        return self.after / self.before


def _read(path: str | Path) -> Any:
    path = Path(path)
    try:
        if path.stat().st_size > _MOST:
            raise InputError(
                f"{quote(str(path))} is larger than {_MOST} bytes: no run of the bench"
            )
        return json.loads(path.read_text(encoding="utf-8"))
    except InputError:
        raise
    except (OSError, ValueError, RecursionError) as error:
        reason = getattr(error, "strerror", None) or "it is no JSON"
        raise InputError(f"cannot read {quote(str(path))}: {reason}") from None


def _reports(data: Any) -> Any:
    if not isinstance(data, dict):
        return None
    if isinstance(data.get("rows"), list):
        return {str(data.get("title")): data}
    reports = data.get("reports")
    if isinstance(reports, list) and all(map(_is_run, reports)):
        return {f"{r.get('title')} {r.get('parameters')}": r for r in reports}
    return reports


def load(path: str | Path) -> Mapping[str, Any]:
    """Return the reports of a file that ``mxlab bench --json`` wrote, by name.

    Raises InputError for a file that is no such run.
    """
    reports = _reports(_read(path))
    if not isinstance(reports, dict) or not reports or not all(map(_is_run, reports.values())):
        raise InputError(
            f"{quote(str(path))} holds no run: expected what mxlab bench --json writes"
        )
    return reports


def load_run(path: str | Path) -> Mapping[str, Any]:
    """Return a run of a suite, with its ceilings; raise InputError for anything else."""
    load(path)
    data = _read(path)
    ceilings = data.get("ceilings") if isinstance(data.get("suite"), str) else None
    if not isinstance(ceilings, dict) or not all(map(_is_time, ceilings.values())):
        raise InputError(
            f"{quote(str(path))} is no suite: expected what --suite h200 --json writes"
        )
    return dict(data)


def _is_run(report: object) -> bool:
    if not isinstance(report, dict) or not isinstance(report.get("rows"), list):
        return False
    return all(
        isinstance(row, dict)
        and isinstance(row.get("name"), str)
        and isinstance(row.get("seconds"), dict)
        and all(_is_time(row["seconds"].get(k)) for k in ("minimum", "median", "maximum"))
        for row in report["rows"]
    )


def _is_time(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 1e9


def compare(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Change]:
    """Return one change for each row that both runs have, the slowest first.

    A row is slower where its median grew by over 5 % and beyond the first run's slowest time.

    >>> run = lambda t: {"r": {"rows": [{"name": "x", "seconds":
    ...     {"minimum": t, "median": t, "maximum": t}}]}}
    >>> [c.verdict for c in compare(run(1.0), run(1.2))]
    ['slower']
    """
    changes = []
    for name, report in before.items():
        second = {row["name"]: row for row in after.get(name, {"rows": []})["rows"]}
        for row in report["rows"]:
            other = second.get(row["name"])
            if other is None:
                continue
            old, new = row["seconds"], other["seconds"]
            verdict = "same"
            if new["median"] > old["median"] * SLOWER and new["median"] > old["maximum"]:
                verdict = "slower"
            elif old["median"] > new["median"] * SLOWER and new["median"] < old["minimum"]:
                verdict = "faster"
            changes.append(
                Change(
                    report=name,
                    row=row["name"],
                    before=old["median"],
                    after=new["median"],
                    verdict=verdict,
                )
            )
    if not changes:
        raise InputError("the two runs have no row in common: expected runs of the same benchmark")
    return sorted(changes, key=lambda c: -c.ratio)
