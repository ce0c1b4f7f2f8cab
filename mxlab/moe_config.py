"""What a config.json says of its experts besides their shapes: routing, and experts of 4 bits."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mxlab.models.config import Section
from mxlab.models.wrapped import decoder_part

_TOP_K = (
    *("num_experts_per_tok", "num_experts_per_token", "experts_per_token", "moe_topk", "moe_top_k"),
    "moe_k",
)
_GROUPS = ("n_group", "num_expert_group")


@dataclass(frozen=True, slots=True)
class Routing:
    """Experts of one token, groups of experts, and the name FlashInfer has for the routing."""

    top_k: int
    groups: int = 1
    method: str = "default"  # default, DeepSeekV3


def _inner(config: Mapping[str, Any]) -> Section:
    return decoder_part(Section(config))


def routing(config: Mapping[str, Any]) -> Routing | None:
    """Return how tokens are routed; None where the config does not say how many experts.

    A list, one entry a layer, counts with its largest. Sigmoid routing over groups, weights
    renormalised, is what SGLang hands to FlashInfer as DeepSeekV3. Source: sglang 0.5.23,
    srt/layers/moe/topk.py:612.

    >>> routing({"num_experts_per_tok": 8, "n_group": 8, "norm_topk_prob": True})
    Routing(top_k=8, groups=8, method='DeepSeekV3')
    """
    inner = _inner(config)
    parts = [inner.data, inner.get("ffn_config")]  # DBRX keeps it in the latter
    counts = [_count(p.get(key)) for p in parts if isinstance(p, Mapping) for key in _TOP_K]
    top_k = next((count for count in counts if count), 0)
    if not top_k:
        return None
    groups = next((count for key in _GROUPS if (count := _count(inner.get(key)))), 0)
    grouped = bool(groups) and inner.get("norm_topk_prob") is True
    return Routing(top_k, groups or 1, "DeepSeekV3" if grouped else "default")


def _count(value: object) -> int:
    """Return a whole number from 1, or the largest of a list of them; 0 for anything else."""
    values = value if isinstance(value, list) else [value]
    known = [item for item in values if type(item) is int and 0 < item < 2**31]
    return max(known, default=0)


def four_bit_experts(config: Mapping[str, Any]) -> str:
    """Return MXFP4 or NVFP4 where the routed experts alone have 4 bits, else nothing.

    Source: sglang 0.5.23, srt/configs/model_config.py:728,775; ``expert_dtype`` is what the
    configs of DeepSeek-V4 say, whose weights SGLang looks at.

    >>> four_bit_experts({"expert_dtype": "fp4"}), four_bit_experts({})
    ('MXFP4', '')
    """
    claim = Section(config).get("quantization_config")
    claim = claim if isinstance(claim, Mapping) else {}
    mixed = str(claim.get("quant_algo")).upper() == "MIXED_PRECISION"
    if mixed and str(claim.get("moe_quant_algo")).upper() == "NVFP4" and claim.get("group_size"):
        return "NVFP4"
    stored = (claim.get("routed_experts_quant_method"), _inner(config).get("expert_dtype"))
    return "MXFP4" if stored[0] == "mxfp4" or stored[1] == "fp4" else ""


def settings(config: Mapping[str, Any], given: Mapping[str, object]) -> dict[str, object]:
    """Return the settings of a deployment with those that the config states; given ones stay.

    >>> settings({"model_type": "deepseek_v3"}, {"attn-dp-size": 8})
    {'model-type': 'deepseek_v3', 'attn-dp-size': 8}
    """
    stated: dict[str, object] = {}
    name = Section(config).get("model_type")
    if isinstance(name, str) and 0 < len(name) <= 80:
        stated["model-type"] = name
    bits = four_bit_experts(config)
    if bits:
        stated["nvfp4-experts" if bits == "NVFP4" else "fp4-experts"] = True
    return {**stated, **given}
