"""Match names against expressions from a config without ever backtracking.

A config may be hostile, and Python's ``re`` takes exponential time on expressions made for it.
This is the classical construction: expression -> NFA -> DFA states made when first met, so that a
name costs one step a character. It knows what exclusion lists use: literals, ``.``, classes,
``* + ?``, groups and alternatives; everything else is refused and reported as not checked.
"""

from dataclasses import dataclass, field

_MAX_NODES = 4_000
_MAX_STATES = 2_000
_MAX_DEPTH = 20

_DIGITS = frozenset("0123456789")
_WORD = _DIGITS | frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_")
_CLASSES = {
    "d": (False, _DIGITS),
    "D": (True, _DIGITS),
    "w": (False, _WORD),
    "W": (True, _WORD),
    "s": (False, frozenset(" \t\n\r\f\v")),
}

Letters = tuple[bool, frozenset[str]]  # (all but these, these)
_ANY: Letters = (True, frozenset("\n"))


class UnsupportedError(ValueError):
    """The expression uses what this matcher does not know, or grows too large."""


@dataclass(slots=True)
class _Node:
    """One NFA state: a step on a letter to ``after``, or free steps; ``end`` needs the end."""

    letters: Letters | None = None
    after: int = -1
    free: list[int] = field(default_factory=list)
    end: bool = False


class _Parser:
    """Recursive descent over the expression; every part becomes (first node, last node)."""

    def __init__(self, text: str) -> None:
        self.text, self.at, self.depth = text, 0, 0
        self.nodes: list[_Node] = []

    def node(self) -> int:
        if len(self.nodes) >= _MAX_NODES:
            raise UnsupportedError("too large")
        self.nodes.append(_Node())
        return len(self.nodes) - 1

    def peek(self) -> str:
        return self.text[self.at] if self.at < len(self.text) else ""

    def take(self) -> str:
        letter = self.peek()
        if not letter:
            raise UnsupportedError("unfinished")
        self.at += 1
        return letter

    def alternatives(self) -> tuple[int, int]:
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            raise UnsupportedError("nested too deep")
        first, last = self.node(), self.node()
        while True:
            begin, finish = self.sequence()
            self.nodes[first].free.append(begin)
            self.nodes[finish].free.append(last)
            if self.peek() != "|":
                break
            self.take()
        self.depth -= 1
        return first, last

    def sequence(self) -> tuple[int, int]:
        first = last = self.node()
        while self.peek() not in ("", "|", ")"):
            begin, finish = self.repeated()
            self.nodes[last].free.append(begin)
            last = finish
        return first, last

    def repeated(self) -> tuple[int, int]:
        begin, finish = self.atom()
        while (sign := self.peek()) and sign in "*+?":
            self.take()
            if self.peek() == "+":
                raise UnsupportedError("possessive")
            if self.peek() == "?":  # a lazy one matches the same names
                self.take()
            first, last = self.node(), self.node()
            self.nodes[first].free.append(begin)
            self.nodes[finish].free.append(last)
            if sign in "*+":
                self.nodes[finish].free.append(begin)
            if sign in "*?":
                self.nodes[first].free.append(last)
            begin, finish = first, last
        if self.peek() == "{":
            raise UnsupportedError("counted repetition")
        return begin, finish

    def atom(self) -> tuple[int, int]:
        letter = self.take()
        if letter == "(":
            if self.peek() == "?":
                self.take()
                if self.take() != ":":
                    raise UnsupportedError("lookaround or flag")
            inside = self.alternatives()
            if self.take() != ")":
                raise UnsupportedError("open group")
            return inside
        if letter in "*+?{":
            raise UnsupportedError("nothing to repeat")
        if letter == "^":
            raise UnsupportedError("^ inside")
        first, last = self.node(), self.node()
        self.nodes[first].after = last
        if letter == "$":
            self.nodes[first].end = True
        else:
            self.nodes[first].letters = self.letters(letter)
        return first, last

    def letters(self, letter: str) -> Letters:
        if letter == ".":
            return _ANY
        if letter == "[":
            return self.listed()
        return self.escaped() if letter == "\\" else (False, frozenset(letter))

    def escaped(self) -> Letters:
        letter = self.take()
        if letter in _CLASSES:
            return _CLASSES[letter]
        if letter.isalnum():
            raise UnsupportedError("escape")
        return False, frozenset(letter)

    def listed(self) -> Letters:
        but = self.peek() == "^"
        if but:
            self.take()
        found: set[str] = set()
        while (letter := self.take()) != "]" or not found:
            if letter == "\\":
                reverse, letters = self.escaped()
                if reverse:
                    raise UnsupportedError("class")
                found |= letters
            elif self.peek() == "-" and self.text[self.at + 1 : self.at + 2] not in ("]", ""):
                self.take()
                low, high = ord(letter), ord(self.take())
                if not 0 <= high - low < 256:
                    raise UnsupportedError("range")
                found |= {chr(code) for code in range(low, high + 1)}
            else:
                found.add(letter)
        return but, frozenset(found)


class Automaton:
    """One expression; ``matches`` is ``re.match``: from the start, to anywhere.

    >>> Automaton(r".*mlp\\.gate$").matches("model.layers.0.mlp.gate")
    True
    """

    def __init__(self, expression: str) -> None:
        parser = _Parser(expression.removeprefix("^"))
        first, self._last = parser.alternatives()
        if parser.at != len(parser.text):
            raise UnsupportedError("unmatched )")
        self._nodes = parser.nodes
        self._sets: list[frozenset[int]] = []
        self._known: dict[frozenset[int], int] = {}
        self._steps: list[dict[str, int]] = []
        self._accepts: list[bool] = []
        self._accepts_at_end: list[bool] = []
        self._start = self._state({first})

    def _closure(self, nodes: set[int], at_end: bool) -> frozenset[int]:
        found, queue = set(nodes), list(nodes)
        while queue:
            node = self._nodes[queue.pop()]
            more = [*node.free, node.after] if node.end and at_end else node.free
            for other in more:
                if other not in found:
                    found.add(other)
                    queue.append(other)
        return frozenset(found)

    def _state(self, nodes: set[int]) -> int:
        closed = self._closure(nodes, at_end=False)
        if closed not in self._known:
            if len(self._sets) >= _MAX_STATES:
                raise UnsupportedError("too many states")
            self._known[closed] = len(self._sets)
            self._sets.append(closed)
            self._steps.append({})
            self._accepts.append(self._last in closed)
            self._accepts_at_end.append(self._last in self._closure(nodes, at_end=True))
        return self._known[closed]

    def _step(self, state: int, letter: str) -> int:
        nodes = set()
        for index in self._sets[state]:
            node = self._nodes[index]
            if node.letters is not None and (letter in node.letters[1]) != node.letters[0]:
                nodes.add(node.after)
        found = self._steps[state][letter] = self._state(nodes)
        return found

    def matches(self, name: str) -> bool:
        """Tell whether the expression matches at the start of the name."""
        state = self._start
        for letter in name:
            if self._accepts[state]:
                return True
            step = self._steps[state].get(letter)
            state = self._step(state, letter) if step is None else step
            if not self._sets[state]:
                return False
        return self._accepts_at_end[state]


def glob(pattern: str) -> Automaton:
    """Return the automaton of a shell pattern that names a module or an ancestor of it.

    >>> glob("model.layers.*.self_attn").matches("model.layers.3.self_attn.q_proj")
    True
    """
    letters = {"*": ".*", "?": "."}
    body = "".join(letters.get(c, c if c.isalnum() else "\\" + c) for c in pattern)
    return Automaton(rf"(.*\.)?{body}(\..*)?$")
