"""Every way to run the array functions, as a call on NumPy data that answers in NumPy."""

from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import numpy as np
import torch

import mxlab
from mxlab.mxarray import MXArray
from mxlab.tensors import torch_blocks, torch_kernel

Array = np.ndarray[Any, Any]
Quantizer = Callable[..., MXArray]


def tensor(x: Array, device: str = "cpu") -> torch.Tensor:
    """The same values, strides not kept."""
    if x.dtype.name == "bfloat16":
        words = torch.from_numpy(np.array(x.view(np.int16), order="C"))
        return words.view(torch.bfloat16).to(device)
    return torch.from_numpy(np.array(x, order="C")).to(device)


def array(x: Any) -> Array:
    return np.asarray(x.cpu() if isinstance(x, torch.Tensor) else x)


def _as_numpy(q: MXArray) -> MXArray:
    parts = {name: getattr(q, name) for name in q.__dataclass_fields__}
    return MXArray(**{**parts, "codes": array(q.codes), "scales": array(q.scales)})


def on_device(device: str, compiled: bool) -> Quantizer:
    def quantize(x: Array, *args: Any, **named: Any) -> MXArray:
        q = mxlab.quantize(tensor(x, device), *args, compile=compiled, **named)
        assert q.library == "torch" and q.codes.device.type == device  # type: ignore[attr-defined]
        return _as_numpy(q)

    return quantize


def operations(x: Array, *args: Any, **named: Any) -> MXArray:
    """torch's own operations, which run on a CPU only here."""
    with (
        patch.object(torch_blocks, "_in_numpys_reach", return_value=False),
        patch.object(torch_kernel, "run_eagerly", wraps=torch_kernel.run_eagerly) as run,
    ):
        q = mxlab.quantize(tensor(x), *args, **named)
    assert run.called
    return _as_numpy(q)


EAGER: dict[str, Quantizer] = {
    "numpy": mxlab.quantize,
    "torch": on_device("cpu", compiled=False),
    "torch operations": operations,
}


def inductor(x: Array, *args: Any, **named: Any) -> MXArray:
    """What torch.compile makes of torch's operations, which runs on a CPU only here."""
    with patch.object(torch_blocks, "_in_numpys_reach", return_value=False):
        return _as_numpy(mxlab.quantize(tensor(x), *args, compile=True, **named))


COMPILED: dict[str, Quantizer] = {
    "numpy, compiled": lambda x, *args, **named: mxlab.quantize(x, *args, compile=True, **named),
    "torch, compiled": on_device("cpu", compiled=True),
    "torch operations, compiled": inductor,
}
if torch.cuda.is_available():  # the same tests, on a machine that has one
    EAGER["cuda"] = on_device("cuda", compiled=False)
    COMPILED["cuda, compiled"] = on_device("cuda", compiled=True)
