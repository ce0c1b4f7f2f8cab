"""The guards' own explorers on their published pages: read, driven by keyboard, linked to."""

import json
from collections.abc import Iterator

import pytest
from drive import Watched, axe, watch
from playwright.sync_api import Browser, BrowserContext, Locator, Page, expect

from mxlab.explorers import answer

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def shared(browser: Browser) -> Iterator[BrowserContext]:
    """One profile for all: the first page starts cold, the others from the snapshot."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    yield context
    context.close()


def opened(context: BrowserContext, address: str) -> Watched:
    watched = watch(context)
    watched.page.goto(address)
    watched.page.locator(".mxlab-face .controls").wait_for()
    return watched


def line(page: Page) -> Locator:
    return page.locator(".mxlab-face .answer")


def said(name: str, **state: object) -> str:
    """What the kernel answers to a state."""
    view = json.loads(answer(name, json.dumps(state)))["view"]
    return f"{view['sign']} {view['answer']}"


def start(page: Page) -> None:
    page.locator(".mxlab-face :is(select, input)").first.focus()
    page.locator(".mxlab-explorer[data-live]").wait_for()


def looked_at(page: Page) -> None:
    for theme in ("light", "dark"):
        page.evaluate("theme => { document.documentElement.dataset.theme = theme }", theme)
        assert axe(page) == [], theme
    for width in (360, 1280):
        page.set_viewport_size({"width": width, "height": 900})
        over = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        assert page.evaluate(over) <= 1, f"{width} px scroll sideways"


def test_a_guard_is_mended_by_keyboard(shared: BrowserContext, site: str) -> None:
    """A page of a library, whose guard "Will it run?" cannot reach."""
    watched = opened(shared, f"{site}/book/guards/fi-mm-tile.html")
    page = watched.page
    assert page.locator(".mxlab-explorer").count() == 1
    static = page.locator(".mxlab-static")
    expect(static).to_contain_text(said("guard:fi-mm-tile"))
    looked_at(page)
    start(page)
    expect(line(page)).to_have_text(said("guard:fi-mm-tile"))
    expect(static).to_be_hidden()
    size = page.get_by_label("K", exact=True)
    size.focus()
    page.keyboard.press("Control+A")
    page.keyboard.type("128")
    expect(line(page)).to_have_text(said("guard:fi-mm-tile", k=128))
    expect(line(page)).to_contain_text("Passes: N = 512 and K = 128")
    looked_at(page)
    # back by a cell of the grid, by keyboard too
    grid = page.get_by_role("grid")
    grid.locator("td[tabindex='0']").focus()
    page.keyboard.press("Control+Home")
    page.keyboard.press("Enter")
    expect(line(page)).to_contain_text("Stops: ")
    page.get_by_role("button", name="Reset").click()
    expect(line(page)).to_have_text(said("guard:fi-mm-tile"))
    assert watched.clean()


@pytest.mark.parametrize("id", ["ink-cu-cu", "fa4-fp8-arch", "torch-v1-config", "kv-prefill-only"])
def test_a_phone_shows_the_whole_page(shared: BrowserContext, site: str, id: str) -> None:
    """Long paths, long texts, a long list of settings."""
    watched = opened(shared, f"{site}/book/guards/{id}.html")
    looked_at(watched.page)
    assert watched.clean()
    watched.page.close()


def test_a_link_holds_what_was_changed(shared: BrowserContext, site: str) -> None:
    state = "guard-te-dim32.k=1056&guard-te-dim32.m=96&guard-te-dim32.function=evil"
    watched = opened(shared, f"{site}/book/guards/te-dim32.html#{state}")
    watched.page.locator(".mxlab-explorer[data-live]").wait_for()
    expect(line(watched.page)).to_have_text(said("guard:te-dim32", k=1056, m=96))
    expect(line(watched.page)).to_contain_text("Passes: ")
    assert watched.clean()


def test_the_way_to_the_whole_deployment(shared: BrowserContext, site: str) -> None:
    watched = opened(shared, f"{site}/book/guards/wsp-deepgemm.html")
    page = watched.page
    page.locator("article.bd-article").get_by_role("link", name="Will it run?").click()
    page.wait_for_url("**/book/index.html#*")
    page.locator(".mxlab-explorer[data-live]").wait_for()
    expect(line(page)).to_contain_text("wsp-deepgemm")
    assert watched.clean()


def test_without_scripts_the_page_reads(browser: Browser, site: str) -> None:
    context = browser.new_context(java_script_enabled=False, viewport={"width": 360, "height": 800})
    page = context.new_page()
    page.goto(f"{site}/book/guards/dg-scale-bytes.html")
    static = page.locator(".mxlab-static")
    expect(static).to_contain_text(said("guard:dg-scale-bytes"))
    expect(static).to_contain_text("condition")
    picture = static.locator("img")
    expect(picture).to_be_visible()
    assert "pass: scale_layout not set" in str(picture.get_attribute("alt"))
    context.close()
