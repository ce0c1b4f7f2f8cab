"""What a tensor of any shape takes in bytes: MXFP8 in a layout, bf16, FP8 with larger blocks."""

from mxlab.explorers.panels import Facts
from mxlab.layout import layout
from mxlab.weights import human

BLOCK = 32


def scale_shape(rows: int, k: int, name: str) -> tuple[int, int]:
    """Return rows and columns of the scale matrix of a (rows, k) tensor in a layout.

    >>> scale_shape(300, 320, "tile_128x4"), scale_shape(300, 320, "te_columnwise")
    ((300, 10), (10, 320))
    """
    if layout(name).transposed:  # blocks run down the columns
        return -(-rows // BLOCK), k
    return rows, -(-k // BLOCK)


def mxfp8_bytes(rows: int, k: int, name: str) -> int:
    """Return the bytes of values and scales, padding included.

    >>> mxfp8_bytes(128, 128, "tile_128x4")
    16896
    """
    return rows * k + layout(name).nbytes(*scale_shape(rows, k, name))


def panel(rows: int, k: int, name: str, bandwidth: float | None, gpu: str) -> Facts:
    """Return the bytes of a (rows, k) tensor; ``bandwidth`` is GB/s measured on ``gpu``."""
    found, shape = layout(name), scale_shape(rows, k, name)
    values, scales, cells = rows * k, found.nbytes(*shape), shape[0] * shape[1] * found.itemsize
    whole, wide = values + scales, 2 * rows * k
    padded = found.padded(*shape)
    lines = [
        ("values", _bytes(values), f"{rows:,} x {k:,}, one byte each"),
        ("scales", _bytes(cells), f"{shape[0]:,} x {shape[1]:,}, {found.itemsize} byte each"),
        ("padding", _bytes(scales - cells), f"{name}: {padded[0]:,} x {padded[1]:,}, "
         f"{100 * found.padding_fraction(*shape):.3g} % of the buffer"),
        ("MXFP8 together", _bytes(whole), f"{100 * whole / wide:.4g} % of bf16"),
    ]  # fmt: skip
    along, side = (rows, "rows") if found.transposed else (k, "K")
    if along % BLOCK:
        lines.append(("last block", f"{along % BLOCK} of {BLOCK}",
                      f"{side} = {along} % {BLOCK} = {along % BLOCK}; most refuse it"))  # fmt: skip
    blocks, groups = -(-rows // 128) * -(-k // 128), rows * -(-k // 128)
    for what, size, how in (
        ("bf16", wide, "two bytes each, no scale"),
        ("FP8, blocks of 128 x 128", values + 4 * blocks, f"{blocks:,} float32 scales, of weights"),
        ("FP8, groups of 1 x 128", values + 4 * groups, f"{groups:,} float32 scales, activations"),
        ("FP8, one scale", values + 4, "one float32 scale"),
    ):
        lines.append((what, _bytes(size), f"{how}; {100 * size / wide:.4g} % of bf16"))
    if bandwidth:
        lines.append(("read once", f"{whole / bandwidth / 1e3:.3g} us",
                      f"at least, at the {bandwidth:,.0f} GB/s measured on the {gpu}; bf16 "
                      f"{wide / bandwidth / 1e3:.3g} us"))  # fmt: skip
    alt = (
        f"({rows:,}, {k:,}) takes {whole:,} bytes in MXFP8, {scales - cells:,} of them padding, "
        f"and {wide:,} in bf16."
    )
    return Facts(id="bytes", title="What a tensor takes", alt=alt, rows=tuple(lines),
                 wide=True)  # fmt: skip


def _bytes(count: int) -> str:
    return f"{count:,}" if count < 10_000 else f"{count:,} ({human(count)})"
