"""The controls of "Will it run?", and the deployment that they describe."""

from mxlab.explorers.controls import Choice, Int, State
from mxlab.guards import Deployment
from mxlab.guards.sglang_kv_cache import INKLING
from mxlab.guards.values import FP8_GEMM_BACKEND
from mxlab.hardware import GPUS, Gpu

_DEPLOYMENT, _LAYER, _KV = "Deployment", "Linear layer, before TP", "KV cache"

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

_ARCHITECTURES = {"inkling": INKLING[0], "other": ""}


def _label(gpu: Gpu) -> str:
    shown = not gpu.arch or gpu.arch in gpu.label
    return gpu.label if shown else f"{gpu.label} ({gpu.arch})"


CONTROLS = (
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
    Choice(
        name="checkpoint",
        label="Checkpoint",
        group=_DEPLOYMENT,
        default="mxfp8",
        options=tuple((name, label) for name, (label, _) in CHECKPOINTS.items()),
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
    ),
    Int(
        name="tile",
        label="Scale tile",
        group=_LAYER,
        default=0,
        low=0,
        high=1_000_000_000,
        help="which 128 x 4 tile of the scales to show",
    ),
    Choice(
        name="kv_dtype",
        label="--kv-cache-dtype",
        group=_KV,
        default="mxfp8",
        options=(("mxfp8", "mxfp8"), ("fp8_e4m3", "fp8_e4m3"), ("auto", "auto (bf16)")),
    ),
    Choice(
        name="attention",
        label="--attention-backend",
        group=_KV,
        default="fa4",
        options=tuple((name, name) for name in ("auto", "fa4", "fa3", "flashinfer", "triton")),
    ),
    Choice(
        name="model",
        label="Attention of",
        group=_KV,
        default="inkling",
        options=(("inkling", "Inkling"), ("other", "any other model")),
        help="only Inkling quantises Q as well",
    ),
    Int(
        name="head_dim",
        label="head_dim",
        group=_KV,
        default=80,
        low=1,
        high=1024,
        slider=(16, 256, 16),
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
    ),
    Int(
        name="page_size",
        label="--page-size",
        group=_KV,
        default=64,
        low=1,
        high=4096,
        slider=(1, 256, 1),
    ),
)


def deployment(state: State) -> Deployment:
    """Return the deployment that a state describes."""
    attention = str(state["attention"])
    return Deployment(
        gpu=str(state["gpu"]),
        tp=int(state["tp"]),
        quantization="mxfp8",
        fp8_gemm_backend=str(state["backend"]),
        kv_cache_dtype=str(state["kv_dtype"]),
        attention_backend=None if attention == "auto" else attention,
        page_size=int(state["page_size"]),
        architecture=_ARCHITECTURES[str(state["model"])],
        packages=_PACKAGES[str(state["packages"])][1],
    )
