"""Explorers beside other widgets in JupyterLab: boxes, links, two on one page, pictures taken."""

import json
import statistics
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path

import pytest
from drive import Watched, axe, watch
from playwright.sync_api import Browser, FilePayload, expect

from mxlab.explorers import answer, drawn

pytestmark = pytest.mark.browser

KERNEL = "window.jupyterapp?.shell.currentWidget?.sessionContext?.session?.kernel"
CELLS = (
    "from ipywidgets import HBox, IntSlider, VBox, link\n"
    "from mxlab.explorers import BlockOf32, OneByte\n"
    "byte, turned = OneByte(), IntSlider(max=255, description='turned')\n"
    "link((byte, 'code'), (turned, 'value'))\n"
    "VBox([turned, HBox([byte])])",
    "block = BlockOf32(values=[449, *[1.0] * 31])\nblock",
    "heard = []\nblock.observe(lambda change: heard.append(change['new']), names='values')\nblock",
    "print(len(heard), block.values[:8])",
)


@pytest.fixture(scope="module")
def live(browser: Browser, lab: tuple[str, Path]) -> Iterator[Watched]:
    cells: list[dict[str, object]] = [
        {"cell_type": "code", "id": f"c{i}", "metadata": {}, "outputs": [], "source": source,
         "execution_count": None}
        for i, source in enumerate(CELLS)
    ]  # fmt: skip
    spec = {"display_name": "Python 3", "language": "python", "name": "python3"}
    whole = {"cells": cells, "metadata": {"kernelspec": spec}, "nbformat": 4, "nbformat_minor": 5}
    (lab[1] / "compose.ipynb").write_text(json.dumps(whole))
    context = browser.new_context(viewport={"width": 1400, "height": 1000})
    watched = watch(context)
    page = watched.page
    page.goto(f"{lab[0]}/lab/tree/compose.ipynb?reset")
    page.locator(".jp-Notebook .jp-CodeCell").first.wait_for(timeout=60_000)
    page.wait_for_function(f"{KERNEL}?.status === 'idle'", timeout=60_000)
    run = "async () => window.jupyterapp.commands.execute('notebook:run-all-cells')"
    page.evaluate(run)
    page.locator(".mxlab-face").nth(2).wait_for(timeout=60_000)
    page.wait_for_function(f"{KERNEL}?.status === 'idle'")
    yield watched
    context.close()


def said(name: str, **state: object) -> str:
    view = json.loads(answer(name, json.dumps(state)))["view"]
    return f"{view['sign']} {view['answer']}"


def test_a_bit_is_flipped_by_keyboard_and_turns_the_linked_slider(live: Watched) -> None:
    page = live.page
    face = page.locator(".mxlab-face").first
    bits = face.get_by_role("grid").first
    bits.locator("td[tabindex='0']").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")  # bit 6
    expect(face.locator(".answer")).to_have_text(said("one_byte", code=0x79))
    expect(page.locator(".widget-readout").first).to_have_text("121")
    face.get_by_role("spinbutton", name="Code").fill("7")
    expect(page.locator(".widget-readout").first).to_have_text("7")
    expect(face.locator(".answer")).to_have_text(said("one_byte", code=7))
    assert live.clean()


def test_one_explorer_shown_twice_is_one_and_is_observed(live: Watched) -> None:
    page = live.page
    first, second = (page.locator(".mxlab-face").nth(i) for i in (1, 2))
    first.get_by_role("textbox", name="Value").first.fill("30000")
    values = ",".join(["30000", *["1.0"] * 31])
    for face in (first, second):
        expect(face.locator(".answer")).to_have_text(said("block_of_32", values=values))
    expect(second.get_by_role("textbox", name="Value").first).to_have_value("30000")
    file: FilePayload = {"name": "v.txt", "mimeType": "text/plain", "buffer": b"1 2 3"}
    second.locator("input[type=file]").set_input_files(file)
    values = ",".join(["1", "2", "3", *["0"] * 29])
    expect(first.locator(".answer")).to_have_text(said("block_of_32", values=values))
    page.locator(".jp-CodeCell").nth(3).click()
    page.evaluate("async () => window.jupyterapp.commands.execute('notebook:run-cell')")
    expect(page.locator(".jp-CodeCell").nth(3).locator(".jp-OutputArea-output")).to_have_text(
        "2 1,2,3,0,"
    )
    assert live.clean()


def test_a_picture_comes_from_the_kernel(live: Watched) -> None:
    page = live.page
    face = page.locator(".mxlab-face").first
    face.get_by_role("spinbutton", name="Code").fill("126")
    expect(face.locator(".answer")).to_have_text(said("one_byte", code=126))
    made = {}
    for kind in ("SVG", "PNG"):
        with page.expect_download() as download:
            face.get_by_role("button", name=f"Save {kind}").click()
        made[kind] = Path(download.value.path()).read_bytes()
    assert made["SVG"].decode() == drawn("one_byte", '{"code":126}')
    root = ElementTree.fromstring(made["SVG"])
    assert made["PNG"][:8] == b"\x89PNG\r\n\x1a\n"
    assert int.from_bytes(made["PNG"][16:20], "big") == 2 * int(root.attrib["width"])
    assert live.clean()


def test_axe_finds_nothing_where_two_of_a_kind_are_shown(live: Watched) -> None:
    assert axe(live.page, ".mxlab-face") == []


def test_how_long_a_change_takes(live: Watched, capsys: pytest.CaptureFixture[str]) -> None:
    """Measured and printed, as on the page."""
    script = """async (value) => {
      const root = document.querySelector(".mxlab-face").shadowRoot;
      const node = root.querySelector("[id$='-code']");
      const seen = new Promise((done) => new MutationObserver(done).observe(
        root.querySelector(".answer"), {subtree: true, childList: true, characterData: true}));
      const begun = performance.now();
      node.value = value;
      node.dispatchEvent(new Event("input", {bubbles: true}));
      await Promise.race([seen, new Promise((done) => setTimeout(done, 3000))]);
      return performance.now() - begun; }"""
    times = [live.page.evaluate(script, code) for code in range(60, 90)]
    with capsys.disabled():
        p95 = statistics.quantiles(times, n=20)[-1]
        print(f" [JupyterLab: median {statistics.median(times):.0f} ms, p95 {p95:.0f} ms]", end="")
    assert max(times) < 3000, "a change that shows nothing"
