"""Which quantisation a checkpoint claims, in the dialects that public configs speak.

The claim is read, not believed: granularity comes from the dialect's row, because single keys lie
(a leftover ``weight_block_size`` of [128, 128] under ``mxfp8`` means nothing to SGLang).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from mxlab.errors import quote
from mxlab.models.config import Section

Block = tuple[int, int]

#: where a config may keep the claim, the first that is there counts
_PLACES: tuple[tuple[str, ...], ...] = (
    ("quantization_config",),
    ("text_config", "quantization_config"),
    ("compression_config",),
    ("text_config", "compression_config"),
    ("_hf_quant_config",),
)

#: where a claim may list the modules that stay unquantised
_IGNORE_KEYS: tuple[tuple[str, ...], ...] = (
    ("ignored_layers",),
    ("modules_to_not_convert",),
    ("ignore",),
    ("exclude_modules",),
    ("exclude",),
    ("quantization", "exclude_modules"),
    ("quantization", "ignore"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantization:
    """What a checkpoint says about its weights.

    ``weights`` is the format: MXFP8, MXFP4, NVFP4, FP8 block, FP8 channel, FP8 tensor, INT4, INT8,
    mixed or unknown. ``block`` is (rows, columns) of one scale, ``scale`` the scale's type.
    ``modules`` gives the format by module name where the claim does. ``ignore`` holds the entries
    as written: names, fragments, globs and ``re:`` expressions, in checkpoint names.
    """

    dialect: str
    method: str  # quant_method as written, "" where absent
    weights: str
    block: Block | None = None
    scale: str | None = None
    activation_scheme: str | None = None
    kv_cache: str | None = None
    where: str = "quantization_config"
    ignore_key: str | None = None
    ignore: tuple[str, ...] = ()
    modules: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return a JSON object."""
        return {
            "dialect": self.dialect,
            "method": self.method,
            "weights": self.weights,
            "block": list(self.block) if self.block else None,
            "scale": self.scale,
            "activation_scheme": self.activation_scheme,
            "kv_cache": self.kv_cache,
            "where": self.where,
            "ignore_key": self.ignore_key,
            "ignore": list(self.ignore),
            "modules": dict(self.modules),
            "notes": list(self.notes),
        }


def _find(config: Mapping[str, Any]) -> Section | None:
    top = Section(config)
    for *outer, key in _PLACES:
        parent: Section | None = top
        for name in outer:
            parent = parent.section(name) if parent else None
        if parent is None:
            continue
        if key.startswith("_"):  # a Section hides such keys: they are comments everywhere else
            kept = parent.data.get(key)
            found = Section(kept, key) if isinstance(kept, Mapping) else None
        else:
            found = parent.section(key)
        if found is not None:
            return found
    return None


def quantization_config(config: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the checkpoint's quantization_config, None where the config has none.

    Looked for at the top level, in ``text_config``, as ``compression_config`` and as ModelOpt's
    separate ``hf_quant_config.json`` (kept as ``_hf_quant_config``). Raises InputError when the
    value there is no object.

    >>> quantization_config({"text_config": {"quantization_config": {"quant_method": "mxfp8"}}})
    {'quant_method': 'mxfp8'}
    """
    found = _find(config)
    return None if found is None else found.data


#: quant_algo of ModelOpt -> weights, block, scale
_MODELOPT: Mapping[str, tuple[str, Block | None, str | None]] = {
    "MXFP8": ("MXFP8", (1, 32), "ue8m0"),
    "MXFP4": ("MXFP4", (1, 32), "ue8m0"),
    "NVFP4": ("NVFP4", (1, 16), "e4m3"),
    "FP8": ("FP8 tensor", None, "float32"),
    "FP8_PER_CHANNEL_PER_TOKEN": ("FP8 channel", None, "float32"),
    "FP8_PB_WO": ("FP8 block", (128, 128), "float32"),
}


def _algorithm(claim: Section) -> tuple[str, bool]:
    """Return (quant_algo in capitals, it was nested under ``quantization``)."""
    flat = claim.text("quant_algo")
    if flat is not None:
        return flat.upper(), False
    nested = claim.section("quantization")
    return ((nested.text("quant_algo") if nested else None) or "").upper(), True


def _native_mxfp8(claim: Section) -> Quantization | None:
    if claim.text("quant_method") != "mxfp8":
        return None
    written = claim.numbers("weight_block_size")
    notes: tuple[str, ...] = ()
    if written is not None and written != (1, 32):
        notes = (
            f"{claim.at('weight_block_size')} is {list(written)}: SGLang warns and uses [1, 32]",
        )
    return _named("native MXFP8", "MXFP8", (1, 32), "ue8m0", notes)


def _modelopt(claim: Section) -> Quantization | None:
    method = (claim.text("quant_method") or "").lower()
    algorithm, nested = _algorithm(claim)
    if not algorithm or not (method.startswith("modelopt") or not method):
        return None
    spelling = "nested" if nested else "flat"
    notes = () if method else (f"{claim.path} has no quant_method",)
    if algorithm == "MIXED_PRECISION":
        modules = []
        layers = claim.section("quantized_layers")
        if layers is None and (inner := claim.section("quantization")) is not None:
            layers = inner.section("quantized_layers")
        for name in layers.data if layers else ():
            entry = layers.section(name) if layers and isinstance(name, str) else None
            modules.append((str(name), (entry and entry.text("quant_algo")) or "unknown"))
        found = _named(f"ModelOpt mixed, {spelling}", "mixed", None, None, notes)
        return replace(found, modules=tuple(modules))
    weights, block, scale = _MODELOPT.get(algorithm, ("unknown", None, None))
    if weights == "unknown":
        notes = (*notes, f"no rule for quant_algo {quote(algorithm)}")
    return _named(f"ModelOpt {algorithm[:40]}, {spelling}", weights, block, scale, notes)


def _compressed_weights(weights: Section) -> tuple[str, Block | None, str | None]:
    """Return (weights, block, scale) of one compressed-tensors group."""
    bits, size = weights.whole("num_bits", 1, 64), weights.whole("group_size", -1)
    kind, strategy = weights.text("type") or "", weights.text("strategy") or "tensor"
    scale = weights.text("scale_dtype") or ""
    if kind == "int":
        return f"INT{bits}", (1, size) if size and size > 0 else None, None
    if kind != "float" or bits not in (4, 8):
        return "unknown", None, None
    if bits == 4:
        return ("MXFP4", (1, 32), "ue8m0") if size == 32 else ("NVFP4", (1, 16), "e4m3")
    if strategy == "group" and size == 32 and "uint8" in scale:
        return "MXFP8", (1, 32), "ue8m0"
    if strategy == "block":
        shape = weights.numbers("block_structure") or ()
        return "FP8 block", (shape[0], shape[1]) if len(shape) == 2 else None, "float32"
    if strategy in ("tensor", "channel"):
        return f"FP8 {strategy}", None, "float32"
    return "unknown", None, None


def _compressed_tensors(claim: Section) -> Quantization | None:
    if claim.text("quant_method") != "compressed-tensors":
        return None
    groups = claim.section("config_groups")
    found = set()
    for name in groups.data if groups else ():
        group = groups.section(name) if groups and isinstance(name, str) else None
        weights = group.section("weights") if group else None
        if weights is not None:
            found.add(_compressed_weights(weights))
    if len(found) > 1:
        return _named("compressed-tensors, several groups", "mixed", None, None)
    weights_, block, scale = found.pop() if found else ("unknown", None, None)
    return _named("compressed-tensors", weights_, block, scale)


def _quark_weights(weight: Section) -> tuple[str, Block | None, str | None]:
    """Return (weights, block, scale) of one Quark tensor description."""
    dtype, scheme = weight.text("dtype") or "", weight.text("qscheme") or ""
    e8m0 = any("e8m0" in (weight.text(key) or "") for key in ("scale_format", "scale_type"))
    size = weight.whole("group_size", 1)
    shape = weight.numbers("block_size") or ()
    block = (1, size) if scheme == "per_group" and size else None
    if scheme == "per_block" and len(shape) == 2:
        block = (shape[0], shape[1])
    if dtype == "fp8_e4m3" and block and block[1] == 32 and e8m0:
        return "MXFP8", block, "ue8m0"
    if dtype == "fp4" and block and block[1] == 32 and e8m0:
        return "MXFP4", block, "ue8m0"
    if dtype == "fp8_e4m3":
        return ("FP8 block" if block else "FP8 tensor"), block, "float32"
    return "unknown", block, None


def _quark(claim: Section) -> Quantization | None:
    if claim.text("quant_method") != "quark":
        return None
    seen: list[tuple[str, tuple[str, Block | None, str | None]]] = []
    whole = claim.section("global_quant_config")
    if whole is not None and (weight := whole.section("weight")) is not None:
        seen.append(("", _quark_weights(weight)))
    layers = claim.section("layer_quant_config")
    for name in layers.data if layers else ():
        entry = layers.section(name) if layers and isinstance(name, str) else None
        weight = entry.section("weight") if entry else None
        if weight is not None:
            seen.append((str(name), _quark_weights(weight)))
    formats = {found for _, found in seen}
    if len(formats) == 1:
        return _named("Quark", *formats.pop())
    modules = tuple((name or "*", found[0]) for name, found in seen)
    found = _named("Quark", "mixed" if formats else "unknown", None, None)
    return replace(found, modules=modules)


def _auto_round(claim: Section) -> Quantization | None:
    if claim.text("quant_method") not in ("auto-round", "auto_round", "inc"):
        return None
    if "mx_fp" in (claim.text("data_type") or "") and claim.whole("bits", 1, 64) == 8:
        return _named("AutoRound", "MXFP8", (1, 32), "ue8m0")
    return _named("AutoRound", "unknown", None, None)


def _fp8(claim: Section) -> Quantization | None:
    if claim.text("quant_method") != "fp8":
        return None
    experts = claim.text("moe_quant_algo")
    notes = () if experts is None else (f"routed experts are {experts} (moe_quant_algo)",)
    shape = claim.numbers("weight_block_size")
    if shape is None:
        return _named("FP8", "FP8 tensor", None, "float32", notes)
    scale = "ue8m0" if claim.text("scale_fmt") == "ue8m0" else "float32"
    block = (shape[0], shape[1]) if len(shape) == 2 else None
    return _named("FP8", "mixed" if experts else "FP8 block", block, scale, notes)


def _mxfp4(claim: Section) -> Quantization | None:
    if claim.text("quant_method") != "mxfp4":
        return None
    return _named("MXFP4", "MXFP4", (1, 32), "ue8m0", ("experts only",))


def _named(
    dialect: str,
    weights: str,
    block: Block | None,
    scale: str | None,
    notes: tuple[str, ...] = (),
) -> Quantization:
    return Quantization(
        dialect=dialect, method="", weights=weights, block=block, scale=scale, notes=notes
    )


#: asked in order; the first that knows the claim describes it
_DIALECTS: tuple[Callable[[Section], Quantization | None], ...] = (
    _native_mxfp8,
    _modelopt,
    _compressed_tensors,
    _quark,
    _auto_round,
    _fp8,
    _mxfp4,
)


def _kv_cache(claim: Section) -> str | None:
    """Return what the claim says about the KV cache, in words."""
    for owner in (claim, claim.section("quantization")):
        for key in ("kv_cache_scheme", "kv_cache_quant_algo"):
            value = owner.get(key) if owner else None
            if isinstance(value, str):
                return value
            if isinstance(value, Mapping):
                scheme = Section(value, owner.at(key) if owner else key)
                return f"{scheme.whole('num_bits', 1, 64)}-bit {scheme.text('type')}"
    return None


def _ignored(claim: Section) -> tuple[str | None, tuple[str, ...]]:
    for *outer, key in _IGNORE_KEYS:
        owner: Section | None = claim
        for name in outer:
            owner = owner.section(name) if owner else None
        entries = owner.words(key) if owner else None
        if entries is not None and owner is not None:
            return owner.at(key), entries
    return None, ()


def describe_quantization(config: Mapping[str, Any]) -> Quantization | None:
    """Return what the checkpoint claims about its weights, None where it claims nothing.

    Raises InputError when a key of the claim has the wrong type. Source: configs of the dialects'
    own exporters; vLLM 0.33.0 and SGLang 0.5.23 parsers.

    >>> describe_quantization({"quantization_config": {"quant_method": "mxfp8"}}).weights
    'MXFP8'
    """
    claim = _find(config)
    if claim is None:
        return None
    method = claim.text("quant_method") or ""
    found = next((row for ask in _DIALECTS if (row := ask(claim)) is not None), None)
    if found is None:
        name = quote(method) if method else "a missing quant_method"
        found = _named("unknown", "unknown", None, None, (f"no rule for {name}",))
    key, ignore = _ignored(claim)
    return replace(
        found,
        method=method,
        activation_scheme=claim.text("activation_scheme"),
        kv_cache=_kv_cache(claim),
        where=claim.path,
        ignore_key=key,
        ignore=ignore,
    )
