"""Fetching a peer: what is unpacked, what is refused, what is said where it cannot be had."""

import subprocess
import zipfile
from pathlib import Path

import pytest

from tools import oracles
from tools.oracles import PEERS, Peer, Unavailable, Wheel, fetch, install, unpack

WHEEL = Wheel(requirement="peer==1", packages=("peer/inner", "peer/one.py"))


def _zip(path: Path, *names: str) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name in names:
            archive.writestr(name, f"# {name}\n")
    return path


def test_unpacks_the_python_of_its_packages_and_nothing_else(tmp_path: Path) -> None:
    wanted = ("peer/inner/a.py", "peer/inner/deep/b.py", "peer/one.py")
    other = ("peer/other.py", "peer/inner/kernel.so", "peer/inner/a.txt", "peer.dist-info/x.py")
    hostile = ("peer/inner/../../evil.py", "/peer/inner/root.py")
    unpack(_zip(tmp_path / "x.whl", *wanted, *other, *hostile), WHEEL, tmp_path / "out")
    found = sorted(p.relative_to(tmp_path / "out") for p in (tmp_path / "out").rglob("*.*"))
    assert [str(path) for path in found] == sorted(wanted)
    assert not (tmp_path / "evil.py").exists()


def test_a_wheel_too_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oracles, "MAX_BYTES", 10)
    with pytest.raises(Unavailable, match="unpacks to over 10 bytes"):
        unpack(_zip(tmp_path / "x.whl", "peer/one.py"), WHEEL, tmp_path / "out")


@pytest.fixture
def pip(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Stand in for pip: it downloads one wheel, and remembers how it was called."""
    calls: list[list[str]] = []

    class Done:
        returncode, stdout, stderr = 0, "", ""

    def run(command: list[str], **options: object) -> Done:
        calls.append(command)
        _zip(Path(command[command.index("--dest") + 1]) / "peer-1-py3.whl", "peer/one.py")
        _zip(Path(command[command.index("--dest") + 1]) / "peer-2-py3.whl", "peer/one.py")
        return Done()

    monkeypatch.setattr(subprocess, "run", run)
    return calls


def test_a_wheel_with_another_digest_is_refused(tmp_path: Path, pip: list[list[str]]) -> None:
    wheel = Wheel(requirement="peer==1", sha256="00", packages=("peer",))
    with pytest.raises(Unavailable, match=r"its sha256 is [0-9a-f]{64}, expected 00"):
        fetch((wheel,), tmp_path)
    assert "--no-deps" in pip[0]


def test_fetched_once_and_again_when_the_pin_moves(tmp_path: Path, pip: list[list[str]]) -> None:
    peer = Peer(name="peer", wheels=(WHEEL,), folders=("peer/empty",))
    assert install(peer, tmp_path) == install(peer, tmp_path) == tmp_path / "peer"
    assert len(pip) == 1
    assert (tmp_path / "peer/peer/one.py").is_file() and (tmp_path / "peer/peer/empty").is_dir()
    moved = Peer(name="peer", wheels=(Wheel(requirement="peer==2", packages=("peer",)),))
    install(moved, tmp_path)
    assert len(pip) == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["peer"]  # no scratch is left


def test_no_network_is_said_and_is_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Done:
        returncode, stdout, stderr = 1, "", "noise\nERROR: No matching distribution found\n"

    monkeypatch.setattr(subprocess, "run", lambda *_, **__: Done())
    monkeypatch.setattr(oracles, "FOLDER", tmp_path / "new")
    monkeypatch.setattr(oracles.install, "__defaults__", (tmp_path / "new",))
    monkeypatch.setattr("sys.argv", ["oracles.py", "quark"])
    oracles.main()
    line = "amd-quark==0.13: ERROR: No matching distribution found"
    assert capsys.readouterr().out == f"oracle quark: not here, its tests will skip: {line}\n"
    assert (tmp_path / "new/quark.unavailable").read_text() == f"{line}\n"


def test_every_peer_is_pinned_and_has_its_digest() -> None:
    for peer in PEERS:
        for wheel in peer.wheels:
            pinned = "==" in wheel.requirement
            assert pinned and (len(wheel.sha256) == 64 or peer.name == "shared")
