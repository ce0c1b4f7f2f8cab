"""``mxlab bits``: one code taken apart, or one value encoded."""

import argparse
from typing import Any

from mxlab.cli import values
from mxlab.cli.result import Result
from mxlab.codec import ROUNDINGS, Decoded, Encoded, decode, encode
from mxlab.errors import InputError
from mxlab.formats import FORMATS, get_format

EXAMPLES = """examples:
  mxlab bits 0x7e --format e4m3
  mxlab bits --value 1.1 --format e4m3
  mxlab bits --value 1.5 --format e8m0 --rounding up

JSON: code, sign, exponent and mantissa are the stored fields; power is the exponent of the value;
value is what the code stands for. With --value also input, rounding_error (value - input) and the
neighbours lower and upper. NaN and infinities are the strings "NaN", "Infinity", "-Infinity"."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    values.allow_negative_values(parser)
    parser.add_argument("code", nargs="?", help="a code: 126, 0x7e or 0b1111110")
    parser.add_argument("--value", help="encode this number (a double, rounded once)")
    parser.add_argument("--format", default="e4m3", help=f"{', '.join(FORMATS)} (default e4m3)")
    parser.add_argument(
        "--rounding", help=f"{', '.join(ROUNDINGS)} (default: nearest; halfway to even, in E8M0 up)"
    )
    parser.add_argument(
        "--no-saturate",
        action="store_true",
        help="as a plain cast: NaN or infinity beyond the largest value, instead of the largest",
    )


def _fields(d: Decoded) -> dict[str, Any]:
    return {
        "format": d.format.name,
        "code": d.code,
        "hex": f"0x{d.code:02x}",
        "bits": d.bits,
        "sign": d.sign,
        "exponent": d.exponent,
        "mantissa": d.mantissa,
        "power": d.power,
        "class": d.kind,
        "value": values.plain(d.value),
    }


def _neighbour(d: Decoded | None) -> dict[str, Any] | None:
    return None if d is None else {"code": d.code, "value": values.plain(d.value)}


def _explain(d: Decoded) -> str:
    fmt = d.format
    sign = "-" if d.sign else ""
    if d.kind == "nan":
        return "NaN"
    if d.kind == "inf":
        return f"{sign}infinity"
    if d.kind == "zero":
        return f"{sign}0"
    power = max(d.exponent, 1 if fmt.has_zero else 0) - fmt.bias
    if not fmt.mantissa_bits:
        return f"2^({d.exponent} - {fmt.bias}) = 2^{power}"
    lead = 1 if d.kind == "normal" else 0
    steps = 1 << fmt.mantissa_bits
    return f"{sign}({lead} + {d.mantissa}/{steps}) * 2^{power} = {values.shown(d.value)}"


def _text(d: Decoded) -> list[str]:
    fmt = d.format
    return [
        f"{fmt.label} code 0x{d.code:02x} = {d.code}",
        f"bits      {d.bits}" + ("   sign exponent mantissa" if fmt.signed else "   exponent"),
        f"exponent  field {d.exponent}, bias {fmt.bias}",
        *[f"mantissa  field {d.mantissa} of {fmt.mantissa_bits} bits"] * bool(fmt.mantissa_bits),
        f"class     {d.kind}",
        f"value     {_explain(d)}",
    ]


def _line(name: str, d: Decoded | None) -> str:
    end = "past the end of the format"
    return f"{name:<9} " + (end if d is None else f"0x{d.code:02x} = {values.shown(d.value)}")


def _encoded(e: Encoded) -> Result:
    error = None if e.error is None else float(e.error)
    data = {
        **_fields(e.decoded),
        "input": values.plain(float(e.value)),
        "rounding": e.rounding,
        "rounding_error": error,
        "rounding_error_exact": None if e.error is None else str(e.error),
        "tie": e.tie,
        "saturated": e.saturated,
        "lower": _neighbour(e.lower),
        "upper": _neighbour(e.upper),
    }
    notes = ["exactly halfway"] * e.tie + ["beyond the format: saturated"] * e.saturated
    lines = [
        f"{values.shown(float(e.value))} in {e.format.label}, rounding {e.rounding}",
        _line("below", e.lower),
        _line("above", e.upper),
        *_text(e.decoded),
        f"error     {'-' if error is None else f'{error:.10g}'}",
        *[f"note      {note}" for note in notes],
    ]
    return Result(data, "\n".join(lines))


def run(args: argparse.Namespace) -> Result:
    """Answer the verb."""
    fmt = get_format(args.format)
    if (args.code is None) == (args.value is None):
        raise InputError("expected either a code such as 0x7e, or --value such as 1.1")
    if args.value is not None:
        value = values.number(args.value, "--value")
        return _encoded(encode(value, fmt, rounding=args.rounding, saturate=not args.no_saturate))
    decoded = decode(values.code(args.code, "code"), fmt)
    return Result({**_fields(decoded), "rounding_error": None}, "\n".join(_text(decoded)))
