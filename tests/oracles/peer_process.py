"""How the oracle tests reach a peer: is it here, and the child process that runs it."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tools.oracles import FOLDER, PEERS

_SERVE = Path(__file__).parent / "peers" / "serve.py"


def lacking(name: str) -> str:
    """Return why a peer cannot be run here, or nothing; ``tools/oracles.py`` fetches it."""
    if not hasattr(os, "fork"):
        return "the oracle needs os.fork"
    for peer in PEERS:
        if peer.name not in (name, "shared"):
            continue
        stamp, why = FOLDER / peer.name / ".made-from", FOLDER / f"{peer.name}.unavailable"
        if not stamp.is_file() or stamp.read_text() != peer.stamp:
            said = why.read_text().strip() if why.is_file() else "run python tools/oracles.py"
            return f"the Python of {peer.name} is not here: {said}"
    return ""


def ask(jobs: Sequence[dict[str, Any]], scratch: Path) -> list[list[dict[str, Any]]]:
    """Return the outcomes of each job: ``peer``, the ``folder`` it is in, ``cases``, and more."""
    lines = [
        json.dumps(
            {
                **job,
                "id": number,
                "answer": str(scratch / f"{number}.json"),
                "paths": [str(FOLDER / job["folder"]), str(FOLDER / "shared")],
            }
        )
        for number, job in enumerate(jobs)
    ]
    env = {name: value for name, value in os.environ.items() if not name.startswith("SGLANG_")}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(_SERVE)],
        input="\n".join(lines) + "\n",
        capture_output=True,
        text=True,
        env=env,
        timeout=300,
    )
    answers = []
    for number in range(len(lines)):
        file = scratch / f"{number}.json"
        assert file.is_file(), done.stderr[-2000:]
        answer = json.loads(file.read_text())
        assert "outcomes" in answer, answer.get("failed")
        answers.append(answer["outcomes"])
    return answers
