"""Record what torch's scaled_mm says on a GPU: run by hand there, the test replays it anywhere."""

from __future__ import annotations

import gzip
import json
import random
import sys
from dataclasses import asdict
from pathlib import Path

import torch
from torch_calls import random_call, run_call

COUNT = 1500


def record() -> dict[str, object]:
    """Return the calls and their outcomes, and where they were had."""
    cases = []
    for function in ("_scaled_mm", "scaled_mm"):
        r = random.Random(2026)
        for _ in range(COUNT):
            call = random_call(r, function)
            error, text = run_call(torch, call, "cuda")
            cases.append({"call": asdict(call), "error": error, "text": text})
    return {
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "capability": list(torch.cuda.get_device_capability()),
        "cases": cases,
    }


if __name__ == "__main__":
    path = Path(sys.argv[1])
    with gzip.GzipFile(path, "wb", mtime=0) as file:
        file.write(json.dumps(record(), separators=(",", ":")).encode())
