"""AMD Quark's MX observer and its real quantisation to E4M3; runs in the child process."""

import contextlib
import importlib
import sys
from pathlib import Path
from typing import Any

import torch
from blocks import Call, quantizer
from stand_ins import Finder, Module, bare_package


def prepare(asked: dict[str, Any]) -> dict[str, Call]:
    """Import the observer and the element step without the model quantiser around them."""
    root = Path(asked["paths"][0])
    sys.meta_path.insert(0, Finder("quark", {"transformers"}))
    for name in (".torch", ".torch.quantization", ".torch.export"):
        bare_package(f"quark{name}", str(root / f"quark{name}".replace(".", "/")))
    extension = "quark.torch.kernel.hw_emulation.extensions"  # compiled at import, for a GPU
    sys.modules[extension] = Module(extension)
    config = importlib.import_module("quark.torch.quantization.config.config")
    observers = importlib.import_module("quark.torch.quantization.observer.observer")
    kernels: Any = importlib.import_module("quark.torch.kernel.hw_emulation.hw_emulation_interface")

    # it hands back dequantised values: the elements are what its cast to E4M3 returned
    cast: list[torch.Tensor] = []
    real = kernels.cast_to_float8_and_back

    def recorded(x: torch.Tensor, float8_dtype: torch.dtype) -> torch.Tensor:
        cast.append(real(x, float8_dtype))
        return cast[-1]

    kernels.cast_to_float8_and_back = recorded

    def quantize(values: torch.Tensor, mode: str) -> tuple[torch.Tensor, torch.Tensor]:
        spec = config.OCP_MXFP8E4M3Spec(ch_axis=-1, scale_calculation_mode=mode)
        observer = observers.PerBlockMXObserver(spec.to_quantization_spec())
        observer(values)
        scale, zero = observer.calculate_qparams()
        cast.clear()
        with contextlib.suppress(AssertionError):  # it refuses NaN after the cast
            kernels.scaled_fake_quantize(
                "fp8_e4m3", values, scale, zero, -1, 32, -448.0, 448.0, 8, "per_group", ""
            )
        return scale, cast[0].to(torch.float8_e4m3fn)

    return {"quantize": quantizer(quantize)}
