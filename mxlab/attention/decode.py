"""Decode attention in NumPy double precision, and by online softmax over pages: the references."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mxlab.errors import InputError

Doubles = NDArray[np.float64]


def attend(q: Any, k: Any, v: Any, *, scale: float | None = None) -> Doubles:
    """Return attention of one token over n others: float64 [query heads, v_head_dim].

    ``q`` [query heads, head_dim], ``k`` [n, KV heads, head_dim], ``v`` [n, KV heads, v_head_dim],
    any float dtype. A KV head serves the query heads beside each other. ``scale`` is
    1 / sqrt(head_dim) by default. Raises InputError where shapes do not fit.

    >>> attend(np.ones((2, 4)), np.ones((3, 1, 4)), np.arange(6.0).reshape(3, 1, 2)).tolist()
    [[2.0, 3.0], [2.0, 3.0]]
    """
    q, k, v = (np.asarray(x, np.float64) for x in (q, k, v))
    fits = q.ndim == 2 and k.ndim == v.ndim == 3 and k.shape[:2] == v.shape[:2]
    if not fits or len(k) == 0 or q.shape[1] != k.shape[2] or len(q) % k.shape[1]:
        raise InputError(f"q {q.shape}, k {k.shape} and v {v.shape} do not fit together")
    factor = q.shape[1] ** -0.5 if scale is None else scale
    groups = q.reshape(k.shape[1], -1, q.shape[1])
    score = np.einsum("hgd,nhd->hgn", groups, k) * factor
    score -= score.max(axis=-1, keepdims=True)
    weight = np.exp(score)
    weight /= weight.sum(axis=-1, keepdims=True)
    out: Doubles = np.einsum("hgn,nhd->hgd", weight, v)
    return out.reshape(len(q), v.shape[2])


def attend_by_pages(
    q: Any, k: Any, v: Any, *, page_size: int = 128, scale: float | None = None
) -> Doubles:
    """Return the same, a page at a time: the running maximum, sum and output of online softmax.

    >>> rng = np.random.default_rng(0)
    >>> q, (k, v) = rng.normal(size=(4, 8)), rng.normal(size=(2, 300, 2, 8))
    >>> bool(np.allclose(attend(q, k, v), attend_by_pages(q, k, v), rtol=1e-12))
    True
    """
    q, k, v = (np.asarray(x, np.float64) for x in (q, k, v))
    factor = q.shape[1] ** -0.5 if scale is None else scale
    groups = q.reshape(k.shape[1], -1, q.shape[1])
    top = np.full(groups.shape[:2], -np.inf)
    total = np.zeros(groups.shape[:2])
    out = np.zeros((*groups.shape[:2], v.shape[2]))
    for start in range(0, len(k), page_size):
        key, value = k[start : start + page_size], v[start : start + page_size]
        score = np.einsum("hgd,nhd->hgn", groups, key) * factor
        higher = np.maximum(top, score.max(axis=-1))
        weight = np.exp(score - higher[..., None])
        shrink = np.exp(top - higher)  # what was summed under a lower maximum
        total = total * shrink + weight.sum(axis=-1)
        out = out * shrink[..., None] + np.einsum("hgn,nhd->hgd", weight, value)
        top = higher
    return (out / total[..., None]).reshape(len(q), v.shape[2])
