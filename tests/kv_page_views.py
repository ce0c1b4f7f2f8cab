"""Views of the KV page's explorer, for its tests."""

import json
from typing import Any

from mxlab.explorers import answer, explorer

RECORD = explorer("kv_page")
State = dict[str, Any]


def view(state: State) -> dict[str, Any]:
    result = json.loads(answer("kv_page", json.dumps(state)))
    assert "error" not in result, (state, result)
    found: dict[str, Any] = result["view"]
    return found | {"panels": {panel["id"]: panel for panel in found["panels"]}}


def items(shown: dict[str, Any]) -> list[dict[str, Any]]:
    return [item for run in shown["panels"]["guards"]["runs"] for item in run["items"]]


def loud(shown: dict[str, Any]) -> list[tuple[str, str]]:
    """Guards that speak, with their status, in order."""
    said = ("stops", "silent", "warns")
    return [(item["name"], item["status"]) for item in items(shown) if item["status"] in said]
