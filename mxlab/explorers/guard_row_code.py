"""Python source that repeats what a guard was asked, for a reader to paste."""

import json
from collections.abc import Mapping, Sequence

from mxlab.explorers.guard_row_settings import CLASSES, STEP_SUBJECTS, Settings
from mxlab.guards import ConfigFacts

_WIDTH = 78  # characters of a line of code that the page shows without scrolling


def python(settings: Settings) -> str:
    """Return the call of ``check`` that repeats an example.

    >>> print(python({("deployment", "gpu"): "b200"}))
    from mxlab.guards import Deployment, check
    <BLANKLINE>
    verdicts = check(
        Deployment(gpu="b200"),
    )
    """
    groups: dict[str, list[str]] = {}
    used = {"Deployment"}
    for (subject, name), value in settings.items():
        if subject != "config":
            groups.setdefault(subject, []).append(f"{name}={literal(value)}")
    lines = [_call("Deployment(", groups.pop("deployment", []), ")")]
    config = settings.get(("config", ""))
    if isinstance(config, ConfigFacts):
        used.add("ConfigFacts")
        lines.append(
            _call("config=ConfigFacts({", _pairs(config.values or {}), "}, constructor=True)")
        )
    elif isinstance(config, Mapping):
        lines.append(_call("config={", _pairs(config), "}"))
    for subject, arguments in groups.items():
        used.add(CLASSES[subject].__name__)
        keyword = "step" if subject in STEP_SUBJECTS else subject
        lines.append(_call(f"{keyword}={CLASSES[subject].__name__}(", arguments, ")"))
    names = ", ".join([*sorted(used), "check"])
    return f"from mxlab.guards import {names}\n\nverdicts = check(\n" + "\n".join(lines) + "\n)"


def _call(head: str, arguments: Sequence[str], close: str) -> str:
    line = f"    {head}{', '.join(arguments)}{close},"
    if len(line) <= _WIDTH:
        return line
    inner = "".join(f"        {_wrapped(argument)},\n" for argument in arguments)
    return f"    {head}\n{inner}    {close},"


def _wrapped(argument: str) -> str:
    """Return an argument, a long mapping with one pair a line."""
    return argument if len(argument) < _WIDTH else argument.replace(', "', ',\n            "')


def _pairs(values: Mapping[str, object]) -> list[str]:
    return [f"{literal(key)}: {literal(value)}" for key, value in values.items()]


def literal(value: object) -> str:
    """Return Python source of a value, with double quotes."""
    if isinstance(value, str):
        return json.dumps(value)
    if isinstance(value, tuple) and len(value) > 6 and len(set(value)) == 1:
        return f"({literal(value[0])},) * {len(value)}"
    if isinstance(value, float) and value == float("inf"):
        return 'float("inf")'
    if isinstance(value, frozenset):
        return f"frozenset([{', '.join(map(literal, sorted(value)))}])"
    if isinstance(value, Mapping):
        return "{" + ", ".join(_pairs(value)) + "}"
    return repr(value)
