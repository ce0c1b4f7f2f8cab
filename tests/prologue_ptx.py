"""Compile the prologue kernels for a GPU that is not there: ``python prologue_ptx.py 90 100``.

Prints one line a kernel: name, capability, then counts of what its code must and must not hold.
Run where TRITON_INTERPRET is 0.
"""

import re
import sys
from itertools import product
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from mxlab.kernels.decode_kernels import split_kernel
from mxlab.kernels.prologue_extend import extend_kernel
from mxlab.kernels.prologue_kernels import decode_kernel, verify_kernel

_TYPES = {
    "*i16": "qkvr k_cache v_cache kw vw qg kg k_out v_out k_inter v_inter q",
    "*u8": "k_buf v_buf q_out mask initial track_mask k v",
    "*i32": "sfk sfv q_scale indices si table lengths",
    "*i64": "loc cu track_rows track_dst track_to",
    "*fp32": "tau partial best total",
    "fp32": "eps sm_scale",
}
TYPES = {name: kind for kind, names in _TYPES.items() for name in names.split()}
_PROLOGUE: dict[str, Any] = {
    **{"ROWS": 8, "STEPS": 2, "TAPS": 4, "SILU": True, "RESIDUAL": True, "STORE": True},
    **{"MXFP8": True, "TAU": True, "TAP_MAJOR": False, "DIRECT": False},
}
_ATTENTION = {"GROUP": 4, "GROUP16": 16, "ROWS": 64, "PAGE": 128, "DIM": 128, "MXFP8": True}
KERNELS: dict[str, tuple[Any, dict[str, Any]]] = {
    "verify": (verify_kernel, _PROLOGUE),
    "decode": (decode_kernel, {**_PROLOGUE, "TRACK": True}),
    "extend": (extend_kernel, {**_PROLOGUE, "TRACK": True, "UPDATE": True, "FIRST_ROWS": 8}),
    "attention": (split_kernel, _ATTENTION),
}


def compile_ptx(name: str, capability: int) -> str:
    kernel, constants = KERNELS[name]
    names = kernel.arg_names
    kinds = {n: "constexpr" if n in constants else TYPES.get(n, "i32") for n in names}
    aligned = [i for i, n in enumerate(names) if kinds[n].startswith("*")]
    source = ASTSource(
        fn=kernel,
        signature=kinds,
        constexprs={(names.index(n),): value for n, value in constants.items()},
        attrs={(i,): [["tt.divisibility", 16]] for i in aligned},
    )
    built = triton.compile(source, target=GPUTarget("cuda", capability, 32))
    return str(built.asm["ptx"])


def main(capabilities: list[int]) -> None:
    for name, capability in product(KERNELS, capabilities):
        text = compile_ptx(name, capability)
        counts = [
            len(re.findall(pattern, text))
            for pattern in (r"ld\.global\.v4\.b32", r"cvt\.rn\.satfinite\.e4m3x2", r"\.local\.")
        ]
        print(name, capability, *counts)


if __name__ == "__main__":
    main([int(word) for word in sys.argv[1:]])
