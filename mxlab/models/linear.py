"""One weight of a model as one rank holds it."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Linear:
    """A linear layer's effective shape on one tensor-parallel rank.

    ``n`` and ``k`` are output and input features of the weight on one rank, None when it cannot be
    built (``invalid`` says why). ``parts`` are the widths of the fused members along N.
    ``path`` is the module's name with ``{layer}`` for the layer index; ``indices`` the layers that
    have it. ``sources`` are the checkpoint's names of the fused members. ``unquantized`` says why
    SGLang 0.5.23 never quantises the weight, "" where it does what the checkpoint says.
    """

    linear: str
    kind: str  # linear, moe, router, lm_head
    shard: str  # column, row, replicated, vocab
    layers: int
    sources: tuple[str, ...]
    path: str
    indices: tuple[int, ...] = ()
    n: int | None = None
    k: int | None = None
    parts: tuple[int, ...] = ()
    experts: int | None = None  # of the whole layer
    experts_per_rank: int | None = None
    invalid: str | None = None
    unquantized: str = ""
    skip_block_check: bool = False  # SGLang builds it so that members need not fit the block

    def to_json(self) -> dict[str, Any]:
        """Return the row as the contract's JSON object."""
        row: dict[str, Any] = {
            "linear": self.linear,
            "kind": self.kind,
            "shard": self.shard,
            "layers": self.layers,
            "experts": self.experts,
            "n": self.n,
            "k": self.k,
            "parts": list(self.parts),
            "sources": list(self.sources),
        }
        if self.experts_per_rank is not None:
            row["experts_per_rank"] = self.experts_per_rank
        if self.invalid is not None:
            row["invalid"] = self.invalid
        return row
