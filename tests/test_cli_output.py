"""The exit code is the answer's, whoever reads the text and whatever the terminal can show."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "num_hidden_layers": 32,
    "vocab_size": 128256,
}
STOPS = ("--gpu", "h200", "--quantization", "mxfp8", "--tp", "3")


def doctor(file: Path, encoding: str = "utf-8") -> tuple[list[str], dict[str, str]]:
    command = [sys.executable, "-m", "mxlab", "doctor", os.fspath(file), *STOPS]
    return command, {**os.environ, "PYTHONIOENCODING": encoding}


def test_a_reader_that_goes_away_does_not_turn_stops_into_fine(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text(json.dumps(CONFIG))
    command, env = doctor(file)
    with subprocess.Popen(
        command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as running:
        assert running.stdout is not None and running.stderr is not None
        running.stdout.close()  # before anything is written
        assert running.stderr.read() == b""
        assert running.wait(30) == 1


@pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
def test_a_name_that_the_terminal_cannot_show(tmp_path: Path, encoding: str) -> None:
    file = tmp_path / "mödel-模型.json"
    file.write_text(json.dumps(CONFIG))
    command, env = doctor(file, encoding)
    done = subprocess.run(command, env=env, capture_output=True, check=False, timeout=30)
    assert done.returncode == 1 and done.stderr == b""
    assert b"del-\\u6a21\\u578b.json: llama" in done.stdout
