"""``mxlab block``: quantise one block of 32 values."""

import argparse

from mxlab.block import BLOCK, Block, quantize_block
from mxlab.cli import values
from mxlab.cli.result import Result, table
from mxlab.errors import InputError
from mxlab.formats import ELEMENT_FORMATS
from mxlab.scale import RULES

EXAMPLES = """examples:
  mxlab block --values 1,2,-3.5 --rule rceil
  mxlab block --f32-bits 40600001,0
  mxlab block --f32-bits 40600001 --profile torchao-0.18-rceil

JSON: NaN and infinities are the strings "NaN", "Infinity", "-Infinity". max_rel_error and sqnr_db
are null for a block with Inf or NaN; sqnr_db also where nothing was lost (it would be infinite)."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    values.allow_negative_values(parser)
    parser.add_argument("--values", help=f"1 to {BLOCK} numbers, with commas between them")
    parser.add_argument("--f32-bits", help="the same as float32 bit patterns in hex")
    parser.add_argument(
        "--format", default="e4m3", help=f"{', '.join(ELEMENT_FORMATS)} (default e4m3)"
    )
    parser.add_argument("--rule", help=f"{', '.join(RULES)} (default rceil)")
    parser.add_argument("--profile", help="quantise as this library does: see 'mxlab profiles'")


def _text(block: Block) -> str:
    rows = [
        (i, values.shown(v), f"0x{c:02x}", values.shown(d), "" if v == d else values.shown(d - v))
        for i, (v, c, d) in enumerate(zip(block.values, block.codes, block.decoded, strict=True))
        if i < block.given
    ]
    error, sqnr = block.max_rel_error, block.sqnr_db
    lines = [
        f"{block.format.label}, {_how(block)}",
        f"amax           {values.shown(block.amax)}",
        f"scale byte     {block.scale_byte} = {values.shown(block.scale)}",
        table(["i", "value", "code", "decoded", "error"], rows, right="i value decoded error"),
        f"max rel error  {'-' if error is None else f'{error:.4%}'}",
        f"SQNR           {'-' if sqnr is None else f'{sqnr:.2f} dB'}",
        *[f"note           {note}" for note in block.notes],
    ]
    return "\n".join(lines)


def _how(block: Block) -> str:
    return f"rule {block.rule.name}" if block.rule else f"profile {block.profile}"


def run(args: argparse.Namespace) -> Result:
    """Answer the verb."""
    if (args.values is None) == (args.f32_bits is None):
        raise InputError(
            "expected either --values such as 1,2,-3.5, or --f32-bits such as 3f800000"
        )
    if args.values is not None:
        given = values.numbers(args.values, "--values")
    else:
        given = values.float32_bits_list(args.f32_bits, "--f32-bits")
    if args.profile is not None and args.rule is not None:
        raise InputError("--rule and --profile exclude each other: a profile has its own rule")
    block = quantize_block(given, args.format, rule=args.rule or "rceil", profile=args.profile)
    data = {
        "format": block.format.name,
        "rule": block.rule.name if block.rule else None,
        "profile": block.profile,
        "amax": values.plain(block.amax),
        "scale_byte": block.scale_byte,
        "scale": values.plain(block.scale),
        "codes": list(block.codes),
        "decoded": [values.plain(d) for d in block.decoded],
        "max_rel_error": block.max_rel_error,
        "sqnr_db": block.sqnr_db,
        "saturated": block.saturated,
        "given": block.given,
        "zero_filled": block.zero_filled,
        "notes": list(block.notes),
    }
    return Result(data, _text(block))
