"""The prologue kernels are the reference, bit for bit: every output, cache, window and page."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from prologue_cases import RETURNED, Arrays, Case, drawn, recorded
from test_attention_reference import RUN

torch = pytest.importorskip("torch")
pytest.importorskip("triton")

from mxlab.attention.arguments import Arguments  # noqa: E402
from mxlab.errors import InputError  # noqa: E402
from mxlab.kernels.mode import INTERPRETED  # noqa: E402
from mxlab.kernels.prologue import Tiles, run, tap_major  # noqa: E402


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """The interpreter is NumPy, which warns of the Inf and NaN that the data holds on purpose."""
    with np.errstate(all="ignore"):
        yield


def on_device(arrays: Arrays) -> dict[str, Any]:
    """Copies as tensors where kernels run: bfloat16, bytes and integers."""
    made = {}
    for name, array in arrays.items():
        raw = array.view(np.int16) if array.dtype == np.uint16 else array
        tensor = torch.from_numpy(raw.copy()).to("cpu" if INTERPRETED else "cuda")
        made[name] = tensor.view(torch.bfloat16) if array.dtype == np.uint16 else tensor
    return made


def words(x: Any) -> NDArray[Any]:
    kind = {1: torch.uint8, 2: torch.int16}.get(x.element_size())
    raw = x if kind is None or x.dtype == torch.bool else x.view(kind)
    array: NDArray[Any] = raw.cpu().numpy()
    return array.view(np.uint16) if array.dtype == np.int16 else array


@pytest.mark.parametrize("case", recorded(), ids=lambda case: case.name)
def test_every_byte_of_the_recorded_cases(case: Case) -> None:
    state = on_device(case.inputs)
    result = RUN[case.mode](**state, **case.args, backend="triton")
    for name, want in case.expected.items():
        got = result[RETURNED[name]] if name in RETURNED else state[name]
        assert (words(got) == want).all(), name


def same(mode: str, args: dict[str, Any], arrays: Arrays, tiles: Tiles, **weights: bool) -> int:
    """Run both; return how many bytes of the buffers changed."""
    state, host = on_device(arrays), {n: a.copy() for n, a in arrays.items()}
    if weights.get("turned"):
        for name in ("k_weight", "v_weight"):
            state[name] = tap_major(state[name])
    found = run(Arguments(mode=mode, **state, **args), tiles)
    wanted = RUN[mode](**host, **args)
    for name, index in RETURNED.items():
        if wanted[index] is not None:
            assert (words(found[index]) == wanted[index]).all(), name
    for name in arrays:
        assert (words(state[name]) == host[name]).all(), name
    return sum(int((host[n] != arrays[n]).sum()) for n in ("k_buf", "v_buf", "k_cache"))


DRAWN: list[dict[str, Any]] = [
    {"tiles": Tiles(8, 2, 4)},
    {"mxfp8": False, "tiles": Tiles(2, 8, 1), "turned": True},
    {"taps": 3, "kv_heads": 2, "q_heads": 3, "tiles": Tiles(4, 1, 2)},
    {"taps": 2, "page": 64, "tiles": Tiles(1, 1, 1), "turned": True},
    {"taps": 3, "page": 96, "use_residual": False, "tiles": Tiles(16, 4, 4), "turned": True},
    {"activation": "silu", "tiles": Tiles(8, 1, 2)},
    {"do_store": False, "mxfp8": False, "tiles": Tiles(4, 2, 2)},
]


@pytest.mark.parametrize("mode", RUN)
@pytest.mark.parametrize("how", DRAWN, ids=lambda how: "-".join(map(str, how)))
def test_drawn_calls(mode: str, how: dict[str, Any]) -> None:
    """Natural data, ragged tiles, every option; SiLU's exponential is the CPU's here."""
    how = dict(how)
    tiles, turned = how.pop("tiles"), how.pop("turned", False)
    args, arrays = drawn(mode, seed=len(how) + len(mode), **how)
    if turned:
        rng = np.random.default_rng(1)
        arrays["log_scaling_tau"] = rng.random(12, np.float32) + np.float32(0.5)
    changed = same(mode, args, arrays, tiles, turned=turned)
    assert changed > 100 or (mode == "verify" and args.get("do_store") is False)


@pytest.mark.parametrize("options", [{"do_cache_update": False}, {"track_mask": None}])
def test_extend_without_update_or_snapshot(options: dict[str, Any]) -> None:
    args, arrays = drawn("extend", seed=5)
    if "track_mask" in options:
        for name in ("track_mask", "track_rows", "track_dst"):
            del arrays[name]
        options = {}
    same("extend", args | options, arrays, Tiles(8, 1, 4))


def test_a_snapshot_onto_the_sequence_s_own_row() -> None:
    args, arrays = drawn("extend", seed=6)
    arrays["track_dst"][0] = arrays["cache_indices"][0]
    same("extend", args, arrays, Tiles(4, 1, 2))


def test_special_values() -> None:
    """NaN, Inf, sums beyond float32, subnormals and zeros, in K, V, Q and the history."""
    args, arrays = drawn("decode", tokens=10, use_residual=False, seed=7)
    special = [0x7FC1, 0xFF80, 0x7F80, 0x7F00, 0x0001, 0x8000, 0x0000, 0xFFC0]
    for token, value in enumerate(special):
        for name in ("q", "k", "v"):
            arrays["qkvr"][token, args[f"{name}_off"] + 37] = value
    arrays["qkvr"][8], arrays["qkvr"][9] = 0, 0x8000
    arrays["v_cache"][arrays["cache_indices"][0], 1, 5] = 0x7FC0
    arrays["cache_mask"][0] = False
    same("decode", args, arrays, Tiles(4, 1, 2))


def test_slots_outside_are_not_written_where_nobody_looked() -> None:
    args, arrays = drawn("decode", seed=8)
    state = on_device(arrays)
    state["loc"][0], state["loc"][2] = 256, 2**40
    before = words(state["k_buf"]).copy()
    RUN["decode"](**state, **args, backend="triton", validate=False)
    written = np.setdiff1d(np.flatnonzero((words(state["k_buf"]) != before).any((1, 2))), [])
    wanted = [s for t, s in enumerate(arrays["loc"]) if s >= 0 and t not in (0, 2)]
    live = [s for s in wanted if arrays["cache_indices"][list(arrays["loc"]).index(s)] >= 0]
    assert written.tolist() == sorted(live)


def test_what_the_kernels_do_not_take() -> None:
    args, arrays = drawn("decode", taps=5)
    with pytest.raises(InputError, match="W is 5: the kernels take 2 to 4 taps"):
        RUN["decode"](**on_device(arrays), **args, backend="triton")
    args, arrays = drawn("verify", mxfp8=False)
    wider = np.zeros((*arrays["k_buf"].shape[:1], 136), np.uint16)
    for name in ("k_buf", "v_buf"):
        arrays[name] = wider.copy()[:, :128].reshape(-1, 1, 128)
    assert RUN["verify"](**on_device(arrays), **args, backend="triton").q.shape == (12, 256)


def test_every_kernel_compiles_without_a_gpu() -> None:
    """Wide loads, the hardware's own E4M3 conversion, and nothing spilled to local memory."""
    script = Path(__file__).parent / "prologue_ptx.py"
    quiet = {"TRITON_INTERPRET": "0", "TRITON_DEFAULT_FP_FUSION": "1"}
    command = [sys.executable, str(script), "90", "100"]
    ran = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **quiet})
    assert ran.returncode == 0, ran.stderr[-2000:]
    counts = {tuple(line.split()[:2]): line.split()[2:] for line in ran.stdout.splitlines()}
    names = ("verify", "decode", "extend", "attention")
    assert counts.keys() == {(name, capability) for name in names for capability in ("90", "100")}
    for (name, _), found in counts.items():
        wide, codes, local = map(int, found)
        assert wide >= 2 and local == 0, (name, wide, local)
        assert codes > 4 or name == "attention", (name, codes)
