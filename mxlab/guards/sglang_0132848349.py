"""SGLang at commit 0132848349 (2026-08-27), as what differs from the rows of 0.5.23.

The commit lies between the wheels of 0.5.18 (21 August) and 0.5.19 (4 September). A row is here
where the functions that decide about it are the same in both, so they are the same at the commit;
its source names file and function, with a line where the file is the same in both. How a version
decides differently is ``mxlab.guards.releases.AUGUST``.
"""

from dataclasses import replace

from mxlab.guards import sglang
from mxlab.guards.engine import Finding, Guard
from mxlab.guards.experts import experts_of, intermediate_of, not_processed, w13_rows
from mxlab.guards.facts import Facts
from mxlab.guards.findings import judge, pad, passes, skipped, stops
from mxlab.guards.releases import AUGUST
from mxlab.guards.rows import FP8_UTILS, row
from mxlab.guards.sglang_0132848349_sources import ABSENT, SOURCES

VERSION = AUGUST.version


def _cutlass_scale_shape(facts: Facts) -> Finding:
    skip = not_processed(facts)
    if skip:
        return skip
    if facts.runner.name != "cutlass":
        return skipped(f"the MoE runner is {facts.runner.name}, not cutlass")
    if not facts.quant.serialized:
        return passes("online quantisation keeps one scale for 32 elements of a row")
    e, hidden, inter = experts_of(facts).experts, experts_of(facts).hidden, intermediate_of(facts)
    if hidden % 32 or inter % 32:
        return skipped("moe-cutlass-h32 or moe-cutlass-i32 stops first")
    rows = w13_rows(facts)
    groups, tiles = pad(hidden // 32, 8) // 4, e * pad(rows, 128) // 128
    wanted, got = f"({e}, {hidden // 32}, {rows})", f"[1, {groups}, {tiles}, 2, 256]"
    because = f"triton_kernels swizzled the serialised scales: {got}, not {wanted}"
    return stops(because, expected=wanted, shape=got)


def _import(facts: Facts) -> Finding:
    if not facts.platform.cuda:
        return skipped(f"{facts.platform.gpu.label} is not an NVIDIA GPU")
    there = "flashinfer" in facts.deployment.packages
    return judge(not there, f"FlashInfer is {'installed' if there else 'not installed'}")


#: rows that 0.5.23 no longer has
ADDED: tuple[Guard, ...] = (
    row(
        "imp-flashinfer",
        "server",
        "S1",
        "ModuleNotFoundError",
        "No module named 'flashinfer'",
        _import,
        predicate="an NVIDIA GPU and no FlashInfer: the FP8 module imports bmm_fp8 from it, "
        "whatever is served",
        hardware="NVIDIA GPUs",
        meaning="This version cannot start on CUDA without FlashInfer, so that what it would do "
        "without it, on Hopper or Blackwell, is never seen.",
        fixes=("install FlashInfer", "SGLang 0.5.23, which imports it where it is used"),
        source=f"{FP8_UTILS}, top of the module",
        related=("fwd-unsupported",),
    ),
    row(
        "moe-cutlass-sshape",
        "experts",
        "S8",
        "AssertionError",
        "MXFP8 w1_scale must be {expected}, got torch.Size({shape})",
        _cutlass_scale_shape,
        predicate="runner cutlass with a serialised MXFP8 checkpoint",
        hardware="SM100, SM103",
        meaning="Serialised scales of the cutlass runner went through the triton_kernels swizzle, "
        "whose shape the cutlass kernel's own check refuses. Read from the source, not run.",
        fixes=("--moe-runner-backend deep_gemm or flashinfer_trtllm", "SGLang 0.5.23"),
        source="srt/layers/moe/cutlass_moe.py, cutlass_fused_experts_fp8",
        related=("moe-tk-rows", "moe-cutlass-h32"),
    ),
)

#: rows that say something else here
_WORDS: dict[str, tuple[str, ...]] = {
    "arg-moe-trtllm-routed-quant": (
        "Invalid quantization '{q}'. \nFlashInfer TRTLLM routed MOE supports only: 'fp8', 'mxfp8', "
        "'modelopt_fp4', 'modelopt_mixed', 'nvfp4_online', or bfloat16 (None).",
    ),
    "arg-nvfp4-online-runner": (
        "--quantization nvfp4_online supports only --moe-runner-backend flashinfer_trtllm or "
        "flashinfer_trtllm_routed, or flashinfer_cutedsl.",
    ),
    "moe-runner-unsupported": (
        "Unsupported runner backend: {b}",
        "'Fp8MoEMethod' object has no attribute 'runner'",
    ),
}


def _here(guard: Guard) -> Guard:
    """Return the row as this version has it: its own source, its own words where they differ."""
    file = SOURCES.get(guard.id, guard.source.partition(", ")[2])
    package = "" if file.startswith("flashinfer_python") else f"sglang {VERSION}, "
    changed = replace(
        guard,
        source=package + file,
        related=tuple(id for id in guard.related if id not in ABSENT),
    )
    if guard.id in _WORDS:
        changed = replace(changed, messages=_WORDS[guard.id])
    if guard.id == "moe-tk-rows":
        predicate = guard.predicate.replace("other than cutlass, deep_gemm", "other than deep_gemm")
        changed = replace(changed, predicate=f"{predicate}; cutlass too with serialised scales")
    if guard.id == "fa4-qdescale":
        predicate = guard.predicate.replace(sglang.VERSION, VERSION)
        changed = replace(changed, predicate=predicate)
    return changed


#: every row, in the order in which SGLang meets them
GUARDS: tuple[Guard, ...] = tuple(
    sorted(
        (
            *(_here(guard) for guard in sglang.GUARDS if guard.id in SOURCES),
            *(_here(guard) for guard in ADDED),
        ),
        key=lambda guard: guard.stage,
    )
)
