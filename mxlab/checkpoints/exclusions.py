"""Which modules a config's exclusion list covers, and which entries cover none."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from mxlab.checkpoints.automaton import Automaton, UnsupportedError, glob
from mxlab.guards.ignore import FUSED

_MAX_ENTRIES = 200_000
_MAX_LENGTH = 1_000
#: letters that expressions may look at in all: about five seconds
_LETTERS = 40_000_000
#: entries that are searched for as a substring once nothing else matched
_SEARCHED = 2_000


@dataclass(slots=True)
class Excluded:
    """``covers`` gives the entry that covers a module; ``idle`` the entries that cover none.

    ``unchecked`` entries are expressions that were not evaluated, with the reason.
    """

    covers: dict[str, str] = field(default_factory=dict)
    idle: list[str] = field(default_factory=list)
    unchecked: list[tuple[str, str]] = field(default_factory=list)


def _spellings(entry: str) -> list[str]:
    """Return an entry as checkpoints may spell it: without model., fused names by member."""
    bare = entry.rstrip(".")
    *outer, leaf = bare.split(".")
    members = [".".join([*outer, member]) for member in FUSED.get(leaf, ())]
    names = [bare, *members]
    return names + [name.removeprefix("model.") for name in names if name.startswith("model.")]


def _by_name(plain: Sequence[str], modules: Collection[str], found: Excluded) -> set[str]:
    """Cover modules by whole dotted components; return the entries that covered something.

    Source: sglang 0.5.23, srt/layers/quantization/utils.py (equal, prefix, components inside).
    """
    table: dict[str, str] = {}
    for entry in plain:
        for name in _spellings(entry):
            table.setdefault(name, entry)
    depths = sorted({name.count(".") + 1 for name in table})
    used = set()
    for module in modules:
        parts = module.split(".")
        for depth in depths:
            for start in range(len(parts) - depth + 1):
                entry = table.get(".".join(parts[start : start + depth]), "")
                if entry:
                    used.add(entry)
                    found.covers.setdefault(module, entry)
    return used


def _automaton(entry: str) -> Automaton:
    return Automaton(entry[3:]) if entry.startswith("re:") else glob(entry)


def _by_expression(entries: Sequence[str], modules: Collection[str], found: Excluded) -> None:
    total = sum(map(len, modules))
    for count, entry in enumerate(entries):
        if count and (count + 1) * total > _LETTERS:
            found.unchecked.append((entry, "too many expressions for so many modules"))
            continue
        used = False
        try:
            automaton = _automaton(entry)
            for module in modules:
                if automaton.matches(module):
                    used = True
                    found.covers.setdefault(module, entry)
        except UnsupportedError as reason:
            found.unchecked.append((entry, f"not evaluated: {reason}"))
            continue
        if not used:
            found.idle.append(entry)


def exclude(entries: Sequence[str], modules: Collection[str]) -> Excluded:
    """Return which modules the entries cover.

    Entries are names (matched on whole dotted components), fragments, globs, or ``re:`` and an
    expression. A fragment that is only part of a component (``proj``) covers nothing here, since
    systems differ on it, but is not called idle.

    >>> exclude(["lm_head", "mlp.gate", "typo"], ["lm_head", "layers.0.mlp.gate"]).idle
    ['typo']
    """
    found = Excluded()
    plain, expressions = [], []
    for entry in dict.fromkeys(entries[:_MAX_ENTRIES]):
        if not entry or len(entry) > _MAX_LENGTH:
            found.unchecked.append((entry[:80], f"{len(entry)} characters"))
        elif entry.startswith("re:") or any(sign in entry for sign in "*?["):
            expressions.append(entry)
        else:
            plain.append(entry)
    used = _by_name(plain, modules, found)
    idle = [entry for entry in plain if entry not in used]
    everything = "\n".join(modules)
    found.idle = [
        entry
        for count, entry in enumerate(idle)
        if count >= _SEARCHED or entry.rstrip(".") not in everything
    ]
    _by_expression(expressions, modules, found)
    return found
