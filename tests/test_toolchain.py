"""pyproject.toml, constraints.txt, environment.yml, package.json and the Makefile agree."""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
CONDA = yaml.safe_load((ROOT / "environment.yml").read_text())
PINS = {
    canonicalize_name(name): version
    for name, version in (
        line.split("==")
        for line in (ROOT / "constraints.txt").read_text().splitlines()
        if line and not line.startswith("#")
    )
}
MAKEFILE = (ROOT / "Makefile").read_text()


def closure(extra: str) -> set[str]:
    """The extras that ``extra`` pulls in, itself included."""
    found = {extra}
    for requirement in map(Requirement, EXTRAS[extra]):
        if requirement.name == "mxlab":
            for inner in requirement.extras:
                found |= closure(inner)
    return found


def test_the_base_install_needs_nothing() -> None:
    assert PROJECT["dependencies"] == []


def test_the_extras_are_those_promised_and_all_holds_the_others() -> None:
    assert set(EXTRAS) == {"arrays", "compiled", "torch", "lab", "book", "test", "all"}
    assert closure("all") == set(EXTRAS)


@pytest.mark.parametrize("extra", EXTRAS)
def test_every_requirement_has_a_pin_that_satisfies_it(extra: str) -> None:
    for requirement in map(Requirement, EXTRAS[extra]):
        if requirement.name == "mxlab":
            continue
        if requirement.name == "triton":  # pinned in the Makefile: docs/decisions.md says why
            assert "triton" not in PINS
            pinned = re.search(r"^TRITON .*triton==(\S+)$", MAKEFILE, re.M)
            assert pinned and pinned[1] in requirement.specifier
            continue
        pin = PINS.get(canonicalize_name(requirement.name))
        assert pin, f"{requirement} has no pin in constraints.txt"
        assert pin in requirement.specifier, f"{requirement} excludes its pin {pin}"


def test_the_pins_are_exact_and_name_no_place() -> None:
    text = (ROOT / "constraints.txt").read_text()
    assert len(PINS) > 100
    assert "+cpu" not in text and "://" not in text and " @ " not in text


def test_conda_users_get_the_same() -> None:
    assert set(CONDA) == {"name", "channels", "dependencies"}
    *plain, pip = CONDA["dependencies"]
    assert pip == {"pip": ["-c constraints.txt", "-e .[all]"]}
    python = next(d for d in plain if d.startswith("python="))
    assert f"{python.removeprefix('python=')}.0" in SpecifierSet(PROJECT["requires-python"])
    node = next(d for d in plain if d.startswith("nodejs"))
    wanted = json.loads((ROOT / "package.json").read_text())["engines"]["node"]
    assert node == f"nodejs{wanted}"


def test_the_node_lock_file_names_no_registry() -> None:
    lock = json.loads((ROOT / "package-lock.json").read_text())
    assert len(lock["packages"]) > 3
    for name, package in lock["packages"].items():
        assert "resolved" not in package, name
        assert not name or package.get("integrity"), name


def test_make_help_lists_the_targets_of_the_readme() -> None:
    listing = subprocess.run(
        ["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    for target in ("lab", "test", "book", "serve", "lint", "bench"):
        assert re.search(rf"^{target} ", listing, re.M), target
    assert "make lab" in (ROOT / "README.md").read_text()


def test_ci_runs_the_readme_s_test_command() -> None:
    assert (ROOT / ".ci/run").read_text().splitlines()[-1] == "make test"


def test_import_is_fast_and_needs_no_numpy() -> None:
    code = (
        "import sys, time; a = time.perf_counter(); import mxlab; b = time.perf_counter();"
        "print((b - a) * 1000, 'numpy' in sys.modules)"
    )
    runs = [
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        for _ in range(3)
    ]
    times, numpy = zip(*(run.stdout.split() for run in runs), strict=True)
    assert min(map(float, times)) < 60, times
    assert set(numpy) == {"False"}
