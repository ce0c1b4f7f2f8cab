"""How a command line names a model: a CONFIG, or linears typed in."""

import argparse

from mxlab.errors import InputError
from mxlab.models import Source, linears_model

CONFIG = (
    "config.json, a folder (with its safetensors headers), a .safetensors file or index, or the "
    "name of a shipped model"
)


def plain_number(text: str) -> int | str:
    """Return the number where the text is a plain one; what is not is refused by its own name.

    >>> plain_number("-4"), plain_number("8.0")
    (-4, '8.0')
    """
    digits = text.removeprefix("-")
    return int(text) if digits.isascii() and digits.isdigit() and len(digits) < 10 else text


def add_linear_argument(parser: argparse.ArgumentParser) -> None:
    """Declare ``--linear``."""
    parser.add_argument(
        "--linear",
        action="append",
        nargs="+",
        default=[],
        metavar=("N", "K"),
        help="a linear of N outputs and K inputs in place of CONFIG (repeatable); NAME N K names "
        "it, and a conventional name such as down_proj is split over TP",
    )


def model_source(config: str | None, linears: list[list[str]]) -> Source:
    """Return what ``read_model`` takes; raise InputError unless exactly one way was used."""
    if config is not None and linears:
        raise InputError("CONFIG and --linear were both given: expected one of them")
    if linears:
        return linears_model(
            [[*map(str, row[:-2]), *map(plain_number, row[-2:])] for row in linears]
        )
    if config is None:
        raise InputError("no model was given: expected CONFIG or --linear N K")
    return config
