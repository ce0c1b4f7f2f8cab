"""DeepGEMM: what is checked of the GPU, the operands and the result."""

from collections.abc import Callable
from dataclasses import replace

from mxlab.guards.deepgemm_rows import (
    ALL,
    CONTIGUOUS,
    DENSE,
    GEMM,
    GEMMS,
    MASKED,
    TMA,
    UTILS,
    Release,
    assertion,
    ceil_div,
    gpu,
    groups,
    major,
)
from mxlab.guards.engine import Finding, Guard, Status
from mxlab.guards.facts import CallFacts, Facts
from mxlab.guards.findings import judge, passes, silent, skipped, stops

_K = "cute::UMMA::Major::K"
_K_MAJOR = (f"major_a == {_K}", f"major_b == {_K}", f"major_a == {_K} and major_b == {_K}")
_BF16, _FP32 = "d.scalar_type() == torch::kBFloat16", "d.scalar_type() == torch::kFloat"
_OUTPUT = (f"{_BF16} or {_FP32}", _BF16)
_SIZES = "n > 0 and k > 0 and num_groups > 0"
_NOT_EMPTY = (_SIZES, f"expected_m > 0 and m > 0 and {_SIZES}")
_ALIGNMENT = 128  # get_mk_alignment_for_contiguous_layout() unless it is set
_BYTES = {"bfloat16": 2, "float32": 4}
_FP4 = "int8"  # two FP4 values a byte


def _package(facts: Facts, call: CallFacts) -> Finding:
    missing = "deep_gemm" not in facts.deployment.packages
    return judge(missing, f"deep_gemm is {'not ' if missing else ''}among the packages")


def _device(facts: Facts, call: CallFacts) -> Finding:
    if facts.platform.cuda:
        return passes(gpu(facts))
    return stops(f"{facts.platform.gpu.label} is no NVIDIA GPU", path="deep_gemm/_C.so")


def _stride(facts: Facts, call: CallFacts) -> Finding:
    orders = {"a": call.a_layout, "b": call.b_layout}
    because = f"A is {orders['a']}-major, B is {orders['b']}-major"
    return judge("none" in orders.values(), because, where=UTILS)


def _k_major(facts: Facts, call: CallFacts) -> Finding:
    a, b = call.a_layout != "column", call.b_layout != "row"
    because = (
        f"K is {'' if a else 'not '}contiguous in A, {'' if b else 'not '}in B, {gpu(facts)}, "
        f"{call.function}"
    )
    if call.function == MASKED:
        return judge(not (a and b), because, 2, where=GEMM)
    hopper = major(facts) == 9
    if not a and (hopper or call.function == CONTIGUOUS):
        return stops(because, 0, where=GEMM)
    return judge(not b and hopper, because, 1, where=GEMM)


def _packed(release: Release) -> str:
    """Return the condition that packed FP4 meets."""
    majors = " or ".join(f"arch_major == {value}" for value in release.packed)
    majors = f"({majors})" if len(release.packed) > 1 else majors
    return f"ab.scalar_type() == kPackedFP4 and {majors}"


def _dtype(release: Release) -> Callable[[Facts, CallFacts], Finding]:
    def check(facts: Facts, call: CallFacts) -> Finding:
        because = f"A is {call.a_dtype}, B is {call.b_dtype}, {gpu(facts)}"
        fp4 = major(facts) in release.packed
        legal = ("float8_e4m3fn", _FP4) if fp4 else ("float8_e4m3fn",)
        bad = call.a_dtype not in legal or call.b_dtype not in legal
        return judge(bad, because, where=UTILS)

    return check


def _output(facts: Facts, call: CallFacts) -> Finding:
    because = f"output {call.out_dtype}"
    if call.function == DENSE:
        return judge(call.out_dtype not in _BYTES, because, 0, where=GEMM)
    return judge(call.out_dtype != "bfloat16", because, 1, where=GEMM)


def _empty(facts: Facts, call: CallFacts) -> Finding:
    because = f"M = {call.m}, N = {call.n}, K = {call.k}, {groups(call)} groups"
    if call.function == DENSE:
        return skipped("an empty dense product returns at once")
    masked = call.function == MASKED
    sizes = [call.n, call.k, groups(call), *([call.m] if masked else [])]
    return judge(0 in sizes, because, int(masked), where=GEMM)


def _arch(release: Release) -> Callable[[Facts, CallFacts], Finding]:
    def check(facts: Facts, call: CallFacts) -> Finding:
        if 12 not in release.packed:
            return skipped("this release looks at the scales first: dg-transform, dg-recipe")
        known = ", ".join(f"SM{value}x" for value in release.majors)
        bad = major(facts) not in release.majors
        return judge(bad, f"{gpu(facts)}: written for {known}", where=GEMM)

    return check


def _mixed(release: Release) -> Callable[[Facts, CallFacts], Finding]:
    def check(facts: Facts, call: CallFacts) -> Finding:
        mixed = call.a_dtype != call.b_dtype and _FP4 in (call.a_dtype, call.b_dtype)
        if major(facts) != 12 or 12 not in release.packed or not mixed:
            return skipped("a check of FP8 times FP4 on SM120")
        because = f"A is {call.a_dtype}, B is {call.b_dtype}, K = {call.k} % 128 = {call.k % 128}"
        return judge(call.k % 128 != 0, because, where=GEMM)

    return check


def _toolkit(release: Release) -> Callable[[Facts, CallFacts], Finding]:
    def check(facts: Facts, call: CallFacts) -> Finding:
        if not facts.platform.cuda:
            return skipped("no CUDA")
        have, need = facts.platform.toolkit, release.toolkit
        because = f"CUDA {have[0]}.{have[1]} against {need[0]}.{need[1]}"
        return judge(have < need, because)

    return check


def _tma(facts: Facts, call: CallFacts) -> Finding:
    if call.m == 0 or call.n == 0 or call.k == 0:
        return skipped("an empty product is not launched")
    a = call.k if call.a_layout != "column" else call.m
    b = call.k if call.b_layout != "row" else call.n
    size = _BYTES.get(call.out_dtype, 2)
    strides = {"A": a, "B": b, "D": call.n * size}
    if major(facts) == 12:
        strides |= {"A": call.k, "B": call.k}  # copied to K-major before
    shown = ", ".join(f"{name} {value} % 16 = {value % 16}" for name, value in strides.items())
    bad = any(value % 16 for value in strides.values())
    because = f"bytes from row to row: {shown}"
    if bad:
        n, k = ceil_div(call.n, 8) * 8, ceil_div(call.k, 16) * 16
        because += f"; nearest legal N above {n}, K above {k}"
    return judge(bad, because, where=TMA)


def _copy(release: Release) -> Callable[[Facts, CallFacts], Finding]:
    def check(facts: Facts, call: CallFacts) -> Finding:
        if major(facts) != 12 or 12 not in release.packed:
            return skipped("a matter of SM120")
        if call.function == MASKED:
            return skipped("the masked layout takes K-major operands only")
        moved = {"A": call.a_layout == "column", "B": call.b_layout == "row"}
        sizes = {"A": call.m * call.k, "B": call.n * call.k}
        copied = [f"{name} ({sizes[name]} bytes)" for name, bad in moved.items() if bad]
        if not copied:
            return passes("both operands are K-major")
        return Finding(Status.FALLS_BACK, f"copies {' and '.join(copied)}", message=None)

    return check


def _group_rows(facts: Facts, call: CallFacts) -> Finding:
    if not call.groups:
        return passes("the rows of the groups are not given")
    bad = [
        f"group {i}: {rows} rows % {_ALIGNMENT} = {rows % _ALIGNMENT}"
        for i, rows in enumerate(call.groups[:-1])
        if rows % _ALIGNMENT
    ]
    if bad:
        return silent(f"{bad[0]} ({len(bad)} such)")
    return passes(f"every group but the last has a multiple of {_ALIGNMENT} rows")


def guards(release: Release) -> tuple[Guard, ...]:
    """Return the rows of one release."""
    row = release.library.row
    wheel = "the wheel's _C.so holds the text; " if release.version == "0.2.5" else ""
    rows = (
        row(
            "dg-package",
            ALL,
            "C1",
            "ModuleNotFoundError",
            "No module named 'deep_gemm'",
            _package,
            predicate="the package is not installed",
            meaning="Nothing of DeepGEMM can be called.",
            fixes=("pip install sgl-deep-gemm, or build DeepGEMM from its repository",),
            source="the package's name",
            related=("res-deepgemm",),
        ),
        row(
            "dg-device",
            ALL,
            "C1",
            "OSError",
            "Could not load this library: {path}",
            _device,
            predicate="no NVIDIA driver, or an AMD GPU",
            hardware="CPU, AMD",
            meaning="The extension is linked against the CUDA driver, so the import fails.",
            fixes=("an NVIDIA GPU of SM90, SM100 or SM103",),
            source="deep_gemm/__init__.py:46; seen on a machine without a GPU",
        ),
        row(
            "dg-stride",
            GEMMS,
            "C2",
            "RuntimeError",
            assertion("t.stride(-2) == 1 or t.stride(-1) == 1"),
            _stride,
            predicate="neither of the last two axes of A or of B is contiguous",
            meaning="TMA needs one contiguous axis.",
            fixes=("x.contiguous()",),
            source=wheel + "csrc/utils/layout.hpp, major_check",
        ),
        row(
            "dg-k-major",
            GEMMS,
            "C2",
            "RuntimeError",
            assertion(*_K_MAJOR),
            _k_major,
            predicate="SM90: K is not the contiguous axis of A or B; contiguous groups: not of A; "
            "masked groups: not of both, on every GPU",
            meaning="Hopper's FP8 instructions read K-major operands only; Blackwell's read both.",
            fixes=("pass the weight as the contiguous (n, k) tensor",),
            source=wheel + "csrc/apis/gemm.hpp, fp8_fp4_gemm_nt and the grouped ones",
            related=("dg-sm120-copy",),
        ),
        row(
            "dg-element-dtype",
            GEMMS,
            "C2",
            "RuntimeError",
            assertion(_packed(release)),
            _dtype(release),
            predicate="an operand is neither float8_e4m3fn nor, on SM100"
            + (" and SM120" if 12 in release.packed else "")
            + ", packed FP4 in int8",
            meaning="E5M2 and 16-bit operands are refused. The text names only the last "
            "alternative that was tried.",
            fixes=("quantise to E4M3",),
            source=wheel + "csrc/utils/layout.hpp, check_ab_fp8_fp4",
        ),
        row(
            "dg-output",
            GEMMS,
            "C2",
            "RuntimeError",
            assertion(*_OUTPUT),
            _output,
            predicate="dense: the output is neither bfloat16 nor float32; grouped: not bfloat16",
            meaning="float16 results do not exist.",
            fixes=("--dtype bfloat16",),
            source=wheel + "csrc/apis/gemm.hpp",
            related=("fwd-dg-noswz",),
        ),
        row(
            "dg-empty-group",
            GEMMS,
            "C2",
            "RuntimeError",
            assertion(*_NOT_EMPTY),
            _empty,
            predicate="grouped: N, K or the number of groups is 0; masked: M is 0 too",
            meaning="A dense call without rows returns at once; a masked one may not be made.",
            fixes=("skip the call when there are no tokens",),
            source=wheel + "csrc/apis/gemm.hpp",
        ),
        row(
            "dg-arch",
            DENSE,
            "C2",
            "RuntimeError",
            assertion("Unsupported architecture"),
            _arch(release),
            predicate="the major compute capability is not 9, 10 or 12",
            hardware="SM75 to SM89, SM110",
            meaning="DeepGEMM has kernels for Hopper, SM100/SM103 and SM12x.",
            fixes=("FlashInfer's or CUTLASS's kernels", "an SM90, SM100 or SM120 GPU"),
            source=wheel + "csrc/apis/gemm.hpp, end of fp8_fp4_gemm_nt",
            related=("res-deepgemm", "dg-transform"),
        ),
        row(
            "dg-sm120-mixed",
            GEMMS,
            "C2",
            "RuntimeError",
            assertion("!is_mixed_fp4 or k % 128 == 0"),
            _mixed(release),
            predicate="SM120, one operand FP8 and the other packed FP4, and K % 128 != 0",
            hardware="SM120, SM121",
            meaning="FP8 times FP4 is read in whole tiles of 128 along K.",
            fixes=("zero-pad K to a multiple of 128",),
            source=wheel + "csrc/apis/gemm.hpp, fp8_fp4_gemm_nt_sm120",
        ),
        row(
            "dg-toolkit",
            GEMMS,
            "C3",
            "RuntimeError",
            "NVCC version must be at least 12.9",
            _toolkit(release),
            predicate="CUDA older than 12.9",
            meaning="Kernels are compiled by nvcc at the first call of each shape.",
            fixes=("a CUDA toolkit of 12.9 or newer, found through CUDA_HOME",),
            source=wheel + "README.md, Requirements",
        ),
        row(
            "dg-tma",
            GEMMS,
            "C3",
            "RuntimeError",
            assertion("num_gmem_outer_stride_bytes % 16u == 0u"),
            _tma,
            predicate="bytes from row to row of A, B or D are no multiple of 16: K % 16 of K-major "
            "operands, N % 8 of a bfloat16 result, N % 4 of a float32 one",
            meaning="TMA moves 16-byte pieces. This, not the multiples of 64 and 128 that SGLang "
            "asks for, is DeepGEMM's own limit.",
            fixes=("zero-pad N to a multiple of 8 and K to a multiple of 16",),
            source=wheel + "csrc/jit_kernels/impls/runtime_utils.hpp, make_tma_2d_desc",
            related=("wsp-deepgemm", "fwd-dg-noswz"),
        ),
        row(
            "dg-sm120-copy",
            GEMMS,
            "C3",
            "",
            (),
            _copy(release),
            predicate="SM120 and an operand whose contiguous axis is not K",
            hardware="SM120, SM121",
            meaning="The kernel reads K-major operands; others are copied at every call.",
            fallback="copies the operand with .contiguous()",
            fixes=("keep the weight as the contiguous (n, k) tensor",),
            source="csrc/apis/gemm.hpp, sm120_to_k_major",
            related=("dg-k-major",),
        ),
        row(
            "dg-group-rows",
            CONTIGUOUS,
            "C3",
            "",
            (),
            _group_rows,
            predicate="a group other than the last whose rows are no multiple of 128",
            meaning="One block of rows belongs to one expert, and the block's expert is read from "
            "its first row: rows of the next group get the wrong weights. Nothing checks it.",
            fallback="multiplies rows of one group with another group's weights",
            fixes=(
                "pad every group to get_mk_alignment_for_contiguous_layout() rows",
                "the masked layout",
            ),
            source="README.md, Grouped GEMMs (contiguous layout)",
        ),
    )
    if 12 in release.packed:
        return rows
    gone = ("dg-arch", "dg-sm120-mixed", "dg-sm120-copy")
    return tuple(replace(r) for r in rows if r.id not in gone)
