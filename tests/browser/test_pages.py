"""Every page of the built site as a file: links, weight, figures, what it says of itself."""

import json
import re
from pathlib import Path

import pytest
from built import PageFile, pages, weight

pytestmark = pytest.mark.browser

ROOT = Path(__file__).parents[2]
MOST = 500_000  # bytes on the wire, before an explorer starts


def test_all_links_and_anchors_inside_the_site_lead_somewhere(html: Path) -> None:
    broken, looked_at = [], 0
    everything = pages(html)
    by_path = {page.path.resolve(): page for page in everything.values()}
    for name, page in everything.items():
        for link in (one["href"] for one in page.all("a") if "href" in one):
            target = page.target(link)
            if target is None:
                continue
            looked_at += 1
            anchor = link.partition("#")[2]
            there = by_path.get(target.resolve())
            missing = there is not None and "=" not in anchor and anchor not in there.ids
            if not target.exists() or (anchor and missing):  # with a "=" it is an explorer's state
                broken.append(f"{name}: {link}")
    assert looked_at > 20 * len(everything)
    assert broken == []


def test_everything_that_a_page_loads_is_in_the_site(html: Path) -> None:
    for name, page in pages(html).items():
        missing = [str(path) for path in page.loads() if not path.exists()]
        assert missing == [], name
        for link in (*page.all("script"), *page.all("img"), *page.all("link")):
            if link.get("rel") != "canonical":
                address = link.get("src", link.get("href", ""))
                assert not re.match(r"https?:|//", address), f"{name} loads {address}"


def fetched(page: PageFile, html: Path) -> int:
    """Bytes of a page with all that it loads, fonts of formulas and the explorers' face too."""
    total = weight(page.path) + sum(weight(path) for path in page.loads())
    static = html / "_static" / "vendor"
    if any("mathjax" in path.parts for path in page.loads()):
        fonts = static / "mathjax/output/chtml/fonts/woff-v2"
        total += sum(weight(fonts / f"MathJax_{name}-Regular.woff") for name in ("Zero", "Main"))
        total += weight(fonts / "MathJax_Math-Italic.woff")
    if any("mxlab-explorer" in one.get("class", "") for one in page.all("div")):
        folder = next(static.glob("mxlab-*/"))
        total += sum(weight(path) for path in folder.glob("*.mjs")) + weight(folder / "face.css")
    return total


def test_a_page_weighs_less_than_500_kb_before_its_explorer_starts(html: Path) -> None:
    heavy = {name: fetched(page, html) for name, page in pages(html).items()}
    heaviest = max(heavy, key=lambda name: heavy[name])
    middle = sorted(heavy.values())[len(heavy) // 2]
    print(f"\nheaviest {heaviest}: {heavy[heaviest]:,} bytes; in the middle {middle:,}")
    assert sorted(heavy.values())[1] > 100_000, "all but the lost page load the theme"
    assert {name: size for name, size in heavy.items() if size >= MOST} == {}
    guards = [size for name, size in heavy.items() if name.startswith("book/guards/")]
    assert max(guards) < MOST / 2


def test_scripts_of_formulas_and_icons_are_where_they_are_needed_only(html: Path) -> None:
    without = 0
    for name, page in pages(html).items():
        loads = {path.name for path in page.loads()}
        assert not any("fontawesome" in one or one.startswith("fa-") for one in loads), name
        boxes = (*page.all("span"), *page.all("div"))
        formula = any("math" in one.get("class", "").split() for one in boxes)
        without += not formula
        assert formula or not any("mathjax" in path.parts for path in page.loads()), name
        assert ("searchindex.js" in loads) == (name == "search.html"), name
    assert without > 100


def test_every_figure_has_words(html: Path) -> None:
    seen = 0
    for name, page in pages(html).items():
        for image in page.all("img"):
            seen += 1
            decorative = image.get("role") == "presentation" or image.get("aria-hidden") == "true"
            assert decorative or len(image.get("alt", "")) > 10, f"{name}: {str(image)[:200]}"
    assert seen > 20


def test_every_page_describes_itself_and_no_two_chapters_alike(html: Path) -> None:
    said: dict[str, str] = {}
    for name, page in pages(html).items():
        found = [one["content"] for one in page.all("meta") if one.get("name") == "description"]
        assert len(found) == 1, f"{name}: {found}"
        assert 20 < len(found[0]) <= 301, name
        assert "&lt;meta" not in page.path.read_text(encoding="utf-8"), name
        if not name.startswith("book/guards/"):
            assert found[0] not in said, f"{name} and {said[found[0]]}"
            said[found[0]] = name


def test_there_is_one_first_heading_and_a_language(html: Path) -> None:
    for name, page in pages(html).items():
        titles = [one for one in page.elements if one.name == "h1"]  # the theme has one for print
        assert len(titles) == (1 if name in ("404.html", "search.html") else 2), name
        assert next(page.all("html")).get("lang") == "en", name


def test_no_page_claims_an_address_that_was_not_given(html: Path) -> None:
    for name, page in pages(html).items():
        assert not [one for one in page.all("link") if one.get("rel") == "canonical"], name


def test_each_notebook_says_how_to_run_it(html: Path) -> None:
    notebooks = sorted((ROOT / "notebooks").glob("*.ipynb"))
    shown = [one for one in notebooks if f"notebooks/{one.stem}.html" in pages(html)]
    assert len(shown) > 8
    for notebook in shown:
        page = pages(html)[f"notebooks/{notebook.stem}.html"]
        text = page.path.read_text(encoding="utf-8")
        assert text.count('class="run-locally"') == 1, notebook.name
        assert "&lt;span" not in text.partition("<article")[2].partition("mxlab-explorer")[0]
        copy = html / "_sources" / "notebooks" / notebook.name
        assert json.loads(copy.read_text())["nbformat"] == 4
        assert any(page.target(one.get("href", "")) == copy.resolve() for one in page.all("a"))


def test_a_chapter_leads_each_term_to_the_glossary_once(html: Path) -> None:
    known = pages(html)["book/reference/glossary.html"].ids
    for name, page in pages(html).items():
        if name.startswith("notebooks/"):
            links = [one.get("href", "") for one in page.all("a")]
            links = [link for link in links if "glossary.html#" in link]
            assert len(links) == len(set(links)), name
            assert len(links) > 4, name
            assert {link.partition("#")[2] for link in links} <= known


def test_long_lists_stay_on_their_own_page(html: Path) -> None:
    """The list at the side is the same few pages everywhere."""
    for name, page in pages(html).items():
        if name == "404.html":
            continue
        text = page.path.read_text(encoding="utf-8")
        side = text.partition('class="bd-links')[2].partition("</nav>")[0]
        assert 20 < side.count("<a ") < 60, name
        assert side.count('aria-current="page"') <= 1
        if name.startswith("book/guards/") and name != "book/guards/index.html":
            assert "current active" in side, name


def test_the_page_of_outside_links_lists_them(html: Path) -> None:
    text = (html / "book/reference/external_links.html").read_text(encoding="utf-8")
    listed = set(re.findall(r'href="(https?://[^"]+)"', text))
    elsewhere = {
        one["href"]
        for name, page in pages(html).items()
        for one in page.all("a")
        if one.get("href", "").startswith("http") and "reference" in one.get("class", "").split()
    }
    assert listed and elsewhere <= listed


def test_the_status_page_has_each_notebook_with_its_time(html: Path) -> None:
    text = (html / "book/reference/status.html").read_text(encoding="utf-8")
    rows = re.findall(r"<tr[^>]*>\s*(.*?)</tr>", text, re.S)
    for name in pages(html):
        if name.startswith("notebooks/"):
            row = next(row for row in rows if f'href="../../{name}"' in row)
            assert re.search(r"\d{4}-\d\d-\d\d \d\d:\d\d.*\d+\.\d.*ran to its end", row, re.S), name
