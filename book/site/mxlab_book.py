"""Sphinx extension of the book: pages fetch nothing from elsewhere, and say so to no one.

myst-nb adds require.js and html-manager (from two CDNs) to every page that holds widget state, and
jupyter-book always loads thebe; the explorers need neither.
"""

from typing import Any


def drop_widget_state(_app: Any, env: Any) -> None:
    """Forget the widgets' state, and with it the scripts that would draw it."""
    for data in getattr(env, "nb_metadata", {}).values():
        data.pop("js_files", None)


def drop_thebe(_app: Any, _page: str, _template: str, context: dict[str, Any], _tree: Any) -> None:
    """Take thebe's scripts and styles off the page."""
    for key in ("script_files", "css_files"):
        context[key] = [asset for asset in context.get(key, []) if not _is_thebe(asset)]


def _is_thebe(asset: Any) -> bool:
    name = str(getattr(asset, "filename", asset) or "")
    body = str(getattr(asset, "attributes", {}).get("body", ""))
    return "thebe" in name or "THEBE" in body


def setup(app: Any) -> dict[str, bool]:
    """Connect the two handlers."""
    app.connect("env-updated", drop_widget_state)
    app.connect("html-page-context", drop_thebe, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
