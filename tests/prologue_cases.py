"""Recorded cases of the real prologue, and drawn ones: arrays by upstream name.

``prologue_vectors.npz`` holds SGLang 0.5.23's CUDA prologue on an H200, agreed bit for bit by three
other implementations. Inputs lie no nearer to a rounding tie than any float32 implementation with
the right rounding points can err. Outputs of buffers are stored as their difference (XOR).
"""

import json
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Arrays = dict[str, NDArray[Any]]

RETURNED = {"q_out": 0, "k_out": 1, "v_out": 2, "q_scale": 3}


@dataclass(frozen=True, slots=True)
class Case:
    """A call and what it must leave behind; ``inputs`` are the state before."""

    name: str
    mode: str
    args: dict[str, Any]
    inputs: Arrays
    expected: Arrays

    def fresh(self) -> Arrays:
        """Copies of the inputs, to be written."""
        return {name: array.copy() for name, array in self.inputs.items()}


@lru_cache(maxsize=1)
def recorded() -> tuple[Case, ...]:
    """The recorded cases."""
    data = np.load(Path(__file__).parent / "data" / "prologue_vectors.npz")
    cases = []
    for row in json.loads(data["index"].item())["cases"]:
        inputs = {name: data[f"{row['name']}/inputs/{name}"] for name in row["inputs"]}
        expected = {name: data[f"{row['name']}/outputs/{name}"] for name in row["outputs"]}
        for name in expected.keys() & inputs.keys():
            expected[name] = expected[name] ^ inputs[name]
        cases.append(Case(row["name"], row["mode"], row["args"], inputs, expected))
    return tuple(cases)


def bf16(x: Any) -> NDArray[np.uint16]:
    """Truncate float32 to bfloat16 bits: which of two neighbours does not matter for an input."""
    return (np.asarray(x, np.float32).view(np.uint32) >> 16).astype(np.uint16)


def drawn(
    mode: str,
    *,
    tokens: int = 12,
    q_heads: int = 2,
    kv_heads: int = 1,
    taps: int = 4,
    mxfp8: bool = True,
    page: int = 128,
    seed: int = 0,
    **args: Any,
) -> tuple[dict[str, Any], Arrays]:
    """Draw a call: (scalars, arrays). Buffers are filled with a pattern, slots are distinct."""
    rng = np.random.default_rng(seed)
    dq, dkv, slots = q_heads * 128, kv_heads * 128, -(-256 // page) * page
    q = 3
    sequences = {"verify": tokens // q, "extend": 3, "decode": tokens}[mode]
    pool = 2 * sequences + 2

    def normal(*shape: int) -> NDArray[np.uint16]:
        size = np.exp2(rng.integers(-3, 4, shape))
        return bf16(rng.standard_normal(shape) * size)

    rows = rng.permutation(pool)
    arrays: Arrays = {
        "qkvr": normal(tokens, dq + 2 * dkv + 24),
        "k_cache": normal(pool, taps - 1, dkv),
        "v_cache": normal(pool, taps - 1, dkv),
        "cache_indices": rows[:sequences].astype(np.int32),
        "cache_mask": rng.random(sequences) < 0.6,
        "k_weight": normal(dkv, taps),
        "v_weight": normal(dkv, taps),
        "q_gamma": normal(128),
        "k_gamma": normal(128),
        "loc": rng.permutation(slots)[:tokens].astype(np.int64),
    }
    arrays["cache_indices"][sequences // 2] = -1
    if mode != "verify":  # the model's masks are false for padding
        arrays["cache_mask"] &= arrays["cache_indices"] >= 0
    arrays["loc"][1::5] = -1
    fill = np.full((slots, kv_heads, 128), 0xA5, np.uint8) if mxfp8 else None
    words = np.full((slots, kv_heads, 128), 0xBEEF, np.uint16)
    for n in "kv":
        arrays[f"{n}_buf"] = words.copy() if fill is None else fill.copy()
        if mxfp8:
            shape = (slots // page, kv_heads, 32, page // 32, 4)
            arrays[f"sf{n}"] = np.full(shape, 0x5A, np.uint8)
        if mode == "verify":
            arrays[f"{n}_inter"] = normal(sequences + 1, q, taps - 1, dkv)
    if mode == "extend":
        first, second = tokens // 3, tokens // 3 + 2
        arrays["cu"] = np.array([0, first, second, tokens], np.int64)
        arrays["si"] = np.repeat(np.arange(3, dtype=np.int32), np.diff(arrays["cu"]))
        arrays["has_initial_state"] = np.array([True, False, True])
        arrays["cache_indices"] = rows[:3].astype(np.int32)
        arrays["track_mask"] = np.array([True, False, True])
        arrays["track_dst"] = rows[3:6].astype(np.int64)
        arrays["track_rows"] = rng.integers(0, tokens, (3, taps - 1))
    if mode == "decode":
        arrays["track_mask"] = rng.random(tokens) < 0.5
        arrays["track_indices"] = rows[sequences : 2 * sequences].astype(np.int64)
    scalars: dict[str, Any] = {
        "eps": 1e-6,
        **{"q_off": 2 * dkv + 16, "k_off": 8, "v_off": dkv + 8, "dq": dq, "dkv": dkv},
        **{"mxfp8_quant": mxfp8, "page_size": page},
    }
    if mode == "verify":
        scalars["draft_token_num"] = q
    return scalars | args, arrays
