"""Examples for the guard pages: deployments that trip a guard and that pass it, found by search.

Nothing here is typed from knowledge of a guard. Ordinary deployments are changed in one setting, in
two, in three, until the guard's own check says each thing that it can say; the page then shows the
example and the check's own words, and the reader can paste it into Python.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from itertools import combinations, product
from typing import Any

from book.site.guard_example_code import python
from book.site.guard_example_steps import CHANGES as STEP_CHANGES
from book.site.guard_example_steps import STARTS as STEP_STARTS
from mxlab.errors import InputError
from mxlab.guards import (
    GUARDS,
    STEPS,
    ConfigFacts,
    Deployment,
    ExpertFacts,
    Finding,
    KvCacheFacts,
    LinearFacts,
    PrologueFacts,
    Status,
    facts,
)
from mxlab.guards.engine import Guard, fill

Setting = tuple[str, str]  # subject and field: ("linear", "k")
Settings = Mapping[Setting, object]

MXFP8 = {"quant_method": "mxfp8", "activation_scheme": "dynamic", "weight_block_size": [1, 32]}
COMPRESSED = {
    "quant_method": "compressed-tensors",
    "config_groups": {"group_0": {"weights": {"block_structure": [128, 128]}}},
}
FP8_32 = {
    "quant_method": "fp8",
    "activation_scheme": "dynamic",
    "weight_block_size": [32, 32],
    "scale_fmt": "ue8m0",
}
FP8 = {"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [128, 128]}

_CLASSES: Mapping[str, Any] = {
    "linear": LinearFacts,
    "experts": ExpertFacts,
    "kv_cache": KvCacheFacts,
    "prologue": PrologueFacts,
    **{step.subject: step for step in STEPS},
}
_STEPS = frozenset(step.subject for step in STEPS)
_BOTH = frozenset({"flashinfer", "deep_gemm"})

_PLAIN: Settings = {("deployment", "gpu"): "b200", ("config", ""): MXFP8}
_LINEAR: Settings = {("linear", "name"): "down_proj", ("linear", "n"): 4096, ("linear", "k"): 4096}
_SPLIT: Settings = {("deployment", "tp"): 8, ("linear", "shard"): "column"}
_HOPPER_32: Settings = {("deployment", "gpu"): "h200", ("config", ""): FP8_32}
_AMD: Settings = {("deployment", "gpu"): "mi355x"}
_CK: Settings = {
    **_AMD,
    ("deployment", "toolkit"): "7.0",
    ("deployment", "env"): {"SGLANG_USE_AITER": "1"},
    ("config", ""): FP8,
    ("linear", "n"): 2560,
}
_A2A: Settings = {
    ("deployment", "moe_a2a_backend"): "flashinfer",
    ("deployment", "flashinfer_a2a_dispatch_type"): "nvfp4",
}
_MORI: Settings = {
    ("deployment", "moe_a2a_backend"): "mori",
    ("deployment", "env"): {"SGLANG_MORI_DISPATCH_DTYPE": "mxfp8"},
}
_GFX1250: Settings = {
    ("deployment", "gpu"): "gfx1250",
    ("deployment", "env"): {"SGLANG_USE_AITER": "1"},
}
_RANKS: Settings = {("deployment", "tp"): 8}
_EXPERTS: Settings = {
    ("experts", "hidden"): 4096,
    ("experts", "intermediate"): 1024,
    ("experts", "experts"): 64,
}
_INKLING = "InklingForConditionalGeneration"
_KV: Settings = {
    ("deployment", "kv_cache_dtype"): "mxfp8",
    ("deployment", "attention_backend"): "fa4",
    ("deployment", "page_size"): 128,
    ("deployment", "architecture"): _INKLING,
    ("kv_cache", "head_dim"): 128,
    ("kv_cache", "v_head_dim"): 128,
    ("kv_cache", "kv_heads"): 8,
}
_TILE = (2, 8, 32, 4, 4)
_PROLOGUE: Settings = {
    ("prologue", "function"): "verify",
    ("prologue", "dq"): 4096,
    ("prologue", "dkv"): 1024,
    ("prologue", "slots"): 256,
    ("prologue", "page_size"): 128,
    ("prologue", "sfk_shape"): _TILE,
    ("prologue", "sfv_shape"): _TILE,
}

Start = tuple[Settings, int]  # settings, and how many of them are changed at once


def _starts_of(subject: str) -> tuple[Start, ...]:
    """Return the starts of a step: an ordinary deployment and the step's own settings."""
    return tuple(
        ({**_PLAIN, **{(subject, name): value for name, value in own.items()}}, most)
        for own, most in STEP_STARTS[subject]
    )


#: subject -> ordinary deployments, the most ordinary first
_STARTS: Mapping[str, tuple[Start, ...]] = {
    "server": (
        (_PLAIN, 2),
        ({**_PLAIN, ("deployment", "quantization"): "mxfp8"}, 2),
        ({**_PLAIN, **_RANKS, **_A2A}, 1),
        ({**_PLAIN, **_RANKS, ("deployment", "moe_a2a_backend"): "flashinfer_megamoe"}, 1),
        ({**_PLAIN, **_AMD, **_MORI}, 1),
    ),
    "config": ((_PLAIN, 2),),
    "linear": (
        ({**_PLAIN, **_LINEAR}, 2),
        ({**_PLAIN, **_LINEAR, ("config", ""): FP8}, 2),
        ({**_PLAIN, **_LINEAR, **_SPLIT, ("linear", "shard"): "row"}, 1),
        ({**_PLAIN, **_LINEAR, **_SPLIT, ("config", ""): FP8}, 1),
        ({**_PLAIN, **_LINEAR, ("config", ""): FP8_32}, 1),
        ({**_PLAIN, **_LINEAR, **_HOPPER_32}, 1),
        ({**_PLAIN, **_AMD, **_LINEAR, ("config", ""): FP8_32}, 1),
        ({**_PLAIN, **_LINEAR, **_CK}, 1),
        ({**_PLAIN, **_LINEAR, **_SPLIT, ("config", ""): COMPRESSED}, 1),
        (
            {
                ("deployment", "gpu"): "b200",
                ("deployment", "quantization"): "mxfp8",
                ("deployment", "settings"): {"diffusion": True},
                **_LINEAR,
            },
            1,
        ),
    ),
    "experts": (
        ({**_PLAIN, **_EXPERTS, ("deployment", "quantization"): "mxfp8"}, 2),
        ({**_PLAIN, **_EXPERTS, ("deployment", "moe_runner_backend"): "cutlass"}, 1),
        ({**_PLAIN, **_EXPERTS, ("deployment", "gpu"): "mi355x"}, 2),
        ({**_PLAIN, **_EXPERTS, **_GFX1250, ("config", ""): FP8}, 1),
        ({**_PLAIN, **_EXPERTS, ("deployment", "moe_a2a_backend"): "flashinfer_megamoe"}, 2),
    ),
    "kv_cache": (({**_PLAIN, **_KV}, 2),),
    "prologue": (({**_PLAIN, **_PROLOGUE}, 2),),
    **{subject: _starts_of(subject) for subject in STEP_STARTS},
}

#: setting -> what it is changed to, the most ordinary first
_CHANGES: Mapping[Setting, Sequence[object]] = {
    ("deployment", "gpu"): (
        "h200",
        "rtx5090",
        "mi300x",
        "mi355x",
        "thor",
        "b300",
        "l40s",
        "a100",
        "t4",
    ),
    ("deployment", "fp8_gemm_backend"): (
        *("deep_gemm", "flashinfer_trtllm", "flashinfer_cutlass", "flashinfer_cutedsl"),
        *("triton", "cutlass", "aiter", "flashinfer_deepgemm"),
    ),
    ("deployment", "quantization"): ("mxfp8", "fp8", "awq", "nvfp4_online", "modelopt_fp4"),
    ("deployment", "tp"): (8,),
    ("deployment", "ep"): (8, 3),
    ("deployment", "dtype"): ("float16", "float32"),
    ("deployment", "packages"): (frozenset({"deep_gemm"}), frozenset({"flashinfer"}), frozenset()),
    ("deployment", "moe_runner_backend"): (
        *("cutlass", "deep_gemm", "flashinfer_trtllm", "flashinfer_trtllm_routed", "triton"),
        *("flashinfer_megamoe", "flashinfer_cutlass", "flashinfer_cutedsl", "marlin"),
    ),
    ("deployment", "moe_a2a_backend"): (
        *("flashinfer", "flashinfer_megamoe", "deepep_v2", "mori", "deepep"),
    ),
    ("deployment", "flashinfer_a2a_dispatch_type"): ("mxfp8", "bf16", "nvfp4"),
    ("deployment", "kv_cache_dtype"): ("mxfp8", "fp8_e4m3"),
    ("deployment", "page_size"): (64,),
    ("deployment", "attention_backend"): ("fa4", "fa3", "triton"),
    ("deployment", "architecture"): (
        *(_INKLING, "", "DeepseekV3ForCausalLM", "MiniMaxM3SparseForCausalLM"),
    ),
    ("deployment", "settings"): (
        {"attn-dp-size": 8},
        {"torch": "2.6.0"},
        {"enable-kv-cache-sharding": True, "mtp-layers": True},
        {"external-linker": True},
        {"disaggregation-peer-attn-tp": 4},
        {"disaggregation-peer-attn-tp": 1},
        {"out-of-tree-platform": True},
        {"prefill-only-disable-kv-cache": True, "is-embedding": True, "disable-radix-cache": True},
        {"aiter-mxscale": False},
        {"aiter-per-1x32-scale-type": False},
        {"diffusion": True},
    ),
    ("deployment", "env"): (
        {"SGLANG_FORCE_MXFP8_BLOCK_CONVERT": "1"},
        {"SGLANG_USE_HND_KVCACHE": "1"},
        {"SGLANG_FLASHINFER_MEGAMOE_COMBINE_DTYPE": "fp8"},
        {"SGLANG_USE_AITER": "1"},
        {"SGLANG_FORCE_FP8_MARLIN": "1"},
        {"SGLANG_DSV4_DENSE_MXSCALE": "1"},
        {"SGLANG_MORI_DISPATCH_DTYPE": "mxfp8"},
        {"SGLANG_MOE_NVFP4_DISPATCH": "1"},
        {"SGLANG_FLASHINFER_CUTEDSL_NVFP4_W4A16": "1"},
        {
            "SGLANG_FLASHINFER_CUTEDSL_NVFP4_W4A16": "1",
            "SGLANG_FLASHINFER_MEGAMOE_COMBINE_DTYPE": "mxfp8",
        },
    ),
    ("config", ""): (
        FP8,
        None,
        {"quant_method": "mxfp8", "weight_block_size": [1, 32]},
        {**MXFP8, "activation_scheme": "static"},
        {**MXFP8, "activation_scheme": "per_token"},
        {**MXFP8, "weight_block_size": [1, 128]},
        {**FP8, "weight_block_size": [128]},
        {**FP8, "weight_block_size": [32, 32]},
        {**MXFP8, "quant_method": "mx_fp8"},
        {**MXFP8, "quant_method": "awq"},
        {**MXFP8, "quant_method": "int4"},
        FP8_32,
        {"quant_method": "minimax_m3_nvfp4"},
        {"quant_method": "minimax_m3_nvfp4", "weight_block_size": [128, 128]},
        {"quant_method": "minimax_m3_nvfp4", "group_size": 32},
        {"quant_method": "modelopt_fp8", "quant_algo": "MXFP8"},
        {"quant_method": "modelopt_fp8", "quant_algo": "FP8"},
        ConfigFacts({"use_mxfp8": True, "weight_block_size": [1, 32]}, constructor=True),
        ConfigFacts(
            {
                "use_mxfp8": True,
                "is_checkpoint_fp8_serialized": True,
                "weight_block_size": [1, 64],
            },
            constructor=True,
        ),
        ConfigFacts({"is_checkpoint_fp8_serialized": True}, constructor=True),
        ConfigFacts({"activation_scheme": "static"}, constructor=True),
    ),
    ("linear", "k"): (2880, 1360, 576, 1000),
    ("linear", "n"): (2880, 96, 4104, 1000),
    ("linear", "shard"): ("row", "column"),
    ("linear", "skip_block_quant_check"): (True,),
    ("linear", "indivisible"): (
        "intermediate_size=11008 not divisible by 3",
        "num_attention_heads=14 not divisible by 4",
    ),
    ("experts", "indivisible"): ("moe_intermediate_size=1408 not divisible by 3",),
    ("linear", "mixed_shards"): ("model.layers.0.self_attn.qkv_proj",),
    ("experts", "hidden"): (2880, 8448, 1000),
    ("experts", "intermediate"): (960, 1008, 1000),
    ("experts", "moe_tp"): (8,),
    ("experts", "activation"): ("gelu",),
    ("experts", "gated"): (False,),
    ("experts", "experts"): (60,),
    ("kv_cache", "head_dim"): (80, 64, 192, 256),
    ("kv_cache", "v_head_dim"): (80, 64, 192, 256),
    ("kv_cache", "size"): (1000,),
    ("kv_cache", "mla"): (True,),
    ("prologue", "function"): ("decode", "extend"),
    ("prologue", "dq"): (4160, 8192, 4100),
    ("prologue", "dkv"): (960,),
    ("prologue", "page_size"): (48,),
    ("prologue", "sfk_shape"): (None, (2, 8, 32, 2, 4), (256, 8, 4)),
    ("prologue", "sfk_contiguous"): (False,),
    ("prologue", "mxfp8"): (False,),
    ("prologue", "tokens"): (3,),
    ("prologue", "row_stride"): (6145,),
    ("prologue", "offsets"): ((0, 4100, 5120),),
    ("prologue", "k_stride"): (1028, 1016),
    ("prologue", "conv_last_stride"): (2,),
    ("prologue", "inter_strides_equal"): (False,),
    ("prologue", "conv_strides_equal"): (False,),
    ("prologue", "si_size"): (0,),
    ("prologue", "cu_size"): (1,),
    ("prologue", "seq_size"): (2,),
    ("prologue", "track_rows"): (0,),
    ("prologue", "do_store"): (False,),
    ("prologue", "q_out_dtype"): ("float16",),
    ("prologue", "kv_dtype"): ("bfloat16",),
    ("prologue", "sf_dtype"): ("float8_e8m0fnu",),
    ("prologue", "q_out_contiguous"): (False,),
    ("prologue", "sfq_contiguous"): (False,),
    ("prologue", "tau_dtype"): ("bfloat16",),
}
_MOE_FLAGS = ("moe_runner_backend", "moe_a2a_backend", "flashinfer_a2a_dispatch_type", "ep")
_KV_FLAGS = ("kv_cache_dtype", "page_size", "attention_backend")
#: subject -> what its guards do not look at of the deployment
_IDLE: Mapping[str, Sequence[str]] = {
    "server": ("fp8_gemm_backend",),
    "config": ("fp8_gemm_backend", *_MOE_FLAGS, *_KV_FLAGS),
    "linear": (*_MOE_FLAGS, *_KV_FLAGS),
    "experts": ("fp8_gemm_backend", *_KV_FLAGS),
    "kv_cache": ("fp8_gemm_backend", *_MOE_FLAGS),
    "prologue": tuple(field.name for field in fields(Deployment)),
}
#: what a step's guards look at of the deployment
_STEP_DEPLOYMENT: Mapping[Setting, Sequence[object]] = {
    ("deployment", "gpu"): ("rtx5090", "h200", "mi355x"),
    ("deployment", "tp"): (2,),
    ("deployment", "packages"): (frozenset({"flashinfer"}),),
    ("deployment", "moe_runner_backend"): ("triton",),
    ("deployment", "settings"): ({"foreign-triton-kernels": True}, {"torch-npu": "2.7.1"}),
    ("deployment", "env"): ({"SGLANG_NPU_ARCH35_REQUANT_BLOCK_FP8": "1"},),
}


@dataclass(frozen=True, slots=True)
class Example:
    """One deployment, and what the guard says about it."""

    settings: tuple[tuple[Setting, object], ...]
    finding: Finding

    def python(self) -> str:
        """Return the call of ``check`` that repeats the example."""
        return python(dict(self.settings), _CLASSES, _STEPS)

    def message(self, guard: Guard) -> str:
        """Return the guard's message with the numbers of this example, or ""."""
        number = self.finding.message
        if not guard.messages or number is None or self.finding.status in QUIET:
            return ""
        return fill(guard.messages[number], self.finding.values)


QUIET = (Status.PASSES, Status.NOT_REACHED, Status.UNKNOWN)
_SHOWN = (Status.STOPS, Status.WARNS, Status.SILENT, Status.FALLS_BACK, Status.PASSES)


@cache
def examples() -> Mapping[str, Mapping[Status, Example]]:
    """Return for each guard one example of each thing that it can say.

    The example that passes is the one that differs least from the one that trips.
    """
    return {
        guard.id: found
        for subject in _STARTS
        for guard, found in _of_subject(
            subject, [guard for guard in GUARDS if guard.subject == subject]
        )
    }


def _of_subject(
    subject: str, guards: Sequence[Guard]
) -> Iterator[tuple[Guard, Mapping[Status, Example]]]:
    spoken: dict[str, dict[Status, Example]] = {guard.id: {} for guard in guards}
    passed: dict[str, list[Example]] = {guard.id: [] for guard in guards}
    for settings in _variations(subject):
        try:
            found = facts(**_arguments(settings))  # type: ignore[arg-type]
        except InputError:  # two changes that do not go together
            continue
        for guard in guards:
            finding = guard.check(found)
            if finding.status in _SHOWN:
                example = Example(tuple(settings.items()), finding)
                if finding.status == Status.PASSES:
                    passed[guard.id].append(example)
                else:
                    spoken[guard.id].setdefault(finding.status, example)
    for guard in guards:
        mine = spoken[guard.id]
        trips = next((mine[status] for status in _SHOWN if status in mine), None)
        if passed[guard.id]:
            wanted = dict(trips.settings) if trips else {}
            mine[Status.PASSES] = min(passed[guard.id], key=lambda e: _distance(e, wanted))
        yield guard, mine


def _variations(subject: str) -> Iterator[Settings]:
    """Yield each start with no change, one, two: what is nearest to the ordinary comes first."""
    starts = _STARTS[subject]
    for changed in range(max(most for _, most in starts) + 1):
        for start in [settings for settings, most in starts if changed <= most]:
            present = {s for s, _ in start} | {"deployment"}
            axes = [setting for setting in _axes(subject) if setting[0] in present]
            for chosen in combinations(axes, changed):
                for values in product(*(_axes(subject)[setting] for setting in chosen)):
                    change = dict(zip(chosen, values, strict=True))
                    if all(start.get(s, _default(s)) != value for s, value in change.items()):
                        yield {**start, **change}


@cache
def _axes(subject: str) -> Mapping[Setting, Sequence[object]]:
    """Return what can be changed: of a step little besides its own settings."""
    if subject not in _STEPS:
        idle = _IDLE.get(subject, ())
        return {s: v for s, v in _CHANGES.items() if s[0] != "deployment" or s[1] not in idle}
    own: dict[Setting, Sequence[object]] = {
        (subject, name): values for name, values in STEP_CHANGES[subject].items()
    }
    return {**own, **_STEP_DEPLOYMENT}


def _distance(example: Example, wanted: Settings) -> int:
    settings = dict(example.settings)
    return sum(
        settings.get(s, _default(s)) != wanted.get(s, _default(s)) for s in {*settings, *wanted}
    )


@cache
def _default(setting: Setting) -> object:
    subject, name = setting
    of: Any = Deployment if subject == "deployment" else _CLASSES.get(subject)
    return next((field.default for field in fields(of) if field.name == name), None) if of else None


def _arguments(settings: Settings) -> dict[str, object]:
    """Return the arguments of ``check``."""
    groups: dict[str, dict[str, object]] = {}
    for (subject, name), value in settings.items():
        groups.setdefault(subject, {})[name] = value
    arguments: dict[str, object] = {"deployment": Deployment(**groups.pop("deployment"))}  # type: ignore[arg-type]
    config = groups.pop("config", None)
    if config:
        arguments["config"] = config[""]
    for subject, values in groups.items():
        arguments["step" if subject in _STEPS else subject] = _CLASSES[subject](**values)
    return arguments
