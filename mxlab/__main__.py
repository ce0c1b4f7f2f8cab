"""``python -m mxlab`` is the ``mxlab`` command."""

import sys

from mxlab.cli import main

if __name__ == "__main__":
    sys.exit(main())
