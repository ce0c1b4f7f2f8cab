"""FlashInfer's bmm_mxfp8 behind the common checks, and the grouped GEMM with FP4 weights."""

from mxlab.guards.engine import Finding, Guard
from mxlab.guards.facts import CallFacts, Facts
from mxlab.guards.findings import judge, modulo, multiples, passes, silent, skipped, stops
from mxlab.guards.flashinfer_backends import backend_of
from mxlab.guards.flashinfer_rows import (
    CSRC,
    GEMM,
    GROUPED,
    SWIZZLED_FIX,
    k_contiguous,
    row,
    swizzled_length,
)


def _flat(call: CallFacts) -> tuple[int, int]:
    """Lengths of A's and B's scales when all batches are one matrix: what mxfp8_quantize makes."""
    rows = call.batch * call.m, call.batch * call.n
    return swizzled_length(rows[0], call.k), swizzled_length(rows[1], call.k)


def _lengths(call: CallFacts) -> tuple[int, int]:
    """Return the elements of A_scale and B_scale that are handed over."""
    made = _flat(call)
    a = made[0] if call.a_scale_shape is None else _product(call.a_scale_shape)
    b = made[1] if call.b_scale_shape is None else _product(call.b_scale_shape)
    return a, b


def _product(shape: tuple[int, ...]) -> int:
    size = 1
    for side in shape:
        size *= side
    return size


def _strides(facts: Facts, call: CallFacts) -> Finding:
    backend = backend_of(facts, call)
    if not backend:
        return skipped("no backend takes the call")
    m, n, k = call.m, call.n, call.k
    name = {"cutlass": "CUTLASS", "cudnn": "cuDNN"}[backend]
    because = f"A is {call.a_layout}-major, B is {call.b_layout}-major"
    a_fits, b_fits = k_contiguous(call)
    if not a_fits:
        return stops(because, 0, backend=name, strides=(m * k, 1, m))
    return judge(not b_fits, because, 1, backend=name, strides=(k * n, n, 1))


def _cudnn_length(facts: Facts, call: CallFacts) -> Finding:
    if backend_of(facts, call) != "cudnn":
        return skipped("a check of backend cudnn")
    wanted, got = _flat(call), _lengths(call)
    because = f"A_scale {got[0]} against {wanted[0]}, B_scale {got[1]} against {wanted[1]}"
    if wanted[0] != got[0]:
        return stops(because, name="A_scale", length=wanted[0], got=got[0])
    return judge(wanted[1] != got[1], because, name="B_scale", length=wanted[1], got=got[1])


def _batch_rows(facts: Facts, call: CallFacts) -> Finding:
    per_batch = [call.batch * swizzled_length(rows, call.k) for rows in (call.m, call.n)]
    flat = _flat(call)
    because = (
        f"batch = {call.batch}, {modulo('M', call.m, 128)}, {modulo('N', call.n, 128)}: the check "
        f"wants {flat[0]} and {flat[1]} bytes, the kernel reads {per_batch[0]} and {per_batch[1]}"
    )
    ragged = call.m % 128 != 0 or call.n % 128 != 0
    return silent(because) if call.batch > 1 and ragged else passes(because)


def _bmm_k32n32(facts: Facts, call: CallFacts) -> Finding:
    if backend_of(facts, call) != "cutlass":
        return skipped("a check of backend cutlass")
    because = f"{modulo('N', call.n, 32)}, {modulo('K', call.k, 32)}"
    values = {"b": call.batch, "m": call.m, "n": call.n, "k": call.k}
    if call.k % 32:
        return stops(because, 0, **values)
    return judge(call.n % 32 != 0, because, 1, **values)


def _grouped_dtype(facts: Facts, call: CallFacts) -> Finding:
    because = f"a is {call.a_dtype}, b is {call.b_dtype}, scales are {call.scale_dtype or 'uint8'}"
    scales = call.scale_dtype or "uint8"
    if call.a_dtype not in ("float8_e4m3fn", "float8_e5m2"):
        return stops(because, 0, dtype=f"torch.{call.a_dtype}")
    if call.b_dtype != "uint8":
        return stops(because, 1, name="b", dtype=f"torch.{call.b_dtype}")
    return judge(scales != "uint8", because, 1, name="a_scale", dtype=f"torch.{scales}")


def _grouped_output(facts: Facts, call: CallFacts) -> Finding:
    dtype = call.out_dtype
    return judge(dtype not in ("bfloat16", "float16"), f"output {dtype}", dtype=f"torch.{dtype}")


def _grouped_align(facts: Facts, call: CallFacts) -> Finding:
    because = f"{modulo('N', call.n, 8)}, {modulo('K', call.k, 128)}"
    if call.n % 8:
        return stops(f"{because}; nearest legal N {multiples(call.n, 8)}", 0, n=call.n)
    near = f"; nearest legal K {multiples(call.k, 128)}" if call.k % 128 else ""
    return judge(call.k % 128 != 0, because + near, 1, k=call.k)


def _grouped_rows(facts: Facts, call: CallFacts) -> Finding:
    if not call.groups:
        return passes("the rows of the groups are not given")
    start, bad = 0, []
    for i, rows in enumerate(call.groups):
        if start % 4:
            bad.append(f"m_indptr[{i}] = {start} % 4 = {start % 4}")
        start += rows
    if start % 4:
        bad.append(f"m_indptr[{len(call.groups)}] = {start} % 4 = {start % 4}")
    if bad:
        return silent(f"{bad[0]} ({len(bad)} such)")
    return passes(f"every start of {len(call.groups)} groups is a multiple of 4")


GUARDS: tuple[Guard, ...] = (
    row(
        "fi-bmm-scale-length",
        "bmm_mxfp8",
        "C2",
        "ValueError",
        "cuDNN bmm_mxfp8 expects {name} to contain {length} elements in the F8_128x4 swizzled "
        "layout for the operand shape, but got {got}. Quantize with mxfp8_quantize(..., "
        "is_sf_swizzled_layout=True).",
        _cudnn_length,
        predicate="backend cudnn, and a scale buffer whose length is not round_up(batch * rows, "
        "128) * ceil(k / 128) * 4",
        hardware="SM100 to SM110; SM12x with backend cudnn",
        meaning="The length is computed as if all batches were one matrix.",
        fixes=(SWIZZLED_FIX,),
        source=f"{GEMM}:4457",
        related=("fi-bmm-batch-rows",),
    ),
    row(
        "fi-bmm-strides",
        "bmm_mxfp8",
        "C2",
        "ValueError",
        (
            "{backend} mxfp8 GEMM expects A to be row-major [batch, m, k] (K contiguous); got "
            "a.stride()={strides}.",
            "{backend} mxfp8 GEMM expects B to be column-major [batch, k, n] (K contiguous); got "
            "b.stride()={strides}. Quantize the contiguous [b, n, k] weight and pass the transpose "
            "of the quantized tensor, e.g. B = mxfp8_quantize(weight)[0].transpose(-2, -1).",
        ),
        _strides,
        predicate="K is not the contiguous axis of A or of B",
        hardware="SM100 to SM121",
        meaning="Blocks of 32 run along K. cuDNN makes this check at the launch, cutlass before.",
        fixes=("B = mxfp8_quantize(weight)[0].transpose(-2, -1), without .contiguous()",),
        source=f"{GEMM}:4442",
        related=("fi-mm-contiguous",),
    ),
    row(
        "fi-bmm-k32-n32",
        "bmm_mxfp8",
        "C3",
        "RuntimeError",
        (
            "Expected k to be divisible by 32, but got mat1 shape: ({b}x{m}), k: {k}.",
            "Expected n to be divisible by 32, but got mat2 shape: ({b}x{n}).",
        ),
        _bmm_k32n32,
        predicate="cutlass (SM120, SM121), and K % 32 != 0 or N % 32 != 0",
        hardware="SM120, SM121",
        meaning="The text prints the first two sides of a 3-D tensor, so it shows the batch.",
        fixes=("zero-pad N and K to multiples of 32",),
        source=f"{CSRC}/mxfp8_gemm_cutlass_sm120.cu:162",
        related=("fi-mm-k32-n32",),
    ),
    row(
        "fi-bmm-batch-rows",
        "bmm_mxfp8",
        "C3",
        "",
        (),
        _batch_rows,
        predicate="batch > 1, and M % 128 != 0 or N % 128 != 0",
        hardware="SM100 to SM121",
        meaning="The kernel pads the scales of every batch to whole tiles; mxfp8_quantize pads all "
        "batches together. From the second batch on the scales are another row's, and the last "
        "ones lie behind the buffer. Reported as FlashInfer's issue 3604.",
        fallback="garbage, or an illegal memory access",
        fixes=("zero-pad M and N to multiples of 128", "one mm_mxfp8 for each batch"),
        source=f"{GEMM}:4465 and {CSRC}/mxfp8_gemm_cutlass_sm120.cu:150",
        related=("fi-bmm-scale-length", "fi-scale-bytes"),
    ),
    row(
        "fi-grouped-dtype",
        GROUPED,
        "C2",
        "ValueError",
        (
            "a must be a float8_e4m3fn or float8_e5m2 tensor, but got {dtype}",
            "{name} must be a uint8 tensor, but got {dtype}",
        ),
        _grouped_dtype,
        predicate="a is not FP8, or b (two FP4 values a byte) or the scales are not uint8",
        hardware="SM100 to SM121",
        meaning="The weights of this grouped GEMM are MXFP4; only the activations are MXFP8.",
        fixes=("quantise the weights to MXFP4",),
        source=f"{GEMM}:10459",
    ),
    row(
        "fi-grouped-output",
        GROUPED,
        "C2",
        "ValueError",
        "out_dtype must be either torch.bfloat16 or torch.float16, but got {dtype}",
        _grouped_output,
        predicate="the output is neither bfloat16 nor float16",
        hardware="SM100 to SM121",
        meaning="The kernel writes 16-bit results.",
        fixes=("out_dtype=torch.bfloat16",),
        source=f"{GEMM}:10505",
    ),
    row(
        "fi-grouped-align",
        GROUPED,
        "C2",
        "ValueError",
        (
            "n must be a multiple of 8, but got n={n}",
            "k must be a multiple of 128, but got k={k}",
        ),
        _grouped_align,
        predicate="N % 8 != 0 or K % 128 != 0",
        hardware="SM100 to SM121",
        meaning="Rows of the result must be 16-byte aligned, and K is read in tiles of 128.",
        fixes=("zero-pad the weight", "a --tp-size that mends the expert's intermediate size"),
        source=f"{GEMM}:10526",
    ),
    row(
        "fi-grouped-rows",
        GROUPED,
        "C3",
        "",
        (),
        _grouped_rows,
        predicate="a start in m_indptr is no multiple of 4",
        hardware="SM100 to SM121",
        meaning="The documentation asks for starts that are multiples of 4 and nothing checks "
        "them: reading them would stall the GPU.",
        fallback="reads the scales of another group's rows",
        fixes=("pad the rows of every group to a multiple of 4",),
        source=f"{GEMM}:10579",
    ),
)
