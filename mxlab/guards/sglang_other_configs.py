"""Checks of the configs beside Fp8Config: MiniMax-M3.1 NVFP4, ModelOpt FP8, diffusion (S3, S4)."""

from collections.abc import Mapping
from dataclasses import dataclass

from mxlab.guards.engine import Finding, Guard
from mxlab.guards.experts import experts_of
from mxlab.guards.facts import Facts, Platform
from mxlab.guards.findings import judge, modulo, passes, shown, silent, skipped, stops
from mxlab.guards.linear import linear_of
from mxlab.guards.quant import MX_BLOCK
from mxlab.guards.rows import row
from mxlab.guards.settings import flag

_M31 = "srt/layers/quantization/minimax_m3_nvfp4.py"
_MODELOPT = "srt/layers/quantization/modelopt_quant.py"
_DIFFUSION = "multimodal_gen/runtime/layers/quantization"


@dataclass(frozen=True, slots=True)
class M31:
    """What MiniMaxM3Nvfp4Config makes of a config."""

    ignored: list[str]
    converts: bool  # to block FP8 at load
    min_capability: int = 90


def m31_config(values: Mapping[str, object], platform: Platform) -> M31:
    """Return what the M3.1 config keeps; its checks are the rows cfg-m31-block and cfg-m31-nvfp4.

    Source: sglang 0.5.23, srt/layers/quantization/minimax_m3_nvfp4.py:81.

    >>> from mxlab.guards import Deployment, platform
    >>> m31_config({"ignored_layers": ["model.a", "a"]}, platform(Deployment(gpu="h200")))
    M31(ignored=['a', 'model.a'], converts=True, min_capability=90)
    """
    key = "ignored_layers" if "ignored_layers" in values else "modules_to_not_convert"
    names = values.get(key)
    stored: dict[str, None] = {}
    for name in names if isinstance(names, list | tuple) else ():
        base = str(name).removeprefix("model.")
        stored |= {base: None, f"model.{base}": None}
    return M31(list(stored), not platform.blackwell)


def _method(facts: Facts, *methods: str) -> Finding | None:
    if facts.quant.method in methods and facts.quant.origin == "checkpoint":
        return None
    return skipped(f"the method is {facts.quant.method}, not {' or '.join(methods)}")


def _m31_block(facts: Facts) -> Finding:
    skip = _method(facts, "minimax_m3_nvfp4")
    if skip:
        return skip
    block = facts.quant.values.get("weight_block_size", MX_BLOCK)
    return judge(block != MX_BLOCK, f"weight_block_size = {shown(block)} against [1, 32]")


def m31_problem(values: Mapping[str, object]) -> tuple[int, str] | None:
    """Return (number of the message, why) of the first M3.1 check that stops."""
    scheme = values.get("activation_scheme", "dynamic")
    if scheme != "dynamic":
        return 0, f"activation_scheme = {shown(scheme)}"
    size = values.get("group_size", 16)
    if size != 16:
        return 1, f"group_size = {shown(size)}"
    wanted = (
        ("kv_cache_quant_algo", "fp8", "FP8"),
        ("attention_quant_algo", "fp8", "FP8"),
        ("index_k_quant_type", "nvfp4", "nvfp4"),
    )
    for number, (key, lower, default) in enumerate(wanted, 2):
        value = values.get(key, default)
        if not isinstance(value, str) or value.lower() != lower:
            return number, f"{key} = {shown(value)}"
    return None


def _m31_nvfp4(facts: Facts) -> Finding:
    skip = _method(facts, "minimax_m3_nvfp4")
    if skip:
        return skip
    found = m31_problem(facts.quant.values)
    return passes("dynamic, groups of 16, FP8, NVFP4") if found is None else stops(*found[::-1])


def modelopt_fp8_problem(values: Mapping[str, object]) -> tuple[int, str, object] | None:
    """Return (number of the message, why, the algorithm) where ModelOptFp8Config refuses.

    Source: sglang 0.5.23, srt/layers/quantization/modelopt_quant.py:478.
    """
    algo = values.get("quant_algo")
    if algo is None:
        inner = values.get("quantization")
        if "quantization" not in values:
            return 1, "neither quant_algo nor quantization is there", None
        algo = inner.get("quant_algo") if isinstance(inner, Mapping) else None
    if algo is None:
        return 2, "quantization has no quant_algo", None
    return None if algo == "FP8" else (0, f"quant_algo = {shown(algo)}", algo)


def _modelopt(facts: Facts) -> Finding:
    skip = _method(facts, "modelopt_fp8")
    if skip:
        return skip
    found = modelopt_fp8_problem(facts.quant.values)
    if found is None:
        return passes("quant_algo = FP8")
    return stops(found[1], found[0], q=repr(shown(found[2])))


def _nvfp4_online(facts: Facts) -> Finding:
    if not experts_of(facts).quantized:
        return skipped(experts_of(facts).why_not or "the experts are not quantised")
    flag_value = facts.deployment.quantization
    if flag_value != "nvfp4_online":
        return skipped(f"--quantization is {flag_value}, not nvfp4_online")
    raw = facts.config.values if facts.config else None
    stored = str((raw or {}).get("quant_method", "none"))
    return judge("mxfp8" in stored, f"the checkpoint's experts are {shown(stored)}")


def _diffusion(facts: Facts) -> Finding | None:
    if flag(facts.deployment.settings, "diffusion"):
        return None
    return skipped("the language models' engine, not the diffusion one")


def _raw(facts: Facts) -> Mapping[str, object]:
    return (facts.config.values if facts.config else None) or {}


def _dif_method(facts: Facts) -> Finding:
    skip = _diffusion(facts)
    if skip:
        return skip
    values = _raw(facts)
    if "quant_method" not in values:
        return skipped("no quant_method: nothing says that the checkpoint is quantised")
    method = str(values["quant_method"]).lower()
    return judge("mxfp8" not in method, f"quant_method = {shown(method)}", q=repr(shown(method)))


def _dif_dynamic(facts: Facts) -> Finding:
    skip = _diffusion(facts)
    if skip:
        return skip
    scheme = _raw(facts).get("activation_scheme", "dynamic")
    return judge(scheme != "dynamic", f"activation_scheme = {shown(scheme)}")


def _dif_online(facts: Facts) -> Finding:
    skip = _diffusion(facts)
    if skip:
        return skip
    if facts.quant.origin != "online" or not facts.quant.mxfp8:
        return skipped("only 16-bit weights quantised to MXFP8 at load run this")
    lin, p = linear_of(facts), facts.platform
    cap = p.capability or 0
    because = f"{modulo('N', lin.n, 16)}, {modulo('K', lin.k, 32)}, capability {p.capability}"
    if p.cuda and cap >= 100 and lin.k % 32 == 0 and lin.n % 16 == 0:
        return passes(because)
    return silent(f"{because}: the layer becomes per-channel FP8, not MXFP8")


GUARDS: tuple[Guard, ...] = (
    row(
        "cfg-m31-block",
        "config",
        "S3",
        "ValueError",
        "M3.1 MXFP8 projections require weight_block_size=[1, 32]",
        _m31_block,
        predicate="quant_method minimax_m3_nvfp4 and weight_block_size is there and not the list "
        "[1, 32] (null and a tuple trip too)",
        meaning="MiniMax-M3.1 checkpoints have MXFP8 projections and NVFP4 experts; the block is "
        "that of the projections.",
        fixes=("drop weight_block_size", '"weight_block_size": [1, 32]'),
        source=f"{_M31}:85",
        related=("cfg-m31-nvfp4", "cfg-mxfp8-block"),
    ),
    row(
        "cfg-m31-nvfp4",
        "config",
        "S3",
        "ValueError",
        (
            "M3.1 NVFP4 requires dynamic activation quantization",
            "M3.1 NVFP4 requires group_size=16",
            "M3.1 NVFP4 requires kv_cache_quant_algo='FP8'",
            "M3.1 NVFP4 requires attention_quant_algo='FP8'",
            "M3.1 NVFP4 requires index_k_quant_type='nvfp4'",
        ),
        _m31_nvfp4,
        predicate="quant_method minimax_m3_nvfp4 and another activation scheme, group size or "
        "format of cache, attention or index keys",
        meaning="One recipe of MiniMax-M3.1 is supported, and the config describes another.",
        fixes=("use the checkpoint's own quantization_config unchanged",),
        source=f"{_M31}:37",
        related=("cfg-m31-block",),
    ),
    row(
        "cfg-modelopt-fp8-only",
        "config",
        "S3",
        "ValueError",
        (
            "ModelOptFp8Config only supports regular FP8 quantization, but found {q}. Use the "
            "native 'mxfp8' quantization method for MXFP8 or ModelOptFp4Config for FP4.",
            "Cannot find 'quant_algo' in the model's quantization config. Expected either flat "
            "format (config.json) or nested format (hf_quant_config.json).",
            "Cannot find 'quant_algo' in the model's quantization config. ",
        ),
        _modelopt,
        predicate="the method is modelopt_fp8 and quant_algo is missing or not FP8",
        meaning="ModelOpt's per-tensor FP8 class was given an export of another kind, usually "
        "because the config or the flag names modelopt_fp8 by hand.",
        fixes=("drop quant_method and --quantization: the export is recognised by itself",),
        source=f"{_MODELOPT}:502,511",
        related=("cfg-method-mismatch",),
    ),
    row(
        "cfg-nvfp4-online-mxfp8",
        "experts",
        "S5",
        "ValueError",
        "Online NVFP4 weight conversion does not support requantization from MXFP8 expert "
        "checkpoints.",
        _nvfp4_online,
        predicate="--quantization nvfp4_online and MXFP8 experts in the checkpoint",
        hardware="SM100, SM103",
        meaning="NVFP4 is made from FP8 or 16-bit experts, not from MXFP8 ones.",
        fixes=("drop --quantization: serve the experts as MXFP8",),
        source="srt/layers/quantization/nvfp4_online.py:365",
        related=("cfg-method-mismatch",),
    ),
    row(
        "dif-method",
        "config",
        "S3",
        "ValueError",
        ("Expected an MXFP8 checkpoint, got {q}", "MXFP8 is not supported on MPS"),
        _dif_method,
        predicate="the diffusion engine's MXFP8 loader and a quant_method without mxfp8 in it; on "
        "Apple's MPS the second text",
        meaning="The diffusion engine was asked for MXFP8 and the checkpoint says another format.",
        fixes=("drop the quantization flag: the checkpoint says what it is",),
        source=f"{_DIFFUSION}/mxfp8.py:37,53",
        related=("dif-dynamic",),
    ),
    row(
        "dif-dynamic",
        "config",
        "S3",
        "ValueError",
        "MXFP8 only supports dynamic activation scaling",
        _dif_dynamic,
        predicate="the diffusion engine and activation_scheme other than dynamic",
        meaning="Activations get their scales at run time.",
        fixes=('"activation_scheme": "dynamic"',),
        source=f"{_DIFFUSION}/mxfp8.py:60",
        related=("cfg-block-static",),
    ),
    row(
        "dif-online",
        "linear",
        "S6",
        "",
        (),
        _dif_online,
        predicate="the diffusion engine quantises at load, and K % 32 != 0, N % 16 != 0, or the "
        "capability is below 10.0",
        meaning="Such a layer is quantised with one scale a channel instead, and nothing says so. "
        "The engine's own minimum capability is 90.",
        fallback="per-channel FP8",
        fixes=("a GPU of the SM100 family", "leave the layer in 16 bits"),
        source=f"{_DIFFUSION}/mxfp8_online.py:57",
        related=("act-grp-k32",),
    ),
)
