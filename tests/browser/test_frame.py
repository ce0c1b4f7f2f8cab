"""The frame around the pages in a browser: first paint, themes, icons, print, the lost page."""

import functools
import http.client
import re
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from drive import axe, watch
from playwright.sync_api import Browser, BrowserContext, expect

pytestmark = pytest.mark.browser

CHAPTER = "/notebooks/05_where_does_the_scale_live.html"
GUARD = "/book/guards/kv-hd32.html"
PAINTED = """() => new Promise(done => new PerformanceObserver(list => {
  const found = list.getEntriesByName("first-contentful-paint");
  if (found.length) done(found[0].startTime);
}).observe({type: "paint", buffered: true}))"""


@pytest.mark.parametrize("path", [GUARD, CHAPTER, "/book/index.html", "/book/reference/cli.html"])
def test_text_is_on_the_screen_within_a_second(browser: Browser, site: str, path: str) -> None:
    times = []
    for _ in range(3):  # the best of three: the machine is doing other work too
        context = browser.new_context()
        watched = watch(context)
        watched.page.goto(site + path)
        times.append(float(watched.page.evaluate(PAINTED)))
        assert watched.clean()
        context.close()
    print(f"\n{path}: first contentful paint after {min(times):.0f} ms (of {len(times)})")
    assert 0 < min(times) < 1000


def test_the_theme_switches_and_stays(context: BrowserContext, site: str) -> None:
    watched = watch(context)
    page = watched.page
    page.goto(site + GUARD)
    button = page.get_by_role("button", name="Color mode").first
    seen, colours = set(), set()
    for _ in range(3):
        button.click()
        mode = page.evaluate("document.documentElement.dataset.mode")
        seen.add(mode)
        expect(button.locator(f"i[data-mode={mode}]")).to_be_visible()
        assert button.locator("i:visible").count() == 1
        colours.add(page.evaluate("getComputedStyle(document.body).backgroundColor"))
        page.reload()
        assert page.evaluate("document.documentElement.dataset.mode") == mode
    assert seen == {"light", "dark", "auto"}
    assert len(colours) == 2
    assert watched.clean()


def test_every_icon_on_the_screen_is_drawn_and_every_button_named(
    context: BrowserContext, site: str
) -> None:
    watched = watch(context)
    page = watched.page
    page.goto(site + CHAPTER)
    icons = page.locator("i[class*='fa-'], span[class*='fa-']").filter(visible=True)
    drawn = icons.evaluate_all(
        """found => found.map(one => [one.className, getComputedStyle(one).maskImage,
           one.getBoundingClientRect().width])"""
    )
    assert len(drawn) >= 6
    for name, mask, width in drawn:
        assert mask.startswith('url("data:image/svg+xml'), name
        assert width > 8, name
    fetched = "performance.getEntriesByType('resource').map(one => one.name)"
    assert not [one for one in page.evaluate(fetched) if ".woff" in one or ".ttf" in one]
    assert axe(page, "body", rule="button-name") == []
    assert watched.clean()


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize(
    "path", [GUARD, "/book/reference/layouts.html", "/book/reference/cli.html"]
)
def test_axe_finds_nothing_on_a_whole_page(
    context: BrowserContext, site: str, theme: str, path: str
) -> None:
    watched = watch(context)
    watched.page.goto(site + path)
    watched.page.evaluate(f"document.documentElement.dataset.theme = '{theme}'")
    assert axe(watched.page, "article") == []


def test_search_opens_from_the_keyboard_and_finds_a_fragment(
    context: BrowserContext, site: str
) -> None:
    watched = watch(context)
    page = watched.page
    page.goto(site + CHAPTER)
    page.keyboard.press("Control+k")
    page.keyboard.type("requires head_dim divisible by 32, got")
    page.keyboard.press("Enter")
    page.wait_for_url("**/search.html?q=*")
    first = page.locator("ul.search > li a").first
    first.wait_for()
    assert "kv-hd32.html" in str(first.get_attribute("href"))
    below = page.locator("ul.search > li p.context").first
    expect(below).to_contain_text("divisible by 32")
    expect(below).not_to_contain_text("Contents")
    assert watched.clean()


def test_a_lost_address_offers_a_search_at_any_depth(context: BrowserContext, site: str) -> None:
    watched = watch(context)
    page = watched.page
    answer = page.goto(f"{site}/book/guards/no/such/kv-hd32.html")
    assert answer is not None and answer.status == 404
    watched.errors.clear()  # chromium logs the 404 itself
    expect(page.get_by_role("heading", level=1)).to_have_text("This page is not here")
    assert axe(page, "body", rule="color-contrast") == []
    for link in page.get_by_role("link").all():
        assert context.request.get(link.evaluate("node => node.href")).ok
    search = page.get_by_role("searchbox")
    expect(search).to_have_value("kv-hd32")  # the address's last part
    search.focus()
    page.keyboard.press("Enter")
    page.wait_for_url(f"{site}/search.html?q=kv-hd32")
    page.locator("ul.search > li a").first.wait_for()
    assert watched.clean()


def test_a_printed_chapter_is_the_article_alone(context: BrowserContext, site: str) -> None:
    watched = watch(context)
    page = watched.page
    page.goto(site + CHAPTER)
    page.evaluate("document.documentElement.dataset.theme = 'dark'")
    page.emulate_media(media="print")
    page.wait_for_function("document.documentElement.dataset.theme === 'light'")
    for selector in ("#pst-primary-sidebar", ".bd-header-article", ".prev-next-footer"):
        expect(page.locator(selector).first).to_be_hidden()
    expect(page.locator("article h1").first).to_be_attached()
    prose = page.locator("article p:not(.run-locally)")
    expect(prose.first).to_be_visible()
    ink = prose.nth(2).evaluate("node => getComputedStyle(node).color")
    assert max(map(int, re.findall(r"\d+", ink)[:3])) < 110, "dark ink on paper"
    paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert min(map(int, re.findall(r"\d+", paper)[:3])) > 240, "on white paper"
    assert len(page.pdf()) > 20_000
    page.emulate_media(media="screen")
    page.wait_for_function("document.documentElement.dataset.theme === 'dark'")  # as before
    assert watched.clean()


@pytest.mark.parametrize(
    "path",
    [
        GUARD,
        "/book/reference/profiles.html",
        "/book/reference/cli.html",
        "/book/guards/index.html",
        "/book/guards/list-sglang.html",
        "/book/reference/performance.html",
    ],
)
def test_a_narrow_screen_does_not_scroll_sideways(
    context: BrowserContext, site: str, path: str
) -> None:
    page = watch(context).page
    page.set_viewport_size({"width": 360, "height": 780})
    page.goto(site + path)
    over = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert page.evaluate(over) <= 1


def test_the_site_is_served_by_a_plain_server_of_files(html: Path) -> None:
    """What modules and WebAssembly need of a server is their type alone."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    folder = next((html / "_static/vendor").glob("mxlab-*/"))
    handler = functools.partial(Quiet, directory=str(html))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        connection = http.client.HTTPConnection("127.0.0.1", server.server_port)
        for name, kind in ((folder / "face.mjs", "javascript"), (html / "book/index.html", "html")):
            connection.request("GET", f"/{name.relative_to(html).as_posix()}")
            answer = connection.getresponse()
            assert answer.status == 200 and kind in str(answer.getheader("Content-Type"))
            answer.read()
        connection.close()
        server.shutdown()
        thread.join()


def test_a_list_of_guards_filters_as_one_types(context: BrowserContext, site: str) -> None:
    watched = watch(context)
    page = watched.page
    page.goto(f"{site}/book/guards/list-sglang.html")
    rows = page.locator("article tbody tr")
    count, parts = rows.count(), page.locator("article section section")
    assert count > 250 and parts.count() > 5
    field = page.get_by_role("searchbox", name="Filter the guards")
    said = page.get_by_role("status")
    expect(said).to_have_text(f"{count} of {count} guards")
    field.fill("head_dim ValueError")
    left = rows.filter(visible=True)
    assert 0 < left.count() < 20
    expect(said).to_have_text(f"{left.count()} of {count} guards")
    for text in left.all_text_contents():
        assert "head_dim" in text and "ValueError" in text
    shown = parts.filter(visible=True)
    assert 0 < shown.count() < parts.count(), "stages without a row are gone"
    assert axe(page, "article") == []
    field.fill("no such words")
    expect(said).to_have_text(f"0 of {count} guards")
    field.fill("")
    expect(rows.filter(visible=True)).to_have_count(count)
    assert watched.clean()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_index_of_guards_searches_and_folds(
    context: BrowserContext, site: str, theme: str
) -> None:
    watched = watch(context)
    page = watched.page
    page.goto(f"{site}/book/guards/index.html")
    page.evaluate(f"document.documentElement.dataset.theme = '{theme}'")
    assert page.evaluate("document.documentElement.scrollHeight") < 6500, "it was 14,253"
    group = page.locator("details").filter(has_text="S7: KV cache allocation")
    assert group.locator("a").first.is_hidden()
    group.locator("summary").focus()
    page.keyboard.press("Enter")
    expect(group.get_by_role("link", name="kv-hd32", exact=True)).to_be_visible()
    assert axe(page, "article") == []
    page.get_by_role("searchbox", name="Words of your error").fill("head_dim divisible by 32, got")
    page.keyboard.press("Enter")
    page.wait_for_url(f"{site}/search.html?q=*")
    first = page.locator("ul.search > li a").first
    first.wait_for()
    assert "/kv-" in str(first.get_attribute("href"))
    assert watched.clean()
