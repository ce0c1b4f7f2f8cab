"""Configs of well-known models that come with the package, shape keys only."""

import json
import re
from functools import cache
from importlib.resources import files
from typing import Any

from mxlab.errors import InputError, nearest, quote

_OWNER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@cache
def _table() -> dict[str, dict[str, Any]]:
    text = files("mxlab").joinpath("data", "models.json").read_text("utf-8")
    table: dict[str, dict[str, Any]] = json.loads(text)["models"]
    return table


def shipped_models() -> tuple[str, ...]:
    """Return the names of the shipped models.

    >>> "Llama-3.1-8B" in shipped_models()
    True
    """
    return tuple(_table())


def shipped_config(name: str) -> dict[str, Any]:
    """Return the config of a shipped model; case and an ``owner/`` before the name do not matter.

    Raises InputError with the nearest names.

    >>> shipped_config("qwen3-8b")["num_hidden_layers"]
    36
    """
    by_name = {known.lower(): config for known, config in _table().items()}
    owner, slash, last = name.rpartition("/")
    wanted = last.lower()
    # a path that does not exist must not turn into another model of the same name
    if wanted in by_name and (not slash or _OWNER.fullmatch(owner)):
        return dict(by_name[wanted])
    close = nearest(wanted, by_name)
    for known in _table():
        close = close.replace(repr(known.lower()), repr(known))
    raise InputError(
        f"no file, folder or shipped model {quote(name)}: expected a config.json, a folder that "
        f"holds one, or one of {', '.join(_table())}{close}"
    )
