"""Find what each guard listens to: mxlab/data/guard_rows.json, the settings of its explorer.

A guard's example is changed in one setting after the other, over every value that is known; what
changes the verdict or its words becomes a control, what mends it the first ones. Run it as
``python -m tools.guard_rows`` after a change of the guards.
"""

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from book.site.guard_example_known import NEVER
from book.site.guard_examples import examples, trips
from book.site.guard_row_search import QUIET, Heard, ask, heard, smallest
from book.site.guard_row_values import unique
from mxlab.explorers.guard_row_controls import GPU, is_number, start_of
from mxlab.explorers.guard_row_settings import CONFIG, Flat, encoded, flat
from mxlab.guards import Guard, Status, system
from mxlab.guards.data import every_row

FILE = Path(__file__).parents[1] / "mxlab" / "data" / "guard_rows.json"
MOST = 8  # controls
_OPTIONS = 12  # of a choice but the GPU
_FEW = 12  # settings of which two are tried together
_DOWN, _ACROSS = 6, 5  # cells of the grid


def _options(one: Heard) -> list[object]:
    """Return the values of a choice: one for each thing that is said, then others, in order."""
    if one.path == GPU:
        return []
    seen: dict[tuple[Any, ...], object] = {}
    for value, said in one.found:
        seen.setdefault((said.status, said.because.replace(str(value), "")), value)
    first = [one.start, *one.mends[:1], *seen.values()]
    chosen = unique((*first, *(value for value, _ in one.found)))[:_OPTIONS]
    order = list(unique(value for value, _ in one.found))
    kept = [value for value in order if any(value is other for other in chosen)]
    return sorted(kept, key=lambda value: value is not None and value is not False)


def _axis(one: Heard, most: int) -> list[object]:
    """Return values of a control for the grid: its own, what mends, one for each status, others."""
    statuses: dict[Status, object] = {}
    for value, said in one.found:
        statuses.setdefault(said.status, value)
    mends = list(one.mends)
    near = [one.start, *mends[:1]]
    if is_number(one.path):
        assert isinstance(one.start, int)
        now = one.start
        mends.sort(key=lambda value: abs(int(str(value)) - now))
        low = [value for value in mends if int(str(value)) < now][:1]
        high = [value for value in mends if int(str(value)) > now][:1]
        bad = [value for value, said in one.found if said.status is one.base.status]
        bad.sort(key=lambda value: abs(int(str(value)) - now))
        near = [now, *low, *high, *bad[1:3]]
    rest = [value for value, _ in one.found]
    return list(unique((*near, *statuses.values(), *mends[:2], *rest)))[:most]


def row(guard: Guard, version: str) -> dict[str, Any]:
    """Return the settings of a guard's explorer as JSON."""
    trip, fine = trips(guard), examples()[guard.id].get(Status.PASSES)
    example = trip or fine
    assert example is not None, f"{guard.id}: neither trips nor passes"
    good = flat(dict(fine.settings)) if fine and trip else None
    whole = flat(dict(example.settings))
    small = smallest(guard, whole)
    if good is not None and not _mends(guard, small, good, version):
        small = whole if _mends(guard, whole, good, version) else small
    return made(guard, version, small, good)


def _mends(guard: Guard, start: Flat, fine: Flat, version: str) -> bool:
    """Tell whether one setting mends."""
    return any(one.mends for one in heard(guard, start, _beside(start, fine), version)[:1])


def made(guard: Guard, version: str, start: Flat, fine: Flat | None) -> dict[str, Any]:
    """Return the row of a guard for settings that trip it, and settings that pass it."""
    if fine is not None:
        fine = _beside(start, fine)
    listens = heard(guard, start, fine, version)
    base = ask(guard, start)
    assert base is not None
    pair = _two(guard, start, listens)
    if fine is not None and listens and not listens[0].mends:
        together = _pair(guard, start, listens)
        if together is None and (nearer := _walked(guard, start, fine)) != start:
            return made(guard, version, nearer, fine)
        pair = together or pair
    chosen = [*pair, *(one for one in listens if one.path not in [two.path for two in pair])][:MOST]
    axes = _axes(guard, start, pair)
    found: dict[str, Any] = {"system": guard.system}
    if version != system(guard.system).version:
        found["version"] = version
    if guard.id in NEVER:
        found["never"] = NEVER[guard.id]
    found["set"] = {path: encoded(path, value) for path, value in start.items()}
    found["controls"] = [
        [one.path, [] if is_number(one.path) else [encoded(one.path, v) for v in _options(one)]]
        for one in chosen
    ]
    found["grid"] = [
        [encoded(one.path, value) for value in axis] for one, axis in zip(pair, axes, strict=True)
    ]
    return found


def _two(guard: Guard, start: Flat, listens: Sequence[Heard]) -> list[Heard]:
    """Return the first setting, and the one with which it makes the most telling grid.

    Most telling is the one whose values make the most different columns.
    """
    if not listens:
        return []
    first, rest = listens[0], listens[1:_FEW]
    down = _axis(first, _DOWN)
    best, most = None, 1
    for second in rest:
        columns = set()
        for value in _axis(second, _ACROSS):
            said = (ask(guard, {**start, first.path: one, second.path: value}) for one in down)
            columns.add(tuple(one.status if one else None for one in said))
        loud = sum(any(one not in (None, *QUIET) for one in column) for column in columns)
        score = loud + len(columns)
        if len(columns) > 1 and score > most:
            best, most = second, score
    return [first, best] if best else [first]


def _beside(start: Flat, fine: Flat) -> Flat:
    """Return settings that pass, written like those that trip: a config left out keeps its keys."""
    keys = {path: value for path, value in start.items() if path.startswith("config.")}
    if keys and not any(path.startswith("config.") for path in fine):
        return {**keys, **fine, CONFIG: False}
    return fine


def _walked(guard: Guard, start: Flat, fine: Flat) -> Flat:
    """Return settings on the way from those that trip to those that pass, as far as they trip."""
    base, at = ask(guard, start), dict(start)
    assert base is not None
    for path in dict.fromkeys((*start, *fine)):
        step = {**at, path: start_of(path, fine)}
        said = ask(guard, step)
        if said and said.status is base.status:
            at = step
    return at


def _axes(guard: Guard, start: Flat, pair: Sequence[Heard]) -> list[list[object]]:
    """Return the values of the grid; of columns or rows that say the same, a few are enough."""
    axes = [_axis(one, most) for one, most in zip(pair, (_DOWN, _ACROSS), strict=False)]
    if len(axes) < 2:
        return axes
    first, second = pair

    def said(one: object, other: object) -> Status | None:
        found = ask(guard, {**start, first.path: one, second.path: other})
        return found.status if found else None

    axes[1] = _few(axes[1], second.start, lambda v: tuple(said(one, v) for one in axes[0]), 2)
    axes[0] = _few(axes[0], first.start, lambda v: tuple(said(v, one) for one in axes[1]), 3)
    return axes


def _few(
    axis: Sequence[object], start: object, said: Callable[[object], object], most: int
) -> list[object]:
    seen: dict[object, int] = {}
    kept = []
    for value in axis:
        line = said(value)
        seen[line] = seen.get(line, 0) + 1
        if seen[line] <= most or value == start:
            kept.append(value)
    return kept


def _pair(guard: Guard, start: Flat, listens: Sequence[Heard]) -> list[Heard] | None:
    """Return two settings that mend together, where no single one does."""
    few = listens[:_FEW]
    for i, first in enumerate(few):
        for second in few[i + 1 :]:
            for a, b in product(
                _options(first) or _axis(first, 12), _options(second) or _axis(second, 12)
            ):
                said = ask(guard, {**start, first.path: a, second.path: b})
                if said and said.status is Status.PASSES:
                    return [
                        _seen(guard, first, start, second.path, b),
                        _seen(guard, second, start, first.path, a),
                    ]
    return None


def _seen(guard: Guard, one: Heard, start: Flat, other: str, value: object) -> Heard:
    """Return what is heard of a setting when another one is mended already."""
    found = [(v, ask(guard, {**start, other: value, one.path: v})) for v, _ in one.found]
    kept = tuple((v, said) for v, said in found if said)
    return Heard(one.path, one.start, kept, one.base, one.differs)


def rows() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the settings of every guard's explorer."""
    for guard, version in every_row():
        yield guard.id, row(guard, version)


def text(table: Mapping[str, Any]) -> str:
    """Return the file: one guard a line."""
    lines = ",\n".join(
        f'"{id}": {json.dumps(one, ensure_ascii=False, separators=(",", ":"))}'
        for id, one in table.items()
    )
    return f'{{"guards": {{\n{lines}\n}}}}\n'


def main() -> int:
    """Write the file."""
    table = dict(rows())
    FILE.write_text(text(table), encoding="utf-8")
    print(f"{len(table)} guards", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
