"""The start notebook in JupyterLab: live while the kernel lives, a picture ever after."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from drive import Watched, axe, watch
from playwright.sync_api import Browser, BrowserContext, Page, expect

pytestmark = pytest.mark.browser

NOTEBOOK = "00_start.ipynb"
KERNEL = "window.jupyterapp?.shell.currentWidget?.sessionContext?.session?.kernel"
IDLE = f"{KERNEL}?.status === 'idle'"


def open_notebook(context: BrowserContext, address: str, *, kernel: bool = True) -> Watched:
    watched = watch(context)
    watched.page.goto(f"{address}/lab/tree/{NOTEBOOK}?reset")
    watched.page.locator(".jp-Notebook .jp-CodeCell").first.wait_for(timeout=60_000)
    if kernel:
        watched.page.wait_for_function(IDLE, timeout=60_000)
    return watched


def command(page: Page, name: str) -> None:
    page.evaluate("async name => { await window.jupyterapp.commands.execute(name) }", name)


@pytest.fixture(scope="module")
def live(browser: Browser, lab: tuple[str, Path]) -> Iterator[Watched]:
    """The notebook after "run all cells"."""
    context = browser.new_context(viewport={"width": 1400, "height": 1000})
    watched = open_notebook(context, lab[0])
    command(watched.page, "notebook:run-all-cells")
    watched.page.locator(".mxlab-face .answer").first.wait_for(timeout=60_000)
    watched.page.wait_for_function(IDLE)
    yield watched
    context.close()


def test_keys_change_the_view_through_the_kernel(live: Watched) -> None:
    page = live.page
    expect(page.locator(".mxlab-static").first).to_be_hidden()
    tp = page.get_by_role("spinbutton", name="TP", exact=True).first
    before = int(tp.input_value())
    slider = page.get_by_role("slider", name="TP").first
    slider.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    expect(tp).to_have_value(str(before + 2))
    expect(page.get_by_role("cell", name=f"5,120 / TP {before + 2}")).to_be_visible()
    assert slider.evaluate("node => node.matches(':focus')")
    cells = page.locator(".jp-CodeCell").count()
    page.get_by_role("combobox", name="GPU").first.focus()
    page.keyboard.press("ArrowDown")  # a notebook shortcut, unless the face keeps its keys
    page.locator("td[tabindex='0']").first.focus()
    for key in ("ArrowDown", "End", "b", "d", "d"):
        page.keyboard.press(key)
    assert page.locator(".jp-CodeCell").count() == cells
    expect(page.locator("td:focus")).to_have_text("19")  # row 1, column 3
    assert live.clean()


@pytest.mark.parametrize("theme", ["JupyterLab Dark", "JupyterLab Light"])
def test_axe_finds_nothing(live: Watched, theme: str) -> None:
    live.page.evaluate(
        "async theme => { await window.jupyterapp.commands.execute("
        "'apputils:change-theme', {theme}) }",
        theme,
    )
    light = "true" if theme.endswith("Light") else "false"
    live.page.locator(f"body[data-jp-theme-light='{light}']").wait_for(state="attached")
    assert axe(live.page) == []


def test_the_saved_notebook_reopens_with_picture_and_table(
    live: Watched, lab: tuple[str, Path], browser: Browser
) -> None:
    command(live.page, "docmanager:save")
    saved = lab[1] / NOTEBOOK
    for _ in range(50):
        if "data:image/svg+xml" in saved.read_text():
            break
        live.page.wait_for_timeout(100)
    text = saved.read_text()
    assert "data:image/svg+xml" in text
    assert "application/vnd.jupyter.widget-view+json" not in text
    live.page.evaluate(f"{KERNEL}.restart()")
    line = live.page.get_by_text("The kernel that computed this is gone").first
    expect(line).to_be_visible()

    context = browser.new_context(viewport={"width": 1400, "height": 1000})
    again = open_notebook(context, lab[0], kernel=False)
    picture = again.page.locator(".mxlab-explorer img").first
    expect(picture).to_be_visible()
    assert re.match(r"(Stops|Runs|Not known)", picture.get_attribute("alt") or "")
    assert (picture.bounding_box() or {"height": 0})["height"] > 200
    expect(again.page.locator(".mxlab-explorer table").first).to_be_visible()
    expect(again.page.get_by_text("model not found")).to_have_count(0)
    assert again.clean()
    context.close()
