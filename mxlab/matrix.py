"""One MXFP8 product (M, N, K) on every backend of every system and on every GPU: the matrix.

A cell is one verdict, the worst that the system's guards give, with its reason in numbers.
"""

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import cache, lru_cache
from typing import Any

from mxlab.errors import InputError, quote, whole_number
from mxlab.guards import Deployment, Facts, Finding, Guard, Status, facts, system
from mxlab.guards import values as v
from mxlab.guards.calls import ROWS, check_call
from mxlab.guards.engine import fill
from mxlab.guards.facts import CallFacts, LinearFacts
from mxlab.guards.inputs import check_linear
from mxlab.guards.systems import SYSTEMS, System
from mxlab.hardware import Gpu, gpu

GPUS = ("h100", "b200", "b300", "rtx5090", "gb10", "mi300x", "mi355x", "l40s", "a100")
MAX_SIZE = 2**40
_MAX_NAMES = 64

#: quantization_config of a checkpoint whose weights are MXFP8 already
CHECKPOINT = {
    "quant_method": "mxfp8",
    "activation_scheme": "dynamic",
    "weight_block_size": [1, 32],
}

#: what a cell says first
SEVERITY = (Status.STOPS, Status.SILENT, Status.FALLS_BACK, Status.WARNS, Status.UNKNOWN)
#: server -> the flag that picks its dense kernel, and the flag's values
FLAGS: dict[str, tuple[str, tuple[str, ...]]] = {
    "sglang": ("--fp8-gemm-backend", v.FP8_GEMM_BACKEND),
}


@dataclass(frozen=True, slots=True)
class Row:
    """One kernel of one system: a function and its backend, or a server's flag and its value."""

    system: str
    name: str
    version: str
    function: str
    backend: str  # "" where the function has one kernel


@dataclass(frozen=True, slots=True)
class Cell:
    """What one kernel says about the product on one GPU."""

    row: Row
    gpu: str
    status: Status
    guard: str  # "" where every guard passes
    stage: str
    because: str
    message: str

    def to_json(self) -> dict[str, Any]:
        """Return the contract's flat object."""
        plain = asdict(self)
        row = plain.pop("row")
        del row["name"]
        return {**row, **plain, "status": self.status.value}


def rows(asked: System) -> Iterator[Row]:
    """Yield the rows of one system: its flag's values, or the backends of its dense function."""
    if asked.id in FLAGS:
        flag, values = FLAGS[asked.id]
        for value in values:
            yield Row(asked.id, asked.name, asked.version, flag, value)
        return
    backends = asked.functions[asked.dense]
    for backend in ("auto", *(b for b in backends if b != "auto")) if backends else ("",):
        yield Row(asked.id, asked.name, asked.version, asked.dense, backend)


def worst(guards: Iterable[Guard], asked: Facts) -> tuple[Guard, Finding] | None:
    """Return the first row that stops, else the first of the next severity, None if all pass.

    A notice, after which everything is as it was asked for, counts as a pass. Rows behind a stop
    are not asked.
    """
    found: tuple[Guard, Finding] | None = None
    place = len(SEVERITY)
    for row in guards:
        if not asked.has(row.subject):
            continue
        said = row.check(asked)
        if said.status not in SEVERITY[:place] or said.notice:
            continue
        found, place = (row, said), SEVERITY.index(said.status)
        if place == 0:
            break
    return found


@lru_cache(maxsize=1024)  # all cells of all systems: what they know without the product's sizes
def _base(row: Row, device: str, cuda: str | None) -> Facts:
    deployment = Deployment(gpu=device, system=row.system, version=row.version, toolkit=cuda)
    if row.system in FLAGS:
        deployment = replace(deployment, fp8_gemm_backend=row.backend)
        return facts(deployment, config=CHECKPOINT)
    call = CallFacts(function=row.function, m=1, n=1, k=1, backend=row.backend or "auto")
    return facts(deployment, call=call)


def _facts(row: Row, device: Gpu, m: int, n: int, k: int, cuda: str | None) -> Facts:
    base = _base(row, device.name, cuda if device.vendor == "nvidia" else None)
    if row.system in FLAGS:
        linear = LinearFacts("linear", n, k)
        check_linear(linear)
        return replace(base, linear=linear)
    call = CallFacts(
        function=row.function,
        m=m,
        n=n,
        k=k,
        backend=row.backend or "auto",
        scale_layout="linear" if device.vendor == "amd" else None,  # ROCm before 7.14 wants it
    )
    check_call(call, system(row.system, row.version))
    return replace(base, call=call)


@cache
def _heard(id: str, version: str, flagged: bool) -> tuple[Guard, ...]:
    """Return the guards of a server's linear layer or of a library's call, in their order."""
    subjects = ("server", "config", "linear" if flagged else "call")
    return tuple(row for row in system(id, version).guards if row.subject in subjects)


def cell(row: Row, device: Gpu, m: int, n: int, k: int, cuda: str | None = None) -> Cell:
    """Return one cell; sizes are M, N, K of one rank."""
    asked = _facts(row, device, m, n, k, cuda)
    found = worst(_heard(row.system, row.version, row.system in FLAGS), asked)
    if found is None:
        text = f"every check that {row.backend or row.function} reaches holds"
        return Cell(row, device.name, Status.PASSES, "", "", text, "")
    guard, said = found
    text = ""
    if guard.messages and said.message is not None:
        text = fill(guard.messages[said.message], said.values)
    return Cell(row, device.name, said.status, guard.id, guard.stage, said.because, text)


def _systems(names: Iterable[str] | None) -> list[System]:
    if names is None:
        return list({row.id: row for row in reversed(SYSTEMS)}.values())[::-1]
    found = {}
    for name in _bounded("systems", names):
        id, _, version = name.partition("@")
        asked = system(id, version)
        found[asked.id, asked.version] = asked
    return list(found.values())


def _bounded(what: str, names: Iterable[str]) -> list[str]:
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise InputError(f"{what} is {quote(names)}: expected a list of names")
    listed = list(names)
    if not 0 < len(listed) <= _MAX_NAMES:
        raise InputError(f"{len(listed)} {what}: expected 1 to {_MAX_NAMES}")
    for name in listed:
        if not isinstance(name, str):
            raise InputError(f"{what}: {quote(name)} is no name")
    return listed


def matrix(
    n: int,
    k: int,
    *,
    m: int = ROWS,
    gpus: Iterable[str] = GPUS,
    systems: Iterable[str] | None = None,
    cuda: str | None = None,
) -> list[Cell]:
    """Return a cell for each kernel of each system on each GPU, row after row.

    ``n`` and ``k`` are the sides of the weight on one rank, ``m`` the rows of the activation.
    ``systems`` are names, with ``@version`` if not the newest; ``cuda`` is the toolkit of the
    NVIDIA GPUs, else each GPU's usual one. A server loads the weight from an MXFP8
    checkpoint; a library gets operands as it asks for them. Raises InputError for unknown names and
    sizes that no weight has. Source: the ``source`` of each guard.

    >>> cells = matrix(2880, 2880, gpus=["gb10"], systems=["deepgemm", "flashinfer"])
    >>> [(c.row.backend, c.status.value, c.guard) for c in cells][:3]
    [('', 'passes', ''), ('auto', 'falls-back', 'fi-mm-slow'), ('cutlass', 'silent', 'fi-mm-slow')]
    """
    n = whole_number("n", n, 1, MAX_SIZE)
    k = whole_number("k", k, 1, MAX_SIZE)
    m = whole_number("m", m, 1, MAX_SIZE)
    devices = {device.name: device for device in map(gpu, _bounded("GPUs", gpus))}
    return [
        cell(row, device, m, n, k, cuda)
        for asked in _systems(systems)
        for row in rows(asked)
        for device in devices.values()
    ]
