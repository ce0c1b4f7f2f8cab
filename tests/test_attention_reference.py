"""The reference prologue: bit for bit what the real kernel left behind, and its own identities."""

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray
from prologue_cases import RETURNED, Case, bf16, drawn, recorded

from mxlab.attention.arithmetic import rms_norm, sum_of_neighbours
from mxlab.attention.prologue import (
    Prologue,
    prologue_decode,
    prologue_extend,
    prologue_verify,
)
from mxlab.attention.rounding import bf, codes, dequantize, quantize, scale_bytes, widen
from mxlab.formats import E4M3
from mxlab.scale import RULES

RUN: dict[str, Callable[..., Prologue]] = {
    "verify": prologue_verify,
    "extend": prologue_extend,
    "decode": prologue_decode,
}


def call(mode: str, arrays: dict[str, Any], args: dict[str, Any]) -> Prologue:
    return RUN[mode](**arrays, **args)


@pytest.mark.parametrize("case", recorded(), ids=lambda case: case.name)
def test_every_byte_of_the_recorded_cases(case: Case) -> None:
    """Returned values, caches, windows, pages, and what must stay untouched: no mismatch."""
    state = case.fresh()
    result = call(case.mode, state, case.args)
    assert len(case.expected) >= 7
    for name, want in case.expected.items():
        got = result[RETURNED[name]] if name in RETURNED else state[name]
        assert got.dtype == want.dtype and (got == want).all(), name
    unwritten = [n for n in case.inputs if n not in case.expected]
    assert all((state[n] == case.inputs[n]).all() for n in unwritten)
    assert any((case.expected[n] != case.inputs[n]).any() for n in ("k_buf", "v_buf"))


@pytest.mark.parametrize("case", recorded(), ids=lambda case: case.name)
def test_torch_tensors_give_the_same_bytes(case: Case) -> None:
    torch = pytest.importorskip("torch")
    words = {np.dtype(np.uint16): torch.bfloat16, np.dtype(np.uint8): torch.uint8}
    state = {}
    for name, array in case.fresh().items():
        raw = array.view(np.int16) if array.dtype == np.uint16 else array
        state[name] = torch.from_numpy(raw).view(
            words.get(array.dtype, torch.from_numpy(raw).dtype)
        )
        if name in ("k_buf", "v_buf") and case.args["mxfp8_quant"]:
            state[name] = state[name].view(torch.float8_e4m3fn)
        if name in ("sfk", "sfv"):
            state[name] = state[name].view(torch.float8_e8m0fnu)
    result = call(case.mode, state, case.args)
    types = [torch.bfloat16] * 3 + [type(None)]
    if case.args["mxfp8_quant"]:
        types = [torch.float8_e4m3fn, torch.bfloat16, torch.bfloat16, torch.float8_e8m0fnu]
    assert [getattr(x, "dtype", type(x)) for x in result] == types
    for name, want in case.expected.items():
        got = result[RETURNED[name]] if name in RETURNED else state[name]
        assert (got.view(torch.uint8).numpy() == want.view(np.uint8)).all(), name


@pytest.mark.parametrize("mode", RUN)
def test_bfloat16_and_mxfp8_agree(mode: str) -> None:
    """MXFP8 is the codec applied to what the bfloat16 mode returns."""
    args, arrays = drawn(mode, mxfp8=False)
    plain = call(mode, arrays, args)
    args, arrays = drawn(mode, mxfp8=True)
    small = call(mode, arrays, args)
    assert (plain.k == small.k).all() and (plain.v == small.v).all()
    q, byte = quantize(plain.q.reshape(-1, args["dq"] // 128, 128))
    assert (small.q == q.reshape(plain.q.shape)).all() and (small.q_scale == byte).all()
    assert plain.q_scale is None and len(np.unique(byte)) > 3


@pytest.mark.parametrize("mode", RUN)
def test_ml_dtypes_arrays_come_back_as_such(mode: str) -> None:
    args, arrays = drawn(mode, mxfp8=False)
    plain = call(mode, {n: a.copy() for n, a in arrays.items()}, args)
    typed: dict[str, Any] = {
        n: a.view(ml_dtypes.bfloat16) if a.dtype == np.uint16 else a for n, a in arrays.items()
    }
    result = call(mode, typed, args)
    assert result.k.dtype == ml_dtypes.bfloat16
    assert (result.k.view(np.uint16) == plain.k).all()


def words() -> NDArray[np.uint16]:
    return np.arange(1 << 16, dtype=np.uint32).astype(np.uint16)


def test_the_scale_rule_on_every_bfloat16() -> None:
    """Against the formula in exact arithmetic, and RCEIL above its floor."""
    size = words()[:0x7F80].astype(np.int64)
    rows = np.repeat(size[:, None].astype(np.uint16), 32, axis=1)
    rows[::2] |= 0x8000
    got = scale_bytes(rows).astype(np.int64)
    amax = widen(size.astype(np.uint16)).astype(np.float64)
    least = np.maximum(amax, 1e-30)
    exponent = np.frexp(least / 448)[1]  # least / 448 <= 2^exponent, equal to half of it at 448
    power = np.where(np.ldexp(448.0, exponent - 1) >= least, exponent - 1, exponent)
    assert (got == np.clip(power + 127, 0, 254)).all()
    threshold = RULES["rceil"].threshold(E4M3)
    rceil = (size >> 7) - E4M3.emax + (((size & 0x7F) << 16) >= threshold)
    assert (got == np.maximum(19, rceil)).all() and len(np.unique(got)) == 229


def test_codes_on_every_bfloat16_under_every_byte() -> None:
    """Against ml_dtypes' conversion of the exact double-precision quotient, NaN apart."""
    finite = words()[(words() & 0x7FFF) < 0x7F80]
    for byte in (19, 20, 119, 127, 128, 200, 247):
        with np.errstate(over="ignore"):
            got = codes(finite.reshape(-1, 32), np.full(len(finite) // 32, byte, np.uint8))
        got = got.reshape(-1)
        exact = widen(finite).astype(np.float64) / 2.0 ** (byte - 127)
        want = np.clip(exact, -448, 448).astype(ml_dtypes.float8_e4m3fn).view(np.uint8)
        assert (got == want).all(), byte


def test_rounding_to_bfloat16() -> None:
    high = words().astype(np.uint32) << 16
    for low in (0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF):
        x = (high | np.uint32(low)).view(np.float32)
        with np.errstate(invalid="ignore"):
            want = x.astype(ml_dtypes.bfloat16).view(np.uint16)
        good = ~np.isnan(x)
        assert (bf(x)[good] == want[good]).all() and (bf(x)[~good] == 0x7FFF).all()


def test_the_norm_against_double_precision() -> None:
    rng = np.random.default_rng(3)
    x = bf16(rng.standard_normal((512, 128)) * np.exp2(rng.integers(-20, 20, (512, 1))))
    gamma = bf16(rng.standard_normal(128))
    wide = widen(x).astype(np.float64)
    norm = wide / np.sqrt((wide**2).mean(-1, keepdims=True) + 1e-6) * widen(gamma)
    want = norm.astype(np.float32).astype(ml_dtypes.bfloat16).view(np.uint16)
    got = rms_norm(x, gamma, 1e-6)
    moved = got != want
    assert moved.mean() < 1e-3
    assert (np.abs(got.astype(int) - want.astype(int))[moved] == 1).all()
    assert sum_of_neighbours(np.ones((3, 128), np.float32)).tolist() == [128.0] * 3


def special(name: str, value: int) -> tuple[Prologue, dict[str, Any]]:
    """Put one value into token 2 of a decode without history or residual."""
    args, arrays = drawn("decode", tokens=6, q_heads=1, seed=4, use_residual=False)
    arrays["cache_mask"][:] = False
    arrays["loc"][:] = np.arange(6)
    arrays["cache_indices"][:] = np.arange(6)
    arrays["track_mask"][:] = False
    arrays["qkvr"][2, args[f"{name}_off"] + 37] = value
    return call("decode", arrays, args), arrays


def test_nan_in_a_head() -> None:
    """Q and K lose the whole head, V one value; MXFP8 stores FE, and a scale from the others."""
    result, arrays = special("q", 0x7FC1)
    assert (result.q[2] == 0xFE).all() and (result.q_scale[2] == 19).all()
    assert (result.q[3] != 0xFE).any()
    result, arrays = special("k", 0xFFC1)
    assert (result.k[2] == 0x7FFF).all() and (arrays["k_buf"][2] == 0xFE).all()
    assert (arrays["sfk"][0, 0, 2, 0] == 19).all() and (arrays["sfk"][0, 0, 3, 0] != 19).all()
    result, arrays = special("v", 0x7FC1)
    assert result.v[2, 37] == 0x7FFF and (result.v[2] == 0x7FFF).sum() == 1
    assert arrays["v_buf"][2, 0, 37] == 0xFE and (arrays["v_buf"][2, 0] != 0xFE).sum() > 100
    assert arrays["sfv"][0, 0, 2, 0, 1] not in (19, 254)


def test_infinity_in_a_head() -> None:
    result, arrays = special("q", 0x7F80)
    block = result.q[2].reshape(4, 32)
    assert (np.delete(result.q[2], 37) & 0x7F == 0).all() and block[1, 5] == 0xFE
    result, arrays = special("v", 0x7F80)
    assert arrays["sfv"][0, 0, 2, 0, 1] == 254
    assert arrays["v_buf"][2, 0, 37] in (0x7E, 0xFE)


@pytest.mark.parametrize("mode", RUN)
@pytest.mark.parametrize("mxfp8", [False, True])
def test_no_tokens(mode: str, mxfp8: bool) -> None:
    args, arrays = drawn(mode, tokens=6, mxfp8=mxfp8)
    for name in ("qkvr", "loc", "si"):
        if name in arrays:
            arrays[name] = arrays[name][:0]
    if mode != "extend":
        for name in ("cache_indices", "cache_mask", "track_mask", "track_indices"):
            if name in arrays:
                arrays[name] = arrays[name][:0]
    else:
        arrays["cu"][:] = 0
    before = {n: a.copy() for n, a in arrays.items()}
    result = call(mode, arrays, args)
    assert result.q.shape == (0, 256) and result.k.shape == result.v.shape == (0, 128)
    assert (result.q_scale is None) is not mxfp8
    assert all((arrays[n] == before[n]).all() for n in arrays)


def test_history_that_is_gated_off_still_carries_nan() -> None:
    args, arrays = drawn("decode", tokens=3, q_heads=1)
    arrays["cache_mask"][:] = False
    arrays["v_cache"][arrays["cache_indices"][0], 1, 5] = 0x7FC0
    result = call("decode", arrays, args)
    assert result.v[0, 5] == 0x7FFF and (result.v == 0x7FFF).sum() == 1


def test_dequantize_undoes_quantize_where_codes_are_exact() -> None:
    values = bf16(np.arange(-64, 64, dtype=np.float32).reshape(1, 128) // 8 * 8)
    q, byte = quantize(values)
    assert (bf(dequantize(q, byte)) & 0x7FFF == values & 0x7FFF).all()
    assert np.isnan(dequantize(q, np.full_like(byte, 255))).all()
