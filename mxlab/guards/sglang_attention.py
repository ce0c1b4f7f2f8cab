"""SGLang's checks of the attention that reads an MXFP8 KV cache (S8)."""

from mxlab.guards.engine import Finding, Guard, Status
from mxlab.guards.facts import Facts
from mxlab.guards.findings import judge, passes, skipped, stops
from mxlab.guards.rows import row
from mxlab.guards.sglang_kv_cache import INKLING, attention_backends, kv_of, not_mxfp8_kv

_FLASH = ("fa3", "fa4")
_INTERFACE = "kernels/ops/attention/flash_attn/cute/interface.py"


def _backends(facts: Facts) -> str:
    return " / ".join(dict.fromkeys(attention_backends(facts)))


def _fa4_required(facts: Facts) -> Finding:
    skip = not_mxfp8_kv(facts)
    if skip:
        return skip
    named, shown = attention_backends(facts), f"attention backend {_backends(facts)}"
    if "fa3" in named:
        return stops(shown)
    if set(named) == {"fa4"}:
        return passes(shown)
    return skipped(f"{shown} does not look at the KV dtype: see silent-kv-backend")


def _fa4_only(facts: Facts) -> Finding | None:
    skip = not_mxfp8_kv(facts)
    if skip:
        return skip
    if "fa4" not in attention_backends(facts):
        return skipped(f"the attention backend is {_backends(facts)}, not fa4")
    return None


def _q_descale(facts: Facts) -> Finding:
    skip = _fa4_only(facts)
    if skip:
        return skip
    name = facts.deployment.architecture
    if name in INKLING or facts.prologue is not None:
        return passes("Inkling attention hands over Q scales")
    shown = name or "no architecture was given; every one but Inkling's"
    return stops(f"{shown}: its attention layer gives no Q scales")


def _fp8_arch(facts: Facts) -> Finding:
    skip = _fa4_only(facts)
    if skip:
        return skip
    cap = facts.platform.capability
    return judge(cap is None or cap // 10 != 10, f"capability {cap}, wanted 10x")


def _head_dims(facts: Facts) -> Finding:
    skip = _fa4_only(facts)
    if skip:
        return skip
    cap = facts.platform.capability
    if cap is None or cap // 10 not in (10, 11):
        return skipped(f"capability {cap}: another kernel, or none")
    a, b = kv_of(facts).head_dim, kv_of(facts).v_head_dim
    small = all(8 <= size <= 128 and size % 16 == 0 for size in (a, b))
    legal = small or (a, b) in ((192, 128), (256, 256))
    return judge(not legal, f"(head_dim, v_head_dim) = ({a}, {b}), FP8", a=a, b=b, step=16)


def _silent_backend(facts: Facts) -> Finding:
    skip = not_mxfp8_kv(facts)
    if skip:
        return skip
    other = [name for name in attention_backends(facts) if name not in _FLASH]
    if not other:
        return passes(f"attention backend {_backends(facts)} knows MXFP8 KV or refuses it")
    text = f"attention backend {other[0]}: nothing ties --kv-cache-dtype mxfp8 to fa4"
    return Finding(Status.SILENT, text, message=None)


def _silent_latent(facts: Facts) -> Finding:
    dtype = facts.deployment.kv_cache_dtype
    if dtype != "mxfp8":
        return skipped(f"--kv-cache-dtype is {dtype}, not mxfp8")
    if not kv_of(facts).mla:
        return passes("K and V heads go to the block-scaled pool")
    text = "MLA: the latent is stored as plain FP8 E4M3, without block scales"
    return Finding(Status.SILENT, text, message=None)


GUARDS: tuple[Guard, ...] = (
    row(
        "fa4-required",
        "kv_cache",
        "S8",
        "RuntimeError",
        "MXFP8 KV cache requires the FA4 backend.",
        _fa4_required,
        predicate="the flash-attention backend is not version 4 (fa3)",
        hardware="Blackwell (kv-hw stops the rest)",
        meaning="Only FA4 reads block-scaled K and V. Backends outside the flash-attention family "
        "are not even asked (silent-kv-backend).",
        fixes=("--attention-backend fa4", "--kv-cache-dtype fp8_e4m3"),
        source="srt/layers/attention/flashattention_backend.py:454",
        related=("silent-kv-backend", "fa4-qdescale"),
    ),
    row(
        "fa4-qdescale",
        "kv_cache",
        "S8",
        "RuntimeError",
        "MXFP8 KV cache requires per-token Q scales (q_descale) from the attention layer for the "
        "block-scaled QK^T path.",
        _q_descale,
        predicate="the attention layer gives no Q scales: every model but Inkling in 0.5.23",
        hardware="Blackwell (kv-hw stops the rest)",
        meaning="QK^T needs Q quantised too, and only Inkling's attention layer does that. For "
        "every other model an MXFP8 KV cache cannot work in this version.",
        fixes=("--kv-cache-dtype fp8_e4m3",),
        source="srt/layers/attention/flashattention_backend.py:456",
        related=("fa4-required",),
    ),
    row(
        "fa4-fp8-arch",
        "kv_cache",
        "S8",
        "AssertionError",
        "FP8 is only supported on SM100 (compute capability 10.x) for FA4 CuTe.",
        _fp8_arch,
        predicate="V is FP8 and the capability is not 10.x",
        hardware="SM110, SM120, SM121",
        meaning="The server arguments let every Blackwell through; the kernel is for 10.x only.",
        fixes=("--kv-cache-dtype auto", "a B200, GB200, B300 or GB300"),
        source=f"{_INTERFACE}:729",
        related=("kv-hw",),
    ),
    row(
        "fa4-hd",
        "kv_cache",
        "S8",
        "AssertionError",
        "(head_dim, head_dim_v)=({a}, {b}) is not supported on SM100/SM110. head_dim and "
        "head_dim_v must be between 8 and 128 and divisible by {step}, or (192, 128) for DeepSeek, "
        "or (256, 256) for hd256.",
        _head_dims,
        predicate="as the text says; FP8 V makes the divisor 16",
        hardware="SM100, SM103, SM110",
        meaning="FA4 has kernels for these head sizes only.",
        fixes=("another --attention-backend and --kv-cache-dtype",),
        source=f"{_INTERFACE}:142",
        related=("kv-hd32",),
    ),
    row(
        "silent-kv-backend",
        "kv_cache",
        "S8",
        "",
        (),
        _silent_backend,
        predicate="--kv-cache-dtype mxfp8 with an attention backend other than fa3 or fa4",
        hardware="Blackwell (kv-hw stops the rest)",
        meaning="K and V are stored block-scaled and read as plain FP8: every scale is dropped. No "
        "check ties the two flags together. Read from the source, not run.",
        fallback="goes on with wrong numbers, or fails on a float scale",
        fixes=("--attention-backend fa4", "--kv-cache-dtype fp8_e4m3"),
        source="srt/layers/attention (no mention of MXFP8 KV outside flashattention_backend.py)",
        related=("fa4-required", "kv-hw"),
    ),
    row(
        "silent-kv-latent",
        "kv_cache",
        "S7",
        "",
        (),
        _silent_latent,
        predicate="--kv-cache-dtype mxfp8 and a model with multi-head latent attention (MLA)",
        hardware="Blackwell (kv-hw stops the rest)",
        meaning="Only the pool of K and V heads has block scales. MLA has a pool of its own, which "
        "takes the E4M3 element type and nothing else: what you get is --kv-cache-dtype fp8_e4m3. "
        "Read from the source, not run.",
        fallback="goes on with a plain FP8 latent",
        fixes=("--kv-cache-dtype fp8_e4m3, which says the same",),
        source="srt/mem_cache/kv_cache_dtype.py:72, srt/mem_cache/kv_cache_configurator.py:2485",
        related=("silent-kv-backend", "kv-hd32"),
    ),
)
