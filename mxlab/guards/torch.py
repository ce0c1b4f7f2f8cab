"""torch 2.13's table: scaled_mm (v2) and _scaled_mm (v1) for MXFP8.

The checks while tracing are held to the meta device, the eager ones to a CPU and to outcomes
recorded on an H200 with torch 2.11; what no device at hand can show is read in the source.
"""

from mxlab.guards import torch_device, torch_eager, torch_meta
from mxlab.guards.engine import Guard
from mxlab.guards.torch_facts import FUNCTIONS, VERSION

SOURCE = "torch 2.13.0 run on meta and CPU, 2.11.0 on an H200, CUDA sources of main; 2026-11"

#: in the order in which a call meets them
GUARDS: tuple[Guard, ...] = tuple(
    sorted(
        (*torch_meta.GUARDS, *torch_eager.GUARDS, *torch_device.GUARDS),
        key=lambda row: row.stage,
    )
)

__all__ = ["FUNCTIONS", "GUARDS", "SOURCE", "VERSION"]
