"""Guards: what each system refuses, as tables that answer with numbers."""

from collections.abc import Mapping
from dataclasses import replace

from mxlab.errors import choose
from mxlab.guards import inputs
from mxlab.guards import quant as _quant
from mxlab.guards import runner as _runner
from mxlab.guards.engine import STAGES, SUBJECTS, Finding, Guard, Status, Verdict, run
from mxlab.guards.facts import (
    ConfigFacts,
    Deployment,
    ExpertFacts,
    Facts,
    KvCacheFacts,
    LinearFacts,
    Platform,
    PrologueFacts,
)
from mxlab.guards.ignore import ignored_layers, is_layer_skipped
from mxlab.guards.platform import platform
from mxlab.guards.sglang import GUARDS, VERSION
from mxlab.guards.sglang_prologue import scale_shape

__all__ = [
    "GUARDS",
    "STAGES",
    "SUBJECTS",
    "VERSION",
    "ConfigFacts",
    "Deployment",
    "ExpertFacts",
    "Facts",
    "Finding",
    "Guard",
    "KvCacheFacts",
    "LinearFacts",
    "Platform",
    "PrologueFacts",
    "Status",
    "Verdict",
    "check",
    "facts",
    "guard",
    "ignored_layers",
    "is_layer_skipped",
    "platform",
    "scale_shape",
]

_BY_ID = {row.id: row for row in GUARDS}


def guard(id: str) -> Guard:
    """Return the row called ``id``, or raise InputError with the nearest ids.

    >>> guard("wsp-deepgemm").stage
    'S6'
    """
    return choose("guard", id, _BY_ID)


def facts(
    deployment: Deployment,
    *,
    config: Mapping[str, object] | ConfigFacts | None = None,
    linear: LinearFacts | None = None,
    experts: ExpertFacts | None = None,
    kv_cache: KvCacheFacts | None = None,
    prologue: PrologueFacts | None = None,
) -> Facts:
    """Return what the guards look at; arguments and errors as for ``check``."""
    inputs.check_deployment(deployment)
    if deployment.quantization is not None:
        flag = deployment.quantization.lower()
        deployment = replace(deployment, quantization=None if flag == "unquant" else flag)
    parsed = inputs.check_config(config)
    if linear is not None:
        inputs.check_linear(linear)
    if experts is not None:
        inputs.check_experts(experts)
    if kv_cache is not None:
        inputs.check_kv_cache(kv_cache)
    if prologue is not None:
        inputs.check_prologue(prologue)
    machine = platform(deployment)
    quant = _quant.quant(deployment, parsed, machine)
    raw = None if parsed.constructor else parsed.values
    runner = _runner.runner(deployment, raw, machine)
    deployment = replace(deployment, fp8_gemm_backend=runner.fp8_gemm_backend)
    return Facts(
        deployment=deployment,
        platform=machine,
        quant=quant,
        dense=_quant.dense(quant, machine, deployment.fp8_gemm_backend),
        runner=runner,
        config=parsed,
        linear=linear,
        experts=experts,
        kv_cache=kv_cache,
        prologue=prologue,
    )


def check(
    deployment: Deployment,
    *,
    config: Mapping[str, object] | ConfigFacts | None = None,
    linear: LinearFacts | None = None,
    experts: ExpertFacts | None = None,
    kv_cache: KvCacheFacts | None = None,
    prologue: PrologueFacts | None = None,
) -> list[Verdict]:
    """Ask every guard that the given subjects reach, in the order in which the system meets them.

    ``config`` is the checkpoint's quantization_config, or ``ConfigFacts(arguments,
    constructor=True)`` for code that builds ``Fp8Config`` itself. Without a config,
    ``--quantization mxfp8`` quantises 16-bit weights at load, and no flag means 16-bit weights.
    Sizes are those of one rank. Raises InputError for values that no launch could have. A stop does
    not hide the guards behind it; the first verdict that stops is what a person would see.
    Source: the row's own ``source``.

    >>> deployment = Deployment(gpu="b200", quantization="mxfp8", fp8_gemm_backend="deep_gemm")
    >>> verdicts = check(deployment, linear=LinearFacts("down_proj", 2880, 2880))
    >>> [(v.guard, v.status.value) for v in verdicts if v.status is Status.FALLS_BACK]
    [('wsp-deepgemm', 'falls-back'), ('fwd-dg-noswz', 'falls-back')]
    """
    found = facts(
        deployment,
        config=config,
        linear=linear,
        experts=experts,
        kv_cache=kv_cache,
        prologue=prologue,
    )
    return run(GUARDS, found, VERSION)
