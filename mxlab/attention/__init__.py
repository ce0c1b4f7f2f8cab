"""The fused MXFP8 attention prologue and the paged KV cache.

Before attention, a serving engine turns one fused activation into normalised Q and K and convolved
K and V, quantises them, and scatters K and V into pages (``prologue_verify``, ``prologue_extend``,
``prologue_decode``). ``PagedKVCache`` is the pool alone, ``KVShape`` its addresses, ``attend`` the
attention that reads it, ``head_errors`` what MXFP8 costs there. A guard of the real code that does
not hold raises ``GuardTripped`` with its text, before anything is written.
``pages`` and ``order`` need the standard library alone; everything else is imported when it is
first asked for, and needs ``mxlab[arrays]``. The explorer ``kv_page`` shows the same.

>>> import ml_dtypes, numpy as np
>>> from mxlab.attention import KVShape, PagedKVCache
>>> cache = PagedKVCache(256, kv_heads=2)
>>> k = np.full((1, 2, 128), 1.5, ml_dtypes.bfloat16)
>>> cache.store([200], k, -k)  # one token, in slot 200
>>> shape = KVShape(slots=cache.slots, kv_heads=2)
>>> int(cache.sfk.reshape(-1)[shape.scale_offset(200, 1, 3)])  # 2^(119 - 127): 1.5 / 448 rounded up
119
>>> float(cache.gather([200])[1][0, 1, 0])
-1.5
>>> PagedKVCache(256, kv_heads=2, head_dim=80)  # doctest: +ELLIPSIS
Traceback (most recent call last):
    ...
mxlab.attention.checks.GuardTripped: MXFP8 KV cache requires head_dim divisible by 32, got 80. ...
"""

from importlib import import_module
from typing import Any

_HOME = {
    "prologue_verify": "prologue",
    "prologue_extend": "prologue",
    "prologue_decode": "prologue",
    "Prologue": "prologue",
    "GuardTripped": "checks",
    "PagedKVCache": "cache",
    "attend": "decode",
    "attend_by_pages": "decode",
    "head_errors": "check",
    "KVShape": "pages",
}

__all__ = list(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'mxlab.attention' has no attribute {name!r}")
    return getattr(import_module(f"mxlab.attention.{_HOME[name]}"), name)
