"""Call the command line in this process, as a script would: answers are strict JSON."""

import json
from typing import Any

import pytest

from mxlab.cli import main

Capture = pytest.CaptureFixture[str]


def _no_constant(token: str) -> None:
    raise AssertionError(f"not strict JSON: {token}")


def call(capsys: Capture, *argv: str) -> tuple[int, str, str]:
    """Return (exit code, standard output, standard error)."""
    try:
        code = main(list(argv))
    except SystemExit as stop:  # argparse
        code = int(stop.code or 0)
    out, err = capsys.readouterr()
    return code, out, err


def ask(capsys: Capture, *argv: str, code: int = 0) -> dict[str, Any]:
    """Return the JSON answer of a verb that exits with ``code``."""
    got, out, err = call(capsys, *argv, "--json")
    assert (got, err) == (code, "")
    answer = json.loads(out, parse_constant=_no_constant)
    assert isinstance(answer, dict) and answer["schema"] == 1 and answer["verb"] == argv[0]
    return answer


def refuse(capsys: Capture, *argv: str) -> str:
    """Return the one line with which bad input is refused."""
    code, out, err = call(capsys, *argv)
    assert code == 2 and out == "" and err.count("\n") == 1 and "Traceback" not in err, err
    assert len(err) < 500
    return err
