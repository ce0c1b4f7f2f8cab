"""Make mxlab/data/bench.json, what "What does it cost?" shows, from the committed measurements.

Run after ``mxlab bench --suite h200`` was committed: python -m tools.bench_rows
"""

import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
MEASURED = ROOT / "book" / "_data" / "bench-h200.json"
ROWS = ROOT / "mxlab" / "data" / "bench.json"
_KEPT = ("gpu", "driver", "cuda", "commit", "date", "command")


def _short(value: float) -> float:
    """Return five significant digits: more than two runs have in common."""
    return float(f"{value:.5g}")


def rows(run: dict[str, Any]) -> dict[str, Any]:
    """Return the part of a suite's run that the explorer shows."""
    where = run["provenance"]
    versions = {name: where["versions"][name] for name in ("torch", "triton", "mxlab")}
    return {
        "ceilings": {name: _short(value) for name, value in run["ceilings"].items()},
        "provenance": {**{name: where[name] for name in _KEPT}, "versions": versions},
        "reports": {
            name: {
                "title": report["title"],
                "parameters": report["parameters"],
                "unit": report["unit"],
                "flops": report["flops"],
                "rows": [
                    {
                        "name": row["name"],
                        "peer": row["peer"],
                        "us": _short(1e6 * row["seconds"]["median"]),
                        "rate": _short(row["rate"]),
                        "bytes": row.get("bytes"),
                        "of_ceiling": _short(row["of_ceiling"]) if row.get("of_ceiling") else None,
                        "checked": row["checked"],
                    }
                    for row in report["rows"]
                ],
            }
            for name, report in run["reports"].items()
        },
    }


def text() -> str:
    """Return the file's text: one report a line."""
    made = rows(json.loads(MEASURED.read_text(encoding="utf-8")))
    lines = [f"{json.dumps(name)}: {json.dumps(row)}" for name, row in made["reports"].items()]
    head = {key: value for key, value in made.items() if key != "reports"}
    return json.dumps(head)[:-1] + ', "reports": {\n' + ",\n".join(lines) + "\n}}\n"


if __name__ == "__main__":
    ROWS.write_text(text(), encoding="utf-8")
    print(f"bench_rows: {ROWS.relative_to(ROOT)}", file=sys.stderr)
