"""torchao 0.18's own checks against our rows, run on a CPU over random calls."""

import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from mxlab.guards import Deployment, Status, check
from mxlab.guards.facts import CallFacts
from mxlab.guards.torchao import GUARDS
from mxlab.guards.torchao_facts import GROUPED, LINEAR, TO_MX, TRAIN

torch = pytest.importorskip("torch")
pytest.importorskip("torchao", "0.18")
pytestmark = pytest.mark.oracle

_ERROR = {row.id: row.error for row in GUARDS}
_CPU = Deployment(system="torchao", gpu="cpu")
_SIZES = (16, 32, 33, 48, 64, 96, 112, 128)
_DTYPES = ("bfloat16", "bfloat16", "bfloat16", "float32", "float16")
_ELEMENTS = ("float8_e4m3fn", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz")


def random_calls(function: str, count: int) -> list[CallFacts]:
    r = random.Random(18)
    made = []
    for _ in range(count):
        m, n, k = (r.choice(_SIZES) if r.random() < 0.4 else r.choice((32, 64)) for _ in range(3))
        element = "float8_e4m3fn" if function in (TRAIN, GROUPED) else r.choice(_ELEMENTS)
        made.append(
            CallFacts(
                function=function,
                m=m,
                n=n,
                k=k,
                backend=r.choice(("auto", "emulated")),
                a_dtype=element,
                b_dtype=element if r.random() < 0.9 else "float8_e5m2",
                out_dtype=r.choice(_DTYPES),
                a_layout="column" if function == TO_MX and r.random() < 0.2 else "row",
            )
        )
    return made


def ours(call: CallFacts) -> tuple[str, str, str]:
    for verdict in check(_CPU, call=call):
        if verdict.status is Status.STOPS:
            row = verdict.guard
            # the error of a product is of whichever class torch's own row has
            return "" if row == "ao-gemm" else _ERROR[row], verdict.message, row
    return "", "", ""


def theirs(run: Callable[[CallFacts], object], call: CallFacts) -> tuple[str, str]:
    try:
        run(call)
    except (AssertionError, RuntimeError, ValueError, NotImplementedError) as error:
        text = str(error)
        return ("" if text.startswith("Invalid scaling") else type(error).__name__), text
    return "", ""


def compare(function: str, run: Callable[[CallFacts], object], count: int) -> Counter[str]:
    seen: Counter[str] = Counter()
    for call in random_calls(function, count):
        error, text, row = ours(call)
        assert (error, text) == theirs(run, call), (row, call)
        seen[row] += 1
    return seen


def _preference(call: CallFacts) -> Any:
    from torchao.quantization.quantize_.common.kernel_preference import KernelPreference

    return KernelPreference.EMULATED if call.backend == "emulated" else KernelPreference.AUTO


def _high(rows: int, cols: int, call: CallFacts, grad: bool = False) -> Any:
    return torch.zeros(rows, cols, dtype=getattr(torch, call.out_dtype), requires_grad=grad)


def test_to_mx() -> None:
    from torchao.prototype.mx_formats.mx_tensor import MXTensor

    def run(call: CallFacts) -> object:
        data = _high(call.m, call.k, call)
        if call.a_layout == "column":
            data = _high(call.k, call.m, call).t()
        return MXTensor.to_mx(data, getattr(torch, call.a_dtype))

    seen = compare(TO_MX, run, 400)
    assert set(seen) == {"", "ao-input-dtype", "ao-k32", "ao-contiguous", "ao-element"}


def test_inference_linear() -> None:
    from torchao.prototype.mx_formats import inference_workflow as flow

    def run(call: CallFacts) -> object:
        config = flow.MXDynamicActivationMXWeightConfig(
            activation_dtype=getattr(torch, call.a_dtype),
            weight_dtype=getattr(torch, call.b_dtype),
            kernel_preference=_preference(call),
        )
        layer = torch.nn.Linear(call.k, call.n, bias=False, dtype=getattr(torch, call.out_dtype))
        flow._mx_inference_linear_transform(layer, config)
        return layer(_high(call.m, call.k, call))

    seen = compare(LINEAR, run, 250)
    rows = {
        "ao-config-match",
        "ao-config-element",
        "ao-weight-dtype",
        "ao-k32",
        "ao-gemm",
        "ao-auto-e5m2",
    }
    assert set(seen) == rows | {""}


def test_training_linear() -> None:
    from torchao.prototype.moe_training.mxfp8_linear import _to_mxfp8_then_scaled_mm
    from torchao.prototype.mx_formats.config import ScaleCalculationMode

    def run(call: CallFacts) -> object:
        x, w = _high(call.m, call.k, call, True), _high(call.n, call.k, call, True)
        rule = ScaleCalculationMode.RCEIL
        y = _to_mxfp8_then_scaled_mm(x, w, _preference(call), rule)
        return y.backward(torch.zeros_like(y))

    seen = compare(TRAIN, run, 250)
    rows = {"ao-input-dtype", "ao-k32", "ao-train-dgrad", "ao-train-wgrad", "ao-triton"}
    assert set(seen) == rows | {""}


def test_nothing_looks_at_the_splits() -> None:
    """44 and 20 tokens share a block of 32, and the backward pass of the emulation goes on."""
    from torchao.prototype.moe_training.mxfp8_grouped_mm import (
        _to_mxfp8_then_scaled_grouped_mm as grouped,
    )

    call = CallFacts(function=GROUPED, m=64, n=96, k=64, groups=(44, 20), backend="emulated")
    a = torch.randn(64, 64, dtype=torch.bfloat16, requires_grad=True)
    b = torch.randn(2, 96, 64, dtype=torch.bfloat16, requires_grad=True)
    offsets = torch.tensor([44, 64], dtype=torch.int32)
    y = grouped(a, b.transpose(-2, -1), offsets, kernel_preference=_preference(call))
    y.backward(torch.ones_like(y))
    statuses = {v.guard: v.status for v in check(_CPU, call=call)}
    assert statuses["ao-grouped-splits"] is Status.SILENT
    with pytest.raises(AssertionError) as error:
        grouped(a, b.transpose(-2, -1), offsets)
    auto = CallFacts(function=GROUPED, m=64, n=96, k=64, groups=(44, 20))
    assert ours(auto) == ("AssertionError", str(error.value), "ao-grouped-sm100")


_OLD_TORCH = """
import sys, warnings
warnings.simplefilter("ignore")
import torch
for name in sys.argv[1].split(","):
    where = torch if hasattr(torch, name) else torch.nn.functional
    delattr(where, name)
try:
    import torchao.prototype.mx_formats
except Exception as error:
    print(type(error).__name__, str(error).split(" (")[0], sep="|")
"""


def test_import_with_an_older_torch() -> None:
    """What an older torch lacks is taken away from this one."""
    versions = {"2.6.0": "float8_e8m0fnu,ScalingType", "2.9.1": "ScalingType"}
    running = {
        version: subprocess.Popen(
            [sys.executable, "-c", _OLD_TORCH, missing],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        for version, missing in versions.items()
    }
    for version, process in running.items():
        said = process.communicate()[0].strip()
        old = Deployment(system="torchao", gpu="cpu", env={"TORCH_VERSION": version})
        call = CallFacts(function=TO_MX, m=32, n=32, k=32)
        first = next(v for v in check(old, call=call) if v.status is Status.STOPS)
        assert said == f"{_ERROR[first.guard]}|{first.message}"
