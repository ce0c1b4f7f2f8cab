"""A matrix quantised with its blocks along rows and along columns, in plain Python."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, repeat
from math import fsum
from operator import mul, ne, sub, truediv

from mxlab.block import BLOCK
from mxlab.explorers.blocks import bell, quick_blocks
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
    ``shares`` are |error| / |value| of these two, value by value, 0 where the value is 0.
    """

    values: Matrix
    rows: Answer
    columns: Answer
    errors: tuple[float, float, float]
    flushed: tuple[int, int, int]
    codes: int
    parted: int
    farthest: tuple[int, int]
    shares: tuple[Matrix, Matrix]

    def tile_errors(self, top: int, left: int, size: int) -> tuple[float, float]:
        """Return the mean of |error| / |value| by rows and by columns in one square."""
        rows, span = slice(top, top + size), slice(left, left + size)
        zeros = sum(line[span].count(0.0) for line in self.values[rows])
        one, other = ([line[span] for line in part[rows]] for part in self.shares)
        return _mean(one, zeros), _mean(other, zeros)


def _by_rows(lines: Sequence[Sequence[float]], fmt: str, rule: str) -> Answer:
    bytes_, held, decoded = [], [], []
    for line in lines:
        mine, elements = quick_blocks(line, ELEMENT_FORMATS[fmt], RULES[rule])
        scales = chain.from_iterable(repeat(scale_value(byte), BLOCK) for byte in mine)
        bytes_.append(mine)
        held.append(elements)
        decoded.append(list(map(mul, elements, scales)))
    return Answer(bytes_, held, decoded)


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
    pairs = list(zip(first.decoded, second.decoded, strict=True))
    apart = [gap for one, other in pairs for gap in map(abs, map(sub, one, other))]
    zeros = sum(line.count(0.0) for line in values)
    lost = [_shares(values, part) for part in (first.decoded, second.decoded, again)]
    by_rows, by_columns, twice = (_mean(part, zeros) for part in lost)
    gone = [_zeros(part) - zeros for part in (first.decoded, second.decoded, again)]
    return Both(
        values,
        first,
        second,
        (by_rows, by_columns, twice),
        (gone[0], gone[1], gone[2]),
        sum(sum(map(ne, *lines)) for lines in zip(first.elements, second.elements, strict=True)),
        len(apart) - apart.count(0.0),
        divmod(apart.index(max(apart)), columns),
        (lost[0], lost[1]),
    )


def _zeros(decoded: Matrix) -> int:
    return sum(line.count(0.0) for line in decoded)


def _shares(values: Matrix, decoded: Matrix) -> Matrix:
    made = []
    for given, back in zip(values, decoded, strict=True):
        if 0.0 in given:
            made.append([a and abs(b - a) / abs(a) for a, b in zip(given, back, strict=True)])
        else:
            made.append(list(map(truediv, map(abs, map(sub, back, given)), map(abs, given))))
    return made


def _mean(shares: Matrix, zeros: int) -> float:
    """Return the mean over the values that are not 0.

    Each value counts alike: in a sum of squares the outliers would drown all others.
    """
    count = len(shares) * len(shares[0]) - zeros
    total = fsum(chain.from_iterable(shares))  # the same in every Python
    return total / count if count else 0.0
