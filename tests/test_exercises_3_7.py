"""Chapters 3 and 7: their exercises against oracles, their prose against what their cells print."""

import json
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from chapters import ROOT, check_claims, check_parts

from mxlab.exercises import exercise
from mxlab.profiles import get_profile
from mxlab.scale import float32_from_bits

CHAPTERS = {"3": "03_which_scale", "7": "07_will_my_model_run"}
SHAPES: dict[str, Any] = json.loads((ROOT / "tests/data/model-shapes.json").read_text())["models"]
#: chapter -> (what the prose says, what the cells print)
CLAIMS = {
    "3": (
        ("630 / 448 is 1.41", "630 comes back as 448: -28.9%"),
        ("It gives 127 up to 511", "511      1.9961      127"),
        ("just above 448 = 1.75 * 2^8", "449      1.7539      127    128"),
        ("From 496 = 1.9375 * 2^8", "496      1.9375      127    128    128    128"),
        ("CEIL** goes up just above 256", "257      1.0039      127    127    128    127"),
        (
            '"Nearest" may cut off 29 %, FLOOR 12.5 %, EVEN 9.7 %',
            "even        31.1 dB        12.4%           9.7%",
        ),
        (
            "FLOOR cuts one block in six and costs 0.9 dB",
            "floor       30.6 dB        17.4%          12.5%",
        ),
        ("costs 0.9 dB", "rceil       31.5 dB         0.0%           0.0%"),
        (
            "it cuts 98.9 % of the blocks and costs 6 dB",
            "floor       26.2 dB        98.9%          12.5%",
        ),
        ("costs 6 dB", "rceil       32.5 dB         0.0%           0.0%"),
        ("FLOOR is the best of the four, by a little", "floor  12.5% of the values are 0"),
        ("and CEIL the worst", "ceil   17.1% of the values are 0"),
        ("Seven groups, and four of them are the rules", "no rule   1: mlx-0.31-cpu"),
        ("In bfloat16 one value in five is wrong", "wrong for 6,804 of 32,512"),
        ("The rules above need no logarithm", "on bits: 121\ntorchao-0.18-rceil: 120"),
        ("byte 119 is the scale of the ones", "8 give 119"),
        ("A writer can be wrong too", "2^-122 comes back as 0.5 * 2^-122"),
    ),
    "7": (
        ("There is the 3696", "29568 / 8 = 3696 = 115 * 32 + 16"),
        ("has 115 whole blocks and half a block", "115 * 32 + 16"),
        ("true here at TP 1 only", " 1   29568     0      0\n 2   14784     0     64"),
        ("the next would have come after 145 GB", "after reading 145 GB of weights"),
        ("has N = 7392 and 7392 % 64 = 32", "N = 7392 % 64 = 32, K = 8192 % 128 = 0"),
        ("is exact and costs 0.35 %", "zeros: 32.4 MB more a rank (0.35 %)"),
        ("for 2.35 GB on each", "runs-degraded; 16-bit weights: 2.35 GB more a rank"),
        ("At TP 4 it is `down_proj` that does: 7392 % 128 = 96", " 4    7392     0     96"),
        ("It can be quantised or not, but not by a third", "some but not all shards"),
        ("The first is a contradiction, and is refused", "does not match the quantization method"),
        ("the capability is asked in S3", "Minimum capability: 100. Current capability: 90."),
        (
            "It runs, and a kernel that was not made for it",
            "runs-degraded\n   S8 silent-kv-backend",
        ),
        (
            "and pays at every call, because 2880 % 128 is 64",
            "g95-dot-fallback, K = 2880 % 128 = 64",
        ),
        ("Three checks of two systems", "vllm   vllm-block-row: down_proj at TP 8"),
    ),
}


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_the_prose_says_what_the_cells_print(chapter: str) -> None:
    check_claims(CHAPTERS[chapter], CLAIMS[chapter])


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_the_chapter_has_its_parts(chapter: str) -> None:
    check_parts(CHAPTERS[chapter], chapter)


def _smallest_that_fits(amax: Fraction) -> int:
    """The byte of the least power of two with amax / scale <= 448, in exact arithmetic."""
    byte = 0
    while byte < 254 and amax > 448 * Fraction(2) ** (byte - 127):
        byte += 1
    return byte


def test_3_2_is_the_least_scale_that_fits() -> None:
    spec = exercise("3.2").spec
    rng = np.random.default_rng(32)
    bits = {case[0] for case in exercise("3.2").cases()}  # type: ignore[misc]
    bits |= set(rng.integers(0, 0x7F800000, 300).tolist())
    bits |= {(e << 23) + 0x600000 + step for e in range(8, 254, 7) for step in (-1, 0, 1)}
    finite = [b for b in bits if b < 0x7F800000]
    found = [spec(b) for b in finite]
    assert found == [_smallest_that_fits(Fraction(float32_from_bits(b))) for b in finite]
    assert len(set(found)) > 100
    assert [spec(b) for b in (0x7F800000, 0x7FC00000)] == [255, 255]


def test_3_3_is_the_worst_of_the_library_that_did_it() -> None:
    quantize = get_profile("mlx-0.31-cpu").quantize
    amaxes = np.linspace(448, 896, 4000, dtype=np.float32)
    bytes_ = [quantize([float(amax)])[0] for amax in amaxes]
    losses = [
        1 - 448 * 2.0 ** (byte - 127) / amax for byte, amax in zip(bytes_, amaxes, strict=True)
    ]
    worst = exercise("3.3").spec()
    assert worst - 1e-3 < max(losses) <= worst


def test_3_5_is_where_e5m2_itself_rounds_up() -> None:
    halves = np.arange(32768, 65536, dtype=np.float64) / 2  # the same mantissas, within range
    rounded = halves.astype(ml_dtypes.float8_e5m2).astype(np.float64)
    first = int(np.argmax(rounded == 32768))
    assert first
    assert exercise("3.5").spec() == 2 * halves[first]


def test_7_1_gives_the_recorded_shapes() -> None:
    spec = exercise("7.1").spec
    split = {"o_proj": "row", "down_proj": "row", "gate_up_proj": "column"}
    seen = 0
    for case in SHAPES.values():
        for (name, *_), *sizes in zip(
            case["rows"], *(case["tp"][tp]["rows"] for tp in ("1", "2", "4", "8")), strict=True
        ):
            for tp, one in zip((2, 4, 8), sizes[1:], strict=True):
                if name in split and isinstance(one, list):
                    found = spec(sizes[0][0], sizes[0][1], tp, split[name])
                    assert found == (one[0], one[1]), (name, tp, one)
                    seen += 1
    assert seen > 100


def test_the_page_of_errors_opens_at_a_message_that_is_found() -> None:
    text = (ROOT / "book/what_does_this_error_mean.md").read_text(encoding="utf-8")
    code = text.partition(":tags: [remove-input]\n")[2].partition("```")[0]
    space: dict[str, Any] = {}
    exec(code.replace("\nWhatError(", "\nmade = WhatError("), space)
    answer = space["made"].answer["view"]["answer"]
    assert answer.startswith("kv-hd32 of ")
    assert "head_dim = 80 % 32 = 16" in answer
