"""Time ``quantize`` on a CPU beside its peers: NumPy with ml_dtypes, and torchao's ``to_mx``."""

import logging
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from mxlab.arrays import quantize
from mxlab.bench.report import Report, Row
from mxlab.bench.timing import measure
from mxlab.errors import InputError, choose, whole_number

DTYPES: dict[str, Any] = {"float32": np.float32, "bfloat16": ml_dtypes.bfloat16}
#: rule -> torchao's name of it
_TORCHAO = {"floor": "FLOOR", "rceil": "RCEIL", "ceil": "CEIL", "even": "EVEN"}

Codes = tuple[Any, Any]  # (codes, scales) as uint8 arrays of any shape


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


def _torchao(x: Any, rule: str) -> Callable[[], Codes] | None:
    """Return a call of torchao's quantiser on the same data, None where it is absent."""
    try:
        logging.disable(logging.WARNING)  # its GPU extensions do not load here, and it says so
        import torch
        from torchao.prototype.mx_formats.mx_tensor import ScaleCalculationMode, to_mx
    except ImportError:
        return None
    finally:
        logging.disable(logging.NOTSET)
    tensor = torch.from_numpy(x.astype(np.float32))
    if x.dtype == ml_dtypes.bfloat16:
        tensor = tensor.bfloat16()
    mode = ScaleCalculationMode[_TORCHAO[rule]]

    def call() -> Codes:
        scale, codes = to_mx(tensor, torch.float8_e4m3fn, 32, mode)
        return codes.view(torch.uint8).numpy(), scale.view(torch.uint8).numpy()

    return call


def _differing(found: Codes, wanted: Codes) -> str:
    codes = int((found[0].reshape(-1) != wanted[0].reshape(-1)).sum())
    scales = int((found[1].reshape(-1) != wanted[1].reshape(-1)).sum())
    return f"{codes} codes and {scales} scales differ from mxlab"


def bench_quantize(
    *, rows: int = 2048, cols: int = 2048, dtype: str = "bfloat16", rule: str = "rceil"
) -> Report:
    """Time quantising a (rows, cols) array of normal values along its rows, E4M3, on this CPU.

    Rates are in million elements a second. Raises InputError for sizes or names that cannot be.
    """
    whole_number("rows", rows, 1, 2**20)
    whole_number("cols", cols, 32, 2**20, multiple_of=32)
    if rows * cols > 2**30:
        raise InputError(f"rows x cols is {rows * cols}: expected at most {2**30}")
    choose("rule", rule, _TORCHAO)
    values = np.random.default_rng(0).standard_normal((rows, cols), dtype=np.float32)
    x = values.astype(choose("dtype", dtype, DTYPES))

    def ours() -> Codes:
        q = quantize(x, "e4m3", rule=rule)
        return q.codes, q.scales

    variants: dict[str, Callable[[], Codes]] = {
        "mxlab NumPy": ours,
        "NumPy + ml_dtypes": lambda: plain(x, rule),
    }
    torchao = _torchao(x, rule)
    if torchao is not None:
        variants["torchao to_mx, eager"] = torchao
    wanted = ours()
    checked = {name: _differing(call(), wanted) for name, call in variants.items()}
    timings = measure(variants)
    return Report(
        title="quantize on a CPU",
        parameters={"rows": rows, "cols": cols, "dtype": dtype, "rule": rule},
        work=rows * cols / 1e6,
        unit="Melem/s",
        rows=[
            Row(
                name=name,
                peer=not name.startswith("mxlab"),
                timing=timings[name],
                checked=checked[name],
            )
            for name in variants
        ],
    )
