"""Fetch the peers that the oracle tests run into ``.oracles/``: Python alone, no dependencies.

A peer's wheel is checked against the digest here and unpacked without anything that is not Python.
What it imports and these tests never run is a stand-in (``tests/oracles/peers``). A peer that
cannot be fetched is said, and its tests then skip and say why: no network is no failure.
"""

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

FOLDER = Path(__file__).parents[1] / ".oracles"
MAX_BYTES = 400 << 20  # unpacked, of one wheel


@dataclass(frozen=True, slots=True, kw_only=True)
class Wheel:
    """One wheel: ``packages`` are what is unpacked of it, ``platform`` as pip says it."""

    requirement: str
    sha256: str = ""  # of the peers themselves
    packages: tuple[str, ...]
    platform: tuple[str, ...] = ()
    kinds: tuple[str, ...] = (".py",)  # suffixes of what is kept


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """One peer: its own wheel first, then what it cannot do without."""

    name: str
    wheels: tuple[Wheel, ...]
    folders: tuple[str, ...] = field(default=())  # empty ones that its imports look for

    @property
    def stamp(self) -> str:
        """Return what an unpacked peer was made from."""
        return "\n".join(f"{wheel.requirement} {wheel.sha256}" for wheel in self.wheels) + "\n"


_COMPILED = (".py", ".so", ".pyd", ".dylib")

#: SGLang publishes no pure wheel; the Python in it is the same for every platform
_SGLANG = (
    *("--platform", "manylinux_2_34_x86_64", "--python-version", "3.11"),
    *("--implementation", "cp", "--abi", "cp311"),
)


def _sglang(version: str, sha256: str) -> Peer:
    wheel = Wheel(
        requirement=f"sglang=={version}",
        sha256=sha256,
        packages=("sglang/srt", "sglang/kernels", "sglang/utils.py"),
        platform=_SGLANG,
    )
    folders = ("sglang/kernels/jit/include", "sglang/kernels/jit/csrc")
    return Peer(name=f"sglang-{version}", wheels=(wheel,), folders=folders)


PEERS: tuple[Peer, ...] = (
    Peer(  # what several of them cannot do without: 3 MB
        name="shared",
        wheels=(
            Wheel(requirement="msgspec==0.23.0", packages=("msgspec",), kinds=_COMPILED),
            Wheel(requirement="pydantic==2.14.4", packages=("pydantic",)),
            Wheel(
                requirement="pydantic-core==2.50.5", packages=("pydantic_core",), kinds=_COMPILED
            ),
            Wheel(requirement="annotated-types==0.8.0", packages=("annotated_types",)),
            Wheel(requirement="typing-inspection==0.4.5", packages=("typing_inspection",)),
            Wheel(requirement="typing-extensions==4.16.0", packages=("typing_extensions.py",)),
        ),
    ),
    _sglang("0.5.23", "00b3cd5b265ac76c64185fbb6b95424f324ddd9f428d0306b77bc9db9d859937"),
    # before and after the commit that is a version of its own (mxlab/guards/releases.py)
    _sglang("0.5.18", "e97b585dd2d5db2802599feba47c84cce972f5e1231a6816fef996200207b5cf"),
    _sglang("0.5.19", "425e87377e725d03db8262382008f3fd9561a6cf5d82f485f8b9929f02ffe12b"),
    Peer(
        name="modelopt",
        wheels=(
            Wheel(
                requirement="nvidia-modelopt==0.47.0",
                sha256="db13e62d7efe4a1512e8b8c3f479e28d64022306f94a194f13234e7dca1d3120",
                packages=("modelopt", "modelopt_recipes"),
                kinds=(".py", ".yaml"),
            ),
        ),
    ),
    Peer(
        name="quark",
        wheels=(
            Wheel(
                requirement="amd-quark==0.13",
                sha256="3b3e58a4cbbcff20d27815b641aa4de4d698efde3c782306cb4a6a05bcf55c8c",
                packages=("quark",),
            ),
        ),
    ),
    Peer(
        name="compressed_tensors",
        wheels=(
            Wheel(
                requirement="compressed-tensors==0.20.1",
                sha256="15307c904904219cafcb57d55f16b1bd6baf108d0421b65dfa79eece01672382",
                packages=("compressed_tensors",),
            ),
        ),
    ),
)


class Unavailable(Exception):
    """A peer that cannot be had here; the text says why."""


def fetch(wheels: Sequence[Wheel], into: Path) -> dict[Wheel, Path]:
    """Download wheels of one platform at once and check them."""
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    only = ["--no-deps", "--only-binary=:all:", "--dest", str(into), *wheels[0].platform]
    env = {name: value for name, value in os.environ.items() if name != "PIP_CONSTRAINT"}
    command = [*pip, *only, *(wheel.requirement for wheel in wheels)]
    done = subprocess.run(command, capture_output=True, text=True, env=env)
    found = {}
    for wheel in wheels:
        start = wheel.requirement.replace("-", "_").replace("==", "-") + "-"
        paths = [path for path in into.glob("*.whl") if path.name.lower().startswith(start)]
        if done.returncode or not paths:
            said = (done.stderr.strip() or done.stdout.strip() or "pip said nothing").splitlines()
            raise Unavailable(f"{wheel.requirement}: {said[-1][:200]}")
        digest = hashlib.sha256(paths[0].read_bytes()).hexdigest()
        if wheel.sha256 and digest != wheel.sha256:
            wrong = f"its sha256 is {digest}, expected {wheel.sha256}"
            raise Unavailable(f"{wheel.requirement}: {wrong}")
        found[wheel] = paths[0]
    return found


def unpack(path: Path, wheel: Wheel, into: Path) -> None:
    """Unpack the Python of a wheel's packages."""
    total = 0
    with zipfile.ZipFile(path) as archive:
        for item in archive.infolist():
            name = PurePosixPath(item.filename)
            inside = any(name.is_relative_to(package) for package in wheel.packages)
            if not inside or ".." in name.parts or name.suffix not in wheel.kinds:
                continue
            total += item.file_size
            if total > MAX_BYTES:
                raise Unavailable(f"{wheel.requirement}: unpacks to over {MAX_BYTES} bytes")
            archive.extract(item, into)


def install(peer: Peer, folder: Path = FOLDER) -> Path:
    """Return the folder of an unpacked peer, fetching it where it is not there yet."""
    target = folder / peer.name
    stamp = target / ".made-from"
    if stamp.is_file() and stamp.read_text() == peer.stamp:
        return target
    folder.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        made = Path(scratch) / "made"
        for wheel, path in fetch(peer.wheels, Path(scratch)).items():
            unpack(path, wheel, made)
        for empty in peer.folders:
            (made / empty).mkdir(parents=True, exist_ok=True)
        (made / ".made-from").write_text(peer.stamp)
        shutil.rmtree(target, ignore_errors=True)
        made.rename(target)
    return target


def main() -> None:
    """Fetch the peers named, or all; say what could not be had, and go on."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    names = [peer.name for peer in PEERS]
    parser.add_argument("peers", nargs="*", metavar="PEER", help=f"of {', '.join(names)}")
    asked = parser.parse_args().peers
    for unknown in set(asked) - set(names):
        parser.error(f"unknown peer {unknown!r}: expected one of {', '.join(names)}")
    for peer in PEERS:
        if asked and peer.name not in asked:
            continue
        why = FOLDER / f"{peer.name}.unavailable"
        try:
            install(peer)
        except (Unavailable, OSError, zipfile.BadZipFile) as error:
            FOLDER.mkdir(exist_ok=True)
            why.write_text(f"{error}\n")
            print(f"oracle {peer.name}: not here, its tests will skip: {error}")
        else:
            why.unlink(missing_ok=True)


if __name__ == "__main__":
    main()
