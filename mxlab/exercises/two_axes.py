"""Exercises of chapter 4: two axes, two answers."""

from collections.abc import Iterator
from random import Random

from mxlab.block import BLOCK
from mxlab.exercises.checker import Exercise, Mistake
from mxlab.scale import scale_byte

Matrix = list[list[float]]


def _down(matrix: Matrix) -> list[list[int]]:
    starts = range(0, len(matrix), BLOCK)
    return [
        [
            scale_byte(max(abs(row[c]) for row in matrix[start : start + BLOCK]), "e4m3")
            for c in range(len(matrix[0]))
        ]
        for start in starts
    ]


def _along(matrix: Matrix) -> list[list[int]]:
    turned = [list(column) for column in zip(*matrix, strict=True)]
    return [list(row) for row in zip(*_down(turned), strict=True)]


def _matrices() -> Iterator[tuple[Matrix]]:
    random = Random(4)
    for rows, columns in ((32, 1), (32, 32), (64, 32), (96, 3), (32, 64)):
        yield (
            [
                [random.gauss(0, 1) * 2.0 ** random.randint(-9, 9) for _ in range(columns)]
                for _ in range(rows)
            ],
        )


def _shape(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    return tuple(n // BLOCK if i == axis % len(shape) else n for i, n in enumerate(shape))


EXERCISES = (
    Exercise(
        name="4.1",
        asks="A linear has 4096 inputs and 11008 outputs, and 1000 tokens arrive. Which of the "
        "three products can be MXFP8 as they are: forward, input gradient, weight gradient?",
        spec=lambda: tuple(k % BLOCK == 0 for k in (4096, 11008, 1000)),
        hint="The summed axis is the inputs, the outputs, the tokens, in that order. Each must be "
        "a multiple of 32.",
        mistakes=(
            Mistake(
                spec=lambda: (True, False, True),
                says="11008 = 344 * 32. Which of the three axes is no multiple?",
            ),
            Mistake(
                spec=lambda: (False, True, True),
                says="Tokens are not summed in the forward product: every token has its own row.",
            ),
        ),
    ),
    Exercise(
        name="4.2",
        asks="Write scale_shape(shape, axis): the shape of the scales of an array of that shape, "
        "quantised along that axis (which may count from the end).",
        spec=_shape,
        cases=lambda: (
            *(((64, 96), 1), ((64, 96), 0), ((64, 96), -1), ((64, 96), -2), ((32,), 0)),
            *(((8, 64, 128), 1), ((8, 64, 128), -1), ((64, 2, 3), 0), ((64, 64), 0)),
        ),
        hint="Only the size of the quantised axis changes: it is divided by 32. A negative axis "
        "counts from the end: axis % len(shape).",
        mistakes=(
            Mistake(
                spec=lambda shape, axis: _shape(shape, -1),
                says="That divides the last axis, whatever axis says.",
            ),
            Mistake(
                spec=lambda shape, axis: tuple(n // BLOCK for n in shape),
                says="Blocks have one direction: only one axis is divided.",
            ),
        ),
    ),
    Exercise(
        name="4.3",
        asks="Write column_bytes(matrix): the E8M0 scale bytes (E4M3, RCEIL) of a list of rows, "
        "with blocks of 32 down the columns. One row of bytes for each 32 rows.",
        spec=_down,
        cases=_matrices,
        hint="For every 32 rows and every column, take the largest magnitude of those 32 values, "
        "and give it to mxlab.scale_byte.",
        mistakes=(
            Mistake(spec=_along, says="Those blocks go along the rows: axis 1, not axis 0."),
            Mistake(
                spec=lambda matrix: [list(row) for row in zip(*_down(matrix), strict=True)],
                says="Right bytes, but turned: one row of bytes for each 32 rows.",
            ),
            Mistake(
                spec=lambda matrix: [
                    [scale_byte(max(0.0, *column), "e4m3") for column in zip(*part, strict=True)]
                    for part in (matrix[s : s + BLOCK] for s in range(0, len(matrix), BLOCK))
                ],
                says="The largest magnitude counts, not the largest value: negative ones too.",
            ),
        ),
    ),
    Exercise(
        name="4.4",
        asks="A weight of 8192 x 8192 is kept twice, quantised along each axis. How many bytes is "
        "that, codes and scales?",
        spec=lambda: 2 * (8192 * 8192 + 8192 * 8192 // BLOCK),
        hint="Each copy has a byte for every value and a scale for every 32.",
        mistakes=(
            Mistake(
                spec=lambda: 8192 * 8192 + 8192 * 8192 // BLOCK,
                says="That is one copy. The codes differ too, not only the scales.",
            ),
            Mistake(
                spec=lambda: 8192 * 8192 + 2 * 8192 * 8192 // BLOCK,
                says="The codes differ too: a copy cannot share them.",
            ),
        ),
    ),
)
