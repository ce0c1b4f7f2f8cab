"""Texts of the guard table as MyST Markdown: inline code, prose, headings."""

import re

from book.site.guard_examples import trips
from mxlab.cli import VERBS
from mxlab.guards import values
from mxlab.guards.data import every_row
from mxlab.guards.engine import Guard

# A flag's value: a number, a name with an underscore, or one that a launch flag takes.
_NAMES = {
    name
    for names in (
        *(values.QUANTIZATION, values.FP8_GEMM_BACKEND, values.MOE_RUNNER_BACKEND, values.DTYPE),
        *(values.MOE_A2A_BACKEND, values.A2A_DISPATCH, values.KV_CACHE_DTYPE),
        *(values.ATTENTION_BACKEND, ("kernel", "marlin", "torch")),
    )
    for name in names
    if "_" not in name
}
_VALUE = rf"(?:\d+|[a-z0-9]+(?:_[a-z0-9]+)+|{'|'.join(sorted(_NAMES, key=len, reverse=True))})"
# What reads as code in a sentence: commands, flags, shapes, names with underscores, comparisons.
_CODE = re.compile(
    rf"mxlab (?:{'|'.join(VERBS)})(?: [A-Z]+)*(?: --[a-z][a-z0-9-]*(?:[= ]{_VALUE})?)*(?!\w)"
    rf"|--[a-z][a-z0-9-]*(?:[= ]{_VALUE}(?![\w-]))?"
    r"|\b[A-Za-z]\w* (?:[<>]=?|%) \d+(?: [!=]= \d+)?"
    r"|[A-Za-z0-9_./-]+\.(?:py|cu|cuh|cpp|json)(?::[0-9,-]+)?"
    r"|[A-Za-z][A-Za-z0-9.]*_[A-Za-z0-9_.]*\([^()]{0,80}\)"
    r"|[A-Za-z][A-Za-z0-9.]*_[A-Za-z0-9_.]*[A-Za-z0-9_](?:=[\w-]+)?"
    r"|\[[0-9 ,]+\]"
)
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|$~&^@!])")


def code(text: str) -> str:
    r"""Return text as inline code that shows it letter by letter.

    >>> code("the `x` (y)")
    '`` the `x` (y) ``'
    """
    text = " ".join(text.split())
    runs = [len(run) for run in re.findall("`+", text)]
    fence = "`" * next(n for n in range(1, len(runs) + 2) if n not in runs)
    pad = " " if runs else ""
    return f"{fence}{pad}{text}{pad}{fence}"


def prose(text: str) -> str:
    r"""Return a sentence of the table as Markdown: its code as code, the rest escaped.

    >>> prose("set --page-size to 128, not a_b or <x>")
    'set `--page-size` to 128, not `a_b` or \\<x\\>'
    >>> prose("--page-size 128 and --tp-size that divides it")
    '`--page-size 128` and `--tp-size` that divides it'
    """
    spans: list[tuple[int, int]] = []
    for found in _CODE.finditer(text):
        start, end = found.span()
        if spans and spans[-1][1] == start:  # ``name[0]`` is one piece of code, not two
            start = spans.pop()[0]
        spans.append((start, end))
    parts, at = [], 0
    for start, end in spans:
        parts += [_SPECIAL.sub(r"\\\1", text[at:start]), code(text[start:end])]
        at = end
    return "".join([*parts, _SPECIAL.sub(r"\\\1", text[at:])])


_ID = re.compile(r"(?<![\w-])[a-z0-9]+(?:-[a-z0-9]+)+(?![\w-])")


def linked(text: str, own: Guard) -> str:
    """Return prose in which the ids of other guards are links to their pages."""
    known = {row.id for row, _ in every_row()} - {own.id}
    parts, at = [], 0
    for found in _ID.finditer(text):
        if found[0] in known:
            parts += [prose(text[at : found.start()]), f"[`{found[0]}`]({found[0]}.md)"]
            at = found.end()
    return "".join([*parts, prose(text[at:])])


def sentence(text: str) -> str:
    """Return text as a sentence; a name or a flag at its start stays as it is."""
    capital = re.match(r"[a-z]+(?=[ ,])", text) is not None
    return (text[:1].upper() if capital else text[:1]) + text[1:] + "." * (not text.endswith("."))


def heading(guard: Guard) -> str:
    """Return the message of a guard with the numbers of its example; "" where it has none."""
    if not guard.messages:
        return ""
    example = trips(guard)
    said = example.message(guard) if example else ""
    return " ".join((said or guard.messages[0]).split())


def title(guard: Guard) -> str:
    """Return the Markdown of a page's heading."""
    text = heading(guard)
    return code(text) if text else f"No message: {prose(guard.predicate)}"


def yaml(text: str) -> str:
    """Return text as a quoted YAML scalar of at most 300 characters."""
    return '"' + " ".join(text.split()).replace("\\", "\\\\").replace('"', '\\"')[:300] + '"'
