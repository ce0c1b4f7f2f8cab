"""Checks of a step that a person hands to ``check``: one line, the nearest valid value."""

import math
from collections.abc import Collection
from dataclasses import fields
from typing import Any

from mxlab.errors import InputError, choose, quote, whole_number
from mxlab.guards.facts_steps import STEPS, BlockScaleFacts, ExpertCallFacts, Step

MAX_SIZE = 2**40
_MAX_RANK = 8
_MAX_VALUES = 2**20
_DTYPES = (
    *("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu"),
    *("uint8", "int8", "int16", "int32", "int64", "bool"),
    *("float64", "float32", "bfloat16", "float16"),
)

#: (class, field) -> the names that it may hold
CHOICES: dict[tuple[str, str], tuple[str, ...]] = {
    ("LoadFacts", "target"): ("weight", "scale"),
    ("LoadFacts", "kind"): ("column", "row", "merged", "qkv"),
    ("BlockScaleFacts", "conversion"): ("mxfp8", "mxscale", "gfx95", "npu"),
    ("GemmInputFacts", "route"): (
        *("deep_gemm", "flashinfer", "gfx95_dot_scaled", "gfx95_native", "gfx95_gemv"),
        *("gfx95_flydsl", "gfx95_fp8", "block_deep_gemm", "block_cutlass", "block_triton"),
        "npu",
    ),
    ("QuantizerFacts", "function"): (
        *("mxfp8_group_quantize", "to_mxfp8", "mxfp8_quantize_swizzled", "rmsnorm_mxfp8"),
        *("swiglu_mxfp8", "swiglu_mxfp8_deepgemm", "per_token_group_quant_fp8"),
        *("flashinfer_mxfp8_quantize", "npu_weight"),
    ),
    ("ExpertCallFacts", "runner"): (
        *("cutlass", "deep_gemm", "flashinfer_trtllm", "triton", "aiter", "npu"),
    ),
    ("ExpertCallFacts", "weight"): ("w13", "w2"),
    ("ExpertCallFacts", "routing"): ("default", "DeepSeekV3", "Llama4"),
    ("KvStoreFacts", "function"): (
        *("set_kv_buffer", "set_kv_buffer_prefix_valid", "quant_store_kv_mxfp8"),
        "store_sf_interleaved",
    ),
    ("HostPoolFacts", "layout"): (
        *("layer_first", "page_first", "page_first_direct", "page_first_kv_split", "page_head"),
    ),
    ("HostPoolFacts", "scales"): ("interleaved", "token"),
    ("HostPoolFacts", "io_backend"): ("kernel", "direct", "kernel_ascend"),
}


def check_step(step: Step) -> None:
    """Raise InputError for a step that cannot be written down.

    Sizes are whole numbers from 0, dtypes carry torch's names, and what has few values has one of
    them. Whether the server can take the step is what the guards answer.

    >>> from mxlab.guards.facts_steps import HostPoolFacts
    >>> check_step(HostPoolFacts(io_backend="kernels"))
    Traceback (most recent call last):
    mxlab.errors.InputError: unknown io_backend 'kernels': expected one of kernel, direct, \
kernel_ascend; did you mean 'kernel'?
    """
    if type(step) not in STEPS:
        names = ", ".join(kind.__name__ for kind in STEPS)
        raise InputError(f"step is {quote(step)}: expected one of {names}")
    check_fields(step.subject, step)
    if isinstance(step, BlockScaleFacts):
        _values(step)
    if isinstance(step, ExpertCallFacts):
        pairs = (("block", step.block), ("scale_shapes", step.scale_shapes))
        for name, pair in pairs:
            if pair is not None and len(pair) != 2:
                raise InputError(f"expert_call: {name} is {quote(pair)}: expected two of them")


def check_fields(subject: str, facts: Any, skip: Collection[str] = ()) -> None:
    """Raise InputError for a field of a dataclass of facts that has no value of its kind."""
    name = type(facts).__name__
    for field in fields(facts):
        value, kind = getattr(facts, field.name), field.type
        what = f"{subject}: {field.name}"
        if field.name in skip or (value is None and "None" in str(kind)):
            continue
        if (name, field.name) in CHOICES:
            choose(field.name, value, dict.fromkeys(CHOICES[name, field.name]))
            if value not in CHOICES[name, field.name]:
                raise InputError(f"{what} {quote(value)}: write it in lower case")
        elif field.name.endswith("dtype"):
            choose(f"dtype of {what}", value, dict.fromkeys(_DTYPES))
        elif kind is bool:
            if not isinstance(value, bool):
                raise InputError(f"{what} is {quote(value)}: expected True or False")
        elif kind in (int, int | None):
            whole_number(what, value, 0, MAX_SIZE)
        else:
            _numbers(what, value)


def _numbers(what: str, value: object) -> None:
    """Check a shape, or the two shapes of w13 and w2."""
    if not isinstance(value, tuple | list) or len(value) > _MAX_RANK:
        if isinstance(value, tuple | list) and what.endswith(": values"):
            return
        raise InputError(f"{what} is {quote(value)}: expected a shape, such as (128, 4)")
    for item in value:
        if isinstance(item, tuple | list):
            _numbers(what, item)
        elif not what.endswith(": values"):
            whole_number(what, item, 0, MAX_SIZE)


def _values(step: BlockScaleFacts) -> None:
    for name in ("block_n", "block_k"):
        whole_number(f"block_scale: {name}", getattr(step, name), 1, MAX_SIZE)
    if len(step.values) > _MAX_VALUES:
        raise InputError(f"block_scale: {len(step.values)} values: expected at most {_MAX_VALUES}")
    for value in step.values:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise InputError(f"block_scale: value {quote(value)}: expected a number")
    if step.values and len(step.values) != math.prod(step.shape):
        raise InputError(
            f"block_scale: {len(step.values)} values for the shape {quote(step.shape)}: expected "
            f"{math.prod(step.shape)}"
        )
