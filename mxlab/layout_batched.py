"""Scale buffers of several matrices: each is padded on its own, then they follow each other.

So do CUTLASS, torchao and FlashInfer's ``block_scale_interleave``. Flattening the batches to one
tall matrix first gives another buffer wherever the rows are no multiple of the tile's.
"""

from dataclasses import dataclass

from mxlab.errors import whole_number
from mxlab.layout import MAX_SIDE, LayoutLike, ScaleLayout, layout


@dataclass(frozen=True, slots=True)
class BatchedLayout:
    """``batches`` scale matrices of ``rows`` x ``cols``, in one buffer."""

    layout: ScaleLayout
    batches: int
    rows: int
    cols: int

    @property
    def stride(self) -> int:
        """Bytes from one batch to the next."""
        return self.layout.nbytes(self.rows, self.cols)

    @property
    def nbytes(self) -> int:
        """Bytes of the whole buffer."""
        return self.batches * self.stride

    @property
    def padding_fraction(self) -> float:
        """The share of the buffer that is padding, 0..1."""
        return self.layout.padding_fraction(self.rows, self.cols)

    @property
    def flattened_nbytes(self) -> int:
        """Bytes that the batches would take flattened to one matrix of batches * rows rows."""
        return self.layout.nbytes(self.batches * self.rows, self.cols)

    def offset(self, batch: int, row: int, col: int) -> int:
        """Return the byte offset of a scale; raise InputError where it is outside.

        >>> batched("tile_128x4", 3, 130, 5).offset(1, 0, 1)
        2049
        """
        batch = whole_number("batch", batch, 0, self.batches - 1)
        return batch * self.stride + self.layout.offset(row, col, self.rows, self.cols)

    def coord(self, offset: int) -> tuple[int, int, int] | None:
        """Return (batch, row, col) of the scale at an offset, None for padding.

        >>> batched("tile_128x4", 3, 130, 5).coord(2049)
        (1, 0, 1)
        """
        offset = whole_number("offset", offset, 0, self.nbytes - 1)
        batch, inside = divmod(offset, self.stride)
        found = self.layout.coord(inside, self.rows, self.cols)
        return None if found is None else (batch, *found)


def batched(name: LayoutLike, batches: int, rows: int, cols: int) -> BatchedLayout:
    """Return the layout of several scale matrices in one buffer, each padded on its own.

    ``interleave`` of uint8 [batches, rows, cols] fills it. Raises InputError for an unknown layout
    or sizes that cannot be. Source: CUTLASS Sm1xxBlockScaledConfig; torchao 3-D scales.

    >>> found = batched("tile_128x4", 3, 130, 5)
    >>> found.nbytes, found.flattened_nbytes
    (6144, 4096)
    """
    found = layout(name)
    found.padded(rows, cols)  # checks both
    return BatchedLayout(found, whole_number("batches", batches, 1, MAX_SIDE), rows, cols)
