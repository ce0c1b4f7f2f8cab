"""Where a token's codes and scale bytes lie in a paged MXFP8 KV cache: addresses, nothing else.

Standard library only, so that an explorer can use them in a browser. The cache is codes
``[slots, KV heads, head_dim]``, one byte each, and scale bytes ``[pages, KV heads, 32, page / 32,
head_dim / 32]`` (interleaved) or ``[slots, KV heads, head_dim / 32]`` (flat, which SGLang allocates
for pages other than 128 and never writes); a slot is the place of one token.
"""

from dataclasses import dataclass
from math import prod

from mxlab.errors import whole_number

BLOCK = 32
HEAD_DIM = 128
PAGE = 128
MAX_SLOTS = 2**40


@dataclass(frozen=True, slots=True, kw_only=True)
class KVShape:
    """The sizes of one layer's cache on one rank: slots, KV heads, head_dim, page size.

    Raises InputError for a head_dim that is no multiple of 32, or a page size that is none, unless
    the scales are flat.

    >>> KVShape(slots=512, kv_heads=2).scale_shape
    (4, 2, 32, 4, 4)
    >>> KVShape(slots=512, kv_heads=2, page_size=1, interleaved=False).scale_shape
    (512, 2, 4)
    """

    slots: int
    kv_heads: int
    head_dim: int = HEAD_DIM
    page_size: int = PAGE
    interleaved: bool = True

    def __post_init__(self) -> None:
        whole_number("slots", self.slots, 0, MAX_SLOTS)
        whole_number("kv_heads", self.kv_heads, 1, 2**20)
        whole_number("head_dim", self.head_dim, BLOCK, 2**20, multiple_of=BLOCK)
        run = 32 if self.interleaved else 1
        whole_number("page_size", self.page_size, run, 2**20, multiple_of=run)

    @property
    def pages(self) -> int:
        """Whole pages: slots after the last one have codes, and no interleaved scale bytes."""
        return self.slots // self.page_size

    @property
    def scales_per_head(self) -> int:
        """Blocks of 32 in a head."""
        return self.head_dim // BLOCK

    @property
    def scale_shape(self) -> tuple[int, ...]:
        """The shape of a scale buffer, K's or V's."""
        if not self.interleaved:
            return (self.slots, self.kv_heads, self.scales_per_head)
        return (self.pages, self.kv_heads, 32, self.page_size // 32, self.scales_per_head)

    @property
    def bytes_per_token(self) -> int:
        """Bytes of one token's K (or V): codes and scale bytes.

        >>> KVShape(slots=128, kv_heads=8).bytes_per_token
        1056
        """
        return self.kv_heads * (self.head_dim + self.scales_per_head)

    def slot(self, value: object) -> int:
        """Return a slot that has scale bytes, or raise InputError."""
        end = self.pages * self.page_size if self.interleaved else self.slots
        return whole_number("slot", value, 0, end - 1)

    def page_row(self, slot: int) -> tuple[int, int]:
        """Return (page, row in the page) of a slot.

        >>> KVShape(slots=512, kv_heads=2).page_row(200)
        (1, 72)
        """
        return divmod(self.slot(slot), self.page_size)

    def code_offset(self, slot: int, head: int, dim: int) -> int:
        """Return the byte offset of one code in the codes of K or V.

        >>> KVShape(slots=512, kv_heads=2).code_offset(200, 1, 3)
        51331
        """
        slot = whole_number("slot", slot, 0, self.slots - 1)
        head = whole_number("head", head, 0, self.kv_heads - 1)
        dim = whole_number("dim", dim, 0, self.head_dim - 1)
        return (slot * self.kv_heads + head) * self.head_dim + dim

    def scale_index(self, slot: int, head: int, block: int) -> tuple[int, ...]:
        """Return the indices of a scale byte: (page, head, row % 32, row // 32, block).

        Of a flat buffer: (slot, head, block).

        >>> KVShape(slots=512, kv_heads=2).scale_index(200, 1, 3)
        (1, 1, 8, 2, 3)
        """
        page, row = self.page_row(slot)
        head = whole_number("head", head, 0, self.kv_heads - 1)
        block = whole_number("block", block, 0, self.scales_per_head - 1)
        if not self.interleaved:
            return slot, head, block
        return page, head, row % 32, row // 32, block

    def scale_offset(self, slot: int, head: int, block: int) -> int:
        """Return the byte offset of the scale of one block, in the scale buffer of K or V.

        Source: sglang 0.5.23, kernels/jit/csrc/inkling/inkling_attn_prologue_fused.cuh.

        >>> KVShape(slots=512, kv_heads=2).scale_offset(200, 1, 3)
        1675
        """
        columns, index = self.scales_per_head, self.scale_index(slot, head, block)
        if not self.interleaved:
            return (index[0] * self.kv_heads + head) * columns + block
        page, head, low, high, block = index
        tile = self.page_size * columns
        run = self.page_size // 32 * columns
        return (page * self.kv_heads + head) * tile + low * run + high * columns + block

    def scale_at(self, offset: int) -> tuple[int, int, int]:
        """Return (slot, head, block) of the scale byte at an offset: the inverse.

        >>> KVShape(slots=512, kv_heads=2).scale_at(1675)
        (200, 1, 3)
        """
        offset = whole_number("offset", offset, 0, prod(self.scale_shape) - 1)
        if not self.interleaved:
            pair, block = divmod(offset, self.scales_per_head)
            return *divmod(pair, self.kv_heads), block
        tile, inside = divmod(offset, self.page_size * self.scales_per_head)
        page, head = divmod(tile, self.kv_heads)
        low, inside = divmod(inside, self.page_size // 32 * self.scales_per_head)
        high, block = divmod(inside, self.scales_per_head)
        return page * self.page_size + high * 32 + low, head, block
