"""One ``tl.dot_scaled`` compiled for a GPU that need not be there: its error, or its MMA.

As a program: cases on standard input as JSON, outcomes on standard output. A process of its own
keeps the interpreter's switch, and the compiler's dumps, away from other tests.
"""

from __future__ import annotations

import json
import re
import sys
from typing import Any

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

_MMA = re.compile(
    r"(tcgen05\.mma[\w.:]*|wgmma\.mma_async[\w.:]*|mma\.sync[\w.:]*|v_mfma\w+|v_wmma\w+|fma\.rn\.f32)"
)


@triton.jit  # type: ignore[untyped-decorator]
def kernel(  # type: ignore[no-untyped-def]
    a_ptr, b_ptr, sa_ptr, sb_ptr, c_ptr,
    M: tl.constexpr, N: tl.constexpr, K: tl.constexpr,
    SAM: tl.constexpr, SAK: tl.constexpr, SBN: tl.constexpr, SBK: tl.constexpr,
    A: tl.constexpr, B: tl.constexpr, OUT: tl.constexpr,
):  # fmt: skip
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    a = tl.load(a_ptr + m[:, None] * K + k[None, :])
    b = tl.load(b_ptr + n[None, :] * K + k[:, None])
    sa = tl.load(sa_ptr + tl.arange(0, SAM)[:, None] * SAK + tl.arange(0, SAK)[None, :])
    sb = tl.load(sb_ptr + tl.arange(0, SBN)[:, None] * SBK + tl.arange(0, SBK)[None, :])
    c = tl.dot_scaled(a, sa, A, b, sb, B, out_dtype=OUT)
    tl.store(c_ptr + m[:, None] * N + n[None, :], c)


def target(arch: str) -> Any:
    return (
        GPUTarget("hip", arch, 64) if arch.startswith("gfx") else GPUTarget("cuda", int(arch), 32)
    )


def outcome(
    arch: str,
    m: int,
    n: int,
    k: int,
    *,
    formats: tuple[str, str] = ("e4m3", "e4m3"),
    types: tuple[str, str] = ("u8", "u8"),
    scale_type: str = "u8",
    scales: tuple[int, int, int, int] | None = None,
    out: Any = tl.float32,
) -> tuple[str, str]:
    """Return ("", the MMA instructions) or (exception's class, its last cause's text)."""
    sam, sak, sbn, sbk = scales or (m, k // 32, n, k // 32)
    signature = {
        "a_ptr": f"*{types[0]}", "b_ptr": f"*{types[1]}",
        "sa_ptr": f"*{scale_type}", "sb_ptr": f"*{scale_type}", "c_ptr": "*fp32",
    }  # fmt: skip
    values: dict[str, Any] = {"M": m, "N": n, "K": k, "A": formats[0], "B": formats[1], "OUT": out}
    values |= {"SAM": sam, "SAK": sak, "SBN": sbn, "SBK": sbk}
    source = ASTSource(
        fn=kernel,
        signature=signature | dict.fromkeys(values, "constexpr"),
        constexprs={(kernel.arg_names.index(name),): value for name, value in values.items()},
    )
    try:
        built = triton.compile(source, target=target(arch))
    except Exception as error:  # whatever class, its text is the subject
        cause: BaseException = error
        while cause.__cause__ is not None:
            cause = cause.__cause__
        return type(cause).__name__, str(cause)
    text = built.asm["amdgcn" if arch.startswith("gfx") else "ptx"]
    return "", " ".join(sorted(set(_MMA.findall(text))))


if __name__ == "__main__":
    print(
        json.dumps(
            [
                outcome(case["arch"], *case["tile"], **case.get("more", {}))
                for case in json.load(sys.stdin)
            ]
        )
    )
