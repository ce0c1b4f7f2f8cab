"""The guard table as data: what ``mxlab guards --json`` prints and the site serves.

A program that reads logs needs the patterns, a deployment tool the triggers and the fixes. Each
row says everything that the page of the guard says; ``SCHEMA`` describes it, and ``dataset``
changes with every change of a row.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import resources
from typing import Any

from mxlab._version import __version__
from mxlab.guards.counterparts import counterparts
from mxlab.guards.engine import STAGES, SUBJECTS, Guard
from mxlab.guards.systems import IDS, versions

_FIELD = re.compile(r"\{([A-Za-z_]\w*)\}")
_SPECIAL = re.compile(r"[\\^$.|?*+()\[\]{}]")


def severity(guard: Guard) -> str:
    """Return what a guard does when it speaks: ``stops``, ``warns`` or ``silent``.

    >>> from mxlab.guards import guard
    >>> severity(guard("kv-hd32")), severity(guard("silent-hopper-activation"))
    ('stops', 'silent')
    """
    return {"": "silent", "warning": "warns"}.get(guard.error, "stops")


def pattern(message: str) -> str:
    r"""Return a regular expression that matches a message whole, one group for each field.

    It is written for every common dialect (Python, JavaScript, PCRE, RE2): groups have no names,
    white space is ``\s+``, and only special characters are escaped.

    >>> pattern("k={k} must be divisible by 32")
    '^k=(.*?)\\s+must\\s+be\\s+divisible\\s+by\\s+32$'
    """
    parts = _FIELD.split(message)
    literal = [_SPECIAL.sub(r"\\\g<0>", part) for part in parts[::2]]
    spaced = [re.sub(r"\s+", r"\\s+", part) for part in literal]
    joined = "(.*?)".join(spaced)
    if message.endswith("}") and parts[-3:-2] and parts[-3].endswith("\n"):
        joined = joined.removesuffix("(.*?)") + r"([\s\S]*)"  # lines of its own
    return f"^{joined}$"


def fields(message: str) -> list[str]:
    """Return the names of a message's fields, one for each group of its pattern.

    >>> fields("weight shape ({n}, {k})")
    ['n', 'k']
    """
    return _FIELD.findall(message)


def row_json(guard: Guard, version: str) -> dict[str, Any]:
    """Return a row of one version of its system as JSON."""
    return {
        "guard": guard.id,
        "system": guard.system,
        "version": version,
        "versions": _versions(guard),
        "subject": guard.subject,
        "stage": guard.stage,
        "class": guard.error or None,
        "severity": severity(guard),
        "messages": [
            {"text": text, "pattern": pattern(text), "fields": fields(text)}
            for text in guard.messages
        ],
        "triggers": guard.predicate,
        "hardware": guard.hardware,
        "meaning": guard.meaning,
        "situations": situations(guard),
        "fallback": None if guard.fallback in ("", "none") else guard.fallback,
        "fixes": list(guard.fixes),
        "related": list(guard.related),
        "counterparts": list(counterparts(guard)),
        "source": guard.source,
        "page": f"book/guards/{guard.id}.html",
        "explorer": f"guard:{guard.id}",
    }


def _versions(guard: Guard) -> list[str]:
    return [
        known.version
        for known in versions(guard.system)
        if any(row.id == guard.id for row in known.guards)
    ]


def every_row() -> Iterator[tuple[Guard, str]]:
    """Yield each row with its version: the newest versions', then what only older ones have."""
    for id in IDS:
        seen: set[str] = set()
        for known in versions(id):
            for row in known.guards:
                if row.id not in seen:
                    seen.add(row.id)
                    yield row, known.version


@cache
def dataset() -> str:
    """Return the version of the rows: that of mxlab, and a hash that changes with any of them.

    >>> dataset().startswith(__version__ + "+")
    True
    """
    rows = [row_json(row, version) for row, version in every_row()]
    digest = hashlib.sha256(json.dumps(rows, sort_keys=True).encode()).hexdigest()
    return f"{__version__}+{digest[:12]}"


def table_json(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return rows with what a reader needs to know about all of them."""
    return {
        "dataset": dataset(),
        "stages": dict(STAGES),
        "subjects": dict(SUBJECTS),
        "systems": {id: [known.version for known in versions(id)] for id in IDS},
        "guards": rows,
    }


def one_json(row: dict[str, Any]) -> dict[str, Any]:
    """Return one row as an answer of its own."""
    return {"dataset": dataset(), **row}


def situations(guard: Guard) -> list[dict[str, Any]]:
    """Return ordinary situations in which a guard speaks: a text, and the command that shows it.

    A row that is newer than the file has none. Source: ``tools/guard_situations.py``.

    >>> from mxlab.guards import guard
    >>> situations(guard("wsp-deepgemm"))[0]["command"].startswith("mxlab doctor")
    True
    """
    return list(_all_situations().get(guard.id, ()))


@cache
def _all_situations() -> Mapping[str, list[dict[str, Any]]]:
    file = resources.files("mxlab") / "data" / "guard_situations.json"
    found: Mapping[str, Any] = json.loads(file.read_text(encoding="utf-8"))["situations"]
    return found


def schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of ``mxlab guards --json``, of all rows or of one."""
    text: Mapping[str, Any] = {"type": "string", "minLength": 1}
    texts: Mapping[str, Any] = {"type": "array", "items": text}
    ids: Mapping[str, Any] = {"type": "array", "items": {"$ref": "#/$defs/id"}, "uniqueItems": True}
    row: dict[str, Any] = {
        "guard": {"$ref": "#/$defs/id"},
        "system": {"enum": list(IDS)},
        "version": text,
        "versions": {**texts, "minItems": 1, "uniqueItems": True},
        "subject": {"enum": list(SUBJECTS)},
        "stage": {"enum": list(STAGES)},
        "class": {"type": ["string", "null"], "description": "of what is raised; null: nothing is"},
        "severity": {"enum": ["stops", "warns", "silent"]},
        "messages": {"type": "array", "items": {"$ref": "#/$defs/message"}},
        "triggers": {**text, "description": "what trips it, in the system's own terms"},
        "hardware": {**text, "description": "where it can be reached"},
        "meaning": text,
        "situations": {"type": "array", "items": {"$ref": "#/$defs/situation"}},
        "fallback": {"type": ["string", "null"], "description": "what is done instead"},
        "fixes": {**texts, "description": "the smallest change first"},
        "related": ids,
        "counterparts": {**ids, "description": "rows of other systems about the same thing"},
        "source": text,
        "page": {**text, "description": "relative to the site"},
        "explorer": {**text, "description": "what mxlab explore takes: the check, set to trip"},
    }
    head: dict[str, Any] = {
        "schema": {"const": 1},
        "verb": {"const": "guards"},
        "dataset": text,
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "mxlab guards",
        "oneOf": [{"$ref": "#/$defs/table"}, {"$ref": "#/$defs/answer"}],
        "$defs": {
            "id": {"type": "string", "pattern": "^[a-z0-9]+(-[a-z0-9]+)*$"},
            "message": _closed(
                {
                    "text": {**text, "description": "exact; {name} stands for a number or a name"},
                    "pattern": {**text, "format": "regex", "description": "of the whole message"},
                    "fields": {**texts, "description": "a name for each group of the pattern"},
                }
            ),
            "situation": _closed(
                {"text": text, "command": {"type": ["string", "null"]}},
            ),
            "row": _closed(row),
            "table": _closed(
                {
                    **head,
                    "stages": {"type": "object", "additionalProperties": text},
                    "subjects": {"type": "object", "additionalProperties": text},
                    "systems": {"type": "object", "additionalProperties": texts},
                    "guards": {"type": "array", "items": {"$ref": "#/$defs/row"}},
                }
            ),
            "answer": _closed({**head, **row}),
        },
    }


def _closed(properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
