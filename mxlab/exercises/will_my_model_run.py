"""Exercises of chapter 7: will my model run?"""

from collections.abc import Iterator
from dataclasses import replace
from functools import cache

from mxlab.block import BLOCK
from mxlab.doctor import doctor
from mxlab.exercises.checker import Exercise, Mistake
from mxlab.guards import Deployment
from mxlab.models import shapes

_SIZES = (1, 2, 4, 8)
_SPLITS = ("column", "row", "replicated")
_SWAPPED = {"column": "row", "row": "column", "replicated": "replicated"}
#: model, --quantization
_LAUNCHES = (("Llama-3.1-8B", "mxfp8"), ("MiniMax-M3-MXFP8", None), ("DeepSeek-V3", None))


def _shard(n: int, k: int, tp: int, split: str) -> tuple[int, int]:
    return n // tp if split == "column" else n, k // tp if split == "row" else k


def _shards() -> Iterator[tuple[int, int, int, str]]:
    for n, k in ((8192, 29568), (59136, 8192), (4096, 4096), (64, 128)):
        for tp in (1, 2, 8):
            yield from ((n, k, tp, split) for split in _SPLITS)


@cache
def _k_of(model: str, linear: str, tp: int) -> int | None:
    rows = shapes(model, tp=tp).layers
    return next((row.k for row in rows if row.linear == linear), None)


def _largest() -> int:
    return max(tp for tp in _SIZES if (_k_of("GLM-4.5-Air", "down_proj", tp) or 1) % BLOCK == 0)


@cache
def _outcomes() -> tuple[str, ...]:
    flags = Deployment(gpu="h200", tp=8, fp8_gemm_backend="deep_gemm")
    return tuple(
        doctor(model, replace(flags, quantization=method), suggest=False).outcome
        for model, method in _LAUNCHES
    )


def _padded(size: int, tp: int) -> int:
    step = BLOCK * tp
    return -(-size // step) * step


@cache
def _with_k(model: str, k: int) -> tuple[str, int]:
    """Return the row-parallel linear whose K is ``k`` on one rank, and the TP size."""
    return next(
        (row.linear, tp)
        for tp in (2, 4, 8, 16)
        for row in shapes(model, tp=tp).layers
        if row.k == k and row.shard == "row"
    )


EXERCISES = (
    Exercise(
        name="7.1",
        asks="Write shard(n, k, tp, split): N and K on one of tp ranks. split is 'column', 'row' "
        "or 'replicated'.",
        spec=_shard,
        cases=_shards,
        hint="Column-parallel cuts the outputs, N. Row-parallel cuts the inputs, K. A replicated "
        "layer is whole on every rank.",
        mistakes=(
            Mistake(
                spec=lambda n, k, tp, split: _shard(n, k, tp, _SWAPPED[split]),
                says="The other way round: the names are of the weight as it is multiplied, "
                "transposed. Column-parallel cuts N.",
            ),
            Mistake(
                spec=lambda n, k, tp, split: (n // tp, k // tp),
                says="Only one side is cut, and of a replicated layer none.",
            ),
            Mistake(
                spec=lambda n, k, tp, split: (
                    (n, k) if split == "replicated" else (n // tp, k // tp)
                ),
                says="Only one side is cut: a rank has 1 / tp of the weight, not 1 / tp squared.",
            ),
            Mistake(
                spec=lambda n, k, tp, split: _shard(
                    n, k, tp, "row" if split == "row" else "column"
                ),
                says="A replicated layer is not cut.",
            ),
        ),
    ),
    Exercise(
        name="7.2",
        asks="GLM-4.5-Air has intermediate_size 10944. What is the largest of the TP sizes 1, 2, 4 "
        "and 8 at which its down_proj can be MXFP8?",
        spec=_largest,
        hint="down_proj is row-parallel: its K is 10944 / TP, and 10944 = 342 * 32.",
        mistakes=(
            Mistake(spec=lambda: 8, says="10944 / 8 = 1368 = 42 * 32 + 24."),
            Mistake(spec=lambda: 4, says="10944 / 4 = 2736 = 85 * 32 + 16."),
            Mistake(spec=lambda: 1, says="It runs, but a larger one does too."),
        ),
    ),
    Exercise(
        name="7.3",
        asks="SGLang 0.5.23 on eight H200, with --tp 8 --fp8-gemm-backend deep_gemm. Does it run? "
        "Answer with three of 'runs' and 'stops': Llama-3.1-8B with --quantization mxfp8; "
        "MiniMax-M3-MXFP8; DeepSeek-V3, whose checkpoint is block FP8.",
        spec=_outcomes,
        hint="Which method is it in the end, from the flag or from the checkpoint? mxfp8 needs "
        "capability 10.0, and an H200 has 9.0. For block FP8, N % 64 and K % 128 decide.",
        mistakes=(
            Mistake(
                spec=lambda: ("runs", "stops", "runs"),
                says="The shapes of Llama-3.1-8B fit DeepGEMM, but the capability is asked "
                "before any shape.",
            ),
            Mistake(
                spec=lambda: ("stops", "runs", "runs"),
                says="MiniMax-M3-MXFP8 needs no flag: its config.json says mxfp8.",
            ),
            Mistake(
                spec=lambda: ("stops", "stops", "stops"),
                says="DeepSeek-V3 is not MXFP8: its scales are of 128 x 128 values, and DeepGEMM "
                "was written for them on Hopper.",
            ),
            Mistake(
                spec=lambda: ("runs", "runs", "runs"),
                says="--fp8-gemm-backend deep_gemm picks a kernel. It does not lift the "
                "capability that the method mxfp8 asks for.",
            ),
        ),
    ),
    Exercise(
        name="7.4",
        asks="Write padded(size, tp): the smallest size, not below size, that tp ranks can cut "
        "into whole blocks of 32. Zeros are added to the whole layer before it is cut.",
        spec=_padded,
        cases=lambda: (
            *((29568, 8), (29568, 4), (10944, 8), (10944, 4), (10944, 2), (4096, 8)),
            *((1, 1), (32, 1), (33, 1), (33, 2), (1408, 8), (2880, 16)),
        ),
        hint="Each rank needs a multiple of 32, so the whole needs a multiple of 32 * tp.",
        mistakes=(
            Mistake(
                spec=lambda size, tp: _padded(size, 1),
                says="The whole is a multiple of 32 now, but is the piece of one rank?",
            ),
            Mistake(
                spec=lambda size, tp: size // (BLOCK * tp) * BLOCK * tp,
                says="That cuts values off: round up.",
            ),
            Mistake(
                spec=lambda size, tp: _padded(size, tp) // tp,
                says="That is the size on one rank: answer with the whole.",
            ),
            Mistake(
                spec=lambda size, tp: (size // (BLOCK * tp) + 1) * BLOCK * tp,
                says="A size that fits already needs no padding.",
            ),
        ),
    ),
    Exercise(
        name="7.5",
        asks="A log of Qwen2.5-72B says 'Weight input_size_per_partition = 14784 is not divisible "
        "by min_thread_k = 128.' Which layer is it, and at which TP size? Answer with a name and "
        "a number.",
        spec=lambda: _with_k("Qwen2.5-72B-Instruct", 14784),
        hint="The input size is K, and a K that is cut belongs to a row-parallel layer: o_proj, "
        "from 8192, or down_proj, from 29568.",
        mistakes=(
            Mistake(
                spec=lambda: ("gate_up_proj", 4),
                says="14784 is the N of gate_up_proj at TP 4, but the message speaks of the input.",
            ),
            Mistake(
                spec=lambda: ("down_proj", 4), says="At TP 4 its K is 29568 / 4 = 7392: half of it."
            ),
            Mistake(spec=lambda: ("o_proj", 2), says="The K of o_proj at TP 2 is 8192 / 2 = 4096."),
        ),
    ),
)
