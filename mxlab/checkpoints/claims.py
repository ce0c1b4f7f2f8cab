"""What the config claims, held against what the tensors are."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from mxlab.checkpoints.exclusions import Excluded, exclude
from mxlab.checkpoints.finding import Problem
from mxlab.checkpoints.names import modules_of
from mxlab.checkpoints.tensors import Checkpoint
from mxlab.checkpoints.weights import NAMES_ONLY, PLAIN, UNSEEN, Block, Weight
from mxlab.errors import quote
from mxlab.guards.ignore import FUSED
from mxlab.models.quantization import Quantization, describe_quantization

#: quant_algo of one module -> format and block
_ALGORITHMS: Mapping[str, tuple[str, Block | None]] = {
    "MXFP8": ("MXFP8", (1, 32)),
    "MXFP4": ("MXFP4", (1, 32)),
    "NVFP4": ("NVFP4", (1, 16)),
    "FP8": ("FP8 tensor", None),
    "FP8_PB_WO": ("FP8 block", (128, 128)),
    "FP8_PER_CHANNEL_PER_TOKEN": ("FP8 channel", None),
}

#: leaves that every exporter leaves in 16 bits, listed or not: embeddings, heads, routers
_LEFT_ALONE = frozenset(
    name
    for names in (
        ("lm_head", "head", "proj_out"),
        ("embed_tokens", "embed", "wte", "wpe", "embed_positions", "position_embedding"),
        ("word_embeddings", "patch_embed"),
        ("gate", "router", "shared_expert_gate", "weights_proj"),
    )
    for name in names
)

_KNOWN = (
    "mxfp8, modelopt (MXFP8, NVFP4, FP8, MIXED_PRECISION), compressed-tensors (mxfp8-quantized, "
    "float-quantized, ...), quark, auto-round, fp8, mxfp4"
)


@dataclass(slots=True)
class Claims:
    """One config's claim, its exclusions resolved against the modules of a checkpoint."""

    claim: Quantization | None
    excluded: Excluded = field(default_factory=Excluded)
    by_module: dict[str, tuple[str, Block | None]] = field(default_factory=dict)

    def of(self, module: str) -> tuple[str, Block | None] | None:
        """Return (format, block) that the config claims for a module, None where it is 16 bits.

        The format is "" where the claim does not say.
        """
        claim = self.claim
        if claim is None or module in self.excluded.covers:
            return None
        if claim.modules or claim.weights in ("mixed", "unknown"):
            return self.by_module.get(module, ("", None))
        return claim.weights, claim.block

    def block(self, module: str) -> Block | None:
        """Return the block that the config claims for a module."""
        found = self.of(module)
        return found[1] if found else None


def read_claims(checkpoint: Checkpoint) -> Claims:
    """Return the config's claim with its exclusions resolved. Raises InputError as the config's
    own reader does."""
    config: Mapping[str, Any] = checkpoint.config or {}
    claims = Claims(describe_quantization(config))
    if claims.claim is None:
        return claims
    if claims.claim.ignore:
        modules = modules_of(checkpoint.tensors) | modules_of(checkpoint.elsewhere)
        claims.excluded = exclude(claims.claim.ignore, sorted(modules))
    claims.by_module = {
        module: _ALGORITHMS.get(algorithm.upper(), ("", None))
        for module, algorithm in claims.claim.modules
    }
    return claims


def check_claims(checkpoint: Checkpoint, claims: Claims, weights: list[Weight]) -> list[Problem]:
    """Return where the config and the tensors contradict each other."""
    if checkpoint.config is None:
        return []
    problems = [*_check_claim(checkpoint, claims), *_check_entries(checkpoint, claims)]
    if claims.claim is None:
        problems += _unclaimed(weights)
    elif claims.claim.weights == "unknown":
        problems += _unknown(claims.claim, weights)
    else:
        problems += _check_weights(claims, weights)
    return problems


def _check_claim(checkpoint: Checkpoint, claims: Claims) -> Iterator[Problem]:
    """Look at the claim alone: a leftover block size, two claims that differ."""
    claim = claims.claim
    if claim is None:
        return
    if claim.dialect == "native MXFP8":
        for note in claim.notes:
            yield Problem("config-block-size", claim.where, note.partition(" is ")[2])
    separate = (checkpoint.config or {}).get("_hf_quant_config")
    if claim.where == "_hf_quant_config" or not isinstance(separate, Mapping):
        return
    other = describe_quantization({"_hf_quant_config": separate})
    if other and "unknown" not in (other.weights, claim.weights) and other.weights != claim.weights:
        text = f"config.json says {claim.weights}, hf_quant_config.json says {other.weights}"
        yield Problem("config-contradicts", claim.where, text)


def _check_entries(checkpoint: Checkpoint, claims: Claims) -> Iterator[Problem]:
    claim = claims.claim
    if claim is None or not checkpoint.tensors:
        return
    key = claim.ignore_key or claim.where
    if not checkpoint.part:
        for entry in claims.excluded.idle:
            yield Problem("exclusion-matches-nothing", entry, f"entry of {key}")
        modules = modules_of(checkpoint.tensors) if claims.by_module else ()
        for module in claims.by_module:
            if module not in modules and module != "*" and claim.method != "quark":
                text = f"named by {claim.where} and not in the checkpoint"
                yield Problem("exclusion-matches-nothing", module, text)
    for entry, why in claims.excluded.unchecked:
        yield Problem("exclusion-not-checked", entry, f"entry of {key}: {why}")


def _unclaimed(weights: list[Weight]) -> Iterator[Problem]:
    for weight in weights:
        if weight.quantized and weight.format != NAMES_ONLY:
            text = f"weight is {weight.format} and the config has no quantization_config"
            yield Problem("config-contradicts", weight.weight.name, text)
        elif weight.quantized:
            text = f"has a {weight.spelling} and the config has no quantization_config"
            yield Problem("config-contradicts", weight.weight.name, text)


def _unknown(claim: Quantization, weights: list[Weight]) -> Iterator[Problem]:
    tensors = Counter(weight.format for weight in weights)
    held = ", ".join(f"{count} {name}" for name, count in tensors.most_common(3)) or "none"
    why = "; ".join(claim.notes) or f"{quote(claim.method)} with a format mxlab has no rule for"
    yield Problem(
        "config-unknown", claim.where, f"{why}; known: {_KNOWN}; the weights here: {held}"
    )


def _named(name: str, block: Block | None) -> str:
    return f"{name} {block[0]}x{block[1]}" if block and name == "FP8 block" else name


def _check_weights(claims: Claims, weights: list[Weight]) -> Iterator[Problem]:
    claim = claims.claim
    assert claim is not None
    expected = [weight for weight in weights if claims.of(weight.module)]
    known = [weight for weight in expected if weight.format not in UNSEEN]
    plain = [weight for weight in known if weight.format in PLAIN]
    working = [weight for weight in known if not _left_alone(weight.module)]
    if working and not any(weight.quantized for weight in weights):
        formats = "/".join(sorted({weight.format for weight in working}))
        what = _named(claim.weights, claim.block)
        yield Problem(
            "config-contradicts",
            claim.where,
            f"claims a serialised {what} checkpoint and all {len(working)} linears that it covers "
            f"are {formats}: remove the claim, or quantise online (--quantization)",
            guard="lin-downcast",
        )
        plain = []
    siblings = {weight.folded.pattern for weight in weights if weight.quantized}
    for weight in plain:
        claimed = claims.of(weight.module)
        if claimed == ("", None) or _left_alone(weight.module):
            continue
        mixed = weight.folded.pattern in siblings
        text = f"weight is {weight.format}, claimed is {_named(*(claimed or ('', None)))}"
        if mixed:
            text += "; other layers have it quantised"
        severity = "error" if mixed else None
        yield Problem("unquantized-not-excluded", weight.weight.name, text, severity)
    for weight in weights:
        yield from _check_weight(claims, weight)


def _left_alone(module: str) -> bool:
    parts = module.split(".")
    return parts[-1] in _LEFT_ALONE or "norm" in parts[-1] or "embeddings" in parts


def _check_weight(claims: Claims, weight: Weight) -> Iterator[Problem]:
    claim, claimed = claims.claim, claims.of(weight.module)
    if claim is None or not weight.quantized:
        return
    what = _named(weight.format, weight.block)
    if claimed is None:
        entry = claims.excluded.covers.get(weight.module, "")
        text = f"weight is {what} and {claim.ignore_key} lists {quote(entry)}"
        yield Problem("excluded-but-quantized", weight.weight.name, text)
        return
    if weight.format in UNSEEN:
        return
    if not claimed[0]:
        if claim.dialect.startswith("ModelOpt mixed"):
            text = f"weight is {what} and quantized_layers does not name it"
            yield Problem("config-contradicts", weight.weight.name, text)
        return
    form, block = claimed
    same_block = form != "FP8 block" or block is None or block == weight.block
    if form != weight.format or not same_block:
        if form == "MXFP8" and weight.format.startswith("MXFP8"):
            return  # its scale's own finding says what is wrong
        text = f"weight is {what}, claimed is {_named(form, block)}"
        yield Problem("config-contradicts", weight.weight.name, text)
        return
    if weight.format == "MXFP8":
        yield from _check_spelling(claim, weight)


def _check_spelling(claim: Quantization, weight: Weight) -> Iterator[Problem]:
    """Compare the scale's name with the one that the claimed dialect writes."""
    dialect = claim.dialect.split()[0]
    if dialect in ("native", "ModelOpt", "compressed-tensors", "Quark") and weight.scale:
        right = "weight_scale_inv" if dialect == "native" else "weight_scale"
        if weight.spelling in ("weight_scale", "weight_scale_inv") and weight.spelling != right:
            text = f"spelt {weight.spelling}, {dialect} writes {right}"
            severity = "note" if dialect == "native" else None
            yield Problem("scale-name", weight.scale.name, text, severity)
        elif claim.weights == "mixed" and weight.spelling == "weight_scale":
            text = "weight_scale in a mixed checkpoint: SGLang's MXFP8 parameter is "
            text += "weight_scale_inv and the scale may be dropped"
            yield Problem("scale-name", weight.scale.name, text)


def check_fused(weights: list[Weight]) -> Iterator[Problem]:
    """Yield fused layers whose members are stored in different formats."""
    groups: dict[str, tuple[str, ...]] = {
        member: (fused, *members) for fused, members in FUSED.items() for member in members
    }
    found: dict[str, dict[str, str]] = {}
    for weight in weights:
        outer, _, leaf = weight.module.rpartition(".")
        if leaf in groups and weight.format not in UNSEEN and "," not in weight.format:
            seen = found.setdefault(f"{outer}.{groups[leaf][0]}", {})
            seen[leaf] = _named(weight.format, weight.block)
    for layer, members in found.items():
        if len(set(members.values())) > 1:
            text = ", ".join(f"{leaf} {form}" for leaf, form in sorted(members.items()))
            yield Problem("fused-members-differ", layer, text)
