"""``mxlab shapes``: the linears of one rank."""

import argparse

from mxlab.cli.model_input import CONFIG, add_linear_argument, model_source, plain_number
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
  mxlab shapes path/to/checkpoint --tp 8      real shapes from the headers, held against the config
  mxlab shapes Mixtral-8x7B --tp 8 --ep 2 --json
  mxlab shapes --linear down_proj 8192 29568 --tp 8
shipped models: {", ".join(shipped_models())}"""

#: what stands for the architecture's name where the model came without a config
_UNNAMED = {"linears": "linears as given", "headers": "no config", "index": "no config"}
_SHOWN = 40
_SHARDS = {"column": "column (N)", "row": "row (K)", "vocab": "vocab (N)"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument("config", nargs="?", metavar="CONFIG", help=CONFIG)
    add_linear_argument(parser)
    parser.add_argument("--tp", default="1", help="tensor-parallel size, 1..1024 (default 1)")
    parser.add_argument("--ep", default="1", help="expert-parallel size, a divisor of TP")
    parser.add_argument(
        "--attn-dp-size",
        default="1",
        help="groups of ranks that each hold the attention whole, a divisor of TP (SGLang's flag)",
    )


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


def _checkpoint(claim: Quantization | None, found: Shapes) -> str:
    if claim is None and not found.config:
        return "checkpoint: no config says whether it is quantised"
    if claim is None:
        return "checkpoint: not quantised"
    block = f", one scale for {claim.block[0]} x {claim.block[1]}" if claim.block else ""
    ignored = f", {len(claim.ignore)} entries in {claim.ignore_key}" if claim.ignore else ""
    return f"checkpoint: {claim.weights} ({claim.dialect}){block}{ignored}"


def _headline(found: Shapes) -> str:
    name = found.architecture or found.model_type or _UNNAMED.get(found.model.kind, "")
    model = ascii(name)[1:-1][:80]
    ranks = f"TP {found.tp}" + (f", EP {found.ep}" if found.ep > 1 else "")
    ranks += f", attention DP {found.attn_dp}" if found.attn_dp > 1 else ""
    if found.loads is None:
        why = "sizes are missing" if found.family else "no recipe"
        return f"{model}, {ranks}: {why}, nothing derived"
    if found.loads:
        return f"{model}, {ranks}: every linear{' listed' if found.unknown else ''} divides"
    only = "; only the vision tower fails, it can run data-parallel" if found.vision_only else ""
    return f"{model}, {ranks}: does not load: {'; '.join(found.why)}{only}"


def _differences(found: Shapes) -> tuple[str, ...]:
    more = len(found.differences) - _SHOWN
    tail = (f"and {more} more; --json lists them all",) if more > 0 else ()
    return (*(difference.text() for difference in found.differences[:_SHOWN]), *tail)


def run(args: argparse.Namespace) -> Result:
    """Run the verb."""
    source = model_source(args.config, args.linear)
    ranks = [plain_number(size) for size in (args.tp, args.ep, args.attn_dp_size)]
    found = shapes(source, *ranks)  # type: ignore[arg-type]
    claim = describe_quantization(found.config)
    data = {**found.to_json(), "quantization": claim.to_json() if claim else None}
    lines = [_headline(found)]
    if found.loads is False:
        sizes = tp_that_load(found.model)
        data["tp_that_load"] = list(sizes)
        lines.append(f"TP sizes up to 64 that load: {', '.join(map(str, sizes)) or 'none'}")
    lines.append(_checkpoint(claim, found))
    if found.kv:
        lines.append(_cache(found.kv))
    if found.layers:
        header = ["linear", "layers", "shard", "N", "K", "parts of N", "notes"]
        lines += ["", table(header, [_row(row) for row in found.layers], right="N K")]
    for title, texts in (
        ("stored weights that differ from the config", _differences(found)),
        ("not derived", found.unknown),
        ("derived", found.derived),
        ("notes", (*found.notes, *(claim.notes if claim else ()))),
    ):
        if texts:
            lines += ["", f"{title}:", *(f"  {text}" for text in texts)]
    return Result(data, "\n".join(lines), exit_code=1 if found.loads is False else 0)
