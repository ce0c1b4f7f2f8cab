"""Text of the package's tables as Markdown."""

import re
from collections.abc import Iterable, Sequence

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|$~^@!])")


def code(text: str) -> str:
    r"""Return text as inline code that shows it letter by letter, in a table too.

    >>> code("a|b"), code("the `x`")
    ('`a\\|b`', '`` the `x` ``')
    """
    text = " ".join(text.split())
    runs = [len(run) for run in re.findall("`+", text)]
    fence = "`" * next(n for n in range(1, len(runs) + 2) if n not in runs)
    pad = " " if runs else ""
    return f"{fence}{pad}{text}{pad}{fence}".replace("|", "\\|")


def plain(text: str) -> str:
    r"""Return text with what Markdown would read as markup escaped.

    >>> plain("2^-133, a_b <x>")
    '2\\^-133, a\\_b \\<x\\>'
    """
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return a table; cells are Markdown already.

    >>> table(["a", "b"], [("1", "2")])
    ['| a | b |', '| --- | --- |', '| 1 | 2 |', '']
    """
    lines = [head, ["---"] * len(head), *rows]
    return [*(f"| {' | '.join(cells)} |" for cells in lines), ""]
