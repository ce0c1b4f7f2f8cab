"""FlashInfer's guards, in the order in which one call meets them."""

from mxlab.guards import (
    flashinfer_batched,
    flashinfer_cache,
    flashinfer_kernels,
    flashinfer_mm,
    flashinfer_quant,
)
from mxlab.guards.engine import Guard
from mxlab.guards.flashinfer_rows import FUNCTIONS as _FUNCTIONS
from mxlab.guards.flashinfer_rows import VERSION

FUNCTIONS = {**_FUNCTIONS, flashinfer_cache.DECODE: ()}
_TABLES = (
    flashinfer_mm,
    flashinfer_kernels,
    flashinfer_batched,
    flashinfer_quant,
    flashinfer_cache,
)

#: every row; a stable sort keeps the order within a stage
GUARDS: tuple[Guard, ...] = tuple(
    sorted((guard for table in _TABLES for guard in table.GUARDS), key=lambda guard: guard.stage)
)

__all__ = ["FUNCTIONS", "GUARDS", "VERSION"]
