"""A peer's quantiser as one call on plain JSON: bits of float32 in, scales and codes out."""

from collections.abc import Callable
from typing import Any

import torch

Call = Callable[[dict[str, Any]], Any]
Quantize = Callable[[torch.Tensor, str], tuple[torch.Tensor, torch.Tensor]]


def quantizer(quantize: Quantize) -> Call:
    """Wrap ``quantize(values, mode)``; ``bits`` are the rows' float32 patterns, 32 a row.

    A scale comes back as it is where it is a byte, and as the bits of a float32 where the peer
    holds it as a float.
    """

    def call(given: dict[str, Any]) -> dict[str, Any]:
        bits = torch.tensor(given["bits"], dtype=torch.int64)
        values = bits.to(torch.int32).view(torch.float32).to(getattr(torch, given["dtype"]))
        scales, codes = quantize(values, given["mode"])
        held = scales.dtype if scales.dtype == torch.uint8 else torch.float32
        if scales.dtype != torch.uint8:
            scales = scales.float().view(torch.int32)
        return {
            "scale_dtype": str(held).removeprefix("torch."),
            "scales": scales.flatten().to(torch.int64).tolist(),
            "codes": codes.view(torch.uint8).reshape(len(bits), 32).tolist(),
        }

    return call
