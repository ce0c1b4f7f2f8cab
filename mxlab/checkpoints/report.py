"""One checkpoint looked at: its linears by pattern, its formats, and what is wrong."""

from dataclasses import dataclass, field
from typing import Any

from mxlab.checkpoints.claims import Claims
from mxlab.checkpoints.finding import Finding
from mxlab.checkpoints.kinds import ERROR
from mxlab.checkpoints.sampled import Bytes
from mxlab.checkpoints.tensors import Checkpoint
from mxlab.checkpoints.weights import PLAIN, Weight
from mxlab.models.build import layer_ranges
from mxlab.models.quantization import Quantization

Key = tuple[object, ...]


@dataclass(slots=True)
class Row:
    """The weights of one pattern that are alike."""

    pattern: str
    weights: list[Weight] = field(default_factory=list)
    dialect: str = ""

    @property
    def layers(self) -> list[int]:
        """Layer indices, sorted."""
        found = {weight.folded.layer for weight in self.weights}
        return sorted(int(layer) for layer in found if layer is not None)

    @property
    def experts(self) -> int | None:
        """How many experts the pattern has, None where it has none."""
        found = {weight.folded.expert for weight in self.weights} - {None}
        return len(found) or self.weights[0].experts

    def to_json(self) -> dict[str, Any]:
        """Return a JSON object."""
        first, layers = self.weights[0], self.layers
        scale = first.scale
        return {
            "pattern": self.pattern,
            "count": len(self.weights),
            "layers": len(layers) or None,
            "layer_ranges": layer_ranges(layers),
            "experts": self.experts,
            "n": first.n,
            "k": first.k,
            "format": first.format,
            "dialect": self.dialect or None,
            "block": list(first.block) if first.block else None,
            "weight_dtype": first.weight.dtype,
            "weight_shape": list(first.weight.shape) if first.weight.shape is not None else None,
            "scale_name": first.spelling or None,
            "scale_dtype": scale.dtype if scale else None,
            "scale_shape": list(scale.shape) if scale and scale.shape is not None else None,
        }


@dataclass(slots=True, kw_only=True)
class Report:
    """What ``inspect`` found. ``stops`` is True when a finding is an error."""

    checkpoint: Checkpoint
    claim: Quantization | None
    rows: list[Row]
    findings: list[Finding]
    left_out: int
    bytes: Bytes | None
    notes: list[str]

    @property
    def stops(self) -> bool:
        """Whether something was shipped by mistake."""
        return any(finding.severity == ERROR for finding in self.findings)

    @property
    def total_bytes(self) -> int:
        """Length of all tensors' data, of those whose header was read."""
        return sum(tensor.nbytes or 0 for tensor in self.checkpoint.tensors.values())

    def formats(self) -> list[dict[str, Any]]:
        """Return one object for each format: linears, elements, bytes of weights and scales."""
        found: dict[tuple[str, str], dict[str, Any]] = {}
        for row in self.rows:
            entry = found.setdefault(
                (row.weights[0].format, row.dialect),
                {
                    "format": row.weights[0].format,
                    "dialect": row.dialect or None,
                    "linears": 0,
                    "elements": 0,
                    "bytes": 0,
                },
            )
            for weight in row.weights:
                scale = weight.scale.nbytes if weight.scale else 0
                entry["linears"] += 1
                entry["elements"] += (weight.n or 0) * (weight.k or 0) * (weight.experts or 1)
                entry["bytes"] += (weight.weight.nbytes or 0) + (scale or 0)
        return sorted(found.values(), key=lambda entry: -int(entry["bytes"]))

    def to_json(self) -> dict[str, Any]:
        """Return a strict JSON object."""
        return {
            "path": self.checkpoint.path,
            "kind": self.checkpoint.kind,
            "outcome": "stops" if self.stops else "fine",
            "files": len(self.checkpoint.paths),
            "tensors": len(self.checkpoint.tensors),
            "bytes": self.total_bytes,
            "claim": self.claim.to_json() if self.claim else None,
            "formats": self.formats(),
            "linears": [row.to_json() for row in self.rows],
            "findings": [finding.to_json() for finding in self.findings],
            "findings_left_out": self.left_out,
            "scale_bytes": self.bytes.to_json() if self.bytes else None,
            "notes": self.notes,
        }


def _dialect(weight: Weight, claims: Claims) -> str:
    """Say whose spelling this is: same tensors, told apart by the config where there is one."""
    if weight.format in PLAIN or weight.format == "INT4":
        return ""
    claim, claimed = claims.claim, claims.of(weight.module)
    if claim and claim.weights != "unknown":
        # also where a scale is misplaced, or the config excludes what is quantised
        if weight.format.startswith(claim.weights) or (claimed and not claimed[0]):
            return claim.dialect
        if claimed and claimed[0] == weight.format:
            return claim.dialect
    if weight.weight.dtype == "U32":
        return "MLX"
    if not weight.format.startswith("MXFP8"):
        return ""
    if weight.spelling == "weight_scale_inv":
        return "native"
    return "ModelOpt or compressed-tensors" if weight.spelling == "weight_scale" else ""


def group(weights: list[Weight], claims: Claims) -> list[Row]:
    """Return the weights by pattern, format, dtypes and shapes."""
    groups: dict[Key, Row] = {}
    for weight in weights:
        scale, pattern = weight.scale, weight.folded.pattern
        dialect = _dialect(weight, claims)
        key: Key = (
            pattern,
            weight.format,
            weight.block,
            weight.weight.dtype,
            weight.weight.shape,
            weight.spelling,
            scale and (scale.dtype, scale.shape),
            dialect,
        )
        row = groups.get(key)
        if row is None:
            row = groups[key] = Row(pattern, dialect=dialect)
        row.weights.append(weight)
    return sorted(groups.values(), key=lambda row: row.pattern)
