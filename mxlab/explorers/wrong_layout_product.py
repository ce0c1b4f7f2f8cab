"""A small MXFP8 product whose weight scales are read in one layout or another, in plain Python."""

from dataclasses import dataclass
from functools import lru_cache
from math import fsum, sqrt
from operator import mul
from random import Random

from mxlab.block import BLOCK
from mxlab.codec import encode
from mxlab.explorers.blocks import bell, quick_blocks
from mxlab.formats import E4M3
from mxlab.layout import ScaleLayout
from mxlab.scale import RULES, scale_value

TOKENS = 4
_RULE = RULES["rceil"]
_SAME = 120
#: what became of a scale
OWN, EQUAL, WRONG, BEYOND = range(4)


@dataclass(frozen=True, slots=True)
class _Row:
    """A row of numbers, quantised, as long as it was needed so far; ``more`` are those to come.

    ``products`` are, for each block of 32, those of its elements with each token.
    """

    more: Random
    bytes: list[int]
    elements: list[float]
    products: list[tuple[float, ...]]


@lru_cache(maxsize=TOKENS)
def _token(m: int) -> tuple[_Row, list[float]]:
    """Return one token's activations, and the list of what they say."""
    return _Row(Random(9_000 + m), [], [], []), []


@lru_cache(maxsize=256)  # of the most outputs; one more costs one more row
def _weight(n: int) -> _Row:
    return _Row(Random(n), [], [], [])


def _grow(row: _Row, blocks: int) -> None:
    """Make a row at least as long as asked for."""
    held = len(row.bytes)
    if held >= blocks:
        return
    try:
        bytes_, elements = quick_blocks(bell(row.more, (blocks - held) * BLOCK), E4M3, _RULE)
        row.bytes.extend(bytes_)
        row.elements.extend(elements)
    except BaseException:  # interrupted: what comes next in the row would be something else
        _token.cache_clear()
        _weight.cache_clear()
        raise


def activations(blocks: int) -> list[list[float]]:
    """Return the tokens (4, K), quantised and decoded.

    >>> len(activations(2)), len(activations(2)[0])
    (4, 64)
    """
    made = []
    for m in range(TOKENS):
        row, decoded = _token(m)
        _grow(row, blocks)
        for b in range(len(decoded) // BLOCK, blocks):
            scale = scale_value(row.bytes[b])
            decoded += [element * scale for element in row.elements[b * BLOCK : (b + 1) * BLOCK]]
        made.append(decoded[: blocks * BLOCK])
    return made


def _row(n: int, blocks: int) -> _Row:
    """Return a row of the weight of at least ``blocks`` blocks."""
    row = _weight(n)
    _grow(row, blocks)
    held = len(row.products)
    if held < blocks:
        tokens = activations(blocks)
        for start in range(held * BLOCK, blocks * BLOCK, BLOCK):
            part = row.elements[start : start + BLOCK]
            row.products.append(  # a sum of 32 products takes 41 bits: exact in any order
                tuple(sum(map(mul, part, token[start : start + BLOCK])) for token in tokens)
            )
    return row


def codes(n: int, blocks: int) -> list[list[int]]:
    """Return the E4M3 codes (N, K) of the weight.

    >>> len(codes(3, 1)), len(codes(3, 1)[0])
    (3, 32)
    """
    rows = [_row(row, blocks).elements[: blocks * BLOCK] for row in range(n)]
    code = {value: encode(value, E4M3).code for row in rows for value in row}
    return [[code[value] for value in row] for row in rows]


def scales(pattern: str, spread: int, n: int, blocks: int) -> list[list[int]]:
    """Return the scale bytes (N, K / 32) of the weight.

    ``pattern``: ``same`` for all, ``natural`` as the quantiser chose, or these moved by
    ``rows``, ``columns`` or ``blocks``, ``spread`` binades from the least to the most.

    >>> scales("same", 4, 2, 3)
    [[120, 120, 120], [120, 120, 120]]
    """
    if pattern == "same":
        return [[_SAME] * blocks for _ in range(n)]
    natural = [_row(row, blocks).bytes[:blocks] for row in range(n)]
    if pattern == "natural":
        return natural
    step = {"rows": (1, 0), "columns": (0, 1), "blocks": (blocks, 1)}[pattern]
    chance = Random(5)
    many = step[0] * (n - 1) + step[1] * (blocks - 1) + 1
    order = sorted(range(many), key=lambda _: chance.random())
    moves = [place * spread // max(many - 1, 1) - spread // 2 for place in order]
    return [
        [byte + moves[r * step[0] + c * step[1]] for c, byte in enumerate(row)]
        for r, row in enumerate(natural)
    ]


def stored(right: list[list[int]], found: ScaleLayout) -> list[int]:
    """Return the buffer of the scales in a layout; padding is 0.

    >>> from mxlab.layout import layout
    >>> stored([[1, 2], [3, 4]], layout("te_columnwise"))[:20]
    [1, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 4, 0, 0]
    """
    rows, cols = len(right), len(right[0])
    buffer = [0] * found.nbytes(rows, cols)
    for row, places in zip(right, _offsets(found, rows, cols), strict=True):
        for byte, at in zip(row, places, strict=True):
            buffer[at] = byte
    return buffer


def _offsets(found: ScaleLayout, rows: int, cols: int) -> list[list[int]]:
    """Return where each scale lies: what the row adds and what the column adds."""
    across = [found.at(0, c, rows, cols) for c in range(cols)]
    down = [found.at(r, 0, rows, cols) for r in range(rows)]
    return [[start + step for step in across] for start in down]


@dataclass(frozen=True, slots=True)
class Misread:
    """What a reader in another layout gets.

    ``read`` are its bytes (None past the end), ``fates`` what became of each scale, ``errors``
    each output's relative error over the tokens (None where it reads past the end). ``product`` is
    the relative error of all outputs that are known, None where none is.
    """

    right: list[list[int]]
    nbytes: int
    needed: int
    read: list[list[int | None]]
    fates: list[list[int]]
    errors: list[float | None]
    product: float | None

    def count(self, fate: int) -> int:
        """Return how many scales have this fate."""
        return sum(row.count(fate) for row in self.fates)


@lru_cache(maxsize=8)  # moving the rows that are shown multiplies nothing
def misread(
    pattern: str, spread: int, n: int, blocks: int, actual: ScaleLayout, read_as: ScaleLayout
) -> Misread:
    """Return what becomes of the product where a buffer in ``actual`` is read as ``read_as``."""
    right = scales(pattern, spread, n, blocks)
    buffer = stored(right, actual)
    read: list[list[int | None]] = []
    fates = []
    places = zip(right, _offsets(read_as, n, blocks), _offsets(actual, n, blocks), strict=True)
    for row, ours, theirs in places:
        got: list[int | None] = []
        fate = []
        for byte, at, own in zip(row, ours, theirs, strict=True):
            found = buffer[at] if at < len(buffer) else None
            got.append(found)
            if found is None:
                fate.append(BEYOND)
            elif found != byte:
                fate.append(WRONG)
            else:
                fate.append(OWN if at == own else EQUAL)
        read.append(got)
        fates.append(fate)
    errors, product = _errors(right, read, fates, blocks)
    return Misread(right, len(buffer), read_as.nbytes(n, blocks), read, fates, errors, product)


def _errors(
    right: list[list[int]], read: list[list[int | None]], fates: list[list[int]], blocks: int
) -> tuple[list[float | None], float | None]:
    errors: list[float | None] = []
    lost, kept = [], []
    for r, (true, got, fate) in enumerate(zip(right, read, fates, strict=True)):
        if BEYOND in fate:
            errors.append(None)
            continue
        wanted = _outputs(r, blocks, true)
        signal = fsum(map(mul, wanted, wanted))
        if WRONG in fate:
            bytes_ = [byte for byte in got if byte is not None]
            apart = [a - b for a, b in zip(_outputs(r, blocks, bytes_), wanted, strict=True)]
            noise = fsum(map(mul, apart, apart))
        else:
            noise = 0.0
        lost.append(noise)
        kept.append(signal)
        errors.append(sqrt(noise / signal) if signal else 0.0)
    total = fsum(kept)
    return errors, sqrt(fsum(lost) / total) if total else None


def _outputs(n: int, blocks: int, bytes_: list[int]) -> list[float]:
    """Return one output for each token: the blocks' products, each times its scale."""
    powers = [2.0 ** (byte - 127) for byte in bytes_]
    return [fsum(map(mul, products, powers))
            for products in zip(*_row(n, blocks).products[:blocks], strict=True)]  # fmt: skip
