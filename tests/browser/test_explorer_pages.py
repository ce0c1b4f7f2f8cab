"""Every explorer on a page of its own, in the book's theme: seen, driven, taken away."""

import json
import statistics
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from drive import Watched, axe, watch
from playwright.sync_api import Browser, BrowserContext, FilePayload, Locator, Page, Route, expect

from mxlab.explorers import EXPLORERS, answer, drawn, explorer
from mxlab.explorers.still import still

pytestmark = pytest.mark.browser

Opener = Callable[..., Watched]
STYLES = ("styles/theme.css", "styles/pydata-sphinx-theme.css", "styles/sphinx-book-theme.css")


@pytest.fixture(scope="module")
def shared(browser: Browser) -> Iterator[BrowserContext]:
    """One profile for all: the first page starts cold, the others from the snapshot."""
    context = browser.new_context(
        viewport={"width": 1280, "height": 900}, permissions=["clipboard-read", "clipboard-write"]
    )
    yield context
    context.close()


@pytest.fixture
def opened(shared: BrowserContext, site: str, html: Path) -> Iterator[Opener]:
    """Opens an explorer on a page that holds nothing else."""
    pages: list[Page] = []

    def open_page(name: str, *, live: bool = True, **state: object) -> Watched:
        watched = watch(shared)
        pages.append(watched.page)
        links = "".join(
            f'<link rel="stylesheet" href="../_static/{style}">'
            for style in (*STYLES, "mxlab-page.css")
            if (html / "_static" / style).exists()
        )
        body = (
            f'<!doctype html><html lang="en" data-theme="light"><head><meta charset="utf-8">'
            f'<meta name="viewport" content="width=device-width, initial-scale=1">'
            f'<title>{name}</title>{links}<link rel="icon" href="data:,">'
            '<script defer src="../_static/vendor/mxlab-boot.js"></script></head><body>'
            '<main class="bd-main"><div class="bd-content"><div class="bd-article-container">'
            f'<article class="bd-article"><h1>{name}</h1>'
            f"{still(explorer(name), state, f'{name}-1')}"
            "</article></div></div></main></body></html>"
        )

        def fulfil(route: Route) -> None:
            route.fulfill(body=body, content_type="text/html")

        watched.page.route(f"{site}/explorers/{name}.html", fulfil)
        watched.page.goto(f"{site}/explorers/{name}.html")
        watched.page.locator(".mxlab-face .controls").wait_for()
        if live:
            start(watched.page)
        return watched

    yield open_page
    for page in pages:
        page.close()


def start(page: Page) -> None:
    page.locator(".mxlab-face :is(select, input, textarea)").first.focus()
    page.locator(".mxlab-explorer[data-live]").wait_for(timeout=20_000)


def said(name: str, **state: object) -> str:
    """What the kernel answers to a state."""
    view = json.loads(answer(name, json.dumps(state)))["view"]
    return f"{view['sign']} {view['answer']}"


def line(page: Page) -> Locator:
    return page.locator(".mxlab-face .answer")


def picture_of(page: Page, kind: str) -> bytes:
    with page.expect_download() as download:
        page.get_by_role("button", name=f"Save {kind}").click()
    expect(page.locator(".told")).to_have_text(f"Saved: {download.value.suggested_filename}.")
    return Path(download.value.path()).read_bytes()


#: the grids that scroll sideways where the book's article is as wide as on a screen of 1280 px
WIDER_THAN_THE_BOOK = """() => {
  const mount = document.querySelector(".mxlab-explorer");
  mount.style.width = "688px";
  const grids = [...mount.querySelector(".mxlab-face").shadowRoot.querySelectorAll(".scroll")];
  const found = grids.map((box) => [box.scrollWidth, box.clientWidth, box.parentNode.ariaLabel]);
  mount.style.width = "";
  return found.filter(([whole, seen]) => whole > seen + 1 || !seen);
}"""


#: 16 cells of slot, head and group; 58 px of them
STILL_WIDER = {"kv_page": "The scales of K as they lie in memory: (slot, head, group)"}


@pytest.mark.parametrize("name", list(EXPLORERS))
def test_it_is_right_accessible_narrow_and_can_be_taken_away(opened: Opener, name: str) -> None:
    watched = opened(name, live=False)
    page = watched.page

    def looked_at(when: str) -> None:
        for theme in ("light", "dark"):
            page.evaluate("theme => { document.documentElement.dataset.theme = theme }", theme)
            found = axe(page, rule="color-contrast" if theme == "dark" else "")
            assert found == [], f"{when}, {theme}"
        for width in (640, 360, 1280):  # 640 is 1280 at a zoom of 200 %
            page.set_viewport_size({"width": width, "height": 900})
            over = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
            assert page.evaluate(over) <= 1, f"{when}: {width} px scroll sideways"
            taken = page.evaluate("document.querySelector('.mxlab-explorer').clientWidth")
            assert taken > min(width, 700) - 64, f"{when}: {width} px, and {taken} for the explorer"

    looked_at("still")
    start(page)
    expect(line(page)).to_have_text(said(name))
    looked_at("live")
    wide = [title for _, _, title in page.evaluate(WIDER_THAN_THE_BOOK)]
    assert wide == [*filter(None, [STILL_WIDER.get(name)])]
    page.set_viewport_size({"width": 360, "height": 900})
    assert axe(page, rule="scrollable-region-focusable") == []
    svg = picture_of(page, "SVG")
    assert svg.decode() == drawn(name, "{}"), "the page draws what the kernel draws"
    root = ElementTree.fromstring(svg)
    assert len(list(root.iter())) > 10
    png = picture_of(page, "PNG")
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    size = [int.from_bytes(png[at : at + 4], "big") for at in (16, 20)]
    assert size == [2 * int(root.attrib["width"]), 2 * int(root.attrib["height"])]
    assert watched.clean()


def test_two_of_a_kind_on_one_page_are_told_apart(shared: BrowserContext, site: str) -> None:
    watched = watch(shared)
    page = watched.page
    page.goto(f"{site}/notebooks/01_one_byte.html")
    faces = page.locator(".mxlab-explorer[data-name='one_byte'] .mxlab-face")
    expect(faces).to_have_count(2)
    faces.first.get_by_role("spinbutton", name="Code").focus()
    page.locator(".mxlab-explorer[data-live]").wait_for(timeout=20_000)
    for code, face in zip((0x39, 0x38), faces.all(), strict=True):
        face.get_by_role("combobox", name="Format").focus()  # it wakes when it is reached for
        value = "1.1" if code == 0x39 else "1.0625"
        expect(face.locator(".answer")).to_have_text(said("one_byte", code=code, value=value))
    assert axe(page) == []
    assert watched.clean()
    page.close()


#: sets a control as a reader would and waits for the answer; returns the milliseconds it took
CHANGE = """async ([label, value]) => {
  const root = document.querySelector(".mxlab-face").shadowRoot;
  const node = root.querySelector(`[id$="-${label}"]`) ?? root.querySelector(".boxes input");
  const seen = new Promise((done) => new MutationObserver(done).observe(
    root.querySelector(".panels"), {subtree: true, childList: true, characterData: true,
      attributes: true}));
  const begun = performance.now();
  node.value = value;
  node.dispatchEvent(new Event(node.tagName === "SELECT" ? "change" : "input", {bubbles: true}));
  await Promise.race([seen, new Promise((done) => setTimeout(done, 3000))]);
  await new Promise(requestAnimationFrame);
  return performance.now() - begun;
}"""
_SAID = "MXFP8 KV cache requires head_dim divisible by 32, got {}."
#: control, values: what a reader would turn; each shows something else
TURNED: dict[str, tuple[str, list[object]]] = {
    "one_byte": ("code", [*range(60, 120, 3)]),
    "block_of_32": ("values", [f"{i / 7:.3f}" for i in range(1, 21)]),
    "which_scale": ("amax", [f"{i * 9.7:.1f}" for i in range(1, 21)]),
    "two_axes": ("seed", [*range(11, 31)]),
    "scale_layout": ("rows", [*range(40, 440, 20)]),
    "wrong_layout": ("n", [*range(40, 200, 8)]),
    "will_it_run": ("k", [*range(4096, 4096 + 32 * 20, 32)]),
    "what_error": ("text", [_SAID.format(i) for i in range(33, 53)]),
    "kv_page": ("slot", [*range(1, 21)]),
    "what_cost": ("k", [*range(4096, 4096 + 32 * 20, 32)]),
}


@pytest.mark.parametrize("name", list(TURNED))
def test_how_long_a_change_takes(
    opened: Opener, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Measured and printed; a limit would fail on a busy machine and not on a slow explorer."""
    page = opened(name).page
    control, values = TURNED[name]
    times = [page.evaluate(CHANGE, [control, str(value)]) for value in values]
    with capsys.disabled():
        p95 = statistics.quantiles(times, n=20)[-1]
        print(f" [{name}: median {statistics.median(times):.0f} ms, p95 {p95:.0f} ms]", end="")
    assert len(times) == 20 and max(times) < 3000, "a change that shows nothing"


def test_bits_and_codes_are_set_by_keyboard_and_by_pointer(opened: Opener) -> None:
    watched = opened("one_byte")
    page = watched.page
    bits, codes = page.get_by_role("grid").all()
    bits.locator("td[tabindex='0']").focus()
    page.keyboard.press("Enter")  # bit 7: the sign
    expect(line(page)).to_have_text(said("one_byte", code=0xB9))
    page.keyboard.press("End")
    page.keyboard.press("Space")  # bit 0
    expect(line(page)).to_have_text(said("one_byte", code=0xB8))
    expect(bits.locator("td:focus")).to_have_text("0")
    bits.locator("td").nth(2).click()  # after the corner: bit 6
    expect(line(page)).to_have_text(said("one_byte", code=0xF8))
    codes.locator("td[tabindex='0']").focus()
    for key in ("Control+End", "ArrowLeft", "Enter"):
        page.keyboard.press(key)
    expect(line(page)).to_have_text(said("one_byte", code=0xFE))
    expect(codes.locator("td[aria-selected=true]")).to_have_text(["1.125", "-448"])
    assert page.get_by_role("spinbutton", name="Code").input_value() == "254"
    page.keyboard.press("ArrowUp")  # moves, and sets nothing
    expect(line(page)).to_have_text(said("one_byte", code=0xFE))
    assert watched.clean()


def test_a_drawing_and_a_grid_follow_each_other(opened: Opener) -> None:
    watched = opened("one_byte")
    page = watched.page
    codes = page.get_by_role("grid").nth(1)
    page.locator(".panel.drawing circle[data-key='58']").hover()
    expect(codes.locator("td.linked")).to_have_text("1.25")
    expect(page.locator(".panel.drawing .say")).to_have_text("0x3A is 1.25")
    codes.locator("td[tabindex='0']").focus()
    codes.get_by_role("gridcell", name="1", exact=True).first.focus()  # 0x38
    expect(page.locator(".panel.drawing circle.linked")).to_have_attribute("data-key", "56")
    expect(page.locator(".panel.drawing .say")).to_have_text("0x38 is 1")
    assert watched.clean()


def test_numbers_are_typed_pasted_stepped_dragged_and_opened(
    opened: Opener, tmp_path: Path
) -> None:
    watched = opened("block_of_32")
    page = watched.page
    boxes = page.get_by_role("textbox", name="Value").all()
    assert len(boxes) == 32
    values = [box.input_value() for box in boxes]

    def holds(where: int, *new: str) -> None:
        values[where : where + len(new)] = new
        expect(line(page)).to_have_text(said("block_of_32", values=",".join(values)))

    boxes[0].fill("30000")
    holds(0, "30000")
    boxes[31].focus()
    page.evaluate("text => navigator.clipboard.writeText(text)", "[-448, 0x1.8p3\n7]")
    boxes[3].focus()
    page.keyboard.press("Control+V")
    holds(3, "-448", "0x1.8p3", "7")
    assert [boxes[i].input_value() for i in (3, 4, 5)] == ["-448", "0x1.8p3", "7"]
    boxes[5].focus()
    page.keyboard.press("ArrowUp")
    holds(5, "7.35")
    page.keyboard.press("ArrowDown")
    holds(5, "7")
    place = boxes[5].bounding_box()
    assert place is not None
    page.mouse.move(place["x"] + 20, place["y"] + 10)
    page.mouse.down()
    page.mouse.move(place["x"] + 20, place["y"] - 40, steps=5)
    page.mouse.up()
    dragged = boxes[5].input_value()
    assert 7 * 1.05**44 < float(dragged) < 7 * 1.05**56  # 50 pixels, less the first few
    holds(5, dragged)
    page.mouse.move(place["x"] + 20, place["y"] - 80)  # let go: nothing follows the pointer
    assert boxes[5].input_value() == dragged
    boxes[6].fill("abc")
    holds(6, "0")
    boxes[7].focus()
    expect(boxes[6]).to_have_value("0")
    page.get_by_role("button", name="with NaN").click()
    expect(line(page)).to_contain_text("Byte 255")
    file: FilePayload = {"name": "v.txt", "mimeType": "text/plain", "buffer": b"[449.0,\n 1e-3]"}
    page.locator(".numbers input[type=file]").set_input_files(file)
    values = ["449.0", "1e-3", *["0"] * 30]
    holds(0)
    assert page.url.startswith(watched.page.url.split("#")[0])
    assert watched.clean()


def test_a_worker_that_hangs_is_ended_and_back_with_the_last_view_kept(
    opened: Opener, capsys: pytest.CaptureFixture[str]
) -> None:
    """Code 13 is made to loop for ever where Python would answer."""

    def spin(route: Route) -> None:
        source = route.fetch().text()
        asked = "onmessage = ({ data }) => {"
        assert asked in source
        loop = f"{asked} if (data.state.includes('\"code\":13,')) for (;;);"
        route.fulfill(body=source.replace(asked, loop), content_type="text/javascript")

    watched = opened("one_byte", live=False)
    page = watched.page
    page.route("**/worker.mjs*", spin)
    start(page)
    code = page.get_by_role("spinbutton", name="Code")
    before = said("one_byte", code=0x39)
    expect(line(page)).to_have_text(before)
    times = []
    for _ in range(2):
        code.fill("13")
        begun = page.evaluate("performance.now()")
        page.get_by_text("took more than 2 seconds").wait_for()
        stopped = page.evaluate("performance.now()")
        expect(line(page)).to_have_text(before)
        code.fill("57")
        page.get_by_text("took more than 2 seconds").wait_for(state="hidden")
        times.append((stopped - begun, page.evaluate("performance.now()") - stopped))
    expect(line(page)).to_have_text(before)
    assert all(stop > 1900 for stop, _ in times)
    with capsys.disabled():
        print(f" [stopped, then back, ms: {[tuple(map(round, t)) for t in times]}]", end="")
    assert watched.clean()
