"""What one cell prints is one text: the kernel sends it in pieces, cut anywhere."""

from typing import Any

from myst_nb.core import render  # type: ignore[import-untyped]
from myst_nb.core.utils import coalesce_streams  # type: ignore[import-untyped]


def join(outputs: list[Any]) -> list[Any]:
    """Join the pieces of each stream, then do what MyST-NB does.

    On its own it ends each piece with a newline, so that a piece that was cut before one leaves
    an empty line, and one that was cut inside a line breaks it.
    """
    joined: list[Any] = []
    streams: dict[str, Any] = {}
    for output in outputs or ():
        if output["output_type"] == "stream" and output["name"] in streams:
            streams[output["name"]]["text"] += output["text"]
            continue
        if output["output_type"] == "stream":
            streams[output["name"]] = output
        joined.append(output)
    found: list[Any] = coalesce_streams(joined)
    return found


def install() -> None:
    """Let MyST-NB join streams so."""
    render.coalesce_streams = join
