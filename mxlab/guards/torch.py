"""torch 2.13's table: scaled_mm (v2) and _scaled_mm (v1) for MXFP8.

The checks while tracing are held to the meta device, the eager ones to a CPU and to outcomes
recorded on an H200 with torch 2.11; what no device at hand can show is read in the source.
"""

from mxlab.guards import torch_cpu, torch_device, torch_eager, torch_meta, torch_rocm
from mxlab.guards.engine import Guard
from mxlab.guards.torch_facts import FUNCTIONS, VERSION

SOURCE = "torch 2.13.0 run on meta and CPU, 2.11.0 on an H200, CUDA sources of main; 2026-11"

_TABLES = (torch_meta, torch_eager, torch_cpu, torch_rocm, torch_device)

#: in the order in which a call meets them
GUARDS: tuple[Guard, ...] = tuple(
    sorted(
        (row for table in _TABLES for row in table.GUARDS),
        key=lambda row: row.stage,
    )
)

__all__ = ["FUNCTIONS", "GUARDS", "SOURCE", "VERSION"]
