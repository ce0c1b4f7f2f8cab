"""vLLM's checks of a model: its quantization config, block-FP8 shards, experts, KV-cache scales."""

import math
from collections.abc import Callable

from mxlab.guards.engine import Finding, Guard, Status
from mxlab.guards.facts import Facts
from mxlab.guards.findings import judge, modulo, multiples, passes, silent, skipped, stops
from mxlab.guards.linear import linear_of, tp_column, tp_row
from mxlab.guards.values import DTYPE
from mxlab.guards.vllm_kernels import Release

_CONFIG = "vllm/config/vllm.py"
_QUANT = "vllm/model_executor/layers/quantization"
_ZERO = "the zero columns are exact: silu(0) * 0 = 0"


def _values(facts: Facts) -> dict[str, object]:
    found = facts.config.values if facts.config is not None else None
    return dict(found) if found is not None else {}


def _is_mxfp8(facts: Facts) -> bool:
    """Tell whether vLLM reads the checkpoint, or the flag, as MXFP8."""
    values = _values(facts)
    if facts.deployment.quantization == "mxfp8" or values.get("quant_method") == "mxfp8":
        return True
    algo = values.get("quant_algo")
    inner = values.get("quantization")
    if isinstance(inner, dict):
        algo = inner.get("quant_algo", algo)
    return isinstance(algo, str) and "MXFP8" in algo.upper()


def _block(facts: Facts) -> tuple[int, int] | None:
    """Return weight_block_size of a block-FP8 checkpoint."""
    values = _values(facts)
    sizes = values.get("weight_block_size")
    if values.get("quant_method") != "fp8" or not isinstance(sizes, list | tuple):
        return None
    if len(sizes) != 2 or not all(isinstance(size, int) and 0 < size < 2**20 for size in sizes):
        return None
    return int(sizes[0]), int(sizes[1])


def _capability(facts: Facts) -> Finding:
    p = facts.platform
    if not _is_mxfp8(facts):
        return skipped("not an MXFP8 checkpoint")
    if p.capability is None:
        return skipped("no GPU: the capability is not asked")
    least = 75 if facts.deployment.quantization == "mxfp8" else 80
    name = "mxfp8" if least == 75 else "modelopt_mxfp8"
    because = f"capability {p.capability}, at least {least}"
    return judge(p.capability < least, because, method=name, least=least, capability=p.capability)


def _dtype(facts: Facts) -> Finding:
    if not _is_mxfp8(facts) or facts.deployment.quantization == "mxfp8":
        return skipped("not a serialised MXFP8 checkpoint")
    dtype = DTYPE[facts.deployment.dtype]
    return judge(dtype != "bfloat16", f"--dtype is {dtype}", dtype=f"torch.{dtype}")


def _fields(facts: Facts) -> Finding:
    inner = _values(facts).get("quantization")
    if not _is_mxfp8(facts) or not isinstance(inner, dict):
        return skipped("no hf_quant_config.json with a quantization object")
    missing = [name for name in ("kv_cache_quant_algo", "exclude_modules") if name not in inner]
    return judge(bool(missing), f"missing: {missing or 'nothing'}", missing=missing)


def _row_parallel(facts: Facts) -> Finding:
    sizes, lin, tp = _block(facts), linear_of(facts), facts.deployment.tp
    if sizes is None or not lin.quantized:
        return skipped("no block-FP8 weight")
    whole = lin.input_size or (lin.k * tp if lin.shard == "row" else lin.k)
    return tp_row(whole, lin.k, tp, sizes[1], skip_check=lin.skip_block_quant_check)


def _column_parallel(facts: Facts) -> Finding:
    sizes, lin, tp = _block(facts), linear_of(facts), facts.deployment.tp
    if sizes is None or not lin.quantized:
        return skipped("no block-FP8 weight")
    split = lin.shard in ("column", "vocab")
    whole = lin.output_size or (lin.n * tp if split else lin.n)
    parts = lin.parts or (lin.n,)
    return tp_column(
        whole, parts, tp, sizes[0], skip_check=lin.skip_block_quant_check, exempt_last=True
    )


def _expert_columns(facts: Facts) -> Finding:
    sizes, experts = _block(facts), facts.experts
    if sizes is None or experts is None or not experts.quantized:
        return skipped("no block-FP8 experts")
    size, block = experts.intermediate, sizes[0]
    because = f"{modulo('intermediate', size, block)}, next {multiples(size, block)}"
    return judge(size % block != 0, because, size=size, block=block)


def _expert_rows(facts: Facts) -> Finding:
    sizes, experts = _block(facts), facts.experts
    if sizes is None or experts is None or not experts.quantized:
        return skipped("no block-FP8 experts")
    size, block, tp = experts.intermediate, sizes[1], facts.deployment.tp
    because = f"{modulo('intermediate', size, block)}, TP {tp}"
    return judge(tp > 1 and size % block != 0, because, size=size, block=block)


def _expert_blocks(facts: Facts) -> Finding:
    experts = facts.experts
    if not _is_mxfp8(facts) or experts is None or not experts.quantized:
        return skipped("no MXFP8 experts")
    online = facts.deployment.quantization == "mxfp8"
    for index, (name, size) in enumerate(
        (("hidden", experts.hidden), ("intermediate", experts.intermediate))
    ):
        if size % 32:
            return stops(modulo(name, size, 32), 2 if online else index, size=size)
    return passes(f"hidden {experts.hidden} and intermediate {experts.intermediate} % 32 = 0")


def _expert_tiles(facts: Facts) -> Finding:
    experts, p = facts.experts, facts.platform
    if experts is None or experts.quantized:
        return skipped("the TensorRT-LLM layout of 16-bit experts")
    if not (p.cuda and (p.capability or 0) // 10 == 10 and p.flashinfer):
        return skipped("TensorRT-LLM's experts run on SM100 with FlashInfer")
    size = experts.intermediate
    sums = ", ".join(modulo("intermediate", size, of) for of in (32, 64, 128))
    if size % 128 == 0:
        return passes(sums)
    return silent(
        f"{sums}: the layout of the backend, not a quantisation format, wants 128; "
        f"padded to {-(-size // 128) * 128}"
    )


def _quantized_cache(facts: Facts) -> bool:
    return facts.deployment.kv_cache_dtype in ("fp8_e4m3", "fp8_e5m2")


def _scales(facts: Facts) -> tuple[float, float]:
    """Return k_scale and v_scale as vLLM holds them: -1.0 where the checkpoint has none."""
    kv = facts.kv_cache
    assert kv is not None
    k = -1.0 if kv.k_scale is None else kv.k_scale
    return k, -1.0 if kv.v_scale is None else kv.v_scale


def _kv_pair(facts: Facts) -> Finding:
    if not _quantized_cache(facts):
        return skipped("the KV cache is not FP8")
    k, v = _scales(facts)
    because = f"k_scale {k}, v_scale {v}"
    if (k > 0 and v > 0) or (k < 0 and v < 0):
        return passes(because)
    return judge(not k > 0, f"{because}: one is usable, and it must be k_scale")


def _kv_default(facts: Facts) -> Finding:
    if not _quantized_cache(facts):
        return skipped("the KV cache is not FP8")
    k, v = _scales(facts)
    if facts.deployment.kv_cache_dtype == "fp8_e5m2":
        return skipped("E5M2 needs no scale: its range is float16's")
    if k < 0 and v < 0:
        used = (1.0, 1.0)
    elif k > 0:
        used = (k, v) if v > 0 else (k, k)
    else:
        return skipped("vllm-kv-scale-pair stops")
    if used != (1.0, 1.0):
        return passes(f"k_scale {k}, v_scale {v}")
    because = "k_scale = v_scale = 1.0: values above 448 clip, values to 2^-10 become 0"
    return Finding(Status.WARNS, because)


def _kv_numbers(facts: Facts) -> Finding:
    if not _quantized_cache(facts):
        return skipped("the KV cache is not FP8")
    k, v = _scales(facts)
    if not k > 0 and not (k < 0 and v < 0):
        return skipped("vllm-kv-scale-pair stops")
    because = f"k_scale {k}, v_scale {v}"
    if v == -1.0 and math.isfinite(k):
        return passes(f"{because}: v_scale is absent, k_scale serves both" if k > 0 else because)
    if math.isfinite(k) and math.isfinite(v) and v > 0:
        return passes(because)
    if math.isinf(k) or math.isinf(v):
        return silent(f"{because}: infinity is greater than 0, so it is taken")
    return silent(f"{because}: v_scale is not usable, so k_scale {k} is taken for both")


_KV = f"{_QUANT}/kv_cache.py, process_weights_after_loading"


def guards(release: Release) -> tuple[Guard, ...]:
    """Return the rows of one release."""

    def row(
        id: str,
        subject: str,
        stage: str,
        error: str,
        messages: str | tuple[str, ...],
        check: Callable[[Facts], Finding],
        *,
        predicate: str,
        meaning: str,
        fixes: tuple[str, ...],
        source: str,
        hardware: str = "every GPU",
        fallback: str = "none",
        related: tuple[str, ...] = (),
    ) -> Guard:
        return Guard(
            id=f"vllm-{id}",
            system="vllm",
            subject=subject,
            stage=stage,
            error=error,
            messages=(messages,) if isinstance(messages, str) else messages,
            predicate=predicate,
            hardware=hardware,
            meaning=meaning,
            fallback=fallback,
            fixes=fixes,
            source=f"vllm {release.version}, {source}",
            related=related,
            check=check,
        )

    return (
        row(
            "min-capability",
            "config",
            "S3",
            "ValueError",
            "The quantization method {method} is not supported for the current GPU. Minimum "
            "capability: {least}. Current capability: {capability}.",
            _capability,
            predicate="compute capability below 80 (checkpoint) or 75 (--quantization mxfp8)",
            hardware="before Ampere",
            meaning="Marlin, which dequantises inside a 16-bit product, is the least that MXFP8 "
            "asks for: unlike SGLang, vLLM serves MXFP8 checkpoints on Ampere and Hopper.",
            fixes=("use a GPU of compute capability 8.0 or more",),
            source=f"{_CONFIG}:933, {_QUANT}/modelopt.py:1230",
            related=("cfg-min-capability", "vllm-mx-fallback"),
        ),
        row(
            "act-dtype",
            "config",
            "S3",
            "ValueError",
            "{dtype} is not supported for quantization method modelopt_mxfp8. Supported dtypes: "
            "[torch.bfloat16]",
            _dtype,
            predicate="--dtype is not bfloat16",
            meaning="ModelOpt's MXFP8 method is for bfloat16 models.",
            fixes=("--dtype bfloat16",),
            source=f"{_CONFIG}:941",
            related=("vllm-mx-trtllm-dtype",),
        ),
        row(
            "cfg-fields",
            "config",
            "S3",
            "ValueError",
            "MXFP8 quantization requires the following fields in hf_quant_config.json: {missing}",
            _fields,
            predicate="hf_quant_config.json lacks kv_cache_quant_algo or exclude_modules",
            meaning="Both keys must be there, null and an empty list included.",
            fixes=('add "kv_cache_quant_algo": null and "exclude_modules": []',),
            source=f"{_QUANT}/modelopt.py:1281",
        ),
        row(
            "block-row",
            "linear",
            "S4",
            "ValueError",
            "Weight input_size_per_partition = {in_part} is not divisible by "
            "weight quantization block_k = {bk}.",
            _row_parallel,
            predicate="TP splits K of a block-FP8 weight and K of the rank % block_k != 0",
            meaning="Two ranks would share one scale block. The limit is block FP8's: MXFP8's "
            "blocks are 32 long.",
            fixes=(
                "the largest TP with whole blocks",
                "expert parallelism for experts",
                "a BF16 or MXFP8 checkpoint: neither has 128-wide blocks",
            ),
            source=f"{_QUANT}/utils/fp8_utils.py:1320",
            related=("vllm-block-column", "vllm-moe-block-k"),
        ),
        row(
            "block-column",
            "linear",
            "S4",
            "ValueError",
            "Weight output_partition_size = {p} is not divisible by weight "
            "quantization block_n = {bn}.",
            _column_parallel,
            predicate="TP splits N, or parts are merged, and a part % block_n != 0",
            meaning="The 128 rows of a scale block would lie on two ranks.",
            fixes=("the largest TP with whole blocks", "a BF16 or MXFP8 checkpoint"),
            source=f"{_QUANT}/utils/fp8_utils.py:1332",
            related=("vllm-block-row", "vllm-moe-block-n"),
        ),
        *_moe_blocks(row),
        row(
            "moe-k32",
            "experts",
            "S4",
            "ValueError",
            (
                "MXFP8 MoE requires hidden_size divisible by 32, got {size}.",
                "MXFP8 MoE requires intermediate_size_per_partition divisible by 32, got {size}.",
                "Online MXFP8 MoE requires hidden/intermediate sizes divisible by 32.",
            ),
            _expert_blocks,
            predicate="hidden or intermediate of the rank % 32 != 0",
            meaning="Experts must hold whole blocks of 32 along both contraction lengths.",
            fixes=("a smaller TP", "expert parallelism: experts stay whole"),
            source=f"{_QUANT}/modelopt.py:1320, online/mxfp8.py:127",
            related=("vllm-mx-k32",),
        ),
        row(
            "moe-trtllm-tiles",
            "experts",
            "S6",
            "",
            (),
            _expert_tiles,
            predicate="16-bit experts, TensorRT-LLM's layout, intermediate of the rank % 128 != 0",
            hardware="SM100, SM103",
            meaning="The backend lays weights out in blocks of 128 along K. Older releases stopped "
            "with 'K must be divisible by blockK'; this one pads with zeros and says nothing. The "
            "model is not quantised: the limit is the backend's.",
            fallback="zero-padded weights: more memory and work",
            fixes=("a TP with intermediate % 128 = 0", "another MoE backend", _ZERO),
            source="vllm/model_executor/layers/fused_moe/oracle/unquantized.py; vllm#41360",
            related=("vllm-moe-k32", "moe-trtllm-blockk"),
        ),
        row(
            "kv-scale-pair",
            "kv_cache",
            "S6",
            "AssertionError",
            (),
            _kv_pair,
            predicate="k_scale is absent (-1) or 0 while v_scale is not absent",
            meaning="A checkpoint with v_scale alone, or a k_scale of 0, meets an assertion that "
            "has no text. With k_scale alone the value serves both.",
            fixes=("write both scales into the checkpoint", "--kv-cache-dtype auto"),
            source=_KV,
            related=("vllm-kv-scale-default", "vllm-kv-scale-number"),
        ),
        row(
            "kv-scale-default",
            "kv_cache",
            "S6",
            "warning",
            "Using KV cache scaling factor 1.0 for fp8_e4m3. If this is unintended, verify that "
            "k/v_scale scaling factors are properly set in the checkpoint.",
            _kv_default,
            predicate="an E4M3 cache and a checkpoint without KV scales",
            meaning="FP8 weights do not bring KV scales. With 1.0, keys and values above 448 clip "
            "and those to 2^-10 vanish (2^-10 is a tie and goes to 0); long reasoning suffers.",
            fallback="scale 1.0 for keys, values and (where it is absent) queries",
            fixes=("calibrate and store k_scale and v_scale", "--kv-cache-dtype auto"),
            source=_KV,
            related=("vllm-kv-scale-pair",),
        ),
        row(
            "kv-scale-number",
            "kv_cache",
            "S6",
            "",
            (),
            _kv_numbers,
            predicate="a scale is infinite, or v_scale is NaN, 0 or absent beside a good k_scale",
            meaning="The comparisons let infinity through, and max(k_scale, NaN) is k_scale: a "
            "broken v_scale is replaced without a word.",
            fallback="the broken scale, or k_scale for both",
            fixes=("refuse scales that are not finite and positive before serving",),
            source=_KV,
            related=("vllm-kv-scale-pair",),
        ),
    )


def _moe_blocks(row: Callable[..., Guard]) -> tuple[Guard, ...]:
    return (
        row(
            "moe-block-n",
            "experts",
            "S4",
            "ValueError",
            "The output_size of gate's and up's weight = {size} is not divisible by weight "
            "quantization block_n = {block}.",
            _expert_columns,
            predicate="intermediate of the rank % block_n != 0",
            meaning="Gate and up of block-FP8 experts must hold whole scale blocks.",
            fixes=("the largest TP with whole blocks", "expert parallelism", f"pad: {_ZERO}"),
            source=f"{_QUANT}/utils/fp8_utils.py:1361",
            related=("vllm-moe-block-k", "vllm-block-column"),
        ),
        row(
            "moe-block-k",
            "experts",
            "S4",
            "ValueError",
            "The input_size of down's weight = {size} is not divisible by weight quantization "
            "block_k = {block}.",
            _expert_rows,
            predicate="TP > 1 and intermediate of the rank % block_k != 0",
            meaning="Down of block-FP8 experts must hold whole scale blocks.",
            fixes=("the largest TP with whole blocks", "expert parallelism"),
            source=f"{_QUANT}/utils/fp8_utils.py:1367",
            related=("vllm-moe-block-n", "vllm-block-row"),
        ),
    )
