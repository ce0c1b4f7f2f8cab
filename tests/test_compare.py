"""Rules and profiles on whole tensors, held to the scalar block and to recorded figures."""

import math
import re
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from test_arrays import adversarial_blocks

import mxlab.compare as module
from mxlab.arrays import dequantize, quantize
from mxlab.block import quantize_block
from mxlab.compare import Score, compare
from mxlab.errors import InputError
from mxlab.formats import ELEMENT_FORMATS
from mxlab.profiles import profiles
from mxlab.scale import RULES

Array = np.ndarray[Any, Any]


def by_hand(blocks: Array, **how: Any) -> dict[str, Any]:
    """The figures from the scalar block, one block at a time, in exact sums."""
    signal, noise, relative, of_amax, saturated, zeroed, nan = [], [], [0.0], [0.0], 0, 0, 0
    for values in blocks.tolist():
        b = quantize_block(values, **how)
        if not all(map(math.isfinite, b.decoded)):
            nan += 1
            continue
        lost = [d - v for d, v in zip(b.decoded, b.values, strict=True)]
        signal += [v * v for v in b.values]
        noise += [e * e for e in lost]
        relative.append(b.max_rel_error or 0.0)
        of_amax.append(max(map(abs, lost)) / b.amax if b.amax else 0.0)
        saturated += b.saturated
        zeroed += sum(bool(v) and d == 0 for v, d in zip(b.values, b.decoded, strict=True))
    ratio = math.fsum(signal) / math.fsum(noise) if math.fsum(noise) else None
    return {
        "sqnr_db": None if ratio is None else 10 * math.log10(ratio),
        "max_rel_error": max(relative),
        "max_error_of_amax": max(of_amax),
        "saturated": saturated,
        "underflowed": zeroed,
        "nan_blocks": nan,
        "blocks": len(blocks),
    }


def agree(score: Score, expected: dict[str, Any]) -> None:
    for key, value in expected.items():
        found = getattr(score, key)
        if isinstance(value, float):
            assert found == pytest.approx(value, rel=1e-9), (score.name, key)
        else:
            assert found == value, (score.name, key)


def finite_blocks() -> Array:
    blocks = adversarial_blocks()
    finite: Array = blocks[np.isfinite(blocks).all(axis=1)]
    return finite


@pytest.mark.parametrize("fmt", sorted(ELEMENT_FORMATS))
def test_rules_agree_with_the_scalar_block(fmt: str) -> None:
    blocks = finite_blocks()
    # huge and tiny blocks apart: in one sum the huge ones hide all others
    sizes = np.abs(blocks).max(axis=1)
    for part in (blocks[sizes < 2.0**-100], blocks[(sizes >= 2.0**-100) & (sizes < 2.0**20)]):
        assert len(part) > 20
        found = compare(part, fmt, profile_names=[])
        for score in found.rules:
            agree(score, by_hand(part, fmt=fmt, rule=score.name))
        assert len({score.sqnr_db for score in found.rules}) >= 2


def test_profiles_agree_with_the_scalar_block() -> None:
    blocks = finite_blocks()
    blocks = blocks[np.abs(blocks).max(axis=1) < 2.0**20]
    found = compare(blocks, sample=10**6)
    assert found.sampled == len(blocks) == found.blocks
    assert [score.name for score in found.profiles] == list(profiles())
    for score in found.profiles:
        expected = by_hand(blocks, profile=score.name)
        agree(score, expected)
    figures = {score.name: score.sqnr_db for score in found.profiles}
    assert len(set(figures.values())) > 8
    for rule in RULES:
        same = next(score for score in found.rules if score.name == rule)
        assert figures[f"torchao-head-{rule}"] == pytest.approx(same.sqnr_db, rel=1e-12)


@pytest.mark.parametrize(
    ("kind", "floor", "even", "rceil", "ceil"),
    [
        ("normal", 30.67, 31.17, 31.49, 31.49),
        ("uniform", 26.58, 30.95, 32.50, 32.50),
    ],
)
def test_figures_that_torchao_gave(
    kind: str, floor: float, even: float, rceil: float, ceil: float
) -> None:
    """SQNR measured with torchao on bfloat16 data, another sample of it."""
    rng = np.random.default_rng(1)
    x = rng.standard_normal((512, 1024)) if kind == "normal" else rng.uniform(-1, 1, (512, 1024))
    found = compare(x.astype(ml_dtypes.bfloat16), profile_names=[])
    figures = {score.name: score.sqnr_db for score in found.rules}
    expected = {"floor": floor, "even": even, "rceil": rceil, "ceil": ceil}
    assert figures == pytest.approx(expected, abs=0.06)


def test_nothing_is_lost_of_exact_data() -> None:
    x = np.tile(np.array([1, 2, -3.5, 0, 448, 0.5, 6, -448], np.float32), (5, 8))
    for score in compare(x, profile_names=[]).rules:
        # CEIL gives a binade away, but these values survive it
        assert (score.sqnr_db, score.max_rel_error, score.saturated, score.underflowed) == (
            None,
            0.0,
            0,
            0,
        )
    zeros = compare(np.zeros((2, 64), np.float32), rules=["rceil"], profile_names=["deepgemm"])
    assert (zeros.zeros, zeros.blocks, zeros.rules[0].sqnr_db) == (4, 4, None)
    assert (zeros.profiles[0].lowest, zeros.profiles[0].highest) == (105, 105)


def test_blocks_with_inf_or_nan_are_counted_and_left_out() -> None:
    x = np.random.default_rng(2).standard_normal((8, 64)).astype(np.float32)
    clean = compare(np.delete(x.reshape(-1, 32), [0, 5], axis=0), profile_names=["gfloat-0.5"])
    x.reshape(-1, 32)[0, 3], x.reshape(-1, 32)[5, 31] = np.nan, -np.inf
    found = compare(x, profile_names=["gfloat-0.5"])  # gfloat itself raises for NaN
    assert (found.nonfinite, found.blocks, found.sampled) == (2, 16, 14)
    assert found.rules == clean.rules and found.profiles == clean.profiles
    bad = compare(np.full((1, 32), np.inf, np.float32))
    assert bad.nonfinite == 1 and all(score.blocks == 0 for score in (*bad.rules, *bad.profiles))


def test_finite_data_that_a_profile_makes_nan_is_counted() -> None:
    x = np.full((1, 32), np.finfo(np.float32).max)
    found = compare(x, rules=["even"], profile_names=["torchao-head-even", "torchao-head-floor"])
    assert [score.nan_blocks for score in found.profiles] == [1, 0]
    assert [score.nan_blocks for score in found.rules] == [0]


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
@pytest.mark.parametrize("chunk", [64, 96, 1000, 2**20])
def test_any_axis_in_chunks_of_any_size(
    monkeypatch: pytest.MonkeyPatch, axis: int, chunk: int
) -> None:
    monkeypatch.setattr(module, "_CHUNK", chunk // 32 * 32)
    x = np.random.default_rng(3).standard_normal((32, 64, 96)).astype(np.float32)
    x *= np.exp2(np.random.default_rng(4).integers(-9, 9, x.shape)).astype(np.float32)
    found = compare(x, axis=axis, rules=["rceil"], profile_names=["deepgemm"], sample=7)
    decoded = dequantize(quantize(x, axis=axis), np.float64)
    ratio = (x.astype(np.float64) ** 2).sum() / ((decoded - x) ** 2).sum()
    assert found.rules[0].sqnr_db == pytest.approx(10 * math.log10(ratio), rel=1e-12)
    assert found.rules[0].underflowed == ((decoded == 0) & (x != 0)).sum() > 0
    assert (found.blocks, found.sampled) == (x.size // 32, 7)
    blocks = np.moveaxis(x, axis, -1).reshape(-1, 32)
    drawn = np.random.default_rng(0).choice(len(blocks), 7, replace=False)
    agree(found.profiles[0], by_hand(blocks[np.sort(drawn)], profile="deepgemm"))


def test_long_lines_and_padding() -> None:
    x = np.random.default_rng(5).standard_normal(2 * 2**20 + 40).astype(np.float32)
    found = compare(x, rules=["floor"], profile_names=[], pad=True)
    assert (found.padded, found.blocks, found.rules[0].blocks) == (24, 65538, 65538)
    short = x[-40:]
    filled = np.pad(short, (0, 24)).reshape(-1, 32)
    agree(
        compare(short, rules=["floor"], profile_names=[], pad=True).rules[0],
        by_hand(filled, rule="floor"),
    )


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float64])
def test_dtypes_are_compared_with_what_was_given_as_float32(dtype: Any) -> None:
    x = np.random.default_rng(6).standard_normal((4, 64)).astype(dtype)
    found = compare(x, profile_names=[])
    assert found.dtype == np.dtype(dtype).name
    assert found.rules == compare(x.astype(np.float32), profile_names=[]).rules


def test_a_mapped_file_is_read_in_place(tmp_path: Path) -> None:
    x = np.random.default_rng(7).standard_normal((64, 256)).astype(np.float32)
    np.save(tmp_path / "x.npy", x.T)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    for axis in (0, 1):
        found = compare(mapped, axis=axis, profile_names=["deepgemm"])
        assert found == compare(np.ascontiguousarray(x.T), axis=axis, profile_names=["deepgemm"])


def test_input_that_cannot_be_used() -> None:
    x = np.ones((2, 40), np.float32)
    cases: list[tuple[Any, dict[str, Any], str]] = [
        (x, {}, "axis 1 of shape (2, 40) has 40 values: expected a multiple of 32 (40 % 32 = 8)"),
        (x[:, :0], {}, "has 0 values"),
        (x[:, :32], {"axis": 2}, "axis is 2: expected -2 to 1"),
        (np.array(1.0), {}, "has no dimensions"),
        (np.ones(32, np.int8), {}, "x has dtype int8: expected float32"),
        (np.full(32, 1e300), {}, "x holds 1e+300: beyond float32"),
        (x[:, :32], {"rules": ["flor"]}, "unknown rule 'flor'"),
        (x[:, :32], {"profile_names": ["deepgem"]}, "did you mean 'deepgemm'"),
        (x[:, :32], {"profile_names": ["deepgemm"], "fmt": "e5m2"}, "is for format 'e4m3'"),
        (x[:, :32], {"sample": 0}, "sample is 0: expected 1 to"),
    ]
    for array, given, text in cases:
        with pytest.raises(InputError, match=re.escape(text)):
            compare(array, **given)
