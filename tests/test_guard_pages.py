"""The generated guard pages: one a row of each system, with examples and checks that hold."""

import html as entities
import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from myst_parser.config.main import MdParserConfig
from myst_parser.mdit_to_docutils.base import DocutilsRenderer
from myst_parser.parsers.mdit import create_md_parser

from book.site import guard_pages, guard_text
from book.site.guard_check_code import check_of
from book.site.guard_check_rules import find
from book.site.guard_example_known import ALWAYS, NEVER, PASSING, TRIPPING
from book.site.guard_examples import Example, examples, trips
from book.site.guard_explorer import NAME, will_it_run_link
from book.site.guard_index import list_name, system_name
from mxlab.cli import main
from mxlab.explain import explain
from mxlab.explorers import explorer
from mxlab.explorers.guard_row_settings import arguments
from mxlab.guards import Status, facts, guard, system
from mxlab.guards.counterparts import counterparts
from mxlab.guards.data import every_row
from mxlab.guards.engine import Guard
from mxlab.guards.systems import IDS as SYSTEM_IDS
from tools import guard_rows

EXTENSIONS = {"colon_fence", "dollarmath", "substitution", "tasklist"}  # those of jupyter-book
ROWS = list(every_row())
GUARDS = [row for row, _ in ROWS]
IDS = [row.id for row in GUARDS]
LISTS = {list_name(id) for id in SYSTEM_IDS}


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
    assert set(pages) == {*IDS, *LISTS, "index"}
    assert len(IDS) > 450 and len(LISTS) == len(SYSTEM_IDS) > 8


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


@pytest.mark.parametrize("row", GUARDS, ids=IDS)
def test_sections_and_links(row: Guard, pages: dict[str, str]) -> None:
    text = pages[row.id]
    sections = re.findall(r"^## (.*)$", text, re.M)
    name = system_name(row.system)
    wanted = [
        "What it means",
        "What to do",
        "When",
        "What trips it",
        "Try it",
        "Check before launch",
    ]
    wanted += [f"What {name} does instead"]
    optional = ("Models that meet it", "Related", "In other systems")
    assert [one for one in sections if one not in optional] == [*wanted, "Source"]
    own = [id for id in row.related if guard(id).system == row.system]
    assert ("Related" in sections) == bool(own)
    assert ("In other systems" in sections) == bool(counterparts(row))
    for id in (*own, *counterparts(row)):
        assert f"]({id}.md)" in text
    for id in row.related:
        assert f"]({id}.md)" in text, f"{row.id} names {id}, which no section links"
    for link in re.findall(r"\]\(([\w-]+)\.md\)", text):
        assert link in {*IDS, *LISTS}


@pytest.mark.parametrize("guard", GUARDS, ids=IDS)
def test_examples_hold(guard: Guard, pages: dict[str, str]) -> None:
    """Each block of Python on the page runs, and the guard says what the page says it says."""
    page = pages[guard.id].split("\n## ")
    (section,) = [part for part in page if part.startswith("What trips it")]
    said = {words: status for status, words in guard_pages.SAYS.items()}
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


def holds(source: str) -> bool:
    """Whether a check lets its values pass; anything but its own assertion fails the test."""
    names: dict[str, Any] = {}
    try:
        exec(source, names)
    except AssertionError:
        return False
    return True


@pytest.mark.parametrize("row", GUARDS, ids=IDS)
def test_checks_tell_what_trips_from_what_passes(row: Guard, pages: dict[str, str]) -> None:
    """The block on the page fails; with the values of an example that passes it holds."""
    section = pages[row.id].split("\n## Check before launch\n")[1].split("\n## ")[0]
    (shown,) = re.findall(r"```python\n(.*?)\n```", section, re.S)
    assert max(map(len, shown.splitlines())) <= 90
    check, mine = check_of(row), examples()[row.id]
    assert ("mxlab" in shown) == (check.rule is None)
    assert holds(shown) == (trips(row) is None)
    if check.rule is not None:
        assert holds(check.source(None, passing=True))
        for settings, passing in ((check.trips, False), (check.passes, True)):
            assert settings is not None
            status = row.check(facts(**arguments(settings))).status
            assert (status is Status.PASSES) == passing, "the guard says so too"
        assert len(check.source(None).splitlines()) <= 6  # three names, one a line
    elif Status.PASSES in mine:
        assert holds(check.source(mine[Status.PASSES]))


def test_plain_checks_are_the_rules_of_their_guards() -> None:
    def rule(id: str) -> str:
        found = check_of(guard(id)).rule
        assert found is not None, id
        return found.source()

    assert rule("wsp-deepgemm") == "n % 64 == 0 and k % 128 == 0"
    assert rule("kv-hd32") == "head_dim % 32 == 0"
    assert rule("fi-mm-tile") == "n >= 128 and k >= 128"
    assert rule("moe-dg-hidden8k") == "hidden <= 8192"
    assert rule("kv-page128") == "page_size == 128"
    assert rule("torch-v1-n16") == "n % 16 == 0 and k % 16 == 0"
    assert rule("fi-mm-output") == 'out_dtype in ("bfloat16", "float16")'
    assert sum(check_of(row).rule is not None for row in GUARDS) > 120
    shapes = re.compile(r"^[NK] % \d+ != 0(?: or [NK] % \d+ != 0)?$")
    plain = [row for row in GUARDS if shapes.match(row.predicate)]
    assert len(plain) > 8
    assert [row.id for row in plain if check_of(row).rule is None and trips(row)] == []


@pytest.mark.parametrize(
    ("law", "source"),
    [
        (lambda n, k: n % 64 == 0 and k % 128 == 0, "n % 64 == 0 and k % 128 == 0"),
        (lambda n, k: n >= 128, "n >= 128"),
        (lambda n, k: k <= 1024 and k % 32 == 0, "k <= 1024 and k % 32 == 0"),
        (lambda n, k: (n * k) % 4096 == 0, None),  # no condition of one number
        (lambda n, k: n % 64 == 0 or k % 64 == 0, None),
        (lambda n, k: n % 64 == 0 and (k % 32 == 0 or n % 128 == 0), None),  # only jointly wrong
        (lambda n, k: n != 4104 if n in (4096, 4104, 8192) and k == 4096 else None, None),  # few
        (lambda n, k: 1000 <= n <= 1100, None),  # the example's own
        (lambda n, k: n == 2048, None),
        (lambda n, k: True, None),
        (lambda n, k: False, None),
        (lambda n, k: None, None),
    ],
)
def test_a_rule_is_found_or_refused(law: Any, source: str | None) -> None:
    from book.site.guard_check_rules import SIZES

    grids = {"n": SIZES, "k": SIZES}
    found = find(lambda v: law(v["n"], v["k"]), {"n": 4096, "k": 4096}, grids)
    assert (found.source() if found else None) == source


def test_most_guards_are_seen_both_ways() -> None:
    both = [id for id, mine in examples().items() if Status.PASSES in mine and len(mine) > 1]
    assert len(both) > 0.95 * len(GUARDS)
    lone = {row.id for row in GUARDS if trips(row) is None}
    assert all(guard(id).system == "sglang" for id in lone), "every other system's rows are seen"


def test_an_example_that_trips_passes_with_other_settings() -> None:
    example = trips(guard("vllm-block-row"))
    assert isinstance(example, Example) and example.finding.status is Status.STOPS
    assert dict(example.settings)["deployment", "system"] == "vllm"


def test_every_page_has_its_explorer(pages: dict[str, str]) -> None:
    """It is the page's own guard, set to trip; without a script the page reads the same."""
    for row in GUARDS:
        (section,) = [part for part in pages[row.id].split("\n## ") if part.startswith("Try it")]
        (shown,) = re.findall(r"````\{raw\} html\n(.*?)\n````", section, re.S)
        assert shown.startswith(f'<div class="mxlab-explorer" id="guard-{row.id}"')
        assert f'data-name="guard:{row.id}"' in shown
        state = json.loads(entities.unescape(re.findall(r'data-state="([^"]*)"', shown)[0]))
        view = explorer(f"guard:{row.id}").view(state)
        assert (view.status == Status.PASSES) == (row.id in NEVER)
        assert f"<strong>{view.sign} {entities.escape(view.answer, quote=False)}" in (
            shown.replace("&quot;", '"')
        )
        assert len(shown.encode()) < 18_000, "a page stays light"
    mounts = re.findall(r'class="mxlab-explorer" id="([^"]*)"', "".join(pages.values()))
    assert sorted(mounts) == sorted(f"guard-{id}" for id in IDS)


def test_a_link_leads_to_the_whole_deployment(pages: dict[str, str]) -> None:
    """Its address sets "Will it run?" to a state in which the guard speaks."""
    linked = {row.id: will_it_run_link(row) for row in GUARDS if will_it_run_link(row)}
    assert len(linked) > 35
    assert {"wsp-deepgemm", "lin-tp-row", "kv-hd32", "cfg-min-capability"} <= set(linked)
    for id, link in linked.items():
        assert f'<a href="{link}">' in pages[id]
        given = parse_qsl(entities.unescape(link).partition("#")[2])
        state = {name.removeprefix("will_it_run-1."): value for name, value in given}
        answer = explorer(NAME).answer(state)
        lines = [item for run in answer["view"]["panels"][0]["runs"] for item in run["items"]]
        (mine,) = [item for item in lines if item["name"] == id]
        assert mine["status"] not in ("passes", "not-reached")


@pytest.mark.parametrize(("row", "version"), ROWS[::11], ids=IDS[::11])
def test_the_settings_of_the_explorers_are_what_the_search_finds(row: Guard, version: str) -> None:
    """Of every eleventh row; that each trips, and is mended, is asked of all of them elsewhere."""
    table = json.loads(guard_rows.FILE.read_text(encoding="utf-8"))["guards"]
    again = json.loads(guard_rows.text({row.id: guard_rows.row(row, version)}))["guards"]
    assert again[row.id] == table[row.id], "run python -m tools.guard_rows"


def test_known_examples_are_what_they_say() -> None:
    for known, trip in ((TRIPPING, True), (PASSING, False)):
        for id, known_settings in known.items():
            version = str(dict(known_settings).get(("deployment", "version"), ""))
            (row,) = [row for row in system("sglang", version).guards if row.id == id]
            status = row.check(facts(**arguments(known_settings))).status
            assert (status is Status.PASSES) != trip and status is not Status.NOT_REACHED
    lone = {row.id for row in GUARDS if trips(row) is None}
    assert lone == set(NEVER), "each says why nothing trips it"
    assert {id for id, mine in examples().items() if Status.PASSES not in mine} == set(ALWAYS)


def test_lists_hold_all(pages: dict[str, str]) -> None:
    for id in SYSTEM_IDS:
        mine = [row.id for row in GUARDS if row.system == id]
        listed = pages[list_name(id)]
        table = re.findall(r"^\| \[.*\]\(([\w-]+)\.md\)[^|]*\|", listed, re.M)
        assert sorted(table) == sorted(mine)  # each once
        rows = [line for line in listed.splitlines() if line.startswith("| [")]
        assert all(len(re.findall(r"(?<!\\)\|", row)) == 5 for row in rows)
        assert f"]({list_name(id)}.md)" in pages["index"]
    by_system, by_stage, by_hardware, by_subject = pages["index"].split("\n## ")[1:]
    for part in (by_stage, by_hardware, by_subject):
        assert sorted(re.findall(r"\(([\w-]+)\.md\)", part)) == sorted(IDS)
    assert "guards.json" in by_system and "guards.schema.json" in by_system


def test_data_is_what_the_command_prints(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written = guard_pages.write_data(tmp_path)
    names = {str(path.relative_to(tmp_path)) for path in written}
    assert names == {"guards.json", "guards.schema.json", *(f"guards/{id}.json" for id in IDS)}
    for name, argv in (
        ("guards.json", ["--json"]),
        ("guards.schema.json", ["--schema"]),
        ("guards/fi-mm-tile.json", ["fi-mm-tile", "--json"]),
        ("guards/imp-flashinfer.json", ["imp-flashinfer", "--json"]),
    ):
        assert main(["guards", *argv]) == 0
        assert (tmp_path / name).read_bytes() == capsys.readouterr().out.encode()


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
        (opened, inline, _) = parsed(f"# {guard_text.code(text)}")
        assert opened.tag == "h1"
        assert shown(inline.children) == flat


@settings(max_examples=300, deadline=None)
@given(TEXT)
@example("a <b> &amp; [c](d) **e** $f$ {g}`h` {{i}} <http://j> # | ~~k~~ \\ !l ^m^ @n 1. o")
def test_prose_shows_every_letter(text: str) -> None:
    sentence = f"x {' '.join(text.split())} x"
    tokens = parsed(guard_text.prose(sentence))
    assert shown(tokens) == sentence


@pytest.mark.parametrize("guard", GUARDS, ids=IDS)
def test_prose_of_the_table(guard: Guard) -> None:
    for text in (guard.meaning, guard.predicate, *guard.fixes, guard.hardware, guard.source):
        assert shown(parsed("x " + guard_text.prose(text))) == "x " + text.rstrip()


def test_no_plain_check_leaves_out_what_decides(pages: dict[str, str]) -> None:
    """Sizes of groups are never reduced to one m; anything else a guard hears is named."""
    named = grouped = 0
    for row, _ in every_row():
        heard = [control.name for control in explorer(f"guard:{row.id}").controls]
        rule = check_of(row).rule
        if "groups" in heard:
            grouped += 1
            assert rule is None or "m" not in rule.conditions, row.id
        if rule is None:
            continue
        intro = next(line for line in pages[row.id].splitlines() if line.startswith("To paste "))
        others = [name for name in heard if name not in rule.conditions]
        assert intro.count(" = ") == len(others), row.id
        named += len(others)
    assert grouped >= 4 and named > 300


def test_texts_of_several_checks_say_so_and_ids_are_links(pages: dict[str, str]) -> None:
    for row, other in (("te-group-align", "te-dim32"), ("lin-tp-row", "lin-tp-ct")):
        for one, another in ((row, other), (other, row)):
            head = pages[one].split("## What it means")[0]
            assert re.search("Other checks print (this text|one of these texts), too", head)
            assert f"[`{another}`]({another}.md)" in head
    assert sum("Other checks print " in text for text in pages.values()) > 40
    assert "Other checks print " not in pages["kv-hd32"]
    assert "([`moe-hw`](moe-hw.md))" in pages["arg-moe-runner-mxfp8"]


def test_commands_and_calls_in_a_text_are_code() -> None:
    text = guard_text.prose("mxlab layout ROWS COLS --layout tile_128x4 prints it")
    assert text == "`mxlab layout ROWS COLS --layout tile_128x4` prints it"
    assert guard_text.sentence(guard_text.prose("mxlab detect")) == "`mxlab detect`."
    assert guard_text.sentence(guard_text.prose("mxlab needs none")) == "Mxlab needs none."
    call = "mxfp8_quantize(..., is_sf_swizzled_layout=True) makes the scales"
    assert guard_text.prose(call).startswith("`mxfp8_quantize(..., is_sf_swizzled_layout=True)` ")
