"""The guard pages as they are published: their headings, their anchors, and how they are found."""

import html as entities
import re
from pathlib import Path
from urllib.parse import quote_plus

import pytest
from drive import watch
from playwright.sync_api import BrowserContext

from book.site.guard_index import list_name
from book.site.guard_text import heading
from mxlab.cli import main
from mxlab.explain import page
from mxlab.guards.data import every_row

GUARDS = [row for row, _ in every_row()]

pytestmark = pytest.mark.browser


def straight(text: str) -> str:
    """Undo the typographic quotes of prose; a message is code and has none."""
    return text.translate({0x201C: '"', 0x201D: '"', 0x2019: "'"}) if "No message" in text else text


def test_every_heading_is_the_exact_text(html: Path) -> None:
    index = (html / "book/guards/index.html").read_text(encoding="utf-8")
    names = {list_name(guard.system) for guard in GUARDS}
    lists = {name: (html / f"book/guards/{name}.html").read_text("utf-8") for name in names}
    for guard in GUARDS:
        text = (html / page(guard)).read_text(encoding="utf-8")
        headings = re.findall(r"<h1>(.*?)(?:<a class=\"headerlink\".*?)?</h1>", text, re.S)
        shown = {straight(re.sub(r"<[^>]+>", "", one)) for one in headings}
        wanted = heading(guard) or f"No message: {guard.predicate}"
        assert {" ".join(entities.unescape(one).split()) for one in shown} == {wanted}
        assert f'id="{guard.id}"' in text
        assert f'href="{guard.id}.html"' in index
        assert f'href="{guard.id}.html"' in lists[list_name(guard.system)]


def test_pages_are_light(html: Path) -> None:
    """A page is its text and its own small explorer; the list of all guards is on none of them."""
    sizes = {guard.id: (html / page(guard)).stat().st_size for guard in GUARDS}
    for guard in GUARDS:
        text = (html / page(guard)).read_text("utf-8")
        assert text.count('class="mxlab-explorer"') == 1, guard.id
        assert f'id="guard-{guard.id}"' in text
    assert sorted(sizes.values())[len(sizes) // 2] < 50_000
    assert max(sizes.values()) < 90_000


def page_of(id: str) -> str:
    return next(page(guard) for guard in GUARDS if guard.id == id)


def test_the_site_serves_the_data(
    context: BrowserContext, site: str, html: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, argv in (
        ("guards.json", ["--json"]),
        ("guards.schema.json", ["--schema"]),
        ("guards/kv-hd32.json", ["kv-hd32", "--json"]),
        ("guards/te-dim32.json", ["te-dim32", "--json"]),
    ):
        assert main(["guards", *argv]) == 0
        answer = context.request.get(f"{site}/{name}")
        assert answer.ok and answer.body() == capsys.readouterr().out.encode()
    assert len(list((html / "guards").glob("*.json"))) == len(GUARDS)


@pytest.mark.parametrize("id", ["wsp-deepgemm", "fi-mm-tile", "vllm-block-row", "dg-scale-bytes"])
def test_a_page_reads_and_its_links_lead_somewhere(
    context: BrowserContext, site: str, id: str
) -> None:
    watched = watch(context)
    watched.page.goto(f"{site}/{page_of(id)}")
    article = watched.page.locator("article.bd-article")
    assert article.locator("h2").filter(has_text="Check before launch").count() == 1
    hrefs = article.locator("a.reference.internal, a[href$='.json']").evaluate_all(
        "links => links.map(link => link.href)"
    )
    assert len(hrefs) > 3 and any(href.endswith(f"/guards/{id}.json") for href in hrefs)
    for href in sorted(set(hrefs)):
        assert context.request.get(href.partition("#")[0]).ok, href
    assert watched.clean()


@pytest.mark.parametrize(
    ("words", "guard"),
    [
        ("MXFP8 KV cache requires head_dim divisible by 32", "kv-hd32"),
        ("cannot serve MXFP8 weight shape", "wsp-deepgemm"),
        ("weight quantization block_k input_size_per_partition", "lin-tp-row"),
        ("mm_mxfp8 cutedsl_low_latency", "fi-mm-low-latency"),
        ("The quantization method modelopt_mxfp8 is not supported", "vllm-min-capability"),
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
