"""Values that a setting of a guard may take: what the search for examples knows, and every name."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from functools import cache
from typing import Any

from book.site.guard_check_rules import GRIDS, SIZES
from book.site.guard_example_known import PASSING, TRIPPING
from book.site.guard_example_settings import CHANGES, STARTS, STEP_DEPLOYMENT
from book.site.guard_example_steps import CHANGES as STEP_CHANGES
from book.site.guard_example_vllm import STARTS as VLLM_STARTS
from mxlab.explorers.guard_row_controls import is_number
from mxlab.explorers.guard_row_settings import CLASSES, CONFIG, flat
from mxlab.guards import Deployment, call_examples, known_calls
from mxlab.guards import values as flags
from mxlab.guards.calls import DTYPES, ORDERS
from mxlab.guards.runner import FAMILIES
from mxlab.guards.settings import SETTINGS
from mxlab.guards.steps import CHOICES
from mxlab.guards.systems import system
from mxlab.hardware import GPUS
from mxlab.layout import LAYOUTS

#: what is said in prose, or names the row's own world
_FIXED = frozenset(
    (
        *("deployment.system", "deployment.version", "linear.name", "linear.why_not"),
        *("experts.why_not", "deployment.packages", "deployment.env", "deployment.settings"),
    )
)
_VOCABULARY: Mapping[str, Sequence[object]] = {
    "deployment.gpu": tuple(GPUS),
    "deployment.quantization": (None, *flags.QUANTIZATION),
    "deployment.fp8_gemm_backend": flags.FP8_GEMM_BACKEND,
    "deployment.moe_runner_backend": flags.MOE_RUNNER_BACKEND,
    "deployment.moe_a2a_backend": flags.MOE_A2A_BACKEND,
    "deployment.flashinfer_a2a_dispatch_type": (None, *flags.A2A_DISPATCH),
    "deployment.kv_cache_dtype": flags.KV_CACHE_DTYPE,
    "deployment.dtype": tuple(flags.DTYPE),
    "deployment.page_size": (None, 1, 16, 32, 64, 128, 256),
    "deployment.toolkit": (None, "12.0", "12.4", "12.8", "12.9", "13.0", "6.4", "7.0", "7.2"),
    "deployment.speculative_eagle_topk": (None, 1, 2),
    "deployment.architecture": (
        *("", "LlamaForCausalLM"),
        *(family.architectures[0] for family in FAMILIES),
    ),
    **{
        f"deployment.{name}": (None, *flags.ATTENTION_BACKEND)
        for name in (
            *("attention_backend", "prefill_attention_backend", "decode_attention_backend"),
        )
    },
    "linear.shard": ("replicated", "column", "row", "vocab"),
    "experts.activation": ("silu", "gelu"),
    "prologue.function": ("verify", "extend", "decode"),
    "call.a_layout": ORDERS,
    "call.b_layout": ORDERS,
    "call.scale_layout": (None, *LAYOUTS),
    "call.declared_layout": (None, *LAYOUTS),
}


@cache
def paths(subject: str) -> tuple[str, ...]:
    """Return the paths of a guard's own subject, then those of the deployment."""
    own: Any = CLASSES.get(subject)
    mine = [f"{subject}.{field.name}" for field in fields(own)] if own else []
    where = [f"deployment.{field.name}" for field in fields(Deployment)]
    more = [path for path in _known() if path.startswith(("env.", "config."))]
    more += [f"settings.{name}" for name in SETTINGS]
    more += [f"packages.{name}" for name in flags.PACKAGES]
    return tuple(path for path in (*mine, *where, CONFIG, *more) if path not in _FIXED)


@cache
def values(path: str, system_id: str, version: str) -> tuple[object, ...]:
    """Return the values that are tried for a path, the known ones first."""
    subject, _, name = path.partition(".")
    if path == CONFIG or subject == "packages":
        return (True, False)
    if subject == "env":
        return unique((None, *_known()[path], "1", "0"))
    if subject == "settings":
        start = SETTINGS[name].default
        more = (True, False) if isinstance(start, bool) else (start,)
        return unique((*_known().get(path, ()), *more))
    if subject == CONFIG:
        return unique((*_known()[path], None))
    of: Any = Deployment if subject == "deployment" else CLASSES[subject]
    (field,) = [field for field in fields(of) if field.name == name]
    found: list[object] = [*_VOCABULARY.get(path, ())]
    if (of.__name__, name) in CHOICES:
        found += CHOICES[of.__name__, name]
    if subject == "call" and name in ("function", "backend"):
        functions = system(system_id, version).functions
        found += functions if name == "function" else ["auto", *sum(functions.values(), ())]
    elif name.endswith("dtype") and subject != "deployment":
        found += DTYPES
    elif field.type is bool:
        found += [True, False]
    elif field.type == bool | None:
        found += [None, True, False]
    elif is_number(path):
        found += GRIDS.get(name, SIZES)
    if type(None) in getattr(field.type, "__args__", ()):
        found.append(None)
    return unique((*_known().get(path, ()), *found))


def unique(given: Iterable[object]) -> tuple[object, ...]:
    """Return values once each; True is not 1, and a list is no tuple."""
    return tuple({f"{type(value).__name__} {value!r}": value for value in given}.values())


@cache
def _known() -> Mapping[str, tuple[object, ...]]:
    """Return path -> the values that the search for examples uses."""
    settings = [
        {at: value} for at, many in (*CHANGES.items(), *STEP_DEPLOYMENT.items()) for value in many
    ]
    settings += [dict(start) for starts in STARTS.values() for start, _ in starts]
    settings += [dict(known) for known in (*TRIPPING.values(), *PASSING.values())]
    for subject, changes in STEP_CHANGES.items():
        settings += [{(subject, name): one} for name, many in changes.items() for one in many]
    for subject, plain in VLLM_STARTS.items():
        for deployment, config, own, _ in plain:
            settings.append({("deployment", name): one for name, one in deployment.items()})
            settings.append({(subject, name): one for name, one in own.items()})
            if config:
                settings.append({("config", ""): config})
    of_calls = (("deployment", call_examples.DEPLOYMENTS), ("call", call_examples.CALLS))
    for subject, tables in of_calls:
        settings += [{(subject, name): one} for name, many in tables for one in many]
    for machine, call in (*known_calls.TRIPPING.values(), *known_calls.PASSING.values()):
        settings.append({("deployment", "env"): machine.env})
        settings.append({("call", f.name): getattr(call, f.name) for f in fields(call)})
    found: dict[str, list[object]] = {}
    for one in settings:
        for path, value in flat(one).items():
            found.setdefault(path, []).append(value)
    return {path: unique(many) for path, many in found.items()}
