"""An answer as text: a number, a word, several of them, or a little arithmetic; nothing is run.

The text is parsed by Python and read from the syntax tree with a bound on everything: length,
depth, size of each number. A name is a word, a call is refused.
"""

import ast
import math
import operator
import re
import warnings
from collections.abc import Callable
from typing import Any

from mxlab.errors import InputError, quote

#: characters of an answer, levels of brackets and signs, bits of a whole number
MOST, DEEPEST, BITS = 500, 40, 4096
_WORD = re.compile(r"[A-Za-z_][\w.-]*(?: [\w.-]+)*")
_NUMBERS = {"nan": math.nan, "inf": math.inf, "NaN": math.nan, "Inf": math.inf}
_SAID = {"true": True, "false": False}
_GROUPED = re.compile(r"-?[0-9]{1,3}(?:,[0-9]{3})+")
_EXPECTED = "expected a number (1.5, 0x7E, 3 * 16), a word, True, or several with commas between"

_SIGNS: dict[type, Callable[[Any], Any]] = {
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Invert: operator.invert,
}
_BETWEEN: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
}


class _Unread(Exception):
    """Python, but no answer."""


def literal(text: str) -> object:
    """Return the value that a text says, or raise InputError with one line.

    ``...`` where there is none. A bare word is a text; ``true`` is True.

    >>> literal("0x7E"), literal("(True, 2.5, rceil)"), literal("3 * 512 + 2 * 16 + 1")
    (126, (True, 2.5, 'rceil'), 1569)
    >>> literal("__import__('os')")
    Traceback (most recent call last):
    ...
    mxlab.errors.InputError: a call is no answer: expected a number (1.5, 0x7E, 3 * 16), ...
    """
    if len(text) > MOST:
        raise InputError(f"the answer has over {MOST:,} characters: {_EXPECTED}")
    text = text.strip()
    if not text:
        return ...
    if _WORD.fullmatch(text):
        return _word(text)
    if _deep(text):
        raise InputError(f"brackets or signs are more than {DEEPEST} deep: {_EXPECTED}")
    try:
        with warnings.catch_warnings(action="ignore"):  # an answer is not a program
            tree = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise InputError(f"{quote(text)} cannot be read: {_EXPECTED}") from None
    try:
        return _value(tree, 0)
    except ZeroDivisionError:
        raise InputError(f"{quote(text)} divides by zero") from None
    except InputError:  # a ValueError, too
        raise
    except _Unread:
        raise InputError(f"{quote(text)} cannot be read: {_EXPECTED}") from None
    except (TypeError, ValueError, OverflowError, RecursionError):
        raise InputError(f"{quote(text)} cannot be computed: {_EXPECTED}") from None


def whole(text: str) -> int | None:
    """Return the number that is written with commas between its thousands, or None.

    >>> whole("4,608"), whole("4, 608")
    (4608, None)
    """
    return int(text.replace(",", "")) if _GROUPED.fullmatch(text.strip()) else None


def _deep(text: str) -> bool:
    """Tell whether a parser that recurses would go too deep, before it is asked."""
    depth = most = run = 0
    for letter in text:
        depth += (letter in "([{") - (letter in ")]}")
        run = run + 1 if letter in "-+~(* " else 0
        most = max(most, depth, run)
    return most > DEEPEST or text.count("**") > DEEPEST or text.count("not ") > DEEPEST


def _word(text: str) -> object:
    if text in _NUMBERS:
        return _NUMBERS[text]
    return _SAID.get(text.lower(), text)


def _value(node: ast.AST, depth: int) -> object:
    if depth > MOST:
        raise RecursionError
    match node:
        case ast.Constant(value=bool() | int() | float() | str()):
            return _bounded(node.value)
        case ast.Constant(value=value) if value is ...:
            return ...
        case ast.Name(id=name):
            return _word(name)
        case ast.Tuple(elts=parts):
            return tuple(_value(part, depth + 1) for part in parts)
        case ast.List(elts=parts):
            return [_value(part, depth + 1) for part in parts]
        case ast.UnaryOp(op=op, operand=operand) if type(op) in _SIGNS:
            return _bounded(_SIGNS[type(op)](_number(operand, depth)))
        case ast.BinOp(op=ast.BitXor()):
            raise InputError("^ is no power in Python: write 2**-9")
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BETWEEN:
            pair = _number(left, depth), _number(right, depth)
            if isinstance(op, ast.Pow | ast.LShift) and isinstance(pair[1], int):
                _fits(pair[0], pair[1], isinstance(op, ast.Pow))
            return _bounded(_BETWEEN[type(op)](*pair))
        case ast.Call():
            raise InputError(f"a call is no answer: {_EXPECTED}")
        case _:
            raise _Unread


def _number(node: ast.AST, depth: int) -> int | float:
    value = _value(node, depth + 1)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputError(f"{quote(value)} is no number to compute with: {_EXPECTED}")
    return value


def _fits(base: float, times: int, power: bool) -> None:
    """Raise before a power or a shift that would not fit is computed."""
    bits = times * (base.bit_length() if power else 1) if isinstance(base, int) else 0
    if bits > BITS:
        raise InputError(f"the number has over {BITS:,} bits")


def _bounded(value: object) -> object:
    if isinstance(value, int) and value.bit_length() > BITS:
        raise InputError(f"the number has over {BITS:,} bits")
    if isinstance(value, complex):
        raise _Unread
    return value
