"""The systems whose guards are tables here: serving engines and the libraries that they call."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from mxlab.errors import choose
from mxlab.guards import (
    cublaslt,
    deepgemm,
    flashinfer,
    sglang,
    sglang_0132848349,
    torch,
    torchao,
    transformer_engine,
    vllm,
)
from mxlab.guards.engine import Guard
from mxlab.guards.releases import AUGUST, is_commit
from mxlab.guards.sglang_0132848349_sources import ABSENT


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """One version of one system.

    ``functions`` maps what can be called to its backends: a library's functions, or for a server
    the flag that picks its dense kernel.
    """

    id: str  # sglang, flashinfer, torch, ...: what --system takes
    name: str  # as people write it
    version: str
    source: str  # where the rows were read, and when
    server: bool  # loads a model; otherwise a library that is called
    guards: tuple[Guard, ...]
    functions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    dense: str = ""  # of a library: the function that multiplies one dense MXFP8 linear
    commit: str = ""  # whole hash, where the version is a commit and not a release
    absent: Mapping[str, str] = field(default_factory=dict)  # newer guard -> why it is not here


#: the newest version of a system comes first
SYSTEMS: tuple[System, ...] = (
    System(
        id="sglang",
        name="SGLang",
        version=sglang.VERSION,
        source="the wheel on PyPI, read 2026-11",
        server=True,
        guards=sglang.GUARDS,
    ),
    System(
        id="sglang",
        name="SGLang",
        version=sglang_0132848349.VERSION,
        source="the commit of 2026-08-27, from the wheels before and after it, read 2026-11",
        server=True,
        guards=sglang_0132848349.GUARDS,
        commit=AUGUST.commit,
        absent=ABSENT,
    ),
    System(
        id="flashinfer",
        name="FlashInfer",
        version=flashinfer.VERSION,
        source="the wheel on PyPI, Python and CUDA sources, read 2026-11",
        server=False,
        guards=flashinfer.GUARDS,
        functions=flashinfer.FUNCTIONS,
        dense="mm_mxfp8",
    ),
    System(
        id="torch",
        name="PyTorch",
        version=torch.VERSION,
        source=torch.SOURCE,
        server=False,
        guards=torch.GUARDS,
        functions=torch.FUNCTIONS,
        dense="scaled_mm",
    ),
    System(
        id="torchao",
        name="torchao",
        version=torchao.VERSION,
        source=torchao.SOURCE,
        server=False,
        guards=torchao.GUARDS,
        functions=torchao.FUNCTIONS,
        dense="MXDynamicActivationMXWeightConfig",
    ),
    *(
        System(
            id="vllm",
            name="vLLM",
            version=release.version,
            source=vllm.SOURCE,
            server=True,
            guards=vllm.guards(release),
            functions=vllm.FUNCTIONS,
            dense="init_mxfp8_linear_kernel",
        )
        for release in vllm.VERSIONS
    ),
    System(
        id="transformer_engine",
        name="Transformer Engine",
        version=transformer_engine.VERSION,
        source=transformer_engine.SOURCE,
        server=False,
        guards=transformer_engine.GUARDS,
        functions=transformer_engine.FUNCTIONS,
        dense="Linear",
    ),
    System(
        id="cublaslt",
        name="cuBLASLt",
        version=cublaslt.VERSION,
        source=cublaslt.SOURCE,
        server=False,
        guards=cublaslt.GUARDS,
        functions=cublaslt.FUNCTIONS,
        dense="cublasLtMatmul",
    ),
    *(
        System(
            id="deepgemm",
            name="DeepGEMM",
            version=release.version,
            source=release.source,
            server=False,
            guards=deepgemm.table(release),
            functions=deepgemm.FUNCTIONS,
            dense="fp8_gemm_nt",
        )
        for release in deepgemm.RELEASES
    ),
)


def system(id: str, version: str = "") -> System:
    """Return a system, its newest version unless one is named.

    An abbreviated commit, of 7 digits or more, names the version that is that commit. Raises
    InputError with the nearest names or versions. Source of the rows: ``System.source``.

    >>> system("sglang").version
    '0.5.23'
    >>> system("sglang", "0132848").version
    '0132848349'
    """
    choose("system", id, {row.id: row for row in SYSTEMS})
    versions = {row.version: row for row in SYSTEMS if row.id == id}
    if not version:
        return next(iter(versions.values()))
    commits = (row for row in versions.values() if is_commit(version, row.commit))
    return next(commits, None) or choose(f"{id} version", version, versions)


def all_guards() -> tuple[Guard, ...]:
    """Return every row of every system's newest version, systems in table order.

    >>> all_guards()[0].system
    'sglang'
    """
    newest = {row.id: row for row in reversed(SYSTEMS)}
    return tuple(
        guard for id in dict.fromkeys(row.id for row in SYSTEMS) for guard in newest[id].guards
    )
