"""A GPU that torch believes in: its answers about the device, not the peer's predicates."""

import types
from typing import Any

import torch

#: name -> (capability, CUDA version, ROCm version, gcnArchName)
GPUS: dict[str, tuple[tuple[int, int], str | None, str | None, str]] = {
    "SM80": ((8, 0), "12.9", None, ""),
    "SM89": ((8, 9), "12.9", None, ""),
    "SM90": ((9, 0), "12.9", None, ""),
    "SM100": ((10, 0), "12.9", None, ""),
    "SM103": ((10, 3), "12.9", None, ""),
    "SM110": ((11, 0), "13.0", None, ""),
    "SM120": ((12, 0), "12.9", None, ""),
    "SM121": ((12, 1), "12.9", None, ""),
    "SM100/cuda12.4": ((10, 0), "12.4", None, ""),
    "SM90/cuda12.1": ((9, 0), "12.1", None, ""),
    "gfx942": ((9, 4), None, "7.2.0", "gfx942:sramecc+:xnack-"),
    "gfx950": ((9, 5), None, "7.2.0", "gfx950:sramecc+:xnack-"),
    "none": ((0, 0), None, None, ""),
}


def install(name: str) -> None:
    """Make torch answer as it would with this GPU and toolkit."""
    capability, cuda, rocm, arch = GPUS[name]
    there = cuda is not None or rocm is not None
    properties = types.SimpleNamespace(
        gcnArchName=arch,
        major=capability[0],
        minor=capability[1],
        multi_processor_count=132,
        total_memory=1 << 37,
        name=name,
    )
    answers: dict[str, Any] = {
        "is_available": lambda: there,
        "device_count": lambda: int(there),
        "current_device": lambda: 0,
        "is_initialized": lambda: True,
        "get_device_capability": lambda device=None: capability,
        "get_device_name": lambda device=None: name,
        "get_device_properties": lambda device=None: properties,
    }
    for key, answer in answers.items():
        setattr(torch.cuda, key, answer)
    torch.version.cuda = cuda
    torch.version.hip = rocm
