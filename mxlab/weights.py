"""How many bytes of weights a model reads: its parameters, derived, in the checkpoint's format."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from mxlab.errors import InputError
from mxlab.models import Linear, Shapes, describe_quantization
from mxlab.models.config import Section
from mxlab.models.quantization import Quantization
from mxlab.models.wrapped import decoder_part
from mxlab.moe_config import four_bit_experts

#: torch's names -> bytes of one value
_ITEM = {"float32": 4, "float": 4, "bfloat16": 2, "float16": 2, "half": 2}
_SCALE_BYTES = {"ue8m0": 1, "e4m3": 1}
_LEFT_OUT = "norms, biases, convolutions and position embeddings are left out"
#: kinds of rows that checkpoints keep in 16 bits unless they say otherwise
_WIDE = ("router", "lm_head")


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """The weights of a model: parameters and bytes, whole and on one rank.

    Bytes are those of the checkpoint's own format, None where the format has no rule; ``format``
    names it, ``derived`` says what was assumed.
    """

    parameters: int
    parameters_a_rank: int | None
    bytes: int | None
    bytes_a_rank: int | None
    format: str
    derived: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Return a JSON object."""
        return {**asdict(self), "derived": list(self.derived)}


def stored_bytes(n: int, k: int, claim: Quantization) -> int | None:
    """Return the bytes of one (n, k) weight with its scales; None for a format without a rule.

    >>> from mxlab.models import describe_quantization
    >>> mxfp8 = describe_quantization({"quantization_config": {"quant_method": "mxfp8"}})
    >>> stored_bytes(128, 64, mxfp8)
    8448
    """
    name = claim.weights
    bits = {"MXFP4": 4, "NVFP4": 4, "INT4": 4, "INT8": 8}.get(name, 8 if "FP8" in name else 0)
    if not bits:
        return None
    scale = _SCALE_BYTES.get(claim.scale or "", 2 if name.startswith("INT") else 4)
    if claim.block:
        rows, columns = claim.block
        scales = -(-n // max(rows, 1)) * -(-k // max(columns, 1))
    else:
        scales = n if name == "FP8 channel" else 1
    return -(-n * k * bits // 8) + scales * scale


def _members(row: Linear) -> list[str]:
    """Return the checkpoint's names of a row's first member in every layer that has it."""
    outer = row.path.rpartition(".")[0]
    leaf = row.sources[0].rpartition(".")[2] if row.sources else row.path.rpartition(".")[2]
    name = row.path if row.kind == "moe" else f"{outer}.{leaf}" if outer else leaf
    return [name.replace("{layer}", str(index)) for index in row.indices or (0,)]


class _Stored:
    """Which rows of a checkpoint are quantised, and the bytes of each."""

    def __init__(self, config: Mapping[str, Any], found: Shapes) -> None:
        self.claim = describe_quantization(config)
        inner = decoder_part(Section(config)).data
        written = [part.get(key) for part in (config, inner) for key in ("dtype", "torch_dtype")]
        named = next((value for value in written if isinstance(value, str)), "")
        self.item = _ITEM.get(named, 2)
        wide = named if named in _ITEM else "16 bit, torch_dtype absent"
        self.experts = self._experts(four_bit_experts(config))
        formats = [claim.weights for claim in (self.claim, self.experts) if claim]
        self.format = " and ".join([*dict.fromkeys(formats), wide])
        self.kept: dict[str, int] = {}
        if self.claim and self.claim.ignore:
            from mxlab.checkpoints.exclusions import exclude  # only for a claim with a list

            names = {name: row for row in found.layers for name in _members(row)}
            for name in exclude(self.claim.ignore, names).covers:
                self.kept[names[name].linear] = self.kept.get(names[name].linear, 0) + 1

    def _experts(self, bits: str) -> Quantization | None:
        """Return the claim about the routed experts: another one where they alone have 4 bits."""
        if self.claim is None or not bits:
            return self.claim
        block, scale = ((1, 32), "ue8m0") if bits == "MXFP4" else ((1, 16), "e4m3")
        return replace(self.claim, weights=bits, block=block, scale=scale)

    def layers(self, row: Linear) -> int:
        """Return how many of the row's layers are stored in the claim's format."""
        if self.claim is None or row.kind in _WIDE:
            return 0
        return max(0, row.layers - self.kept.get(row.linear, 0))

    def bytes(self, row: Linear, count: int) -> int | None:
        """Return the bytes of ``count`` matrices a layer, over all layers."""
        n, k, quantized = row.n or 0, row.k or 0, self.layers(row)
        claim = self.experts if row.kind == "moe" else self.claim
        small = stored_bytes(n, k, claim) if claim and quantized else 0
        if small is None:
            return None
        return count * (quantized * small + (row.layers - quantized) * n * k * self.item)


def _embedding(config: Mapping[str, Any], head: Linear) -> int:
    """Return the rows of the embedding as stored: the vocabulary without padding."""
    for part in (decoder_part(Section(config)).data, config):
        size = part.get("padded_vocab_size", part.get("vocab_size"))
        if type(size) is int and 0 < size <= (head.n or 0):
            return size
    return head.n or 0


def weights(config: Mapping[str, Any], whole: Shapes, rank: Shapes) -> Weights | None:
    """Return the parameters and bytes of a model; None where nothing was derived.

    ``whole`` holds its shapes at TP 1, ``rank`` those of one rank. Bytes are what the checkpoint
    holds: online quantisation still reads 16-bit weights. Raises nothing for a claim it cannot
    read: the format is then unknown.

    >>> from mxlab.models import read_config, shapes
    >>> config = read_config("Llama-3.1-70B")
    >>> found = weights(config, shapes(config), shapes(config, tp=8))
    >>> round(found.bytes / 1e9, 1), round(found.bytes_a_rank / 1e9, 1)
    (141.1, 17.6)
    """
    if not any(row.k for row in whole.layers):
        return None
    try:
        stored = _Stored(config, whole)
    except InputError:
        return None
    sums: list[tuple[int, int | None] | None] = []
    for found in (whole, rank):
        split = found is rank
        parameters, total = 0, 0
        known = True
        for row in found.layers:
            experts = (row.experts_per_rank if split else row.experts) or 1
            n, k = row.n or 0, row.k or 0
            if row.kind == "lm_head":
                rows = n if split else _embedding(config, row)
                copies = 1 if any("tied" in source for source in row.sources) else 2
                parameters += copies * rows * k
                total += copies * rows * k * stored.item
                continue
            parameters += row.layers * experts * n * k
            held = stored.bytes(row, experts)
            known = known and held is not None
            total += held or 0
        broken = split and any(row.invalid for row in found.layers)
        sums.append(None if broken else (parameters, total if known else None))
    assert sums[0] is not None
    (parameters, total_bytes), part = sums[0], sums[1] or (None, None)
    derived = [f"parameters = sum of N x K x layers x experts, and the embedding; {_LEFT_OUT}"]
    if whole.unknown:
        derived.append("a lower bound: not every layer is known")
    return Weights(
        parameters=parameters,
        parameters_a_rank=part[0],
        bytes=total_bytes,
        bytes_a_rank=part[1],
        format=stored.format,
        derived=tuple(derived),
    )


def human(count: float, unit: str = "B") -> str:
    """Return a count for people, in powers of ten: three digits and a unit.

    >>> human(141_107_000_000), human(0), human(1_500), human(1.18e9, "FLOP")
    ('141 GB', '0 B', '1.5 kB', '1.18 GFLOP')
    """
    for prefix in ("", "k", "M", "G", "T"):
        if count < 999.5:
            return f"{count:.3g} {prefix}{unit}"
        count /= 1000
    return f"{count:,.0f} P{unit}"
