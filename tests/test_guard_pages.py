"""The generated guard pages: one a row, headed by the message, with examples that hold."""

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from myst_parser.config.main import MdParserConfig
from myst_parser.mdit_to_docutils.base import DocutilsRenderer
from myst_parser.parsers.mdit import create_md_parser

from book.site import guard_pages
from book.site.guard_examples import examples
from book.site.guard_explorer import NAME, states
from mxlab.explain import explain
from mxlab.explorers import explorer
from mxlab.guards import GUARDS, Status
from mxlab.guards.engine import Guard

EXTENSIONS = {"colon_fence", "dollarmath", "substitution", "tasklist"}  # those of jupyter-book
IDS = [guard.id for guard in GUARDS]


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("guards")
    (folder / "gone.md").write_text("# A guard that the table no longer has\n")
    (folder / "kept.txt").write_text("not a page")
    written = guard_pages.write(folder)
    assert sorted(path.name for path in folder.glob("*.md")) == sorted(p.name for p in written)
    assert (folder / "kept.txt").exists()
    return {path.stem: path.read_text(encoding="utf-8") for path in written}


def parsed(text: str) -> list[Any]:
    """The tokens of MyST's own parser, with the extensions of the book."""
    config = MdParserConfig(enable_extensions=EXTENSIONS)
    return list(create_md_parser(config, DocutilsRenderer).parse(text))


def shown(tokens: list[Any]) -> str:
    """What a reader sees of inline tokens: letters, code and entities, without the marks."""
    text = ""
    for token in tokens:
        assert token.type in (
            *("inline", "text", "text_special", "code_inline", "softbreak"),
            *("paragraph_open", "paragraph_close"),
        ), token
        text += shown(token.children) if token.children else token.content
    return text


def test_every_row_has_a_page_and_only_those(pages: dict[str, str]) -> None:
    assert set(pages) == {*IDS, "index"}
    assert len(IDS) > 60


@pytest.mark.parametrize("guard", GUARDS, ids=IDS)
def test_heading_is_the_message(guard: Guard, pages: dict[str, str]) -> None:
    lines = pages[guard.id].splitlines()
    at = lines.index(f"({guard.id})=")  # the anchor, right above the heading
    (opened, inline, closed) = parsed(lines[at + 1])
    assert (opened.tag, closed.tag) == ("h1", "h1")
    text = shown(inline.children)
    if not guard.messages:
        assert text == f"No message: {guard.predicate}"
        return
    forms = [re.split(r"\{\w+\}", " ".join(message.split())) for message in guard.messages]
    assert any(re.fullmatch(".*?".join(map(re.escape, form)), text) for form in forms)
    assert [token.type for token in inline.children] == ["code_inline"]
    spoken = [status for status in examples()[guard.id] if status is not Status.PASSES]
    assert not re.search(r"\{\w+\}", text) or not spoken
    # Who pastes the heading is led back to this page.
    assert guard.id in {match.guard.id for match in explain(text).matches} or not spoken


@pytest.mark.parametrize("guard", GUARDS, ids=IDS)
def test_sections_and_related(guard: Guard, pages: dict[str, str]) -> None:
    text = pages[guard.id]
    sections = re.findall(r"^## (.*)$", text, re.M)
    wanted = ["What it means", "When", "What trips it", "What SGLang does instead", "What to do"]
    assert [name for name in sections if name not in ("Try it", "Related")] == [*wanted, "Source"]
    assert ("Related" in sections) == bool(guard.related)
    for id in guard.related:
        assert id in IDS, f"{guard.id} names {id}"
        assert f"]({id}.md)" in text


@pytest.mark.parametrize("guard", GUARDS, ids=IDS)
def test_examples_hold(guard: Guard, pages: dict[str, str]) -> None:
    """Each block of Python on the page runs, and the guard says what the page says it says."""
    page = pages[guard.id].split("\n## ")
    (section,) = [part for part in page if part.startswith("What trips it")]
    said = {words: status for status, words in guard_pages._SAYS.items()}
    block = re.compile(r"^(This [^\n]*:)\n\n```python\n(.*?)\n```\n\n> ([^\n]*)", re.M | re.S)
    found = block.findall(section)
    assert len(found) == section.count("```python") == len(examples()[guard.id]) >= 1
    for words, source, because in found:
        assert max(map(len, source.splitlines())) <= 90
        names: dict[str, Any] = {}
        exec(source, names)
        (verdict,) = [v for v in names["verdicts"] if v.guard == guard.id]
        assert verdict.status is said[words]
        assert shown(parsed(because)) == verdict.because + "."


def test_most_guards_are_seen_both_ways() -> None:
    both = [id for id, mine in examples().items() if Status.PASSES in mine and len(mine) > 1]
    assert len(both) > 0.9 * len(GUARDS)


def test_the_explorer_is_set_to_trip(pages: dict[str, str]) -> None:
    with_explorer = [id for id in IDS if "## Try it" in pages[id]]
    assert len(with_explorer) > 25
    assert {"wsp-deepgemm", "lin-tp-row", "kv-hd32", "cfg-min-capability"} <= set(with_explorer)
    for id in with_explorer:
        answer = explorer(NAME).answer(states()[id])
        lines = [item for run in answer["view"]["panels"][0]["runs"] for item in run["items"]]
        (mine,) = [item for item in lines if item["name"] == id]
        assert mine["status"] not in ("passes", "not-reached")
        assert f'id="will-it-run-{id}"' in pages[id]
    mounts = re.findall(r'class="mxlab-explorer" id="([^"]*)"', "".join(pages.values()))
    assert len(mounts) == len(set(mounts)) == len(with_explorer)


def test_index_lists_all(pages: dict[str, str]) -> None:
    table = re.findall(r"^\| \[.*?\]\(([\w-]+)\.md\) \|", pages["index"], re.M)
    assert table == IDS  # each once, in the order in which they are met
    _, by_subject, by_hardware = pages["index"].split("\n## ")[1:]
    for part in (by_subject, by_hardware):
        assert sorted(re.findall(r"\(([\w-]+)\.md\)", part)) == sorted(IDS)
    rows = [line for line in pages["index"].splitlines() if line.startswith("| [")]
    assert all(len(re.findall(r"(?<!\\)\|", row)) == 5 for row in rows)


def test_pages_are_the_same_each_time(pages: dict[str, str], tmp_path: Path) -> None:
    again = {path.stem: path.read_text(encoding="utf-8") for path in guard_pages.write(tmp_path)}
    assert again == pages


# U+0000 becomes U+FFFD in every CommonMark parser, and the table has no line breaks of other kinds.
TEXT = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Zl", "Zp", "Zs"])
    | st.sampled_from(list(" `*_{}[]<>|$\\#&-+.!~^@:/'\"=%()0a")),
    min_size=1,
)


@settings(max_examples=300, deadline=None)
@given(TEXT)
def test_code_shows_every_letter(text: str) -> None:
    flat = " ".join(text.split())
    if flat:
        (opened, inline, _) = parsed(f"# {guard_pages.code(text)}")
        assert opened.tag == "h1"
        assert shown(inline.children) == flat


@settings(max_examples=300, deadline=None)
@given(TEXT)
@example("a <b> &amp; [c](d) **e** $f$ {g}`h` {{i}} <http://j> # | ~~k~~ \\ !l ^m^ @n 1. o")
def test_prose_shows_every_letter(text: str) -> None:
    sentence = f"x {' '.join(text.split())} x"
    tokens = parsed(guard_pages.prose(sentence))
    assert shown(tokens) == sentence


@pytest.mark.parametrize("guard", GUARDS, ids=IDS)
def test_prose_of_the_table(guard: Guard) -> None:
    for text in (guard.meaning, guard.predicate, *guard.fixes, guard.hardware, guard.source):
        assert shown(parsed("x " + guard_pages.prose(text))) == "x " + text.rstrip()
