"""``mxlab profiles``: how each library quantises a block."""

import argparse

from mxlab.cli.result import Result, table
from mxlab.profiles import get_profile, profiles

EXAMPLES = """examples:
  mxlab profiles
  mxlab profiles flashinfer-cuda
  mxlab block --f32-bits 7f800000,3f800000 --profile flashinfer-cuda

JSON: profiles holds one object a profile; policies are found by quantising such blocks; vectors
names the recorded runs that the profile reproduces byte for byte; obtained says how sure the facts
are."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument("profile", nargs="?", help="one profile (default: all)")


def run(args: argparse.Namespace) -> Result:
    """Answer the verb."""
    rows = list(profiles().values()) if args.profile is None else [get_profile(args.profile)]
    data = [
        {
            "id": p.id,
            "library": p.library,
            "version": p.version,
            "rule": p.rule,
            "dtypes": p.dtypes,
            "policies": p.policies,
            "source": p.source,
            "obtained": p.obtained,
            "note": p.note,
            "scale_only": p.scale_only,
            "vectors": list(p.vectors),
        }
        for p in rows
    ]
    if args.profile is None:
        text = table(
            ["profile", "rule", "zero block", "Inf among 1.0", "NaN among 1.0"],
            [(p.id, p.rule, *(p.policies[name] for name in ("zero", "inf", "nan"))) for p in rows],
        )
    else:
        p = rows[0]
        lines = [
            ("library", f"{p.library} {p.version}"),
            ("rule", p.rule),
            ("dtypes", p.dtypes),
            *((name, said) for name, said in p.policies.items()),
            ("note", p.note or "-"),
            ("source", f"{p.source}; {p.obtained}"),
            *(("vectors", name) for name in p.vectors),
        ]
        text = "\n".join([p.id, *(f"  {name:<9} {said}" for name, said in lines)])
    return Result({"profiles": data}, text)
