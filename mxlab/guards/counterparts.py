"""Which rows of other systems are about the same thing: what a reader of one of them asks next."""

import re
from collections.abc import Mapping
from functools import cache

from mxlab.guards.engine import Guard
from mxlab.guards.systems import IDS, versions

#: topic -> ids of rows about it, of several systems
TOPICS: Mapping[str, tuple[str, ...]] = {
    "a GPU without block-scaled FP8": (
        *("cfg-min-capability", "vllm-min-capability", "vllm-mx-torch-arch", "torch-v1-arch"),
        *("torch-v2-arch", "torch-cublas-arch", "torch-rocm-arch", "te-capability", "te-rocm-arch"),
        *("cublaslt-arch", "triton-fp8-arch", "fi-backend-capability", "dg-arch", "moe-hw"),
        *("ao-cast-kernel", "res-cutlass", "fwd-unsupported"),
    ),
    "K in whole blocks of 32": (
        *("act-grp-k32", "wsp-k32", "cvt-k32", "fwd-fi-k32", "vllm-mx-k32", "ao-k32", "te-dim32"),
        *("fi-quant-k32", "fi-mm-k32-n32", "fi-mm-k32n32", "act-fi-k32", "ao-triton-k"),
    ),
    "experts' sizes in whole blocks of 32": (
        *("moe-k32", "moe-cutlass-h32", "moe-cutlass-i32", "vllm-moe-k32", "te-group-align"),
        *("fi-grouped-align", "fi-quant-grouped"),
    ),
    "K in multiples of 128": (
        *("wsp-deepgemm", "fwd-dg-noswz", "g95-dot-fallback", "torch-rocm-sizes", "te-rocm-k128"),
        *("vllm-mx-rocm-k128", "dg-tma", "fi-mm-b12x", "fi-mm-slow", "wsp-trtllm-cols"),
    ),
    "K in multiples of 256 for TensorRT-LLM's kernel": (
        *("fi-mm-size", "fi-mm-problem", "vllm-mx-trtllm-k"),
    ),
    "a smallest N and K": ("fi-mm-min", "fi-mm-tile", "vllm-mx-minimum"),
    "sizes in multiples of 16": (
        *("torch-meta-k16", "torch-meta-n16", "torch-v1-k16", "torch-v1-n16", "torch-v2-k16"),
        *("torch-v2-n16", "cublaslt-align16", "te-dim16", "te-rocm-mn16", "fi-mm-cutedsl-align"),
    ),
    "a rank's cut inside a block of K": ("lin-tp-row", "lin-tp-ct", "vllm-block-row"),
    "a rank's cut inside a block of N": ("lin-tp-col", "vllm-block-column"),
    "experts cut inside a block": (
        *("moe-inter-n", "moe-inter-k", "vllm-moe-block-n", "vllm-moe-block-k"),
        "vllm-moe-trtllm-tiles",
    ),
    "scale bytes in another layout": (
        *("torch-silent-layout", "fi-scale-bytes", "cublaslt-silent-layout", "dg-scale-bytes"),
        *("silent-moe-cutlass-scale", "torch-v2-swizzle", "torch-rocm-swizzle"),
    ),
    "the dtype of scales": (
        *("fi-mm-scale-dtype", "torch-meta-float-scales", "triton-e8m0", "triton-scale-type"),
        *("dg-scale-dtype", "cublaslt-silent-scale", "triton-scale-wide", "moe-trtllm-scale-dtype"),
        "moe-cutlass-sdtype",
    ),
    "the number of scales": (
        *("fi-mm-scale-shape", "torch-meta-blockwise", "torch-v2-count", "torch-rocm-ext-length"),
        *("triton-scale-shape", "dg-scale-shape", "lin-scale-shape", "torch-v1-config"),
        "fi-bmm-scale-length",
    ),
    "the dtype of elements": (
        *("fi-mm-dtype", "torch-v2-dtype", "torch-meta-dtype", "dg-element-dtype", "triton-dtype"),
        *("cublaslt-types", "ao-config-element", "fwd-fi-dtype", "npu-linear-dtype"),
    ),
    "the dtype of the result": (
        *("fi-mm-outdtype", "fi-mm-output", "torch-out-fp8", "torch-rocm-out", "dg-output"),
        *("ao-grouped-out", "fi-grouped-output", "vllm-mx-trtllm-dtype"),
    ),
    "the dtype of activations": (
        *("cfg-act-dtype", "vllm-act-dtype", "ao-input-dtype", "ao-triton-dtype", "fi-quant-dtype"),
    ),
    "operands that are not K-major": (
        *("torch-tn-hopper", "torch-tn-sm12x", "torch-meta-row-major", "torch-meta-col-major"),
        *("cublaslt-tn", "fi-mm-contiguous", "fi-bmm-strides", "dg-k-major", "te-sm120"),
        *("ao-contiguous", "fwd-dg-contig"),
    ),
    "E5M2 on both sides": ("torch-v1-e5m2", "torch-v2-e5m2", "cublaslt-types", "ao-auto-e5m2"),
    "a CUDA toolkit too old": (
        *("torch-cuda-128", "cublaslt-version", "te-cublas", "fi-mm-toolkit", "dg-toolkit"),
        *("torch-rocm-version", "ao-cast-kernel", "res-cutlass", "res-deepgemm"),
    ),
    "a package that is not installed": (
        *("fi-package", "dg-package", "res-deepgemm", "moe-trtllm-nofi", "imp-flashinfer"),
        *("fwd-unsupported", "vllm-mx-no-kernel"),
    ),
    "a product that runs emulated or in 16 bits": (
        *("triton-emulated", "vllm-mx-fallback", "ao-silent-emulated", "g95-dot-fallback"),
        *("silent-hopper-activation", "silent-moe-triton", "fi-mm-slow"),
    ),
    "a flag that names no MXFP8 kernel": ("silent-gemm-flag", "vllm-mx-backend", "disp-unknown"),
    "the rows of a group of tokens": (
        *("te-group-align", "te-fused-tokens", "ao-grouped-splits", "dg-group-rows"),
        *("fi-grouped-rows", "ao-train-wgrad", "fi-bmm-batch-rows"),
    ),
    "scales of the KV cache that are missing": (
        *("kv-no-scales", "kv-store-scales", "vllm-kv-scale-default", "vllm-kv-scale-pair"),
        *("fi-kv-uint8", "fa4-qdescale"),
    ),
}


def counterparts(guard: Guard) -> tuple[str, ...]:
    """Return the ids of other systems' rows about the same thing, in the order of the systems.

    A row is a counterpart where it shares a topic or an exact text, or where one names the other.
    Source: the rows.

    >>> from mxlab.guards import guard
    >>> counterparts(guard("lin-tp-row"))
    ('vllm-block-row',)
    """
    texts = {_shape(text) for text in guard.messages}
    topical = {id for ids in TOPICS.values() if guard.id in ids for id in ids}
    return tuple(
        row.id
        for row in _rows()
        if row.system != guard.system
        and (
            row.id in topical
            or row.id in guard.related
            or guard.id in row.related
            or texts & _shapes(row.id)
        )
    )


@cache
def _rows() -> tuple[Guard, ...]:
    """Return a row of each id: the newest version's."""
    rows = {row.id: row for id in IDS for known in reversed(versions(id)) for row in known.guards}
    return tuple(rows.values())


@cache
def _shapes(id: str) -> frozenset[str]:
    return frozenset(_shape(text) for row in _rows() if row.id == id for text in row.messages)


def _shape(text: str) -> str:
    return re.sub(r"\{\w+\}", "{}", text)
