"""The names that mxlab re-exports, whatever was imported before."""

import subprocess
import sys

import pytest

SCRIPT = """
import importlib, mxlab
{first}
for name in ("layout", "gemm"):
    assert callable(getattr(mxlab, name)), name
from mxlab import layout, gemm
assert layout("linear").name == "linear" and callable(gemm)
import mxlab.layout
assert mxlab.layout("linear") is layout("linear")
from mxlab.layout import LAYOUTS
assert mxlab.layout("linear") is LAYOUTS["linear"]
"""


@pytest.mark.parametrize(
    "first",
    ["", "import mxlab.layout, mxlab.gemm", "from mxlab.cli import layout; import mxlab.layout"],
)
def test_functions_win_over_modules_of_the_same_name(first: str) -> None:
    subprocess.run([sys.executable, "-c", SCRIPT.format(first=first)], check=True, timeout=60)
