"""Every kernel compiles for Hopper and both Blackwells, to the matrix instruction it should."""

import os
import subprocess
import sys

import pytest

from mxlab.errors import InputError
from mxlab.kernels.ptx import CAPABILITIES, KERNELS, products, ptx

#: (kernel, capability) -> what its matrix instruction must hold, after Triton 3.6 and 3.9
EXPECTED = {
    ("dot_scaled", 90): ("wgmma.mma_async", "bf16.bf16"),  # emulated
    ("dot_scaled", 100): ("tcgen05.mma", "kind::mxf8f6f4", "block_scale"),
    ("dot_scaled", 120): ("mma.sync", "kind::mxf8f6f4", "block_scale", "ue8m0"),
    ("triton", 90): ("wgmma.mma_async", "k32", "e4m3.e4m3"),
    ("triton", 100): ("tcgen05.mma", "kind::f8f6f4"),
    ("triton", 120): ("mma.sync", "e4m3.e4m3"),
    ("skinny", 90): ("wgmma.mma_async", "m64n16k32", "e4m3.e4m3"),
    ("mixed", 90): ("wgmma.mma_async", "m64n256k16", "bf16.bf16"),
}


def test_instructions() -> None:
    """In a process of its own: here kernels may be interpreted."""
    command = [sys.executable, "-m", "mxlab.kernels.ptx", ",".join(KERNELS)]
    command.append(",".join(map(str, CAPABILITIES)))
    quiet = {"TRITON_INTERPRET": "0", "TRITON_DEFAULT_FP_FUSION": "1"}
    ran = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **quiet})
    assert ran.returncode == 0, ran.stderr[-2000:]
    found = {}
    for line in ran.stdout.splitlines():
        name, capability, *instructions = line.split()
        found[name, int(capability)] = instructions
    wanted = {(n, c) for n, row in KERNELS.items() for c in CAPABILITIES if row.only in (None, c)}
    assert found.keys() == wanted
    for key, instructions in found.items():
        if key in EXPECTED:
            assert len(instructions) == 1, key
            assert all(part in instructions[0] for part in EXPECTED[key]), (key, instructions)
        else:
            assert instructions == ["-"], key


def test_products_reads_predicates_and_repeats() -> None:
    text = "@%p1 tcgen05.mma.cta_group::1.kind::f8f6f4 [%r1];\nmma.sync.x {%r1};\nmma.sync.x {%r2};"
    assert products(text) == ["mma.sync.x", "tcgen05.mma.cta_group::1.kind::f8f6f4"]


@pytest.mark.parametrize(
    ("name", "capability", "text"),
    [("dot_scale", 90, "did you mean 'dot_scaled'"), ("skinny", 100, "compiled for (90,)")],
)
def test_bad_arguments(name: str, capability: int, text: str) -> None:
    with pytest.raises(InputError) as caught:
        ptx(name, capability)
    assert text in str(caught.value)
