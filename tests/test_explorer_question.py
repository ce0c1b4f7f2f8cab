"""Live questions: every exercise of every chapter as a reader types it, and what nobody should."""

import json
import re
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from notebook_solutions import solutions

from mxlab import InputError
from mxlab.exercises import CHAPTERS, check, exercises
from mxlab.exercises.checker import Exercise, difference, kind
from mxlab.explorers import answer, explorer, question_code
from mxlab.explorers.question_literal import literal
from mxlab.explorers.still import still
from tools.site_assets import package_zip

ROOT = Path(__file__).parents[1]
ALL = [row for chapter in CHAPTERS for row in exercises(chapter).values()]
VALUES = [row for row in ALL if row.cases is None]
FUNCTIONS = [row for row in ALL if row.cases and not row.needs]
SOLUTIONS = solutions()


def said(name: str, yours: object, tries: object = 0) -> tuple[str, list[str]]:
    """The status and the lines of one answer."""
    found = json.loads(answer(f"question:{name}", json.dumps({"yours": yours, "tries": tries})))
    assert "error" not in found, found
    return found["view"]["status"], found["view"]["answer"].split("\n")


def typed(value: object) -> str:
    """A value as a reader types it."""
    return value if isinstance(value, str) else repr(value)


def test_all_kinds_of_exercises_are_looked_at() -> None:
    assert len(VALUES) > 12 and len(FUNCTIONS) > 10
    assert {kind(row.spec()) for row in VALUES} >= {"a number", "several values"}


@pytest.mark.parametrize("row", VALUES, ids=lambda row: row.name)
def test_the_right_answer_is_accepted_and_every_mistake_is_named(row: Exercise) -> None:
    assert said(row.name, typed(row.spec())) == ("passes", ["Right."])
    assert said(row.name, f"  {typed(row.spec())} ", 9) == ("passes", ["Right."])
    for mistake in row.mistakes:
        status, lines = said(row.name, typed(mistake.spec()))
        assert (status, lines[0]) == ("warns", "Not yet.")
        assert mistake.says in lines
    assert row.mistakes


@pytest.mark.parametrize("row", VALUES, ids=lambda row: row.name)
def test_the_hint_is_at_the_second_wrong_try_and_the_answer_at_none(row: Exercise) -> None:
    right = row.spec()
    wrong = [typed(mistake.spec()) for mistake in row.mistakes]
    parts = [right] if not isinstance(right, list | tuple) else [right, list(right)]
    forms = {repr(part) for part in parts} | {f"{part:,}" for part in parts if type(part) is int}
    secret = re.compile("|".join(rf"(?<![\w.,]){re.escape(form)}(?![\w,]|\.\d)" for form in forms))
    assert secret.search(answer(f"question:{row.name}", json.dumps({"yours": typed(right)})))
    record = explorer(f"question:{row.name}")
    page = still(record, {"yours": typed(right), "tries": 3}, "here").replace(row.asks, "")
    assert not secret.search(page.replace(record.controls[0].help, "")), "in a saved output"
    for yours in (*wrong, "", "nonsense", "no ("):
        for tries in (0, 1, 7):
            text = answer(f"question:{row.name}", json.dumps({"yours": yours, "tries": tries}))
            hint = json.dumps(f"Hint: {row.hint}")[1:-1]
            assert (hint in text) is (tries >= 1 and '"warns"' in text)
            assert not secret.search(text), (yours, tries)


def test_a_number_is_read_in_the_forms_that_people_write() -> None:
    for text in ("1569", "0x621", "0b11000100001", "3*512 + 2*16 + 1", "1,569", "1_569", "1569.0"):
        assert said("5.1", text) == ("passes", ["Right."]), text
    for text in ("True, True, False", "(true, true, false)", "[True, True, False]"):
        assert said("4.1", text) == ("passes", ["Right."]), text
    assert said("0.2", "2**-13 * 4")[0] == "passes"


@pytest.mark.parametrize(
    ("yours", "line"),
    [
        ("row 5", "This exercise asks for a number."),
        ("(1, 2)", "This exercise asks for a number."),
        ("True", "This exercise asks for a number."),
        ("1569 bytes", "Not checked."),
        ("2^-9", "Not checked."),
        ("1/0", "Not checked."),
        ("__import__('os').system('x')", "Not checked."),
        ("{1: 2}", "Not checked."),
        ("[x for x in 'ab']", "Not checked."),
        ("f'{1}'", "Not checked."),
        ("b'a'", "Not checked."),
        ("1j", "Not checked."),
        ("'a' * 10**9", "Not checked."),
        ("9**9**9", "Not checked."),
        ("10**10000", "Not checked."),
        ("1 << 10**9", "Not checked."),
        ("(-8) ** 0.5", "Not checked."),
        ("9.5e300 ** 9", "Not checked."),
        ("(" * 400 + ")", "Not checked."),
        ("[" * 200 + "]" * 200, "Not checked."),
        ("-" * 400 + "1", "Not checked."),
        ("1+" * 249 + "1", "Not yet."),
        ("a\0b", "Not checked."),
        ("\ud800", "Not checked."),
        ("9" * 10_000_000, "Nothing to check yet: type your answer, then press Check."),
        ("9" * 1_000_000, "Not checked."),
        ("...", "Nothing to check yet: type your answer, then press Check."),
        (None, "Nothing to check yet: type your answer, then press Check."),
        ({"a": 1}, "Nothing to check yet: type your answer, then press Check."),
    ],
    ids=lambda value: str(value)[:20],
)
def test_what_is_no_answer_is_told_in_a_line_and_is_no_try(yours: object, line: str) -> None:
    begun = time.perf_counter()
    status, lines = said("5.1", yours, 1)
    assert time.perf_counter() - begun < 1
    assert lines[0] == line and len(lines) <= 2 + (line == "Not yet.")
    assert (status == "warns") is (line == "Not yet.")
    assert all(len(text) < 260 for text in lines), lines


def test_tries_of_any_kind_are_bounded() -> None:
    for tries in (-3, "x", None, 1e400, True, [1]):
        text = json.dumps({"yours": "7", "tries": tries}).replace("Infinity", "1e999")
        assert "Hint" not in answer("question:5.1", text)
    assert "Hint" in answer("question:5.1", json.dumps({"yours": "7", "tries": 10**30}))


def test_an_unknown_question_is_one_line() -> None:
    for name in ("5.99", "77.1", "", "5", "../x", "p", "x" * 10**6, "\0"):
        found = json.loads(answer(f"question:{name}", "{}"))
        assert "view" not in found and "\n" not in found["error"] and len(found["error"]) < 400


def test_a_word_is_a_text_and_a_sequence_keeps_its_kind() -> None:
    assert literal("tile_128x4") == "tile_128x4"
    assert literal("experts.w13") == "experts.w13"
    assert literal("[floor, 'r c', 0x7e]") == ["floor", "r c", 126]
    assert str(literal("nan")) == "nan" and literal("-inf") == float("-inf")
    with pytest.raises(InputError, match=r"2\*\*-9"):
        literal("2^-9")


# ---- functions: the reader's code


def test_outside_a_page_no_code_is_run(tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    code = f"open({str(mark)!r}, 'w')\ndef offset(row, col, rows, cols):\n    return 0"
    status, lines = said("5.2", code)
    assert status == "unknown" and "in a notebook" in lines[1]
    assert not mark.exists()


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(question_code, "runs_here", lambda: True)


@pytest.mark.usefixtures("page")
@pytest.mark.parametrize("row", FUNCTIONS, ids=lambda row: row.name)
def test_the_solution_and_its_start_text_are_read(row: Exercise) -> None:
    control = explorer(f"question:{row.name}").controls[0]
    assert control.default == f"def {row.call()}:\n    ..."
    assert said(row.name, control.default)[0] == "unknown"
    assert len(next(iter(row.cases()))) == len(row.call().split(",")) if row.cases else False
    status, lines = said(row.name, SOLUTIONS[row.name])
    assert status == "passes" and lines[0].startswith("Right, in all "), lines
    wrong = f"def {row.call()}:\n    return 'wrong'"
    for tries in (0, 1):
        status, lines = said(row.name, wrong, tries)
        assert status == "warns" and lines[1].startswith("first difference: ")
        assert (f"Hint: {row.hint}" in lines) is (tries == 1)


@pytest.mark.usefixtures("page")
@pytest.mark.parametrize(
    ("code", "line"),
    [
        ("def offset(row, col, rows, cols)\n    return 1", "line 1: expected ':'"),
        ("x = 1\ny = z", "line 2: NameError: \"name 'z' is not defined\""),
        ("import numpy_of_nobody", "'numpy_of_nobody' cannot be imported: the page has Python's"),
        ("import sys\nsys.exit(3)", "line 2: SystemExit: '3'"),
        ("offset = 3", "expected a function offset(row, col, rows, cols)"),
        ("def other(): pass", "expected a function offset(row, col, rows, cols)"),
        ("#" * 10_000, "the code has over 5,000 characters"),
        ("a\0b", "line 1: invalid character"),
        ("class E(Exception):\n    def __str__(s): raise s\nraise E", "line 3: E: an error that"),
    ],
)
def test_code_that_makes_no_function_says_why(code: str, line: str) -> None:
    status, lines = said("5.2", code, 1)
    assert status == "unknown" and lines[0] == "Not checked."
    assert lines[1].startswith(line), lines


@pytest.mark.usefixtures("page")
@pytest.mark.parametrize(
    ("body", "line"),
    [
        ("return offset(row, col, rows, cols)", "yours raises RecursionError"),
        ("raise SystemExit(4)", "yours raises SystemExit: '4'"),
        ("raise GeneratorExit", "yours raises GeneratorExit"),
        ("print('x' * 99); return -1", "yours: -1"),
        ("return 10 ** 9999", "yours: <int with too many digits>"),
        ("return [[]] * 10**6", "yours: [[], [], "),
        ("return type('A', (), {'__repr__': lambda s: 1 / 0})()", "yours: <A that cannot be writ"),
        ("return type('A', (), {'__getattr__': lambda s, n: 1 / 0})()", "yours raises ZeroDiv"),
    ],
)
def test_a_function_that_misbehaves_gets_a_verdict(
    body: str, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    status, lines = said("5.2", f"def offset(row, col, rows, cols):\n    {body}")
    assert status == "warns"
    assert any(text.startswith(line) for text in lines), lines
    assert capsys.readouterr().out == ""


# ---- where the book shows them


def test_in_the_book_an_open_cell_is_a_live_question(monkeypatch: pytest.MonkeyPatch) -> None:
    verdict = check("5.1", ...)
    assert verdict._repr_html_() is None
    monkeypatch.setenv("MXLAB_BOOK", "1")
    first, second = check("5.1", ...)._repr_html_(), check("5.1", ...)._repr_html_()
    assert first is not None and second is not None
    ids = [re.findall(r' id="([^"]*)"', html) for html in (first, second)]
    assert all(len(found) == 1 and found[0].startswith("question-5-1") for found in ids)
    assert ids[0] != ids[1], "two mounts of one name on a page"
    assert 'data-name="question:5.1"' in first and "row 130, column 5" in first
    assert "<img" not in first and "make lab" in first
    assert check("5.2", lambda *_: None)._repr_html_() is not None
    assert check("5.1", 7)._repr_html_() is None, "an answered cell shows its verdict"
    assert check("5.1", 1569)._repr_html_() is None
    assert repr(verdict).startswith("Nothing to check yet: put your answer in")


@pytest.mark.parametrize("row", [row for row in ALL if row.needs], ids=lambda row: row.name)
def test_what_needs_more_than_python_says_so_and_starts_nothing(row: Exercise) -> None:
    html = still(explorer(f"question:{row.name}"), {}, "here")
    assert "torch and Triton" in html and "make lab" in html and "data-name" not in html
    view = json.loads(answer(f"question:{row.name}", "{}"))["view"]
    assert view["status"] == "unknown" and "torch and Triton" in view["answer"]


def test_answers_are_private(tmp_path: Path) -> None:
    for row in (VALUES[0], FUNCTIONS[0]):
        record = explorer(f"question:{row.name}")
        assert record.spec()["bare"] is True
        assert [one.get("private") for one in record.spec()["controls"]] == [True, True]
        evil = "import os" + "x" * 20
        assert evil not in still(record, {"yours": evil, "tries": 9}, "here")


# ---- the page's Python


def test_pyodide_says_what_the_kernel_says_and_runs_the_reader_s_functions(tmp_path: Path) -> None:
    node = shutil.which("node")
    assert node and (ROOT / "node_modules" / "pyodide").is_dir(), "needs node and: npm ci"
    archive = tmp_path / "mxlab.zip"
    archive.write_bytes(package_zip(ROOT / "mxlab"))
    asked: dict[str, list[str]] = {}
    for row in VALUES:
        texts = [typed(row.spec()), *(typed(one.spec()) for one in row.mistakes), "1 2", "(" * 39]
        asked[f"question:{row.name}"] = [json.dumps({"yours": t, "tries": 1}) for t in texts]
    deep = ["1+" * 249 + "1", "2**" * 39 + "1", "1," * 249, "x.x" * 160, "1 if 1 else " * 40 + "0"]
    asked["question:5.1"] += [json.dumps({"yours": text, "tries": 0}) for text in deep]
    for row in FUNCTIONS:
        asked[f"question:{row.name}"] = [json.dumps({"yours": SOLUTIONS[row.name], "tries": 0})]
    done = subprocess.run(
        [node, str(ROOT / "tests/node/pyodide_answers.mjs")],
        input=json.dumps({"zip": str(archive), "asked": asked}),
        capture_output=True,
        text=True,
        check=True,
    )
    answers = json.loads(done.stdout)["answers"]
    for row in VALUES:
        name = f"question:{row.name}"
        assert answers[name] == [answer(name, state) for state in asked[name]]
    for row in FUNCTIONS:
        (one,) = answers[f"question:{row.name}"]
        assert json.loads(one)["view"]["answer"].startswith("Right, in all "), (row.name, one)


def test_difference_sees_that_lists_and_tuples_are_alike() -> None:
    assert difference([True, True, False], (True, True, False)) is None
