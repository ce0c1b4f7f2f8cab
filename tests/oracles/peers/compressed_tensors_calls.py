"""compressed-tensors' MXFP8 scheme; runs in the child process."""

import importlib
import sys
from typing import Any

import torch
from blocks import Call, quantizer
from stand_ins import Finder


def prepare(asked: dict[str, Any]) -> dict[str, Call]:
    """Import the scheme; transformers and what comes with it are stand-ins."""
    sys.meta_path.insert(0, Finder("compressed_tensors", {"transformers"}))
    scheme = importlib.import_module("compressed_tensors.quantization")
    forward = importlib.import_module("compressed_tensors.quantization.lifecycle.forward")
    helpers = importlib.import_module("compressed_tensors.quantization.utils.helpers")

    def quantize(values: torch.Tensor, mode: str) -> tuple[torch.Tensor, torch.Tensor]:
        args = scheme.QuantizationArgs(
            num_bits=8,
            type="float",
            strategy="group",
            group_size=32,
            symmetric=True,
            scale_dtype=torch.uint8,
            zp_dtype=torch.uint8,
        )
        least, most = values.amin(1, True), values.amax(1, True)
        scales, zero = helpers.calculate_qparams(least, most, args)
        codes = forward.quantize(values, scales, zero, args, dtype=torch.float8_e4m3fn)
        return scales, codes

    return {"quantize": quantizer(quantize)}
