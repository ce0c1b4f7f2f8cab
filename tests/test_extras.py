"""Without the extras: what needs nothing runs, what needs a package says so in one line."""

import subprocess
import sys

import pytest
from command import Capture, call

BLOCK = """
import sys
class No:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"numpy", "ml_dtypes", "torch", "matplotlib", "safetensors"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, No())
from mxlab.cli import main
sys.exit(main(sys.argv[1:]))
"""


def bare(*argv: str) -> subprocess.CompletedProcess[str]:
    """Run the command line where nothing but the standard library can be imported."""
    command = [sys.executable, "-c", BLOCK, *argv]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("argv", "code"),
    [
        (["bits", "0x7e", "--format", "e4m3"], 0),
        (["block", "--values", "1,2,-3.5"], 0),
        (["rules", "--amax", "449"], 0),
        (["profiles"], 0),
        (["layout", "300", "10", "--layout", "tile_128x4"], 0),
        (["shapes", "DeepSeek-V3", "--tp", "8"], 0),
        (["doctor", "Llama-3.1-8B", "--gpu", "h200", "--quantization", "mxfp8"], 1),
        (["explain", "MXFP8 KV cache requires head_dim divisible by 32, got 80."], 0),
        (["guards", "wsp-deepgemm"], 0),
        (["explore", "will_it_run"], 0),
        (["explore", "will_it_run", "kv_dtype=mxfp8", "attention=fa4"], 1),
    ],
)
def test_verbs_that_need_the_standard_library_alone(argv: list[str], code: int) -> None:
    done = bare(*argv)
    assert (done.returncode, done.stderr) == (code, "") and done.stdout


@pytest.mark.parametrize(
    "argv", [["compare", "x.npy"], ["detect", "x.npz"], ["bench"], ["bench", "gemm"]]
)
def test_verbs_that_need_a_package_name_the_extra(argv: list[str]) -> None:
    done = bare(*argv)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1 and "mxlab[arrays]" in done.stderr


def test_help_of_every_verb(capsys: Capture) -> None:
    from mxlab.cli import VERBS

    for verb in VERBS:
        code, out, err = call(capsys, verb, "--help")
        assert (code, err) == (0, "") and out.startswith(f"usage: mxlab {verb}")
