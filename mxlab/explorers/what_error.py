"""What does this error mean? A message or a whole log, found in the table of guards."""

import shlex
from collections.abc import Sequence
from functools import lru_cache

from mxlab.errors import InputError
from mxlab.explain import Candidate, Explanation, Match, explain, page, when
from mxlab.explain_index import index
from mxlab.explain_table import every_message
from mxlab.explorers.controls import Choice, Int, State, Text
from mxlab.explorers.panels import AnyPanel, Facts, Item, Verdicts, View
from mxlab.explorers.protocol import Explorer
from mxlab.explorers.what_error_live import near, speaks
from mxlab.explorers.will_it_run_lines import SIGNS
from mxlab.guards import Status
from mxlab.models import Source, shipped_models
from mxlab.models.config import parse_json
from mxlab.models.shipped import shipped_config

_NONE, _PASTED = "none", "pasted"
_SHOWN = 40  # matches of one window
_SHORT = 1_000  # characters that a command line takes
_WITH_MODEL = ("model", (*shipped_models(), _PASTED))

CONTROLS = (
    Text(
        name="text",
        label="Error message or log",
        default="MXFP8 KV cache requires head_dim divisible by 32, got 80.",
        limit=1_000_000,
        lines=6,
        file="a log",
        help="stays on this machine; up to a million characters",
    ),
    Int(name="first", label="First match listed", default=1, low=1, high=100_000),
    Int(
        name="match",
        label="Match asked again",
        default=1,
        low=1,
        high=100_000,
        help="its check runs again below, with its numbers",
    ),
    Choice(
        name="model",
        label="Model",
        group="Which layer is it?",
        default=_NONE,
        options=(
            (_NONE, "not given"),
            *((name, name) for name in shipped_models()),
            (_PASTED, "a config.json, pasted below"),
        ),
    ),
    Text(
        name="config_json",
        label="config.json",
        group="Which layer is it?",
        default="",
        limit=1_000_000,
        lines=4,
        file="a config.json",
        when=("model", (_PASTED,)),
    ),
    Int(
        name="tp",
        label="TP",
        group="Which layer is it?",
        default=0,
        low=0,
        high=64,
        help="0 tries the usual sizes",
        when=_WITH_MODEL,
    ),
)


def view(state: State) -> View:
    """Return what mxlab knows of a text; raise InputError where it is no text or no config."""
    text = str(state["text"])
    if not text.strip():
        raise InputError("Paste an error message or a log, or open one from a file.")
    found = _explained(text, *_asked(state))
    where = (_cli(text, state), _python(text, state))
    if not found.matches:
        return _nothing(found, *where)
    place = min(int(state["match"]), len(found.matches)) - 1
    status, sign, answer = _answer(found.matches)
    panels: list[AnyPanel] = [_matches(found, min(int(state["first"]), len(found.matches)))]
    chosen = found.matches[place]
    twins = [m for m in found.matches if (m.line, m.text) == (chosen.line, chosen.text)]
    twins = [chosen, *(twin for twin in twins if twin is not chosen)]
    close, live = near(chosen), speaks(twins)
    panels += [*([close] if close else []), _text(found), *([live] if live else [])]
    return View(status=status, sign=sign, answer=answer, panels=tuple(panels),
                cli=where[0], python=where[1])  # fmt: skip


def _asked(state: State) -> tuple[str, str, int]:
    """Return what the model depends on, so that a hidden box changes nothing."""
    model = str(state["model"])
    if model == _NONE:
        return model, "", 0
    return model, str(state["config_json"]) if model == _PASTED else "", int(state["tp"])


@lru_cache(maxsize=2)
def _explained(text: str, model: str, config_json: str, tp: int) -> Explanation:
    if model == _NONE:
        return explain(text)
    return explain(text, config=_model(model, config_json), tp=tp or None)


@lru_cache(maxsize=4)
def _model(name: str, text: str) -> Source:
    if name != _PASTED:
        return shipped_config(name)
    if not text.strip():
        raise InputError("Paste a config.json, or open one from a file: its box is empty.")
    config = parse_json(text.encode("utf-8", "replace"), "config.json")
    if not isinstance(config, dict):
        raise InputError("config.json is no JSON object: expected a Hugging Face config.json")
    return config


def _status(match: Match) -> Status:
    error = match.guard.error
    return Status.WARNS if error == "warning" else Status.STOPS if error else Status.SILENT


def _because(match: Match) -> str:
    return ", ".join(match.because) or match.guard.predicate


def _answer(matches: Sequence[Match]) -> tuple[str, str, str]:
    first = matches[0]
    status = _status(first)
    ids = list(dict.fromkeys(match.guard.id for match in matches))
    fix = first.guard.fixes[0].rstrip(".") if first.guard.fixes else ""
    do = f" To do: {fix}." if fix else ""
    named = f" Also here: {', '.join(ids[1:6])}" if len(ids) > 1 else ""
    others = named + (f" and {len(ids) - 6} more." if len(ids) > 6 else "." if named else "")
    sentence = f"{first.guard.id} of {first.guard.system}: {_because(first)}.{do}{others}"
    return status, SIGNS[status][0], sentence


def _item(match: Match) -> Item:
    guard, status = match.guard, _status(match)
    ranks = ", ".join(f"{rank} x{n}" if n > 1 else rank for rank, n in match.ranks.items())
    times = f", {match.count:,} times" if match.count > 1 else ""
    notes = [
        ("means", guard.meaning),
        ("class", guard.error),
        ("system", f"{guard.system} {', '.join(match.versions)}"),
        ("when", when(guard)),
        ("line", f"{match.line:,}{times}" + (f", on {ranks}" if ranks else "")),
        ("part", "" if match.complete else "only a part of the message stands there"),
        ("numbers", ", ".join(f"{name} = {value}" for name, value in match.values.items())),
        *(("layer", _layer(fit.linear, fit.n, fit.k, fit.tp, fit.because)) for fit in match.layers),
        ("layer", match.no_layer),
        ("instead", "" if guard.fallback == "none" else guard.fallback),
        *(("fix", fix) for fix in guard.fixes),
        ("related", ", ".join(guard.related)),
        ("source", guard.source),
    ]
    return Item(
        status=status,
        sign=SIGNS[status][0],
        name=guard.id,
        stage=guard.stage,
        because=_because(match),
        message=match.text,
        notes=tuple(note for note in notes if note[1]),
        href=page(guard),
    )


def _layer(name: str, n: int | None, k: int | None, tp: Sequence[int], because: str) -> str:
    size = "" if n is None else f" ({n} x {k})"
    return f"{name}{size} at TP {', '.join(map(str, tp))}: {because}"


def _matches(found: Explanation, first: int) -> Verdicts:
    shown = found.matches[first - 1 : first - 1 + _SHOWN]
    part = len(shown) < len(found.matches)
    window = f" {first} to {first + len(shown) - 1} are listed." if part else ""
    ids = ", ".join(dict.fromkeys(match.guard.id for match in shown))
    said = f"{len(found.matches)} known messages" if len(found.matches) > 1 else "1 known message"
    return Verdicts(
        id="matches",
        title="What stands in the text, what stops first on top",
        alt=f"{said}: {ids}.{window}",
        items=tuple(_item(match) for match in shown),
    )


def _text(found: Explanation) -> Facts:
    times = sum(match.count for match in found.matches)
    rows = [("lines", f"{found.lines:,}", ""), ("bytes", f"{found.size:,}", "as UTF-8")]
    if times:
        rows.append(("known messages", f"{times:,}", f"{len(found.matches):,} different"))
    if found.unread:
        rows.append(("not read", f"{found.unread:,}", "more of the same: counted, not compared"))
    counts = ((found.lines, "line"), (found.size, "byte"), (times, "known message"))
    alt = ", ".join(f"{count:,} {what}{'s' * (count != 1)}" for count, what in counts) + "."
    return Facts(id="text", title="The text", alt=alt, rows=tuple(rows))


def _nothing(found: Explanation, cli: str, python: str) -> View:
    """Say that nothing is known, and what comes nearest."""
    lines = f"{found.lines:,} line{'s' * (found.lines != 1)}"
    answer = f"No message that mxlab knows stands in this text ({lines})."
    if found.nearest:
        best = found.nearest[0]
        answer += f" Nearest by its words: {best.guard.id}, {best.score:.0%}."
    else:
        answer += " Nothing in the table comes near it."
    sign = SIGNS[Status.UNKNOWN][0]
    items = tuple(_candidate(one) for one in found.nearest)
    named = ", ".join(f"{one.guard.id} {one.score:.0%}" for one in found.nearest)
    alt = f"{len(items)} candidates: {named}."
    nearest = Verdicts(id="nearest", title="Nearest messages, by the words in common",
                       alt=alt if items else "No candidate.", items=items)  # fmt: skip
    panels = (nearest, _text(found))
    return View(
        status=Status.UNKNOWN, sign=sign, answer=answer, panels=panels, cli=cli, python=python
    )


def _candidate(one: Candidate) -> Item:
    return Item(
        status=Status.UNKNOWN,
        sign=SIGNS[Status.UNKNOWN][0],
        name=one.guard.id,
        stage=one.guard.stage,
        because=f"{one.score:.0%} of the words, weighed by how rare they are",
        message=one.message,
        notes=(("means", one.guard.meaning), ("system", one.guard.system)),
        href=page(one.guard),
    )


def _short(text: str) -> bool:
    """Tell whether a command line can hold the text as it is."""
    return len(text) <= _SHORT and text.isprintable() and not text.startswith("-")


def _cli(text: str, state: State) -> str:
    words = ["mxlab", "explain", *([text] if _short(text) else ["--file", "error.log"])]
    model, _, tp = _asked(state)
    if model != _NONE:
        words += ["--config", "config.json" if model == _PASTED else model]
        words += ["--tp", str(tp)] if tp else []
    return shlex.join(words)


def _python(text: str, state: State) -> str:
    source = repr(text) if _short(text) else "Path('error.log').read_text(encoding='utf-8')"
    model, _, tp = _asked(state)
    asked = "" if model == _NONE else f", config={'config.json' if model == _PASTED else model!r}"
    asked += f", tp={tp}" if tp else ""
    return (
        ("" if _short(text) else "from pathlib import Path\n\n")
        + f"from mxlab import explain\n\nfound = explain({source}{asked})\n"
        "for match in found.matches or found.nearest:\n"
        "    print(match.guard.id, getattr(match, 'because', match))\n"
    )


index(every_message())  # with the module, so that the page's snapshot has it and no view waits

EXPLORER = Explorer(
    name="what_error",
    title="What does this error mean?",
    question="Which check printed this, with which numbers, and what is to be done?",
    controls=CONTROLS,
    view=view,
)
