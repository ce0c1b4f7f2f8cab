"""What MXFP8 in the KV cache does to decode attention, head by head: rows for a table or a plot.

Activations are drawn: normal values, with a few channels of K and V scaled up where ``outliers``
says so, as trained models have them. The answer of a bfloat16 cache is the yardstick.
"""

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from mxlab.arrays import dequantize, quantize
from mxlab.attention.decode import attend
from mxlab.errors import choose, whole_number
from mxlab.layout import layout
from mxlab.scale import RULES

OUTLIER = 32.0  # how much larger the outlier channels are
_LAYOUTS = ("tile_128x4", "linear")
PAGE = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadError:
    """The relative error of one query head's output, over its norm."""

    head: int
    head_dim: int
    rule: str
    outliers: int
    scale_layout: str  # how the scale bytes are read; they are written as tile_128x4
    error: float


def activations(
    *, tokens: int, q_heads: int, kv_heads: int, head_dim: int, outliers: int, seed: int = 0
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Draw q [query heads, head_dim], k and v [tokens, KV heads, head_dim], bfloat16.

    ``outliers`` channels of every head of K and V are 32 times as large, the same for all tokens.

    >>> activations(tokens=4, q_heads=2, kv_heads=1, head_dim=64, outliers=1)[1].shape
    (4, 1, 64)
    """
    rng = np.random.default_rng(seed)
    loud = np.ones((kv_heads, head_dim), np.float32)
    for head in range(kv_heads):
        loud[head, rng.permutation(head_dim)[:outliers]] = OUTLIER
    q = rng.standard_normal((q_heads, head_dim), np.float32)
    q /= np.repeat(loud, q_heads // kv_heads, axis=0)  # a softmax, not one winner
    k, v = (rng.standard_normal((tokens, kv_heads, head_dim), np.float32) * loud for _ in "kv")
    return tuple(x.astype(ml_dtypes.bfloat16) for x in (q, k, v))  # type: ignore[return-value]


def misread(scales: NDArray[np.uint8], name: str) -> NDArray[np.uint8]:
    """Return scale bytes [tokens, heads, blocks], written as one tile a page and head, as read.

    ``linear`` reads them row by row from the same bytes, as flat caches lay them out.

    >>> byte = np.arange(512, dtype=np.uint8).reshape(128, 1, 4)
    >>> misread(byte, "linear")[1, 0].tolist()
    [128, 129, 130, 131]
    """
    choose("scale layout", name, dict.fromkeys(_LAYOUTS))
    tokens, heads, blocks = scales.shape
    if name == "tile_128x4":
        return scales
    tile = layout("tile_128x4")
    out = np.empty_like(scales)
    for start in range(0, tokens, PAGE):
        for head in range(heads):
            page = scales[start : start + PAGE, head]
            memory = np.zeros(tile.nbytes(PAGE, blocks), np.uint8)
            for row in range(len(page)):
                for block in range(blocks):
                    memory[tile.at(row, block, PAGE, blocks)] = page[row, block]
            flat = memory[: PAGE * blocks].reshape(PAGE, blocks)
            out[start : start + PAGE, head] = flat[: len(page)]
    return out


def _through(x: NDArray[Any], rule: str, scale_layout: str) -> NDArray[Any]:
    """Quantise along head_dim, read the scales back, and widen."""
    q = quantize(x, "e4m3", rule=rule, axis=-1)
    byte = misread(np.asarray(q.scales), scale_layout)
    if scale_layout == "tile_128x4":
        return np.asarray(dequantize(q, dtype="float64"))
    codes = np.asarray(q.codes).view(ml_dtypes.float8_e4m3fn).astype(np.float64)
    power = np.ldexp(1.0, byte.astype(np.int32) - 127)
    values: NDArray[Any] = codes * np.repeat(power, 32, axis=-1)
    return values


def head_errors(
    *,
    head_dim: int = 128,
    rule: str = "rceil",
    outliers: int = 0,
    scale_layout: str = "tile_128x4",
    tokens: int = 256,
    q_heads: int = 8,
    kv_heads: int = 2,
    seed: int = 0,
) -> list[HeadError]:
    """Return the error of every query head with K and V in MXFP8, against a bfloat16 cache.

    Raises InputError for a head_dim that is no multiple of 32, or unknown names.

    >>> rows = head_errors(tokens=32, q_heads=2, kv_heads=1)
    >>> len(rows), 0 < rows[0].error < 0.1
    (2, True)
    """
    whole_number("head_dim", head_dim, 32, 1024, multiple_of=32)
    whole_number("tokens", tokens, 1, 2**16)
    whole_number("kv_heads", kv_heads, 1, 64)
    whole_number("q_heads", q_heads, kv_heads, 512, multiple_of=kv_heads)
    whole_number("outliers", outliers, 0, head_dim)
    choose("rule", rule, RULES)
    q, k, v = activations(
        tokens=tokens,
        q_heads=q_heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        outliers=outliers,
        seed=seed,
    )
    wanted = attend(q, k, v)
    found = attend(q, _through(k, rule, scale_layout), _through(v, rule, scale_layout))
    errors = np.linalg.norm(found - wanted, axis=-1) / np.linalg.norm(wanted, axis=-1)
    return [
        HeadError(
            head=head,
            head_dim=head_dim,
            rule=rule,
            outliers=outliers,
            scale_layout=scale_layout,
            error=float(error),
        )
        for head, error in enumerate(errors)
    ]


def table(
    head_dims: tuple[int, ...] = (64, 128), outliers: tuple[int, ...] = (0, 4)
) -> list[HeadError]:
    """Return ``head_errors`` for every rule, head_dim and number of outliers, and both layouts.

    >>> len(table(head_dims=(128,), outliers=(0,)))
    64
    """
    return [
        row
        for head_dim in head_dims
        for rule in RULES
        for many in outliers
        for name in _LAYOUTS
        for row in head_errors(head_dim=head_dim, rule=rule, outliers=many, scale_layout=name)
    ]
