"""The Triton puzzles: quantiser, swizzle and scaled product. Cases are torch's tensors."""

from collections.abc import Iterator
from math import ceil, inf, isinf, isnan, nan
from typing import Any

from mxlab.block import BLOCK, dequantize_block, quantize_block
from mxlab.exercises.checker import Exercise, Mistake
from mxlab.layout import layout
from mxlab.scale import scale_byte

_TILE = layout("tile_128x4")
_NEEDS = ("torch", "Triton")
Rows = list[list[Any]]


def _float32() -> tuple[Any, float]:
    import numpy as np

    return np.float32, float(np.finfo(np.float32).eps)


# ---- p.1: the scale byte of each row of 32


def _tops() -> list[float]:
    _, step = _float32()
    near = [
        1.75 * 2.0**k * (1 + side * step / 1.75) for k in (-40, 0, 8, 30) for side in (-1, 0, 1)
    ]
    return [*near, 1.0, 0.0, 2.0**-149, 2.0**-126, 448.0, 449.0, 3.4e38, -5.0, inf, nan]


def _rows_of_32() -> Iterator[tuple[Any]]:
    import torch

    values = torch.zeros(len(_tops()), BLOCK)
    for i, top in enumerate(_tops()):
        values[i] = torch.linspace(-0.4, 0.4, BLOCK) * (top if abs(top) < inf else 1.0)
        values[i, i % BLOCK] = top
    yield (values,)
    yield (values[:3].clone(),)
    yield (values.flip(0).contiguous(),)
    yield (torch.eye(BLOCK),)


def _top_bytes(x: Any, rule: str = "rceil") -> list[int]:
    return [quantize_block(row, "e4m3", rule=rule).scale_byte for row in x.tolist()]


def _by_log2(x: Any) -> list[int]:
    """float32 log2, as it is often written."""
    import numpy as np

    out = []
    for row in x.tolist():
        top = np.float32(np.abs(np.array(row, np.float32)).max())
        with np.errstate(all="ignore"):
            power = float(np.log2(top / np.float32(448)))
        special = isnan(power) or isinf(power)
        out.append((0 if top == 0 else 255) if special else min(max(ceil(power) + 127, 0), 254))
    return out


def _largest_value(x: Any) -> list[int]:
    def top(row: list[float]) -> float:
        return nan if any(map(isnan, row)) else max(0.0, *row)

    return [scale_byte(top(row), "e4m3", rule="rceil") for row in x.tolist()]


# ---- p.2: codes and scales of a matrix


def _matrices() -> Iterator[tuple[Any]]:
    import torch

    draw = torch.Generator().manual_seed(2)
    for rows, columns in ((32, 32), (32, 64), (64, 96), (32, 128)):
        x = torch.randn(rows, columns, generator=draw)
        x *= 2.0 ** torch.randint(-12, 13, (rows, columns), generator=draw)
        x[3] = 0.0
        x[5, :BLOCK] *= 2.0**-130
        x[7, 2] = nan
        yield (x,)


def _quantized(x: Any, rule: str = "rceil") -> tuple[Rows, Rows]:
    codes: Rows = []
    scales: Rows = []
    for row in x.tolist():
        blocks = [
            quantize_block(row[at : at + BLOCK], "e4m3", rule=rule)
            for at in range(0, len(row), BLOCK)
        ]
        codes.append([code for block in blocks for code in block.codes])
        scales.append([block.scale_byte for block in blocks])
    return codes, scales


def _down(x: Any) -> tuple[Rows, Rows]:
    """Blocks down the columns; the scales in the shape that was asked for."""
    codes, scales = _quantized(x.T)
    flat = [scale for row in zip(*scales, strict=True) for scale in row]
    width = x.shape[1] // BLOCK
    turned = [list(row) for row in zip(*codes, strict=True)]
    return turned, [flat[at : at + width] for at in range(0, len(flat), width)]


# ---- p.3: the swizzle


def _scale_matrices() -> Iterator[tuple[Any]]:
    import torch

    draw = torch.Generator().manual_seed(3)
    for rows, columns in ((128, 4), (256, 8), (300, 10), (1, 1), (129, 5)):
        yield (torch.randint(1, 255, (rows, columns), dtype=torch.uint8, generator=draw),)


def _tiled(scales: Any, padding: int = 0) -> list[int]:
    rows, columns = scales.shape
    out = [padding] * _TILE.nbytes(rows, columns)
    for r, line in enumerate(scales.tolist()):
        for c, byte in enumerate(line):
            out[_TILE.at(r, c, rows, columns)] = byte
    return out


def _straight(scales: Any) -> list[int]:
    """Right tiles, whose rows follow each other."""
    rows, columns = scales.shape
    out = [0] * _TILE.nbytes(rows, columns)
    for r, line in enumerate(scales.tolist()):
        for c, byte in enumerate(line):
            tile = r // 128 * -(-columns // 4) + c // 4
            out[tile * 512 + r % 128 * 4 + c % 4] = byte
    return out


def _tiles_down(scales: Any) -> list[int]:
    rows, columns = scales.shape
    out = [0] * _TILE.nbytes(rows, columns)
    for r, line in enumerate(scales.tolist()):
        for c, byte in enumerate(line):
            tile = c // 4 * -(-rows // 128) + r // 128
            out[tile * 512 + r % 32 * 16 + r % 128 // 32 * 4 + c % 4] = byte
    return out


# ---- p.4: the scaled product


def _operands() -> Iterator[tuple[Any, Any, Any, Any]]:
    import torch

    draw = torch.Generator().manual_seed(4)

    def uint8(high: int, *shape: int, low: int = 0) -> Any:
        return torch.randint(low, high, shape, dtype=torch.uint8, generator=draw)

    for size, k in ((16, 32), (16, 128), (20, 96), (9, 64)):
        a, b = (uint8(0x50, size, k) | (uint8(2, size, k) << 7) for _ in "ab")
        s, t = (uint8(134, size, k // BLOCK, low=118) for _ in "ab")
        if size == 20:
            s[:, 1], t[:, 1] = 100, 250
            s[2, 1] = 0  # 2^-127 is no zero
            s[4, 0] = 255
        yield a, s, b, t


def _product(a: Any, s: Any, b: Any, t: Any, read: Any = dequantize_block) -> Rows:
    def lines(codes: Any, scales: Any) -> Rows:
        return [
            [
                value
                for at, byte in enumerate(bytes_)
                for value in read(byte, row[BLOCK * at : BLOCK * at + BLOCK])
            ]
            for row, bytes_ in zip(codes.tolist(), scales.tolist(), strict=True)
        ]

    left, right = lines(a, s), lines(b, t)
    return [[sum(x * y for x, y in zip(p, q, strict=True)) for q in right] for p in left]


def _zero_is_zero(byte: int, codes: list[int]) -> list[float]:
    return dequantize_block(byte, codes) if byte else [0.0] * len(codes)


def _no_nan(byte: int, codes: list[int]) -> list[float]:
    return [value * 2.0 ** (byte - 127) for value in dequantize_block(127, codes)]


EXERCISES = (
    Exercise(
        name="p.1",
        needs=_NEEDS,
        asks="A kernel for scale_bytes(x): the RCEIL scale byte of each row of 32 float32 values.",
        spec=_top_bytes,
        cases=_rows_of_32,
        hint="Work on bits: x.to(tl.int32, bitcast=True) & 0x7FFFFFFF sorts as magnitudes do. The "
        "byte is exponent field - 8, one more where the mantissa exceeds 0x600000, at least 0; "
        "255 from 0x7F800000 on.",
        mistakes=(
            Mistake(
                spec=_by_log2,
                says="That is float32 log2: just above 1.75 * 2^k it rounds to a whole number.",
            ),
            Mistake(
                spec=lambda x: _top_bytes(x, "floor"),
                says="That is FLOOR: beyond mantissa 1.75 the largest value does not fit.",
            ),
            Mistake(
                spec=lambda x: _top_bytes(x, "ceil"),
                says="That is CEIL: up to mantissa 1.75 the exponent is enough.",
            ),
            Mistake(spec=_largest_value, says="Magnitudes count: a negative value can be largest."),
        ),
    ),
    Exercise(
        name="p.2",
        needs=_NEEDS,
        asks="A kernel for quantize(x): codes (rows, columns) and scale bytes (rows, columns / 32) "
        "of a float32 matrix, blocks along its rows.",
        spec=_quantized,
        cases=_matrices,
        hint="Multiply by 2^(127 - byte), whose float32 bits are (254 - byte) << 23; for byte 255 "
        "multiply by NaN. Then encode_e4m3.",
        mistakes=(
            Mistake(spec=_down, says="Those blocks go down the columns: the axis is wrong."),
            Mistake(
                spec=lambda x: _quantized(x, "floor"), says="Right but for the rule: this is FLOOR."
            ),
        ),
    ),
    Exercise(
        name="p.3",
        needs=_NEEDS,
        asks="A kernel for swizzle(scales): a (rows, columns) matrix of scale bytes in layout "
        "tile_128x4, with zeros as padding. The buffer comes full of 0xFF.",
        spec=_tiled,
        cases=_scale_matrices,
        hint="One program for a tile. Its byte i holds row i // 16 + i % 16 // 4 * 32 and column "
        "i % 4; load with a mask and other=0, and store all 512.",
        mistakes=(
            Mistake(
                spec=lambda scales: _tiled(scales, 0xFF),
                says="The padding still holds 0xFF, which is NaN: write zeros there.",
            ),
            Mistake(spec=_straight, says="Inside a tile the next row is 16 bytes on, not 4."),
            Mistake(spec=_tiles_down, says="Tiles follow each other along a row of tiles."),
        ),
    ),
    Exercise(
        name="p.4",
        needs=_NEEDS,
        asks="A kernel for product(a, a_scales, b, b_scales): codes (M, K) and (N, K), scale bytes "
        "(M, K / 32) and (N, K / 32), the result float32 (M, N).",
        spec=_product,
        cases=_operands,
        close=1e-5,
        hint="tl.dot_scaled takes b as (K, N) and its scales as (N, K / 32). Mask what lies "
        "outside with code 0 and scale 127.",
        mistakes=(
            Mistake(
                spec=lambda a, s, b, t: _product(a, t, b, s),
                says="The scales of a and b are swapped.",
            ),
            Mistake(
                spec=lambda a, s, b, t: _product(a, s, b, t, lambda _, c: dequantize_block(127, c)),
                says="The scales are not applied.",
            ),
            Mistake(
                spec=lambda a, s, b, t: _product(a, s, b, t, _zero_is_zero),
                says="Byte 0 is 2^-127, not 0.",
            ),
            Mistake(
                spec=lambda a, s, b, t: _product(a, s, b, t, _no_nan),
                says="Byte 255 is NaN, not 2^128.",
            ),
        ),
    ),
)
