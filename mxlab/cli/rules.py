"""``mxlab rules``: one amax under every scale rule and library profile."""

import argparse
import math
from collections.abc import Sequence
from typing import Any

from mxlab.block import BLOCK, Block, quantize_block
from mxlab.cli import values
from mxlab.cli.result import Result, table
from mxlab.errors import InputError
from mxlab.formats import ELEMENT_FORMATS, element_format
from mxlab.profiles import profiles
from mxlab.scale import RULES, float32_bits, scale_byte

EXAMPLES = """examples:
  mxlab rules --amax 449
  mxlab rules --f32-bits 40600001

JSON: rows holds one object a rule, then one a library profile (E4M3 only); code is the code of the
block's maximum. A library that raises has scale_byte null and error."""

_PER_LINE = 3  # profiles on one line


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    values.allow_negative_values(parser)
    parser.add_argument("--amax", help="the block's largest magnitude, rounded to float32")
    parser.add_argument("--f32-bits", help="the same as a float32 bit pattern in hex")
    parser.add_argument(
        "--format", default="e4m3", help=f"{', '.join(ELEMENT_FORMATS)} (default e4m3)"
    )


def _row(block: Block | None, **named: Any) -> dict[str, Any]:
    """One answer; ``block`` is None where a library raises."""
    code = None if block is None else block.codes[0]
    return {
        "rule": None,
        "profile": None,
        **named,
        "scale_byte": None if block is None else block.scale_byte,
        "scale": None if block is None else values.plain(block.scale),
        "code": code,
        "hex": None if code is None else f"0x{code:02x}",
        "decoded": None if block is None else values.plain(block.decoded[0]),
        "rel_error": None if block is None else block.max_rel_error,
    }


def _profile_row(amax: float, name: str) -> dict[str, Any]:
    try:
        return _row(quantize_block([amax] * BLOCK, profile=name), profile=name)
    except InputError as error:
        return _row(None, profile=name, error=str(error))


def _table(rows: Sequence[dict[str, Any]], by_rule: bool) -> str:
    """Rules one a line; profiles that answer alike together, the common answer first."""
    alike: dict[tuple[Any, ...], list[str]] = {}
    for row in rows:
        cells = (row["scale_byte"], row["scale"], row["hex"], row["decoded"], row["rel_error"])
        key = (row["rule"], *cells) if by_rule else cells
        alike.setdefault(key, []).append(row["rule"] or row["profile"])
    groups = sorted(alike.items(), key=lambda item: 0 if by_rule else -len(item[1]))
    header = ["byte", "scale", "code", "decoded", "error"]
    lines = []
    for key, names in groups:
        byte, scale, code, decoded, error = key[-5:]
        cells = (
            ("raises", "", "", "", "")
            if byte is None
            else (
                byte,
                _cell(scale),
                code,
                _cell(decoded),
                "-" if error is None else f"{error:.3%}",
            )
        )
        for i, start in enumerate(range(0, len(names), _PER_LINE)):
            part = ", ".join(names[start : start + _PER_LINE])
            lines.append((*(cells if i == 0 else [""] * 5), part))
    name = "rule" if by_rule else "profiles"
    return table([*header, name], lines, right="byte scale decoded error")


def _cell(value: float | str | None) -> str:
    return values.shown(math.nan if value is None else float(value))


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
    scale_byte(amax, fmt)  # refuses what is no magnitude
    bits = float32_bits(amax, "--amax")
    rows = [
        _row(quantize_block([amax] * BLOCK, fmt, rule=name), rule=name, formula=rule.formula(fmt))
        for name, rule in RULES.items()
    ]
    libraries = [_profile_row(amax, name) for name in profiles()] if fmt.name == "e4m3" else []
    lines = [
        f"amax {values.shown(amax)}, float32 bits {bits:08x}: e = {bits >> 23 & 0xFF}, "
        f"m = 0x{bits & 0x7FFFFF:06x}; a block of 32 such values",
        _table(rows, by_rule=True),
    ]
    if libraries:
        lines += ["", _table(libraries, by_rule=False)]
    data = {
        "amax": values.plain(amax),
        "f32_bits": f"{bits:08x}",
        "format": fmt.name,
        "rows": rows + libraries,
    }
    return Result(data, "\n".join(lines))
