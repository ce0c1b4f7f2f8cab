"""Write what the reference pages include: tables made from the package, never typed.

Run it as ``python -m book.site.reference_pages``, before jupyter-book. The pages themselves, with
their prose, are in book/reference.
"""

import sys
from collections.abc import Callable
from pathlib import Path

from book.site import reference_commands, reference_formats, reference_numbers

FOLDER = Path(__file__).parents[1] / "reference" / "_generated"

PAGES: dict[str, Callable[[], list[str]]] = {
    "api": reference_commands.api_page,
    "cli": reference_commands.cli_page,
    "status": reference_commands.status_page,
    "file_formats": reference_formats.formats_page,
    "profiles": reference_numbers.profiles_page,
    "layouts": reference_numbers.layouts_page,
    "devices": reference_numbers.devices_page,
}


def write(folder: Path = FOLDER) -> list[Path]:
    """Write every part into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, lines in PAGES.items():
        (folder / f"{name}.md").write_text("\n".join(lines()) + "\n", encoding="utf-8")
    return [folder / f"{name}.md" for name in PAGES]


if __name__ == "__main__":
    print(f"{len(write())} parts of reference pages", file=sys.stderr)
