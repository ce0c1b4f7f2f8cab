"""Calls that trip or pass a row, for rows whose example a search of two changes does not find."""

from typing import Any

from mxlab.guards.facts import CallFacts, Deployment
from mxlab.guards.torch_facts import COMPILE, V1
from mxlab.guards.torchao_facts import TO_MX
from mxlab.guards.triton_arch import DOT, OLD

Example = tuple[Deployment, CallFacts]


def _torch(gpu: str = "b200", *, toolkit: str | None = None, **more: Any) -> Example:
    made: dict[str, Any] = {"function": V1, "m": 256, "n": 512, "k": 1024, **more}
    return Deployment(system="torch", gpu=gpu, toolkit=toolkit), CallFacts(**made)


def _traced(**more: Any) -> Example:
    return _torch(backend=COMPILE, **more)


def _ao(version: str | None = None, **more: Any) -> Example:
    env = {} if version is None else {"TORCH_VERSION": version}
    call: dict[str, Any] = {"function": TO_MX, "m": 256, "n": 512, "k": 1024, **more}
    return Deployment(system="torchao", gpu="b200", env=env), CallFacts(**call)


def _dot(gpu: str = "b200", version: str = "", **more: Any) -> Example:
    call: dict[str, Any] = {"function": DOT, "m": 128, "n": 128, "k": 128, **more}
    return Deployment(system="triton", version=version, gpu=gpu), CallFacts(**call)


_ONE: dict[str, Any] = {"a_scale_shape": (1,), "b_scale_shape": (1,)}
_ROWS: dict[str, Any] = {"a_scale_shape": (256, 1), "b_scale_shape": (1, 512)}
_FLOAT = {"scale_dtype": "float32"}
_FNUZ = "float8_e4m3fnuz"

TRIPPING: dict[str, Example] = {
    "torch-meta-tensorwise": _traced(**_ONE),
    "torch-meta-float-scales": _traced(scale_dtype="uint8"),
    "torch-meta-two-d": _traced(**_FLOAT),
    "torch-meta-rowwise": _traced(**_ROWS, **_FLOAT, scale_contiguous=False),
    "torch-meta-invalid": _traced(a_scale_shape=(256, 32), b_scale_shape=(512, 32), **_FLOAT),
    "torch-v1-cpu": _torch("cpu"),
    "torch-v2-cpu": _torch("cpu", function="scaled_mm", declared_layout="linear"),
    "torch-v2-cpu-swizzle": _torch("cpu", function="scaled_mm"),
    "torch-rocm-ext-length": _torch(
        "mi355x", toolkit="7.14", function="scaled_mm", a_scale_shape=(4096,)
    ),
    "torch-tn-hopper": _torch("h200", b_layout="row"),
    "torch-fnuz": _torch(a_dtype=_FNUZ, b_dtype=_FNUZ),
    "torch-silent-recipe": _torch(**_ROWS, **_FLOAT),
    "ao-import-dtype": _ao("2.6.0"),
    "ao-import-enum": _ao("2.9.1"),
    "ao-contiguous": _ao(a_layout="column"),
    "ao-element": _ao(a_dtype=_FNUZ, b_dtype=_FNUZ),
    "triton-no-lowering": _dot("mi300x", OLD.version),
    "triton-byte-zero": _dot("h200", OLD.version),
    "triton-scale-type": _dot(scale_dtype="float8_e4m3fn"),
    "triton-block16": _dot(a_scale_shape=(128, 8), b_scale_shape=(128, 8)),
}

PASSING: dict[str, Example] = {
    "torch-meta-tensorwise": _traced(**_ONE, **_FLOAT),
    "torch-meta-float-scales": _traced(**_ROWS, **_FLOAT),
    "torch-meta-two-d": _traced(**_ROWS, **_FLOAT),
    "torch-meta-rowwise": _traced(**_ROWS, **_FLOAT),
    "torch-meta-invalid": _traced(**_ROWS, **_FLOAT),
    "torch-v1-cpu": _torch("cpu", **_ONE, **_FLOAT),
    "torch-v2-cpu-swizzle": _torch("cpu", function="scaled_mm", declared_layout="linear"),
    "torch-rocm-ext-length": _torch("mi355x", toolkit="7.14", function="scaled_mm"),
    "torch-tn-hopper": _torch("h200"),
    "ao-import-dtype": _ao("2.13.0"),
    "ao-import-enum": _ao("2.10.0"),
    "ao-contiguous": _ao(),
    "ao-element": _ao(),
    "triton-no-lowering": _dot("mi355x", OLD.version),
    "triton-byte-zero": _dot("b200", OLD.version),
    "triton-scale-type": _dot(),
    "triton-block16": _dot(),
}
