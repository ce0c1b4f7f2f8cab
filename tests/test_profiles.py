"""Library profiles against the bytes that the libraries produced, and their named quirks."""

import gzip
import json
import math
from pathlib import Path
from typing import Any

import pytest
from command import ask

from mxlab.block import quantize_block
from mxlab.cli import main
from mxlab.errors import InputError
from mxlab.profiles import get_profile, profiles
from mxlab.profiles.steps import bfloat, log2, single
from mxlab.scale import float32_from_bits, scale_byte

DATA = Path(__file__).parent / "data" / "peer_vectors.json.gz"
VECTORS = json.loads(gzip.decompress(DATA.read_bytes()))
BLOCKS = [[float32_from_bits(int(b, 16)) for b in p["f32_bits"]] for p in VECTORS["probes"]]
NAMES = [p["name"] for p in VECTORS["probes"]]
MLX = json.loads((DATA.parent / "mlx_vectors.json").read_text())["results"]
RUNS = [(name, run) for name, p in profiles().items() for run in p.vectors]


def plain_nan(codes: Any) -> list[int]:
    """Codes with both NaN codes as one: the sign of a NaN has no meaning."""
    return [0x7F if code & 0x7F == 0x7F else code for code in codes]


@pytest.mark.parametrize(("profile", "run"), RUNS)
def test_recorded_bytes(profile: str, run: str) -> None:
    result = VECTORS["results"][run]
    compared = 0
    for i, values in enumerate(BLOCKS):
        scale, codes = result["scale"][i], result["codes"][i]
        if scale is None and codes is None:
            continue
        block = quantize_block(values, "e4m3", profile=profile)
        if scale is not None:
            assert block.scale_byte == scale, NAMES[i]
        if codes is not None:
            expected = bytes.fromhex(VECTORS["code_strings"][codes])
            assert plain_nan(block.codes) == plain_nan(expected), NAMES[i]
        compared += 1
    assert compared >= 54


@pytest.mark.parametrize("profile", MLX)
def test_bytes_measured_here(profile: str) -> None:
    for i, values in enumerate(BLOCKS):
        block = quantize_block(values, "e4m3", profile=profile)
        assert block.scale_byte == MLX[profile]["scale"][i], NAMES[i]
        assert bytes(block.codes).hex() == MLX[profile]["codes"][i], NAMES[i]
    assert len(set(MLX[profile]["scale"])) > 20


def test_field_report_4_the_nearest_power_clips() -> None:
    values = [630.0] + [1.0] * 31
    nearest = quantize_block(values, profile="mlx-0.31-cpu")
    assert (nearest.scale_byte, nearest.decoded[0]) == (127, 448.0)
    assert round(1 - nearest.decoded[0] / 630, 3) == 0.289
    upwards = quantize_block(values, rule="rceil")  # what the pull request changed it to
    assert (upwards.scale_byte, upwards.decoded[0]) == (128, 640.0)


def test_every_recorded_run_has_one_profile() -> None:
    claimed = [run for _, run in RUNS]
    assert sorted(claimed) == sorted(VECTORS["results"])


def test_profiles_differ_from_each_other_somewhere() -> None:
    """No two rows for float32 tensors of different libraries are the same by oversight."""
    seen: dict[str, str] = {}
    for name, profile in profiles().items():
        answers = []
        for values in BLOCKS:
            try:
                answers.append(profile.quantize(values))
            except InputError:
                answers.append((-1, ()))
        seen[name] = repr(answers)
    same = {n for n, a in seen.items() if list(seen.values()).count(a) > 1}
    # NVIDIA's rule read twice: in the header that does not saturate, in the documentation
    assert {"cuda-13.0-nosat", "cublas"} <= same
    assert len(set(seen.values())) >= 40


def around(special: float, at: int) -> list[float]:
    return [special if i == at else 1.0 for i in range(32)]


@pytest.mark.parametrize(
    ("profile", "values", "expected"),
    [  # (byte, code of the special, code of a 1.0)
        ("torchao-head-rceil", around(-math.inf, 3), (255, 0x7F, 0x7F)),
        ("torchao-0.18-floor", around(-math.inf, 3), (247, 0xFE, 0x00)),
        ("torchao-0.18-floor", around(math.nan, 3), (255, 0x7F, 0x00)),
        ("torchao-0.18-rceil", around(math.nan, 3), (255, 0x7F, 0x7F)),
        ("flashinfer-cuda", around(-math.inf, 3), (254, 0x7E, 0x00)),
        ("flashinfer-cute-dsl", around(math.nan, 3), (119, 0x7E, 0x78)),
        ("flashinfer-cute-dsl", around(-math.inf, 3), (254, 0x7E, 0x00)),
        ("flashinfer-host", around(math.nan, 3), (119, 0x7F, 0x78)),
        ("flashinfer-host", around(math.nan, 31), (0, 0x7F, 0x38)),
        ("flashinfer-reference", around(-math.inf, 3), (254, 0xFE, 0x00)),
        ("transformer-engine", around(math.nan, 3), (119, 0x7F, 0x78)),
        ("transformer-engine", around(-math.inf, 3), (254, 0xFE, 0x00)),
        ("deepgemm", around(math.nan, 3), (254, 0x7F, 0x00)),
        ("modelopt-0.47", around(math.nan, 3), (0, 0x7F, 0x7E)),
        ("vllm-newer", around(math.nan, 3), (0, 0x7F, 0x7F)),
        ("triton-kernels-round-up", around(math.inf, 3), (255, 0x7F, 0x00)),
        ("compressed-tensors-0.20", around(math.nan, 3), (0, 0x7F, 0x7E)),
        ("cuda-13.0-satfinite", around(-math.inf, 3), (254, 0xFE, 0x00)),
        ("sglang-to-mxfp8", around(math.nan, 3), (119, 0x7E, 0x78)),
        ("sglang-prologue", around(math.nan, 3), (119, 0xFE, 0x78)),
        ("sglang-swizzled", around(math.inf, 3), (247, 0x7E, 0x00)),
    ],
)
def test_inf_and_nan(profile: str, values: list[float], expected: tuple[int, ...]) -> None:
    block = quantize_block(values, profile=profile)
    at = next(i for i, v in enumerate(values) if v != 1.0)
    codes = plain_nan(block.codes)
    assert (block.scale_byte, codes[at], codes[0]) == expected
    assert block.profile == profile and block.rule is None


@pytest.mark.parametrize(
    ("profile", "byte"),
    [("flashinfer-trace", 127), ("deepgemm", 105), ("quark-0.13-floor", 104), ("vllm-older", 1),
     ("quark-0.13-ceil-bf16", 120), ("sglang-to-mxfp8", 19), ("sglang-prologue", 19),
     ("sglang-deepgemm-activations", 85), ("gfloat-0.5", 0), ("cublas", 0)],
)  # fmt: skip
def test_zero_block(profile: str, byte: int) -> None:
    block = quantize_block([0.0] * 32, profile=profile)
    assert block.scale_byte == byte and set(block.codes) == {0}


def wrong_mantissas(profile: str, exponent: int, above: int) -> int:
    """How many of 128 amaxes next to a threshold get another byte than the exact rule's."""
    rule = "rceil" if above else "floor"
    base = exponent << 23 | above
    count = 0
    for bits in range(base - 64, base + 64):
        amax = float32_from_bits(bits)
        byte, _ = get_profile(profile).quantize([amax] * 32)
        count += byte != scale_byte(amax, rule=rule)
    return count


def test_log2_errors_as_many_as_measured() -> None:
    """Mantissas a binade that a float32 log2 gets wrong, counted on the libraries themselves."""
    for exponent, floor, ceil in (
        (9, 44, 39),
        (20, 44, 39),
        (127, 0, 2),
        (134, 2, 0),
        (250, 44, 39),
    ):
        assert wrong_mantissas("microxcaling-even", exponent, 0) == floor
        assert wrong_mantissas("torchao-0.18-rceil", exponent, 0x600000) == ceil
    assert wrong_mantissas("torchao-head-rceil", 9, 0x600000) == 0


def test_bfloat16_log2_is_wrong_for_6804_values() -> None:
    wrong = ceiling = 0
    for high in range(0x80, 0x7F80):
        value = float32_from_bits(high << 16)
        power = log2(value, bfloat)
        wrong += math.floor(power) != math.frexp(value)[1] - 1
        ceiling += math.ceil(power) != math.ceil(math.log2(value))
    assert (wrong, ceiling) == (6804, 3928)


def test_rounding_helpers() -> None:
    assert single(1e39) == math.inf and single(-1e39) == -math.inf
    assert bfloat(1 + 2**-8) == 1.0 and bfloat(1 + 3 * 2**-8) == 1 + 2**-6  # ties to even
    assert bfloat(3.4e38) == math.inf and bfloat(-0.0) == 0.0 and math.isnan(bfloat(math.nan))


def test_field_report_1_a_backend_that_flushes_is_named_as_one() -> None:
    values = [float32_from_bits(word << 16) for word in (0x046F, 0x8335, 0x000A)]
    for profile in ("flashinfer-cuda", "flashinfer-reference"):
        tiny = quantize_block([2.0**-130], profile=profile)
        assert set(tiny.codes) == {0} and quantize_block([2.0**-130]).codes[0] == 0x20
    assert quantize_block(values, profile="flashinfer-cute-dsl").scale_byte == 1


def test_fast_math_flushes_a_subnormal_element_of_an_ordinary_block() -> None:
    values = [2.0**-116, 2.0**-127, -(2.0**-127)]
    found = {name: quantize_block(values, profile=name) for name in ("flashinfer-cuda", "cublas")}
    assert {name: (b.scale_byte, b.codes[:3]) for name, b in found.items()} == {
        "flashinfer-cuda": (3, (0x78, 0x00, 0x80)),
        "cublas": (3, (0x78, 0x20, 0xA0)),
    }


def test_a_zero_point_loses_the_sign_of_zero() -> None:
    tiny = float32_from_bits(0x80000001)
    for values, code in (([-0.0, 1.0], 0x00), ([tiny, 1.0], 0x80), ([tiny, 2.0**20], 0x00)):
        assert quantize_block(values, profile="compressed-tensors-0.20").codes[0] == code
        assert quantize_block(values, profile="cublas").codes[0] == 0x80


def test_bad_profiles() -> None:
    with pytest.raises(InputError, match=r"did you mean 'torchao-0\.18-rceil'") as caught:
        quantize_block([1.0], profile="torchao-0.18-rcel")
    assert len(str(caught.value)) < 200
    with pytest.raises(InputError, match="is for format 'e4m3': got 'e5m2'"):
        quantize_block([1.0], "e5m2", profile="deepgemm")
    with pytest.raises(InputError, match="cannot convert float NaN to integer"):
        quantize_block([math.nan], profile="gfloat-0.5")


def test_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    rows = ask(capsys, "profiles")["profiles"]
    assert [row["id"] for row in rows] == list(profiles())
    keys = {"id", "library", "version", "rule", "policies", "source", "obtained", "vectors"}
    assert all(keys <= set(row) and row["source"] and row["obtained"] for row in rows)
    (row,) = ask(capsys, "profiles", "deepgemm")["profiles"]
    assert row["policies"]["zero"] == "byte 105, 0 0x00"
    block = ask(capsys, "block", "--f32-bits", "40600001", "--profile", "torchao-0.18-rceil")
    assert (block["scale_byte"], block["profile"], block["rule"]) == (
        120, "torchao-0.18-rceil", None
    )  # fmt: skip
    rows = ask(capsys, "rules", "--f32-bits", "40600001")["rows"]
    found = {row["profile"] or row["rule"]: row["scale_byte"] for row in rows}
    assert found["rceil"] == found["torchao-head-rceil"] == 121 != found["torchao-0.18-rceil"]
    rows = ask(capsys, "rules", "--amax", "nan")["rows"]
    (raises,) = [row for row in rows if row["profile"] == "gfloat-0.5"]
    assert raises["scale_byte"] is None and "cannot convert" in raises["error"]
    assert all(
        r["profile"] is None
        for r in ask(capsys, "rules", "--amax", "1", "--format", "e5m2")["rows"]
    )
    assert main(["block", "--values", "1", "--rule", "floor", "--profile", "deepgemm"]) == 2
    assert main(["profiles", "deepgem"]) == 2
    assert "did you mean 'deepgemm'" in capsys.readouterr().err
