"""The guard pages as they are published: their headings, their anchors, and how they are found."""

import html as entities
import re
from pathlib import Path
from urllib.parse import quote_plus

import pytest
from drive import watch
from playwright.sync_api import BrowserContext

from book.site.guard_text import heading
from mxlab.explain import page
from mxlab.guards import GUARDS

pytestmark = pytest.mark.browser


def straight(text: str) -> str:
    """Undo the typographic quotes of prose; a message is code and has none."""
    return text.translate({0x201C: '"', 0x201D: '"', 0x2019: "'"}) if "No message" in text else text


def test_every_heading_is_the_exact_text(html: Path) -> None:
    index = (html / "book/guards/index.html").read_text(encoding="utf-8")
    for guard in GUARDS:
        text = (html / page(guard)).read_text(encoding="utf-8")
        headings = re.findall(r"<h1>(.*?)(?:<a class=\"headerlink\".*?)?</h1>", text, re.S)
        shown = {straight(re.sub(r"<[^>]+>", "", one)) for one in headings}
        wanted = heading(guard) or f"No message: {guard.predicate}"
        assert {" ".join(entities.unescape(one).split()) for one in shown} == {wanted}
        assert f'id="{guard.id}"' in text
        assert f'href="{guard.id}.html"' in index


@pytest.mark.parametrize(
    ("words", "guard"),
    [
        ("MXFP8 KV cache requires head_dim divisible by 32", "kv-hd32"),
        ("cannot serve MXFP8 weight shape", "wsp-deepgemm"),
        ("is not divisible by weight quantization block_k", "lin-tp-row"),
        ("ValueError: MXFP8 KV cache requires head_dim divisible by 32, got 1234.", "kv-hd32"),
        (
            "[2026-11-30 02:11:07 TP3] Scheduler hit an exception: ValueError: Weight "
            "input_size_per_partition = 4711 is not divisible by weight quantization block_k = 32.",
            "lin-tp-row",
        ),
        ("kv-hd32", "kv-hd32"),
    ],
)
def test_a_search_for_the_words_leads_to_the_page(
    context: BrowserContext, site: str, words: str, guard: str
) -> None:
    watched = watch(context)
    watched.page.goto(f"{site}/search.html?q={quote_plus(words)}")
    first = watched.page.locator("ul.search > li a").first
    first.wait_for()
    assert f"/{guard}.html" in str(first.get_attribute("href"))
    assert watched.clean()
