"""``mxlab explain``: an error message or a log, and what it means."""

import argparse
import sys
from contextlib import ExitStack
from pathlib import Path
from textwrap import TextWrapper
from typing import BinaryIO

from mxlab.cli.result import Result
from mxlab.errors import InputError, quote
from mxlab.explain import Explanation, Match, explain, page, when

EXAMPLES = """\
examples:
  mxlab explain "MXFP8 KV cache requires head_dim divisible by 32, got 80."
  mxlab explain < server.log
  mxlab explain --file server.log --json

A part of a message is enough: "needs N % 64 == 0 and K % 128 == 0".
Exit codes: 0 a known message was found, 1 none was (the nearest ones are named), 2 bad input."""

_WIDTH = 100
_LABEL = 10


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what to explain: a text, a file, or standard input."""
    parser.add_argument(
        "text", nargs="*", metavar="TEXT", help="the message; without it a log on standard input"
    )
    parser.add_argument("--file", metavar="LOG", help="a log file, of any size")


def run(args: argparse.Namespace) -> Result:
    """Explain the text; exit code 0 where a known message was found, 1 where none was."""
    text = " ".join(args.text)
    if args.file is not None and args.text:
        raise InputError(f"both a text and --file {quote(args.file)}: expected one of them")
    if args.file is not None:
        with ExitStack() as stack:
            found = explain(_open(args.file, stack))
    elif args.text and text != "-":
        found = explain(text.encode("utf-8", "surrogateescape"))
    elif sys.stdin is None or sys.stdin.isatty():
        raise InputError("nothing to explain: expected a TEXT, --file LOG, or a log on stdin")
    else:
        found = explain(sys.stdin.buffer)
    return Result(found.to_json(), _text(found), 0 if found.matches else 1)


def _open(name: str, stack: ExitStack) -> BinaryIO:
    try:
        return stack.enter_context(Path(name).open("rb"))
    except (OSError, ValueError) as error:  # ValueError: a NUL byte in the name
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise InputError(f"--file {quote(name)}: {reason}; expected a log file") from None


def _text(found: Explanation) -> str:
    size = f"{found.lines:,} line{'s' if found.lines != 1 else ''}"
    if found.matches:
        parts = [_match(match, size if found.lines > 1 else "") for match in found.matches]
        twins = _twins(found.matches)
        if found.unread:
            parts.append(f"{found.unread:,} more occurrences of these were counted, not read.")
        return "\n\n".join([*parts, *twins])
    lines = [f"No message that mxlab knows stands in this text ({size})."]
    if found.nearest:
        lines.append("Nearest, by the words in common:")
        wrap = _wrapper("    ")
        for one in found.nearest:
            lines.append(f"  {one.guard.id} ({one.guard.system}), {one.score:.0%}")
            lines.append(wrap.fill(one.message))
    else:
        lines.append("Nothing in the table comes near it.")
    return "\n".join(lines)


def _match(match: Match, size: str) -> str:
    guard = match.guard
    kind = guard.error or "no message"
    place = f", line {match.line:,} of {size}" if size else ""
    times = f", {match.count:,} times" if match.count > 1 else ""
    ranks = ", ".join(f"{rank} x{n}" if n > 1 else rank for rank, n in match.ranks.items())
    head = f"{guard.id} ({guard.system}, {kind}){place}{times}"
    rows = [
        ("Ranks", ranks),
        ("Part", "" if match.complete else "only a part of the message stands there"),
        ("Means", guard.meaning),
        ("Here", ", ".join(match.because)),
        ("When", when(guard)),
        ("Instead", "" if guard.fallback in ("", "none") else guard.fallback),
        *[("Fix" if not i else "or", fix) for i, fix in enumerate(guard.fixes)],
        ("Related", ", ".join(guard.related)),
        ("More", f"mxlab guards {guard.id}; in the book {page(guard)}"),
    ]
    lines = [head, _wrapper("  ").fill(match.text)]
    for label, value in rows:
        if value:
            lines.append(_wrapper(f"  {label:<{_LABEL - 2}}", " " * _LABEL).fill(value))
    return "\n".join(lines)


def _twins(matches: tuple[Match, ...]) -> list[str]:
    """Say where one text comes from several checks."""
    places: dict[tuple[int, str], list[str]] = {}
    for match in matches:
        places.setdefault((match.line, match.text), []).append(match.guard.id)
    return [
        f"Line {line:,} has one text that {len(ids)} checks share: {', '.join(ids)}."
        for (line, _), ids in places.items()
        if len(ids) > 1
    ]


def _wrapper(first: str, rest: str | None = None) -> TextWrapper:
    return TextWrapper(
        _WIDTH,
        initial_indent=first,
        subsequent_indent=first if rest is None else rest,
        break_on_hyphens=False,
        break_long_words=False,
    )
