"""Time what only moves bytes on a GPU: quantise, dequantise, interleave, deinterleave."""

from collections.abc import Callable, Sequence
from typing import Any

import torch

from mxlab.arrays import quantize as reference_quantize
from mxlab.bench.ceilings import ceilings
from mxlab.bench.gpu_timing import copies, gpu_provenance, graph_timing, require_gpu
from mxlab.bench.report import Report, Row
from mxlab.errors import InputError, choose, whole_number
from mxlab.kernels.dequantize import dequantize
from mxlab.kernels.interleave import deinterleave, interleave
from mxlab.kernels.quantize import quantize, quantize_both

DTYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16, "float32": torch.float32}
_MOST = 1 << 33  # bytes of one operand


def sample(rows: int, cols: int, dtype: torch.dtype) -> torch.Tensor:
    """Return normal values whose blocks have scales of their own, (rows, cols) on the GPU."""
    x = torch.randn(rows, cols // 32, 32, device="cuda")
    x *= torch.exp2(torch.randint(-8, 8, (rows, cols // 32, 1), device="cuda").float())
    return x.reshape(rows, cols).to(dtype)


def right(name: str, holds: bool, what: str) -> str:
    """Return what was compared, or raise InputError: no time is believed of a wrong result."""
    if not holds:
        raise InputError(f"{name} is wrong: {what}; it is not timed")
    return what


def _sizes(rows: int, cols: int, itemsize: int) -> None:
    whole_number("rows", rows, 1, 2**24)
    whole_number("cols", cols, 32, 2**20, multiple_of=32)
    if rows * cols * itemsize > _MOST:
        raise InputError(f"rows x cols is {rows * cols}: expected at most {_MOST // itemsize}")


def _report(title: str, parameters: dict[str, Any], rows: Sequence[Row], least: float) -> Report:
    return Report(
        title=title,
        parameters=parameters,
        work=least / 1e9,
        unit="GB/s",
        rows=rows,
        device=gpu_provenance()["gpu"],
        ceilings=ceilings(),
        where=gpu_provenance(),
    )


Quantizer = Callable[[torch.Tensor], Any]


def _torchao(rule: str) -> Quantizer | None:
    """torchao's compiled to_mx and its swizzle, where torchao is installed."""
    try:
        from torchao.prototype.mx_formats.mx_tensor import ScaleCalculationMode, to_mx
        from torchao.prototype.mx_formats.utils import to_blocked
    except ImportError:
        return None
    mode = ScaleCalculationMode[rule.upper()]

    def call(x: torch.Tensor) -> Any:
        scale, codes = to_mx(x, torch.float8_e4m3fn, 32, mode)
        return codes, to_blocked(scale)

    return torch.compile(call)


def bench_quantize_gpu(
    *, rows: int = 16384, cols: int = 16384, dtype: str = "bfloat16", rule: str = "rceil"
) -> Report:
    """Time quantising (rows, cols) on a GPU: each axis and layout, and both in one read.

    Every result is compared with torch's operations on the same GPU, byte for byte. GB/s count
    each value read once and each code and scale written once; ``both`` writes two of each. The
    copy is of x alone, by a kernel. Raises InputError for sizes, names, or a wrong result.
    """
    require_gpu()
    kind = choose("dtype", dtype, DTYPES)
    _sizes(rows, cols, kind.itemsize)
    many = copies(rows * cols * kind.itemsize)
    inputs = [sample(rows, cols, kind) for _ in range(many)]
    read, written = float(rows * cols * kind.itemsize), rows * cols * 33 / 32
    results = []

    def add(name: str, call: Quantizer, moved: float, checked: str, family: str = "") -> None:
        timing = graph_timing([lambda x=x: call(x) for x in inputs])  # type: ignore[misc]
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

    variants: list[tuple[str, int, str]] = [
        ("along rows, tile_128x4", -1, "tile_128x4"),
        ("along rows, linear", -1, "linear"),
    ]
    if rows % 32 == 0:
        variants += [("along columns, te_columnwise", -2, "te_columnwise")]
        variants += [("along columns, linear", -2, "linear")]
    for name, axis, layout in variants:
        found = quantize(inputs[0], "e4m3", rule, axis, layout=layout)
        wanted = reference_quantize(inputs[0], "e4m3", rule, axis, layout=layout)
        same = torch.equal(_t(found.codes), _t(wanted.codes))
        same = same and torch.equal(_t(found.scales), _t(wanted.scales))
        del wanted
        out = _t(found.codes), _t(found.scales)
        add(
            f"mxlab triton, {name}",
            lambda x, axis=axis, layout=layout, out=out: quantize(  # type: ignore[misc]
                x, "e4m3", rule, axis, layout=layout, out=out
            ),
            read + written,
            right(name, same, "equal to torch's operations, byte for byte"),
        )
    if rows % 32 == 0:
        found_both = quantize_both(inputs[0], "e4m3", rule)
        singles = [quantize(inputs[0], "e4m3", rule, axis) for axis in (-1, -2)]
        same = all(
            torch.equal(_t(both.codes), _t(one.codes))
            and torch.equal(_t(both.scales), _t(one.scales))
            for both, one in zip(found_both, singles, strict=True)
        )
        name = "mxlab triton, both axes from one read"
        checked = right(name, same, "equal to the rows above, byte for byte")
        del found_both, singles
        add(name, lambda x: quantize_both(x, "e4m3", rule), read + 2 * written, checked)
    copy = torch.empty_like(inputs[0])
    add("copy of x, by a kernel", lambda x: torch.add(x, 0.0, out=copy), 2 * read, "", "copy")
    add("copy of x, copy_", lambda x: copy.copy_(x), 2 * read, "", "copy")
    peer = _torchao(rule)
    if peer is not None:
        add("torchao to_mx + to_blocked, compiled", peer, read + written, "", "torchao")
    parameters = {"rows": rows, "cols": cols, "dtype": dtype, "rule": rule}
    return _report("quantize on a GPU", parameters, results, read + written)


def _t(array: Any) -> torch.Tensor:
    assert isinstance(array, torch.Tensor)
    return array


def bench_layout(*, rows: int = 65536, cols: int = 1024) -> Report:
    """Time interleave and deinterleave of (rows, cols) scale bytes on a GPU, beside a copy."""
    require_gpu()
    whole_number("rows", rows, 1, 2**24)
    whole_number("cols", cols, 1, 2**20)
    if rows * cols > _MOST:
        raise InputError(f"rows x cols is {rows * cols}: expected at most {_MOST}")
    many = copies(rows * cols, most=64)
    plain = [
        torch.randint(0, 255, (rows, cols), dtype=torch.uint8, device="cuda") for _ in range(many)
    ]
    tiled = [interleave(x) for x in plain]
    spot = min(rows, 4096)
    from mxlab.arrays import interleave as reference

    found = interleave(plain[0][:spot].contiguous())
    wanted: Any = reference(plain[0][:spot])  # type: ignore[call-overload]
    same = torch.equal(found, wanted)
    back = torch.equal(deinterleave(tiled[0], rows, cols), plain[0])
    moved = 2.0 * rows * cols
    words = [x.view(-1).view(torch.int64) if x.numel() % 8 == 0 else x for x in plain]
    out = torch.empty_like(words[0])
    timed: list[tuple[str, list[Callable[[], Any]], str, str]] = [
        ("mxlab triton, interleave", [lambda x=x: interleave(x) for x in plain],  # type: ignore[misc]
         right("interleave", same, f"{spot} rows equal to the reference"), ""),
        ("mxlab triton, deinterleave",
         [lambda x=x: deinterleave(x, rows, cols) for x in tiled],  # type: ignore[misc]
         right("deinterleave", back, "round trip equal"), ""),
        ("copy", [lambda x=x: torch.bitwise_not(x, out=out) for x in words], "", "copy"),  # type: ignore[misc]
    ]  # fmt: skip
    results = [
        Row(name=name, peer=bool(family), timing=graph_timing(calls), checked=checked,
            family=family, moved=moved)
        for name, calls, checked, family in timed
    ]  # fmt: skip
    return _report("interleave on a GPU", {"rows": rows, "cols": cols}, results, moved)


def bench_dequantize(*, rows: int = 16384, cols: int = 8192) -> Report:
    """Time dequantising (rows, cols) E4M3 with tiled scales to bfloat16 and float32 on a GPU."""
    require_gpu()
    _sizes(rows, cols, 4)
    operands = [
        quantize(sample(rows, cols, torch.bfloat16), layout="tile_128x4")
        for _ in range(copies(rows * cols))
    ]
    from mxlab.arrays import dequantize as reference

    exact = reference(operands[0])
    results = []
    for kind, size in ((torch.bfloat16, 2), (torch.float32, 4)):
        name = f"mxlab triton, to {str(kind).removeprefix('torch.')}"
        same = torch.equal(dequantize(operands[0], kind).float(), exact)
        out = torch.empty(rows, cols, dtype=kind, device="cuda")
        calls = [lambda q=q, k=kind, o=out: dequantize(q, k, out=o) for q in operands]
        results.append(
            Row(
                name=name,
                peer=False,
                timing=graph_timing(calls),
                checked=right(name, same, "equal to torch's operations"),
                moved=rows * cols * (33 / 32 + size),
            )
        )
    least = rows * cols * (33 / 32 + 2)
    return _report("dequantize on a GPU", {"rows": rows, "cols": cols}, results, least)
