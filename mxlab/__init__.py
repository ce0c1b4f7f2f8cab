"""See, debug and trust MXFP8: 32 E4M3 values share one power-of-two E8M0 scale.

Everything named in ``__all__`` is loaded on first use, so ``import mxlab`` costs a few
milliseconds and needs the standard library alone; only the array functions import NumPy.

>>> import mxlab
>>> mxlab.scale_byte(449.0, "e4m3", rule="rceil")
128
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from mxlab._version import __version__

if TYPE_CHECKING:
    from mxlab.arrays import MXArray, deinterleave, dequantize, interleave, quantize
    from mxlab.block import quantize_block
    from mxlab.codec import decode, encode
    from mxlab.doctor import doctor
    from mxlab.errors import InputError
    from mxlab.explain import explain
    from mxlab.gemm import gemm
    from mxlab.guards import CallFacts, Deployment, check
    from mxlab.layout import layout
    from mxlab.matrix import matrix
    from mxlab.models import shapes
    from mxlab.scale import scale_byte

_HOME = {
    "CallFacts": "mxlab.guards",
    "Deployment": "mxlab.guards",
    "InputError": "mxlab.errors",
    "MXArray": "mxlab.arrays",
    "check": "mxlab.guards",
    "decode": "mxlab.codec",
    "deinterleave": "mxlab.arrays",
    "dequantize": "mxlab.arrays",
    "doctor": "mxlab.doctor",
    "encode": "mxlab.codec",
    "explain": "mxlab.explain",
    "gemm": "mxlab.gemm",
    "interleave": "mxlab.arrays",
    "layout": "mxlab.layout",
    "matrix": "mxlab.matrix",
    "quantize": "mxlab.arrays",
    "quantize_block": "mxlab.block",
    "scale_byte": "mxlab.scale",
    "shapes": "mxlab.models",
}

__all__ = [  # noqa: RUF022 - the version first
    "__version__",
    "CallFacts",
    "Deployment",
    "InputError",
    "MXArray",
    "check",
    "decode",
    "deinterleave",
    "dequantize",
    "doctor",
    "encode",
    "explain",
    "gemm",
    "interleave",
    "layout",
    "matrix",
    "quantize",
    "quantize_block",
    "scale_byte",
    "shapes",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'mxlab' has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)


class _Package(ModuleType):
    """Keeps ``mxlab.layout`` the function after ``mxlab.layout``, the module, was imported."""

    def __setattr__(self, name: str, value: object) -> None:
        if not (name in _HOME and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
