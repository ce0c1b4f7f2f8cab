"""Look at one checkpoint: open, classify, hold against the config, sample."""

from collections import Counter
from pathlib import Path

from mxlab.checkpoints.claims import Claims, check_claims, check_fused, read_claims
from mxlab.checkpoints.expected import Expected
from mxlab.checkpoints.finding import Problem, gather
from mxlab.checkpoints.report import Report, group
from mxlab.checkpoints.sampled import read_bytes
from mxlab.checkpoints.source import open_checkpoint
from mxlab.checkpoints.tensors import Checkpoint
from mxlab.checkpoints.weights import NAMES_ONLY, Weight, pair
from mxlab.errors import InputError
from mxlab.models.shapes import shapes

#: findings that a report lists; a damaged checkpoint can have one for every tensor
MAX_FINDINGS = 200


def _config_alone(checkpoint: Checkpoint, claims: Claims) -> tuple[list[Problem], list[str]]:
    """Without tensors: the claim itself, and K of the linears that it would quantise."""
    notes = ["a config alone: this is what it claims, no tensor was looked at"]
    problems = check_claims(checkpoint, claims, [])
    claim = claims.claim
    if claim is None or claim.weights != "MXFP8" or checkpoint.config is None:
        return problems, notes
    try:
        rows = shapes(checkpoint.config).layers
    except InputError as error:
        return problems, [*notes, f"shapes are not derived: {error}"]
    problems += [
        Problem("k-not-multiple-of-32", row.path, f"K = {row.k} % 32 = {row.k % 32}")
        for row in rows
        if row.kind in ("linear", "moe") and row.k and row.k % 32
    ]
    return problems, notes


def _by_name(weights: list[Weight]) -> list[str]:
    """Say what names alone tell."""
    if not weights:
        return ["no linear was recognised by its tensors' names"]
    if any(weight.format != NAMES_ONLY for weight in weights):
        return []
    scaled = Counter(weight.spelling for weight in weights if weight.scale)
    found = ", ".join(f"{count} x {name}" for name, count in scaled.most_common()) or "none"
    return [f"weights with a scale, by name: {found}, of {len(weights)}"]


def inspect(source: str | Path, *, sample_bytes: bool = False) -> Report:
    """Return what a checkpoint holds and what was shipped by mistake.

    ``source`` is a .safetensors file, a folder with one or with shards and an index, an index, or
    a config.json. Only headers are read; ``sample_bytes`` reads some bytes of scales too (at most
    64 KiB of one, 32 MiB in all). Nothing is unpickled. Raises InputError with one line.
    Source: the safetensors format; checkpoints of the dialects' own exporters.

    >>> inspect("no such file")
    Traceback (most recent call last):
    mxlab.errors.InputError: cannot read 'no such file': No such file or directory
    """
    checkpoint = open_checkpoint(source)
    claims = read_claims(checkpoint)
    weights: list[Weight] = []
    if checkpoint.kind == "config":
        problems, notes = _config_alone(checkpoint, claims)
    else:
        weights, orphans = pair(checkpoint, claims.block)
        problems = [*checkpoint.problems, *orphans]
        for weight in weights:
            problems += weight.problems
        problems += check_claims(checkpoint, claims, weights)
        problems += check_fused(weights)
        notes = [*checkpoint.notes, *_by_name(weights)]
        notes += _compare_shapes(checkpoint, weights, problems)
    rows = group(weights, claims)
    sampled = None
    if sample_bytes:
        sampled = read_bytes(checkpoint, claims.claim, [row.weights for row in rows])
        problems += sampled.problems
        notes += sampled.notes
    findings = gather(problems)
    return Report(
        checkpoint=checkpoint,
        claim=claims.claim,
        rows=rows,
        findings=findings[:MAX_FINDINGS],
        left_out=max(0, len(findings) - MAX_FINDINGS),
        bytes=sampled,
        notes=notes,
    )


def _compare_shapes(
    checkpoint: Checkpoint, weights: list[Weight], problems: list[Problem]
) -> list[str]:
    """Hold shapes against the config's sizes; return what a reader should know."""
    if checkpoint.config is None:
        return ["no config.json beside it: nothing is held against its claims"]
    if checkpoint.kind == "index" or set(checkpoint.config) <= {"_hf_quant_config"}:
        return []
    expected = Expected(checkpoint.config)
    for weight in weights:
        problem = expected.check(weight)
        if problem:
            problems.append(problem)
    return [expected.note] if expected.note else []
