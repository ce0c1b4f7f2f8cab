"""Launch the portable product kernels: any shape, both orientations, grouped by expert."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from mxlab.errors import InputError, whole_number
from mxlab.kernels.dequantize import operand
from mxlab.kernels.gemm_kernels import _blocks, _dot_scaled, _grouped
from mxlab.kernels.launch import on
from mxlab.kernels.mode import INTERPRETED
from mxlab.mxarray import MXArray


def _store_dtype(dtype: torch.dtype) -> torch.dtype:
    """What a kernel stores: the interpreter rounds to bfloat16 wrongly, so there torch does it."""
    return torch.float32 if INTERPRETED else dtype


def _shape(m: int) -> dict[str, int]:
    if INTERPRETED:
        return {"BM": 64, "BN": 128, "num_warps": 4}
    if m <= 16:
        return {"BM": 16, "BN": 64, "num_warps": 4, "num_stages": 6}
    return {"BM": 64, "BN": 128, "num_warps": 4, "num_stages": 4}


def _run(kernel: Any, a: MXArray, b: MXArray, dtype: torch.dtype, **shape: int) -> Tensor:
    (codes, scales, tiled, _), (codes2, scales2, _, column) = operand(a), operand(b)
    if column:  # (K, N): its scales as (N, K / 32) too
        codes2, scales2 = codes2.T, scales2.T.contiguous()
    (m, k), n = codes.shape, codes2.shape[0]
    out = torch.empty((m, n), dtype=_store_dtype(dtype), device=codes.device)
    if out.numel():
        grid = (-(-m // shape["BM"]) * -(-n // shape["BN"]),)
        with on(codes):
            kernel[grid](
                codes, codes2, scales, scales2, out, m, n, k, k // 32, *codes.stride(),
                *codes2.stride(), TILED=tiled, **shape,
            )  # fmt: skip
    return out.to(dtype)


def gemm(a: MXArray, b: MXArray, dtype: torch.dtype, **shape: int) -> Tensor:
    """Return the product block by block: E4M3 products, float32 scales and sums, any shape.

    ``shape`` overrides BM, BN, num_warps and num_stages.
    """
    return _run(_blocks, a, b, dtype, **(shape or _shape(a.shape[0])))


def dot_scaled(a: MXArray, b: MXArray, dtype: torch.dtype, **shape: int) -> Tensor:
    """Return the product by Triton's ``tl.dot_scaled``: native on sm_100 and later only."""
    chosen = {"BM": 128, "BN": 128, "BK": 64, "num_warps": 4, "num_stages": 4, **shape}
    if INTERPRETED:
        chosen = {"BM": 64, "BN": 64, "BK": 128, **shape}
    return _run(_dot_scaled, a, b, dtype, **chosen)


@lru_cache(maxsize=64)
def row_tiles(counts: tuple[int, ...], rows: int, device: torch.device) -> Tensor:
    """Return int32 (3, tiles): group, first row and end of each tile of at most ``rows`` rows.

    >>> row_tiles((0, 3), 2, torch.device("cpu")).tolist()
    [[1, 1], [0, 2], [2, 3]]
    """
    tiles, start = [], 0
    for group, count in enumerate(counts):
        end = start + count
        tiles += [(group, at, min(at + rows, end)) for at in range(start, end, rows)]
        start = end
    table = torch.tensor(tiles, dtype=torch.int32).reshape(-1, 3).T.contiguous()
    return table.to(device)


def grouped(
    a: MXArray, experts: MXArray, counts: Sequence[int], dtype: torch.dtype = torch.float32
) -> Tensor:
    """Return the product of each expert's tokens with its matrix.

    ``a`` is (tokens, K), sorted by expert; ``experts`` (E, N, K) quantised along its last axis,
    tiled expert by expert where it is tiled; ``counts`` the tokens of each expert, 0 allowed. The
    result is (tokens, N). Raises InputError where counts do not add up or K differs.

    >>> from mxlab.kernels.quantize import quantize
    >>> grouped(quantize(torch.ones(2, 32)), quantize(torch.ones(3, 1, 32)), [1, 0, 1]).tolist()
    [[32.0], [32.0]]
    """
    (codes, scales, tiled, _), (codes2, scales2, tiled2, column) = operand(a), operand(experts)
    if codes2.ndim != 3 or codes.ndim != 2 or column or codes.shape[1] != codes2.shape[2]:
        raise InputError(
            f"a has shape {a.shape}, experts {experts.shape} along axis {experts.axis}: expected "
            "(tokens, K) and (experts, N, K) along axis 2, with one K"
        )
    if tiled != tiled2:
        raise InputError(
            f"a has layout {a.layout!r}, experts {experts.layout!r}: expected the same"
        )
    tokens, k = codes.shape
    many, n, _ = codes2.shape
    if len(counts) != many or sum(whole_number("count", c, 0, tokens) for c in counts) != tokens:
        raise InputError(
            f"counts has {len(counts)} entries, sum {sum(counts)}: expected {many}, sum {tokens}"
        )
    shape = _shape(tokens)
    table = row_tiles(tuple(counts), shape["BM"], codes.device)
    out = torch.empty((tokens, n), dtype=_store_dtype(dtype), device=codes.device)
    if out.numel():
        codes, codes2 = codes.contiguous(), codes2.contiguous()
        with on(codes):
            _grouped[(table.shape[1] * -(-n // shape["BN"]),)](
                codes, codes2, scales, scales2, out, *table, n, k, k // 32, tokens, k, n * k, k,
                scales2.numel() // many, TILED=tiled, **shape,
            )  # fmt: skip
    return out.to(dtype)
