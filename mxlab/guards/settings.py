"""Settings of a deployment that few guards look at: their names, kinds and defaults."""

from collections.abc import Mapping
from dataclasses import dataclass

from mxlab.errors import InputError, choose, quote, whole_number

_MAX = 2**40
_MAX_TEXT = 80


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting: what it is, and the value that is meant where none is given."""

    meaning: str
    default: bool | int | str


#: name -> setting; a name that is a launch flag of SGLang is spelt like the flag
SETTINGS: Mapping[str, Setting] = {
    "attn-dp-size": Setting("ranks of data-parallel attention (with --enable-dp-attention)", 1),
    "enable-layernorm-sp": Setting("sequence-parallel norms in the prefill of Muse Spark", False),
    "fp4-experts": Setting("the checkpoint's experts are FP4", False),
    "nvfp4-experts": Setting("a hybrid checkpoint with NVFP4 experts", False),
    "model-type": Setting("config.json's model_type", ""),
    "prefill-only-disable-kv-cache": Setting("no KV cache for prefill-only work", False),
    "is-embedding": Setting("the server answers with embeddings", False),
    "chunked-prefill-size": Setting("tokens of one prefill chunk, -1 for no chunks", -1),
    "disable-radix-cache": Setting("no prefix cache", False),
    "enable-kv-cache-sharding": Setting("KV cache pages spread over ranks", False),
    "mtp-layers": Setting("the model has draft (MTP) layers with a KV cache", False),
    "quantization-param-path": Setting("a JSON file with scales of the FP8 KV cache", ""),
    "external-linker": Setting("KV cache exchanged through the direct external linker", False),
    "disaggregation-peer-attn-tp": Setting(
        "attention TP size of the other side of a prefill and decode pair, 0 for none", 0
    ),
    "out-of-tree-platform": Setting("a plugin brings the device", False),
    "torch": Setting("torch's version, where it is not the one that SGLang pins", ""),
    "foreign-triton-kernels": Setting("PyPI's triton_kernels hides the one SGLang ships", False),
    "torch-npu": Setting("torch_npu's version on Ascend, where it is not 2.9 or newer", ""),
    "diffusion": Setting("SGLang's diffusion engine, not the language models' one", False),
    "aiter-mxscale": Setting("the installed aiter has e8m0 block-scale kernels", True),
    "aiter-per-1x32-scale-type": Setting("the installed aiter's per_1x32 takes scale_type", True),
}


def setting(settings: Mapping[str, object], name: str) -> bool | int | str:
    """Return a setting's value, or its default.

    >>> setting({}, "attn-dp-size")
    1
    """
    value = settings.get(name, SETTINGS[name].default)
    assert isinstance(value, bool | int | str)
    return value


def number(settings: Mapping[str, object], name: str) -> int:
    """Return a setting that counts something."""
    return int(setting(settings, name))


def flag(settings: Mapping[str, object], name: str) -> bool:
    """Return a setting that is on or off."""
    return bool(setting(settings, name))


def check_settings(settings: object) -> None:
    """Raise InputError for a setting that is unknown or of another kind.

    >>> check_settings({"attn-dp-sizes": 8})  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    mxlab.errors.InputError: unknown setting 'attn-dp-sizes': expected one of attn-dp-size, ...
    """
    if not isinstance(settings, Mapping):
        raise InputError(f"settings are {quote(settings)}: expected names and values")
    for name, value in settings.items():
        row = choose("setting", name, SETTINGS)
        if name not in SETTINGS:
            raise InputError(f"setting {quote(name)}: write it in lower case")
        if isinstance(row.default, bool):
            if not isinstance(value, bool):
                raise InputError(f"setting {name} is {quote(value)}: expected True or False")
        elif isinstance(row.default, int):
            whole_number(f"setting {name}", value, -1, _MAX)
        elif not isinstance(value, str) or len(value) > _MAX_TEXT:
            raise InputError(f"setting {name} is {quote(value)}: expected a short text")
