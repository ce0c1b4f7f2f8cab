"""Where this process runs Triton's kernels: on a GPU, or in the interpreter on a CPU."""

from typing import Any

import pytest
import torch
from twins import Array, array, tensor

from mxlab.kernels.mode import INTERPRETED

DEVICE = "cpu" if INTERPRETED else "cuda"

#: what only a GPU can show; on a CPU the report says that it was skipped
gpu_only = pytest.mark.skipif(INTERPRETED, reason="needs a GPU: the interpreter cannot show it")


def put(x: Array) -> torch.Tensor:
    return tensor(x, DEVICE)


def equal(found: Any, wanted: Any) -> None:
    """Codes and scales of two MXArrays, of whatever library and device, byte for byte."""
    for name in ("codes", "scales"):
        left, right = array(getattr(found, name)), array(getattr(wanted, name))
        assert left.shape == right.shape and (left != right).sum() == 0, name
    for name in ("format", "rule", "axis", "shape", "layout", "padded"):
        assert getattr(found, name) == getattr(wanted, name), name


def poisoned_empty(*args: Any, **named: Any) -> torch.Tensor:
    """``torch.empty``, but what is never written shows: NaN, or 0xFF."""
    made = _empty(*args, **named)
    return made.fill_(float("nan") if made.is_floating_point() else 0xFF)


_empty = torch.empty
