"""Drawings, cells that set a control, blocks of numbers: what the face and the pictures share."""

import math
import re
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mxlab.cli.explore import _value
from mxlab.errors import InputError
from mxlab.explorers.colours import TONES
from mxlab.explorers.controls import Numbers, Text, number
from mxlab.explorers.figures import figure
from mxlab.explorers.panels import MOST_SHAPES, Drawing, Grid, Shape, View
from mxlab.explorers.picture import picture
from mxlab.explorers.widget import STATIC

SHAPES = (
    Shape(kind="box", at=(0, 0, 40, 20), tone=0, key=7, say="a box"),
    Shape(kind="line", at=(0, 50, 100, 50), tone=-2, dashed=True),
    Shape(kind="area", at=(0, 50, 50, 20, 100, 50), tone=4, strong=True),
    Shape(kind="dot", at=(50, 30, 3), tone=2),
    Shape(kind="text", at=(50, 45), text="<b>&$x$", anchor="middle", strong=True),
)
SHEET = Drawing(
    id="d",
    title="A drawing",
    alt="Five marks.",
    width=100,
    height=60,
    shapes=SHAPES,
    legend=((0, "box"),),
)
GRID = Grid(
    id="g", title="A grid", alt="Two cells.", corner="row", columns=("a", "b"), rows=("0",),
    cells=((("x", 7, 7), ("y", -1, 8)),), legend=tuple("abcdefgh"), say="{row} {column} {text}",
    drawn=True, sets="n", values=((3, None),), chosen=((0, 0),),
)  # fmt: skip
VIEW = View(
    status="passes", sign="+", answer="It is drawn.", panels=(SHEET, GRID), cli="", python=""
)


def test_the_style_sheet_has_the_hues_of_the_pictures() -> None:
    css = (STATIC / "face.css").read_text()
    assert re.findall(r"--mx-t\d: (#\w+);", css) == [tone.hue for tone in TONES]
    assert re.findall(r"\.t(\d) \{", css) == [str(i) for i in range(len(TONES))]


def test_a_picture_is_xml_with_every_shape() -> None:
    svg = ElementTree.fromstring(picture("Title", VIEW))
    names = [node.tag.split("}")[1] for node in svg.iter()]
    assert names.count("circle") == 1 and names.count("rect") >= 3
    texts = [node.text for node in svg.iter() if node.tag.endswith("text")]
    assert "<b>&$x$" in texts and "A drawing" in texts and "y" in texts
    fills = {node.get("fill") for node in svg.iter()}
    assert {TONES[0].tint, TONES[4].hue, TONES[2].hue, TONES[7].tint} <= fills


def test_a_figure_has_the_same_marks(tmp_path: Path) -> None:
    made = figure(VIEW)
    drawing, grid = made.axes
    assert [text.get_text() for text in drawing.texts] == ["<b>&$x$"]
    assert len(drawing.patches) == 2 and len(drawing.lines) == 2
    assert [text.get_text() for text in grid.texts] == ["row", "a", "b", "0", "x", "y"]
    made.savefig(tmp_path / "view.svg")
    assert (
        "It is drawn." in (tmp_path / "view.svg").read_text()
        or (tmp_path / "view.svg").stat().st_size > 5000
    )


def test_bounds() -> None:
    with pytest.raises(ValueError, match="more than 3000 shapes"):
        Drawing(id="d", title="", alt="", width=1, height=1, shapes=SHAPES[:1] * (MOST_SHAPES + 1))
    with pytest.raises(ValueError, match="more than 8 tones"):
        replace(GRID, legend=tuple("abcdefghi"))


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("1,2", "1,2,0,0"),
        ("1 2;3\n4 5", "1,2,3,4"),
        ("nan,-Inf,0x1p-3,1e400", "nan,-Inf,0x1p-3,1e400"),
        ("a,1_0,0x,\u0663", "0,0,0,0"),
        ("", "0,0,0,0"),
        (None, "9,9,9,9"),
        ("[1.0, -2]\ntensor([3.])", "1.0,-2,0,3."),
        ([1, 2, 3], "1,2,3,0"),
        ((0.1, math.nan, -math.inf, 4, 5), "0.1,nan,-inf,4"),
        (["2", None, [3], "x"], "2,0,0,0"),
        ([10**5000, True, 10**29, 1e30], f"0,0,{10**29},1e+30"),
        (np.array([0.5, -0.0], np.float32), "0.5,-0.0,0,0"),
        ("1" * 400, "0,0,0,0"),
    ],
)
def test_numbers_are_mended(given: object, wanted: str) -> None:
    control = Numbers(name="v", label="V", default="9,9,9,9", count=4)
    assert control.clean(given) == wanted == control.clean(wanted)
    assert len([number(text) for text in wanted.split(",")]) == 4


def test_a_command_line_is_not_mended() -> None:
    control = Numbers(name="v", label="V", default="0,0", count=2)
    assert _value(control, "1,inf") == "1,inf"
    for bad, said in (("1,x", "x"), ("1,2,3", "3 numbers"), ("", "0 numbers")):
        with pytest.raises(InputError, match=f"v has .*{said}.*: expected 1 to 2 numbers"):
            _value(control, bad)


def test_a_text_says_whether_a_file_may_be_opened() -> None:
    assert Text(name="t", label="T", default="", file="a log").spec()["file"] == "a log"
