"""A phone: printed tables and the still of an explorer keep their shape, and scroll in a box."""

import pytest
from drive import axe, watch
from playwright.sync_api import Browser, BrowserContext, expect

OVER = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
CHAPTERS = ("00_why_blocks", "04_two_axes_two_answers", "05_where_does_the_scale_live")


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_a_printed_table_is_not_torn(context: BrowserContext, site: str, chapter: str) -> None:
    page = watch(context).page
    page.set_viewport_size({"width": 360, "height": 780})
    page.goto(f"{site}/notebooks/{chapter}.html")
    printed = page.locator(".cell_output .output pre")
    expect(printed.first).to_be_visible()
    boxes = printed.evaluate_all(
        """all => all.map(pre => ({
          scrolls: pre.scrollWidth > pre.clientWidth + 1,
          reached: pre.tabIndex,
          torn: pre.getClientRects().length && getComputedStyle(pre).whiteSpace !== 'pre',
        }))"""
    )
    assert not any(box["torn"] for box in boxes)
    wide = [box for box in boxes if box["scrolls"]]
    assert wide and all(box["reached"] == 0 for box in wide)
    assert axe(page, "article", rule="scrollable-region-focusable") == []
    assert page.evaluate(OVER) <= 1


def test_a_still_is_legible_on_a_phone(browser: Browser, site: str) -> None:
    context = browser.new_context(java_script_enabled=False, viewport={"width": 360, "height": 780})
    page = context.new_page()
    page.goto(f"{site}/notebooks/04_two_axes_two_answers.html")
    picture = page.locator(".mxlab-static img").first
    expect(picture).to_be_visible()
    assert picture.evaluate("image => image.getBoundingClientRect().width") >= 700
    box = picture.locator("xpath=..")
    assert box.evaluate("box => box.scrollWidth > box.clientWidth")
    assert page.evaluate(OVER) <= 1
    box.focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_timeout(400)  # a page without scripts cannot be asked to wait for more
    assert box.evaluate("box => box.scrollLeft") > 0
    context.close()
