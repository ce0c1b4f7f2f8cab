"""What SGLang cannot split over ranks: heads, widths, experts (S4), before any quantisation."""

import re
from collections.abc import Mapping

from mxlab.guards.engine import Finding, Guard, Status
from mxlab.guards.experts import experts_of
from mxlab.guards.facts import Facts
from mxlab.guards.findings import passes, skipped, stops
from mxlab.guards.linear import linear_of, tp_column, tp_row
from mxlab.guards.rows import row

#: why a width does not divide, as mxlab.models says it: name=number not divisible by [name=]number
_REASON = re.compile(r"(\w{1,60})=(\d{1,40}) not divisible by (?:\w{1,60}=)?(\d{1,40})")
#: names that a model's attention asserts itself, without a text, before its linears are built
_HEADS = ("num_attention_heads", "num_key_value_heads", "tp")


def _divides(facts: Facts) -> Finding:
    reason = linear_of(facts).indivisible
    if not reason:
        return passes("its sizes divide by the tensor-parallel size")
    found = _REASON.fullmatch(reason)
    if found is None or found[1].endswith(_HEADS) or "heads" in found[1]:
        return Finding(Status.STOPS, reason, message=None)
    return stops(reason, numerator=found[2], denominator=found[3])


def ct_block(values: Mapping[str, object]) -> tuple[int, int] | None:
    """Return [block_n, block_k] of a compressed-tensors config with block FP8, else None.

    >>> ct_block({"config_groups": {"g": {"weights": {"block_structure": [128, 128]}}}})
    (128, 128)
    """
    groups = values.get("config_groups")
    for group in groups.values() if isinstance(groups, Mapping) else ():
        weights = group.get("weights") if isinstance(group, Mapping) else None
        block = weights.get("block_structure") if isinstance(weights, Mapping) else None
        if isinstance(block, list) and len(block) == 2:
            rows, columns = block
            if type(rows) is int and type(columns) is int and rows > 0 and columns > 0:
                return rows, columns
    return None


def _compressed(facts: Facts) -> Finding:
    lin, quant, tp = linear_of(facts), facts.quant, facts.deployment.tp
    if not lin.quantized:
        return skipped(lin.why_not or f"{lin.name} is not quantised")
    if quant.method not in ("compressed-tensors", "compressed_tensors"):
        return skipped(quant.why)
    block = ct_block(quant.values)
    if block is None:
        return skipped("no block_structure in config_groups: not block FP8")
    split = lin.shard in ("column", "vocab")
    whole_k = lin.input_size or (lin.k * tp if lin.shard == "row" else lin.k)
    rows = tp_row(whole_k, lin.k, tp, block[1])
    if rows.status is Status.STOPS:
        return rows
    whole_n = lin.output_size or (lin.n * tp if split else lin.n)
    columns = tp_column(whole_n, lin.parts or (lin.n,), tp, block[0], exempt_last=True)
    if columns.status is Status.STOPS:
        return stops(columns.because, 1, **columns.values)
    return rows if rows.status is Status.PASSES else columns


def _experts(facts: Facts) -> Finding:
    reason = experts_of(facts).indivisible
    if not reason:
        return passes("the experts' width divides by the MoE tensor-parallel size")
    return Finding(Status.STOPS, reason, message=None)


GUARDS: tuple[Guard, ...] = (
    row(
        "tp-divides",
        "linear",
        "S4",
        "AssertionError",
        "{numerator} is not divisible by {denominator}",
        _divides,
        predicate="the heads or the width of a layer % --tp-size != 0 (fewer KV heads than ranks "
        "have to divide the ranks instead); heads are asserted by the model, without a text",
        meaning="Every rank gets the same number of heads and columns. This is not about "
        "quantisation: the model would not start in 16 bits either.",
        fixes=("a --tp-size that divides the heads and the widths", "--dp-size and a smaller TP"),
        source="srt/distributed/utils.py:70, srt/layers/linear.py:483,1139,1611; heads: "
        "srt/models/llama.py:183 and its like",
        related=("lin-tp-row", "lin-tp-col", "moe-tp-div"),
    ),
    row(
        "lin-tp-ct",
        "linear",
        "S4",
        "ValueError",
        (
            "Weight input_size_per_partition = {in_part} is not divisible by weight quantization "
            "block_k = {bk}.",
            "Weight output_partition_size = {p} is not divisible by weight quantization block_n = "
            "{bn}.",
        ),
        _compressed,
        predicate="compressed-tensors (or Humming) block FP8: as lin-tp-row; as lin-tp-col but for "
        "the last part of a merged layer that is not split, which may end inside a block",
        meaning="A rank's cut would end inside a block of the checkpoint's scales.",
        fixes=("a smaller --tp-size", "mark the module as ignored in quantization_config"),
        source="srt/layers/quantization/fp8_utils.py:2852",
        related=("lin-tp-row", "lin-tp-col"),
    ),
    row(
        "moe-tp-div",
        "experts",
        "S4",
        "AssertionError",
        (),
        _experts,
        predicate="intermediate_size % MoE TP (--tp-size / --ep-size) != 0, or the experts do not "
        "divide by --ep-size",
        meaning="Every rank gets the same part of each expert, or the same number of experts. The "
        "assertion has no text.",
        fixes=("--ep-size equal to --tp-size", "a smaller --tp-size"),
        source="srt/layers/moe/fused_moe_triton/layer.py:427",
        related=("tp-divides", "moe-inter-k"),
    ),
)
