"""Sphinx extension of the book: pages fetch nothing from elsewhere, search finds the right page.

myst-nb adds require.js and html-manager (from two CDNs) to every page that holds widget state, and
jupyter-book always loads thebe; the explorers need neither.
"""

from typing import Any

from docutils import nodes  # type: ignore[import-untyped]


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


def _is_thebe(asset: Any) -> bool:
    name = str(getattr(asset, "filename", asset) or "")
    body = str(getattr(asset, "attributes", {}).get("body", ""))
    return "thebe" in name or "THEBE" in body


def setup(app: Any) -> dict[str, bool]:
    """Connect the handlers."""
    app.connect("env-updated", drop_widget_state)
    app.connect("doctree-resolved", leave_out_of_search)
    app.connect("html-page-context", drop_thebe, priority=900)
    app.connect("html-page-context", follow_the_reader_s_theme)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
