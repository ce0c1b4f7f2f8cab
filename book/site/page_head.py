"""What a page says about itself: its description, its address, and how to run it.

The address of the site is read from ``MXLAB_SITE_URL``; without it no page claims one.
"""

import os
import re
from pathlib import Path
from typing import Any

from docutils import nodes  # type: ignore[import-untyped]
from markupsafe import Markup, escape

#: characters of a description; search engines show about so many
MOST = 160
OTHER_PAGES = {
    "genindex": "All names of the book: functions, classes and terms.",
    "search": "Search the mxlab book: paste an error, or a part of one.",
    "404": "This page is not here. Search for the words of your error.",
}


def read_address(_app: Any, config: Any) -> None:
    """Take the site's address from the environment, with one slash at its end."""
    address = os.environ.get("MXLAB_SITE_URL", "").strip()
    if address:
        if not re.fullmatch(r"https?://[^\s\"'<>]+", address):
            raise SystemExit(f"MXLAB_SITE_URL is {address!r}: expected https://host/folder/")
        config.html_baseurl = address.rstrip("/") + "/"


def description(tree: Any) -> str:
    """Return the first paragraph of a page in at most ``MOST`` characters, cut after a word."""
    for paragraph in tree.findall(nodes.paragraph) if tree is not None else ():
        inside = (nodes.Admonition, nodes.table, nodes.sidebar, nodes.figure)
        said = " ".join(paragraph.astext().split())
        if len(said) > 30 and not any(isinstance(up, inside) for up in _above(paragraph)):
            return said if len(said) <= MOST else said[: MOST - 3].rpartition(" ")[0] + "..."
    return ""


def _above(node: Any) -> Any:
    while node.parent is not None:
        node = node.parent
        yield node


def describe(app: Any, page: str, _template: str, context: dict[str, Any], tree: Any) -> None:
    """Add a description to a page that has none; tell 404.html where the site is."""
    context["site_address"] = app.config.html_baseurl
    if 'name="description"' in context.get("metatags", ""):
        return
    said = OTHER_PAGES.get(page) or description(tree)
    if said:
        tag = Markup('\n<meta name="description" content="{}" />\n').format(said)
        context["metatags"] = context.get("metatags", "") + str(tag)


def say_how_to_run(
    app: Any, page: str, _template: str, context: dict[str, Any], _tree: Any
) -> None:
    """Put a line below the title of a page that is a notebook: how to run it, where to get it."""
    source = Path(page + ".ipynb")
    if not (Path(app.srcdir) / source).exists() or "body" not in context:
        return
    line = Markup(
        '<p class="run-locally">This page is a notebook. <a href="{}">Run it on your machine</a>: '
        '<code class="docutils literal">make lab</code>, then <code class="docutils literal">{}'
        '</code>; or <a href="{}" download>download it</a>.</p>'
    ).format(
        context["pathto"]("book/howto/run_the_notebooks"),
        source.as_posix(),
        context["pathto"]("_sources/" + source.as_posix(), 1),
    )
    head, mark, rest = context["body"].partition("</h1>")
    if mark:
        context["body"] = head + mark + str(line) + rest  # Markup would escape its neighbours


def write_sitemap(app: Any, error: Exception | None) -> None:
    """List all pages for search engines, where the site's address is known."""
    if error or not app.config.html_baseurl or app.builder.name != "html":
        return
    urls = "\n".join(
        f"<url><loc>{escape(app.config.html_baseurl)}{escape(page)}.html</loc></url>"
        for page in sorted(app.env.found_docs)
    )
    (Path(app.outdir) / "sitemap.xml").write_text(
        '<?xml version="1.0" encoding="utf-8"?>\n'
        f'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">\n{urls}\n</urlset>\n',
        encoding="utf-8",
    )
