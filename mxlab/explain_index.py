"""The messages of the guard table, cut up so that they can be sought in a log.

A message is literal pieces with fields between them. From each long piece one short *anchor* is
chosen that starts with a letter which is rare in logs; all anchors together are one regular
expression without repetition, which passes over a log in one go and cannot backtrack. It stops to
look only at the rare letters, so that its time hardly grows with the number of messages.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

from mxlab.explain_text import flatten
from mxlab.guards.engine import Guard

_FIELD = re.compile(r"\{([A-Za-z_]\w*)\}")
_ANCHOR = 24  # flat characters
_ANCHORED = 20  # a piece of this length is distinctive enough to be looked for on its own
_SHORT = 24  # a message with fewer literal characters must stand alone in its line
_HEAD = 4  # flat characters that tell how many messages have an anchor's beginning in common
GRAM = 8  # flat characters of the runs that fragments are found by

# Characters by how seldom servers' logs hold them, the rarest first, three a class; digits, the
# frequent letters and the signs that are missing come last of all.
_RARE = b"XQZJYUVKjzGHMxwFCBvSLDqWNRkbf%=m_(y)OIEAPdT"
_CLASS = 3


@dataclass(frozen=True, slots=True, eq=False)
class Template:
    """One message of one guard: ``pieces`` are flat literals, ``fields`` the names between them."""

    guard: Guard
    number: int
    text: str
    pieces: tuple[bytes, ...]
    fields: tuple[str, ...]
    quoted: tuple[bool, ...]  # per field: the message itself puts it in quotes
    literal: int  # flat literal characters in all
    words: tuple[frozenset[int], ...] = field(repr=False)  # per piece: where a word starts
    spaced: tuple[tuple[bool, bool], ...]  # per piece: white space of the message around it
    on_a_line: bool  # the last field has a line for itself

    @property
    def short(self) -> bool:
        """Whether the message is too plain to be believed in the middle of a sentence."""
        return self.literal < _SHORT


def template(guard: Guard, number: int) -> Template:
    """Cut one message of a guard into literal pieces and fields."""
    text = guard.messages[number]
    parts = _FIELD.split(text)
    pieces, words = [flatten(parts[0].encode())], [_word_starts(parts[0])]
    spaced = [_spaced(parts[0])]
    names, quoted = [], []
    for at in range(1, len(parts), 2):
        before, name, literal = parts[at - 1 : at + 2]
        flat = flatten(literal.encode())
        if not flat and at + 2 < len(parts):
            continue  # two fields with a space between: read as one, under the second one's name
        names.append(name)
        quoted.append(before[-1:] == literal[:1] != "" and before[-1:] in "'\"`")
        pieces.append(flat)
        words.append(_word_starts(literal))
        spaced.append(_spaced(literal))
    return Template(
        guard=guard,
        number=number,
        text=text,
        pieces=tuple(pieces),
        fields=tuple(names),
        quoted=tuple(quoted),
        literal=sum(map(len, pieces)),
        words=tuple(words),
        spaced=tuple(spaced),
        on_a_line=len(parts) > 1 and parts[-3].endswith("\n") and not parts[-1],
    )


def _spaced(literal: str) -> tuple[bool, bool]:
    return literal[:1].isspace(), literal[-1:].isspace()


def _word_starts(literal: str) -> frozenset[int]:
    starts, at = set(), 0
    for word in literal.split():
        flat = len(flatten(word.encode()))
        if flat:
            starts.add(at)
        at += flat
    return frozenset(starts)


Place = tuple[Template, int, int]  # a template, one of its pieces, an offset in that piece


@dataclass(frozen=True)
class Index:
    """Every message of a guard table, ready to be sought."""

    templates: tuple[Template, ...]
    anchors: Mapping[bytes, Sequence[Place]]

    @cached_property
    def lengths(self) -> tuple[int, ...]:
        """The lengths that anchors have."""
        return tuple(sorted({len(anchor) for anchor in self.anchors}))

    @cached_property
    def pattern(self) -> re.Pattern[bytes]:
        """A regular expression that stands where any anchor starts."""
        return self.without(())

    def without(self, done: Container[Place]) -> re.Pattern[bytes]:
        """Return the regular expression of the anchors that lead to other places than ``done``.

        An anchor near the end of its piece is short; what stands before it in the piece is then
        looked back at.
        """
        tree: dict[bytes, set[bytes]] = defaultdict(set)
        for anchor, places in self.anchors.items():
            for place in places:
                if place not in done:
                    found, piece, at = place
                    start = max(0, at + len(anchor) - _ANCHOR)
                    tree[anchor].add(found.pieces[piece][start:at])
        words = [(word, word, frozenset(before)) for word, before in tree.items()]
        return re.compile(_alternatives(words) if words else b"(?!)")

    def places(self, flat: bytes, at: int) -> Iterable[Place]:
        """Yield the templates of which a whole piece stands around flat position ``at``."""
        for length in self.lengths:
            for place in self.anchors.get(flat[at : at + length], ()):
                found, piece, offset = place
                if at >= offset and flat.startswith(found.pieces[piece], at - offset):
                    yield place

    @cached_property
    def grams(self) -> Mapping[bytes, Sequence[Place]]:
        """Every run of eight flat characters of every piece: what a pasted fragment is held to."""
        grams: dict[bytes, list[Place]] = defaultdict(list)
        for found in self.templates:
            for number, piece in enumerate(found.pieces):
                for at in range(len(piece) - GRAM + 1):
                    grams[piece[at : at + GRAM]].append((found, number, at))
        return grams


@lru_cache(maxsize=4)
def index(guards: tuple[Guard, ...]) -> Index:
    """Return the index of a guard table. A message without literal text is left out."""
    templates = [
        found
        for guard in guards
        for number in range(len(guard.messages))
        if (found := template(guard, number)).literal >= 4
    ]
    spread = Counter(
        piece[at : at + _HEAD]
        for piece in {piece for found in templates for piece in found.pieces}
        for at in range(len(piece) - _HEAD + 1)
    )
    anchors: dict[bytes, list[Place]] = defaultdict(list)
    for found in templates:
        longest = max(map(len, found.pieces))
        for number, piece in enumerate(found.pieces):
            if len(piece) == longest or len(piece) >= _ANCHORED:
                at = _rarest(piece, spread)
                anchors[piece[at : at + _ANCHOR]].append((found, number, at))
    return Index(tuple(templates), anchors)


def _rarest(piece: bytes, spread: Mapping[bytes, int]) -> int:
    """Return where the anchor of a piece starts: at the character that logs hold least often.

    Each occurrence of it in a log costs a stop. Among equals, what few messages have in common is
    best: ``MXFP8`` will be common in the logs of such a server too.
    """

    def cost(at: int) -> tuple[int, int]:
        rank = _RARE.find(piece[at])
        rank = len(_RARE) if rank < 0 else rank
        return rank // _CLASS, spread.get(piece[at : at + _HEAD], 1)

    return min(range(len(piece)), key=cost)


def _alternatives(words: Iterable[tuple[bytes, bytes, frozenset[bytes]]]) -> bytes:
    """Return a pattern for any of the words, written as a prefix tree: one look a character.

    A word is (what is left of it, the whole of it, what may stand before it).
    """
    tree: dict[int, list[tuple[bytes, bytes, frozenset[bytes]]]] = defaultdict(list)
    branches: list[bytes] = []
    for left, whole, before in words:
        if left:
            tree[left[0]].append((left[1:], whole, before))
        elif b"" in before:
            return b""  # the shortest word suffices to stop here; places() tells which ones fit
        else:
            branches += [b"(?<=" + re.escape(one + whole) + b")" for one in sorted(before)]
    branches += [re.escape(b"%c" % c) + _alternatives(rest) for c, rest in sorted(tree.items())]
    return branches[0] if len(branches) == 1 else b"(?:" + b"|".join(branches) + b")"
