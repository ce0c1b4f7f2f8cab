"""One byte: every code against ml_dtypes, the interval against the encoder, hostile values."""

import contextlib
import io
import json
import math
import random
import shlex
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from mxlab.cli import main
from mxlab.codec import decode, encode
from mxlab.explorers import explorer
from mxlab.explorers.one_byte_line import _ends, shown
from mxlab.explorers.picture import picture
from mxlab.formats import FORMATS

ONE_BYTE = explorer("one_byte")
DTYPES: dict[str, Any] = {
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
    "e8m0": ml_dtypes.float8_e8m0fnu,
}


def answer(**state: object) -> dict[str, Any]:
    found = ONE_BYTE.answer(state)
    assert "error" not in found, found
    view: dict[str, Any] = found["view"]
    return view


def panels(view: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {panel["id"]: panel for panel in view["panels"]}


def number(text: str) -> float:
    """The number that a view shows: ``2^-9`` is a power, NaN and inf are words."""
    sign = -1 if text.startswith("-") and "^" in text else 1
    bare = text.lstrip("-") if "^" in text else text
    if bare.startswith("2^"):
        return sign * 2.0 ** int(bare[2:])
    return float(text)


@pytest.mark.parametrize("fmt", list(FORMATS))
def test_every_code_is_what_ml_dtypes_says(fmt: str) -> None:
    wanted = np.arange(256, dtype=np.uint8).view(DTYPES[fmt]).astype(np.float64)
    for code in range(256):
        view = answer(format=fmt, code=code, value="")
        found = panels(view)
        value = found["formula"]["rows"][-1][1]
        assert math.isnan(wanted[code]) == (value == "NaN"), (code, value)
        if not math.isnan(wanted[code]):
            assert number(value) == pytest.approx(wanted[code], rel=5e-5), code
            assert math.copysign(1, number(value)) == math.copysign(1, wanted[code])
        bits = found["bits"]
        assert "".join(bits["text"][0]) == f"{code:08b}"
        assert bits["values"][0] == [code ^ (1 << bit) for bit in range(7, -1, -1)]
        assert found["codes"]["chosen"] == [[code // 16, code % 16]]


@pytest.mark.parametrize("fmt", ["e4m3", "e5m2", "e8m0"])
def test_the_interval_is_where_the_encoder_goes(fmt: str) -> None:
    form = FORMATS[fmt]
    for magnitude in range(form.max_code + 1):
        low, high = _ends(magnitude, form)
        inside = form.magnitude(magnitude)
        for end, beyond in ((low, -1), (high, 1)):
            if end is None or end <= 0:
                continue
            step = abs(inside - end) / 1024
            near, far = end - beyond * step, end + beyond * step
            assert encode(near, fmt).code == magnitude
            assert encode(far, fmt).code == magnitude + beyond
            tie = encode(end, fmt)
            assert tie.tie and tie.code in (magnitude, magnitude + beyond)


def test_a_tie_is_decided_in_words() -> None:
    rows = panels(answer(value="1.0625"))["encode"]["rows"]  # halfway from 1 to 1.125
    becomes = next(row for row in rows if row[0] == "becomes")
    assert becomes[1:] == ["0x38", "a tie: the code whose last bit is 0"]
    rows = panels(answer(value="1.1"))["encode"]["rows"]
    assert ["next above", "1.125", "byte 0x39, 0.025 away"] in rows


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("1000", "saturates"),
        ("inf", "saturates"),
        ("-inf", "0xFE"),
        ("nan", "NaN stays NaN"),
        ("-0", "0x80"),
        ("1e-9", "0x00"),
        ("two", "'two' is not a number"),
        ("0x1.8p3", "0x54"),
    ],
)
def test_values(value: str, said: str) -> None:
    assert said in json.dumps(panels(answer(value=value))["encode"])


def test_e8m0_says_why_it_has_no_zero() -> None:
    view = answer(format="e8m0", code=127, value="-1")
    assert "has no zero and no sign" in view["answer"]


def test_command_and_python_say_the_same() -> None:
    draw = random.Random(5)
    for _ in range(12):
        fmt, code = draw.choice(list(FORMATS)), draw.randrange(256)
        view = answer(format=fmt, code=code, value="0.3")
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            assert main([*shlex.split(view["cli"])[1:], "--json"]) == 0
        assert json.loads(out.getvalue())["code"] == code
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(view["python"], {})
        assert f"code={code}" in out.getvalue() and "value=0.3" in out.getvalue()


def test_the_line_draws_the_neighbours_in_order() -> None:
    for fmt in FORMATS.values():
        for code in range(256):
            panel = panels(answer(format=fmt.name, code=code, value=""))["line"]
            dots = [shape for shape in panel["shapes"] if shape[0] == "dot"]
            d = decode(code, fmt)
            assert bool(dots) == (d.kind not in ("nan", "inf"))
            values = [decode(shape[7], fmt).exact for shape in dots]
            assert values == sorted(values, key=lambda one: Fraction(one or 0))
            xs = [shape[1][0] for shape in dots]
            assert xs == sorted(xs) and all(0 <= x <= panel["width"] for x in xs)
            if dots:
                assert code in [shape[7] for shape in dots]


def test_hostile_states_answer() -> None:
    for value in ("<b>&", "9" * 400, "\0", "1e400", "٣", "nan(", "--", "0x", " "):
        view = answer(value=value, code="9999", format="evil")
        assert len(json.dumps(view)) < 60_000
    assert picture("t", ONE_BYTE.view(ONE_BYTE.clean({"value": "<b>"}))).count("<b>") == 0


def test_shown() -> None:
    assert [shown(x) for x in (0.1, 1e30, 2.0**-149, 1 / 3)] == [
        *("0.1", "1e+30", "2^-149", "0.33333"),
    ]
