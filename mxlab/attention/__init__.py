"""The fused MXFP8 attention prologue and the paged KV cache.

``pages`` needs the standard library alone; everything else is imported when it is first asked for.
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
