"""The page's Python is the kernel's: the zip under Pyodide answers byte for byte as CPython."""

import json
import re
import shutil
import subprocess
import zipfile
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from pathlib import Path

import pytest
from explorer_states import states

from mxlab.explorers import EXPLORERS, answer
from mxlab.guards.data import every_row
from tools.site_assets import build, compiled, package_zip

ROOT = Path(__file__).parents[1]
STATES = 200
#: one guard of each system and subject, each in its own explorer
GUARDS = {(row.system, row.subject): f"guard:{row.id}" for row, _ in every_row()}.values()
OF_A_GUARD = 12


@pytest.fixture(scope="module")
def asked() -> dict[str, list[str]]:
    return {name: states(name, STATES) for name in EXPLORERS} | {
        name: states(name, OF_A_GUARD) for name in GUARDS
    }


@pytest.fixture(scope="module")
def answers(
    asked: dict[str, list[str]], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, list[str]]:
    """What the page's bytecode answers in Pyodide, of every explorer: two share the work."""
    node = shutil.which("node")
    assert node and (ROOT / "node_modules" / "pyodide").is_dir(), "needs node and: npm ci"
    archive = tmp_path_factory.mktemp("zip") / "mxlab.zip"
    archive.write_bytes(compiled(package_zip(ROOT / "mxlab")))

    def ask(part: dict[str, list[str]]) -> dict[str, list[str]]:
        done = subprocess.run(
            [node, str(ROOT / "tests/node/pyodide_answers.mjs")],
            input=json.dumps({"zip": str(archive), "asked": part}),
            capture_output=True,
            text=True,
            check=True,
        )
        found = json.loads(done.stdout)
        assert found["megabytes"] > 32, "a memory that had not grown proves less"
        answered: dict[str, list[str]] = found["answers"]
        return answered

    parts = [dict(list(asked.items())[i::2]) for i in range(2)]
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(ask, parts)
    return first | second


@pytest.mark.parametrize("name", list(EXPLORERS))
def test_pyodide_answers_byte_for_byte(
    name: str, asked: dict[str, list[str]], answers: dict[str, list[str]]
) -> None:
    expected = [answer(name, state) for state in asked[name]]
    assert answers[name] == expected
    assert len(set(expected)) > STATES // 2
    assert not [text for text in expected if "fault in mxlab" in text]
    statuses = {json.loads(text).get("view", {}).get("status") for text in expected}
    assert len(statuses) >= 2


def test_pyodide_answers_for_guards_of_every_kind(
    asked: dict[str, list[str]], answers: dict[str, list[str]]
) -> None:
    assert len(GUARDS) > 20
    expected = {name: [answer(name, state) for state in asked[name]] for name in GUARDS}
    assert {name: answers[name] for name in GUARDS} == expected
    texts = [text for told in expected.values() for text in told]
    assert len(set(texts)) > len(texts) // 2 and not [t for t in texts if "fault in mxlab" in t]


def test_the_zip_has_the_same_bytes_each_time_and_no_more_than_the_page_needs() -> None:
    data = package_zip(ROOT / "mxlab")
    assert data == package_zip(ROOT / "mxlab")
    names = zipfile.ZipFile(BytesIO(data)).namelist()
    assert "mxlab/explorers/will_it_run.py" in names and "mxlab/guards/engine.py" in names
    assert "mxlab/exercises/checker.py" in names and "mxlab/exercises/puzzles.py" not in names
    tables = {name for name in names if not name.endswith(".py")}
    assert {f"mxlab/data/{name}.json" for name in ("models", "bench", "guard_rows")} <= tables
    assert all(name.startswith("mxlab/data/") for name in tables)
    assert not {"mxlab/explorers/widget.py", "mxlab/arrays.py", "mxlab/cli/__init__.py"} & {*names}


def test_the_assets_are_whole_and_name_their_folder_by_content(tmp_path: Path) -> None:
    folder = build(tmp_path / "vendor")
    assert build(tmp_path / "again") == folder
    made = [(tmp_path / part / folder / "mxlab.zip").read_bytes() for part in ("vendor", "again")]
    assert made[0] == made[1], "bytecode differs from one build to the next"
    names = zipfile.ZipFile(BytesIO(made[0])).namelist()
    assert "mxlab/explorers/will_it_run.pyc" in names
    assert not [name for name in names if name.endswith(".py")]
    vendor = tmp_path / "vendor"
    boot = (vendor / "mxlab-boot.js").read_text()
    assert folder in boot and "HASH" not in boot and "PYODIDE/" not in boot
    pyodide = next(vendor.glob("pyodide-*"))
    assert pyodide.name in boot
    assert {path.name for path in pyodide.iterdir()} == {
        *("pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm", "python_stdlib.zip"),
        "pyodide-lock.json",
    }
    assert {path.name for path in (vendor / folder).iterdir()} == {
        *("face.mjs", "controls.mjs", "dom.mjs", "panels.mjs", "takeaway.mjs", "worker.mjs"),
        *("answer.mjs", "drawing.mjs", "numbers.mjs", "opener.mjs", "snapshot.mjs"),
        *("face.css", "mxlab.zip"),
    }
    assert (vendor / "mathjax" / "tex-mml-chtml.js").stat().st_size > 10**6


def test_the_lock_file_names_no_registry() -> None:
    lock = (ROOT / "package-lock.json").read_text()
    assert '"resolved"' not in lock
    hosts = set(re.findall(r"://([^/\"]+)", lock))
    assert hosts <= {"github.com", "opencollective.com"}  # where packages ask for donations
    assert json.loads(lock)["packages"]["node_modules/pyodide"]["version"] == "314.0.7"
