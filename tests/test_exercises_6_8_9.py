"""Chapters 6, 8 and 9: their prose against what their cells print, the data and the explorers."""

import json
from typing import Any

import matplotlib
import ml_dtypes
import numpy as np
import pytest
from chapters import ROOT, check_claims, check_parts, prose

from mxlab.attention import PagedKVCache
from mxlab.explorers import explorer
from mxlab.guards import Status
from mxlab.matrix import matrix

matplotlib.use("Agg")

CHAPTERS = {
    "6": "06_a_gemm_from_blocks",
    "8": "08_from_qkv_to_a_cache_page",
    "9": "09_what_does_it_cost",
}
#: cells that need torch and Triton, whose interpreter is chosen once for a whole process
WITHOUT = "if HAS_TRITON"
#: chapter -> (what the prose says, what the cells print)
CLAIMS = {
    "6": (
        ("The two agree to the last bit here", "largest difference to the reference: 0.0e+00"),
        ("about 4 %, for random data", "both operands to MXFP8:   3.8e-02"),
        ("1e-6 for float32", "sums in float32:          6.4e-08"),
        ("for scale bytes 3 to 246", "products exact for scale bytes 3 to 246"),
        ("In float64 any byte will do but 255", "padding scales of 254: largest difference 0.0"),
        ("NaN times zero is NaN", "padding scales of 255: largest difference nan"),
        ("multiplies the two scales first", "in float32, 0 * (2^127 * 2^127): nan"),
        ("A kernel has float32", "in float32, 0 * 2^127 * 2^127:   0.0"),
        ("With even data the swap is invisible", "the same with even data:                0.0e+00"),
    ),
    "8": (
        ("requires head_dim divisible by 32, got 80", "head_dim divisible by 32, got 80."),
        (
            "the kernel then refuses to compile",
            "fused: allocated; stored; attention:\n    AssertionError (fa4-v-even",
        ),
        (
            "for 256 nothing stops",
            "head_dim 256, page 128, fused: allocated; stored\n",
        ),
        ("A head of 96 has 3, and one of 256 has 8", "sf_vec_size=32), got 3\n"),
        ("A head of 96 has 3, and one of 256 has 8", "sf_vec_size=32), got 8\n"),
        ("With FA4 the first request stops", "fa4: stops at S8, fa4-qdescale"),
        ("The sum is 1,675", "head 1, block 3: index (1, 1, 8, 2, 3), byte 1675"),
        ("a code differs by one step", "in blocks whose scale is kept: 1 to 1 steps"),
        ("the code is 7 to 9 steps off", "in blocks whose scale is changed: 7 to 9 steps"),
        ("half of the answer is wrong", "scales read row-major         50.9%"),
    ),
    "9": (
        ("At N = 1,408 an ideal machine gains 25 %", "MXFP8 0.168 + 0.102 ms: 1.25 times"),
        ("The `+` behind the commit", "commit 36e43adc8cb7+"),
        ("reaches 95 and 103 % of the copy", "cuBLAS bf16           33.3 us  1.00  4,033 GB/s"),
        ("reaches 95 and 103 % of the copy", "cuBLAS bf16          108.0 us  1.00  4,362 GB/s"),
        ("4,317 against 4,210 GB/s", "188.5 us 3.03 bytes a value  4,317 GB/s"),
        ("4,317 against 4,210 GB/s", "255.0 us 4.00 bytes a value  4,210 GB/s"),
        ("at this size: 2,693 GB/s", "398.7 us 4.00 bytes a value  2,693 GB/s"),
        ("301 us against 379", "both axes from one read         301.4 us"),
        ("57 us at 4,230 GB/s", "ceilings: a copy 4,230 GB/s"),
        ("The table above has 62.7 us", "mxlab triton-skinny   62.7 us"),
        ("1.15, where the bytes would allow 1.94", "bfloat16 41.2 us: 1.15 times"),
    ),
}


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_the_prose_says_what_the_cells_print(chapter: str) -> None:
    check_claims(CHAPTERS[chapter], CLAIMS[chapter], WITHOUT)


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_the_chapter_has_its_parts(chapter: str) -> None:
    check_parts(CHAPTERS[chapter], chapter)


def test_6_bfloat16_holds_a_decoded_value_for_the_bytes_that_are_named() -> None:
    codes = np.arange(256, dtype=np.uint8).view(ml_dtypes.float8_e4m3fn).astype(np.float64)

    def held(byte: int) -> bool:
        values = codes * 2.0 ** (byte - 127)
        with np.errstate(over="ignore"):
            rounded = values.astype(ml_dtypes.bfloat16).astype(np.float64)
        return np.array_equal(rounded, values, equal_nan=True)

    exact = [byte for byte in range(255) if held(byte)]
    assert exact == list(range(3, 247))


def test_6_two_scales_overflow_float32_from_the_byte_that_is_named() -> None:
    assert "from byte 191 on both sides on" in prose(CHAPTERS["6"])
    with np.errstate(over="ignore"):
        first = next(b for b in range(255) if np.isinf(np.float32(2.0 ** (b - 127)) ** 2))
    assert first == 191


def test_6_cells_turn_as_the_reader_is_told() -> None:
    """(N, K) = (4096, 4096) beside the two sizes of "Try it", on both systems that it names."""
    text = " ".join(prose(CHAPTERS["6"]).split())
    assert "nine kernels of SGLang and nine GPUs" in text

    def said(system: str, n: int, k: int) -> list[Status]:
        return [cell.status for cell in matrix(n, k, systems=[system])]

    def turned(system: str, n: int, k: int) -> int:
        pairs = zip(said(system, 4096, 4096), said(system, n, k), strict=True)
        return sum(before is not after for before, after in pairs)

    assert len(said("sglang", 4096, 4096)) == 81
    assert turned("sglang", 4096, 4128) == 7 and "seven cells turn" in text
    assert turned("sglang", 4128, 4096) == 4 and "N = 4,128 it is four" in text
    assert not any(turned("torch", n, k) for n, k in ((4096, 4128), (4128, 4096), (4128, 4128)))


@pytest.mark.parametrize(
    ("state", "answer"),
    [
        ({"head_dim": 80}, "stops in the cache allocation: kv-hd32"),
        ({"head_dim": 96}, "stops in the attention call: fa4-v-even"),
        ({"head_dim": 256}, "nothing stops, but the store goes wrong in silence"),
        ({"head_dim": 128}, "guards on the way pass"),
        ({"head_dim": 128, "page_rule": "kept"}, "stops in the store"),
    ],
)
def test_8_the_explorer_answers_what_the_chapter_says(state: dict[str, Any], answer: str) -> None:
    page = explorer("kv_page")
    assert answer in page.view(page.clean({"page_size": 64, "page_rule": "fa4", **state})).answer


def test_8_the_pool_of_the_chapter_agrees_with_the_explorer() -> None:
    faults = {dim: PagedKVCache(128, kv_heads=1, head_dim=dim).attention_fault for dim in (96, 256)}
    assert faults[96] and "fa4-v-even" in faults[96]
    assert faults[256] is None


def test_9_a_rate_is_what_its_own_row_moved() -> None:
    """Bytes by time, with no row that is counted by the bytes of another."""
    run = json.loads((ROOT / "book/_data/bench-h200.json").read_text())
    rows = run["reports"]["quantize 16384x16384"]["rows"]
    moves = {"copy": 4.0, "both axes": 2 + 2 * 33 / 32, "along": 2 + 33 / 32}
    for row in rows:
        (each,) = [moved for what, moved in moves.items() if what in row["name"]]
        rate = each * 16384**2 / row["seconds"]["median"] / 1e9
        assert row["gb_per_s"] == pytest.approx(rate, rel=1e-6)
    assert len(rows) == 7
