"""What the real prologue does not check and would read or write out of bounds, or race for.

Each is bad input here: one line, before anything is written.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mxlab.attention.arguments import HEAD, Arguments
from mxlab.attention.containers import numbers
from mxlab.errors import InputError, choose, quote, whole_number

MAX_TAPS = 8
MAX_HEADS = 4096  # our kernels' own limit on Hq + 2 Hkv
_MAX = 2**40
_MAX_EPS = 1e30

Ints = NDArray[np.int64]


def _rank(a: Arguments, name: str, sides: str) -> None:
    shape = a.shape(name)
    if len(shape) != len(sides.split(",")):
        raise InputError(f"{name} has shape {shape}: expected [{sides}]")


def scalars(a: Arguments) -> None:
    """Raise InputError for sizes, flags and ranks that make no call at all."""
    for name in ("q_off", "k_off", "v_off", "dq", "dkv", "page_size", "draft_token_num"):
        whole_number(name, getattr(a, name), 0, _MAX)
    whole_number("max_heads", a.max_heads, 1, MAX_HEADS)
    if not isinstance(a.eps, float | int) or not 0 <= a.eps <= _MAX_EPS:  # NaN is not either
        raise InputError(f"eps is {quote(a.eps)}: expected 0 to {_MAX_EPS:g}, such as 1e-6")
    if a.activation is not None:
        choose("activation", a.activation, {"silu": 0, "swish": 0})
    for name in ("use_residual", "do_store", "mxfp8_quant", "do_cache_update"):
        if not isinstance(getattr(a, name), bool):
            raise InputError(f"{name} is {quote(getattr(a, name))}: expected True or False")
    needed = {"qkvr": "T, row", "cache_indices": "B", "cache_mask": "B"}
    needed |= {f"{n}_cache": "pool, W-1, C" for n in "kv"} | {f"{n}_weight": "C, W" for n in "kv"}
    needed |= {f"{n}_gamma": "128" for n in "qk"}
    if a.do_store:
        needed |= {"loc": "T"} | {f"{n}_buf": "slots, Hkv, 128" for n in "kv"}
    if a.mode == "verify":
        needed |= {f"{n}_inter": "B, q, W-1, C" for n in "kv"}
    if a.mode == "extend":
        needed |= {"cu": "B+1", "si": "T", "has_initial_state": "B"}
    if a.tracks:
        extend = {"track_rows": "B, W-1", "track_dst": "B"}
        needed |= {"track_mask": "B"} | (extend if a.mode == "extend" else {"track_indices": "T"})
    for name, sides in needed.items():
        _rank(a, name, sides)
    for name in ("qkvr", "k_cache", "v_cache", "k_weight", "v_weight", "q_gamma", "k_gamma"):
        if a.buffers[name].kind != "bf16":
            raise InputError(f"{name} holds {a.buffers[name].kind}: expected bfloat16")


def _shape(a: Arguments, name: str, want: tuple[int, ...], *, at_least: bool = False) -> None:
    shape = a.shape(name)
    fits = shape[1:] == want[1:] and (shape[0] >= want[0] if at_least else shape[0] == want[0])
    if not fits:
        more = ", or more rows" if at_least else ""
        raise InputError(f"{name} has shape {shape}: expected {want}{more}")


def shapes(a: Arguments) -> None:
    """Raise InputError for arrays whose sizes do not fit together."""
    width, rows = a.shape("qkvr")[1], a.tokens
    for name, offset, size in (("q", a.q_off, a.dq), ("k", a.k_off, a.dkv), ("v", a.v_off, a.dkv)):
        if offset + size > width:
            raise InputError(
                f"the {name} slice ends at column {offset + size}: expected at most {width}, the "
                "columns of qkvr"
            )
    taps = whole_number("W, the taps of k_weight,", a.taps, 2, MAX_TAPS)
    whole_number("dq", a.dq, HEAD, _MAX)
    whole_number("dkv", a.dkv, HEAD, _MAX)
    pool = a.shape("k_cache")[0]
    for n in "kv":
        _shape(a, f"{n}_cache", (pool, taps - 1, a.dkv))
        _shape(a, f"{n}_weight", (a.dkv, taps))
        if a.mode == "verify":
            want = (a.sequences, a.draft_token_num, taps - 1, a.dkv)
            _shape(a, f"{n}_inter", want, at_least=True)
            _kind(a, f"{n}_inter", "bf16")
    _shape(a, "q_gamma", (HEAD,))
    _shape(a, "k_gamma", (HEAD,))
    _shape(a, "cache_mask", (a.sequences,))
    if a.mode == "decode" and a.sequences != rows:
        raise InputError(f"cache_indices has {a.sequences}: expected T = {rows}, one a token")
    if not a.do_store:
        return
    _shape(a, "loc", (rows,), at_least=True)
    for n in "kv":
        _shape(a, f"{n}_buf", (a.slots, a.kv_heads, HEAD))
        if a.buffers[f"{n}_buf"].strides[1:] != (HEAD, 1) and a.slots:
            raise InputError(
                f"{n}_buf has strides {a.buffers[f'{n}_buf'].strides}: expected heads of 128 side "
                "by side, (any, 128, 1)"
            )
        if not a.mxfp8_quant:
            _kind(a, f"{n}_buf", "bf16")


def outputs(a: Arguments) -> None:
    """Raise InputError for a buffer that cannot be written, or that is two at once."""
    names = ["k_buf", "v_buf", "sfk", "sfv"] if a.do_store else []
    names += ["k_inter", "v_inter"] if a.mode == "verify" else ["k_cache", "v_cache"]
    given = [(name, getattr(a, name)) for name in names if getattr(a, name) is not None]
    for name, x in given:
        if isinstance(x, np.ndarray) and not x.flags.writeable:
            raise InputError(f"{name} is read-only: expected an array to write to")
    for at, (name, x) in enumerate(given):
        for other, y in given[:at]:
            if x is y:
                raise InputError(f"{other} and {name} are one array: expected two")


def _kind(a: Arguments, name: str, kind: str) -> None:
    if a.buffers[name].kind != kind:
        raise InputError(f"{name} holds {a.buffers[name].kind}: expected bfloat16")


def _within(name: str, values: Ints, low: int, high: int) -> None:
    """Raise InputError for the first value outside low..high."""
    bad = np.flatnonzero((values < low) | (values > high))
    if bad.size:
        at, value = int(bad[0]), int(values[bad[0]])
        if high < low:
            raise InputError(f"{name}[{at}] is {value}: there is none to name")
        near = min(max(value, low), high)
        raise InputError(
            f"{name}[{at}] is {value}: expected {low} to {high}; the nearest is {near}"
        )


def _distinct(what: str, values: Ints, owners: Iterable[Any]) -> None:
    """Raise InputError where two owners write the same place: which of them wins is a race."""
    names = list(owners)
    order = np.argsort(values, kind="stable")
    same = np.flatnonzero(values[order][1:] == values[order][:-1])
    if same.size:
        first, second = names[order[same[0]]], names[order[same[0] + 1]]
        value = int(values[order[same[0]]])
        raise InputError(f"{what} {value} is written by {first} and by {second}: expected one")


def indices(a: Arguments) -> None:
    """Raise InputError for indices out of range, and for two writers of one place."""
    pool, tokens = a.shape("k_cache")[0], a.tokens
    rows = numbers("cache_indices", a.cache_indices, np.int64)
    _within("cache_indices", rows, -1, pool - 1)
    live = rows >= 0
    numbers("cache_mask", a.cache_mask, np.bool_)
    if not pool and tokens:
        raise InputError("k_cache has no rows: padding sequences read row 0")
    if a.do_store:
        _stores(a, live)
    if a.mode == "extend":
        _extend(a, rows, live)
    elif a.mode == "decode":
        names = [f"token {t}" for t in np.flatnonzero(live)]
        written = rows[live]
        if a.tracks:
            mask = numbers("track_mask", a.track_mask, np.bool_)
            target = numbers("track_indices", a.track_indices, np.int64)
            for name, array in (("track_mask", mask), ("track_indices", target)):
                if len(array) != tokens:
                    raise InputError(f"{name} has {len(array)}: expected T = {tokens}")
            used = np.flatnonzero(mask & live)
            _within("track_indices", np.where(mask & live, target, 0), 0, pool - 1)
            written = np.concatenate([written, target[used]])
            names += [f"the snapshot of token {t}" for t in used]
        _distinct("history row", written, names)


def _stores(a: Arguments, live: NDArray[np.bool_]) -> None:
    loc = numbers("loc", a.loc, np.int64)[: a.tokens]
    keep = loc >= 0
    if a.mode == "decode":
        keep &= live
    slots = a.slots // a.page_size * a.page_size if a.mxfp8_quant else a.slots
    _within("loc", np.where(keep, loc, -1), -1, slots - 1)
    used = np.flatnonzero(keep)
    _distinct("slot", loc[used], (f"token {t}" for t in used))


def _extend(a: Arguments, rows: Ints, live: NDArray[np.bool_]) -> None:
    cu = numbers("cu", a.cu, np.int64)
    _within("cu", cu, 0, a.tokens)
    if (np.diff(cu) < 0).any():
        at = int(np.flatnonzero(np.diff(cu) < 0)[0])
        raise InputError(f"cu[{at + 1}] is {cu[at + 1]}, below cu[{at}] = {cu[at]}")
    si = numbers("si", a.si, np.int64)[: a.tokens]
    _within("si", si, 0, a.sequences - 1)
    early = np.flatnonzero(cu[si] > np.arange(a.tokens))
    if early.size:
        t = int(early[0])
        raise InputError(f"si[{t}] is {si[t]}, which begins at token {cu[si[t]]}, after {t}")
    if not a.do_cache_update or not a.tokens:
        return
    updated = np.flatnonzero(live & (np.diff(cu) > 0))
    written, names = rows[updated], [f"sequence {b}" for b in updated]
    if a.tracks:
        mask = numbers("track_mask", a.track_mask, np.bool_)
        target = numbers("track_dst", a.track_dst, np.int64)
        for name, array in (("track_mask", mask), ("track_dst", target)):
            if len(array) != a.sequences:
                raise InputError(f"{name} has {len(array)}: expected B = {a.sequences}")
        _shape(a, "track_rows", (a.sequences, a.taps - 1))
        gather = numbers("track_rows", a.track_rows, np.int64).reshape(-1, a.taps - 1)
        used = np.flatnonzero(mask)
        for b in used:
            _within(f"track_rows[{b}]", gather[b], 0, a.tokens - 1)
        _within("track_dst", np.where(mask, target, 0), 0, a.shape("k_cache")[0] - 1)
        own = {int(b) for b in updated if mask[b] and target[b] == rows[b]}
        keep = np.array([b not in own for b in updated], bool)  # its own snapshot comes after it
        written = np.concatenate([written[keep], target[used]])
        names = [n for n, k in zip(names, keep, strict=True) if k]
        names += [f"the snapshot of sequence {b}" for b in used]
    _distinct("history row", written, names)
