"""Examples that the search does not reach: four settings at once, or no setting at all."""

from collections.abc import Mapping

from book.site.guard_example_settings import MXFP8
from mxlab.explorers.guard_row_settings import Settings

_AT_LOAD: Settings = {
    ("deployment", "gpu"): "b200",
    ("deployment", "quantization"): "mxfp8",
    ("deployment", "moe_runner_backend"): "cutlass",
    ("experts", "hidden"): 4096,
    ("experts", "intermediate"): 1024,
    ("experts", "experts"): 64,
}
_AITER: Settings = {
    ("deployment", "gpu"): "mi355x",
    ("config", ""): MXFP8,
    ("experts", "hidden"): 4096,
    ("experts", "intermediate"): 1024,
    ("experts", "experts"): 64,
    ("deployment", "env"): {"SGLANG_USE_AITER": "1"},
    ("deployment", "moe_runner_backend"): "aiter",
}

#: guard -> settings that trip it; a test holds that they do
TRIPPING: Mapping[str, Settings] = {
    "silent-moe-cutlass-slice": {**_AT_LOAD, ("experts", "hidden"): 2880},
    "moe-aiter-alpha": _AITER,
}
#: guard -> settings that pass it
PASSING: Mapping[str, Settings] = {
    "silent-moe-cutlass-slice": _AT_LOAD,
    "moe-aiter-alpha": {**_AITER, ("deployment", "architecture"): "MiniMaxM3SparseForCausalLM"},
    "moe-cutlass-sshape": {**_AT_LOAD, ("deployment", "version"): "0132848349"},
}

_GONE = "The kernel that asked this is gone: no version that mxlab knows has it."
#: guard -> why no settings can trip it
NEVER: Mapping[str, str] = {
    "act-tk-axis": "In SGLang `act-grp-last` asks the same before it, so that this text is heard "
    "only from a direct call of the kernel.",
    "kv-dtype-unknown": "The command line refuses every other value first, so that this text is "
    "heard only from code that builds the server's arguments itself.",
    "moe-triton-cuda": "SGLang sets the flag that it looks at on gfx950 only, so that this text "
    "is heard only from code that builds its own quantisation info.",
    "moe-trtllm-cols": "SGLang's layers round the intermediate size up to 128 first, so that this "
    "text is heard only from code that skips them.",
    **dict.fromkeys(
        ("old-triton-hw", "old-triton-k", "old-triton-n", "old-triton-pack", "old-triton-scale"),
        _GONE,
    ),
}

#: guard -> why no settings pass it
ALWAYS: Mapping[str, str] = {
    "silent-hopper-gate": "On every Hopper GPU the gate is there; elsewhere it is not asked.",
    "torch-v2-cpu": "No CPU has an MXFP8 product; elsewhere it is not asked.",
}
