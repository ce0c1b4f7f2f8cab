"""The detector: calibrated on random matrices, never sure and wrong; and what misreading costs."""

import re
from collections import Counter
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from mxlab.arrays import deinterleave, dequantize, interleave, quantize
from mxlab.damage import damage, misread
from mxlab.detect import THRESHOLD, detect_layout
from mxlab.detect_evidence import Losses, mean_difference, signs
from mxlab.errors import InputError
from mxlab.layout import LAYOUTS, layout

Array = np.ndarray[Any, Any]

WRITERS = ["linear", "tile_128x4", "tile_8x4", "amd_32x8", "deepgemm_packed", "te_columnwise"]
WRITERS += ["deepgemm_float32"]


def weights(kind: str, rows: int, cols: int, rng: np.random.Generator) -> Array:
    """A matrix (rows, cols * 32): noise with one kind of structure, or a bare pattern."""
    x = rng.standard_normal((rows, cols * 32))
    if kind == "rows":
        x *= np.exp(rng.normal(0, rng.uniform(0.2, 1.5), (rows, 1)))
    elif kind == "columns":
        x *= np.exp(rng.normal(0, rng.uniform(0.2, 1.5), (1, cols * 32)))
    elif kind == "heads":
        x *= np.repeat(np.exp(rng.normal(0, 1, (-(-rows // 32), 1))), 32, 0)[:rows]
    elif kind in ("noisy blocks", "bare blocks"):
        high, wide = int(rng.choice([4, 8, 16, 32])), int(rng.choice([1, 2, 4]))
        size = np.exp(rng.normal(0, 1.5, (-(-rows // high), -(-cols // wide))))
        size = np.repeat(np.repeat(size, high, 0)[:rows], wide * 32, 1)[:, : cols * 32]
        x = size * (x if kind == "noisy blocks" else np.sign(x) * (1 + 0.001 * np.abs(x)))
    elif kind == "heavy tails":
        x = rng.standard_t(2.5, x.shape)
    elif kind == "zero rows":
        x[rng.random(rows) < 0.3] = 0
        x[-rows // 4 :] = 0
    elif kind == "outliers":
        x[:, rng.integers(0, cols * 32, 3)] *= 50
    elif kind == "wild":
        x *= np.exp2(np.repeat(rng.integers(-20, 20, (rows, cols)), 32, 1))
    elif kind == "powers of two":
        steps = np.arange(rows)[:, None] // int(rng.choice([8, 16, 32])) * int(rng.integers(1, 3))
        steps = steps + np.arange(cols * 32) // 32 // int(rng.choice([1, 4])) * 3
        x = np.sign(x) * np.exp2(steps % 17)
    return x.astype(np.float32)


KINDS = ["noise", "rows", "columns", "heads", "noisy blocks", "bare blocks", "heavy tails"]
KINDS += ["zero rows", "outliers", "wild", "powers of two"]
DATA = {"noise", "rows", "columns", "heads", "heavy tails", "outliers"}  # as weights are


def written(q: Any, name: str, rng: np.random.Generator) -> Array:
    """The buffer; in one case of three its padding is poisoned."""
    buffer = interleave(q.scales, name)
    if rng.random() < 1 / 3 and name != "deepgemm_float32":
        padding = interleave(np.ones_like(q.scales), name) == 0
        poison = rng.integers(0, 256, len(buffer)) if rng.random() < 0.5 else 0xFF
        buffer = np.where(padding, poison, buffer).astype(np.uint8)
    return np.asarray(buffer)


def test_never_sure_and_wrong_on_a_thousand_matrices() -> None:
    rng = np.random.default_rng(2026)
    sides = [8, 16, 32, 64, 96, 128, 130, 256, 300, 384]
    found: Counter[str] = Counter()
    for i in range(1000):
        kind = KINDS[i % len(KINDS)]
        rows, cols = int(rng.choice(sides)), int(rng.choice([1, 2, 4, 5, 8, 12, 16, 32]))
        rule = str(rng.choice(["floor", "rceil", "ceil"]))
        q = quantize(weights(kind, rows, cols, rng), rule=rule, axis=1)
        name = str(rng.choice(WRITERS))
        buffer = written(q, name, rng)
        for how, answer in (
            ("codes", detect_layout(buffer, codes=q.codes)),
            ("scales", detect_layout(buffer, rows, cols)),
        ):
            case = (how, kind, rows, cols, name, answer.why)
            assert answer.outcome != "none", case
            if answer.outcome == "found":
                assert name in (answer.verdict, *answer.alike), case
                assert answer.confidence >= THRESHOLD
            sure = answer.outcome == "found"
            found[f"{how} {answer.evidence if sure else '?'}"] += 1
    assert found["codes codes"] > 150 and found["codes ?"] > 150, found  # neither is empty
    assert found["scales ?"] > 300 and found["scales length"] > 150, found


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("kind", sorted(DATA))
def test_codes_tell_on_a_weight_of_ordinary_size(kind: str, name: str) -> None:
    q = quantize(weights(kind, 256, 128, np.random.default_rng(5)), axis=1)
    answer = detect_layout(interleave(q.scales, name), codes=q.codes)
    assert (answer.verdict, answer.evidence) == (name, "codes"), answer.why
    assert len(answer.ranking) >= 2


@pytest.mark.parametrize("shape", [(128, 4), (256, 8), (96, 8), (300, 12), (64, 16)])
@pytest.mark.parametrize("name", WRITERS)
def test_a_reference_tells_whatever_the_structure(name: str, shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(7)
    rows, cols = shape
    for kind in ("rows", "bare blocks", "wild", "zero rows"):
        x = weights(kind, rows, cols, rng)
        q = quantize(x, axis=1)
        buffer = written(q, name, rng)
        tokens = rng.standard_normal((8, cols * 32)).astype(np.float32)
        exact = x.astype(ml_dtypes.bfloat16)
        for given in (
            {"codes": q.codes, "values": x},
            {"codes": q.codes, "values": exact},
            {"values": x},
            {"codes": q.codes, "activations": tokens, "product": tokens @ x.T},
        ):
            answer = detect_layout(buffer, **given)
            assert answer.outcome != "none", (kind, answer.why)
            if answer.outcome == "found":
                assert name in (answer.verdict, *answer.alike), (kind, answer.why)
            else:  # only where few rows or blocks differ
                assert "too few" in answer.why
        assert detect_layout(buffer, codes=q.codes, values=x).outcome == "found" or kind != "wild"


def test_differences_that_cancel_are_no_evidence() -> None:
    swinging = Losses(np.tile([1.0, -1.0], 16))
    assert mean_difference(Losses(np.zeros(32)), swinging) == 0
    assert mean_difference(Losses(np.zeros(7)), Losses(np.ones(7))) == 0  # too few
    assert mean_difference(Losses(np.zeros(32)), Losses(np.ones(32))) == 32
    assert signs(Losses(np.zeros(9)), Losses(np.zeros(9))) == 0


def test_uniform_scales_cannot_tell_and_do_no_damage() -> None:
    q = quantize(np.ones((128, 128), np.float32))
    answer = detect_layout(q.scales.reshape(-1), codes=q.codes)
    assert (answer.verdict, answer.outcome) == (None, "cannot tell")
    assert "every scale is" in answer.why and "none does damage" in answer.why
    assert damage(q, "tile_128x4").blocks_touched == 0
    with_values = detect_layout(q.scales.reshape(-1), codes=q.codes, values=np.ones((128, 128)))
    assert with_values.outcome == "cannot tell" and "too few blocks differ" in with_values.why


def test_layouts_that_coincide_are_named_together() -> None:
    q = quantize(weights("wild", 128, 4, np.random.default_rng(1)), axis=1)
    answer = detect_layout(q.scales.reshape(-1), codes=q.codes, values=dequantize(q))
    assert (answer.verdict, answer.alike) == ("linear", ("tile_8x4", "deepgemm_packed"))
    for other in answer.alike:
        np.testing.assert_array_equal(interleave(q.scales, other), q.scales.reshape(-1))


def test_clean_padding_tells_without_any_data() -> None:
    scales = np.random.default_rng(2).integers(110, 130, (130, 5), np.uint8)
    for name in ("tile_128x4", "te_columnwise", "amd_32x8", "tile_8x4"):
        answer = detect_layout(interleave(scales, name), 130, 5)
        assert answer.verdict == name and answer.evidence in ("padding", "length"), answer.why
    # a buffer of which two layouts have the length, only one of them its padding
    scales = scales[:100]
    assert layout("amd_32x8").nbytes(100, 5) == layout("tile_128x4").nbytes(100, 5)
    for name in ("amd_32x8", "tile_128x4"):
        buffer = interleave(scales, name)
        answer = detect_layout(buffer, 100, 5)
        assert (answer.verdict, answer.evidence) == (name, "padding")
        assert answer.ranking[0].dirty == 0 < answer.ranking[1].dirty
        poisoned = np.where(buffer == 0, 0xFF, buffer).astype(np.uint8)
        assert detect_layout(poisoned, 100, 5).outcome == "cannot tell"
        np.testing.assert_array_equal(deinterleave(poisoned, 100, 5, name), scales)


def test_padding_leaves_those_that_have_it_in_the_same_place() -> None:
    q = quantize(weights("noise", 128, 61, np.random.default_rng(2)), axis=1)
    for name in ("tile_128x4", "deepgemm_packed"):
        answer = detect_layout(interleave(q.scales, name), codes=q.codes)
        assert (answer.verdict, answer.evidence) == (name, "codes"), answer.why
        assert [c.dirty == 0 for c in answer.ranking[:3]] == [True, True, False]


def test_float32_scales_are_known_by_their_words() -> None:
    q = quantize(weights("rows", 64, 8, np.random.default_rng(3)), axis=1)
    for name in ("deepgemm_float32", "linear_float32"):
        numbers = np.exp2(q.scales.astype(np.float32) - 127)
        array = interleave(q.scales, name).view("<f4") if name in LAYOUTS else numbers
        answer = detect_layout(array, codes=q.codes, values=dequantize(q))
        assert answer.verdict == name
        assert {c.layouts[0] for c in answer.ranking} == {"deepgemm_float32", "linear_float32"}
    real = np.abs(np.random.default_rng(4).standard_normal((64, 8))).astype(np.float32)
    answer = detect_layout(real, codes=q.codes)
    assert answer.outcome == "none" or "float32" not in str(answer.ranking)
    assert ("linear_float32", "512 of its words are no powers of two") in answer.excluded


def test_the_array_s_shape_tells_row_major_from_its_transpose() -> None:
    q = quantize(weights("rows", 64, 3, np.random.default_rng(3)), axis=1)
    answer = detect_layout(q.scales, 64, 3)
    assert (answer.verdict, answer.evidence) == ("linear", "length")
    assert detect_layout(q.scales.T.copy(), 64, 3).verdict == "linear_transposed"
    # in memory a Fortran-ordered array is its transpose, whatever its shape says
    assert detect_layout(np.asfortranarray(q.scales), 64, 3).verdict == "linear_transposed"
    flat = {"codes": q.codes, "values": dequantize(q)}
    assert detect_layout(q.scales.reshape(-1), **flat).verdict == "linear"
    assert detect_layout(q.scales.T.reshape(-1), **flat).verdict == "linear_transposed"
    packed = interleave(q.scales, "deepgemm_packed").view("<i4").reshape(1, 64).T
    assert packed.shape == (64, 1) and packed.strides == (4, 256)
    assert detect_layout(packed, **flat).verdict == "tile_8x4"  # the same bytes for one word
    wide = quantize(weights("rows", 64, 8, np.random.default_rng(3)), axis=1)
    packed = interleave(wide.scales, "deepgemm_packed").view("<i4").reshape(2, 64).T
    answer = detect_layout(packed, codes=wide.codes, values=dequantize(wide))
    assert packed.strides == (4, 256) and answer.verdict == "deepgemm_packed"


@pytest.mark.parametrize("name", ["linear", "te_columnwise", "tile_128x4"])
def test_column_wise_scales(name: str) -> None:
    x = weights("columns", 1024, 8, np.random.default_rng(6))
    q = quantize(x, axis=0)
    buffer = interleave(q.scales, name)
    by_codes = detect_layout(buffer, codes=q.codes, axis=0)
    by_values = detect_layout(buffer, codes=q.codes, values=x, axis=0)
    assert (by_codes.rows, by_codes.cols) == (32, 256)
    assert by_codes.verdict == name == by_values.verdict, by_codes.why


def test_batches_are_padded_one_by_one() -> None:
    x = np.stack([weights("rows", 96, 16, np.random.default_rng(i)) for i in range(4)])
    q = quantize(x, axis=2)
    for name in ("linear", "tile_128x4", "tile_8x4"):
        answer = detect_layout(interleave(q.scales, name).reshape(-1), codes=q.codes, values=x)
        assert (answer.verdict, answer.batches) == (name, 4)
    flat = interleave(q.scales.reshape(4 * 96, 16), "tile_128x4")
    one = detect_layout(flat, codes=q.codes[0], values=x[0])
    assert one.outcome == "none" and "takes 6,144 bytes" in one.why
    odd = quantize(x[:3, :70], axis=2)
    flat = interleave(odd.scales.reshape(210, 16), "tile_128x4")
    answer = detect_layout(flat, codes=odd.codes)
    assert answer.outcome == "none" and "batches flattened to 210 rows" in answer.why


def test_field_report_25_stale_scales_fit_no_layout() -> None:
    old, new = (
        quantize(weights("rows", 128, 8, np.random.default_rng(seed)), axis=1) for seed in (1, 2)
    )
    stale = interleave(old.scales, "tile_128x4")
    answer = detect_layout(stale, codes=new.codes, values=dequantize(new))
    assert (answer.outcome, answer.verdict) == ("none", None) and "stale or foreign" in answer.why
    fresh = interleave(new.scales, "tile_128x4")
    assert detect_layout(fresh, codes=new.codes, values=dequantize(new)).verdict == "tile_128x4"


def test_field_report_17_rows_shuffled_but_not_tiled() -> None:
    varying = quantize(weights("wild", 256, 8, np.random.default_rng(3)), axis=1)
    equal = quantize(np.ones((256, 256), np.float32))
    order = np.arange(256).reshape(8, 4, 8).transpose(0, 2, 1).reshape(-1)  # 0, 8, 16, 24, 1, ...
    for q, outcome in ((varying, "none"), (equal, "cannot tell")):
        shuffled = q.scales[order].reshape(-1)
        answer = detect_layout(shuffled, codes=q.codes, values=dequantize(q))
        assert answer.outcome == outcome, answer.why
    # with codes shuffled alike the bytes are linear: the tiling is what is missing
    answer = detect_layout(
        varying.scales[order].reshape(-1),
        codes=varying.codes[order],
        values=dequantize(varying)[order],
    )
    assert answer.verdict == "linear"


@pytest.mark.parametrize("rows", [128, 1024, 4096])
def test_field_reports_16_and_17_what_stays_in_place(rows: int) -> None:
    cols = 4 if rows == 128 else rows // 32
    scales = np.random.default_rng(1).integers(1, 255, (rows, cols), np.uint8)
    found = misread(scales.reshape(-1), "linear", "tile_128x4", rows, cols)
    assert found.blocks_in_place == 2 * found.blocks / rows
    if rows == 128:
        assert found.rows_in_place == 2 and found.blocks == 512
    assert found.blocks_touched > 0.9 * found.blocks


@pytest.mark.parametrize("wrong", ["tile_8x4", "amd_32x8", "deepgemm_packed", "tile_128x4"])
def test_damage_is_that_of_decoding_with_the_wrong_scales(wrong: str) -> None:
    x = weights("rows", 128, 8, np.random.default_rng(9))
    q = quantize(x, axis=1)
    found = damage(q, wrong)
    misplaced = deinterleave(q.scales.reshape(-1), 128, 8, wrong)
    read = quantize(x, axis=1)
    read.scales[:] = misplaced
    right, bad = dequantize(q, np.float64), dequantize(read, np.float64)
    expected = np.sqrt(((bad - right) ** 2).sum() / (right**2).sum())
    assert found.relative_error is not None and found.gemm_error is not None
    np.testing.assert_allclose(found.relative_error, expected, rtol=1e-12)
    assert found.blocks_touched == (misplaced != q.scales).sum() > 0
    assert found.rows_touched == (misplaced != q.scales).any(axis=1).sum()
    tokens = np.random.default_rng(0).standard_normal((16, 256))
    lost = tokens @ bad.T - tokens @ right.T
    expected = np.sqrt((lost**2).sum() / ((tokens @ right.T) ** 2).sum())
    np.testing.assert_allclose(found.gemm_error, expected, rtol=1e-9)
    assert (found.gemm_nan, found.gemm_outputs, found.nan_blocks) == (0, 16 * 128, 0)


def test_damage_of_padding_that_is_read_and_of_bytes_that_are_not_there() -> None:
    q = quantize(weights("rows", 100, 4, np.random.default_rng(9)), axis=1)
    tiled = interleave(q.scales, "tile_128x4")
    poisoned = np.where(interleave(np.ones_like(q.scales), "tile_128x4") == 0, 0xFF, tiled)
    poisoned = poisoned.astype(np.uint8)
    found = misread(poisoned, "tile_128x4", "linear", 100, 4, codes=q.codes)
    read = poisoned[:400].reshape(100, 4)
    assert found.nan_blocks == (read == 0xFF).sum() > 0 and found.gemm_nan > 0
    assert found.relative_error is not None  # of what is left
    beyond = misread(q.scales.reshape(-1), "linear", "tile_128x4", 100, 4, codes=q.codes)
    places = [layout("tile_128x4").at(r, c, 100, 4) for r in range(100) for c in range(4)]
    assert beyond.beyond == sum(place >= 400 for place in places) > 0


def test_large_matrices_are_sampled() -> None:
    rng = np.random.default_rng(8)
    rows, cols = 40_000, 64
    scales = (120 + rng.integers(0, 2, (rows, cols))).astype(np.uint8)
    answer = detect_layout(interleave(scales, "tile_128x4"), rows, cols)
    assert answer.rows_weighed * cols <= 2**20 and answer.rows_weighed >= 16_000
    found = misread(interleave(scales, "tile_128x4"), "tile_128x4", "linear", rows, cols)
    assert found.rows == answer.rows_weighed


def test_input_that_cannot_be_used() -> None:
    codes = np.zeros((4, 64), np.uint8)
    scales = np.zeros(8, np.uint8)
    floats = np.zeros((4, 64), np.float32)
    cases: list[tuple[dict[str, Any], str]] = [
        ({"scales": [1]}, "scales are list: expected a NumPy array"),
        ({"scales": np.zeros(8, np.int16)}, "scales are int16: expected uint8, int32"),
        ({"scales": np.zeros(0, np.uint8)}, "scales are empty"),
        ({}, "rows and cols are missing"),
        ({"rows": 4}, "rows and cols are missing"),
        ({"rows": 0, "cols": 2}, "rows is 0: expected 1 to"),
        ({"rows": 2**30, "cols": 2**30}, "expected at most 2^28"),
        ({"codes": codes, "rows": 5}, "rows is 5: expected 4, as the codes or values have"),
        ({"codes": codes[0]}, "codes have dimensions 1: expected 2, or 3"),
        ({"codes": floats}, "codes are float32: expected a uint8 array"),
        ({"codes": codes[:, :33]}, "33 % 32 = 1"),
        ({"codes": codes, "values": floats[:2]}, "codes and values have shapes"),
        ({"codes": codes, "values": codes}, "values are uint8: expected floats"),
        ({"codes": codes, "axis": 5}, "axis is 5: expected -2 to 1"),
        ({"codes": codes, "product": floats}, "activations is missing"),
        ({"values": floats, "product": floats, "activations": floats}, "needs codes (N, K)"),
        ({"codes": codes, "product": floats, "activations": floats}, "expected (M, 64) and (M, 4)"),
        ({"codes": codes, "candidates": ["tiles"]}, "unknown layout 'tiles'"),
        ({"codes": codes, "candidates": "linear"}, "candidates are 'linear': expected a list"),
        ({"codes": codes, "fmt": "e2m1"}, "e2m1"),
    ]
    for given, text in cases:
        with pytest.raises(InputError, match=re.escape(text)):
            detect_layout(**{"scales": scales, **given})
    with pytest.raises(InputError, match="the buffer has 8 bytes: expected 512 for 4 x 2"):
        misread(scales, "tile_128x4", "linear", 4, 2)
    with pytest.raises(InputError, match="expected a matrix, axis 1"):
        damage(quantize(np.ones(32, np.float32)), "linear")
