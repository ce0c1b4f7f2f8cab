"""Sphinx extension of the book: pages fetch nothing from elsewhere, search finds the right page.

myst-nb adds require.js and html-manager (from two CDNs) to every page that holds widget state, and
jupyter-book always loads thebe; the explorers need neither.
"""

from pathlib import Path
from typing import Any

from docutils import nodes  # type: ignore[import-untyped]

from book.site import (
    citations,
    external_links,
    glossary_links,
    navigation,
    notebook_runs,
    page_head,
    search_messages,
    streams,
)

TEMPLATES = Path(__file__).parent / "templates"


def drop_widget_state(_app: Any, env: Any) -> None:
    """Forget the widgets' state, and with it the scripts that would draw it."""
    for data in getattr(env, "nb_metadata", {}).values():
        data.pop("js_files", None)


def leave_out_of_search(_app: Any, tree: nodes.document, _page: str) -> None:
    """Keep the explorers' texts out of the search index, which reads ``rawsource``.

    Each still names every guard; a search for a message would find all pages that have one.
    """
    for node in tree.findall(nodes.raw):
        if "mxlab-explorer" in node.astext():
            node.rawsource = ""


def drop_thebe(_app: Any, _page: str, _template: str, context: dict[str, Any], _tree: Any) -> None:
    """Take thebe's scripts and styles off the page."""
    for key in ("script_files", "css_files"):
        context[key] = [asset for asset in context.get(key, []) if not _is_thebe(asset)]


def follow_the_reader_s_theme(
    _app: Any, _page: str, _template: str, context: dict[str, Any], _tree: Any
) -> None:
    """Name the theme's default mode: left empty, the theme logs it as an error on a first visit."""
    context["default_mode"] = context.get("default_mode") or "auto"


def use_own_templates(_app: Any, config: Any) -> None:
    """Put our templates before the theme's, and write the page for addresses that are not here."""
    config.templates_path = [str(TEMPLATES), *config.templates_path]
    config.html_additional_pages = {**config.html_additional_pages, "404": "404.html"}


def _is_thebe(asset: Any) -> bool:
    name = str(getattr(asset, "filename", asset) or "")
    body = str(getattr(asset, "attributes", {}).get("body", ""))
    return "thebe" in name or "THEBE" in body


def setup(app: Any) -> dict[str, bool]:
    """Connect the handlers."""
    streams.install()
    app.add_node(external_links.ExternalLinks)
    app.add_node(notebook_runs.NotebookRuns)
    app.add_directive("external-links", external_links.ExternalLinksDirective)
    app.add_directive("notebook-runs", notebook_runs.NotebookRunsDirective)
    app.connect("config-inited", use_own_templates)
    app.connect("config-inited", page_head.read_address)
    app.connect("config-inited", search_messages.write)
    app.connect("doctree-read", citations.link, priority=400)  # before they are gathered
    app.connect("doctree-read", external_links.gather)
    app.connect("doctree-read", glossary_links.link_first_uses)
    app.connect("env-purge-doc", external_links.forget)
    app.connect("env-updated", drop_widget_state)
    app.connect("doctree-resolved", external_links.listing)
    app.connect("doctree-resolved", notebook_runs.fill_in)
    app.connect("doctree-resolved", leave_out_of_search)
    app.connect("html-page-context", page_head.describe)
    app.connect("html-page-context", page_head.say_how_to_run)
    app.connect("html-page-context", drop_thebe, priority=900)
    app.connect("html-page-context", follow_the_reader_s_theme)
    app.connect("html-page-context", navigation.offer_page_list, priority=400)
    app.connect("build-finished", page_head.write_sitemap)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
