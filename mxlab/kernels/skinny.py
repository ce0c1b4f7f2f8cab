"""Launch the few-rows kernel: how many programs share a tile of weights, and their workspace."""

from dataclasses import dataclass

import torch
from torch import Tensor

from mxlab.errors import InputError
from mxlab.kernels.dequantize import operand
from mxlab.kernels.gemm_kernels import _sum_parts
from mxlab.kernels.launch import on
from mxlab.kernels.mode import INTERPRETED
from mxlab.mxarray import MXArray

MAX_ROWS = 64
_ROWS = 32  # of a program that sums parts
_TABLE = 4096  # words of token scales that fit beside the stages


@dataclass(frozen=True, slots=True)
class Plan:
    """How a launch is cut up.

    ``bn`` weight rows of a tile, ``stages`` of TMA loads, ``programs`` that one SM is given,
    ``warps``; ``parts``: products of blocks that are in flight before they are scaled.
    """

    bn: int
    stages: int
    programs: int
    warps: int
    parts: int = 4


_FEW, _SOME, _WIDE = Plan(128, 4, 2, 4), Plan(128, 4, 2, 4, parts=1), Plan(256, 3, 1, 8, parts=1)


def plan(bm: int, n: int) -> Plan:
    """Return what was measured to be best on an H200 for ``bm`` columns and N weight rows.

    >>> plan(16, 8192).parts, plan(64, 28672).bn
    (4, 256)
    """
    if bm <= 16:
        return _FEW
    return _WIDE if bm == 64 and n >= 1 << 14 else _SOME


def sm90_fault(device: torch.device) -> str:
    """Return why kernels of WGMMA and TMA cannot run on a device, or nothing.

    >>> sm90_fault(torch.device("cpu"))
    'its instructions (WGMMA, TMA) are those of sm_90, the operands are on cpu'
    """
    needs = "its instructions (WGMMA, TMA) are those of sm_90"
    if INTERPRETED or device.type != "cuda":
        return f"{needs}, the operands are on {device.type}"
    major, minor = torch.cuda.get_device_capability(device)
    return "" if (major, minor) == (9, 0) else f"{needs}, the GPU is sm_{major}{minor}"


def fault(m: int, device: torch.device) -> str:
    """Return why the kernel cannot serve M rows on a device, or nothing.

    >>> fault(65, torch.device("cpu"))
    'M = 65 > 64'
    """
    return f"M = {m} > {MAX_ROWS}" if m > MAX_ROWS else sm90_fault(device)


def split(tiles: int, steps: int, programs: int) -> int:
    """Return how many programs share a tile: as many as run at once, four steps or more each.

    >>> split(64, 64, 264), split(224, 64, 264), split(23, 23, 264)
    (4, 1, 5)
    """
    return max(1, min(programs // tiles, steps // 4, 16))


def gemm(
    a: MXArray,
    b: MXArray,
    dtype: torch.dtype,
    *,
    cut: Plan | None = None,
    shares: int | None = None,
) -> Tensor:
    """Return a (M, K) times b (N, K) transposed, M at most 64, by the kernel for sm_90.

    ``cut`` and ``shares`` (programs to a tile) override what was measured to be best. Raises
    InputError where the kernel cannot serve.
    """
    from triton.experimental.gluon import language as gl
    from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

    from mxlab.kernels import skinny_kernel

    (codes, scales, tiled, column), (codes2, scales2, _, column2) = operand(a), operand(b)
    (m, k), n = codes.shape, codes2.shape[0]
    why = fault(m, codes.device)
    if why or column or column2:
        raise InputError(f"gemm backend 'triton-skinny': {why or 'operands are not K-major'}")
    out = torch.empty((m, n), dtype=dtype, device=codes.device)
    if not out.numel():
        return out
    bm = max(8, 1 << (m - 1).bit_length())
    chosen = cut or plan(bm, n)
    tiles, steps, blocks = -(-n // chosen.bn), -(-k // 128), k // 32
    sms = torch.cuda.get_device_properties(codes.device).multi_processor_count
    shares = shares or split(tiles, steps, sms * chosen.programs)
    shares = max(shares, -(-steps // (_TABLE // bm)))
    cap = 1 << (-(-steps // shares)).bit_length()
    layout = gl.NVMMASharedLayout(swizzle_byte_width=128, element_bitwidth=8, rank=2)
    weights, tokens = (
        TensorDescriptor.from_tensor(c.contiguous().view(torch.float8_e4m3fn), [rows, 128], layout)
        for c, rows in ((codes2, chosen.bn), (codes, bm))
    )
    parts = out
    if shares > 1:
        parts = torch.empty(shares * tiles * chosen.bn * bm, dtype=torch.float32, device=out.device)
    if tiled:
        how = skinny_kernel.TILE
    else:
        how = skinny_kernel.BYTES if blocks % 4 else skinny_kernel.WORDS
    with on(codes):
        skinny_kernel.skinny[(tiles, shares)](
            weights, tokens, scales2, scales, out, parts, m, n, k, blocks,
            BN=chosen.bn, BM=bm, STAGES=chosen.stages, SPLIT=shares, HOW=how.value,
            PARTS=chosen.parts, CAP=cap, WARPS=chosen.warps, num_warps=chosen.warps,
        )  # fmt: skip
        if shares > 1:
            _sum_parts[(tiles, chosen.bn // _ROWS)](
                parts, out, m, n, tiles, SPLIT=shares, BN=chosen.bn, BM=bm, ROWS=_ROWS,
                num_warps=4, launch_pdl=True,
            )  # fmt: skip
    return out
