"""Where a figure came from: device, versions, date, commit, command."""

import os
import platform
import subprocess
import sys
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from mxlab._version import __version__

_PACKAGES = ("numpy", "ml_dtypes", "torch", "triton", "torchao")


def _cpu() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def _commit() -> str | None:
    """Return the commit of a checkout of mxlab, with ``+`` when files differ from it."""
    root = Path(__file__).parents[2]
    if not (root / ".git").exists():
        return None
    git = ["git", "-C", str(root)]
    try:
        head = subprocess.run(
            [*git, "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True, check=True
        ).stdout.strip()
        changed = subprocess.run(
            [*git, "status", "--porcelain", "--untracked-files=no"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None
    return head + ("+" if changed else "")


def _versions() -> dict[str, str]:
    found = {}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def provenance(device: str = "cpu") -> dict[str, object]:
    """Return what a reader needs to repeat a measurement on ``device`` (``cpu``).

    >>> sorted(provenance())[:3]
    ['command', 'commit', 'cores']
    """
    return {
        "device": _cpu() if device == "cpu" else device,
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.release()}",
        "versions": {"mxlab": __version__, "python": platform.python_version(), **_versions()},
        "commit": _commit(),
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "command": "mxlab " + " ".join(sys.argv[1:]),
    }
