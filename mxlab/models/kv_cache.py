"""What one rank's KV cache holds for one token of one layer."""

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class KvCache:
    """The KV cache of one rank.

    ``kind`` is MHA, MQA, GQA or MLA. ``head_dim`` is that of queries and keys (MLA: nope + rope),
    ``v_head_dim`` that of values. MLA caches one row of ``cached_per_token`` elements (``latent`` +
    ``rope``) on every rank instead. A head count is None when it cannot be split.
    """

    kind: str
    head_dim: int
    v_head_dim: int
    kv_heads_per_rank: int | None
    q_heads_per_rank: int | None
    layers: int
    cached_per_token: int | None = None
    latent: int | None = None
    rope: int | None = None
    index_head_dim: int | None = None  # of the sparse attention's index keys, one head a token
    index_layers: int | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the contract's JSON object; what does not apply to the kind is left out."""
        always = ("kv_heads_per_rank", "q_heads_per_rank")
        return {k: v for k, v in asdict(self).items() if v is not None or k in always}
