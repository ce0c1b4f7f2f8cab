"""Launch the kernel that scales E4M3 weights in registers: one matrix, or one for each expert."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from mxlab.errors import InputError
from mxlab.kernels.dequantize import dequantize, operand
from mxlab.kernels.gemm import row_tiles
from mxlab.kernels.launch import on
from mxlab.kernels.skinny import sm90_fault
from mxlab.mxarray import MXArray


@dataclass(frozen=True, slots=True)
class Plan:
    """Weight rows and tokens of a tile, stages of TMA loads, warps."""

    bn: int
    bm: int
    stages: int
    warps: int


LARGE, SMALL, FEW = Plan(128, 256, 2, 8), Plan(128, 128, 2, 8), Plan(64, 128, 2, 4)


def plan(m: int, n: int) -> Plan:
    """Return what was measured to be best on an H200 for M tokens and N weight rows.

    >>> plan(128, 8192).bm, plan(8192, 8192).bn
    (128, 128)
    """
    if m <= 128:
        return FEW
    return LARGE if m * n >= 4096 * 4096 else SMALL


def _how(tiled: bool, blocks: int) -> int:
    from mxlab.kernels import skinny_kernel as k

    return int((k.TILE if tiled else k.BYTES if blocks % 4 else k.WORDS).value)


def _launch(a: MXArray, b: MXArray, dtype: torch.dtype, plan: Plan, table: Any, n: int) -> Tensor:
    from triton.experimental.gluon import language as gl
    from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

    from mxlab.kernels.mixed_kernel import mixed

    codes, scales, tiled, _ = operand(b)
    values = dequantize(a, torch.bfloat16, dealt=True)
    m, k = values.shape
    out = torch.empty((m, n), dtype=dtype, device=codes.device)
    grouped = table is not None
    high = table.shape[1] if grouped else -(-m // plan.bm)
    if not out.numel() or not high:
        return out
    flat = codes.reshape(-1, k).contiguous().view(torch.float8_e4m3fn)
    layouts = (
        gl.NVMMASharedLayout(swizzle_byte_width=s, element_bitwidth=w)
        for s, w in ((128, 8), (128, 16))
    )
    weights = TensorDescriptor.from_tensor(flat, [plan.bn, 128], next(layouts))
    tokens = TensorDescriptor.from_tensor(values, [plan.bm, 64], next(layouts))
    three = tuple(table) if grouped else (scales, scales, scales)
    groups = codes.numel() // (n * k)
    with on(codes):
        mixed[(high * -(-n // plan.bn),)](
            weights, tokens, scales, out, *three, m, n, k, k // 32, scales.numel() // groups,
            BN=plan.bn, BM=plan.bm, STAGES=plan.stages, HOW=_how(tiled, k // 32), GROUPED=grouped,
            WARPS=plan.warps, num_warps=plan.warps,
        )  # fmt: skip
    return out


def gemm(a: MXArray, b: MXArray, dtype: torch.dtype, *, cut: Plan | None = None) -> Tensor:
    """Return a (M, K) times b (N, K) transposed; b is never written down in bfloat16.

    Raises InputError where the GPU is not sm_90.
    """
    why = sm90_fault(operand(a)[0].device)
    if why or a.axis != 1 or b.axis != 1:
        raise InputError(f"gemm backend 'triton-mixed': {why or 'operands are not K-major'}")
    n = int(b.codes.shape[0])
    chosen = cut or plan(int(a.shape[0]), n)
    return _launch(a, b, dtype, chosen, None, n)


def grouped(
    a: MXArray,
    experts: MXArray,
    counts: Sequence[int],
    dtype: torch.dtype,
    *,
    cut: Plan | None = None,
) -> Tensor:
    """Return each expert's tokens times its matrix; see ``gemm.grouped`` for the arguments."""
    average = int(a.codes.shape[0]) // max(1, len(counts))
    chosen = cut or (LARGE if average >= 192 else FEW)
    table = row_tiles(tuple(counts), chosen.bm, operand(a)[0].device)
    return _launch(a, experts, dtype, chosen, table, int(experts.codes.shape[1]))
