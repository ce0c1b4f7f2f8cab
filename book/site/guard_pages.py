"""Write the book's guard pages: one for each row of each system, lists of them, and the data.

A page is headed by the text that people search for, with the numbers of an example. Run it as
``python -m book.site.guard_pages``, before jupyter-book.
"""

import contextlib
import io
import sys
from collections.abc import Sequence
from pathlib import Path

from book.site import guard_index
from book.site.guard_check_code import check_of, rest
from book.site.guard_example_known import ALWAYS, NEVER
from book.site.guard_examples import Example, examples, trips
from book.site.guard_explorer import explorer_html, will_it_run_link
from book.site.guard_index import list_name, system_name
from book.site.guard_text import code, heading, linked, prose, sentence, title, yaml
from mxlab.cli import main
from mxlab.diagnosis import death
from mxlab.explain import COSTS
from mxlab.explain_table import holders
from mxlab.guards import STAGES, SUBJECTS, Status, guard, system
from mxlab.guards.counterparts import counterparts
from mxlab.guards.data import every_row, situations
from mxlab.guards.engine import Guard

FOLDER = Path(__file__).parents[1] / "guards"
#: copied to the root of the site
DATA = Path(__file__).parents[2] / "_build" / "guard_data"

SAYS = {
    Status.STOPS: "This stops:",
    Status.WARNS: "This warns and goes on:",
    Status.SILENT: "This is wrong or slow, and nothing is printed:",
    Status.FALLS_BACK: "This falls back:",
    Status.PASSES: "This passes:",
}
_KINDS = {"": "nothing is raised or printed", "warning": "a warning in the log"}


def page(guard: Guard) -> str:
    """Return the page of a guard as MyST Markdown."""
    name = system_name(guard.system)
    parts = [
        "---",
        "myst:",
        "  html_meta:",
        f'    "description lang=en": {yaml(heading(guard) + " " + guard.meaning)}',
        "---",
        "",
        f"({guard.id})=",
        f"# {title(guard)}",
        "",
        f"`{guard.id}`, [{name}]({list_name(guard.system)}.md) {_versions(guard)}, "
        f"{_KINDS.get(guard.error) or f'`{guard.error}`'}.",
        *_alike(guard),
        *_section("What it means", [linked(guard.meaning, guard)]),
        *_section("What to do", _numbered(guard)),
        *_section("When", _when(guard)),
        *_section(
            "What trips it", [f"Condition: {linked(guard.predicate, guard)}.", *_texts(guard)]
        ),
        *[line for example in _examples(guard) for line in example],
        *_section("Try it", _live(guard)),
        *_section("Models that meet it", _models(guard)),
        *_section("Check before launch", _check(guard)),
        *_section(f"What {name} does instead", [_instead(guard)]),
        *_section("Related", _listed(_own(guard))),
        *_section("In other systems", _listed(counterparts(guard), named=True)),
        *_section("Source", _source(guard)),
    ]
    return "\n".join(parts) + "\n"


def _section(name: str, body: Sequence[str]) -> list[str]:
    return ["", f"## {name}", "", *body] if body else []


def _versions(guard: Guard) -> str:
    return " and ".join(holders(guard.id, guard.system))


def _when(guard: Guard) -> list[str]:
    stage = STAGES.get(guard.stage, "")
    cost = f" This is {COSTS[guard.stage]}." if guard.stage in COSTS else ""
    if guard.error not in ("", "warning") and guard.stage.startswith("S"):
        cost += f" The server {death(guard.stage, None).when}."
    return [
        f"Stage {guard.stage}: {prose(stage)}.{cost}",
        "",
        f"It looks at {prose(SUBJECTS[guard.subject])}. "
        f"Reached on: {linked(guard.hardware, guard)}.",
    ]


def _texts(guard: Guard) -> list[str]:
    """Return the messages with their fields, where the heading does not say it all."""
    flat = [" ".join(message.split()) for message in guard.messages]
    if flat in ([], [heading(guard)]):
        return []
    texts = "text is" if len(flat) == 1 else "texts are"
    return ["", f"The exact {texts}:", "", *[f"* {code(message)}" for message in flat]]


def _examples(guard: Guard) -> list[list[str]]:
    mine = examples()[guard.id]
    shown = [_example(guard, mine[status], says) for status, says in SAYS.items() if status in mine]
    if trips(guard) is None:
        shown.insert(0, ["", f"No settings trip it. {NEVER[guard.id]}"])
    elif Status.PASSES not in mine:
        shown.append(["", f"No settings pass it. {ALWAYS[guard.id]}"])
    return shown


def _example(guard: Guard, example: Example, says: str) -> list[str]:
    message = example.message(guard)
    said = [f"> {prose(example.finding.because)}."]
    if message:
        said += [">", f"> {code(message)}"]
    return ["", says, "", "```python", example.python(), "```", "", *said]


def _models(guard: Guard) -> list[str]:
    """Return the shipped models that the guard speaks about, with the command that shows it."""
    return [
        line
        for seen in situations(guard)
        if seen["command"]
        for line in (f"* {sentence(prose(seen['text']))}", f"  {code(seen['command'])}")
    ]


def _check(guard: Guard) -> list[str]:
    """Return code to paste, set to what trips, so that the reader sees it fail first."""
    check, example = check_of(guard), trips(guard) or examples()[guard.id].get(Status.PASSES)
    source = check.source(example)
    if not source:
        return []
    intro = "To paste before a launch, with your own values. "
    if check.rule is not None:
        others = ", ".join(code(f"{label} = {value}") for label, value in rest(guard).items())
        others = f" ({others})" if others else ""
        intro += f"In plain Python, for the rest as in the example above that trips it{others}:"
    else:
        intro += "The check depends on more than sizes, so it asks mxlab:"
    return [intro, "", "```python", source, "```"]


def _instead(guard: Guard) -> str:
    if guard.fallback in ("", "none"):
        return "Nothing: it stops." if guard.error not in ("", "warning") else "It goes on."
    return sentence(linked(guard.fallback, guard))


def _live(guard: Guard) -> list[str]:
    intro = "The guard itself, set so that it speaks. Change a setting and see what mends it."
    if guard.id in NEVER:
        intro = "The guard itself, at the nearest settings: nothing trips it."
    elif guard.id in ALWAYS:
        intro = "The guard itself, set so that it speaks. Nothing makes it pass where it is asked."
    link = will_it_run_link(guard)
    if link:
        intro += f' For the whole deployment: <a href="{link}">Will it run?</a> at such settings.'
    return [intro, "", "````{raw} html", explorer_html(guard), "````"]


def _alike(guard: Guard) -> list[str]:
    """Return what tells the other checks apart that print this guard's text."""
    mine = set(guard.messages)
    others = [
        row
        for row, _ in every_row()
        if row.system == guard.system and row.id != guard.id and mine & set(row.messages)
    ]
    if not others:
        return []
    said = "this text" if len(guard.messages) == 1 else "one of these texts"
    lines = [f"* [`{row.id}`]({row.id}.md): {linked(row.predicate, guard)}." for row in others]
    return [
        "",
        f"Other checks print {said}, too. This page is for: {linked(guard.predicate, guard)}.",
        "",
        *lines,
    ]


def _own(row: Guard) -> list[str]:
    """Return the related guards that stand in no other section: those of the same system."""
    return [id for id in row.related if guard(id).system == row.system]


def _numbered(guard: Guard) -> list[str]:
    return [f"{n}. {sentence(linked(fix, guard))}" for n, fix in enumerate(guard.fixes, 1)]


def _listed(ids: Sequence[str], *, named: bool = False) -> list[str]:
    """Return links to guards under their headings, with their systems where ``named``."""
    rows = [guard(id) for id in ids]
    return [
        "* "
        + (f"{system_name(row.system)}: " if named else "")
        + f"[{title(row)}]({row.id}.md) (`{row.id}`)"
        for row in rows
    ]


def _source(guard: Guard) -> list[str]:
    known = system(guard.system, holders(guard.id, guard.system)[0])
    return [
        f"{prose(guard.source)} ({prose(known.source)}).",
        "",
        f'<a href="../../guards/{guard.id}.json">This page as data</a>, the same as '
        f"`mxlab guards {guard.id} --json` prints.",
    ]


def write(folder: Path = FOLDER) -> list[Path]:
    """Write every page and list into a folder; remove pages of guards that are gone."""
    folder.mkdir(parents=True, exist_ok=True)
    pages = {f"{row.id}.md": page(row) for row, _ in every_row()} | guard_index.pages()
    for stale in folder.glob("*.md"):
        if stale.name not in pages:
            stale.unlink()
    for name, text in pages.items():
        (folder / name).write_text(text, encoding="utf-8")
    return [folder / name for name in pages]


def write_data(folder: Path = DATA) -> list[Path]:
    """Write the rows as data: what the command prints, byte for byte."""
    (folder / "guards").mkdir(parents=True, exist_ok=True)
    commands = {"guards.json": ["--json"], "guards.schema.json": ["--schema"]}
    for row, _ in every_row():
        commands[f"guards/{row.id}.json"] = [row.id, "--json"]
    for name, arguments in commands.items():
        (folder / name).write_text(_printed(["guards", *arguments]), encoding="utf-8")
    return [folder / name for name in commands]


def _printed(arguments: Sequence[str]) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as out:
        failed = main(arguments)
    assert not failed, arguments
    return out.getvalue()


if __name__ == "__main__":
    print(f"{len(write())} guard pages, {len(write_data())} files of data", file=sys.stderr)
