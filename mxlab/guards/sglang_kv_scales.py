"""The per-tensor scales of an FP8 KV cache: where they come from, and what SGLang says (S6)."""

from mxlab.guards.engine import Finding, Guard, Status
from mxlab.guards.facts import Facts, KvCacheFacts
from mxlab.guards.findings import passes, skipped
from mxlab.guards.rows import row
from mxlab.guards.settings import setting

_LOSS = "values above 448 clip, values to 2^-10 become 0"


def _cache(facts: Facts) -> KvCacheFacts:
    assert facts.kv_cache is not None
    return facts.kv_cache


def _missing(facts: Facts) -> Finding:
    d, kv = facts.deployment, _cache(facts)
    if d.kv_cache_dtype != "fp8_e4m3":
        return skipped(f"--kv-cache-dtype is {d.kv_cache_dtype}, not fp8_e4m3")
    if setting(d.settings, "quantization-param-path"):
        return passes("the scales come from --quantization-param-path")
    if kv.k_scale is None or not facts.quant.fp8_config:
        because = "no --quantization-param-path, and no k_scale in the checkpoint that is read"
        return Finding(Status.WARNS, f"{because}: k_scale = v_scale = 1.0: {_LOSS}")
    because = f"k_scale {kv.k_scale}, v_scale {kv.v_scale} of the checkpoint are used all the same"
    return Finding(Status.WARNS, because, notice=True)


def _pair(facts: Facts) -> Finding:
    if not facts.quant.fp8_config:
        return skipped("the attention layers read no scales without an FP8 or MXFP8 config")
    kv = _cache(facts)
    k = -1.0 if kv.k_scale is None else kv.k_scale
    v = -1.0 if kv.v_scale is None else kv.v_scale
    because = f"k_scale {k}, v_scale {v}; -1 is absent"
    if (k > 0 and v > 0) or (k <= 0 and v <= 0):
        return passes(because)
    because += ": one is usable, and it must be k_scale"
    return passes(because) if k > 0 else Finding(Status.STOPS, because, message=None)


GUARDS: tuple[Guard, ...] = (
    row(
        "kv-scale-none",
        "kv_cache",
        "S6",
        "warning",
        "Using FP8 KV cache but no scaling factors provided. Defaulting to scaling factors of 1.0.",
        _missing,
        predicate="--kv-cache-dtype fp8_e4m3 without --quantization-param-path; scales of the "
        "checkpoint are not asked for, so the line is printed beside them too",
        meaning="FP8 weights do not bring KV scales. With 1.0, keys and values above 448 clip and "
        "those to 2^-10 vanish; long reasoning suffers.",
        fallback="scale 1.0 for keys and values, unless the checkpoint has k_scale and v_scale",
        fixes=(
            "--kv-cache-dtype auto",
            "a checkpoint with calibrated k_scale and v_scale",
            "--quantization-param-path, where the model's class reads it",
        ),
        source="srt/model_executor/model_runner_components/load_model_utils.py:139",
        related=("kv-scale-pair", "kv-no-scales"),
    ),
    row(
        "kv-scale-pair",
        "kv_cache",
        "S6",
        "AssertionError",
        (),
        _pair,
        predicate="k_scale is absent, 0, negative or NaN, and v_scale is not",
        meaning="A checkpoint with v_scale alone meets an assertion that has no text. With k_scale "
        "alone the value serves both.",
        fixes=("write both scales into the checkpoint", "drop v_scale: 1.0 is used for both"),
        source="srt/layers/quantization/kv_cache.py:68",
        related=("kv-scale-none",),
    ),
)
