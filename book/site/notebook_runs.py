"""The status page's table: when each notebook ran, for how long, to its end or not."""

from datetime import UTC, datetime
from typing import Any

from docutils import nodes  # type: ignore[import-untyped]
from sphinx.util.docutils import SphinxDirective

HEAD = ("page", "ran at (UTC)", "seconds", "outcome")


class NotebookRuns(nodes.General, nodes.Element):  # type: ignore[misc]
    """Where the table will stand."""


class NotebookRunsDirective(SphinxDirective):
    """``{notebook-runs}``: the table, filled in when all notebooks have run."""

    def run(self) -> list[nodes.Node]:
        """Return the place."""
        return [NotebookRuns()]


def runs(env: Any) -> list[tuple[str, str, str, str]]:
    """Return (page, time, seconds, outcome) of each page that was executed."""
    rows = []
    for page, data in sorted(getattr(env, "nb_metadata", {}).items()):
        if found := data.get("exec_data"):
            when = datetime.fromtimestamp(found["mtime"], UTC).strftime("%Y-%m-%d %H:%M")
            outcome = "ran to its end" if found["succeeded"] else "a cell raised"
            rows.append((page, when, f"{found['runtime'] or 0:.1f}", outcome))
    return rows


def fill_in(app: Any, tree: nodes.document, page: str) -> None:
    """Write the table where its place is."""
    for place in list(tree.findall(NotebookRuns)):
        rows = runs(app.env)
        body = [
            [_link(app, page, name), *map(nodes.Text, said)] for name, *said in rows
        ]  # each page under its title
        place.replace_self(_table([[nodes.Text(name) for name in HEAD]], body))


def _link(app: Any, page: str, name: str) -> nodes.reference:
    uri = app.builder.get_relative_uri(page, name)
    return nodes.reference("", app.env.titles[name].astext(), refuri=uri, internal=True)


def _table(head: list[list[nodes.Node]], body: list[list[nodes.Node]]) -> nodes.table:
    group = nodes.tgroup("", *(nodes.colspec(colwidth=1) for _ in HEAD), cols=len(HEAD))
    group += nodes.thead("", *map(_row, head))
    group += nodes.tbody("", *map(_row, body))
    return nodes.table("", group)


def _row(cells: list[nodes.Node]) -> nodes.row:
    return nodes.row("", *(nodes.entry("", nodes.paragraph("", "", cell)) for cell in cells))
