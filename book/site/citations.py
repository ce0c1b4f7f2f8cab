"""Cited reports become links: "pytorch/ao #3114" leads to that issue or pull request.

The address is made from the words at build, so that the two cannot differ. The host leads an
issue's address to the pull request of the same number.
"""

import re
from typing import Any

from docutils import nodes  # type: ignore[import-untyped]

#: owner/repository #number, as the book and the guards' sources cite
CITED = re.compile(r"(?<![\w./-])([A-Za-z\d][\w-]{0,38}/[A-Za-z][\w.-]{0,99}) #(\d{1,6})(?!\w)")
_NOT_IN = (nodes.literal, nodes.literal_block, nodes.reference, nodes.title, nodes.raw)


def address(cited: re.Match[str]) -> str:
    """Return where a cited report is.

    >>> address(CITED.search("(pytorch/ao #3114, 2025-10)"))
    'https://github.com/pytorch/ao/issues/3114'
    """
    return f"https://github.com/{cited[1]}/issues/{cited[2]}"


def link(_app: Any, tree: nodes.document) -> None:
    """Turn each citation in the text of a page into a link, and leave code and headings alone."""
    for text in list(tree.findall(nodes.Text)):
        if not _inside(text):
            parts = _split(str(text))
            if len(parts) > 1:
                text.parent.replace(text, parts)


def _inside(node: Any) -> bool:
    while node.parent is not None:
        node = node.parent
        if isinstance(node, _NOT_IN) or "cell_output" in node.get("classes", ()):
            return True
    return False


def _split(text: str) -> list[nodes.Node]:
    parts: list[nodes.Node] = []
    at = 0
    for found in CITED.finditer(text):
        uri = address(found)
        reference = nodes.reference("", found[0], refuri=uri, internal=False, classes=["cited"])
        parts += [nodes.Text(text[at : found.start()]), reference]
        at = found.end()
    return [*parts, nodes.Text(text[at:])]
