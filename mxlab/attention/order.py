"""The guards of the real prologue in the order in which a call meets them: ids, nothing else.

Standard library only, so that an explorer can use it in a browser.
Source: sglang 0.5.23, kernels/ops/attention/inkling_attn_prologue.py (lines 91, 208, 322) and
kernels/jit/csrc/inkling/inkling_attn_prologue_fused.cuh (404, 809, 1303).
"""

from collections.abc import Mapping

_PYTHON = ("ink-py-dims", "ink-py-sf", "ink-py-shape", "ink-py-contig")
_QKVR = ("ink-cu-dims", "ink-cu-lanes16", "ink-cu-row", "ink-cu-off")
_CUDA: Mapping[str, tuple[str, ...]] = {
    "verify": (
        *("ink-cu-t", *_QKVR, "ink-cu-kvstride", "ink-cu-conv", "ink-cu-inter", "ink-cu-block"),
        *("MXFP8", "ink-cu-tau", "ink-cu-cwstride"),
    ),
    "decode": (
        *(*_QKVR, "ink-cu-conv", "ink-cu-cwstride", "ink-cu-block", "ink-cu-kvstride"),
        *("MXFP8", "ink-cu-tau"),
    ),
    "extend": (
        *(*_QKVR, "ink-cu-si", "ink-cu-cu", "ink-cu-seq", "ink-cu-conv", "ink-cu-cwstride"),
        *("ink-cu-block", "ink-cu-kvstride", "ink-cu-track", "MXFP8", "ink-cu-tau"),
    ),
}
_MXFP8 = (
    *("ink-cu-store", "ink-cu-32", "ink-cu-page", "ink-cu-qdtype", "ink-cu-kvdtype"),
    *("ink-cu-sfdtype", "ink-cu-qcontig", "ink-cu-sfq", "ink-cu-5d", "ink-cu-sfshape"),
    *("ink-cu-sfstride", "ink-cu-kvalign"),
)
_BF16 = ("ink-cu-bf16align", "ink-cu-qout")

#: what a caller cannot trip: the wrapper allocates Q and its scales itself, and an earlier check
#: has looked at the head sizes and at the shape of the scale buffers
IMPLIED = frozenset(
    (
        *("ink-cu-lanes16", "ink-cu-32", "ink-cu-qdtype", "ink-cu-qcontig", "ink-cu-sfq"),
        *("ink-cu-5d", "ink-cu-sfshape", "ink-cu-sfstride", "ink-cu-qout"),
    )
)


def order(mode: str, *, mxfp8: bool) -> tuple[str, ...]:
    """Return the guard ids that a call meets, in order, without those in ``IMPLIED``.

    ``mode`` is verify, extend or decode.

    >>> order("decode", mxfp8=False)[:2]
    ('ink-cu-dims', 'ink-cu-row')
    """
    ids: list[str] = list(_PYTHON) if mxfp8 else []
    for id in _CUDA[mode]:
        ids += (_MXFP8 if mxfp8 else _BF16) if id == "MXFP8" else [id]
    return tuple(id for id in ids if id not in IMPLIED)
