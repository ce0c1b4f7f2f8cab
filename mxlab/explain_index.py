"""The messages of the guard table, cut up so that they can be sought in a log.

A message is literal pieces with fields between them. From each long piece one short *anchor* is
chosen that starts with a letter which is rare in logs; all anchors together are one regular
expression without repetition, which passes over a log in one go and cannot backtrack.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

from mxlab.explain_text import flatten
from mxlab.guards.engine import Guard

_FIELD = re.compile(r"\{([A-Za-z_]\w*)\}")
_ANCHOR = 10  # flat characters
_ANCHORED = 20  # a piece of this length is distinctive enough to be looked for on its own
_SHORT = 24  # a message with fewer literal characters must stand alone in its line
_HEAD = 4  # flat characters that tell how many messages have an anchor's beginning in common
GRAM = 8  # flat characters of the runs that fragments are found by

# Characters of logs and of English, the most frequent first; what is missing is rare.
_FREQUENT = b"e0123456789tniaros.,:lcdpu-hmg/_kbfI()#=TPyvO[]NDEwSRALC"


@dataclass(frozen=True, slots=True)
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

    @property
    def short(self) -> bool:
        """Whether the message is too plain to be believed in the middle of a sentence."""
        return self.literal < _SHORT


def template(guard: Guard, number: int) -> Template:
    """Cut one message of a guard into literal pieces and fields."""
    text = guard.messages[number]
    parts = _FIELD.split(text)
    pieces, words = [flatten(parts[0].encode())], [_word_starts(parts[0])]
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
    return Template(
        guard=guard,
        number=number,
        text=text,
        pieces=tuple(pieces),
        fields=tuple(names),
        quoted=tuple(quoted),
        literal=sum(map(len, pieces)),
        words=tuple(words),
    )


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
        return re.compile(_alternatives(self.anchors) if self.anchors else b"(?!)")

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
    """Return where the anchor of a piece starts: at the characters that logs hold least often.

    The first character costs a stop each time it appears, the next two only behind the first; what
    many messages have in common, as ``MXFP8``, will be common in the logs of such a server too.
    """

    def cost(at: int) -> float:
        behind = sum(_commonness(c) for c in piece[at + 1 : at + 3])
        return _commonness(piece[at]) * behind * spread.get(piece[at : at + _HEAD], 1)

    return min(range(max(1, len(piece) - _ANCHOR + 1)), key=cost)


def _commonness(character: int) -> int:
    rank = _FREQUENT.find(character)
    return 1 if rank < 0 else 1 + len(_FREQUENT) - rank


def _alternatives(words: Iterable[bytes]) -> bytes:
    """Return a pattern for any of the words, written as a prefix tree: one look a character."""
    tree: dict[int, list[bytes]] = defaultdict(list)
    ends = False
    for word in words:
        if word:
            tree[word[0]].append(word[1:])
        else:
            ends = True
    branches = [re.escape(b"%c" % c) + _alternatives(rest) for c, rest in sorted(tree.items())]
    if not branches or ends:
        return b""  # the shortest word suffices to stop here; places() tells which ones fit
    return branches[0] if len(branches) == 1 else b"(?:" + b"|".join(branches) + b")"
