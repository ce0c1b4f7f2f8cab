"""What the doctor asks the guards about: the facts of a model's linears, experts and cache."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from mxlab.errors import InputError, quote
from mxlab.guards import (
    ConfigFacts,
    Deployment,
    ExpertCallFacts,
    ExpertFacts,
    Facts,
    KvCacheFacts,
    LinearFacts,
    Status,
    Verdict,
    ask,
    facts,
    system,
)
from mxlab.guards.experts import not_processed
from mxlab.guards.facts import Quant
from mxlab.guards.steps import CHOICES
from mxlab.models import (
    KvCache,
    Linear,
    Shapes,
    Source,
    quantization_config,
    tp_that_load,
)
from mxlab.moe_config import four_bit_experts, routing, settings
from mxlab.quantized import Coverage

#: guards of one call of the experts that need nothing but the config
_ROUTED = ("moe-fi-routing",)
#: guards of what no rank gets a part of
_DIVIDES = ("tp-divides", "moe-tp-div")


def base_facts(config: Mapping[str, Any], deployment: Deployment) -> Facts:
    """Return the facts of a deployment of SGLang, with what the config states besides shapes."""
    deployment = replace(deployment, settings=settings(config, deployment.settings))
    return facts(deployment, config=ConfigFacts(quantization_config(config)))


def expert_facts(linears: Sequence[Linear], deployment: Deployment) -> ExpertFacts | None:
    """Return the facts of the routed experts, when both of their matrices have a shape."""
    rows = {row.linear: row for row in linears if row.kind == "moe" and not row.invalid}
    w13, w2 = rows.get("experts.w13"), rows.get("experts.w2")
    if w13 is None or w2 is None or w13.k is None or w2.k is None:
        return None
    return ExpertFacts(
        hidden=w13.k,
        intermediate=w2.k,
        experts=w13.experts_per_rank or w13.experts or 1,
        gated=len(w13.parts) == 2,
        moe_tp=deployment.tp // deployment.ep,
    )


def routing_verdicts(
    found: Shapes, row: Linear, experts: ExpertFacts, base: Facts
) -> tuple[Verdict, ...]:
    """Return what the runner's kernel says of the routing: experts, experts a token, groups.

    Nothing where the config does not say how many experts a token has, where the experts are not
    MXFP8, and where the runner has no rule for it.
    """
    known, runner = routing(found.config), base.runner.name
    if known is None or runner not in CHOICES["ExpertCallFacts", "runner"]:
        return ()
    if not_processed(replace(base, experts=experts)):
        return ()
    call = ExpertCallFacts(
        runner=runner,
        hidden=experts.hidden,
        intermediate=experts.intermediate,
        experts=row.experts or experts.experts,
        top_k=known.top_k,
        n_group=known.groups,
        routing=known.method,
    )
    said = ask(replace(base, step=call), "expert_call")
    return tuple(verdict for verdict in said if verdict.guard in _ROUTED)


def cache_facts(cache: KvCache) -> KvCacheFacts:
    """Return the facts of one rank's KV cache."""
    return KvCacheFacts(
        head_dim=cache.head_dim,
        v_head_dim=cache.v_head_dim,
        kv_heads=cache.kv_heads_per_rank or 1,
        mla=cache.kind == "MLA",
    )


def linear_facts(row: Linear, cover: Coverage) -> LinearFacts:
    """Return the facts of one dense linear of one rank, and whether it is quantised."""
    assert row.n is not None and row.k is not None
    return LinearFacts(
        name=row.linear,
        n=row.n,
        k=row.k,
        shard=row.shard.split()[0],
        # SGLang builds a replicated linear as one matrix, whatever was fused into it
        parts=(row.n,) if row.shard == "replicated" else row.parts,
        quantized=cover.layers > 0,
        why_not=cover.why_not,
        skip_block_quant_check=row.skip_block_check,
        mixed_shards=cover.mixed,
    )


def tp_sizes(source: Source, deployment: Deployment) -> str:
    """Name the tensor-parallel sizes up to this one at which every linear of the model divides."""
    fit = [str(tp) for tp in tp_that_load(source, max(16, deployment.tp))]
    return f"--tp-size that divides: {', '.join(fit[-8:])}" if fit else "no TP size divides"


def invalid(row: Linear, base: Facts, fix: str) -> tuple[Verdict, ...]:
    """Return the verdict for a linear, or experts, that no rank gets a part of."""
    assert row.invalid is not None
    if row.kind == "moe":
        experts = ExpertFacts(1, 1, 1, indivisible=row.invalid)
        said = ask(base, "experts", experts)
    else:
        linear = LinearFacts(row.linear, 1, 1, row.shard.split()[0], indivisible=row.invalid)
        said = ask(base, "linear", linear)
    mine = tuple(replace(v, fixes=(fix,)) for v in said if v.guard in _DIVIDES)
    return mine or (unsplit(row.invalid, base.deployment, fix),)


def unsplit(why: str, deployment: Deployment, fix: str) -> Verdict:
    """Return the verdict where a system's table has no row of its own for it."""
    return Verdict(
        guard="tp-divides",
        system=deployment.system,
        version=deployment.version or system(deployment.system).version,
        status=Status.STOPS,
        stage="S4",
        message="",
        because=why,
        fixes=(fix,),
        source="where the layer is built",
    )


def beyond(quant: Quant, config: Mapping[str, Any]) -> tuple[str, ...]:
    """Say what of the quantisation no guard looks at; InputError for a block no layer can have."""
    if quant.method is None:
        return ()
    if not quant.fp8_config:
        return (
            f"quantisation {quote(quant.method)}: SGLang has other classes for it than for fp8 and "
            "mxfp8, and no guard of the table looks at its layers",
        )
    sizes = quant.block if isinstance(quant.block, list) else []
    if len(sizes) == 2 and not all(type(size) is int and size > 0 for size in sizes):
        raise InputError(
            f"quantization_config.weight_block_size is {quote(sizes)}: expected two whole numbers "
            "above 0, such as [128, 128]"
        )
    bits = four_bit_experts(config)
    return (f"routed experts of 4 bits ({bits}): no guard looks at them",) if bits else ()
