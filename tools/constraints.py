"""Rewrite constraints.txt from the environment that is running this (``make constraints``)."""

import re
import subprocess
import sys
from pathlib import Path

LEFT_OUT = {"mxlab", "triton"}  # docs/decisions.md, "triton is not in constraints.txt"
FILE = Path(__file__).parents[1] / "constraints.txt"


def pins(frozen: str) -> list[str]:
    """Return ``name==version`` lines, sorted, without local versions such as ``+cpu``."""
    lines = (re.sub(r"\+.*", "", line.strip()) for line in frozen.splitlines())
    return sorted(
        (line for line in lines if "==" in line and line.split("==")[0].lower() not in LEFT_OUT),
        key=str.lower,
    )


def main() -> None:
    """Keep the comment at the top of the file, replace what follows."""
    freeze = [sys.executable, "-m", "pip", "freeze", "--all", "--exclude-editable"]
    frozen = subprocess.run(freeze, check=True, capture_output=True, text=True).stdout
    kept = [pin for pin in pins(frozen) if not pin.startswith("pip==")]
    if not any(pin.startswith("setuptools==") for pin in kept):  # only in the build environment
        kept += [pin for pin in FILE.read_text().splitlines() if pin.startswith("setuptools==")]
    comment = [line for line in FILE.read_text().splitlines() if line.startswith("#")]
    FILE.write_text("\n".join([*comment, *sorted(kept, key=str.lower), ""]))


if __name__ == "__main__":
    main()
