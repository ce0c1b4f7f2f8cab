"""Pages on paper: what the PDF holds, letter by letter, and where on the sheet it stands."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pypdfium2  # type: ignore[import-untyped]
import pytest
from drive import watch
from playwright.sync_api import BrowserContext, Page

pytestmark = pytest.mark.browser

CHAPTER = "/notebooks/05_where_does_the_scale_live.html"
LAYOUTS = "/book/reference/layouts.html"
PAGES = (
    CHAPTER,
    LAYOUTS,
    "/book/guards/wsp-deepgemm.html",
    "/book/reference/performance.html",
    "/book/reference/cli.html",
)
MARGIN = 14 / 25.4 * 72  # points, as print.css sets it

#: what the article says that must be on paper: (kind, text) of headings, cells and lines of code
SAID = """() => {
  const article = document.querySelector("article.bd-article");
  const shown = (node) => node.checkVisibility();
  const texts = (selector) => [...article.querySelectorAll(selector)].filter(shown)
    .map((node) => node.textContent);
  return {
    heading: texts("h1, h2, h3"),
    cell: texts("td, th"),
    code: texts("pre").flatMap((text) => text.split("\\n")),
    prose: texts("p, li"),
  };
}"""
#: what is on the screen for the reader to press or to go on: not for paper
PRESSED = """() => {
  const roots = [document, ...[...document.querySelectorAll("*")].map((one) => one.shadowRoot)];
  const found = roots.filter(Boolean).flatMap((root) => [...root.querySelectorAll(
    "button, .help, .bd-sidebar a, .prev-next-area a, .run-locally")]);
  return found.filter((one) => one.checkVisibility()).map((one) => one.textContent);
}"""


def squashed(text: str) -> str:
    """Letters alone: a PDF breaks lines, knows no spaces at their ends, and hides hyphens there."""
    return re.sub(r"[\s\x00-\x1f\u00ad\ufffe\u2060#-]+", "", text)


@contextmanager
def printed(page: Page) -> Iterator[pypdfium2.PdfDocument]:
    document = pypdfium2.PdfDocument(page.pdf(format="A4", prefer_css_page_size=True))
    yield document
    document.close()


def text_of(document: pypdfium2.PdfDocument) -> str:
    return squashed("".join(sheet.get_textpage().get_text_range() for sheet in document))


def outside(document: pypdfium2.PdfDocument) -> list[str]:
    """Characters that stand beyond the margins: what a printer would cut."""
    found = []
    for number, sheet in enumerate(document):
        width, height = sheet.get_size()
        page = sheet.get_textpage()
        for index in range(page.count_chars()):
            left, bottom, right, top = page.get_charbox(index)
            inside = left > MARGIN - 2 and right < width - MARGIN + 2
            if right > left and not (inside and bottom > 0 and top < height):
                found.append(f"{number + 1}: {page.get_text_range(index, 1)}")
    return found


@pytest.mark.parametrize("path", PAGES)
def test_a_printed_page_holds_all_of_the_article_and_nothing_of_the_frame(
    context: BrowserContext, site: str, path: str
) -> None:
    watched = watch(context)
    page = watched.page
    page.goto(site + path)
    if "explorer" in page.content():
        page.wait_for_timeout(300)  # its controls are there
    said, pressed = page.evaluate(SAID), page.evaluate(PRESSED)
    assert len(said["heading"]) > 2 and len(said["code"] + said["cell"]) > 20
    with printed(page) as document:
        text = text_of(document)
        assert outside(document) == []
        assert 1 < len(document) < 25
    # headings, cells and lines of code, whole; a link's address follows its words
    plain = re.sub(r"\(https?:[^)]*\)", "", text)
    for kind in ("heading", "cell", "code"):
        cut = [one for one in said[kind] if squashed(one) not in plain]
        assert cut == [], kind
    article = squashed("".join(said["prose"] + said["heading"] + said["cell"] + said["code"]))
    frame = {one.strip() for one in pressed if len(squashed(one)) > 6}
    frame = {one for one in frame if squashed(one) not in article}
    assert len(frame) > 5
    assert [one for one in frame if squashed(one) in text] == []
    assert watched.clean()


def test_an_explorer_is_printed_as_its_picture_with_its_settings(
    context: BrowserContext, site: str
) -> None:
    page = watch(context).page
    page.goto(site + CHAPTER)
    page.get_by_role("combobox", name="Layout").first.wait_for()
    with printed(page) as document:
        text = text_of(document)
    assert squashed("Settings: Layout = tile_128x4, Rows = 300, K = 320") in text
    assert squashed("The scale of row 200, column 6 is byte 2,186") in text
    assert squashed("bits of the column") in text, "the picture's own words"
    assert "Copylink" not in text


def test_an_explorer_that_was_set_is_printed_as_it_was_set(
    context: BrowserContext, site: str
) -> None:
    page = watch(context).page
    page.goto(site + CHAPTER)
    page.get_by_role("combobox", name="Layout").first.select_option("linear")
    page.locator(".mxlab-explorer[data-live]").first.wait_for()
    page.get_by_text("linear takes 3,000 bytes").first.wait_for()
    with printed(page) as document:
        text = text_of(document)
        assert outside(document) == []
    assert "lineartakes3,000bytes" in text, "the new answer"
    assert "tile_128x4takes4,608bytes" not in text, "and not the old one beside it"
    assert re.search(r"Rows300.?K320", text) and "Find200,6" in text
    for label in ("Copylink", "ShowPython", "Undo"):
        assert label not in text


def test_links_that_leave_the_book_have_their_address_on_paper(
    context: BrowserContext, site: str
) -> None:
    """But a cited report says it already, and so does a link whose words are the address."""
    page = watch(context).page
    page.goto(site + CHAPTER)
    long = "https://example.org/" + "a-long-path/" * 12
    page.locator("article p").first.evaluate(
        "(node, href) => node.insertAdjacentHTML('afterend', `<p><a href=${href}>words</a></p>`)",
        long,
    )
    cited = page.locator("article a.cited")
    assert cited.count() > 1
    with printed(page) as document:
        text = text_of(document)
        assert outside(document) == []
    assert squashed(f"words ({long})") in text
    assert "github.com" not in text
