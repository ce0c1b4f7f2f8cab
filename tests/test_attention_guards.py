"""Every guard of the real prologue, with its exact text and our numbers, before any write."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from prologue_cases import drawn
from test_attention_reference import RUN

from mxlab.attention.checks import GuardTripped, text
from mxlab.attention.order import order
from mxlab.errors import InputError

Change = Callable[[dict[str, Any]], None]


def shorter(name: str) -> Change:
    def change(call: dict[str, Any]) -> None:
        call[name] = call[name][:-1]

    return change


def put(**values: Any) -> Change:
    return lambda call: call.update(values)


def strided(name: str, axis: int = 0, times: int = 2) -> Change:
    """Keep the shape; the stride along an axis becomes ``times`` what it was."""

    def change(call: dict[str, Any]) -> None:
        old = call[name]
        shape = list(old.shape)
        shape[axis] *= times
        big = np.zeros(shape, old.dtype)
        view = big[(slice(None),) * axis + (slice(None, None, times),)]
        view[...] = old
        call[name] = view

    return change


def narrow_rows(call: dict[str, Any]) -> None:
    call["qkvr"] = np.ascontiguousarray(call["qkvr"][:, :-4])


def flat_scales(call: dict[str, Any]) -> None:
    slots, heads, _ = call["k_buf"].shape
    call["sfk"] = call["sfv"] = np.zeros((slots, heads, 4), np.uint8)


def odd(call: dict[str, Any]) -> None:
    """Slots 132 apart: not a multiple of 8."""
    for name in ("k_buf", "v_buf"):
        old = call[name]
        rows = np.zeros((len(old), 132), old.dtype)
        call[name] = np.lib.stride_tricks.as_strided(
            rows, old.shape, (rows.strides[0], 128 * old.itemsize, old.itemsize)
        )


#: as the real prologue prints them, ``{}`` for what differs; SGLang 0.5.23
TEXTS = {
    "ink-py-dims": "MXFP8 fused {}prologue requires head_dim-aligned Q/K/V.",
    "ink-py-sf": "MXFP8 fused {}prologue requires K/V scale buffers.",
    "ink-py-shape": "MXFP8 fused {}prologue requires interleaved K/V scale buffers with shape ",
    "ink-py-contig": "MXFP8 fused {}prologue requires contiguous interleaved SFK/SFV.",
    "ink-cu-t": "T != B*q",
    "ink-cu-dims": "dims % head_dim",
    "ink-cu-row": "qkvr must be row-major with 16B-aligned rows",
    "ink-cu-off": "slice offsets must be 16B aligned",
    "ink-cu-si": "si must cover T tokens",
    "ink-cu-cu": "cu must be [B+1]",
    "ink-cu-seq": "per-seq arrays must be [B]",
    "ink-cu-kvstride": "kv buf stride mismatch",
    "ink-cu-conv": "conv caches must be channel-contiguous",
    "ink-cu-inter": "inter buffers must be channel-contiguous with equal strides",
    "ink-cu-cwstride": "k/v cache+weight strides must match",
    "ink-cu-block": "token lanes must fit one block",
    "ink-cu-track": "extend track needs gather rows",
    "ink-cu-store": "MXFP8 fused {}prologue requires do_store=True",
    "ink-cu-page": "MXFP8 page size must tile 32-token scale blocks",
    "ink-cu-kvdtype": "MXFP8 KV buffers must be fp8_e4m3",
    "ink-cu-sfdtype": "MXFP8 scale buffers must be passed as uint8 views",
    "ink-cu-kvalign": "MXFP8 kv buf row alignment",
    "ink-cu-bf16align": "kv buf rows must be 16B aligned",
    "ink-cu-tau": "log_tau smaller than T",
}
#: what {} is: Python's checks call extend's prologue as verify's, the CUDA code does not
NAMES = {"verify": "", "decode": "decode ", "extend": ""}

MX: dict[str, Any] = {"mxfp8": True}
BF: dict[str, Any] = {"mxfp8": False}

#: (mode, drawn with, change, guard, part of the numbers)
CASES: list[tuple[str, dict[str, Any], Change, str, str]] = [
    ("verify", MX, put(dq=200), "ink-py-dims", "dq = 200 % 128 = 72"),
    ("decode", MX, put(dkv=64), "ink-py-dims", "dkv = 64 % 128 = 64"),
    ("extend", MX, put(sfk=None), "ink-py-sf", "missing: SFK"),
    ("decode", MX, flat_scales, "ink-py-shape", "(2, 1, 32, 4, 4)"),
    ("extend", MX, put(page_size=64), "ink-py-shape", "(4, 1, 32, 2, 4)"),
    ("verify", MX, strided("sfv", 4), "ink-py-contig", "SFV False"),
    ("verify", MX, put(draft_token_num=5), "ink-cu-t", "T = 12, B = 4, q = 5, B*q = 20"),
    ("verify", MX, put(draft_token_num=0), "ink-cu-t", "q = 0"),
    ("verify", BF, put(dq=200), "ink-cu-dims", "dq = 200 % 128 = 72"),
    ("extend", BF, put(dkv=64), "ink-cu-dims", "dkv = 64 % 128 = 64"),
    ("decode", MX, narrow_rows, "ink-cu-row", "row stride = 532 % 8 = 4"),
    ("extend", MX, strided("qkvr", 1), "ink-cu-row", "column stride 2"),
    ("verify", BF, put(q_off=4), "ink-cu-off", "q_off = 4 % 8 = 4"),
    ("extend", MX, shorter("si"), "ink-cu-si", "si has 11, T = 12"),
    ("extend", MX, shorter("cu"), "ink-cu-cu", "cu has 3, B+1 = 4"),
    ("extend", MX, shorter("has_initial_state"), "ink-cu-seq", "has_initial_state has 2, B = 3"),
    ("extend", BF, shorter("cache_mask"), "ink-cu-seq", "cache_mask has 2, B = 3"),
    ("verify", MX, strided("v_buf"), "ink-cu-kvstride", "k_buf 128, v_buf 256"),
    ("decode", MX, strided("v_cache", 2), "ink-cu-conv", "v_cache 2"),
    ("verify", MX, strided("k_inter", 1), "ink-cu-inter", "k_inter"),
    ("extend", BF, strided("k_cache", 1), "ink-cu-cwstride", "k_cache"),
    ("decode", BF, strided("v_weight", 0), "ink-cu-cwstride", "k_weight 4, v_weight 8"),
    ("verify", MX, put(max_heads=3), "ink-cu-block", "Hq + 2 Hkv = 2 + 2 x 1 = 4 against 3"),
    ("extend", MX, lambda c: c.update(track_rows=np.zeros((0, 3), np.int64)), "ink-cu-track", "("),
    ("verify", MX, put(do_store=False), "ink-cu-store", "do_store = False"),
    ("decode", MX, put(do_store=False), "ink-cu-store", "do_store = False"),
    ("extend", MX, put(do_store=False), "ink-cu-store", "do_store = False"),
    (
        "decode",
        MX,
        lambda c: c.update(
            page_size=16,
            sfk=np.zeros((16, 1, 32, 0, 4), np.uint8),
            sfv=np.zeros((16, 1, 32, 0, 4), np.uint8),
        ),
        "ink-cu-page",
        "page size = 16 % 32 = 16",
    ),
    (
        "extend",
        MX,
        lambda c: c.update(k_buf=c["k_buf"].astype(np.uint16)),
        "ink-cu-kvdtype",
        "k_buf holds bf16",
    ),
    (
        "verify",
        MX,
        lambda c: c.update(sfv=c["sfv"].astype(np.uint16)),
        "ink-cu-sfdtype",
        "sfv holds bf16",
    ),
    ("extend", MX, odd, "ink-cu-kvalign", "slot stride = 132 % 32 = 4"),
    ("extend", BF, odd, "ink-cu-bf16align", "slot stride = 132 % 8 = 4"),
    ("decode", MX, put(log_scaling_tau=np.ones(11)), "ink-cu-tau", "tau has 11, T = 12"),
]  # fmt: skip


@pytest.mark.parametrize(("mode", "how", "change", "id", "numbers"), CASES)
def test_a_guard_trips_with_its_text_and_nothing_is_written(
    mode: str, how: dict[str, Any], change: Change, id: str, numbers: str
) -> None:
    args, arrays = drawn(mode, **how)
    call: dict[str, Any] = {**arrays, **args}
    change(call)
    before = {n: x.copy() for n, x in call.items() if isinstance(x, np.ndarray)}
    with pytest.raises(GuardTripped) as caught:
        RUN[mode](**call)
    error = caught.value
    assert error.guard == id and numbers in error.because
    name = "extend " if (mode, id) == ("extend", "ink-cu-store") else NAMES[mode]
    said = TEXTS[id].format(name) if "{}" in TEXTS[id] else TEXTS[id]
    assert error.message == said or id == "ink-py-shape"
    assert str(error).startswith(said)
    assert "\n" not in str(error) and id in str(error) and isinstance(error, InputError)
    for name, was in before.items():
        assert (call[name] == was).all(), name


def test_every_check_is_tried() -> None:
    every = {id for mode in RUN for mx in (True, False) for id in order(mode, mxfp8=mx)}
    assert {case[3] for case in CASES} == every == TEXTS.keys()


def test_texts_of_decode_say_decode() -> None:
    args, arrays = drawn("decode")
    with pytest.raises(GuardTripped, match=r"^MXFP8 fused decode prologue requires K/V scale"):
        RUN["decode"](**{**arrays, **args, "sfv": None})
    assert text("ink-cu-store", "verify") == "MXFP8 fused prologue requires do_store=True"


def test_the_first_check_of_several_is_the_one_that_speaks() -> None:
    args, arrays = drawn("extend")
    call = {**arrays, **args, "q_off": 4, "max_heads": 1, "si": arrays["si"][:3]}
    for wanted in ("ink-cu-off", "ink-cu-si", "ink-cu-block"):
        with pytest.raises(GuardTripped) as caught:
            RUN["extend"](**call)
        assert caught.value.guard == wanted
        call |= {"ink-cu-off": {"q_off": args["q_off"]}, "ink-cu-si": {"si": arrays["si"]}}.get(
            wanted, {}
        )


def test_no_drafts_is_no_call_even_without_tokens() -> None:
    args, arrays = drawn("verify")
    call = {**arrays, **args, "qkvr": arrays["qkvr"][:0], "loc": arrays["loc"][:0]}
    with pytest.raises(GuardTripped, match=r"^T != B\*q \(ink-cu-t: T = 0, B = 4, q = 0"):
        RUN["verify"](**{**call, "draft_token_num": 0})


def test_more_heads_than_the_real_kernel_takes() -> None:
    args, arrays = drawn("decode", tokens=2, q_heads=64, kv_heads=1)
    with pytest.raises(GuardTripped, match="token lanes must fit one block"):
        RUN["decode"](**arrays, **args)
    assert RUN["decode"](**arrays, **args, max_heads=66).q.shape == (2, 64 * 128)


BAD: list[tuple[str, Change, str]] = [
    ("decode", lambda c: c["loc"].__setitem__(0, 256), "loc[0] is 256: expected -1 to 255"),
    ("verify", lambda c: c["loc"].__setitem__(2, 10**12), "the nearest is 255"),
    ("extend", lambda c: c["loc"].__setitem__(slice(2, 4), 7), "slot 7 is written by token 2 and"),
    ("decode", lambda c: c["cache_indices"].__setitem__(0, -2), "cache_indices[0] is -2"),
    ("decode", lambda c: c["cache_indices"].__setitem__(0, 99), "cache_indices[0] is 99"),
    (
        "decode",
        lambda c: c["cache_indices"].__setitem__(slice(0, 2), 3),
        "history row 3 is written by token 0 and by token 1",
    ),
    ("extend", lambda c: c["cu"].__setitem__(1, 9), "cu[2] is 6, below cu[1] = 9"),
    ("extend", lambda c: c["cu"].__setitem__(3, 99), "cu[3] is 99: expected 0 to 12"),
    ("extend", lambda c: c["si"].__setitem__(0, 2), "si[0] is 2, which begins at token 6, after 0"),
    ("extend", lambda c: c["si"].__setitem__(0, 7), "si[0] is 7: expected 0 to 2"),
    ("extend", lambda c: c["track_rows"].__setitem__((0, 1), 12), "track_rows[0][1] is 12"),
    ("extend", lambda c: c["track_dst"].__setitem__(0, 50), "track_dst[0] is 50"),
    (
        "extend",
        lambda c: c["track_dst"].__setitem__(0, c["cache_indices"][1]),
        "is written by sequence 1 and by the snapshot of sequence 0",
    ),
    ("verify", put(activation="gelu"), "unknown activation 'gelu': expected one of silu, swish"),
    ("verify", put(eps=float("nan")), "eps is nan"),
    ("verify", put(eps=10**400), "eps is "),
    ("verify", put(validate=np.zeros(2)), "expected True or False"),
    ("extend", lambda c: c["v_buf"].setflags(write=False), "v_buf is read-only"),
    ("decode", lambda c: c["v_cache"].setflags(write=False), "v_cache is read-only"),
    ("decode", lambda c: c.update(sfv=c["sfk"]), "sfk and sfv are one array: expected two"),
    ("verify", put(k_off=512), "the k slice ends at column 640: expected at most 536"),
    ("verify", put(mxfp8_quant=1), "mxfp8_quant is 1: expected True or False"),
    ("verify", put(q_gamma=np.zeros(64, np.uint16)), "q_gamma has shape (64,): expected (128,)"),
    ("verify", put(qkvr=np.zeros((12, 536), np.float32)), "qkvr holds float: expected bfloat16"),
    ("verify", put(qkvr=[1, 2]), "expected a NumPy array or a torch tensor"),
    ("verify", put(k_weight=np.zeros((128, 9), np.uint16), v_weight=np.zeros((128, 9), np.uint16)),
     "expected 2 to 8"),
    ("verify", put(beta=1), "unknown argument 'beta'"),
    ("decode", shorter("cache_indices"), "cache_mask has shape (12,): expected (11,)"),
    ("decode", shorter("track_mask"), "track_mask has 11: expected T = 12"),
    ("verify", put(backend="cuda"), "unknown backend 'cuda'"),
    ("decode", put(max_heads=5000), "max_heads is 5000: expected 1 to 4096"),
]  # fmt: skip


@pytest.mark.parametrize(("mode", "change", "message"), BAD)
def test_bad_input_is_one_line_and_nothing_is_written(
    mode: str, change: Change, message: str
) -> None:
    args, arrays = drawn(mode)
    call: dict[str, Any] = {**arrays, **args}
    change(call)
    before = {n: x.copy() for n, x in call.items() if isinstance(x, np.ndarray)}
    with pytest.raises(InputError) as caught:
        RUN[mode](**call)
    assert message in str(caught.value) and "\n" not in str(caught.value)
    assert all((call[n] == x).all() for n, x in before.items())


def test_a_missing_argument() -> None:
    args, arrays = drawn("decode")
    del arrays["k_gamma"]
    with pytest.raises(InputError, match="k_gamma is missing: prologue_decode needs it"):
        RUN["decode"](**arrays, **args)


def test_slots_of_the_last_broken_page_have_no_scales() -> None:
    args, arrays = drawn("decode")
    for name in ("k_buf", "v_buf"):
        arrays[name] = np.concatenate([arrays[name], arrays[name][:64]])
    arrays["loc"][0] = 255
    RUN["decode"](**{**arrays, **args})
    arrays["loc"][0] = 256
    with pytest.raises(InputError, match=r"loc\[0\] is 256: expected -1 to 255"):
        RUN["decode"](**{**arrays, **args})


def test_a_snapshot_onto_the_sequence_s_own_row_comes_last() -> None:
    args, arrays = drawn("extend")
    arrays["track_dst"][0] = arrays["cache_indices"][0]
    rows = arrays["qkvr"][arrays["track_rows"][0], 8 : 8 + 128]
    RUN["extend"](**arrays, **args)
    assert (arrays["k_cache"][arrays["cache_indices"][0]] == rows).all()
