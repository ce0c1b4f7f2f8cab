"""The list of pages at the side: parts, their pages, and what lies below the page one is on.

The theme resolves the whole tree for every page, 300 guard pages included: a second and 90 kB for
each of them. Here the tree is read once, and a long list stays on its index page.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

from docutils import nodes  # type: ignore[import-untyped]
from markupsafe import Markup, escape
from sphinx.addnodes import toctree

#: more pages than this below one page are left to that page's own list
MOST_CHILDREN = 20

Tree = list[tuple[str, list[str]]]  # (caption, names of pages)


def parts(env: Any) -> Tree:
    """Return the captions of the table of contents with the pages below each."""
    found = env.tocs[env.config.root_doc].findall(toctree)
    return [(node["caption"] or "", [page for _, page in node["entries"]]) for node in found]


def sidebar(env: Any, page: str, pathto: Callable[[str], str]) -> Markup:
    """Return the list as HTML, the page that one is on marked in it."""
    return Markup("").join(
        _part(env, caption, names, page, pathto) for caption, names in parts(env)
    )


def _part(
    env: Any, caption: str, names: list[str], page: str, pathto: Callable[[str], str]
) -> Markup:
    head = Markup(
        '<p aria-level="2" class="caption" role="heading"><span class="caption-text">{}</span></p>'
    )
    items = Markup("").join(_item(env, name, page, pathto, 1) for name in names)
    title = head.format(caption) if caption else Markup("")
    return title + Markup('<ul class="nav bd-sidenav">{}</ul>').format(items)


def _item(env: Any, name: str, page: str, pathto: Callable[[str], str], level: int) -> Markup:
    below = env.toctree_includes.get(name, [])
    within = name == page or page in below
    inner = Markup("")
    if within and len(below) <= MOST_CHILDREN:
        rows = Markup("").join(_item(env, child, page, pathto, level + 1) for child in below)
        inner = Markup("<ul>{}</ul>").format(rows) if rows else inner
    return Markup(
        '<li class="toctree-l{}{}"><a class="reference internal" href="{}"{}>{}</a>{}</li>'
    ).format(
        level,
        " current active" if within else "",
        pathto(name),
        Markup(' aria-current="page"') if name == page else "",
        _title(env.titles[name]),
        inner,
    )


def _title(title: nodes.title) -> Markup:
    return escape(title.astext())


def offer_page_list(
    app: Any, page: str, _template: str, context: dict[str, Any], _tree: Any
) -> None:
    """Give ``templates/sbt-sidebar-nav.html`` this list."""
    context["page_list"] = cache(lambda: sidebar(app.env, page, context["pathto"]))
