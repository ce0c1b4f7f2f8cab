"""What the compiler makes of each kernel for a GPU that need not be there: PTX, and its products.

``python -m mxlab.kernels.ptx dot_scaled 100`` prints the matrix instructions. It needs a process in
which kernels are not interpreted (``TRITON_INTERPRET=0``).
"""

import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from mxlab.errors import InputError, choose
from mxlab.kernels import dequantize, gemm_kernels, interleave, quantize_kernels
from mxlab.kernels.mode import INTERPRETED

#: the targets of the tests: Hopper and the two kinds of Blackwell
CAPABILITIES = (90, 100, 120)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """A kernel and one way to compile it.

    ``types`` are the arguments that are no constants, in order (``*u8``: a pointer); ``loose``
    arguments are not promised to be multiples of 16. ``only`` is the one capability it is for.
    """

    function: Callable[[], Any]
    types: tuple[str, ...]
    constants: Mapping[str, Any]
    warps: int = 4
    loose: tuple[int, ...] = ()
    only: int | None = None
    gluon: bool = False


def _gluon(name: str) -> Callable[[], Any]:
    def load() -> Any:
        from mxlab.kernels import mixed_kernel, skinny_kernel

        return getattr(skinny_kernel if name == "skinny" else mixed_kernel, name)

    return load


def _descriptor(kind: str, rows: Any, cols: int) -> str:
    from triton.experimental.gluon.language import NVMMASharedLayout

    bits = 8 if kind == "fp8e4nv" else 16
    layout = NVMMASharedLayout(swizzle_byte_width=cols * bits // 8, element_bitwidth=bits, rank=2)
    return f"tensordesc<{kind}[{rows}, {cols}],{layout!r}>"


_INT = ("i32",)
_RULE = {"THRESHOLD": 0x600001, "EMAX": 8, "BF16": True, "TILED": True}
_PRODUCT = ("*u8", "*u8", "*u8", "*u8", "*bf16", *_INT * 8)

#: name -> kernel
KERNELS: dict[str, Kernel] = {
    "quantize_rows": Kernel(
        function=lambda: quantize_kernels._rows,
        types=("*i16", "*u8", "*u8", *_INT * 7),
        constants={**_RULE, "EARLY": True, "BR": 16, "BC": 256},
        loose=(8,),
    ),
    "quantize_columns": Kernel(
        function=lambda: quantize_kernels._columns,
        types=("*i16", "*u8", "*u8", *_INT * 7, "*u8", "*u8", "i32"),
        constants={**_RULE, "BR": 32, "BC": 64, "BOTH": True},
        warps=1,
    ),
    "dequantize": Kernel(
        function=lambda: dequantize._one,
        types=("*u8", "*u8", "*i16", *_INT * 6),
        constants={
            **{"BF16": True, "TILED": True, "COLUMN": False, "TURN": False, "DEAL": False},
            **{"BR": 32, "BC": 256},
        },
    ),
    "interleave": Kernel(
        function=lambda: interleave._permute,
        types=("*i32", "*i32", *_INT * 3),
        constants={"UNIT": 1, "BACK": False, "BT": 64},
    ),
    "triton": Kernel(
        function=lambda: gemm_kernels._blocks,
        types=_PRODUCT,
        constants={"TILED": True, "BM": 64, "BN": 128},
    ),
    "dot_scaled": Kernel(
        function=lambda: gemm_kernels._dot_scaled,
        types=_PRODUCT,
        constants={"TILED": True, "BM": 128, "BN": 128, "BK": 128},
        warps=8,
    ),
    "skinny": Kernel(
        function=_gluon("skinny"),
        types=("WEIGHTS", "TOKENS", "*u8", "*u8", "*bf16", "*fp32", *_INT * 4),
        constants={
            **{"BN": 128, "BM": 16, "STAGES": 4, "SPLIT": 4, "HOW": 0, "PARTS": 4},
            **{"CAP": 32, "WARPS": 4},
        },
        only=90,
        gluon=True,
    ),
    "mixed": Kernel(
        function=_gluon("mixed"),
        types=("WEIGHTS", "TOKENS", "*u8", "*bf16", "*i32", "*i32", "*i32", *_INT * 5),
        constants={"BN": 128, "BM": 256, "STAGES": 2, "HOW": 0, "GROUPED": True, "WARPS": 8},
        warps=8,
        only=90,
        gluon=True,
    ),
}


def _types(name: str, row: Kernel) -> tuple[str, ...]:
    bn, bm = row.constants.get("BN"), row.constants.get("BM")
    if name == "skinny":
        first = _descriptor("fp8e4nv", bn, 128), _descriptor("fp8e4nv", bm, 128)
    elif name == "mixed":
        first = _descriptor("fp8e4nv", bn, 128), _descriptor("bf16", bm, 64)
    else:
        return row.types
    return (*first, *row.types[2:])


def ptx(name: str, capability: int) -> str:
    """Return the PTX of a kernel for compute capability 90, 100 or 120; no GPU is needed.

    Raises InputError for an unknown kernel, another capability, one that the kernel is not for,
    and in a process whose kernels are interpreted.
    """
    row = choose("kernel", name, KERNELS)
    if capability not in CAPABILITIES or (row.only and capability != row.only):
        known = (row.only,) if row.only else CAPABILITIES
        raise InputError(f"capability is {capability}: kernel {name!r} is compiled for {known}")
    if INTERPRETED:
        raise InputError("kernels of this process are interpreted: set TRITON_INTERPRET=0")
    function, types = row.function(), _types(name, row)
    names = function.arg_names
    signature = dict(zip(names, types, strict=False))
    signature |= dict.fromkeys(row.constants, "constexpr")
    aligned = [["tt.divisibility", 16]]
    attributes = {
        (i,): aligned
        for i, kind in enumerate(types)
        if i not in row.loose and not kind.startswith("tensordesc")
    }
    constants = {(names.index(key),): value for key, value in row.constants.items()}
    source: Any = ASTSource
    if row.gluon:
        source = import_module("triton.experimental.gluon._runtime").GluonASTSource
    built = triton.compile(
        source(function, signature, constants, attributes),
        target=GPUTarget("cuda", capability, 32),
        options={"num_warps": row.warps},
    )
    return str(built.asm["ptx"])


_PRODUCTS = re.compile(r"^\s*(?:@\S+\s+)?((?:wgmma\.mma_async|tcgen05\.mma|mma\.sync)\S*)", re.M)


def products(text: str) -> list[str]:
    """Return the matrix instructions of a PTX text, each once.

    >>> products("  wgmma.mma_async.sync.aligned.m64n16k32.f32.e4m3.e4m3 {%r1}, 1;")
    ['wgmma.mma_async.sync.aligned.m64n16k32.f32.e4m3.e4m3']
    """
    return sorted(set(_PRODUCTS.findall(text)))


if __name__ == "__main__":
    try:
        for kernel in sys.argv[1].split(","):
            for target in map(int, sys.argv[2].split(",")):
                if KERNELS[kernel].only in (None, target):
                    print(kernel, target, *products(ptx(kernel, target)) or ["-"])
    except InputError as error:
        sys.exit(str(error))
