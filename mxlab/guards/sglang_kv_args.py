"""SGLang's checks of the arguments that name a KV cache's dtype, or that there is none (S1, S7)."""

from mxlab.guards.engine import Finding, Guard
from mxlab.guards.facts import Facts, Platform
from mxlab.guards.findings import judge, passes, skipped, stops
from mxlab.guards.rows import row
from mxlab.guards.settings import flag, number

_HOOK = "srt/arg_groups/kv_cache_hook.py"
_DTYPE = "srt/mem_cache/kv_cache_dtype.py"
_FP4 = ("nvfp4", "fp4_mx_block16")
#: --kv-cache-dtype -> dtype of the elements
ELEMENTS = {
    "fp8_e5m2": "float8_e5m2",
    "fp8_e4m3": "float8_e4m3fn",
    "mxfp8": "float8_e4m3fn",
    "bf16": "bfloat16",
    "bfloat16": "bfloat16",
    "nvfp4": "float4_e2m1fn_x2",
    "fp4_mx_block16": "float4_e2m1fn_x2",
}


def kv_cache_dtype(
    asked: str, algorithm: object, platform: Platform, model_dtype: str = "bfloat16"
) -> tuple[str | None, str]:
    """Return (what replaces --kv-cache-dtype or None, dtype of the cache's elements).

    ``algorithm`` is the config's kv_cache_quant_algo, looked at under ``auto`` only: "FP8" gives
    plain E4M3, never MXFP8. Source: sglang 0.5.23, srt/mem_cache/kv_cache_dtype.py:47.

    >>> from mxlab.guards import Deployment, platform
    >>> kv_cache_dtype("auto", "FP8", platform(Deployment(gpu="b200")))
    ('fp8_e4m3', 'float8_e4m3fn')
    """
    native = "float8_e4m3fnuz" if platform.gfx942 else "float8_e4m3fn"
    if asked == "auto":
        if isinstance(algorithm, str) and algorithm.upper() == "FP8":
            return "fp8_e4m3", native if platform.hip else "float8_e4m3fn"
        return None, model_dtype
    if asked in ("fp8_e5m2", "fp8_e4m3") and platform.hip:
        return None, native
    return None, ELEMENTS[asked]


def _prefill_only(facts: Facts) -> Finding:
    d = facts.deployment
    s, dtype = d.settings, d.kv_cache_dtype
    if not flag(s, "prefill-only-disable-kv-cache"):
        return skipped("--prefill-only-disable-kv-cache is not given")
    chunk, radix = number(s, "chunked-prefill-size"), flag(s, "disable-radix-cache")
    because = (
        f"--is-embedding {flag(s, 'is-embedding')}, --kv-cache-dtype {dtype}, "
        f"--chunked-prefill-size {chunk}, --disable-radix-cache {radix}"
    )
    if not flag(s, "is-embedding"):
        return stops(because, 1)
    if dtype in _FP4:
        return stops(because, 2)
    if dtype == "mxfp8":
        return stops(because)
    if chunk != -1:
        return stops(because, 3)
    return judge(not radix, because, 4)


def _unknown(facts: Facts) -> Finding:
    dtype = facts.deployment.kv_cache_dtype
    if dtype == "auto":
        return skipped("auto: the model's config decides")
    return passes(f"--kv-cache-dtype {dtype} is one of the known")


GUARDS: tuple[Guard, ...] = (
    row(
        "kv-prefill-only",
        "server",
        "S1",
        "ValueError",
        (
            "--prefill-only-disable-kv-cache does not currently support --kv-cache-dtype=mxfp8 "
            "because the MXFP8 pool stores separate scale-factor buffers.",
            "--prefill-only-disable-kv-cache currently requires --is-embedding. Other prefill-only "
            "workloads may be supported in a future change once their attention paths stop reading "
            "or writing the paged KV cache.",
            "--prefill-only-disable-kv-cache does not currently support --kv-cache-dtype=nvfp4 or "
            "--kv-cache-dtype=fp4_mx_block16 because the FP4 pool uses a separate allocation path.",
            "--prefill-only-disable-kv-cache requires --chunked-prefill-size=-1 so the FA backend "
            "takes the fa_skip_kv_cache path; otherwise the pool would be touched between prefill "
            "chunks.",
            "--prefill-only-disable-kv-cache requires --disable-radix-cache because the radix "
            "cache indexes KV pool slots that no longer hold real data.",
        ),
        _prefill_only,
        predicate="--prefill-only-disable-kv-cache without --is-embedding, with an FP4 or MXFP8 "
        "cache, with chunked prefill, or with the prefix cache",
        meaning="A server that keeps no KV cache cannot be told what the cache holds.",
        fixes=("drop --kv-cache-dtype", "drop --prefill-only-disable-kv-cache"),
        source=f"{_HOOK}:892,880,884,904,910",
        related=("kv-hw",),
    ),
    row(
        "kv-dtype-unknown",
        "server",
        "S7",
        "ValueError",
        "Unsupported kv_cache_dtype: {d}.",
        _unknown,
        predicate="another value than SGLang's list; the command line refuses it first, so only "
        "code that builds server arguments itself comes here",
        meaning="The name of the dtype is misspelt. MXFP8 is written mxfp8.",
        fixes=("--kv-cache-dtype mxfp8, fp8_e4m3, fp8_e5m2, bf16 or auto",),
        source=f"{_DTYPE}:90",
        related=("kv-hw",),
    ),
)
