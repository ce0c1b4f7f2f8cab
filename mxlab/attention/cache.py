"""A paged KV cache of one layer on one rank, allocated and stored as SGLang 0.5.23 does it.

``PagedKVCache`` fails where the real one fails, with the real texts, which come from the guard
table: at allocation (head_dim % 32), at the first store (pages other than 128, heads other than
128), or in the attention kernel (``attention_fault``).
"""

from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from mxlab.attention.checks import GuardTripped
from mxlab.attention.containers import bits, numbers
from mxlab.attention.pages import BLOCK, HEAD_DIM
from mxlab.attention.rounding import bf, dequantize, quantize
from mxlab.errors import InputError, choose, whole_number
from mxlab.guards import AttentionFacts, Deployment, KvCacheFacts, Status, check, guard
from mxlab.guards.engine import Verdict

_STORE = ("kv-no-scales", "kv-page128", "kv-sf-dim4")


def verdicts(
    head_dim: int, v_head_dim: int, kv_heads: int, page_size: int, *, fused: bool = True
) -> list[Verdict]:
    """Return what SGLang's guards say of an MXFP8 cache of these sizes, in its own order.

    Attention is FA4's, with Q scales from the layer, as Inkling's is: the one path that works.
    ``fused``: the pool quantises K and V itself, as it does by default.

    >>> [v.guard for v in verdicts(64, 64, 8, 128, fused=False) if v.status is Status.STOPS]
    ['kv-sf-dim4']
    """
    deployment = Deployment(
        gpu="b200",
        kv_cache_dtype="mxfp8",
        page_size=page_size,
        architecture="InklingForConditionalGeneration",
        speculative_eagle_topk=2,  # so that FA4 does not overrule the page size
        attention_backend="fa4",
        env={} if fused else {"SGLANG_OPT_INKLING_MXFP8_FUSED_QUANT_STORE": "0"},
    )
    heads = KvCacheFacts(head_dim=head_dim, v_head_dim=v_head_dim, kv_heads=kv_heads)
    call = AttentionFacts(head_dim=head_dim, v_head_dim=v_head_dim, page_size=page_size)
    found = check(deployment, kv_cache=heads, step=call)
    return [v for v in found if guard(v.guard).subject in ("kv_cache", "attention")]


class PagedKVCache:
    """K and V of one layer: codes and scale bytes, or bfloat16, in pages of ``page_size`` slots.

    ``size`` is the tokens that fit, a multiple of the page; one page more is allocated, as slot 0
    is SGLang's sink for padding. ``dtype`` is ``mxfp8`` or ``bf16``. ``k_buf``, ``v_buf`` are
    [size + page, KV heads, head_dim], uint8 codes or uint16 bits of bfloat16; ``sfk``, ``sfv``
    uint8 [pages, KV heads, 32, 4, head_dim / 32] for pages of 128, else [slots, KV heads,
    head_dim / 32]. All start at zero: a scale byte of 255 would be NaN. Raises GuardTripped, with
    SGLang's text, where its allocation stops. ``fused_store=False`` hands scales to the pool's
    store, which then looks at the head size.

    >>> cache = PagedKVCache(256, kv_heads=2)
    >>> cache.sfk.shape, cache.bytes_per_token
    ((3, 2, 32, 4, 4), 528)
    """

    def __init__(
        self,
        size: int,
        *,
        kv_heads: int,
        head_dim: int = HEAD_DIM,
        v_head_dim: int | None = None,
        page_size: int = 128,
        dtype: str = "mxfp8",
        fused_store: bool = True,
    ) -> None:
        self.page_size = whole_number("page_size", page_size, 1, 2**20)
        self.size = whole_number("size", size, 0, 2**31, multiple_of=self.page_size)
        self.kv_heads = whole_number("kv_heads", kv_heads, 1, 2**20)
        self.head_dim = whole_number("head_dim", head_dim, 1, 2**20)
        v_head_dim = head_dim if v_head_dim is None else v_head_dim
        self.v_head_dim = whole_number("v_head_dim", v_head_dim, 1, 2**20)
        self.mxfp8 = choose("dtype", dtype, {"mxfp8": True, "bf16": False})
        self._verdicts: list[Verdict] = []
        if self.mxfp8:
            self._verdicts = verdicts(head_dim, v_head_dim, kv_heads, page_size, fused=fused_store)
            self._stop(("kv-hd32", "kv-vhd32"))
        word: Any = np.uint8 if self.mxfp8 else np.uint16
        self.k_buf = np.zeros((self.slots, kv_heads, head_dim), word)
        self.v_buf = np.zeros((self.slots, kv_heads, v_head_dim), word)
        self.sfk: Any = self._scales(head_dim) if self.mxfp8 else None
        self.sfv: Any = self._scales(v_head_dim) if self.mxfp8 else None

    @property
    def slots(self) -> int:
        """Rows of a buffer: the tokens that fit, and one page more."""
        return self.size + self.page_size

    @property
    def pages(self) -> int:
        """Whole pages, the first of which holds slot 0."""
        return self.slots // self.page_size

    @property
    def bytes_per_token(self) -> int:
        """Bytes of one token's K and V with their scales.

        >>> PagedKVCache(128, kv_heads=8, dtype="bf16").bytes_per_token
        4096
        """
        width = self.head_dim + self.v_head_dim
        return self.kv_heads * (width + width // BLOCK if self.mxfp8 else 2 * width)

    def _scales(self, head_dim: int) -> NDArray[np.uint8]:
        blocks = head_dim // BLOCK
        if self.page_size == 128:
            return np.zeros((self.pages, self.kv_heads, 32, 4, blocks), np.uint8)
        return np.zeros((self.slots, self.kv_heads, blocks), np.uint8)

    def _stop(self, ids: tuple[str, ...]) -> None:
        for v in self._verdicts:
            if v.guard in ids and v.status is Status.STOPS:
                raise GuardTripped(v.guard, v.message, v.because)

    @property
    def attention_fault(self) -> str | None:
        """What stops the attention kernel on this cache, in SGLang's words; None if it runs."""
        after = {v.guard for v in self._verdicts} - {"kv-hd32", "kv-vhd32", *_STORE}
        for v in self._verdicts:
            if v.guard in after and v.status is Status.STOPS:
                return f"{v.message or guard(v.guard).error} ({v.guard}: {v.because})"
        return None

    @property
    def silent_faults(self) -> list[str]:
        """What goes wrong without a word: SGLang raises nothing and the answer is not right."""
        silent = [v for v in self._verdicts if v.status is Status.SILENT]
        return [f"{v.guard}: {v.because}" for v in silent]

    def slots_of(self, page_table: Any, length: int) -> NDArray[np.int64]:
        """Return the slots of tokens 0..length - 1 of a sequence whose pages are ``page_table``.

        >>> PagedKVCache(512, kv_heads=1).slots_of(np.array([3, 1]), 130)[[0, 127, 128, 129]]
        array([384, 511, 128, 129])
        """
        table = numbers("page_table", np.asarray(page_table), np.int64)
        most = len(table) * self.page_size
        length = whole_number("length", length, 0, most)
        used = table[: -(-length // self.page_size)]
        if ((used < 0) | (used >= self.pages)).any():
            bad = int(used[(used < 0) | (used >= self.pages)][0])
            raise InputError(f"page_table holds {bad}: expected 0 to {self.pages - 1}")
        token = np.arange(length)
        return table[token // self.page_size] * self.page_size + token % self.page_size

    def _offsets(self, slots: NDArray[np.int64], blocks: int) -> NDArray[np.int64]:
        """Offsets of scale bytes [slots, heads, blocks] in either layout."""
        head, block = np.arange(self.kv_heads)[:, None], np.arange(blocks)
        slots = slots[:, None, None]
        if self.page_size != 128:
            return (slots * self.kv_heads + head) * blocks + block
        page, row = slots // 128, slots % 128
        tile = (page * self.kv_heads + head) * 128 * blocks
        return tile + (row % 32) * 4 * blocks + row // 32 * blocks + block

    def _checked(self, slots: Any) -> NDArray[np.int64]:
        array = numbers("slots", np.asarray(slots), np.int64)
        bad = (array < 0) | (array >= self.slots)
        if bad.any():
            raise InputError(f"slot {int(array[bad][0])}: expected 0 to {self.slots - 1}")
        return array

    def store(self, slots: Any, k: Any, v: Any) -> None:
        """Quantise bfloat16 K [n, KV heads, head_dim] and V, and write them to ``slots`` [n].

        Raises GuardTripped where SGLang's store stops, InputError for slots outside the cache or
        named twice. Slot 0 is written like any other here; SGLang's Triton stores skip it.
        """
        self._stop(_STORE)
        where = self._checked(slots)
        if len(np.unique(where)) != len(where):
            raise InputError("slots name one slot twice: expected each once")
        words = [bits(name, x) for name, x in (("k", k), ("v", v))]
        for name, word, dim in zip("kv", words, (self.head_dim, self.v_head_dim), strict=True):
            want = (len(where), self.kv_heads, dim)
            if word.dtype != np.uint16 or word.shape != want:
                raise InputError(f"{name} has shape {word.shape}: expected bfloat16 {want}")
        buffers = ((self.k_buf, self.sfk), (self.v_buf, self.sfv))
        for word, (buffer, scales) in zip(words, buffers, strict=True):
            if not self.mxfp8:
                buffer[where] = word
                continue
            buffer[where], byte = quantize(word)
            scales.reshape(-1)[self._offsets(where, byte.shape[-1])] = byte

    def gather(self, slots: Any) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return K and V of ``slots`` [n] as bfloat16 [n, KV heads, head_dim].

        >>> one = np.ones((1, 1, 128), ml_dtypes.bfloat16)
        >>> cache = PagedKVCache(128, kv_heads=1)
        >>> cache.store([5], one, 2 * one)
        >>> k, v = cache.gather([5])
        >>> float(k[0, 0, 0]), float(v[0, 0, 0])
        (1.0, 2.0)
        """
        where = self._checked(slots)
        out = []
        for buffer, scales in ((self.k_buf, self.sfk), (self.v_buf, self.sfv)):
            words: Any = buffer[where]
            if self.mxfp8:
                offsets = self._offsets(where, buffer.shape[-1] // BLOCK)
                words = bf(dequantize(words, scales.reshape(-1)[offsets]))
            out.append(words.view(ml_dtypes.bfloat16))
        return out[0], out[1]
