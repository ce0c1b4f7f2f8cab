"""What the guards of a dense linear have in common: is it MXFP8 here, and on which kernel."""

from mxlab.guards.engine import Finding, Status
from mxlab.guards.facts import Facts, LinearFacts
from mxlab.guards.findings import judge, modulo, passes, skipped, stops
from mxlab.guards.values import DTYPE


def linear_of(facts: Facts) -> LinearFacts:
    """Return the linear; the engine asks these guards only where there is one."""
    assert facts.linear is not None
    return facts.linear


def not_quantized(facts: Facts) -> Finding | None:
    """Return not-reached for a layer that stays in 16 bits."""
    lin = linear_of(facts)
    if lin.quantized:
        return None
    return skipped(lin.why_not or f"{lin.name} is not quantised")


def not_mxfp8(facts: Facts, *backends: str) -> Finding | None:
    """Return not-reached unless the layer runs as MXFP8, on one of ``backends`` if given."""
    skip = not_quantized(facts)
    if skip:
        return skip
    dense = facts.dense
    if dense.kind == "unknown":
        return Finding(Status.UNKNOWN, dense.why)
    if dense.kind not in ("mxfp8", "block-as-mxfp8"):
        return skipped(dense.why)
    if dense.backend is None:
        return skipped(f"the backend request stops first: {dense.why}")
    k = linear_of(facts).k
    if dense.kind == "block-as-mxfp8" and k % 32:
        return skipped(f"K = {k} % 32 = {k % 32}: the layer keeps its block-FP8 kernel")
    if backends and dense.backend not in backends:
        return skipped(f"the backend is {dense.backend}, not {' or '.join(backends)}")
    return None


def block_sizes(facts: Facts) -> tuple[int, int] | None:
    """Return (block_n, block_k) where the model is block-quantised in whole positive numbers."""
    block = facts.quant.block
    if not isinstance(block, list | tuple) or len(block) != 2:
        return None
    rows, columns = block
    if type(rows) is int and type(columns) is int and rows > 0 and columns > 0:
        return rows, columns
    return None


def activation_dtype(facts: Facts) -> str:
    """Return torch's name of the activations' dtype."""
    return DTYPE.get(facts.deployment.dtype, facts.deployment.dtype)


def deep_gemm_shape(n: int, k: int) -> bool:
    """Tell whether DeepGEMM takes an MXFP8 weight (n, k)."""
    return n % 64 == 0 and k % 128 == 0


def deep_gemm_serves(n: int, k: int, dtype: str, *, copy: bool) -> Finding:
    """Return SGLang's check before its DeepGEMM MXFP8 call.

    ``dtype`` is the output's, ``copy`` whether the layer keeps a swizzled scale for FlashInfer.
    Source: sglang 0.5.23, fp8_utils.py:1042.

    >>> deep_gemm_serves(64, 128, "float16", copy=False).status.value
    'stops'
    """
    shape, bf16 = deep_gemm_shape(n, k), dtype == "bfloat16"
    because = f"{modulo('N', n, 64)}, {modulo('K', k, 128)}, output {dtype}"
    if shape and bf16:
        return passes(because)
    if copy:
        text = f"{because}: FlashInfer multiplies with the swizzled copy of the scale"
        return Finding(Status.FALLS_BACK, text, message=None)
    return stops(because, shape=shape, dtype=bf16)


def flashinfer_takes(k: int, input_k: int, weight_dtype: str) -> tuple[str, Finding]:
    """Return SGLang's checks before a FlashInfer MXFP8 call: (id of the row that stops, finding).

    The id is "" where all hold. Source: sglang 0.5.23, fp8_utils.py:1890.

    >>> flashinfer_takes(128, 128, "uint8")[0]
    'fwd-fi-dtype'
    """
    if input_k != k:
        because = f"K of the input {input_k}, of the weight {k}"
        return "fwd-fi-k-match", stops(because, k=input_k, k_w=k)
    if k % 32:
        return "fwd-fi-k32", stops(modulo("K", k, 32), k=k)
    because = f"{modulo('K', k, 32)}, the weight is {weight_dtype}"
    if weight_dtype != "float8_e4m3fn":
        return "fwd-fi-dtype", stops(because)
    return "", passes(because)


def flashinfer_kernel(facts: Facts) -> str | None:
    """Return cutlass, cute-dsl or trtllm where FlashInfer multiplies this layer, else None."""
    lin, p = linear_of(facts), facts.platform
    named = {
        "flashinfer_cutlass": "cutlass",
        "flashinfer_cutedsl": "cute-dsl",
        "flashinfer_trtllm": "trtllm",
    }
    if facts.dense.backend in named:
        return named[facts.dense.backend]
    has_copy = not deep_gemm_shape(lin.n, lin.k) and p.blackwell and p.flashinfer
    return "cutlass" if facts.dense.backend == "deep_gemm" and has_copy else None


def tp_row(
    input_size: int, in_part: int, tp: int, block_k: int, *, skip_check: bool = False
) -> Finding:
    """Return SGLang's row-parallel check: K of one rank against the block.

    Source: sglang 0.5.23, fp8.py:594.

    >>> tp_row(14784, 7392, 2, 128).because
    'TP 2, K = 7392 % 128 = 96'
    """
    if skip_check:
        return skipped("the layer skips the block checks")
    if in_part <= 0 or block_k <= 0:
        return skipped(f"K of one rank is {in_part}, block K {block_k}")
    if not (tp > 1 and input_size // in_part == tp):
        return skipped(f"K is not split: TP {tp}, K {input_size} in all, {in_part} on a rank")
    because = f"TP {tp}, K = {in_part} % {block_k} = {in_part % block_k}"
    return judge(in_part % block_k != 0, because, in_part=in_part, bk=block_k)


def tp_column(
    output_size: int,
    parts: tuple[int, ...],
    tp: int,
    block_n: int,
    *,
    skip_check: bool = False,
    exempt_last: bool = False,
) -> Finding:
    """Return SGLang's column-parallel check: every part of N against the block.

    ``exempt_last`` is the variant of compressed-tensors, which lets the last part of a merged but
    unsplit layer through. Source: sglang 0.5.23, fp8.py:605, fp8_utils.py:2852.
    """
    if skip_check:
        return skipped("the layer skips the block checks")
    total = sum(parts)
    if total <= 0 or block_n <= 0:
        return skipped(f"N of one rank is {total}, block N {block_n}")
    split = tp > 1 and output_size // total == tp
    merged = len(parts) > 1
    if not (split or merged):
        return skipped(f"N is neither split nor merged: TP {tp}, parts {list(parts)}")
    checked = parts[:-1] if exempt_last and merged and not split else parts
    bad = [part for part in checked if part % block_n]
    if bad:
        because = f"part {bad[0]} % {block_n} = {bad[0] % block_n} of {list(parts)}"
        return judge(True, because, p=bad[0], bn=block_n)
    return passes(f"every part of {list(parts)} % {block_n} = 0")


def prepares_deep_gemm_input(facts: Facts, n: int, k: int) -> tuple[bool, str]:
    """Tell whether a FlashInfer layer (n, k) also keeps DeepGEMM's scale, and why.

    Source: sglang 0.5.23, fp8.py:995.
    """
    p, backend = facts.platform, facts.dense.backend
    because = (
        f"backend {backend}, DeepGEMM with UE8M0 {p.ue8m0}, {modulo('N', n, 64)}, "
        f"{modulo('K', k, 128)}"
    )
    named = backend in ("flashinfer_cutedsl", "flashinfer_cutlass")
    fits = p.cuda and p.blackwell and named and p.deep_gemm and p.ue8m0
    return fits and deep_gemm_shape(n, k), because
