"""The chapters that are notebooks, for their tests: cells, prose, and what the cells print."""

import contextlib
import io
import json
import re
from functools import cache
from pathlib import Path
from typing import Any

from mxlab.exercises import exercises

ROOT = Path(__file__).parents[1]


def cells(notebook: str) -> list[dict[str, Any]]:
    path = ROOT / "notebooks" / f"{notebook}.ipynb"
    return list(json.loads(path.read_text(encoding="utf-8"))["cells"])


def prose(notebook: str) -> str:
    return "\n\n".join("".join(c["source"]) for c in cells(notebook) if c["cell_type"] != "code")


@cache
def printed(notebook: str, without: str = "") -> str:
    """What the cells print, run from top to bottom; not those that hold the text ``without``."""
    space: dict[str, Any] = {}
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        for cell in cells(notebook):
            code = "".join(cell["source"])
            if cell["cell_type"] == "code" and not (without and without in code):
                exec(code, space)
    return out.getvalue()


def check_claims(notebook: str, claims: tuple[tuple[str, str], ...], without: str = "") -> None:
    """Each claim is what the prose says and what a cell prints for it."""
    said_in, shown_in = " ".join(prose(notebook).split()), printed(notebook, without)
    for said, shown in claims:
        assert said in said_in
        assert shown in shown_in, f"{said!r} has {shown!r} no more:\n{shown_in}"


def check_parts(notebook: str, chapter: str) -> None:
    """1,500 to 2,500 words, the three boxes, a cited report, exercises with solutions."""
    text = prose(notebook)
    assert 1500 <= len(re.sub(r"```.*?```", "", text, flags=re.S).split()) <= 2500
    assert 3 <= len(exercises(chapter)) <= 5
    assert text.count("> **The failure**") == text.count("> **Takeaway**") == 1
    assert text.index("> **The failure**") < 80
    bites = text.partition("> **Where this bites**")[2]
    assert re.search(r"\([\w.-]+/[\w.-]+ #\d+, 20\d\d-\d\d-\d\d[;)]", " ".join(bites.split()))
    asked = re.findall(r"^\*\*(\d\.\d)\*\*", text, re.M)
    assert asked == list(exercises(chapter))
    assert text.count("<details>") == len(asked)
    for cell in cells(notebook):
        assert not cell.get("outputs")
