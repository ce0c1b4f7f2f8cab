"""The checks inside FA4 over an MXFP8 cache (S8): architecture, scales, dtypes, what it lacks."""

from mxlab.guards.engine import Finding, Guard, Status
from mxlab.guards.facts import Facts
from mxlab.guards.facts_steps import AttentionFacts
from mxlab.guards.findings import judge, modulo, passes, silent, skipped, stops
from mxlab.guards.rows import row

_INTERFACE = "kernels/ops/attention/flash_attn/cute/interface.py"
_KERNEL = "kernels/ops/attention/flash_attn/cute/flash_fwd_sm100.py"
_V4 = "kernels/ops/attention/flash_attention_v4.py"
_SM100 = "SM100, SM103"
_E4M3, _E8M0 = "float8_e4m3fn", "float8_e8m0fnu"


def attention_of(facts: Facts) -> AttentionFacts:
    """Return the call; the engine asks these guards only where there is one."""
    assert isinstance(facts.step, AttentionFacts)
    return facts.step


def _arch(facts: Facts) -> Finding:
    cap = facts.platform.capability if facts.platform.cuda else None
    because = f"{facts.platform.gpu.label}: capability {cap}"
    if cap is None or cap // 10 not in (8, 9, 10, 11):
        return stops(because)
    scaled = attention_of(facts).sfq_dtype is not None
    return judge(scaled and cap // 10 not in (10, 11), because, 1)


def _paged_v(facts: Facts) -> Finding:
    a = attention_of(facts)
    if a.page_size is None or a.sfq_dtype is None:
        return skipped("no paged cache, or Q has no scales")
    return judge(a.sfv_dtype is None, f"scales of V: {a.sfv_dtype}")


def _pair(facts: Facts) -> Finding:
    a = attention_of(facts)
    because = f"scales of Q: {a.sfq_dtype}, of K: {a.sfk_dtype}"
    return judge((a.sfq_dtype is None) != (a.sfk_dtype is None), because)


def _vec(facts: Facts) -> Finding:
    a = attention_of(facts)
    if a.sf_vec_size is not None:
        return passes(f"scales for {a.sf_vec_size} values are named")
    for which, dtype in ((0, a.sfq_dtype), (1, a.sfv_dtype)):
        if dtype not in (None, _E8M0):
            return stops(f"scales {dtype}: 32 is filled in for {_E8M0} only", which)
    return passes("scales are E8M0, so 32 is filled in")


def _dtypes(facts: Facts) -> Finding:
    a = attention_of(facts)
    because = (
        f"Q {a.q_dtype}, K {a.k_dtype}, V {a.v_dtype}; scales {a.sfq_dtype}, {a.sfk_dtype}, "
        f"{a.sfv_dtype}"
    )
    if a.sfq_dtype is None and a.sfv_dtype is None:
        return skipped("no scales are handed over")
    wrong = (
        (a.sfv_dtype is not None and a.v_dtype != _E4M3, 5),
        (a.sfv_dtype not in (None, _E8M0), 4),
        (a.sfq_dtype is not None and a.q_dtype != _E4M3, 0),
        (a.sfq_dtype is not None and a.q_dtype != a.k_dtype, 1),
        (a.sfq_dtype not in (None, _E8M0), 2),
        (a.sfq_dtype is not None and a.sfk_dtype not in (None, _E8M0), 3),
        (
            a.sfq_dtype is not None
            and a.sfv_dtype is None
            and a.v_dtype not in ("float16", "bfloat16"),
            6,
        ),
    )
    first = next((message for bad, message in wrong if bad), None)
    return passes(because) if first is None else stops(because, first)


def _tma(facts: Facts) -> Finding:
    a = attention_of(facts)
    if a.sfq_dtype is None:
        return skipped("Q has no scales")
    if a.varlen_q and a.sfq_interleaved:
        return stops("Q of several lengths with interleaved scales", 1)
    interleaved, tma = a.page_size in (None, 128), a.page_size in (None, a.tile_n)
    because = f"page size {a.page_size}: scales interleaved {interleaved}, through TMA {tma}"
    return judge(tma and not interleaved, because)


def _v_even(facts: Facts) -> Finding:
    a = attention_of(facts)
    if a.sfv_dtype is None:
        return skipped("V has no scales")
    because = f"{modulo('v_head_dim', a.v_head_dim, 64)}: v_head_dim / 32 = {a.v_head_dim // 32}"
    if a.v_head_dim // 32 % 2:
        return Finding(Status.STOPS, because, message=None)
    return passes(because)


def _bwd(facts: Facts) -> Finding:
    a = attention_of(facts)
    if not a.v_dtype.startswith("float8"):
        return skipped(f"V is {a.v_dtype}, not FP8")
    return judge(a.grad, f"a tensor requires a gradient: {a.grad}")


def _inplace(facts: Facts) -> Finding:
    a = attention_of(facts)
    because = f"new K and V to append: {a.new_kv}, rotary embedding: {a.rotary}"
    return stops(because) if a.new_kv else judge(a.rotary, because, 1)


def _hd256(facts: Facts) -> Finding:
    a = attention_of(facts)
    if a.sfq_dtype is None:
        return skipped("Q has no scales")
    shape = f"(head_dim, v_head_dim) = ({a.head_dim}, {a.v_head_dim})"
    if (a.head_dim, a.v_head_dim) == (256, 256):
        return silent(f"{shape}: the kernel of its own for 256 is not given the scales")
    return passes(shape)


_LET = ("let SGLang's own backend call FA4: it hands over what it checked",)
_PLAIN = "--kv-cache-dtype fp8_e4m3"

GUARDS: tuple[Guard, ...] = (
    row(
        "fa4-arch",
        "attention",
        "S8",
        "AssertionError",
        (
            "Unsupported compute capability. Supported: 8.x, 9.x, 10.x, 11.x, and architectures "
            "registered through the forward-host bridge",
            "Only SM 10.x and 11.x are supported",
        ),
        _arch,
        predicate="capability outside 8.x to 11.x; with block scales, outside 10.x and 11.x",
        hardware="SM120, SM121, AMD; with block scales also SM80 to SM90",
        meaning="FA4 is compiled when it is first called, and has no kernel for this GPU.",
        fixes=("--attention-backend flashinfer or triton", "a B200, GB200, B300 or GB300"),
        source=f"{_INTERFACE}:621, {_KERNEL}:301",
        related=("fa4-fp8-arch", "kv-hw"),
    ),
    row(
        "fa4-paged-v",
        "attention",
        "S8",
        "AssertionError",
        "paged KV with qk_blockscaled requires v_blockscaled",
        _paged_v,
        predicate="a paged cache, scales for Q, and none for V",
        hardware=_SM100,
        meaning="In a paged cache K and V are block-scaled together or not at all.",
        fixes=_LET,
        source=f"{_INTERFACE}:538",
        related=("fa4-sf-pair",),
    ),
    row(
        "fa4-sf-pair",
        "attention",
        "S8",
        "AssertionError",
        "sfq and sfk must both be provided for qk_blockscaled",
        _pair,
        predicate="scales for one of Q and K only",
        hardware=_SM100,
        meaning="The product QK^T is block-scaled on both sides or on none.",
        fixes=_LET,
        source=f"{_INTERFACE}:546,562",
        related=("fa4-paged-v", "fa4-qdescale"),
    ),
    row(
        "fa4-dtypes",
        "attention",
        "S8",
        "AssertionError",
        (
            "qk_blockscaled Q must be float8_e4m3fn",
            "qk_blockscaled Q and K must have the same dtype",
            "sfq must be float8_e8m0fnu",
            "sfk must be float8_e8m0fnu",
            "sfv must be float8_e8m0fnu",
            "v_blockscaled V must be float8_e4m3fn",
            "qk_blockscaled V must be float16 or bfloat16",
        ),
        _dtypes,
        predicate="scales are handed over and Q, K or V is not E4M3, or a scale not E8M0",
        hardware=_SM100,
        meaning="The block-scaled product takes E4M3 values and E8M0 scales.",
        fixes=_LET,
        source=f"{_INTERFACE}:540",
        related=("fa4-vec",),
    ),
    row(
        "fa4-vec",
        "attention",
        "S8",
        "AssertionError",
        (
            "qk_sf_vec_size must be provided for qk_blockscaled",
            "v_sf_vec_size must be provided for v_blockscaled",
        ),
        _vec,
        predicate="scales that are not E8M0, and no block size named",
        hardware=_SM100,
        meaning="32 values a scale is assumed for E8M0 only.",
        fixes=("pass scales as float8_e8m0fnu",),
        source=f"{_INTERFACE}:542,547",
        related=("fa4-dtypes",),
    ),
    row(
        "fa4-sf-tma",
        "attention",
        "S8",
        "AssertionError",
        (
            "if scale KV not interleaved, can't use tma KV",
            "if varlen q, can't have SFQ interleaved",
        ),
        _tma,
        predicate="pages of exactly one kernel tile that is not 128 (K and V then come through "
        "TMA, their scales flat), or Q of several lengths with interleaved scales",
        hardware=_SM100,
        meaning="TMA reads whole tiles, and a tile of scales is a page of 128 tokens.",
        fixes=("--page-size 128",),
        source=f"{_KERNEL}:268",
        related=("kv-page128",),
    ),
    row(
        "fa4-v-even",
        "attention",
        "S8",
        "AssertionError",
        (),
        _v_even,
        predicate="v_head_dim / 32 is odd (32, 96)",
        hardware=_SM100,
        meaning="V is dequantised two blocks at a time. The assertion has no text and comes while "
        "the kernel is compiled.",
        fixes=(_PLAIN,),
        source=f"{_KERNEL}:3122",
        related=("fa4-hd", "kv-sf-dim4"),
    ),
    row(
        "fa4-bwd",
        "attention",
        "S8",
        "NotImplementedError",
        "FA4 CuTe FP8 backward is not supported yet (forward-only).",
        _bwd,
        predicate="FP8 tensors and one that requires a gradient",
        hardware=_SM100,
        meaning="There is no backward kernel for FP8.",
        fixes=("call it under torch.no_grad()",),
        source=f"{_INTERFACE}:648",
        related=("fa4-dtypes",),
    ),
    row(
        "fa4-inplace",
        "attention",
        "S8",
        "NotImplementedError",
        (
            "FA4 does not support updating KV cache in-place.",
            "FA4 path does not support rotary embedding.",
        ),
        _inplace,
        predicate="new K and V to append, or a rotary embedding, handed to the attention call",
        hardware=_SM100,
        meaning="FA4 reads the cache; storing and rotating happen before.",
        fixes=("store K and V and rotate Q before the call",),
        source=f"{_V4}:364",
        related=("kv-store-rows",),
    ),
    row(
        "silent-fa4-256",
        "attention",
        "S8",
        "",
        (),
        _hd256,
        predicate="head_dim and v_head_dim 256 with block scales",
        hardware=_SM100,
        meaning="This head size has a kernel of its own, which takes no scale tensors; no assert "
        "was found. Read from the source, not run.",
        fallback="goes on with values without their scales",
        fixes=(_PLAIN,),
        source=f"{_INTERFACE}:142",
        related=("fa4-hd", "kv-sf-dim4"),
    ),
)
