"""Numbers on the command line and in JSON."""

import argparse
import math
import re

from mxlab.errors import InputError, quote
from mxlab.scale import float32_from_bits

_LONGEST = 400  # characters of one number; a double needs 325 at most when written in full
_BITS = re.compile(r"(?:0[xX])?([0-9a-fA-F]{1,8})")
_WHOLE = re.compile(r"-?[0-9]{1,30}")
_CODE = re.compile(r"0[xX][0-9a-fA-F]{1,16}|0[bB][01]{1,64}|-?[0-9]{1,16}")


def allow_negative_values(parser: argparse.ArgumentParser) -> None:
    """Let ``--values -1,2`` and ``--value -inf`` pass: argparse takes them for options.

    >>> p = argparse.ArgumentParser(); allow_negative_values(p)
    >>> _ = p.add_argument("--values"); p.parse_args(["--values", "-1,2"]).values
    '-1,2'
    """
    parser._negative_number_matcher = re.compile(r"-(?:[0-9.]|inf|nan)", re.IGNORECASE)


def number(text: str, where: str) -> float:
    """Return one number: decimal, ``0x1.8p3``, ``inf`` or ``nan``; a double.

    >>> number("0x1.cp8", "--amax")
    448.0
    """
    try:
        if len(text) > _LONGEST or not text.isascii() or "_" in text:
            raise ValueError
        value = float.fromhex(text) if "0x" in text.lower() else float(text)
    except ValueError:
        raise InputError(
            f"{where} is {quote(text)}: expected a number such as 449, -3.5, 1e-3, 0x1.8p3, inf"
        ) from None
    except OverflowError:
        value = math.inf
    if math.isinf(value) and "inf" not in text.lower():
        raise InputError(
            f"{where} is {quote(text)}: beyond a double; the nearest is 1.7976931348623157e308 in "
            "magnitude, or inf"
        )
    return value


def numbers(text: str, where: str) -> list[float]:
    """Return the numbers of a comma-separated list.

    >>> numbers("1, 2,-3.5", "--values")
    [1.0, 2.0, -3.5]
    """
    return [number(part.strip(), f"{where}[{i}]") for i, part in enumerate(text.split(","))]


def float32_bits_list(text: str, where: str) -> list[float]:
    """Return the float32 values of a comma-separated list of bit patterns in hex.

    >>> float32_bits_list("43e00000,0", "--f32-bits")
    [448.0, 0.0]
    """
    found = []
    for i, part in enumerate(text.split(",")):
        match = _BITS.fullmatch(part.strip())
        if match is None:
            raise InputError(
                f"{where}[{i}] is {quote(part.strip())}: expected 1 to 8 hex digits, such as "
                "43e00000 for 448"
            )
        found.append(float32_from_bits(int(match[1], 16)))
    return found


def code(text: str, where: str) -> int:
    """Return a code written as ``0x7e``, ``126`` or ``0b1111110``; its range is checked later.

    >>> code("0b1111110", "code")
    126
    """
    if _CODE.fullmatch(text.strip()) is None:
        raise InputError(f"{where} is {quote(text)}: expected 0..255, as 126, 0x7e or 0b1111110")
    plain = text.strip()
    return int(plain, 0) if plain[:2].lower() in ("0x", "0b") else int(plain)


def whole(text: str, where: str) -> int:
    """Return a whole number of at most 30 digits; its range is checked later.

    >>> whole("-3", "--axis")
    -3
    """
    if _WHOLE.fullmatch(text.strip()) is None:
        raise InputError(f"{where} is {quote(text)}: expected a whole number")
    return int(text)


def plain(value: float | None) -> float | str | None:
    """Return a number that strict JSON can hold: NaN and infinities become strings.

    The strings are those that JavaScript's Number() and Python's float() both read.

    >>> plain(math.inf), plain(1.5)
    ('Infinity', 1.5)
    """
    if value is None or math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def shown(value: float | None) -> str:
    """Return a number for a person; a power of two far from 1 as 2^n too.

    >>> shown(2.0**-127), shown(448.0)
    ('2^-127', '448')
    """
    if value is None:
        return "-"
    fraction, exponent = math.frexp(value)
    if abs(fraction) == 0.5 and abs(exponent) > 17:
        return f"{'-' if value < 0 else ''}2^{exponent - 1}"
    return f"{value:.10g}"
