"""What a guard listens to: its example changed in one setting after the other, and what it says."""

from dataclasses import dataclass

from book.site.guard_row_values import paths, unique, values
from mxlab.errors import InputError
from mxlab.explorers.guard_row_controls import GPU, bounds, is_number, start_of
from mxlab.explorers.guard_row_settings import CONFIG, CONSTRUCTOR, Flat, arguments, nested
from mxlab.guards import Finding, Guard, Status, facts

#: paths that say which thing is asked about, not how it is
_WHICH = frozenset(
    (
        *(CONFIG, "call.function", "prologue.mxfp8", "prologue.function", "host_pool.mxfp8"),
        *("quantizer.function", "gemm_input.route", "expert_call.runner", "kv_store.function"),
        *("block_scale.conversion", "load.target", "kv_cache.mla"),
    )
)
_ELSEWHERE = frozenset(("deployment", "env", "settings", "packages", CONFIG))
#: what a guard does that is not asked, or cannot tell
QUIET = (Status.NOT_REACHED, Status.UNKNOWN)


def ask(guard: Guard, settings: Flat) -> Finding | None:
    """Return what a guard says, None where the settings do not go together."""
    try:
        return guard.check(facts(**arguments(nested(settings))))
    except InputError:
        return None


@dataclass(frozen=True, slots=True)
class Heard:
    """What a guard says when one setting of its example is changed."""

    path: str
    start: object
    found: tuple[tuple[object, Finding], ...]  # value -> what is said, the start's own among them
    base: Finding
    differs: bool  # whether the example that passes has another value

    @property
    def mends(self) -> tuple[object, ...]:
        """The values with which the guard passes."""
        return tuple(value for value, said in self.found if said.status is Status.PASSES)

    @property
    def statuses(self) -> frozenset[Status]:
        """What the guard does over all values."""
        return frozenset(said.status for _, said in self.found)

    def rank(self) -> tuple[bool, ...]:
        """Return the order of controls: what mends, what else changes the verdict, the words."""
        spoken = self.statuses - {*QUIET, self.base.status}
        own = self.path.partition(".")[0] not in _ELSEWHERE
        mends = bool(self.mends) and self.base.status is not Status.PASSES
        return (
            not (mends and self.differs),
            self.path in _WHICH or self.path.endswith(".quantized"),
            not mends,
            not self.differs,
            not spoken,
            not own,
            len(self.statuses) == 1,
        )


def heard(guard: Guard, start: Flat, fine: Flat | None, version: str) -> list[Heard]:
    """Return the settings that a guard listens to around its example, the most telling first."""
    base = ask(guard, start)
    assert base is not None, guard.id
    found = []
    for path in dict.fromkeys((*paths(guard.subject), *start, *(fine or ()))):
        if path in (CONSTRUCTOR, "deployment.system", "deployment.version", "linear.name"):
            continue
        if path == CONFIG and not any(one.startswith("config.") for one in start):
            continue
        one = _heard(guard, path, start, fine, base, version)
        if one:
            found.append(one)
    found.sort(key=Heard.rank)
    return found


def _heard(
    guard: Guard, path: str, start: Flat, fine: Flat | None, base: Finding, version: str
) -> Heard | None:
    now = start_of(path, start)
    wanted = start_of(path, fine) if fine is not None else now
    said = []
    for value in unique((now, wanted, *values(path, guard.system, version))):
        if is_number(path):
            low, high = bounds(path)
            if not isinstance(value, int) or not low <= value <= high:
                continue
        answer = ask(guard, {**start, path: value})
        if answer is not None:
            said.append((value, answer))
    differs = wanted != now
    if not differs and all((a.status, a.because) == (base.status, base.because) for _, a in said):
        return None
    return Heard(path, now, tuple(said), base, differs) if len(said) > 1 else None


def smallest(guard: Guard, settings: Flat) -> dict[str, object]:
    """Return the settings without those that change nothing of what is said."""
    kept = dict(settings)
    base = ask(guard, settings)
    for path in reversed(list(settings)):
        if path.startswith(("deployment.system", "deployment.version", "config.", CONSTRUCTOR)):
            continue
        if path == GPU:
            continue
        less = {one: value for one, value in kept.items() if one != path}
        own = f"{guard.subject}."
        if path.startswith(own) and not any(one.startswith(own) for one in less):
            continue
        try:
            if ask(guard, less) == base:
                kept = less
        except TypeError:  # a field that has no default
            continue
    return kept
