"""A small MXFP8 product whose weight scales are read in one layout or another, in plain Python."""

from dataclasses import dataclass
from functools import lru_cache
from math import fsum, ldexp, sqrt
from operator import mul
from random import Random

from mxlab.block import BLOCK
from mxlab.codec import encode
from mxlab.explorers.blocks import bell, quick_block
from mxlab.formats import E4M3
from mxlab.layout import ScaleLayout
from mxlab.scale import RULES, scale_value

TOKENS = 4
_RULE = RULES["rceil"]
_SAME = 120
#: what became of a scale
OWN, EQUAL, WRONG, BEYOND = range(4)


@dataclass(frozen=True, slots=True)
class _Block:
    """A block of the weight: its byte, its elements, and their product with each token."""

    byte: int
    elements: tuple[float, ...]
    products: tuple[float, ...]


@lru_cache(maxsize=TOKENS)
def _token(m: int, blocks: int) -> list[float]:
    """Return one token's activations, quantised and decoded, of ``blocks`` blocks."""
    values = bell(9_000 + m, blocks * BLOCK)
    decoded: list[float] = []
    for start in range(0, len(values), BLOCK):
        byte, elements = quick_block(values[start : start + BLOCK], E4M3, _RULE)
        decoded += [element * scale_value(byte) for element in elements]
    return decoded


@lru_cache(maxsize=512)  # one more output costs one more row
def _row(n: int, blocks: int) -> tuple[_Block, ...]:
    values, tokens = bell(n, blocks * BLOCK), activations(blocks)
    made = []
    for start in range(0, len(values), BLOCK):
        byte, elements = quick_block(values[start : start + BLOCK], E4M3, _RULE)
        end = start + BLOCK  # a sum of 32 products takes 41 bits: exact in any order
        products = tuple(sum(map(mul, elements, token[start:end])) for token in tokens)
        made.append(_Block(byte, tuple(elements), products))
    return tuple(made)


def activations(blocks: int) -> list[list[float]]:
    """Return the tokens (4, K), quantised and decoded.

    >>> len(activations(2)), len(activations(2)[0])
    (4, 64)
    """
    return [_token(m, blocks) for m in range(TOKENS)]


def codes(n: int, blocks: int) -> list[list[int]]:
    """Return the E4M3 codes (N, K) of the weight.

    >>> len(codes(3, 1)), len(codes(3, 1)[0])
    (3, 32)
    """
    code = {value: encode(value, E4M3).code for row in range(n) for block in _row(row, blocks)
            for value in block.elements}  # fmt: skip
    return [[code[v] for block in _row(row, blocks) for v in block.elements] for row in range(n)]


def scales(pattern: str, spread: int, n: int, blocks: int) -> list[list[int]]:
    """Return the scale bytes (N, K / 32) of the weight.

    ``pattern``: ``same`` for all, ``natural`` as the quantiser chose, or these moved by
    ``rows``, ``columns`` or ``blocks``, ``spread`` binades from the least to the most.

    >>> scales("same", 4, 2, 3)
    [[120, 120, 120], [120, 120, 120]]
    """
    if pattern == "same":
        return [[_SAME] * blocks for _ in range(n)]
    natural = [[block.byte for block in _row(row, blocks)] for row in range(n)]
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
    for r, row in enumerate(right):
        for c, byte in enumerate(row):
            buffer[found.at(r, c, rows, cols)] = byte
    return buffer


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
    for r, row in enumerate(right):
        got: list[int | None] = []
        fate = []
        for c, byte in enumerate(row):
            at = read_as.at(r, c, n, blocks)
            found = buffer[at] if at < len(buffer) else None
            got.append(found)
            if found is None:
                fate.append(BEYOND)
            elif found != byte:
                fate.append(WRONG)
            else:
                fate.append(OWN if at == actual.at(r, c, n, blocks) else EQUAL)
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
    row = _row(n, blocks)
    powers = [ldexp(1.0, byte - 127) for byte in bytes_]
    return [fsum(block.products[m] * power for block, power in zip(row, powers, strict=True))
            for m in range(TOKENS)]  # fmt: skip
