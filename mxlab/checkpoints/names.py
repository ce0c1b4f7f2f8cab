"""Tensor names: which tensor is a weight, which one is its scale, and what repeats."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

#: endings of a weight, the module is what is left
WEIGHTS: tuple[str, ...] = (
    ".weight",
    ".weight_packed",
    ".weight_qdata",
    ".qweight",
    "_weight_packed",
    "_weight",
    "_blocks",
)


@dataclass(frozen=True, slots=True)
class ScaleName:
    """One ending of a scale tensor and the endings its weight may have instead.

    A ``certain`` one means nothing else, so that it is an orphan without its weight; the others
    (``norm.scale``) count only beside a weight.
    """

    ending: str
    weights: tuple[str, ...]
    certain: bool
    whole: bool = False  # one number for the tensor, beside the blocks' own scales


_OF_WEIGHT = ("weight", "weight_packed", "weight_qdata")

#: the longest ending that fits is the one that counts
SCALES: tuple[ScaleName, ...] = (
    ScaleName("_weight_scale_inv", ("_weight", "_weight_packed", ""), True),
    ScaleName("_weight_scale", ("_weight", "_weight_packed", ""), True),
    ScaleName("_weight_scale_2", ("_weight", "_weight_packed", ""), True, True),
    ScaleName("weight_scale_inv", _OF_WEIGHT, True),
    ScaleName("weight_scale", _OF_WEIGHT, True),
    ScaleName("weight_scale_2", _OF_WEIGHT, True, True),
    ScaleName("weight_global_scale", _OF_WEIGHT, True, True),
    ScaleName("_scales", ("_blocks",), False),
    ScaleName(".scales", (".qweight", ".weight"), False),
    ScaleName(".scale", (".weight",), False),
    ScaleName("_scale_inv", ("",), False),
    ScaleName("_scale", ("",), False),
)


def scale_of(name: str, known: Collection[str]) -> tuple[ScaleName, str | None] | None:
    """Return how a scale is spelt and its weight's name, None where the tensor is no scale.

    The weight is None for an orphan.

    >>> scale_of("mlp.up_proj.weight_scale_inv", {"mlp.up_proj.weight"})[1]
    'mlp.up_proj.weight'
    >>> scale_of("norm.scale", {"norm.bias"}) is None
    True
    """
    for row in SCALES:
        if not name.endswith(row.ending):
            continue
        stem = name[: -len(row.ending)]
        for ending in row.weights:
            if stem + ending in known and stem + ending != name:
                return row, stem + ending
        if row.certain:
            return row, None
    return None


def module_of(name: str) -> str:
    """Return the module that owns a tensor.

    >>> module_of("mlp.experts.gate_up_proj_blocks"), module_of("mlp.up_proj.weight_packed")
    ('mlp.experts.gate_up_proj', 'mlp.up_proj')
    """
    if name.endswith(WEIGHTS):
        for ending in WEIGHTS:
            if name.endswith(ending):
                return name[: -len(ending)]
    return name


def is_weight(name: str) -> bool:
    """Tell whether a tensor is named like a weight: ``.weight``, ``_blocks``, a bare expert.

    >>> is_weight("mlp.experts.gate_up_proj"), is_weight("mlp.up_proj.bias")
    (True, False)
    """
    if name.endswith(WEIGHTS):
        return True
    *outer, leaf = name.split(".")
    return bool(outer) and outer[-1] == "experts" and leaf.endswith("_proj")


@dataclass(frozen=True, slots=True)
class Folded:
    """A name with its layer and expert index taken out."""

    pattern: str
    layer: str | None = None
    expert: str | None = None


def _is_index(part: str) -> bool:
    return part.isascii() and part.isdigit() and len(part) < 7


def fold(name: str) -> Folded:
    """Take the first index out as the layer and the one after ``experts`` as the expert.

    >>> fold("model.layers.3.mlp.experts.17.w1").pattern
    'model.layers.{layer}.mlp.experts.{expert}.w1'
    """
    layer = expert = None
    parts = name.split(".")
    for at, part in enumerate(parts):
        if not _is_index(part):
            continue
        if at and "experts" in parts[at - 1]:
            if expert is None:
                expert, parts[at] = part, "{expert}"
        elif layer is None:
            layer, parts[at] = part, "{layer}"
    return Folded(".".join(parts), layer, expert)


def shown(text: str) -> str:
    """Return a name as one bounded printable line, without quotes.

    >>> shown("a\\nb")
    'a\\\\nb'
    """
    text = text if len(text) <= 200 else text[:200] + "..."
    return text if text.isprintable() else ascii(text)[1:-1]


def modules_of(names: Iterable[str]) -> set[str]:
    """Return every module that owns one of the tensors.

    >>> sorted(modules_of(["mlp.up.weight", "mlp.up.weight_scale", "mlp.experts.w_blocks"]))
    ['mlp.experts', 'mlp.experts.w', 'mlp.up']
    """
    found = set()
    for name in names:
        outer = name.rpartition(".")[0]
        found.add(outer)
        if not name.startswith(outer + ".weight"):
            found.add(module_of(name))
    return found
