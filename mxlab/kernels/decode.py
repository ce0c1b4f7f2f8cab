"""Decode attention over a paged cache of MXFP8 or bfloat16, on a GPU or in the interpreter."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from mxlab.attention.pages import HEAD_DIM
from mxlab.errors import InputError, whole_number
from mxlab.kernels.decode_kernels import merge_kernel, split_kernel
from mxlab.kernels.mode import INTERPRETED

_LOG2_E = 1.4426950408889634
_MAX_GROUP = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Shares of a sequence, tokens of a tile, warps of a program, tiles loaded ahead."""

    splits: int
    rows: int = 64
    warps: int = 4
    stages: int = 2
    registers: int = 0  # the most that a thread may use; 0 leaves it to the compiler


def plan(sequences: int, kv_heads: int, pages: int, *, mxfp8: bool) -> Plan:
    """Return what was fastest on an H200: shares that fill its 132 multiprocessors once.

    >>> plan(1, 8, 256, mxfp8=True), plan(64, 8, 2, mxfp8=False).splits
    (Plan(splits=66, rows=64, warps=4, stages=1, registers=0), 1)
    """
    wanted = 528 // max(1, sequences * kv_heads)
    splits = max(1, min(wanted, 2 * pages, 256))
    return Plan(splits=splits, stages=1, registers=0 if mxfp8 else 128)


def _cache(
    name: str, buf: Tensor, scales: Tensor | None, page: int
) -> tuple[Tensor, Tensor | None]:
    """Return a buffer's bits and its scale bytes as words, or raise InputError."""
    size = buf.element_size()
    if buf.dim() != 3 or buf.shape[2] != HEAD_DIM or buf.stride()[1:] != (HEAD_DIM, 1):
        raise InputError(f"{name} has shape {tuple(buf.shape)}: expected [slots, KV heads, 128]")
    if size != (2 if scales is None else 1):
        kind = "bfloat16" if scales is None else "E4M3 codes beside scales"
        raise InputError(f"{name} has dtype {buf.dtype}: expected {kind}")
    bits = buf.view(torch.int16 if size == 2 else torch.uint8)
    if scales is None:
        return bits, None
    want = (buf.shape[0] // page, buf.shape[1], 32, page // 32, 4)
    if tuple(scales.shape) != want or not scales.is_contiguous():
        raise InputError(f"scales of {name} have shape {tuple(scales.shape)}: expected {want}")
    return bits, scales.view(torch.uint8).view(-1).view(torch.int32)


def decode_attention(
    q: Tensor,
    k_buf: Tensor,
    v_buf: Tensor,
    page_table: Tensor,
    lengths: Tensor,
    *,
    sfk: Tensor | None = None,
    sfv: Tensor | None = None,
    scale: float | None = None,
    page_size: int = 128,
    how: Plan | None = None,
) -> Tensor:
    """Return attention of one token a sequence over its pages, float32 [B, query heads, 128].

    ``q`` bfloat16 [B, query heads, 128]; ``k_buf``, ``v_buf`` [slots, KV heads, 128], bfloat16 or,
    with ``sfk`` and ``sfv`` [pages, KV heads, 32, page / 32, 4], E4M3 codes; ``page_table`` int32
    [B, pages], ``lengths`` int32 [B], from 1 on. ``scale`` is 1 / sqrt(128) by default. Raises
    InputError for shapes that do not fit; indices are the caller's care.
    """
    if (sfk is None) is not (sfv is None):
        raise InputError("one of sfk and sfv is missing: expected both or none")
    page = whole_number("page_size", page_size, 32, 1024, multiple_of=32)
    k, k_words = _cache("k_buf", k_buf, sfk, page)
    v, v_words = _cache("v_buf", v_buf, sfv, page)
    sequences, q_heads, dim = q.shape
    heads = k.shape[1]
    if q.dtype != torch.bfloat16 or dim != HEAD_DIM or q_heads % heads or v.shape[1] != heads:
        raise InputError(
            f"q has dtype {q.dtype} and shape {tuple(q.shape)}: expected bfloat16 [B, n x {heads}, "
            "128]"
        )
    group = q_heads // heads
    whole_number("query heads of a KV head", group, 1, _MAX_GROUP)
    if page & (page - 1):
        raise InputError(f"page_size is {page}: the kernel takes powers of two")
    if INTERPRETED is (q.device.type != "cpu"):
        raise InputError(f"q is on {q.device}: TRITON_INTERPRET decides where kernels run")
    how = how or plan(sequences, heads, page_table.shape[1], mxfp8=sfk is not None)
    rows, splits = sequences * q_heads, how.splits
    partial = torch.empty((rows, splits, dim), dtype=torch.float32, device=q.device)
    best = torch.empty((rows, splits), dtype=torch.float32, device=q.device)
    total = torch.empty_like(best)
    out = torch.empty((sequences, q_heads, dim), dtype=torch.float32, device=q.device)
    factor = (1 / math.sqrt(dim) if scale is None else scale) * _LOG2_E
    limit = {"maxnreg": how.registers} if how.registers and not INTERPRETED else {}
    split_kernel[(splits, heads, sequences)](
        *(q.contiguous().view(torch.int16), k, v, k_words, v_words),
        *(page_table.contiguous(), lengths.contiguous(), partial, best, total, factor, heads),
        *(page_table.shape[1], k.stride(0) // 8, v.stride(0) // 8, splits),
        GROUP=group,
        GROUP16=max(16, 1 << (group - 1).bit_length()),
        ROWS=min(how.rows, page),
        PAGE=page,
        DIM=dim,
        MXFP8=sfk is not None,
        num_warps=how.warps,
        num_stages=how.stages,
        **limit,
    )
    many = 1 << (splits - 1).bit_length()
    merge_kernel[(rows,)](partial, best, total, out, splits, SPLITS=many, DIM=dim, num_warps=4)
    return out
