"""The published page in a real browser that cannot leave this machine."""

import base64
import json
import re
import time
from pathlib import Path

import pytest
from drive import Watched, axe, watch
from playwright.sync_api import Browser, BrowserContext, Page, Route, expect

from mxlab.explorers import answer

pytestmark = pytest.mark.browser

PAGE = "/book/index.html"


def wait_until_live(page: Page) -> None:
    page.locator(".mxlab-explorer[data-live]").first.wait_for(timeout=20_000)


def wake(page: Page) -> None:
    """Reach for the explorer as a keyboard user would."""
    page.locator(".mxlab-explorer select").first.focus()
    wait_until_live(page)


def number(page: Page, label: str) -> None:
    """Wait until the number box is there (roles pierce the shadow root)."""
    page.get_by_role("spinbutton", name=label, exact=True).first.wait_for()


@pytest.fixture
def page(context: BrowserContext, site: str) -> Watched:
    watched = watch(context)
    watched.page.goto(site + PAGE)
    number(watched.page, "K")
    return watched


def test_a_key_press_is_answered_within_ten_seconds_of_opening(
    context: BrowserContext, site: str
) -> None:
    watched = watch(context)
    page = watched.page
    start = time.monotonic()
    page.goto(site + PAGE)
    slider = page.get_by_role("slider", name="TP").first
    slider.focus()
    page.keyboard.press("ArrowRight")
    expect(page.get_by_text("5,120 / TP 2").first).to_be_visible(timeout=10_000)
    assert time.monotonic() - start < 10
    assert page.get_by_role("spinbutton", name="TP", exact=True).first.input_value() == "2"
    assert slider.evaluate("node => node.matches(':focus')"), "the focus stays"
    expect(page.locator(".mxlab-static").first).to_be_hidden()
    assert watched.clean()


def test_nothing_is_loaded_before_the_reader_reaches_for_it(page: Watched) -> None:
    def loaded() -> list[str]:
        entries = "() => performance.getEntriesByType('resource').map(e => e.name)"
        return list(page.page.evaluate(entries))

    assert not any("pyodide" in name or "worker" in name for name in loaded())
    assert any("face.mjs" in name for name in loaded())
    expect(page.page.locator(".mxlab-static").first).to_be_visible()
    assert page.clean()


def test_the_site_can_be_published_from_any_folder(html: Path) -> None:
    assert (html / ".nojekyll").exists()
    text = (html / "book" / "index.html").read_text()
    assert not re.findall(r"""(?:src|href)=["']/[^"']*""", text), "an absolute path"
    wanted = re.findall(r"""<(?:script|link|img)[^>]*(?:src|href)=["'](https?:[^"']*)""", text)
    assert wanted == []


def test_the_page_and_the_kernel_answer_alike(page: Watched) -> None:
    wake(page.page)
    page.page.get_by_role("combobox", name="GPU").first.select_option("h200")
    page.page.get_by_role("spinbutton", name="N", exact=True).first.fill("8640")
    state = json.dumps({"gpu": "h200", "n": 8640})
    expected = json.loads(answer("will_it_run", state))["view"]
    line = page.page.locator(".answer").first
    expect(line).to_have_text(f"{expected['sign']} {expected['answer']}")
    names = page.page.locator(".item .name").all_text_contents()
    guards = next(panel for panel in expected["panels"] if panel["id"] == "guards")
    assert names == [item["name"] for run in guards["runs"] for item in run["items"]]
    assert len(names) > 5
    assert page.clean()


def test_grids_work_with_the_keyboard_and_follow_each_other(page: Watched) -> None:
    wake(page.page)
    logical, physical = page.page.get_by_role("grid").all()[:2]
    logical.locator("td[tabindex='0']").focus()
    for key in ("ArrowDown", "ArrowRight", "End", "Home", "PageDown", "ArrowRight"):
        page.page.keyboard.press(key)
    focused = page.page.locator("td:focus")
    expect(focused).to_have_text("145")  # row 9, column 1: 9 * 16 + 1
    expect(physical.locator("td.linked")).to_have_text("9,1")
    expect(logical.locator("xpath=ancestor::section[1]").locator(".say")).to_have_text(
        "Row 9, scale column 1: byte 145"
    )
    assert logical.locator("td[tabindex='0']").count() == 1, "one tab stop a grid"
    page.page.keyboard.press("Control+End")
    expect(page.page.locator("td:focus")).to_have_text("511")
    page.page.keyboard.press("ArrowDown")
    expect(page.page.locator("td:focus")).to_have_text("511")
    assert page.clean()


def test_a_permalink_restores_the_state_and_back_undoes(
    page: Watched, browser: Browser, site: str
) -> None:
    wake(page.page)
    page.page.get_by_role("combobox", name="GPU").first.select_option("h200")
    page.page.get_by_role("spinbutton", name="K", exact=True).first.fill("7392")
    page.page.wait_for_url(re.compile(r"#.*k=7392"))
    url = page.page.url
    assert "gpu=h200" in url and "n=" not in url.split("#")[1].replace("run", ""), url
    shown = page.page.locator(".answer").first.text_content()
    page.page.go_back()
    expect(page.page.get_by_role("spinbutton", name="K", exact=True).first).not_to_have_value(
        "7392"
    )

    fresh = browser.new_context()
    other = watch(fresh)
    other.page.goto(url)
    wait_until_live(other.page)
    expect(other.page.get_by_role("spinbutton", name="K", exact=True).first).to_have_value("7392")
    expect(other.page.locator(".answer").first).to_have_text(str(shown))
    assert other.clean()
    fresh.close()


def test_a_second_page_starts_from_the_snapshot(context: BrowserContext, site: str) -> None:
    starts = []
    for _ in range(2):
        watched = watch(context)
        watched.page.goto(site + PAGE)
        number(watched.page, "K")
        wake(watched.page)
        starts.append(watched.page.locator("[data-live]").first.get_attribute("data-live"))
        kept = """async () => { const cache = await caches.open("mxlab-snapshots");
          while (!(await cache.keys()).length) await new Promise(r => setTimeout(r, 50));
          return (await cache.keys()).length; }"""
        assert watched.page.evaluate(kept) == 1
        assert watched.clean()
    assert starts == ["cold", "warm"]


@pytest.mark.parametrize(
    "hostile",
    [
        "n=999999999999999999999&gpu=%3Cimg%20src=x%20onerror=alert(1)%3E&tp=-7&k=1e400",
        "n=NaN&k=&page_size=%00&split=%ED%A0%80&tile=99999999999",
    ],
)
def test_a_hostile_permalink_is_cleaned(context: BrowserContext, site: str, hostile: str) -> None:
    watched = watch(context)
    watched.page.on("dialog", lambda _: watched.errors.append("a dialog"))
    parts = "&".join(f"will_it_run-1.{part}" for part in hostile.split("&"))
    watched.page.goto(f"{site}{PAGE}#{parts}")
    wait_until_live(watched.page)
    gpu = watched.page.get_by_role("combobox", name="GPU").first
    expect(gpu).to_have_value("b200")
    n = watched.page.get_by_role("spinbutton", name="N", exact=True).first
    assert 1 <= int(n.input_value()) <= 1_048_576
    assert watched.clean()


def test_a_still_of_other_settings_is_faint_until_the_answer(
    context: BrowserContext, site: str
) -> None:
    page = watch(context).page
    still = page.locator(".mxlab-static").first
    page.goto(site + PAGE)
    number(page, "K")
    assert "mxlab-stale" not in str(still.get_attribute("class"))
    page.goto("about:blank")
    page.goto(f"{site}{PAGE}#will_it_run-1.n=8640")
    expect(still).to_have_class(re.compile("mxlab-stale"))
    wait_until_live(page)
    expect(still).to_be_hidden()


def test_a_guard_leads_to_its_page_where_it_is_live_too(page: Watched) -> None:
    wake(page.page)
    page.page.get_by_role("link", name="wsp-deepgemm", exact=True).click()
    page.page.wait_for_url("**/book/guards/wsp-deepgemm.html")
    expect(page.page.locator("article h1")).to_contain_text("N % 64 == 0 and K % 128 == 0")
    wake(page.page)
    item = page.page.locator(".item").filter(has=page.page.get_by_text("wsp-deepgemm", exact=True))
    expect(item.first).not_to_have_class("s-passes")
    assert page.clean()


def test_axe_finds_nothing_in_either_theme_before_and_after_the_start(page: Watched) -> None:
    def themes() -> list[str]:
        found = []
        for theme in ("light", "dark"):
            page.page.evaluate("theme => { document.documentElement.dataset.theme = theme }", theme)
            found += [f"{theme}: {violation}" for violation in axe(page.page)]
        return found

    assert themes() == []
    wake(page.page)
    page.page.locator(".more").first.click()
    assert themes() == []


def test_without_scripts_there_are_picture_verdicts_and_table(browser: Browser, site: str) -> None:
    context = browser.new_context(java_script_enabled=False)
    watched = watch(context)
    watched.page.goto(site + PAGE)
    picture = watched.page.locator(".mxlab-static img").first
    expect(picture).to_be_visible()
    alt = picture.get_attribute("alt") or ""
    view = json.loads(answer("will_it_run", "{}"))["view"]
    assert view["answer"] in alt
    source = picture.get_attribute("src") or ""
    svg = base64.b64decode(source.removeprefix("data:image/svg+xml;base64,")).decode()
    assert svg.startswith("<svg") and "130" not in svg.split("</text>")[0]
    assert (picture.bounding_box() or {"height": 0})["height"] > 200
    expect(watched.page.locator(".mxlab-static ul > li").first).to_be_visible()
    expect(watched.page.locator(".mxlab-static table").first).to_be_visible()
    expect(watched.page.locator(".mxlab-static").first).to_contain_text(view["answer"])
    assert watched.clean()
    context.close()


@pytest.mark.parametrize("what", ["pyodide.asm.wasm", "mxlab.zip", "worker.mjs", "face.mjs"])
def test_a_missing_file_leaves_a_sentence_and_the_picture(
    context: BrowserContext, site: str, what: str
) -> None:
    watched = watch(context)
    page = watched.page

    def refuse(route: Route) -> None:
        route.abort()

    page.route(f"**/{what}*", refuse)
    page.goto(site + PAGE)
    if what != "face.mjs":
        number(page, "K")
        page.get_by_role("slider", name="TP").first.focus()
        page.keyboard.press("ArrowRight")
    line = page.get_by_text(re.compile("Python could not start here|could not be loaded")).first
    expect(line).to_be_visible(timeout=15_000)
    expect(page.locator(".mxlab-static img").first).to_be_visible()
    assert watched.outside == []


def test_a_view_that_takes_too_long_is_stopped_and_the_next_is_answered(page: Watched) -> None:
    wake(page.page)
    page.page.evaluate(
        """() => { const post = Worker.prototype.postMessage;
          Worker.prototype.postMessage = function (m) {
            Worker.prototype.postMessage = post;
            post.call(this, {...m, name: "will_it_run", state: "x".repeat(10), id: -1});
          }; }"""
    )
    page.page.get_by_role("slider", name="TP").first.focus()
    page.page.keyboard.press("ArrowRight")
    stopped = page.page.get_by_text("took more than 2 seconds").first
    expect(stopped).to_be_visible(timeout=6000)
    page.page.wait_for_timeout(3000)  # the worker is back by then, and the reader still reads why
    expect(stopped).to_be_visible()
    page.page.keyboard.press("ArrowRight")
    expect(page.page.get_by_text("N=5120 not divisible by 3").first).to_be_visible(timeout=8000)
    expect(stopped).to_be_hidden()
    assert page.clean()


def test_a_page_opened_from_a_file_says_how_to_serve_it(browser: Browser, html: Path) -> None:
    context = browser.new_context()
    page = context.new_page()
    page.goto(f"file://{html}{PAGE}")
    expect(page.get_by_text("python -m http.server").first).to_be_visible()
    expect(page.locator(".mxlab-static img").first).to_be_visible()
    context.close()


def test_a_narrow_page_does_not_scroll_sideways(page: Watched) -> None:
    wake(page.page)
    for width in (640, 360):  # 640 is 1280 at a zoom of 200 %
        page.page.set_viewport_size({"width": width, "height": 780})
        inner = page.page.locator(".mxlab-face .explorer").first
        box = page.page.locator(".mxlab-face").first.bounding_box()
        assert box is not None and box["width"] <= width
        assert inner.evaluate("node => node.scrollWidth") <= box["width"] + 1
        over = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        assert page.page.evaluate(over) <= 1
