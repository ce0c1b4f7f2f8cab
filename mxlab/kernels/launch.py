"""What every launch needs: the device, views of three dimensions, the error where none can run."""

from contextlib import AbstractContextManager, nullcontext
from math import prod
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mxlab.errors import InputError
from mxlab.kernels.mode import INTERPRETED


def require_device(x: Tensor, what: str) -> None:
    """Raise InputError where kernels of this process cannot run on the device of ``x``.

    >>> require_device(torch.ones(1, device="meta"), "x")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    mxlab.errors.InputError: x is on meta: Triton's kernels run on ...; backend=None runs anywhere
    """
    runs_on = "cpu" if INTERPRETED else "cuda"
    if x.device.type != runs_on:
        raise InputError(
            f"{what} is on {x.device.type}: Triton's kernels run on {runs_on} here; "
            "backend=None runs anywhere"
        )


def on(x: Tensor) -> AbstractContextManager[Any]:
    """Return a context in which kernels start on the device of ``x``.

    The interpreter computes with NumPy, which warns of NaN and overflow: here they are data.
    """
    if INTERPRETED:
        return np.errstate(all="ignore")
    return torch.cuda.device(x.device) if x.is_cuda else nullcontext()


def as_matrices(x: Tensor, axis: int) -> Tensor:
    """Return ``x`` as [batch, rows, cols]: cols is the last axis, rows ``axis`` or the one before.

    A view wherever strides allow it.

    >>> tuple(as_matrices(torch.ones(2, 3, 4, 5), 3).shape)
    (6, 4, 5)
    >>> tuple(as_matrices(torch.ones(2, 3, 4), 0).shape)
    (1, 2, 12)
    """
    shape = x.shape
    if axis == x.ndim - 1:
        before = shape[:-1]
        return x.reshape(prod(before[:-1]), before[-1] if before else 1, shape[-1])
    return x.reshape(prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :]))


def early(x: Tensor) -> bool:
    """Return whether a kernel may be launched before the one ahead of it in the stream has ended.

    Programmatic dependent launch: from compute capability 9.0. The kernel waits for the other's
    results itself.

    >>> early(torch.ones(1))
    False
    """
    return x.is_cuda and not INTERPRETED and torch.cuda.get_device_capability(x.device) >= (9, 0)
