"""``mxlab shapes``: the linears of one rank."""

import argparse

from mxlab.cli.result import Result, table
from mxlab.models import (
    KvCache,
    Linear,
    Quantization,
    Shapes,
    describe_quantization,
    shapes,
    shipped_models,
    tp_that_load,
)
from mxlab.models.build import layer_ranges

EXAMPLES = f"""examples:
  mxlab shapes config.json --tp 8
  mxlab shapes Mixtral-8x7B --tp 8 --ep 2 --json
shipped models: {", ".join(shipped_models())}"""

_SHARDS = {"column": "column (N)", "row": "row (K)", "vocab": "vocab (N)"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument("config", help="config.json, a folder with one, or a shipped model's name")
    parser.add_argument("--tp", default="1", help="tensor-parallel size, 1..1024 (default 1)")
    parser.add_argument("--ep", default="1", help="expert-parallel size, a divisor of TP")


def _rank_count(text: str) -> int | str:
    """Return the number where the text is a plain one; what is not is refused by its own name."""
    digits = text.removeprefix("-")
    return int(text) if digits.isascii() and digits.isdigit() and len(digits) < 10 else text


def _where(row: Linear) -> str:
    return f"{row.layers} ({layer_ranges(row.indices)})" if row.indices else str(row.layers)


def _notes(row: Linear) -> str:
    if row.invalid:
        return f"cannot be split: {row.invalid}"
    if row.experts is None:
        return "never quantised" if row.unquantized else ""
    if row.experts_per_rank in (None, row.experts):
        return f"each of {row.experts} experts"
    return f"each of {row.experts_per_rank} of {row.experts} experts"


def _row(row: Linear) -> list[object]:
    parts = " + ".join(map(str, row.parts)) if len(row.parts) > 1 else ""
    shard = _SHARDS.get(row.shard, row.shard)
    return [row.linear, _where(row), shard, row.n, row.k, parts, _notes(row)]


def _cache(kv: KvCache) -> str:
    heads = "?" if kv.kv_heads_per_rank is None else kv.kv_heads_per_rank
    queries = "?" if kv.q_heads_per_rank is None else kv.q_heads_per_rank
    if kv.kind == "MLA":
        return (
            f"KV cache on one rank: MLA, {kv.latent} latent + {kv.rope} rope = "
            f"{kv.cached_per_token} elements a token in {kv.layers} layers; {queries} query heads "
            f"of {kv.head_dim}, values of {kv.v_head_dim}"
        )
    return (
        f"KV cache on one rank: {kv.kind}, {heads} KV heads of {kv.head_dim} in {kv.layers} "
        f"layers, {queries} query heads"
    )


def _checkpoint(claim: Quantization | None) -> str:
    if claim is None:
        return "checkpoint: not quantised"
    block = f", one scale for {claim.block[0]} x {claim.block[1]}" if claim.block else ""
    ignored = f", {len(claim.ignore)} entries in {claim.ignore_key}" if claim.ignore else ""
    return f"checkpoint: {claim.weights} ({claim.dialect}){block}{ignored}"


def _headline(found: Shapes) -> str:
    model = ascii(found.architecture or found.model_type)[1:-1][:80]
    ranks = f"TP {found.tp}" + (f", EP {found.ep}" if found.ep > 1 else "")
    if found.loads is None:
        return f"{model}, {ranks}: no recipe, nothing derived"
    if found.loads:
        return f"{model}, {ranks}: every linear{' listed' if found.unknown else ''} divides"
    only = "; only the vision tower fails, it can run data-parallel" if found.vision_only else ""
    return f"{model}, {ranks}: does not load: {'; '.join(found.why)}{only}"


def run(args: argparse.Namespace) -> Result:
    """Run the verb."""
    found = shapes(args.config, _rank_count(args.tp), _rank_count(args.ep))  # type: ignore[arg-type]
    claim = describe_quantization(found.config)
    data = {**found.to_json(), "quantization": claim.to_json() if claim else None}
    lines = [_headline(found)]
    if found.loads is False:
        sizes = tp_that_load(found.config)
        data["tp_that_load"] = list(sizes)
        lines.append(f"TP sizes up to 64 that load: {', '.join(map(str, sizes)) or 'none'}")
    lines.append(_checkpoint(claim))
    if found.kv:
        lines.append(_cache(found.kv))
    if found.layers:
        header = ["linear", "layers", "shard", "N", "K", "parts of N", "notes"]
        lines += ["", table(header, [_row(row) for row in found.layers], right="N K")]
    for title, texts in (
        ("not derived", found.unknown),
        ("derived", found.derived),
        ("notes", (*found.notes, *(claim.notes if claim else ()))),
    ):
        if texts:
            lines += ["", f"{title}:", *(f"  {text}" for text in texts)]
    return Result(data, "\n".join(lines), exit_code=1 if found.loads is False else 0)
