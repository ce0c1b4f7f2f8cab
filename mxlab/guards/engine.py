"""Guards as data: one row for one check of one system, and the loop that runs the rows.

A guard is a frozen row: its exact message, where and when it fires, what it means and what to do,
and a small function that looks at the facts and says what happens, in numbers. The command line,
the explorers, the error lookup, the book's pages and the tests all read the same rows.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from typing import Any

from mxlab.guards.facts import Facts


class Status(StrEnum):
    """What a guard says about one deployment and one subject."""

    PASSES = "passes"
    STOPS = "stops"
    FALLS_BACK = "falls-back"
    WARNS = "warns"
    SILENT = "silent"  # wrong or slow, and nothing is printed: these matter most
    NOT_REACHED = "not-reached"  # this deployment never runs the check
    UNKNOWN = "unknown"  # a number that the check needs is not known


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check found: a status, the predicate with its numbers, the values for the message.

    ``message`` selects one of the guard's messages where it has several; None where the system
    says nothing (it falls back in silence). ``done`` names fixes of the row that are in place.
    ``notice`` marks a warning after which everything is as it was asked for.
    """

    status: Status
    because: str
    values: Mapping[str, object] = field(default_factory=dict)
    message: int | None = 0
    done: tuple[str, ...] = ()
    notice: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Guard:
    """One check of one system."""

    id: str  #: stable, e.g. ``wsp-deepgemm``; also the anchor of its page
    system: str  #: ``sglang``, ``flashinfer``, ...
    subject: str  #: what it looks at: one of SUBJECTS
    stage: str  #: one of STAGES
    error: str  #: class of what is raised: ``RuntimeError``, ``warning``; "" where nothing is said
    messages: tuple[str, ...]  #: exact texts; ``{name}`` stands for a number or a name
    predicate: str  #: what trips it, in the system's own terms
    hardware: str  #: where it can be reached
    meaning: str  #: one or two sentences for a person who has never seen the code
    fallback: str  #: what the system does instead of stopping; "none" where it stops
    fixes: tuple[str, ...]  #: what to do, the smallest change first
    source: str  #: package version, file and line
    related: tuple[str, ...] = ()  #: ids
    check: Callable[[Facts], Finding]


@dataclass(frozen=True, slots=True)
class Verdict:
    """A guard's finding with its message filled in: what ``--json`` prints."""

    guard: str
    system: str
    version: str
    status: Status
    stage: str
    message: str
    because: str
    fixes: tuple[str, ...]
    source: str
    notice: bool = False  #: a warning after which everything is as it was asked for

    @property
    def degrades(self) -> bool:
        """Tell whether what runs is slower, replaced or wrong."""
        warns = self.status is Status.WARNS and not self.notice
        return warns or self.status in (Status.FALLS_BACK, Status.SILENT)

    def to_json(self) -> dict[str, Any]:
        """Return the verdict as the contract's JSON object."""
        return {
            "guard": self.guard,
            "system": self.system,
            "version": self.version,
            "status": self.status.value,
            "stage": self.stage,
            "message": self.message,
            "because": self.because,
            "fixes": list(self.fixes),
            "source": self.source,
        }


#: stage -> what the system is doing, in the order in which it happens; S of a server that loads a
#: model, C of a library that is called
STAGES: Mapping[str, str] = {
    "S1": "server arguments",
    "S2": "model config",
    "S3": "quantization config parsed, capability checked",
    "S4": "module construction",
    "S5": "weight load",
    "S6": "weights processed after loading",
    "S7": "KV cache allocation",
    "S8": "forward: warm-up, CUDA graph capture, first token",
    "S9": "kernel launch",
    "C1": "library imported and set up",
    "C2": "call: arguments checked on the host",
    "C3": "call: kernel chosen, compiled and launched",
}

#: subject -> the facts that its guards need
SUBJECTS: Mapping[str, str] = {
    "server": "the server arguments",
    "config": "the checkpoint's quantization_config",
    "linear": "one dense linear of one rank: n, k",
    "experts": "the experts of one layer of one rank",
    "kv_cache": "head_dim, v_head_dim, page size",
    "prologue": "dq, dkv and the cache buffers of the fused attention prologue",
    "call": "one call of a library's function: m, n, k, dtypes, layouts",
    "load": "one tensor of the checkpoint loaded into one parameter",
    "block_scale": "the scale of a block-FP8 weight on its way to E8M0 bytes",
    "quantizer": "a tensor handed to one of the functions that quantise",
    "gemm_input": "an activation handed to a dense linear, quantised already or not",
    "expert_call": "what one call hands to the experts: scales, tokens, routing",
    "kv_store": "K and V of some tokens on their way into the cache",
    "host_pool": "HiCache's copy of the KV cache in host memory",
    "attention": "one call of FA4 over the cache: head sizes, dtypes, scales",
}


def fill(template: str, values: Mapping[str, object]) -> str:
    """Fill ``{name}`` fields; a field without a value stays as it is.

    >>> fill("k={k} must be divisible by {bk}", {"k": 576})
    'k=576 must be divisible by {bk}'
    """
    for name, value in values.items():
        template = template.replace("{" + name + "}", str(value))
    return template


#: statuses that say nothing and need no fix: most verdicts, and the same ones over and over
_QUIET = frozenset((Status.PASSES, Status.NOT_REACHED, Status.UNKNOWN))


@lru_cache(maxsize=16_384)
def _quiet(place: tuple[str, str, str, str, str], status: Status, because: str) -> Verdict:
    id, system, version, stage, source = place
    return Verdict(id, system, version, status, stage, "", because, (), source)


def run(guards: Sequence[Guard], facts: Facts, version: str) -> list[Verdict]:
    """Run every guard whose subject is present, in table order.

    Each guard is asked on its own: a stop does not hide the ones behind it, so that a person sees
    what else would stop. A guard on a path that this deployment does not take says not-reached.
    """
    verdicts = []
    for guard in guards:
        if not facts.has(guard.subject):
            continue
        found = guard.check(facts)
        status, because = found.status, found.because
        if status in _QUIET:
            place = (guard.id, guard.system, version, guard.stage, guard.source)
            verdicts.append(_quiet(place, status, because))
            continue
        text = ""
        if guard.messages and found.message is not None:
            text = fill(guard.messages[found.message], found.values)
        verdicts.append(
            Verdict(
                guard.id,
                guard.system,
                version,
                status,
                guard.stage,
                text,
                because,
                tuple(fix for fix in guard.fixes if fix not in found.done),
                guard.source,
                found.notice,
            )
        )
    return verdicts
