"""Which instruction Triton's dot_scaled becomes: native block scaling, or bfloat16 products.

Each row was read off compiled kernels (4 warps) of one release, no GPU needed; ``m``, ``n``, ``k``
are the tile of one dot.
"""

from dataclasses import dataclass

from mxlab.guards.facts import Facts

DOT = "dot_scaled"
#: a kernel that walks (m, n, k) in tiles of 128 x 128 x 128
KERNEL = "matmul_kernel"
TILE = (128, 128, 128)
_TCGEN05 = "tcgen05.mma kind::mxf8f6f4.block_scale"
_MMA = "mma.sync kind::mxf8f6f4.block_scale"


@dataclass(frozen=True, slots=True)
class Release:
    """What differs between the releases that were compiled with."""

    version: str
    deduces_block: bool  # the scale's shape decides whether a block is 16 or 32
    native: tuple[str, ...]  # architectures with a native instruction
    crashes: tuple[str, ...]  # architectures whose lowering is missing
    unknown: tuple[str, ...]  # architectures that its assembler did not take here


NEW = Release("3.9.0", True, ("10", "11", "120", "121", "gfx950", "gfx1250"), (), ())
OLD = Release("3.6.0", False, ("10", "120", "gfx950", "gfx1250"), ("gfx942",), ("11",))
VERSIONS = (NEW, OLD)


def arch(facts: Facts) -> str:
    """Return the row's key of a GPU: its family 10, 11, 120, 121, or AMD's name; "" for none.

    >>> from mxlab.guards import Deployment, facts
    >>> from mxlab.guards.facts import CallFacts
    >>> call = CallFacts(function="dot_scaled", m=128, n=128, k=128)
    >>> arch(facts(Deployment(gpu="b300", system="triton"), call=call))
    '10'
    """
    p = facts.platform
    if p.hip:
        return p.gpu.arch
    capability = p.capability or 0
    return str(capability) if capability >= 120 else str(capability // 10) if p.cuda else ""


def instruction(release: Release, key: str, m: int, n: int, k: int) -> tuple[bool, str]:
    """Return whether the tile is native there, and what it becomes.

    >>> instruction(NEW, "10", 128, 128, 128)
    (True, 'tcgen05.mma kind::mxf8f6f4.block_scale')
    >>> instruction(NEW, "10", 64, 128, 128)
    (False, 'tcgen05.mma kind::f16 on operands upcast to bfloat16')
    """
    if key in ("10", "11") and key in release.native:
        if m >= 128 and n >= 16:
            return True, _TCGEN05
        wide = m >= 64 and n >= (8 if release.deduces_block else 16)
        what = "tcgen05.mma kind::f16" if wide else "mma.sync m16n8k16 bf16"
        return False, f"{what} on operands upcast to bfloat16"
    if key in ("120", "121") and key in release.native:
        return True, _MMA
    if key == "gfx1250" and key in release.native:
        return True, "v_wmma_scale_f32_16x16x128_f8f6f4"
    if key == "gfx950" and (k >= 128 or (min(m, n) >= 32 and k >= 64)):
        return True, "v_mfma_scale_f32_f8f6f4"
    what = "v_mfma bf16" if key.startswith("gfx") else "bf16 mma"
    return False, f"{what} on operands upcast to bfloat16"
