"""Draw docs/picture.svg, the README's picture, from the explorer itself (``make picture``)."""

from pathlib import Path

from mxlab.explorers import explorer
from mxlab.explorers.picture import picture

FILE = Path(__file__).parents[1] / "docs" / "picture.svg"
STATE = {"gpu": "b200", "packages": "deep_gemm", "n": 8640, "k": 2880, "kv_dtype": "auto"}


def drawing() -> str:
    """Return the SVG text."""
    found = explorer("will_it_run")
    return picture(found.title, found.view(found.clean(STATE)))


if __name__ == "__main__":
    FILE.write_text(drawing() + "\n")
