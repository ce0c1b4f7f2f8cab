"""Which layer of a model a message is about: the one whose sizes on one rank are its numbers."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mxlab.explain_text import JsonValue
from mxlab.guards.engine import Guard
from mxlab.models import Linear, Shapes, Source, read_model, shapes

TP_SIZES = (1, 2, 4, 8, 16, 32, 64)  # where no --tp is given
_MOST = 8  # layers that are listed
_LEAST = 16  # smaller numbers of a shape say nothing: dimensions, block sizes

#: name of a message's field -> what of a linear it is; how it is shown
_ROLES: Mapping[str, str] = {
    **dict.fromkeys(("n", "p", "out_part"), "N"),
    **dict.fromkeys(("k", "in_part", "k_w", "input_k"), "K"),
    **dict.fromkeys(("h", "hidden"), "hidden"),
    **dict.fromkeys(("inter", "intermediate"), "intermediate"),
    **dict.fromkeys(("shape", "w", "rows", "cols"), "shape"),
    "numerator": "size",
}
_CACHE = {"hd": "head_dim", "vhd": "v_head_dim", "head_dim": "head_dim"}
#: words of a message that say which of the experts' weights its one size is of
_EXPERTS = {"gate's and up's weight": "w13", "down's weight": "w2"}
#: subjects whose guards look at a weight, or at what is multiplied with it
_WEIGHTS = ("linear", "experts", "gemm_input", "expert_call", "block_scale", "load", "call")
_CACHES = ("kv_cache", "kv_store", "host_pool", "attention", "prologue")


@dataclass(frozen=True, slots=True)
class Fit:
    """One linear, or the KV cache, that has a message's numbers on one rank.

    ``tp`` holds the TP sizes at which it does; ``n`` and ``k`` are those of the first.
    """

    linear: str
    tp: tuple[int, ...]
    n: int | None
    k: int | None
    layers: int
    because: str

    def to_json(self) -> dict[str, Any]:
        """Return a JSON object."""
        row = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return {**row, "tp": list(self.tp)}


@dataclass(frozen=True, slots=True)
class _Number:
    role: str
    value: JsonValue


@dataclass(frozen=True, slots=True)
class Layers:
    """The layers of one model at the TP sizes that are asked about."""

    shapes: tuple[Shapes, ...]

    def fits(
        self, guard: Guard, text: str, values: Mapping[str, JsonValue], ranks: Sequence[str] = ()
    ) -> tuple[Fit, ...]:
        """Return the layers that the numbers of a message fit, those that fit most of them.

        Each N and K that the message gives must be that of the layer on one rank. ``text`` is the
        message with its fields; ``ranks`` are those that a log names: a TP size without such a
        rank is left out.
        """
        numbers = _numbers(guard, text, values)
        named = [int(n) for rank in ranks for n in re.findall(r"TP(\d{1,4})", rank)]
        found = [
            pair
            for one in self.shapes
            if one.tp > max(named, default=0)
            for pair in _fits(one, numbers)
        ]
        best = max((score for score, _ in found), default=0)
        merged: dict[tuple[str, str], Fit] = {}
        for score, fit in found:
            if score == best:
                first = merged.get((fit.linear, fit.because), fit)
                tp = tuple(dict.fromkeys((*first.tp, *fit.tp)))
                merged[fit.linear, fit.because] = Fit(
                    first.linear, tp, first.n, first.k, first.layers, first.because
                )
        return tuple(merged.values())[:_MOST]

    def missing(self, guard: Guard, text: str, values: Mapping[str, JsonValue]) -> str:
        """Say which numbers no layer has; "" where the message has none to look for."""
        numbers = _numbers(guard, text, values)
        if not numbers or not self.shapes:
            return ""
        shown = ", ".join(f"{number.role} = {number.value}" for number in numbers)
        sizes = ", ".join(str(one.tp) for one in self.shapes)
        return f"no layer of the config has {shown} on one rank at TP {sizes}"


def layers_of(source: Source, tp: int | None, ep: int = 1) -> Layers:
    """Return a model's layers at one TP size, or at each usual one where ``tp`` is None.

    Raises InputError for a config that cannot be read, or for a TP size that no launch could have.
    Source of the shapes: ``mxlab.models``.

    >>> [one.tp for one in layers_of("Llama-3.1-8B", 8).shapes]
    [8]
    """
    model = read_model(source)
    usual = [size for size in TP_SIZES if isinstance(ep, int) and ep > 0 and size % ep == 0]
    sizes = usual if tp is None and usual else [1 if tp is None else tp]
    return Layers(tuple(shapes(model, size, ep) for size in sizes))


def _numbers(guard: Guard, text: str, values: Mapping[str, JsonValue]) -> list[_Number]:
    weight = next((name for words, name in _EXPERTS.items() if words in text), "")
    if weight:  # ``The input_size of down's weight = {inter} is not divisible by ...``
        return [_Number(weight, value) for value in list(values.values())[:1] if _whole(value)]
    roles = _CACHE if guard.subject in _CACHES else _ROLES if guard.subject in _WEIGHTS else {}
    found = []
    for name, value in values.items():
        role = roles.get(name, "")
        if role == "shape":
            sizes = _sizes(value)
            found += [_Number(role, sizes)] if sizes else []
        elif role and _whole(value):
            found.append(_Number(role, value))
    return found


def _whole(value: JsonValue) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _sizes(value: JsonValue) -> list[JsonValue]:
    """Return the sizes in a shape: ``[2880, 576]``, ``2880x576``, or a single number."""
    if isinstance(value, str) and re.fullmatch(r"\d{1,9}x\d{1,9}", value):
        value = [int(size) for size in value.split("x")]
    sizes = value if isinstance(value, list) else [value]
    return [n for n in sizes if isinstance(n, int) and not isinstance(n, bool) and n >= _LEAST]


def _fits(found: Shapes, numbers: Sequence[_Number]) -> Iterator[tuple[int, Fit]]:
    if {number.role for number in numbers} & {"head_dim", "v_head_dim"}:
        yield from _cache_fits(found, numbers)
        return
    rows = [row for row in found.layers if not row.unquantized]
    for row in rows or found.layers:
        said = [_said(row, number) for number in numbers]
        # A shape may be that of the activation: it counts where it fits and says nothing else.
        firm = [text for text, one in zip(said, numbers, strict=True) if one.role != "shape"]
        score = sum(map(bool, said))
        if score and all(firm):
            because = ", ".join(dict.fromkeys(filter(None, said)))
            yield score, Fit(row.linear, (found.tp,), row.n, row.k, row.layers, because)


def _cache_fits(found: Shapes, numbers: Sequence[_Number]) -> Iterator[tuple[int, Fit]]:
    kv = found.kv
    if kv is None:
        return
    sizes = {"head_dim": kv.head_dim, "v_head_dim": kv.v_head_dim}
    if all(sizes.get(number.role) == number.value for number in numbers):
        because = ", ".join(f"{number.role} = {number.value}" for number in numbers)
        yield len(numbers), Fit("kv_cache", (found.tp,), None, None, kv.layers, because)


def _said(row: Linear, number: _Number) -> str:
    """Say in which way a number is one of a linear's; "" where it is not."""
    value, role = number.value, number.role
    gate_up, down = row.linear.endswith("w13"), row.linear.endswith("w2")
    if role == "size":  # of the whole model, that the ranks do not divide
        return row.invalid if row.invalid and f"={value} " in row.invalid else ""
    if role == "shape" and isinstance(value, list):
        sides = [size for size in (row.n, row.k) if size is not None]
        there = [size for size in value if size in sides]
        return f"shape ({row.n}, {row.k})" if len(there) >= min(2, len(value)) else ""
    if role == "N" and value == row.n:
        return f"N = {value}"
    if role == "K" or (role in ("w2", "intermediate") and down):
        return f"K = {value}" if value == row.k else ""
    if role == "hidden" and (gate_up or down):
        return f"hidden = {value}" if value == (row.k if gate_up else row.n) else ""
    if role == "N" or (role in ("w13", "intermediate") and gate_up):
        parts = row.parts or ((row.n or 0) // 2,)
        return f"N has a part of {value}" if value in parts else ""
    return ""
