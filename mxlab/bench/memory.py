"""Peak memory of one quantiser, measured in a process of its own."""

import json
import re
import subprocess
import sys
from pathlib import Path

from mxlab.errors import InputError

_STATUS, _RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def _kib(name: str) -> int:
    found = re.search(rf"^{name}:\s+(\d+) kB$", _STATUS.read_text(), re.M)
    if not found:
        raise OSError(f"no {name}")
    return int(found[1])


def peak_ratio(name: str, *, rows: int, cols: int, dtype: str, rule: str) -> float | None:
    """Return the peak memory of one call as a multiple of its input and output together.

    ``name`` is a row of ``quantize.VARIANTS``. A fresh process calls it once on a few rows, so
    that what is only loaded or compiled once is not counted, and then on the whole. None where
    the kernel keeps no high-water mark that can be set back (it is Linux's).
    """
    if not _RESET.exists():
        return None
    arguments = json.dumps([name, rows, cols, dtype, rule])
    command = [sys.executable, "-m", "mxlab.bench.memory", arguments]
    answer = subprocess.run(command, capture_output=True, text=True)
    try:
        return float(answer.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        return None


def measure_here(name: str, rows: int, cols: int, dtype: str, rule: str) -> float:
    """Return ``peak_ratio`` as measured in this process, which should be a fresh one."""
    from mxlab.bench.quantize import VARIANTS, sample

    x = sample(rows, cols, dtype)
    make = VARIANTS[name].make
    if rows > 64:
        make(x[:64], rule)()
    call = make(x, rule)
    result = int(x.nbytes + x.size + x.size // 32)
    _RESET.write_text("5")  # the high-water mark starts anew
    before = _kib("VmRSS")
    call()
    more = (_kib("VmHWM") - before) * 1024
    given = result if VARIANTS[name].reuses else int(x.nbytes)
    return (given + more) / result


if __name__ == "__main__":
    try:
        print(measure_here(*json.loads(sys.argv[1])))
    except (InputError, ImportError, OSError) as error:
        print(error, file=sys.stderr)
        sys.exit(2)
