"""Examples for the guard pages: deployments that trip a guard and that pass it, found by search.

Nothing here is typed from knowledge of a guard. Ordinary deployments are changed in one setting, in
two, in three, until the guard's own check says each thing that it can say; the page then shows the
example and the check's own words, and the reader can paste it into Python.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations, product

from book.site.guard_call_settings import call_settings
from book.site.guard_example_known import PASSING, TRIPPING
from book.site.guard_example_settings import CHANGES, IDLE, STARTS, STEP_DEPLOYMENT, Start
from book.site.guard_example_steps import CHANGES as STEP_CHANGES
from book.site.guard_example_vllm import STARTS as VLLM_STARTS
from mxlab.errors import InputError
from mxlab.explorers.guard_row_code import python
from mxlab.explorers.guard_row_settings import (
    STEP_SUBJECTS,
    Setting,
    Settings,
    arguments,
    default,
)
from mxlab.guards import (
    Finding,
    Status,
    call_examples,
    facts,
    system,
)
from mxlab.guards.data import every_row
from mxlab.guards.engine import Guard, fill


@dataclass(frozen=True, slots=True)
class Example:
    """One deployment, and what the guard says about it."""

    settings: tuple[tuple[Setting, object], ...]
    finding: Finding

    def python(self) -> str:
        """Return the call of ``check`` that repeats the example."""
        return python(dict(self.settings))

    def message(self, guard: Guard) -> str:
        """Return the guard's message with the numbers of this example, or ""."""
        number = self.finding.message
        if not guard.messages or number is None or self.finding.status in QUIET:
            return ""
        return fill(guard.messages[number], self.finding.values)


QUIET = (Status.PASSES, Status.NOT_REACHED, Status.UNKNOWN)
_SHOWN = (Status.STOPS, Status.WARNS, Status.SILENT, Status.FALLS_BACK, Status.PASSES)


@cache
def examples() -> Mapping[str, Mapping[Status, Example]]:
    """Return for each guard one example of each thing that it can say.

    The example that passes is the one that differs least from the one that trips.
    """
    found: dict[str, Mapping[Status, Example]] = {}
    groups: dict[tuple[str, str, str], list[Guard]] = {}
    for guard, version in every_row():
        if guard.subject == "call":
            found[guard.id] = dict(_of_calls(guard))
        else:
            newest = version == system(guard.system).version
            key = guard.system, "" if newest else version, guard.subject
            groups.setdefault(key, []).append(guard)
    by_id = {guard.id: guard for guard, _ in every_row()}
    for (name, version, subject), guards in groups.items():
        base: Settings = {("deployment", "system"): name, ("deployment", "version"): version}
        base = {setting: value for setting, value in base.items() if value != default(setting)}
        found.update(_of_subject(subject, guards, base))
    for known in (TRIPPING, PASSING):
        for id, settings in known.items():
            finding = by_id[id].check(facts(**arguments(settings)))
            example = Example(tuple(settings.items()), finding)
            found[id] = {**found[id], finding.status: example}
    return found


def trips(guard: Guard) -> Example | None:
    """Return the example in which a guard speaks, the gravest thing that it says."""
    mine = examples()[guard.id]
    return next((mine[status] for status in _SHOWN if status in mine and status not in QUIET), None)


def _of_calls(guard: Guard) -> Iterator[tuple[Status, Example]]:
    """Yield what call_examples found for a row of a library."""
    for look in (call_examples.trips, call_examples.passes):
        pair = look(guard.id)
        if pair is not None:
            settings = call_settings(*pair)
            finding = guard.check(facts(**arguments(settings)))
            yield finding.status, Example(tuple(settings.items()), finding)


def _of_subject(
    subject: str, guards: Sequence[Guard], base: Settings
) -> Iterator[tuple[str, Mapping[Status, Example]]]:
    spoken: dict[str, dict[Status, Example]] = {guard.id: {} for guard in guards}
    passed: dict[str, list[Example]] = {guard.id: [] for guard in guards}
    for changed in _variations(subject, base.get(("deployment", "system")) == "vllm"):
        if base and all(spoken[guard.id] and passed[guard.id] for guard in guards):
            break  # of another system, or of an older version: the nearest is not looked for
        settings = {**changed, **base}
        try:
            found = facts(**arguments(settings))
        except InputError:  # two changes that do not go together
            continue
        for guard in guards:
            finding = guard.check(found)
            if finding.status in _SHOWN:
                example = Example(tuple(settings.items()), finding)
                if finding.status == Status.PASSES:
                    passed[guard.id].append(example)
                else:
                    spoken[guard.id].setdefault(finding.status, example)
    for guard in guards:
        mine = spoken[guard.id]
        first = next((mine[status] for status in _SHOWN if status in mine), None)
        if passed[guard.id]:
            wanted = dict(first.settings) if first else {}
            mine[Status.PASSES] = min(passed[guard.id], key=lambda e: _distance(e, wanted))
        yield guard.id, mine


def _vllm_starts(subject: str) -> tuple[Start, ...]:
    return tuple(
        (
            {
                **{("deployment", name): value for name, value in deployment.items()},
                **({("config", ""): config} if config else {}),
                **{(subject, name): value for name, value in own.items()},
            },
            most,
        )
        for deployment, config, own, most in VLLM_STARTS[subject]
    )


def _variations(subject: str, of_vllm: bool = False) -> Iterator[Settings]:
    """Yield each start with no change, one, two: what is nearest to the ordinary comes first."""
    starts = _vllm_starts(subject) if of_vllm else STARTS[subject]
    for changed in range(max(most for _, most in starts) + 1):
        for start in [settings for settings, most in starts if changed <= most]:
            present = {s for s, _ in start} | {"deployment"}
            axes = [setting for setting in _axes(subject) if setting[0] in present]
            for chosen in combinations(axes, changed):
                for values in product(*(_axes(subject)[setting] for setting in chosen)):
                    change = dict(zip(chosen, values, strict=True))
                    if all(start.get(s, default(s)) != value for s, value in change.items()):
                        yield {**start, **change}


@cache
def _axes(subject: str) -> Mapping[Setting, Sequence[object]]:
    """Return what can be changed: of a step little besides its own settings."""
    if subject not in STEP_SUBJECTS:
        idle = IDLE.get(subject, ())
        return {s: v for s, v in CHANGES.items() if s[0] != "deployment" or s[1] not in idle}
    own: dict[Setting, Sequence[object]] = {
        (subject, name): values for name, values in STEP_CHANGES[subject].items()
    }
    return {**own, **STEP_DEPLOYMENT}


def _distance(example: Example, wanted: Settings) -> int:
    settings = dict(example.settings)
    return sum(
        settings.get(s, default(s)) != wanted.get(s, default(s)) for s in {*settings, *wanted}
    )
