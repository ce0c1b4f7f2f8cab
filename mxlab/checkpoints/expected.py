"""The shapes that the config's sizes give, held against the stored ones."""

from collections.abc import Iterator, Mapping
from typing import Any

from mxlab.checkpoints.finding import Problem
from mxlab.checkpoints.weights import Weight, shape_text
from mxlab.errors import InputError
from mxlab.models.linear import Linear
from mxlab.models.shapes import shapes

#: where checkpoints keep the decoder; anything else (a vision tower) is not compared
_PREFIXES = ("", "model.", "language_model.", "language_model.model.", "model.language_model.")
_GATES = ("gate_proj", "up_proj", "w1", "w3")
_DOWNS = ("down_proj", "w2")
_VOCABULARY = 64

Size = tuple[int, int]


def _members(row: Linear) -> Iterator[tuple[str, Size]]:
    """Yield (module with {layer}, (N, K)) of every weight that a row was fused from."""
    if row.k is None or row.n is None:
        return
    outer = row.path.rpartition(".")[0]
    widths = row.parts if len(row.parts) == len(row.sources) else (row.n,)
    if len(row.sources) != len(widths):
        return
    for source, width in zip(row.sources, widths, strict=True):
        leaf = source.rpartition(".")[2]
        yield f"{outer}.{leaf}" if outer else leaf, (width, row.k)


def _tail(module: str) -> str:
    """Return a module without the prefix that differs between checkpoints of one model."""
    best = max((p for p in _PREFIXES if module.startswith(p)), key=len)
    return module[len(best) :]


class Expected:
    """The (N, K) of every decoder linear of a config, at TP 1."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.note = ""
        self._sizes: dict[tuple[str, str | None], Size] = {}
        self._experts: dict[tuple[str, str], Linear] = {}
        try:
            found = shapes(config)
        except InputError as error:
            self.note = f"shapes are not compared with the config: {error}"
            return
        if found.family is None:
            self.note = "shapes are not compared with the config: mxlab has no recipe for it"
        self.transposed = found.family == "gpt2"  # Conv1D stores (K, N)
        for row in found.layers:
            layers: list[str | None] = [str(index) for index in row.indices] or [None]
            if row.kind == "moe":
                side = "down" if row.linear.endswith("w2") else "up"
                for layer in layers:
                    self._experts[(layer or "", side)] = row
                continue
            if row.kind == "lm_head" and "tied" in row.sources[0]:
                continue
            for module, size in _members(row):
                for layer in layers:
                    self._sizes[(_tail(module), layer)] = size

    def _expert(self, weight: Weight, layer: str, leaf: str) -> tuple[set[Size], int | None]:
        """Return the shapes that an expert's weight may have, and how many experts there are."""
        side = "down" if leaf in _DOWNS else "up"
        row = self._experts.get((layer, side))
        if row is None or row.n is None or row.k is None:
            return set(), None
        n, k = row.n, row.k
        if leaf in _GATES and len(row.parts) > 1:
            n = row.parts[0]
        elif leaf not in _DOWNS and "gate_up" not in leaf and "w13" not in leaf:
            return set(), None
        stacked = weight.experts is not None
        return ({(n, k), (k, n)} if stacked else {(n, k)}), row.experts

    def check(self, weight: Weight) -> Problem | None:
        """Return the mistake where a weight's shape is not the one that the config gives."""
        if weight.n is None or weight.k is None:
            return None
        stored = (weight.n, weight.k)
        folded = weight.folded
        tail = _tail(folded.pattern)
        *outer, leaf = tail.split(".")
        experts = None
        if "experts" in outer and tail.startswith("layers."):
            sizes, experts = self._expert(weight, folded.layer or "", leaf)
        else:
            size = self._sizes.get((tail, folded.layer))
            sizes = {size} if size else set()
            if size and leaf == "lm_head":
                sizes = {(n, size[1]) for n in range(size[0] - _VOCABULARY + 1, size[0] + 1)}
            if size and self.transposed:
                sizes.add((size[1], size[0]))
        if not sizes or (stored in sizes and weight.experts in (None, experts)):
            return None
        if stored not in sizes:
            n, k = max(sizes)
            text = f"stored (N, K) = ({stored[0]}, {stored[1]}), the config gives ({n}, {k})"
            if stored[1] * 2 == k and weight.weight.dtype in ("U8", "I8"):
                text += f": {stored[1]} bytes a row hold {k} packed FP4 values"
        else:
            text = f"stored {shape_text(weight.weight.shape)}, the config has {experts} experts"
        return Problem("shape-differs-from-config", weight.weight.name, text)
