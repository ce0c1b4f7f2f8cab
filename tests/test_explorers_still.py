"""The still: well-formed, complete without scripts or attributes, and nothing injected."""

import base64
import json
import re
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest

from mxlab.explorers import EXPLORERS, explorer
from mxlab.explorers.controls import Choice, Int, State, Text
from mxlab.explorers.panels import Facts, Grid, Item, Verdicts, View
from mxlab.explorers.picture import picture
from mxlab.explorers.protocol import Explorer
from mxlab.explorers.still import MOST_CELLS, still

VOID = {"img", "br"}
EVIL = "</p><script>alert(1)</script><img src=x onerror=alert(1)>\"' &amp; \0 \ud800 \x0b ]]>"


class Reader(HTMLParser):
    """Collects tags, text and attributes; fails on tags that do not nest."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.open: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def read(html: str) -> Reader:
    reader = Reader()
    reader.feed(html)
    reader.close()
    assert reader.open == []
    return reader


def svg_of(html: str) -> ElementTree.Element:
    source = re.search(r'src="data:image/svg\+xml;base64,([A-Za-z0-9+/=]+)"', html)
    assert source is not None
    return ElementTree.fromstring(base64.b64decode(source[1]))


def _svg_text(html: str) -> str:
    return ElementTree.tostring(svg_of(html), encoding="unicode")


def evil() -> Explorer:
    """An explorer all of whose texts are hostile."""

    def view(state: State) -> View:
        item = Item(
            status="stops",
            sign=EVIL,
            name=EVIL,
            stage=EVIL,
            because=EVIL,
            message=EVIL,
            notes=(("fix", EVIL),),
            href=EVIL,
        )
        grid = Grid(
            id="g",
            title=EVIL,
            alt=EVIL,
            corner=EVIL,
            columns=(EVIL,),
            rows=(EVIL,),
            cells=(((EVIL, 0, 0),),),
            legend=(EVIL,),
            say=EVIL,
            sample=(0,),
            drawn=True,
        )
        return View(
            status="stops",
            sign=EVIL,
            answer=EVIL,
            cli=EVIL,
            python=EVIL,
            panels=(
                Verdicts(id="v", title=EVIL, alt=EVIL, items=(item,)),
                Facts(id="f", title=EVIL, alt=EVIL, rows=((EVIL, EVIL, EVIL),)),
                grid,
            ),
        )

    controls = (
        Text(name="t", label=EVIL, default=EVIL),
        Choice(name="c", label=EVIL, default=EVIL, options=((EVIL, EVIL),)),
        Int(name="i", label=EVIL, default=1, low=0, high=2),
    )
    return Explorer(name=EVIL, title=EVIL, question=EVIL, controls=controls, view=view)


def test_hostile_text_stays_text() -> None:
    html = still(evil(), {"t": EVIL}, EVIL)
    reader = read(html)
    assert set(reader.tags) <= {
        *("div", "p", "strong", "img", "br", "ul", "li", "code", "table", "thead", "tbody"),
        *("tr", "th", "td"),
    }
    assert reader.tags.count("img") == 1
    assert not [name for name, _ in reader.attributes if name.startswith("on")]
    assert "<script>alert(1)</script>" in reader.text
    html.encode()  # no lone surrogate is left
    names = {element.tag.rpartition("}")[2] for element in svg_of(html).iter()}
    assert names <= {"svg", "rect", "text", "circle", "path", "g"}


def test_the_picture_scrolls_in_a_box_that_the_keyboard_reaches() -> None:
    html = still(explorer("two_axes"), {}, "here")
    box = re.search(r'<div class="mxlab-wide" ([^>]*)>\n<img [^>]*style="([^"]*)">\n</div>', html)
    assert box is not None
    assert 'tabindex="0"' in box[1] and 'role="group"' in box[1]
    assert 'aria-label="Two axes, two answers"' in box[1] and "overflow-x: auto" in box[1]
    smallest = min(float(size) for size in re.findall(r'font-size="(\d+)"', _svg_text(html)))
    width = re.search(r"min-width: (\d+)px", box[2])
    assert width is not None and smallest * int(width[1]) / 760 >= 8


@pytest.mark.parametrize("name", list(EXPLORERS))
def test_the_still_says_everything_without_scripts(name: str) -> None:
    record = explorer(name)
    view = record.view(record.defaults())
    html = still(record, {}, "here-1")
    reader = read(html)
    assert reader.tags.count("table") >= 1
    alt = dict(reader.attributes)["alt"]
    assert alt is not None and view.answer in alt
    for panel in view.panels:
        if isinstance(panel, Verdicts):
            for item in panel.items:
                assert item.name in reader.text
                assert item.quiet or item.because in reader.text
        elif isinstance(panel, Facts):
            assert all(text in reader.text for row in panel.rows for text in row)
    cells = [
        len(re.findall("<td>", table)) for table in re.findall(r"<tbody>.*?</tbody>", html, re.S)
    ]
    assert max(cells) <= MOST_CELLS
    assert len(html) < 120_000


def test_the_mount_point_carries_what_the_page_needs() -> None:
    record = explorer("will_it_run")
    attributes = dict(read(still(record, {"gpu": "h200", "n": -5}, "here-1")).attributes)
    assert attributes["id"] == "here-1" and attributes["data-name"] == "will_it_run"
    assert json.loads(attributes["data-spec"] or "") == record.spec()
    state = json.loads(attributes["data-state"] or "")
    assert state == record.clean({"gpu": "h200", "n": 1})


def test_tags_stand_on_their_own_lines_for_the_search_index() -> None:
    html = still(explorer("will_it_run"), {}, "m")
    words = re.sub(r"<[^>]+>", "", html)
    for glued in ("guardsS1", "passeskv", "TPN", "held by"):
        assert glued not in words
    assert not re.search(r"</(p|li|tr|td|th|ul|table|div)><", html)


def test_the_picture_holds_the_answer_a_sign_for_each_guard_and_the_tile() -> None:
    record = explorer("will_it_run")
    view = record.view(record.defaults())
    root = ElementTree.fromstring(picture(record.title, view))
    texts = [element.text or "" for element in root.iter() if element.tag.endswith("text")]
    assert " ".join(view.answer.split()[:5]) in " ".join(texts)
    guards = next(panel for panel in view.panels if isinstance(panel, Verdicts))
    asked = [item for item in guards.items if item.status != "not-reached"]
    circles = [element for element in root.iter() if element.tag.endswith("circle")]
    assert len(circles) == len(asked) > 20
    grid = next(panel for panel in view.panels if isinstance(panel, Grid) and panel.drawn)
    for row in grid.cells:
        assert {text for text, _, _ in row} <= set(texts)
    width = float(root.attrib["width"])
    assert all(0 <= float(element.attrib["cx"]) <= width for element in circles)


def test_the_picture_and_the_still_are_the_same_each_time() -> None:
    record = explorer("will_it_run")
    assert still(record, {}, "m") == still(record, {}, "m")
