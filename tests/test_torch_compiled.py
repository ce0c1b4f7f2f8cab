"""The compiled kernels give the same bytes: for every bfloat16, at the thresholds, of any size.

On a CPU that is numba's; what torch.compile makes for other devices runs here on the CPU too.
"""

import multiprocessing
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch
from test_arrays import adversarial_blocks
from test_torch_arrays import equal, every_bfloat16, scaled, subnormal_blocks
from twins import COMPILED, Array, Quantizer, tensor

import mxlab
from mxlab.bench.quantize import bench_quantize
from mxlab.errors import InputError
from mxlab.scale import RULES
from mxlab.tensors import numba_kernel, torch_blocks, torch_kernel

pytestmark = pytest.mark.compiled
TWINS = pytest.mark.parametrize("quantize", list(COMPILED.values()), ids=list(COMPILED))


@pytest.fixture(autouse=True, scope="module")
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What the tests compile is compiled here and now, and left nowhere else."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path_factory.mktemp("inductor")))
        torch._dynamo.reset()
        yield
        torch._dynamo.reset()


@TWINS
@pytest.mark.parametrize("rule", sorted(RULES))
@pytest.mark.parametrize("fmt", ["e4m3", "e5m2"])
def test_the_same_bytes(quantize: Quantizer, fmt: str, rule: str) -> None:
    """NumPy's twin, the reference here, is held to the scalar one elsewhere."""
    for x in (adversarial_blocks(), every_bfloat16()):
        wanted = mxlab.quantize(x, fmt, rule=rule)
        assert set(wanted.scales.ravel().tolist()) >= {0, 1, 255}
        equal(quantize(x, fmt, rule=rule), wanted)


@TWINS
@pytest.mark.parametrize("rule", sorted(RULES))
def test_the_same_bytes_along_another_axis(quantize: Quantizer, rule: str) -> None:
    for x in (adversarial_blocks(), every_bfloat16()):
        columns = np.ascontiguousarray(x.T)
        equal(
            quantize(columns, "e4m3", rule=rule, axis=0),
            mxlab.quantize(columns, "e4m3", rule=rule, axis=0),
        )


@TWINS
@pytest.mark.parametrize(
    ("shape", "axis"),
    [
        ((32,), 0),
        ((64,), 0),
        ((1, 32), 1),
        ((33, 96), 1),
        ((0, 64), 1),
        ((7, 40), 1),
        ((64, 33), 0),
        ((3, 64, 5), 1),
        ((2, 3, 352), 2),
    ],
)
def test_any_size(quantize: Quantizer, shape: tuple[int, ...], axis: int) -> None:
    x = scaled(shape)
    for rule in ("floor", "rceil"):
        wanted = mxlab.quantize(x, rule=rule, axis=axis, pad=True)
        equal(quantize(x, rule=rule, axis=axis, pad=True), wanted)


def test_one_kernel_serves_all_rules_and_sizes() -> None:
    quantize = COMPILED["torch operations, compiled"]
    quantize(scaled((64, 64)))
    quantize(scaled((96, 32)))
    before = torch._dynamo.utils.counters["stats"]["unique_graphs"]
    for rows in range(2, 12):
        for rule in RULES:
            quantize(scaled((rows, 32 * rows)), rule=rule)
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == before > 0


@pytest.mark.parametrize("view", [lambda a: a.T, lambda a: a[::2, 32:], lambda a: a[:, ::3]])
def test_strides(view: Any) -> None:
    x = scaled((96, 96))
    for make in (np.copy, tensor):
        strided: Array = view(make(x))
        found = mxlab.quantize(strided, axis=1, pad=True, compile=True)
        equal(found, mxlab.quantize(view(x).copy(), axis=1, pad=True))


def test_buffers_are_filled_and_kept() -> None:
    for make in (np.copy, tensor):
        out: Any = make(np.full((64, 96), 0xFF, np.uint8)), make(np.full((64, 3), 0xFF, np.uint8))
        for seed in (1, 2):
            x = scaled((64, 96), seed)
            found = mxlab.quantize(make(x), out=out, compile=True)
            assert found.codes is out[0] and found.scales is out[1]
            equal(found, mxlab.quantize(x))
    torch_kernel.threshold.cache_clear()
    for quantize in COMPILED.values():
        with torch.inference_mode():
            equal(quantize(x), mxlab.quantize(x))
        equal(quantize(x), mxlab.quantize(x))


@pytest.mark.parametrize("fmt", ["e4m3", "e5m2"])
def test_flushed_subnormals_change_no_byte(fmt: str) -> None:
    """In one thread, for torch sets the flag of the calling thread alone."""
    x = subnormal_blocks(fmt)
    wanted = mxlab.quantize(x, fmt, rule="floor")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    assert torch.set_flush_denormal(True)
    try:
        assert (torch.tensor([2.0**-130]) * 1).item() == 0
        for quantize in COMPILED.values():
            equal(quantize(x, fmt, rule="floor"), wanted)
    finally:
        torch.set_flush_denormal(False)
        torch.set_num_threads(threads)
    for quantize in COMPILED.values():
        equal(quantize(x, fmt, rule="floor"), wanted)


def test_the_bench_shows_what_compiling_costs() -> None:
    numba_kernel._kernels.cache_clear()
    report = bench_quantize(rows=32, cols=64, dtype="float32", memory=False)
    rows = {row.name: row for row in report.rows}
    first, second = (rows[f"mxlab torch, compiled{end}, rceil"] for end in ("", ", out="))
    assert first.timing.first > second.timing.first  # it holds the compilation, the other does not
    for row in (first, second):
        assert row.checked == "0 codes and 0 scales differ from mxlab NumPy"


def test_a_failure_to_compile_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object) -> None:
        raise torch._dynamo.exc.BackendCompilerFailed(lambda: 0, RuntimeError("no\ncompiler"), None)

    monkeypatch.setattr(torch_kernel, "_compiled", lambda *arguments: fail)
    monkeypatch.setattr(torch_blocks, "_in_numpys_reach", lambda data: False)
    with pytest.raises(InputError, match=r"torch\.compile failed here") as caught:
        mxlab.quantize(torch.ones(4, 32), compile=True)
    assert "\n" not in str(caught.value)


def test_a_missing_compiler_is_one_line(tmp_path: Any) -> None:
    code = (
        "import torch, mxlab\n"
        "from mxlab.tensors import torch_blocks\n"
        "torch_blocks._in_numpys_reach = lambda data: False\n"
        "try: mxlab.quantize(torch.ones(4, 32), compile=True)\n"
        "except mxlab.InputError as error: print(error)"
    )
    environment = {
        "PATH": "",
        "CXX": "no-such-compiler",
        "HOME": str(tmp_path),
        "TORCHINDUCTOR_CACHE_DIR": str(tmp_path),
    }
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment
    )
    assert ran.stdout.startswith("torch.compile failed here"), ran.stderr[-400:]
    assert ran.stdout.count("\n") == 1


def test_numba_missing_is_one_line() -> None:
    code = (
        "import sys\n"
        "sys.modules['numba'] = None\n"
        "import numpy, mxlab\n"
        "try: mxlab.quantize(numpy.ones((4, 32), numpy.float32), compile=True)\n"
        "except mxlab.InputError as error: print(error)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "mxlab[compiled]" in ran.stdout and ran.stdout.count("\n") == 1, ran.stderr[-400:]


def test_shares_of_several_threads_and_of_a_fork() -> None:
    """More values than one thread takes, from four threads at once, then in a forked child."""
    x = scaled((512, 256))
    x[7, 40], x[500, 3] = np.nan, -np.inf
    assert x.size >= numba_kernel._ALONE
    wanted = mxlab.quantize(x)
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(lambda _: mxlab.quantize(x, compile=True), range(16)):
            equal(found, wanted)
    with multiprocessing.get_context("fork").Pool(1) as child:
        same = child.apply_async(_same_in_a_child, (x, wanted.codes)).get(timeout=60)
    assert same


def _same_in_a_child(x: Array, codes: Array) -> bool:
    return bool((np.asarray(mxlab.quantize(x, compile=True).codes) == codes).all())
