"""``mxlab guards``: the table, or one row of it."""

import argparse
from typing import Any

from mxlab.cli.result import Result, table
from mxlab.errors import InputError
from mxlab.guards import STAGES, SYSTEMS, Guard, all_guards, guard, system

EXAMPLES = """examples:
  mxlab guards wsp-deepgemm
  mxlab guards --system sglang@0132848349"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument("id", nargs="?", help="a guard's id; without one, every row is listed")
    parser.add_argument("--system", metavar="NAME[@VERSION]", help="only its rows (default: all)")


def to_json(row: Guard, version: str) -> dict[str, Any]:
    """Return a row of one version of its system, without its function."""
    return {
        "guard": row.id,
        "system": row.system,
        "version": version,
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
    if args.system is None:
        rows = all_guards()
        versions = {row.system: system(row.system).version for row in rows}
        one = guard(args.id) if args.id is not None else None
        if one is not None:  # a row that only an older version has
            holder = next(known for known in SYSTEMS if one in known.guards)
            versions[one.system] = holder.version
    else:
        name, _, version = args.system.partition("@")
        asked = system(name, version)
        rows, versions = asked.guards, {asked.id: asked.version}
        table_of = {row.id: row for row in rows}
        if args.id is not None and args.id not in table_of:
            other = guard(args.id)  # an unknown id stops here, with the nearest ones
            why = asked.absent.get(other.id, f"it is a row of {other.system}")
            raise InputError(f"guard {other.id} is not in {asked.id} {asked.version}: {why}")
        one = table_of[args.id] if args.id is not None else None
    if one is not None:
        return Result(to_json(one, versions[one.system]), _whole(one))
    said = [(row.stage, row.id, row.error or "silent", row.predicate) for row in rows]
    short = [(*row[:3], row[3] if len(row[3]) <= 70 else row[3][:67] + "...") for row in said]
    text = table(["stage", "guard", "says", "trips when"], short)
    return Result({"guards": [to_json(row, versions[row.system]) for row in rows]}, text)
