"""Write the book's guard pages: one page for each row of the guard table, and an index.

A page is headed by the text that people search for, with the numbers of an example. Run it as
``python -m book.site.guard_pages``, before jupyter-book.
"""

import re
import sys
from collections.abc import Sequence
from pathlib import Path

from book.site.guard_examples import QUIET, Example, examples
from book.site.guard_explorer import explorer_html
from mxlab.explain import COSTS
from mxlab.guards import GUARDS, STAGES, SUBJECTS, Status
from mxlab.guards.engine import Guard

FOLDER = Path(__file__).parents[1] / "guards"

SYSTEMS = {"sglang": "SGLang"}
_SAYS = {
    Status.STOPS: "This stops:",
    Status.WARNS: "This warns and goes on:",
    Status.SILENT: "This is wrong or slow, and nothing is printed:",
    Status.FALLS_BACK: "This falls back:",
    Status.PASSES: "This passes:",
}
_KINDS = {"": "nothing is raised or printed", "warning": "a warning in the log"}

# What reads as code in a sentence: flags, shapes, names with underscores, comparisons.
_CODE = re.compile(
    r"--[a-z][a-z0-9-]*(?:[= ](?=[a-z0-9_]*_)[a-z0-9_]+)?"
    r"|[A-Za-z0-9_./-]+\.(?:py|cu|cuh|cpp|json)(?::[0-9,-]+)?"
    r"|[A-Za-z][A-Za-z0-9.]*_[A-Za-z0-9_.]*[A-Za-z0-9_](?:=[\w-]+)?"
    r"|\[[0-9 ,]+\]|\b[A-Za-z]+ (?:[<>]=?|%) \d+(?: [!=]= \d+)?"
)
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|$~&^@!])")


def code(text: str) -> str:
    r"""Return text as inline code that shows it letter by letter.

    >>> code("the `x` (y)")
    '`` the `x` (y) ``'
    """
    text = " ".join(text.split())
    runs = [len(run) for run in re.findall("`+", text)]
    fence = "`" * next(n for n in range(1, len(runs) + 2) if n not in runs)
    pad = " " if runs else ""
    return f"{fence}{pad}{text}{pad}{fence}"


def prose(text: str) -> str:
    r"""Return a sentence of the table as Markdown: its code as code, the rest escaped.

    >>> prose("set --page-size to 128, not a_b or <x>")
    'set `--page-size` to 128, not `a_b` or \\<x\\>'
    """
    parts, at = [], 0
    for found in _CODE.finditer(text):
        parts += [_SPECIAL.sub(r"\\\1", text[at : found.start()]), code(found[0])]
        at = found.end()
    return "".join([*parts, _SPECIAL.sub(r"\\\1", text[at:])])


def heading(guard: Guard) -> str:
    """Return the message of a guard with the numbers of its example; "" where it has none."""
    if not guard.messages:
        return ""
    trips = _trips(guard)
    said = trips.message(guard) if trips else ""
    return " ".join((said or guard.messages[0]).split())


def title(guard: Guard) -> str:
    """Return the Markdown of a page's heading."""
    text = heading(guard)
    return code(text) if text else f"No message: {prose(guard.predicate)}"


def _trips(guard: Guard) -> Example | None:
    mine = examples()[guard.id]
    return next((mine[status] for status in _SAYS if status in mine and status not in QUIET), None)


def page(guard: Guard) -> str:
    """Return the page of a guard as MyST Markdown."""
    system = SYSTEMS.get(guard.system, guard.system)
    parts = [
        "---",
        "myst:",
        "  html_meta:",
        f'    "description lang=en": {_yaml(heading(guard) + " " + guard.meaning)}',
        "---",
        "",
        f"({guard.id})=",
        f"# {title(guard)}",
        "",
        f"`{guard.id}`, {system}, {_raised(guard)}.",
        *_section("What it means", [prose(guard.meaning)]),
        *_section("When", _when(guard)),
        *_section("What trips it", [f"Condition: {prose(guard.predicate)}.", *_texts(guard)]),
        *[line for example in _examples(guard) for line in example],
        *_section(f"What {system} does instead", [_instead(guard)]),
        *_section("What to do", _numbered(guard.fixes)),
        *_live(guard),
        *_section("Related", _related(guard)),
        *_section("Source", [prose(guard.source)]),
    ]
    return "\n".join(parts) + "\n"


def _section(name: str, body: Sequence[str]) -> list[str]:
    return ["", f"## {name}", "", *body] if body else []


def _raised(guard: Guard) -> str:
    return _KINDS.get(guard.error) or f"`{guard.error}`"


def _sentence(text: str) -> str:
    """Return text as a sentence; a name or a flag at its start stays as it is."""
    capital = re.match(r"[a-z]+(?=[ ,])", text) is not None
    return (text[:1].upper() if capital else text[:1]) + text[1:] + "." * (not text.endswith("."))


def _when(guard: Guard) -> list[str]:
    stage = STAGES.get(guard.stage, "")
    cost = f" This is {COSTS[guard.stage]}." if guard.stage in COSTS else ""
    return [
        f"Stage {guard.stage}: {prose(stage)}.{cost}",
        "",
        f"It looks at {prose(SUBJECTS[guard.subject])}. Reached on: {prose(guard.hardware)}.",
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
    shown = [
        _example(guard, mine[status], says) for status, says in _SAYS.items() if status in mine
    ]
    if _trips(guard) is None:
        shown.insert(0, ["", "No deployment that mxlab tried trips it."])
    elif Status.PASSES not in mine:
        shown.append(["", "Nothing that mxlab tried passes it: where it is reached, it speaks."])
    return shown


def _example(guard: Guard, example: Example, says: str) -> list[str]:
    message = example.message(guard)
    said = [f"> {prose(example.finding.because)}."]
    if message:
        said += [">", f"> {code(message)}"]
    return ["", says, "", "```python", example.python(), "```", "", *said]


def _instead(guard: Guard) -> str:
    if guard.fallback in ("", "none"):
        return "Nothing: it stops." if guard.error not in ("", "warning") else "It goes on."
    return _sentence(prose(guard.fallback))


def _numbered(fixes: Sequence[str]) -> list[str]:
    return [f"{n}. {_sentence(prose(fix))}" for n, fix in enumerate(fixes, 1)]


def _live(guard: Guard) -> list[str]:
    html = explorer_html(guard)
    if not html:
        return []
    intro = "The explorer is set so that this guard speaks. Change a setting and see what mends it."
    return _section("Try it", [intro, "", "````{raw} html", html, "````"])


def _related(guard: Guard) -> list[str]:
    known = {row.id: row for row in GUARDS}
    return [
        f"* [{title(known[id])}]({id}.md) (`{id}`)" if id in known else f"* `{id}`"
        for id in guard.related
    ]


def _yaml(text: str) -> str:
    return '"' + " ".join(text.split()).replace("\\", "\\\\").replace('"', '\\"')[:300] + '"'


def index() -> str:
    """Return the page that lists all guards: by message, stage, subject and hardware."""
    systems = ", ".join(sorted({SYSTEMS.get(guard.system, guard.system) for guard in GUARDS}))
    lines = [
        "(guards)=",
        "# Guards",
        "",
        f"{len(GUARDS)} checks of {systems} that decide whether an MXFP8 or block-FP8 model runs. "
        "Each page is headed by the exact text, with the numbers of an example. Search for the "
        "words of your error, or let `mxlab explain` read it out of a log.",
        "",
        "## By stage and message",
        "",
        "In the order in which a server meets them. The later the stage, the more has been loaded "
        "in vain.",
    ]
    for stage, words in STAGES.items():
        rows = [guard for guard in GUARDS if guard.stage == stage]
        if rows:
            lines += ["", f"### {stage}: {prose(words)}", "", f"{_sentence(COSTS[stage])}", ""]
            lines += ["| message | class | looks at | reached on |", "|---|---|---|---|"]
            lines += [_row(guard) for guard in rows]
    lines += ["", "## By subject"]
    for subject, words in SUBJECTS.items():
        rows = [guard for guard in GUARDS if guard.subject == subject]
        if rows:
            lines += ["", f"{_sentence(prose(words))[:-1]}: {_links(rows)}."]
    lines += ["", "## By hardware"]
    for hardware in dict.fromkeys(guard.hardware for guard in GUARDS):
        rows = [guard for guard in GUARDS if guard.hardware == hardware]
        lines += ["", f"{_sentence(prose(hardware))[:-1]}: {_links(rows)}."]
    return "\n".join(lines) + "\n"


def _row(guard: Guard) -> str:
    cells = (
        f"[{title(guard)}]({guard.id}.md)",
        f"`{guard.error}`" if guard.error else "none",
        guard.subject.replace("_", " "),
        prose(guard.hardware),
    )
    return "| " + " | ".join(re.sub(r"(?<!\\)\|", r"\|", cell) for cell in cells) + " |"


def _links(rows: Sequence[Guard]) -> str:
    return ", ".join(f"[`{guard.id}`]({guard.id}.md)" for guard in rows)


def write(folder: Path = FOLDER) -> list[Path]:
    """Write every page and the index into a folder; remove pages of guards that are gone."""
    folder.mkdir(parents=True, exist_ok=True)
    pages = {f"{guard.id}.md": page(guard) for guard in GUARDS} | {"index.md": index()}
    for stale in folder.glob("*.md"):
        if stale.name not in pages:
            stale.unlink()
    for name, text in pages.items():
        (folder / name).write_text(text, encoding="utf-8")
    return [folder / name for name in pages]


if __name__ == "__main__":
    print(f"{len(write())} guard pages", file=sys.stderr)
