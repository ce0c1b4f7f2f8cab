"""Decode attention over a paged cache: online softmax over a share of the tokens, then a merge.

One program reads one KV head of some tokens of one sequence, for all query heads of that KV head.
MXFP8 and bfloat16 caches go through the same kernel; MXFP8 is widened after its load, and codes
times powers of two are exact in bfloat16. Tokens are the rows of both products, as the matrix unit
wants 64 of them, and query heads the columns, of which there are few.
"""

import triton.language as tl

from mxlab.kernels.e4m3 import add, bf16_to_f32, decode_e4m3, larger
from mxlab.kernels.mode import HARDWARE, jit
from mxlab.kernels.scales import power_of_two


@jit
def _operand(x):  # type: ignore[no-untyped-def]
    """An operand of a product: bfloat16; float32 in the interpreter, whose bf16 products err."""
    if HARDWARE:
        return x.to(tl.bfloat16)
    else:
        return x


@jit
def _tile(  # type: ignore[no-untyped-def]
    buf, sf, page, word, row, head, heads, stride8,
    ROWS: tl.constexpr, PAGE: tl.constexpr, DIM: tl.constexpr, MXFP8: tl.constexpr,
):  # fmt: skip
    """ROWS tokens of one head of one page, [ROWS, DIM]; ``word`` is the place of their scales."""
    at = ((page * PAGE + row) * stride8 * 8)[:, None] + (head * DIM + tl.arange(0, DIM))[None, :]
    if MXFP8:
        code = tl.load(buf + at)
        scale = tl.load(sf + (page * heads + head) * PAGE + word)
        byte = (scale[:, None] >> (8 * tl.arange(0, 4))[None, :]) & 0xFF
        power = _operand(power_of_two(byte))[:, :, None]
        value = tl.reshape(_operand(decode_e4m3(code)), (ROWS, 4, DIM // 4)) * power
        return tl.reshape(value, (ROWS, DIM))
    else:
        word = tl.load(buf + at)
        if HARDWARE:
            return word.to(tl.bfloat16, bitcast=True)
        else:
            return bf16_to_f32(word)


@jit
def split_kernel(  # type: ignore[no-untyped-def]
    q, k, v, sfk, sfv, table, lengths, partial, best, total, sm_scale, heads, table_stride, k8, v8,
    splits,
    GROUP: tl.constexpr, GROUP16: tl.constexpr, ROWS: tl.constexpr, PAGE: tl.constexpr,
    DIM: tl.constexpr, MXFP8: tl.constexpr,
):  # fmt: skip
    """A share of the tiles: the maximum, the sum of exponentials and the weighted sum of V."""
    split, head, s = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    length = tl.load(lengths + s)
    tiles = (length + PAGE - 1) // PAGE * (PAGE // ROWS)
    share = (tiles + splits - 1) // splits
    first, last = split * share, tl.minimum(split * share + share, tiles)
    member = tl.arange(0, GROUP16)
    own = member < GROUP
    row = (s * heads + head) * GROUP + member
    lane = tl.arange(0, DIM)
    word = tl.load(q + row[:, None] * DIM + lane[None, :], mask=own[:, None], other=0)
    query = _operand(bf16_to_f32(word))
    top = tl.full((GROUP16,), -1.0e38, tl.float32)
    weight = tl.full((ROWS, GROUP16), 0.0, tl.float32)
    out = tl.full((DIM, GROUP16), 0.0, tl.float32)
    for i in range(first, last):
        # tokens in the order of their scale words; those past the end repeat the last token
        page = tl.load(table + s * table_stride + i * ROWS // PAGE).to(tl.int64)
        begin = i * ROWS // PAGE * PAGE
        place = i * ROWS % PAGE + tl.arange(0, ROWS)
        at = place % (PAGE // 32) * 32 + place // (PAGE // 32)
        valid = begin + at < length
        at = tl.minimum(at, length - 1 - begin)
        if MXFP8:
            place = at % 32 * (PAGE // 32) + at // 32
        key = _tile(k, sfk, page, place, at, head, heads, k8, ROWS, PAGE, DIM, MXFP8)
        value = _tile(v, sfv, page, place, at, head, heads, v8, ROWS, PAGE, DIM, MXFP8)
        score = tl.dot(key, tl.trans(query)) * sm_scale
        score = tl.where(valid[:, None], score, -1.0e38)
        higher = tl.maximum(top, tl.reduce(score, 0, larger))
        scaled = tl.exp2(score - higher[None, :])
        shrink = tl.exp2(top - higher)
        weight = weight * shrink[None, :] + scaled
        out = tl.dot(tl.trans(value), _operand(scaled), out * shrink[None, :])
        top = higher
    at = row * splits + split
    tl.store(best + at, top, mask=own)
    tl.store(total + at, tl.reduce(weight, 0, add), mask=own)
    tl.store(partial + at[None, :] * DIM + lane[:, None], out, mask=own[None, :])


@jit
def merge_kernel(  # type: ignore[no-untyped-def]
    partial, best, total, out, splits, SPLITS: tl.constexpr, DIM: tl.constexpr
):
    """The shares of one query head as one: each weighted by its maximum."""
    row = tl.program_id(0).to(tl.int64)
    split = tl.arange(0, SPLITS)
    at = row * splits + split
    some = split < splits
    top = tl.load(best + at, mask=some, other=-1.0e38)
    weight = tl.exp2(top - tl.reduce(top, 0, larger))
    whole = tl.reduce(weight * tl.load(total + at, mask=some, other=0.0), 0, add)
    lane = tl.arange(0, DIM)
    part = tl.load(partial + at[:, None] * DIM + lane[None, :], mask=some[:, None], other=0.0)
    tl.store(out + row * DIM + lane, tl.reduce(part * weight[:, None], 0, add) / whole)
