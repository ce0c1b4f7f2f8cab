"""Which power of two: every profile against its whole block, the ranges against the rules."""

import contextlib
import io
import json
import random
import shlex
from typing import Any

import pytest

from mxlab.block import quantize_block
from mxlab.cli import main
from mxlab.errors import InputError
from mxlab.explorers import explorer
from mxlab.explorers.which_scale import _amax, _block, _gives, _libraries
from mxlab.formats import E4M3
from mxlab.profiles import profiles
from mxlab.scale import RULES, float32_bits, float32_from_bits, scale_byte_from_bits

WHICH = explorer("which_scale")
AMAX = ("449", "448", "1.75", "150", "2.8094e-36", "1e-40", "3e38", "0", "480", "inf", "nan")


def answer(**state: object) -> dict[str, Any]:
    found = WHICH.answer(state)
    assert "error" not in found, found
    view: dict[str, Any] = found["view"]
    return view | {"panels": {panel["id"]: panel for panel in view["panels"]}}


@pytest.mark.parametrize("others", ["same", "ones", "zeros", "nan", "inf"])
def test_two_values_stand_for_the_block(others: str) -> None:
    raised = 0
    for text in AMAX:
        values = _block(_amax(text)[0], others)
        assert len(values) == 32
        for name, pair in _libraries(tuple(values)).items():
            try:
                block = quantize_block(values, profile=name)
            except InputError:
                raised += 1
                assert pair is None, (name, text)
            else:
                assert pair == (block.scale_byte, block.codes[0]), (name, text, others)
    assert raised > 0 or others in ("same", "ones", "zeros")


def test_the_four_rules() -> None:
    view = answer(amax="449")
    assert [row[0] for row in view["panels"]["rules"]["text"]] == ["127", "128", "128", "127"]
    assert view["answer"].startswith("For amax 449 the answers part: byte 127 from FLOOR, EVEN and")
    facts = {row[0]: row for row in answer(amax="449", byte=128)["panels"]["who"]["rows"]}
    assert facts["this block"][1] == "RCEIL, CEIL"
    assert facts["FLOOR"][1] == "512 to 1023.99994" and facts["RCEIL"][1] == "448.000031 to 896"
    groups = {row[0]: row[2] for row in view["panels"]["groups"]["rows"]}
    named = groups["byte 128"].split(": ")[1].split(", ")
    assert facts["libraries"][1] == f"{len(named)} of {len(profiles())}"
    grid = view["panels"]["profiles"]
    assert named == [
        name for name, row in zip(grid["rows"], grid["text"], strict=True) if row[0] == "128"
    ]
    assert 10 < len(named) < len(profiles())


def test_a_range_holds_and_its_neighbours_do_not() -> None:
    for rule in RULES.values():
        for byte in (0, 1, 100, 127, 128, 200, 246, 247, 248, 254, 255):
            ends = _gives(byte, rule)
            if ends is None:
                assert byte > 246
                continue
            low, high = (float32_bits(end) for end in ends)
            for bits, inside in ((low, True), (high, True), (low - 1, False), (high + 1, False)):
                if 0 <= bits < 0x7F800000:
                    assert (scale_byte_from_bits(bits, E4M3, rule) == byte) == inside


def test_the_binade_is_drawn_as_the_rules_go() -> None:
    draw = random.Random(3)
    for _ in range(60):
        bits = draw.randrange(1 << 23, 0x7F800000)
        alt = answer(amax=repr(float32_from_bits(bits)))["panels"]["binade"]["alt"]
        base = bits >> 23 << 23
        for name, rule in RULES.items():
            first, last = (scale_byte_from_bits(b, E4M3, rule) for b in (base, base + 0x7FFFFF))
            if rule.threshold(E4M3) > 0x7FFFFF:
                assert f"{name.upper()} gives {first} throughout" in alt
            else:
                assert f"{name.upper()} goes from {first} to {last} at " in alt


@pytest.mark.parametrize("text", AMAX)
def test_every_profile_is_in_one_group(text: str) -> None:
    view = answer(amax=text)
    grid = view["panels"]["profiles"]
    raising = [n for n, row in zip(grid["rows"], grid["text"], strict=True) if row[0] == "raises"]
    grouped = []
    for name, named, said in view["panels"]["groups"]["rows"]:
        byte, members = name.removeprefix("byte "), said.split(": ")[-1].split(", ")
        members = [member for member in members if member in profiles()]
        grouped += members
        for member in members:
            assert grid["text"][grid["rows"].index(member)][0] == byte
        rules = {row[0] for row in view["panels"]["rules"]["text"] if row[0] == byte}
        assert bool(rules) == (named != "no rule")
        assert named == "no rule" or f"byte {byte} " in view["answer"]
    assert sorted(grouped + raising) == sorted(profiles())


def test_the_sweep_goes_through_the_binade_of_the_typed_magnitude() -> None:
    seen = []
    for sweep in range(-1, 128):
        rows = answer(amax="449", sweep=sweep)["panels"]["rules"]["text"]
        amax = 449.0 if sweep < 0 else 256 * (1 + sweep / 128)
        wanted = [quantize_block([amax] * 32, "e4m3", rule).scale_byte for rule in RULES]
        assert [row[0] for row in rows] == [str(byte) for byte in wanted]
        seen.append(tuple(wanted))
    assert len(set(seen)) == 4  # together, CEIL apart, RCEIL apart, EVEN apart
    for text in ("0", "1e-40", "inf", "nan"):  # no binade of its own
        assert answer(amax=text, sweep=5)["answer"] == answer(amax=text)["answer"]


@pytest.mark.parametrize("others", ["same", "ones", "zeros", "nan", "inf"])
def test_command_and_python_say_the_same(others: str) -> None:
    for text in AMAX if others == "same" else AMAX[:3]:
        view = answer(amax=text, others=others)
        rows = view["panels"]["rules"]["text"]
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            assert main([*shlex.split(view["cli"])[1:], "--json"]) == 0
        data = json.loads(out.getvalue())
        if others == "same":
            given = [row["scale_byte"] for row in data["rows"] if row["rule"]]
            assert [str(byte) for byte in given] == [row[0] for row in rows]
        else:
            assert data["view"]["answer"] == view["answer"]
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(view["python"], {})
        assert [line.split()[1] for line in out.getvalue().splitlines()] == [row[0] for row in rows]


@pytest.mark.parametrize("text", ["", "x", "1e39", "<b>"])
def test_no_number_is_one_sentence(text: str) -> None:
    found = WHICH.answer({"amax": text})
    assert "largest magnitude is" in found["error"] and "\n" not in found["error"]
