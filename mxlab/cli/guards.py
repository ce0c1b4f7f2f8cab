"""``mxlab guards``: the table, or one row of it."""

import argparse
from typing import Any

from mxlab.cli.result import Result, table
from mxlab.guards import GUARDS, STAGES, VERSION, Guard, guard

EXAMPLES = "example: mxlab guards wsp-deepgemm"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument("id", nargs="?", help="a guard's id; without one, every row is listed")


def to_json(row: Guard) -> dict[str, Any]:
    """Return a row without its function."""
    return {
        "guard": row.id,
        "system": row.system,
        "version": VERSION,
        "subject": row.subject,
        "stage": row.stage,
        "error": row.error,
        "messages": list(row.messages),
        "predicate": row.predicate,
        "hardware": row.hardware,
        "meaning": row.meaning,
        "fallback": row.fallback,
        "fixes": list(row.fixes),
        "source": row.source,
        "related": list(row.related),
    }


def _whole(row: Guard) -> str:
    said = row.messages or ("(nothing is said)",)
    lines = [
        f"{row.id}  [{row.system}, {row.stage}: {STAGES[row.stage]}]",
        "",
        *(f"{row.error or 'silent'}: {text}" for text in said),
        "",
        f"trips when: {row.predicate}",
        f"where:      {row.hardware}",
        f"instead:    {row.fallback}",
        f"means:      {row.meaning}",
        *(f"fix:        {fix}" for fix in row.fixes),
        f"source:     {row.source}",
    ]
    if row.related:
        lines.append(f"see also:   {', '.join(row.related)}")
    return "\n".join(lines)


def run(args: argparse.Namespace) -> Result:
    """List the guards, or show one."""
    if args.id is not None:
        row = guard(args.id)
        return Result(to_json(row), _whole(row))
    rows = [(row.stage, row.id, row.error or "silent", row.predicate) for row in GUARDS]
    short = [(*row[:3], row[3] if len(row[3]) <= 70 else row[3][:67] + "...") for row in rows]
    text = table(["stage", "guard", "says", "trips when"], short)
    return Result({"guards": [to_json(row) for row in GUARDS]}, text)
