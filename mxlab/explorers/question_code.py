"""A function that the reader wrote into the page, made there and nowhere else.

Python in the page runs in a worker of the reader's own browser, which stops it after two seconds.
The control is private: its text comes from the keyboard, and never from a link or a saved state.
"""

import sys
import traceback
from collections.abc import Callable
from typing import Any

from mxlab.errors import InputError, quote

#: characters of code that are taken
MOST = 5000
_FILE = "<your code>"


def runs_here() -> bool:
    """Tell whether this is Python in a page."""
    return sys.platform == "emscripten"


def function(code: str, call: str) -> Callable[..., Any]:
    """Return the function that ``code`` defines, called as ``call`` says, or raise InputError.

    Outside a page nothing is run, and the error says where to go.

    >>> function("import os", "offset(row, col)")
    Traceback (most recent call last):
    ...
    mxlab.errors.InputError: code is run in the page alone: in a notebook, call check(..., offset)
    """
    name = call.partition("(")[0]
    if not runs_here():
        raise InputError(f"code is run in the page alone: in a notebook, call check(..., {name})")
    if len(code) > MOST:
        raise InputError(f"the code has over {MOST:,} characters: expected {call}")
    space: dict[str, Any] = {"__name__": "yours"}
    try:
        exec(compile(code, _FILE, "exec", dont_inherit=True), space)
    except SyntaxError as error:
        raise InputError(f"line {error.lineno or 1}: {quote(error.msg)[1:-1]}") from None
    except ImportError as error:
        what = quote(error.name or "that module")
        text = f"{what} cannot be imported: the page has Python's standard library and mxlab"
        raise InputError(text) from None
    except (Exception, SystemExit, GeneratorExit) as error:
        text = f"line {_line(error)}: {type(error).__name__}: {_text(error)}"
        raise InputError(text) from None
    found = space.get(name)
    if not callable(found):
        raise InputError(f"expected a function {call}: there is no {name} in the code")
    made: Callable[..., Any] = found
    return made


def _line(error: BaseException) -> int:
    """Return the last line of the reader's own code that an error went through."""
    lines = [
        frame.lineno or 1
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename == _FILE
    ]
    return lines[-1] if lines else 1


def _text(error: BaseException) -> str:
    try:
        return quote(str(error))
    except Exception:
        return "an error that cannot be written"
