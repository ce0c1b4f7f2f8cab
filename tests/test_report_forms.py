"""Reports as CSV, HTML and JUnit XML: complete, self-contained, and safe with hostile names."""

import csv
import io
import json
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from mxlab.diagnosis import Report
from mxlab.doctor import doctor
from mxlab.errors import InputError
from mxlab.guards import Deployment, Status
from mxlab.models import read_config
from mxlab.report.common import Provenance, clean, write_whole
from mxlab.report.html_page import grid_html, reports_html
from mxlab.report.junit import grid_junit, reports_junit
from mxlab.report.sheet import grid_csv, guarded, reports_csv
from mxlab.report.text import render
from mxlab.sweep import Grid, parse_axes, sweep

MODELS = Path(__file__).parent / "data/models"
#: what a file name or a config may try on a reader of the report
HOSTILE = '=cmd|"/c calc"!A1<script>alert(1)</script>&\x00\x1b[31m\ud800"\'\u202e'
MADE = Provenance(argv=["doctor", "a model.json", "--gpu", "b200"])
VOID = {"meta", "br"}


def reports() -> list[tuple[str, Report]]:
    flags: dict[str, Any] = {"gpu": "b200", "tp": 8, "quantization": "mxfp8"}
    kv = Deployment(**flags, kv_cache_dtype="mxfp8")
    config = read_config("Qwen2.5-72B-Instruct")
    config["architectures"] = ["Qwen2ForCausalLM", HOSTILE]
    return [
        ("Qwen2.5-72B-Instruct", doctor(MODELS / "Qwen2.5-72B-Instruct.json", kv, prologue=True)),
        ("Llama-3.1-8B", doctor(MODELS / "Llama-3.1-8B.json", Deployment(**flags))),
        ("Kimi", doctor(MODELS / "Kimi-K2.5.json", Deployment(gpu="b200", tp=8), suggest=False)),
        ("Qwen3-30B-A3B", doctor("Qwen3-30B-A3B", Deployment(**{**flags, "gpu": "mi355x"}))),
        (HOSTILE, doctor(config, Deployment(**flags))),
    ]


REPORTS = reports()


def grid(name: str = "Llama-3.1-8B") -> Grid:
    axes = parse_axes(["tp=1,3,8", "ep=1,2", "gpu=h200,b200,mi355x"])
    config = read_config(MODELS / "Llama-3.1-8B.json")
    base = Deployment(quantization="mxfp8")
    return sweep({name: config, "gpt2": read_config(MODELS / "gpt2.json")}, base, axes)


class Page(HTMLParser):
    """Reads a page strictly: tags close in order; collects what a reader or an attacker sees."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def parse(html: str) -> Page:
    page = Page()
    page.feed(html)
    page.close()
    assert page.open == [] and html.startswith("<!doctype html>")
    return page


@pytest.mark.parametrize("html", [reports_html(REPORTS, MADE), grid_html(grid(HOSTILE), MADE)])
def test_the_page_needs_nothing_and_runs_nothing(html: str) -> None:
    page = parse(html)
    tags = {tag for tag, _ in page.tags}
    assert not tags & {"script", "link", "img", "iframe", "object", "embed", "base", "form", "a"}
    assert tags >= {"table", "caption", "main", "h1", "h2", "footer", "style"}
    for tag, attributes in page.tags:
        assert not {"src", "href", "style"} & attributes.keys(), tag
        assert not any(name.startswith("on") for name in attributes), tag
    assert "url(" not in html and "@import" not in html and "http" not in html.split("<style>")[1]
    policy = [row for tag, row in page.tags if row.get("http-equiv") == "Content-Security-Policy"]
    assert policy and "default-src 'none'" in str(policy[0]["content"])
    shown = "".join(page.text)
    assert "<script>alert(1)</script>" in shown  # as text
    assert not any(c in html for c in "\x00\x1b\ud800\u202e")
    assert "mxlab doctor 'a model.json' --gpu b200" in shown and "UTC" in shown
    assert "SGLang 0.5.23" in shown


@pytest.mark.parametrize("html", [reports_html(REPORTS, MADE), grid_html(grid(), MADE)])
def test_every_table_has_a_caption_and_headers_with_a_scope(html: str) -> None:
    page = parse(html)
    tables = [tag for tag, _ in page.tags].count("table")
    assert tables >= 3 and [tag for tag, _ in page.tags].count("caption") == tables
    scopes = [attributes.get("scope") for tag, attributes in page.tags if tag == "th"]
    assert set(scopes) == {"col", "row"}
    assert dict(page.tags)["html"]["lang"] == "en"
    for part in html.split("<tbody>")[1:]:
        rows = part.split("</tbody>")[0].split("<tr>")[1:]
        assert all(row.count("<th") == 1 for row in rows)
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))


def test_the_page_says_what_the_report_says() -> None:
    shown = "".join(parse(reports_html(REPORTS, MADE)).text)
    for _, report in REPORTS:
        for _, verdict in report.subjects():
            if verdict.status is Status.STOPS:
                assert verdict.guard in shown and verdict.because in shown
        for suggestion in report.suggestions:
            assert all(change in shown for change in suggestion["changes"])
        for text in report.shapes.unknown:
            assert text in shown


def test_csv_has_every_verdict_and_no_formula() -> None:
    text = reports_csv(REPORTS)
    rows = list(csv.DictReader(io.StringIO(text)))
    assert len(rows) == sum(len(list(report.subjects())) for _, report in REPORTS) > 500
    for row in rows:
        assert None not in row and None not in row.values()
        for value in row.values():
            assert value == "" or (value[0] not in "=+@\t\r\n" and not value.startswith("-"))
    stops = [row for row in rows if row["status"] == "stops" and row["model"].startswith("Qwen2.5")]
    assert {"lin-tp-row", "kv-page128"} <= {row["guard"] for row in stops}
    row = next(row for row in stops if row["guard"] == "lin-tp-row")
    assert (row["where"], row["n"], row["k"], row["tp"]) == ("down_proj", "8192", "3696", "8")
    assert any(row["model"].startswith("'=cmd|") for row in rows)


def test_csv_of_a_grid_reads_back_as_its_cells() -> None:
    found = grid()
    rows = list(csv.DictReader(io.StringIO(grid_csv(found))))
    assert len(rows) == len(found.cells) == 36
    for row, cell in zip(rows, found.cells, strict=True):
        assert (row["model"], row["outcome"], row["guard"]) == (
            cell.model,
            cell.outcome,
            cell.guard,
        )
        assert {name: row[name] for name in cell.at} == {n: str(v) for n, v in cell.at.items()}


@pytest.mark.parametrize("value", ["=1+1", "+1", "-1", "@SUM(1)", "\t=1", "\n=1", "--tp 4"])
def test_a_spreadsheet_sees_text(value: str) -> None:
    assert str(guarded(value)).startswith("'") and guarded(-1) == -1 and guarded(None) == ""


#: child elements of the JUnit schema that CI systems share, in their order
CHILDREN = {
    "testsuites": ["testsuite"],
    "testsuite": ["properties", "testcase"],
    "properties": ["property"],
    "testcase": ["skipped", "failure", "system-out"],
    "property": [],
    "failure": [],
    "skipped": [],
    "system-out": [],
}
REQUIRED = {
    "testsuites": {"name", "tests", "failures", "errors"},
    "testsuite": {"name", "tests", "failures", "errors", "skipped", "time", "timestamp"},
    "testcase": {"name", "classname", "time"},
    "property": {"name", "value"},
    "failure": {"message", "type"},
    "skipped": {"message"},
}


def check_junit(text: str) -> ET.Element:
    """Hold a document against the schema: elements, their order, attributes, and the counts."""
    root = ET.fromstring(text)
    assert root.tag == "testsuites"
    for element in root.iter():
        order = [CHILDREN[element.tag].index(child.tag) for child in element]
        assert order == sorted(order)
        assert REQUIRED.get(element.tag, set()) <= element.attrib.keys()
    for suite in root:
        cases = suite.findall("testcase")
        counted = {
            "tests": len(cases),
            "failures": len(suite.findall("testcase/failure")),
            "skipped": len(suite.findall("testcase/skipped")),
            "errors": 0,
        }
        assert counted == {key: int(suite.attrib[key]) for key in counted}
        names = [case.attrib["name"] for case in cases]
        assert len(names) == len(set(names)) and all(len(case) <= 2 for case in cases)
    for key in ("tests", "failures", "skipped"):
        assert int(root.attrib[key]) == sum(int(suite.attrib[key]) for suite in root)
    return root


def test_junit_fails_where_the_doctor_stops_and_skips_what_is_unknown() -> None:
    root = check_junit(reports_junit(REPORTS, MADE))
    assert len(root) == len(REPORTS)
    for suite, (_, report) in zip(root, REPORTS, strict=True):
        cases = {case.attrib["name"]: case for case in suite.findall("testcase")}
        stopped = {where for where, v in report.subjects() if v.status is Status.STOPS}
        assert {name for name, case in cases.items() if case.find("failure") is not None} == stopped
        assert {layer.linear.linear for layer in report.layers} <= cases.keys()
        assert (int(suite.attrib["failures"]) > 0) == (report.outcome == "stops")
    failure = root[0].find("testcase[@name='down_proj']/failure")
    assert failure is not None and failure.attrib["type"] == "lin-tp-row"
    assert "3696 is not divisible by" in failure.attrib["message"]
    assert "because: TP 8, K = 3696 % 32 = 16" in str(failure.text)
    assert root[2].attrib["skipped"] != "0"  # Kimi's own method has no guards
    assert root[1].attrib["failures"] == root[1].attrib["skipped"] == "0"


def test_junit_of_a_grid_has_a_case_for_each_cell() -> None:
    found = grid(HOSTILE)
    root = check_junit(grid_junit(found, MADE))
    assert [len(suite.findall("testcase")) for suite in root] == [18, 18]
    stops = sum(cell.outcome == "stops" for cell in found.cells)
    invalid = sum(cell.outcome == "invalid" for cell in found.cells)
    assert int(root.attrib["failures"]) == stops > 0 and invalid > 0
    assert int(root.attrib["skipped"]) == invalid


@pytest.mark.parametrize("form", [reports_csv, lambda r: reports_html(r, MADE)])
def test_every_form_can_be_written_as_utf_8(form: Any) -> None:
    form(REPORTS).encode("utf-8")
    reports_junit(REPORTS, MADE).encode("utf-8")
    for name, report in REPORTS:
        render(name, report).encode("utf-8")
        json.dumps(report.to_json(), allow_nan=False).encode("utf-8")


def test_characters_that_no_form_can_hold_are_replaced_and_others_kept() -> None:
    kept = "Llama é 漢字 ✓\t\n"
    assert clean(kept) == kept
    bad = "\x00\x08\x1b\x7f\x85\ud800\ufffe\u202e\u2028"
    assert clean(bad) == "\ufffd" * len(bad)


def test_a_report_can_be_made_again_byte_for_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1790000000")
    first = Provenance(argv=["doctor"])
    assert f"{first.made:%Y-%m-%d}" == "2026-09-21"
    again = Provenance(argv=["doctor"])
    assert reports_html(REPORTS[:1], first) == reports_html(REPORTS[:1], again)


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    place = tmp_path / "report.html"
    place.write_text("old")
    place.chmod(0o640)
    write_whole(str(place), "new")
    assert place.read_text() == "new" and place.stat().st_mode & 0o777 == 0o640
    with pytest.raises(InputError, match="cannot be written"):
        write_whole(str(place), "half\ud800")
    assert place.read_text() == "new" and list(tmp_path.iterdir()) == [place]
    link = tmp_path / "link.html"
    link.symlink_to(place)
    write_whole(str(link), "through")
    assert link.is_symlink() and place.read_text() == "through"
