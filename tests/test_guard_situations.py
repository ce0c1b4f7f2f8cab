"""The situations of each guard: every command shows the guard that it stands for."""

import json
import shlex
from typing import Any

import pytest

from mxlab.cli import main
from mxlab.guards.data import every_row, situations
from tools.guard_situations import MOST, command

ROWS = [row for row, _ in every_row()]
SHOWN = [(row.id, one["command"]) for row in ROWS for one in situations(row) if one["command"]]
_STALE = "run python -m tools.guard_situations"


def test_nearly_every_row_has_one() -> None:
    """A row that was written since has none yet; a few are tripped by nothing."""
    have = [row for row in ROWS if situations(row)]
    assert len(have) > 0.9 * len(ROWS), _STALE
    assert len({id for id, _ in SHOWN}) > 80
    for row in have:
        seen = situations(row)
        assert len(seen) <= MOST
        commands = [one["command"] for one in seen]
        assert len(set(commands)) == len(commands)


def speaking(answer: Any) -> set[str]:
    """The guards of a doctor's answer that say something."""
    if isinstance(answer, dict):
        quiet = answer.get("status") in (None, "passes", "not-reached", "unknown")
        mine = set() if "guard" not in answer or quiet else {str(answer["guard"])}
        return mine.union(*(speaking(value) for value in answer.values()))
    return set().union(*map(speaking, answer)) if isinstance(answer, list) else set()


@pytest.mark.parametrize(("id", "line"), SHOWN[::9], ids=[id for id, _ in SHOWN[::9]])
def test_the_command_shows_the_guard(
    id: str, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    program, *argv = shlex.split(line)
    assert program == "mxlab"
    assert main([*argv, "--json"]) in (0, 1)
    assert id in speaking(json.loads(capsys.readouterr().out)), _STALE


def test_commands_name_what_differs() -> None:
    from mxlab.guards import Deployment

    assert command("m", Deployment(gpu="b200")) == "mxlab doctor m --gpu b200"
    told = command("m", Deployment(gpu="b200", page_size=64, system="vllm"))
    assert told == "mxlab doctor m --gpu b200 --system vllm --page-size 64"
