"""Launch the prologue kernels: one launch a call, on a GPU or in the interpreter.

Arguments are checked by ``mxlab.attention.prologue``; this module turns them into tensors of bits.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mxlab.attention.arguments import Arguments
from mxlab.attention.containers import KINDS, is_tensor
from mxlab.errors import InputError
from mxlab.kernels.mode import INTERPRETED
from mxlab.kernels.prologue_extend import extend_kernel
from mxlab.kernels.prologue_kernels import decode_kernel, verify_kernel

_BITS = {"bf16": torch.int16, "e4m3": torch.uint8, "e8m0": torch.uint8, "byte": torch.uint8}


@dataclass(frozen=True, slots=True)
class Tiles:
    """Rows of a tile, tiles of a program, its warps: what was fastest on an H200."""

    rows: int
    steps: int
    warps: int
    registers: int = 0  # the most that a thread may use; 0 leaves it to the compiler

    @property
    def direct(self) -> bool:
        """Whether a thread has one row at most (16 threads a row): it then loads gamma itself."""
        return self.rows <= 2 * self.warps


#: mode -> tiles; decode is for latency, so its tiles are small
TILES = {"verify": Tiles(2, 8, 1, 96), "extend": Tiles(16, 4, 4, 80), "decode": Tiles(2, 1, 1)}
MAX_TAPS = 4


def _bits(x: Any) -> Tensor | None:
    """Return bfloat16, codes or bytes as a tensor of integers on the same memory."""
    if x is None:
        return None
    if is_tensor(x):
        kind = _BITS[KINDS[str(x.dtype).removeprefix("torch.")]]
        return x.detach().view(kind)  # type: ignore[no-any-return]
    word = np.int16 if x.itemsize == 2 else np.uint8
    return torch.from_numpy(x.view(word))


def _index(x: Any, dtype: torch.dtype, device: torch.device) -> Tensor | None:
    """Return indices, flags or factors, contiguous and flat; the same memory where that fits."""
    if x is None:
        return None
    tensor = x.detach() if is_tensor(x) else torch.from_numpy(x)
    if tensor.dtype == torch.bool and dtype == torch.uint8:
        tensor = tensor.view(torch.uint8)
    return tensor.to(device=device, dtype=dtype).contiguous().reshape(-1)


def _words(x: Tensor | None, name: str) -> Tensor | None:
    """Return scale bytes as 32-bit words: one word holds the four bytes of a head."""
    if x is None:
        return None
    if x.data_ptr() % 4:
        raise InputError(f"{name} starts at address {x.data_ptr():#x}: expected a multiple of 4")
    return x.view(-1).view(torch.int32)


def _dense(x: Tensor) -> Tensor:
    """Return gamma or weights contiguous and on 16 bytes, as the kernels read them."""
    return x if x.is_contiguous() and x.data_ptr() % 16 == 0 else x.contiguous().clone()


def tap_major(weight: Any) -> Any:
    """Return a weight [C, W] whose memory holds tap after tap: the fastest that decode can read.

    Values and shape stay; do it once, when a model is loaded.

    >>> tap_major(torch.ones(256, 4, dtype=torch.bfloat16)).stride()
    (1, 256)
    """
    return weight.T.contiguous().T


def _weights(a: Arguments) -> tuple[Tensor, Tensor, int]:
    """Return the weights of K and V and the elements from tap to tap, 0 where taps are adjacent."""
    k, v = _bits(a.k_weight), _bits(a.v_weight)
    assert k is not None and v is not None
    if all(w.stride() == (1, a.dkv) and w.data_ptr() % 16 == 0 for w in (k, v)):
        return k, v, a.dkv
    return _dense(k), _dense(v), 0


def _units(**values: int) -> list[int]:
    """Return offsets and strides in units of 8 elements."""
    bad = [f"{name} = {value}" for name, value in values.items() if value % 8]
    if bad:
        raise InputError(f"{bad[0]}: the kernels need a multiple of 8 elements")
    return [value // 8 for value in values.values()]


def _like(x: Any, raw: Tensor, kind: str) -> Any:
    """Return bits as what ``x`` is made of."""
    types = {"bf16": torch.bfloat16, "e4m3": torch.float8_e4m3fn, "e8m0": torch.float8_e8m0fnu}
    if is_tensor(x):
        return raw.view(types[kind])
    return raw.numpy().view(x.dtype) if kind == "bf16" else raw.numpy().view(np.uint8)


def run(a: Arguments, tiles: Tiles | None = None) -> tuple[Any, Any, Any, Any]:
    """Return q, k, v and the Q scales (or None): what ``reference.run`` does, in one launch."""
    qkvr = _bits(a.qkvr)
    assert qkvr is not None
    device = qkvr.device
    if INTERPRETED is (device.type != "cpu"):
        how = "interpreted" if INTERPRETED else "compiled"
        raise InputError(
            f"qkvr is on {device} and Triton's kernels are {how} here: TRITON_INTERPRET decides"
        )
    if a.taps > MAX_TAPS:
        raise InputError(
            f"W is {a.taps}: the kernels take 2 to {MAX_TAPS} taps; backend='reference' takes more"
        )
    tokens, hq = a.tokens, a.q_heads
    byte = torch.uint8 if a.mxfp8_quant else torch.int16
    q = torch.empty((tokens, a.dq), dtype=byte, device=device)
    k = torch.empty((tokens, a.dkv), dtype=torch.int16, device=device)
    v = torch.empty_like(k)
    scale = torch.empty((tokens, hq), dtype=torch.int32, device=device) if a.mxfp8_quant else None
    if tokens:
        _launch(a, qkvr, (q, k, v, scale), tiles or TILES[a.mode])
    out = _like(a.qkvr, k, "bf16"), _like(a.qkvr, v, "bf16")
    if scale is None:
        return _like(a.qkvr, q, "bf16"), *out, None
    raw = scale.view(torch.uint8).view(tokens, hq, 4)
    return _like(a.qkvr, q, "e4m3"), *out, _like(a.qkvr, raw, "e8m0")


def _launch(a: Arguments, qkvr: Tensor, out: tuple[Any, ...], tiles: Tiles) -> None:
    common, flags = _common(a, qkvr, out, tiles)
    device, rows = qkvr.device, tiles.rows
    chains = -(-a.tokens // (rows * tiles.steps))
    runs = -(-a.sequences // rows) * 2 * a.kv_heads  # programs of K and V, a row a sequence
    if a.mode == "verify":
        k_inter, v_inter = _bits(a.k_inter), _bits(a.v_inter)
        assert k_inter is not None
        counts = (a.sequences, a.draft_token_num)
        own: tuple[Any, ...] = (*counts, k_inter, v_inter, *k_inter.stride()[:3])
        verify_kernel[(runs + chains * a.q_heads,)](*common, *own, **flags)
    elif a.mode == "decode":
        own = (
            _index(a.track_mask if a.tracks else None, torch.uint8, device),
            _index(a.track_indices if a.tracks else None, torch.int64, device),
        )
        decode_kernel[(runs + chains * a.q_heads,)](*common, *own, **flags, TRACK=a.tracks)
    else:
        track = (a.track_rows, torch.int64), (a.track_mask, torch.uint8), (a.track_dst, torch.int64)
        own = (
            _index(a.has_initial_state, torch.uint8, device),
            _index(a.cu, torch.int64, device),
            _index(a.si, torch.int32, device),
            a.sequences,
            *(_index(x if a.tracks else None, dtype, device) for x, dtype in track),
        )
        first_rows = 2 * tiles.warps  # a row is 16 threads
        runs = -(-a.sequences // first_rows) * 2 * a.kv_heads
        flags |= {"FIRST_ROWS": first_rows, "UPDATE": a.do_cache_update, "TRACK": a.tracks}
        grid = runs + chains * (a.q_heads + tiles.steps * 2 * a.kv_heads)
        extend_kernel[(grid,)](*common, *own, a.taps - 1, **flags)


def _common(
    a: Arguments, qkvr: Tensor, out: tuple[Any, ...], tiles: Tiles
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments that every kernel begins with, and the constants of all of them."""
    device = qkvr.device
    k_cache, v_cache = _bits(a.k_cache), _bits(a.v_cache)
    q_gamma, k_gamma = _bits(a.q_gamma), _bits(a.k_gamma)
    assert k_cache is not None and q_gamma is not None and k_gamma is not None
    k_weight, v_weight, tap_stride = _weights(a)
    k_buf, v_buf = (_bits(a.k_buf), _bits(a.v_buf)) if a.do_store else (None, None)
    sfk = _words(_bits(a.sfk), "sfk") if a.mxfp8_quant else None
    sfv = _words(_bits(a.sfv), "sfv") if a.mxfp8_quant else None
    slots = 0 if k_buf is None else len(k_buf)
    if a.mxfp8_quant:
        slots = slots // a.page_size * a.page_size
    units = _units(
        row_stride=qkvr.stride(0) if a.tokens > 1 else 0,
        q_off=a.q_off,
        k_off=a.k_off,
        v_off=a.v_off,
        slot_stride=0 if k_buf is None else k_buf.stride(0),
    )
    common = (
        *(qkvr, units[0], a.tokens, *units[1:4], a.q_heads, a.kv_heads, k_cache, v_cache),
        *(k_cache.stride(0), k_cache.stride(1), _index(a.cache_indices, torch.int32, device)),
        *(_index(a.cache_mask, torch.uint8, device), k_weight, v_weight, tap_stride),
        *(_dense(q_gamma), _dense(k_gamma), float(a.eps)),
        *(_index(a.loc, torch.int64, device), slots, k_buf, v_buf, units[4], sfk, sfv, a.page_size),
        *(_index(a.log_scaling_tau, torch.float32, device), *out),
    )
    flags: dict[str, Any] = {
        "ROWS": tiles.rows,
        "STEPS": tiles.steps,
        "TAPS": a.taps,
        "SILU": a.silu,
        "RESIDUAL": a.use_residual,
        "STORE": a.do_store,
        "MXFP8": a.mxfp8_quant,
        "TAU": a.log_scaling_tau is not None,
        "TAP_MAJOR": tap_stride > 0,
        "DIRECT": tiles.direct,
        "num_warps": tiles.warps,
    }
    if tiles.registers and not INTERPRETED:
        flags["maxnreg"] = tiles.registers
    return common, flags
