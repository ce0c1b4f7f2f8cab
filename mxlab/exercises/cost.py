"""Exercises of chapter 9: what does it cost?"""

from math import ceil

from mxlab.block import BLOCK
from mxlab.exercises.checker import Exercise, Mistake

_VALUE = 1 + 1 / BLOCK  # bytes of an MXFP8 value with its part of the scale


def _bytes(m: int, n: int, k: int) -> float:
    return (m + n) * k * _VALUE + 2 * m * n


def _least(m: int, n: int, k: int, gb_per_s: float, tflop_per_s: float) -> float:
    return max(_bytes(m, n, k) / gb_per_s / 1e3, 2 * m * n * k / tflop_per_s / 1e6)


def _summed(m: int, n: int, k: int, gb_per_s: float, tflop_per_s: float) -> float:
    return _bytes(m, n, k) / gb_per_s / 1e3 + 2 * m * n * k / tflop_per_s / 1e6


def _weights_only(m: int, n: int, k: int, gb_per_s: float, tflop_per_s: float) -> float:
    return max(n * k * _VALUE / gb_per_s / 1e3, 2 * m * n * k / tflop_per_s / 1e6)


def _half(m: int, n: int, k: int, gb_per_s: float, tflop_per_s: float) -> float:
    return max(_bytes(m, n, k) / gb_per_s / 1e3, m * n * k / tflop_per_s / 1e6)


EXERCISES = (
    Exercise(
        name="9.1",
        asks="How many bytes does a decode step have to read of an MXFP8 weight with N = 28672 and "
        "K = 8192?",
        spec=lambda: 28672 * 8192 + 28672 * 8192 // BLOCK,
        hint="Every code and every scale, once: 33 bytes for 32 values.",
        mistakes=(
            Mistake(spec=lambda: 28672 * 8192, says="And the scales."),
            Mistake(spec=lambda: 2 * 28672 * 8192, says="That is bfloat16."),
        ),
    ),
    Exercise(
        name="9.2",
        asks="Write least_us(m, n, k, gb_per_s, tflop_per_s): the least microseconds of an MXFP8 "
        "product with a bfloat16 result, from its bytes and its operations.",
        spec=_least,
        close=1e-9,
        cases=lambda: (
            *((1, 8192, 8192, 4000.0, 800.0), (16, 2880, 2880, 4000.0, 800.0)),
            *((512, 8192, 8192, 4000.0, 800.0), (8192, 8192, 8192, 4000.0, 800.0)),
            *((32, 96, 64, 100.0, 1.0), (4096, 128, 16384, 8000.0, 4500.0)),
        ),
        hint="Bytes: 33 / 32 for each of (m + n) * k values, and 2 for each of m * n results. "
        "Operations: 2 * m * n * k. The larger of the two times counts; 1 GB/s is 1,000 bytes a "
        "microsecond, 1 TFLOP/s is 1,000,000 operations.",
        mistakes=(
            Mistake(spec=_summed, says="Reading and computing overlap: the larger one counts."),
            Mistake(spec=_weights_only, says="The activations and the result move too."),
            Mistake(spec=_half, says="A product is two operations: a multiplication and a sum."),
        ),
    ),
    Exercise(
        name="9.3",
        asks="A GPU moves 4 TB/s and multiplies 1000 TFLOP/s in bfloat16 and 2000 in MXFP8. From "
        "which whole N on can quantising the activations of one product pay for itself?",
        spec=lambda: ceil((2 + _VALUE) / 4e12 / (2 * (1 / 1000e12 - 1 / 2000e12))),
        hint="Per value of the activation: 3.03125 bytes to quantise, and N times the difference "
        "of two operations at each rate. Set them equal.",
        mistakes=(
            Mistake(
                spec=lambda: ceil((2 + _VALUE) / 4e12 / (1 / 1000e12 - 1 / 2000e12)),
                says="A product is two operations.",
            ),
            Mistake(
                spec=lambda: ceil(_VALUE / 4e12 / (2 * (1 / 1000e12 - 1 / 2000e12))),
                says="Quantising also reads two bytes of bfloat16 a value.",
            ),
            Mistake(spec=lambda: 853, says="That is the GPU of the report. Put the new rates in."),
        ),
    ),
    Exercise(
        name="9.4",
        asks="A server keeps a bfloat16 copy of each MXFP8 weight for small batches. How many "
        "bytes does one weight value then take?",
        spec=lambda: 2 + _VALUE,
        close=1e-3,
        hint="Both copies: two bytes, and one with its part of a scale.",
        mistakes=(
            Mistake(spec=lambda: 3.0, says="And a 32nd of a byte for the scale."),
            Mistake(spec=lambda: _VALUE, says="That is the MXFP8 copy alone."),
        ),
    ),
)
