"""What the shape of a scale says about a weight's blocks, from shapes alone.

Source: checkpoints of ModelOpt 0.47, compressed-tensors 0.20, Quark, DeepSeek; the layouts of
``mxlab.layout``.
"""

from dataclasses import dataclass, replace
from math import prod

from mxlab.layout import LAYOUTS, MAX_SIDE

Shape = tuple[int, ...]

#: block sizes in the order in which an ambiguous count is explained
_SIZES = (128, 32, 64, 16, 256, 512, 8, 4, 2)
_TILED = ("tile_128x4", "tile_8x4", "amd_32x8", "deepgemm_packed")


@dataclass(frozen=True, slots=True)
class Geometry:
    """``kind`` is block, tensor, channel, transposed, columnwise, tiled, flat or none.

    ``block`` is (rows, columns) of one scale for a block; ``layouts`` are the layouts whose buffer
    has this very size or shape, beside a block where both explain it.
    """

    kind: str
    block: tuple[int, int] | None = None
    layouts: tuple[str, ...] = ()


def ceil(size: int, block: int) -> int:
    """Return how many blocks cover a size."""
    return -(-size // block)


def block_size(size: int, count: int) -> int | None:
    """Return the block size that cuts ``size`` into ``count`` blocks, None where there is none.

    Where several fit, the first of 1, 128, 32, 64, 16, ... is returned.

    >>> block_size(4096, 128), block_size(576, 5), block_size(64, 65)
    (32, 128, None)
    """
    if not size or not count or count > size:
        return None
    for block in (1, *_SIZES):
        if ceil(size, block) == count:
            return block
    return size // count if size % count == 0 else None


def _blocks(weight: Shape, scale: Shape) -> Geometry | None:
    """Explain a 2-D scale as one number for a rectangle of the weight."""
    rows = block_size(weight[0], scale[0])
    cols = block_size(weight[1], scale[1])
    return Geometry("block", (rows, cols)) if rows and cols else None


def _same_size(n: int, groups: int, batch: int, count: int) -> tuple[str, ...]:
    """Return the tiled layouts whose buffers hold ``count`` bytes."""
    if not (1 <= n <= MAX_SIDE and 1 <= groups <= MAX_SIDE):
        return ()
    return tuple(name for name in _TILED if LAYOUTS[name].nbytes(n, groups) * batch == count)


def _usual(found: Geometry, k: int, cols: int) -> bool:
    """Tell whether blocks along K, of a power of two and without a rest, explain padding too."""
    rows, size = found.block or (0, 0)
    return rows == 1 and size * cols == k and size & (size - 1) == 0


def exponent_geometry(
    weight: Shape, scale: Shape, claimed: tuple[int, int] | None = None
) -> Geometry:
    """Explain the shape of E8M0 scales: (N, K/32) is MXFP8, all else is said to be what it is.

    ``weight`` is (..., N, K) in elements, ``scale`` the stored shape, ``claimed`` the config's
    block.

    >>> exponent_geometry((256, 4096), (256, 128))
    Geometry(kind='block', block=(1, 32), layouts=())
    >>> exponent_geometry((256, 4096), (128, 256)).kind
    'transposed'
    """
    if len(weight) < 2:
        return Geometry("none")
    *lead, n, k = weight
    groups = ceil(k, 32)
    if scale == (*lead, n, groups):
        return Geometry("block", (1, 32))
    if claimed and scale == (*lead, ceil(n, claimed[0]), ceil(k, claimed[1])):
        return Geometry("block", claimed)
    if prod(scale) == 1 and n * k > 32:
        return Geometry("tensor")
    batch = prod(lead)
    if len(scale) != len(weight) or list(scale[:-2]) != lead:
        same = _same_size(n, groups, batch, prod(scale))
        if prod(scale) == batch * n * groups:
            return Geometry("flat", layouts=("linear", *same))
        return Geometry("tiled", layouts=same) if same else Geometry("none")
    flat = (scale[-2], scale[-1])
    if flat == (groups, n):
        return Geometry("transposed")
    padded = tuple(
        name
        for name in _TILED
        if 1 <= n <= MAX_SIDE and 1 <= groups <= MAX_SIDE
        if LAYOUTS[name].padded(n, groups) == flat
    )
    if flat == (ceil(n, 32), k) and k > 1 and not padded:
        return Geometry("columnwise")
    found = _blocks((n, k), flat)
    if found and (not padded or _usual(found, k, flat[1])):
        return replace(found, layouts=padded)
    if padded:
        return Geometry("tiled", layouts=padded)
    same = _same_size(n, groups, batch, prod(scale))
    return Geometry("tiled", layouts=same) if same else Geometry("none")


def number_geometry(
    weight: Shape, scale: Shape, claimed: tuple[int, int] | None = None
) -> Geometry:
    """Explain the shape of scales that are numbers: a tensor, a channel, a rectangle.

    >>> number_geometry((2112, 7168), (17, 56)).block
    (128, 128)
    """
    if len(weight) < 2:
        return Geometry("none")
    *lead, n, k = weight
    count = prod(scale)
    if claimed and scale == (*lead, ceil(n, claimed[0]), ceil(k, claimed[1])):
        return Geometry("block", claimed)  # also of a weight smaller than one block
    if count == 1 or (lead and count == prod(lead)):
        return Geometry("tensor")
    if scale in ((n,), (n, 1), (*lead, n), (*lead, n, 1)) and k > 1:
        return Geometry("channel")
    if len(scale) == 1 and count <= 4:  # one number for each member of a fused weight
        return Geometry("tensor")
    if len(scale) != len(weight) or list(scale[:-2]) != lead:
        return Geometry("none")
    flat = (scale[-2], scale[-1])
    rows, cols = claimed or (128, 128)
    straight, turned = (ceil(n, rows), ceil(k, cols)), (ceil(k, cols), ceil(n, rows))
    if flat == turned != straight:
        return Geometry("transposed")
    return _blocks((n, k), flat) or Geometry("none")
