"""Explorers: one Python brain, shown in JupyterLab, on the published page and as a picture.

>>> import json
>>> json.loads(answer("will_it_run", '{"gpu": "h200"}'))["state"]["gpu"]
'h200'
"""

import json
from importlib import import_module
from typing import Any

from mxlab.errors import choose
from mxlab.explorers.protocol import Explorer, read_state

#: name of the explorer (and of its module) -> its class in notebooks
EXPLORERS = {
    "one_byte": "OneByte",
    "block_of_32": "BlockOf32",
    "which_scale": "WhichScale",
    "two_axes": "TwoAxes",
    "scale_layout": "WhereScalesLive",
    "wrong_layout": "WrongLayout",
    "will_it_run": "WillItRun",
    "what_error": "WhatError",
    "kv_page": "KvPage",
    "what_cost": "WhatCost",
}

#: the part of a name before its colon -> the module whose ``explorer(rest)`` makes such an explorer
FAMILIES: dict[str, str] = {"guard": "guard_row", "question": "question"}

__all__ = ["EXPLORERS", "FAMILIES", "answer", "drawn", "explorer"]


def explorer(name: str) -> Explorer:
    """Return the explorer called ``name``, or raise InputError with the nearest name.

    >>> explorer("will_it_run").title
    'Will it run?'
    """
    family, colon, rest = name.partition(":") if isinstance(name, str) else ("", "", "")
    if colon and family in FAMILIES:
        made: Explorer = import_module(f"mxlab.explorers.{FAMILIES[family]}").explorer(rest)
        return made
    choose("explorer", name, EXPLORERS)
    found: Explorer = import_module(f"mxlab.explorers.{name.lower()}").EXPLORER
    return found


def answer(name: str, state_json: str) -> str:
    """Return the answer of one explorer to one state, both as JSON; never raise.

    The result has ``state`` (cleaned) and ``view``, or ``error``, one sentence.
    """
    try:
        result = explorer(name).answer(read_state(state_json))
    except Exception as error:
        result = {"state": {}, "error": str(error)[:500]}
    return json.dumps(result, separators=(",", ":"), allow_nan=False)


def drawn(name: str, state_json: str) -> str:
    """Return the picture of one explorer at one state as SVG, or "" where there is none.

    >>> drawn("will_it_run", "{}")[:4]
    '<svg'
    """
    from mxlab.explorers.picture import picture  # only what is asked for loads it

    try:
        record = explorer(name)
        return picture(record.title, record.view(record.clean(read_state(state_json))))
    except Exception:  # the view's own error was shown when it was asked for
        return ""


def __getattr__(name: str) -> Any:
    if name in EXPLORERS.values():  # the notebook classes need ipywidgets and anywidget
        return getattr(import_module("mxlab.explorers.widget"), name)
    raise AttributeError(f"module 'mxlab.explorers' has no attribute {name!r}")
