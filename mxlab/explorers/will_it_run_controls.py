"""The controls of "Will it run?", and the deployment that they describe."""

from dataclasses import replace

from mxlab.explorers.controls import Choice, Int, State, Text
from mxlab.guards import Deployment
from mxlab.guards.sglang_kv_cache import INKLING
from mxlab.guards.systems import IDS
from mxlab.guards.values import FP8_GEMM_BACKEND, MOE_RUNNER_BACKEND
from mxlab.hardware import GPUS, Gpu
from mxlab.models import shipped_models

_MODEL, _DEPLOYMENT, _KV, _MORE = "Model", "Deployment", "KV cache", "More answers"
_LAYER = "Linear layer, before TP"

#: values of ``config`` that are no shipped model
LAYER, PASTED = "layer", "pasted"
_MODELS = (*shipped_models(), PASTED)
_OF_LAYER, _OF_MODEL = ("config", (LAYER,)), ("config", _MODELS)

#: values of ``matrix`` that are no system's
NO_MATRIX, ALL_SYSTEMS = "none", "all"

#: value of ``quantization`` -> what the flag gets
_QUANTIZATION = {
    "mxfp8": ("mxfp8", "mxfp8"),
    "none": ("as the checkpoint says", None),
    "fp8": ("fp8", "fp8"),
}

#: value -> packages that can be imported
_PACKAGES = {
    "both": ("FlashInfer and DeepGEMM", frozenset({"flashinfer", "deep_gemm"})),
    "no-flashinfer": ("DeepGEMM only", frozenset({"deep_gemm"})),
    "no-deep-gemm": ("FlashInfer only", frozenset({"flashinfer"})),
    "neither": ("neither", frozenset[str]()),
}

#: value -> quantization_config of the checkpoint
CHECKPOINTS: dict[str, tuple[str, dict[str, object] | None]] = {
    "mxfp8": (
        "MXFP8",
        {"quant_method": "mxfp8", "activation_scheme": "dynamic", "weight_block_size": [1, 32]},
    ),
    "bf16": ("bf16, quantised at load", None),
}

_ATTENTION = (
    *("auto", "fa4", "fa3", "flashinfer", "triton", "trtllm_mha", "trtllm_mla", "flashmla"),
    "aiter",
)
_ARCHITECTURES = {"inkling": INKLING[0], "other": ""}


def _label(gpu: Gpu) -> str:
    shown = not gpu.arch or gpu.arch in gpu.label
    return gpu.label if shown else f"{gpu.label} ({gpu.arch})"


CONTROLS = (
    Choice(
        name="config",
        label="Model",
        group=_MODEL,
        default=LAYER,
        options=(
            (LAYER, "one layer, typed in below"),
            *((name, name) for name in shipped_models()),
            (PASTED, "a config.json, pasted below"),
        ),
    ),
    Text(
        name="config_json",
        label="config.json",
        group=_MODEL,
        default="",
        limit=1_000_000,
        lines=6,
        file="a config.json",
        when=("config", (PASTED,)),
    ),
    Text(
        name="layer",
        label="Layer",
        group=_MODEL,
        default="",
        limit=100,
        lines=1,
        help="such as o_proj; empty: the one that stops first",
        when=_OF_MODEL,
    ),
    Int(
        name="row",
        label="First layer listed",
        group=_MODEL,
        default=0,
        low=0,
        high=100_000,
        when=("config", (PASTED,)),
    ),
    Choice(
        name="gpu",
        label="GPU",
        group=_DEPLOYMENT,
        default="b200",
        options=tuple((gpu.name, _label(gpu)) for gpu in GPUS.values()),
    ),
    Choice(
        name="backend",
        label="--fp8-gemm-backend",
        group=_DEPLOYMENT,
        default="deep_gemm",
        options=tuple((name, name) for name in FP8_GEMM_BACKEND),
    ),
    Int(
        name="tp",
        label="TP",
        group=_DEPLOYMENT,
        default=1,
        low=1,
        high=64,
        slider=(1, 16, 1),
        help="ranks of tensor parallelism",
    ),
    Int(
        name="ep",
        label="EP",
        group=_DEPLOYMENT,
        default=1,
        low=1,
        high=64,
        slider=(1, 16, 1),
        help="ranks of expert parallelism, a divisor of TP",
        when=_OF_MODEL,
    ),
    Choice(
        name="quantization",
        label="--quantization",
        group=_DEPLOYMENT,
        default="mxfp8",
        options=tuple((name, label) for name, (label, _) in _QUANTIZATION.items()),
        when=_OF_MODEL,
    ),
    Choice(
        name="moe",
        label="--moe-runner-backend",
        group=_DEPLOYMENT,
        default="auto",
        options=tuple((name, name) for name in MOE_RUNNER_BACKEND),
        when=_OF_MODEL,
    ),
    Choice(
        name="packages",
        label="Installed",
        group=_DEPLOYMENT,
        default="both",
        options=tuple((name, label) for name, (label, _) in _PACKAGES.items()),
    ),
    Int(
        name="n",
        label="N",
        group=_LAYER,
        default=5120,
        low=1,
        high=1_048_576,
        slider=(64, 16384, 64),
        help="output features of the whole layer",
        when=_OF_LAYER,
    ),
    Int(
        name="k",
        label="K",
        group=_LAYER,
        default=2880,
        low=1,
        high=1_048_576,
        slider=(64, 16384, 32),
        help="input features of the whole layer",
        when=_OF_LAYER,
    ),
    Choice(
        name="split",
        label="TP splits",
        group=_LAYER,
        default="column",
        options=(
            ("column", "N (column-parallel)"),
            ("row", "K (row-parallel)"),
            ("replicated", "nothing (replicated)"),
        ),
        when=_OF_LAYER,
    ),
    Choice(
        name="checkpoint",
        label="Checkpoint",
        group=_LAYER,
        default="mxfp8",
        options=tuple((name, label) for name, (label, _) in CHECKPOINTS.items()),
        when=_OF_LAYER,
    ),
    Int(
        name="tile",
        label="Scale tile",
        group=_LAYER,
        default=0,
        low=0,
        high=1_000_000_000,
        help="which 128 x 4 tile of the scales to show",
        when=_OF_LAYER,
    ),
    Choice(
        name="kv_dtype",
        label="--kv-cache-dtype",
        group=_KV,
        default="auto",
        options=(
            ("auto", "auto (bf16)"),
            *((name, name) for name in ("mxfp8", "fp8_e4m3", "fp8_e5m2")),
        ),
    ),
    Choice(
        name="attention",
        label="--attention-backend",
        group=_KV,
        default="auto",
        options=tuple((name, name) for name in _ATTENTION),
    ),
    Choice(
        name="model",
        label="Attention of",
        group=_KV,
        default="other",
        options=(("other", "any model but Inkling"), ("inkling", "Inkling")),
        help="only Inkling quantises Q as well",
        when=_OF_LAYER,
    ),
    Int(
        name="head_dim",
        label="head_dim",
        group=_KV,
        default=80,
        low=1,
        high=1024,
        slider=(16, 256, 16),
        when=_OF_LAYER,
    ),
    Int(
        name="kv_heads",
        label="KV heads",
        group=_KV,
        default=8,
        low=1,
        high=1024,
        slider=(1, 64, 1),
        help="of the whole model",
        when=_OF_LAYER,
    ),
    Int(
        name="page_size",
        label="--page-size",
        group=_KV,
        default=0,
        low=0,
        high=4096,
        slider=(0, 256, 1),
        help="0: not given, SGLang chooses",
    ),
    Choice(
        name="matrix",
        label="Every backend on every GPU",
        group=_MORE,
        default=NO_MATRIX,
        options=(
            (NO_MATRIX, "not shown"),
            *((id, f"backends of {id}") for id in IDS),
            (ALL_SYSTEMS, "backends of every system"),
        ),
        help="for the layer that is shown",
    ),
    Choice(
        name="suggest",
        label="Smallest changes that run",
        group=_MORE,
        default="no",
        options=(("no", "not searched"), ("yes", "search for them")),
        help="takes up to a second",
        when=_OF_MODEL,
    ),
)


def deployment(state: State) -> Deployment:
    """Return the deployment that a state describes; what it does not show is at its default."""
    attention, whole = str(state["attention"]), state["config"] != LAYER
    asked = Deployment(
        gpu=str(state["gpu"]),
        tp=int(state["tp"]),
        quantization="mxfp8",
        fp8_gemm_backend=str(state["backend"]),
        kv_cache_dtype=str(state["kv_dtype"]),
        attention_backend=None if attention == "auto" else attention,
        page_size=int(state["page_size"]) or None,
        architecture="" if whole else _ARCHITECTURES[str(state["model"])],
        packages=_PACKAGES[str(state["packages"])][1],
    )
    if not whole:
        return asked
    return replace(
        asked,
        ep=int(state["ep"]),
        quantization=_QUANTIZATION[str(state["quantization"])][1],
        moe_runner_backend=str(state["moe"]),
    )
