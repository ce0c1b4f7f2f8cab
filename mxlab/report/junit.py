"""Reports and grids as JUnit XML, so that a deployment repository can run them in its CI.

One test suite for each model and deployment, one test case for each linear, the server arguments,
the KV cache and the prologue. A stop is a failure, an unknown is skipped, what degrades without
stopping stands in ``system-out``. Elements and attributes are those of the schema that Jenkins,
GitLab and GitHub's readers share.
"""

import xml.etree.ElementTree as ET
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from mxlab.diagnosis import Report, deployment_json
from mxlab.guards import Status, Verdict
from mxlab.report.common import Provenance, clean, said
from mxlab.sweep import Cell, Grid


@dataclass(slots=True)
class _Case:
    """One test case: what failed, what is unknown, what else was said."""

    name: str
    failures: list[str] = field(default_factory=list)  # the first line is the message
    skipped: str = ""
    notes: list[str] = field(default_factory=list)
    type: str = ""


def _line(verdict: Verdict) -> str:
    head = f"{verdict.status} {verdict.guard} ({verdict.stage})"
    return f"{head}: {verdict.message or verdict.because}"


def _body(verdict: Verdict) -> str:
    fixes = [f"fix: {fix}" for fix in verdict.fixes]
    return "\n".join([_line(verdict), f"because: {verdict.because}", *fixes, verdict.source])


def _case(name: str, verdicts: Iterable[Verdict]) -> _Case:
    case = _Case(name)
    for verdict in verdicts:
        if verdict.status is Status.STOPS:
            case.failures.append(_body(verdict))
            case.type = case.type or verdict.guard
        elif verdict.status is Status.UNKNOWN:
            case.skipped = case.skipped or _line(verdict)
        elif said(verdict):
            case.notes.append(_body(verdict))
    return case


def _cases(report: Report) -> list[_Case]:
    groups: dict[str, list[Verdict]] = {"server": []}
    for layer in report.layers:
        groups[layer.linear.linear] = []
    if report.shapes.kv:
        groups["kv_cache"] = []
    for where, verdict in report.subjects():
        groups.setdefault(where, []).append(verdict)
    cases = [_case(name, verdicts) for name, verdicts in groups.items()]
    return cases + [_Case(f"unknown: {text}", skipped=text) for text in report.shapes.unknown]


def _suite(
    name: str,
    classname: str,
    cases: Sequence[_Case],
    properties: Iterable[tuple[str, object]],
    provenance: Provenance,
) -> ET.Element:
    counts = {
        "tests": len(cases),
        "failures": sum(bool(case.failures) for case in cases),
        "errors": 0,
        "skipped": sum(bool(case.skipped and not case.failures) for case in cases),
    }
    suite = ET.Element("testsuite", name=clean(name), time="0")
    suite.set("timestamp", f"{provenance.made:%Y-%m-%dT%H:%M:%S}")
    for key, count in counts.items():
        suite.set(key, str(count))
    listed = ET.SubElement(suite, "properties")
    for key, value in (*properties, ("command", provenance.command)):
        ET.SubElement(listed, "property", name=key, value=clean(value))
    for case in cases:
        element = ET.SubElement(
            suite, "testcase", classname=clean(classname), name=clean(case.name), time="0"
        )
        if case.failures:
            first = case.failures[0].split("\n", 1)[0]
            failure = ET.SubElement(element, "failure", message=clean(first), type=case.type)
            failure.text = clean("\n\n".join(case.failures))
        elif case.skipped:
            ET.SubElement(element, "skipped", message=clean(case.skipped))
        if case.notes:
            ET.SubElement(element, "system-out").text = clean("\n\n".join(case.notes))
    return suite


def _document(suites: Sequence[ET.Element]) -> str:
    root = ET.Element("testsuites", name="mxlab doctor", time="0")
    for key in ("tests", "failures", "errors", "skipped"):
        root.set(key, str(sum(int(suite.get(key, "0")) for suite in suites)))
    root.extend(suites)
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode")


def _flags(report: Report) -> Iterable[tuple[str, object]]:
    for key, value in deployment_json(report.deployment).items():
        if value not in (None, "", [], {}, False):
            yield key, value


def reports_junit(reports: Sequence[tuple[str, Report]], provenance: Provenance) -> str:
    """Return one suite for each report."""
    return _document(
        [
            _suite(
                f"{name} on {report.deployment.gpu}, TP {report.deployment.tp}",
                f"mxlab.doctor.{name}",
                _cases(report),
                (*_flags(report), ("outcome", report.outcome)),
                provenance,
            )
            for name, report in reports
        ]
    )


def _grid_case(cell: Cell) -> _Case:
    case = _Case(", ".join(f"{name}={value}" for name, value in cell.at.items()))
    text = f"{cell.guard} ({cell.stage}) at {cell.where}: {cell.message or cell.because}"
    if cell.outcome == "stops":
        case.failures, case.type = [f"{text}\nbecause: {cell.because}\n{cell.when}"], cell.guard
    elif cell.outcome in ("unknown", "invalid"):
        case.skipped = f"{cell.outcome}: {cell.because}"
    elif cell.outcome == "runs-degraded":
        case.notes = [f"degraded by {', '.join(cell.degrades)}: {cell.because}"]
    return case


def grid_junit(grid: Grid, provenance: Provenance) -> str:
    """Return one suite for each model, one case for each cell."""
    suites = []
    for model in grid.models:
        cases = [_grid_case(cell) for cell in grid.cells if cell.model == model]
        axes = [(name, ", ".join(map(str, values))) for name, values in grid.axes.items()]
        suites.append(_suite(model, f"mxlab.doctor.{model}", cases, axes, provenance))
    return _document(suites)
