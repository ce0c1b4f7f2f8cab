"""Time decode attention over a paged cache on a GPU: MXFP8 beside bfloat16, the same kernel."""

import math
from functools import partial
from typing import Any

import torch
from torch import Tensor

from mxlab.bench.ceilings import ceilings
from mxlab.bench.gpu_timing import copies, gpu_provenance, graph_timing, require_gpu
from mxlab.bench.report import Report, Row
from mxlab.errors import whole_number
from mxlab.kernels.decode import decode_attention

PAGE = 128


def sample(sequences: int, length: int, *, mxfp8: bool, seed: int) -> dict[str, Any]:
    """Draw a call: 32 query heads, 8 KV heads, pages in random order."""
    g = torch.Generator(device="cuda").manual_seed(seed)
    pages = sequences * length // PAGE
    shape = (pages * PAGE, 8, 128)
    made: dict[str, Any] = {"generator": g, "device": "cuda"}
    call: dict[str, Any] = {"q": torch.randn(sequences, 32, 128, dtype=torch.bfloat16, **made)}
    for n in "kv":
        if mxfp8:
            code = torch.randint(0, 256, shape, dtype=torch.uint8, **made)
            call[f"{n}_buf"] = torch.where((code & 0x7F) > 0x77, 0x38, code)
            scales = (pages, 8, 32, 4, 4)
            call[f"sf{n}"] = torch.randint(116, 122, scales, dtype=torch.uint8, **made)
        else:
            call[f"{n}_buf"] = torch.randn(shape, dtype=torch.bfloat16, **made)
    table = torch.randperm(pages, **made).int()
    call["page_table"] = table.view(sequences, -1)
    call["lengths"] = torch.full((sequences,), length, dtype=torch.int32, device="cuda")
    return call


def _widened(buf: Tensor, scales: Tensor | None, slots: Tensor) -> Tensor:
    if scales is None:
        return buf[slots].double()
    row, page = slots % PAGE, slots // PAGE
    head = torch.arange(8, device=slots.device)
    byte = scales[page[:, None], head, (row % 32)[:, None], (row // 32)[:, None]]
    code = buf[slots].view(torch.float8_e4m3fn).double().view(-1, 8, 4, 32)
    return (code * torch.exp2(byte.double() - 127)[..., None]).view(-1, 8, 128)


def error_of(call: dict[str, Any]) -> float:
    """Return the relative error of the first sequence against double precision."""
    found = decode_attention(**call)[0].double()
    slots = call["page_table"][0].long()[:, None] * PAGE + torch.arange(PAGE, device="cuda")
    slots = slots.view(-1)[: int(call["lengths"][0])]
    k, v = (_widened(call[f"{n}_buf"], call.get(f"sf{n}"), slots) for n in "kv")
    q = call["q"][0].double().view(8, 4, 128)
    weight = torch.softmax(torch.einsum("hgd,nhd->hgn", q, k) / math.sqrt(128), -1)
    wanted = torch.einsum("hgn,nhd->hgd", weight, v).view(32, 128)
    return float((found - wanted).norm() / wanted.norm())


def bench_decode_attention(*, sequences: int = 1, length: int = 32768) -> Report:
    """Time one decode step over ``sequences`` of ``length`` tokens, in GB/s of each cache's bytes.

    The error is that of the first sequence against double precision over the same cache.
    """
    whole_number("sequences", sequences, 1, 4096)
    whole_number("length", length, PAGE, 2**20, multiple_of=PAGE)
    require_gpu()
    rows = []
    for mxfp8 in (True, False):
        moved = sequences * length * 8 * 2 * (132 if mxfp8 else 256)
        make = partial(sample, sequences, length, mxfp8=mxfp8)
        sets = [make(seed=i) for i in range(min(16, copies(moved)))]
        kind = "MXFP8" if mxfp8 else "bfloat16"
        checked = f"relative error {error_of(sets[0]):.1e} against double precision"
        timing = graph_timing([partial(decode_attention, **call) for call in sets])
        rows.append(
            Row(
                name=f"{kind} cache",
                peer=not mxfp8,
                family="" if mxfp8 else "bfloat16 cache",
                timing=timing,
                checked=checked,
                moved=moved,
            )
        )
        del sets
        torch.cuda.empty_cache()
    return Report(
        title="decode attention on a GPU",
        parameters={"sequences": sequences, "length": length, "q_heads": 32, "kv_heads": 8},
        work=sequences * length / 1e6,
        unit="Mtoken/s",
        rows=rows,
        device=torch.cuda.get_device_name(),
        ceilings=ceilings(),
        where=gpu_provenance(),
    )
