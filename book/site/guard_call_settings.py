"""A call that ``call_examples`` found, as settings of an example."""

from dataclasses import fields
from typing import Any

from mxlab.guards import CallFacts, Deployment

_ALWAYS = {"gpu", "system", "function", "m", "n", "k"}


def call_settings(deployment: Deployment, call: CallFacts) -> dict[tuple[str, str], object]:
    """Return what a reader must write down: the sizes, and whatever is not the default.

    >>> from mxlab.guards.call_examples import trips
    >>> found = call_settings(*trips("fi-mm-tile"))
    >>> found["deployment", "system"], found["call", "function"], len(found) < 9
    ('flashinfer', 'mm_mxfp8', True)
    """
    found: dict[tuple[str, str], object] = {}
    for subject, given in (("deployment", deployment), ("call", call)):
        of: Any = type(given)
        for field in fields(of):
            value = getattr(given, field.name)
            default = field.default_factory() if callable(field.default_factory) else field.default
            if field.name in _ALWAYS or (value != default and field.name != "version"):
                found[subject, field.name] = value
    from mxlab.guards.systems import system

    if deployment.version and deployment.version != system(deployment.system).version:
        found["deployment", "version"] = deployment.version
    return found
