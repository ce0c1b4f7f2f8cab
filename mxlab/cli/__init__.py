"""The command line: ``mxlab VERB ... [--json]``.

Each verb is one module of this package with ``add_arguments(parser)`` and ``run(args)``; only
the module of the verb asked for is imported, so that a verb starts as fast as it can.
Exit codes: 0 fine, 1 the answer is "this stops", 2 bad input (one line on standard error).
"""

import argparse
import json
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import NoReturn

from mxlab._version import __version__
from mxlab.cli.result import Result
from mxlab.errors import InputError, nearest

#: verb -> the line that ``mxlab --help`` prints
VERBS = {
    "bits": "one code of E4M3, E5M2 or E8M0 taken apart, or one value encoded",
    "block": "quantise one block of 32 values",
    "rules": "one amax under every scale rule and library profile",
    "profiles": "how each library quantises a block",
    "layout": "where the scale of (row, column) lives",
    "detect": "which layout a scale buffer is in, and what misreading it costs",
    "compare": "one tensor under every rule and profile: SQNR, errors, saturation",
    "shapes": "a config.json: the GEMM shapes of one rank",
    "doctor": "a config.json on a deployment: what stops, where, why",
    "matrix": "one (M, N, K) on every backend and GPU: runs, falls back, stops, and why",
    "inspect": "a checkpoint: formats, scales, and what was shipped by mistake",
    "guards": "the table of guards, or one row",
    "explain": "an error message or a log: which guard, which numbers, what to do",
    "explore": "an explorer of the book, as text: will_it_run gpu=h200 k=7392",
    "bench": "measure this machine, each time beside its peer's",
}


#: package -> the extra that brings it: the base install has none of them
EXTRAS = {
    "numpy": "arrays",
    "ml_dtypes": "arrays",
    "safetensors": "arrays",
    "torch": "torch",
    "triton": "torch",
    "matplotlib": "lab",
    "anywidget": "lab",
}


class _Parser(argparse.ArgumentParser):
    """argparse whose errors are one line on standard error."""

    def error(self, message: str) -> NoReturn:
        said = " ".join(message.split())
        said = said if len(said) <= 300 else said[:300] + "..."  # it may repeat a hostile argument
        print(f"{self.prog}: {said}; see '{self.prog} --help'", file=sys.stderr)
        raise SystemExit(2)


def _parser(verb: str | None) -> argparse.ArgumentParser:
    if verb is None:
        listing = "\n".join(f"  {name:<9} {line}" for name, line in VERBS.items())
        parser = _Parser(
            prog="mxlab",
            usage="mxlab VERB ... [--json]",
            description=f"MXFP8: see it, debug it, trust it.\n\nverbs:\n{listing}",
            epilog="'mxlab VERB --help' describes a verb. Exit codes: 0 fine, 1 the answer is "
            "'this stops', 2 bad input.",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        parser.add_argument("--version", action="version", version=f"mxlab {__version__}")
        return parser
    module = import_module(f"mxlab.cli.{verb}")
    parser = _Parser(
        prog=f"mxlab {verb}",
        description=VERBS[verb],
        epilog=getattr(module, "EXAMPLES", None),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    module.add_arguments(parser)
    parser.add_argument("--json", action="store_true", help="print JSON (schema 1)")
    return parser


def _run(argv: Sequence[str]) -> Result:
    verb = argv[0] if argv else "--help"
    if verb.startswith("-"):
        _parser(None).parse_args([verb])
        raise InputError(f"expected a verb before {verb!r}: {', '.join(VERBS)}")
    if verb not in VERBS:
        raise InputError(
            f"unknown verb {verb[:80]!r}: expected one of {', '.join(VERBS)}{nearest(verb, VERBS)}"
        )
    args = _parser(verb).parse_args(list(argv[1:]))
    args.argv = list(argv[1:])  # a report says which command made it
    result: Result = import_module(f"mxlab.cli.{verb}").run(args)
    if args.json:
        data = {"schema": 1, "verb": verb, **result.data}
        return Result(result.data, json.dumps(data, indent=2, allow_nan=False), result.exit_code)
    return result


def _show(text: str) -> None:
    """Print an answer; a reader that went away or an encoding without a sign does not change it."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    try:
        text.encode(encoding, sys.stdout.errors or "strict")
    except UnicodeEncodeError:  # a file's name that is not UTF-8; a terminal of cp1252
        text = text.encode(encoding, "backslashreplace").decode(encoding)
    try:
        print(text)
        sys.stdout.flush()
    except BrokenPipeError:  # `mxlab ... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return the exit code."""
    try:
        result = _run(sys.argv[1:] if argv is None else argv)
        _show(result.text)
        return result.exit_code
    except InputError as error:
        print(f"mxlab: {error}", file=sys.stderr)
        return 2
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in EXTRAS:
            raise
        extra = f"pip install 'mxlab[{EXTRAS[package]}]'"
        print(f"mxlab: this needs {package}: install the extra, {extra}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
