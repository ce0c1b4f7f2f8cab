"""The settings of a guard's explorer: paths such as ``linear.k``, and the facts that they make.

A path names a field of the deployment (``deployment.gpu``), an environment variable (``env.NAME``),
a rare setting (``settings.attn-dp-size``), a package (``packages.flashinfer``), a key of the
checkpoint's quantization_config (``config.quant_method``) or a field of the guard's own subject
(``linear.k``). A path that is left out is at its default.
"""

from collections.abc import Mapping
from dataclasses import MISSING, fields
from functools import cache
from typing import Any

from mxlab.guards import (
    STEPS,
    CallFacts,
    ConfigFacts,
    Deployment,
    ExpertFacts,
    KvCacheFacts,
    LinearFacts,
    PrologueFacts,
)

Setting = tuple[str, str]  # subject and field: ("linear", "k"); a whole config is ("config", "")
Settings = Mapping[Setting, object]
Flat = Mapping[str, object]  # path -> value; None is "not set"

#: subject -> its class of facts
CLASSES: Mapping[str, Any] = {
    "call": CallFacts,
    "linear": LinearFacts,
    "experts": ExpertFacts,
    "kv_cache": KvCacheFacts,
    "prologue": PrologueFacts,
    **{step.subject: step for step in STEPS},
}
STEP_SUBJECTS = frozenset(step.subject for step in STEPS)

#: path of a checkpoint without quantization_config (False), whatever its keys say
CONFIG = "config"
#: path of a config that is handed to Fp8Config's constructor (True)
CONSTRUCTOR = "constructor"
PACKAGES = frozenset(Deployment().packages)
_MAPPINGS = ("env", "settings")


@cache
def default(setting: Setting) -> object:
    """Return what a setting is where nothing is said about it; None where that is an error.

    >>> default(("linear", "shard"))
    'replicated'
    """
    subject, name = setting
    of: Any = Deployment if subject == "deployment" else CLASSES.get(subject)
    found = next((field for field in fields(of) if field.name == name), None) if of else None
    return None if found is None or found.default is MISSING else found.default


def flat(settings: Settings) -> dict[str, object]:
    """Return settings by their paths.

    >>> flat({("deployment", "env"): {"X": "1"}, ("config", ""): {"quant_method": "fp8"}})
    {'env.X': '1', 'config.quant_method': 'fp8'}
    """
    found: dict[str, object] = {}
    for (subject, name), value in settings.items():
        if subject == "deployment" and name == "packages":
            assert isinstance(value, frozenset)
            there = {package: package in value for package in sorted(PACKAGES | value)}
            found |= {f"packages.{package}": there[package] for package in there}
        elif subject == "deployment" and name in _MAPPINGS:
            assert isinstance(value, Mapping)
            found |= {f"{name}.{key}": inner for key, inner in value.items()}
        elif subject == "config":
            if isinstance(value, ConfigFacts):
                found[CONSTRUCTOR] = True
                value = value.values
            if isinstance(value, Mapping):
                found |= {f"config.{key}": inner for key, inner in value.items()}
        else:
            found[f"{subject}.{name}"] = value
    return found


def nested(values: Flat) -> dict[Setting, object]:
    """Return the settings that paths mean: the opposite of ``flat``.

    >>> nested({"packages.flashinfer": False, "linear.k": 64})
    {('linear', 'k'): 64, ('deployment', 'packages'): frozenset({'deep_gemm'})}
    """
    found: dict[Setting, object] = {}
    parts: dict[str, dict[str, object]] = {}
    packages = PACKAGES
    for path, value in values.items():
        subject, dot, name = path.partition(".")
        if not dot:
            continue
        if subject == "packages":
            packages = packages | {name} if value else packages - {name}
        elif subject in (*_MAPPINGS, CONFIG):
            if value is not None:
                parts.setdefault(subject, {})[name] = value
        elif value is not None or default((subject, name)) is not None:
            found[subject, name] = value
    if packages != PACKAGES:
        found["deployment", "packages"] = packages
    for name in _MAPPINGS:
        if name in parts:
            found["deployment", name] = parts[name]
    if CONFIG in parts and values.get(CONFIG) is not False:
        config = parts[CONFIG]
        whole = ConfigFacts(config, constructor=True) if values.get(CONSTRUCTOR) else config
        found[CONFIG, ""] = whole
    return found


def arguments(settings: Settings) -> dict[str, Any]:
    """Return the arguments of ``check``.

    >>> arguments({("deployment", "gpu"): "b200", ("config", ""): None})["deployment"].gpu
    'b200'
    """
    groups: dict[str, dict[str, object]] = {}
    for (subject, name), value in settings.items():
        groups.setdefault(subject, {})[name] = value
    deployment: dict[str, Any] = groups.pop("deployment", {})
    found: dict[str, Any] = {"deployment": Deployment(**deployment)}
    config = groups.pop("config", None)
    if config:
        found["config"] = config[""]
    for subject, values in groups.items():
        found["step" if subject in STEP_SUBJECTS else subject] = CLASSES[subject](**values)
    return found


def encoded(path: str, value: object) -> object:
    """Return a value as JSON: infinity as a text, a long tuple of equals as how many of what.

    >>> encoded("block_scale.values", (0.5,) * 64), encoded("kv_cache.k_scale", float("inf"))
    ({'of': 0.5, 'times': 64}, 'inf')
    """
    if isinstance(value, float) and value in (float("inf"), float("-inf")):
        return str(value)
    if path.startswith((CONFIG, "env.", "settings.")):
        return value
    if isinstance(value, tuple):
        if len(value) > 6 and len(set(value)) == 1:
            return {"of": encoded(path, value[0]), "times": len(value)}
        return [encoded(path, one) for one in value]
    return value


def decoded(path: str, value: Any) -> object:
    """Return the value that was ``encoded``.

    >>> decoded("call.recipe", [1, 1, 32]), decoded("config.weight_block_size", [1, 32])
    ((1, 1, 32), [1, 32])
    """
    if path.startswith((CONFIG, "env.", "settings.")):
        return value
    if value in ("inf", "-inf"):
        return float(value)
    if isinstance(value, dict):
        return (decoded(path, value["of"]),) * int(value["times"])
    if isinstance(value, list):
        return tuple(decoded(path, one) for one in value)
    return value
