"""A child process that runs a peer's own code: JSON lines in, JSON files out.

One line asks for one machine: ``{"id", "answer", "peer", "paths", "cases"}`` and, for a server,
``gpu`` and ``packages``. A fork of this process, which has imported torch and nothing of the peer,
writes a list of outcomes in the form of ``sglang-outcomes.json.gz``. Nothing of mxlab is imported.
"""

import contextlib
import importlib
import json
import linecache
import logging
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

Call = Callable[[dict[str, Any]], Any]

#: what peers import besides themselves and is the same on every machine: once, before the forks
SHARED = ("torch._dynamo", "torch._inductor.select_algorithm", "torch.distributed", "triton")


class Heard(logging.Handler):
    """Collects what is logged at warning level or above."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())


def outcome(call: Call, given: dict[str, Any], root: str, heard: Heard) -> dict[str, Any]:
    """Return what one call did: its value, or the class and text of what it raised."""
    heard.texts.clear()
    try:
        value = call(given)
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        said = linecache.getline(last.filename, last.lineno or 0).lstrip()
        explicit = last.filename.startswith(root) and said.startswith(("raise", "assert"))
        return {
            "ok": False,
            "error": type(error).__name__,
            "message": str(error),
            "explicit": explicit,
            "where": f"{os.path.relpath(last.filename, root)}:{last.lineno}",
        }
    found: dict[str, Any] = {"ok": True, "value": marked(value)}
    if heard.texts:
        found["warnings"] = list(heard.texts)
    return found


def plain(value: Any) -> Any:
    """Turn ``{"tuple": [...]}`` into a tuple, all the way down."""
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        if set(value) == {"tuple"}:
            return tuple(plain(item) for item in value["tuple"])
        return {key: plain(item) for key, item in value.items()}
    return value


def marked(value: Any) -> Any:
    """The other way."""
    if isinstance(value, tuple):
        return {"tuple": [marked(item) for item in value]}
    if isinstance(value, list):
        return [marked(item) for item in value]
    if isinstance(value, dict):
        return {key: marked(item) for key, item in value.items()}
    return value


def answer(asked: dict[str, Any]) -> list[dict[str, Any]]:
    """Import the peer as this machine would, and make every call."""
    root = asked["paths"][0]
    sys.path[:0] = asked["paths"]
    calls: dict[str, Call] = importlib.import_module(f"{asked['peer']}_calls").prepare(asked)
    heard = Heard()
    logging.getLogger().addHandler(heard)
    return [
        outcome(calls[case["fn"]], plain(case["input"]), root, heard) for case in asked["cases"]
    ]


def main() -> None:
    """Fork once for each line, two at a time."""
    torch.set_num_threads(1)
    for name in SHARED:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    out = os.dup(1)
    os.dup2(2, 1)  # what a peer prints is no answer
    running = 0
    for line in sys.stdin:
        if running >= 2:
            os.wait()
            running -= 1
        if os.fork() == 0:
            asked = json.loads(line)
            try:
                said: dict[str, Any] = {"outcomes": answer(asked)}
            except BaseException:
                said = {"failed": traceback.format_exc()[-4000:]}
            said["id"] = asked["id"]
            Path(asked["answer"]).write_text(json.dumps(said))
            os.write(out, f"{asked['id']}\n".encode())
            os._exit(0)
        running += 1
    while running:
        os.wait()
        running -= 1


if __name__ == "__main__":
    main()
