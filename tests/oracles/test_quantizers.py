"""Quantisers that write checkpoints, run on fresh blocks against their profiles.

ModelOpt, Quark and compressed-tensors are fetched by ``tools/oracles.py`` without what they depend
on. microxcaling is published as source alone: where ``mx`` can be imported, it runs too.
"""

import importlib
import math
from typing import Any

import numpy as np
import pytest
from peer_process import ask, lacking
from test_peer_profiles import blocks, compare

from mxlab.profiles import get_profile

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.oracle

Floats = np.ndarray[Any, np.dtype[np.float32]]

#: profile -> (peer, its own name for the mode, dtype of the tensor)
RUNS = {
    "modelopt-0.47": ("modelopt", "", "float32"),
    "modelopt-0.47 bf16": ("modelopt", "", "bfloat16"),
    "compressed-tensors-0.20": ("compressed_tensors", "", "float32"),
    "compressed-tensors-0.20 bf16": ("compressed_tensors", "", "bfloat16"),
    "quark-0.13-even": ("quark", "even", "float32"),
    "quark-0.13-even bf16": ("quark", "even", "bfloat16"),
    "quark-0.13-floor": ("quark", "floor", "float32"),
    "quark-0.13-observer-floor-bf16": ("quark", "floor", "bfloat16"),
    "quark-0.13-ceil": ("quark", "ceil", "float32"),
    "quark-0.13-observer-ceil-bf16": ("quark", "ceil", "bfloat16"),
}


_ALL = blocks()
#: the byte that compressed-tensors makes of a NaN is a conversion that C++ leaves undefined
VALUES = {
    "modelopt": _ALL,
    "quark": _ALL,
    "compressed_tensors": _ALL[~np.isnan(_ALL).any(1)],
}
BITS = {peer: values.view(np.int32).tolist() for peer, values in VALUES.items()}


def _as(values: Floats, dtype: str) -> Floats:
    found: Floats = torch.from_numpy(values).to(getattr(torch, dtype)).float().numpy()
    return found


def byte_of(value: float) -> int:
    """Return the E8M0 byte of a peer's float scale: 255 stands for Inf and NaN."""
    if not math.isfinite(value):
        return 255
    return int(min(max(math.log2(value), -127), 127)) + 127


@pytest.fixture(scope="module")
def answered(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """Run -> what the peer answered; every run of one peer is asked of one process."""
    peers = [peer for peer in {peer: 0 for peer, _, _ in RUNS.values()} if not lacking(peer)]
    jobs = []
    for peer in peers:
        cases = [
            {"fn": "quantize", "input": {"bits": BITS[peer], "dtype": dtype, "mode": mode}}
            for owner, mode, dtype in RUNS.values()
            if owner == peer
        ]
        jobs.append({"peer": peer, "folder": peer, "cases": cases})
    outcomes = dict(zip(peers, ask(jobs, tmp_path_factory.mktemp("q")), strict=True))
    left = {peer: iter(found) for peer, found in outcomes.items()}
    return {run: next(left[peer]) for run, (peer, _, _) in RUNS.items() if peer in left}


@pytest.mark.parametrize("run", RUNS)
def test_profile(run: str, answered: dict[str, dict[str, Any]]) -> None:
    peer, _, dtype = RUNS[run]
    if lacking(peer):
        pytest.skip(lacking(peer))
    assert answered[run]["ok"], answered[run]
    found = answered[run]["value"]
    given = _as(VALUES[peer], dtype)
    scales = np.array(found["scales"], np.int64)
    if found["scale_dtype"] == "float32":
        floats = scales.astype(np.int32).view(np.float32).tolist()
        scales = np.array([byte_of(value) for value in floats])
    codes = np.array(found["codes"], np.uint8)
    assert len(codes) == len(given) > 400
    compare(run.split()[0], given, scales.astype(np.uint8), codes)


@pytest.mark.parametrize("rounding", ["nearest", "floor", "even"])
@pytest.mark.parametrize("flush", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_microxcaling(rounding: str, flush: bool, dtype: str) -> None:
    """It returns dequantised values only: they are compared, the scale inside them."""
    pytest.importorskip("mx", reason="microxcaling is not on PyPI: install it from its source")
    suffix = "-flush" * flush + "-bf16" * (dtype == "bfloat16")
    profile = get_profile(f"microxcaling-{rounding}{suffix}")
    values = torch.from_numpy(blocks()).to(getattr(torch, dtype))
    theirs = importlib.import_module("mx.mx_ops")._quantize_mx(
        values,
        scale_bits=8,
        elem_format="fp8_e4m3",
        axes=[-1],
        block_size=32,
        round=rounding,
        flush_fp32_subnorms=flush,
    )
    for row, expected in zip(values.float().numpy(), theirs.float().numpy(), strict=True):
        byte, codes = profile.quantize([float(value) for value in row])
        ours = torch.tensor(codes, dtype=torch.uint8).view(torch.float8_e4m3fn).double()
        ours = ours * (math.nan if byte == 255 else 2.0 ** (byte - 127))
        np.testing.assert_array_equal(ours.float().numpy(), expected)
