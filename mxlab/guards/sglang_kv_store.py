"""SGLang's checks of K and V on their way into an MXFP8 cache (S8), and of who shares it (S1)."""

from mxlab.guards.engine import Finding, Guard, Status
from mxlab.guards.facts import Facts
from mxlab.guards.facts_steps import KvStoreFacts
from mxlab.guards.findings import judge, modulo, passes, skipped, stops
from mxlab.guards.rows import POOL, row
from mxlab.guards.settings import flag, number
from mxlab.guards.sglang_kv_cache import not_mxfp8_kv

_SF = "kernels/ops/kvcache/mxfp8_interleave_sf.py"
_CONFIGURATOR = "srt/mem_cache/kv_cache_configurator.py"


def store_of(facts: Facts) -> KvStoreFacts:
    """Return the store; the engine asks these guards only where there is one."""
    assert isinstance(facts.step, KvStoreFacts)
    return facts.step


def _for(facts: Facts, *functions: str) -> Finding | None:
    name = store_of(facts).function
    return None if name in functions else skipped(f"the function is {name}")


def v_head_dim(store: KvStoreFacts) -> int:
    """Return V's head size: K's, where none is given."""
    return store.head_dim if store.v_head_dim is None else store.v_head_dim


def _dcp(facts: Facts) -> Finding:
    mask = store_of(facts).dcp_mask
    return _for(facts, "set_kv_buffer") or judge(mask, f"a DCP mask is given: {mask}")


def _scales(facts: Facts) -> Finding:
    skip = _for(facts, "set_kv_buffer")
    if skip:
        return skip
    s = store_of(facts)
    if s.scales:
        return skipped("K and V come with their scales")
    because = f"no scales, K is {s.k_dtype}, page size {s.page_size}"
    return judge(s.page_size != 128 or s.k_dtype == "float8_e4m3fn", because)


def _given(facts: Facts) -> Finding | None:
    skip = _for(facts, "set_kv_buffer")
    if skip:
        return skip
    if not store_of(facts).scales:
        return skipped("K and V come without scales: the pool quantises them itself")
    return None


def _rows(facts: Facts) -> Finding:
    skip = _given(facts)
    if skip:
        return skip
    s, cuda = store_of(facts), facts.platform.cuda
    r, v = s.heads * s.head_dim, s.heads * v_head_dim(s)
    because = f"CUDA {cuda}, a store kernel for rows of {r} and {v} bytes: {s.store_kernel}"
    return judge(not (cuda and s.store_kernel), because, b=cuda, r=r, v=v)


def _interleaved(facts: Facts) -> Finding:
    page = store_of(facts).page_size
    return _given(facts) or judge(page != 128, f"page size {page}")


def _sf_page(facts: Facts) -> Finding:
    page = store_of(facts).page_size
    return _for(facts, "store_sf_interleaved") or judge(page != 128, f"page size {page}", p=page)


def _sf_dim(facts: Facts) -> Finding:
    skip = _for(facts, "store_sf_interleaved", "set_kv_buffer")
    if skip:
        return skip
    s = store_of(facts)
    if s.function == "set_kv_buffer" and not s.scales:
        return skipped("K and V come without scales: the pool quantises them itself")
    sizes = [s.head_dim // 32]
    if s.function == "set_kv_buffer":
        sizes.append(v_head_dim(s) // 32)
    bad = next((size for size in sizes if size != 4), None)
    because = f"scales a token and head: {sizes}"
    return passes(because) if bad is None else stops(because, d=bad)


def _fused(facts: Facts) -> Finding:
    skip = _for(facts, "quant_store_kv_mxfp8")
    if skip:
        return skip
    s = store_of(facts)
    because = (
        f"{modulo('head_dim', s.head_dim, 32)}, {modulo('page size', s.page_size, 32)}, last "
        f"stride {s.inner_stride}, cache contiguous {s.cache_contiguous}"
    )
    aligned = s.head_dim % 32 == 0 and s.page_size % 32 == 0
    if aligned and s.inner_stride == 1 and s.cache_contiguous:
        return passes(because)
    return Finding(Status.STOPS, because, message=None)


def _prefix_valid(facts: Facts) -> Finding:
    skip = _for(facts, "set_kv_buffer_prefix_valid", "set_kv_buffer")
    if skip:
        return skip
    name = store_of(facts).function
    return judge(name == "set_kv_buffer_prefix_valid", f"the function is {name}")


def _pd_tp(facts: Facts) -> Finding:
    skip = not_mxfp8_kv(facts)
    if skip:
        return skip
    d = facts.deployment
    peer = number(d.settings, "disaggregation-peer-attn-tp")
    own = d.tp // max(1, number(d.settings, "attn-dp-size"))
    if not peer:
        return skipped("no prefill and decode pair")
    because = f"attention TP {own} here, {peer} on the other side"
    return judge(peer != own, because, a=peer, b=own, list=["block_scale"])


def _linker(facts: Facts) -> Finding:
    on = flag(facts.deployment.settings, "external-linker")
    return not_mxfp8_kv(facts) or judge(on, f"direct external linker: {on}")


def _mtp_shard(facts: Facts) -> Finding:
    skip = not_mxfp8_kv(facts)
    if skip:
        return skip
    s = facts.deployment.settings
    mtp, shard = flag(s, "mtp-layers"), flag(s, "enable-kv-cache-sharding")
    return judge(mtp and shard, f"KV cache sharding {shard}, draft (MTP) layers {mtp}")


def _shard(facts: Facts) -> Finding:
    skip = not_mxfp8_kv(facts)
    if skip:
        return skip
    on = flag(facts.deployment.settings, "enable-kv-cache-sharding")
    return judge(on, f"--enable-kv-cache-sharding: {on}", pool="MHATokenToKVPoolMXFP8")


def _oot(facts: Facts) -> Finding:
    skip = not_mxfp8_kv(facts)
    if skip:
        return skip
    on = flag(facts.deployment.settings, "out-of-tree-platform")
    return judge(on, f"a plugin brings the device: {on}", c="the plugin's class", d="'its name'")


_FP8_KV = "--kv-cache-dtype fp8_e4m3"
_ANY_BLACKWELL = "Blackwell (kv-hw stops the rest)"

GUARDS: tuple[Guard, ...] = (
    row(
        "kv-dcp",
        "kv_store",
        "S8",
        "NotImplementedError",
        "MXFP8 KV cache does not support DCP KV masks.",
        _dcp,
        predicate="a mask of decode context parallelism is handed over",
        hardware=_ANY_BLACKWELL,
        meaning="Decode context parallelism writes only some tokens of a batch on each rank; the "
        "MXFP8 store has no mask.",
        fixes=("turn decode context parallelism off", _FP8_KV),
        source=f"{POOL}:3999",
        related=("kv-no-scales",),
    ),
    row(
        "kv-store-scales",
        "kv_store",
        "S8",
        "ValueError",
        "MXFP8 KV cache requires K and V scale tensors.",
        _scales,
        predicate="a scale is missing, and the page size is not 128 or K is FP8 already: "
        "kv-no-scales for a call of one's own",
        hardware=_ANY_BLACKWELL,
        meaning="Without scales the pool quantises K and V itself, from 16 bits, for pages of 128.",
        fixes=("--page-size 128", "hand over 16-bit K and V, or both scales"),
        source=f"{POOL}:4014",
        related=("kv-no-scales", "kv-store-rows"),
    ),
    row(
        "kv-store-rows",
        "kv_store",
        "S8",
        "AssertionError",
        "MXFP8 KV cache requires CUDA and store_cache-compatible rows, got _is_cuda={b}, "
        "row_bytes={r}, v_row_bytes={v}",
        _rows,
        predicate="not CUDA, or the JIT store kernel cannot be built for rows of heads x head_dim "
        "bytes",
        hardware="everything but NVIDIA GPUs",
        meaning="One kernel copies a token's K and V rows into their slots; it is compiled for the "
        "row's size when it is first needed.",
        fixes=(_FP8_KV, "look for the compiler's message above this one"),
        source=f"{POOL}:4036",
        related=("kv-store-page",),
    ),
    row(
        "kv-store-page",
        "kv_store",
        "S8",
        "AssertionError",
        "MXFP8 KV cache requires the page_size=128 interleaved scale layout",
        _interleaved,
        predicate="scales are handed over and the page size is not 128: kv-page128 for a call of "
        "one's own",
        hardware=_ANY_BLACKWELL,
        meaning="The flat layout of other page sizes is allocated and never written.",
        fixes=("--page-size 128",),
        source=f"{POOL}:4040",
        related=("kv-page128", "kv-sf-page"),
    ),
    row(
        "kv-sf-page",
        "kv_store",
        "S8",
        "AssertionError",
        "Interleaved SF layout requires page_size=128, got {p}",
        _sf_page,
        predicate="store_sf_interleaved with another page size than 128",
        hardware=_ANY_BLACKWELL,
        meaning="The kernel computes places inside a tile of 128 tokens.",
        fixes=("--page-size 128",),
        source=f"{_SF}:73",
        related=("kv-page128", "kv-sf-scales"),
    ),
    row(
        "kv-sf-scales",
        "kv_store",
        "S8",
        "AssertionError",
        "Expected sf_dim=4 (hdim=128, sf_vec_size=32), got {d}",
        _sf_dim,
        predicate="scales with another number a head than 4, that is head_dim other than 128: "
        "kv-sf-dim4 for a call of one's own",
        hardware=_ANY_BLACKWELL,
        meaning="Four scale bytes of one token and head make one word of the tile.",
        fixes=(_FP8_KV + " for models with another head_dim",),
        source=f"{_SF}:77",
        related=("kv-sf-dim4", "kv-sf-page"),
    ),
    row(
        "kv-fused-dims",
        "kv_store",
        "S8",
        "AssertionError",
        (),
        _fused,
        predicate="quant_store_kv_mxfp8 and head_dim % 32 != 0, page size % 32 != 0, a last stride "
        "other than 1, or a cache that is not contiguous",
        hardware=_ANY_BLACKWELL,
        meaning="The kernel that quantises and stores in one pass. The assertions have no text, "
        "and a head_dim of 64 or 256 gets past them (kv-sf-dim4).",
        fixes=("--page-size 128", "hand over the pool's own buffers"),
        source="kernels/ops/kvcache/mxfp8_quant_store_kv.py:93",
        related=("kv-sf-dim4", "kv-hd32"),
    ),
    row(
        "kv-prefix-valid",
        "kv_store",
        "S8",
        "NotImplementedError",
        "prefix-valid commit is unsupported for MXFP8 KV cache (it does not carry the scale "
        "buffers).",
        _prefix_valid,
        predicate="a commit of a valid prefix, which DFLASH and DSPARK style drafting uses",
        hardware=_ANY_BLACKWELL,
        meaning="That commit moves values only; the scales would stay behind.",
        fixes=("another speculative algorithm", _FP8_KV),
        source=f"{POOL}:4209",
        related=("kv-dcp",),
    ),
    row(
        "kv-oot",
        "server",
        "S7",
        "NotImplementedError",
        "Out-of-tree platform {c} (device {d}) reached the block-scaled (fp4 / mxfp8) KV pool, "
        "which has no platform seam yet and would otherwise build in-tree classes that assume "
        "CUDA.",
        _oot,
        predicate="--kv-cache-dtype mxfp8 on a device that a plugin brings",
        hardware="devices from plugins",
        meaning="The pool is written for CUDA, and a plugin cannot replace it yet.",
        fixes=("--kv-cache-dtype auto",),
        source=f"{_CONFIGURATOR}:1817",
        related=("kv-hw",),
    ),
    row(
        "kv-mtp-shard",
        "server",
        "S7",
        "ValueError",
        "MTP KV sharding requires the plain per-layer KV layout.",
        _mtp_shard,
        predicate="--enable-kv-cache-sharding with an MXFP8 cache and draft (MTP) layers",
        hardware=_ANY_BLACKWELL,
        meaning="Sharding moves rows of one buffer a layer; MXFP8 keeps scales in a second one.",
        fixes=("drop --enable-kv-cache-sharding", _FP8_KV),
        source=f"{_CONFIGURATOR}:1963",
        related=("kv-shard",),
    ),
    row(
        "kv-shard",
        "server",
        "S7",
        "AssertionError",
        "--enable-kv-cache-sharding is incompatible with the {pool} pool",
        _shard,
        predicate="--enable-kv-cache-sharding with an MXFP8 cache",
        hardware=_ANY_BLACKWELL,
        meaning="Only the pool of plain K and V buffers can be spread over ranks.",
        fixes=("drop --enable-kv-cache-sharding", _FP8_KV),
        source=f"{_CONFIGURATOR}:2764",
        related=("kv-mtp-shard",),
    ),
    row(
        "kv-pd-tp",
        "server",
        "S8",
        "RuntimeError",
        (
            "PD Disaggregation does NOT support different attention TP sizes with MXFP8 KV cache: "
            "prefill attn_tp_size={a}, decode attn_tp_size={b}, state types {list}.",
            "PD Disaggregation does NOT support PD different TP sizes for non-MLA BLOCK_SCALE "
            "hybrid models yet.",
        ),
        _pd_tp,
        predicate="prefill and decode servers of a pair have different attention TP sizes, and the "
        "cache is MXFP8 (the second text is NIXL's)",
        hardware=_ANY_BLACKWELL,
        meaning="Heads lie in whole scale tiles of a rank, and no transfer re-cuts them.",
        fixes=("the same attention TP size on both sides", _FP8_KV),
        source="srt/disaggregation/common/conn.py:1404, srt/disaggregation/nixl/conn.py:3199",
        related=("kv-linker",),
    ),
    row(
        "kv-linker",
        "server",
        "S8",
        "ValueError",
        "The direct external linker does not support scaled KV caches yet.",
        _linker,
        predicate="the direct external linker with an MXFP8 cache",
        hardware=_ANY_BLACKWELL,
        meaning="The linker hands out the buffers of values and would leave the scales behind.",
        fixes=("another KV connector", _FP8_KV),
        source="srt/mem_cache/hybrid_cache/linker_pool_assembler.py:471",
        related=("kv-pd-tp",),
    ),
)
