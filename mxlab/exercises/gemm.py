"""Exercises of chapter 6: a GEMM from blocks."""

from collections.abc import Iterator, Sequence
from math import ldexp
from random import Random

from mxlab.block import BLOCK, dequantize_block
from mxlab.codec import decode
from mxlab.exercises.checker import Exercise, Mistake
from mxlab.formats import E4M3

Codes = Sequence[int]
Cells = Sequence[tuple[int, int]]


def _product(a: Codes, a_byte: int, b: Codes, b_byte: int) -> float:
    left, right = dequantize_block(a_byte, a), dequantize_block(b_byte, b)
    return sum(x * y for x, y in zip(left, right, strict=True))


def _inner(a: Codes, b: Codes) -> float:
    return sum(decode(x, E4M3).value * decode(y, E4M3).value for x, y in zip(a, b, strict=True))


def _blocks() -> Iterator[tuple[list[int], int, list[int], int]]:
    random = Random(6)
    codes = [code for code in range(256) if code & 0x7F != 0x7F]
    for a_byte, b_byte in (
        (127, 127),
        (120, 131),
        (130, 124),
        (0, 134),
        (0, 0),
        (254, 1),
        (255, 9),
    ):
        yield random.choices(codes, k=BLOCK), a_byte, random.choices(codes, k=BLOCK), b_byte


def _blame(changed: Cells, row: int, rows: int, columns: int) -> str:
    hit_rows, hit_columns = {row for row, _ in changed}, {column for _, column in changed}
    if len(hit_rows) == 1 and len(hit_columns) == columns:
        return "right" if row in hit_rows else "layout"
    if len(hit_columns) == 1 and len(hit_rows) == rows:
        return "swapped"
    return "other"


def _changes() -> Iterator[tuple[list[tuple[int, int]], int, int, int]]:
    for rows, columns in ((4, 3), (3, 4), (2, 2)):
        for line in (0, 1):
            for row in (0, 1):
                yield [(line, c) for c in range(columns)], row, rows, columns
                yield [(r, line) for r in range(rows)], row, rows, columns
        yield [(r, c) for r in range(rows) for c in range(columns)], 1, rows, columns
        yield [], 1, rows, columns
    yield [(0, 0), (0, 1), (0, 2), (3, 0), (3, 1), (3, 2)], 0, 4, 3
    yield [(0, 0), (1, 1), (2, 2)], 0, 4, 3


_INSTRUCTIONS = (
    "tcgen05.mma.cta_group::1.kind::mxf8f6f4.block_scale.block32",
    "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16",
    "mma.sync.aligned.m16n8k32.row.col.kind::mxf8f6f4.block_scale.scale_vec::1X.f32.e4m3.e4m3.f32.ue8m0",
    "tcgen05.mma.cta_group::1.kind::f8f6f4",
    "wgmma.mma_async.sync.aligned.m64n16k32.f32.e4m3.e4m3",
    "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32",
)

EXERCISES = (
    Exercise(
        name="6.1",
        asks="Write block_product(a_codes, a_byte, b_codes, b_byte): the product of two blocks of "
        "32 E4M3 codes with their E8M0 scale bytes. mxlab.decode(code, 'e4m3').value decodes one.",
        spec=_product,
        cases=_blocks,
        hint="Sum the 32 products of the decoded codes, then multiply by 2^(a_byte - 127) and "
        "2^(b_byte - 127). Byte 0 is 2^-127; byte 255 is NaN.",
        mistakes=(
            Mistake(
                spec=lambda a, a_byte, b, b_byte: _inner(a, b) * ldexp(1.0, a_byte + b_byte - 127),
                says="Both bytes have a bias: 127 must be taken off twice.",
            ),
            Mistake(
                spec=lambda a, a_byte, b, b_byte: (
                    _inner(a, b) * ldexp(1.0, a_byte - 127) * ldexp(1.0, b_byte - 127)
                ),
                says="Byte 255 is NaN, not 2^128.",
            ),
            Mistake(
                spec=lambda a, a_byte, b, b_byte: _product(a, a_byte, b, b_byte) if a_byte else 0.0,
                says="Byte 0 is 2^-127, not 0.",
            ),
            Mistake(
                spec=lambda a, a_byte, b, b_byte: float(
                    sum(x * y for x, y in zip(a, b, strict=True))
                ),
                says="Codes are not numbers yet: decode them first.",
            ),
        ),
    ),
    Exercise(
        name="6.2",
        asks="All 32 products of a block are as large as they can be. How large is their sum, "
        "before the scales?",
        spec=lambda: BLOCK * E4M3.max_value**2,
        hint="The largest E4M3 number is 448. Both factors can be that, 32 times.",
        mistakes=(
            Mistake(spec=lambda: 448**2, says="That is one product; there are 32."),
            Mistake(spec=lambda: BLOCK * 448, says="Both factors are 448."),
            Mistake(spec=lambda: BLOCK * 127**2, says="127 is a code. What number is the largest?"),
        ),
    ),
    Exercise(
        name="6.3",
        asks="One scale byte of the left operand was changed, of its row number row. Write "
        "blame(changed, row, rows, columns): given the cells of the (rows x columns) product that "
        "changed, return 'right' where they are that whole row, 'layout' where they are one other "
        "whole row, 'swapped' where they are one whole column, and 'other' otherwise.",
        spec=_blame,
        cases=_changes,
        hint="Collect the set of rows and the set of columns, and look at their sizes. Of one "
        "whole row, ask which row it is.",
        mistakes=(
            Mistake(
                spec=lambda changed, row, rows, columns: {
                    "right": "swapped",
                    "swapped": "right",
                }.get(found := _blame(changed, row, rows, columns), found),
                says="The left operand's rows are the rows of the product.",
            ),
            Mistake(
                spec=lambda changed, row, rows, columns: (
                    "right" if (found := _blame(changed, row, rows, columns)) == "layout" else found
                ),
                says="A wrong layout changes one whole row too: which row is it?",
            ),
            Mistake(
                spec=lambda changed, row, rows, columns: (
                    "right"
                    if len(changed) == columns
                    else "swapped"
                    if len(changed) == rows
                    else "other"
                ),
                says="Counting cells is not enough: where are they?",
            ),
        ),
    ),
    Exercise(
        name="6.4",
        asks="Write native(instruction): does this PTX instruction apply the scales of MXFP8 "
        "itself?",
        spec=lambda instruction: "block_scale" in instruction,
        cases=lambda: ((text,) for text in _INSTRUCTIONS),
        hint="E4M3 operands are not enough. The instruction must take scales: look for the word.",
        mistakes=(
            Mistake(
                spec=lambda instruction: "e4m3" in instruction or "f8" in instruction,
                says="FP8 products are not scaled products: Hopper has those too.",
            ),
            Mistake(
                spec=lambda instruction: instruction.startswith("tcgen05"),
                says="A tcgen05 instruction may be without scales, and others have them.",
            ),
        ),
    ),
)
