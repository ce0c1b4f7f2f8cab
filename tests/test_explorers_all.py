"""What holds for every explorer: colours that the legend names, marks that lie on their sheet."""

import json
import re
import time
from itertools import pairwise
from math import isfinite

import pytest
from explorer_states import states

from mxlab.explorers import EXPLORERS, answer, explorer
from mxlab.explorers.colours import TONES
from mxlab.explorers.panels import Drawing, Facts, Grid, Shape, View
from mxlab.explorers.picture import picture
from mxlab.explorers.protocol import read_state

#: the explorers, and some of the guards' own
NAMES = (*EXPLORERS, "guard:wsp-deepgemm", "guard:kv-page128", "guard:ao-import-dtype")
_LETTER = 6.6  # the width of a digit in a text of 12 units


def views(name: str) -> list[View]:
    """The views of 30 states; a state that is one sentence has none."""
    record = explorer(name)
    made = []
    for text in ["{}", *states(name, 30)]:
        state = record.clean(read_state(text))
        if "view" in record.answer(state):
            made.append(record.view(state))
    assert len(made) > 10
    return made


@pytest.mark.parametrize("name", NAMES)
def test_a_cell_has_a_colour_that_the_legend_names(name: str) -> None:
    for view in views(name):
        for panel in view.panels:
            if isinstance(panel, Grid):
                assert len(panel.hues()) == len(panel.legend)
                assert all(0 <= hue < len(TONES) for hue in panel.hues())
                assert {len(row) for row in panel.cells} <= {len(panel.columns)}
                tones = {tone for row in panel.cells for _, tone, _ in row}
                assert tones <= {-1, *range(len(panel.legend))}, (panel.id, tones)
                for row, column in panel.chosen:
                    assert 0 <= row < len(panel.rows) and 0 <= column < len(panel.columns)
                named = set(re.findall(r"\{(\w*)\}", panel.say))
                assert named <= {"row", "column", "text", "legend"}
            elif isinstance(panel, Facts):
                assert all(-1 <= tone < len(TONES) for tone in panel.tones)


def extent(shape: Shape) -> tuple[float, float]:
    """Where a shape begins and ends along x; a text by the number of its letters."""
    x = shape.at[0]
    match shape.kind:
        case "box":
            return x, x + shape.at[2]
        case "dot":
            return x - shape.at[2], x + shape.at[2]
        case "text":
            wide = _LETTER * len(shape.text)
            left = {"start": x, "middle": x - wide / 2, "end": x - wide}[shape.anchor]
            return left, left + wide
        case _:
            return min(shape.at[::2]), max(shape.at[::2])


@pytest.mark.parametrize("name", NAMES)
def test_what_is_drawn_lies_on_its_sheet_and_no_text_on_another(name: str) -> None:
    for view in views(name):
        for panel in view.panels:
            if not isinstance(panel, Drawing):
                continue
            assert 0 <= panel.centre <= panel.width
            lines: dict[float, set[tuple[float, float, str]]] = {}
            for shape in panel.shapes:
                left, right = extent(shape)
                assert all(isfinite(number) for number in shape.at), shape
                assert left >= -8 and right <= panel.width + 8, (panel.id, shape)
                assert shape.tone < len(TONES)
                if shape.kind == "text":
                    assert 0 <= shape.at[1] <= panel.height, (panel.id, shape)
                    lines.setdefault(shape.at[1], set()).add((left, right, shape.text))
                elif shape.kind == "dot":
                    assert shape.at[2] <= shape.at[1] <= panel.height - shape.at[2], shape
                elif shape.kind in ("line", "area"):
                    assert 0 <= min(shape.at[1::2]) <= max(shape.at[1::2]) <= panel.height, shape
                elif shape.kind == "box":
                    _, y, width, height = shape.at
                    assert min(width, height, y) >= 0 and y + height <= panel.height, shape
            for texts in lines.values():
                for (_, end, one), (start, _, other) in pairwise(sorted(texts)):
                    assert end <= start + 1, (panel.id, one, other, view.answer)


@pytest.mark.parametrize("name", NAMES)
def test_every_view_is_said_in_words_and_drawn(name: str) -> None:
    for view in views(name):
        assert view.answer[-1:] in ".!?" and "\n" not in view.answer, view.answer
        assert view.sign and view.cli.startswith("mxlab ") and "mxlab" in view.python
        assert all(panel.alt and panel.title for panel in view.panels)
        assert len({panel.id for panel in view.panels}) == len(view.panels)
        svg = picture("title", view)
        assert svg.startswith("<svg") and len(svg) < 600_000
        json.dumps(view.to_json(), allow_nan=False)


_HOSTILE = (
    *("<img src=x onerror=alert(1)>", "\x00" * 50, "\ud800", "[" * 5000, "a" * 1_000_000),
    *('{"a":' * 100_000, "9" * 5000, "ValueError: " * 80_000, "\n" * 1_000_000),
    *("divisible by 32, got " + "9" * 100_000, ",".join(["1"] * 300_000)),
    *('{"hidden_size": 1e400}', '{"num_hidden_layers": 99999999999999999999}'),
)


@pytest.mark.parametrize("name", NAMES)
def test_whatever_is_pasted_is_answered_at_once_and_bounded(name: str) -> None:
    record = explorer(name)
    for control in record.controls:
        pasted = {"config": "pasted", "model": "pasted"} if control.name == "config_json" else {}
        for text in _HOSTILE:
            begun = time.process_time()
            found = answer(name, json.dumps({**pasted, control.name: text}))
            assert time.process_time() - begun < 2
            assert "fault in mxlab" not in found
            result = json.loads(found)
            result.pop("state")  # holds the text itself
            assert len(json.dumps(result)) < 200_000, (control.name, text[:30])
