"""What a change of one setting, or of two, makes of a guard's verdict: a grid to choose from."""

from collections.abc import Callable, Mapping, Sequence

from mxlab.explorers import colours
from mxlab.explorers.controls import AnyControl, Int, State
from mxlab.explorers.guard_row_controls import GPU, shown
from mxlab.explorers.panels import Grid
from mxlab.explorers.will_it_run_lines import SIGNS
from mxlab.guards import Status
from mxlab.hardware import GPUS

#: what a cell says, and its tone; None where the settings do not go together
_WORDS: Mapping[Status | None, tuple[str, int]] = {
    Status.STOPS: ("stops", colours.WRONG),
    Status.SILENT: ("silent", colours.SIGN),
    Status.FALLS_BACK: ("falls back", colours.MANTISSA),
    Status.WARNS: ("warns", colours.FLUSHED),
    Status.UNKNOWN: ("not known", colours.REFERENCE),
    Status.PASSES: ("passes", colours.RIGHT),
    Status.NOT_REACHED: ("not asked", colours.REFERENCE),
    None: ("impossible", colours.REFERENCE),
}

_NAMED = 4  # that pass, in words
_CORNER, _HEADING = 14, 22  # characters, so that a phone shows cells beside them

Paths = Mapping[str, tuple[str, Mapping[str, object]]]


def grid(
    controls: Sequence[AnyControl],
    paths: Paths,
    axes: Sequence[Sequence[object]],
    state: State,
    status: Callable[[State], Status | None],
) -> Grid:
    """Return the verdict for every value of one control, or for every pair of values of two.

    ``axes`` holds the values of the first one or two ``controls``; what the state has is added.
    """
    first, *rest = controls[: len(axes)]
    down = _words(first, paths, axes[0], state)
    across: list[int | str] = _words(rest[0], paths, axes[1], state) if rest else [""]
    second = rest[0].name if rest else ""
    found: list[list[Status | None]] = []
    for row in down:
        states = [{**state, first.name: row} for _ in across]
        if rest:
            states = [{**one, second: column} for one, column in zip(states, across, strict=True)]
        found.append([status(one) for one in states])
    used = [word for word in _WORDS if any(word in line for line in found)]
    text = {word: f"{SIGNS[word][0] if word else '–'} {_WORDS[word][0]}" for word in used}
    here = down.index(state[first.name]), across.index(state[second]) if rest else 0
    names = [first.label, *(control.label for control in rest)]
    shown_down = [_shown(first, paths, word) for word in down]
    shown_across = [_shown(rest[0], paths, word) for word in across] if rest else ["verdict"]
    passing = [
        f"{first.label} {shown_down[r]}" + (f" with {names[1]} {shown_across[c]}" if rest else "")
        for r, line in enumerate(found)
        for c, one in enumerate(line)
        if one is Status.PASSES
    ]
    corner = " / ".join(names)
    where = f"Down: {names[0]}, across: {names[1]}. " if rest else ""
    which = f": {'; '.join(passing[:_NAMED])}" if passing else ""
    more = f" and {len(passing) - _NAMED} more" if len(passing) > _NAMED else ""
    return Grid(
        id="changes",
        title=f"What another {' or '.join(names)} does",
        alt=f"{where}{len(passing)} of {len(down) * len(across)} pass{which}{more}.",
        corner=corner if len(corner) <= _CORNER else "↓ / →",
        columns=_cut(shown_across),
        rows=_cut(shown_down),
        cells=tuple(tuple((text[one], used.index(one), -1) for one in line) for line in found),
        legend=tuple(_WORDS[word][0] for word in used),
        tones=tuple(_WORDS[word][1] for word in used),
        say=f"{first.label} "
        + (f"{{row}}, {names[1]} {{column}}" if rest else "{row}")
        + ": {text}",
        drawn=True,
        sets=" ".join([first.name, second]).strip(),
        values=tuple(
            tuple(f"{row} {column}".strip() if rest else row for column in across) for row in down
        ),
        chosen=(here,),
    )


def _words(
    control: AnyControl, paths: Paths, values: Sequence[object], state: State
) -> list[int | str]:
    """Return the values as the state holds them, with the state's own among them."""
    now = state[control.name]
    if isinstance(control, Int):
        numbers = {int(str(value)) for value in values} | {int(now)}
        return sorted(numbers)
    options = paths[control.name][1]
    words: list[int | str] = [word for word, value in options.items() if value in values]
    return words if now in words else [*words, now]


def _shown(control: AnyControl, paths: Paths, word: int | str) -> str:
    """Return what the reader sees of a value."""
    if isinstance(control, Int):
        return str(word)
    path, options = paths[control.name]
    return GPUS[str(word)].label if path == GPU else shown(options[str(word)])


def _cut(names: Sequence[str]) -> tuple[str, ...]:
    """Return headings that leave room for cells, unless two of them would be the same."""
    cut = tuple(n if len(n) <= _HEADING else f"{n[: _HEADING - 3]}..." for n in names)
    return cut if len(set(cut)) == len(cut) else tuple(names)
