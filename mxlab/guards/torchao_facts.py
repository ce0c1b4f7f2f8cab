"""What torchao's rows have in common: its functions, and what makes its kernels exist."""

from mxlab.guards.call_rows import Library
from mxlab.guards.facts import CallFacts, Facts

VERSION = "0.18.0"
SOURCE = "the wheel on PyPI, run on a CPU with torch 2.13, read 2026-11"
AO = Library("torchao", f"torchao {VERSION}")

#: a_dtype is the element, out_dtype the high-precision dtype that is quantised or written
TO_MX = "to_mx"
LINEAR = "MXDynamicActivationMXWeightConfig"
TRAIN = "_to_mxfp8_then_scaled_mm"
GROUPED = "_to_mxfp8_then_scaled_grouped_mm"
CAST = "mxfp8_quantize_cuda"
ALL = (TO_MX, LINEAR, TRAIN, GROUPED, CAST)
#: backend is the kernel preference; auto is AUTO, and for to_mx what it does unasked
FUNCTIONS: dict[str, tuple[str, ...]] = {
    LINEAR: ("emulated",),
    TRAIN: ("emulated",),
    GROUPED: ("emulated",),
    TO_MX: ("emulated",),
    CAST: (),
}

TENSOR = "prototype/mx_formats/mx_tensor.py"
KERNELS = "prototype/mx_formats/kernels.py"
CONFIG = "prototype/mx_formats/config.py"
FLOW = "prototype/mx_formats/inference_workflow.py"
GROUPED_MM = "prototype/moe_training/mxfp8_grouped_mm.py"
TRAINING = "prototype/moe_training/mxfp8_linear.py"
ELEMENTS = ("float8_e4m3fn", "float8_e5m2", "float4_e2m1fn_x2")
PAD = "pad the axis with zeros to a multiple of 32; the result's extra columns are cut off"
EXCLUDE = "leave the layer in bfloat16: exclude it in quantize_'s filter function"
EMULATE = "kernel_preference=KernelPreference.EMULATED: dequantises and multiplies in bfloat16"


def emulated(c: CallFacts) -> bool:
    """Tell whether the kernel preference is EMULATED."""
    return c.backend == "emulated"


def native(facts: Facts) -> bool:
    """Tell whether torchao's own SM100 kernels exist: is_sm_at_least_100 and CUDA 12.8."""
    p = facts.platform
    return p.cuda and (p.capability or 0) >= 100 and p.toolkit >= (12, 8)
