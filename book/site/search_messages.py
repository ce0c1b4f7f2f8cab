"""The search page's script with the text of every message in it: what people paste is found."""

import json
from pathlib import Path
from typing import Any

from mxlab.guards.systems import IDS, versions

SCRIPT = Path(__file__).with_name("search_scorer.js")
_PLACE = "const MESSAGES = [];\n"


def messages() -> dict[str, list[str]]:
    """Return each guard's messages by its id, those of older versions too."""
    found: dict[str, dict[str, None]] = {}
    for known in (one for id in IDS for one in versions(id)):
        for guard in known.guards:
            texts = found.setdefault(guard.id, {})
            texts.update((" ".join(message.split()), None) for message in guard.messages)
    return {id: list(texts) for id, texts in found.items() if texts}


def rows() -> list[list[str]]:
    """Return [page, message, ...] of each guard that has a message."""
    return [[f"book/guards/{id}", *texts] for id, texts in messages().items()]


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
