"""What to say when no message stands in a text whole: fragments of messages, and the nearest ones.

A fragment is a run of whole words of a message, as people paste it. The nearest messages are those
that share the rarest words with a line of the text.
"""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable

from mxlab.explain_index import GRAM, Index, Template
from mxlab.explain_match import WORDS, Hit, Window, strongest
from mxlab.explain_text import View, strip_noise

_SHARED = 3  # guards that may share a fragment; what more of them say tells nothing
_TRIES = 500
_LINES, _LINE = 400, 400  # lines, and characters of a line, that are held to the messages
_LEAST = 0.25  # share of a message's weight that a candidate has in common with a line
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_]{1,60}")


def fragments(index: Index, raw: bytes, line: int, least: int) -> list[Hit]:
    """Return the messages of which at least ``least`` characters in one run stand in the text."""
    window = Window(strip_noise(raw), 0, line)
    view = View.of(window.raw)
    covered: dict[tuple[int, int, int], int] = {}
    hits: list[Hit] = []
    tries = 0
    for at in range(len(view.flat) - GRAM + 1):
        for found, piece, offset in index.grams.get(view.flat[at : at + GRAM], ()):
            way = (id(found), piece, at - offset)
            if covered.get(way, 0) > at:
                continue
            length = _same(found.pieces[piece], offset, view.flat, at)
            covered[way] = at + length
            words = sum(offset <= word < offset + length for word in found.words[piece])
            if length >= least and words >= WORDS and tries < _TRIES:
                tries += 1
                hit = window.hit(view, found, piece, at, at + length, least)
                if hit:
                    hits.append(hit)
    best = strongest(hits)
    sharing: dict[tuple[int, int], set[str]] = defaultdict(set)
    for hit in best:
        sharing[hit.start, hit.end].add(hit.template.guard.id)
    return [hit for hit in best if len(sharing[hit.start, hit.end]) <= _SHARED]


def _same(piece: bytes, offset: int, flat: bytes, at: int) -> int:
    length, most = GRAM, min(len(piece) - offset, len(flat) - at)
    while length < most and piece[offset + length] == flat[at + length]:
        length += 1
    return length


def nearest(
    templates: Iterable[Template], raw: bytes, most: int = 3
) -> list[tuple[float, Template]]:
    """Return the messages that have most in common with a line of the text, the best first.

    The score is the share of the words, weighed by how rare they are among the messages, that the
    message and the line have in common: 1 where both consist of the same words.
    """
    table = list(templates)
    words = [frozenset(_words(found.text)) for found in table]
    spread = Counter(word for one in words for word in one)
    weight = {word: math.log(1 + len(table) / n) for word, n in spread.items()}
    unknown = math.log(1 + len(table))
    holders: dict[str, list[int]] = defaultdict(list)
    for number, one in enumerate(words):
        for word in one:
            holders[word].append(number)
    totals = [sum(weight[word] for word in one) for one in words]
    best: dict[str, tuple[float, Template]] = {}
    for line in strip_noise(raw).decode("utf-8", "replace").splitlines()[-_LINES:]:
        said = set(_words(line[:_LINE]))
        shares: dict[int, float] = defaultdict(float)
        for word in said:
            for number in holders.get(word, ()):
                shares[number] += weight[word]
        size = sum(weight.get(word, unknown / 2) for word in said)
        for number, share in shares.items():
            score = 2 * share / (totals[number] + size)
            found = table[number]
            if score >= max(_LEAST, best.get(found.guard.id, (0.0,))[0] + 1e-9):
                best[found.guard.id] = (score, found)
    return sorted(best.values(), key=lambda pair: (-pair[0], pair[1].guard.id))[:most]


def _words(text: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(text)]
