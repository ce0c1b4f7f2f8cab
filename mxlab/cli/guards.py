"""``mxlab guards``: the table, or one row of it."""

import argparse
import json

from mxlab.cli.result import Result, table
from mxlab.errors import InputError
from mxlab.guards import STAGES, Guard, guard, system
from mxlab.guards.data import every_row, one_json, row_json, schema, table_json

EXAMPLES = """examples:
  mxlab guards wsp-deepgemm
  mxlab guards --system sglang@0132848349
  mxlab guards --json > guards.json            every row: patterns, triggers, fixes, sources
  mxlab guards --schema > guards.schema.json   JSON Schema (draft 2020-12) of what --json prints"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument("id", nargs="?", help="a guard's id; without one, every row is listed")
    parser.add_argument("--system", metavar="NAME[@VERSION]", help="only its rows (default: all)")
    parser.add_argument("--schema", action="store_true", help="the JSON Schema of --json")


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
    """List the guards, show one, or print the schema of both."""
    if args.schema:
        if args.id is not None or args.system is not None or args.json:
            raise InputError("--schema and another argument: expected --schema alone")
        return Result(schema(), json.dumps(schema(), indent=2))
    if args.system is None:
        rows = list(every_row())
        one = guard(args.id) if args.id is not None else None
    else:
        name, _, version = args.system.partition("@")
        asked = system(name, version)
        rows = [(row, asked.version) for row in asked.guards]
        table_of = {row.id: row for row in asked.guards}
        if args.id is not None and args.id not in table_of:
            other = guard(args.id)  # an unknown id stops here, with the nearest ones
            why = asked.absent.get(other.id, f"it is a row of {other.system}")
            raise InputError(f"guard {other.id} is not in {asked.id} {asked.version}: {why}")
        one = table_of[args.id] if args.id is not None else None
    if one is not None:
        version = next(version for row, version in rows if row.id == one.id)
        return Result(one_json(row_json(one, version)), _whole(one))
    said = [(row.stage, row.id, row.error or "silent", row.predicate) for row, _ in rows]
    short = [(*row[:3], row[3] if len(row[3]) <= 70 else row[3][:67] + "...") for row in said]
    text = table(["stage", "guard", "says", "trips when"], short)
    return Result(table_json([row_json(*pair) for pair in rows]), text)
