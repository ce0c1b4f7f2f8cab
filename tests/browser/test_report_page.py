"""The doctor's HTML report in a browser: light and dark, on a phone, on paper, no network."""

from pathlib import Path

import pytest
from drive import axe
from playwright.sync_api import Browser, Page, Request

from mxlab.doctor import doctor
from mxlab.guards import Deployment
from mxlab.models import read_config
from mxlab.report.common import Provenance
from mxlab.report.html_page import grid_html, reports_html
from mxlab.sweep import parse_axes, sweep

pytestmark = pytest.mark.browser
MADE = Provenance(argv=["doctor", "Qwen2.5-72B-Instruct"])


def report() -> str:
    flags = Deployment(gpu="b200", tp=8, quantization="mxfp8", kv_cache_dtype="mxfp8")
    models = ("Qwen2.5-72B-Instruct", "Qwen3-30B-A3B", "Llama-3.1-8B")
    return reports_html([(m, doctor(m, flags, prologue=True)) for m in models], MADE)


def grid() -> str:
    axes = parse_axes(["tp=1,3,8", "gpu=h100,b200,mi355x", "backend=auto,deep_gemm"])
    models = {name: read_config(name) for name in ("Llama-3.1-8B", "DeepSeek-V3")}
    return grid_html(sweep(models, Deployment(quantization="mxfp8"), axes), MADE)


def count_requests(page: Page) -> list[str]:
    """Return a list that fills with the address of every request of the page."""
    asked: list[str] = []

    def note(request: Request) -> None:
        asked.append(request.url)

    page.on("request", note)
    return asked


@pytest.mark.parametrize("html", [report(), grid()], ids=["report", "grid"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_and_a_phone_scrolls_one_way(
    browser: Browser, tmp_path: Path, html: str, scheme: str
) -> None:
    file = tmp_path / "report.html"
    file.write_text(html)
    for width in (360, 1200):
        context = browser.new_context(
            viewport={"width": width, "height": 900},
            color_scheme="dark" if scheme == "dark" else "light",
            bypass_csp=True,  # the page's policy would keep axe out
        )
        page = context.new_page()
        asked = count_requests(page)
        page.goto(file.as_uri())
        assert asked == [file.as_uri()]
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        back = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (back == "rgb(255, 255, 255)") == (scheme == "light")
        assert axe(page, "body") == []
        context.close()


def test_the_page_s_own_policy_lets_no_script_in(browser: Browser, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    script = "<script>document.title = 'ran'</script></body>"
    file.write_text(grid().replace("</body>", script))  # as if escaping had failed
    context = browser.new_context()
    page = context.new_page()
    page.goto(file.as_uri())
    assert page.title() == "mxlab doctor: sweep"
    page.emulate_media(media="print")
    assert page.locator("table").first.is_visible()
    context.close()
