"""``backend="auto"``: the first row of a table of measured crossovers that serves the operands."""

from dataclasses import dataclass
from typing import Any

from mxlab.gemm.backend import Backend, sizes
from mxlab.mxarray import MXArray


@dataclass(frozen=True, slots=True, kw_only=True)
class Crossover:
    """Up to ``max_m`` rows on a kind of device, ``backend`` was the fastest; ``measured`` where."""

    device: str  # numpy, cpu, sm_90, sm_100, ...; "cuda" is any other GPU
    max_m: int | None
    backend: str
    measured: str


_CPU = "one product of the BLAS; kernels only run in an interpreter there"
_H200 = "H200, weights 8192 x 8192, book/_data/bench-h200.json"
#: asked from the top; rows of a device end with one that has no limit
CROSSOVERS: tuple[Crossover, ...] = (
    Crossover(device="numpy", max_m=None, backend="numpy", measured=_CPU),
    Crossover(device="cpu", max_m=None, backend="torch-dequant", measured=_CPU),
    Crossover(device="sm_90", max_m=64, backend="triton-skinny", measured=_H200),
    Crossover(device="sm_90", max_m=512, backend="triton-mixed", measured=_H200),
    Crossover(device="sm_90", max_m=None, backend="torch-dequant", measured=_H200),
    Crossover(
        device="sm_100",
        max_m=None,
        backend="native",
        measured="not measured: the only instruction for the whole rate",
    ),
    Crossover(
        device="cuda",
        max_m=None,
        backend="torch-dequant",
        measured="not measured: exact on every GPU with bfloat16",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What ``auto`` picks, the reason in one line, and why each other backend was not picked."""

    backend: str
    because: str
    others: dict[str, str]

    def __str__(self) -> str:
        lines = [f"{self.backend}: {self.because}"]
        return "\n".join(lines + [f"  {name}: {why}" for name, why in self.others.items()])


def device_of(a: MXArray) -> str:
    """Return the device as the table names it.

    >>> from mxlab.arrays import quantize
    >>> device_of(quantize([1.0] * 32))
    'numpy'
    """
    if a.library == "numpy":
        return "numpy"
    codes: Any = a.codes
    if codes.device.type != "cuda":
        return "cpu"
    import torch

    major, minor = torch.cuda.get_device_capability(codes.device)
    if major == 10:
        return "sm_100"  # 10.0 and 10.3 have the same instruction
    return "sm_90" if (major, minor) == (9, 0) and not torch.version.hip else "cuda"


def choose_backend(a: MXArray, b: MXArray, backends: dict[str, Backend]) -> Choice:
    """Return the choice for two checked operands; the reference serves where nothing else does."""
    device, (m, n, k) = device_of(a), sizes(a, b)
    faults = {name: row.fault(a, b) for name, row in backends.items()}
    picked, because, skipped = "reference", "no other backend serves", {}
    for row in CROSSOVERS:
        if row.device not in (device, "cuda" if device.startswith("sm_") else device):
            continue
        if row.max_m is not None and m > row.max_m:
            skipped[row.backend] = f"M = {m} > {row.max_m}, where another is faster"
            continue
        if faults[row.backend]:
            continue
        limit = "" if row.max_m is None else f" <= {row.max_m}"
        picked, because = row.backend, f"M = {m}{limit} on {device} ({row.measured})"
        break
    others = {
        name: f"cannot serve: {faults[name]}"
        if faults[name]
        else skipped.get(name, "serves; not the fastest measured")
        for name in backends
        if name != picked
    }
    return Choice(backend=picked, because=f"{because}; (M, N, K) = {m, n, k}", others=others)
