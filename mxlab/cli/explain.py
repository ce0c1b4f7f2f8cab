"""``mxlab explain``: an error message or a log, and what it means."""

import argparse
import sys
from contextlib import ExitStack
from pathlib import Path
from textwrap import TextWrapper
from typing import TYPE_CHECKING, Any, BinaryIO

from mxlab.cli.model_input import CONFIG, plain_number
from mxlab.cli.result import Result
from mxlab.errors import InputError, quote
from mxlab.explain import Explanation, Match, explain, page, when

if TYPE_CHECKING:
    from mxlab.explain_layers import Fit

EXAMPLES = """\
examples:
  mxlab explain "MXFP8 KV cache requires head_dim divisible by 32, got 80."
  mxlab explain < server.log
  mxlab explain --file server.log --json
  mxlab explain --file server.log --config config.json --tp 8      names the layer, by its numbers

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
    parser.add_argument("--config", metavar="CONFIG", help=f"name the layer: {CONFIG}")
    for flag, said in (("tp", "tensor-parallel"), ("ep", "expert-parallel")):
        parser.add_argument(f"--{flag}", metavar="SIZE", help=f"{said} size, with --config")


def run(args: argparse.Namespace) -> Result:
    """Explain the text; exit code 0 where a known message was found, 1 where none was."""
    text = " ".join(args.text)
    if args.config is None and (args.tp is not None or args.ep is not None):
        raise InputError("--tp or --ep without --config: expected the model that they split")
    model: dict[str, Any] = {"config": args.config}
    for name in ("tp", "ep"):
        if getattr(args, name) is not None:
            model[name] = plain_number(getattr(args, name))
    if args.file is not None and args.text:
        raise InputError(f"both a text and --file {quote(args.file)}: expected one of them")
    if args.file is not None:
        with ExitStack() as stack:
            found = explain(_open(args.file, stack), **model)
    elif args.text and text != "-":
        found = explain(text.encode("utf-8", "surrogateescape"), **model)
    elif sys.stdin is None or sys.stdin.isatty():
        raise InputError("nothing to explain: expected a TEXT, --file LOG, or a log on stdin")
    else:
        found = explain(sys.stdin.buffer, **model)
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
    head = f"{guard.id} ({guard.system} {', '.join(match.versions)}; {kind}){place}{times}"
    rows = [
        ("Ranks", ranks),
        ("Part", "" if match.complete else "only a part of the message stands there"),
        ("Means", guard.meaning),
        ("Here", ", ".join(match.because)),
        *[("Layer", _layer(fit)) for fit in match.layers],
        ("Layer", match.no_layer),
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


def _layer(fit: "Fit") -> str:
    size = "" if fit.n is None else f" ({fit.n} x {fit.k})"
    tp = ", ".join(map(str, fit.tp))
    return f"{fit.linear}{size} of {fit.layers} layers at TP {tp}: {fit.because}"


def _twins(matches: tuple[Match, ...]) -> list[str]:
    """Say where one text comes from several checks."""
    places: dict[tuple[int, str], dict[str, None]] = {}
    for match in matches:
        name = f"{match.guard.id} ({match.guard.system})"
        places.setdefault((match.line, match.text), {})[name] = None
    wrap = _wrapper("", "  ")
    return [
        wrap.fill(f"Line {line:,} has one text that {len(ids)} checks share: {', '.join(ids)}.")
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
