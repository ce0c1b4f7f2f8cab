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
    vendor: str  # nvidia, amd, none
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
        _nvidia("t4", "T4", 7, 5),
        _nvidia("a100", "A100", 8, 0),
        _nvidia("a10", "A10", 8, 6),
        _nvidia("l4", "L4", 8, 9),
        _nvidia("l40s", "L40S", 8, 9),
        _nvidia("rtx4090", "RTX 4090", 8, 9),
        _nvidia("h100", "H100", 9, 0),
        _nvidia("h20", "H20", 9, 0),
        _nvidia("h200", "H200", 9, 0),
        _nvidia("gh200", "GH200", 9, 0),
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
        _amd("gfx1250", "gfx1250 (capability assumed)", "gfx1250", (12, 5), native=True),
        Gpu(
            name="cpu",
            label="no GPU",
            vendor="none",
            arch="",
            capability=(0, 0),
            native_mx=False,
            toolkit="0.0",
            source="no device: SGLang skips its capability check",
        ),
    )
}

#: compiler and vendor names -> the GPU that stands for them
ALIASES: dict[str, str] = {
    "sm75": "t4",
    "sm80": "a100",
    "sm86": "a10",
    "sm89": "l40s",
    "sm90": "h200",
    "hopper": "h200",
    "sm100": "b200",
    "blackwell": "b200",
    "sm103": "b300",
    "sm110": "thor",
    "sm120": "rtx5090",
    "sm121": "gb10",
    "dgxspark": "gb10",
    "gfx942": "mi300x",
    "gfx950": "mi355x",
    "mi300": "mi300x",
    "mi325": "mi325x",
    "mi350": "mi350x",
    "mi355": "mi355x",
    "none": "cpu",
}


def gpu(name: str) -> Gpu:
    """Return the GPU called ``name`` (case, spaces, ``-`` and ``_`` do not matter).

    Raises InputError with the nearest names. Source of the rows: their ``source``.

    >>> gpu("h200").capability
    (9, 0)
    >>> gpu("RTX PRO 6000").arch, gpu("sm_100").name
    ('sm_120', 'b200')
    """
    if isinstance(name, str) and len(name) <= 64:
        if name in GPUS:
            return GPUS[name]
        plain = "".join(c for c in name.lower() if c not in " -_")
        for prefix in ("nvidia", "amd", "geforce", "instinct"):
            plain = plain.removeprefix(prefix)
        plain = ALIASES.get(plain, plain)
        if plain in GPUS:
            return GPUS[plain]
    return choose("GPU", name, GPUS)
