"""The checks of Inkling's fused attention prologue: Python (S8), then the CUDA host code (S9)."""

from mxlab.guards.engine import Finding, Guard
from mxlab.guards.facts import Facts, PrologueFacts
from mxlab.guards.findings import judge, modulo, multiples, passes, skipped, stops
from mxlab.guards.rows import row

#: function -> index of its message; decode says so in its texts
FUNCTIONS = {"verify": 0, "extend": 0, "decode": 1}
_SOURCE = "kernels/ops/attention/inkling_attn_prologue.py:91,208,322"
_CUDA = "kernels/jit/csrc/inkling/inkling_attn_prologue_fused.cuh"
_CUDA_HARDWARE = "NVIDIA GPUs that run the prologue"
_HARDWARE = "SM100, SM103 (the MXFP8 KV cache has to get this far)"


def scale_shape(slots: int, page_size: int, dkv: int) -> tuple[int, int, int, int, int]:
    """Return the shape that SFK and SFV must have: (pages, KV heads, 32, page / 32, 4).

    ``slots`` is the first size of the K buffer, ``dkv`` KV heads times 128; divisions are floor
    divisions. Source: sglang 0.5.23, kernels/ops/attention/inkling_attn_prologue.py.

    >>> scale_shape(512, 128, 1024)
    (4, 8, 32, 4, 4)
    """
    return (slots // page_size, dkv // 128, 32, page_size // 32, 4)


def prologue_of(facts: Facts) -> PrologueFacts:
    """Return the prologue's arguments; the engine asks these guards only where there are some."""
    assert facts.prologue is not None
    return facts.prologue


def _dims(facts: Facts) -> Finding:
    p = prologue_of(facts)
    if not p.mxfp8:
        return skipped("mxfp8_quant is False")
    because = f"{modulo('dq', p.dq, 128)}, {modulo('dkv', p.dkv, 128)}"
    bad = p.dq % 128 != 0 or p.dkv % 128 != 0
    near = f"; nearest legal dq {multiples(p.dq, 128)}, dkv {multiples(p.dkv, 128)}" if bad else ""
    return judge(bad, because + near, FUNCTIONS[p.function])


def _buffers(facts: Facts) -> Finding:
    p = prologue_of(facts)
    if not p.mxfp8:
        return skipped("mxfp8_quant is False")
    missing = [n for n, s in (("SFK", p.sfk_shape), ("SFV", p.sfv_shape)) if s is None]
    because = f"missing: {' and '.join(missing)}" if missing else "SFK and SFV are given"
    return judge(bool(missing), because, FUNCTIONS[p.function])


def _shape(facts: Facts) -> Finding:
    p = prologue_of(facts)
    if not p.mxfp8:
        return skipped("mxfp8_quant is False")
    if p.sfk_shape is None or p.sfv_shape is None:
        return skipped("a buffer is missing: ink-py-sf comes first")
    wanted = scale_shape(p.slots, p.page_size, p.dkv)
    a, b = tuple(p.sfk_shape), tuple(p.sfv_shape)
    because = (
        f"wanted (slots / page, dkv / 128, 32, page / 32, 4) = {wanted} "
        f"of {p.slots} slots, page {p.page_size}, dkv {p.dkv}; SFK {a}, SFV {b}"
    )
    if a == wanted and b == wanted:
        return passes(because)
    return stops(because, FUNCTIONS[p.function], sf_shape=wanted, a=a, b=b)


def _contiguous(facts: Facts) -> Finding:
    p = prologue_of(facts)
    if not p.mxfp8:
        return skipped("mxfp8_quant is False")
    if p.sfk_shape is None or p.sfv_shape is None:
        return skipped("a buffer is missing: ink-py-sf comes first")
    because = f"contiguous: SFK {p.sfk_contiguous}, SFV {p.sfv_contiguous}"
    bad = not (p.sfk_contiguous and p.sfv_contiguous)
    return judge(bad, because, FUNCTIONS[p.function])


def _cuda_dims(facts: Facts) -> Finding:
    p = prologue_of(facts)
    because = f"{modulo('dq', p.dq, 128)}, {modulo('dkv', p.dkv, 128)}"
    if p.mxfp8:
        return skipped(f"{because}: ink-py-dims looks first")
    return judge(p.dq % 128 != 0 or p.dkv % 128 != 0, because)


def _cuda_block(facts: Facts) -> Finding:
    p = prologue_of(facts)
    if p.dq % 128 or p.dkv % 128:
        return skipped("dq or dkv is not a multiple of 128: an earlier check stops")
    lanes = (p.dq + 2 * p.dkv) // 8
    heads = f"Hq + 2 Hkv = {p.dq // 128} + 2 x {p.dkv // 128} = {(p.dq + 2 * p.dkv) // 128}"
    return judge(lanes > 1024, f"{heads} against 64 ({lanes} lanes against 1024)")


def _cuda_page(facts: Facts) -> Finding:
    p = prologue_of(facts)
    if not p.mxfp8:
        return skipped("mxfp8_quant is False")
    return judge(p.page_size % 32 != 0, modulo("page size", p.page_size, 32))


def _both(text: str) -> tuple[str, str]:
    return text, text.replace("fused prologue", "fused decode prologue")


GUARDS: tuple[Guard, ...] = (
    row(
        "ink-py-dims",
        "prologue",
        "S8",
        "ValueError",
        _both("MXFP8 fused prologue requires head_dim-aligned Q/K/V."),
        _dims,
        predicate="dq % 128 != 0 or dkv % 128 != 0",
        hardware=_HARDWARE,
        meaning="The kernel works on heads of 128: dq is query heads times 128 on this rank, dkv "
        "KV heads times 128.",
        fixes=(
            "SGLANG_OPT_USE_INKLING_FUSED_ATTN_PROLOGUE=0 takes the unfused path",
            "a --tp-size that leaves whole heads of 128 on a rank",
        ),
        source=_SOURCE,
        related=("ink-py-shape", "kv-hd32"),
    ),
    row(
        "ink-py-sf",
        "prologue",
        "S8",
        "ValueError",
        _both("MXFP8 fused prologue requires K/V scale buffers."),
        _buffers,
        predicate="sfk is None or sfv is None",
        hardware=_HARDWARE,
        meaning="The prologue writes K and V with their scales; it was handed no place for them.",
        fixes=("--kv-cache-dtype mxfp8, so that the pool has scale buffers",),
        source=_SOURCE,
        related=("ink-py-shape",),
    ),
    row(
        "ink-py-shape",
        "prologue",
        "S8",
        "ValueError",
        _both(
            "MXFP8 fused prologue requires interleaved K/V scale buffers with shape {sf_shape}, "
            "got {a} and {b}."
        ),
        _shape,
        predicate="the shape is not (slots // page, dkv // 128, 32, page // 32, 4)",
        hardware=_HARDWARE,
        meaning="The scales of one page and head must lie in one swizzled tile. A flat buffer, as "
        "pages other than 128 get, has three dimensions.",
        fixes=("--page-size 128", "check that dkv is KV heads times 128"),
        source=_SOURCE,
        related=("kv-page128", "ink-py-contig"),
    ),
    row(
        "ink-py-contig",
        "prologue",
        "S8",
        "ValueError",
        _both("MXFP8 fused prologue requires contiguous interleaved SFK/SFV."),
        _contiguous,
        predicate="sfk or sfv is not contiguous",
        hardware=_HARDWARE,
        meaning="The kernel computes scale addresses itself and assumes a contiguous buffer; a "
        "view or a transpose of one will not do.",
        fixes=("hand over the pool's own buffers, not slices of them",),
        source=_SOURCE,
        related=("ink-py-shape",),
    ),
    row(
        "ink-cu-dims",
        "prologue",
        "S9",
        "RuntimeError",
        "dims % head_dim",
        _cuda_dims,
        predicate="dq % 128 != 0 or dkv % 128 != 0, on the 16-bit path (MXFP8 meets ink-py-dims)",
        hardware=_CUDA_HARDWARE,
        meaning="The kernel works on heads of 128.",
        fixes=("SGLANG_OPT_USE_INKLING_FUSED_ATTN_PROLOGUE=0 takes the unfused path",),
        source=f"{_CUDA}:405,809,1303",
        related=("ink-py-dims",),
    ),
    row(
        "ink-cu-block",
        "prologue",
        "S9",
        "RuntimeError",
        "token lanes must fit one block",
        _cuda_block,
        predicate="dq / 8 + 2 dkv / 8 > 1024, that is query heads + 2 KV heads > 64 on a rank",
        hardware=_CUDA_HARDWARE,
        meaning="One thread block holds one token, eight values a thread, and has 1,024 threads.",
        fixes=(
            "a larger --tp-size, so that a rank has fewer heads",
            "SGLANG_OPT_USE_INKLING_FUSED_ATTN_PROLOGUE=0 takes the unfused path",
        ),
        source=f"{_CUDA}:419,822,1319",
        related=("ink-py-dims",),
    ),
    row(
        "ink-cu-page",
        "prologue",
        "S9",
        "RuntimeError",
        "MXFP8 page size must tile 32-token scale blocks",
        _cuda_page,
        predicate="page size % 32 != 0; weaker than the 128 that the pool needs",
        hardware=_CUDA_HARDWARE,
        meaning="A page is cut into runs of 32 tokens in the scale layout.",
        fixes=("--page-size 128",),
        source=f"{_CUDA}:423,827,1328",
        related=("kv-page128", "ink-py-shape"),
    ),
)
