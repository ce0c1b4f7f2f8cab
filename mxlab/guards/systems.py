"""The systems whose guards are tables here: serving engines and the libraries that they call."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, partial

from mxlab.errors import choose
from mxlab.guards.engine import Guard
from mxlab.guards.releases import is_commit


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
    load: Callable[[], tuple[Guard, ...]]  # its rows, in the order in which it meets them
    functions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    dense: str = ""  # of a library: the function that multiplies one dense MXFP8 linear
    commit: str = ""  # whole hash, where the version is a commit and not a release
    why_absent: Callable[[], Mapping[str, str]] = dict

    @property
    def guards(self) -> tuple[Guard, ...]:
        """Its rows, in the order in which it meets them."""
        return _loaded(self.load)

    @property
    def absent(self) -> Mapping[str, str]:
        """A newer version's guard -> why it is not here."""
        return self.why_absent()


@cache
def _loaded(load: Callable[[], tuple[Guard, ...]]) -> tuple[Guard, ...]:
    return load()


def _august() -> tuple[Guard, ...]:
    from mxlab.guards import sglang_0132848349

    return sglang_0132848349.GUARDS


def _not_in_august() -> Mapping[str, str]:
    from mxlab.guards.sglang_0132848349_sources import ABSENT

    return ABSENT


def _sglang() -> tuple[System, ...]:
    from mxlab.guards import sglang
    from mxlab.guards.releases import AUGUST

    return (
        System(
            id="sglang",
            name="SGLang",
            version=sglang.VERSION,
            source="the wheel on PyPI, read 2026-11",
            server=True,
            load=lambda: sglang.GUARDS,
        ),
        System(
            id="sglang",
            name="SGLang",
            version=AUGUST.version,
            source="the commit of 2026-08-27, from the wheels before and after it, read 2026-11",
            server=True,
            load=_august,
            commit=AUGUST.commit,
            why_absent=_not_in_august,
        ),
    )


def _flashinfer() -> tuple[System, ...]:
    from mxlab.guards import flashinfer

    return (
        System(
            id="flashinfer",
            name="FlashInfer",
            version=flashinfer.VERSION,
            source="the wheel on PyPI, Python and CUDA sources, read 2026-11",
            server=False,
            load=lambda: flashinfer.GUARDS,
            functions=flashinfer.FUNCTIONS,
            dense="mm_mxfp8",
        ),
    )


def _torch() -> tuple[System, ...]:
    from mxlab.guards import torch

    return (
        System(
            id="torch",
            name="PyTorch",
            version=torch.VERSION,
            source=torch.SOURCE,
            server=False,
            load=lambda: torch.GUARDS,
            functions=torch.FUNCTIONS,
            dense="scaled_mm",
        ),
    )


def _torchao() -> tuple[System, ...]:
    from mxlab.guards import torchao

    return (
        System(
            id="torchao",
            name="torchao",
            version=torchao.VERSION,
            source=torchao.SOURCE,
            server=False,
            load=lambda: torchao.GUARDS,
            functions=torchao.FUNCTIONS,
            dense="MXDynamicActivationMXWeightConfig",
        ),
    )


def _vllm() -> tuple[System, ...]:
    from mxlab.guards import vllm

    return (
        *(
            System(
                id="vllm",
                name="vLLM",
                version=release.version,
                source=vllm.SOURCE,
                server=True,
                load=partial(vllm.guards, release),
                functions=vllm.FUNCTIONS,
                dense="init_mxfp8_linear_kernel",
            )
            for release in vllm.VERSIONS
        ),
    )


def _transformer_engine() -> tuple[System, ...]:
    from mxlab.guards import transformer_engine

    return (
        System(
            id="transformer_engine",
            name="Transformer Engine",
            version=transformer_engine.VERSION,
            source=transformer_engine.SOURCE,
            server=False,
            load=lambda: transformer_engine.GUARDS,
            functions=transformer_engine.FUNCTIONS,
            dense="Linear",
        ),
    )


def _cublaslt() -> tuple[System, ...]:
    from mxlab.guards import cublaslt

    return (
        System(
            id="cublaslt",
            name="cuBLASLt",
            version=cublaslt.VERSION,
            source=cublaslt.SOURCE,
            server=False,
            load=lambda: cublaslt.GUARDS,
            functions=cublaslt.FUNCTIONS,
            dense="cublasLtMatmul",
        ),
    )


def _triton() -> tuple[System, ...]:
    from mxlab.guards import triton

    return (
        *(
            System(
                id="triton",
                name="Triton",
                version=release.version,
                source=triton.SOURCE,
                server=False,
                load=partial(triton.guards, release),
                functions=triton.FUNCTIONS,
                dense="matmul_kernel",
            )
            for release in triton.VERSIONS
        ),
    )


def _deepgemm() -> tuple[System, ...]:
    from mxlab.guards import deepgemm

    return (
        *(
            System(
                id="deepgemm",
                name="DeepGEMM",
                version=release.version,
                source=release.source,
                server=False,
                load=partial(deepgemm.table, release),
                functions=deepgemm.FUNCTIONS,
                dense="fp8_gemm_nt",
            )
            for release in deepgemm.RELEASES
        ),
    )


#: id -> its versions, the newest first; a table is imported when it is first asked for, because
#: most commands need one of them
_LOADERS: Mapping[str, Callable[[], tuple[System, ...]]] = {
    "sglang": _sglang,
    "flashinfer": _flashinfer,
    "torch": _torch,
    "torchao": _torchao,
    "vllm": _vllm,
    "transformer_engine": _transformer_engine,
    "cublaslt": _cublaslt,
    "triton": _triton,
    "deepgemm": _deepgemm,
}
IDS = tuple(_LOADERS)

SYSTEMS: tuple[System, ...]  # every version of every system, loaded by __getattr__


@cache
def versions(id: str) -> tuple[System, ...]:
    """Return the versions of a system, the newest first.

    >>> [known.version for known in versions("sglang")]
    ['0.5.23', '0132848349']
    """
    return choose("system", id, _LOADERS)()


def __getattr__(name: str) -> object:
    if name != "SYSTEMS":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return tuple(known for id in IDS for known in versions(id))


def system(id: str, version: str = "") -> System:
    """Return a system, its newest version unless one is named.

    An abbreviated commit, of 7 digits or more, names the version that is that commit. Raises
    InputError with the nearest names or versions. Source of the rows: ``System.source``.

    >>> system("sglang").version
    '0.5.23'
    >>> system("sglang", "0132848").version
    '0132848349'
    """
    choose("system", id, _LOADERS)
    known = {row.version: row for row in versions(id.lower())}
    if not version:
        return next(iter(known.values()))
    commits = (row for row in known.values() if is_commit(version, row.commit))
    return next(commits, None) or choose(f"{id} version", version, known)


def all_guards() -> tuple[Guard, ...]:
    """Return every row of every system's newest version, systems in table order.

    >>> all_guards()[0].system
    'sglang'
    """
    return tuple(guard for id in IDS for guard in versions(id)[0].guards)


@cache
def _rows(id: str, version: str) -> Mapping[str, Guard]:
    return {row.id: row for row in system(id, version).guards}


def find_guard(id: object) -> Guard:
    """Return the row called ``id`` of any system, or raise InputError with the nearest ids.

    Where versions of a system share an id, the row is the newest one's.
    """
    if isinstance(id, str):
        for name in IDS:  # what comes after the row is not imported
            for known in versions(name):
                if id in (rows := _rows(name, known.version)):
                    return rows[id]
    every = [_rows(name, known.version) for name in IDS for known in reversed(versions(name))]
    return choose("guard", id, {key: row for rows in every for key, row in rows.items()})
