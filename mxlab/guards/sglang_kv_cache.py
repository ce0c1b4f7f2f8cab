"""SGLang's checks of an MXFP8 KV cache: arguments, allocation, store (S1, S7, S8)."""

import re

from mxlab.guards.engine import Finding, Guard, Status
from mxlab.guards.facts import Facts, KvCacheFacts
from mxlab.guards.findings import judge, modulo, multiples, passes, skipped, stops
from mxlab.guards.platform import env_flag
from mxlab.guards.rows import POOL, row
from mxlab.guards.runner import MINIMAX_M3
from mxlab.guards.settings import setting

_HOOK = "srt/arg_groups/kv_cache_hook.py"
INKLING = ("InklingForConditionalGeneration", "InklingForConditionalGenerationMTP")


def kv_of(facts: Facts) -> KvCacheFacts:
    """Return the cache; the engine asks these guards only where there is one."""
    assert facts.kv_cache is not None
    return facts.kv_cache


def not_mxfp8_kv(facts: Facts) -> Finding | None:
    """Return not-reached unless the KV cache is MXFP8 and holds K and V heads."""
    dtype = facts.deployment.kv_cache_dtype
    if dtype != "mxfp8":
        return skipped(f"--kv-cache-dtype is {dtype}, not mxfp8")
    if facts.kv_cache is not None and facts.kv_cache.mla:
        return skipped("MLA keeps a latent, not K and V heads: another pool")
    return None


def attention_backends(facts: Facts) -> tuple[str, str]:
    """Return (prefill, decode) attention backend: the flags, or SGLang's default.

    Source: sglang 0.5.23, srt/arg_groups/model_override_base.py, MHA models without speculation;
    model_overrides/inkling.py, minimax_m3.py.
    """
    d, p = facts.deployment, facts.platform
    if d.architecture in INKLING:
        default = "fa4" if p.sm90 or p.sm100 else "triton"
    elif d.architecture in MINIMAX_M3 and (p.hip or p.sm100):
        fp8 = d.kv_cache_dtype == "fp8_e4m3"
        default = "triton" if p.hip else "trtllm_mha" if fp8 else "fa4"
    elif p.sm90:
        default = "fa3"
    elif p.sm100:
        kv = facts.kv_cache
        default = "fa4" if kv and kv.head_dim != kv.v_head_dim else "trtllm_mha"
    elif p.hip:
        default = "aiter"
    else:
        default = "flashinfer" if p.flashinfer else "triton"
    both = d.attention_backend or default
    return d.prefill_attention_backend or both, d.decode_attention_backend or both


def fa4_forces_page(facts: Facts) -> bool:
    """Tell whether SGLang sets the page size to 128 because FA4 is one of the three backends."""
    d = facts.deployment
    named = (d.attention_backend, d.prefill_attention_backend, d.decode_attention_backend)
    mla = facts.kv_cache is not None and facts.kv_cache.mla
    few = (d.speculative_eagle_topk or 0) <= 1
    return (
        "fa4" in (*named, *attention_backends(facts)) and not mla and facts.platform.sm100 and few
    )


def page_size(facts: Facts) -> int:
    """Return the page size after SGLang's rewrites: FA4 forces 128, the default is 1."""
    if fa4_forces_page(facts):
        return 128
    page = facts.deployment.page_size
    if page is None and facts.deployment.architecture in MINIMAX_M3:
        page = 128 if set(attention_backends(facts)) & {"fa3", "fa4", "trtllm_mha"} else None
    if "trtllm_mha" in attention_backends(facts) and page not in (16, 32, 64, 128):
        return 64
    return 1 if page is None else page


def scales_given(facts: Facts) -> bool:
    """Tell whether the layer hands over scales (else the pool quantises in its fused store)."""
    name = "SGLANG_OPT_INKLING_MXFP8_FUSED_QUANT_STORE"
    return not env_flag(facts.deployment.env, name, default=True)


def _hw(facts: Facts) -> Finding:
    if facts.deployment.kv_cache_dtype != "mxfp8":
        return skipped(f"--kv-cache-dtype is {facts.deployment.kv_cache_dtype}, not mxfp8")
    p = facts.platform
    because = (
        f"{p.gpu.label}: capability {p.capability}, Blackwell with CUDA >= 12.8: {p.blackwell}"
    )
    return judge(not p.blackwell, because)


def _fa4_page(facts: Facts) -> Finding:
    named = attention_backends(facts)
    page = facts.deployment.page_size
    if not fa4_forces_page(facts):
        if "fa4" not in (*named, facts.deployment.attention_backend):
            return skipped(f"the attention backend is {' / '.join(dict.fromkeys(named))}, not fa4")
        if page == 128:
            return passes("--page-size is 128")
        return passes("not forced: MLA, EAGLE top-k > 1, or not the SM100 family")
    if page is None and facts.deployment.architecture in MINIMAX_M3:
        page = 128  # set by the architecture's own rule before
    because = f"--page-size {'not given' if page is None else page} becomes 128"
    if page == 128:
        because = "--page-size is 128 already; the line is logged all the same"
    return Finding(Status.WARNS, because, {"p": page}, notice=page == 128)


def _heads(facts: Facts) -> list[tuple[str, str, int]]:
    """Return (kind, name, size) of the heads in the order in which pools are built."""
    kv = kv_of(facts)
    sizes = [("hd", "head_dim", kv.head_dim), ("vhd", "v_head_dim", kv.v_head_dim)]
    if kv.swa_head_dim is None:
        return sizes
    v = kv.swa_head_dim if kv.swa_v_head_dim is None else kv.swa_v_head_dim
    window = [("hd", "head_dim (window)", kv.swa_head_dim), ("vhd", "v_head_dim (window)", v)]
    return window + sizes


def _head(kind: str, facts: Facts) -> Finding:
    skip = not_mxfp8_kv(facts)
    if skip:
        return skip
    heads = _heads(facts)
    shown = ", ".join(modulo(name, size, 32) for its, name, size in heads if its == kind)
    for its, name, size in heads:
        if size % 32 == 0:
            continue
        if its == kind:
            near = f"; nearest legal size {multiples(size, 32)}"
            return judge(True, modulo(name, size, 32) + near, **{kind: size})
        if any(size % 32 for other, _, size in heads if other == kind):
            return skipped(f"{modulo(name, size, 32)}: kv-{its}32 comes first")
    return passes(shown)


def _slots(facts: Facts) -> tuple[Finding | None, int, int]:
    """Return (not-reached or None, token slots, page size)."""
    skip = not_mxfp8_kv(facts)
    size, page = kv_of(facts).size, page_size(facts)
    if skip is None and size is None:
        skip = passes(f"the pool's size is not given: whole pages of {page}")
    return skip, size or 0, page


def _hnd_page(facts: Facts) -> Finding:
    skip, size, page = _slots(facts)
    if skip:
        return skip
    if not env_flag(facts.deployment.env, "SGLANG_USE_HND_KVCACHE"):
        return skipped("SGLANG_USE_HND_KVCACHE is not set")
    because = f"{modulo('size + page', size + page, page)}, size {size}, page {page}"
    return judge((size + page) % page != 0, because, s=size, p=page)


def _page_div(facts: Facts) -> Finding:
    skip, size, page = _slots(facts)
    if skip:
        return skip
    if page != 128:
        return skipped(f"page size {page}: scales are not interleaved")
    because = modulo("size + page", size + page, page)
    if (size + page) % page == 0:
        return passes(because)
    return Finding(Status.STOPS, because, message=None)


def _e8m0(facts: Facts) -> Finding:
    skip = not_mxfp8_kv(facts)
    if skip:
        return skip
    version = str(setting(facts.deployment.settings, "torch"))
    numbers = re.match(r"(\d{1,3})\.(\d{1,3})", version)
    if numbers is None:
        return passes("the torch that SGLang pins has float8_e8m0fnu")
    bad = (int(numbers[1]), int(numbers[2])) < (2, 7)
    return judge(bad, f"torch {version}; float8_e8m0fnu came with 2.7")


def _hnd(facts: Facts) -> Finding:
    skip = not_mxfp8_kv(facts)
    if skip:
        return skip
    on = env_flag(facts.deployment.env, "SGLANG_USE_HND_KVCACHE")
    return judge(on, f"SGLANG_USE_HND_KVCACHE is {'set' if on else 'not set'}")


def _page128(facts: Facts) -> Finding:
    skip = not_mxfp8_kv(facts)
    if skip:
        return skip
    page = page_size(facts)
    because = f"page size {page}"
    if page == 128:
        return passes(f"{because}: scales are stored interleaved")
    if facts.deployment.page_size is None:
        because += " (the default here)"
    return stops(f"{because} != 128: the flat scale layout can be allocated but never written")


def _no_scales(facts: Facts) -> Finding:
    skip = not_mxfp8_kv(facts)
    if skip:
        return skip
    if scales_given(facts):
        return skipped("the layer hands over its scales")
    page = page_size(facts)
    because = f"no scales from the layer, page size {page}: the fused store needs 128"
    return judge(page != 128, because)


def _sf_dim4(facts: Facts) -> Finding:
    skip = not_mxfp8_kv(facts)
    if skip:
        return skip
    kv, page = kv_of(facts), page_size(facts)
    sizes = f"head_dim / 32 = {kv.head_dim // 32}, v_head_dim / 32 = {kv.v_head_dim // 32}"
    bad = [size // 32 for size in (kv.head_dim, kv.v_head_dim) if size // 32 != 4]
    if kv.head_dim % 32 or kv.v_head_dim % 32:
        return skipped(f"{sizes}: kv-hd32 or kv-vhd32 stops the allocation first")
    if page != 128:
        flat = facts.platform.release.flat_pages
        why = "flat scales, of any head size" if flat else "kv-page128 comes first"
        return skipped(f"page size {page}: {why}")
    if not bad:
        return passes(f"{sizes}: four scales a token and head")
    if scales_given(facts):
        return stops(f"{sizes}, not 4", sf_dim=bad[0])
    after = "only moving or restoring the cache would raise"
    if kv.v_head_dim // 32 % 2:
        after = "FA4 then does not compile (fa4-v-even)"
    text = (
        f"{sizes}, not 4: the fused store writes an order that the attention kernel does not read; "
        f"{after}"
    )
    return Finding(Status.SILENT, text, {"sf_dim": bad[0]})


GUARDS: tuple[Guard, ...] = (
    row(
        "kv-hw",
        "server",
        "S1",
        "ValueError",
        "--kv-cache-dtype mxfp8 requires an SM100+ (Blackwell) GPU for the block-scaled operands "
        "used by the FA4 MXFP8 attention path.",
        _hw,
        predicate="--kv-cache-dtype mxfp8 and not Blackwell (SM100 to SM121) with CUDA >= 12.8",
        hardware="everything but Blackwell",
        meaning="The attention kernel multiplies block-scaled operands, which only Blackwell can. "
        "SM110, SM120 and SM121 pass here and fail at the first forward (fa4-fp8-arch).",
        fixes=("--kv-cache-dtype fp8_e4m3", "a B200, GB200, B300 or GB300"),
        source=f"{_HOOK}:106",
        related=("fa4-fp8-arch", "kv-page128"),
    ),
    row(
        "kv-fa4-page",
        "server",
        "S1",
        "warning",
        "FA4 backend only supports page size 128 for non-MLA model architectures, changing "
        "page_size from {p} to 128.",
        _fa4_page,
        predicate="fa4 is one of the three attention backends, not MLA, the SM100 family, EAGLE "
        "top-k <= 1; said even where the page size is 128 already",
        hardware="SM100, SM103",
        meaning="FA4 fixes the page size; your --page-size is overruled.",
        fallback="goes on with page size 128",
        fixes=("--page-size 128 says the same; the notice stays",),
        source="srt/arg_groups/overrides.py:1294",
        related=("kv-page128",),
    ),
    row(
        "kv-hnd-page",
        "kv_cache",
        "S7",
        "AssertionError",
        "HND KV cache needs (size+page_size) divisible by page_size, got size={s}, page_size={p}",
        _hnd_page,
        predicate="SGLANG_USE_HND_KVCACHE is set and the pool has no whole number of pages; comes "
        "before the checks of head sizes",
        hardware="Blackwell (kv-hw stops the rest)",
        meaning="A head-major cache is cut into whole pages.",
        fixes=("unset SGLANG_USE_HND_KVCACHE",),
        source=f"{POOL}:2261",
        related=("kv-hnd", "kv-page-div"),
    ),
    row(
        "kv-hd32",
        "kv_cache",
        "S7",
        "ValueError",
        "MXFP8 KV cache requires head_dim divisible by 32, got {hd}.",
        lambda facts: _head("hd", facts),
        predicate="head_dim % 32 != 0",
        hardware="Blackwell (kv-hw stops the rest)",
        meaning="K of one head must be a whole number of 32-blocks. The weights are loaded by now.",
        fixes=("--kv-cache-dtype fp8_e4m3: this model cannot have an MXFP8 KV cache",),
        source=f"{POOL}:3879",
        related=("kv-vhd32", "kv-sf-dim4"),
    ),
    row(
        "kv-vhd32",
        "kv_cache",
        "S7",
        "ValueError",
        "MXFP8 KV cache requires v_head_dim divisible by 32, got {vhd}.",
        lambda facts: _head("vhd", facts),
        predicate="v_head_dim % 32 != 0",
        hardware="Blackwell (kv-hw stops the rest)",
        meaning="V of one head must be a whole number of 32-blocks. The weights are loaded by now.",
        fixes=("--kv-cache-dtype fp8_e4m3: this model cannot have an MXFP8 KV cache",),
        source=f"{POOL}:3884",
        related=("kv-hd32",),
    ),
    row(
        "kv-e8m0",
        "kv_cache",
        "S7",
        "RuntimeError",
        "MXFP8 KV cache requires torch.float8_e8m0fnu support.",
        _e8m0,
        predicate="torch before 2.7, which has no float8_e8m0fnu",
        meaning="The scale buffers have that dtype. The torch that SGLang pins has it.",
        fixes=("the torch version that SGLang pins",),
        source=f"{POOL}:3889",
        related=("kv-hd32",),
    ),
    row(
        "kv-hnd",
        "kv_cache",
        "S7",
        "ValueError",
        "MXFP8 KV cache does not support SGLANG_USE_HND_KVCACHE.",
        _hnd,
        predicate="the environment variable is set",
        meaning="The MXFP8 pool keeps slot, head, head_dim order and no other.",
        fixes=("unset SGLANG_USE_HND_KVCACHE",),
        source=f"{POOL}:3893",
        related=("kv-hd32",),
    ),
    row(
        "kv-page-div",
        "kv_cache",
        "S7",
        "AssertionError",
        (),
        _page_div,
        predicate="page size 128 and (size + 128) % 128 != 0",
        hardware="Blackwell (kv-hw stops the rest)",
        meaning="Interleaved scales come in whole pages. The assertion has no text; SGLang's own "
        "sizing rounds to whole pages.",
        fixes=("--max-total-tokens a multiple of 128",),
        source=f"{POOL}:3920",
        related=("kv-hnd-page", "kv-page128"),
    ),
    row(
        "kv-no-scales",
        "kv_cache",
        "S8",
        "ValueError",
        "MXFP8 KV cache requires K and V scale tensors.",
        _no_scales,
        predicate="the layer gives no scales, and the page size is not 128 or K is FP8 already",
        hardware="Blackwell (kv-hw stops the rest)",
        meaning="Without scales from the layer, the pool quantises K and V itself, and it can do "
        "that for pages of 128 only. With the default settings this is the text that a wrong page "
        "size gives.",
        fixes=("--page-size 128",),
        source=f"{POOL}:4014",
        related=("kv-page128",),
    ),
    row(
        "kv-page128",
        "kv_cache",
        "S8",
        "AssertionError",
        "MXFP8 KV cache requires the page_size=128 interleaved scale layout",
        _page128,
        predicate="scales are written and the page size is not 128",
        hardware="Blackwell (kv-hw stops the rest)",
        meaning="One page of 128 tokens and one head is exactly one 128x4 scale tile. Other page "
        "sizes are allocated without a complaint and fail at the first token.",
        fixes=("--page-size 128", "--attention-backend fa4, which sets it on SM100"),
        source=f"{POOL}:4040",
        related=("kv-no-scales", "kv-fa4-page", "kv-sf-dim4"),
    ),
    row(
        "kv-sf-dim4",
        "kv_cache",
        "S8",
        "AssertionError",
        "Expected sf_dim=4 (hdim=128, sf_vec_size=32), got {sf_dim}",
        _sf_dim4,
        predicate="head_dim / 32 != 4, that is head_dim != 128, on the store that takes scales and "
        "when the cache is moved or restored",
        hardware="Blackwell (kv-hw stops the rest)",
        meaning="Only head_dim 128 gives the 128x4 tile that the attention kernel reads. The fused "
        "store, which is the default, does not look: the result is wrong in silence.",
        fallback="with the fused store: goes on with a layout nobody reads correctly",
        fixes=("--kv-cache-dtype fp8_e4m3 for models with another head_dim",),
        source="kernels/ops/kvcache/mxfp8_interleave_sf.py:77",
        related=("kv-hd32", "kv-page128"),
    ),
)
