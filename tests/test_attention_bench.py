"""``mxlab bench prologue`` and ``attention``: refused plainly where there is no GPU."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from command import Capture, refuse
from prologue_cases import drawn
from test_attention_reference import RUN

torch = pytest.importorskip("torch")

from mxlab.attention.arguments import Arguments  # noqa: E402
from mxlab.bench import prologue as bench  # noqa: E402
from mxlab.bench.prologue_unfused import unfused_extend  # noqa: E402


@pytest.mark.skipif(torch.cuda.is_available(), reason="it would measure")
@pytest.mark.parametrize("what", ["prologue", "attention"])
def test_no_gpu(capsys: Capture, what: str) -> None:
    assert "no CUDA GPU" in refuse(capsys, "bench", what, "--device", "cuda")
    assert f"{what} on cpu" in refuse(capsys, "bench", what)


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (("--mode", "prefill"), "expected one of verify, extend, decode"),
        (("--tokens", "4"), "tokens is 4: expected 8 to"),
        (("--mode", "verify", "--tokens", "10"), "tokens is 10: expected a multiple of 4"),
        (("--q-heads", "0"), "q_heads is 0"),
    ],
)  # fmt: skip
def test_bad_arguments(capsys: Capture, argv: tuple[str, ...], message: str) -> None:
    assert message in refuse(capsys, "bench", "prologue", "--device", "cuda", *argv)


def test_the_unfused_peer_computes_the_same() -> None:
    """Past the first W - 1 tokens of one sequence, which see no history; but for rounding ties."""
    args, arrays = drawn("extend", tokens=64, q_heads=2, kv_heads=1, seed=2)
    for name in ("track_mask", "track_rows", "track_dst"):
        del arrays[name]
    arrays["cu"], arrays["si"] = np.array([0, 64, 64, 64]), np.zeros(64, np.int32)
    arrays["loc"] = np.random.default_rng(0).permutation(256)[:64]
    tensors = {}
    for name, array in arrays.items():
        raw = torch.from_numpy(array.view(np.int16) if array.dtype == np.uint16 else array.copy())
        tensors[name] = raw.view(torch.bfloat16) if array.dtype == np.uint16 else raw.clone()
    found = unfused_extend(Arguments(mode="extend", **tensors, **args))
    wanted = RUN["extend"](**arrays, **args)
    pairs = [(found[0].view(torch.uint8), wanted.q), (found[3], wanted.q_scale)]
    pairs += [(found[i].view(torch.int16), wanted[i].view(np.int16)) for i in (1, 2)]
    for ours, theirs in pairs:
        assert (ours.numpy()[3:] != theirs[3:]).mean() < 2e-3
    rest = arrays["loc"][3:]
    for name in ("k_buf", "v_buf"):
        assert (tensors[name].numpy()[rest] != arrays[name][rest]).mean() < 2e-3


def test_the_bytes_of_the_issue() -> None:
    """At T = 8192 with 32 and 8 heads: 44 us at the 4,249 GB/s of a copy."""
    sizes = {"dq": 4096, "dkv": 1024, "q_heads": 32, "kv_heads": 8, "taps": 4, "sequences": 8}
    call: Any = SimpleNamespace(mode="extend", tokens=8192, mxfp8_quant=True, **sizes)
    assert round(bench.least_bytes(call) / 4249e9 * 1e6) == 44
