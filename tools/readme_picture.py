"""Draw docs/picture.svg, the README's picture, from the explorer itself (``make picture``)."""

from pathlib import Path

from mxlab.explorers import explorer
from mxlab.explorers.picture import picture

FILE = Path(__file__).parents[1] / "docs" / "picture.svg"
STATE = {
    "gpu": "b200",
    "packages": "no-flashinfer",
    "n": 8640,
    "k": 2880,
}


def drawing() -> str:
    """Return the SVG text."""
    found = explorer("will_it_run")
    state = found.clean(STATE)
    if wrong := {name for name, value in STATE.items() if state.get(name) != value}:
        raise SystemExit(f"the explorer does not know these settings: {sorted(wrong)}")
    return picture(found.title, found.view(state))


if __name__ == "__main__":
    FILE.write_text(drawing() + "\n")
