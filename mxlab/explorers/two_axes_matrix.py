"""A matrix quantised with its blocks along rows and along columns, in plain Python."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import fsum

from mxlab.block import BLOCK
from mxlab.explorers.blocks import bell, quick_block
from mxlab.formats import ELEMENT_FORMATS
from mxlab.scale import RULES, scale_value

Matrix = list[list[float]]


def matrix(pattern: str, rows: int, columns: int, seed: int, strength: int, at: int) -> Matrix:
    """Return the explorer's matrix: rows of exact float32 values.

    >>> [max(map(abs, row)) > 100 for row in matrix("outlier-row", 3, 32, 1, 8, 1)]
    [False, True, False]
    """
    flat = bell(seed, rows * columns)
    lines = [flat[start : start + columns] for start in range(0, len(flat), columns)]
    row, column, factor = min(at, rows - 1), min(at, columns - 1), 2.0**strength
    match pattern:
        case "outlier-column":
            for line in lines:
                line[column] *= factor
        case "outlier-row":
            lines[row] = [value * factor for value in lines[row]]
        case "outlier":
            lines[row][column] = 4 * factor
        case "column-scales":
            factors = [2.0 ** (c * 7 % (strength + 1)) for c in range(columns)]
            lines = [[v * f for v, f in zip(line, factors, strict=True)] for line in lines]
        case "row-scales":
            powers = [2.0 ** (r * 7 % (strength + 1)) for r in range(rows)]
            lines = [[v * power for v in line] for line, power in zip(lines, powers, strict=True)]
        case "ones":
            lines = [[1.0] * columns for _ in lines]
    return lines


@dataclass(frozen=True, slots=True)
class Answer:
    """Scale bytes, a list for each line of blocks; row by row the elements and what they say."""

    bytes: list[list[int]]
    elements: Matrix
    decoded: Matrix


@dataclass(frozen=True, slots=True)
class Both:
    """The matrix by rows, by columns, and by columns of what the rows gave; how they differ.

    ``errors`` and ``flushed`` are of these three; ``codes`` and ``parted`` count the elements and
    the decoded values that differ between the first two, ``farthest`` is where they do most.
    """

    values: Matrix
    rows: Answer
    columns: Answer
    errors: tuple[float, float, float]
    flushed: tuple[int, int, int]
    codes: int
    parted: int
    farthest: tuple[int, int]


def _by_rows(lines: Sequence[Sequence[float]], fmt: str, rule: str) -> Answer:
    bytes_, codes, decoded = [], [], []
    for line in lines:
        mine: list[int] = []
        held: list[float] = []
        back: list[float] = []
        for start in range(0, len(line), BLOCK):
            byte, elements = quick_block(
                line[start : start + BLOCK], ELEMENT_FORMATS[fmt], RULES[rule]
            )
            scale = scale_value(byte)
            mine.append(byte)
            held += elements
            back += [element * scale for element in elements]
        bytes_.append(mine)
        codes.append(held)
        decoded.append(back)
    return Answer(bytes_, codes, decoded)


def _by_columns(lines: Matrix, fmt: str, rule: str) -> Answer:
    """Return the answer along columns; its bytes are a list for each column."""
    turned = _by_rows(list(zip(*lines, strict=True)), fmt, rule)
    elements, decoded = (
        [list(row) for row in zip(*part, strict=True)] for part in (turned.elements, turned.decoded)
    )
    return Answer(turned.bytes, elements, decoded)


@lru_cache(maxsize=8)  # moving the tile quantises nothing
def both(
    pattern: str, rows: int, columns: int, seed: int, strength: int, at: int, fmt: str, rule: str
) -> Both:
    """Return both answers for the explorer's matrix; ``fmt`` and ``rule`` are names."""
    values = matrix(pattern, rows, columns, seed, strength, at)
    first, second = _by_rows(values, fmt, rule), _by_columns(values, fmt, rule)
    again = _by_columns(first.decoded, fmt, rule).decoded
    apart = [
        abs(a - b)
        for one, other in zip(first.decoded, second.decoded, strict=True)
        for a, b in zip(one, other, strict=True)
    ]
    return Both(
        values,
        first,
        second,
        (error(values, first.decoded), error(values, second.decoded), error(values, again)),
        (_zeros(values, first.decoded), _zeros(values, second.decoded), _zeros(values, again)),
        sum(
            a != b
            for one, other in zip(first.elements, second.elements, strict=True)
            for a, b in zip(one, other, strict=True)
        ),
        len(apart) - apart.count(0.0),
        divmod(apart.index(max(apart)), columns),
    )


def _zeros(values: Matrix, decoded: Matrix) -> int:
    """Return how many values became 0; those that were 0 stay so."""
    return sum(line.count(0.0) for line in decoded) - sum(line.count(0.0) for line in values)


def error(values: Matrix, decoded: Matrix, top: int = 0, left: int = 0, size: int = 0) -> float:
    """Return the mean of |error| / |value| over the values that are not 0, of all or one square.

    Each value counts alike: in a sum of squares the outliers would drown all others.
    """
    ends = (top + size, left + size) if size else (len(values), len(values[0]))
    shares = [
        abs(b - a) / abs(a)
        for given, back in zip(values[top : ends[0]], decoded[top : ends[0]], strict=True)
        for a, b in zip(given[left : ends[1]], back[left : ends[1]], strict=True)
        if a
    ]
    return fsum(shares) / len(shares) if shares else 0.0  # fsum: the same in every Python
