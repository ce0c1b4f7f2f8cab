"""All ten explorers in one notebook in JupyterLab: linked, observed, reloaded, dead, reopened."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from drive import Watched, axe, watch
from playwright.sync_api import Browser, BrowserContext, Page, expect

from mxlab.explorers import EXPLORERS, answer

pytestmark = pytest.mark.browser

NOTEBOOK = "all.ipynb"
KERNEL = "window.jupyterapp?.shell.currentWidget?.sessionContext?.session?.kernel"
#: the control of each that is linked to another widget, and the value that this one is given
LINKED: dict[str, tuple[str, int | str]] = {
    "one_byte": ("code", 126),
    "block_of_32": ("rule", "floor"),
    "which_scale": ("sweep", 96),
    "two_axes": ("at", 9),
    "scale_layout": ("rows", 200),
    "wrong_layout": ("n", 72),
    "will_it_run": ("tp", 4),
    "what_error": ("text", "MXFP8 KV cache requires head_dim divisible by 32, got 96."),
    "kv_page": ("slot", 77),
    "what_cost": ("rows", 640),
}
CELLS = (
    "from ipywidgets import IntSlider, Text, link\nfrom mxlab import explorers\n"
    "made, heard = {}, []",
    *(
        f"e = made['{name}'] = explorers.{kind}()\n"
        f"e.observe(lambda _: heard.append('{name}'), names='answer')\ne"
        for name, kind in EXPLORERS.items()
    ),
    "import json\n"
    f"for name, (control, value) in json.loads('''{json.dumps(LINKED)}''').items():\n"
    "    other = Text() if isinstance(value, str) else IntSlider(min=-1, max=99999)\n"
    "    link((made[name], control), (other, 'value'))\n"
    "    other.value = value\n"
    "print(len(set(heard)), 'heard,', len(made), 'made')",
)


def said(name: str) -> str:
    control, value = LINKED[name]
    view = json.loads(answer(name, json.dumps({control: value})))["view"]
    return f"{view['sign']} {view['answer']}"


def command(page: Page, name: str) -> None:
    page.evaluate("async name => { await window.jupyterapp.commands.execute(name) }", name)


def opened(context: BrowserContext, address: str) -> Watched:
    watched = watch(context)
    watched.page.goto(f"{address}/lab/tree/{NOTEBOOK}?reset")
    watched.page.locator(".jp-Notebook .jp-CodeCell").first.wait_for(timeout=60_000)
    return watched


def all_say_it(page: Page) -> None:
    """Every explorer is live, at the state that its link gave it."""
    for place, name in enumerate(EXPLORERS):
        line = page.locator(".mxlab-face .answer").nth(place)
        expect(line, name).to_have_text(said(name), timeout=60_000)
    expect(page.locator(".mxlab-face")).to_have_count(len(EXPLORERS))


@pytest.fixture(scope="module")
def live(browser: Browser, lab: tuple[str, Path]) -> Iterator[Watched]:
    cells: list[dict[str, object]] = [
        {"cell_type": "code", "id": f"c{i}", "metadata": {}, "outputs": [], "source": source,
         "execution_count": None}
        for i, source in enumerate(CELLS)
    ]  # fmt: skip
    spec = {"display_name": "Python 3", "language": "python", "name": "python3"}
    whole = {"cells": cells, "metadata": {"kernelspec": spec}, "nbformat": 4, "nbformat_minor": 5}
    (lab[1] / NOTEBOOK).write_text(json.dumps(whole))
    context = browser.new_context(viewport={"width": 1400, "height": 1000})
    watched = opened(context, lab[0])
    watched.page.wait_for_function(f"{KERNEL}?.status === 'idle'", timeout=60_000)
    command(watched.page, "notebook:run-all-cells")
    yield watched
    context.close()


def test_each_follows_another_widget_and_is_observed(live: Watched) -> None:
    all_say_it(live.page)
    output = live.page.locator(".jp-CodeCell").last.locator(".jp-OutputArea-output")
    expect(output).to_have_text("10 heard, 10 made")
    assert live.clean()


@pytest.mark.parametrize("theme", ["JupyterLab Dark", "JupyterLab Light"])
def test_every_text_has_its_contrast(live: Watched, theme: str) -> None:
    live.page.evaluate(
        "async theme => { await window.jupyterapp.commands.execute("
        "'apputils:change-theme', {theme}) }",
        theme,
    )
    light = "true" if theme.endswith("Light") else "false"
    live.page.locator(f"body[data-jp-theme-light='{light}']").wait_for(state="attached")
    assert axe(live.page, ".mxlab-face", rule="color-contrast") == []


def test_a_reloaded_page_is_live_again(live: Watched, lab: tuple[str, Path]) -> None:
    command(live.page, "docmanager:save")
    for _ in range(50):
        if (lab[1] / NOTEBOOK).read_text().count("data:image/svg+xml") >= len(EXPLORERS):
            break
        live.page.wait_for_timeout(100)
    live.page.reload()
    all_say_it(live.page)


def test_each_leaves_a_picture_when_its_kernel_is_gone(
    live: Watched, lab: tuple[str, Path], browser: Browser
) -> None:
    saved = (lab[1] / NOTEBOOK).read_text()
    assert saved.count("data:image/svg+xml") >= len(EXPLORERS)
    assert "application/vnd.jupyter.widget-view+json" not in saved
    live.page.evaluate(f"{KERNEL}.restart()")
    gone = live.page.get_by_text("The kernel that computed this is gone")
    expect(gone).to_have_count(len(EXPLORERS))
    assert live.page.locator(".mxlab-face form[inert]").count() == len(EXPLORERS)

    context = browser.new_context(viewport={"width": 1400, "height": 1000})
    page = opened(context, lab[0]).page
    pictures = page.locator(".mxlab-explorer img")
    expect(pictures).to_have_count(len(EXPLORERS))
    for place, name in enumerate(EXPLORERS):
        picture = pictures.nth(place)
        picture.scroll_into_view_if_needed()
        expect(picture, name).to_be_visible()
        assert picture.evaluate("image => image.decode().then(() => image.naturalHeight)") > 100
        assert len(picture.get_attribute("alt") or "") > 20
    expect(page.get_by_text("model not found")).to_have_count(0)
    context.close()
