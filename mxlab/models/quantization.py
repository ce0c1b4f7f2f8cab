"""Which quantisation a checkpoint claims, in the dialects that public configs speak."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


def quantization_config(config: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the quantization_config, or None."""
    return config.get("quantization_config")


@dataclass(frozen=True)
class Quantization: ...


def describe_quantization(config: Mapping[str, Any]) -> Quantization | None: ...
