"""The controls of a guard's explorer: one for each setting that the guard listens to."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import fields
from functools import cache
from typing import Any

from mxlab.explorers.controls import AnyControl, Choice, Int, State
from mxlab.explorers.guard_row_settings import CLASSES, CONFIG, Flat, default
from mxlab.guards import Deployment
from mxlab.guards.settings import SETTINGS
from mxlab.hardware import GPUS

GPU = "deployment.gpu"
_HIGH = 2**20
_RANKS = 1024
#: fields that hold at least 1; other numbers may be 0
_FROM_1 = ("deployment", "linear", "experts", "kv_cache")
_FROM_1_NAMES = ("page_size", "block_n", "block_k")

#: subject of a path -> the heading of its controls
GROUPS: Mapping[str, str] = {
    "deployment": "Deployment",
    "env": "Environment variables",
    "settings": "Deployment",
    "packages": "Installed packages",
    CONFIG: "Checkpoint's quantization_config",
    "linear": "Linear of one rank",
    "experts": "Experts of one rank",
    "kv_cache": "KV cache of one rank",
    "prologue": "Arguments of the prologue",
    "call": "The call",
    "load": "The tensor and its parameter",
    "block_scale": "The scale and its weight",
    "quantizer": "The tensor",
    "gemm_input": "The activation and the weight",
    "expert_call": "What the experts are handed",
    "kv_store": "The store",
    "host_pool": "The host pool",
    "attention": "The attention call",
}
_LABELS: Mapping[str, str] = {
    GPU: "GPU",
    "deployment.architecture": "architectures[0]",
    "deployment.toolkit": "toolkit (CUDA, ROCm)",
    "deployment.tp": "--tp-size",
    "deployment.ep": "--ep-size",
    "deployment.draft_model": "draft model",
    "deployment.flashinfer_a2a_dispatch_type": "--flashinfer-a2a-dispatch-type",
    "packages.flashinfer": "FlashInfer",
    "packages.deep_gemm": "DeepGEMM",
    CONFIG: "quantization_config",
}
#: settings that are no launch flag
_FACTS = frozenset(
    (
        *("fp4-experts", "nvfp4-experts", "model-type", "is-embedding", "mtp-layers", "torch"),
        *("external-linker", "disaggregation-peer-attn-tp", "out-of-tree-platform", "torch-npu"),
        *("foreign-triton-kernels", "diffusion", "aiter-mxscale", "aiter-per-1x32-scale-type"),
        "attn-dp-size",
    )
)
_WORD = re.compile(r"[^\w.:+@/,=-]+")
_MOST = 60  # characters of a value's name


def label(path: str) -> str:
    """Return what the reader sees of a path.

    >>> label("linear.k"), label("deployment.page_size"), label("settings.attn-dp-size")
    ('K', '--page-size', 'attn-dp-size')
    """
    subject, _, name = path.partition(".")
    if path in _LABELS:
        return _LABELS[path]
    if subject == "deployment" or (subject == "settings" and name not in _FACTS):
        return f"--{name.replace('_', '-')}"
    return name.upper() if len(name) == 1 else name


def is_number(path: str) -> bool:
    """Tell whether a path holds a whole number and is never left out.

    >>> is_number("linear.k"), is_number("deployment.page_size"), is_number("linear.quantized")
    (True, False, False)
    """
    subject, _, name = path.partition(".")
    return _kinds(subject).get(name) is int


@cache
def _kinds(subject: str) -> Mapping[str, Any]:
    of: Any = Deployment if subject == "deployment" else CLASSES.get(subject)
    return {field.name: field.type for field in fields(of)} if of else {}


def bounds(path: str) -> tuple[int, int]:
    """Return the least and the largest number of a path.

    >>> bounds("call.k"), bounds("deployment.tp")
    ((0, 1048576), (1, 1024))
    """
    subject, _, name = path.partition(".")
    low = int(subject in _FROM_1 or name in _FROM_1_NAMES)
    return low, _RANKS if subject == "deployment" or name == "moe_tp" else _HIGH


def shown(value: object) -> str:
    """Return what the reader sees of a value.

    >>> shown(None), shown(True), shown((0.5,) * 64), shown((1, 32)), shown("")
    ('not set', 'yes', '64 times 0.5', '(1, 32)', 'none')
    """
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple) and len(value) > 6 and len(set(value)) == 1:
        return f"{len(value)} times {value[0]}"
    if value is None:
        return "not set"
    if value in ("", ()):
        return "none"
    if isinstance(value, dict | list):
        return json.dumps(value)
    return str(value)


def _word(value: object) -> str:
    """Return a value as one word, for a permalink or a command."""
    if isinstance(value, bool) or value in ("", ()):
        return shown(value)
    if value is None:
        return "unset"
    if isinstance(value, tuple | list) and len(set(map(str, value))) == 1 < len(value) - 5:
        return f"{len(value)}@{_word(value[0])}"
    if isinstance(value, tuple | list):
        return "x".join(map(_word, value))
    text = json.dumps(value) if isinstance(value, dict) else str(value)
    return _WORD.sub("-", text).strip("-")[:_MOST] or "other"


def words(values: Sequence[object]) -> list[str]:
    """Return one word for each value, no two alike.

    >>> words([None, (2, 8), (2, 8, 1), "a b", "a-b"])
    ['unset', '2x8', '2x8x1', 'a-b', 'a-b-2']
    """
    found: list[str] = []
    for value in values:
        word, number = _word(value), 2
        while word.lower() in (other.lower() for other in found):
            word, number = f"{_word(value)}-{number}", number + 1
        found.append(word)
    return found


def names(paths: Sequence[str]) -> list[str]:
    """Return the control's name of each path: its last part, where that is not there twice.

    >>> names(["deployment.page_size", "kv_store.page_size", "settings.attn-dp-size"])
    ['deployment_page_size', 'kv_store_page_size', 'attn_dp_size']
    """
    last = [path.rpartition(".")[2] for path in paths]
    whole = [path if last.count(name) > 1 else name for path, name in zip(paths, last, strict=True)]
    return [re.sub(r"\W", "_", name) for name in whole]


def control(path: str, name: str, values: Sequence[object], start: object) -> AnyControl:
    """Return the control of a path: a number, or a choice of ``values``.

    ``start`` is the value of the state that the explorer opens with.
    """
    group = GROUPS[path.partition(".")[0]]
    if is_number(path):
        assert isinstance(start, int)
        low, high = bounds(path)
        return Int(name=name, label=label(path), group=group, default=start, low=low, high=high)
    options = options_of(path, values)
    help = ""
    if path.startswith("settings."):
        help = SETTINGS[path.partition(".")[2]].meaning
    return Choice(
        name=name,
        label=label(path),
        group=group,
        help=help,
        default=next(word for word, value in options.items() if value == start),
        options=tuple(
            (word, GPUS[word].label if path == GPU else shown(value))
            for word, value in options.items()
        ),
    )


def options_of(path: str, values: Sequence[object]) -> dict[str, object]:
    """Return word -> value of a choice; every GPU where the path is the GPU."""
    if path == GPU:
        return {name: name for name in GPUS}
    return dict(zip(words(values), values, strict=True))


def start_of(path: str, start: Flat) -> object:
    """Return the value of a path that the settings may leave out."""
    if path in start:
        return start[path]
    subject, _, name = path.partition(".")
    if path == CONFIG:
        return True
    if subject == "packages":
        return name in Deployment().packages
    return default((subject, name)) if subject not in ("env", "settings", CONFIG) else None


def read(state: State, paths: Mapping[str, tuple[str, Mapping[str, object]]]) -> dict[str, object]:
    """Return path -> value of a state; ``paths`` maps a control's name to its path and options."""
    return {
        path: state[name] if is_number(path) else options[str(state[name])]
        for name, (path, options) in paths.items()
    }
