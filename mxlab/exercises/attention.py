"""Exercises of chapter 8: from qkv to a cache page."""

from collections.abc import Iterator
from math import inf, isinf, isnan, nan

from mxlab.attention.pages import KVShape
from mxlab.exercises.checker import Exercise, Mistake
from mxlab.scale import scale_byte

_FLOOR, _INF_BYTE = 19, 254  # of the prologue: see attention.rounding, which needs NumPy


def _offset(slot: int, head: int, block: int, kv_heads: int, page_size: int) -> int:
    shape = KVShape(slots=page_size * 64, kv_heads=kv_heads, page_size=page_size)
    return shape.scale_offset(slot, head, block)


def _places() -> Iterator[tuple[int, int, int, int, int]]:
    for page_size in (128, 64, 32):
        for kv_heads in (1, 2, 8):
            for slot in (0, 1, 31, 33, 72, 127, 128, 200, 500):
                yield slot, kv_heads - 1, slot % 4, kv_heads, page_size


def _flat(slot: int, head: int, block: int, kv_heads: int, page_size: int) -> int:
    return (slot * kv_heads + head) * 4 + block


def _always_128(slot: int, head: int, block: int, kv_heads: int, page_size: int) -> int:
    return _offset(slot, head, block, kv_heads, 128)


def _headless(slot: int, head: int, block: int, kv_heads: int, page_size: int) -> int:
    return _offset(slot, 0, block, kv_heads, page_size)


def _byte(amax: float) -> int:
    if isnan(amax):
        return _FLOOR
    return _INF_BYTE if isinf(amax) else max(_FLOOR, scale_byte(amax, "e4m3", rule="rceil"))


_SIZES = (1.0, 1.75, 1.7578125, 448.0, 450.0, 0.0, 2.0**-133, 1e-32, 2.0**-99, 3.3e38, inf, nan)

EXERCISES = (
    Exercise(
        name="8.1",
        asks="A cache has 4 KV heads, head dimension 128 and pages of 128. At which byte of the "
        "scale buffer of K lies the scale of slot 333, head 1, block 2?",
        spec=lambda: _offset(333, 1, 2, 4, 128),
        hint="333 = 2 * 128 + 77: page 2, row 77. The tile is number 2 * 4 + 1. Inside it, rows "
        "are ordered as in tile_128x4.",
        mistakes=(
            Mistake(
                spec=lambda: _flat(333, 1, 2, 4, 128),
                says="That is token after token. A page keeps one tile for each head.",
            ),
            Mistake(
                spec=lambda: 9 * 512 + 77 * 4 + 2,
                says="Right tile, but its rows are not in order: row 77 is in line 77 % 32.",
            ),
            Mistake(
                spec=lambda: _offset(333, 0, 2, 4, 128) + 3 * 512,
                says="Tiles of one page lie together, head after head.",
            ),
        ),
    ),
    Exercise(
        name="8.2",
        asks="Write scale_offset(slot, head, block, kv_heads, page_size) for a head dimension of "
        "128.",
        spec=_offset,
        cases=_places,
        hint="tile = (slot // page_size) * kv_heads + head, of page_size * 4 bytes. In it, row p: "
        "(p % 32) * (page_size // 32 * 4) + p // 32 * 4 + block.",
        mistakes=(
            Mistake(spec=_flat, says="That is token after token, not page after page."),
            Mistake(spec=_always_128, says="A page may have 32 or 64 tokens: its tile is smaller."),
            Mistake(spec=_headless, says="Every head has a tile of its own in a page."),
        ),
    ),
    Exercise(
        name="8.3",
        asks="Write byte(amax): the scale byte that SGLang's attention prologue gives a block of "
        "bfloat16 values with that largest magnitude (NaN counts as 0).",
        spec=_byte,
        cases=lambda: ((amax,) for amax in _SIZES),
        hint="The rule is RCEIL with a lower limit of 19; infinity is 254, and NaN is passed over. "
        "mxlab.scale_byte(amax, 'e4m3', rule='rceil') gives the finite ones.",
        mistakes=(
            Mistake(
                spec=lambda amax: scale_byte(amax, "e4m3", rule="rceil"),
                says="That is mxlab's own policy: bytes below 19, and 255 for NaN and infinity.",
            ),
            Mistake(
                spec=lambda amax: 255 if isnan(amax) or isinf(amax) else _byte(amax),
                says="The prologue never writes 255.",
            ),
            Mistake(
                spec=lambda amax: (
                    _byte(amax)
                    if not 0 < amax < inf
                    else max(_FLOOR, scale_byte(amax, "e4m3", rule="floor"))
                ),
                says="That is FLOOR: 1.7578125 needs one more than 1.75.",
            ),
        ),
    ),
    Exercise(
        name="8.4",
        asks="A model has 32 layers, 8 KV heads and head dimension 128. How many bytes of MXFP8 "
        "cache, K and V with scales, does one token take on each of 8 TP ranks?",
        spec=lambda: 32 * 2 * KVShape(slots=128, kv_heads=1).bytes_per_token,
        hint="One KV head a rank: 128 codes and 4 scale bytes for K, the same for V, in 32 layers.",
        mistakes=(
            Mistake(spec=lambda: 32 * 2 * 8 * 132, says="A rank has one of the 8 KV heads."),
            Mistake(spec=lambda: 32 * 132, says="K and V."),
            Mistake(spec=lambda: 32 * 2 * 128, says="And the scales: one for 32 codes."),
        ),
    ),
)
