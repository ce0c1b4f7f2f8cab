"""Models: a config.json becomes the GEMM shapes of one rank."""

from mxlab.models.config import read_config
from mxlab.models.kv_cache import KvCache
from mxlab.models.linear import Linear
from mxlab.models.quantization import Quantization, describe_quantization, quantization_config
from mxlab.models.shapes import Shapes, shapes, tp_that_load
from mxlab.models.shipped import shipped_models

__all__ = [
    "KvCache",
    "Linear",
    "Quantization",
    "Shapes",
    "describe_quantization",
    "quantization_config",
    "read_config",
    "shapes",
    "shipped_models",
    "tp_that_load",
]
