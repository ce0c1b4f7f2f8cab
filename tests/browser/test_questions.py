"""Exercises on the published page: answered, solved, stopped, and deaf to what a link says."""

import json
from collections.abc import Iterator
from urllib.parse import quote

import pytest
from drive import Watched, axe, watch
from notebook_solutions import solutions
from playwright.sync_api import Browser, BrowserContext, Locator, Page, expect

from mxlab.explorers import answer, explorer

pytestmark = pytest.mark.browser

PAGE = "/notebooks/05_where_does_the_scale_live.html"
HEAD = "def offset(row, col, rows, cols):\n    "


@pytest.fixture(scope="module")
def shared(browser: Browser) -> Iterator[BrowserContext]:
    """One profile for all: the first page starts cold, the others from the snapshot."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    yield context
    context.close()


@pytest.fixture
def opened(shared: BrowserContext, site: str) -> Iterator[Watched]:
    watched = watch(shared)
    watched.page.goto(site + PAGE)
    question(watched.page, "5.1").get_by_role("textbox").focus()
    watched.page.locator("#question-5-1[data-live]").wait_for(timeout=20_000)
    yield watched
    watched.page.close()


def question(page: Page, name: str) -> Locator:
    return page.locator(f"#question-{name.replace('.', '-')} .mxlab-face")


def verdict(face: Locator) -> Locator:
    return face.locator("p.answer")


def said(name: str, yours: str, tries: int) -> str:
    """What the kernel answers."""
    view = json.loads(answer(f"question:{name}", json.dumps({"yours": yours, "tries": tries})))
    return f"{view['view']['sign']} {view['view']['answer']}"


def submit(face: Locator, text: str) -> None:
    field = face.get_by_role("textbox")
    field.fill(text)
    field.press("Control+Enter")


def test_wrong_twice_shows_the_hint_and_right_is_accepted_by_keyboard_alone(
    opened: Watched,
) -> None:
    page, face = opened.page, question(opened.page, "5.1")
    before = page.url
    face.get_by_role("textbox", name="Your answer").focus()
    page.keyboard.type("1045")
    page.keyboard.press("Enter")
    expect(verdict(face)).to_have_text(said("5.1", "1045", 0))
    expect(verdict(face)).to_contain_text("That is row-major")
    expect(verdict(face)).not_to_contain_text("Hint")
    page.keyboard.press("Control+A")
    page.keyboard.type("1044")
    page.keyboard.press("Tab")
    expect(face.get_by_role("button", name="Check")).to_be_focused()
    page.keyboard.press("Space")
    expect(verdict(face)).to_have_text(said("5.1", "1044", 1))
    expect(verdict(face)).to_contain_text("Hint: Row 130")
    expect(verdict(face)).not_to_contain_text("1569")
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Control+A")
    page.keyboard.type("3 * 512 + 2 * 16 + 1")
    page.keyboard.press("Enter")
    expect(verdict(face)).to_have_text("\u2713 Right.")
    assert verdict(face).get_attribute("role") == "status"
    page.wait_for_timeout(700)  # an address is changed half a second later
    assert page.url == before, "an answer is in no address"
    assert opened.clean()


def test_a_function_is_written_checked_and_solved(opened: Watched) -> None:
    page, face = opened.page, question(opened.page, "5.2")
    field = face.get_by_role("textbox", name="Your function")
    expect(field).to_have_value("def offset(row, col, rows, cols):\n    ...")
    submit(face, HEAD + "return row * cols + col")
    expect(verdict(face)).to_contain_text("That is row-major, layout linear.")
    expect(verdict(face)).to_contain_text("expected: 512")
    submit(face, HEAD + "return row col")
    expect(verdict(face)).to_contain_text("line 2: invalid syntax")
    submit(face, solutions()["5.2"])
    expect(verdict(face)).to_have_text("\u2713 Right, in all 173 cases.")
    field.press("Tab")
    expect(field).not_to_be_focused()
    face.get_by_role("button", name="Start again").click()
    expect(field).to_have_value("def offset(row, col, rows, cols):\n    ...")
    assert page.url.endswith(PAGE)
    assert opened.clean()


def test_code_without_an_end_is_stopped_and_code_that_breaks_python_too(
    shared: BrowserContext, site: str
) -> None:
    watched = watch(shared)
    page = watched.page
    page.add_init_script(
        """asked = []; const post = Worker.prototype.postMessage;
        Worker.prototype.postMessage = function (m) { asked.push(m.name); post.call(this, m); };"""
    )
    page.goto(site + PAGE)
    face, other = question(page, "5.2"), question(page, "5.1")
    submit(face, HEAD + "while True: pass")  # before Python is there: the first that it runs
    notice = face.locator(".notice")
    expect(notice).to_contain_text("more than 2 seconds", timeout=20_000)
    other.get_by_role("textbox").focus()
    face.get_by_role("textbox").focus()
    submit(other, "1569")
    expect(verdict(other)).to_have_text("\u2713 Right.", timeout=10_000)
    ran = page.evaluate("asked.filter((name) => name === 'question:5.2').length")
    assert ran == 1, "reaching for it ran the loop again"
    submit(face, HEAD + "return type('A', (), {'__repr__': lambda me: repr(me)})()")
    expect(notice).to_contain_text("was started anew")
    submit(face, solutions()["5.2"])
    expect(verdict(face)).to_contain_text("Right")
    expect(notice).to_be_hidden()
    submit(face, HEAD + "raise KeyboardInterrupt")
    expect(notice).to_contain_text("KeyboardInterrupt")
    submit(face, HEAD + "import sys; sys.exit()")
    expect(verdict(face)).to_contain_text("yours raises SystemExit")
    assert watched.outside == []
    page.close()


def test_a_link_runs_nothing(shared: BrowserContext, site: str) -> None:
    """Code in every form of a link; typed by the reader, the same code does run."""
    code = (
        "from js import XMLHttpRequest\nasked = XMLHttpRequest.new()\n"
        "asked.open('GET', '/it-ran', False)\nasked.send()\n" + HEAD + "return 0"
    )
    asked: list[str] = []
    shared.on("request", lambda request: asked.append(request.url))
    watched = watch(shared)
    page = watched.page
    parts = [
        *(f"question-5-2.{name}={quote(code)}" for name in ("yours", "answer", "spec", "default")),
        "question-5-2.tries=7",
        f"question-5-2={quote(code)}",
        f"question%3A5.2.yours={quote(code)}",
        "question-5-1.tries=7",
        "question-5-1.yours=1045",
    ]
    page.goto(f"{site}{PAGE}#{'&'.join(parts)}")
    face = question(page, "5.2")
    start = "def offset(row, col, rows, cols):\n    ..."
    for again in (False, True):
        if again:
            page.evaluate("hash => { location.hash = hash; }", "&".join(parts[::-1]))
        expect(face.get_by_role("textbox")).to_have_value(start)
        page.wait_for_timeout(1000)
        assert page.locator(".mxlab-explorer[data-live]").count() == 0, "a link starts Python"
    face.get_by_role("textbox").focus()
    expect(verdict(face)).to_contain_text("Nothing to check yet")
    expect(question(page, "5.1").get_by_role("textbox")).to_have_value("")
    submit(question(page, "5.1"), "1045")
    expect(verdict(question(page, "5.1"))).to_have_text(said("5.1", "1045", 0))
    page.go_back()
    expect(question(page, "5.1").get_by_role("textbox")).to_have_value("1045")
    assert not any("it-ran" in url for url in asked)
    submit(face, code)
    expect(verdict(face)).to_contain_text("Not yet.")
    assert any("it-ran" in url for url in asked), "the test sees nothing"
    page.close()


def test_axe_finds_nothing_and_a_phone_does_not_scroll_sideways(opened: Watched) -> None:
    page = opened.page
    one, two = question(page, "5.1"), question(page, "5.2")

    def looked_at(when: str) -> None:
        for theme in ("light", "dark"):
            page.evaluate("theme => { document.documentElement.dataset.theme = theme }", theme)
            for mount in ("#question-5-1", "#question-5-2"):
                found = axe(page, mount, rule="color-contrast" if theme == "dark" else "")
                assert found == [], f"{when}, {theme}"
        for width in (360, 1280):
            page.set_viewport_size({"width": width, "height": 900})
            for face in (one, two):
                section = face.locator(".explorer")
                over = "node => node.scrollWidth - node.clientWidth"
                assert section.evaluate(over) <= 1, f"{when}, {width} px"
                box = section.bounding_box()
                assert box is not None and 0 <= box["x"] <= width - box["width"]

    looked_at("before")
    submit(one, "9" * 300)
    expect(verdict(one)).to_contain_text("yours: 999")
    submit(two, HEAD + "return 'x' * 500")
    expect(verdict(two)).to_contain_text("first difference")
    looked_at("wrong")
    submit(one, "1569")
    submit(two, solutions()["5.2"])
    expect(verdict(two)).to_contain_text("Right")
    expect(verdict(one)).to_contain_text("Right")
    looked_at("right")
    assert opened.clean()


def test_without_scripts_the_question_and_the_way_to_answer_it_are_there(
    browser: Browser, site: str
) -> None:
    context = browser.new_context(java_script_enabled=False)
    watched = watch(context)
    watched.page.goto(site + PAGE)
    still = watched.page.locator("#question-5-1 .mxlab-static")
    expect(still).to_contain_text(explorer("question:5.1").question)
    expect(still).to_contain_text("put your answer in a notebook")
    expect(watched.page.locator("details", has_text="That is 1569.")).to_have_count(1)
    assert watched.clean()
    context.close()


def test_puzzles_that_no_page_can_run_say_so(shared: BrowserContext, site: str) -> None:
    watched = watch(shared)
    watched.page.goto(f"{site}/notebooks/puzzles.html")
    first = watched.page.locator("#question-p-1")
    expect(first).to_contain_text("needs torch and Triton")
    expect(first).to_contain_text("make lab")
    assert watched.page.locator(".mxlab-face").count() == 0
    assert watched.clean()
    watched.page.close()
