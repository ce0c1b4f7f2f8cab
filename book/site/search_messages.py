"""The search page's script with the text of every message in it: what people paste is found."""

import json
from html import escape
from pathlib import Path
from typing import Any

from book.site.guard_text import heading
from mxlab.guards.data import every_row

SCRIPT = Path(__file__).with_name("search_scorer.js")
_PLACE = "const MESSAGES = [];\n"


def rows() -> list[list[str]]:
    """Return [page, title as HTML, message, ...] of each guard that has a message."""
    return [
        [
            f"book/guards/{guard.id}",
            f"<code>{escape(heading(guard), quote=False)}</code>",
            *(" ".join(message.split()) for message in guard.messages),
        ]
        for guard, _ in every_row()
        if guard.messages
    ]


def script() -> str:
    """Return the script as it goes on the search page."""
    text = SCRIPT.read_text(encoding="utf-8")
    before, place, after = text.partition(_PLACE)
    assert place, f"{SCRIPT.name} has no place for the messages"
    table = json.dumps(rows(), ensure_ascii=False, separators=(",", ":"))
    return f"{before}const MESSAGES = {table};\n{after}"


def write(app: Any, config: Any) -> None:
    """Write the script where Sphinx looks for it, before it reads its index."""
    path = Path(app.outdir).parent / "search_scorer.js"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(script(), encoding="utf-8")
    config.html_search_scorer = str(path)
