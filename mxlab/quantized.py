"""Which of a model's linears the deployment quantises: the ignore list, applied layer by layer."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mxlab.guards import ConfigFacts, Deployment, facts, ignored_layers, is_layer_skipped
from mxlab.guards.ignore import FUSED, Entries, MixedShards
from mxlab.models import Linear, Shapes
from mxlab.moe_config import four_bit_experts

#: family -> a component of checkpoint names that SGLang's model class renames in the ignore list
_RENAMED: Mapping[str, tuple[str, str]] = dict.fromkeys(
    ("minimax_m3", "minimax_m3_vl"), (".block_sparse_moe.", ".mlp.")
)


_QKV_A = {"fused_qkv_a_proj_with_mqa": ("q_a_proj", "kv_a_proj_with_mqa")}
_DELTA = {"in_proj_qkvz": ("in_proj_qkv", "in_proj_z"), "in_proj_ba": ("in_proj_b", "in_proj_a")}
_INDEX = {"index_qkv_proj": ("index_q_proj", "index_k_proj")}
#: family -> fused linears that SGLang's model class has taken apart before the ignore list is asked
#: (packed_modules_mapping), besides those of every model; sglang 0.5.23, srt/models/
PACKED: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    **dict.fromkeys(("deepseek_v2", "deepseek_v3", "kimi_k25", "longcat_flash"), _QKV_A),
    **dict.fromkeys(("qwen3_5", "qwen3_5_moe"), _DELTA),
    **dict.fromkeys(("minimax_m3", "minimax_m3_vl"), _INDEX),
}
#: models that say so themselves; of others the checkpoint's config brings it, and online
#: quantisation has none
_OWN = ("deepseek_v2", "deepseek_v3", "kimi_k25")
_OWN_CLASSES = ("Qwen3_5ForCausalLM", "Qwen3_5MoeForCausalLM")


@dataclass(frozen=True, slots=True)
class Coverage:
    """How many layers of one linear are quantised, and why the others are not.

    ``mixed`` is the path of a fused layer whose members disagree on being ignored.
    """

    layers: int
    why_not: str = ""
    mixed: str = ""


def taken_apart(found: Shapes, online: bool) -> Mapping[str, tuple[str, ...]]:
    """Return the fused linears whose members the ignore list may name, and these members."""
    if online and found.family not in _OWN and found.architecture not in _OWN_CLASSES:
        return FUSED
    return {**FUSED, **PACKED.get(found.family or "", {})}


def _skipped(row: Linear, entries: Entries, fused: Mapping[str, tuple[str, ...]]) -> Coverage:
    kept = 0
    for index in row.indices or (0,):
        path = row.path.replace("{layer}", str(index))
        try:
            kept += is_layer_skipped(path, entries, fused)
        except MixedShards:
            return Coverage(row.layers, mixed=path)
    if not kept:
        return Coverage(row.layers)
    total = len(row.indices or (0,))
    if kept == total:
        return Coverage(0, "the ignore list names it")
    return Coverage(row.layers - kept, f"the ignore list names {kept} of {total} layers")


def coverage(
    found: Shapes, deployment: Deployment, values: Mapping[str, Any] | None
) -> tuple[Coverage, ...]:
    """Return the coverage of every row of ``found.layers``.

    ``values`` is the checkpoint's quantization_config, None without one. Raises InputError for an
    ignore list that is not one. Source: sglang 0.5.23, srt/layers/quantization/utils.py:73.
    """
    quant = facts(deployment, config=ConfigFacts(values)).quant
    if quant.method is None:
        return tuple(Coverage(0, quant.why) for _ in found.layers)
    entries = ignored_layers(quant.values, deployment.env) if quant.fp8_config else []
    if found.family and found.family in _RENAMED:
        old, new = _RENAMED[found.family]
        entries = [entry.replace(old, new) for entry in entries]
    arranged, bits = Entries.of(entries), four_bit_experts(found.config)
    kept = f"the routed experts are {bits}, which another class of SGLang's loads" if bits else ""
    fused = taken_apart(found, quant.origin == "online")
    return tuple(
        Coverage(0, why)
        if (why := row.unquantized or (kept if row.kind == "moe" else ""))
        else _skipped(row, arranged, fused)
        for row in found.layers
    )
