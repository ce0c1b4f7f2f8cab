"""Inkling's fused attention prologue: whether a model reaches it, and what it says to its heads.

SGLang 0.5.23 has the prologue for one family; its conditions are in
srt/models/inkling_common/attn.py (469 for the store, 762 for the prologue itself).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mxlab.guards import Facts, PrologueFacts, Verdict, scale_shape
from mxlab.guards.platform import env_flag
from mxlab.guards.sglang_kv_cache import INKLING, attention_backends, page_size
from mxlab.models import KvCache, Shapes
from mxlab.models.config import Section
from mxlab.models.sharding import Indivisible, divide, kv_heads

_HEAD = 128
_PAGES = 64  # the pool's size decides nothing: any whole number of pages will do
_SHOWN = ("function", "dq", "dkv", "slots", "page_size", "mxfp8", "sfk_shape", "sfv_shape")
_FLAG = "SGLANG_OPT_USE_INKLING_FUSED_ATTN_PROLOGUE"


@dataclass(frozen=True, slots=True)
class Prologue:
    """What the prologue is handed on one rank, and its verdicts.

    ``used`` tells whether this deployment runs it, ``why`` why not. Asked for explicitly, the
    checks answer for a model that does not run it yet.
    """

    used: bool
    why: str
    head_dim: int
    facts: PrologueFacts | None
    verdicts: tuple[Verdict, ...]

    def to_json(self) -> dict[str, Any]:
        """Return a JSON object."""
        handed = {name: getattr(self.facts, name) for name in _SHOWN} if self.facts else {}
        return {
            "used": self.used,
            "why": self.why,
            "head_dim": self.head_dim,
            **handed,
            "verdicts": [verdict.to_json() for verdict in self.verdicts],
        }


def inkling_cache(found: Shapes) -> KvCache | None:
    """Return the KV cache of an Inkling config, where nothing else was derived.

    None for other architectures, or where a head count is missing or does not divide. Source:
    sglang 0.5.23, srt/configs/inkling.py: head_dim defaults to hidden_size / num_attention_heads.
    """
    if found.architecture not in INKLING:
        return None
    outer = Section(found.config)
    config = outer.section("text_config") or outer
    heads = config.whole("num_attention_heads", 1)
    groups = config.whole("num_key_value_heads", 1)
    size, hidden = config.whole("head_dim", 1), config.whole("hidden_size", 1)
    if size is None and hidden and heads:
        size = hidden // heads
    if not (heads and groups and size):
        return None
    try:
        queries, keys = divide("num_attention_heads", heads, found.tp), kv_heads(groups, found.tp)
    except Indivisible:
        return None
    return KvCache(
        kind="GQA",
        head_dim=size,
        v_head_dim=config.whole("v_head_dim", 1) or size,
        kv_heads_per_rank=keys,
        q_heads_per_rank=queries,
        layers=config.whole("num_hidden_layers", 1) or 1,
    )


def why_not(facts: Facts, head_dim: int) -> str:
    """Return why SGLang does not run the prologue on heads of this size; "" where it does.

    Source: sglang 0.5.23, srt/models/inkling_common/attn.py:762.

    >>> from mxlab.guards import Deployment, facts
    >>> why_not(facts(Deployment(gpu="b200", architecture=INKLING[0])), 96)
    'head_dim = 96, not 128: the unfused path'
    """
    name = facts.deployment.architecture
    if name not in INKLING:
        return f"{name or 'no architecture'}: only Inkling's attention has the fused prologue"
    backends = attention_backends(facts)
    if "fa4" not in backends:
        return f"attention backend {' / '.join(dict.fromkeys(backends))}, not fa4"
    if head_dim != _HEAD:
        return f"head_dim = {head_dim}, not {_HEAD}: the unfused path"
    if not env_flag(facts.deployment.env, _FLAG, default=True):
        return f"{_FLAG} is off: the unfused path"
    return ""


def _handed(facts: Facts, cache: KvCache, *, forced: bool) -> PrologueFacts:
    """Return what the prologue is handed: the pool's buffers, interleaved on pages of 128."""
    page, heads = page_size(facts), cache.kv_heads_per_rank or 1
    mxfp8 = facts.deployment.kv_cache_dtype == "mxfp8"
    groups = cache.head_dim // 32
    slots = _PAGES * page
    shape: tuple[int, ...] | None = None
    if mxfp8:
        tiled = (slots // page, heads, 32, page // 32, groups)
        shape = tiled if page == _HEAD else (slots, heads, groups)
    fits = shape is not None and shape == scale_shape(slots, page, heads * cache.head_dim)
    return PrologueFacts(
        function="extend",
        dq=(cache.q_heads_per_rank or 1) * cache.head_dim,
        dkv=heads * cache.head_dim,
        slots=slots,
        page_size=page,
        # the model asks for the MXFP8 store only where the pool can take it
        mxfp8=mxfp8 and (forced or fits),
        sfk_shape=shape,
        sfv_shape=shape,
    )


Ask = Callable[[str, PrologueFacts], tuple[Verdict, ...]]


def prologue(facts: Facts, cache: KvCache | None, ask: Ask, *, forced: bool) -> Prologue | None:
    """Return the prologue's verdicts for the heads of one rank.

    ``facts`` are the deployment's, ``ask`` runs the guards of a subject. ``forced`` asks the checks
    even where SGLang would not run the prologue. None where a rank's heads are not known.
    """
    if cache is None or cache.kind == "MLA":
        return None
    if cache.kv_heads_per_rank is None or cache.q_heads_per_rank is None:
        return None
    why = why_not(facts, cache.head_dim)
    if why and not forced:
        return Prologue(False, why, cache.head_dim, None, ())
    handed = _handed(facts, cache, forced=forced)
    return Prologue(not why, why, cache.head_dim, handed, ask("prologue", handed))
