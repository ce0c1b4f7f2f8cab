"""NVIDIA ModelOpt's MXFP8 tensor, the PyTorch path; runs in the child process."""

import importlib
import sys
from pathlib import Path
from typing import Any

import torch
from blocks import Call, quantizer
from stand_ins import Finder, bare_package


def prepare(asked: dict[str, Any]) -> dict[str, Call]:
    """Import ``MXFP8QTensor`` without the packages around it, which import all of ModelOpt."""
    root = Path(asked["paths"][0])
    sys.meta_path.insert(0, Finder("modelopt", {"transformers"}))
    bare_package("modelopt", str(root / "modelopt")).__dict__["__version__"] = "0.47.0"
    for name in (".torch", ".torch.quantization", ".torch.quantization.qtensor"):
        bare_package(f"modelopt{name}", str(root / f"modelopt{name}".replace(".", "/")))
    module = importlib.import_module("modelopt.torch.quantization.qtensor.mxfp8_tensor")

    def quantize(values: torch.Tensor, mode: str) -> tuple[torch.Tensor, torch.Tensor]:
        made, scales = module.MXFP8QTensor.quantize(values)
        return scales, made._quantized_data

    return {"quantize": quantizer(quantize)}
