"""GPUs as data: compute capability, whether MX block scaling is native, and where we read it."""

from dataclasses import dataclass

from mxlab.errors import choose


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One GPU model.

    ``capability`` is (major, minor) of CUDA, or of what ROCm's torch reports; ``arch`` is the
    name compilers use. ``toolkit`` is the CUDA or ROCm version assumed when none is given.
    """

    name: str
    label: str
    vendor: str  # nvidia, amd
    arch: str
    capability: tuple[int, int]
    native_mx: bool
    toolkit: str
    source: str


_CUDA_GPUS = "NVIDIA, CUDA GPU compute capability table, read 2026-11"
_ROCM = "AMD, ROCm accelerator specifications, read 2026-11"


def _nvidia(name: str, label: str, major: int, minor: int, toolkit: str = "12.9") -> Gpu:
    return Gpu(
        name=name,
        label=label,
        vendor="nvidia",
        arch=f"sm_{major}{minor}",
        capability=(major, minor),
        native_mx=major >= 10,
        toolkit=toolkit,
        source=_CUDA_GPUS,
    )


def _amd(name: str, label: str, gfx: str, capability: tuple[int, int], native: bool) -> Gpu:
    return Gpu(
        name=name,
        label=label,
        vendor="amd",
        arch=gfx,
        capability=capability,
        native_mx=native,
        toolkit="7.2",
        source=_ROCM,
    )


#: name -> GPU, oldest first
GPUS: dict[str, Gpu] = {
    gpu.name: gpu
    for gpu in (
        _nvidia("a100", "A100", 8, 0),
        _nvidia("l40s", "L40S", 8, 9),
        _nvidia("rtx4090", "RTX 4090", 8, 9),
        _nvidia("h100", "H100", 9, 0),
        _nvidia("h200", "H200", 9, 0),
        _nvidia("b200", "B200", 10, 0),
        _nvidia("gb200", "GB200", 10, 0),
        _nvidia("b300", "B300", 10, 3),
        _nvidia("gb300", "GB300", 10, 3),
        _nvidia("thor", "Jetson Thor", 11, 0, "13.0"),
        _nvidia("rtx5090", "RTX 5090", 12, 0),
        _nvidia("rtxpro6000", "RTX PRO 6000 Blackwell", 12, 0),
        _nvidia("gb10", "GB10 (DGX Spark)", 12, 1, "13.0"),
        _amd("mi300x", "Instinct MI300X", "gfx942", (9, 4), native=False),
        _amd("mi325x", "Instinct MI325X", "gfx942", (9, 4), native=False),
        _amd("mi350x", "Instinct MI350X", "gfx950", (9, 5), native=True),
        _amd("mi355x", "Instinct MI355X", "gfx950", (9, 5), native=True),
    )
}


def gpu(name: str) -> Gpu:
    """Return the GPU called ``name``, or raise InputError with the nearest names.

    >>> gpu("h200").capability
    (9, 0)
    """
    return choose("GPU", name, GPUS)
