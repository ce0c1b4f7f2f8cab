"""A short check for a guard's page, to paste into one's own code before a launch.

Where the guard is a rule over sizes and dtypes it is one ``assert`` without mxlab; where it depends
on flags, packages or the GPU it is a call of ``check``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from book.site.guard_check_rules import GRIDS, SIZES, Rule, Values, find
from book.site.guard_examples import Example, trips
from mxlab.errors import InputError
from mxlab.explorers import explorer
from mxlab.explorers.controls import Choice
from mxlab.explorers.guard_row_code import literal
from mxlab.explorers.guard_row_settings import CLASSES, Setting, Settings, arguments, default
from mxlab.guards import Facts, Status, call_examples, facts
from mxlab.guards.engine import Guard

#: subject -> fields of its facts that are sizes
_SIZES: Mapping[str, Sequence[str]] = {
    "linear": ("n", "k"),
    "experts": ("hidden", "intermediate", "experts"),
    "kv_cache": ("head_dim", "v_head_dim"),
    "prologue": ("dq", "dkv", "page_size"),
    "call": ("m", "n", "k"),
    "gemm_input": ("m", "n", "k"),
    "expert_call": ("hidden", "intermediate", "experts", "top_k"),
    "block_scale": ("n", "k", "block_k"),
    "kv_store": ("head_dim", "page_size"),
    "host_pool": ("page_size",),
    "attention": ("head_dim", "v_head_dim"),
}
_CHOICES: Mapping[str, Sequence[str]] = {
    "call": ("a_dtype", "b_dtype", "out_dtype", "a_layout", "b_layout"),
}
#: subjects on which nothing else of the facts depends
_ALONE = ("call", "linear", "experts")
_LINE = 80  # characters of a condition
_DEPLOYMENT = ("page_size", "tp", "ep")
_TRIPS = (Status.STOPS, Status.WARNS, Status.SILENT, Status.FALLS_BACK)
_FINE = '("passes", "not-reached")'


@dataclass(frozen=True, slots=True)
class Check:
    """A check with the numbers of the example that trips, and with those of one that passes.

    ``names`` are the sizes of a plain rule; none where mxlab is called.
    """

    guard: str
    rule: Rule | None
    names: tuple[str, ...]
    trips: Settings | None
    passes: Settings | None

    def source(self, example: Example | None, *, passing: bool = False) -> str:
        """Return the check set to what trips, or to what passes."""
        if self.rule is not None:
            return self._plain(self.passes if passing else self.trips)
        if example is None:
            return ""
        mine = f'mine = next(v for v in verdicts if v.guard == "{self.guard}")'
        return f"{example.python()}\n{mine}\nassert mine.status in {_FINE}, mine.because"

    def _plain(self, settings: Settings | None) -> str:
        assert self.rule is not None and settings is not None
        values = {name: value for (_, name), value in settings.items() if name in self.names}
        names = [name for name in self.names if name in self.rule.conditions]
        given = ", ".join(literal(values[name]) for name in names)
        shown = ", ".join(f"{name} = {{{name}}}" for name in names)
        said = f'f"{self.guard}: {shown}"'
        text = f"assert {self.rule.source()}, {said}"
        if len(text) > 88:
            text = f"assert {self.rule.source()}, (\n    {said}\n)"
        if len(text.split("\n")[0]) > 88:
            lines = "\n    and ".join(self.rule.conditions.values())
            text = f"assert (\n    {lines}\n), {said}"
        return f"{', '.join(names)} = {given}\n{text}"


@cache
def check_of(guard: Guard) -> Check:
    """Return the check of a guard."""
    trip = trips(guard)
    if trip is not None:
        found = _rule(guard, dict(trip.settings))
        if found is not None:
            return found
    return Check(guard.id, None, (), None, None)


def _rule(guard: Guard, trip: Settings) -> Check | None:
    subject = guard.subject
    sizes = [(subject, name) for name in _SIZES.get(subject, ())]
    if subject in ("server", "kv_cache"):
        sizes += [("deployment", name) for name in _DEPLOYMENT]
    choices = [(subject, name) for name in _CHOICES.get(subject, ())]
    for settings in dict.fromkeys((tuple(sizes + choices), tuple(sizes), tuple(choices))):
        found = _rule_over(guard, trip, settings) if settings else None
        if found is not None:
            return found
    return None


def _rule_over(guard: Guard, start: Settings, settings: Sequence[Setting]) -> Check | None:
    start = {**{s: v for s in settings if (v := default(s)) is not None}, **start}
    where = {setting[1]: setting for setting in settings if start.get(setting) is not None}
    heard = {
        control.name: [value for value, _ in control.options]
        for control in explorer(f"guard:{guard.id}").controls
        if isinstance(control, Choice)
    }
    choices = {name: _grid(name, start[at], heard.get(name, ())) for name, at in where.items()}

    subject, own = (
        guard.subject,
        {name: v for (of, name), v in start.items() if of == guard.subject},
    )
    alone = subject in _ALONE and all(of == subject for of, _ in settings)
    base = facts(**arguments(start))

    def asked(values: Values) -> bool | None:
        if alone:  # the deployment stays: what follows from it is worked out once
            changed: dict[str, Any] = {subject: CLASSES[subject](**{**own, **values})}
            return _said(guard, replace(base, **changed))
        return _ask(guard, {**start, **{where[name]: value for name, value in values.items()}})

    rule = find(asked, {name: start[at] for name, at in where.items()}, choices)
    if rule is None or _is_the_example_s_own(rule, start):
        return None
    if "m" in rule.conditions and _listens_to_groups(guard):
        return None
    if max(map(len, rule.conditions.values())) > _LINE:  # a list of dtypes is no short check
        return None
    ends = _ends(rule, asked, start, where, choices)
    return Check(guard.id, rule, tuple(choices), *ends) if ends else None


def _is_the_example_s_own(rule: Rule, start: Settings) -> bool:
    """Tell whether a bound of the rule may follow from a shape that the example fixes."""
    shapes = any(isinstance(value, tuple) for value in start.values())
    return shapes and any(sign in rule.source() for sign in ("<=", ">="))


def _listens_to_groups(guard: Guard) -> bool:
    """Tell whether the sizes of groups decide, which no rule over m, n and k can say."""
    return any(control.name == "groups" for control in explorer(f"guard:{guard.id}").controls)


def rest(guard: Guard) -> Mapping[str, str]:
    """Return what else than its plain rule's names a guard hears: label -> the example's value."""
    rule, record = check_of(guard).rule, explorer(f"guard:{guard.id}")
    if rule is None:
        return {}
    state = record.defaults()
    others = [control for control in record.controls if control.name not in rule.conditions]
    names = {c.name: dict(c.options) if isinstance(c, Choice) else {} for c in others}
    return {c.label: names[c.name].get(str(state[c.name]), str(state[c.name])) for c in others}


def _grid(name: str, now: object, heard: Sequence[str]) -> Sequence[object]:
    """Return the values to try: those of every call, and those that the guard's explorer has."""
    if isinstance(now, str):
        listed = (*dict(call_examples.CALLS)[name], *heard)
        plain = {"a_dtype": "float8_e4m3fn", "b_dtype": "float8_e4m3fn", "out_dtype": "bfloat16"}
        usual = plain.get(name, "row" if name == "a_layout" else "column")
        return tuple(dict.fromkeys((usual, now, *listed)))
    return tuple(dict.fromkeys((now, *GRIDS.get(name, SIZES))))


def _ends(
    rule: Rule,
    asked: Any,
    start: Settings,
    where: Mapping[str, Setting],
    choices: Mapping[str, Any],
) -> tuple[Settings, Settings] | None:
    """Return settings that trip and that pass, the first as near to the start as can be."""
    values = {name: start[where[name]] for name in choices}
    trip = values if asked(values) is False else None
    fine = values if asked(values) else None
    for name, grid in choices.items():
        for value in grid:
            if trip and fine:
                break
            base = trip or fine or values
            answer = asked({**base, name: value})
            if answer is False and trip is None:
                trip = {**base, name: value}
            elif answer and fine is None:
                fine = {**base, name: value}
    if trip is None:
        return None
    if fine is None:  # more than one number is off
        fine = _mended(rule, trip, choices)
        if fine is None or not asked(fine):
            return None
    made = [
        {**start, **{where[name]: value for name, value in end.items()}} for end in (trip, fine)
    ]
    return made[0], made[1]


def _mended(rule: Rule, values: Values, choices: Mapping[str, Any]) -> dict[str, object] | None:
    mended = dict(values)
    for name, text in rule.conditions.items():
        good = [v for v in choices[name] if eval(text, {"__builtins__": {}}, {name: v})]
        if not good:
            return None
        now = values[name]
        mended[name] = good[0]
        if isinstance(now, int) and not isinstance(now, bool):
            mended[name] = min((abs(v - now), v) for v in good)[1]
    return mended


def _ask(guard: Guard, settings: Settings) -> bool | None:
    try:
        return _said(guard, facts(**arguments(settings)))
    except InputError:
        return None


def _said(guard: Guard, seen: Facts) -> bool | None:
    found = guard.check(seen).status
    return True if found is Status.PASSES else False if found in _TRIPS else None
