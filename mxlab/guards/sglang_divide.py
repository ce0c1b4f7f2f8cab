"""What SGLang cannot split over ranks: heads, widths, experts (S4), before any quantisation."""

import re

from mxlab.guards.engine import Finding, Guard, Status
from mxlab.guards.experts import experts_of
from mxlab.guards.facts import Facts
from mxlab.guards.findings import passes, stops
from mxlab.guards.linear import linear_of
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
