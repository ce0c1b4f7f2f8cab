"""The controls of an explorer as data: what a reader can set, and what any other value becomes.

A control never raises: a permalink or a saved state is hostile input, so ``clean`` returns the
nearest valid value, or the default where there is no nearest one.
"""

import math
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

_WHOLE = re.compile(r"[+-]?[0-9]{1,18}")
_BETWEEN = re.compile(r"[\s,;()\[\]{}]+")  # a printed list is one, too


@dataclass(frozen=True, slots=True, kw_only=True)
class Control:
    """What every control has; ``group`` is the heading that the face puts it under.

    ``when`` is (another control, values): only at one of these does the control do anything, and
    only then does the face show it. A ``private`` one is in no permalink and no saved output: the
    page gives it to Python only where the reader typed it.
    """

    name: str
    label: str
    group: str = ""
    help: str = ""
    when: tuple[str, tuple[str, ...]] | None = None
    private: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Int(Control):
    """A whole number in ``low..high``; ``slider`` is (low, high, step) of a slider beside it.

    >>> Int(name="tp", label="TP", default=1, low=1, high=64).clean("9000")
    64
    """

    default: int
    low: int
    high: int
    slider: tuple[int, int, int] | None = None

    def clean(self, value: object) -> int:
        """Return the whole number nearest to ``value``, or the default."""
        if isinstance(value, str) and _WHOLE.fullmatch(value.strip()):
            value = int(value)
        if isinstance(value, float) and math.isfinite(value):
            value = round(value)
        if isinstance(value, bool) or not isinstance(value, int):
            return self.default
        return min(max(int(value), self.low), self.high)

    def spec(self) -> dict[str, Any]:
        """Return the control as JSON for the face."""
        spec = _spec(self, "int")
        spec |= {"low": self.low, "high": self.high}
        if self.slider:
            spec["slider"] = list(self.slider)
        return spec


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice(Control):
    """One of a few names; ``options`` are (value, what the reader sees).

    >>> Choice(name="c", label="C", default="a", options=(("a", "A"), ("b", "B"))).clean("B")
    'b'
    """

    default: str
    options: tuple[tuple[str, str], ...]

    def clean(self, value: object) -> str:
        """Return ``value`` if it is an option (its case does not matter), else the default."""
        if isinstance(value, str) and len(value) <= 100:
            for option, _ in self.options:
                if option.lower() == value.lower():
                    return option
        return self.default

    def spec(self) -> dict[str, Any]:
        """Return the control as JSON for the face."""
        return _spec(self, "choice") | {"options": [list(option) for option in self.options]}


@dataclass(frozen=True, slots=True, kw_only=True)
class Text(Control):
    """Free text of at most ``limit`` characters.

    >>> Text(name="t", label="T", default="", limit=3).clean("abcdef")
    'abc'
    """

    default: str
    limit: int = 10_000
    lines: int = 4
    file: str = ""  # what a file is called that may be opened instead, such as "a log"

    def clean(self, value: object) -> str:
        """Return the text, cut to the limit; NUL and lone surrogates become U+FFFD."""
        if not isinstance(value, str):
            return self.default
        text = value[: self.limit].replace("\0", "\ufffd")
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")

    def spec(self) -> dict[str, Any]:
        """Return the control as JSON for the face."""
        extra = {"limit": self.limit, "lines": self.lines, "file": self.file}
        return _spec(self, "text") | extra


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer(Text):
    """Text that the face sends where Check is pressed; ``counts`` is the control of wrong tries.

    With a changed answer after a view of status ``warns`` the face adds one to it, and after
    ``passes`` it sets it to 0. One line is an answer, several are code.
    """

    counts: str

    def spec(self) -> dict[str, Any]:
        """Return the control as JSON for the face."""
        extra = {"limit": self.limit, "lines": self.lines, "counts": self.counts}
        return _spec(self, "checked") | extra


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbers(Control):
    """``count`` numbers, one state: their texts with commas between, ``1,-2.5,nan``.

    A number is what ``float`` takes, or hexadecimal such as ``0x1.8p3``; another text becomes 0.
    Fewer than ``count`` are filled up with 0. A list, a NumPy array or a tensor is taken, too.
    ``presets`` are (what the reader sees, the texts).

    >>> Numbers(name="v", label="V", default="0,0,0", count=3).clean("1, x, inf, 4")
    '1,0,inf'
    """

    default: str
    count: int
    presets: tuple[tuple[str, str], ...] = ()
    file: str = ""  # what a file is called that may be opened instead, such as "numbers"

    def clean(self, value: object) -> str:
        """Return exactly ``count`` numbers as text."""
        if not isinstance(value, str):
            value = getattr(value, "tolist", lambda: value)()
            if not isinstance(value, list | tuple):
                return self.default
            value = ",".join(_numeral(one) for one in value[: self.count])
        parts = [part for part in _BETWEEN.split(value[: 64 * self.count]) if part][: self.count]
        texts = [part if number(part) is not None else "0" for part in parts]
        return ",".join(texts + ["0"] * (self.count - len(texts)))

    def spec(self) -> dict[str, Any]:
        """Return the control as JSON for the face."""
        presets = [[text, self.clean(values)] for text, values in self.presets]
        extra = {"count": self.count, "presets": presets, "limit": 64 * self.count}
        return _spec(self, "numbers") | extra | {"file": self.file}


def _numeral(value: object) -> str:
    """Return the text of an element of a list."""
    if isinstance(value, int | float):
        return f"{value!r:.40}" if isinstance(value, float) or abs(value) < 10**30 else "0"
    return value if isinstance(value, str) else "0"


def number(text: str) -> float | None:
    """Return the number that a text says, or None; at most 32 characters are read.

    >>> number("0x1.8p1"), number("-inf"), number("1_0"), number("two")
    (3.0, -inf, None, None)
    """
    text = text.strip().lower()
    if not 0 < len(text) <= 32 or "_" in text or not text.isascii():
        return None
    try:
        return float.fromhex(text) if text.lstrip("+-").startswith("0x") else float(text)
    except (ValueError, OverflowError):
        return None


AnyControl = Int | Choice | Text | Numbers
State = dict[str, int | str]


def _spec(control: AnyControl, kind: str) -> dict[str, Any]:
    when = {"when": [control.when[0], list(control.when[1])]} if control.when else {}
    private = {"private": True} if control.private else {}
    return {
        **when,
        **private,
        "kind": kind,
        "name": control.name,
        "label": control.label,
        "group": control.group,
        "help": control.help,
        "default": control.default,
    }


def clean(controls: Sequence[AnyControl], state: object) -> State:
    """Return a complete, valid state from anything; names that are no control are dropped.

    >>> clean([Int(name="n", label="N", default=4, low=1, high=8)], {"n": 99, "evil": 1})
    {'n': 8}
    """
    given = state if isinstance(state, dict) else {}
    return {
        control.name: control.clean(given[control.name])
        if control.name in given
        else control.default
        for control in controls
    }


def shown(controls: Sequence[AnyControl], state: State) -> list[AnyControl]:
    """Return the controls that do anything at this state.

    >>> odd = Int(name="b", label="B", default=1, low=0, high=9, when=("a", ("1",)))
    >>> [control.name for control in shown([odd], {"a": 1}) + shown([odd], {"a": 2})]
    ['b']
    """
    return [c for c in controls if not c.when or str(state[c.when[0]]) in c.when[1]]


def command(name: str, controls: Sequence[AnyControl], state: State) -> str:
    """Return the command line that prints the explorer ``name`` at this state.

    >>> command("x", [Int(name="n", label="N", default=4, low=1, high=8)], {"n": 5})
    'mxlab explore x n=5'
    """
    changed = [f"{c.name}={state[c.name]}" for c in controls if state[c.name] != c.default]
    return shlex.join(["mxlab", "explore", name, *changed])
