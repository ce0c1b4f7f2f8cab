"""The lists of guards: one page for each system, and an index by stage, hardware and subject."""

import re
from collections.abc import Iterable, Sequence
from html import escape

from book.site.guard_text import prose, sentence, title
from mxlab.explain import COSTS
from mxlab.guards import STAGES, SUBJECTS
from mxlab.guards.data import dataset, every_row
from mxlab.guards.engine import Guard
from mxlab.guards.systems import IDS, versions

Row = tuple[Guard, str]

#: for the page above all: the search of the whole book
SEARCH = (
    '<form class="mxlab-find" action="../../search.html" method="get" role="search">',
    '<input type="search" name="q" aria-label="Words of your error" '
    'placeholder="Words of your error"> <button>Search</button>',
    "</form>",
)
#: for a list: the script puts a field here that leaves the rows with some words
FILTER = (
    '<div class="mxlab-filter" data-what="guards"></div>',
    '<script src="../../_static/filter.js" defer></script>',
)


def list_name(system: str) -> str:
    """Return the name of the page that lists a system's guards.

    >>> list_name("transformer_engine")
    'list-transformer-engine'
    """
    return f"list-{system.replace('_', '-')}"


def system_name(system: str) -> str:
    """Return a system's name as people write it."""
    return versions(system)[0].name


def index() -> str:
    """Return the page above all: the systems, then every guard by stage, hardware and subject."""
    rows = [row for row, _ in every_row()]
    lines = [
        "(guards)=",
        "# Guards",
        "",
        f"{len(rows)} checks that decide whether an MXFP8 or block-FP8 model runs, and places "
        "where none looks and the result is wrong or slow. Each has a page, headed by its exact "
        "text with the numbers of an example. Search for the words of your error, or "
        "[paste it, or a whole log](../what_does_this_error_mean.md), and it is found.",
        "",
        *SEARCH,
        "",
        "## By system and message",
        "",
        "| system | versions | guards |",
        "|---|---|---|",
    ]
    for id in IDS:
        mine = sum(row.system == id for row in rows)
        said = ", ".join(known.version for known in versions(id))
        lines.append(f"| [{system_name(id)}]({list_name(id)}.md) | {said} | {mine} |")
    lines += [
        "",
        'As data: <a href="../../guards.json">guards.json</a> holds all rows (dataset '
        f"`{dataset()}`), `guards/ID.json` holds one, and "
        '<a href="../../guards.schema.json">guards.schema.json</a> describes them. '
        "`mxlab guards --json` prints the same.",
        "",
        "## By stage",
        "",
        "The later the stage, the more has been loaded in vain. S is a server that loads a model, "
        "C the call of a library.",
        "",
    ]
    for stage, words in STAGES.items():
        mine_ = [row for row in rows if row.stage == stage]
        lines += _folded(f"{stage}: {words}", mine_, sentence(COSTS[stage]) + " ")
    lines += ["", "## By hardware", ""]
    places: dict[str, list[Guard]] = {}
    for row in rows:
        places.setdefault(row.hardware, []).append(row)
    for hardware, mine_ in sorted(places.items(), key=lambda pair: -len(pair[1])):
        lines += _folded(hardware, mine_)
    lines += ["", "## By subject", ""]
    for subject, words in SUBJECTS.items():
        lines += _folded(words, [row for row in rows if row.subject == subject])
    return "\n".join(lines) + "\n"


def system_list(system: str) -> str:
    """Return the page that lists a system's guards by stage and message."""
    rows = [(row, version) for row, version in every_row() if row.system == system]
    known = versions(system)
    said = " and ".join(one.version for one in known)
    server = "In the order in which a server meets them." if known[0].server else ""
    lines = [
        f"# Guards of {system_name(system)}",
        "",
        f"{len(rows)} guards of {system_name(system)} {said}. {server}".rstrip(),
        "",
        *FILTER,
    ]
    for stage, words in STAGES.items():
        mine = [row for row in rows if row[0].stage == stage]
        if mine:
            lines += ["", f"## {stage}: {prose(words)}", "", sentence(COSTS[stage]), ""]
            lines += ["| message | class | looks at | reached on |", "|---|---|---|---|"]
            lines += [_row(row, version, known[0].version) for row, version in mine]
    return "\n".join(lines) + "\n"


def _row(guard: Guard, version: str, newest: str) -> str:
    cells = (
        f"[{title(guard)}]({guard.id}.md)" + (f" (only {version})" if version != newest else ""),
        f"`{guard.error}`" if guard.error else "none",
        guard.subject.replace("_", " "),
        prose(guard.hardware),
    )
    return "| " + " | ".join(re.sub(r"(?<!\\)\|", r"\|", cell) for cell in cells) + " |"


def _folded(name: str, rows: Sequence[Guard], said: str = "") -> list[str]:
    """Return a group that opens: its name with a count, then its guards by their ids."""
    if not rows:
        return []
    name = escape(sentence(name).rstrip("."))
    count = f"{len(rows)} guard" + "s" * (len(rows) > 1)
    return [
        "<details>",
        f"<summary>{name} <small>{count}</small></summary>",
        "",
        f"{said}{_links(rows)}.",
        "",
        "</details>",
    ]


def _links(rows: Iterable[Guard]) -> str:
    return ", ".join(f"[`{row.id}`]({row.id}.md)" for row in rows)


def pages() -> dict[str, str]:
    """Return the lists by the names of their files."""
    found = {"index.md": index()}
    names: Sequence[str] = IDS
    return found | {f"{list_name(id)}.md": system_list(id) for id in names}
