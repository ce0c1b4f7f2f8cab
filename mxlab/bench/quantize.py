"""Time ``quantize`` on a CPU beside its peers: NumPy with ml_dtypes, and torchao's ``to_mx``."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from mxlab.arrays import quantize
from mxlab.bench.memory import peak_ratio
from mxlab.bench.report import Report, Row
from mxlab.bench.timing import call_once, measure
from mxlab.errors import InputError, choose, whole_number

DTYPES: dict[str, Any] = {"float32": np.float32, "bfloat16": ml_dtypes.bfloat16}
RULES = ("floor", "rceil", "ceil", "even")
SIZES = (2048, 8192)  # of the square matrices of the whole grid

Codes = tuple[Any, Any]  # (codes, scales) as uint8 arrays of any shape
Call = Callable[[], Codes]


def plain(x: Any, rule: str) -> Codes:
    """Quantise rows of a (rows, cols) array as one would write it down with ml_dtypes.

    ``x`` is float32 or bfloat16, ``cols`` a multiple of 32. Finite data in the normal range only:
    this is the yardstick of a benchmark, not a library.
    """
    blocks = x.reshape(-1, 32).astype(np.float32)
    bits = np.abs(blocks).max(axis=1).view(np.uint32)
    exponent, mantissa = (bits >> 23).astype(np.int32), bits & 0x7FFFFF
    threshold = {"floor": 1 << 23, "rceil": 0x600001, "ceil": 1, "even": 0x780000}[rule]
    byte = np.clip(exponent - 8 + (mantissa >= threshold), 0, 254)
    scaled = blocks * np.ldexp(np.float32(1), 127 - byte)[:, None]
    codes = np.clip(scaled, -448, 448).astype(ml_dtypes.float8_e4m3fn)
    return codes.view(np.uint8), byte.astype(np.uint8)


def _tensor(x: Any) -> Any:
    from mxlab.tensors.torch_blocks import wrap

    return wrap(x)


def _ours(convert: Callable[[Any], Any], compiled: bool, reuse: bool) -> Callable[[Any, str], Call]:
    def make(x: Any, rule: str) -> Call:
        data, out = convert(x), None
        if reuse:
            first = quantize(data, "e4m3", rule=rule)
            out = first.codes, first.scales

        def call() -> Codes:
            q = quantize(data, "e4m3", rule=rule, compile=compiled, out=out)
            return q.codes, q.scales

        return call

    return make


def _torchao(x: Any, rule: str) -> Call:
    logging.disable(logging.WARNING)  # its GPU extensions do not load here, and it says so
    try:
        import torch
        from torchao.prototype.mx_formats.mx_tensor import ScaleCalculationMode, to_mx
    finally:
        logging.disable(logging.NOTSET)
    tensor, mode = _tensor(x), ScaleCalculationMode[rule.upper()]

    def call() -> Codes:
        scale, codes = to_mx(tensor, torch.float8_e4m3fn, 32, mode)
        return codes.view(torch.uint8), scale.view(torch.uint8)

    return call


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One way to quantise: ``make(x, rule)`` gives a call, or raises ImportError.

    ``peer`` names whose it is, nothing for mxlab's. ``reuses``: its output exists beforehand.
    """

    make: Callable[[Any, str], Call]
    peer: str = ""
    reuses: bool = False


def _same(x: Any) -> Any:
    return x


#: name -> variant
VARIANTS: dict[str, Variant] = {
    "mxlab NumPy": Variant(make=_ours(_same, False, False)),
    "mxlab NumPy, out=": Variant(make=_ours(_same, False, True), reuses=True),
    "mxlab torch, eager": Variant(make=_ours(_tensor, False, False)),
    "mxlab torch, compiled": Variant(make=_ours(_tensor, True, False)),
    "mxlab torch, compiled, out=": Variant(make=_ours(_tensor, True, True), reuses=True),
    "NumPy + ml_dtypes": Variant(
        make=lambda x, rule: lambda: plain(x, rule), peer="NumPy + ml_dtypes"
    ),
    "torchao to_mx, eager": Variant(make=_torchao, peer="torchao"),
}


def sample(rows: int, cols: int, dtype: str) -> Any:
    """Return the benchmark's data: normal values, float32 or bfloat16 (rows, cols)."""
    values = np.random.default_rng(0).standard_normal((rows, cols), dtype=np.float32)
    return values.astype(choose("dtype", dtype, DTYPES))


def _differing(found: Codes, wanted: Codes) -> str:
    codes, scales = (
        int((np.asarray(a).reshape(-1) != b.reshape(-1)).sum())
        for a, b in zip(found, wanted, strict=True)
    )
    return f"{codes} codes and {scales} scales differ from mxlab NumPy"


def _calls(x: Any, rules: Sequence[str]) -> dict[tuple[str, str], Call]:
    """(name, rule) -> call. torchao runs in all its modes, for the fastest is the one to beat."""
    calls = {}
    for name, variant in VARIANTS.items():
        for rule in RULES if variant.peer == "torchao" else rules:
            try:
                calls[name, rule] = variant.make(x, rule)
            except ImportError:
                continue
    return calls


def bench_quantize(
    *,
    rows: int = 2048,
    cols: int = 2048,
    dtype: str = "bfloat16",
    rule: str = "rceil",
    memory: bool = True,
) -> Report:
    """Time quantising a (rows, cols) array of normal values along its rows, E4M3, on this CPU.

    ``rule`` is one of the rules, or ``all``. Rates are in million elements a second. Every result
    is compared with the first variant's before the clock starts; ``memory`` measures the peak of
    each in a process of its own. Raises InputError for sizes or names that cannot be.
    """
    whole_number("rows", rows, 1, 2**20)
    whole_number("cols", cols, 32, 2**20, multiple_of=32)
    if rows * cols > 2**30:
        raise InputError(f"rows x cols is {rows * cols}: expected at most {2**30}")
    every: Mapping[str, Sequence[str]] = {**{name: (name,) for name in RULES}, "all": RULES}
    rules = choose("rule", rule, every)
    x = sample(rows, cols, dtype)
    calls = _calls(x, rules)
    checked, first = {}, {}
    for mode in RULES:
        wanted = calls.get(("mxlab NumPy", mode), VARIANTS["mxlab NumPy"].make(x, mode))()
        for key, call in calls.items():
            if key[1] == mode:
                found, first[key] = call_once(call)
                checked[key] = _differing(found, wanted)
    timings = measure(calls, first=first)
    peaks = {}
    for name, mode in calls:
        if memory and name not in peaks:
            peaks[name] = peak_ratio(name, rows=rows, cols=cols, dtype=dtype, rule=mode)
    return Report(
        title="quantize on a CPU",
        parameters={"rows": rows, "cols": cols, "dtype": dtype, "rule": rule},
        work=rows * cols / 1e6,
        unit="Melem/s",
        rows=[
            Row(
                name=f"{key[0]}, {key[1]}",
                peer=bool(VARIANTS[key[0]].peer),
                family=VARIANTS[key[0]].peer,
                timing=timings[key],
                checked=checked[key],
                peak=peaks.get(key[0]),
            )
            for key in calls
        ],
    )
