"""Thirty-two bytes and a scale: the view against ml_dtypes and the block, presets, bad numbers."""

import contextlib
import io
import json
import random
import shlex
from itertools import pairwise
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from mxlab.block import quantize_block
from mxlab.cli import main
from mxlab.explorers import explorer
from mxlab.explorers.controls import Numbers

BLOCK = explorer("block_of_32")
VALUES = next(control for control in BLOCK.controls if isinstance(control, Numbers))
PRESETS = dict(VALUES.presets)
DTYPES: dict[str, Any] = {"e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2}


def answer(**state: object) -> dict[str, Any]:
    found = BLOCK.answer(state)
    assert "error" not in found, found
    view: dict[str, Any] = found["view"]
    return view | {"panels": {panel["id"]: panel for panel in view["panels"]}}


def draws(seed: int) -> list[str]:
    draw = random.Random(seed)
    values = [draw.gauss(0, 1) * 2.0 ** draw.randint(-20, 3) for _ in range(31)]
    return [f"{value:.5g}" for value in (*values, 58.0)]  # floor and even reach only 56


@pytest.mark.parametrize("fmt", ["e4m3", "e5m2"])
@pytest.mark.parametrize("rule", ["floor", "rceil", "ceil", "even"])
def test_codes_are_those_of_ml_dtypes_under_the_scale(fmt: str, rule: str) -> None:
    largest = {"e4m3": 448.0, "e5m2": 57344.0}[fmt]
    met = set()
    for seed in range(8):
        texts = draws(seed)
        view = answer(values=",".join(texts), format=fmt, rule=rule)
        facts = {row[0]: row[1] for row in view["panels"]["scale"]["rows"]}
        scale = 2.0 ** (int(facts["scale byte"]) - 127)
        given = np.array([float(text) for text in texts], np.float32)
        scaled = np.clip(given.astype(np.float64) / scale, -largest, largest)
        codes = scaled.astype(DTYPES[fmt]).view(np.uint8)
        rows = view["panels"]["elements"]["text"]
        assert [row[2] for row in rows] == [f"0x{code:02X}" for code in codes]
        back = codes.view(DTYPES[fmt]).astype(np.float64) * scale
        for row, value, decoded in zip(rows, given.astype(np.float64), back, strict=True):
            word = row[5].split(" ", 1)[1]
            met.add(word)
            if word == "saturated":
                assert abs(value) > largest * scale
            elif word == "flushed to zero":
                assert decoded == 0 != value
            elif word == "exact":
                assert decoded == value
            else:
                assert word == "rounded" and decoded != value
    assert "rounded" in met
    assert ("flushed to zero" in met) == (fmt == "e4m3")
    assert ("saturated" in met) == (rule in ("floor", "even"))


def test_presets_show_what_they_are_called() -> None:
    assert {"normal", "outlier", "uniform", "tiny", "with NaN"} <= set(PRESETS)
    said = {name: answer(values=text) for name, text in PRESETS.items()}
    assert "Byte 255" in said["with NaN"]["answer"] and said["with NaN"]["status"] == "warns"
    assert "flushed" in said["outlier"]["answer"]
    assert "Scale byte 0" in said["tiny"]["answer"]
    floor = answer(values=PRESETS["just too large"], rule="floor")
    assert "1 saturated" in floor["answer"]
    for text in PRESETS.values():
        assert len(text.split(",")) == 32


def test_keys_tie_a_row_to_its_mark() -> None:
    view = answer()
    keys = {key for row in view["panels"]["elements"]["key"] for key in row}
    dots = [shape for shape in view["panels"]["range"]["shapes"] if shape[0] == "dot"]
    assert {shape[7] for shape in dots} == keys == set(range(32))
    assert all(shape[8].startswith(f"Element {shape[7]}: ") for shape in dots)


def test_command_and_python_say_the_same() -> None:
    for seed in range(4):
        state = {"values": ",".join(draws(seed)), "rule": "even", "format": "e5m2"}
        view = answer(**state)
        wanted = quantize_block([float(t) for t in draws(seed)], "e5m2", rule="even")
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            assert main([*shlex.split(view["cli"])[1:], "--json"]) == 0
        data = json.loads(out.getvalue())
        assert (data["scale_byte"], data["codes"]) == (wanted.scale_byte, list(wanted.codes))
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(view["python"], {})
        assert out.getvalue() == f"{wanted.scale_byte} {wanted.codes}\n"


def test_a_number_beyond_float32_is_one_sentence() -> None:
    found = BLOCK.answer({"values": "1e39"})
    assert found["error"].startswith("value 0 is 1e+39: beyond float32")


def test_hostile_numbers() -> None:
    for text in ("<b>", "1," * 500, "nan", "-inf,inf", "0x1p-149", "\0", "1e-400"):
        view = answer(values=text)
        assert len(json.dumps(view)) < 40_000


def test_a_column_of_32_stays_on_the_sheet() -> None:
    sheet = answer(values=",".join(["7"] * 32))["panels"]["range"]
    dots = [shape[1] for shape in sheet["shapes"] if shape[0] == "dot"]
    assert len(dots) == 32 and len({x for x, _, _ in dots}) == 1
    heights = sorted(y for _, y, _ in dots)
    assert heights[0] > 20 and heights[-1] < 150
    assert all(b - a >= 2 * dots[0][2] for a, b in pairwise(heights))
