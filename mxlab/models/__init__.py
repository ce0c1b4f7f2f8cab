"""Models: a config.json, headers or a live module become the GEMM shapes of one rank."""

from mxlab.models.config import read_config
from mxlab.models.kv_cache import KvCache
from mxlab.models.linear import Linear
from mxlab.models.model import Model, Source, Stored, linears_model, read_model
from mxlab.models.quantization import Quantization, describe_quantization, quantization_config
from mxlab.models.shapes import Shapes, shapes, tp_that_load
from mxlab.models.shipped import shipped_models

__all__ = [
    "KvCache",
    "Linear",
    "Model",
    "Quantization",
    "Shapes",
    "Source",
    "Stored",
    "describe_quantization",
    "linears_model",
    "quantization_config",
    "read_config",
    "read_model",
    "shapes",
    "shipped_models",
    "tp_that_load",
]
