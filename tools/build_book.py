"""Build the site into _build/html: assets, generated pages, then jupyter-book, warnings as errors.

The execution cache is removed first: it keys on a notebook's cells only, so that after an edit of
the package it would show yesterday's outputs (docs/decisions.md).
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
JUPYTER_BOOK = "from jupyter_book.cli.main import main; main()"
STEPS = (
    ["tools/site_assets.py"],
    ["-m", "book.site.guard_pages"],
    ["-m", "book.site.reference_pages"],
    ["-c", JUPYTER_BOOK, "build", ".", "-W", "-n", "--keep-going", "-q"],
)


def main() -> int:
    """Run the steps in order; stop at the first that fails."""
    shutil.rmtree(ROOT / "_build", ignore_errors=True)
    env = {**os.environ, "PYTHONPATH": str(ROOT), "MXLAB_BOOK": "1"}
    for step in STEPS:
        done = subprocess.run([sys.executable, *step], cwd=ROOT, env=env, check=False)
        if done.returncode:
            print(f"build_book: {' '.join(step)} failed", file=sys.stderr)
            return done.returncode
    return 0


if __name__ == "__main__":
    sys.exit(main())
