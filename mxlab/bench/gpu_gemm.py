"""Time products on a GPU: every backend that serves, beside cuBLAS bf16 and torch's fp8."""

from collections.abc import Callable
from typing import Any

import torch

from mxlab.bench.ceilings import ceilings
from mxlab.bench.gpu_memory import right, sample
from mxlab.bench.gpu_timing import copies, gpu_provenance, graph_timing, require_gpu
from mxlab.bench.report import Report, Row
from mxlab.errors import InputError, choose, whole_number
from mxlab.gemm import BACKENDS, gemm
from mxlab.kernels import mixed
from mxlab.kernels.dequantize import dequantize
from mxlab.kernels.gemm import grouped
from mxlab.kernels.quantize import quantize
from mxlab.kernels.skinny import sm90_fault
from mxlab.mxarray import MXArray

CUBLAS, FP8 = "cuBLAS bf16", "torch fp8"
#: relative error in the norm against float64, bfloat16 out: twice what rounding the result costs
TOLERANCE = 4e-3
COARSE = 0.2  # one scale for a tensor whose blocks differ by 2^15
_MOST = 1 << 33  # elements of one operand


def _error(found: torch.Tensor, wanted: torch.Tensor) -> float:
    return float(((found.double() - wanted).norm() / wanted.norm()).item())


def _operand(rows: int, k: int) -> MXArray:
    return quantize(sample(rows, k, torch.bfloat16), layout="tile_128x4")


def _fp8(x: torch.Tensor, weights: list[torch.Tensor]) -> list[Callable[[], torch.Tensor]]:
    """torch's fp8 product with one scale a tensor: coarser, and what Hopper has in hardware."""

    def cast(v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        scale = v.abs().max().float() / 448
        return (v / scale).to(torch.float8_e4m3fn), scale

    left, a = cast(x)
    rights = [cast(w) for w in weights]
    return [
        lambda w=w, b=b: torch._scaled_mm(  # type: ignore[misc]
            left, w.T, scale_a=a, scale_b=b, out_dtype=torch.bfloat16, use_fast_accum=True
        )
        for w, b in rights
    ]


def bench_gemm_gpu(
    *, m: int = 16, n: int = 8192, k: int = 8192, backend: str = "all", replays: int = 9
) -> Report:
    """Time (M, K) x (N, K) -> (M, N) bfloat16 on a GPU, in TFLOP/s.

    Weights are rotated so that none is in a cache. A backend's time counts every preparation that
    its call makes; cuBLAS gets operands that were dequantised before the clock starts, and torch's
    fp8 (one scale for each tensor) ones cast before. Every result is compared with float64 on the
    first rows of the weights. Raises InputError for sizes, names, or a wrong result.
    """
    require_gpu()
    for name, size in (("m", m), ("n", n)):
        whole_number(name, size, 1, 2**20)
    whole_number("k", k, 32, 2**20, multiple_of=32)
    if max(m, n) * k > _MOST:
        raise InputError(f"(m, n, k) = {m, n, k}: expected at most {_MOST} elements an operand")
    names = [name for name in BACKENDS if name not in ("reference", "numpy")]
    if backend != "all":
        choose("backend on a GPU", backend, {**dict.fromkeys(names), "all": None})
    names = names if backend == "all" else [backend]
    many = copies(n * k, least=1 if n * k > 1 << 28 else 2, most=48)
    a, weights = _operand(m, k), [_operand(n, k) for _ in range(many)]
    spot = min(n, 256)
    x = dequantize(a).double()
    wanted = x @ dequantize(weights[0])[:spot].double().T
    del x
    results = []
    mx_bytes = (m + n) * k * 33 / 32 + 2.0 * m * n

    def add(
        name: str, calls: list[Any], moved: float, family: str = "", tolerance: float = 0
    ) -> None:
        found = calls[0]()
        error = _error(found[:, :spot], wanted)
        checked = f"relative error {error:.1e}"
        if tolerance:
            right(name, error < tolerance, checked)
        timing = graph_timing(calls, replays=replays)
        results.append(
            Row(
                name=name,
                peer=bool(family),
                timing=timing,
                checked=checked,
                family=family,
                moved=moved,
            )
        )

    for name in names:
        fault = BACKENDS[name].fault(a, weights[0])
        if fault and backend != "all":
            raise InputError(f"gemm backend {name!r}: {fault}")
        if fault or (name in ("triton", "dot_scaled") and m * n * k > 1 << 41):
            continue
        calls = [lambda b=b, name=name: gemm(a, b, backend=name, dtype="bfloat16") for b in weights]
        peer = "tl.dot_scaled" if name == "dot_scaled" else ""
        add(peer if peer else f"mxlab {name}", calls, mx_bytes, peer, TOLERANCE)
    left, plain = dequantize(a, torch.bfloat16), [dequantize(b, torch.bfloat16) for b in weights]
    twos = 2.0 * ((m + n) * k + m * n)
    add(CUBLAS, [lambda w=w: left @ w.T for w in plain], twos, CUBLAS, TOLERANCE)
    if n % 16 == 0 and torch.cuda.get_device_capability() >= (8, 9):
        ones = (m + n) * k + 2.0 * m * n
        add(FP8, _fp8(left, plain), ones, FP8, COARSE)
    return _report("gemm", {"m": m, "n": n, "k": k, "backend": backend}, results, 2.0 * m * n * k)


def _report(what: str, parameters: dict[str, Any], rows: list[Row], flops: float) -> Report:
    native = torch.cuda.get_device_capability()[0] >= 10
    return Report(
        title=f"{what} on a GPU" + ("" if native else " (emulated MXFP8)"),
        parameters=parameters,
        work=flops / 1e12,
        unit="TFLOP/s",
        rows=rows,
        device=gpu_provenance()["gpu"],
        flops=flops,
        ceilings=ceilings(),
        where=gpu_provenance(),
    )


def bench_grouped(*, experts: int = 64, tokens: int = 256, n: int = 2048, k: int = 7168) -> Report:
    """Time one product for each expert beside the dense kernel on as many tokens: one matrix."""
    require_gpu()
    whole_number("experts", experts, 1, 1024)
    whole_number("tokens", tokens, 1, 2**16)
    total, counts = experts * tokens, [tokens] * experts
    a, dense = _operand(total, k), _operand(n, k)
    matrices = quantize(torch.randn(experts, n, k, device="cuda", dtype=torch.bfloat16),
                        layout="tile_128x4")  # fmt: skip
    x, w = dequantize(a)[:tokens].double(), dequantize(matrices)[0].double()
    wanted = x @ w.T
    bf16 = torch.bfloat16
    calls: dict[str, tuple[Callable[[], torch.Tensor], bool]] = {
        "mxlab triton, grouped": (lambda: grouped(a, matrices, counts, bf16), False),
        "mxlab triton, dense": (lambda: gemm(a, dense, backend="triton", dtype="bfloat16"), True),
    }
    if not sm90_fault(torch.device("cuda")):
        calls["mxlab triton-mixed, grouped"] = (
            lambda: mixed.grouped(a, matrices, counts, bf16), False)  # fmt: skip
        calls["mxlab triton-mixed, dense"] = (lambda: mixed.gemm(a, dense, bf16), True)
    left, right_ = dequantize(a, bf16), dequantize(dense, bf16)
    calls[f"{CUBLAS}, dense"] = (lambda: left @ right_.T, True)
    results = []
    for name, (call, is_dense) in calls.items():
        checked = "one matrix for all tokens"
        if not is_dense:
            error = _error(call()[:tokens], wanted)
            checked = right(name, error < TOLERANCE, f"relative error {error:.1e}")
        peer = CUBLAS if name.startswith(CUBLAS) else ""
        results.append(
            Row(
                name=name,
                peer=bool(peer),
                timing=graph_timing([call] * 2),
                checked=checked,
                family=peer,
                moved=None,
            )
        )
    parameters = {"experts": experts, "tokens": tokens, "n": n, "k": k}
    return _report("grouped gemm", parameters, results, 2.0 * total * n * k)
