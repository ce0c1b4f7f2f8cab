"""SGLang's checks of HiCache with an MXFP8 cache: the pool in host memory (S7, S8)."""

from mxlab.guards.engine import Finding, Guard
from mxlab.guards.facts import Facts
from mxlab.guards.facts_steps import HostPoolFacts
from mxlab.guards.findings import judge, passes, skipped, stops
from mxlab.guards.rows import row

_MXFP8 = "srt/mem_cache/pool_host/mha_mxfp8.py"
_MHA = "srt/mem_cache/pool_host/mha.py"


def pool_of(facts: Facts) -> HostPoolFacts:
    """Return the host pool; the engine asks these guards only where there is one."""
    assert isinstance(facts.step, HostPoolFacts)
    return facts.step


def _mxfp8(facts: Facts) -> Finding | None:
    """The pool is the one for MXFP8."""
    if pool_of(facts).mxfp8:
        return None
    return skipped("the device's scales are not interleaved: the pool of plain K and V heads")


def _asym(facts: Facts) -> Finding:
    p = pool_of(facts)
    because = f"head_dim {p.head_dim}, v_head_dim {p.v_head_dim}"
    return _mxfp8(facts) or judge(p.head_dim != p.v_head_dim, because)


def _layout(facts: Facts) -> Finding:
    layout = pool_of(facts).layout
    bad = layout != "page_first"
    return _mxfp8(facts) or judge(bad, f"host layout {layout}", layout=repr(layout))


def _draft(facts: Facts) -> Finding:
    draft = pool_of(facts).draft
    return _mxfp8(facts) or judge(draft, f"draft (MTP) layers: {draft}")


def _il(facts: Facts) -> Finding:
    scales = pool_of(facts).scales
    return _mxfp8(facts) or judge(scales != "interleaved", f"device scales: {scales}")


def _page(facts: Facts) -> Finding:
    p = pool_of(facts)
    because = f"pages of {p.page_size} on the host, {p.device_page_size} on the device"
    bad = p.page_size != p.device_page_size
    return _mxfp8(facts) or judge(bad, because, a=p.page_size, b=p.device_page_size)


def _jit(facts: Facts) -> Finding:
    there = pool_of(facts).staged_kernel
    because = f"the staged write-back kernel can be built for these sizes: {there}"
    return _mxfp8(facts) or judge(not there, because)


def _io(facts: Facts) -> Finding:
    backend = pool_of(facts).io_backend
    bad = backend != "kernel"
    return _mxfp8(facts) or judge(bad, f"io backend {backend}", b=repr(backend))


def _l3(facts: Facts) -> Finding:
    storage = pool_of(facts).storage
    return _mxfp8(facts) or judge(storage, f"a storage tier behind host memory: {storage}")


def _flat(facts: Facts) -> Finding:
    p = pool_of(facts)
    if p.mxfp8:
        return skipped("the device's scales are interleaved: the MXFP8 host pool")
    if p.scales == "token":
        return stops("device scales: one a token", layout="'token'", label="kv")
    return passes(f"device scales: {p.scales}")


_SM100 = "SM100, SM103 (the MXFP8 KV cache has to get this far)"
_WITHOUT = "drop --enable-hierarchical-cache"
_PLAIN = "--kv-cache-dtype fp8_e4m3"

GUARDS: tuple[Guard, ...] = (
    row(
        "kv-hicache-asym",
        "host_pool",
        "S7",
        "NotImplementedError",
        "MXFP8 HiCache does not support asymmetric K/V head dimensions yet.",
        _asym,
        predicate="head_dim != v_head_dim",
        hardware=_SM100,
        meaning="The host pool has one size for K's and V's rows.",
        fixes=(_WITHOUT, _PLAIN),
        source=f"{_MHA}:1690",
        related=("kv-hicache-layout",),
    ),
    row(
        "kv-hicache-layout",
        "host_pool",
        "S7",
        "NotImplementedError",
        "MXFP8 KV host pool supports only the page_first layout, got {layout}.",
        _layout,
        predicate="--hicache-mem-layout is not page_first",
        hardware=_SM100,
        meaning="Scales move with whole pages, so the host keeps pages together.",
        fixes=("--hicache-mem-layout page_first",),
        source=f"{_MXFP8}:58",
        related=("kv-hicache-jit",),
    ),
    row(
        "kv-hicache-draft",
        "host_pool",
        "S7",
        "NotImplementedError",
        (
            "MXFP8 KV host pool does not pack MTP draft KV layers.",
            "MXFP8 KV host pool has no draft layers.",
        ),
        _draft,
        predicate="the model has draft (MTP) layers with a KV cache",
        hardware=_SM100,
        meaning="The host pool packs the model's own layers only.",
        fixes=("serve without the draft layers", _WITHOUT),
        source=f"{_MXFP8}:62,217",
        related=("kv-hicache-layout",),
    ),
    row(
        "kv-hicache-il",
        "host_pool",
        "S7",
        "NotImplementedError",
        "MXFP8 KV host pool requires the interleaved (page_size=128) scale layout.",
        _il,
        predicate="the device's scales are not interleaved",
        hardware=_SM100,
        meaning="A page's scales move as whole 128x4 tiles.",
        fixes=("--page-size 128",),
        source=f"{_MXFP8}:70",
        related=("kv-page128", "kv-host-flat"),
    ),
    row(
        "kv-hicache-page",
        "host_pool",
        "S7",
        "ValueError",
        "MXFP8 KV host pool moves scales per page, so the host page size ({a}) must equal the "
        "device page size ({b}).",
        _page,
        predicate="the page sizes of host and device differ",
        hardware=_SM100,
        meaning="A page's scales are one tile; half of it cannot be moved.",
        fixes=("--page-size 128",),
        source=f"{_MXFP8}:97",
        related=("kv-hicache-il",),
    ),
    row(
        "kv-hicache-jit",
        "host_pool",
        "S7",
        "NotImplementedError",
        "MXFP8 KV host pool needs the staged JIT write-back kernel (io_backend='kernel', "
        "page_first layout, CUDA or HIP).",
        _jit,
        predicate="the write-back kernel cannot be built for the rows of values or scales",
        hardware=_SM100,
        meaning="Pages go to the host through a staging buffer, with a kernel compiled for the "
        "size of a row.",
        fixes=("--hicache-io-backend kernel --hicache-mem-layout page_first", _WITHOUT),
        source=f"{_MXFP8}:103",
        related=("kv-hicache-layout", "kv-hicache-io"),
    ),
    row(
        "kv-hicache-io",
        "host_pool",
        "S8",
        "NotImplementedError",
        "MXFP8 KV host pool supports only io_backend='kernel', got {b}.",
        _io,
        predicate="--hicache-io-backend is not kernel",
        hardware=_SM100,
        meaning="Only the kernel that copies pages knows about scales.",
        fixes=("--hicache-io-backend kernel",),
        source=f"{_MXFP8}:178,219",
        related=("kv-hicache-jit",),
    ),
    row(
        "kv-hicache-l3",
        "host_pool",
        "S8",
        "NotImplementedError",
        "MXFP8 KV host pool does not expose flat storage (L3) pages yet: a page's UE8M0 scales "
        "live outside kv_buffer.",
        _l3,
        predicate="a storage tier behind host memory (--hicache-storage-backend)",
        hardware=_SM100,
        meaning="A page that goes to storage would leave its scales behind.",
        fixes=("drop --hicache-storage-backend", _PLAIN),
        source=f"{_MXFP8}:256",
        related=("kv-hicache-io",),
    ),
    row(
        "kv-host-flat",
        "host_pool",
        "S7",
        "ValueError",
        "{label}: MHA host transfers do not support KV scale layout {layout}.",
        _flat,
        predicate="the pool of plain K and V heads, and a device cache with scales a token (pages "
        "other than 128)",
        hardware=_SM100,
        meaning="The flat scale layout exists on the device only.",
        fixes=("--page-size 128", _WITHOUT),
        source=f"{_MHA}:162",
        related=("kv-hicache-il",),
    ),
)
