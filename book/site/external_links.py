"""Links that leave the site: gathered while pages are read, listed on one page."""

from typing import Any
from urllib.parse import urlsplit

from docutils import nodes  # type: ignore[import-untyped]
from sphinx.util.docutils import SphinxDirective


class ExternalLinks(nodes.General, nodes.Element):  # type: ignore[misc]
    """Where the list will stand."""


class ExternalLinksDirective(SphinxDirective):
    """``{external-links}``: the list, filled in when all pages have been read."""

    def run(self) -> list[nodes.Node]:
        """Return the place."""
        return [ExternalLinks()]


def gather(app: Any, tree: nodes.document) -> None:
    """Remember the outside addresses of one page."""
    found = {node.get("refuri", "") for node in tree.findall(nodes.reference)}
    links = sorted(uri for uri in found if uri.startswith(("http:", "https:")))
    _all(app.env)[app.env.docname] = links


def forget(_app: Any, env: Any, page: str) -> None:
    """Forget a page that is read again or gone."""
    _all(env).pop(page, None)


def _all(env: Any) -> dict[str, list[str]]:
    if not hasattr(env, "mxlab_links"):
        env.mxlab_links = {}
    links: dict[str, list[str]] = env.mxlab_links
    return links


def listing(app: Any, tree: nodes.document, page: str) -> None:
    """Write the list where its place is: one item an address, then the pages that have it."""
    for place in list(tree.findall(ExternalLinks)):
        pages: dict[str, list[str]] = {}
        for name, links in sorted(_all(app.env).items()):
            for link in links:
                pages.setdefault(link, []).append(name)
        rows = sorted(pages.items(), key=lambda row: (urlsplit(row[0]).netloc, row[0]))
        place.replace_self(nodes.bullet_list("", *[_row(app, page, *row) for row in rows]))


def _row(app: Any, page: str, link: str, names: list[str]) -> nodes.list_item:
    line = nodes.paragraph(
        "", "", nodes.reference("", link, refuri=link, classes=["cited"]), nodes.Text(", on ")
    )
    for number, name in enumerate(names[:4]):
        uri = app.builder.get_relative_uri(page, name)
        line += [nodes.Text(", " if number else "")]
        line += nodes.reference("", app.env.titles[name].astext(), refuri=uri, internal=True)
    if len(names) > 4:
        line += nodes.Text(f" and {len(names) - 4} more pages")
    return nodes.list_item("", line)
