"""What --quantization and the checkpoint's quantization_config come to in SGLang 0.5.23."""

from collections.abc import Container, Mapping
from dataclasses import dataclass

from mxlab.guards import backend
from mxlab.guards.facts import ConfigFacts, Dense, Deployment, Platform, Quant
from mxlab.guards.values import COMPATIBLE_METHODS, MODELOPT_ALGOS, REQUANTIZE

MX_BLOCK = [1, 32]


def parse_modelopt(values: Mapping[str, object]) -> dict[str, object] | None:
    """Return the quantization_config that SGLang makes of a ModelOpt one, or None.

    Source: sglang 0.5.23, srt/configs/model_config.py:1837.

    >>> parse_modelopt({"quant_algo": "MXFP8"})["weight_block_size"]
    [1, 32]
    """
    inner = values.get("quantization", values)
    if not isinstance(inner, Mapping) or not inner:
        return None
    nested = inner.get("quantization")
    inner = nested if isinstance(nested, Mapping) else inner
    algo = inner.get("quant_algo")
    if not isinstance(algo, str) or not algo:
        return None
    if algo == "MIXED_PRECISION":
        layers = inner.get("quantized_layers")
        algos = [
            str(layer.get("quant_algo", "")).upper()
            for layer in (layers.values() if isinstance(layers, Mapping) else ())
            if isinstance(layer, Mapping)
        ]
        mixed = any(name in ("NVFP4", "W4A16_NVFP4") for name in algos)
        return {"quant_method": "modelopt_mixed" if mixed else "w4afp8", "quant_algo": algo}
    if "FP4" in algo:
        return {"quant_method": "modelopt_fp4", "quant_algo": algo}
    if algo == "FP8":
        return {"quant_method": "modelopt_fp8", "quant_algo": algo}
    if algo != "MXFP8":
        return None
    parsed: dict[str, object] = {
        "quant_method": "mxfp8",
        "quant_algo": algo,
        "activation_scheme": "dynamic",
        "weight_block_size": [1, inner.get("group_size", 32)],
        "scale_fmt": "ue8m0",
    }
    ignored = inner.get("exclude_modules", inner.get("ignore"))
    if ignored is not None:
        parsed["modules_to_not_convert"] = ignored
    kv = inner.get("kv_cache_quant_algo")
    scheme = inner.get("kv_cache_scheme")
    if kv is None and isinstance(scheme, Mapping):
        eight_bit_float = scheme.get("type") == "float" and scheme.get("num_bits") == 8
        kv = "FP8" if eight_bit_float else None
    if kv is not None:
        parsed["kv_cache_quant_algo"] = kv
    return parsed


def rewrite_modelopt(values: Mapping[str, object]) -> dict[str, object]:
    """Return the config with SGLang's ModelOpt rewrite applied, where it applies."""
    if "quant_method" in values and values["quant_method"] != "modelopt":
        return dict(values)
    return {**values, **(parse_modelopt({"quantization": values}) or {})}


@dataclass(frozen=True, slots=True)
class Method:
    """The method finally used; ``mismatch`` is (checkpoint's, flag's) where that stops."""

    name: str | None
    mismatch: tuple[str, str] | None = None


def _override(values: Mapping[str, object], flag: str | None, *, hip: bool) -> str | None:
    """Return the method that the checkpoint forces whatever the flag says."""
    method = values.get("quant_method", "")
    if flag == "nvfp4_online":
        forced = None
    elif flag == "modelopt" and str(values.get("quant_algo", "")).upper() in MODELOPT_ALGOS:
        forced = MODELOPT_ALGOS[str(values["quant_algo"]).upper()]
    else:
        forced = str(method) if method in ("modelopt_fp8", "modelopt_fp4") else None
    if forced is None and method == "modelopt_mixed":
        forced = "modelopt_mixed"
    if forced is None and hip and str(method).lower() == "modelopt":
        forced = "petit_nvfp4"
    if forced is None:
        forced = _marlin(values, flag, hip=hip)
    if forced is None and flag == "humming" and method != "mxfp4":
        forced = "humming"
    return forced


def _marlin(values: Mapping[str, object], flag: str | None, *, hip: bool) -> str | None:
    """Return the Marlin method that serves a GPTQ or AWQ checkpoint.

    On ROCm SGLang still renames GPTQ so, and then refuses the name. Source: sglang 0.5.23,
    srt/layers/quantization/gptq/gptq.py:459, awq/awq.py:402, marlin_utils.py:104.
    """
    method = str(values.get("quant_method", "")).lower()
    if flag not in (None, "marlin", f"{method}_marlin"):
        return None
    if values.get("group_size") not in (-1, 32, 64, 128):
        return None
    if method == "gptq" and not _marlin_format(values):
        whole = "desc_act" in values and values["desc_act"] is not None
        fits = whole and values.get("sym") == 1 and values.get("bits") in (4, 8)
    elif method == "awq" and not hip:
        fits = bool(values.get("zero_point")) and values.get("bits") == 4
    else:
        fits = False
    return f"{method}_marlin" if fits else None


def _marlin_format(values: Mapping[str, object]) -> bool:
    return values.get("checkpoint_format") == "marlin" or bool(values.get("is_marlin_format"))


def resolve_method(
    flag: str | None, values: Mapping[str, object] | None, platform: Platform, *, draft: bool
) -> Method:
    """Return the method finally used for a flag and a parsed quantization_config.

    Source: sglang 0.5.23, srt/configs/model_config.py:2060.
    """
    flag = flag.lower() if flag is not None else None
    if values is None:
        return Method(flag)
    found = str(values.get("quant_method", flag or "")).lower()
    kept = draft and flag == "nvfp4_online" and found in ("modelopt_fp4", "modelopt_mixed")
    if flag not in REQUANTIZE and not kept:
        forced = _override(values, flag, hip=platform.hip)
        if forced:
            return Method(forced)
    if flag is None or flag == found:
        return Method(found)
    known = flag in platform.release.methods
    if kept or (known and found in COMPATIBLE_METHODS.get(flag, ())):
        return Method(flag)
    if draft:
        return Method(found)
    if flag in REQUANTIZE:
        return Method(flag)
    return Method(found, (found, flag))


def from_values(values: Mapping[str, object], method: str | None, why: str) -> Quant:
    """Return what ``Fp8Config.from_config(values)`` makes; its own checks are guards."""
    name = values.get("quant_method", method)
    # the test is Python's "in": a list that holds "mxfp8" passes it too
    held: Container[object] = name if isinstance(name, str | list | tuple | dict) else ""
    mxfp8 = "mxfp8" in held
    return Quant(
        method=method,
        origin="checkpoint",
        values=values,
        fp8_config=True,
        mxfp8=mxfp8,
        serialized=mxfp8 or "fp8" in held,
        block=MX_BLOCK if mxfp8 else values.get("weight_block_size"),
        activation=values.get("activation_scheme", "dynamic"),
        scale_fmt=values.get("scale_fmt"),
        why=why,
    )


def from_arguments(values: Mapping[str, object]) -> Quant:
    """Return what ``Fp8Config(**values)`` makes; its own checks are guards."""
    mxfp8 = bool(values.get("use_mxfp8", False))
    block = values.get("weight_block_size")
    return Quant(
        method="mxfp8" if mxfp8 else "fp8",
        origin="constructor",
        values=values,
        fp8_config=True,
        mxfp8=mxfp8,
        serialized=bool(values.get("is_checkpoint_fp8_serialized", False)),
        block=MX_BLOCK if mxfp8 and block is None else block,
        activation=values.get("activation_scheme", "dynamic"),
        scale_fmt=values.get("scale_fmt"),
        why="Fp8Config is built directly",
    )


def _other(method: str | None, values: Mapping[str, object], origin: str, why: str) -> Quant:
    return Quant(
        method=method,
        origin=origin,
        values=values,
        fp8_config=False,
        mxfp8=False,
        serialized=False,
        block=None,
        activation=None,
        scale_fmt=None,
        why=why,
    )


def quant(deployment: Deployment, config: ConfigFacts, platform: Platform) -> Quant:
    """Return what the flag and the config come to; stops on the way are for the guards to say."""
    if config.constructor:
        return from_arguments(config.values or {})
    flag = deployment.quantization
    values = None if config.values is None else rewrite_modelopt(config.values)
    method = resolve_method(flag, values, platform, draft=deployment.draft_model).name
    if values is not None:
        where = f"the checkpoint's quantization_config says {method!r}"
        if method in ("fp8", "mxfp8"):
            return from_values(values, method, where)
        return _other(method, values, "checkpoint", f"{where}, which Fp8Config does not parse")
    if method is None:
        return _other(
            None, {}, "none", "no --quantization and no quantization_config: weights stay bf16"
        )
    why = f"--quantization {method} quantises the 16-bit weights at load"
    if method not in ("fp8", "mxfp8"):
        return _other(method, {}, "online", f"--quantization {method} is not MXFP8")
    return Quant(
        method=method,
        origin="online",
        values={},
        fp8_config=True,
        mxfp8=method == "mxfp8",
        serialized=False,
        block=MX_BLOCK if method == "mxfp8" else None,
        activation="dynamic",
        scale_fmt=None,
        why=why,
    )


def min_capability(platform: Platform, *, mxfp8: bool) -> int:
    """Return Fp8Config's minimum capability (major * 10 + minor).

    Source: sglang 0.5.23, srt/layers/quantization/fp8.py:329.
    """
    if mxfp8 and platform.gfx95:
        return 95
    if mxfp8 and (platform.gfx942 or platform.force_block):
        return 94
    return 100 if mxfp8 else 80


def converts(quant: Quant, platform: Platform, *, dense: bool) -> bool:
    """Tell whether MXFP8 weights become block FP8 [128, 128] at load (fp8.py:145,525,1497)."""
    required = platform.gfx942 or platform.force_block
    return quant.mxfp8 and (required or (dense and platform.force_block_dense))


def dense(quant: Quant, platform: Platform, flag: str) -> Dense:
    """Return how the dense linears of a model run."""
    if converts(quant, platform, dense=True):
        forced = (
            "gfx942 has no MX instruction" if platform.gfx942 else "the environment asks for it"
        )
        return Dense("converted", None, f"MXFP8 becomes block FP8 [128, 128] at load: {forced}")
    if quant.mxfp8:
        chosen, stop = backend.resolve_mxfp8_dense_gemm_backend(platform, flag)
        why = f"--fp8-gemm-backend {flag} gives {chosen}" if stop is None else stop.because
        return Dense("mxfp8", chosen, why)
    if not quant.fp8_config:
        if quant.method in ("compressed-tensors", "compressed_tensors"):
            return Dense(
                "unknown", None, "compressed-tensors has its own MXFP8 path, not in 0.5.23"
            )
        return Dense("none", None, quant.why)
    if quant.serialized:
        served, stop = backend.can_serve_block_fp8_as_mxfp8(
            platform, flag, quant.block, quant.scale_fmt
        )
        if served or stop:
            chosen = backend.resolve_block_fp8_mxfp8_backend(platform, flag)[0]
            return Dense("block-as-mxfp8", chosen, "32-wide UE8M0 block FP8 runs as MXFP8")
    return Dense("fp8", None, f"{quant.why}: block or per-tensor FP8, not MXFP8")
