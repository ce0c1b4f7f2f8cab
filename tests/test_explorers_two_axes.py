"""Two axes: the blocks are those of the library, and every number shown is NumPy's."""

import json
import random
import re
import xml.etree.ElementTree as ElementTree
from math import inf, nextafter
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from mxlab import dequantize, quantize
from mxlab.block import quantize_block
from mxlab.cli import main
from mxlab.explorers import answer, explorer
from mxlab.explorers.blocks import bell, magnitudes, quick_blocks
from mxlab.explorers.controls import Choice
from mxlab.explorers.picture import picture
from mxlab.explorers.two_axes_matrix import matrix
from mxlab.formats import E4M3, E5M2, Format
from mxlab.scale import RULES, scale_value

RECORD = explorer("two_axes")
STATES: list[dict[str, Any]] = [
    {},
    {"pattern": "ones", "rows": "32"},
    {"pattern": "normal", "seed": 3, "tile": 2},
    {"pattern": "outlier-row", "strength": 15, "rows": "32", "columns": "96", "tile": 1},
    {"pattern": "outlier", "format": "e5m2", "rule": "floor", "at": 127},
    {"pattern": "column-scales", "rule": "even", "rows": "96", "columns": "32", "tile": 99},
    {"pattern": "row-scales", "rule": "ceil", "strength": 20},
]


def view(state: dict[str, Any]) -> dict[str, Any]:
    result = json.loads(answer("two_axes", json.dumps(state)))
    assert "error" not in result, result
    found: dict[str, Any] = result["view"]
    return found


def panel(name: str, shown: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = next(p for p in shown["panels"] if p["id"] == name)
    return found


def values(state: dict[str, Any]) -> Any:
    s: dict[str, Any] = RECORD.clean(state)
    given = (s["pattern"], int(s["rows"]), int(s["columns"]), s["seed"], s["strength"], s["at"])
    return np.array(matrix(*given), np.float64)


# ---- the quick quantiser ----


@pytest.mark.parametrize(("fmt", "name"), [(E4M3, "float8_e4m3fn"), (E5M2, "float8_e5m2")])
def test_the_table_rounds_as_ml_dtypes_on_either_side_of_every_middle(
    fmt: Format, name: str
) -> None:
    least, sizes = magnitudes(fmt)
    dtype = np.dtype(getattr(ml_dtypes, name))
    codes = np.arange(fmt.max_code + 1, dtype=np.uint8)
    assert sizes == codes.view(dtype).astype(float).tolist()
    for code, bound in enumerate(least, 1):
        middle = (sizes[code - 1] + sizes[code]) / 2
        up = float(np.nextafter(np.float32(middle), np.float32(inf)))
        for x in (nextafter(middle, 0), middle, nextafter(middle, inf), up):
            near = code if x > middle or (x == middle and code % 2 == 0) else code - 1
            assert (x >= bound) == (near == code)
            if float(np.float32(x)) == x:  # what ml_dtypes rounds but once
                assert int(np.float32(x).astype(dtype).view(np.uint8)) == near
    assert len(least) == fmt.max_code


def test_quick_blocks_are_the_blocks_of_the_library() -> None:
    chance = random.Random(7)
    seen = set()
    for turn in range(120):
        fmt, rule = chance.choice((E4M3, E5M2)), chance.choice(list(RULES.values()))
        far = chance.choice((0, 3, 12, 30))
        block = [
            float(np.float32(chance.gauss(0, 1) * 2.0 ** chance.randint(-far, far)))
            for _ in range(32)
        ]
        block[turn % 32] = chance.choice((0.0, 450.0, 2.0**-126, 2.0**-149, 3e38, 1.75))
        (byte,), elements = quick_blocks(block, fmt, rule)
        expected = quantize_block(block, fmt, rule)
        assert byte == expected.scale_byte
        assert [e * scale_value(byte) for e in elements] == list(expected.decoded)
        seen.add(expected.saturated > 0)
    assert seen == {True, False}
    ones, none = [1.0] * 32, [0.0] * 32
    bytes_, elements = quick_blocks([*none, *ones, 2.0], E4M3, RULES["rceil"])
    assert bytes_ == [0, 119, 120] and elements == [*none, *[256.0] * 33]


def test_the_values_are_float32_and_bell_shaped() -> None:
    x = np.array(bell(4, 20_000))
    assert (x == x.astype(np.float32)).all() and len(set(x.tolist())) > 15_000
    assert abs(x.mean()) < 0.03 and 0.91 < x.std() < 0.97
    assert bell(4, 9) == bell(4, 20_000)[:9] != bell(5, 9)


# ---- what is shown ----


@pytest.mark.parametrize("state", STATES)
def test_every_number_is_the_arrays(state: dict[str, Any]) -> None:
    shown, clean = view(state), RECORD.clean(state)
    x = values(state)
    fmt, rule = str(clean["format"]), str(clean["rule"])
    rows, columns = (quantize(x, fmt, rule=rule, axis=axis) for axis in (1, 0))
    both = [dequantize(q, np.float64) for q in (rows, columns)]
    both.append(dequantize(quantize(both[0], fmt, rule=rule, axis=0), np.float64))
    errors = [float((abs(back - x)[x != 0] / abs(x[x != 0])).mean()) for back in both]
    texts = [f"{100 * error:.3g} %" for error in errors]
    facts = {name: (value, how) for name, value, how in panel("errors", shown)["rows"]}
    assert [facts[n][0] for n in ("by rows", "by columns", "columns of that")] == texts
    codes = int((rows.codes != columns.codes).sum())
    parted = int((both[0] != both[1]).sum())
    assert facts["other codes"][0] == f"{codes:,}" and facts["other values"][0] == f"{parted:,}"
    assert shown["status"] == ("warns" if codes else "passes")
    assert texts[0] in shown["answer"] and texts[1] in shown["answer"]
    assert ("transpose" in shown["answer"]) == bool(codes)
    for name, back in zip(("by rows", "by columns"), both, strict=False):
        gone = int(((back == 0) & (x != 0)).sum())
        assert facts[name][1].endswith(f"scales; {gone:,} values become 0")
    if parted:
        r, c = map(int, re.findall(r"(\d+)", facts["farthest apart"][1])[:2])
        apart = abs(both[0] - both[1])
        assert apart[r, c] == apart.max() > 0

    tile = min(int(clean["tile"]), x.size // 1024 - 1)
    top, left = (32 * part for part in divmod(tile, x.shape[1] // 32))
    square = (slice(top, top + 32), slice(left, left + 32))
    nearer = np.array(panel("map", shown)["text"])
    lost = [abs(back - x)[square] for back in both[:2]]
    assert ((nearer == "R") == (lost[0] < lost[1])).all()
    assert ((nearer == "C") == (lost[0] > lost[1])).all()
    same = (rows.codes == columns.codes)[square] & (lost[0] == lost[1])
    assert ((nearer == "=") == same).all()
    assert panel("map", shown)["rows"][0] == str(top)
    bars = [s[8] for s in panel("bytes", shown)["shapes"] if s[0] == "box"]
    said = [int(byte) for text in bars for byte in re.findall(r"byte (\d+)", text)]
    wanted = [*rows.scales[square[0], left // 32], *columns.scales[top // 32, square[1]]]
    assert said == [int(byte) for byte in wanted]
    chosen = panel("tiles", shown)["chosen"]
    assert chosen == [list(divmod(tile, x.shape[1] // 32))]
    for r, line in enumerate(panel("tiles", shown)["text"]):
        for c, text in enumerate(line):
            part = (slice(32 * r, 32 * r + 32), slice(32 * c, 32 * c + 32))
            some = x[part] != 0
            mean = [(abs(y - x)[part][some] / abs(x[part][some])).mean() for y in both[:2]]
            assert text == " / ".join(f"{100 * share:.3g} %" for share in mean)


def test_states_differ_in_what_they_show() -> None:
    answers = {view(state)["answer"] for state in STATES}
    assert len(answers) == len(STATES)
    assert len({view({"seed": seed})["answer"] for seed in range(5)}) == 5


@pytest.mark.parametrize("state", STATES[:5])
def test_python_and_command_say_the_same(
    state: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    shown = view(state)
    exec(compile(shown["python"], "snippet", "exec"), {})
    lines = capsys.readouterr().out.splitlines()
    facts = panel("errors", shown)["rows"]
    for line, (_, value, how) in zip(lines, facts, strict=False):
        scales = how.split(": ")[1].split(" scales")[0].replace(" x ", ", ")
        assert line.endswith(f"scales ({scales}), {value}")
    assert main([*shown["cli"].split()[1:], "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["view"] == shown


def test_the_picture_holds_both_answers_and_the_map() -> None:
    shown = RECORD.view(RECORD.defaults())
    svg = ElementTree.fromstring(picture(RECORD.title, shown))
    texts = [node.text for node in svg.iter() if node.tag.endswith("text")]
    assert texts.count("R") + texts.count("C") + texts.count("~") + texts.count("=") == 1024
    assert len([node for node in svg.iter() if node.tag.endswith("rect")]) > 64


def test_hostile_states_and_every_choice_are_answered() -> None:
    for text in ('{"tile": 1e99}', '{"rows": "33", "at": -5}', '{"seed": "9\\u0000"}', "[]"):
        assert "view" in json.loads(answer("two_axes", text))
    for control in RECORD.controls:
        if isinstance(control, Choice):
            for option, _ in control.options:
                for shown in view({control.name: option, "tile": 15})["panels"]:
                    assert shown["alt"].endswith(".") and re.search(r"\d", shown["alt"])
