"""An error message or a whole log: which guard it is, which numbers it holds, what to do."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO, TextIO

from mxlab.errors import InputError, quote
from mxlab.explain_index import index
from mxlab.explain_match import Hit
from mxlab.explain_near import fragments, nearest
from mxlab.explain_numbers import because
from mxlab.explain_scan import Scan, Tally
from mxlab.explain_table import every_message, holders
from mxlab.explain_text import JsonValue, typed
from mxlab.guards.engine import STAGES, Guard

if TYPE_CHECKING:
    from mxlab.explain_layers import Fit, Layers
    from mxlab.models import Source

_CHUNK = 1 << 20
_PASTED = 1 << 12  # up to here a text is a paste, and a shorter fragment is believed
_FRAGMENT, _FRAGMENT_OF_LOG = 20, 36  # flat characters
_MOST = 20  # sets of values of one guard that are listed

#: stage -> what has been spent when a check of that stage speaks
COSTS: Mapping[str, str] = {
    "S1": "seconds after launch, before anything is read",
    "S2": "seconds after launch, before any weight is read",
    "S3": "seconds after launch, before any weight is read",
    "S4": "while the layers are built, before any weight is read",
    "S5": "while the checkpoint is read",
    "S6": "after the whole checkpoint is read",
    "S7": "after the whole checkpoint is read and processed",
    "S8": "after the whole checkpoint is loaded and the KV cache is allocated",
    "S9": "after the whole checkpoint is loaded and the KV cache is allocated",
    "C1": "when the library is imported or set up, before anything is computed",
    "C2": "at the call, before a kernel runs; in a server at the warm-up or the first token",
    "C3": "at the call, as its kernel starts; in a server at the warm-up or the first token",
}


def page(guard: Guard) -> str:
    """Return where the published book has the page of a guard, relative to the site."""
    return f"book/guards/{guard.id}.html"


def when(guard: Guard) -> str:
    """Return the stage of a guard in words, with what has been spent by then."""
    if guard.stage not in STAGES:
        return guard.stage
    return f"{guard.stage}, {STAGES[guard.stage]}: {COSTS[guard.stage]}"


@dataclass(frozen=True, slots=True)
class Match:
    """One guard found in a text with one set of values.

    ``complete`` is false where only a part of the message stands there. ``line`` is that of the
    first occurrence, ``ranks`` counts the occurrences of each rank that the log names.
    """

    guard: Guard
    values: Mapping[str, JsonValue]
    because: tuple[str, ...]
    complete: bool
    line: int
    count: int
    ranks: Mapping[str, int]
    text: str
    layers: "tuple[Fit, ...]" = ()  #: of the model asked about, those that have these numbers
    no_layer: str = ""  #: says which numbers none has

    @property
    def versions(self) -> tuple[str, ...]:
        """The versions of the system that have this check, the newest first."""
        return holders(self.guard.id, self.guard.system)

    @property
    def meaning(self) -> str:
        """What the message means, with the numbers of this occurrence."""
        said = f" Here {', '.join(self.because)}." if self.because else ""
        return self.guard.meaning + said

    def to_json(self) -> dict[str, Any]:
        """Return the match as the contract's JSON object."""
        return {
            "guard": self.guard.id,
            "system": self.guard.system,
            "versions": list(self.versions),
            "error": self.guard.error,
            "values": dict(self.values),
            "because": list(self.because),
            "meaning": self.meaning,
            "stage": self.guard.stage,
            "when": when(self.guard),
            "fallback": self.guard.fallback,
            "fixes": list(self.guard.fixes),
            "related": list(self.guard.related),
            "source": self.guard.source,
            "page": page(self.guard),
            "complete": self.complete,
            "line": self.line,
            "count": self.count,
            "ranks": dict(self.ranks),
            "text": self.text,
            "layers": [fit.to_json() for fit in self.layers],
            "no_layer": self.no_layer,
        }


@dataclass(frozen=True, slots=True)
class Candidate:
    """A guard that a text resembles, without holding its message."""

    guard: Guard
    message: str
    score: float  # 0..1, share of rare words in common


@dataclass(frozen=True, slots=True)
class Explanation:
    """What a text holds: matches (what stops first, then in order of appearance), or the nearest.

    ``unread`` is the number of occurrences that are in no match: those of a message beyond its
    first thousand or so, and those of a guard beyond its first twenty sets of values.
    """

    matches: tuple[Match, ...]
    nearest: tuple[Candidate, ...]
    lines: int
    size: int
    unread: int

    def to_json(self) -> dict[str, Any]:
        """Return the explanation as the contract's JSON object."""
        return {
            "matches": [match.to_json() for match in self.matches],
            "nearest": [
                {
                    "guard": one.guard.id,
                    "system": one.guard.system,
                    "message": one.message,
                    "score": round(one.score, 3),
                    "page": page(one.guard),
                }
                for one in self.nearest
            ],
            "lines": self.lines,
            "bytes": self.size,
            "unread": self.unread,
        }


def explain(
    source: str | bytes | BinaryIO | TextIO,
    guards: Sequence[Guard] | None = None,
    *,
    config: "Source | None" = None,
    tp: int | None = None,
    ep: int = 1,
) -> Explanation:
    """Find the guards whose messages stand in an error text or a log.

    Args:
        source: text, bytes, or a stream, which is read in chunks of 1 MiB with constant memory.
        guards: the table to look in; by default every message that mxlab knows, of every version
            of every system.
        config: a model as ``mxlab.shapes`` takes it; the layers that have the numbers of a message
            are then named.
        tp, ep: the sizes of its deployment; without ``tp`` the usual sizes are tried.

    Returns:
        The matches with their values, or, where nothing matches, the nearest candidates.

    Raises:
        InputError: where there is nothing to read, nothing that is text, or no such model.

    >>> found = explain("MXFP8 KV cache requires head_dim divisible by 32, got 80.")
    >>> [(match.guard.id, match.because) for match in found.matches]
    [('kv-hd32', ('head_dim = 80 % 32 = 16',))]
    """
    if not isinstance(source, str | bytes) and not hasattr(source, "read"):
        raise InputError(f"the text is {quote(source)}: expected text, bytes or an open file")
    layers = None
    if config is not None:
        from mxlab.explain_layers import layers_of  # the models, only where one is asked about

        layers = layers_of(config, tp, ep)
    table = index(every_message() if guards is None else tuple(guards))
    scan = Scan(table)
    scan.run(_chunks(source))
    if scan.blank:
        raise InputError("the text is empty: expected an error message or a log")
    tallies = list(scan.tallies.values())
    if not any(_stops(tally.first.template.guard) for tally in tallies):
        least = _FRAGMENT if scan.size <= _PASTED else _FRAGMENT_OF_LOG
        tallies += _fragments(scan, least, {tally.first.template.guard.id for tally in tallies})
    matches, dropped = _matches(tallies, layers)
    candidates: list[Candidate] = []
    if not matches:
        _refuse_binary(scan.tail)
        candidates = [
            Candidate(found.guard, found.text, score)
            for score, found in nearest(table.templates, scan.tail)
        ]
    return Explanation(
        tuple(matches), tuple(candidates), scan.lines, scan.size, scan.unread + dropped
    )


def _chunks(source: str | bytes | BinaryIO | TextIO) -> Iterator[bytes]:
    if isinstance(source, str | bytes):
        whole = source if isinstance(source, bytes) else source.encode("utf-8", "surrogatepass")
        for at in range(0, len(whole), _CHUNK):
            yield whole[at : at + _CHUNK]
        return
    while block := source.read(_CHUNK):
        yield block.encode("utf-8", "surrogatepass") if isinstance(block, str) else bytes(block)


def _fragments(scan: Scan, least: int, known: set[str]) -> list[Tally]:
    tallies: dict[tuple[int, tuple[tuple[str, str], ...]], Tally] = {}
    for hit in fragments(scan.index, scan.tail, scan.tail_line, least):
        if hit.template.guard.id not in known:
            tally = tallies.setdefault((id(hit.template), hit.values), Tally(hit))
            tally.count += 1
            if hit.rank:
                tally.ranks[hit.rank] += 1
    return list(tallies.values())


def _stops(guard: Guard) -> bool:
    return guard.error not in ("", "warning")


def _matches(tallies: Sequence[Tally], layers: "Layers | None") -> tuple[list[Match], int]:
    order = sorted(tallies, key=lambda t: (not _stops(t.first.template.guard), t.first.line))
    listed: dict[str, int] = {}
    matches, dropped = [], 0
    for tally in order:
        guard = tally.first.template.guard
        listed[guard.id] = listed.get(guard.id, 0) + 1
        if listed[guard.id] > _MOST:
            dropped += tally.count
            continue
        matches.append(_match(tally.first, tally, layers))
    return matches, dropped


def _match(hit: Hit, tally: Tally, layers: "Layers | None") -> Match:
    values = {name: typed(value) for name, value in hit.values}
    found = hit.template
    fits = layers.fits(found.guard, found.text, values, tuple(tally.ranks)) if layers else ()
    return Match(
        guard=hit.template.guard,
        values=values,
        because=because(hit.template.text, hit.template.guard.predicate, values),
        complete=hit.complete,
        line=hit.line,
        count=tally.count,
        ranks=dict(sorted(tally.ranks.items(), key=lambda pair: _natural(pair[0]))),
        text=hit.text,
        layers=fits,
        no_layer=layers.missing(found.guard, found.text, values) if layers and not fits else "",
    )


def _natural(rank: str) -> list[tuple[str, int]]:
    return [(letters, int(digits)) for letters, digits in re.findall(r"([A-Za-z ]+)(\d+)", rank)]


def _refuse_binary(tail: bytes) -> None:
    """Raise InputError where bytes are no text: an archive, a core dump, a tensor file."""
    dense = tail.replace(b"\0", b"")  # a log that was cut while it was written holds holes
    wrong = dense.decode("utf-8", "replace").count("\ufffd")
    wrong += sum(dense.count(c) for c in range(1, 32) if c not in b"\t\n\v\f\r\b\x1b")
    if 4 * wrong > len(dense):
        raise InputError("the input is binary: expected an error message or a log as text")
