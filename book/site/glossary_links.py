"""A chapter's first use of a glossary term leads to the glossary, wherever the text is edited."""

import re
from functools import cache
from pathlib import Path
from typing import Any

from docutils import nodes  # type: ignore[import-untyped]
from sphinx.addnodes import pending_xref

GLOSSARY = Path(__file__).parents[1] / "reference" / "glossary.md"
#: text in these is left as it is
_NOT_IN = (
    nodes.reference,
    nodes.literal,
    nodes.title,
    nodes.math,
    nodes.FixedTextElement,
    nodes.raw,
    pending_xref,
)


@cache
def terms() -> dict[str, str]:
    """Return the glossary's terms: in lower case -> as they are written.

    >>> terms()["kv cache"]
    'KV cache'
    """
    body = GLOSSARY.read_text(encoding="utf-8").partition("```{glossary}")[2]
    return {
        line.lower(): line for line in body.partition("```")[0].splitlines() if line[:1].strip()
    }


@cache
def _pattern() -> re.Pattern[str]:
    """Match the longest term first, alone or in the plural; FLOOR is a rule and a floor is not."""
    longest = sorted(terms().values(), key=len, reverse=True)
    either = "|".join(
        re.escape(term) if term.isupper() else f"(?i:{re.escape(term)})" for term in longest
    )
    return re.compile(rf"(?<![\w/-])({either})s?(?![\w/-])")


def link_first_uses(app: Any, tree: nodes.document) -> None:
    """Turn the first use of each term in the text of a notebook into a link to the glossary."""
    if not app.env.docname.startswith("notebooks/"):
        return
    seen: set[str] = set()
    for text in list(tree.findall(nodes.Text)):
        if _is_prose(text):
            parts = _split(app.env.docname, str(text), seen)
            if len(parts) > 1:
                text.parent.replace(text, parts)


def _is_prose(text: nodes.Text) -> bool:
    node, paragraph = text.parent, False
    while node is not None:
        if isinstance(node, _NOT_IN) or "cell_output" in node.get("classes", ()):
            return False
        paragraph = paragraph or isinstance(node, nodes.paragraph)
        node = node.parent
    return paragraph


def _split(page: str, text: str, seen: set[str]) -> list[nodes.Node]:
    parts: list[nodes.Node] = []
    at = 0
    for found in _pattern().finditer(text):
        term = terms()[found[1].lower()]
        if term in seen:
            continue
        seen.add(term)
        link = pending_xref(
            "",
            nodes.inline("", found[0], classes=["std", "std-term"]),
            refdomain="std",
            reftype="term",
            reftarget=term,
            refdoc=page,
            refexplicit=True,
            refwarn=True,
        )
        parts += [nodes.Text(text[at : found.start()]), link]
        at = found.end()
    return [*parts, nodes.Text(text[at:])]
