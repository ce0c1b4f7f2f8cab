"""Guards: what each system refuses, as tables that answer with numbers."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

from mxlab.errors import InputError
from mxlab.guards import inputs
from mxlab.guards import quant as _quant
from mxlab.guards import runner as _runner
from mxlab.guards import systems as _systems
from mxlab.guards.calls import NO_DENSE, NO_QUANT, NO_RUNNER, check_call
from mxlab.guards.engine import STAGES, SUBJECTS, Finding, Guard, Status, Verdict, run
from mxlab.guards.facts import (
    CallFacts,
    ConfigFacts,
    Deployment,
    ExpertFacts,
    Facts,
    KvCacheFacts,
    LinearFacts,
    Platform,
    PrologueFacts,
)
from mxlab.guards.facts_steps import (
    STEPS,
    AttentionFacts,
    BlockScaleFacts,
    ExpertCallFacts,
    GemmInputFacts,
    HostPoolFacts,
    KvStoreFacts,
    LoadFacts,
    QuantizerFacts,
    Step,
)
from mxlab.guards.ignore import ignored_layers, is_layer_skipped
from mxlab.guards.platform import platform
from mxlab.guards.sglang import GUARDS, VERSION
from mxlab.guards.sglang_prologue import scale_shape
from mxlab.guards.steps import check_step
from mxlab.guards.systems import System, all_guards, find_guard, system

if TYPE_CHECKING:
    from mxlab.guards.systems import SYSTEMS

__all__ = [
    "GUARDS",
    "STAGES",
    "STEPS",
    "SUBJECTS",
    "SYSTEMS",
    "VERSION",
    "AttentionFacts",
    "BlockScaleFacts",
    "CallFacts",
    "ConfigFacts",
    "Deployment",
    "ExpertCallFacts",
    "ExpertFacts",
    "Facts",
    "Finding",
    "GemmInputFacts",
    "Guard",
    "HostPoolFacts",
    "KvCacheFacts",
    "KvStoreFacts",
    "LinearFacts",
    "LoadFacts",
    "Platform",
    "PrologueFacts",
    "QuantizerFacts",
    "Status",
    "Step",
    "System",
    "Verdict",
    "all_guards",
    "ask",
    "check",
    "facts",
    "guard",
    "ignored_layers",
    "is_layer_skipped",
    "platform",
    "scale_shape",
    "system",
]


def __getattr__(name: str) -> Any:
    if name != "SYSTEMS":  # of every system: imported when it is asked for
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _systems.SYSTEMS


def guard(id: str) -> Guard:
    """Return the row called ``id``, of any system, or raise InputError with the nearest ids.

    >>> guard("wsp-deepgemm").stage
    'S6'
    """
    return find_guard(id)


def facts(
    deployment: Deployment,
    *,
    config: Mapping[str, object] | ConfigFacts | None = None,
    linear: LinearFacts | None = None,
    experts: ExpertFacts | None = None,
    kv_cache: KvCacheFacts | None = None,
    prologue: PrologueFacts | None = None,
    call: CallFacts | None = None,
    step: Step | None = None,
) -> Facts:
    """Return what the guards look at; arguments and errors as for ``check``."""
    inputs.check_deployment(deployment)
    asked = system(deployment.system, deployment.version)
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
    if step is not None:
        check_step(step)
    machine = platform(deployment)
    if call is not None:
        check_call(call, asked)
    if asked.id != "sglang":  # what follows are SGLang's own rules
        if not asked.server and call is None:
            raise InputError(f"{asked.name} is a library: expected call=CallFacts(...)")
        return Facts(
            deployment=deployment,
            platform=machine,
            quant=NO_QUANT,
            dense=NO_DENSE,
            runner=NO_RUNNER,
            config=parsed,
            linear=linear,
            experts=experts,
            kv_cache=kv_cache,
            prologue=prologue,
            call=call,
            step=step,
        )
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
        call=call,
        step=step,
    )


def check(
    deployment: Deployment,
    *,
    config: Mapping[str, object] | ConfigFacts | None = None,
    linear: LinearFacts | None = None,
    experts: ExpertFacts | None = None,
    kv_cache: KvCacheFacts | None = None,
    prologue: PrologueFacts | None = None,
    call: CallFacts | None = None,
    step: Step | None = None,
) -> list[Verdict]:
    """Ask every guard that the given subjects reach, in the order in which the system meets them.

    ``config`` is the checkpoint's quantization_config, or ``ConfigFacts(arguments,
    constructor=True)`` for code that builds ``Fp8Config`` itself. Without a config,
    ``--quantization mxfp8`` quantises 16-bit weights at load, and no flag means 16-bit weights.
    Sizes are those of one rank. A library (``Deployment(system="flashinfer")``) is asked about
    ``call``, one call of one of its functions; ``step`` is one step that a server takes, such as
    ``LoadFacts(...)``. Raises InputError for values that no launch could
    have. A stop does not hide the guards behind it; the first verdict that stops is what a person
    would see.
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
        call=call,
        step=step,
    )
    asked = system(deployment.system, deployment.version)
    return run(asked.guards, found, asked.version)


_CHECKS: Mapping[str, Callable[[Any], None]] = {
    "linear": inputs.check_linear,
    "experts": inputs.check_experts,
    "kv_cache": inputs.check_kv_cache,
    "prologue": inputs.check_prologue,
}


@cache
def _by_subject(id: str, version: str) -> Mapping[str, tuple[Guard, ...]]:
    rows: dict[str, list[Guard]] = {}
    for row in system(id, version).guards:
        rows.setdefault(row.subject, []).append(row)
    return {subject: tuple(found) for subject, found in rows.items()}


def ask(found: Facts, subject: str, what: Any = None) -> tuple[Verdict, ...]:
    """Ask the guards of one subject, and no others, of facts that were worked out once.

    ``what`` is the subject's own facts, None where ``found`` holds them. Errors as for ``check``.

    >>> found = facts(Deployment(gpu="b200", quantization="mxfp8"))
    >>> {guard(v.guard).subject for v in ask(found, "linear", LinearFacts("down_proj", 64, 64))}
    {'linear'}
    """
    if what is not None:
        if subject in _CHECKS:
            _CHECKS[subject](what)
        named: dict[str, Any] = {subject: what}
        found = replace(found, **named)
    asked = system(found.deployment.system, found.deployment.version)
    return tuple(run(_by_subject(asked.id, asked.version).get(subject, ()), found, asked.version))
