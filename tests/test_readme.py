"""README.md keeps its word: commands run, the picture shows what its text says, paths exist."""

import re
import shlex
from pathlib import Path

import pytest

from mxlab.cli import main

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^\$ mxlab (.+)$", README, re.M)


def test_there_are_five_things_to_try() -> None:
    assert len(COMMANDS) == 5


@pytest.mark.parametrize("command", COMMANDS)
def test_what_to_try_answers(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(shlex.split(command))
    said = capsys.readouterr()
    assert code == int("STOPS" in said.out)
    assert said.err == ""
    assert len(said.out.splitlines()) > 4


def test_the_picture_shows_what_its_text_says() -> None:
    alt, file = re.findall(r"^!\[(.+)\]\((.+)\)$", README, re.M)[0]
    texts = re.findall(r">([^<]+)<", (ROOT / file).read_text(encoding="utf-8"))
    drawn = " ".join(texts)
    assert "Stops at S6" in drawn and "stops in stage S6" in alt
    for n, k in re.findall(r"N = (\d+) and K = (\d+)", alt):
        assert f"N = {n} % 64 = {int(n) % 64}, K = {k} % 128 = {int(k) % 128}" in drawn
    assert "no FlashInfer" in drawn and "without FlashInfer" in alt


def test_every_folder_and_file_that_it_names_is_there() -> None:
    table = README[README.index("## Where things are") :]
    names = re.findall(r"`((?:[\w.]+/)+[\w.]*|[\w/]+\.(?:py|md|yml))`", table)
    assert len(names) > 10
    for name in names:
        assert (ROOT / name).exists() or (ROOT / "mxlab" / name).exists(), name
