"""An explorer: controls, and a function from their state to a view.

The kernel, the published page and the command line all ask ``answer``, which takes and returns
text, never raises, and is bounded whatever it is given.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mxlab.errors import InputError
from mxlab.explorers.controls import AnyControl, State, clean
from mxlab.explorers.panels import View

#: characters of a state in JSON that are looked at
MOST_STATE = 1_500_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Explorer:
    """One explorer: ``name`` in Python and in permalinks, a title, the question it answers.

    ``bare`` is for one whose view is its answer alone: no picture and nothing to take away. It is
    what a page without scripts says in place of the view.
    """

    name: str
    title: str
    question: str
    controls: tuple[AnyControl, ...]
    view: Callable[[State], View]
    bare: str = ""

    def clean(self, state: object) -> State:
        """Return a complete, valid state from anything."""
        return clean(self.controls, state)

    def defaults(self) -> State:
        """Return the state at the start."""
        return self.clean({})

    def spec(self) -> dict[str, Any]:
        """Return name, texts and controls as JSON for the face."""
        spec: dict[str, Any] = {
            "name": self.name,
            "title": self.title,
            "question": self.question,
            "controls": [control.spec() for control in self.controls],
        }
        return spec | {"bare": True} if self.bare else spec

    def answer(self, state: object) -> dict[str, Any]:
        """Return ``{"state", "view"}``, or ``{"state", "error"}`` with one sentence."""
        tidy = self.clean(state)
        try:
            return {"state": tidy, "view": self.view(tidy).to_json()}
        except InputError as error:
            return {"state": tidy, "error": str(error)[:500]}
        except Exception as error:  # a fault of ours: the face says so and keeps the last view
            text = f"{type(error).__name__}: {error}"[:300]
            return {"state": tidy, "error": f"This is a fault in mxlab, not in your input: {text}"}


def read_state(text: str) -> object:
    """Return a state from JSON, or ``{}`` where it is none.

    >>> read_state('{"n": NaN}')
    {}
    """
    if len(text) > MOST_STATE:
        return {}
    try:
        state: object = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return {}
    return state


def _refuse(token: str) -> object:
    raise ValueError(f"{token} is not JSON")
