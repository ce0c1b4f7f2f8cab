"""Time the attention prologue on a GPU, and decode attention over its cache."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mxlab.attention import reference
from mxlab.attention.arguments import Arguments
from mxlab.bench.ceilings import ceilings
from mxlab.bench.gpu_timing import copies, gpu_provenance, graph_timing, require_gpu
from mxlab.bench.prologue_unfused import unfused_extend
from mxlab.bench.report import Report, Row
from mxlab.bench.timing import Timing
from mxlab.errors import choose, whole_number
from mxlab.kernels.prologue import run, tap_major

MODES = ("verify", "extend", "decode")
TAPS, DRAFTS, PAGE = 4, 4, 128
_CHECKED = 1024  # tokens that are compared with the reference, which is NumPy
_BUFFERS = ("k_buf", "v_buf", "sfk", "sfv", "k_cache", "v_cache", "k_inter", "v_inter")


def sample(
    mode: str, tokens: int, q_heads: int, kv_heads: int, *, mxfp8: bool = True, seed: int = 0
) -> Arguments:
    """Draw a call on the GPU: W = 4, pages of 128, residual; 8 sequences to extend, 4 drafts.

    Decode gets weights in tap-major memory, as a server would lay them out when it loads a model.
    """
    g = torch.Generator(device="cuda").manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, device="cuda", generator=g, dtype=torch.bfloat16)

    dq, dkv = q_heads * 128, kv_heads * 128
    count = {"verify": tokens // DRAFTS, "extend": min(8, tokens), "decode": tokens}[mode]
    slots = -(-tokens // PAGE) * PAGE + PAGE
    weights = [normal(dkv, TAPS) for _ in "kv"]
    if mode == "decode":
        weights = [tap_major(w) for w in weights]
    given: dict[str, Any] = {
        **{"qkvr": normal(tokens, dq + 2 * dkv), "q_off": 0, "k_off": dq, "v_off": dq + dkv},
        **{"dq": dq, "dkv": dkv, "k_weight": weights[0], "v_weight": weights[1], "eps": 1e-6},
        **{"q_gamma": normal(128), "k_gamma": normal(128), "mxfp8_quant": mxfp8},
        **{f"{n}_cache": normal(count + 1, TAPS - 1, dkv) for n in "kv"},
        "cache_indices": torch.randperm(count + 1, device="cuda", generator=g)[:count].int(),
        "cache_mask": torch.ones(count, dtype=torch.bool, device="cuda"),
        "loc": torch.randperm(slots, device="cuda", generator=g)[:tokens],
    }
    kind = torch.uint8 if mxfp8 else torch.bfloat16
    for n in "kv":
        given[f"{n}_buf"] = torch.zeros(slots, kv_heads, 128, dtype=kind, device="cuda")
        if mxfp8:
            shape = (slots // PAGE, kv_heads, 32, PAGE // 32, 4)
            given[f"sf{n}"] = torch.zeros(shape, dtype=torch.uint8, device="cuda")
        if mode == "verify":
            given[f"{n}_inter"] = normal(count, DRAFTS, TAPS - 1, dkv)
    if mode == "verify":
        given["draft_token_num"] = DRAFTS
    if mode == "extend":
        cu = torch.arange(count + 1, device="cuda") * tokens // count
        given["cu"] = cu
        given["si"] = torch.repeat_interleave(torch.arange(count, device="cuda"), cu.diff()).int()
        given["has_initial_state"] = torch.ones(count, dtype=torch.bool, device="cuda")
    return Arguments(mode=mode, **given)


def least_bytes(a: Arguments) -> int:
    """Return the bytes that a call reads and writes, each once.

    >>> from types import SimpleNamespace as Fake
    >>> call = dict(dq=4096, dkv=1024, q_heads=32, kv_heads=8, taps=4, mxfp8_quant=True)
    >>> least_bytes(Fake(mode="extend", tokens=8192, sequences=0, **call)) // 8192
    22732
    """
    t, row = a.tokens, a.dq + 2 * a.dkv
    small = a.dq + 4 * a.q_heads + 2 * (a.dkv + 4 * a.kv_heads)  # codes and scale bytes
    stored = small if a.mxfp8_quant else 2 * row
    window = 2 * 2 * (a.taps - 1) * a.dkv  # K and V, 2 bytes
    histories = {"verify": t + a.sequences, "extend": 2 * a.sequences, "decode": 2 * t}[a.mode]
    indices = 8 * t + (4 * t if a.mode == "extend" else 0)
    return t * (2 * row + 4 * a.dkv + stored) + histories * window + indices


def _words(x: Any) -> Any:
    kind = {1: torch.uint8, 2: torch.int16}[x.element_size()]
    return x.view(kind).cpu().numpy()


def check(mode: str, tokens: int, q_heads: int, kv_heads: int, *, mxfp8: bool) -> str:
    """Compare one call with the reference, every byte, and say how many differ."""
    a = sample(mode, min(tokens, _CHECKED), q_heads, kv_heads, mxfp8=mxfp8)
    host: dict[str, Any] = {
        name: x.to("cpu", copy=True).contiguous() if isinstance(x, Tensor) else x
        for name, x in vars(a).items()
    }
    host.pop("buffers", None)
    cpu = Arguments(**host)
    wanted, found = reference.run(cpu), run(a)
    pairs = [(f, w) for f, w in zip(found, wanted, strict=True) if w is not None]
    given = [name for name in _BUFFERS if getattr(a, name) is not None]
    pairs += [(getattr(a, name), getattr(cpu, name)) for name in given]
    differ = sum(int((_words(f) != _words(w)).sum()) for f, w in pairs)
    total = sum(f.numel() for f, _ in pairs)
    return f"{differ} of {total:,} values differ from the reference, T = {a.tokens}"


def _empty_launch() -> Timing:
    from mxlab.kernels.prologue_kernels import empty_kernel

    return graph_timing([lambda: empty_kernel[(1,)]()] * 64)


def bench_prologue(
    *, mode: str = "extend", tokens: int = 8192, q_heads: int = 32, kv_heads: int = 8
) -> Report:
    """Time one prologue on this GPU, MXFP8 and bfloat16, in GB/s of the bytes it must move.

    Each is compared with the reference first. Calls are captured in one CUDA graph with rotated
    operands; ``empty_us`` is the same for a kernel that does nothing. The peer of ``extend`` is
    the same work as separate torch operations. Raises InputError where there is no GPU.
    """
    choose("prologue", mode, {name: name for name in MODES})
    whole_number("tokens", tokens, 8, 2**20, multiple_of=DRAFTS if mode == "verify" else 1)
    whole_number("q_heads", q_heads, 1, 512)
    whole_number("kv_heads", kv_heads, 1, 512)
    require_gpu()
    rows = []
    for mxfp8 in (True, False):
        checked = check(mode, tokens, q_heads, kv_heads, mxfp8=mxfp8)
        make = partial(sample, mode, tokens, q_heads, kv_heads, mxfp8=mxfp8)
        first = make()
        moved = least_bytes(first)
        sets = [first, *(make(seed=i + 1) for i in range(min(64, copies(moved)) - 1))]
        calls: list[Callable[[], Any]] = [partial(run, a) for a in sets]
        timing = graph_timing(calls)
        name = f"mxlab, one launch, {'MXFP8' if mxfp8 else 'bfloat16'}"
        rows.append(Row(name=name, peer=False, timing=timing, checked=checked, moved=moved))
        if mode == "extend" and mxfp8:
            rows.append(_unfused(sets[:2], moved))
        del sets, calls, first
        torch.cuda.empty_cache()
    empty = _empty_launch()
    sizes = {"mode": mode, "tokens": tokens, "q_heads": q_heads, "kv_heads": kv_heads}
    return Report(
        title="attention prologue on a GPU",
        parameters={**sizes, "taps": TAPS, "page": PAGE, "empty_us": empty.median * 1e6},
        work=(rows[0].moved or 0) / 1e9,
        unit="GB/s of the MXFP8 bytes",
        rows=rows,
        device=torch.cuda.get_device_name(),
        ceilings=ceilings(),
        where=gpu_provenance(),
    )


def _unfused(sets: list[Arguments], moved: int) -> Row:
    """The same work as torch operations, on tokens that do not see the history."""
    a = sets[0]
    found, wanted = unfused_extend(a), run(a)
    inner = np.arange(a.tokens) % (a.tokens // a.sequences) >= TAPS - 1
    differ = sum(
        int((_words(f)[inner] != _words(w)[inner]).sum())
        for f, w in zip(found, wanted, strict=True)
    )
    return Row(
        name="torch, unfused",
        peer=True,
        family="torch, unfused",
        timing=graph_timing([partial(unfused_extend, a) for a in sets]),
        checked=f"{differ} values differ from the kernel's past the first three tokens",
        moved=moved,
    )
