"""``mxlab rules``: one amax under every scale rule."""

import argparse
import math
from typing import Any

from mxlab.block import quantize_block
from mxlab.cli import values
from mxlab.cli.result import Result, table
from mxlab.errors import InputError
from mxlab.formats import ELEMENT_FORMATS, Format, element_format
from mxlab.scale import RULES, float32_bits, scale_byte

EXAMPLES = """examples:
  mxlab rules --amax 449
  mxlab rules --f32-bits 40600001

JSON: rows holds one object a rule; code is the code of the block's maximum."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    values.allow_negative_values(parser)
    parser.add_argument("--amax", help="the block's largest magnitude, rounded to float32")
    parser.add_argument("--f32-bits", help="the same as a float32 bit pattern in hex")
    parser.add_argument(
        "--format", default="e4m3", help=f"{', '.join(ELEMENT_FORMATS)} (default e4m3)"
    )


def _row(amax: float, fmt: Format, rule: str) -> dict[str, Any]:
    byte = scale_byte(amax, fmt, rule=rule)
    block = quantize_block([amax], fmt, rule=rule)
    return {
        "rule": rule,
        "formula": RULES[rule].formula(fmt),
        "scale_byte": byte,
        "scale": values.plain(block.scale),
        "code": block.codes[0],
        "hex": f"0x{block.codes[0]:02x}",
        "decoded": values.plain(block.decoded[0]),
        "rel_error": block.max_rel_error,
    }


def run(args: argparse.Namespace) -> Result:
    """Answer the verb."""
    if (args.amax is None) == (args.f32_bits is None):
        raise InputError("expected either --amax such as 449, or --f32-bits such as 43e08000")
    if args.amax is not None:
        amax = values.number(args.amax, "--amax")
    else:
        found = values.float32_bits_list(args.f32_bits, "--f32-bits")
        if len(found) != 1:
            raise InputError(f"--f32-bits has {len(found)} values: expected 1")
        amax = found[0]
    fmt = element_format(args.format)
    bits = float32_bits(amax, "--amax")
    rows = [_row(amax, fmt, rule) for rule in RULES]
    data = {"amax": values.plain(amax), "f32_bits": f"{bits:08x}", "format": fmt.name}
    lines = [
        f"amax {values.shown(amax)}, float32 bits {bits:08x}: e = {bits >> 23 & 0xFF}, "
        f"m = 0x{bits & 0x7FFFFF:06x}",
        table(
            ["rule", "byte", "scale", "code", "decoded", "error"],
            [
                (
                    row["rule"],
                    row["scale_byte"],
                    _cell(row["scale"]),
                    row["hex"],
                    _cell(row["decoded"]),
                    "-" if row["rel_error"] is None else f"{row['rel_error']:.3%}",
                )
                for row in rows
            ],
            right="byte scale decoded error",
        ),
    ]
    return Result({**data, "rows": rows}, "\n".join(lines))


def _cell(value: float | str | None) -> str:
    return values.shown(math.nan if value is None else float(value))
