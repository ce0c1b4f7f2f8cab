"""mxlab guards: the table as data, its patterns against filled messages, its JSON Schema."""

import json
import random
import re
import shutil
import subprocess
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest

from mxlab.cli import VERBS, main
from mxlab.errors import InputError
from mxlab.explain_table import every_message
from mxlab.guards import SYSTEMS, guard
from mxlab.guards.counterparts import TOPICS, counterparts
from mxlab.guards.data import dataset, every_row, fields, one_json, pattern, row_json, schema
from mxlab.guards.engine import fill
from mxlab.guards.systems import IDS

assert VERBS
ROWS = list(every_row())
MESSAGES = [(row, text) for row in every_message() for text in row.messages]
VALUES = ("80", "(2, 128)", "torch.Size([16, 8])", "[1, 128]", "mxfp8", "a.b+c*", "$^", "")


def answer(capsys: pytest.CaptureFixture[str], *argv: str) -> Any:
    assert main(["guards", *argv]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.fixture(scope="module")
def validator() -> Any:
    jsonschema.Draft202012Validator.check_schema(schema())
    return jsonschema.Draft202012Validator(
        schema(), format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER
    )


def test_the_whole_table_is_valid(capsys: pytest.CaptureFixture[str], validator: Any) -> None:
    whole = answer(capsys, "--json")
    validator.validate(whole)
    ids = [row["guard"] for row in whole["guards"]]
    assert len(ids) == len(set(ids)) > 450
    assert set(ids) == {row.id for known in SYSTEMS for row in known.guards}
    assert set(whole["systems"]) == set(IDS)
    for row in whole["guards"]:
        assert row["version"] == row["versions"][0], row["guard"]
        assert {*row["related"], *row["counterparts"]} <= set(ids), row["guard"]


def test_one_row_is_the_row_of_the_table(
    capsys: pytest.CaptureFixture[str], validator: Any
) -> None:
    table = {row["guard"]: row for row in answer(capsys, "--json")["guards"]}
    for id in ("wsp-deepgemm", "imp-flashinfer", "fi-mm-tile", "silent-kv-backend", "te-sm120"):
        one = answer(capsys, id, "--json")
        validator.validate(one)
        assert (one.pop("schema"), one.pop("verb"), one.pop("dataset")) == (1, "guards", dataset())
        assert one == table[id]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"severity": "loud"}, "'loud' is not one of"),
        ({"stage": "S0"}, "'S0' is not one of"),
        ({"guard": "Not An Id"}, "does not match"),
        ({"fixes": [1]}, "is not of type 'string'"),
        ({"more": 1}, "Additional properties are not allowed"),
        ({"messages": [{"text": "x", "pattern": "(", "fields": []}]}, "is not a 'regex'"),
        ({"versions": []}, "non-empty|too short"),
    ],
)
def test_the_schema_refuses(validator: Any, change: dict[str, Any], why: str) -> None:
    good = {"schema": 1, "verb": "guards", **one_json(row_json(*ROWS[0]))}
    validator.validate(good)
    errors = [leaf for error in validator.iter_errors({**good, **change}) for leaf in error.context]
    assert any(re.search(why, error.message) for error in errors)


@pytest.mark.parametrize(("row", "text"), MESSAGES, ids=lambda x: getattr(x, "id", ""))
def test_a_pattern_matches_its_message_filled(row: Any, text: str) -> None:
    draw = random.Random(text)
    for _ in range(4):
        values = {name: draw.choice(VALUES) for name in fields(text)}
        said = fill(text, values)
        found = re.match(pattern(text), said)
        assert found is not None and len(found.groups()) == len(fields(text))
        wrapped = fill(text.replace(" ", "\n  "), values)
        assert re.match(pattern(text), wrapped) is not None
        for other in ("x" + said, said[1:]):  # anchored: nothing before, nothing missing
            assert text.startswith("{") or not re.search(pattern(text), other)


def test_patterns_tell_messages_apart() -> None:
    """A message is matched by its own pattern and by those of the same text, hardly any other."""
    shapes = {re.sub(r"\{\w+\}", "{}", text) for _, text in MESSAGES}
    patterns = {re.compile(pattern(text)): re.sub(r"\{\w+\}", "{}", text) for _, text in MESSAGES}
    strangers = 0
    for shape in shapes:
        said = shape.replace("{}", "80")
        found = {patterns[one] for one in patterns if one.match(said)}
        assert shape in found
        strangers += len(found) > 1
    assert strangers < len(shapes) / 30


@pytest.mark.skipif(shutil.which("node") is None, reason="no node to compile the patterns with")
def test_patterns_are_javascript_s_too() -> None:
    cases = [[pattern(text), re.sub(r"\{\w+\}", "80", text)] for _, text in MESSAGES]
    program = (
        "const cases = JSON.parse(require('fs').readFileSync(0));"
        "const bad = cases.filter(([p, t]) => !new RegExp(p, 'u').test(t));"
        "console.log(JSON.stringify(bad));"
    )
    node = shutil.which("node") or ""
    done = subprocess.run(
        [node, "-e", program], input=json.dumps(cases), capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout) == []


def test_dataset_is_a_version_and_a_hash() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+\S*\+[0-9a-f]{12}", dataset())


def test_schema_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert answer(capsys, "--schema") == schema()


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["nope"], "unknown guard 'nope': expected one of"),
        (["wsp-deepgem"], "did you mean 'wsp-deepgemm'"),
        (["--schema", "wsp-deepgemm"], "expected --schema alone"),
        (["--schema", "--json"], "expected --schema alone"),
        (["--system", "sglang@1"], "unknown sglang version '1'"),
        (["fi-mm-tile", "--system", "torch"], "it is a row of flashinfer"),
    ],
)
def test_bad_input_is_one_line(
    argv: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["guards", *argv]) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err.count("\n") == 1
    assert words in captured.err


def test_topics_name_rows_of_several_systems() -> None:
    for topic, ids in TOPICS.items():
        assert len(ids) == len(set(ids)), topic
        assert len({guard(id).system for id in ids}) > 1, topic


def test_counterparts_are_of_other_systems_and_mutual() -> None:
    found = {row.id: counterparts(row) for row, _ in ROWS}
    for id, others in found.items():
        for other in others:
            assert guard(other).system != guard(id).system
            assert id in found[other], (id, other)
    assert sum(map(bool, found.values())) > 150
    assert "vllm-block-row" in found["lin-tp-row"]
    with pytest.raises(InputError):
        guard("nothing")
